"""Graphs per second of each embedder, beside a per-graph networkx loop; writes docs/results/embedder_speed.csv.

    python benchmarks/embedders.py [--graphs 2000] [--naive 50] [--pairs 5000] [--doc docs/metrics.md]

The loop is the independent implementation that the tests compare with. Times are processor seconds of this process, one
thread, best of three. ``--pairs`` counterfactuals (random flips) are then measured by every metric, the ten included.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

import counteredge as ce
from counteredge.cache import write_between
from counteredge.datasets import load
from counteredge.embedders import EMBEDDERS, get_embedders
from counteredge.embedders.base import Embedder, StackEmbedder, embed
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.words import Documents, edge_words, node_words
from counteredge.metrics import evaluate
from counteredge.results import Calls, Prediction

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
REFERENCE = ROOT.parent / "shared" / "testdata" / "embeddings"
FIELDS = ["embedder", "graphs_per_second", "ratio_to_networkx", "max_abs_error_to_reference"]
FILES = {
    "FEATHER-G": "feather_g", "Graph2Vec": "graph2vec", "NetLSD": "netlsd", "LDP": "ldp", "IGE": "ige", "SF": "sf",
    "WaveletCharacteristic": "wavelet_characteristic", "GeoScattering": "geo_scattering", "GL2Vec": "gl2vec",
    "FGSD": "fgsd",
}  # fmt: skip
KARATECLUB = 39  # graphs a second of the eight together, as the reference package does them (measured elsewhere)


def main() -> None:
    """Time each embedder and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--graphs", type=int, default=2000, help="how many graphs of 28 nodes (Tree-Cycles)")
    parser.add_argument("--naive", type=int, default=50, help="how many of them the networkx loop gets")
    parser.add_argument("--pairs", type=int, default=5000, help="how many counterfactuals are measured at the end")
    parser.add_argument("--doc", type=Path, help="Markdown file whose table is written too")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    whole = load("Tree-Cycles").graphs
    graphs = whole[: args.graphs]
    rows = [row_of(e, graphs, args.naive) for e in get_embedders()]
    eight = [e for e in get_embedders() if isinstance(e, StackEmbedder)]
    for e in eight:
        e.fit(graphs)
    read = SimpleGraphs.of(graphs)
    together = len(graphs) / seconds(lambda: embed(eight, read, progress=False))
    rows.append({"embedder": "the eight together", "graphs_per_second": f"{together:.0f}"})
    print(f"the eight together: {together:.0f} graphs/s, {together / KARATECLUB:.0f} x karateclub's {KARATECLUB}")
    with (args.out / "embedder_speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
    if args.doc:
        lines = ["| " + " | ".join(FIELDS) + " |", "|---" * len(FIELDS) + "|"]
        lines += ["| " + " | ".join(r.get(k, "") or "-" for k in FIELDS) + " |" for r in rows]
        write_between(args.doc, "speed", "\n".join(lines).replace("_", " ") + "\n")
    if args.pairs:
        cfs = flipped(whole[: args.pairs])
        begun = time.perf_counter()
        print(evaluate(cfs, dataset=whole))
        print(f"every metric of {len(cfs)} pairs: {time.perf_counter() - begun:.1f} s wall time, one thread")


def row_of(embedder: Embedder, graphs: list[Data], naive: int) -> dict[str, Any]:
    """Speed of one embedder, and how far it is from the reference."""
    embedder.fit(graphs)
    read = SimpleGraphs.of(graphs)
    speed = len(graphs) / seconds(lambda: embed([embedder], read, progress=False))
    row = {"embedder": embedder.name, "graphs_per_second": f"{speed:.0f}"}
    loop = loops().get(embedder.name)
    if loop is not None:
        some = [as_networkx(g) for g in graphs[:naive]]
        row["ratio_to_networkx"] = f"{speed * seconds(lambda: [loop(g) for g in some]) / len(some):.1f}"
    error = error_of(embedder.name)
    if error is not None:
        row["max_abs_error_to_reference"] = f"{error:.1e}"
    print(row, flush=True)
    return row


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Least processor time of a few runs."""
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


def loops() -> dict[str, Callable[[nx.Graph], Any]]:
    """The same definitions as loops over one networkx graph at a time."""
    from naive_documents import gl2vec_words, graph2vec_words
    from naive_embedders import NAIVE

    return {**NAIVE, "Graph2Vec": graph2vec_words, "GL2Vec": gl2vec_words}


def as_networkx(g: Data) -> nx.Graph:
    """The simple graph."""
    graph = nx.Graph()
    graph.add_nodes_from(range(int(g.num_nodes or 0)))
    graph.add_edges_from((u, v) for u, v in g.edge_index.t().tolist() if u != v)
    return graph


def error_of(name: str) -> float | None:
    """Largest difference to the reference vectors, where those do not depend on ties; ``None`` without them.

    Of the two embedders that learn, of their documents: the number of words that differ.
    """
    if not (REFERENCE / "reference.json").is_file():
        return None
    known = json.loads((REFERENCE / "reference.json").read_text())
    graphs = {
        f"{part}/{k}": Data(edge_index=torch.tensor(g["edges"]).reshape(-1, 2).t().long(), num_nodes=g["n"])
        for part, group in known["graphs"].items()
        for k, g in group.items()
    }
    with np.load(REFERENCE / f"{FILES[name]}.npz", allow_pickle=False) as file:
        theirs = {key: file[key] for key in file.files}
    if name in ("Graph2Vec", "GL2Vec"):
        return words_apart(name, [graphs[k] for k in theirs["doc_names"].tolist()], theirs)
    embedder = EMBEDDERS[name]()
    if name == "IGE":  # fitted to the largest degree that the reference was fitted to
        leaves = int(theirs["max_deg"]) - 2
        star = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
        embedder.fit([Data(edge_index=star, num_nodes=leaves + 1)])
    off = []
    for key, their in theirs.items():
        if "/" not in key:
            continue
        own, told = embedder.transform([graphs[key]])[0].numpy(), known["exactness"].get(key, {})
        if name == "IGE" and (told.get("ige_degenerate_cut", True) or told.get("ige_hist_edge_ties", 1)):
            own, their = own[:-30], their[:-30]  # its histograms depend on the solver there
        if name != "FGSD" or told.get("fgsd_edge_ties", 1) == 0:
            off.append(float(np.abs(own - their).max()))
    return max(off)


def words_apart(name: str, graphs: list[Data], theirs: dict[str, Any]) -> float:
    """How many words of the documents are not the reference's."""
    read = node_words if name == "Graph2Vec" else edge_words
    ours = Documents.merge(read(SimpleGraphs.of(graphs))).lists()
    vocabulary = theirs["vocab"].tolist()
    apart = 0
    for document, row in zip(ours, theirs["counts"].tolist(), strict=True):
        wanted = Counter({w: c for w, c in zip(vocabulary, row, strict=True) if c})
        found = Counter(document)
        apart += ((found - wanted) + (wanted - found)).total()
    return float(apart)


def flipped(graphs: list[Data], flips: int = 3) -> list[ce.Counterfactual]:
    """Counterfactuals with random edits: what measuring them costs does not depend on how they were found."""
    draw = random.Random(0)
    out = []
    for k, g in enumerate(graphs):
        n = len(g.x)
        present = {(u, v) for u, v in g.edge_index.t().tolist() if u < v}
        pairs = {tuple(sorted(draw.sample(range(n), 2))) for _ in range(flips)}
        edits = ce.EditSet(added=tuple(sorted(pairs - present)), removed=tuple(sorted(pairs & present)))
        label = int(g.y)
        out.append(
            ce.Counterfactual(
                index=k, original=g, data=edits.apply(g), edits=edits, before=Prediction(label, 0.9),
                after=Prediction(1 - label, 0.6), found=True, reason="", stage="random", minimal=True,
                certified_lower_bound=None, calls=Calls(1, 0, 1), seconds=0.0, relaxation="none", explainer="random",
                preset="", seed=0,
            )
        )  # fmt: skip
    return out


if __name__ == "__main__":
    main()

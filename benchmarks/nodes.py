"""Node counterfactuals on the three released graphs with their released oracles; writes docs/results/nodes.csv.

    python benchmarks/nodes.py [--limit 30] [--only node-tree-grid] [--oracles cfgnn c2] [--out docs/results]
    python benchmarks/nodes.py --picture docs/images/nodes.png

Every node of the validation and test split, edges only: all pairs, and deletions only. For deletions the smallest size
that exists is found by enumeration on the full graph (single deletions, then pairs of them) beside it, and a node
without an answer is held against all sets of deletions where these are few.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from itertools import combinations
from pathlib import Path

import torch
from tqdm import tqdm

import counteredge as ce
from counteredge.datasets import load
from counteredge.datasets.dataset import GraphDataset
from counteredge.datasets.files import find_file
from counteredge.datasets.registry import REGISTRY
from counteredge.draw import gallery
from counteredge.edits import apply_all
from counteredge.models.released import ReleasedGCN, released_oracle
from counteredge.nodes.balls import reach

DATASETS = ["node-tree-cycles", "node-tree-grid", "node-ba-shapes"]
FIELDS = [
    "dataset", "oracle", "accuracy", "edits", "nodes", "found", "proved_impossible", "mean_size",
    "smallest_by_enumeration", "one_minimal_share", "mean_ball", "mean_collateral", "mean_calls", "seconds", "stages",
]  # fmt: skip


def main() -> None:
    """Run the searches and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, help="first so many nodes of each graph")
    parser.add_argument("--only", nargs="*", default=DATASETS)
    parser.add_argument("--oracles", nargs="*", default=["cfgnn", "c2"])
    parser.add_argument("--picture", type=Path, help="draw four answers of the first graph there, and do no more")
    args = parser.parse_args()
    if args.picture:
        data, model = opened(args.only[0], args.oracles[0])
        nodes = (data[0].val_mask | data[0].test_mask).nonzero().flatten()[[3, 90, 120, 150]]
        gallery(ce.XPlore().explain(model, data, node=nodes, edits="edges"), args.picture)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "nodes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name in args.only:
            for oracle in args.oracles:
                for edits in ("all pairs", "deletions"):
                    row = measured(name, oracle, edits, args.limit)
                    writer.writerow(row)
                    file.flush()
                    print(row, flush=True)


def opened(name: str, oracle: str) -> tuple[GraphDataset, ReleasedGCN]:
    """The graph and the oracle released with it."""
    return load(name), released_oracle(find_file(str(REGISTRY[name].file)), oracle)


def measured(name: str, oracle: str, edits: str, limit: int | None) -> dict[str, object]:
    """One line of the table."""
    (data,), model = opened(name, oracle)
    predicted = model(data.x, data.edge_index).argmax(1)
    nodes = (data.val_mask | data.test_mask).nonzero().flatten()[:limit]
    space = ce.EditSpace(features=False, add_edges=edits == "all pairs")
    begun = time.perf_counter()
    cfs = ce.XPlore().explain(model, data, node=nodes, edits=space)
    seconds = time.perf_counter() - begun
    found = [cf for cf in cfs if cf.found]
    row: dict[str, object] = {
        "dataset": name,
        "oracle": oracle,
        "accuracy": f"{float((predicted == data.y).float().mean()):.4f}",
        "edits": edits,
        "nodes": len(cfs),
        "found": f"{len(found) / len(cfs):.4f}",
        "mean_size": f"{sum(len(cf.edits) for cf in found) / max(1, len(found)):.4f}",
        "proved_impossible": "",
        "smallest_by_enumeration": "",
        "one_minimal_share": f"{sum(bool(cf.minimal) for cf in found) / max(1, len(found)):.4f}",
        "mean_ball": f"{sum(cf.ball or 0 for cf in cfs) / len(cfs):.1f}",
        "mean_collateral": f"{sum(len(cf.collateral) for cf in found) / max(1, len(found)):.2f}",
        "mean_calls": f"{sum(cf.calls.forward for cf in cfs) / len(cfs):.1f}",
        "seconds": f"{seconds:.1f}",
        "stages": " ".join(f"{k}:{n}" for k, n in Counter(cf.stage for cf in cfs).most_common()),
    }
    if edits == "deletions" and name != "node-ba-shapes":
        sizes = [smallest(model, cf) for cf in tqdm(found, desc="enumeration")]
        row["smallest_by_enumeration"] = f"{sum(sizes) / len(sizes):.4f}"
        left = [cf for cf in cfs if not cf.found]
        row["proved_impossible"] = sum(impossible(model, cf) for cf in tqdm(left, desc="enumeration"))
    return row


def smallest(model: ReleasedGCN, cf: ce.Counterfactual) -> int:
    """Fewest deletions that flip the node: 1 or 2 by enumeration, what was found where neither is enough."""
    pairs = near(cf)
    for size in (1, 2):
        if size >= len(cf.edits) or flips(model, cf, list(combinations(pairs, size))):
            return size
    return len(cf.edits)


def impossible(model: ReleasedGCN, cf: ce.Counterfactual) -> bool:
    """Whether no set of deletions at all flips the node; not tried where there are more than 4096 sets."""
    pairs = near(cf)
    if len(pairs) > 12:
        return False
    return not any(flips(model, cf, list(combinations(pairs, size))) for size in range(1, len(pairs) + 1))


def near(cf: ce.Counterfactual) -> list[tuple[int, int]]:
    """The edges that the node's prediction depends on, degrees of the nodes three hops away included."""
    data, (node,) = cf.original, cf.targets
    inside = reach(data, [node], 3)
    src, dst = data.edge_index
    seen = (src < dst) & (inside[src] | inside[dst])
    return [(int(src[k]), int(dst[k])) for k in seen.nonzero().flatten()]


def flips(model: ReleasedGCN, cf: ce.Counterfactual, sets: list[tuple[tuple[int, int], ...]]) -> bool:
    """Whether deleting one of the sets flips the node on the full graph."""
    data, (node,) = cf.original, cf.targets
    for start in range(0, len(sets), 64):
        edits = [ce.EditSet(removed=chosen) for chosen in sets[start : start + 64]]
        graphs = apply_all(edits, [data] * len(edits))
        index = torch.cat([g.edge_index + k * len(data.x) for k, g in enumerate(graphs)], 1)
        z = model(data.x.repeat(len(graphs), 1), index).view(len(graphs), len(data.x), -1)[:, node]
        if bool((z.argmax(1) != cf.before.label).any()):
            return True
    return False


if __name__ == "__main__":
    with torch.no_grad():
        main()

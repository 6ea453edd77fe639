"""Node counterfactuals on the three released graphs with their released oracles; writes docs/results/nodes.csv.

    python benchmarks/nodes.py [--limit 30] [--only node-tree-grid] [--oracles cfgnn c2] [--out docs/results]

Every node of the validation and test split, edges only: all pairs, and deletions only. For deletions the smallest size
that exists is found by enumeration on the full graph (single deletions, then pairs of them) beside it.
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
from counteredge.datasets.files import find_file
from counteredge.datasets.registry import REGISTRY
from counteredge.edits import apply_all
from counteredge.models.released import ReleasedGCN, released_oracle
from counteredge.nodes.balls import reach

DATASETS = ["node-tree-cycles", "node-tree-grid", "node-ba-shapes"]
FIELDS = [
    "dataset", "oracle", "accuracy", "edits", "nodes", "found", "mean_size", "smallest_by_enumeration",
    "one_minimal_share", "mean_ball", "mean_collateral", "mean_calls", "seconds", "stages",
]  # fmt: skip


def main() -> None:
    """Run the searches and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, help="first so many nodes of each graph")
    parser.add_argument("--only", nargs="*", default=DATASETS)
    parser.add_argument("--oracles", nargs="*", default=["cfgnn", "c2"])
    args = parser.parse_args()
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


def measured(name: str, oracle: str, edits: str, limit: int | None) -> dict[str, object]:
    """One line of the table."""
    (data,) = load(name)
    model = released_oracle(find_file(str(REGISTRY[name].file)), oracle)
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
    return row


def smallest(model: ReleasedGCN, cf: ce.Counterfactual) -> int:
    """Fewest deletions that flip the node: 1 or 2 by enumeration, what was found where neither is enough."""
    data, (node,) = cf.original, cf.targets
    inside = reach(data, [node], 3)  # a deletion further away changes nothing the node sees
    src, dst = data.edge_index
    near = ((src < dst) & (inside[src] | inside[dst])).nonzero().flatten()
    pairs = [(int(src[k]), int(dst[k])) for k in near]
    for size in (1, 2):
        if size >= len(cf.edits):
            return size
        sets = [ce.EditSet(removed=chosen) for chosen in combinations(pairs, size)]
        for start in range(0, len(sets), 64):
            graphs = apply_all(sets[start : start + 64], [data] * len(sets[start : start + 64]))
            index = torch.cat([g.edge_index + k * len(data.x) for k, g in enumerate(graphs)], 1)
            z = model(data.x.repeat(len(graphs), 1), index).view(len(graphs), len(data.x), -1)[:, node]
            if bool((z.argmax(1) != cf.before.label).any()):
                return size
    return len(cf.edits)


if __name__ == "__main__":
    with torch.no_grad():
        main()

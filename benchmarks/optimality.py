"""Sizes found against sizes that enumeration proves smallest; writes docs/results/optimality_gap.csv.

    python benchmarks/optimality.py [--limit 200] [--only MUTAG] [--out docs/results]

Edges only, refreshed derived columns, oracles trained on all graphs. Of each dataset the first 200 graphs of at most 40
nodes. All single flips of every graph are enumerated; pairs of flips only where the answer found has more than two, for
an answer of two is the smallest as soon as no single flip suffices.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import counteredge as ce
from counteredge.datasets import load
from counteredge.engine.exhaustive import edge_lower_bounds
from counteredge.models import oracle_for
from counteredge.oracle import Oracle

DATASETS = ["Tree-Cycles", "MUTAG", "BZR"]
FIELDS = [
    "dataset", "graphs", "found", "minimum_one", "found_where_one", "share_where_one", "minimum_two", "found_where_two",
    "share_where_two", "minimum_above_two", "seconds_search", "seconds_enumeration",
]  # fmt: skip
MOST_NODES = 40


def main() -> None:
    """Search, enumerate, compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=DATASETS, default=DATASETS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "optimality_gap.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name in args.only:
            row = compared(name, args.limit)
            writer.writerow(row)
            file.flush()
            print(row, flush=True)


def compared(name: str, limit: int) -> dict[str, object]:
    """One line of the table."""
    whole = load(name)
    model = oracle_for(name, whole.graphs, whole.num_classes, protocol="paper").model
    graphs = [g for g in whole.graphs if len(g.x) <= MOST_NODES][:limit]
    begun = time.perf_counter()
    cfs = ce.XPlore().explain(model, graphs, edits=ce.EditSpace(schema=whole.schema, features=False))
    searched = time.perf_counter()
    sizes = [len(cf.edits) if cf.found else 0 for cf in cfs]
    least = edge_lower_bounds(Oracle(model), graphs, 1, whole.schema)
    more = [k for k, (size, bound) in enumerate(zip(sizes, least, strict=True)) if bound > 1 and size != 2]
    if more:
        bounds = edge_lower_bounds(Oracle(model), [graphs[k] for k in more], 2, whole.schema)
        for k, bound in zip(more, bounds, strict=True):
            least[k] = bound
    done = time.perf_counter()
    row: dict[str, object] = {"dataset": name, "graphs": len(graphs), "found": sum(cf.found for cf in cfs)}
    for bound, word in ((1, "one"), (2, "two")):
        there = [size for size, smallest in zip(sizes, least, strict=True) if smallest == bound]
        hit = sum(size == bound for size in there)
        row |= {f"minimum_{word}": len(there), f"found_where_{word}": hit}
        row[f"share_where_{word}"] = f"{hit / len(there):.4f}" if there else ""
    row["minimum_above_two"] = sum(bound > 2 for bound in least)
    return row | {"seconds_search": f"{searched - begun:.1f}", "seconds_enumeration": f"{done - searched:.1f}"}


if __name__ == "__main__":
    main()

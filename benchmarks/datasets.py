"""Size, loading time and memory of every dataset that is here; writes docs/results/datasets.csv.

    python benchmarks/datasets.py [NAME ...] [--root FOLDER] [--out docs/results]

Each dataset is loaded in a fresh process with an empty cache, then in another one out of the cache:

- ``load_seconds``, ``cached_seconds``: the call of ``load`` alone, without the start of Python and the imports;
- ``peak_mb``: largest resident memory of the first process, Python and its libraries (about 330 MB) included.

Datasets whose file is not here have empty cells. With names, the other rows of the file stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from counteredge.datasets import available, load
from counteredge.datasets.registry import REGISTRY

FIGURES = ["graphs", "classes", "mean_nodes", "mean_edges"]
PAPER = ["paper_graphs", "paper_classes", "paper_nodes", "paper_edges"]
COLUMNS = ["dataset", *FIGURES, *PAPER, "load_seconds", "cached_seconds", "peak_mb"]


def once(name: str, root: Path | None) -> dict[str, Any]:
    """Load in this process and say what it took."""
    begun = time.perf_counter()
    data = load(name, root)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    figures = data.figures()
    return {
        "graphs": figures.graphs,
        "classes": figures.classes,
        "mean_nodes": f"{figures.nodes:.2f}",
        "mean_edges": f"{figures.edges:.2f}",
        "seconds": f"{seconds:.3f}",
        "peak_mb": round(peak),
    }


def measure(name: str, root: Path | None) -> dict[str, Any]:
    """One row of the table."""
    paper = REGISTRY[name].paper
    row = dict.fromkeys(COLUMNS, "") | {"dataset": name}
    if paper is not None:
        given = (paper.graphs, paper.classes, paper.nodes, paper.edges)
        texts = ("" if v is None else f"{v:.2f}" if isinstance(v, float) else str(v) for v in given)
        row |= dict(zip(PAPER, texts, strict=True))
    if not REGISTRY[name].present(root):
        return row
    command = [sys.executable, __file__, "--once", name, *(["--root", str(root)] if root else [])]
    with tempfile.TemporaryDirectory() as cache:
        settings = os.environ | {"COUNTEREDGE_CACHE": cache}
        first, cached = (
            json.loads(subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout)
            for _ in range(2)
        )
    row |= {"load_seconds": first.pop("seconds"), "cached_seconds": cached["seconds"]}
    return row | first


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="datasets to measure; all when none is given")
    parser.add_argument("--root", type=Path, help="folder that holds the files ($COUNTEREDGE_DATA otherwise)")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--once", metavar="NAME", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(once(args.once, args.root)))
        return
    path = args.out / "datasets.csv"
    rows: dict[str, dict[str, Any]] = {}
    if args.names and path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            rows = {row["dataset"]: row for row in csv.DictReader(file)}
    for name in args.names or available():
        rows[name] = measure(name, args.root)
        print(", ".join(str(rows[name][c]) for c in COLUMNS), flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in available() if name in rows)


if __name__ == "__main__":
    main()

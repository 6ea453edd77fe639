"""Write the README's table against the paper, and that of docs/sweeps.md, from docs/results/paper_table.csv.

    counteredge bench run sweeps/paper.toml --out runs/paper --graphs 200    # docs/sweeps.md says which methods
    counteredge bench report runs/paper      # its tables/paper_table.csv is kept as docs/results/paper_table.csv
    python benchmarks/paper_summary.py --doc README.md --doc docs/sweeps.md

No figure is computed here: cells are those of the file, validity in percent and mean edit ratio behind it.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from counteredge.cache import write_between
from counteredge.datasets.registry import REGISTRY

Figures = dict[tuple[str, str, str, str], dict[str, str]]
COLUMNS = {
    "XPlore as printed": None,
    "`XPlore('paper', features='freedom')`": ("xplore", "paper freedom"),
    "`XPlore()`, edges only": ("xplore", "minimal edges"),
    "`XPlore()`": ("xplore", "minimal"),
}
OTHERS = {
    "iRand": ("irand", "paper"), "CF-GNNExplainer": ("cfgnn", "paper"), "CF²": ("cf2", "paper"),
    "CLEAR": ("clear", "paper"), "RSGG-CE": ("rsggce", "paper"), "D4Explainer": ("d4explainer", "paper"),
}  # fmt: skip
CONTROLS = {"empty": ("empty_graph", "paper"), "complete": ("complete_graph", "paper")}


def main() -> None:
    """Read the file and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=Path("docs/results/paper_table.csv"))
    parser.add_argument("--doc", type=Path, action="append", default=[], help="file with the marks 'paper'; repeatable")
    args = parser.parse_args()
    rows = list(csv.DictReader(args.table.open()))
    figures = {(r["dataset"], r["explainer"], r["preset"], r["metric"]): r for r in rows}
    text = table(figures)
    print(text)
    for doc in args.doc:
        write_between(doc, "paper", text)


def table(figures: Figures) -> str:
    """The table, a line a dataset."""
    present = {d for d, *_ in figures}
    datasets = [
        n for n in REGISTRY if n in present and figures.get((n, "xplore", "minimal", "validity"), {}).get("ours")
    ]
    heads = ["dataset", "graphs", *COLUMNS, "best of the others", "empty / complete graph"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name in datasets:
        own = [printed(figures, name) if c is None else cell(figures, name, *c) for c in COLUMNS.values()]
        controls = " / ".join(percent(figures, name, *c) for c in CONTROLS.values())
        graphs = figures[name, "xplore", "minimal", "validity"]["graphs"]
        lines.append(f"| {' | '.join([name, graphs, *own, best(figures, name), controls])} |")
    return "\n".join(lines) + "\n"


def cell(figures: Figures, dataset: str, explainer: str, preset: str) -> str:
    """Validity and edit ratio."""
    row = figures.get((dataset, explainer, preset, "edit_ratio"))
    ratio = f", {float(row['ours']):.3f}" if row and row["ours"] else ""
    return percent(figures, dataset, explainer, preset) + ratio


def percent(figures: Figures, dataset: str, explainer: str, preset: str) -> str:
    """Validity."""
    row = figures.get((dataset, explainer, preset, "validity"))
    return "–" if row is None or not row["ours"] else f"{100 * float(row['ours']):.1f} %"


def printed(figures: Figures, dataset: str) -> str:
    """What the paper prints of its XPlore."""
    validity, ratio = (figures[dataset, "xplore", "minimal", m]["paper"] for m in ("validity", "edit_ratio"))
    return f"{100 * float(validity):.2f} %, {float(ratio):.3f}"


def best(figures: Figures, dataset: str) -> str:
    """The highest validity of another explainer, as measured here."""
    found = {
        name: float(row["ours"])
        for name, which in OTHERS.items()
        if (row := figures.get((dataset, *which, "validity"))) is not None and row["ours"]
    }
    if not found:
        return "–"
    name = max(found, key=lambda n: found[n])
    return f"{name}: {cell(figures, dataset, *OTHERS[name])}"


if __name__ == "__main__":
    main()

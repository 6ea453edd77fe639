"""How strong the default search is on every dataset with an oracle; writes docs/results/strength.csv.

    python benchmarks/strength.py [--limit 100] [--only MUTAG BZR] [--searches both edges frozen] [--out docs/results]
    python benchmarks/strength.py --only --doc docs/strength.md    # no search: the tables of the page from the files

Rows of other datasets and searches that the file already holds stay.

Three searches a dataset: edges and features with refreshed derived columns (the default), edges only refreshed, and
edges only frozen (as the XPlore paper has it; only where there are derived columns). The oracles are those trained on
all graphs, as the paper's were.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import counteredge as ce
from counteredge.cache import write_between
from counteredge.datasets import load
from counteredge.datasets.dataset import GraphDataset
from counteredge.metrics import evaluate
from counteredge.models import oracle_for

PART = 250  # graphs that a worker gets at once
DATASETS = [
    "MUTAG", "BZR", "COX2", "AIDS", "BBBP", "ENZYMES", "PROTEINS_full", "Fingerprint", "MSRC_21", "Tree-Cycles",
    "Tree-Grid", "BAShapes", "IMDB-BINARY", "COLORS-3", "DBLP_v1", "TRIANGLES", "COLLAB",
]  # fmt: skip
SEARCHES = {"both": ("both", "refreshed"), "edges": ("edges", "refreshed"), "frozen": ("edges", "frozen")}
FIELDS = [
    "dataset", "edits", "structural", "graphs", "validity", "validity_refreshed", "validity_frozen", "mean_edge_edits",
    "mean_feature_edits", "mean_edit_ratio", "paper_validity", "paper_edit_ratio", "paper_best_edit_ratio",
    "one_minimal_share", "mean_oracle_calls", "seconds", "stages",
]  # fmt: skip
MEANS = {
    "validity": "validity", "validity_refreshed": "validity_refreshed", "validity_frozen": "validity_frozen",
    "mean_edge_edits": "ged", "mean_feature_edits": "feature_edits", "mean_edit_ratio": "edit_ratio",
    "one_minimal_share": "one_minimal_share", "mean_oracle_calls": "calls_forward",
}  # fmt: skip
# the paper's figures: XPlore's validity (%) with edges and features, and with edges only (ablation, without freedom and
# gating), XPlore's edit ratio, and the smallest edit ratio of any explainer (extended table)
PAPER: dict[str, tuple[float, float | None, float, float]] = {
    "MUTAG": (67.55, 45.745, 0.459, 0.035), "BZR": (100.0, 98.519, 6.595, 0.104), "COX2": (99.36, 99.358, 7.682, 0.087),
    "AIDS": (32.3, 0.3, 2.445, 0.258), "BBBP": (81.51, 38.892, 2.217, 0.059), "ENZYMES": (100.0, 76.5, 2.394, 0.074),
    "PROTEINS_full": (65.41, 17.071, 0.569, 0.107), "Fingerprint": (100.0, 26.105, 0.872, 0.031),
    "MSRC_21": (100.0, None, 5.059, 0.027), "Tree-Cycles": (100.0, 99.68, 2.708, 0.062),
    "Tree-Grid": (100.0, 99.66, 0.248, 0.175), "BAShapes": (100.0, 94.34, 7.6, 0.112),
    "IMDB-BINARY": (78.8, None, 0.39, 0.024), "COLORS-3": (100.0, 67.943, 0.536, 0.076),
    "DBLP_v1": (91.84, None, 0.569, 0.032), "TRIANGLES": (100.0, 39.873, 0.532, 0.123),
    "COLLAB": (100.0, 55.64, 0.81, 0.018),
}  # fmt: skip


def main() -> None:
    """Run the searches and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, help="first so many graphs of each dataset")
    parser.add_argument("--only", nargs="*", choices=DATASETS, default=DATASETS)
    parser.add_argument("--searches", nargs="*", choices=list(SEARCHES), default=list(SEARCHES))
    parser.add_argument("--workers", type=int, default=1, help="processes that share the graphs, one thread each")
    parser.add_argument("--doc", type=Path, help="Markdown file whose tables are written from the files")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        whole = load(name)
        for edits, structural in (SEARCHES[key] for key in args.searches):
            if structural == "frozen" and not whole.schema.derived:
                continue
            if edits == "both" and len(whole.schema.derived) == whole.schema.width:
                continue  # no column of its own: the search is the one with edges
            row = row_of(name, whole, edits, structural, args.limit, args.workers)
            write(args.out / "strength.csv", row)
            print(row, flush=True)
    if args.doc:
        document(args.doc, args.out)


def row_of(
    name: str, whole: GraphDataset, edits: str, structural: str, limit: int | None, workers: int
) -> dict[str, Any]:
    """One line of the table."""
    count = len(whole.graphs[:limit])
    # a graph's answer does not depend on which others it is searched with
    parts = [(name, edits, structural, k, min(k + PART, count)) for k in range(0, count, PART)]
    if workers > 1:
        oracle_for(name, whole.graphs, whole.num_classes, protocol="paper")  # trained once, read by all
        with ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool:
            answers = told(name, pool.map(searched, parts))
    else:
        answers = told(name, map(searched, parts))
    cfs = [cf for part, _ in answers for cf in part]
    seconds = sum(spent for _, spent in answers)
    measured = evaluate(cfs, embedders=(), controls=())
    figures = {"graphs": len(cfs), **{column: measured.mean(metric) for column, metric in MEANS.items()}}
    both, edges, ratio, best = PAPER[name]
    valid = both if edits == "both" else edges
    figures |= {
        "paper_validity": "" if valid is None else valid / 100,
        "paper_edit_ratio": ratio,
        "paper_best_edit_ratio": best,
    }
    row = {"dataset": name, "edits": edits, "structural": structural if whole.schema.derived else "", **figures}
    row = {k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items() if k in FIELDS}
    stages = Counter(cf.stage for cf in cfs)
    proved = sum(cf.reason.startswith("proved") for cf in cfs)
    shown = [f"{k}:{n}" for k, n in stages.most_common()] + ([f"proved-none:{proved}"] if proved else [])
    return {**row, "seconds": f"{seconds:.1f}", "stages": " ".join(shown)}


def told(
    name: str, answers: Iterable[tuple[list[ce.Counterfactual], float]]
) -> list[tuple[list[ce.Counterfactual], float]]:
    """The answers, and after each part a line about it: what is known of a run that does not end."""
    parts, graphs = [], 0
    for cfs, seconds in answers:
        parts.append((cfs, seconds))
        found = [len(cf.edits) for cf in cfs if cf.found]
        graphs += len(cfs)
        print(
            f"{name} until {graphs}: {len(found)} of {len(cfs)} found, {sum(found) / max(1, len(found)):.2f} edits, "
            f"{seconds:.1f} s",
            flush=True,
        )
    return parts


def end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended."""

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def searched(part: tuple[str, str, str, int, int]) -> tuple[list[ce.Counterfactual], float]:
    """The answers of some of a dataset's graphs, and how long they took."""
    name, edits, structural, first, last = part
    whole = load(name)
    model = oracle_for(name, whole.graphs, whole.num_classes, protocol="paper").model
    space = ce.EditSpace(schema=whole.schema, features=edits == "both", structural=structural)
    begun = time.perf_counter()
    cfs = ce.XPlore().explain(model, whole.graphs[first:last], edits=space, progress=False)
    return cfs, time.perf_counter() - begun


def write(path: Path, row: dict[str, Any]) -> None:
    """Put a row into the table, in place of the one it had for the same search."""
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    key = [row[k] for k in FIELDS[:3]]
    rows = [r for r in rows if [r[k] for k in FIELDS[:3]] != key] + [row]
    rows.sort(key=lambda r: (DATASETS.index(r["dataset"]), r["edits"], r["structural"] == "frozen"))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)


def document(doc: Path, out: Path) -> None:
    """Write the tables of the page."""
    rows = list(csv.DictReader((out / "strength.csv").open()))
    gap = list(csv.DictReader((out / "optimality_gap.csv").open()))
    frozen = [r for r in rows if r["structural"] == "frozen"]
    edges = [r for r in rows if r["edits"] == "edges" and r["structural"] != "frozen"]
    both = [r for r in rows if r["edits"] == "both"]
    # where all columns follow from the edges there is nothing else to edit
    alone = [r for r in edges if r["dataset"] not in {b["dataset"] for b in both}]
    default = both + [r | {"paper_validity": str(PAPER[r["dataset"]][0] / 100)} for r in alone]
    default.sort(key=lambda r: DATASETS.index(r["dataset"]))
    head = [
        "dataset", "graphs", "validity", "paper's XPlore", "edge edits", "feature edits", "edit ratio",
        "paper's XPlore", "smallest in the paper", "one-minimal", "s a graph",
    ]  # fmt: skip
    write_between(doc, "both", table(head, [figures(r) for r in default]) + below(default))
    write_between(doc, "edges", table(head, [figures(r) for r in edges]) + below(edges))
    head = ["dataset", "single", "beam", "later stages", "no answer", "of these proved impossible"]
    write_between(doc, "stages", table(head, [stages(r) for r in edges]))
    head = [
        "dataset",
        "graphs",
        "validity",
        "edge edits",
        "edit ratio",
        "of all graphs, valid when refreshed",
        "s a graph",
    ]
    write_between(doc, "frozen", table(head, [frozen_figures(r) for r in frozen]))
    head = [
        "dataset", "graphs", "smallest is one flip", "found with one", "smallest is two", "found with two", "above two",
    ]  # fmt: skip
    cells = [
        [g["dataset"], g["graphs"], g["minimum_one"], percent(g["share_where_one"]), g["minimum_two"],
         percent(g["share_where_two"]), g["minimum_above_two"]] for g in gap
    ]  # fmt: skip
    write_between(doc, "gap", table(head, cells))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def percent(share: str) -> str:
    """``98.5 %``; a dash for nothing."""
    return f"{round(100 * float(share), 2):g} %" if share else "-"


def rounded(value: str, digits: int) -> str:
    """A number, a dash for nothing."""
    return f"{float(value):.{digits}f}" if value else "-"


def figures(r: dict[str, str]) -> list[str]:
    """A dataset's cells beside the paper's."""
    return [
        r["dataset"], r["graphs"], percent(r["validity"]), percent(r["paper_validity"]),
        rounded(r["mean_edge_edits"], 2), rounded(r["mean_feature_edits"], 2), rounded(r["mean_edit_ratio"], 4),
        r["paper_edit_ratio"], r["paper_best_edit_ratio"], percent(r["one_minimal_share"]), each(r),
    ]  # fmt: skip


def each(r: dict[str, str]) -> str:
    """Seconds a graph."""
    return f"{float(r['seconds']) / int(r['graphs']):.2f}"


def below(rows: list[dict[str, str]]) -> str:
    """How often the edit ratio is below the paper's."""
    counts = [
        sum(float(r["mean_edit_ratio"] or "nan") < float(r[key]) for r in rows)
        for key in ("paper_edit_ratio", "paper_best_edit_ratio")
    ]
    return (
        f"\nEdit ratio below the paper's XPlore: {counts[0]} of {len(rows)}; "
        f"below the smallest of any explainer in the paper: {counts[1]}.\n"
    )


def stages(r: dict[str, str]) -> list[str]:
    """Which stage answered how many graphs."""
    counts = {k: int(n) for k, n in (part.split(":") for part in r["stages"].split())}
    single, none, proved = counts.pop("greedy-1", 0), counts.pop("none", 0), counts.pop("proved-none", 0)
    beam = sum(n for k, n in counts.items() if k.startswith("greedy"))
    later = ", ".join(f"{k} {n}" for k, n in counts.items() if not k.startswith("greedy"))
    return [r["dataset"], str(single), str(beam), later or "-", str(none), str(proved)]


def frozen_figures(r: dict[str, str]) -> list[str]:
    """A dataset's cells with stale columns."""
    return [
        r["dataset"], r["graphs"], percent(r["validity"]), rounded(r["mean_edge_edits"], 2),
        rounded(r["mean_edit_ratio"], 4), percent(r["validity_refreshed"]), each(r),
    ]  # fmt: skip


if __name__ == "__main__":
    main()

"""How strong the default search is on every dataset with an oracle; writes docs/results/strength.csv.

    python benchmarks/strength.py [--limit 100] [--only MUTAG BZR] [--searches both edges frozen] [--out docs/results]

Rows of other datasets and searches that the file already holds stay.

Three searches a dataset: edges and features with refreshed derived columns (the default), edges only refreshed, and
edges only frozen (as the XPlore paper has it; only where there are derived columns). The oracles are those trained on
all graphs, as the paper's were.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import counteredge as ce
from counteredge.datasets import load
from counteredge.datasets.dataset import GraphDataset
from counteredge.metrics import summarise
from counteredge.models import oracle_for

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
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        whole = load(name)
        model = oracle_for(name, whole.graphs, whole.num_classes, protocol="paper").model
        for edits, structural in (SEARCHES[key] for key in args.searches):
            if structural == "frozen" and not whole.schema.derived:
                continue
            if edits == "both" and len(whole.schema.derived) == whole.schema.width:
                continue  # no column of its own: the search is the one with edges
            row = measured(name, whole, model, edits, structural, args.limit)
            write(args.out / "strength.csv", row)
            print(row, flush=True)


def measured(
    name: str, whole: GraphDataset, model: torch.nn.Module, edits: str, structural: str, limit: int | None
) -> dict[str, Any]:
    """One line of the table."""
    graphs = whole.graphs[:limit]
    space = ce.EditSpace(schema=whole.schema, features=edits == "both", structural=structural)
    begun = time.perf_counter()
    cfs = ce.XPlore().explain(model, graphs, edits=space)
    seconds = time.perf_counter() - begun
    figures = summarise(cfs, [int(g.y) for g in graphs])
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


if __name__ == "__main__":
    main()

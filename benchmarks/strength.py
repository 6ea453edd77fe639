"""How strong the default search is on every dataset with an oracle; writes docs/results/strength.csv.

    python benchmarks/strength.py [--limit 100] [--only MUTAG BZR] [--out docs/results]

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

import counteredge as ce
from counteredge.datasets import load
from counteredge.metrics import summarise
from counteredge.models import oracle_for

DATASETS = [
    "MUTAG", "BZR", "COX2", "AIDS", "BBBP", "ENZYMES", "PROTEINS_full", "Fingerprint", "MSRC_21", "Tree-Cycles",
    "Tree-Grid", "BAShapes", "IMDB-BINARY", "COLORS-3", "DBLP_v1", "TRIANGLES", "COLLAB",
]  # fmt: skip
FIELDS = [
    "dataset", "edits", "structural", "graphs", "validity", "validity_refreshed", "validity_frozen", "mean_edge_edits",
    "mean_feature_edits", "mean_edit_ratio", "one_minimal_share", "mean_oracle_calls", "seconds", "stages",
]  # fmt: skip


def main() -> None:
    """Run the searches and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, help="first so many graphs of each dataset")
    parser.add_argument("--only", nargs="*", default=DATASETS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "strength.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name in args.only:
            whole = load(name)
            model = oracle_for(name, whole.graphs, whole.num_classes, protocol="paper").model
            graphs = whole.graphs[: args.limit]
            derived = bool(whole.schema.derived)
            for edits, structural in (("both", "refreshed"), ("edges", "refreshed"), ("edges", "frozen")):
                if structural == "frozen" and not derived:
                    continue
                space = ce.EditSpace(schema=whole.schema, features=edits == "both", structural=structural)
                begun = time.perf_counter()
                cfs = ce.XPlore().explain(model, graphs, edits=space)
                seconds = time.perf_counter() - begun
                figures = summarise(cfs, [int(g.y) for g in graphs])
                stages = Counter(cf.stage for cf in cfs)
                row = {"dataset": name, "edits": edits, "structural": structural if derived else "", **figures}
                row = {k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items() if k in FIELDS}
                row |= {"seconds": f"{seconds:.1f}", "stages": " ".join(f"{k}:{n}" for k, n in stages.most_common())}
                writer.writerow(row)
                file.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()

"""What each explainer finds and costs on Tree-Cycles and MUTAG; writes docs/results/peer_cost.csv.

    python benchmarks/peers.py [--limit 100] [--only cfgnn greedy] [--out docs/results]
    python benchmarks/peers.py --only --doc docs/explainers.md    # no runs: the table of the page from the file

Each method and dataset runs in a process of its own, one thread, so that its peak memory is its own (that of a process
that only loads the data and the model is subtracted). Methods that learn do so on graphs that are not among those
explained; their fit is told apart. Every method is run as its papers have it and once more with postprocess="shrink".
Rows of other methods that the file already holds stay.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import counteredge as ce
from counteredge.cache import write_between
from counteredge.datasets import load
from counteredge.explainers import Trained
from counteredge.models import oracle_for

DATASETS = ("Tree-Cycles", "MUTAG")
# the published numbers of steps where a run with them is a matter of minutes, fewer where it would be one of hours
METHODS: dict[str, dict[str, Any]] = {
    "xplore": {},
    "xplore paper": {"mode": "paper"},
    "irand": {},
    "cfgnn": {},
    "cf2": {"alp": 0.0},
    "clear": {"epochs": 1000},
    "rsggce": {},
    "d4explainer": {"epochs": 60, "hidden": 16, "layers": 3, "levels": 4, "batch_size": 8, "lr": 0.003, "every": 5,
                    "prob_high": 0.1},
    "combinex": {},
    "c2explainer": {},
    "induce": {"episodes": 60},
    "meg": {},
    "greedy": {},
    "nearest": {},
    "empty_graph": {},
    "complete_graph": {},
}  # fmt: skip
FIELDS = [
    "method", "data", "graphs", "validity", "edge_edits", "feature_edits", "edit_ratio", "shrunk_edge_edits",
    "shrunk_feature_edits", "calls", "backward_calls", "seconds_per_graph", "fit_graphs", "fit_seconds", "fit_calls",
    "peak_memory_mib", "note",
]  # fmt: skip


def main() -> None:
    """Run the methods, one process each, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--limit", type=int, default=100, help="graphs explained of each dataset")
    parser.add_argument("--only", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--doc", type=Path, help="Markdown file whose table is written from the file")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measured(*args.measure, args.limit)))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "peer_cost.csv"
    for data in DATASETS if args.only else ():
        idle = float(asked("nothing", data, args.limit)["peak_memory_mib"])
        for name in args.only:
            row = asked(name, data, args.limit)
            row["peak_memory_mib"] = f"{max(0.0, float(row['peak_memory_mib']) - idle):.0f}"
            print(row, flush=True)
            there = list(csv.DictReader(path.open())) if path.exists() else []
            rows = {(r["data"], r["method"]): r for r in there} | {(data, name): row}
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows[d, n] for d in DATASETS for n in METHODS if (d, n) in rows)
    if args.doc:
        shown = [f for f in FIELDS if f != "note"]
        rows = list(csv.DictReader(path.open()))
        lines = [f"| {' | '.join(f.replace('_', ' ') for f in shown)} |", f"|{' --- |' * len(shown)}"]
        lines += [f"| {' | '.join(row[f] for f in shown)} |" for row in rows]
        write_between(args.doc, "cost", "\n".join(lines) + "\n")


def asked(name: str, data: str, limit: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--limit", str(limit), "--measure", name, data]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(name: str, data: str, limit: int) -> dict[str, Any]:
    """What a method finds and costs."""
    torch.set_num_threads(1)
    dataset = load(data)
    model = oracle_for(dataset.name, dataset.graphs, dataset.num_classes).model
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    fitted = min(100, len(order) - limit) if len(order) > limit else 0
    graphs, others = ([dataset.graphs[i] for i in part] for part in (order[:limit], order[limit : limit + fitted]))
    row: dict[str, Any] = dict.fromkeys(FIELDS, "") | {"method": name, "data": data, "graphs": len(graphs)}
    if name != "nothing":
        key, options = name.split()[0], METHODS[name]
        try:
            explainer = ce.get_explainer(key, **options)
            plain = explainer.plain_numbers
            space = ce.EditSpace(schema=dataset.schema.as_numbers() if plain else dataset.schema)
            if isinstance(explainer, Trained):
                report = explainer.fit(model, others, edits=space, progress=False)
                row |= {"fit_graphs": len(others), "fit_seconds": f"{report.seconds:.1f}"}
                row["fit_calls"] = report.calls.forward
            references = others if explainer.needs_references else None
            begun = time.perf_counter()
            cfs = explainer.explain(model, graphs, edits=space, references=references, progress=False)
            row["seconds_per_graph"] = f"{(time.perf_counter() - begun) / len(graphs):.3f}"
            row |= figures(cfs)
            explainer.postprocess = "shrink"
            shrunk = explainer.explain(model, graphs, edits=space, references=references, progress=False)
            row |= {f"shrunk_{k}": v for k, v in figures(shrunk).items() if k in ("edge_edits", "feature_edits")}
        except ce.InputError as error:
            row["note"] = str(error)
    row["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def figures(cfs: list[ce.Counterfactual]) -> dict[str, str]:
    """Means over the answers, calls over all graphs."""
    found = [cf for cf in cfs if cf.found]
    count = max(1, len(found))
    return {
        "validity": f"{len(found) / len(cfs):.3f}",
        "edge_edits": f"{sum(cf.edits.ged for cf in found) / count:.2f}",
        "feature_edits": f"{sum(cf.edits.feature_count + cf.edits.attribute_count for cf in found) / count:.2f}",
        "edit_ratio": f"{sum(cf.edit_ratio for cf in found) / count:.3f}",
        "calls": f"{sum(cf.calls.forward for cf in cfs) / len(cfs):.1f}",
        "backward_calls": f"{sum(cf.calls.backward for cf in cfs) / len(cfs):.1f}",
    }


if __name__ == "__main__":
    main()

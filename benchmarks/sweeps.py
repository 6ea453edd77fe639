"""What a sweep costs beside explaining: 500 Tree-Cycles graphs a method; writes docs/results/sweep_overhead.csv.

    python benchmarks/sweeps.py [--graphs 500] [--out docs/results] [--doc docs/sweeps.md]

One process, job by job, from a file of the sweep to files of results. Of each job: seconds in the explainer (explain,
fit, shrinking), in loading the data and the oracle, in measuring (metrics, ten embedding spaces), and in the harness,
which is all the rest of the driver's wall time: reading the sweep, hashing, claims, watching, laying out, writing.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path

from counteredge.bench import Store, collect, parse_sweep, run_sweep
from counteredge.cache import write_between

FIELDS = ["method", "graphs", "explain", "load", "measure", "harness", "harness_share", "harness_and_measure_share"]
METHODS = """
[[method]]
explainer = "xplore"
[[method]]
explainer = "xplore"
edits = "edges"
[[method]]
explainer = "xplore"
preset = "paper"
features = "freedom"
[[method]]
explainer = "cfgnn"
options = { iterations = 100 }
[[method]]
explainer = "irand"
[[method]]
explainer = "greedy"
"""


def main() -> None:
    """Run the sweep and take its time apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--doc", type=Path, help="Markdown file whose table is written")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "sweep_overhead.csv"
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sweep = parse_sweep(f'datasets = ["TCR"]\ngraphs = {args.graphs}\n{METHODS}', "overhead")
        run_sweep(sweep, folder)
        wall = time.perf_counter() - began
        rows = parted(folder, wall)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"| {' | '.join(f.replace('_', ' ') for f in FIELDS)} |", f"|{' --- |' * len(FIELDS)}"]
    lines += [f"| {' | '.join(r[f] for f in FIELDS)} |" for r in rows]
    print("\n".join(lines))
    if args.doc:
        write_between(args.doc, "overhead", "\n".join(lines) + "\n")


def parted(folder: str, wall: float) -> list[dict[str, str]]:
    """Seconds of each part by method, and of all."""
    jobs = collect(Store(folder).results()).jobs
    totals = {r["key"]: r["timings"]["total"] for r in Store(folder).results()}
    rows, sums = [], dict.fromkeys(("graphs", "explain", "load", "measure", "total"), 0.0)
    for _, job in jobs.iterrows():
        explain = (
            job["explain_seconds"]
            + job["shrink_seconds"]
            + (0.0 if job["fit_seconds"] != job["fit_seconds"] else job["fit_seconds"])
        )
        own = {
            "graphs": float(job["graphs"]), "explain": float(explain), "load": float(job["load_seconds"]),
            "measure": float(job["measure_seconds"]), "total": float(totals[job["key"]]),
        }  # fmt: skip
        rows.append(told(job["method"], own))
        sums = {k: sums[k] + own[k] for k in sums}
    return [*rows, told("all, with what the driver does between jobs", sums | {"total": wall})]


def told(name: str, own: dict[str, float]) -> dict[str, str]:
    """One row."""
    harness = own["total"] - own["explain"] - own["load"] - own["measure"]
    return {
        "method": name,
        "graphs": f"{own['graphs']:.0f}",
        **{k: f"{own[k]:.2f}" for k in ("explain", "load", "measure")},
        "harness": f"{harness:.3f}",
        "harness_share": f"{harness / own['explain']:.4f}",
        "harness_and_measure_share": f"{(harness + own['measure']) / own['explain']:.4f}",
    }


if __name__ == "__main__":
    main()

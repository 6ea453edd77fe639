"""Runs and sweeps: results on disk, that can be taken up again, on one machine or many."""

from counteredge.bench.collect import Collected, Kept, collect
from counteredge.bench.driver import Outcome, run_sweep
from counteredge.bench.executors import Where
from counteredge.bench.job import Job, run_job
from counteredge.bench.run import RunResult, run_explain
from counteredge.bench.spec import RunSpec
from counteredge.bench.store import Store
from counteredge.bench.sweep import Sweep, parse_sweep, read_sweep

__all__ = [
    "Collected",
    "Job",
    "Kept",
    "Outcome",
    "RunResult",
    "RunSpec",
    "Store",
    "Sweep",
    "Where",
    "collect",
    "parse_sweep",
    "read_sweep",
    "run_explain",
    "run_job",
    "run_sweep",
]

"""Runs that write their results to a folder and can be taken up again."""

from counteredge.bench.run import RunSpec, run_explain

__all__ = ["RunSpec", "run_explain"]

"""Speed of the main job as ratios; writes docs/results/speed.csv.

    python benchmarks/speed.py [--graphs 188] [--out docs/results]

With one thread and with two, the batched explainer on dense twins against the same explainer without them:

- ``one_at_a_time``: one graph a pass, as explainers usually ask a model: one graph after the other, each candidate in a
  forward pass of its own, through edge lists;
- ``one_a_call``: one graph a call of ``explain``, whose candidates still share passes, through edge lists;
- ``overhead``: the whole batched explanation over the bare model passes that it made (same shapes, same gradients).
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import counteredge as ce
from counteredge import oracle as oracle_module
from counteredge.datasets import load
from counteredge.models import oracle_for
from counteredge.oracle import Oracle
from counteredge.untouched import untouched


def timed(job: Callable[[], Any]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


class Recorder:
    """Writes down each pass of an explanation, to make it again bare."""

    def __init__(self) -> None:
        self.passes: list[tuple[Any, ...]] = []

    def __enter__(self) -> Recorder:
        self.saved = Oracle._run, Oracle.predict, Oracle.relaxed
        run, predict, relaxed = self.saved
        passes = self.passes

        def recorded_run(oracle: Oracle, *args: Any) -> Any:
            kept = tuple(a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args)
            passes.append(["run", oracle, kept, torch.is_grad_enabled(), 0])
            return run(oracle, *args)

        def recorded_predict(oracle: Oracle, graphs: Any, ids: Any = None, *, precise: bool = False) -> Any:
            passes.append(["predict", oracle, list(graphs), precise])
            return predict(oracle, graphs, ids, precise=precise)

        def recorded_relaxed(oracle: Oracle, *args: Any, **options: Any) -> Any:
            z = relaxed(oracle, *args, **options)
            entry = passes[-1]

            def once_more(gradient: torch.Tensor) -> None:
                entry[4] += 1

            if z.requires_grad:
                z.register_hook(once_more)
            return z

        Oracle._run, Oracle.predict, Oracle.relaxed = recorded_run, recorded_predict, recorded_relaxed
        return self

    def __exit__(self, *_: object) -> None:
        Oracle._run, Oracle.predict, Oracle.relaxed = self.saved

    def replay(self) -> None:
        """Only the passes, with their gradients."""
        for kind, oracle, *rest in self.passes:
            if kind == "predict":
                oracle.predict(rest[0], precise=rest[1])
                continue
            (base, row, adj, x, relax), gradients, backwards = rest
            if not gradients:
                with torch.no_grad():
                    oracle._run(base, row, adj, x, relax)
                continue
            leaves = [t.requires_grad_() for t in (adj, x) if t.is_floating_point()]
            z = oracle._run(base, row, adj, x, relax)
            for k in range(backwards):
                torch.autograd.grad(z.sum(), leaves, retain_graph=k + 1 < backwards, allow_unused=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--graphs", type=int, default=188)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    dataset = load("MUTAG", limit=args.graphs)
    model = oracle_for("MUTAG", load("MUTAG").graphs, 2).model
    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for edits in ("both", "edges"):
            space = ce.EditSpace(schema=dataset.schema, features=edits == "both")

            def batched(space: ce.EditSpace = space) -> Any:
                return ce.XPlore().explain(model, dataset, edits=space, progress=False)

            def single(space: ce.EditSpace = space) -> Any:
                for g in dataset.graphs:
                    ce.XPlore().explain(model, g, edits=space, relaxation="weights", progress=False)

            def one_at_a_time(single: Callable[[], Any] = single) -> Any:
                saved = oracle_module.CACHED_ENTRIES, oracle_module.PREDICTED_AT_ONCE
                oracle_module.CACHED_ENTRIES = oracle_module.PREDICTED_AT_ONCE = 1
                try:
                    single()
                finally:
                    oracle_module.CACHED_ENTRIES, oracle_module.PREDICTED_AT_ONCE = saved

            batched()
            with Recorder() as recorder:
                batched()
            together, bare = [], []
            for _ in range(args.repeats):
                together.append(timed(batched))
                with untouched(model):
                    bare.append(timed(recorder.replay))
            alone, strict = timed(single), timed(one_at_a_time)
            t, b = statistics.median(together), statistics.median(bare)
            row = {
                "threads": threads,
                "edits": edits,
                "graphs": len(dataset),
                "batched_seconds": round(t, 3),
                "bare_passes_seconds": round(b, 3),
                "one_at_a_time_seconds": round(strict, 3),
                "one_a_call_seconds": round(alone, 3),
                "ratio_one_at_a_time": round(strict / t, 2),
                "ratio_one_a_call": round(alone / t, 2),
                "overhead": round(t / b, 3),
                "graphs_per_second": round(len(dataset) / t, 1),
            }
            rows.append(row)
            print(row, flush=True)
    with (args.out / "speed.csv").open("w", newline="") as f:
        writer = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

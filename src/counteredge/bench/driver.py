"""A sweep from its list of jobs to a store full of results, whatever dies on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from counteredge.bench.executors import RETRIES, Where, opened
from counteredge.bench.job import Job
from counteredge.bench.store import Store
from counteredge.bench.sweep import Sweep
from counteredge.bench.work import execute, failure
from counteredge.errors import CapabilityError, InputError, StoreError

__all__ = ["Outcome", "run_jobs", "run_sweep", "shard_of"]

POLL = 2.0  # seconds between looks at jobs that other drivers work on


class WorkerDied(RuntimeError):
    """The process that ran a job ended before the job did."""


class WorkerError(CapabilityError):
    """Workers cannot be started."""


@dataclass(frozen=True)
class Outcome:
    """What a driver did.

    Attributes:
        jobs: How many were asked for.
        kept: How many had a result before.
        done: How many have one now that is no error.
        failed: How many have an error.
        seconds: Wall time.
        errors: The errors, by job.
    """

    jobs: int
    kept: int
    done: int
    failed: int
    seconds: float
    errors: dict[str, str] = field(default_factory=dict)


def shard_of(jobs: Sequence[Job], shard: str | None) -> list[Job]:
    """The part of a list of jobs that one of several independent drivers takes.

    Args:
        jobs: All, in the order of the sweep.
        shard: ``"i/N"``, ``i`` from 1; all of them when ``None``.

    Raises:
        InputError: For anything else.

    Example:
        >>> shard_of(["a", "b", "c"], "2/2")
        ['b']
    """
    if shard is None:
        return list(jobs)
    first, _, count = shard.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise InputError(f"shard {shard!r} is not like 1/4: the first of four parts")
    return list(jobs[int(first) - 1 :: int(count)])


def run_sweep(
    sweep: Sweep,
    folder: str | Path,
    *,
    where: Where | None = None,
    shard: str | None = None,
    retry_failed: bool = False,
    data_root: str | Path | None = None,
    progress: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run the jobs of a sweep that have no result yet.

    Any number of drivers may work on one folder at a time, on one machine or several; what one of them has finished or
    is at, the others leave alone.

    Args:
        sweep: The jobs.
        folder: Of the store.
        where: Which executor; this process when ``None``.
        shard: ``"i/N"``: only every N-th job from the i-th on.
        retry_failed: Forget errors of these jobs, and run them again.
        data_root: Folder that holds the datasets' files.
        progress: Show a progress bar.
        say: Gets lines of text on the way.

    Returns:
        What became of the jobs of this shard.

    Raises:
        StoreError: When results cannot be kept.
    """
    store = Store(folder).prepare()
    jobs = shard_of(sweep.jobs, shard)
    store.record(sweep.name, sweep.jobs, sweep.title)
    if retry_failed:
        for job in jobs:
            result = store.read(job.key)
            if result is not None and result["status"] == "failed":
                store.forget(job.key)
    return run_jobs(
        jobs, store, where=where or Where(), timeout=sweep.timeout, data_root=data_root, progress=progress, say=say
    )


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    *,
    where: Where,
    timeout: float | None = None,
    data_root: str | Path | None = None,
    progress: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run jobs that have no result yet; see :func:`run_sweep`."""
    begun = time.perf_counter()
    store.sweep_claims()
    missing = [j for j in jobs if not store.has(j.key)]
    kept = len(jobs) - len(missing)
    if missing:
        say(f"{len(missing)} of {len(jobs)} jobs to run" + (f", {kept} are done already" if kept else ""))
    root = None if data_root is None else str(Path(data_root).absolute())
    call = partial(execute, folder=str(store.folder), timeout=timeout, data_root=root, worker=where.kind != "serial")
    with tqdm(total=len(jobs), initial=kept, desc="sweep", unit="job", disable=not progress) as bar:
        _Drive(store, where, call, bar).run(missing)
    results = {j.key: store.read(j.key) for j in jobs}
    failed = {str(j): r for j in jobs if (r := results[j.key]) is not None and r["status"] == "failed"}
    errors = {name: f"{r['error']['type']}: {r['error']['message']}" for name, r in failed.items()}
    done = sum(r is not None and r["status"] == "done" for r in results.values())
    return Outcome(len(jobs), kept, done, len(errors), time.perf_counter() - begun, errors)


class _Drive:
    """One driver's way through its jobs.

    Args:
        store: Where results go.
        where: Which executor.
        call: Runs one job.
        bar: Moves on with each job.
    """

    def __init__(self, store: Store, where: Where, call: Callable[..., str], bar: tqdm[NoReturn]) -> None:
        self.store, self.where, self.call, self.bar = store, where, call, bar

    def run(self, jobs: Sequence[Job]) -> None:
        """Until each job has a result."""
        left, fruitless = list(jobs), 0
        while left:
            broken = self._round(left)
            before, left = len(left), [j for j in left if not self.store.has(j.key)]
            # a worker died: what was under way is run again, one at a time, which tells who ends whom
            suspects = [j for j in left if broken and any(not c.alive for c in self.store.claimed(j.key))]
            self.store.sweep_claims()
            for job in suspects:
                self._alone(job)
            left = [j for j in left if not self.store.has(j.key)]
            fruitless = fruitless + 1 if broken and len(left) == before else 0
            if fruitless > RETRIES:
                raise WorkerError(
                    "worker processes end before they begin a job: try executor 'serial', which shows the reason"
                )
            self._wait_for_others(left)
            left = [j for j in left if not self.store.has(j.key)]

    def _round(self, jobs: Sequence[Job]) -> bool:
        """Run jobs; whether a worker of a pool died on the way, which ends the pool."""
        try:
            with opened(self.where) as pool:
                futures: dict[Future[str], Job] = {}
                for job in jobs:
                    future = pool.submit(self.call, job.to_dict(), key=job.key)
                    if future.done():  # as the serial executor's are: an error ends the sweep before the next job
                        self._ended(future, job)
                    else:
                        futures[future] = job
                for future in as_completed(futures):
                    self._ended(future, futures[future])
        except BrokenExecutor:
            return True
        return False

    def _ended(self, future: Future[str], job: Job) -> None:
        try:
            outcome = future.result()
        except (StoreError, BrokenExecutor, CapabilityError):
            raise
        except CancelledError as error:
            raise WorkerError("the scheduler is gone: start it again and go on, what is finished is kept") from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":  # Dask's word for a job whose workers died
                raise WorkerError(f"workers cannot run jobs: {type(error).__name__}: {error}") from error
            outcome = self._gave_up(job, str(error))
        if outcome in ("done", "failed", "kept") and not self.store.has(job.key):
            raise StoreError(
                f"a worker says that {job} is done, and {self.store.path(job.key)} is not there: --out must be a "
                "folder that all machines share"
            )
        if outcome != "elsewhere":
            self.bar.update()

    def _gave_up(self, job: Job, reason: str) -> str:
        if not self.store.has(job.key):
            told = f"the process that ran it died, {RETRIES + 1} times (killed, or out of memory): {reason}"
            self.store.write(job.key, failure(job, WorkerDied(told), 0.0))
        return "failed"

    def _alone(self, job: Job) -> None:
        for _ in range(RETRIES + 1):
            try:
                with opened(self.where, workers=1) as pool:
                    self._ended(pool.submit(self.call, job.to_dict(), key=job.key), job)
                return
            except BrokenExecutor as error:
                reason = str(error)
                self.store.sweep_claims()
        self._gave_up(job, reason)
        self.bar.update()

    def _wait_for_others(self, jobs: Sequence[Job]) -> None:
        """While other drivers are at all of these jobs."""
        while jobs and all(not self.store.has(j.key) and any(c.alive for c in self.store.claimed(j.key)) for j in jobs):
            time.sleep(POLL)

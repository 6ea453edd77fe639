"""Carrying out one job in whatever process: skipped when done, watched while it runs, its errors a result."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

from counteredge.bench.job import FORMAT, VERSION, Job, code_version, run_job
from counteredge.bench.setting import setting
from counteredge.bench.store import Store
from counteredge.errors import CapabilityError, StoreError

__all__ = ["JobTimeout", "become_worker", "execute", "failure"]

ONE = threading.Lock()  # jobs of one process share their oracle: one at a time, however many threads a worker has
OF_DISKS = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG)  # full, or not to be written to
BEAT = 5.0  # seconds between signs of life
GRACE = 10.0  # seconds that a job has to end after its time is over
STUCK = 75  # exit status of a worker that ends itself because its job does not

Outcome = Literal["done", "failed", "kept", "elsewhere"]


class JobTimeout(Exception):
    """A job ran longer than it may."""


def execute(
    job: dict[str, Any],
    folder: str | Path,
    *,
    key: str | None = None,
    timeout: float | None = None,
    data_root: str | None = None,
    worker: bool = False,
) -> Outcome:
    """Run a job unless its result is there, and keep the result, which may be an error.

    Args:
        job: :meth:`Job.to_dict`, plain values that travel between processes and machines.
        folder: Of the store.
        key: The job's as the driver knows it, to see whether both run the same code.
        timeout: Seconds the job may take; it then fails. A computation that does not come back to Python is ended by
            ending the process, when that is a worker.
        data_root: Folder that holds the datasets' files.
        worker: Whether this process exists for jobs alone: it gets one thread, and may be ended.

    Returns:
        ``"done"``, ``"failed"``, ``"kept"`` (the result was there), ``"elsewhere"`` (another process is at it).

    Raises:
        StoreError: When the result cannot be kept.
        CapabilityError: When this process runs other code than the driver.
    """
    with ONE:
        return _executed(job, folder, key, timeout, data_root, worker)


def _executed(
    job: dict[str, Any],
    folder: str | Path,
    known: str | None,
    timeout: float | None,
    data_root: str | None,
    worker: bool,
) -> Outcome:
    store, made = Store(folder), Job.from_dict(job)
    key = made.key
    if known not in (None, key):
        raise CapabilityError(
            f"a worker on {socket.gethostname()} runs other code ({code_version()}) than the driver: install one "
            "version of counteredge on all machines"
        )
    if store.has(key):
        return "kept"
    here = socket.gethostname(), os.getpid()
    if any(c.alive and (c.host, c.pid) != here for c in store.claimed(key)):
        return "elsewhere"
    if worker and torch.get_num_threads() != 1:
        torch.set_num_threads(1)
    claim = store.claim(key)
    began = time.perf_counter()

    def stuck() -> None:
        try:
            if not store.has(key):
                store.write(key, failure(made, JobTimeout(_too_long(timeout)), time.perf_counter() - began))
            claim.unlink(missing_ok=True)
        finally:
            os._exit(STUCK)

    try:
        with _beating(claim, None if timeout is None or not worker else timeout + GRACE, stuck):
            try:
                with _time_limit(timeout):
                    result = {
                        "key": key,
                        "status": "done",
                        "error": None,
                        **run_job(made, data_root=data_root, fits=store.fits),
                    }
                    result["timings"] |= _whereabouts(time.perf_counter() - began)
            except StoreError:
                raise
            except Exception as e:  # whatever went wrong is this job's result, the others go on
                if isinstance(e, OSError) and e.errno in OF_DISKS:
                    told = f"{e.filename or 'a file'} cannot be written: {e.strerror}. Make room and start again"
                    raise StoreError(told) from e
                result = failure(made, e, time.perf_counter() - began)
        if result["status"] == "failed":
            setting.cache_clear()  # an interruption may have come while the oracle's weights were swapped
        store.write(key, result)
    finally:
        claim.unlink(missing_ok=True)
    return "done" if result["status"] == "done" else "failed"


def failure(job: Job, error: BaseException, seconds: float) -> dict[str, Any]:
    """The result of a job that went wrong."""
    package = Path(__file__).parent.parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if package in Path(f.filename).parents]
    where = [f"{Path(f.filename).relative_to(package)}:{f.lineno} {f.name}" for f in frames[-6:]]
    return {
        "format": FORMAT,
        "version": VERSION,
        "key": job.key,
        "status": "failed",
        "job": job.to_dict(),
        "code": code_version(),
        "error": {"type": type(error).__name__, "message": str(error) or type(error).__name__, "where": where},
        "timings": _whereabouts(seconds),
    }


def become_worker(parent: int) -> None:
    """Set this process up for jobs alone: one thread, default signals, and an end when its parent is gone."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver hears Ctrl-C and ends its workers

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(STUCK)

    threading.Thread(target=watch, daemon=True).start()


def _whereabouts(seconds: float) -> dict[str, Any]:
    return {"total": seconds, "host": socket.gethostname(), "pid": os.getpid(), "ended": time.time()}


def _too_long(timeout: float | None) -> str:
    return f"it took longer than the {timeout:g} seconds that a job may take (timeout= of the sweep)"


@contextmanager
def _beating(claim: Path, limit: float | None, stuck: Callable[[], None]) -> Iterator[None]:
    """Give signs of life while the job runs; past the limit call ``stuck``."""
    ended = threading.Event()
    deadline = None if limit is None else time.monotonic() + limit

    def beat() -> None:
        while not ended.wait(BEAT if deadline is None else max(0.0, min(BEAT, deadline - time.monotonic()))):
            if deadline is not None and time.monotonic() >= deadline:
                stuck()
                return
            with suppress(OSError):  # swept by a driver whose clock is ahead, or the disk has a bad moment
                claim.touch()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise :class:`JobTimeout` in this thread when the time is over; possible in a process's main thread alone."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise JobTimeout(_too_long(seconds))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

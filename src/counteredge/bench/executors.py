"""Where jobs run: this process, processes of this machine, or a Dask cluster, all behind ``concurrent.futures``."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from counteredge.bench.work import become_worker
from counteredge.errors import CapabilityError, InputError, unknown

__all__ = ["KINDS", "Serial", "Where", "opened"]

Kind = Literal["serial", "processes", "dask"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LOOPBACK = "127.0.0.1"
WAIT = 30  # seconds for a scheduler to answer, and for its first worker
RETRIES = 2  # times a job may be tried again after its worker died


@dataclass(frozen=True)
class Where:
    """Which executor, and how large.

    Args:
        kind: ``"serial"``, ``"processes"`` or ``"dask"``.
        workers: How many processes, one thread each; the machine's cores when ``None``. A cluster elsewhere has its
            own.
        address: Of a Dask scheduler that runs already, for example ``"tcp://10.0.0.5:8786"``.
        scheduler_file: File in which a Dask scheduler wrote where it is.
    """

    kind: Kind = "serial"
    workers: int | None = None
    address: str | None = None
    scheduler_file: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("executor", str(self.kind), KINDS)
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise InputError(f"workers must be a whole number >= 1, got {self.workers!r}")
        if (self.address or self.scheduler_file) and self.kind != "dask":
            raise InputError(f"a scheduler's address or file belongs to executor 'dask', not to {self.kind!r}")
        if self.workers is not None and self.kind == "serial":
            raise InputError(
                f"workers={self.workers} goes with executor 'processes' or 'dask'; serial is this process alone"
            )
        if self.address and self.scheduler_file:
            raise InputError("give the scheduler's address or its file, not both")
        if self.scheduler_file and not os.path.isfile(self.scheduler_file):
            raise InputError(f"{self.scheduler_file} is no file: dask scheduler --scheduler-file writes it")

    @property
    def count(self) -> int:
        """Processes of this machine."""
        return 1 if self.kind == "serial" else self.workers or os.cpu_count() or 1


class Serial(Executor):
    """Runs each job at once, here.

    Example:
        >>> with Serial() as pool:
        ...     pool.submit(max, 1, 2).result()
        2
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call; its future is done when this returns."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # as other executors do: it belongs to the future
            future.set_exception(error)
        return future


@contextmanager
def opened(where: Where, workers: int | None = None) -> Iterator[Executor]:
    """An executor; its processes are gone when the block ends, however it ends.

    Args:
        where: Which.
        workers: In place of its own number.

    Raises:
        CapabilityError: When Dask is not installed.
        InputError: When no scheduler answers.
    """
    if where.kind == "serial":
        yield Serial()
    elif where.kind == "processes":
        with _processes(workers or where.count) as pool:
            yield pool
    else:
        with _dask(where) as pool:
            yield pool


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    # started anew, not forked: a forked copy of a process that has computed with several threads may hang
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=become_worker, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        children = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:  # Ctrl-C, a full disk: nobody waits for what they are at
            child.terminate()
        for child in children:  # until then a dead process looks alive to those who ask for its number
            child.join(5)
        raise
    else:
        pool.shutdown()


@contextmanager
def _dask(where: Where) -> Iterator[Executor]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as e:
        raise CapabilityError("executor 'dask' needs dask.distributed: pip install 'counteredge[bench]'") from e
    import dask

    if where.address or where.scheduler_file:
        try:
            client = Client(where.address, scheduler_file=where.scheduler_file, timeout=WAIT)
        except (OSError, ValueError, TimeoutError) as e:
            asked = where.address or where.scheduler_file
            raise InputError(f"no Dask scheduler answers at {asked}: start one with `dask scheduler` ({e})") from e
        with client:
            try:
                client.wait_for_workers(1, timeout=WAIT)
            except TimeoutError as e:
                raise InputError(
                    f"the Dask scheduler has no worker after {WAIT} s: start some with `dask worker`"
                ) from e
            yield client.get_executor(retries=RETRIES, pure=False)
        return
    quiet = {"distributed.admin.tick.limit": "60s", "distributed.scheduler.allowed-failures": RETRIES}
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=where.count,
            threads_per_worker=1,
            host=LOOPBACK,
            dashboard_address=None,
            silence_logs=50,  # its workers' deaths are told by the results
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor(retries=RETRIES, pure=False)

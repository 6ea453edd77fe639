"""The results of jobs on disk: a JSON file each, safe for many writers on a shared disk, never locked."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counteredge.bench.job import FORMAT, VERSION, Job
from counteredge.cache import write_atomic
from counteredge.errors import DataError, StoreError

__all__ = ["Claim", "Status", "Store"]

STALE = 60.0  # seconds after which a job whose process gave no sign counts as abandoned


@dataclass(frozen=True)
class Claim:
    """A job that some process says it is working on: advice to others, no lock.

    Attributes:
        path: Its file.
        key: Of the job.
        host: Where.
        pid: Which process.
        age: Seconds since its last sign of life.
    """

    path: Path
    key: str
    host: str
    pid: int
    age: float

    @property
    def alive(self) -> bool:
        """Whether the process may still be at it: its signs tell, and on this host whether there is such a process."""
        if self.host == socket.gethostname():
            return _lives(self.pid) and self.age < 10 * STALE  # numbers of processes come again
        return self.age < STALE


@dataclass(frozen=True)
class Status:
    """How far the sweeps of a store are.

    Attributes:
        done: Jobs with a result.
        failed: Jobs with an error as their result, and the error.
        running: Jobs that some process is working on.
        missing: The others.
        damaged: Files that hold no result; their jobs count as missing.
    """

    done: list[Job]
    failed: list[tuple[Job, str]]
    running: list[tuple[Job, Claim]]
    missing: list[Job]
    damaged: list[Path]


class Store:
    """A folder of results.

    ``jobs/KEY.json`` is the result of one job, written under another name and renamed: there or not, never half.
    ``sweeps/NAME.json`` lists the jobs of a sweep, ``running/`` says who is at work on what, ``fits/`` holds explainers
    that learnt.

    Args:
        folder: Made when missing.

    Raises:
        StoreError: When it cannot be made or written to.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()  # workers may stand elsewhere
        self.jobs, self.sweeps = self.folder / "jobs", self.folder / "sweeps"
        self.claims, self.fits = self.folder / "running", self.folder / "fits"

    def prepare(self) -> Store:
        """Make the folders, and try whether they can be written to."""
        try:
            for folder in (self.jobs, self.sweeps, self.claims, self.fits):
                folder.mkdir(parents=True, exist_ok=True)
            trial = self.jobs / f".trial.{secrets.token_hex(8)}"
            trial.write_bytes(b"x")
            trial.unlink(missing_ok=True)
        except OSError as e:
            raise _unwritable(self.folder, e) from e
        return self

    # -- results -----------------------------------------------------------------------------------------------------

    def path(self, key: str) -> Path:
        """Where the result of a job is, or will be."""
        return self.jobs / f"{key}.json"

    def has(self, key: str) -> bool:
        """Whether a job has a result, be it an error; a damaged file is none."""
        return self.read(key) is not None

    def read(self, key: str) -> dict[str, Any] | None:
        """The result of a job, ``None`` where there is none.

        Raises:
            DataError: When a later version wrote it.
        """
        path = self.path(key)
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        fits = isinstance(value, dict) and value.get("format") == FORMAT and value.get("key") == key
        if not fits or not isinstance(value.get("version"), int):
            return None
        if value["version"] > VERSION:
            raise DataError(f"{path} was written by a later version of counteredge: update it")
        return value if value.get("status") in ("done", "failed") else None

    def write(self, key: str, result: dict[str, Any]) -> None:
        """Keep the result of a job.

        Raises:
            StoreError: When the disk is full, or cannot be written to.
        """
        try:
            write_atomic(self.path(key), (json.dumps(result, allow_nan=False) + "\n").encode())
        except OSError as e:
            raise _unwritable(self.folder, e) from e

    def forget(self, key: str) -> None:
        """Drop a result, for another try."""
        self.path(key).unlink(missing_ok=True)

    # -- sweeps ------------------------------------------------------------------------------------------------------

    def record(self, name: str, jobs: Sequence[Job], title: str = "") -> None:
        """Write down which jobs a sweep has; a sweep of the same name takes the place of an earlier one."""
        listed = [{"key": j.key, "method": j.method, "order": j.order, "job": j.to_dict()} for j in jobs]
        try:
            write_atomic(
                self.sweeps / f"{name}.json",
                (json.dumps({"sweep": name, "title": title, "jobs": listed}) + "\n").encode(),
            )
        except OSError as e:
            raise _unwritable(self.folder, e) from e

    @property
    def title(self) -> str:
        """What its sweeps call themselves."""
        found = []
        for file in sorted(self.sweeps.glob("*.json")):
            with suppress(OSError, ValueError):
                found.append(str(json.loads(file.read_bytes()).get("title", "")))
        return ", ".join(t for t in dict.fromkeys(found) if t)

    def expected(self) -> dict[tuple[str, str], Job]:
        """The jobs of all sweeps of this store, by their keys and what tables call them.

        Raises:
            DataError: When the folder holds no sweep, or its list is damaged.
        """
        found: dict[tuple[str, str], Job] = {}
        for file in sorted(self.sweeps.glob("*.json")):
            try:
                for entry in json.loads(file.read_bytes())["jobs"]:
                    made = Job.from_dict(entry["job"], method=entry["method"], order=entry["order"])
                    found[entry["key"], entry["method"]] = made
            except (ValueError, KeyError, TypeError) as e:
                raise DataError(f"{file} is no list of jobs ({e}): run the sweep again to write it anew") from e
        if not found:
            raise DataError(f"{self.folder} holds no sweep: counteredge bench run SWEEP --out {self.folder} makes one")
        return found

    def results(self) -> Iterator[dict[str, Any]]:
        """The results of the jobs that sweeps ask for, with the names and places that tables give them.

        Their jobs are told as this version tells jobs: an option that was not there when a job ran has its default.
        """
        for (key, _), job in self.expected().items():
            result = self.read(key)
            if result is not None:
                yield {**result, "job": job.to_dict(), "method": job.method, "order": job.order}

    def status(self) -> Status:
        """How far all sweeps are."""
        status = Status([], [], [], [], [])
        claims = {c.key: c for c in self.claimed() if c.alive}
        for key, job in {key: job for (key, _), job in self.expected().items()}.items():
            result = self.read(key)
            if result is None and self.path(key).exists():
                status.damaged.append(self.path(key))
            if result is not None and result["status"] == "done":
                status.done.append(job)
            elif result is not None:
                status.failed.append((job, f"{result['error']['type']}: {result['error']['message']}"))
            elif key in claims:
                status.running.append((job, claims[key]))
            else:
                status.missing.append(job)
        return status

    # -- who is at work ----------------------------------------------------------------------------------------------

    def claim(self, key: str) -> Path:
        """Say that this process works on a job; touch the file from time to time, and remove it in the end."""
        path = self.claims / f"{key}.{socket.gethostname()}.{os.getpid()}"
        try:
            path.write_bytes(b"")
        except OSError as e:
            raise _unwritable(self.folder, e) from e
        return path

    def claimed(self, key: str = "*") -> list[Claim]:
        """What processes say they work on; those that died left their claims behind."""
        found = []
        for path in self.claims.glob(f"{key}.*"):
            name, _, rest = path.name.partition(".")
            host, _, pid = rest.rpartition(".")
            with suppress(OSError, ValueError):
                found.append(Claim(path, name, host, int(pid), time.time() - path.stat().st_mtime))
        return found

    def sweep_claims(self) -> None:
        """Remove the claims of processes that are gone."""
        for claim in self.claimed():
            if not claim.alive:
                claim.path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _unwritable(folder: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    return StoreError(
        f"results cannot be written to {folder}: {reason}. Make room or choose another --out and start again: what is "
        "finished is kept"
    )

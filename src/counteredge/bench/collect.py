"""What a store holds, as tables: a row an instance, a row a job, and the counterfactuals that were kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counteredge.errors import CapabilityError, InputError
from counteredge.results import Counterfactual

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Collected", "Kept", "collect", "frames"]

# columns that say which job a row is of; the same in both tables
OF_JOB = ("key", "order", "dataset", "explainer", "preset", "features", "method", "seed", "oracle_seed", "part")


@dataclass(frozen=True)
class Kept:
    """A counterfactual of a job, kept for pictures.

    Attributes:
        key: Of the job.
        dataset: Name in the registry.
        method: The explainer as tables call it.
        counterfactual: With its original graph.
    """

    key: str
    dataset: str
    method: str
    counterfactual: Counterfactual


@dataclass(frozen=True, eq=False)
class Collected:
    """The results of sweeps.

    Attributes:
        jobs: A row a job: ``key, order`` (place of the method in its sweep), ``dataset, explainer, preset, features``
            (XPlore's variant: ``"gating"``, ``"freedom"``, of preset ``minimal`` kept to edges ``"edges"``, ``""`` for
            none), ``method`` (as tables call it), ``seed, oracle_seed, part, gamma`` (of the edit space), ``parts,
            protocol, status`` (``"done"`` or ``"failed"``), ``error`` (``""`` for none), ``oracle_accuracy,
            oracle_accuracy_heldout`` (0 to 1), ``graphs, found, explain_seconds, shrink_seconds, measure_seconds,
            load_seconds, fit_seconds, fit_calls, fit_graphs`` (NaN for methods that do not learn), ``degree_mmd,
            clustering_mmd`` (NaN for a part of a set), ``host, code``.
        instances: A row a graph (or node) of each job that is done: the first ten columns of ``jobs``, then ``graph``
            (its number in the dataset), ``node`` (missing for graph tasks), ``found, true_label, before, after``,
            ``stage``, every metric of :data:`~counteredge.metrics.METRICS` that belongs to a graph, by its name (NaN
            where it has no value), and ``shrunk_ged, shrunk_feature_edits, shrunk_edit_ratio``: sizes once needless
            edits are undone (NaN where that was not asked for).
        answers: Some counterfactuals of each job, the same graphs for every method.
    """

    jobs: pd.DataFrame
    instances: pd.DataFrame
    answers: list[Kept] = field(default_factory=list)

    @property
    def datasets(self) -> list[str]:
        """Names, in the order in which jobs come."""
        return list(dict.fromkeys(self.jobs["dataset"]))

    @property
    def methods(self) -> list[str]:
        """What tables call the explainers, in the order of their sweep."""
        return list(dict.fromkeys(self.jobs.sort_values(["order", "method"], kind="stable")["method"]))

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``jobs.parquet`` and ``instances.parquet``.

        Returns:
            Their paths.
        """
        paths = [Path(folder) / "jobs.parquet", Path(folder) / "instances.parquet"]
        self.jobs.to_parquet(paths[0], index=False)
        self.instances.to_parquet(paths[1], index=False)
        return paths


def frames() -> Any:
    """The module pandas.

    Raises:
        CapabilityError: When it is not installed.
    """
    try:
        import pandas as pd
    except ImportError as e:
        raise CapabilityError("tables of sweeps need pandas: pip install 'counteredge[bench]'") from e
    return pd


def collect(results: Iterable[dict[str, Any]]) -> Collected:
    """Lay out the results of jobs.

    Args:
        results: As :class:`~counteredge.bench.store.Store` reads them.

    Returns:
        The tables, ordered by method, dataset, seed, oracle's seed, part and graph.

    Raises:
        InputError: When there is nothing to lay out, or two rows of one name are of different jobs.
    """
    pd = frames()
    by = ("dataset", "seed", "oracle_seed", "part")
    found = sorted(results, key=lambda r: (r["order"], *(r["job"][k] for k in by)))
    if not found:
        raise InputError("there are no results to report: counteredge bench run SWEEP --out FOLDER makes them")
    _comparable(found)
    jobs = pd.DataFrame([_job_row(r) for r in found])
    done = [r for r in found if r["status"] == "done"]
    tables = [pd.DataFrame(_instance_columns(r)) for r in done]
    instances = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*OF_JOB, "graph", "found"])
    answers = [
        Kept(r["key"], r["job"]["dataset"], r["method"], Counterfactual.from_dict(value))
        for r in done
        for value in r["answers"]
    ]
    return Collected(jobs, instances, answers)


def _comparable(results: Sequence[dict[str, Any]]) -> None:
    """Refuse to pool what is no repetition: one name for jobs that differ in more than seeds and parts."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for r in results:
        about = {k: v for k, v in r["job"].items() if k not in ("seed", "oracle_seed", "part")} | {"code": r["code"]}
        first = seen.setdefault((r["job"]["dataset"], r["method"]), about)
        differs = sorted(k for k in about if about[k] != first[k])
        if differs:
            told = ", ".join(f"{k} {first[k]!r} and {about[k]!r}" for k in differs)
            raise InputError(
                f"{r['method']!r} on {r['job']['dataset']} stands for different jobs: {told}. Keep one of the sweeps "
                "of this folder (its files in sweeps/), or run them into folders of their own"
            )


def _of_job(result: dict[str, Any]) -> dict[str, Any]:
    job = result["job"]
    return {
        "key": result["key"],
        "order": result["order"],
        "dataset": job["dataset"],
        "explainer": job["explainer"],
        "preset": job["preset"],
        "features": _variant(job),
        "method": result["method"],
        "seed": job["seed"],
        "oracle_seed": job["oracle_seed"],
        "part": job["part"],
    }


def _variant(job: dict[str, Any]) -> str:
    """XPlore's variant; that of its preset ``minimal`` is what it may edit, where that is not all."""
    if job["explainer"] == "xplore" and job["preset"] == "minimal" and job["edits"] != "both":
        return str(job["edits"])
    return job["features"] or ""


def _job_row(result: dict[str, Any]) -> dict[str, Any]:
    job, done = result["job"], result["status"] == "done"
    error, fit, oracle = result.get("error"), result.get("fit") or {}, result.get("oracle") or {}
    timings, sets = result.get("timings") or {}, result.get("sets") or {}
    columns = result["columns"] if done else {}
    nan = float("nan")
    return {
        **_of_job(result),
        "gamma": job["gamma"],
        "parts": job["parts"],
        "protocol": job["protocol"],
        "status": result["status"],
        "error": f"{error['type']}: {error['message']}" if error else "",
        "oracle_accuracy": _number(oracle.get("accuracy")),
        "oracle_accuracy_heldout": _number(oracle.get("accuracy_heldout")),
        "graphs": len(columns.get("graph", ())),
        "found": sum(columns.get("found", ())),
        **{f"{k}_seconds": timings.get(k, nan) for k in ("explain", "shrink", "measure", "load", "fit")},
        "fit_calls": fit.get("calls", nan),
        "fit_graphs": fit.get("graphs", nan),
        **{k: _number(sets.get(k)) for k in ("degree_mmd", "clustering_mmd")},
        "host": timings.get("host", ""),
        "code": result["code"],
    }


def _instance_columns(result: dict[str, Any]) -> dict[str, Any]:
    columns = {k: _numbers(v) if k in result["metrics"] else v for k, v in result["columns"].items()}
    columns["runtime"] = _numbers(result["timings"]["runtime"])
    pd = frames()
    columns["node"] = pd.array(columns["node"], dtype="Int64" if _plain(columns["node"]) else object)
    for name in ("true_label", "before", "after"):
        columns[name] = [str(v) if v is not None else None for v in columns[name]]
    return {**_of_job(result), **columns}


def _plain(nodes: Sequence[Any]) -> bool:
    return all(n is None or isinstance(n, int) for n in nodes)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [_number(v) for v in values]


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)

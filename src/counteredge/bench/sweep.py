"""Sweep files: TOML with closed names that lists datasets and methods, and the jobs that they stand for."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from counteredge.bench.job import Job
from counteredge.bench.spec import RunSpec, explainer_of, space_of
from counteredge.datasets.registry import REGISTRY, canonical
from counteredge.embedders import get_embedders
from counteredge.errors import InputError, unknown
from counteredge.explainers import EXPLAINERS
from counteredge.models.recipes import Protocol
from counteredge.schema import FeatureSchema

__all__ = ["Sweep", "parse_sweep", "read_sweep"]

# what a sweep may say of all methods, and a method of itself
OF_ALL: dict[str, tuple[type, ...]] = {
    "title": (str,), "datasets": (list,), "graphs": (int,), "parts": (int,), "seeds": (list,), "oracle_seeds": (list,),
    "protocol": (str,), "learn": (int,), "embedders": (list, str), "shrink": (int,), "keep": (int,),
    "timeout": (int, float), "method": (list,),
}  # fmt: skip
OF_METHOD: dict[str, tuple[type, ...]] = {
    "name": (str,), "explainer": (str,), "preset": (str,), "features": (str,), "edits": (str,), "structural": (str,),
    "chemistry": (str,), "gamma": (int, float), "options": (dict,), "datasets": (list,), "graphs": (int,),
    "parts": (int,), "seeds": (list,), "learn": (int,), "shrink": (int,),
}  # fmt: skip
LONGEST = 1e7  # seconds
OF_SPEC = ("explainer", "preset", "features", "edits", "structural", "chemistry", "gamma", "options")


@dataclass(frozen=True)
class Sweep:
    """Jobs that belong together.

    Attributes:
        name: A slug, for files.
        title: For people.
        jobs: All of them, those of one dataset next to each other.
        timeout: Seconds that one job may take.
    """

    name: str
    title: str
    jobs: list[Job] = field(repr=False)
    timeout: float | None = None


def read_sweep(
    path: str | Path, *, graphs: int | None = None, datasets: Sequence[str] = (), methods: Sequence[str] = ()
) -> Sweep:
    """Read a sweep file.

    Args:
        path: The TOML file.
        graphs: Explain at most so many graphs a dataset, whatever the file says.
        datasets: To keep of those in the file; all when empty.
        methods: To keep, by their explainer or by their name in tables; all when empty.

    Raises:
        InputError: A file that is missing, no TOML, or says what a sweep cannot.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{file} cannot be read as a sweep file: {e}") from e
    return parse_sweep(text, file.stem, graphs=graphs, datasets=datasets, methods=methods)


def parse_sweep(
    text: str, name: str, *, graphs: int | None = None, datasets: Sequence[str] = (), methods: Sequence[str] = ()
) -> Sweep:
    r"""Make the jobs that a sweep file stands for: datasets x methods x seeds x parts.

    Args:
        text: TOML. At its head what holds for all: ``title``, ``datasets`` (names, or ``"paper"``), ``graphs`` (drawn
            of each dataset), ``parts``, ``seeds``, ``oracle_seeds``, ``protocol``, ``learn``, ``embedders``,
            ``shrink``, ``keep`` (see :class:`~counteredge.bench.job.Job`), ``timeout`` (seconds a job). Then a table
            ``[[method]]`` each: ``explainer``, ``preset``, ``features``, ``edits``, ``structural``, ``chemistry``,
            ``gamma``, ``options``, its ``name`` in tables, and ``datasets``, ``graphs``, ``parts``, ``seeds``,
            ``learn``, ``shrink`` of its own.
        name: Of the sweep's files.
        graphs: At most so many graphs a dataset.
        datasets: To keep.
        methods: To keep.

    Returns:
        The sweep.

    Raises:
        InputError: For unknown keys or names, wrong types, methods that cannot be made, two methods of one name.

    Example:
        >>> sweep = parse_sweep("datasets = ['TCR']\ngraphs = 5\n[[method]]\nexplainer = 'irand'", "mine")
        >>> [str(job) for job in sweep.jobs]
        ['Tree-Cycles: iRand, seed 0']
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise InputError(f"sweep {name} is no TOML: {e}") from e
    _checked(f"sweep {name}", table, OF_ALL)
    given = table.get("method", [])
    if not given or not all(isinstance(m, dict) for m in given):
        raise InputError(f"sweep {name} has no [[method]] table: write one for each explainer")
    jobs: list[Job] = []
    for order, method in enumerate(given):
        where = f"sweep {name}, method {order + 1}"
        _checked(where, method, OF_METHOD)
        try:
            jobs += _jobs(table, method, order, graphs)
        except (InputError, TypeError) as e:
            raise InputError(f"{where}: {e}") from e
    jobs = _kept(name, jobs, [canonical(d) for d in datasets], methods)
    _distinct(name, jobs)
    places = {d: k for k, d in enumerate(dict.fromkeys(j.spec.dataset for j in jobs))}
    jobs.sort(key=lambda j: places[j.spec.dataset])  # stable: jobs of one dataset find it loaded
    timeout = table.get("timeout")
    if timeout is not None and not 0 < timeout < LONGEST:
        raise InputError(f"sweep {name}: timeout must be above 0 and below {LONGEST:g} seconds, got {timeout}")
    if not jobs:
        raise InputError(f"sweep {name} has no job: none of its methods runs on the datasets that are left")
    # a part of a sweep is listed beside the whole, not in its place
    about = [graphs, [canonical(d) for d in datasets], list(methods)]
    part = "" if about == [None, [], []] else "-" + hashlib.sha256(json.dumps(about).encode()).hexdigest()[:8]
    return Sweep(name + part, table.get("title", name), jobs, timeout)


def _jobs(table: Mapping[str, Any], method: Mapping[str, Any], order: int, graphs: int | None) -> list[Job]:
    """The jobs of one method."""
    if "explainer" not in method:
        raise InputError(f"no explainer: write explainer = 'xplore', or another of {', '.join(sorted(EXPLAINERS))}")
    said = {**{k: v for k, v in table.items() if k != "method"}, **method}
    embedders = said.get("embedders", "all")
    drawn = said.get("graphs")
    if graphs is not None:
        drawn = graphs if drawn is None else min(drawn, graphs)
    common: dict[str, Any] = {k: said[k] for k in ("parts", "learn", "shrink", "keep", "protocol") if k in said}
    if said.get("protocol", "heldout") not in get_args(Protocol):
        raise unknown("protocol", said["protocol"], get_args(Protocol))
    seeds, oracle_seeds = (_seeds(name, said.get(name, [0])) for name in ("seeds", "oracle_seeds"))
    if embedders not in ("all", []):
        get_embedders(embedders)  # refuses unknown names
    found = []
    for dataset in _datasets(said.get("datasets", [])):
        for seed in seeds:
            spec = RunSpec(dataset, **{k: method[k] for k in OF_SPEC if k in method}, seed=seed)
            space_of(spec, FeatureSchema(()), explainer_of(spec))  # both refuse what they cannot be
            for oracle_seed in oracle_seeds:
                first = Job(
                    spec,
                    oracle_seed=oracle_seed,
                    graphs=drawn,
                    embedders=(embedders,) if isinstance(embedders, str) else tuple(embedders),
                    method=method.get("name", ""),
                    order=order,
                    **common,
                )
                found += [replace(first, part=part) for part in range(first.parts)]
    return found


def _datasets(names: Sequence[Any]) -> list[str]:
    """Names as the registry has them."""
    found: list[str] = []
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"datasets are names, got {name!r}")
        if name == "paper":
            found += [e.name for e in REGISTRY.values() if e.task == "graph" and e.paper]
        else:
            found.append(canonical(name))
    if not found:
        raise InputError("no datasets: write datasets = ['MUTAG'] at the head of the sweep")
    return list(dict.fromkeys(found))


def _seeds(name: str, values: Sequence[Any]) -> list[int]:
    """Whole numbers, each once."""
    if not values or any(type(v) is not int or v < 0 for v in values):
        raise InputError(f"{name} must be a list of whole numbers >= 0, got {values!r}")
    return list(dict.fromkeys(values))


def _checked(where: str, table: Mapping[str, Any], known: Mapping[str, tuple[type, ...]]) -> None:
    for key, value in table.items():
        if key not in known:
            raise InputError(f"{where}: {unknown('key', key, known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            kinds = " or ".join(t.__name__ for t in known[key])
            hint = ": write [[method]], in double brackets" if key == "method" and isinstance(value, dict) else ""
            raise InputError(f"{where}: {key} must be of type {kinds}, got {value!r}{hint}")


def _kept(name: str, jobs: Sequence[Job], datasets: Sequence[str], methods: Sequence[str]) -> list[Job]:
    """The jobs of some datasets and methods."""
    for what, wanted, there in (
        ("dataset", datasets, [[j.spec.dataset] for j in jobs]),
        ("method", methods, [[j.spec.explainer, j.method] for j in jobs]),
    ):
        known = dict.fromkeys(n for names in there for n in names)
        for one in wanted:
            if one not in known:
                raise unknown(f"{what} of sweep {name}", one, known)
    return [
        j
        for j in jobs
        if (not datasets or j.spec.dataset in datasets)
        and (not methods or j.spec.explainer in methods or j.method in methods)
    ]


def _distinct(name: str, jobs: Sequence[Job]) -> None:
    """Two methods of one name would become one row, and two names of one job two rows of the same figures."""
    names: dict[tuple[Any, ...], int] = {}
    keys: dict[str, Job] = {}
    for job in jobs:
        place = (job.spec.dataset, job.method, job.spec.seed, job.oracle_seed, job.part)
        if names.setdefault(place, job.order) != job.order:
            raise InputError(f"sweep {name}: two methods are called {job.method!r}; give one of them another name=")
        first = keys.setdefault(job.key, job)
        if first is not job:
            raise InputError(
                f"sweep {name}: {first.method!r} and {job.method!r} are the same job; leave one of them out"
            )

"""One job of a sweep: a frozen description, its content hash, and the pure function that carries it out."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor

import counteredge
from counteredge.bench.setting import Setting, setting
from counteredge.bench.spec import RunSpec, answers, explainer_of, fitted, space_of
from counteredge.decision import Label
from counteredge.errors import InputError
from counteredge.explainers import Explainer, Trained, explainer_class, shrink
from counteredge.metrics import METRICS, Evaluation
from counteredge.models import RECIPES
from counteredge.models.recipes import Protocol
from counteredge.results import Counterfactual
from counteredge.space import EditSpace

__all__ = ["FORMAT", "VERSION", "Job", "code_version", "run_job"]

FORMAT, VERSION = "counteredge.job", 1
NEEDED = ("validity", "ged", "edit_ratio", "feature_edits", "oracle_calls")  # numbers that every answer has
DRAWABLE = 2000  # nodes, edges and edits of an answer that is kept for pictures
# what results do not depend on
APART = {"cli", "report", "testing.py", "draw.py", "__main__.py", "proof.py"}
OF_RESULTS = {"job.py", "setting.py", "spec.py"}  # of this folder


@dataclass(frozen=True)
class Job:
    """What one job does; equal jobs have equal keys and equal results, timings apart.

    Args:
        spec: Dataset, explainer, options, seed.
        protocol: Which graphs the oracle learns from.
        oracle_seed: Of the oracle's training.
        graphs: How many graphs (of a node task: nodes) of the dataset are drawn, the same for every job; all when
            ``None``.
        part: Which part of them this job explains, from 0.
        parts: Into how many they are cut.
        learn: Most graphs that explainers learn from, or walk back from. They are not among those drawn, unless all
            graphs are.
        embedders: Of the cosine similarity: ``("all",)``, names, or nothing.
        shrink: Answers of at most so many edits are shrunk as well, and their smaller size is noted; 0 for none.
        keep: How many counterfactuals are kept for pictures, of all parts together.
        method: What tables call it; does not enter the key.
        order: Its place in tables; does not enter the key.
    """

    spec: RunSpec
    protocol: Protocol = "heldout"
    oracle_seed: int = 0
    graphs: int | None = None
    part: int = 0
    parts: int = 1
    learn: int = 500
    embedders: tuple[str, ...] = ("all",)
    shrink: int = 256
    keep: int = 6
    method: str = field(default="", compare=False)
    order: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, int) or self.parts < 1:
            raise InputError(f"parts must be a whole number >= 1, got {self.parts!r}")
        if not 0 <= self.part < self.parts:
            raise InputError(f"part {self.part} of {self.parts}: parts are numbered from 0")
        for name, least in (("graphs", 1), ("learn", 1), ("shrink", 0), ("keep", 0)):
            value = getattr(self, name)
            if (value is not None or name != "graphs") and (not isinstance(value, int) or value < least):
                raise InputError(f"{name} must be a whole number >= {least}, got {value!r}")
        if not self.method:
            object.__setattr__(self, "method", title_of(self.spec))

    def to_dict(self) -> dict[str, Any]:
        """Plain values of all that the result depends on."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.compare and f.name != "spec"}
        return {**asdict(self.spec), **own, "embedders": list(self.embedders)}

    @classmethod
    def from_dict(cls, value: dict[str, Any], *, method: str = "", order: int = 0) -> Job:
        """Inverse of :meth:`to_dict`."""
        of_spec = {f.name for f in fields(RunSpec)}
        own = {k: v for k, v in value.items() if k not in of_spec}
        own["embedders"] = tuple(own["embedders"])
        return cls(RunSpec(**{k: v for k, v in value.items() if k in of_spec}), **own, method=method, order=order)

    @property
    def key(self) -> str:
        """Content hash: of the job, the recipe of its oracle and the code.

        Example:
            >>> Job(RunSpec("MUTAG")).key == Job(RunSpec("MUTAG"), method="ours").key
            True
            >>> Job(RunSpec("MUTAG")).key == Job(RunSpec("MUTAG", seed=1)).key
            False
        """
        recipe = RECIPES[self.spec.dataset].of(self.protocol) if self.spec.dataset in RECIPES else None
        about = json.dumps([FORMAT, VERSION, self.to_dict(), recipe and asdict(recipe), code_version()], sort_keys=True)
        return hashlib.sha256(about.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        part = f", part {self.part + 1} of {self.parts}" if self.parts > 1 else ""
        oracle = f", oracle seed {self.oracle_seed}" if self.oracle_seed else ""
        return f"{self.spec.dataset}: {self.method}, seed {self.spec.seed}{oracle}{part}"


def title_of(spec: RunSpec) -> str:
    """What tables call a method: its name, and in brackets what differs from its defaults.

    Example:
        >>> title_of(RunSpec("MUTAG", preset="paper", features="gating", gamma=0.01))
        'XPlore (paper, gating, gamma=0.01)'
    """
    method = explainer_class(spec.explainer)
    differs = [] if spec.preset == method.modes[0] else [str(spec.preset)]
    if spec.explainer == "xplore" and spec.preset != "minimal":
        differs.append(spec.features or "edges only")
    elif spec.edits != "both":
        differs.append(f"{spec.edits} only")
    differs += [v for v in (spec.structural, spec.chemistry) if v]
    differs += [f"gamma={spec.gamma:g}"] if spec.gamma else []
    differs += [f"{k}={v}" for k, v in sorted(spec.options.items())]
    return (method.title or method.__name__) + (f" ({', '.join(differs)})" if differs else "")


@lru_cache(maxsize=1)
def code_version() -> str:
    """The package's version, and a hash of what results depend on.

    These are its sources but for reports, pictures and commands, and the versions of torch and PyG.
    """
    digest = hashlib.sha256()

    def add(folder: Traversable, at: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda e: e.name):
            path = f"{at}/{entry.name}"
            if (
                (not at and entry.name in APART)
                or entry.name == "__pycache__"
                or (at == "/bench" and entry.name not in OF_RESULTS)
            ):
                continue
            if entry.is_dir():
                add(entry, path)
            elif entry.name.endswith((".py", ".toml")):
                digest.update(path.encode() + b"\0" + entry.read_bytes() + b"\0")

    add(files("counteredge"), "")
    digest.update(f"{torch.__version__} {torch_geometric.__version__}".encode())
    return f"{counteredge.__version__}+{digest.hexdigest()[:12]}"


def run_job(job: Job, *, data_root: str | Path | None = None, fits: str | Path | None = None) -> dict[str, Any]:
    """Explain the graphs of a job and measure the answers.

    Nothing is written but trained oracles (into the cache) and fitted explainers (into ``fits``).

    Args:
        job: What to do.
        data_root: Folder that holds the dataset's file.
        fits: Folder for explainers that learnt, which parts of one set share.

    Returns:
        Plain values for JSON: ``job``, ``code``, ``oracle``, ``fit``, ``columns`` (a list of values a graph for each
        column, ``None`` for NaN), ``sets`` (figures of the whole set), ``answers``, and, apart, ``timings``.

    Raises:
        CounterEdgeError: What cannot be done, in words.
        ValueError: Numbers that no answer may have: NaN where every answer has one.
    """
    begun = time.perf_counter()
    here = setting(job.spec.dataset, job.protocol, job.oracle_seed, data_root)
    explainer = explainer_of(job.spec)
    space = space_of(job.spec, here.dataset.schema, explainer)
    timings: dict[str, Any] = {"load": time.perf_counter() - begun}
    drawn = here.drawn(job.graphs)
    subjects = drawn[len(drawn) * job.part // job.parts : len(drawn) * (job.part + 1) // job.parts]
    learnt = here.learnt(job.graphs, job.learn)
    explainer, report = _fitted(job, explainer, here, learnt, space, fits)
    if report is not None:
        timings["fit"] = report.pop("seconds")
    begun = time.perf_counter()
    cfs = _explained(here, explainer, subjects, learnt, space)
    timings["explain"] = time.perf_counter() - begun
    begun = time.perf_counter()
    smaller = _shrunk(here, cfs, space, job.shrink)
    timings["shrink"] = time.perf_counter() - begun
    begun = time.perf_counter()
    figures = here.evaluator(job.embedders, job.graphs)(cfs)
    columns = {**_columns(here, subjects, cfs, figures), **_sizes(cfs, smaller)}
    runtime = _plain(figures.values["runtime"])
    timings["measure"] = time.perf_counter() - begun
    _check(columns, figures)
    oracle = here.oracle
    return {
        "format": FORMAT,
        "version": VERSION,
        "job": job.to_dict(),
        "code": code_version(),
        "oracle": {"accuracy": oracle.accuracy, "accuracy_heldout": oracle.accuracy_heldout, "epochs": oracle.epochs},
        "fit": report,
        "columns": columns,
        "metrics": [*figures.values, "shrunk_ged", "shrunk_feature_edits", "shrunk_edit_ratio"],
        "sets": {n: _finite(figures[n].mean) for n, m in METRICS.items() if m.whole} if job.parts == 1 else {},
        "answers": [cf.to_dict(timings=False) for cf in _kept(job, drawn, subjects, cfs)],
        "timings": {**timings, "runtime": runtime},
    }  # fmt: skip


def _fitted(
    job: Job, explainer: Explainer, here: Setting, learnt: list[int], space: EditSpace, fits: str | Path | None
) -> tuple[Explainer, dict[str, Any] | None]:
    """The explainer after it has learnt, where it does, and what that took; another part may have done it."""
    if not isinstance(explainer, Trained):
        return explainer, None
    if here.per_node:
        raise InputError(f"{job.spec.explainer} learns before it explains, which sweeps offer for graph tasks only")
    about = {k: v for k, v in job.to_dict().items() if k not in ("part", "parts", "embedders", "shrink", "keep")}
    name = hashlib.sha256(json.dumps([about, code_version()], sort_keys=True).encode()).hexdigest()[:20]
    file = None if fits is None else Path(fits) / f"{name}.safetensors"
    return fitted(explainer, here.oracle.model, [here.dataset.graphs[i] for i in learnt], space, file)


def _explained(
    here: Setting, explainer: Explainer, subjects: Sequence[tuple[int, int | None]], learnt: list[int], space: EditSpace
) -> list[Counterfactual]:
    dataset, model = here.dataset, here.oracle.model
    if not here.per_node:
        references = [dataset.graphs[i] for i in learnt]
        numbers = [graph for graph, _ in subjects]
        return answers(explainer, model, dataset.graphs, numbers, space, references, dataset.label_names)
    nodes: dict[int, list[int]] = {}
    for graph, node in subjects:
        nodes.setdefault(graph, []).append(int(node or 0))
    found = []
    for graph, which in nodes.items():
        for cf in explainer.explain(model, dataset.graphs[graph], node=which, edits=space, progress=False):
            cf.index, cf.label_names = graph, dataset.label_names
            found.append(cf)
    return found


def _shrunk(here: Setting, cfs: list[Counterfactual], space: EditSpace, most: int) -> list[Counterfactual | None]:
    """The answers once needless edits are undone; ``None`` where there is none or it is too large for that."""
    at = [k for k, cf in enumerate(cfs) if cf.found and cf.node is None and len(cf.edits) <= most]
    out: list[Counterfactual | None] = [None] * len(cfs)
    # what is one-minimal already needs no other look
    wanted = [k for k in at if cfs[k].minimal is not True]
    done = dict(
        zip(wanted, shrink(here.oracle.model, [cfs[k] for k in wanted], edits=space, progress=False), strict=True)
    )
    for k in at:
        out[k] = done.get(k, cfs[k])
    return out


def _columns(
    here: Setting, subjects: Sequence[tuple[int, int | None]], cfs: list[Counterfactual], figures: Evaluation
) -> dict[str, list[Any]]:
    return {
        "graph": [graph for graph, _ in subjects],
        "node": [node for _, node in subjects],
        "found": [cf.found for cf in cfs],
        "true_label": [here.label(graph, node) for graph, node in subjects],
        "before": [_word(cf.before.label) for cf in cfs],
        "after": [None if cf.after is None else _word(cf.after.label) for cf in cfs],
        "stage": [cf.stage for cf in cfs],
        **{name: _plain(values) for name, values in figures.values.items() if name != "runtime"},
    }


def _sizes(cfs: list[Counterfactual], smaller: list[Counterfactual | None]) -> dict[str, list[float | None]]:
    """How large answers are once shrunk, in the units of the metrics of the same names."""
    return {
        "shrunk_ged": [None if cf is None else float(cf.edits.ged) for cf in smaller],
        "shrunk_feature_edits": [
            None if cf is None else float(cf.edits.feature_count + cf.edits.attribute_count) for cf in smaller
        ],
        "shrunk_edit_ratio": [None if cf is None else cf.edit_ratio for cf in smaller],
    }


def _kept(
    job: Job, drawn: Sequence[tuple[int, int | None]], subjects: Sequence[tuple[int, int | None]],
    cfs: list[Counterfactual],
) -> list[Counterfactual]:  # fmt: skip
    """The same graphs for every method, where the answer is small enough to be drawn."""
    spread = {drawn[round(k * (len(drawn) - 1) / max(1, job.keep - 1))] for k in range(job.keep)} if drawn else set()
    chosen = [cf for subject, cf in zip(subjects, cfs, strict=True) if subject in spread]
    return [cf for cf in chosen if len(cf.original.x) + cf.original.num_edges + len(cf.edits) <= DRAWABLE]


def _check(columns: dict[str, list[Any]], figures: Evaluation) -> None:
    """Refuse numbers that no answer may have."""
    for name in NEEDED:
        over = METRICS[name].over
        for k, value in enumerate(columns[name]):
            if value is None and (over == "all graphs" or columns["found"][k]):
                raise ValueError(f"{name} of graph {columns['graph'][k]} is no finite number")


def _plain(values: Tensor) -> list[float | None]:
    return [_finite(v) for v in values.to(torch.float64).tolist()]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _word(label: Label) -> Any:
    return list(label) if isinstance(label, tuple) else label

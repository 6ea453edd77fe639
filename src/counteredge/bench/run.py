"""One run: a dataset, its oracle, an explainer; results on disk after every few graphs."""

from __future__ import annotations

import inspect
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
import torch_geometric
from torch_geometric.data import Data
from tqdm import tqdm

from counteredge.cache import write_atomic
from counteredge.datasets import GraphDataset, load
from counteredge.draw import gallery
from counteredge.errors import InputError, unknown
from counteredge.explainers import Explainer, Trained, explainer_class, get_explainer
from counteredge.metrics import Evaluation, evaluate
from counteredge.models import TrainedModel, oracle_for
from counteredge.results import Counterfactual, read_jsonl, write_jsonl
from counteredge.space import EditSpace

__all__ = ["RunSpec", "run_explain"]

CHUNK = 32  # graphs explained between two writes


@dataclass(frozen=True)
class RunSpec:
    """What a run does; a folder holds results of one spec only.

    Args:
        dataset: Name in the dataset registry.
        explainer: Name in the explainer registry.
        preset: The explainer's mode (XPlore: its preset); its first one when ``None``.
        features: Variant of the ``paper`` preset (``"gating"``, ``"freedom"``), else ``None``.
        edits: ``"edges"``, ``"features"`` or ``"both"``.
        structural: Of the edit space: ``"refreshed"``, ``"frozen"``, or ``None`` for what the preset does.
        seed: Of the oracle's training and of the explainer.
        chemistry: Of the edit space: ``"valence"``, or ``None``.
        options: Further options of the explainer by name, as JSON values.
    """

    dataset: str
    explainer: str = "xplore"
    preset: str | None = None
    features: str | None = None
    edits: str = "both"
    structural: Literal["refreshed", "frozen"] | None = None
    seed: int = 0
    chemistry: Literal["valence"] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "explainer", explainer_class(self.explainer).name)
        if self.preset is None:
            object.__setattr__(self, "preset", explainer_class(self.explainer).modes[0])
        if self.explainer != "xplore" and self.features is not None:
            raise InputError(f"features {self.features} is a variant of xplore, {self.explainer} has none")
        if self.explainer != "xplore" or self.preset == "minimal":
            return
        if self.features is None and self.edits == "features":
            raise InputError(f"preset {self.preset} without features edits edges only: choose gating or freedom")
        if self.features is not None and self.edits == "edges":
            raise InputError(f"features {self.features} with edits edges would edit no feature: choose edits both")
        if self.features is None:
            object.__setattr__(self, "edits", "edges")  # what the variant without features can do


@dataclass(frozen=True)
class RunResult:
    """Where a run wrote, and what.

    Attributes:
        counterfactuals: All of them, in the order of the dataset.
        summary: As in ``summary.json``.
        evaluation: The figures behind it.
        files: Paths written.
        resumed: How many graphs an earlier run had finished.
    """

    counterfactuals: list[Counterfactual]
    summary: dict[str, Any]
    evaluation: Evaluation
    files: dict[str, Path]
    resumed: int


def run_explain(
    spec: RunSpec,
    out: str | Path,
    *,
    limit: int | None = None,
    data_root: str | Path | None = None,
    progress: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> RunResult:
    """Explain a dataset and write ``counterfactuals.jsonl``, ``summary.json`` and ``gallery.png``.

    Finished graphs are on disk after every few, so an interrupted run (Ctrl-C too) is resumed by the same call.

    Args:
        spec: What to do.
        out: Folder to write into; made when missing.
        limit: First so many graphs only.
        data_root: Folder that holds the dataset's file.
        progress: Show progress bars.
        say: Gets a line of text before each long step.

    Returns:
        Results, summary and paths.

    Raises:
        InputError: When the folder holds another run, or the options do not fit together.
        DataError: When the dataset cannot be found.
    """
    explainer = _made(spec)
    space = replace(EditSpace.of(spec.edits), structural=spec.structural, chemistry=spec.chemistry)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{folder} cannot be made a folder for the results: {e.strerror or e}") from e
    _claim(folder, spec)
    say(f"Loading {spec.dataset}")
    whole = load(spec.dataset, data_root)
    dataset = replace(whole, graphs=whole.graphs[:limit])
    if dataset.task != "graph":
        raise InputError(f"{dataset.name} is a node task; explain answers for whole graphs so far")
    say(f"Training the oracle for {dataset.name}, or reading it from the cache")
    # always trained on the whole dataset, whatever the limit
    oracle = oracle_for(whole.name, whole.graphs, whole.num_classes, seed=spec.seed, progress=progress)
    learnt = [whole.graphs[i] for i in oracle.split["train"]]
    space = replace(space, schema=whole.schema.as_numbers() if explainer.plain_numbers else whole.schema)
    if isinstance(explainer, Trained):
        say(f"Fitting {spec.explainer} on {len(learnt)} graphs, or reading it from {folder}")
        explainer = _fitted(explainer, oracle, learnt, space, folder / "explainer.safetensors", progress)
    file = folder / "counterfactuals.jsonl"
    done = _finished(file)
    todo = [i for i in range(len(dataset)) if i not in done]
    resumed = len(dataset) - len(todo)
    say(f"Explaining {len(todo)} graphs" + (f" ({resumed} are done already)" if resumed else ""))
    begun = time.perf_counter()
    with tqdm(total=len(todo), desc=spec.explainer, unit="graph", disable=not progress) as bar:
        for start in range(0, len(todo), CHUNK):
            part = todo[start : start + CHUNK]
            batch = _explain_part(explainer, oracle, dataset, part, space, learnt)
            write_jsonl(file, batch, append=True)
            done.update({cf.index: cf for cf in batch})
            bar.update(len(part))
    seconds = time.perf_counter() - begun
    cfs = [done[i] for i in range(len(dataset))]
    say("Measuring")
    spent = seconds if not resumed else sum(c.seconds for c in cfs)
    figures = evaluate(cfs, dataset=whole.graphs, model=oracle.model, seed=spec.seed, progress=progress or False)
    summary = _summary(spec, dataset, oracle, cfs, figures, spent)
    files = {"counterfactuals": file, "summary": folder / "summary.json", "gallery": folder / "gallery.png"}
    write_atomic(files["summary"], (json.dumps(summary, indent=2) + "\n").encode())
    gallery(cfs, files["gallery"])
    return RunResult(cfs, summary, figures, files, resumed)


def _made(spec: RunSpec) -> Explainer:
    """The explainer that a spec describes."""
    own = {} if spec.features is None else {"features": spec.features}
    elsewhere = {"mode", "preset", "seed", *(("features",) if spec.explainer == "xplore" else ())}
    taken = [n for n in inspect.signature(explainer_class(spec.explainer)).parameters if n not in elsewhere]
    for name in spec.options:
        if name in elsewhere:
            raise InputError(f"option {name}= has a place of its own in a run, it is not among options")
        if name not in taken:
            raise unknown(f"option of {spec.explainer}", name, taken)
    return get_explainer(spec.explainer, mode=spec.preset, seed=spec.seed, **own, **spec.options)


def _fitted(
    explainer: Trained, oracle: TrainedModel, learnt: list[Data], space: EditSpace, file: Path, progress: bool
) -> Trained:
    """The explainer after its fit, which an earlier run may have done."""
    if file.exists():
        return type(explainer).load(file)
    explainer.fit(oracle.model, learnt, edits=space, progress=progress or False)
    explainer.save(file)
    return explainer


def _explain_part(
    explainer: Explainer,
    oracle: TrainedModel,
    dataset: GraphDataset,
    part: list[int],
    space: EditSpace,
    learnt: list[Data],
) -> list[Counterfactual]:
    # the schema is the dataset's, so a graph's answer does not depend on which others share its part
    references = learnt if explainer.needs_references else None
    batch: list[Counterfactual] = explainer.explain(
        oracle.model, [dataset[i] for i in part], edits=space, references=references, progress=False
    )
    for i, cf in zip(part, batch, strict=True):
        cf.index, cf.label_names = i, dataset.label_names
    return batch


def _claim(folder: Path, spec: RunSpec) -> None:
    """Write down what this folder is for; refuse a folder that is for something else."""
    file = folder / "run.json"
    wanted = {"format": "counteredge.run", "version": 1, **asdict(spec)}
    if file.exists():
        try:
            there = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as e:
            raise InputError(f"{file} does not say what the folder is for ({e}): choose another --out") from e
        # a run of an earlier version has no word for what it did not know
        there = {"options": {}, **there}
        differs = sorted(k for k in {*there, *wanted} if there.get(k) != wanted.get(k))
        if differs:
            told = ", ".join(f"{k}={there.get(k)!r} (now {wanted.get(k)!r})" for k in differs)
            raise InputError(f"{folder} holds another run: {told}. Choose another --out, or remove it first")
        return
    write_atomic(file, (json.dumps(wanted, indent=2) + "\n").encode())


def _finished(file: Path) -> dict[int, Counterfactual]:
    """Results of an earlier run; a line cut off by a crash is dropped from the file too."""
    if not file.exists():
        return {}
    kept = {cf.index: cf for cf in read_jsonl(file)}
    temporary = file.with_suffix(".tmp")
    write_jsonl(temporary, kept.values())
    os.replace(temporary, file)
    return kept


def _summary(
    spec: RunSpec,
    dataset: GraphDataset,
    oracle: TrainedModel,
    cfs: list[Counterfactual],
    figures: Evaluation,
    seconds: float,
) -> dict[str, Any]:
    import counteredge

    return {
        "dataset": dataset.name,
        "explainer": spec.explainer,
        "preset": spec.preset,
        "features": spec.features,
        "options": spec.options,
        "edits": spec.edits,
        "structural": cfs[0].structural if cfs else spec.structural,
        "chemistry": spec.chemistry,
        "seed": spec.seed,
        "oracle_accuracy": oracle.accuracy,
        "oracle_accuracy_heldout": oracle.accuracy_heldout,
        "seconds": round(seconds, 3),
        **figures.to_dict(),
        "versions": {
            "counteredge": counteredge.__version__,
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "python": platform.python_version(),
        },
    }

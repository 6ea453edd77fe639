"""One run: a dataset, its oracle, an explainer; results on disk after every few graphs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from tqdm import tqdm

from counteredge.bench.spec import RunSpec, answers, explainer_of, fitted, space_of
from counteredge.cache import write_atomic
from counteredge.datasets import GraphDataset, load
from counteredge.draw import gallery
from counteredge.errors import InputError
from counteredge.explainers import Trained
from counteredge.metrics import Evaluation, evaluate
from counteredge.models import TrainedModel, oracle_for
from counteredge.results import Counterfactual, read_jsonl, write_jsonl

__all__ = ["RunResult", "run_explain"]

CHUNK = 32  # graphs explained between two writes


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
    explainer = explainer_of(spec)
    folder = Path(out)
    there = _there(folder, spec)
    say(f"Loading {spec.dataset}")
    whole = load(spec.dataset, data_root)
    dataset = replace(whole, graphs=whole.graphs[:limit])
    if dataset.task != "graph":
        raise InputError(f"{dataset.name} is a node task; explain answers for whole graphs so far")
    if not there:  # only now: a slip of the pen must not reserve the folder
        _claim(folder, spec)
    say(f"Training the oracle for {dataset.name}, or reading it from the cache")
    # always trained on the whole dataset, whatever the limit
    oracle = oracle_for(whole.name, whole.graphs, whole.num_classes, seed=spec.seed, progress=progress)
    learnt = [whole.graphs[i] for i in oracle.split["train"]]
    space = space_of(spec, whole.schema, explainer)
    if isinstance(explainer, Trained):
        say(f"Fitting {spec.explainer} on {len(learnt)} graphs, or reading it from {folder}")
        explainer, _ = fitted(
            explainer, oracle.model, learnt, space, folder / "explainer.safetensors", progress=progress
        )
    file = folder / "counterfactuals.jsonl"
    done = _finished(file)
    todo = [i for i in range(len(dataset)) if i not in done]
    resumed = len(dataset) - len(todo)
    say(f"Explaining {len(todo)} graphs" + (f" ({resumed} are done already)" if resumed else ""))
    begun = time.perf_counter()
    with tqdm(total=len(todo), desc=spec.explainer, unit="graph", disable=not progress) as bar:
        for start in range(0, len(todo), CHUNK):
            part = todo[start : start + CHUNK]
            batch = answers(explainer, oracle.model, dataset.graphs, part, space, learnt, dataset.label_names)
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


def _there(folder: Path, spec: RunSpec) -> bool:
    """Whether this run was begun in this folder before; refuse a folder that is for something else."""
    file = folder / "run.json"
    if not file.exists():
        return False
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as e:
        raise InputError(f"{file} does not say what the folder is for ({e}): choose another --out") from e
    wanted = _told(spec)
    # a run of an earlier version has no word for what it did not know
    there = {"options": {}, "gamma": 0.0, **there}
    differs = sorted(k for k in {*there, *wanted} if there.get(k) != wanted.get(k))
    if differs:
        told = ", ".join(f"{k}={there.get(k)!r} (now {wanted.get(k)!r})" for k in differs)
        raise InputError(f"{folder} holds another run: {told}. Choose another --out, or remove it first")
    return True


def _claim(folder: Path, spec: RunSpec) -> None:
    """Write down what this folder is for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "run.json", (json.dumps(_told(spec), indent=2) + "\n").encode())
    except OSError as e:
        raise InputError(f"{folder} cannot be made a folder for the results: {e.strerror or e}") from e


def _told(spec: RunSpec) -> dict[str, Any]:
    return {"format": "counteredge.run", "version": 1, **asdict(spec)}


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

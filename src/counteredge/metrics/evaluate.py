"""All metrics of a set of counterfactuals, with controls beside them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from counteredge.decision import Desired, Label, Task
from counteredge.embedders import Embedder, WaveletCharacteristic
from counteredge.embedders.base import hidden
from counteredge.embedders.stack import MEMORY
from counteredge.errors import InputError
from counteredge.metrics.aggregate import Aggregate, aggregate
from counteredge.metrics.controls import CONTROLS, control_sample, rule_of
from counteredge.metrics.definition import METRICS
from counteredge.metrics.judge import Judge
from counteredge.metrics.plausibility import Surroundings
from counteredge.metrics.sample import Sample
from counteredge.metrics.similarity import CosineSimilarity
from counteredge.metrics.size import exact_ged
from counteredge.oracle import Oracle
from counteredge.results import Counterfactual

__all__ = ["Evaluation", "Evaluator", "evaluate"]

SPACE = WaveletCharacteristic.name  # in which neighbours are looked for


@dataclass(frozen=True)
class Evaluation:
    """What a set of counterfactuals is worth.

    Attributes:
        graphs: How many graphs were asked about.
        metrics: Mean, spread, count and interval by name.
        values: Value of each graph by metric, NaN where it has none.
        controls: The same figures of the controls.
        embedders: Names of the embedders that the similarity is the mean of.
        over: Which graphs the similarity is the mean over.

    Shapes:
        each of values: ``(N,)``.
    """

    graphs: int
    metrics: dict[str, Aggregate]
    values: dict[str, Tensor]
    controls: dict[str, dict[str, Aggregate]]
    embedders: tuple[str, ...]
    over: str

    def __getitem__(self, name: str) -> Aggregate:
        return self.metrics[name]

    def mean(self, name: str) -> float | None:
        """Mean of a metric, ``None`` over nothing."""
        value = self.metrics[name].mean
        return None if math.isnan(value) else value

    def to_dict(self, *, timings: bool = True) -> dict[str, Any]:
        """Plain values for JSON, NaN as ``null``; without run times when not ``timings``."""
        kept = {k: a for k, a in self.metrics.items() if timings or k != "runtime"}
        return {
            "graphs": self.graphs,
            "embedders": list(self.embedders),
            "similarity_over": self.over,
            "metrics": {k: a.to_dict() for k, a in kept.items()},
            "controls": {c: {k: a.to_dict() for k, a in figures.items()} for c, figures in self.controls.items()},
        }

    def rows(self, digits: int = 4) -> list[list[str]]:
        """Cells for people: title, mean, std, count, interval, and the means of the controls, of what has a value."""
        found = []
        for k, a in self.metrics.items():
            if a.count:
                low, high, mean, std = (_shown(v, digits) for v in (a.low, a.high, a.mean, a.std))
                interval = "-" if math.isnan(a.low) else f"{low} to {high}"
                beside = [_beside(figures[k], a.count, digits) for figures in self.controls.values()]
                found.append([METRICS[k].title, mean, std, str(a.count), interval, *beside])
        return found

    def to_markdown(self) -> str:
        """A table: one line a metric that has a value, one column a control."""
        head = ["metric", "mean", "std", "count", "95 % interval", *self.controls]
        lines = [head, ["---"] * len(head), *self.rows()]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"

    def __str__(self) -> str:
        return f"{self.graphs} graphs; similarity over {self.over}, mean of {len(self.embedders)} embedders\n" + (
            self.to_markdown()
        )

    __repr__ = __str__

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def evaluate(
    counterfactuals: Sequence[Counterfactual],
    labels: Sequence[Label] | Tensor | None = None,
    *,
    dataset: Sequence[Data] | None = None,
    model: nn.Module | None = None,
    embedders: str | Sequence[str | Embedder] = "all",
    over: str = "found",
    controls: Sequence[str] = tuple(CONTROLS),
    ged_timeout: float | None = None,
    forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
    output_fn: Callable[[Any], Tensor] | None = None,
    task: Task | None = None,
    desired: Desired | None = None,
    rounds: int = 1000,
    seed: int = 0,
    memory: int = MEMORY,
    progress: bool | None = None,
) -> Evaluation:
    """Measure counterfactuals by every metric of :data:`~counteredge.metrics.METRICS`.

    Args:
        counterfactuals: One a graph, as ``explain`` or ``read_jsonl`` give them.
        labels: True label of each graph; the graphs' own ``y`` when ``None``.
        dataset: All original graphs of the dataset: embedders are fitted on them (one that is fitted already stays so),
            and where each has a class in ``y`` neighbours are looked for among them. Without it embedders are fitted on
            the originals at hand.
        model: The model that was explained: gives controls their validity, and PyG's fid+ and fid-.
        embedders: ``"all"``, names or objects; an empty list leaves the similarity out.
        over: ``"found"``: similarity over counterfactuals; ``"all"``: a graph without one counts as 1, as in the
            paper's published evaluation code. Never mix the two in a table.
        controls: Which columns to compute beside: ``"empty"``, ``"complete"``, ``"random"``.
        ged_timeout: Seconds to spend on each pair for ``ged_exact``, which is left out when ``None``.
        forward_fn: As for ``explain``, with ``model``.
        output_fn: As for ``explain``, with ``model``.
        task: As for ``explain``, with ``model``.
        desired: As for ``explain``, with ``model``; a regression model needs it.
        rounds: Bootstrap samples of a mean.
        seed: Of bootstrap samples and of the random control.
        memory: Bytes that one batch of graphs may take while it is embedded.
        progress: Show bars; by default when it takes more than two seconds on a terminal.

    Returns:
        The figures; ``print`` shows them as a table.

    Raises:
        BudgetError: When the matrices of a single graph do not fit into ``memory``; ``embedders=[]`` needs none.
        InputError: When the numbers of labels and results differ, for unknown names, for graphs without a class.

    Source:
        XPlore (KDD 2026), section 4.1 and appendix C.3.
    """
    asked = Evaluator(
        dataset=dataset, model=model, embedders=embedders, over=over, controls=controls, ged_timeout=ged_timeout,
        forward_fn=forward_fn, output_fn=output_fn, task=task, desired=desired, rounds=rounds, seed=seed,
        memory=memory, progress=progress,
    )  # fmt: skip
    return asked(counterfactuals, labels)


class Evaluator:
    """:func:`evaluate` for many sets of counterfactuals of one dataset: what they share is computed once.

    Embedders are fitted, real graphs are embedded when it is made; vectors of the originals are kept from call to call.

    Args:
        dataset: As for :func:`evaluate`.
        model: As for :func:`evaluate`.
        embedders: As for :func:`evaluate`.
        over: As for :func:`evaluate`.
        controls: As for :func:`evaluate`.
        ged_timeout: As for :func:`evaluate`.
        forward_fn: As for :func:`evaluate`.
        output_fn: As for :func:`evaluate`.
        task: As for :func:`evaluate`.
        desired: As for :func:`evaluate`.
        rounds: As for :func:`evaluate`.
        seed: As for :func:`evaluate`.
        memory: As for :func:`evaluate`.
        progress: As for :func:`evaluate`.

    Raises:
        InputError: As :func:`evaluate` does.

    Example:
        >>> from counteredge import XPlore
        >>> from counteredge.datasets import tree_cycles
        >>> graphs = tree_cycles(4).graphs
        >>> def dense(batch):
        ...     return [int(g.num_edges > 54) for g in batch.to_data_list()]
        >>> measure = Evaluator(dataset=graphs, embedders=["LDP"], controls=())
        >>> [measure(XPlore().explain(dense, graphs, edits="edges")).mean("validity") for _ in range(2)]
        [1.0, 1.0]
    """

    def __init__(
        self,
        *,
        dataset: Sequence[Data] | None = None,
        model: nn.Module | None = None,
        embedders: str | Sequence[str | Embedder] = "all",
        over: str = "found",
        controls: Sequence[str] = tuple(CONTROLS),
        ged_timeout: float | None = None,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        task: Task | None = None,
        desired: Desired | None = None,
        rounds: int = 1000,
        seed: int = 0,
        memory: int = MEMORY,
        progress: bool | None = None,
    ) -> None:
        if over not in ("found", "all"):
            raise InputError(f"over={over!r} must be 'found' or 'all'")
        self.controls = [controls] if isinstance(controls, str) else list(controls or ())
        for name in self.controls:
            rule_of(name)
        if rounds < 1:
            raise InputError(f"rounds={rounds} must be at least 1")
        if ged_timeout is not None and not ged_timeout > 0:
            raise InputError(f"ged_timeout={ged_timeout} must be above 0 seconds, or None to leave ged_exact out")
        self.ged_timeout, self.over, self.rounds, self.seed = ged_timeout, over, rounds, seed
        self.memory, self.progress = memory, progress
        chosen = [embedders] if isinstance(embedders, Embedder) else embedders or ()
        self.similarity = CosineSimilarity(chosen) if len(chosen) else None
        self.dataset = None if dataset is None else list(dataset)
        if self.similarity is not None and self.dataset:
            self.similarity.fit(self.dataset, progress=progress)
        self.room: Surroundings | None = None
        if self.dataset:
            self.room = Surroundings.of(WaveletCharacteristic(), self.dataset, seed=seed, progress=progress)
        self.judge = None
        if model is not None:
            self.judge = Judge(
                Oracle(model, forward_fn=forward_fn, output_fn=output_fn, task=task, desired=desired, relaxation="none")
            )
        self.seen: tuple[list[Data], dict[str, Tensor]] | None = None  # the last call's originals, their vectors

    def __call__(
        self, counterfactuals: Sequence[Counterfactual], labels: Sequence[Label] | Tensor | None = None
    ) -> Evaluation:
        """Measure one set.

        Args:
            counterfactuals: One a graph.
            labels: As for :func:`evaluate`.

        Raises:
            InputError: As :func:`evaluate` does.
        """
        sample = Sample.of(counterfactuals, labels)
        if self.judge is not None and any(cf.node is not None for cf in counterfactuals):
            raise InputError("model= judges controls of graph tasks; leave it out for counterfactuals of nodes")
        sample.judge, sample.dataset = self.judge, self.dataset
        real = sample.originals if self.dataset is None else self.dataset
        _same_columns(sample.originals, real)
        similarity = self.similarity
        if similarity is not None and self.dataset is None:  # nothing may stay of graphs that come another time
            similarity = CosineSimilarity(copy.deepcopy(similarity.embedders))
            similarity = similarity.fit(real, progress=self.progress) if real else None
        if self.ged_timeout is not None:
            sample.exact = _exact(sample, self.ged_timeout, self.progress)
        measure = _Measure(self, similarity, self._originals(sample, similarity))
        values, figures = measure(sample)
        beside = {name: measure(control_sample(sample, name, seed=self.seed))[1] for name in self.controls}
        names = () if similarity is None else tuple(e.name for e in similarity.embedders)
        return Evaluation(len(sample), figures, values, beside, names, self.over)

    def _originals(self, sample: Sample, similarity: CosineSimilarity | None) -> dict[str, Tensor]:
        """Vectors of the originals; those of the last call where they are the same objects."""
        seen = self.seen
        same = seen is not None and len(seen[0]) == len(sample)
        if seen is None or not same or not all(a is b for a, b in zip(seen[0], sample.originals, strict=True)):
            seen = sample.originals, self.vectors(sample.originals, similarity)
        self.seen = seen if self.dataset is not None else None
        return seen[1]

    def vectors(self, graphs: Sequence[Data], similarity: CosineSimilarity | None) -> dict[str, Tensor]:
        """Vectors of graphs in every space that is looked at."""
        found = {} if similarity is None else similarity.embed(graphs, memory=self.memory, progress=self.progress)
        if self.room is not None and SPACE not in found:
            found[SPACE] = WaveletCharacteristic().transform(graphs, memory=self.memory, progress=self.progress)
        return found


def _same_columns(originals: Sequence[Data], real: Sequence[Data]) -> None:
    """The real graphs are of the dataset that was explained, as far as can be seen."""
    widths = [
        {None if g.x is None else g.x.reshape(g.x.shape[0], -1).shape[1] for g in part} for part in (originals, real)
    ]
    if originals and real and widths[0] != widths[1]:
        theirs, ours = (", ".join(map(str, sorted(w, key=str))) for w in widths[::-1])
        raise InputError(f"the graphs of dataset= have {theirs} feature columns, those of the counterfactuals {ours}")


def _exact(sample: Sample, timeout: float, progress: bool | None) -> Tensor:
    """Exact distances of what was found; NaN for directed graphs, whose arcs networkx' search would join."""
    out = sample.nothing
    rows = (sample.found & ~sample.directed).nonzero().flatten().tolist()
    for k in tqdm(rows, desc="exact distance", unit="graph", delay=2, leave=False, disable=hidden(progress)):
        out[k] = exact_ged(sample.originals[k], sample.edited[k], timeout=timeout)
    return out


class _Measure:
    """Measures a sample and its controls, which share the originals and so their vectors.

    Args:
        asked: What is asked.
        similarity: Fitted; ``None`` to leave similarity out.
        originals: Vectors of the originals.
    """

    def __init__(self, asked: Evaluator, similarity: CosineSimilarity | None, originals: dict[str, Tensor]) -> None:
        self.asked, self.similarity, self.originals = asked, similarity, originals

    def __call__(self, sample: Sample) -> tuple[dict[str, Tensor], dict[str, Aggregate]]:
        asked = self.asked
        edited = asked.vectors(sample.edited, self.similarity)
        if self.similarity is not None:
            sample.cosines = self.similarity.score(self.originals, edited).values
        if asked.room is not None:
            changed = sample.found & (sample.ged > 0)
            sample.near = asked.room.near(changed, sample.after, self.originals[SPACE], edited[SPACE])
        sample.over_all = asked.over == "all"
        values, figures = {}, {}
        for name, m in METRICS.items():
            value = m.compute(sample)
            if m.whole:
                figures[name] = _of_whole(value, int(sample.found.sum()))
            else:
                values[name] = value
                figures[name] = aggregate(value, rounds=asked.rounds, seed=asked.seed)
        return values, figures


def _of_whole(value: Tensor, count: int) -> Aggregate:
    """A figure of the set, with its own bootstrap samples after it.

    A sample holds some graphs twice and is farther from another than the set is; that shift is taken back.
    """
    if not count:
        return Aggregate(math.nan, math.nan, 0, math.nan, math.nan)
    around = value[1:] - value[1:].mean() + value[0]
    low, high = torch.quantile(around, torch.tensor([0.025, 0.975], dtype=torch.float64)).clamp(min=0).tolist()
    return Aggregate(float(value[0]), math.nan, count, low, high)


def _beside(control: Aggregate, count: int, digits: int) -> str:
    """A control's mean; over how many graphs where they are not as many as the answers."""
    mean = _shown(control.mean, digits)
    return mean if control.count in (0, count) else f"{mean} ({control.count})"


def _shown(value: float, digits: int) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"

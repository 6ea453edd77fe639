"""From logits to decisions: predicted label, its probability, and the margin that a counterfactual makes negative."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any, Literal, SupportsIndex

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.errors import InputError

__all__ = ["Decision", "Desired", "JointDecision", "Label", "LabelDecision", "Task"]

Task = Literal["multiclass", "binary", "multilabel", "regression"]
Label = int | float | tuple[int, ...]
Desired = SupportsIndex | set[int] | frozenset[int] | list[int] | dict[int, int] | tuple[float, float]


@dataclass(frozen=True)
class Decision:
    """How outputs of shape ``(K, C)`` are read.

    - ``multiclass``: softmax over C classes; a counterfactual changes the argmax, or makes it a wished class.
    - ``binary``: one logit; classes 0 and 1.
    - ``multilabel``: C independent logits; a counterfactual changes any bit, or gives all wished ones.
    - ``regression``: one value; a counterfactual brings it inside the wished range.

    Args:
        task: One of the four.
        classes: The wished classes (multiclass, binary); any other class when empty.
        bits: The wished labels as pairs (label, 0 or 1) (multilabel); any change when empty.
        interval: The wished range (regression).
        probabilities: Rows that are none below zero and sum to one are shown as the probabilities that they are.

    Example:
        >>> d = Decision("multiclass")
        >>> z = torch.tensor([[2.0, 0.5, 1.0]])
        >>> d.labels(z).tolist(), d.margins(z, d.labels(z)).tolist()
        ([0], [1.0])
    """

    task: Task
    classes: tuple[int, ...] = ()
    bits: tuple[tuple[int, int], ...] = ()
    interval: tuple[float, float] | None = None
    probabilities: bool = False

    @property
    def flat(self) -> bool:
        """Whether margins say nothing but yes or no, so that no edit can be called better than another."""
        return False

    @classmethod
    def infer(cls, outputs: int, task: Task | None, desired: Desired | None) -> Decision:
        """Choose the task from the number of outputs and from what is wished when the user named none.

        Args:
            outputs: Width of the model's output.
            task: What the user says it is.
            desired: A class, several classes (set or list), ``{label: bit}`` or a range ``(lo, hi)``.

        Raises:
            InputError: When they do not fit together.
        """
        if task is None:
            guess: Task = "binary" if outputs == 1 else "multiclass"
            task = "regression" if isinstance(desired, tuple) else "multilabel" if isinstance(desired, dict) else guess
        if task not in ("multiclass", "binary", "multilabel", "regression"):
            raise InputError(f"task={task!r} is unknown; use multiclass, binary, multilabel or regression")
        if task in ("binary", "regression") and outputs != 1:
            raise InputError(f"task={task!r} is read from one output, the model gives {outputs}")
        if task == "multiclass" and outputs < 2:
            raise InputError("task='multiclass' needs at least two outputs; a single logit is task='binary'")
        if task == "regression":
            return cls(task, interval=_interval(desired))
        if task == "multilabel":
            return cls(task, bits=_bits(desired, outputs))
        return cls(task, classes=_classes(desired, 2 if task == "binary" else outputs))

    @property
    def scored(self) -> bool:
        """Whether outputs are scores of classes, one of which a graph has."""
        return self.task in ("multiclass", "binary")

    def log_chance(self, z: Tensor, y0: Tensor) -> Tensor:
        """``log(1 - p_{y0})``, with wished classes the log of their probability: that of a counterfactual, ``(K,)``.

        Where outputs are no class scores, that of the sigmoid of the margin turned round.

        Shapes:
            z: ``(K, C)``; y0: ``(K,)`` or ``(K, C)``.
        """
        if not self.scored:
            return F.logsigmoid(-self.margins(z, y0))
        s = self.scores(z)
        goal = ~F.one_hot(y0, s.shape[1]).bool()
        if self.classes:
            goal = torch.zeros_like(goal)
            goal[:, list(self.classes)] = True
        return s.masked_fill(~goal, float("-inf")).logsumexp(1) - s.logsumexp(1)

    def scores(self, z: Tensor) -> Tensor:
        """Class scores ``(K, C)``; a single logit z becomes (0, z), whose softmax is its sigmoid."""
        return torch.cat([torch.zeros_like(z), z], 1) if self.task == "binary" else z

    def labels(self, z: Tensor) -> Tensor:
        """Predicted labels: ``(K,)`` classes or values, ``(K, C)`` bits for multilabel."""
        if self.task == "multilabel":
            return (z > 0).long()
        if self.task == "regression":
            return z[:, 0]
        return self.scores(z).argmax(1)

    def rivals(self, z: Tensor, y0: Tensor, count: int) -> Tensor:
        """Margins towards the ``count`` nearest goals, nearest first; column 0 is :meth:`margins`.

        Args:
            z: Outputs.
            y0: Labels of the original graphs.
            count: How many goals at most.

        Shapes:
            z: ``(K, C)``; y0: ``(K,)`` or ``(K, C)``; returns ``(K, r)``, ``r <= count``.
        """
        if self.interval is not None:
            lo, hi = self.interval
            return torch.maximum(lo - z, z - hi)
        if self.bits:
            labels, wished = torch.tensor(self.bits, device=z.device).t()
            return (z[:, labels] * (1 - 2 * wished).to(z.dtype)).amax(1, keepdim=True)
        if self.task == "multilabel":
            signed = z * (2 * y0 - 1).to(z.dtype)
            return signed.topk(min(count, z.shape[1]), dim=1, largest=False).values
        s = self.scores(z)
        if self.classes:
            wished = torch.zeros(s.shape[1], dtype=torch.bool, device=s.device)
            wished[list(self.classes)] = True
            others = s.masked_fill(wished, float("-inf")).amax(1, keepdim=True)
            return others - s[:, wished].topk(min(count, len(self.classes)), dim=1).values
        own = s.gather(1, y0[:, None])
        others = s.scatter(1, y0[:, None], float("-inf"))
        return own - others.topk(min(count, s.shape[1] - 1), dim=1).values

    def margins(self, z: Tensor, y0: Tensor) -> Tensor:
        """``(K,)``; below zero exactly when the graph is a counterfactual (ties are none)."""
        return self.rivals(z, y0, 1)[:, 0]

    def flips(self, z: Tensor, y0: Tensor) -> Tensor:
        """``(K,)``, whether each output is a counterfactual of label ``y0``."""
        return self.margins(z, y0) < 0

    def prediction_loss(self, z: Tensor, y0: Tensor) -> Tensor:
        """Cross-entropy with the original label, ``(K,)`` (paper, eq. loss_pred without sign and gate)."""
        if self.task == "multilabel":
            return F.binary_cross_entropy_with_logits(z, y0.to(z.dtype), reduction="none").sum(1)
        if self.task == "regression":
            return -self.margins(z, y0)
        return F.cross_entropy(self.scores(z), y0, reduction="none")

    def read(self, z: Tensor) -> list[tuple[Label, float]]:
        """Label and its probability for each row (a regression value has probability 1), to nine digits."""
        labels = self.labels(z)
        if self.task == "regression":
            return [(_shown(v), 1.0) for v in labels.tolist()]
        if self.task == "multilabel":
            p = torch.sigmoid(z)
            sure = torch.where(labels.bool(), p, 1 - p).prod(1)
            return [(tuple(r), _shown(q)) for r, q in zip(labels.tolist(), sure.tolist(), strict=True)]
        p = self.scores(z).softmax(1)
        if self.probabilities:
            already = (z >= 0).all(1, keepdim=True) & ((z.sum(1, keepdim=True) - 1).abs() < 1e-5)
            p = torch.where(already, z, p)
        p = p.gather(1, labels[:, None])[:, 0]
        return [(int(v), _shown(q)) for v, q in zip(labels.tolist(), p.tolist(), strict=True)]


@dataclass(frozen=True)
class JointDecision(Decision):
    """One decision about several nodes at once: all of them have to change (or become what is wished).

    Outputs hold the rows of ``T`` targets side by side, ``(K, T * C)``; labels are ``(K, T)`` or ``(K, T, C)``.

    Args:
        targets: ``T``.
    """

    targets: int = 1

    @property
    def scored(self) -> bool:
        """Outputs are the scores of several nodes, side by side."""
        return False

    @property
    def single(self) -> Decision:
        """The decision about one of them."""
        return Decision(**{f.name: getattr(self, f.name) for f in fields(Decision)})

    def _rows(self, z: Tensor) -> Tensor:
        return z.reshape(len(z) * self.targets, -1)

    def labels(self, z: Tensor) -> Tensor:
        """Labels of the targets, ``(K, T)``; ``(K, T, C)`` for multilabel."""
        found = self.single.labels(self._rows(z))
        return found.reshape(len(z), self.targets, *found.shape[1:])

    def rivals(self, z: Tensor, y0: Tensor, count: int) -> Tensor:
        """The margin of the target that is furthest from its goal, ``(K, 1)``."""
        each = self.single.rivals(self._rows(z), y0.flatten(0, 1), 1)
        return each.reshape(len(z), self.targets).amax(1, keepdim=True)

    def prediction_loss(self, z: Tensor, y0: Tensor) -> Tensor:
        """The targets' losses together, ``(K,)``."""
        if self.task == "regression":
            return -self.margins(z, y0)
        return self.single.prediction_loss(self._rows(z), y0.flatten(0, 1)).reshape(len(z), self.targets).sum(1)

    def read(self, z: Tensor) -> list[tuple[Label, float]]:
        """Labels of the targets and the product of their probabilities."""
        each = self.single.read(self._rows(z))
        out: list[tuple[Label, float]] = []
        for k in range(len(z)):
            part = each[k * self.targets : (k + 1) * self.targets]
            labels: list[Any] = []
            for label, _ in part:
                labels.extend(label if isinstance(label, tuple) else [label])
            sure = 1.0
            for _, p in part:
                sure *= p
            out.append((tuple(labels), _shown(sure)))
        return out


@dataclass(frozen=True)
class LabelDecision(Decision):
    """A decision of which the label is all that is known; outputs are the labels themselves, ``(K, 1)``.

    The margin is 1 where the label is the old one (or none of the wished ones), -1 elsewhere.

    Example:
        >>> d = LabelDecision.of(None)
        >>> d.margins(torch.tensor([[4.0], [7.0]]), torch.tensor([4, 4])).tolist()
        [1.0, -1.0]
    """

    @classmethod
    def of(cls, desired: Desired | None) -> LabelDecision:
        """Any other label, or the wished ones; how many labels there are is not known."""
        if isinstance(desired, tuple | dict):
            raise InputError(f"desired={desired!r}: the function returns labels, name one of them or a set")
        given = [] if desired is None else desired if isinstance(desired, set | frozenset | list) else [desired]
        return cls("multiclass", tuple(sorted({_number(c, desired) for c in given})))

    @property
    def flat(self) -> bool:
        """It is."""
        return True

    @property
    def scored(self) -> bool:
        """Outputs are names."""
        return False

    def labels(self, z: Tensor) -> Tensor:
        """The labels, ``(K,)``."""
        return z[:, 0].round().long()

    def rivals(self, z: Tensor, y0: Tensor, count: int) -> Tensor:
        """1 or -1, ``(K, 1)``."""
        labels = self.labels(z)
        done = labels != y0
        if self.classes:
            done = torch.isin(labels, torch.tensor(self.classes, device=z.device))
        return torch.where(done, -1.0, 1.0).to(z.dtype)[:, None]

    def prediction_loss(self, z: Tensor, y0: Tensor) -> Tensor:
        """The margin turned round, ``(K,)``; it has no slope."""
        return -self.margins(z, y0)

    def read(self, z: Tensor) -> list[tuple[Label, float]]:
        """Each label; that it is said is certain."""
        return [(int(v), 1.0) for v in self.labels(z).tolist()]


def _classes(desired: Desired | None, classes: int) -> tuple[int, ...]:
    if desired is None:
        return ()
    if isinstance(desired, tuple | dict):
        raise InputError(
            f"desired={desired!r} is for {'regression' if isinstance(desired, tuple) else 'multilabel'} models; "
            f"this one has classes 0..{classes - 1}: name one, or a set of them"
        )
    found = sorted(
        {_number(c, desired) for c in (desired if isinstance(desired, set | frozenset | list) else [desired])}
    )
    if not found or not 0 <= found[0] <= found[-1] < classes or len(found) == classes:
        raise InputError(f"desired={desired!r} must be some, not all, of the model's classes 0..{classes - 1}")
    return tuple(found)


def _bits(desired: Desired | None, labels: int) -> tuple[tuple[int, int], ...]:
    if desired is None:
        return ()
    if not isinstance(desired, dict) or not desired:
        raise InputError(f"desired={desired!r}: a multilabel wish is a dict like {{label: 0 or 1}}")
    found = sorted((_number(k, desired), _number(v, desired)) for k, v in desired.items())
    if any(not 0 <= k < labels or v not in (0, 1) for k, v in found):
        raise InputError(f"desired={desired!r} must give labels 0..{labels - 1} the values 0 or 1")
    return tuple(found)


def _interval(desired: Desired | None) -> tuple[float, float]:
    if not isinstance(desired, tuple) or len(desired) != 2 or not desired[0] < desired[1]:
        raise InputError(f"a regression model needs desired=(lo, hi) with lo < hi, got {desired}")
    return float(desired[0]), float(desired[1])


def _number(value: Any, whole: Any) -> int:
    try:
        return int(operator.index(value))
    except TypeError as e:
        raise InputError(f"desired={whole!r}: {value!r} is no whole number") from e


def _shown(value: float) -> float:
    """Nine significant digits: what is left of a double when batches of another shape round differently."""
    return float(f"{value:.9g}")

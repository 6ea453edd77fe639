"""From logits to decisions: predicted label, its probability, and the margin that a counterfactual makes negative."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.errors import InputError

__all__ = ["Decision", "Label", "Task"]

Task = Literal["multiclass", "binary", "multilabel", "regression"]
Label = int | float | tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """How outputs of shape ``(K, C)`` are read.

    - ``multiclass``: softmax over C classes; a counterfactual changes the argmax, or makes it ``target``.
    - ``binary``: one logit; classes 0 and 1.
    - ``multilabel``: C independent logits; a counterfactual changes any bit.
    - ``regression``: one value; a counterfactual brings it inside ``desired = (lo, hi)``.

    Args:
        task: One of the four.
        target: The wished class (multiclass, binary); any other class when ``None``.
        desired: The wished range (regression).

    Example:
        >>> d = Decision("multiclass")
        >>> z = torch.tensor([[2.0, 0.5, 1.0]])
        >>> d.labels(z).tolist(), d.margins(z, d.labels(z)).tolist()
        ([0], [1.0])
    """

    task: Task
    target: int | None = None
    desired: tuple[float, float] | None = None

    @classmethod
    def infer(
        cls, outputs: int, task: Task | None, target: int | None, desired: tuple[float, float] | None
    ) -> Decision:
        """Choose the task from the number of outputs when the user named none.

        Raises:
            InputError: When task, target and desired do not fit together.
        """
        if task is None:
            task = "regression" if desired is not None else "binary" if outputs == 1 else "multiclass"
        if task not in ("multiclass", "binary", "multilabel", "regression"):
            raise InputError(f"task={task!r} is unknown; use multiclass, binary, multilabel or regression")
        if task == "regression":
            if desired is None or len(desired) != 2 or not desired[0] < desired[1]:
                raise InputError(f"a regression model needs desired=(lo, hi) with lo < hi, got {desired}")
            if outputs != 1:
                raise InputError(f"regression is read from one output, the model gives {outputs}")
        elif desired is not None:
            raise InputError(f"desired= is for regression; for task={task!r} use target=")
        if task in ("binary", "regression") and outputs != 1:
            raise InputError(f"task={task!r} is read from one output, the model gives {outputs}")
        if task == "multiclass" and outputs < 2:
            raise InputError("task='multiclass' needs at least two outputs; a single logit is task='binary'")
        classes = {"multiclass": outputs, "binary": 2}.get(task, 0)
        if target is not None:
            try:
                target = int(operator.index(target))
            except TypeError as e:
                raise InputError(f"target={target!r} is no class number") from e
        if target is not None and not 0 <= target < classes:
            raise InputError(
                f"target={target} is no class of this model"
                + (f" (classes 0..{classes - 1})" if classes else f": task={task!r} has no target class")
            )
        return cls(task, target, desired)

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
        if self.task == "regression" and self.desired is not None:
            lo, hi = self.desired
            return torch.maximum(lo - z, z - hi)
        if self.task == "multilabel":
            signed = z * (2 * y0 - 1).to(z.dtype)
            return signed.topk(min(count, z.shape[1]), dim=1, largest=False).values
        s = self.scores(z)
        if self.target is not None:
            others = s.scatter(1, torch.full_like(y0[:, None], self.target), float("-inf"))
            return (others.max(1).values - s[:, self.target])[:, None]
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
        p = self.scores(z).softmax(1).gather(1, labels[:, None])[:, 0]
        return [(int(v), _shown(q)) for v, q in zip(labels.tolist(), p.tolist(), strict=True)]


def _shown(value: float) -> float:
    """Nine significant digits: what is left of a double when batches of another shape round differently."""
    return float(f"{value:.9g}")

"""What mask methods descend on: losses of the model's output, one number a graph, for every kind of task."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.decision import Decision
from counteredge.engine.search import Search

__all__ = ["Targets", "probability_margin", "reached", "targets", "towards"]

Targets = Literal["runner_up", "next", "all"]


def targets(search: Search, rows: Tensor, policy: Targets) -> tuple[Tensor, Tensor]:
    """Which class each graph is to become, for methods that aim at one.

    - ``runner_up``: the likeliest class that is wished, or any other than now;
    - ``next``: class ``(y0 + 1) mod C``; the next one that is wished;
    - ``all``: each of them in turn.

    Where outputs are no class scores (several labels, a regression, several nodes at once) there is no class to aim at:
    the target is -1, and :func:`towards` then moves the margin.

    Args:
        search: The batch.
        rows: Which graphs.
        policy: See above.

    Shapes:
        rows: ``(R,)``; returns ``(T,)`` rows, repeated for several targets, and their ``(T,)`` targets.
    """
    decision = search.oracle.decision
    if not decision.scored:
        return rows, torch.full_like(rows, -1)
    scores = decision.scores(search.before[rows])
    count = scores.shape[1]
    wished = torch.ones(count, dtype=torch.bool)
    if decision.classes:
        wished[:] = False
        wished[list(decision.classes)] = True
    own = F.one_hot(search.y0[rows], count).bool()
    open_classes = wished & ~own
    if policy == "all":
        at, target = open_classes.nonzero(as_tuple=True)
        return rows[at], target
    if policy == "next":
        steps = (torch.arange(count) - search.y0[rows, None] - 1) % count
        return rows, steps.masked_fill(~open_classes, count).argmin(1)
    return rows, scores.masked_fill(~open_classes, float("-inf")).argmax(1)


def towards(decision: Decision, z: Tensor, y0: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy with the target class, ``-log p_target``; ``softplus(margin)`` where there is no target.

    Args:
        decision: How outputs are read.
        z: Outputs.
        y0: Labels of the original graphs.
        target: The classes aimed at, -1 where there is none.

    Shapes:
        z: ``(K, C)``; y0, target: ``(K,)``; returns ``(K,)``.
    """
    if not decision.scored:
        return F.softplus(decision.margins(z, y0))
    return F.cross_entropy(decision.scores(z), target, reduction="none")


def reached(decision: Decision, z: Tensor, target: Tensor, flips: Tensor) -> Tensor:
    """Which of the flips are flips to the target, ``(K,)``."""
    return flips & (decision.labels(z) == target) if decision.scored else flips


def probability_margin(decision: Decision, z: Tensor, y0: Tensor) -> Tensor:
    """``p_{y0} - max_{c != y0} p_c``, or with wished classes: best other one minus best wished one.

    The hyperbolic tangent of half the margin, which two classes' probabilities give, where there are no classes.

    Shapes:
        z: ``(K, C)``; y0: ``(K,)``; returns ``(K,)``, in [-1, 1].
    """
    if not decision.scored:
        return torch.tanh(decision.margins(z, y0) / 2)
    p = decision.scores(z).softmax(1)
    mine = F.one_hot(y0, p.shape[1]).bool()
    if decision.classes:
        mine = torch.ones_like(mine)
        mine[:, list(decision.classes)] = False
    kept = p.masked_fill(~mine, float("-inf")).amax(1)
    return kept - p.masked_fill(mine, float("-inf")).amax(1)

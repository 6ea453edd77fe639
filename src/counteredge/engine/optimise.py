"""The mask engine: gradient steps on the variables behind edges and features, discrete graphs kept on the way.

A method is a :class:`Masks` (candidate pairs, start, relaxation, loss) and a :class:`Schedule` (steps, optimiser,
which of the discrete graphs is the answer). XPlore, CF-GNNExplainer, CF2, COMBINEX and C2Explainer are such pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group
from counteredge.errors import InputError

__all__ = ["Masks", "Schedule", "Step", "optimise"]


@dataclass(frozen=True)
class Schedule:
    """How the variables are moved, and which discrete graph is kept.

    Args:
        iterations: Steps, K.
        lr: Step size.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adadelta"``.
        momentum: Of SGD, in Nesterov's form.
        clip: Largest norm of one graph's gradient; ``None`` is no limit.
        select: Of the discrete graphs that are counterfactuals the one of lowest cost (``"best"``), the first, after
            which the graph is done (``"first"``), or the one that the last step leaves (``"last"``).
        later: Of two that cost the same, the later one is kept.
        passes: Evaluations of the model a step.
        held: Graphs that one of its relaxed passes holds for each graph.
    """

    iterations: int = 50
    lr: float = 0.1
    optimizer: Literal["sgd", "adam", "adadelta"] = "sgd"
    momentum: float = 0.0
    clip: float | None = None
    select: Literal["best", "first", "last"] = "best"
    later: bool = False
    passes: int = 1
    held: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.iterations, int) or isinstance(self.iterations, bool) or self.iterations < 1:
            raise InputError(f"iterations must be a whole number >= 1, got {self.iterations!r}")
        for name, value, least in (("lr", self.lr, 0.0), ("clip", 1.0 if self.clip is None else self.clip, 0.0)):
            if not isinstance(value, int | float) or not value > least:
                raise InputError(f"{name} must be a number above 0, got {value!r}")
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum!r}")
        if self.momentum and self.optimizer != "sgd":
            raise InputError(f"momentum= belongs to optimizer='sgd' and does nothing with {self.optimizer!r}")
        for name, chosen, known in (
            ("optimizer", self.optimizer, ("sgd", "adam", "adadelta")),
            ("select", self.select, ("best", "first", "last")),
        ):
            if chosen not in known:
                raise InputError(f"{name}={chosen!r} is unknown; use {', '.join(known)}")


@dataclass
class Step:
    """One step of ``S`` graphs.

    Attributes:
        loss: What is descended on, one number a graph; ``None`` where only the candidate is asked for.
        state: The discrete graphs at this step; ``None`` when none was looked at.
        valid: Which of them are counterfactuals.
        cost: What they are compared by.

    Shapes:
        loss, valid, cost: ``(S,)``.
    """

    loss: Tensor | None
    state: State | None = None
    valid: Tensor | None = None
    cost: Tensor | None = None


class Masks(ABC):
    """The variables of ``S`` graphs of a batch: a method's candidate pairs, start, relaxation and loss.

    Args:
        search: The batch.
        rows: Which graphs, ``(S,)``; one may stand there several times, with several targets.

    Attributes:
        leaves: The variables, each with the graphs in its first dimension.
        a, x, y0: The original graphs and their labels.
        flip, editable: Pairs and entries that may change.
        deletable: Edges that may go.

    Shapes:
        a, flip, deletable: ``(S, n, n)``; x, editable: ``(S, n, f)``; y0: ``(S, ...)``.
    """

    leaves: list[Tensor]

    def __init__(self, search: Search, rows: Tensor) -> None:
        self.search = search
        self._cut(rows)

    def _cut(self, rows: Tensor) -> None:
        search = self.search
        self.rows = rows
        self.a, self.x, self.y0 = search.base.adj[rows], search.base.x[rows], search.y0[rows]
        self.flip, self.editable = search.moves.allowed.flip[rows], search.moves.allowed.features[rows]
        self.deletable = self.flip & (self.a > 0.5)

    @abstractmethod
    def step(self, t: int) -> Step:
        """Loss and, where the method looks at it, the discrete graph at step ``t`` (from 0)."""

    def last(self) -> Step:
        """The discrete graph that the variables stand for now, for ``select="last"``."""
        raise TypeError(f"{type(self).__name__} has no last step to select")

    def project(self) -> None:  # noqa: B027 - most methods have nothing to do here
        """Move variables back to where they may be, after each step."""

    def keep(self, at: Tensor) -> None:
        """Go on with some of the graphs only."""
        self._cut(self.rows[at])
        self.leaves = [leaf.detach()[at].requires_grad_() for leaf in self.leaves]

    # -- parts that methods share ------------------------------------------------------------------------------------

    def mirrored(self, p: Tensor) -> Tensor:
        """One variable a pair: the upper triangle counts, both ways; every arc its own where edits are directed."""
        if self.search.base.directed:
            return p
        upper = p.triu(1)
        return upper + upper.transpose(1, 2)

    def averaged(self, w: Tensor) -> Tensor:
        """Two variables a pair, and their mean; every arc its own where edits are directed."""
        return w if self.search.base.directed else (w + w.transpose(1, 2)) / 2

    def judged(self, state: State) -> tuple[Tensor, Tensor]:
        """Margins of discrete graphs, and which are counterfactuals; counted calls."""
        return self.search.margins(state)

    def pair_count(self, weights: Tensor) -> Tensor:
        """Sum over pairs, undirected ones once, ``(S,)``."""
        return weights.flatten(1).sum(1) / (1 if self.search.base.directed else 2)


def optimise(
    search: Search,
    rows: Tensor,
    make: Callable[[Tensor], Masks],
    schedule: Schedule,
    *,
    stage: str,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Run a mask method on some graphs and record the discrete graph that each has to show.

    Graphs that have an answer keep it where it is the cheaper one. A graph for which the calls of all steps are not
    there is not begun.

    Args:
        search: The batch.
        rows: Which graphs, ``(R,)``; repeated for several targets.
        make: Makes the variables of ``rows[at]`` from ``at``, ``(S,)``.
        schedule: How they are moved.
        stage: Name under which answers are recorded.
        tick: Called after each step.
    """
    times = torch.bincount(rows, minlength=search.base.size)[rows]
    calls = times * (schedule.iterations * schedule.passes + int(schedule.select == "last"))
    at = search.affordable(rows, calls).nonzero().flatten()
    if not len(at):
        return
    width = max(1, search.oracle.chunk(search.base, gradients=True) // schedule.held)
    parts = [_optimise(search, make(part), schedule, times[part], tick) for part in torch.split(at, width)]
    # of a graph that had several targets the best one counts, wherever the batch was cut
    state, cost = State.cat([k.state for k in parts]), torch.cat([k.cost for k in parts])
    found = torch.isfinite(cost).nonzero().flatten()
    found = found[best_in_group(state.row[found], [search.snap(cost[found])])]
    search.settle(state[found], stage)


def _optimise(search: Search, masks: Masks, schedule: Schedule, times: Tensor, tick: Callable[[], None]) -> _Kept:
    size = len(masks.rows)
    optimizer = _optimizer(masks.leaves, schedule)
    kept = _Kept(masks, schedule, times)
    live = torch.arange(size)
    for t in range(schedule.iterations):
        if search.late():
            search.stopped[masks.rows] = True
            break
        now = masks.step(t)
        if now.loss is None:
            raise TypeError(f"{type(masks).__name__}.step gave no loss")
        better = kept.record(now, live, t) if schedule.select != "last" else live[:0]
        grads = torch.autograd.grad(now.loss.sum(), masks.leaves, allow_unused=True)
        done = torch.zeros(len(live), dtype=torch.bool)
        if schedule.select == "first":
            done[better] = True
        still = torch.ones(len(live), dtype=torch.bool)
        for leaf, grad in zip(masks.leaves, _clipped(grads, masks.leaves, schedule.clip), strict=True):
            leaf.grad = grad
            still &= ~(grad != 0).flatten(1).any(1)
        if schedule.optimizer == "sgd" and not schedule.momentum and schedule.select != "last":
            done |= still  # nothing moves this graph any more: every further step would see the same
        optimizer.step()
        with torch.no_grad():
            masks.project()
        tick()
        if bool(done.any()):
            left = (~done).nonzero().flatten()
            optimizer = _carried(optimizer, masks, left, schedule)
            live = live[left]
            if not len(live):
                break
    else:
        if schedule.select == "last":
            kept.record(masks.last(), live, schedule.iterations)
    return kept


class _Kept:
    """The best discrete graph of each so far."""

    def __init__(self, masks: Masks, schedule: Schedule, times: Tensor) -> None:
        self.search, self.schedule, self.times = masks.search, schedule, times
        self.state = State(masks.rows, masks.a.clone(), masks.x.clone())
        self.cost = torch.full((len(masks.rows),), float("inf"), dtype=torch.float64)
        # where new edges lead messages in from beyond the part that is searched, its word is not enough
        adds = (masks.flip & (masks.a < 0.5)).flatten(1).any(1)
        self.doubtful = adds & masks.search.oracle.partial(masks.search.base.ids[masks.rows])
        self.refused = torch.zeros_like(self.state.adj, dtype=torch.bool)

    def record(self, now: Step, live: Tensor, t: int) -> Tensor:
        """Keep the candidates that better what was kept; returns which of the live graphs these are."""
        if now.state is None or now.valid is None or now.cost is None:
            return live[:0]
        # features are returned in the user's own dtype: what is kept is what is returned
        dtype = self.search.base.graphs[0].x.dtype
        now.state.x = now.state.x.to(dtype).to(now.state.x.dtype)
        nearer = now.cost <= self.cost[live] if self.schedule.later else now.cost < self.cost[live]
        better = (now.valid & nearer).nonzero().flatten()
        if bool(self.doubtful[live[better]].any()):
            better = self._agreed(now.state, better, live, t)
        self.cost[live[better]] = now.cost[better].detach()
        self.state.adj[live[better]], self.state.x[live[better]] = now.state.adj[better], now.state.x[better]
        return better

    def _agreed(self, state: State, better: Tensor, live: Tensor, t: int) -> Tensor:
        """Those of the candidates that the untouched model confirms at once, where the search's word is not enough."""
        search, schedule = self.search, self.schedule
        doubtful = self.doubtful[live[better]]
        sure, at = better[~doubtful], better[doubtful]
        at = at[((state.adj[at] > 0.5) != self.refused[live[at]]).flatten(1).any(1)]
        if search.budget.calls is not None:  # what the steps that are left will cost is spoken for
            spent = search.oracle.forward_calls[search.base.ids[state.row[at]]]
            left = (schedule.iterations - t) * schedule.passes * self.times[live[at]] + 2
            at = at[spent + left <= search.budget.calls]
        agreed = search.confirm(state[at])
        self.refused[live[at[~agreed]]] = state.adj[at[~agreed]] > 0.5
        return torch.cat([sure, at[agreed]]).sort().values


def _clipped(grads: tuple[Tensor | None, ...], leaves: list[Tensor], clip: float | None) -> list[Tensor]:
    """Gradients without gaps and NaN; of each graph's own norm at most ``clip``."""
    whole = [torch.zeros_like(p) if g is None else g.nan_to_num(0, 0, 0) for g, p in zip(grads, leaves, strict=True)]
    if clip is None:
        return whole
    norm = torch.stack([g.flatten(1).square().sum(1) for g in whole]).sum(0).sqrt()
    scale = (clip / (norm + 1e-6)).clamp(max=1.0)
    return [g * scale.view(-1, *[1] * (g.dim() - 1)) for g in whole]


def _optimizer(leaves: list[Tensor], schedule: Schedule) -> torch.optim.Optimizer:
    if schedule.optimizer == "adam":
        return torch.optim.Adam(leaves, lr=schedule.lr)
    if schedule.optimizer == "adadelta":
        return torch.optim.Adadelta(leaves, lr=schedule.lr)
    return torch.optim.SGD(leaves, lr=schedule.lr, momentum=schedule.momentum, nesterov=schedule.momentum > 0)


def _carried(optimizer: torch.optim.Optimizer, masks: Masks, left: Tensor, schedule: Schedule) -> torch.optim.Optimizer:
    """The optimiser of the graphs that are left, with what it remembers of them."""
    before = [optimizer.state[leaf] for leaf in masks.leaves]
    masks.keep(left)
    fresh = _optimizer(masks.leaves, schedule)
    memory: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
    for leaf, old in zip(masks.leaves, before, strict=True):
        memory[leaf] = {k: v[left] if isinstance(v, Tensor) and v.dim() else v for k, v in old.items()}
    fresh.state = memory
    return fresh

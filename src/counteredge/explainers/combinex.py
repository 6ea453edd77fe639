"""COMBINEX: edge deletions and feature changes together, one traded against the other over time."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.engine.losses import Targets, reached, targets, towards
from counteredge.engine.masks import legal_features
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import choice, flag, number, refuse_dead
from counteredge.space import EditSpace

__all__ = ["COMBINEX"]

POLICIES = ("linear", "exponential", "sinusoidal", "dynamic", "constant")


class COMBINEX(Explainer):
    """Counterfactuals by edge deletion and feature change, towards a class (Giorgi, Silvestri, Tolomei, 2025).

    A logit ``e`` a present edge, 1 at first, and ``Q`` an entry of x, 0 at first. The relaxed graph has edges
    ``sigmoid(e)`` and features ``clip(X + Q, lo, hi)``, in discrete columns
    ``clip(X + (hi - lo) tanh(Q), lo, hi)``; the discrete one has ``1[sigmoid(e) > 0.5]`` and rounds discrete columns.
    ``L = eta * CE(relaxed, y*) + (1 - a) * sum |sigmoid(e) - 1| + a * L_node``, ``eta = 0`` once both graphs are
    predicted ``y*``; ``L_node`` is the mean absolute change of discrete columns plus the mean squared change of
    continuous ones. Of the discrete graphs predicted ``y*`` the one of lowest L is the answer.

    Args:
        mode: ``"paper"``; ``"reference"``, as the authors' code: ``targets="next"``, a constant ``a = 1`` that makes
            edges free, and ``zero_centred=False``; ``"improved"``: the feature cost is a sum, as that of the edges is.
        iterations: Steps K. The paper: 500 with Adam, 2000 with SGD.
        lr: Step size.
        optimizer: ``"adam"`` or ``"sgd"``.
        policy: How ``a`` runs over the steps k: ``"linear"`` ``max(0, 1 - k / K)``; ``"exponential"`` ``exp(-k / r)``;
            ``"sinusoidal"`` ``(1 + cos(pi k / K)) / 2``; ``"dynamic"``: 0 where the edges' term is above that of the
            features, else 1; ``"constant"``.
        r: Of the exponential policy. Shipped: 0.1, where ``a`` is gone after one step; the port of others: 10.
        a0: Of the constant policy.
        targets: The class aimed at: ``"runner_up"``, ``"next"`` (``(y0 + 1) mod C``) or ``"all"`` in turn.
        node_reduce: ``"mean"``, or ``"sum"`` of the feature changes.
        zero_centred: Discrete columns start from X (a departure from the published formula, which adds ``lo``, so that
            columns whose lower bound is not 0 are shifted before anything is perturbed); ``False`` in ``reference``.
        tie_directions: One logit for both directions of an undirected edge. ``False`` averages one for each.
        seed: Nothing is drawn; for the record.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one batched pass may take.

    Example:
        >>> COMBINEX(policy="constant", a0=0.5).parameters()["policy"]
        'constant'
    """

    name: ClassVar[str] = "combinex"
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved")
    needs_gradients = True

    def __init__(
        self,
        *,
        mode: Literal["paper", "reference", "improved"] = "paper",
        iterations: int = 500,
        lr: float = 0.1,
        optimizer: Literal["adam", "sgd"] = "adam",
        policy: Literal["linear", "exponential", "sinusoidal", "dynamic", "constant"] | None = None,
        r: float | None = None,
        a0: float | None = None,
        targets: Targets | None = None,
        node_reduce: Literal["mean", "sum"] | None = None,
        zero_centred: bool | None = None,
        tie_directions: bool = True,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        reference, better = mode == "reference", mode == "improved"
        self.policy = choice("policy", ("constant" if reference else "linear") if policy is None else policy, POLICIES)
        if self.policy != "exponential":
            refuse_dead(f"policy={self.policy!r}", {"r": r})
        if self.policy != "constant":
            refuse_dead(f"policy={self.policy!r}", {"a0": a0})
        self.r = number("r", 10.0 if r is None else r, 0, open_below=True)
        self.a0 = number("a0", 1.0 if a0 is None else a0, 0, 1)
        targets = ("next" if reference else "runner_up") if targets is None else targets
        self.targets: Targets = choice("targets", targets, ("runner_up", "next", "all"))
        node_reduce = ("sum" if better else "mean") if node_reduce is None else node_reduce
        self.node_reduce = choice("node_reduce", node_reduce, ("mean", "sum"))
        self.zero_centred = flag("zero_centred", (not reference) if zero_centred is None else zero_centred)
        self.tie_directions = flag("tie_directions", tie_directions)
        self.schedule = Schedule(iterations, lr, optimizer, passes=2)
        self.copies = 24

    def parameters(self) -> dict[str, Any]:
        """The options, as they work in the chosen mode."""
        s = self.schedule
        own: dict[str, Any] = {"iterations": s.iterations, "lr": s.lr, "optimizer": s.optimizer}
        names = ("policy", "r", "a0", "targets", "node_reduce", "zero_centred", "tie_directions")
        return {**own, **{name: getattr(self, name) for name in names}, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        return f"none of the {self.schedule.iterations} graphs was predicted as the class aimed at ({self.targets})"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(add_edges=False)

    def _search(self, search: Search) -> None:
        rows, target = targets(search, search.open_rows(), self.targets)
        make = lambda at: _Masks(search, rows[at], target[at], self)  # noqa: E731
        optimise(search, rows, make, self.schedule, stage="descent")

    def weight(self, k: int, edges: Tensor, nodes: Tensor) -> Tensor:
        """``a`` at step ``k``, one number a graph.

        Shapes:
            edges, nodes: the two terms of the loss, ``(S,)``; returns ``(S,)``.
        """
        steps = self.schedule.iterations
        if self.policy == "dynamic":
            return (edges <= nodes).to(edges.dtype).detach()
        now = {
            "linear": max(0.0, 1 - k / steps),
            "exponential": math.exp(-k / self.r),
            "sinusoidal": (1 + math.cos(math.pi * k / steps)) / 2,
            "constant": self.a0,
        }[self.policy]
        return torch.full_like(edges, now).detach()


class _Masks(Masks):
    def __init__(self, search: Search, rows: Tensor, target: Tensor, explainer: COMBINEX) -> None:
        super().__init__(search, rows)
        self.of, self.target = explainer, target
        self.leaves = [torch.ones_like(self.a).requires_grad_()]
        if self.x.is_floating_point():
            self.leaves.append(torch.zeros_like(self.x).requires_grad_())
        kinds = [c.kind for c in search.moves.allowed.schema.columns]
        self.discrete = torch.tensor([kind != "continuous" for kind in kinds], device=self.a.device)

    def keep(self, at: Tensor) -> None:
        """Go on with some of the graphs only."""
        self.target = self.target[at]
        super().keep(at)

    def step(self, t: int) -> Step:
        search, of, free = self.search, self.of, self.deletable
        decision = search.oracle.decision
        s = torch.sigmoid(self.leaves[0])
        s = self.mirrored(s) if of.tie_directions else self.averaged(s)
        soft = torch.where(free, s, self.a)
        hard = torch.where(free, (s > 0.5).to(s.dtype), self.a).detach()
        x = self._features()
        state = State(self.rows, hard, legal_features(x.detach(), self.x, self.editable, search.moves))
        z = search.oracle.relaxed(search.base, self.rows, soft, x)
        y = search.oracle.logits(search.base, state.row, state.adj, state.x)
        flips = decision.margins(y, self.y0) < -search.oracle.tolerance(y)
        valid = reached(decision, y, self.target, flips & search.legal(state, flips))
        soft_too = reached(decision, z.detach(), self.target, decision.flips(z.detach(), self.y0))
        eta = (~(valid & soft_too)).to(z.dtype)
        edges = self.pair_count((soft - self.a).abs())
        nodes = self._cost(x)
        a = of.weight(t, edges.detach(), nodes.detach())
        loss = eta * towards(decision, z, self.y0, self.target) + (1 - a) * edges + a * nodes
        return Step(loss, state, valid, loss.detach())

    def _features(self) -> Tensor:
        if len(self.leaves) < 2:
            return self.x
        moves, x, q = self.search.moves, self.x, self.leaves[1]
        lo, hi = (
            torch.where(torch.isfinite(bound), bound, default).to(x.dtype)
            for bound, default in ((moves.lo, torch.zeros_like(moves.lo)), (moves.hi, torch.ones_like(moves.hi)))
        )
        start = x if self.of.zero_centred else x + lo
        moved = torch.where(self.discrete, start + (hi - lo) * torch.tanh(q), x + q)
        inside = torch.maximum(torch.minimum(moved, moves.hi.to(x.dtype)), moves.lo.to(x.dtype))
        return torch.where(self.editable, inside, x)

    def _cost(self, x: Tensor) -> Tensor:
        """What the features have moved, ``(S,)``."""
        change = (x - self.x) * self.search.base.mask[self.rows][:, :, None]
        parts = (change.abs(), self.discrete), (change.square(), ~self.discrete)
        total = torch.zeros(len(x), dtype=torch.float64)
        for moved, columns in parts:
            part = moved[..., columns].flatten(1).sum(1)
            if self.of.node_reduce == "mean":
                count = self.search.base.sizes[self.rows] * int(columns.sum())
                part = part / count.clamp(min=1)
            total = total + part
        return total

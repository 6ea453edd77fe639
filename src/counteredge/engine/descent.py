"""Mask descent on all pairs and features through straight-through estimators, the best discrete iterate kept.

The published XPlore (Algorithm 1) and the escalation of the default preset; they differ in their
:class:`DescentOptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from counteredge.engine.draws import noise_like
from counteredge.engine.masks import (
    FeatureMode,
    Surrogate,
    additive_features,
    additive_start,
    adjacency,
    bounded,
    gated,
)
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search
from counteredge.errors import InputError

__all__ = ["DescentOptions", "descend"]


@dataclass(frozen=True)
class DescentOptions:
    """The published method by default.

    Args:
        iterations: K.
        alpha: Step size.
        beta: Weight of the distance.
        features: ``None`` (edges only), ``"gating"``, ``"freedom"`` (paper) or ``"additive"``.
        loss: ``"ce"``: ``-1[same] CE`` (paper, eq. loss_pred); ``"margin"``: ``max(margin, 0)``.
        optimizer: ``"sgd"`` or ``"adam"``.
        noise: Standard deviation of the Gaussian start (paper: 0.1).
        box: Keep P in [0, 1] by projection (App. A.1) instead of logits.
        surrogate: Backward pass of the threshold (App. A.2).
        temperature: Of the sigmoid surrogate; grows to ``anneal`` times itself over the run.
        anneal: See ``temperature``.
        gamma_weights: Distance weights ``1 / (1 + gamma)`` (App. A.4).
        at_input: Start at the graph itself, on its side of the threshold, instead of at ``A + noise + Gamma``.
    """

    iterations: int = 50
    alpha: float = 0.1
    beta: float = 0.5
    features: FeatureMode | None = None
    loss: Literal["ce", "margin"] = "ce"
    optimizer: Literal["sgd", "adam"] = "sgd"
    noise: float = 0.1
    box: bool = False
    surrogate: Surrogate = "identity"
    temperature: float = 5.0
    anneal: float = 1.0
    gamma_weights: bool = False
    at_input: bool = False

    def __post_init__(self) -> None:
        if self.features not in (None, "gating", "freedom", "additive"):
            raise InputError(f"features={self.features!r} is unknown; use None, 'gating', 'freedom' or 'additive'")
        if self.surrogate not in ("identity", "sigmoid"):
            raise InputError(f"surrogate={self.surrogate!r} is unknown; use 'identity' or 'sigmoid'")
        if self.iterations < 1 or self.alpha <= 0 or self.beta < 0:
            raise InputError(f"iterations >= 1, alpha > 0 and beta >= 0 are needed, got {self}")

    @property
    def threshold(self) -> float:
        """Where an edge variable becomes an edge."""
        return 0.5 if self.box else 0.0


class _Descent(Masks):
    """P on all pairs and N (or X itself) on the features; the forward pass is the discrete graph's own."""

    def __init__(self, search: Search, rows: Tensor, options: DescentOptions, seed: int, restart: int) -> None:
        super().__init__(search, rows)
        self.options = options
        p, v = self._start(seed, restart)
        self.leaves = [t.clone().requires_grad_() for t in ((p,) if options.features is None else (p, v))]

    def _start(self, seed: int, restart: int) -> tuple[Tensor, Tensor]:
        base, options, a, x = self.search.base, self.options, self.a, self.x
        graphs = tuple(base.graphs[r] for r in self.rows.tolist())
        draw = noise_like(graphs, base.nodes, None, seed, 2 * restart).to(a.device)
        gamma = self.search.moves.allowed.gamma[self.rows]
        if options.at_input:
            # noise and prior may bring a pair near its threshold, never across it
            shift = (options.noise * draw + gamma * (1 - a)).clamp(-0.24, 0.24)
            p = options.threshold + 0.5 * (a - 0.5) + shift
        else:
            p = a + options.noise * draw + gamma
        if options.box:
            p = p.clamp(0, 1)
        if options.features == "additive":
            draw = noise_like(graphs, base.nodes, x.shape[2], seed, 2 * restart + 1).to(a.device)
            return p, additive_start(x, self.search.moves) + options.noise * draw.clamp(-2, 2) * 0.5
        return p, torch.ones_like(x, dtype=torch.float64)

    def step(self, t: int) -> Step:
        search, options = self.search, self.options
        moves, decision = search.moves, search.oracle.decision
        a, x = self.a, self.x
        heat = options.temperature * options.anneal ** (t / max(1, options.iterations - 1))
        p = self.mirrored(self.leaves[0])
        soft = adjacency(p, threshold=options.threshold, surrogate=options.surrogate, temperature=heat)
        a_hat = torch.where(self.flip, soft, a)
        x_hat = self._features()
        z = search.oracle.relaxed(search.base, self.rows, a_hat, x_hat)
        margin = decision.margins(z, self.y0)
        gamma = moves.allowed.gamma[self.rows]
        weight = 1 / (1 + gamma).clamp(min=1e-6) if options.gamma_weights else 1.0
        distance = (weight * (a - a_hat).abs()).flatten(1).sum(1) + (x - x_hat).abs().flatten(1).sum(1)
        state = State(self.rows, a_hat.detach(), x_hat.detach())
        valid = (margin < -search.oracle.tolerance(z)).detach()
        valid = valid & search.legal(state, valid)
        if options.loss == "ce":
            prediction = -(~valid).to(z.dtype) * decision.prediction_loss(z, self.y0)
        else:
            prediction = (margin + 1e-3).clamp(min=0)
        prediction = prediction + search.oracle.soft_loss()
        cost = moves.costs(state) if options.at_input else distance.detach()
        return Step(prediction + options.beta * distance, state, valid, cost)

    def project(self) -> None:
        if self.options.box:
            self.leaves[0].clamp_(0, 1)

    def _features(self) -> Tensor:
        options, x, moves = self.options, self.x, self.search.moves
        if options.features is None:
            return x
        v = self.leaves[1]
        if options.features == "additive":
            return additive_features(v, x, self.editable, moves)
        return bounded(gated(v, x, self.editable, options.features), x, self.editable, moves)


def descend(
    search: Search,
    rows: Tensor,
    options: DescentOptions,
    *,
    seed: int,
    restart: int = 0,
    stage: str = "descent",
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Run ``K`` steps on the given graphs and record the closest counterfactual that each passed through.

    Graphs that have an answer keep it where it is the cheaper one.

    Args:
        search: The batch.
        rows: Which graphs, ``(R,)``.
        options: The loop's parts.
        seed: Of the noise.
        restart: Number of the restart; other noise.
        stage: Name under which answers are recorded.
        tick: Called after each step.
    """
    if not search.base.x.is_floating_point():
        options = replace(options, features=None)  # indices and counts have no slope to follow
    schedule = Schedule(options.iterations, options.alpha, options.optimizer, later=True)
    make = lambda at: _Descent(search, rows[at], options, seed, restart)  # noqa: E731
    optimise(search, rows, make, schedule, stage=stage, tick=tick)

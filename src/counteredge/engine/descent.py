"""Mask descent: gradient steps on edge and feature variables, the best discrete iterate kept.

One loop serves the published XPlore (Algorithm 1) and the escalation of the default preset; they differ in their
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
    gated,
    straight_through,
)
from counteredge.engine.moves import State
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


def _start(search: Search, rows: Tensor, options: DescentOptions, seed: int, restart: int) -> tuple[Tensor, Tensor]:
    base = search.base
    graphs = tuple(base.graphs[r] for r in rows.tolist())
    device = base.adj.device
    a, x = base.adj[rows], base.x[rows]
    draw = noise_like(graphs, base.nodes, None, seed, 2 * restart).to(device)
    gamma = search.moves.allowed.gamma[rows]
    if options.at_input:
        # noise and prior may bring a pair near its threshold, never across it
        shift = (options.noise * draw + gamma * (1 - a)).clamp(-0.24, 0.24)
        p = options.threshold + 0.5 * (a - 0.5) + shift
    else:
        p = a + options.noise * draw + gamma
    if options.box:
        p = p.clamp(0, 1)
    if options.features == "additive":
        draw = noise_like(graphs, base.nodes, x.shape[2], seed, 2 * restart + 1).to(device)
        return p, additive_start(x, search.moves) + options.noise * draw.clamp(-2, 2) * 0.5
    return p, torch.ones_like(x, dtype=torch.float64)


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
    fits = search.affordable(rows, torch.full_like(rows, options.iterations))
    rows = rows[fits]
    step = search.oracle.chunk(search.base, gradients=True)
    for k in range(0, len(rows), step):
        _descend_part(search, rows[k : k + step], options, seed, restart, stage, tick)


def _descend_part(
    search: Search,
    rows: Tensor,
    options: DescentOptions,
    seed: int,
    restart: int,
    stage: str,
    tick: Callable[[], None],
) -> None:
    base, moves = search.base, search.moves
    if not base.x.is_floating_point():
        options = replace(options, features=None)  # indices and counts have no slope to follow
    a, x, y0 = base.adj[rows], base.x[rows], search.y0[rows]
    flip, editable = moves.allowed.flip[rows], moves.allowed.features[rows]
    p, v = (t.clone().requires_grad_() for t in _start(search, rows, options, seed, restart))
    leaves = [p] if options.features is None else [p, v]
    make = torch.optim.Adam if options.optimizer == "adam" else torch.optim.SGD
    optimizer = make(leaves, lr=options.alpha)
    weight = 1 / (1 + moves.allowed.gamma[rows]).clamp(min=1e-6) if options.gamma_weights else 1.0
    best = torch.full((len(rows),), float("inf"), dtype=torch.float64)
    kept = State(rows, a.clone(), x.clone())
    for t in range(options.iterations):
        if search.late():
            search.stopped[rows] = True
            break
        heat = options.temperature * options.anneal ** (t / max(1, options.iterations - 1))
        soft = adjacency(p, moves, threshold=options.threshold, surrogate=options.surrogate, temperature=heat)
        a_hat = torch.where(flip, soft, a)
        x_hat = _features(v, x, editable, search, options)
        z = search.oracle.relaxed(base, rows, a_hat, x_hat)
        margin = search.oracle.decision.margins(z, y0)
        distance = (weight * (a - a_hat).abs()).flatten(1).sum(1) + (x - x_hat).abs().flatten(1).sum(1)
        state = State(rows, a_hat.detach(), x_hat.detach())
        valid = (margin < -search.oracle.tolerance(z)).detach()
        valid = valid & search.legal(state, valid)
        cost = moves.costs(state) if options.at_input else distance.detach()
        closer = (valid & (cost <= best)).nonzero().flatten()
        best[closer] = cost[closer]
        kept.adj[closer], kept.x[closer] = state.adj[closer], state.x[closer]
        if options.loss == "ce":
            prediction = -(~valid).to(z.dtype) * search.oracle.decision.prediction_loss(z, y0)
        else:
            prediction = (margin + 1e-3).clamp(min=0)
        prediction = prediction + search.oracle.soft_loss()
        optimizer.zero_grad(set_to_none=True)
        grads = torch.autograd.grad((prediction + options.beta * distance).sum(), leaves, allow_unused=True)
        for leaf, grad in zip(leaves, grads, strict=True):
            leaf.grad = torch.zeros_like(leaf) if grad is None else grad.nan_to_num(0, 0, 0)
        optimizer.step()
        if options.box:
            with torch.no_grad():
                p.clamp_(0, 1)
        tick()
    found = torch.isfinite(best).nonzero().flatten()
    # features are returned in the user's own dtype: judge what is returned
    kept.x = kept.x.to(base.graphs[0].x.dtype).to(kept.x.dtype)
    found = found[search.improves(kept[found])]
    agreed = found[search.confirm(kept[found])]
    search.accept(kept[agreed], stage)


def _features(v: Tensor, x: Tensor, editable: Tensor, search: Search, options: DescentOptions) -> Tensor:
    if options.features is None:
        return x
    if options.features == "additive":
        return additive_features(v, x, editable, search.moves)
    out = gated(v, x, editable, options.features)
    lo, hi = search.moves.lo.to(x.dtype), search.moves.hi.to(x.dtype)
    inside = torch.maximum(torch.minimum(out, hi), lo)
    stepped = straight_through(inside, search.moves.directed_from(search.moves.on_grid(inside), x))
    return torch.where(editable, stepped, out)

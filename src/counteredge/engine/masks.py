"""Perturbation variables of a mask descent: from free numbers to a 0/1 adjacency and to features, and back by STE."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from counteredge.engine.moves import Moves
from counteredge.errors import InputError

__all__ = [
    "FeatureMode",
    "Surrogate",
    "additive_features",
    "additive_start",
    "adjacency",
    "bounded",
    "gated",
    "legal_features",
    "straight_through",
]

FeatureMode = Literal["gating", "freedom", "additive"]
Surrogate = Literal["identity", "sigmoid"]
SNAP = 0.05  # a number that moved less than this share of its range counts as unchanged


def straight_through(value: Tensor, hard: Tensor) -> Tensor:
    """``hard`` forwards, the gradient of ``value`` backwards (straight-through estimator; paper, App. A.2)."""
    return value + (hard - value).detach()


def adjacency(p: Tensor, *, threshold: float, surrogate: Surrogate, temperature: float) -> Tensor:
    """The 0/1 adjacency that the edge variables stand for, differentiable through the estimator.

    ``T(P) = 1[P >= threshold]``: threshold 0 for logits (``sigmoid(P) >= 0.5``), 0.5 for the box of App. A.1.
    Backwards either the identity, or a sigmoid of the given temperature (App. A.2).

    Shapes:
        p: ``(S, n, n)``, one row a graph of the batch; returns ``(S, n, n)``.
    """
    if surrogate not in ("identity", "sigmoid"):
        raise InputError(f"surrogate={surrogate!r} is unknown; use 'identity' or 'sigmoid'")
    hard = (p >= threshold).to(p.dtype)
    soft = torch.sigmoid(temperature * (p - threshold)) if surrogate == "sigmoid" else p
    return straight_through(soft, hard)


def gated(v: Tensor, x: Tensor, editable: Tensor, mode: FeatureMode) -> Tensor:
    """Multiplicative features of the paper, ``N o X``: gated by ``1[sigmoid(N) >= 0.5]`` or free.

    Shapes:
        v, x, editable: ``(S, n, f)``.
    """
    if mode == "gating":
        v = straight_through(v, (v >= 0).to(v.dtype))
    return torch.where(editable, v * x, x)


def bounded(value: Tensor, x: Tensor, editable: Tensor, moves: Moves) -> Tensor:
    """Features within their bounds, on their steps and in their directions; gradients go straight through the last two.

    Shapes:
        value, x, editable: ``(S, n, f)``.
    """
    inside = torch.maximum(torch.minimum(value, moves.hi.to(x.dtype)), moves.lo.to(x.dtype))
    stepped = straight_through(inside, moves.directed_from(moves.on_grid(inside), x))
    return torch.where(editable, stepped, value)


def additive_start(x: Tensor, moves: Moves) -> Tensor:
    """Feature variables at the input itself: 0.25 / 0.75 for 0/1 columns, the place in its range for a number."""
    span = (moves.hi - moves.lo).clamp(min=1e-12).to(x.dtype)
    return torch.where(moves.number, (x - moves.lo.to(x.dtype)) / span, 0.25 + 0.5 * x)


def additive_features(v: Tensor, x: Tensor, editable: Tensor, moves: Moves) -> Tensor:
    """Legal feature values that the variables stand for, so that zeros can change too (explainers' note 14.7).

    One-hot groups take their largest entry, binary columns round, numbers stay in their bounds and snap back to the old
    value when they have hardly moved.

    Shapes:
        v, x, editable: ``(S, n, f)``.
    """
    lo, hi = moves.lo.to(x.dtype), moves.hi.to(x.dtype)
    value = lo + v.clamp(0, 1) * (hi - lo)
    value = moves.on_grid(value)
    value = torch.where((value - x).abs() <= SNAP * (hi - lo), x, value)
    hard = legal_features(torch.where(moves.number, value, v), x, editable, moves)
    return torch.where(editable, straight_through(v, hard), x)


def legal_features(value: Tensor, x: Tensor, editable: Tensor, moves: Moves) -> Tensor:
    """The nearest feature values that the columns can hold: no gradient goes through.

    One-hot groups take their largest entry, binary columns round at 0.5, numbers keep to their bounds, steps and
    directions; what may not change is as it was.

    Shapes:
        value, x, editable: ``(S, n, f)``.
    """
    lo, hi = moves.lo.to(x.dtype), moves.hi.to(x.dtype)
    number = torch.maximum(torch.minimum(moves.on_grid(value), hi), lo)
    hard = moves.directed_from(torch.where(moves.number, number, (value >= 0.5).to(x.dtype)), x)
    for unit in range(moves.units):
        columns = ((moves.unit_of == unit) & moves.onehot).nonzero().flatten()
        if len(columns):
            # a group that is partly frozen, or all zero, stays as a whole
            free = editable[..., columns].all(-1, keepdim=True) & (x[..., columns].sum(-1, keepdim=True) == 1)
            pick = torch.nn.functional.one_hot(value[..., columns].argmax(-1), len(columns)).to(x.dtype)
            hard[..., columns] = torch.where(free, pick, x[..., columns])
    return torch.where(editable, hard, x).detach()

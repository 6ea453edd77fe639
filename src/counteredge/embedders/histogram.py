"""Histograms of many graphs at once, with a rule for values that lie on the edge of a bin."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["TIE", "histogram"]

TIE = 1e-9  # a value this close to an edge lies on it


def histogram(values: Tensor, low: float, high: float, bins: int) -> Tensor:
    """Raw counts of values in bins of equal width, one histogram a graph.

    The bin of ``x`` is ``floor((x - low + 1e-9) bins / (high - low))``: bins are half-open, the last one is closed,
    and what lies outside, or is no number, is dropped. The ``1e-9`` is there because exact fractions sit on the edges
    of bins: without it the rounding of the last digit would decide, which changes with the order of the nodes.

    Args:
        values: Values of each graph.
        low: Lower end of the first bin.
        high: Upper end of the last bin.
        bins: Number of bins.

    Returns:
        Counts in double precision.

    Shapes:
        values: ``(B, ...)``; returns ``(B, bins)``.

    Example:
        >>> histogram(torch.tensor([[0.0, 0.5 - 1e-12, 0.4, 1.0, 1.2, float("nan")]]).double(), 0.0, 1.0, 2).tolist()
        [[2.0, 2.0]]
    """
    flat = values.reshape(len(values), -1)
    place = (flat - low + TIE) * (bins / (high - low))
    # false for nan, too; a value on the upper end belongs to the last bin whichever side rounding puts it
    inside = (place >= 0) & (flat <= high + TIE)
    index = torch.where(inside, place.clamp(max=bins - 0.5), float(bins)).long()
    index += torch.arange(len(flat), device=flat.device)[:, None] * (bins + 1)
    counts = torch.bincount(index.flatten(), minlength=len(flat) * (bins + 1))
    return counts.reshape(len(flat), bins + 1)[:, :bins].double()

"""What a metric is: a name, a formula, a range, a direction, a source; and the registry of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from counteredge.metrics.sample import Sample

__all__ = ["METRICS", "PAPER", "Metric", "metric"]

PAPER = "De Sanctis et al., XPlore (KDD 2026)"
Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """One figure of a set of counterfactuals.

    Attributes:
        name: Key in tables and files.
        title: For people.
        formula: How it is computed, per graph unless ``whole``.
        low: Smallest possible value.
        high: Largest possible value.
        direction: Which way is better; ``"neither"`` where a figure only describes.
        reference: Where it is published or what it follows.
        over: Which graphs it is defined on; others have NaN and do not count.
        needs: What :func:`~counteredge.metrics.evaluate` must have been given, ``""`` for nothing.
        compute: Values of the graphs, ``(N,)``; of one figure of the whole set, a scalar, when ``whole``.
        whole: Whether the figure belongs to the set and not to a graph.
    """

    name: str
    title: str
    formula: str
    low: float
    high: float
    direction: Direction
    reference: str
    over: Literal["all graphs", "found"]
    needs: str
    compute: Callable[[Sample], Tensor]
    whole: bool = False


METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    title: str,
    formula: str,
    *,
    low: float = 0.0,
    high: float = float("inf"),
    direction: Direction,
    reference: str,
    over: Literal["all graphs", "found"] = "found",
    needs: str = "",
    whole: bool = False,
) -> Callable[[Callable[[Sample], Tensor]], Callable[[Sample], Tensor]]:
    """Register a function of a sample as a metric; see :class:`Metric`."""

    def register(compute: Callable[[Sample], Tensor]) -> Callable[[Sample], Tensor]:
        METRICS[name] = Metric(name, title, formula, low, high, direction, reference, over, needs, compute, whole)
        return compute

    return register

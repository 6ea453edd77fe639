"""Mean, spread, count and interval of a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Aggregate", "aggregate", "resampled"]

CHUNK = 1 << 22  # numbers drawn at once


@dataclass(frozen=True)
class Aggregate:
    """A figure over a set of graphs.

    Attributes:
        mean: Mean; NaN over nothing.
        std: Standard deviation (``n - 1``); NaN below two values, and for figures of a whole set.
        count: How many graphs it is the mean of.
        low: Lower end of the bootstrap 95 % interval.
        high: Upper end.
    """

    mean: float
    std: float
    count: int
    low: float
    high: float

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values; JSON has no NaN, it is written as ``null``."""
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in vars(self).items()}


def aggregate(values: Tensor, *, rounds: int = 1000, seed: int = 0) -> Aggregate:
    """Mean, standard deviation, count and percentile-bootstrap 95 % interval of the values that are no NaN.

    ``low, high``: the 2.5 % and 97.5 % quantiles of the means of ``rounds`` samples drawn with replacement.

    Args:
        values: Any number of values.
        rounds: Samples drawn.
        seed: Of the draws; the global generator is not touched.

    Returns:
        The figures; over nothing all are NaN and the count is 0.

    Shapes:
        values: ``(N,)``.

    Source:
        Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.

    Example:
        >>> aggregate(torch.tensor([1.0, 3.0, float("nan")])).mean
        2.0
        >>> aggregate(torch.tensor([])).count
        0
    """
    kept = values[~torch.isnan(values)].to(torch.float64)
    n = len(kept)
    if not n:
        return Aggregate(math.nan, math.nan, 0, math.nan, math.nan)
    if bool((kept == kept[0]).all()):
        return Aggregate(float(kept[0]), 0.0 if n > 1 else math.nan, n, float(kept[0]), float(kept[0]))
    generator = torch.Generator().manual_seed(seed)
    step = max(1, CHUNK // n)
    means = [
        kept[torch.randint(n, (min(step, rounds - k), n), generator=generator)].mean(1) for k in range(0, rounds, step)
    ]
    low, high = torch.quantile(torch.cat(means), torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Aggregate(float(kept.mean()), float(kept.std()), n, low, high)


def resampled(n: int, *, rounds: int, seed: int) -> Tensor:
    """Shares of ``n`` graphs in bootstrap samples: ``(n, rounds)``, columns sum to 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(n, (rounds, n), generator=generator)
    shares = torch.zeros(rounds, n, dtype=torch.float64)
    shares.scatter_add_(1, drawn, torch.ones_like(shares))
    return shares.t() / n

"""GeoScattering: moments of node signals after lazy-walk wavelets and absolute values."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.stack import GraphStack
from counteredge.errors import unknown

__all__ = ["GeoScattering"]

SCALES = 5
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # scales of the two wavelets of the second order
MOMENTS = (4, 3, 3)  # of the zeroth, first and second order
SIGNALS = 3


class GeoScattering(StackEmbedder):
    """Sums over the nodes of powers of ``|x|``, ``|Psi_s x|`` and ``|Psi_j |Psi_i x||`` for three node signals.

    The signals are the log-degree ``ln(d + 3)``, the eccentricity (inside the node's component, where the reference
    fails on a graph of several) and the clustering coefficient. With the lazy walk ``T = (I + P) / 2`` the wavelets
    are ``Psi_s = T^(2^s) - T^(2^(s + 1))``, ``s = 0 .. 4``. Three parts, each signal by signal: powers 1 to 4 of ``x``;
    powers 1 to 3 for each ``s``; powers 1 to 3 for each ``i < j`` up to 3.

    Args:
        wavelets: ``"elementwise"`` as the reference, whose ``T^(2^s)`` raises each entry to the power; ``"matrix"``
            as published, with powers of the matrix.

    Shapes:
        vectors: ``(111,)``.

    Raises:
        InputError: For other wavelets.

    Source:
        Gao, Wolf, Hirn, "Geometric Scattering for Graph Data Analysis", ICML 2019.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> GeoScattering().transform([path])[0, 4:8].tolist()  # eccentricities 2, 1, 2
        [5.0, 9.0, 17.0, 33.0]
    """

    name: ClassVar[str] = "GeoScattering"
    reference: ClassVar[str] = "Gao, Wolf & Hirn, ICML 2019"

    def __init__(self, wavelets: Literal["elementwise", "matrix"] = "elementwise") -> None:
        if wavelets not in ("elementwise", "matrix"):
            raise unknown("wavelets", str(wavelets), ("elementwise", "matrix"))
        self.wavelets = wavelets

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return SIGNALS * (MOMENTS[0] + MOMENTS[1] * SCALES + MOMENTS[2] * len(PAIRS))

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, 111)``."""
        hops = stack.hops
        eccentricity = hops.masked_fill(hops.isinf(), 0.0).amax(2).double()
        x = torch.stack([stack.log_degree, eccentricity, stack.clustering], 2)
        apply = _elementwise if self.wavelets == "elementwise" else _matrix
        first = apply(stack, x).abs_()
        inner = [i for i, _ in PAIRS]
        again = apply(stack, first[..., : max(inner) + 1].flatten(2)).abs_()
        second = again.reshape(*x.shape, -1, SCALES)[..., inner, [j for _, j in PAIRS]]
        parts = zip((x[..., None], first, second), MOMENTS, strict=True)
        return torch.cat([_moments(signals, highest) for signals, highest in parts], 1)


def _moments(signals: Tensor, highest: int) -> Tensor:
    """Sums of the powers 1 to ``highest`` over the nodes, ``(B, n, s, c)`` to ``(B, s c highest)``."""
    power, sums = signals, [signals.sum(1)]
    for _ in range(highest - 1):
        power = power * signals
        sums.append(power.sum(1))
    return torch.stack(sums, 3).flatten(1)


def _elementwise(stack: GraphStack, x: Tensor) -> Tensor:
    """All wavelets of signals, ``(B, n, s)`` to ``(B, n, s, 5)``; entries of ``T`` raised to powers.

    All entries off the diagonal of a row of ``T`` are one number, so a power is a diagonal and a scaled adjacency.
    """
    aside = 0.5 / stack.loop_degree
    own, other = _differences(0.5 + aside), _differences(aside)
    return own[:, :, None] * x[..., None] + other[:, :, None] * torch.bmm(stack.adj, x)[..., None]


def _differences(base: Tensor) -> Tensor:
    """``base^(2^s) - base^(2^(s + 1))`` for each scale, ``(B, n, 5)``."""
    powers = [base]
    for _ in range(SCALES):
        powers.append(powers[-1].square())
    return torch.stack([a - b for a, b in pairwise(powers)], 2)


def _matrix(stack: GraphStack, x: Tensor) -> Tensor:
    """All wavelets of signals, ``(B, n, s)`` to ``(B, n, s, 5)``; powers of the matrix ``T``, step by step."""
    aside = (0.5 / stack.loop_degree)[..., None]
    walked = [x]
    for _ in range(2**SCALES):
        x = aside * torch.bmm(stack.adj, x) + (0.5 + aside) * x
        walked.append(x)
    return torch.stack([walked[2**s] - walked[2 ** (s + 1)] for s in range(SCALES)], 3)

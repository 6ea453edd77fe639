"""NetLSD: the trace of the heat kernel at many times."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.stack import GraphStack

__all__ = ["NetLSD"]

TIMES = 250
SHORTEST, LONGEST = -2.0, 2.0  # decimal logarithms of the times
KEPT = 200  # eigenvalues kept at each end of the spectrum of a large graph


class NetLSD(StackEmbedder):
    """Mean of ``exp(-t lambda)`` over eigenvalues of the normalised Laplacian, at 250 times from 0.01 to 100.

    Which eigenvalues, follows the reference: with 3 to 400 nodes all but the two smallest; with more, the 200
    smallest and the 200 largest, and between them as many points on a straight line as are missing. Where the
    reference fails, with one or two nodes, all of them are taken. An isolated node has the eigenvalue 0.

    Shapes:
        vectors: ``(250,)``.

    Source:
        Tsitsulin, Mottin, Karras, Bronstein, Müller, "NetLSD: Hearing the Shape of a Graph", KDD 2018.

    Example:
        >>> from torch_geometric.data import Data
        >>> NetLSD().transform([Data(edge_index=torch.zeros(2, 0).long(), num_nodes=3)]).unique().tolist()
        [1.0]
    """

    name: ClassVar[str] = "NetLSD"
    reference: ClassVar[str] = "Tsitsulin et al., KDD 2018"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return TIMES

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, 250)``."""
        values = _kept(stack.normalised_spectrum)
        times = torch.logspace(SHORTEST, LONGEST, TIMES, dtype=values.dtype, device=values.device)
        return (values[:, None] * -times[:, None]).exp_().mean(2)


def _kept(values: Tensor) -> Tensor:
    """The eigenvalues that are averaged over, out of all in ascending order."""
    n = values.shape[1]
    if n <= 2:
        return values
    if n <= 2 * KEPT:
        return values[:, 2:]
    low, high = values[:, KEPT - 1 : KEPT], values[:, n - KEPT : n - KEPT + 1]
    steps = torch.linspace(0, 1, n - 2 * KEPT + 2, dtype=values.dtype, device=values.device)[1:-1]
    return torch.cat([values[:, :KEPT], low + (high - low) * steps, values[:, n - KEPT :]], 1)

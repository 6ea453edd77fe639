"""FEATHER-G: characteristic functions of node signals, pooled over random walks."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from counteredge.embedders.signals import NodeSignals
from counteredge.embedders.stack import POINTS, GraphStack

__all__ = ["FeatherG"]

ORDER = 5


class FeatherG(NodeSignals):
    """Means of ``P^r cos(s theta)`` and ``P^r sin(s theta)`` over the nodes, for ``r = 1 .. 5``.

    For each ``r`` 100 numbers, ``(1/n) 1^T P^r Z``, where ``Z`` holds at 25 points ``theta`` from 0.01 to 2.5 the
    cosines of the log-degree ``g = ln(d + 3)``, those of the clustering coefficient, then the sines of both. ``P`` is
    the walk with a loop at each node that counts twice in the degree, ``diag(1/(d + 2)) (A + I)``.

    Node features are not looked at unless asked for. With ``f`` of them, the 500 numbers are followed by ``50 f`` for
    each ``r``: the cosines of the standardised columns (column by column, 25 points each), then their sines.

    Args:
        node_features: Look at the columns of ``x`` as well; the embedder then has to be fitted, which learns their
            mean and standard deviation.

    Shapes:
        vectors: ``(500 + 250 f,)``, with ``f = 0`` by default.

    Raises:
        InputError: When ``node_features`` is no bool; with it, when a graph has no ``x``, or another number of
            columns than the graphs it was fitted on.

    Source:
        Rozemberczki, Sarkar, "Characteristic Functions on Graphs: Birds of a Feather, from Statistical Descriptors to
        Parametric Models", CIKM 2020.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> FeatherG().transform([Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)]).shape
        torch.Size([1, 500])
    """

    name: ClassVar[str] = "FEATHER-G"
    reference: ClassVar[str] = "Rozemberczki & Sarkar, CIKM 2020"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return ORDER * 2 * POINTS * (2 + self.width)

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, D)``."""
        weights = stack.pools[:, 1 : ORDER + 1]
        return self._with_features(weights.bmm(stack.signals).flatten(1), weights, stack)

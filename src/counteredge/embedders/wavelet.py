"""WaveletCharacteristic: characteristic functions of node signals, weighted by how unlike two nodes' heat is."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.embedders.signals import NodeSignals, flag
from counteredge.embedders.stack import POINTS, GraphStack, waves

__all__ = ["WaveletCharacteristic"]

ORDER = 5
TAU = 1.0


class WaveletCharacteristic(NodeSignals):
    """Means of characteristic functions over balls of radius 1 to 5, plain and weighted.

    With the heat kernel ``H = exp(-L)`` and ``W_ij = exp(sum_l |H_il - H_jl|)``, for each radius ``r`` the ball
    ``B_ij = [dist_ij <= r]`` gives two matrices whose rows sum to one, ``B`` and ``B * W`` over their row sums. With
    their column means ``u_1`` and ``u_2`` it emits ``u_1 Z`` and ``u_2 Z``, where ``Z`` holds at 25 points ``theta``
    from 0.01 to 2.5 the cosines of the log-degree ``ln(d + 3)``, those of the clustering coefficient, then the sines
    of both.

    Node features are not looked at unless asked for. With ``f`` of them, the 1000 numbers are followed by ``50 f`` for
    ``u_1`` and ``50 f`` for ``u_2`` of each radius: the cosines of the standardised columns (column by column, 25
    points each), then their sines.

    Args:
        self_loops: As the reference, with a loop at each node. Without, the log-degree is ``ln(d + 1)`` and the ball
            becomes the nodes to which a walk of exactly ``r`` steps leads: none for an isolated node, which then
            counts as zero in the means.
        node_features: Look at the columns of ``x`` as well; the embedder then has to be fitted, which learns their
            mean and standard deviation.

    Shapes:
        vectors: ``(1000 + 500 f,)``, with ``f = 0`` by default.

    Raises:
        InputError: When an option is no bool; with ``node_features``, when a graph has no ``x``, or another number of
            columns than the graphs it was fitted on.

    Source:
        Wang, Huang, Ma, Cao, Vosoughi, "Graph Embedding via Diffusion-Wavelets-Based Node Feature Distribution
        Characterization", CIKM 2021.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> WaveletCharacteristic().transform([path]).shape
        torch.Size([1, 1000])
    """

    name: ClassVar[str] = "WaveletCharacteristic"
    reference: ClassVar[str] = "Wang et al., CIKM 2021"

    def __init__(self, self_loops: bool = True, node_features: bool = False) -> None:
        super().__init__(node_features)
        self.self_loops = flag("self_loops", self_loops)

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return ORDER * 2 * 2 * POINTS * (2 + self.width)

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, D)``."""
        weights = self._weights(stack)
        table = stack.signals if self.self_loops else waves(torch.stack([stack.degree.log1p(), stack.clustering], 2))
        return self._with_features(weights.bmm(table).flatten(1), weights, stack)

    def _weights(self, stack: GraphStack) -> Tensor:
        """``u_1`` and ``u_2`` of each radius, ``(B, 10, n)``."""
        values, vectors = stack.laplacian_eigh
        heat = (vectors * (-TAU * values).exp()[:, None]) @ vectors.transpose(1, 2)
        unlike = torch.cdist(heat, heat, p=1).exp_()
        rows = []
        support = stack.adj
        for r in range(1, ORDER + 1):
            if self.self_loops:
                support = (stack.hops <= r).to(heat.dtype)
            elif r > 1:
                support = (torch.bmm(support, stack.adj) > 0).to(heat.dtype)
            rows += [_column_means(support), _column_means(support * unlike)]
        return torch.stack(rows, 1)


def _column_means(matrix: Tensor) -> Tensor:
    """Column means of the matrix over its row sums, where a zero row stays zero, ``(B, n)``."""
    # no entry lies between 0 and 1, so a sum below 1 is that of a zero row
    share = 1 / (matrix.sum(2).clamp(min=1) * matrix.shape[1])
    return torch.bmm(share[:, None], matrix)[:, 0]

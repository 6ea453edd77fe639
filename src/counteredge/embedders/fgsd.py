"""FGSD: a histogram of spectral distances between all pairs of nodes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.histogram import histogram
from counteredge.embedders.stack import GraphStack

__all__ = ["FGSD"]

BINS = 200
RANGE = (0.0, 20.0)


class FGSD(StackEmbedder):
    """Histogram of ``S_ij = F_ii + F_jj - 2 F_ij``, where ``F`` is the pseudo-inverse of the normalised Laplacian.

    The Laplacian is that of the graph with a loop at each node, ``diag(d + 1)^(-1/2) L diag(d + 1)^(-1/2)``. All
    ``n^2`` entries are counted, the zero diagonal too, in 200 bins from 0 to 20; entries above 20 are dropped.

    The kernel of the Laplacian is known, one vector ``q_c`` for each component, so
    ``F = (L + sum_c q_c q_c^T)^(-1) - sum_c q_c q_c^T`` needs no cut-off for eigenvalues that are nearly zero.

    Shapes:
        vectors: ``(200,)``.

    Source:
        Verma, Zhang, "Hunt For The Unique, Stable, Sparse And Fast Feature Learning On Graphs", NIPS 2017.

    Example:
        >>> from torch_geometric.data import Data
        >>> edge = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
        >>> FGSD().transform([edge])[0].nonzero().flatten().tolist()  # distances 0 and 2
        [0, 20]
    """

    name: ClassVar[str] = "FGSD"
    reference: ClassVar[str] = "Verma & Zhang, NIPS 2017"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return BINS

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, 200)``."""
        weight = stack.degree + 1
        together = stack.together.to(weight.dtype)
        volume = torch.bmm(together, weight[..., None])[..., 0]
        kernel = (weight[:, :, None] * weight[:, None]).sqrt_().mul_(together / volume[:, :, None])
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(stack.loop_laplacian + kernel))
        pseudo = inverse - kernel
        own = pseudo.diagonal(dim1=1, dim2=2)
        return histogram(own[:, :, None] + own[:, None] - 2 * pseudo, *RANGE, BINS)

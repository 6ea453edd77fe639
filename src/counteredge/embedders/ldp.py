"""LDP: histograms of the degrees in each node's neighbourhood."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.histogram import histogram
from counteredge.embedders.stack import GraphStack

__all__ = ["LDP"]

BINS = 32
RANGE = (0.0, 10.0)


class LDP(StackEmbedder):
    """Histograms of ``x_v = ln(d_v + 2)`` and of its minimum, maximum, deviation and mean around each node.

    Around means: over the node itself and its neighbours. The deviation is that of the population. Each of the five
    histograms has 32 bins from 0 to 10 and holds raw counts, which sum to the number of nodes.

    Shapes:
        vectors: ``(160,)``.

    Source:
        Cai, Wang, "A simple yet effective baseline for non-attributed graph classification", ICLR 2019 workshop on
        representation learning on graphs and manifolds.

    Example:
        >>> from torch_geometric.data import Data
        >>> lone = LDP().transform([Data(edge_index=torch.zeros(2, 0).long(), num_nodes=1)])[0]
        >>> lone.nonzero().flatten().tolist()  # ln 2 in bin 2, the deviation in bin 0
        [2, 34, 66, 96, 130]
    """

    name: ClassVar[str] = "LDP"
    reference: ClassVar[str] = "Cai & Wang, ICLR 2019 workshop"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return 5 * BINS

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, 160)``."""
        x, count = stack.loop_degree.log(), stack.degree + 1
        around = stack.adj.bool()
        around.diagonal(dim1=1, dim2=2).fill_(True)
        low = torch.where(around, x[:, None], torch.inf).amin(2)
        high = torch.where(around, x[:, None], -torch.inf).amax(2)
        mean = (torch.bmm(stack.adj, x[..., None])[..., 0] + x) / count
        # in two passes: E[x^2] - E[x]^2 cancels where the neighbours are alike
        apart = (x[:, None] - mean[..., None]).square_().masked_fill_(~around, 0.0)
        deviation = (apart.sum(2) / count).sqrt()
        both = torch.stack([x, low, high, deviation, mean], 1)
        return histogram(both.flatten(0, 1), *RANGE, BINS).reshape(len(stack), -1)

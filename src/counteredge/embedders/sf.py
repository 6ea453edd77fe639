"""SF: the spectrum of the normalised Laplacian itself."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.stack import GraphStack

__all__ = ["SF"]

VALUES = 128


class SF(StackEmbedder):
    """Eigenvalues of ``diag(d + 1)^(-1/2) L diag(d + 1)^(-1/2)`` in ascending order, 128 of them.

    Up to 128 nodes: 0, the ``n - 1`` largest, then zeros to fill up. With more nodes: the 128 largest, as in the
    reference (the published method takes the smallest). A single node has the zero vector, where the reference fails.

    Shapes:
        vectors: ``(128,)``.

    Source:
        de Lara, Pineau, "A Simple Baseline Algorithm for Graph Classification", 2018.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> edge = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
        >>> SF().transform([edge])[0, :4].round(decimals=6).tolist()
        [0.0, 1.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "SF"
    reference: ClassVar[str] = "de Lara & Pineau, 2018"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return VALUES

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, 128)``."""
        values = stack.loop_spectrum
        if stack.n > VALUES:
            return values[:, -VALUES:]
        found = values.new_zeros(len(stack), VALUES)
        found[:, 1 : stack.n] = values[:, 1:]
        return found

"""All graphs of a dataset in a few long tensors, from which batches are cut by indexing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.errors import InputError

__all__ = ["FlatGraphs", "Minibatch"]


@dataclass(frozen=True)
class Minibatch:
    """Some graphs side by side.

    Args:
        x: Node features ``(n, f)``.
        edge_index: Edges ``(2, E)`` in the batch's own node numbers.
        batch: Graph of every node ``(n,)``.
        y: Classes: one a graph ``(B,)``, or one a node ``(n,)``.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor


@dataclass(frozen=True)
class FlatGraphs:
    """Graphs one after the other.

    Args:
        x: Node features of all graphs.
        edges: Edges of all graphs, in each graph's own node numbers.
        y: Classes of all graphs, or of all their nodes.
        node_at: First node of every graph, and the number of all nodes.
        edge_at: The same for edges.
        per_node: ``y`` holds a class for every node.

    Shapes:
        x ``(N, f)``, edges ``(2, M)``, y ``(G,)`` or ``(N,)``, node_at and edge_at ``(G + 1,)``.
    """

    x: Tensor
    edges: Tensor
    y: Tensor
    node_at: Tensor
    edge_at: Tensor
    per_node: bool

    @classmethod
    def of(cls, graphs: Sequence[Data], num_classes: int, *, per_node: bool = False) -> FlatGraphs:
        """Collate graphs.

        Args:
            graphs: Graphs with ``x``, ``edge_index`` and ``y``.
            num_classes: Number of classes.
            per_node: Every node has a class of its own.

        Returns:
            The same graphs, flat; features become float32.

        Raises:
            InputError: When there are fewer than two graphs, or one lacks nodes, ``x`` or classes below
                ``num_classes``.

        Example:
            >>> g = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([1]))
            >>> FlatGraphs.of([g, g, g], 2).cut(torch.tensor([2, 0])).edge_index.tolist()
            [[0, 1, 2, 3], [1, 0, 3, 2]]
        """
        if len(graphs) < 2:
            raise InputError(f"training needs at least 2 graphs, got {len(graphs)}")
        for i, g in enumerate(graphs):
            if g.x is None or g.x.dim() != 2 or not len(g.x) or g.y is None:
                raise InputError(f"graph {i} needs nodes, x of shape (nodes, columns) and y, got {g}")
            if g.x.shape[1] != graphs[0].x.shape[1]:
                raise InputError(f"graph {i} has {g.x.shape[1]} columns of x, graph 0 has {graphs[0].x.shape[1]}")
            if g.y.numel() != (len(g.x) if per_node else 1):
                owner = "node" if per_node else "graph"
                raise InputError(f"graph {i} needs one class y a {owner}, got {g}, y of shape {tuple(g.y.shape)}")
        y = torch.cat([g.y.reshape(-1) for g in graphs]).long()
        if not 0 <= int(y.min()) <= int(y.max()) < num_classes:
            raise InputError(f"classes must be 0 to {num_classes - 1}, got y from {int(y.min())} to {int(y.max())}")
        return cls(
            x=torch.cat([g.x.detach().float() for g in graphs]),
            edges=torch.cat([g.edge_index for g in graphs], dim=1),
            y=y,
            node_at=_starts([len(g.x) for g in graphs]),
            edge_at=_starts([g.edge_index.shape[1] for g in graphs]),
            per_node=per_node,
        )

    def __len__(self) -> int:
        return len(self.node_at) - 1

    def cut(self, numbers: Tensor) -> Minibatch:
        """The graphs of the given numbers as one batch, in that order."""
        nodes, owner, shift = _spread(self.node_at, numbers)
        edges, edge_owner, _ = _spread(self.edge_at, numbers)
        return Minibatch(
            x=self.x[nodes],
            edge_index=self.edges[:, edges] + shift[edge_owner],
            batch=owner,
            y=self.y[nodes if self.per_node else numbers],
        )

    def main_class(self, num_classes: int) -> Tensor:
        """Class of every graph, or the class of most of its nodes (the lowest of equals)."""
        if not self.per_node:
            return self.y
        owner = torch.repeat_interleave(self.node_at.diff())
        counts = torch.bincount(owner * num_classes + self.y, minlength=len(self) * num_classes)
        return counts.view(len(self), num_classes).argmax(1)

    def sha256(self) -> str:
        """SHA-256 of graphs and classes."""
        digest = hashlib.sha256()
        for part in (self.x, self.edges, self.y, self.node_at, self.edge_at):
            digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()


def _starts(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def _spread(starts: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the chosen blocks, the block of each row (by place), and where each block begins in the result."""
    sizes = starts[numbers + 1] - starts[numbers]
    begins = sizes.cumsum(0) - sizes
    owner = torch.repeat_interleave(sizes)
    rows = torch.arange(len(owner)) + (starts[numbers] - begins)[owner]
    return rows, owner, begins

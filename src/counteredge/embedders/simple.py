"""Graphs as the embedders see them: undirected, without loops, weights, repeated edges; many in one edge list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.errors import InputError

__all__ = ["SimpleGraphs", "distinct"]


@dataclass(frozen=True)
class SimpleGraphs:
    """``N`` graphs as one list of undirected edges, each once.

    A graph without nodes counts as one node without edges.

    Attributes:
        nodes: Number of nodes of each graph, at least 1.
        edges: The edges ``u < v`` in each graph's own node numbers, graph by graph, sorted.
        owner: Which graph an edge belongs to, ascending.
        x: Node features of each graph in double precision; ``None`` where a graph has none.

    Shapes:
        nodes: ``(N,)``; edges: ``(2, M)``; owner: ``(M,)``; each x: ``(n, f)``.
    """

    nodes: Tensor
    edges: Tensor
    owner: Tensor
    x: tuple[Tensor | None, ...]

    def __len__(self) -> int:
        return len(self.nodes)

    @classmethod
    def of(cls, graphs: Sequence[Data]) -> SimpleGraphs:
        """Read PyG graphs: only ``edge_index``, ``num_nodes`` and ``x`` are looked at.

        Raises:
            InputError: When something is no ``Data``, or an edge names a node that the graph does not have.

        Example:
            >>> g = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 1, 1]]), num_nodes=3)
            >>> read = SimpleGraphs.of([g])
            >>> read.nodes.tolist(), read.edges.tolist()
            ([3], [[0, 1], [1, 2]])
        """
        if isinstance(graphs, Data):
            raise InputError("expected a list of graphs, got a single Data: put it into a list")
        found = list(graphs)
        for k, g in enumerate(found):
            if not isinstance(g, Data):
                raise InputError(f"graph {k} is a {type(g).__name__}: embedders take torch_geometric Data")
        # what the user declared, else the rows of x, else what the edges name
        sizes = [_nodes(g) for g in found]
        lists = [torch.zeros(2, 0, dtype=torch.long) if g.edge_index is None else g.edge_index.cpu() for g in found]
        counts = torch.tensor([e.shape[1] for e in lists], dtype=torch.long)
        given = torch.tensor(sizes, dtype=torch.long)
        ends = torch.cat([torch.zeros(2, 0, dtype=torch.long), *lists], 1)
        owner = torch.repeat_interleave(torch.arange(len(found)), counts)
        if ends.shape[1]:
            bad = ((ends < 0) | (ends >= given[owner])).any(0).nonzero().flatten()
            if len(bad):
                k = int(owner[bad[0]])
                pair = tuple(ends[:, bad[0]].tolist())
                raise InputError(f"graph {k} has the edge {pair} but {sizes[k]} nodes, numbered from 0")
        most = int(given.max()) + 1 if len(found) else 1
        u, v = torch.minimum(ends[0], ends[1]), torch.maximum(ends[0], ends[1])
        key = torch.unique(((owner * most + u) * most + v)[u != v])
        u, v, owner = key // most % most, key % most, key // most // most
        x = tuple(None if g.x is None else _rows(g.x).detach().double().cpu() for g in found)
        return cls(given.clamp(min=1), torch.stack([u, v]), owner, x)

    def degrees(self) -> list[Tensor]:
        """Number of neighbours of each node, one tensor a graph."""
        start = self.nodes.cumsum(0) - self.nodes
        flat = (self.edges + start[self.owner]).flatten()
        return list(torch.split(torch.bincount(flat, minlength=int(self.nodes.sum())), self.nodes.tolist()))


def distinct(graphs: Sequence[Data]) -> tuple[list[Data], Tensor]:
    """Each object once, and the place of every graph among them, ``(N,)``: what is shared is worked on once."""
    place: dict[int, int] = {}
    first: list[Data] = []
    for g in graphs:
        if id(g) not in place:
            place[id(g)] = len(first)
            first.append(g)
    return first, torch.tensor([place[id(g)] for g in graphs], dtype=torch.long)


def _rows(x: Tensor) -> Tensor:
    return x[:, None] if x.dim() == 1 else x.flatten(1)


def _nodes(g: Data) -> int:
    return int(g.num_nodes or 0)

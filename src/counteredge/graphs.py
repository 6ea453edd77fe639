"""Many graphs as one padded dense batch, and the way back to ``Data`` without loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import Kind, NewEdges, edge_attributes, edge_keys, kinds, new_edge_values, rebuild
from counteredge.errors import BudgetError, InputError

__all__ = ["GraphBatch", "buckets"]

BUCKET = 8  # graphs whose sizes round up to the same multiple of this share a batch


@dataclass(frozen=True)
class GraphBatch:
    """``B`` graphs padded to ``n`` nodes.

    Attributes:
        graphs: The graphs as given.
        ids: Their numbers in the caller's list.
        x: Node features in the working precision (integer features keep their dtype).
        adj: 1 where an arc ``(source, target)`` is present, 0 elsewhere and on the diagonal.
        weight: What an arc weighs when it is present: the sum of its (repeated) weights, 1 for absent pairs.
        loops: Weight of each node's self-loops, which are kept and never edited.
        mask: ``True`` at real nodes, which come first: edge lists count on it.
        directed: Whether single arcs are edited; otherwise a pair is one edit.
        edge_keys: Names of the edge-aligned attributes that all of the graphs have.
        kind: What its graphs are like, all of them together.
        unit: Whether every present arc weighs 1.
        new_edges: Attributes of new edges: ``"mode"``, ``"mean"``, ``"zero"``, or a function ``(data, key) -> values``.

    Shapes:
        ids: ``(B,)``; x: ``(B, n, f)``; adj, weight: ``(B, n, n)``; loops, mask: ``(B, n)``.
    """

    graphs: tuple[Data, ...]
    ids: Tensor
    x: Tensor
    adj: Tensor
    weight: Tensor
    loops: Tensor
    mask: Tensor
    directed: bool
    edge_keys: tuple[str, ...]
    kind: Kind
    unit: bool
    new_edges: NewEdges = "mode"
    _tables: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Number of graphs ``B``."""
        return len(self.graphs)

    def pair_values(self, key: str) -> Tensor:
        """An edge-aligned attribute of every pair: the edge's own, or what a new edge there would get.

        Shapes:
            returns ``(B, n, n, ...)``; of a repeated edge the last value.
        """
        if key not in self._tables:
            first = self.graphs[0][key]
            table = first.new_zeros(self.size, self.nodes, self.nodes, *first.shape[1:])
            for b, g in enumerate(self.graphs):
                size = len(g.x)
                if callable(self.new_edges) and key != "edge_weight":
                    given = torch.as_tensor(self.new_edges(g, key), dtype=table.dtype, device=table.device)
                    if given.shape not in (first.shape[1:], (size, size, *first.shape[1:])):
                        raise InputError(
                            f"new_edges gave {key} of shape {tuple(given.shape)} for a graph with {size} nodes: "
                            f"expected one row {tuple(first.shape[1:])}, or ({size}, {size}, ...)"
                        )
                    table[b, :size, :size] = given
                else:
                    policy = "mode" if callable(self.new_edges) else self.new_edges
                    table[b] = new_edge_values(key, g[key], 1, policy)[0]
                table[b, g.edge_index[0], g.edge_index[1]] = g[key]
            self._tables[key] = table
        return self._tables[key]

    @property
    def nodes(self) -> int:
        """Padded number of nodes ``n``."""
        return self.mask.shape[1]

    @property
    def sizes(self) -> Tensor:
        """Number of real nodes of each graph, ``(B,)``."""
        return self.mask.sum(1)

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[Data],
        ids: Sequence[int] | None = None,
        *,
        directed: bool = False,
        dtype: torch.dtype = torch.float64,
        kind: Kind | None = None,
        new_edges: NewEdges = "mode",
    ) -> GraphBatch:
        """Pad the graphs to the largest of them; ``kind`` is found out when it is not given.

        Example:
            >>> g = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
            >>> b = GraphBatch.from_graphs([g])
            >>> b.adj[0].tolist()
            [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        """
        size, n = len(graphs), max(int(g.x.shape[0]) for g in graphs)
        first = graphs[0].x
        device = first.device
        width = 1 if first.dim() == 1 else first.shape[1]
        x = torch.zeros(size, n, width, dtype=dtype if first.is_floating_point() else first.dtype, device=device)
        sizes = torch.tensor([g.x.shape[0] for g in graphs], device=device)
        mask = torch.arange(n, device=device) < sizes[:, None]
        x[mask] = torch.cat([g.x.reshape(g.x.shape[0], -1) for g in graphs]).to(x.dtype)
        counts = torch.tensor([g.edge_index.shape[1] for g in graphs], device=device)
        row = torch.repeat_interleave(torch.arange(size, device=device), counts)
        src, dst = torch.cat([g.edge_index for g in graphs], 1)
        given = [g.get("edge_weight") for g in graphs]
        weights = torch.ones(len(row), dtype=dtype, device=device)
        for k, weight in enumerate(given):
            if weight is not None:
                weights[row == k] = weight.reshape(-1).to(dtype)
        total = torch.zeros(size, n, n, dtype=dtype, device=device)
        total.index_put_((row, src, dst), weights, accumulate=True)
        present = torch.zeros_like(total)
        present[row, src, dst] = 1.0
        loops = torch.diagonal(total, dim1=1, dim2=2).clone()
        eye = torch.eye(n, dtype=torch.bool, device=device)
        adj = present.masked_fill(eye, 0.0)
        weight = torch.where(adj > 0, total, torch.ones_like(total))
        numbers = torch.tensor(list(range(size)) if ids is None else list(ids), device=device)
        unit = bool((weight == 1).all())
        kind = kind or Kind(*(any(flags) for flags in zip(*kinds(graphs), strict=True)))
        keys = edge_keys(graphs)
        return cls(tuple(graphs), numbers, x, adj, weight, loops, mask, directed, keys, kind, unit, new_edges)

    def to_data(self, row: int, adj: Tensor, x: Tensor) -> Data:
        """Graph ``row`` with edited adjacency and features, as ``Data`` in the user's own dtypes.

        Args:
            row: Which graph of the batch was edited.
            adj: Its edited 0/1 adjacency.
            x: Its edited features.

        Shapes:
            adj: ``(n, n)``; x: ``(n, f)``.
        """
        source = self.graphs[row]
        before, after = self.adj[row] > 0.5, adj > 0.5
        removed, added = (before & ~after).nonzero(), (after & ~before).nonzero()
        if not self.directed:
            removed, added = removed[removed[:, 0] < removed[:, 1]], added[added[:, 0] < added[:, 1]]
        k = int(source.x.shape[0])
        # entries that no edit touched keep the user's own bits, whatever the working precision
        old = source.x.reshape(k, -1)
        new = torch.where(x[:k] == self.x[row, :k], old, x[:k].to(old.dtype)).reshape(source.x.shape)
        return rebuild(source, removed, added, new, directed=self.directed)


def bytes_per_graph(nodes: int, width: int, copies: int = 0) -> int:
    """Bytes that one padded graph, its masks and so many edited copies take in double precision."""
    return 8 * (3 * nodes * nodes + 2 * nodes * (width + 2) + copies * nodes * (nodes + width))


def buckets(
    graphs: Sequence[Data],
    *,
    memory: int,
    copies: int = 0,
    directed: bool | None = None,
    dtype: torch.dtype = torch.float64,
    new_edges: NewEdges = "mode",
) -> Iterator[GraphBatch]:
    """Group graphs of like size and kind into batches that fit into ``memory`` bytes.

    Args:
        graphs: Checked graphs.
        memory: Bound in bytes for one batch.
        copies: Edited versions of each graph that will be held beside it.
        directed: Treat every graph as directed / undirected; each as it is when ``None``.
        dtype: Working precision.
        new_edges: See :class:`GraphBatch`.

    Yields:
        Batches; together they hold every graph once.

    Raises:
        BudgetError: When a single graph does not fit, before anything is allocated.
        InputError: When a directed graph is to be edited by undirected pairs.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, (g, kind) in enumerate(zip(graphs, kinds(graphs), strict=True)):
        arcs = kind.directed if directed is None else directed
        if kind.directed and not arcs:
            raise InputError(f"graph {i} is directed, it cannot be edited by undirected pairs: leave directed at None")
        group = (arcs, -(-int(g.x.shape[0]) // BUCKET), kind, g.x.dim(), str(g.x.dtype))
        groups.setdefault(group, []).append(i)
    for (arcs, _, kind, *_), members in sorted(groups.items()):
        n = max(int(graphs[i].x.shape[0]) for i in members)
        first = graphs[members[0]].x
        each = bytes_per_graph(n, 1 if first.dim() == 1 else first.shape[1], copies)
        each += sum(8 * n * n * graphs[members[0]][key][:1].numel() for key in edge_attributes(graphs[members[0]]))
        if each > memory:
            raise BudgetError(
                f"graph {members[0]} with {n} nodes needs {each / 2**20:.0f} MiB for an all-pairs search, "
                f"the bound is {memory / 2**20:.0f} MiB: raise memory=, or explain a smaller subgraph"
            )
        step = max(1, memory // each)
        for start in range(0, len(members), step):
            chosen = members[start : start + step]
            part = [graphs[i] for i in chosen]
            yield GraphBatch.from_graphs(part, chosen, directed=arcs, dtype=dtype, kind=kind, new_edges=new_edges)

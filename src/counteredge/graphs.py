"""Many graphs as one padded dense batch, and the way back to ``Data`` without loss."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from counteredge.errors import BudgetError, CapabilityError, InputError

__all__ = [
    "GraphBatch",
    "Kind",
    "as_graph_list",
    "buckets",
    "check_graph",
    "content_key",
    "edge_attributes",
    "edge_keys",
    "is_directed",
    "kinds",
    "new_edge_values",
    "rebuild",
]

BUCKET = 8  # graphs whose sizes round up to the same multiple of this share a batch


def as_graph_list(graphs: Data | Iterable[Data]) -> tuple[list[Data], bool]:
    """Accept a ``Data``, a ``Batch``, a list, a dataset or a ``DataLoader``; tell whether it was a single graph.

    Returns:
        The graphs and ``True`` when exactly one ``Data`` was given.

    Raises:
        CapabilityError: For ``HeteroData``.
        InputError: For anything that is no graph.
    """
    if isinstance(graphs, HeteroData):
        raise CapabilityError("HeteroData is not supported: convert it with .to_homogeneous() first")
    if isinstance(graphs, Batch):
        return list(graphs.to_data_list()), False
    if isinstance(graphs, Data):
        return [graphs], True
    if not hasattr(graphs, "__iter__") and not hasattr(graphs, "__getitem__"):
        raise InputError(f"expected a Data, a list of Data, a Batch or a dataset, got {type(graphs).__name__}")
    items = list(graphs)
    if any(isinstance(g, Batch) for g in items):  # a DataLoader: its batches are taken apart again
        items = [g for b in items for g in (b.to_data_list() if isinstance(b, Batch) else [b])]
    for i, g in enumerate(items):
        if isinstance(g, HeteroData):
            raise CapabilityError(f"graph {i} is HeteroData: convert it with .to_homogeneous() first")
        if not isinstance(g, Data):
            raise InputError(f"graph {i} is a {type(g).__name__}; expected torch_geometric.data.Data")
    return items, False


def edge_attributes(data: Data) -> list[str]:
    """Names of the edge-aligned tensors of ``data`` (``edge_attr``, ``edge_weight``, ``edge_type``...).

    Decided by name (contains ``edge``, is no index), never by comparing sizes: a graph with as many edges as nodes
    keeps its node attributes apart.
    """
    if data.edge_index is None:
        return []
    count = data.edge_index.shape[1]
    names = []
    for key in data.keys():  # noqa: SIM118 - a Data iterates over pairs
        if "edge" not in key or key.endswith("index"):
            continue
        value = data[key]
        if not isinstance(value, Tensor) or value.dim() == 0:
            continue
        if value.shape[0] != count:
            if key in ("edge_attr", "edge_weight", "edge_type"):
                raise InputError(f"{key} has {value.shape[0]} rows but edge_index has {count} edges")
            continue
        names.append(key)
    return names


def edge_keys(graphs: Sequence[Data]) -> tuple[str, ...]:
    """Names of the edge-aligned attributes that all of the graphs have."""
    first, *others = [edge_attributes(g) for g in graphs]
    return tuple(key for key in first if all(key in names for names in others))


def _finite(name: str, value: Tensor, where: str, row: str) -> None:
    if not value.is_floating_point() or not value.numel():
        return
    value = value.detach()
    if math.isfinite(float(value.sum())):  # one number tells, unless large values overflow
        return
    finite = torch.isfinite(value)
    if not bool(finite.all()):
        r, c = (~finite).reshape(value.shape[0], -1).nonzero()[0].tolist()
        raise InputError(f"{where}: {name} holds NaN or infinity at {row} {r}, column {c}")


def check_graph(data: Data, where: str = "graph") -> None:
    """Refuse a graph that cannot be explained, naming what is wrong and where.

    Raises:
        InputError: Missing ``x`` or ``edge_index``, no nodes, indices out of range, NaN or infinity, wrong shapes.
    """
    if data.edge_index is None:
        raise InputError(f"{where} has no edge_index; a sparse adj_t is not read, give the edge list")
    if data.x is None:
        raise InputError(f"{where} has no node features x; add some, e.g. torch_geometric.transforms.Constant()")
    x, edges = data.x, data.edge_index
    for name, value in (("x", x), ("edge_index", edges)):
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            kind = f"a {value.layout} tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise InputError(f"{where}: {name} must be a dense torch tensor, got {kind}")
    if x.device != edges.device:
        raise InputError(f"{where}: x is on {x.device} but edge_index is on {edges.device}")
    if x.is_meta:
        raise InputError(f"{where} is on the meta device, it holds no values")
    if x.dim() not in (1, 2):
        raise InputError(f"{where}: x must have shape (n, f), got {tuple(x.shape)}")
    if x.shape[0] == 0:
        raise InputError(f"{where} is empty: it has no nodes")
    if x.dtype == torch.bool or x.is_complex():
        raise InputError(f"{where}: x has dtype {x.dtype}; use a float or integer dtype")
    if data.num_nodes != x.shape[0]:
        raise InputError(f"{where}: x has {x.shape[0]} rows but the graph says num_nodes={data.num_nodes}")
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise InputError(f"{where}: edge_index must be an integer tensor of shape (2, E), got {tuple(edges.shape)}")
    least, most = map(int, edges.aminmax()) if edges.numel() else (0, 0)
    if least < 0 or most >= x.shape[0]:
        raise InputError(
            f"{where}: edge_index names node {most} (smallest {least}) but the graph has nodes 0..{x.shape[0] - 1}"
        )
    _finite("x", x, where, "node")
    for key in edge_attributes(data):
        _finite(key, data[key], where, "edge")


class Kind(NamedTuple):
    """What decides how layers treat a graph's edges: graphs of one kind share a relaxation.

    Attributes:
        directed: Some arc lacks its reverse.
        loops: Some node has a self-loop.
        repeats: Some arc is listed twice.
        weighted: Some ``edge_weight`` is not 1.
    """

    directed: bool
    loops: bool
    repeats: bool
    weighted: bool


def kinds(graphs: Sequence[Data]) -> list[Kind]:
    """The kind of each graph, found for all of them at once."""
    count = len(graphs)
    device = graphs[0].edge_index.device
    lengths = torch.tensor([g.edge_index.shape[1] for g in graphs], device=device)
    owner = torch.repeat_interleave(torch.arange(count, device=device), lengths)
    src, dst = torch.cat([g.edge_index for g in graphs], 1)
    n = max(int(g.x.shape[0]) for g in graphs)

    def owners(of: Tensor) -> list[bool]:
        return (torch.bincount(of, minlength=count) > 0).tolist()

    arcs, times = torch.unique((owner * n + src) * n + dst, return_counts=True)
    back = (arcs // (n * n) * n + arcs % n) * n + arcs // n % n
    weights = [g.get("edge_weight") for g in graphs]
    directed = owners(arcs[~torch.isin(back, arcs)] // (n * n))
    loops = owners(owner[src == dst])
    repeats = owners(arcs[times > 1] // (n * n))
    weighted = [w is not None and bool((w != 1).any()) for w in weights]
    return [Kind(*flags) for flags in zip(directed, loops, repeats, weighted, strict=True)]


def is_directed(data: Data) -> bool:
    """Whether some arc lacks its reverse. Self-loops, order and repeated edges do not matter."""
    return kinds([data])[0].directed


def content_key(data: Data) -> int:
    """A 63-bit number that depends on the graph alone: seeds its random draws, alone or in any batch."""
    digest = hashlib.sha256()
    for value in (data.edge_index, data.x):  # as bytes: numpy knows no bfloat16
        digest.update(
            value.detach().cpu().clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()
        )
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def new_edge_values(key: str, values: Tensor, count: int) -> Tensor:
    """Attributes of new edges: weight 1, otherwise the graph's most frequent row (zeros when it has no edge)."""
    shape = (count, *values.shape[1:])
    if key == "edge_weight":
        return values.new_ones(shape)
    if not len(values) or not count:
        return values.new_zeros(shape)
    rows, counts = torch.unique(values, dim=0, return_counts=True)
    return rows[counts.argmax()].expand(shape)


def rebuild(data: Data, removed: Tensor, added: Tensor, x: Tensor | None = None, *, directed: bool = False) -> Data:
    """A new ``Data`` with arcs removed and added; the rest, edge-aligned attributes included, carried along.

    Kept edges stay in their order, new edges follow. Every copy of a repeated edge goes with it. The input is not
    changed.

    Args:
        data: The graph to start from.
        removed: Pairs that disappear.
        added: Pairs that appear; new edges get weight 1 and otherwise the graph's most frequent edge attribute.
        x: New node features; the old ones when ``None``.
        directed: Pairs are single arcs; otherwise both directions are meant.

    Shapes:
        removed: ``(r, 2)``; added: ``(a, 2)``; x: like ``data.x``.

    Example:
        >>> g = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> rebuild(g, torch.tensor([[0, 1]]), torch.tensor([[1, 2]])).edge_index.tolist()
        [[1, 2], [2, 1]]
    """
    out = copy.copy(data)
    for key in data.keys():  # noqa: SIM118 - a Data iterates over pairs
        if key not in ("x", "edge_index"):
            value = data[key]
            out[key] = value.clone() if isinstance(value, Tensor) else copy.deepcopy(value)
    edges, n = data.edge_index, int(data.x.shape[0])
    out.x = data.x.clone() if x is None else x
    if not len(removed) and not len(added):
        out.edge_index = edges.clone()
        return out
    removed, added = removed.reshape(-1, 2).to(edges), added.reshape(-1, 2).to(edges)
    if not directed:
        removed = torch.cat([removed, removed.flip(1)])
        added = torch.stack([added, added.flip(1)], 1).reshape(-1, 2)
    keep = ~torch.isin(edges[0] * n + edges[1], removed[:, 0] * n + removed[:, 1])
    for key in edge_attributes(data):
        values = data[key]
        out[key] = torch.cat([values[keep], new_edge_values(key, values, len(added))])
    out.edge_index = torch.cat([edges[:, keep], added.t()], 1)
    return out


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
        mask: ``True`` at real nodes.
        directed: Whether single arcs are edited; otherwise a pair is one edit.
        edge_keys: Names of the edge-aligned attributes that all of the graphs have.
        kind: What its graphs are like, all of them together.
        unit: Whether every present arc weighs 1.

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
                table[b] = new_edge_values(key, g[key], 1)[0]
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
        return cls(tuple(graphs), numbers, x, adj, weight, loops, mask, directed, edge_keys(graphs), kind, unit)

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
) -> Iterator[GraphBatch]:
    """Group graphs of like size and kind into batches that fit into ``memory`` bytes.

    Args:
        graphs: Checked graphs.
        memory: Bound in bytes for one batch.
        copies: Edited versions of each graph that will be held beside it.
        directed: Treat every graph as directed / undirected; each as it is when ``None``.
        dtype: Working precision.

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
            yield GraphBatch.from_graphs([graphs[i] for i in chosen], chosen, directed=arcs, dtype=dtype, kind=kind)

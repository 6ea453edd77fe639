"""One graph as PyG ``Data``: read from whatever was given, checked, and rebuilt with edits."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from counteredge.errors import CapabilityError, InputError

__all__ = [
    "Kind",
    "NewEdges",
    "as_graph_list",
    "check_graph",
    "content_key",
    "edge_attributes",
    "edge_keys",
    "is_directed",
    "kinds",
    "new_edge_values",
    "node_attributes",
    "pairs_of",
    "rebuild",
    "with_nodes",
    "without_nodes",
]


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


NewEdges = Literal["mode", "mean", "zero"] | Callable[[Data, str], Any]


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


def pairs_of(data: Data, *, directed: bool) -> Tensor:
    """The edges of a graph, each once, sorted, and no loops: ``i < j`` unless arcs count by themselves.

    Shapes:
        returns ``(E, 2)``.

    Example:
        >>> pairs_of(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 1, 1]])), directed=False).tolist()
        [[0, 1], [1, 2]]
    """
    src, dst = data.edge_index
    if not directed:
        src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
    return torch.unique(torch.stack([src, dst])[:, src != dst], dim=1).t()


def content_key(data: Data) -> int:
    """A 63-bit number that depends on the graph alone: seeds its random draws, alone or in any batch."""
    digest = hashlib.sha256()
    for value in (data.edge_index, data.x):  # as bytes: numpy knows no bfloat16
        digest.update(
            value.detach().cpu().clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()
        )
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def new_edge_values(key: str, values: Tensor, count: int, policy: str = "mode") -> Tensor:
    """Attributes of new edges: weight 1, otherwise by policy (zeros when the graph has no edge).

    Args:
        key: Name of the attribute.
        values: Of the graph's edges.
        count: How many new edges.
        policy: ``"mode"``: the graph's most frequent row; ``"mean"``: its mean row; ``"zero"``.
    """
    shape = (count, *values.shape[1:])
    if key == "edge_weight":
        return values.new_ones(shape)
    if not len(values) or not count or policy == "zero":
        return values.new_zeros(shape)
    if policy == "mean":
        return values.double().mean(0).to(values.dtype).expand(shape)
    rows, counts = torch.unique(values, dim=0, return_counts=True)
    return rows[counts.argmax()].expand(shape)


def rebuild(
    data: Data,
    removed: Tensor,
    added: Tensor,
    x: Tensor | None = None,
    *,
    directed: bool = False,
    values: Mapping[str, Tensor] | None = None,
) -> Data:
    """A new ``Data`` with arcs removed and added; the rest, edge-aligned attributes included, carried along.

    Kept edges stay in their order, new edges follow. Every copy of a repeated edge goes with it. The input is not
    changed.

    Args:
        data: The graph to start from.
        removed: Pairs that disappear.
        added: Pairs that appear; new edges get weight 1 and otherwise the graph's most frequent edge attribute.
        x: New node features; the old ones when ``None``.
        directed: Pairs are single arcs; otherwise both directions are meant.
        values: Other attributes of the new edges by name, one row a pair.

    Shapes:
        removed: ``(r, 2)``; added: ``(a, 2)``; x: like ``data.x``; values: each ``(a, ...)``.

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
        old = data[key]
        if values is not None and key in values:
            new = values[key].to(old).repeat_interleave(1 if directed else 2, dim=0)
        else:
            new = new_edge_values(key, old, len(added))
        out[key] = torch.cat([old[keep], new])
    out.edge_index = torch.cat([edges[:, keep], added.t()], 1)
    return out


def node_attributes(data: Data) -> list[str]:
    """Names of the tensors of ``data``, but ``x``, that have a row for each node (``pos``, ``train_mask``, ...).

    Those have as many rows as there are nodes and a name that is of no edges and no index. The label ``y`` of a graph
    with one node is the graph's.
    """
    n = int(data.x.shape[0])
    names = []
    for key in data.keys():  # noqa: SIM118 - a Data iterates over pairs
        value = data[key]
        if key == "x" or "edge" in key or key.endswith("index") or (key == "y" and n == 1):
            continue
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == n:
            names.append(key)
    return names


def with_nodes(data: Data, rows: Tensor) -> Data:
    """A new ``Data`` with further nodes, without edges, after its own; the input is not changed.

    Other attributes of nodes get zeros where they are floats, and the graph's most frequent row elsewhere.

    Shapes:
        rows: ``(m, f)``; ``(m, 1)`` where x has one dimension.

    Example:
        >>> g = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), ring=torch.tensor([3, 3]))
        >>> more = with_nodes(g, torch.zeros(1, 1))
        >>> more.x.flatten().tolist(), more.ring.tolist()
        ([1.0, 1.0, 0.0], [3, 3, 3])
    """
    out = copy.copy(data)
    for key in node_attributes(data):
        value = data[key]
        policy = "zero" if value.is_floating_point() or value.is_complex() else "mode"
        out[key] = torch.cat([value, new_edge_values(key, value, len(rows), policy)])
    out.x = torch.cat([data.x, rows.reshape(len(rows), *data.x.shape[1:]).to(data.x)])
    if "num_nodes" in data:
        out.num_nodes = len(out.x)
    return out


def without_nodes(data: Data, gone: Sequence[int]) -> Data:
    """A new ``Data`` without some nodes and all their edges; the nodes behind them move up. The input is not changed.

    Example:
        >>> g = Data(x=torch.arange(3.0)[:, None], edge_index=torch.tensor([[0, 2, 1], [2, 0, 2]]))
        >>> less = without_nodes(g, [1])
        >>> less.x.flatten().tolist(), less.edge_index.tolist()
        ([0.0, 2.0], [[0, 1], [1, 0]])
    """
    stays = torch.ones(len(data.x), dtype=torch.bool, device=data.x.device)
    stays[list(gone)] = False
    out = copy.copy(data)
    kept = stays[data.edge_index].all(0)
    for key in edge_attributes(data):
        out[key] = data[key][kept]
    for key in ("x", *node_attributes(data)):
        out[key] = data[key][stays]
    out.edge_index = (stays.long().cumsum(0) - 1)[data.edge_index[:, kept]]
    if "num_nodes" in data:
        out.num_nodes = len(out.x)
    return out

"""Node descriptors that follow from the edges alone: degree, clustering, centralities; many graphs at once.

Graphs without node attributes get them as features. Since they depend on the edges, an edited graph has other values:
:func:`refresh` computes those. Directed graphs are read as undirected, self-loops and edge weights do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from counteredge.errors import InputError, unknown
from counteredge.graphs import buckets
from counteredge.schema import Column, FeatureSchema
from counteredge.shortest import MATRICES, by_shortest_paths, cached

__all__ = [
    "DESCRIPTORS",
    "MATRICES",
    "StructuralFeatures",
    "append_descriptors",
    "compute",
    "descriptor_columns",
    "descriptor_names",
    "refresh",
    "refreshed",
]

DESCRIPTORS = ("degree", "clustering", "closeness", "betweenness", "harmonic", "katz")
KATZ_DAMPING = 0.1
ARCS = 1 << 21  # arcs of the graphs that are sorted into batches together
MEMORY = 1 << 28  # bytes of one batch
_ONE_DEGREE = re.compile(r"degree=(\d+)")


def descriptor_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, checked: each out of ``DESCRIPTORS``, or ``degree=K``.

    Raises:
        InputError: For an unknown name.

    Example:
        >>> descriptor_names(["degree", "degree=3"])
        ('degree', 'degree=3')
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in DESCRIPTORS and not _ONE_DEGREE.fullmatch(name):
            raise unknown("descriptor", name, (*DESCRIPTORS, "degree=K"))
    return wanted


def compute(adj: Tensor, mask: Tensor, names: Sequence[str]) -> Tensor:
    """Descriptors of ``K`` padded graphs.

    - ``degree``: ``d_i``, the number of neighbours; ``degree=3``: 1 where ``d_i`` is 3 (one-hot degree);
    - ``clustering``: linked pairs of neighbours over all pairs of neighbours, ``(A^3)_ii / (d_i (d_i - 1))``;
    - ``closeness``: ``(r - 1)^2 / ((n - 1) sum_j dist_ij)`` over the ``r`` nodes that can be reached;
    - ``harmonic``: ``sum_j 1 / dist_ij``;
    - ``betweenness``: share of shortest paths between other nodes through ``i``, over ``(n - 1)(n - 2) / 2`` pairs;
    - ``katz``: the solution of ``(I - a A) c = 1`` with ``a = min(0.1, 0.9 / largest degree)``, so that it exists.

    Degree, clustering and Katz are differentiable in fractional adjacencies (the one-hot degree by central
    differences); the three that rest on shortest paths are computed at ``adj > 0.5`` and have no gradient.

    Args:
        adj: Symmetric or directed adjacencies, zero outside the mask; the diagonal is ignored.
        mask: Real nodes.
        names: Names out of ``DESCRIPTORS``, or ``degree=K``.

    Returns:
        The columns in the order of ``names``; 0 at padding.

    Shapes:
        adj: ``(K, n, n)``; mask: ``(K, n)``; returns ``(K, n, len(names))``.

    Raises:
        InputError: For an unknown name.

    Example:
        >>> path = torch.tensor([[[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]])
        >>> compute(path, torch.ones(1, 3, dtype=torch.bool), ["degree", "betweenness"])[0].tolist()
        [[1.0, 0.0], [2.0, 1.0], [1.0, 0.0]]
    """
    descriptor_names(names)
    n = adj.shape[1]
    eye = torch.eye(n, dtype=adj.dtype, device=adj.device)
    a = torch.maximum(adj, adj.transpose(1, 2)) * (1 - eye)
    degree = a.sum(2)
    values: dict[str, Tensor] = {"degree": degree}
    if "clustering" in names:
        values["clustering"] = _in_parts(_clustering, a, degree)
    if "katz" in names:
        values["katz"] = _in_parts(_katz, a, degree)
    if not {"closeness", "harmonic", "betweenness"}.isdisjoint(names):
        with torch.no_grad():
            whole = torch.gt(a, 0.5, out=torch.empty_like(a))
            far = by_shortest_paths(whole, mask, "betweenness" in names)
        values.update(zip(("closeness", "harmonic", "betweenness"), far.unbind(2), strict=True))
    columns = [values[name] if name in values else _one_degree(degree, name) for name in names]
    if not columns:
        return adj.new_zeros(*mask.shape, 0)
    return torch.stack(columns, 2) * mask[..., None]


def _in_parts(measure: Callable[[Tensor, Tensor], Tensor], a: Tensor, degree: Tensor) -> Tensor:
    parts = (torch.split(t, cached(a.shape[1])) for t in (a, degree))
    return torch.cat([measure(*part) for part in zip(*parts, strict=True)])


def _clustering(a: Tensor, degree: Tensor) -> Tensor:
    # zeros and ones: single precision, which is faster, is as exact
    plain = not a.requires_grad and torch.equal(a, a * a)
    b = a.float() if plain else a
    two = torch.bmm(b, b).to(a.dtype)
    closed = (two * a).sum(2)
    pairs = degree * (degree - 1)
    return torch.where(pairs > 0, closed / torch.where(pairs > 0, pairs, torch.ones_like(pairs)), 0.0)


def _katz(a: Tensor, degree: Tensor) -> Tensor:
    largest = degree.detach().amax(1).clamp(min=1.0)
    damping = (0.9 / largest).clamp(max=KATZ_DAMPING)
    eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    return torch.linalg.solve(eye - damping[:, None, None] * a, torch.ones_like(degree))


def _one_degree(degree: Tensor, name: str) -> Tensor:
    """1 at degree ``K``; its slope is half the central difference, +1/2 below and -1/2 above."""
    k = float(name.removeprefix("degree="))
    is_k = (degree.detach().round() == k).to(degree.dtype)
    slope = (
        (degree.detach().round() == k - 1).to(degree.dtype) - (degree.detach().round() == k + 1).to(degree.dtype)
    ) / 2
    return is_k + slope * (degree - degree.detach()) if degree.requires_grad else is_k


def descriptor_columns(names: Sequence[str] = DESCRIPTORS) -> tuple[Column, ...]:
    """Schema columns of these descriptors."""
    return tuple(Column("structural", name=name) for name in names)


def append_descriptors(
    graphs: Sequence[Data], names: Sequence[str] = DESCRIPTORS, *, memory: int = MEMORY
) -> list[Data]:
    """Copies of the graphs with the descriptors as further columns of ``x`` (as ``x`` where there is none).

    Args:
        graphs: Graphs with an edge list; they stay as they are.
        names: Which descriptors.
        memory: Bound in bytes of one batch.

    Returns:
        Shallow copies that share everything but ``x``.

    Shapes:
        ``x`` becomes ``(n, f + len(names))``.

    Example:
        >>> g = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> append_descriptors([g], ["degree", "harmonic"])[0].x.tolist()
        [[1.0, 1.5], [2.0, 2.0], [1.0, 1.5]]
    """
    out: list[Data] = []
    for g in graphs:
        fresh = g.__copy__()
        if g.x is None:
            fresh.num_nodes = None
            fresh.x = torch.zeros(int(g.num_nodes or 0), 0)
        out.append(fresh)
    whole = [g for g in out if g.x.shape[0]]
    for g, columns in zip(whole, _of_graphs(whole, names, memory), strict=True):
        g.x = torch.cat([g.x.reshape(g.x.shape[0], -1), columns], 1)
    for g in out:
        if not g.x.shape[0]:
            g.x = g.x.new_zeros(0, g.x.shape[1] + len(names))
    return out


def _of_graphs(graphs: Sequence[Data], names: Sequence[str], memory: int) -> list[Tensor]:
    """Descriptors of each graph in the dtype of its ``x``, ``(n, len(names))``, whatever the other graphs are."""
    found: list[Tensor] = []
    for part in _runs(graphs):
        bare = [Data(x=g.x.new_zeros(g.x.shape[0], 0), edge_index=g.edge_index) for g in part]
        columns = dict.fromkeys(range(len(part)), torch.empty(0))
        for base in buckets(bare, memory=memory, copies=MATRICES):
            values = compute(base.adj, base.mask, names)
            for k, i in enumerate(base.ids.tolist()):
                x = part[i].x
                if not x.is_floating_point() and not torch.equal(values[k], values[k].round()):
                    raise InputError(f"x has {x.dtype} columns, which cannot hold {', '.join(names)}: give x.float()")
                columns[i] = values[k, : x.shape[0]].to(x.dtype)
        found += columns.values()
    return found


def _runs(graphs: Sequence[Data]) -> Iterator[Sequence[Data]]:
    """Neighbouring graphs with a bounded number of arcs, which are sorted together to form batches."""
    start, arcs = 0, 0
    for k, g in enumerate(graphs):
        arcs += g.edge_index.shape[1]
        if arcs >= ARCS:
            yield graphs[start : k + 1]
            start, arcs = k + 1, 0
    if start < len(graphs):
        yield graphs[start:]


def refresh(adj: Tensor, mask: Tensor, x: Tensor, schema: FeatureSchema, dtype: torch.dtype) -> Tensor:
    """``x`` with its structure-derived columns as the edited edges make them, rounded as the user's own ``x`` is.

    Args:
        adj: Edited adjacencies; gradients flow back to them.
        mask: Real nodes.
        x: Features.
        schema: Tells which columns are structure-derived, and which descriptor each is.
        dtype: Of the user's features.

    Shapes:
        adj: ``(K, n, n)``; mask: ``(K, n)``; x: ``(K, n, f)``; returns like ``x``.
    """
    if not schema.derived:
        return x
    names = [schema.columns[k].derived for k in schema.derived]
    values = compute(adj.to(torch.float64), mask, names).to(dtype).to(x.dtype)
    return x.index_copy(2, torch.tensor(schema.derived, device=x.device), values)


def refreshed(graphs: Sequence[Data], schema: FeatureSchema) -> list[Data]:
    """Graphs whose structure-derived columns fit their edges; as they are where the schema has none.

    Shapes:
        every ``x`` keeps its shape and dtype.
    """
    if not schema.derived or not graphs:
        return list(graphs)
    names = [schema.columns[k].derived for k in schema.derived]
    out = []
    for g, columns in zip(graphs, _of_graphs(graphs, names, MEMORY), strict=True):
        fresh = g.__copy__()
        fresh.x = g.x.clone(memory_format=torch.contiguous_format)
        fresh.x.view(len(g.x), -1)[:, list(schema.derived)] = columns
        out.append(fresh)
    return out


class StructuralFeatures(BaseTransform):
    """Appends structural descriptors to ``x``, as a PyG transform.

    Args:
        names: Which descriptors, see :func:`compute`.

    Example:
        >>> g = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
        >>> StructuralFeatures(["degree"])(g).x.tolist()
        [[1.0], [1.0]]
    """

    def __init__(self, names: Sequence[str] = DESCRIPTORS) -> None:
        self.names = tuple(names)

    def forward(self, data: Data) -> Data:
        """The graph with its descriptors."""
        return append_descriptors([data], self.names)[0]

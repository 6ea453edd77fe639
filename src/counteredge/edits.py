"""What may change (``EditSpace``) and what did change (``EditSet``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.descriptors import refreshed
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch, rebuild
from counteredge.schema import FeatureSchema

__all__ = ["Allowed", "EditSet", "EditSpace", "FeatureEdit", "apply_all", "edit_sets"]

Pair = tuple[int, int]
PerGraph = Callable[[Data], Any]
_NO_PAIRS = torch.empty(0, 2, dtype=torch.long)


@dataclass(frozen=True)
class FeatureEdit:
    """One change of one node's features: a single column, or a swap inside a one-hot group.

    Attributes:
        node: Which node.
        columns: The columns that changed.
        old: Their values before.
        new: Their values after.
    """

    node: int
    columns: tuple[int, ...]
    old: tuple[float, ...]
    new: tuple[float, ...]

    def describe(self, schema: FeatureSchema | None = None) -> str:
        """For people: ``x[7]: C -> N`` or ``x[3, 2]: 0.5 -> 1``."""
        if schema is not None and all(schema.columns[c].kind == "onehot" for c in self.columns):
            was = [schema.names[c] for c, v in zip(self.columns, self.old, strict=True) if v]
            now = [schema.names[c] for c, v in zip(self.columns, self.new, strict=True) if v]
            return f"x[{self.node}]: {'+'.join(was) or '-'} -> {'+'.join(now) or '-'}"
        parts = []
        for c, a, b in zip(self.columns, self.old, self.new, strict=True):
            name = schema.names[c] if schema is not None else str(c)
            parts.append(f"x[{self.node}, {name}]: {a:g} -> {b:g}")
        return ", ".join(parts)


@dataclass(frozen=True)
class EditSet:
    """The edits that lead from one graph to another.

    An undirected edge is one pair ``(i, j)``, ``i < j``, and counts once; so does a swap inside a one-hot group.

    Example:
        >>> g = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> edits = EditSet(added=((1, 2),), removed=((0, 1),))
        >>> len(edits), EditSet.between(g, edits.apply(g)) == edits
        (2, True)
    """

    added: tuple[Pair, ...] = ()
    removed: tuple[Pair, ...] = ()
    features: tuple[FeatureEdit, ...] = ()
    directed: bool = False

    def __len__(self) -> int:
        return len(self.added) + len(self.removed) + len(self.features)

    @property
    def edge_count(self) -> int:
        """Number of edge edits (undirected edges count once): the aligned graph edit distance."""
        return len(self.added) + len(self.removed)

    @property
    def feature_count(self) -> int:
        """Number of feature edits (a one-hot swap counts once)."""
        return len(self.features)

    def apply(self, data: Data, schema: FeatureSchema | None = None) -> Data:
        """The edited graph; ``data`` stays as it is.

        Args:
            data: The graph.
            schema: With it, columns of ``x`` that follow from the edges are computed anew.
        """
        x = data.x.clone(memory_format=torch.contiguous_format)
        entries = [(e.node, c, v) for e in self.features for c, v in zip(e.columns, e.new, strict=True)]
        if entries:
            nodes, columns, values = zip(*entries, strict=True)
            rows = x.view(x.shape[0], -1)  # of the fresh copy
            rows[list(nodes), list(columns)] = torch.tensor(values, dtype=x.dtype, device=x.device)
        removed, added = (torch.tensor(p) if p else _NO_PAIRS for p in (self.removed, self.added))
        out = rebuild(data, removed, added, x, directed=self.directed)
        return out if schema is None else refreshed([out], schema)[0]

    def without(self, index: int) -> EditSet:
        """All edits but number ``index`` (counted added, removed, features)."""
        everything = [("a", e) for e in self.added] + [("r", e) for e in self.removed]
        marked: list[tuple[str, Any]] = [*everything, *(("f", e) for e in self.features)]
        del marked[index]
        parts = {k: tuple(e for kind, e in marked if kind == k) for k in "arf"}
        return EditSet(parts["a"], parts["r"], parts["f"], self.directed)

    @classmethod
    def between(
        cls, before: Data, after: Data, schema: FeatureSchema | None = None, *, directed: bool = False
    ) -> EditSet:
        """What changed from ``before`` to ``after`` (same nodes in the same order).

        Raises:
            InputError: When the number of nodes or columns differs.
        """
        if before.x.shape != after.x.shape:
            raise InputError(f"x has shape {tuple(before.x.shape)} before and {tuple(after.x.shape)} after")
        n = int(before.x.shape[0])
        codes = []
        for g in (before, after):
            src, dst = g.edge_index
            if not directed:
                src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
            codes.append(torch.unique((src * n + dst)[src != dst]))
        added = codes[1][~torch.isin(codes[1], codes[0])].tolist()
        removed = codes[0][~torch.isin(codes[0], codes[1])].tolist()
        return cls(
            tuple(divmod(c, n) for c in added),
            tuple(divmod(c, n) for c in removed),
            _feature_edits(before.x.reshape(n, -1), after.x.reshape(n, -1), schema),
            directed,
        )

    def describe(self, schema: FeatureSchema | None = None) -> list[str]:
        """One line an edit: ``+edge (3, 17)``, ``-edge (4, 5)``, ``x[7]: C -> N``."""
        lines = [f"+edge ({i}, {j})" for i, j in self.added]
        lines += [f"-edge ({i}, {j})" for i, j in self.removed]
        return lines + [e.describe(schema) for e in self.features]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts for JSON."""
        return {
            "added": [list(p) for p in self.added],
            "removed": [list(p) for p in self.removed],
            "features": [
                {"node": e.node, "columns": list(e.columns), "old": list(e.old), "new": list(e.new)}
                for e in self.features
            ],
            "directed": self.directed,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> EditSet:
        """Inverse of :meth:`to_dict`."""
        return cls(
            tuple((int(i), int(j)) for i, j in value["added"]),
            tuple((int(i), int(j)) for i, j in value["removed"]),
            tuple(
                FeatureEdit(e["node"], tuple(e["columns"]), tuple(e["old"]), tuple(e["new"])) for e in value["features"]
            ),
            bool(value["directed"]),
        )


def apply_all(edits: Sequence[EditSet], graphs: Sequence[Data], schema: FeatureSchema | None = None) -> list[Data]:
    """Each graph edited by its set, see :meth:`EditSet.apply`; derived columns are computed for all at once."""
    out = [e.apply(g) for e, g in zip(edits, graphs, strict=True)]
    return out if schema is None else refreshed(out, schema)


def edit_sets(base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor, schema: FeatureSchema) -> list[EditSet]:
    """What changed in each of ``K`` edited graphs of a batch.

    Shapes:
        row: ``(K,)``; adj: ``(K, n, n)``; x: ``(K, n, f)``.
    """
    changed = (adj > 0.5) != (base.adj[row] > 0.5)
    if not base.directed:
        changed = changed.triu(1)
    found: list[tuple[list[Pair], list[Pair], list[tuple[int, int, float, float]]]] = [([], [], []) for _ in row]
    where = changed.nonzero()
    kinds = (adj[changed] < 0.5).tolist()
    for (k, i, j), removed in zip(where.tolist(), kinds, strict=True):
        found[k][removed].append((i, j))
    entries = x != base.x[row]
    values = zip(base.x[row][entries].tolist(), x[entries].tolist(), strict=True)
    for (k, node, column), (old, new) in zip(entries.nonzero().tolist(), values, strict=True):
        found[k][2].append((node, column, old, new))
    return [EditSet(tuple(a), tuple(r), _grouped(f, schema), base.directed) for a, r, f in found]


def _feature_edits(old: Tensor, new: Tensor, schema: FeatureSchema | None) -> tuple[FeatureEdit, ...]:
    differ = old != new
    values = zip(old[differ].tolist(), new[differ].tolist(), strict=True)
    return _grouped([(v, c, *pair) for (v, c), pair in zip(differ.nonzero().tolist(), values, strict=True)], schema)


def _grouped(entries: Sequence[tuple[int, int, float, float]], schema: FeatureSchema | None) -> tuple[FeatureEdit, ...]:
    """Entries (node, column, old, new) as edits: those of one node's one-hot group belong together."""
    units: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
    for node, column, old, new in entries:
        onehot = schema is not None and schema.columns[column].kind == "onehot"
        unit = schema.columns[column].group if onehot and schema is not None else -1 - column
        units.setdefault((node, unit), []).append((column, old, new))
    edits = [FeatureEdit(node, *zip(*unit, strict=True)) for (node, _), unit in units.items()]
    return tuple(sorted(edits, key=lambda e: (e.node, e.columns)))


@dataclass(frozen=True)
class EditSpace:
    """What may change, and at which cost.

    Args:
        add_edges: Allow insertions.
        remove_edges: Allow deletions.
        features: Allow feature edits.
        schema: Meaning of the columns; read off the given graphs when ``None``.
        directed: Edit single arcs (``True``) or undirected pairs (``False``); as each graph is when ``None``.
        frozen_nodes: Nodes whose features and incident edges stay: indices for every graph, or a function
            ``data -> indices``.
        frozen_edges: Pairs (present or absent) that stay: ``[(i, j), ...]``, or a function ``data -> pairs``.
        frozen_features: Columns that stay.
        add_cost: Cost of one insertion: a number or a function ``data -> (n, n)`` tensor.
        remove_cost: Cost of one deletion, likewise.
        feature_cost: Cost of one feature edit: a number or one number a column.
        structural: What becomes of columns that the schema says follow from the edges. ``"refreshed"``: they are no
            targets of edits but follow the edited edges. ``"frozen"``: they keep their values, as in the XPlore
            paper. ``None``: refreshed, except in the ``paper`` presets.
        gamma: Prior of a pair in [-1, 1] (paper, Method): above 0 the pair is cheaper to flip, cost / (1 + gamma)
            (paper, App. A.4), and at -1 it is frozen; the ``paper`` preset adds it to the start of P. A number,
            for absent pairs, an ``(n, n)`` tensor, or a function ``data -> (n, n)`` tensor.

    Example:
        >>> EditSpace.of("edges").features
        False
    """

    add_edges: bool = True
    remove_edges: bool = True
    features: bool = True
    schema: FeatureSchema | None = None
    directed: bool | None = None
    frozen_nodes: Sequence[int] | PerGraph = ()
    frozen_edges: Sequence[Pair] | PerGraph = ()
    frozen_features: Sequence[int] = ()
    add_cost: float | PerGraph = 1.0
    remove_cost: float | PerGraph = 1.0
    feature_cost: float | Sequence[float] = 1.0
    structural: Literal["refreshed", "frozen"] | None = None
    gamma: float | Tensor | PerGraph = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if self.structural not in (None, "refreshed", "frozen"):
            raise InputError(f"structural={self.structural!r} is unknown; use 'refreshed' or 'frozen'")
        for name in ("frozen_nodes", "frozen_edges", "frozen_features"):
            value = getattr(self, name)
            listed = hasattr(value, "__len__") and not isinstance(value, str)
            if not listed and not (callable(value) and name != "frozen_features"):
                raise InputError(f"{name}={value!r} must be a list, for example {name}=[0]")

    @classmethod
    def of(cls, edits: EditSpace | str | None) -> EditSpace:
        """An edit space, or the name of one: ``"edges"``, ``"features"``, ``"both"``."""
        if isinstance(edits, EditSpace):
            return edits
        names = {
            None: cls(),
            "both": cls(),
            "edges": cls(features=False),
            "features": cls(add_edges=False, remove_edges=False),
        }
        if not (edits is None or isinstance(edits, str)) or edits not in names:
            raise InputError(f"edits={edits!r} is unknown; use 'edges', 'features', 'both' or an EditSpace")
        return names[edits]

    def allowed(self, batch: GraphBatch, schema: FeatureSchema) -> Allowed:
        """Spell the space out for a batch.

        Raises:
            InputError: Indices out of range, a schema of another width, costs that are not positive.
        """
        width = batch.x.shape[2]
        if schema.width != width:
            raise InputError(f"the schema describes {schema.width} columns but x has {width}")
        for k in self.frozen_features:
            if isinstance(k, str) or not 0 <= k < width:
                raise InputError(f"frozen_features names column {k!r} but x has columns 0..{width - 1}")
        like = batch.adj
        flip = batch.mask[:, :, None] & batch.mask[:, None, :]
        flip &= ~torch.eye(batch.nodes, dtype=torch.bool, device=like.device)
        flip &= torch.where(like > 0, torch.tensor(self.remove_edges), torch.tensor(self.add_edges))
        nodes = batch.mask.clone()
        for kind in (self.frozen_nodes, self.frozen_edges):
            if callable(kind) or len(kind):
                for b, g in enumerate(batch.graphs):
                    _freeze(g, int(g.x.shape[0]), self, flip[b], nodes[b], batch.directed)
                break
        gamma = _squares(self.gamma, "gamma", batch)
        if isinstance(self.gamma, float | int):
            gamma = gamma.masked_fill(like > 0, 0.0)
        cost = torch.where(
            like > 0, _squares(self.remove_cost, "remove_cost", batch), _squares(self.add_cost, "add_cost", batch)
        )
        if not bool((cost > 0).all()):
            raise InputError("edge costs must be positive; freeze a pair with frozen_edges instead")
        if not bool((gamma.abs() <= 1).all()):
            raise InputError("gamma must lie in [-1, 1]")
        flip &= gamma > -1
        cost = cost / (1 + gamma).clamp(min=1e-12)
        columns = torch.ones(width, dtype=torch.bool, device=like.device)
        columns[schema.indices("fixed", "structural")] = False
        if self.structural != "frozen":
            columns[list(schema.derived)] = False
        columns[list(self.frozen_features)] = False
        if not self.features or not batch.x.is_floating_point():
            columns[:] = False
        prices = torch.as_tensor(self.feature_cost, dtype=like.dtype, device=like.device)
        if prices.dim() == 1 and len(prices) != width:
            raise InputError(f"feature_cost has {len(prices)} entries but x has {width} columns")
        if prices.dim() == 1:
            for k, column in enumerate(schema.columns):
                if column.kind == "onehot" and float(prices[k]) != float(prices[schema.group_of(k)[0]]):
                    raise InputError("feature_cost differs inside a one-hot group; a swap is one edit with one cost")
        if not bool((prices > 0).all()):
            raise InputError("feature costs must be positive; freeze a column with frozen_features instead")
        return Allowed(flip, cost, gamma, nodes[:, :, None] & columns, prices.expand(width), schema)


def _squares(value: float | Tensor | PerGraph, name: str, batch: GraphBatch) -> Tensor:
    """One number for all pairs, or each graph's own matrix, as ``(B, n, n)``."""
    if isinstance(value, float | int):
        return torch.full_like(batch.adj, float(value))
    out = torch.zeros_like(batch.adj) if name == "gamma" else torch.ones_like(batch.adj)
    for b, g in enumerate(batch.graphs):
        n = int(g.x.shape[0])
        found = torch.as_tensor(value(g) if callable(value) else value, dtype=out.dtype, device=out.device)
        if found.dim() != 0 and tuple(found.shape) != (n, n):
            raise InputError(f"{name} has shape {tuple(found.shape)} but the graph has {n} nodes")
        if found.dim() == 2 and not batch.directed and not torch.equal(found, found.t()):
            raise InputError(f"{name} must be symmetric on an undirected graph: (i, j) and (j, i) are one pair")
        out[b, :n, :n] = found
    return out


def _freeze(data: Data, n: int, space: EditSpace, flip: Tensor, nodes: Tensor, directed: bool) -> None:
    """Strike the frozen pairs and nodes from ``flip`` (n, n) and ``nodes`` (n,), in place."""
    found = space.frozen_nodes(data) if callable(space.frozen_nodes) else space.frozen_nodes
    still = torch.as_tensor(found).cpu()
    if still.dtype == torch.bool:
        still = still.nonzero().flatten()
    if len(still) and not 0 <= int(still.min()) <= int(still.max()) < n:
        raise InputError(f"frozen_nodes {still.tolist()} do not all exist: the graph has nodes 0..{n - 1}")
    index = still.long()
    nodes[index] = False
    flip[index, :] = False
    flip[:, index] = False
    pairs = space.frozen_edges(data) if callable(space.frozen_edges) else space.frozen_edges
    fixed = torch.as_tensor(pairs).cpu().long().reshape(-1, 2)
    if len(fixed) and not 0 <= int(fixed.min()) <= int(fixed.max()) < n:
        raise InputError(f"frozen_edges name nodes outside 0..{n - 1}: {fixed.tolist()}")
    flip[fixed[:, 0], fixed[:, 1]] = False
    if not directed:
        flip[fixed[:, 1], fixed[:, 0]] = False


@dataclass(frozen=True)
class Allowed:
    """An :class:`EditSpace` spelled out for one batch.

    Shapes:
        flip, cost, gamma: ``(B, n, n)``; features: ``(B, n, f)``; feature_cost: ``(f,)``.
    """

    flip: Tensor
    cost: Tensor
    gamma: Tensor
    features: Tensor
    feature_cost: Tensor
    schema: FeatureSchema

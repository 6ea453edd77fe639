"""What did change: ``EditSet``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import edge_attributes, pairs_of, rebuild, with_nodes, without_nodes
from counteredge.descriptors import refreshed
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import FeatureSchema

__all__ = ["AttributeEdit", "EditSet", "FeatureEdit", "apply_all", "edit_sets"]

Pair = tuple[int, int]
_NO_PAIRS = torch.empty(0, 2, dtype=torch.long)
_PARTS = ("added", "removed", "features", "new_nodes", "removed_nodes", "attributes")  # in the order of edits


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
class AttributeEdit:
    """One edge that stays and whose attribute changes, a bond that becomes a double one for example.

    Attributes:
        pair: Which edge; both arcs of an undirected one.
        name: Of the attribute, ``"edge_attr"`` for example.
        old: Its row before; a number where the attribute has one dimension.
        new: Its row after.
    """

    pair: Pair
    name: str
    old: Any
    new: Any

    def describe(self, schema: FeatureSchema | None = None) -> str:
        """For people: ``edge (3, 4): single -> double`` or ``edge (3, 4), edge_weight: 0.5 -> 1``."""
        i, j = self.pair
        names = schema.edge_names if schema is not None and self.name == "edge_attr" else ()
        if names and all(_is_onehot(row, len(names)) for row in (self.old, self.new)):
            return f"edge ({i}, {j}): {names[self.old.index(1)]} -> {names[self.new.index(1)]}"
        return f"edge ({i}, {j}), {self.name}: {_text(self.old)} -> {_text(self.new)}"


@dataclass(frozen=True)
class EditSet:
    """The edits that lead from one graph to another.

    An undirected edge is one pair ``(i, j)``, ``i < j``, and counts once; so does a swap inside a one-hot group. A new
    node and a removed node count once each, their edges by themselves.

    Attributes:
        added: New edges; they may name new nodes.
        removed: Edges that are gone, all edges of removed nodes among them (self-loops are not listed).
        features: Changed features.
        directed: Pairs are single arcs.
        values: Attributes of the new edges by name, one entry a new edge; those not named get the graph's most
            frequent value.
        new_nodes: Rows of ``x`` of new nodes, which come after the graph's own ``n`` and are numbered from ``n`` on.
            Further attributes of nodes get zeros where they are floats, and the graph's most frequent row elsewhere.
        removed_nodes: Nodes that are gone; in the edited graph those behind them move up.
        attributes: Changed attributes of edges that stay.
        nodes: ``n``, which must be said where there are new nodes; ``None`` elsewhere.

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
    values: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    new_nodes: tuple[tuple[float, ...], ...] = ()
    removed_nodes: tuple[int, ...] = ()
    attributes: tuple[AttributeEdit, ...] = ()
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.new_nodes and self.nodes is None:
            raise InputError("new_nodes are numbered from the graph's own number of nodes on: say it with nodes=")
        if not self.new_nodes and self.nodes is not None:
            object.__setattr__(self, "nodes", None)  # equal edits are equal

    def __len__(self) -> int:
        return self.edge_count + self.feature_count + self.node_count + self.attribute_count

    @property
    def edge_count(self) -> int:
        """Number of edge edits (undirected edges count once)."""
        return len(self.added) + len(self.removed)

    @property
    def feature_count(self) -> int:
        """Number of feature edits (a one-hot swap counts once)."""
        return len(self.features)

    @property
    def node_count(self) -> int:
        """Number of new and removed nodes."""
        return len(self.new_nodes) + len(self.removed_nodes)

    @property
    def attribute_count(self) -> int:
        """Number of changed attributes of edges that stay."""
        return len(self.attributes)

    @property
    def ged(self) -> int:
        """The aligned graph edit distance: edge edits and node edits, no features and no attributes."""
        return self.edge_count + self.node_count

    def apply(self, data: Data, schema: FeatureSchema | None = None) -> Data:
        """The edited graph; ``data`` stays as it is.

        Args:
            data: The graph.
            schema: With it, columns of ``x`` that follow from the edges are computed anew.

        Raises:
            InputError: Edits of nodes or attributes that are not edits of this graph.
        """
        n = int(data.x.shape[0])
        ends = [v for pair in self.added for v in pair]
        if max(ends, default=0) >= n + len(self.new_nodes) or max((e.node for e in self.features), default=0) >= n:
            raise InputError(f"the edits name nodes that a graph of {n} nodes does not have")
        if self.node_count or self.attributes:
            self._check(data)
        if self.attributes:
            data = self._with_attributes(data)
        if self.new_nodes:
            data = with_nodes(data, torch.tensor(self.new_nodes, dtype=data.x.dtype))
        x = data.x.clone(memory_format=torch.contiguous_format)
        entries = [(e.node, c, v) for e in self.features for c, v in zip(e.columns, e.new, strict=True)]
        if entries:
            nodes, columns, values = zip(*entries, strict=True)
            rows = x.view(x.shape[0], -1)  # of the fresh copy
            rows[list(nodes), list(columns)] = torch.tensor(values, dtype=x.dtype, device=x.device)
        removed, added = (torch.tensor(p) if p else _NO_PAIRS for p in (self.removed, self.added))
        new = {key: torch.tensor(rows) for key, rows in self.values}
        out = rebuild(data, removed, added, x, directed=self.directed, values=new)
        if self.removed_nodes:
            out = without_nodes(out, self.removed_nodes)
        return out if schema is None else refreshed([out], schema)[0]

    def _check(self, data: Data) -> None:
        """Refuse edits of nodes or attributes that do not fit the graph."""
        n, width = int(data.x.shape[0]), 1 if data.x.dim() == 1 else int(data.x.shape[1])
        if self.new_nodes and (self.nodes != n or any(len(row) != width for row in self.new_nodes)):
            raise InputError(f"new nodes for a graph of {self.nodes} nodes; this one has {n}, and {width} columns of x")
        gone = set(self.removed_nodes)
        if not all(0 <= v < n for v in gone) or len(gone) < len(self.removed_nodes):
            raise InputError(f"removed_nodes {list(self.removed_nodes)} are not different nodes out of 0..{n - 1}")
        touched = {v for pair in self.added for v in pair} | {e.node for e in self.features}
        if touched & gone:
            raise InputError(f"node {min(touched & gone)} is removed and edited")
        listed = {*self.removed} | (set() if self.directed else {(j, i) for i, j in self.removed})
        for i, j in data.edge_index.t().tolist():
            if i != j and gone & {i, j} and (i, j) not in listed:
                raise InputError(f"the edge ({i}, {j}) of a removed node is not among the removed edges")
        for e in self.attributes:
            if e.name not in edge_attributes(data):
                raise InputError(f"the graph's edges have no attribute {e.name!r}")
            if e.pair in listed or not bool(self._arcs(data, e.pair).any()):
                raise InputError(f"attribute {e.name!r} of edge {e.pair}: there is no such edge, or it is removed")

    def _arcs(self, data: Data, pair: Pair) -> Tensor:
        """Where an edge is in the list of edges, ``(E,)``."""
        src, dst = data.edge_index
        found = (src == pair[0]) & (dst == pair[1])
        return found if self.directed else found | ((src == pair[1]) & (dst == pair[0]))

    def _with_attributes(self, data: Data) -> Data:
        out = copy.copy(data)
        for e in self.attributes:
            rows = out[e.name].clone() if out[e.name] is data[e.name] else out[e.name]
            rows[self._arcs(data, e.pair)] = torch.tensor(e.new, dtype=rows.dtype, device=rows.device)
            out[e.name] = rows
        return out

    def without(self, index: int) -> EditSet:
        """All edits but number ``index`` (added, removed, features, new nodes, removed nodes, attributes, in order).

        What cannot be without it goes too: the edges of a new node that is undone, and the removal of a node one of
        whose edges comes back. A removed node that comes back is alone; its edges are edits of their own.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in _PARTS}
        ends = list(accumulate(map(len, parts.values())))
        at = range(len(self))[index]
        kind = next(name for name, end in zip(_PARTS, ends, strict=True) if at < end)
        at -= ends[_PARTS.index(kind)] - len(parts[kind])
        undone = parts[kind][at]
        parts[kind] = parts[kind][:at] + parts[kind][at + 1 :]
        new = [True] * len(self.added)
        if kind == "added":
            new[at] = False
        elif kind == "removed":
            parts["removed_nodes"] = tuple(v for v in self.removed_nodes if v not in undone)
        elif kind == "new_nodes":
            node = (self.nodes or 0) + at
            new = [node not in pair for pair in self.added]
            parts["added"] = tuple((i - (i > node), j - (j > node)) for i, j in self.added if node not in (i, j))
        values = tuple(
            (key, tuple(v for v, kept in zip(rows, new, strict=True) if kept)) for key, rows in self.values if any(new)
        )
        return replace(self, values=values, **parts)

    @classmethod
    def between(
        cls, before: Data, after: Data, schema: FeatureSchema | None = None, *, directed: bool = False
    ) -> EditSet:
        """What changed from ``before`` to ``after`` (same nodes in the same order; attributes of edges aside).

        Raises:
            InputError: When the number of nodes or columns differs.
        """
        if before.x.shape != after.x.shape:
            raise InputError(f"x has shape {tuple(before.x.shape)} before and {tuple(after.x.shape)} after")
        n = int(before.x.shape[0])
        pairs = [pairs_of(g, directed=directed) for g in (before, after)]
        codes = [p[:, 0] * n + p[:, 1] for p in pairs]
        added = codes[1][~torch.isin(codes[1], codes[0])].tolist()
        removed = codes[0][~torch.isin(codes[0], codes[1])].tolist()
        return cls(
            tuple(divmod(c, n) for c in added),
            tuple(divmod(c, n) for c in removed),
            _feature_edits(before.x.reshape(n, -1), after.x.reshape(n, -1), schema),
            directed,
        )

    def describe(self, schema: FeatureSchema | None = None) -> list[str]:
        """One line an edit: ``+edge (3, 17)``, ``-edge (4, 5)``, ``x[7]: C -> N``, ``+node 17: C``, ``-node 4``."""
        lines = [f"+edge ({i}, {j})" for i, j in self.added]
        lines += [f"-edge ({i}, {j})" for i, j in self.removed]
        lines += [e.describe(schema) for e in self.features]
        lines += [f"+node {v}: {_node_text(row, schema)}" for v, row in enumerate(self.new_nodes, self.nodes or 0)]
        lines += [f"-node {v}" for v in self.removed_nodes]
        return lines + [e.describe(schema) for e in self.attributes]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts for JSON."""
        out: dict[str, Any] = {
            "added": [list(p) for p in self.added],
            "removed": [list(p) for p in self.removed],
            "features": [
                {"node": e.node, "columns": list(e.columns), "old": list(e.old), "new": list(e.new)}
                for e in self.features
            ],
            "directed": self.directed,
        }
        if self.values:
            out["values"] = {key: list(rows) for key, rows in self.values}
        if self.new_nodes:
            out |= {"new_nodes": [list(row) for row in self.new_nodes], "nodes": self.nodes}
        if self.removed_nodes:
            out["removed_nodes"] = list(self.removed_nodes)
        if self.attributes:
            out["attributes"] = [
                {"pair": list(e.pair), "name": e.name, "old": e.old, "new": e.new} for e in self.attributes
            ]
        return out

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
            tuple((key, _rows(rows)) for key, rows in value.get("values", {}).items()),
            tuple(tuple(row) for row in value.get("new_nodes", ())),
            tuple(int(v) for v in value.get("removed_nodes", ())),
            tuple(
                AttributeEdit((int(e["pair"][0]), int(e["pair"][1])), e["name"], _rows(e["old"]), _rows(e["new"]))
                for e in value.get("attributes", ())
            ),
            value.get("nodes"),
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
    return [
        EditSet(tuple(a), tuple(r), _grouped(f, schema), base.directed, _new_values(base, b, a))
        for b, (a, r, f) in zip(row.tolist(), found, strict=True)
    ]


def _new_values(base: GraphBatch, row: int, added: Sequence[Pair]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Attributes of new edges where they are not simply the most frequent ones."""
    if base.new_edges == "mode" or not added:
        return ()
    i, j = torch.tensor(added).t()
    return tuple((key, _rows(base.pair_values(key)[row, i, j].tolist())) for key in base.edge_keys)


def _rows(values: Any) -> Any:
    """Nested lists as nested tuples, so that edits can be compared and hashed."""
    return tuple(_rows(v) for v in values) if isinstance(values, list) else values


def _is_onehot(row: Any, width: int) -> bool:
    return isinstance(row, tuple) and len(row) == width and sorted(row) == [0] * (width - 1) + [1]


def _text(row: Any) -> str:
    return f"({', '.join(map(_text, row))})" if isinstance(row, tuple) else f"{row:g}"


def _node_text(row: tuple[float, ...], schema: FeatureSchema | None) -> str:
    """The categories of a new node where it has any, its numbers otherwise: ``C``, ``(0.5, 1)``."""
    if schema is not None and schema.width == len(row):
        named = [schema.names[k] for k in schema.indices("onehot") if row[k]]
        if named:
            return "+".join(named)
    return _text(row)


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

"""What did change: ``EditSet``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import pairs_of, rebuild
from counteredge.descriptors import refreshed
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import FeatureSchema

__all__ = ["EditSet", "FeatureEdit", "apply_all", "edit_sets"]

Pair = tuple[int, int]
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

    Attributes:
        added: New edges.
        removed: Edges that are gone.
        features: Changed features.
        directed: Pairs are single arcs.
        values: Attributes of the new edges by name, one entry a new edge; those not named get the graph's most
            frequent value.

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
        new = {key: torch.tensor(rows) for key, rows in self.values}
        out = rebuild(data, removed, added, x, directed=self.directed, values=new)
        return out if schema is None else refreshed([out], schema)[0]

    def without(self, index: int) -> EditSet:
        """All edits but number ``index`` (counted added, removed, features)."""
        everything = [("a", e) for e in self.added] + [("r", e) for e in self.removed]
        marked: list[tuple[str, Any]] = [*everything, *(("f", e) for e in self.features)]
        del marked[index]
        values = tuple((key, tuple(v for k, v in enumerate(rows) if k != index)) for key, rows in self.values)
        parts = {k: tuple(e for kind, e in marked if kind == k) for k in "arf"}
        return EditSet(parts["a"], parts["r"], parts["f"], self.directed, values)

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
        } | ({"values": {key: list(rows) for key, rows in self.values}} if self.values else {})

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

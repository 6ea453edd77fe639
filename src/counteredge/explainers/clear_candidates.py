"""CLEAR: what was generated, made into candidates of the search."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.edits import EditSet, edit_sets
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.explainers.padded import generated_features

__all__ = ["Maker", "filled"]


class Maker:
    """Makes candidates out of what was generated: the whole way there, or a part of it.

    Args:
        search: The batch.
        rows: Which graphs; several times where there are several targets.
        p: Edge probabilities.
        values: Generated features.

    Shapes:
        rows: ``(T,)``; p: ``(T, n, n)``; values: ``(T, n, f)``.
    """

    def __init__(self, search: Search, rows: Tensor, p: Tensor, values: Tensor) -> None:
        base, allowed = search.base, search.moves.allowed
        self.base, self.rows, self.flip, self.p = base, rows, allowed.flip[rows], p
        old, editable = base.x[rows], allowed.features[rows]
        self.x = old
        if old.is_floating_point():
            self.x = generated_features(values, old, editable, search.moves, base.graphs[0].x.dtype)

    def make(self, at: Tensor, u: Tensor | None, share: float, written: bool) -> State:
        """Candidates of some of the rows.

        Args:
            at: Which, ``(K,)``.
            u: Uniform draws, ``(T, n, n)``; the most likely graph when ``None``.
            share: How much of the way: draws change a pair with this share of its probability; of the most likely
                graph's changes those stay that are the surest, above ``1 - share / 2``.
            written: Whether generated features are written.
        """
        rows = self.rows[at]
        old, p = self.base.adj[rows], self.p[at]
        present = old > 0.5
        sure = torch.where(present, 1 - p, p)  # that the pair changes
        if u is None:
            change = sure > 1 - share / 2
            change |= (sure == 0.5) & ~present & (share == 1)
        else:
            change = torch.where(present, 1 - u[at], u[at]) < share * sure
        adj = torch.where(change & self.flip[at], 1 - old, old)
        return State(rows, adj, self.x[at] if written else self.base.x[rows])


def filled(search: Search, rows: Tensor, drawn: Tensor, values: Tensor, least: int) -> dict[int, EditSet]:
    """Edits by which graphs get the drawn pairs; among further nodes too, up to ``least``, where nodes may come.

    Shapes:
        rows: ``(T,)``, each once; drawn: ``(T, m, m)``; values: ``(T, m, f)``.
    """
    base, moves, n = search.base, search.moves, search.base.nodes
    if not len(rows):
        return {}
    old, x = base.adj[rows], base.x[rows]
    own = _cut(drawn, n).to(base.adj)
    adj = torch.where(moves.allowed.flip[rows], own, old)
    editable = moves.allowed.features[rows]
    dtype = base.graphs[0].x.dtype
    if x.is_floating_point():
        x = generated_features(_cut_rows(values, n).to(x.device), x, editable, moves, dtype)
    edits = edit_sets(base, rows, adj, x, moves.allowed.schema)
    # a new node's features start from the first category of each group
    blank = torch.zeros_like(values[0])
    for unit in range(moves.units):
        columns = ((moves.unit_of == unit) & moves.onehot).nonzero().flatten()
        blank[:, columns[:1].cpu()] = 1.0
    writes = bool(moves.allowed.features.any())
    out = {}
    for k, row in enumerate(rows.tolist()):
        size = int(base.sizes[row])
        count = max(size, least) if moves.allowed.grows else size
        may = moves.allowed.flip[row] & (base.adj[row] < 0.5)
        joins = torch.ones(count, dtype=torch.bool)
        joins[:size] = may[:size].any(1).cpu()
        if not bool(joins[:size].any()):
            joins[:] = False
        new = drawn[k, :count, :count] & joins[:, None] & joins
        new = new if base.directed else new.triu(1)
        new[:size, :size] = False
        new.fill_diagonal_(False)
        rest = blank[size:count].to(torch.float64)
        if writes and len(rest):
            free = torch.ones_like(rest, dtype=torch.bool)
            rest = generated_features(values[k, size:count].double(), rest, free, moves, dtype)
        out[row] = replace(
            edits[k],
            added=(*edits[k].added, *(tuple(pair) for pair in new.nonzero().tolist())),
            new_nodes=tuple(tuple(v) for v in rest.tolist()),
            nodes=size,
        )
    return out


def _cut(square: Tensor, n: int) -> Tensor:
    """The first ``n`` rows and columns, filled up where there are fewer."""
    extra = max(0, n - square.shape[1])
    return F.pad(square, (0, extra, 0, extra))[:, :n, :n]


def _cut_rows(values: Tensor, n: int) -> Tensor:
    return F.pad(values, (0, 0, 0, max(0, n - values.shape[1])))[:, :n]

"""Which edited graphs of a batch may be answers to a chemist."""

from __future__ import annotations

import torch
from torch import Tensor

from counteredge.chemistry.judge import ROUND_TRIP, UNLIMITED, Violation, caps, judge
from counteredge.chemistry.reading import Columns, atoms_of, check_bonds, places
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import FeatureSchema

__all__ = ["Chemistry"]

LEAST = (1, 2, 3, 1)  # what a bond of each kind takes of a valence at least


class Chemistry:
    """Judges edited graphs of one batch as molecules.

    A graph that was a valid molecule must stay one. In a graph that was none, each atom that RDKit refuses must have
    been refused before, be the same element with the same charge, and have no higher sum of bond orders; the same is
    asked of atoms whose bonds exceed their largest valence, which RDKit does not always name beside others.

    Args:
        batch: The original graphs; what a new edge is comes from its ``new_edges``.
        schema: The meaning of the columns.
    """

    def __init__(self, batch: GraphBatch, schema: FeatureSchema) -> None:
        self.batch, self.columns = batch, Columns.of(schema)
        self.kind = self._kinds()
        known = caps()
        most = [known[s] for s in self.columns.symbols]
        self.most = torch.tensor(most, dtype=batch.adj.dtype, device=batch.adj.device)
        self._before: dict[int, dict[int, Violation]] = {}

    def legal(self, row: Tensor, adj: Tensor, x: Tensor, among: Tensor) -> Tensor:
        """Which edited graphs are as valid as their originals; those outside ``among`` are not looked at, ``(S,)``.

        Shapes:
            row, among: ``(S,)``; adj: ``(S, n, n)``; x: ``(S, n, f)``.
        """
        legal = torch.zeros_like(among)
        at = among.nonzero().flatten()
        at = at[self._plausible(row[at], adj[at], x[at])]
        for k in at.tolist():
            legal[k] = self._keeps(int(row[k]), adj[k], x[k])
        return legal

    def open(self, row: Tensor, adj: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Which pairs may be flipped, and which columns set, without an atom getting more bonds than it can hold.

        A cheap look without RDKit. Nothing is lost by it: every answer is reached with its removals first.

        Shapes:
            row: ``(S,)``; adj: ``(S, n, n)``; x: ``(S, n, f)``; returns ``(S, n, n)`` and ``(S, n, f)``.
        """
        taken, room = self._least(row, adj), self._room(row, x)
        least = torch.tensor([*LEAST, UNLIMITED], dtype=adj.dtype, device=adj.device)[self.kind[row]]
        fits = taken[:, :, None] + least <= room[:, :, None]
        if self.batch.directed:  # the reverse of an arc that is there adds no bond
            fits |= adj.transpose(1, 2) > 0.5
        columns = torch.ones_like(x, dtype=torch.bool)
        if self.columns.charge is None:
            columns[..., list(self.columns.atoms)] = taken[..., None] <= self.most
        return (adj > 0.5) | (fits & fits.transpose(1, 2)), columns

    def _kinds(self) -> Tensor:
        """Place in BONDS of the bond that each pair has or would get, -1 for none of them, ``(B, n, n)``."""
        batch, columns = self.batch, self.columns
        kind = torch.zeros(batch.adj.shape, dtype=torch.long, device=batch.adj.device)
        bare = [g.get("edge_attr") is None for g in batch.graphs]
        if all(bare):
            return kind
        if any(bare):
            raise InputError("chemistry: some graphs have edge_attr and others have none; explain them apart")
        for i, g in zip(batch.ids.tolist(), batch.graphs, strict=True):
            check_bonds(g, columns, f"graph {i}")
        if not columns.bonded:
            return kind
        return places(batch.pair_values("edge_attr"), columns)

    def _plausible(self, row: Tensor, adj: Tensor, x: Tensor) -> Tensor:
        """False only where RDKit would refuse for certain: an atom whose bonds exceed its largest valence, ``(S,)``."""
        return (self._least(row, adj) <= self._room(row, x)).all(1)

    def _room(self, row: Tensor, x: Tensor) -> Tensor:
        """What the bonds of each atom may take at most: its valence, or what they took in the original, ``(S, n)``."""
        atoms = list(self.columns.atoms)
        changed = (x[..., atoms] != self.batch.x[row][..., atoms]).any(-1)
        most = x[..., atoms].to(self.most.dtype) @ self.most
        # a node that is no known element is left to the exact judgement
        most = torch.where((x[..., atoms] == 1).sum(-1) == 1, most, torch.full_like(most, UNLIMITED))
        if self.columns.charge is not None:
            charge = x[..., self.columns.charge].to(most.dtype)
            changed |= charge != self.batch.x[row][..., self.columns.charge].to(most.dtype)
            most = most + charge.abs()
        return torch.where(changed, most, torch.maximum(most, self._least(row, self.batch.adj[row])))

    def _least(self, row: Tensor, adj: Tensor) -> Tensor:
        """The least that the bonds of each atom take of its valence, ``(S, n)``."""
        least = torch.tensor([*LEAST, 0], dtype=adj.dtype, device=adj.device)  # -1 is the last
        bonds = adj * least[self.kind[row]]
        # of two opposite arcs the upper one says what the bond is, here and in the exact judgement
        one = torch.where(adj > 0.5, bonds, bonds.transpose(1, 2)).triu(1)
        return one.sum(2) + one.sum(1)

    def _keeps(self, row: int, adj: Tensor, x: Tensor) -> bool:
        after = self._violations(row, adj, x)
        if not after:
            return True
        if row not in self._before:
            self._before[row] = self._violations(row, self.batch.adj[row], self.batch.x[row])
        before = self._before[row]
        return all(
            i in before and v[:2] == before[i][:2] and v.orders <= before[i].orders + 1e-9 for i, v in after.items()
        )

    def _violations(self, row: int, adj: Tensor, x: Tensor) -> dict[int, Violation]:
        n = int(self.batch.graphs[row].x.shape[0])
        present = adj[:n, :n] > 0.5
        i, j = (present | present.t()).triu(1).nonzero(as_tuple=True)
        kind = torch.where(present[i, j], self.kind[row, i, j], self.kind[row, j, i])
        if bool((kind < 0).any()):
            return {ROUND_TRIP: Violation(None, 0, float("inf"))}  # an edge that is no bond is nowhere a molecule
        bonds = list(zip(i.tolist(), j.tolist(), kind.tolist(), strict=True))
        return judge(atoms_of(x[:n], self.columns), bonds, self.columns.charge is not None)[1]

"""Single edits as numbers: enumerate, rank by gradient, apply and undo them for many graphs at once.

A *move* is one edit: flip a pair, or write one feature value (a swap inside a one-hot group, a binary flip, a number to
its upper or lower bound). A *unit* is what a move changes and an undo restores: a pair, or a node's feature group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from counteredge.edits import EditSet
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.space import Allowed

__all__ = ["Moves", "State"]


@dataclass
class State:
    """``S`` partly edited graphs of one batch.

    Shapes:
        row: ``(S,)``, the graph each comes from; adj: ``(S, n, n)``; x: ``(S, n, f)``.
    """

    row: Tensor
    adj: Tensor
    x: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Tensor) -> State:
        return State(self.row[index], self.adj[index], self.x[index])

    @staticmethod
    def cat(states: Sequence[State]) -> State:
        """One after the other."""
        return State(*(torch.cat([getattr(s, k) for s in states]) for k in ("row", "adj", "x")))

    @staticmethod
    def start(base: GraphBatch, row: Tensor | None = None) -> State:
        """The original graphs."""
        rows = torch.arange(base.size, device=base.adj.device) if row is None else row
        return State(rows, base.adj[rows], base.x[rows])

    @staticmethod
    def of(base: GraphBatch, edits: Sequence[tuple[int, EditSet]]) -> State:
        """Edited graphs of the batch, each from its row and its edits; nodes that come or go are left out."""
        out = State.start(base, torch.tensor([r for r, _ in edits], dtype=torch.long, device=base.adj.device))
        for k, (_, edit) in enumerate(edits):
            for pairs, value in ((edit.added, 1.0), (edit.removed, 0.0)):
                for i, j in pairs:
                    out.adj[k, i, j] = value
                    if not edit.directed:
                        out.adj[k, j, i] = value
            for e in edit.features:
                out.x[k, e.node, list(e.columns)] = torch.tensor(e.new, dtype=out.x.dtype, device=out.x.device)
        return out


class Moves:
    """All single edits that an edit space allows on a batch.

    Moves are numbered: first the ``P`` pairs (upper triangle, or all ordered pairs when directed), then ``n * f``
    writes "1 / flip / to the upper bound", then, if some column is a number, ``n * f`` writes "to the lower bound".

    Args:
        base: The original graphs.
        allowed: What may change.
    """

    def __init__(self, base: GraphBatch, allowed: Allowed) -> None:
        self.base, self.allowed = base, allowed
        n, f = base.nodes, base.x.shape[2]
        device = base.adj.device
        full = torch.ones(n, n, dtype=torch.bool, device=device)
        keep = ~torch.eye(n, dtype=torch.bool, device=device) if base.directed else full.triu(1)
        self.i, self.j = keep.nonzero(as_tuple=True)
        self.pairs = len(self.i)
        schema = allowed.schema
        kinds = [c.kind for c in schema.columns]
        self.onehot = torch.tensor([k == "onehot" for k in kinds], dtype=torch.bool, device=device)
        self.binary = torch.tensor([k == "binary" for k in kinds], dtype=torch.bool, device=device)
        self.number = torch.tensor([k in ("integer", "continuous") for k in kinds], dtype=torch.bool, device=device)
        steps = [c.step or float(c.kind == "integer") for c in schema.columns]
        self.step = torch.tensor(steps, dtype=torch.float64, device=device)  # 0: any value
        self.lo = torch.tensor([c.lo for c in schema.columns], dtype=torch.float64, device=device)
        self.hi = torch.tensor([c.hi for c in schema.columns], dtype=torch.float64, device=device)
        # steps are counted from the lower bound, whole numbers from 0
        stepped = torch.tensor([c.step > 0 for c in schema.columns], dtype=torch.bool, device=device)
        anchored = stepped & torch.isfinite(self.lo)
        self.anchor = torch.where(anchored, self.lo, torch.zeros_like(self.lo))
        self.lo, self.hi = self._reachable(self.lo, torch.ceil), self._reachable(self.hi, torch.floor)
        names = [("g", c.group) if c.kind == "onehot" else ("c", k) for k, c in enumerate(schema.columns)]
        units = {u: i for i, u in enumerate(dict.fromkeys(names))}
        self.unit_of = torch.tensor([units[u] for u in names], dtype=torch.long, device=device)
        self.units = len(units)
        # membership[k, l]: columns k and l are written together
        self.together = self.unit_of[:, None] == self.unit_of[None, :]
        self.down = bool((allowed.features & self.number).any())
        self.count = self.pairs + n * f * (2 if self.down else 1)
        self.unit_count = self.pairs + n * self.units
        self.flip = allowed.flip[:, self.i, self.j]
        first = torch.zeros(self.units, dtype=torch.float64, device=device)
        first.index_copy_(0, self.unit_of, allowed.feature_cost.to(torch.float64))
        pair_cost = allowed.cost[:, self.i, self.j]
        self.unit_cost = torch.cat([pair_cost, first.expand(base.size, n, self.units).flatten(1)], 1)
        nf = allowed.feature_cost.to(torch.float64).expand(base.size, n, f).flatten(1)
        self.cost = torch.cat([pair_cost, nf, nf] if self.down else [pair_cost, nf], 1)

    def _reachable(self, bound: Tensor, rounding: Callable[[Tensor], Tensor]) -> Tensor:
        """The last value within a bound that a step reaches."""
        step = torch.where(self.step > 0, self.step, torch.ones_like(self.step))
        snapped = self.anchor + rounding(((bound - self.anchor) / step * (1 + 1e-12)).round(decimals=9)) * step
        return torch.where((self.step > 0) & torch.isfinite(bound), snapped, bound)

    def check_bounds(self) -> None:
        """Moves write bounds, so each number that may change needs both.

        Raises:
            InputError: A number that may change has none.
        """
        endless = self.number & ~(torch.isfinite(self.lo) & torch.isfinite(self.hi))
        columns = (endless & self.allowed.features.flatten(0, 1).any(0)).nonzero().flatten().tolist()
        if columns:
            raise InputError(
                f"columns {columns} of x have no finite bounds: give lo and hi "
                "(FeatureSchema.infer reads them off graphs), or freeze them with frozen_features"
            )

    def on_grid(self, x: Tensor) -> Tensor:
        """Numbers moved onto the steps of their columns, ``(..., f)``."""
        step = torch.where(self.step > 0, self.step, torch.ones_like(self.step)).to(x.dtype)
        anchor = self.anchor.to(x.dtype)
        return torch.where(self.number & (self.step > 0), anchor + ((x - anchor) / step).round() * step, x)

    def directed_from(self, new: Tensor, old: Tensor) -> Tensor:
        """New feature values, the old ones where a column may not go that way, ``(..., f)``."""
        wrong = ((new > old) & ~self.allowed.rise) | ((new < old) & ~self.allowed.fall)
        return torch.where(wrong, old, new)

    def changed(self, s: State) -> Tensor:
        """Which units differ from the original, ``(S, units)``."""
        base = self.base
        pair = (s.adj[:, self.i, self.j] > 0.5) != (base.adj[s.row][:, self.i, self.j] > 0.5)
        entry = (s.x != base.x[s.row]).to(torch.float64)
        group = torch.zeros(len(s), base.nodes, self.units, dtype=torch.float64, device=entry.device)
        group.index_add_(2, self.unit_of, entry)
        return torch.cat([pair, group.flatten(1) > 0], 1)

    def costs(self, s: State) -> Tensor:
        """Total cost of each state's edits, ``(S,)``."""
        return (self.changed(s).to(torch.float64) * self.unit_cost[s.row]).sum(1)

    def removes(self, s: State, which: Tensor, move: Tensor) -> Tensor:
        """Which moves take an edge away: ``move[k]`` of state ``which[k]``.

        Shapes:
            which, move: ``(K,)``; returns ``(K,)``.
        """
        found = move < self.pairs
        at = found.nonzero().flatten()
        pair = move[at]
        found[at] = s.adj[which[at], self.i[pair], self.j[pair]] > 0.5
        return found

    def open(self, s: State) -> Tensor:
        """Which moves each state still may make, ``(S, M)``: allowed, no repetition, not on a unit already changed."""
        changed = self.changed(s)
        pair = self.flip[s.row] & ~changed[:, : self.pairs]
        n = self.base.nodes
        fresh = ~changed[:, self.pairs :].view(len(s), n, self.units)[:, :, self.unit_of]
        editable = self.allowed.features[s.row] & fresh
        if self.allowed.chemistry is not None:
            bonds, atoms = self.allowed.chemistry.open(s.row, s.adj, s.x)
            pair &= bonds[:, self.i, self.j]
            editable &= atoms
        if not s.x.is_floating_point():
            nothing = torch.zeros_like(editable).flatten(1)
            return torch.cat([pair, nothing], 1)
        # leaving a frozen category is an edit of a frozen column too
        stuck = ((s.x == 1) & ~self.allowed.features[s.row]).to(torch.float64) @ self.together.to(torch.float64)
        rise, fall = self.allowed.rise, self.allowed.fall
        flips = self.binary & torch.where(s.x > 0.5, fall, rise)
        up = editable & torch.where(
            self.onehot, (s.x != 1) & (stuck == 0), flips | (self.number & rise & (s.x < self.hi))
        )
        parts = [pair, up.flatten(1)]
        if self.down:
            parts.append((editable & self.number & fall & (s.x > self.lo)).flatten(1))
        return torch.cat(parts, 1)

    def gains(self, s: State, g_adj: Tensor | None, g_x: Tensor | None) -> Tensor:
        """First-order change of the margin by each move, ``(S, M)``; unknown gains are zero.

        For a pair: ``(1 - 2 A_ij) dm/dA_ij`` (both directions when undirected); for a feature write: the dot product of
        the gradient and the change.

        Shapes:
            g_adj: ``(S, n, n)``; g_x: ``(S, n, f)``.
        """
        if g_adj is None:
            pair = torch.zeros(len(s), self.pairs, dtype=torch.float64, device=s.adj.device)
        else:
            slope = g_adj[:, self.i, self.j]
            if not self.base.directed:
                slope = slope + g_adj[:, self.j, self.i]
            pair = slope * (1 - 2 * s.adj[:, self.i, self.j])
        if g_x is None:
            up = down = torch.zeros(len(s), self.base.nodes * s.x.shape[2], dtype=torch.float64, device=s.adj.device)
        else:
            # a swap takes 1 from the group's present column and gives it to the new one
            leaving = (g_x * s.x * self.onehot) @ self.together.to(g_x.dtype)
            up = torch.where(
                self.onehot,
                g_x - leaving,
                g_x * torch.where(self.binary, 1 - 2 * s.x, self.hi.to(g_x.dtype) - s.x),
            ).flatten(1)
            down = (g_x * (self.lo.to(g_x.dtype) - s.x)).flatten(1)
        return torch.cat([pair, up, down] if self.down else [pair, up], 1)

    def apply(self, s: State, move: Tensor, which: Tensor | None = None) -> State:
        """Each state after its move; state ``which[k]`` after ``move[k]`` when ``which`` is given.

        Shapes:
            move, which: ``(K,)``.
        """
        row, adj = (t.clone() if which is None else t[which] for t in (s.row, s.adj))
        at = (move < self.pairs).nonzero().flatten()
        i, j = self.i[move[at]], self.j[move[at]]
        adj[at, i, j] = 1 - adj[at, i, j]
        if not self.base.directed:
            adj[at, j, i] = 1 - adj[at, j, i]
        return State(row, adj, self.written(s, move, which))

    def written(self, s: State, move: Tensor, which: Tensor | None = None) -> Tensor:
        """The features that :meth:`apply` leaves, ``(K, n, f)``."""
        x = s.x.clone() if which is None else s.x[which]
        n, f = self.base.nodes, x.shape[2]
        at = (move >= self.pairs).nonzero().flatten()
        if not len(at):
            return x
        write = move[at] - self.pairs
        low = write >= n * f
        write = write % (n * f)
        node, col = write // f, write % f
        old = x[at, node]
        value = torch.where(
            low,
            self.lo[col],
            torch.where(self.number[col], self.hi[col], 1 - old.gather(1, col[:, None])[:, 0].to(torch.float64)),
        )
        value = torch.where(self.onehot[col], torch.ones_like(value), value)
        new = torch.where(self.together[col] & self.onehot[col, None], torch.zeros_like(old), old)
        x[at, node] = new.scatter(1, col[:, None], value[:, None].to(x.dtype))
        return x

    def undo(self, s: State, units: Tensor) -> State:
        """Each state with the given units back to the original, ``(S, units)`` boolean."""
        base = self.base
        n = base.nodes
        mask = torch.zeros(len(s), n, n, dtype=torch.bool, device=s.adj.device)
        mask[:, self.i, self.j] = units[:, : self.pairs]
        if not base.directed:
            mask |= mask.transpose(1, 2).clone()
        entries = units[:, self.pairs :].view(len(s), n, self.units)[:, :, self.unit_of]
        return State(s.row, torch.where(mask, base.adj[s.row], s.adj), torch.where(entries, base.x[s.row], s.x))

"""What every stage of a search shares: the graphs, their labels, evaluation, ranking, verification, budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.edits import EditSet, apply_all, edit_sets
from counteredge.engine.moves import Moves, State
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.space import Allowed

__all__ = ["Budget", "Search", "best_in_group"]


@dataclass(frozen=True)
class Budget:
    """Limits of one graph's search; ``None`` is no limit.

    Args:
        calls: Oracle calls (forward). A stage that would not fit is not begun.
        seconds: Wall-clock time of the whole ``explain`` call.
        edits: Largest number of edits of an answer.
        edges: Largest number of edge edits of an answer.
        features: Largest number of feature edits of an answer.
    """

    calls: int | None = None
    seconds: float | None = None
    edits: int | None = None
    edges: int | None = None
    features: int | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "seconds", "edits", "edges", "features"):
            value = getattr(self, name)
            kinds = (int, float) if name == "seconds" else (int,)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not value > 0):
                raise InputError(f"Budget({name}={value!r}) must be a positive number, or None for no limit")


def best_in_group(group: Tensor, keys: list[Tensor], keep: int = 1) -> Tensor:
    """Indices of the ``keep`` smallest entries of each group, by ``keys`` in order, ties by position.

    Shapes:
        group: ``(K,)``; keys: each ``(K,)``; returns indices sorted by group, then by rank.
    """
    order = torch.arange(len(group), device=group.device)
    for key in reversed([group, *keys]):
        order = order[torch.sort(key[order], stable=True).indices]
    sorted_group = group[order]
    starts = torch.searchsorted(sorted_group, sorted_group, side="left")
    rank = torch.arange(len(order), device=group.device) - starts
    return order[rank < keep]


class Search:
    """One batch of graphs under search.

    Results grow in ``solved``, ``state`` (the best counterfactual of each graph so far), ``stage``, and ``answers``
    (the edits and edited graphs that the untouched model confirmed last).

    Args:
        oracle: An oracle in session.
        base: The graphs.
        allowed: What may change.
        before: What the untouched model says about them, ``(B, C)``.
        budget: Limits.
        deadline: ``time.monotonic()`` value at which everything stops.
        on_done: Called with the number of graphs that have just been finished.
        others: Units changed by earlier answers, each ``(B, units)``, and the largest share in common with any of them.
    """

    def __init__(
        self,
        oracle: Oracle,
        base: GraphBatch,
        allowed: Allowed,
        before: Tensor,
        budget: Budget,
        deadline: float | None,
        on_done: Callable[[int], None],
        others: tuple[Sequence[Tensor], float] = ((), 1.0),
    ) -> None:
        self.oracle, self.base, self.budget = oracle, base, budget
        self.before, self.y0 = before, oracle.decision.labels(before)
        self.moves = Moves(base, allowed)
        self.deadline, self.on_done = deadline, on_done
        self.others, self.most_in_common = others
        limits = (allowed.max_degree, budget.edges, budget.features)
        self.limited = allowed.keep_connected or bool(self.others) or any(most is not None for most in limits)
        self.limited |= allowed.chemistry is not None
        size = base.size
        self.solved = torch.zeros(size, dtype=torch.bool)
        self.stopped = torch.zeros(size, dtype=torch.bool)
        self.exhausted = torch.zeros(size, dtype=torch.bool)  # proved to have no answer
        self.state = State.start(base)
        self.stage = ["none"] * size
        self.answers: dict[int, tuple[EditSet, Data]] = {}
        self.outside = torch.zeros(size, dtype=torch.bool)  # answers that ``state`` cannot hold: nodes came or went
        self.raw: dict[int, tuple[int, int]] = {}  # edge and feature edits before they were made fewer
        self.several = False  # whether further answers will be asked for
        self.reasons: dict[int, str] = {}  # why a graph has no answer, where its method knows
        self.keeps: Callable[[int, EditSet], bool] | None = None  # what answers outside of ``state`` have to be besides
        # graphs that the user gave as examples of what is wished, and what the model says of them
        self.references: tuple[Sequence[Data], Tensor] = ((), before[:0])
        # equal numbers must stay equal whatever else is in the batch: ranking is done on this grid
        self.grid = 1e-9 if oracle.precision == torch.float64 else 1e-4

    def open_rows(self, rows: Tensor | None = None) -> Tensor:
        """Graphs that still want an answer, of all or of some, ``(R,)``."""
        left = ~self.solved & ~self.stopped & ~self.exhausted
        return left.nonzero().flatten() if rows is None else rows[left[rows]]

    # -- evaluation --------------------------------------------------------------------------------------------------

    def margins(self, s: State) -> tuple[Tensor, Tensor]:
        """Exact margins and whether they are flips beyond the tolerance, ``(S,)`` each; within it a margin is 0."""
        z = self.oracle.logits(self.base, s.row, s.adj, s.x)
        m, flips = self._decided(self.oracle.decision.margins(z, self.y0[s.row]), z)
        return m, flips & self.legal(s, flips)

    def _decided(self, margin: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        tolerance = self.oracle.tolerance(z)
        return torch.where(margin.abs() <= tolerance, 0.0, margin), margin < -tolerance

    def legal(self, s: State, among: Tensor | None = None) -> Tensor:
        """Which states may be answers, whatever the model says of them, ``(S,)``: limits on whole graphs.

        With ``among`` only those states need an answer: what is costly to judge is not judged of the others.
        """
        if not self.limited:
            return torch.ones(len(s), dtype=torch.bool, device=s.adj.device)
        legal = self.moves.allowed.legal(self.base, s.row, s.adj, s.x, among)
        changed = self.moves.changed(s)
        parts = changed[:, : self.moves.pairs], changed[:, self.moves.pairs :]
        for most, part in zip((self.budget.edges, self.budget.features), parts, strict=True):
            if most is not None:
                legal &= part.sum(1) <= most
        for other in self.others:
            that = other[s.row]
            shared = (changed & that).sum(1)
            legal &= ~that.any(1) | (shared <= self.most_in_common * (changed | that).sum(1))
        return legal

    def could_flip(self, s: State) -> bool:
        """Whether any of the states is a flip, or so near one that rounding decides."""
        z = self.oracle.logits(self.base, s.row, s.adj, s.x)
        m = self.oracle.decision.margins(z, self.y0[s.row])
        near = m < self.oracle.tolerance(z)
        return bool((near & self.legal(s, near)).any())

    def try_moves(self, s: State, which: Tensor, move: Tensor) -> tuple[Tensor, Tensor]:
        """Margins and flips after single moves, without holding all edited graphs at once.

        Shapes:
            which: ``(K,)``, index into ``s``; move: ``(K,)``; returns two ``(K,)``.
        """
        if not self.limited and self.oracle.lists_pay(self.base):
            return self._in_lists(s, which, move)
        return self._in_parts(len(which), lambda part: self.moves.apply(s, move[part], which[part]))

    def try_together(self, s: State, which: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Margins and flips after several moves one after the other. ``moves``: ``(K, m)``."""

        def make(part: slice) -> State:
            state = s[which[part]]
            for move in moves[part].t():
                state = self.moves.apply(state, move)
            return state

        return self._in_parts(len(which), make)

    def try_undos(self, s: State, which: Tensor, units: Tensor | Callable[[slice], Tensor]) -> tuple[Tensor, Tensor]:
        """Margins and flips after units went back to the original.

        ``units``: ``(K, units)`` boolean, or what gives some of these rows, so that they are not held all at once.
        """
        rows = units if callable(units) else units.__getitem__
        return self._in_parts(len(which), lambda part: self.moves.undo(s[which[part]], rows(part)))

    def _in_lists(self, s: State, which: Tensor, move: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`try_moves` for large sparse graphs: a candidate is its state's edge list with one pair flipped."""
        step = 64
        margins, flips = [s.adj.new_zeros(0)], [s.row.new_zeros(0, dtype=torch.bool)]
        for k in range(0, len(which), step):
            w, m = which[k : k + step], move[k : k + step]
            if self.late():
                margins.append(torch.full((len(w),), float("inf"), dtype=torch.float64, device=w.device))
                flips.append(torch.zeros_like(w, dtype=torch.bool))
                continue
            used, place = torch.unique(w, return_inverse=True)
            pair = torch.where(m < self.moves.pairs, m, -1)
            ends = torch.stack([self.moves.i[pair.clamp(min=0)], self.moves.j[pair.clamp(min=0)]], 1)
            ends[pair < 0] = -1
            z = self.oracle.moved(self.base, s.row[used], s.adj[used], place, self.moves.written(s, m, w), ends)
            margin, flip = self._decided(self.oracle.decision.margins(z, self.y0[s.row[w]]), z)
            margins.append(margin)
            flips.append(flip)
        return torch.cat(margins), torch.cat(flips)

    def _in_parts(self, count: int, make: Callable[[slice], State]) -> tuple[Tensor, Tensor]:
        step = self.oracle.chunk(self.base)
        parts: list[tuple[Tensor, Tensor]] = []
        for k in range(0, count, step):
            if self.late():  # what was not looked at is no answer
                rest = torch.full((count - k,), float("inf"), dtype=torch.float64, device=self.base.adj.device)
                parts.append((rest, torch.zeros_like(rest, dtype=torch.bool)))
                break
            parts.append(self.margins(make(slice(k, k + step))))
        if not parts:
            empty = torch.zeros(0, dtype=torch.float64, device=self.base.adj.device)
            return empty, empty.bool()
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def rank(self, s: State, rivals: int = 1) -> tuple[Tensor, Tensor]:
        """First-order estimate of each move's worth.

        Returns:
            Score of every move (change of the margin towards the best of the ``rivals`` nearest goals, per unit of
            cost; infinite where not allowed), and the exact margins of the states.

        Shapes:
            returns ``(S, M)`` and ``(S,)``.
        """
        oracle = self.oracle
        step = oracle.chunk(self.base, gradients=True)
        scores, margins = [], []
        for k in range(0, len(s), step):
            part = s[torch.arange(k, min(k + step, len(s)), device=s.row.device)]
            score, margin = self._rank_part(part, rivals)
            scores.append(score)
            margins.append(margin)
        return torch.cat(scores), torch.cat(margins)

    def _rank_part(self, s: State, rivals: int) -> tuple[Tensor, Tensor]:
        oracle, moves = self.oracle, self.moves
        # columns that follow from the edges have gradients of their own
        adj = s.adj.clone().requires_grad_(oracle.way(self.base).ranks or oracle.follows is not None)
        wants_x = s.x.is_floating_point() and s.x.shape[2] > 0
        x = s.x.clone().requires_grad_() if wants_x else s.x
        leaves = [t for t in (adj, x) if t.requires_grad]
        z = oracle.relaxed(self.base, s.row, adj, x, ranking=True)
        goals = oracle.decision.rivals(z, self.y0[s.row], rivals)
        margin = goals[:, 0].detach()
        estimate: Tensor | None = None
        for r in range(goals.shape[1]):
            found: list[Tensor | None] = [None] * len(leaves)
            if leaves and goals.requires_grad:
                found = list(
                    torch.autograd.grad(
                        goals[:, r].sum(), leaves, retain_graph=r + 1 < goals.shape[1], allow_unused=True
                    )
                )
            named = {id(t): g for t, g in zip(leaves, found, strict=True) if g is not None}
            g_adj, g_x = (named[id(t)].nan_to_num(0, 0, 0) if id(t) in named else None for t in (adj, x))
            after = goals[:, r, None].detach() + moves.gains(s, g_adj, g_x)
            estimate = after if estimate is None else torch.minimum(estimate, after)
        if estimate is None:
            raise InputError("the decision has no goal to move towards")
        score = (estimate - margin[:, None]) / moves.cost[s.row]
        return score.masked_fill(~moves.open(s), float("inf")), margin

    def top(self, score: Tensor, keep: int) -> tuple[Tensor, Tensor]:
        """The ``keep`` best allowed moves of each state: flat ``(which, move)``, best first, ties by number."""
        finite = torch.isfinite(score)
        scale = score.masked_fill(~finite, 0).abs().amax(1, keepdim=True).clamp(min=1e-30)
        order = torch.sort(self.snap(score / scale), dim=1, stable=True).indices[:, :keep]
        ok = finite.gather(1, order)
        which = torch.arange(len(score), device=score.device)[:, None].expand_as(order)
        return which[ok], order[ok]

    def snap(self, value: Tensor) -> Tensor:
        """Values on the ranking grid; differences below it are ties."""
        return torch.round(value / self.grid)

    # -- verification and budgets ------------------------------------------------------------------------------------

    def confirm(self, s: State) -> Tensor:
        """Whether the untouched model, on the really edited graphs, agrees that they are counterfactuals, ``(S,)``."""
        if not len(s):
            return torch.zeros(0, dtype=torch.bool)
        rows = s.row.tolist()
        edits = edit_sets(self.base, s.row, s.adj, s.x, self.moves.allowed.schema)
        data = apply_all(edits, [self.base.graphs[r] for r in rows], self.oracle.follows)
        z = self.oracle.predict(data, self.base.ids[s.row].tolist())
        agreed = self.oracle.decision.flips(z, self.y0[s.row])
        for k, r in enumerate(rows):
            if agreed[k]:
                self.answers[r] = edits[k], data[k]
        return agreed

    def settle(self, s: State, stage: str) -> None:
        """Confirm the candidates that better what their graphs have, and record those that hold."""
        better = self.improves(s)
        agreed = better[self.confirm(s[better])]
        self.accept(s[agreed], stage)

    def settle_edits(self, found: dict[int, EditSet], stage: str) -> Tensor:
        """The same for edits that a state cannot hold, because nodes come, go, or edges change their attributes.

        Args:
            found: By row, a candidate.
            stage: Name under which answers are recorded.

        Returns:
            Rows that have an answer now.
        """
        rows = torch.tensor(list(found), dtype=torch.long)
        if not found:
            return rows
        data = apply_all(list(found.values()), [self.base.graphs[r] for r in found], self.oracle.follows)
        z = self.oracle.predict(data, self.base.ids[rows].tolist())
        agreed = self.oracle.decision.flips(z, self.y0[rows])
        for k, r in enumerate(found):
            if agreed[k]:
                self.answers[r] = found[r], data[k]
        rows = rows[agreed]
        fresh = int((~self.solved[rows]).sum())
        self.solved[rows] = self.outside[rows] = True
        self.oracle.mark_valid(self.base.ids[rows])
        for r in rows.tolist():
            self.stage[r] = stage
        self.on_done(fresh)
        return rows

    def note_raw(self) -> None:
        """Remember how large the answers are now."""
        rows = self.solved.nonzero().flatten()
        changed = self.moves.changed(State(rows, self.state.adj[rows], self.state.x[rows]))
        pairs, entries = changed[:, : self.moves.pairs].sum(1), changed[:, self.moves.pairs :].sum(1)
        self.raw = dict(zip(rows.tolist(), zip(pairs.tolist(), entries.tolist(), strict=True), strict=True))
        for r in (self.solved & self.outside).nonzero().flatten().tolist():
            edits = self.answers[r][0]
            rest = edits.feature_count + edits.attribute_count
            self.raw[r] = len(edits) - rest, rest

    def improves(self, s: State) -> Tensor:
        """Indices of the states whose graph has no answer yet, or a dearer one."""
        present = self.moves.costs(State(s.row, self.state.adj[s.row], self.state.x[s.row]))
        better = ~self.solved[s.row] | (self.snap(self.moves.costs(s)) < self.snap(present))
        return better.nonzero().flatten()

    def accept(self, s: State, stage: str) -> None:
        """Record verified counterfactuals as the answers of their graphs."""
        rows = s.row
        self.state.adj[rows], self.state.x[rows] = s.adj, s.x
        fresh = int((~self.solved[rows]).sum())
        self.solved[rows] = True
        self.oracle.mark_valid(self.base.ids[rows])
        for r in rows.tolist():
            self.stage[r] = stage
        self.on_done(fresh)

    def late(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def affordable(self, rows: Tensor, calls: Tensor) -> Tensor:
        """Which graphs may still spend ``calls`` (and one to verify); the others stop for good, ``(R,)`` boolean."""
        fits = torch.ones(len(rows), dtype=torch.bool)
        if self.budget.calls is not None:
            spent = self.oracle.forward_calls[self.base.ids[rows]]
            fits = spent + calls + 1 <= self.budget.calls
        if self.late():
            fits[:] = False
        fits &= ~self.stopped[rows]
        self.stopped[rows[~fits]] = True
        return fits

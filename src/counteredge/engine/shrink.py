"""Make counterfactuals one-minimal: no single edit can be undone.

Large answers first lose whole chunks (ddmin, Zeller & Hildebrandt 2002), then single edits, the least missed first;
numbers finally move back towards their old value as far as the flip survives. All graphs shrink together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.edits import apply_all
from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group

__all__ = ["shrink", "shrink_for_real"]

SINGLES = 24  # from this many edits down, every single undo is tried at once and the best is taken
MANY = 128  # above so many, several chunks at a time may go
LARGE = 32  # of many edits, the finest chunks tried before each edit alone
BISECTIONS = 12
UNDONE_AT_ONCE = 64  # edited graphs that the untouched model is asked about together


def shrink(search: Search, rows: Tensor) -> None:
    """Shrink the answers of the given graphs in place; what stays was evaluated, and is confirmed by the real model.

    Args:
        search: A batch with answers.
        rows: Which graphs, ``(R,)``.
    """
    _shrink_outside(search, rows[search.outside[rows]])
    rows = rows[~search.outside[rows]]
    before = State(rows, search.state.adj[rows].clone(), search.state.x[rows].clone())
    close = _remove_edits(search, rows)
    # smaller numbers may have made another edit superfluous
    close = torch.unique(torch.cat([close, _remove_edits(search, _approach_numbers(search, rows))]))
    now = State(rows, search.state.adj[rows], search.state.x[rows])
    differs = (now.adj != before.adj).flatten(1).any(1) | (now.x != before.x).flatten(1).any(1)
    at = differs.nonzero().flatten()
    refused = at[~search.confirm(now[at])]
    # the untouched model has the last word: an answer that only the search believed goes back
    search.state.adj[rows[refused]] = before.adj[refused]
    search.state.x[rows[refused]] = before.x[refused]
    if len(close):
        shrink_for_real(search, close)


def shrink_for_real(search: Search, rows: Tensor) -> None:
    """Undo edits as long as the untouched model keeps the flip; for answers about which search passes may err.

    Each round asks about every single undo, then about the most of the ones allowed that go together: all of them, the
    first half, quarter, ..., one.

    Args:
        search: A batch with answers, already shrunk by search passes.
        rows: Which graphs, ``(R,)``.
    """
    rows = rows[~search.outside[rows]]
    moves, active = search.moves, rows
    while len(active):
        s = State(active, search.state.adj[active], search.state.x[active])
        changed = moves.changed(s)
        several = changed.sum(1) > 1
        # every single undo, halvings of how many go together, and the last word
        halvings = torch.log2(changed.sum(1).clamp(min=1).double()).ceil().long() + 1
        fits = several & search.affordable(active, torch.where(several, changed.sum(1) + halvings, 0))
        which, unit = (changed & fits[:, None]).nonzero(as_tuple=True)
        agreed = torch.zeros_like(changed)
        for k in range(0, len(which), UNDONE_AT_ONCE):
            w, u = which[k : k + UNDONE_AT_ONCE], unit[k : k + UNDONE_AT_ONCE]
            fewer = moves.undo(s[w], F.one_hot(u, changed.shape[1]).bool())
            agreed[w, u] = search.confirm(fewer) & search.legal(fewer)
        # some, but never all of the edits
        most = torch.minimum(agreed.sum(1), changed.sum(1) - 1)
        open_rows, shorter = (most > 0).nonzero().flatten(), [active[:0]]
        while len(open_rows):
            first = agreed[open_rows] & (agreed[open_rows].cumsum(1) <= most[open_rows, None])
            fewer = moves.undo(s[open_rows], first)
            kept = search.confirm(fewer) & search.legal(fewer)
            at = kept.nonzero().flatten()
            search.state.adj[fewer.row[at]], search.state.x[fewer.row[at]] = fewer.adj[at], fewer.x[at]
            shorter.append(fewer.row[at])
            open_rows = open_rows[~kept & (most[open_rows] > 1)]
            most[open_rows] = most[open_rows] // 2
        active = torch.cat(shorter).sort().values
    # the edits on record are those of the last set that was asked about
    search.confirm(State(rows, search.state.adj[rows], search.state.x[rows]))


def _shrink_outside(search: Search, rows: Tensor) -> None:
    """Undo single edits of answers that no state holds, the least missed first, as the untouched model allows."""
    for row in rows.tolist():
        while len(edits := search.answers[row][0]) > 1:
            fewer = [edits.without(k) for k in range(len(edits))]
            fewer = [e for e in fewer if len(e) and (search.keeps is None or search.keeps(row, e))]
            count = torch.tensor([len(fewer)])
            if not fewer or not bool(search.affordable(torch.tensor([row]), count)[0]):
                break
            data = apply_all(fewer, [search.base.graphs[row]] * len(fewer), search.oracle.follows)
            z = search.oracle.predict(data, [int(search.base.ids[row])] * len(fewer))
            y0 = search.y0[row : row + 1].expand(len(fewer), *search.y0.shape[1:])
            margin = search.oracle.decision.margins(z, y0)
            best = int(margin.argmin())
            if not bool(search.oracle.decision.flips(z[best : best + 1], y0[:1])[0]):
                break
            search.answers[row] = fewer[best], data[best]


def _remove_edits(search: Search, rows: Tensor) -> Tensor:
    """Undo edits in place; returns the graphs where rounding decides whether one more may go.

    Of many edits only large chunks are tried before each one alone, and of those that may go as many as may go together
    are undone. Whether one that is needed has become superfluous is asked when no other may go any more.
    """
    active = rows
    close = [rows[:0]]
    parts = torch.full((len(rows),), 2, dtype=torch.long)
    needed = torch.zeros(len(rows), search.moves.unit_count, dtype=torch.bool)  # when they were asked about
    while len(active):
        s = State(active, search.state.adj[active], search.state.x[active])
        changed = search.moves.changed(s)
        total = changed.sum(1)
        many = total > MANY
        needed &= (many & (changed & ~needed).any(1))[:, None]
        asked = changed & ~needed
        count = asked.sum(1)
        single = (total <= SINGLES) | (many & (parts > LARGE))
        parts = torch.where(single, count, torch.minimum(parts, count))
        alive = total > 1
        unions = 2 * torch.log2(parts.clamp(min=1).double()).ceil().long()
        alive &= search.affordable(active, torch.where(alive, parts + torch.where(many, unions, 0), 0))
        keep = alive.nonzero().flatten()
        active, parts, total, many, needed, asked, count = (
            t[keep] for t in (active, parts, total, many, needed, asked, count)
        )
        if not len(active):
            return torch.cat(close)
        s = s[keep]
        chunks = _Chunks.of(asked, count, parts)
        which = chunks.which
        margin, flip = search.try_undos(s, which, chunks.units)
        hit = flip.nonzero().flatten()
        hit = hit[best_in_group(which[hit], [search.snap(margin[hit])], keep=len(hit))]
        gone, may_go = _union(search, s, chunks, hit, many)
        smaller = search.moves.undo(s, gone)
        search.state.adj[smaller.row], search.state.x[smaller.row] = smaller.adj, smaller.x
        # no chunk could go: look at finer ones; no single edit could go: one-minimal, done
        improved, alone = may_go.any(1), parts >= count
        finished = ~improved & alone & (count == total)
        near = torch.zeros_like(finished)
        near[which[margin == 0]] = True
        close.append(active[finished & near])
        needed = (needed | (asked & ~may_go)) & (many & alone & improved)[:, None]
        left = (count - gone.sum(1)).clamp(min=1)
        rest = torch.minimum((parts * left + count - 1) // count, parts - 1).clamp(min=2)
        parts = torch.where(improved, rest, (2 * parts).clamp(max=count))
        parts = torch.where(many & alone, LARGE + 1, parts)
        active, parts, needed = active[~finished], parts[~finished], needed[~finished]
    return torch.cat(close)


@dataclass
class _Chunks:
    """Each state's edits in chunks of neighbours.

    Attributes:
        which: The state of each chunk, sorted.
        number: The chunk's number in its state.
        chunk: The chunk of each unit, -1 of none.

    Shapes:
        which, number: ``(K,)``; chunk: ``(S, units)``.
    """

    which: Tensor
    number: Tensor
    chunk: Tensor

    @staticmethod
    def of(edits: Tensor, count: Tensor, parts: Tensor) -> _Chunks:
        """The ``count`` edits of each state in ``parts`` chunks. ``edits``: ``(S, units)``; others: ``(S,)``."""
        place = edits.long().cumsum(1) - 1
        chunk = torch.where(edits, place * parts[:, None] // count[:, None].clamp(min=1), -1)
        which = torch.repeat_interleave(torch.arange(len(parts)), parts)
        return _Chunks(which, torch.arange(len(which)) - (parts.cumsum(0) - parts)[which], chunk)

    def units(self, part: slice) -> Tensor:
        """The units of some chunks, one row each."""
        return self.chunk[self.which[part]] == self.number[part, None]


def _union(search: Search, s: State, chunks: _Chunks, hit: Tensor, many: Tensor) -> tuple[Tensor, Tensor]:
    """What is undone of each state: of the chunks that may go alone, the first, or as many as may go together.

    How many these are is found by doubling, then bisection.

    Args:
        search: The batch.
        s: The states.
        chunks: Their chunks.
        hit: Which of them may go, by state, the one that is missed least first.
        many: States of which more than one chunk may go.

    Shapes:
        hit: ``(H,)``; many: ``(S,)``; returns two ``(S, units)``, what is undone and what may go alone.
    """
    which = chunks.which[hit]
    count = torch.bincount(which, minlength=len(s))
    nowhere = len(hit)
    rank = torch.full((len(s), int(chunks.number.max()) + 2), nowhere)
    rank[which, chunks.number[hit]] = torch.arange(len(which)) - torch.searchsorted(which, which, side="left")
    place = rank.gather(1, chunks.chunk % rank.shape[1])  # of -1, the last, nowhere
    most, over = count.clamp(max=1), torch.where(many, count + 1, 2)
    while len(at := (over - most > 1).logical_and(count > 1).nonzero().flatten()):
        size = torch.minimum(2 * most, (most + over) // 2)[at]
        _, flip = search.try_undos(s, at, place[at] < size[:, None])
        most[at] = torch.where(flip, size, most[at])
        over[at] = torch.where(flip, over[at], size)
    return place < most[:, None], place < nowhere


def _approach_numbers(search: Search, rows: Tensor) -> Tensor:
    """Bisect edited numbers towards their old values, a graph's all by one share; tells which graphs have any."""
    moves, base = search.moves, search.base
    if not bool(moves.number.any()) or not base.x.is_floating_point():
        return rows[:0]
    s = State(rows, search.state.adj[rows], search.state.x[rows])
    old = base.x[rows]
    edited = (s.x != old) & moves.number
    keep = edited.flatten(1).any(1).nonzero().flatten()
    if not len(keep):
        return keep
    s, old, edited = s[keep], old[keep], edited[keep]
    full = s.x
    low, high = torch.zeros(len(s), dtype=torch.float64), torch.ones(len(s), dtype=torch.float64)
    for _ in range(BISECTIONS):
        paid = search.affordable(s.row, torch.ones(len(s), dtype=torch.long))
        share = (low + high) / 2
        x = _between(search, old, full, edited, share)
        _, flip = search.margins(State(s.row[paid], s.adj[paid], x[paid]))
        # an integer that rounds back to its old value would silently drop an edit; that was tried before
        dropped = ((x == old) & edited).flatten(1).any(1)
        good = torch.zeros(len(s), dtype=torch.bool)
        good[paid] = flip
        good &= ~dropped
        high = torch.where(good, share, high)
        low = torch.where(good, low, share)
    search.state.x[s.row] = _between(search, old, full, edited, high)
    return s.row


def _between(search: Search, old: Tensor, full: Tensor, edited: Tensor, share: Tensor) -> Tensor:
    x = old + (full - old) * share[:, None, None].to(old.dtype)
    # the user's own dtype cannot hold every double: step onto its grid now, so that what is judged is what is returned
    x = x.to(search.base.graphs[0].x.dtype).to(old.dtype)
    x = search.moves.on_grid(x)
    return torch.where(edited & (share[:, None, None] < 1), x, full)

"""Make counterfactuals one-minimal: no single edit can be undone.

Large answers first lose whole chunks (ddmin, Zeller & Hildebrandt 2002), then single edits, the least missed first;
numbers finally move back towards their old value as far as the flip survives. All graphs shrink together.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group

__all__ = ["shrink", "shrink_for_real"]

SINGLES = 24  # from this many edits down, every single undo is tried at once and the best is taken
MANY = 128  # above so many, several chunks at a time may go
BISECTIONS = 12
UNDONE_AT_ONCE = 64  # edited graphs that the untouched model is asked about together


def shrink(search: Search, rows: Tensor) -> None:
    """Shrink the answers of the given graphs in place; what stays was evaluated, and is confirmed by the real model.

    Args:
        search: A batch with answers.
        rows: Which graphs, ``(R,)``.
    """
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
    moves, active = search.moves, rows
    while len(active):
        s = State(active, search.state.adj[active], search.state.x[active])
        changed = moves.changed(s)
        several = changed.sum(1) > 1
        fits = several & search.affordable(active, torch.where(several, changed.sum(1), 0))
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


def _remove_edits(search: Search, rows: Tensor) -> Tensor:
    """Undo edits in place; returns the graphs where rounding decides whether one more may go."""
    active = rows
    close = [rows[:0]]
    parts = torch.full((len(rows),), 2, dtype=torch.long)
    while len(active):
        s = State(active, search.state.adj[active], search.state.x[active])
        changed = search.moves.changed(s)
        count = changed.sum(1)
        single = count <= SINGLES
        parts = torch.where(single, count, torch.minimum(parts, count))
        alive = count > 1
        unions = torch.log2(parts.clamp(min=1).double()).floor().long()
        alive &= search.affordable(active, torch.where(alive, parts + torch.where(count > MANY, unions, 0), 0))
        keep = alive.nonzero().flatten()
        active, parts, single, count, changed = (
            active[keep],
            parts[keep],
            single[keep],
            count[keep],
            changed[keep],
        )
        if not len(active):
            return torch.cat(close)
        s = s[keep]
        which, units = _chunks(changed, count, parts)
        margin, flip = search.try_undos(s, which, units)
        hit = flip.nonzero().flatten()
        hit = hit[best_in_group(which[hit], [search.snap(margin[hit])], keep=len(hit))]
        gone, improved = _union(search, s, which[hit], units[hit], count > MANY)
        smaller = search.moves.undo(s, gone)
        search.state.adj[smaller.row], search.state.x[smaller.row] = smaller.adj, smaller.x
        # no chunk could go: look at finer ones; no single edit could go: one-minimal, done
        finished = ~improved & (parts >= count)
        near = torch.zeros_like(finished)
        near[which[margin == 0]] = True
        close.append(active[finished & near])
        left = (count - gone.sum(1)).clamp(min=1)
        rest = torch.minimum((parts * left + count - 1) // count, parts - 1).clamp(min=2)
        parts = torch.where(improved, rest, (2 * parts).clamp(max=count))
        active, parts = active[~finished], parts[~finished]
    return torch.cat(close)


def _union(search: Search, s: State, which: Tensor, units: Tensor, many: Tensor) -> tuple[Tensor, Tensor]:
    """What is undone of each state: of the chunks that may go, the first, or the first 2, 4, 8, ... if these all may.

    Shapes:
        which: ``(K,)``, sorted, the chunk that is missed least first; units: ``(K, units)``; many: ``(S,)``, states of
        which more than one chunk may go; returns ``(S, units)`` and, whether there was any, ``(S,)``.
    """
    rank = torch.arange(len(which)) - torch.searchsorted(which, which, side="left")
    count = torch.bincount(which, minlength=len(s))
    gone = torch.zeros(len(s), units.shape[1], dtype=torch.bool)
    gone[which[rank == 0]] = units[rank == 0]
    size, at = 2, (many & (count > 1)).nonzero().flatten()
    while len(at):
        more = torch.zeros(len(s), units.shape[1], dtype=torch.long)
        more.index_add_(0, which[rank < size], units[rank < size].long())
        _, flip = search.try_undos(s, at, more[at] > 0)
        good = at[flip.nonzero().flatten()]
        gone[good] = more[good] > 0
        # where so many may not go, more will not either
        at = good[count[good] > size]
        size *= 2
    return gone, count > 0


def _chunks(changed: Tensor, count: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
    """Split each state's changed units into ``parts`` chunks of neighbours.

    Shapes:
        changed: ``(S, units)``; count, parts: ``(S,)``; returns ``(K,)`` owners and ``(K, units)`` masks.
    """
    position = changed.long().cumsum(1) - 1
    chunk = torch.where(changed, position * parts[:, None] // count[:, None], torch.full_like(position, -1))
    which = torch.repeat_interleave(torch.arange(len(parts)), parts)
    number = torch.arange(len(which)) - (parts.cumsum(0) - parts)[which]
    return which, chunk[which] == number[:, None]


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

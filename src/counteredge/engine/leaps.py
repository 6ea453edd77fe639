"""Many edits at once: for graphs whose margin falls steadily but too slowly for a beam.

From a partial answer the best-ranked 1, 2, 4, 8, ... edits are made together and evaluated exactly; the best of these
prefixes is taken, the gradient computed anew, and so on until the prediction flips or no prefix lowers the margin.
Answers of hundreds of edits cost some tens of passes; the shrinker takes out what was too much.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from counteredge.engine.moves import State
from counteredge.engine.search import Search

__all__ = ["LeapOptions", "leap"]


NEVER = 1 << 40  # place of a move that no prefix has


@dataclass(frozen=True)
class LeapOptions:
    """How boldly to go.

    Args:
        most: Most edits in one step, a power of two.
        steps: Most steps.
        power: A prefix of ``k`` edits that lowers the margin by ``d`` is worth ``d / k^power``: 0 takes what lowers the
            margin most, 1 what lowers it most per edit.
    """

    most: int = 256
    steps: int = 60
    power: float = 0.8


def leap(search: Search, start: State, options: LeapOptions) -> None:
    """Go on from partial answers, one a graph; an answer is kept where its graph has none that costs less.

    Args:
        search: The batch.
        start: From where, one state a graph.
        options: How.
    """
    step = max(1, search.oracle.chunk(search.base, gradients=True) // 2)
    for k in range(0, len(start), step):
        _leap(search, start[torch.arange(k, min(k + step, len(start)))], options)


def _leap(search: Search, s: State, options: LeapOptions) -> None:
    sizes = [2**q for q in range(options.most.bit_length())]
    spent = torch.full_like(s.row, len(sizes) + 2)
    s = s[search.affordable(s.row, spent).nonzero().flatten()]
    now, _ = search.margins(s)
    for _ in range(options.steps):
        paid = search.affordable(s.row, torch.full_like(s.row, len(sizes) + 1)).nonzero().flatten()
        s, now = s[paid], now[paid]
        if not len(s):
            return
        place, count = _places(search, s)
        margins, flips = [], []
        for k in sizes:
            margin, flip = search.margins(_after(search, s, place < k))
            # a prefix that is no longer than the one before is none
            fresh = (count > k // 2) & (count > 0)
            margins.append(torch.where(fresh, margin, torch.inf))
            flips.append(flip & fresh)
        margin, flip = torch.stack(margins, 1), torch.stack(flips, 1)
        size = torch.tensor(sizes, dtype=margin.dtype, device=margin.device)
        worth = search.snap((now[:, None] - margin) / size**options.power)
        done = flip.any(1)
        # the first flip, else the prefix of most worth; both the shortest of equals
        pick = torch.where(done, flip.long().argmax(1), worth.argmax(1))
        after = _after(search, s, place < size[pick][:, None])
        _keep(search, after[done.nonzero().flatten()])
        lowered = margin.gather(1, pick[:, None])[:, 0]
        on = (~done & (search.snap(lowered) < search.snap(now))).nonzero().flatten()
        s, now = after[on], lowered[on]


def _keep(search: Search, s: State) -> None:
    """Accept answers that the untouched model confirms and that are cheaper than what there is."""
    s = s[search.improves(s)]
    agreed = search.confirm(s)
    search.accept(s[agreed.nonzero().flatten()], "leap")


def _places(search: Search, s: State) -> tuple[Tensor, Tensor]:
    """Rank of every move that is said to lower the margin, the best of each unit only, and how many these are.

    Shapes:
        returns ``(S, M)``, beyond all prefixes where a move is none of them, and ``(S,)``.
    """
    moves = search.moves
    n, f = search.base.nodes, search.base.x.shape[2]
    score, _ = search.rank(s, 1)
    writes = moves.pairs + torch.arange(n, device=score.device)[:, None] * moves.units + moves.unit_of
    repeats = (moves.count - moves.pairs) // max(1, n * f)
    unit = torch.cat([torch.arange(moves.pairs, device=score.device), *[writes.flatten()] * repeats])
    down = (score < 0) & torch.isfinite(score)
    scale = score.masked_fill(~down, 0).abs().amax(1, keepdim=True).clamp(min=1e-30)
    key = search.snap(score / scale).masked_fill(~down, float("inf"))
    order = torch.argsort(key, dim=1, stable=True)
    rank = torch.argsort(order, dim=1)
    first = torch.full((len(s), moves.unit_count), moves.count, dtype=torch.long, device=score.device)
    first.scatter_reduce_(1, unit.expand_as(rank), rank, "amin")
    down &= rank == first[:, unit]
    rank = torch.argsort(torch.argsort(key.masked_fill(~down, float("inf")), dim=1, stable=True), dim=1)
    return rank.masked_fill(~down, NEVER), down.sum(1)


def _after(search: Search, s: State, chosen: Tensor) -> State:
    """States after sets of moves, no two of them on one unit. ``chosen``: ``(S, M)`` boolean."""
    moves = search.moves
    n, f = search.base.nodes, s.x.shape[2]
    mask = torch.zeros(len(s), n, n, dtype=torch.bool, device=s.adj.device)
    mask[:, moves.i, moves.j] = chosen[:, : moves.pairs]
    if not search.base.directed:
        mask |= mask.transpose(1, 2).clone()
    adj, x = torch.where(mask, 1 - s.adj, s.adj), s.x
    writes = chosen[:, moves.pairs :].reshape(len(s), -1, n, f)
    if bool(writes.any()):
        up = writes[:, 0]
        swapped = moves.onehot & ((up.to(torch.float64) @ moves.together.to(torch.float64)) > 0)
        value = torch.where(moves.number, moves.hi.to(x.dtype), 1 - x)
        x = torch.where(swapped, up.to(x.dtype), torch.where(up, value, x))
        if moves.down:
            x = torch.where(writes[:, 1], moves.lo.to(x.dtype), x)
    return State(s.row, adj, x)

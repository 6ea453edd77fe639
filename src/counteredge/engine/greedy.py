"""Ranked by gradient, verified by the oracle: the beam search that answers most graphs with one edit.

Level 1 looks at single edits: the best-ranked few first, then more, then (where that is affordable) all of them, which
proves that a graph without an answer there needs two. Deeper levels extend the ``width`` best partial answers by their
best-ranked moves. Sources: GRBCD (Geisler et al. 2021) and Nettack (2018) rank by first-order gains and verify.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from counteredge.engine.draws import noise_like
from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group

__all__ = ["BeamOptions", "Tried", "beam_search", "first_of_equals", "try_pairs"]


WARM = 4  # level from which on a fall of the margin can be told


@dataclass(frozen=True)
class BeamOptions:
    """How wide and deep to look.

    Args:
        looks: How many of the best-ranked single edits to have tried after each look; a graph that a look answers
            is spared the next, wider one. Where columns follow from the edges the last of these looks takes the
            removals first: of a sparse graph they are few, and the columns that rest on shortest paths have no
            gradient that could rank them.
        every: The last look: all single edits when a graph has at most this many, else ``most`` of the best.
        most: See ``every``; where nothing ranks the edits, ``every`` of them are tried instead.
        width: Partial answers kept a level.
        per_state: Best-ranked moves tried from each of them.
        depth: Most edits a partial answer may reach.
        rivals: Classes aimed at, nearest first.
        patience: A graph leaves from level 4 on when its margin, falling as it did until now, would need more than so
            many times the levels that are left. What leaps on from there is dearer in edits, a level in vain in time.
    """

    looks: tuple[int, ...] = (2, 8, 32, 64, 256)
    every: int = 4096
    most: int = 512
    width: int = 8
    per_state: int = 32
    depth: int = 12
    rivals: int = 3
    patience: float = 3.0


def beam_search(search: Search, rows: Tensor, options: BeamOptions) -> State:
    """Search counterfactuals of the given graphs; answers go into ``search``.

    Args:
        search: The batch.
        rows: Which of its graphs, ``(R,)``.
        options: Width, depth.

    Returns:
        The best partial answer of each graph that was left open.
    """
    way = search.oracle.way(search.base)
    if way.ranks and not way.exact:
        # a guess may be trusted first, but not alone: what it misses is searched as if there were none
        _beam(search, rows, options, options.per_state)
        rows = rows[~search.solved[rows] & ~search.stopped[rows]]
    return _beam(search, rows, options, options.per_state if way.exact else options.every)


def _beam(search: Search, rows: Tensor, options: BeamOptions, per_state: int) -> State:
    way = search.oracle.way(search.base)
    told = way.exact or not way.ranks  # a guess ranks moves, but the margins beside it are not the model's
    at_first = torch.zeros(search.base.size, dtype=torch.float64)
    left = []
    front = State.start(search.base, rows)
    for level in range(1, options.depth + 1):
        short = tuple(look for look in options.looks if look < options.every)
        looks = (*short, options.every) if level == 1 else (per_state,)
        front = _payable(search, front, looks[0])
        if not len(front):
            break
        score, margin = search.rank(front, options.rivals)
        if level == 1:
            at_first[front.row] = margin.to(at_first)
        elif level >= WARM and told:
            hopeless = _hopeless(search, front, at_first, margin, level, options)
            left.append(front[hopeless])
            keep = ~torch.isin(front.row, front.row[hopeless])
            front, score = front[keep.nonzero().flatten()], score[keep]
            if not len(front):
                break
        if not way.ranks:
            score = _mixed(search, front, score, looks[-1])
        tried = Tried(search, front, score, looks[-1], options)
        for before, until in zip((0, *looks), looks, strict=False):
            tried.look(before, until)
            tried.settle(f"greedy-{level}")
        front = tried.next_front(options.width)
    left.append(front[best_in_group(front.row, [])])
    return State.cat(left)


def _mixed(search: Search, front: State, score: Tensor, last: int) -> Tensor:
    """Scores with ties between pairs broken by chance where not all moves will be tried: not only the first nodes'."""
    many = (torch.isfinite(score).sum(1) > last).nonzero().flatten()
    if not len(many):
        return score
    base, moves = search.base, search.moves
    graphs = tuple(base.graphs[r] for r in front.row[many].tolist())
    noise = noise_like(graphs, base.nodes, None, 0, 1020)[:, moves.i, moves.j].to(score)
    scale = score[many].masked_fill(~torch.isfinite(score[many]), 0).abs().amax(1, keepdim=True).clamp(min=1e-6)
    out = score.clone()
    out[many, : moves.pairs] += 1e-4 * scale * torch.tanh(noise)
    return out


def _hopeless(
    search: Search, front: State, at_first: Tensor, margin: Tensor, level: int, options: BeamOptions
) -> Tensor:
    """The best partial answers of the graphs that will not get there, as indices into ``front``."""
    best = best_in_group(front.row, [search.snap(margin)])
    now, rows = margin[best], front.row[best]
    fallen = (at_first[rows].to(now) - now) / (level - 1)
    far = now > options.patience * (options.depth - level + 1) * fallen.clamp(min=0)
    return best[far]


def _payable(search: Search, front: State, per_state: int) -> State:
    """The states of graphs whose budget covers one more level."""
    graphs, counts = torch.unique(front.row, return_counts=True)
    # a ranking pass is one call a state, each tried move one more
    fits = search.affordable(graphs, counts * (1 + per_state))
    return front[torch.isin(front.row, graphs[fits])]


class Tried:
    """The moves tried from one front, with their exact margins.

    Args:
        search: The batch.
        front: Partial answers.
        score: Of every move of each.
        last: Rank up to which moves will be tried at all.
        options: Of the search.
    """

    def __init__(self, search: Search, front: State, score: Tensor, last: int, options: BeamOptions) -> None:
        self.search, self.front = search, front
        self.cost = search.moves.costs(front)
        # every state's moves, best first, one state after the other
        owner, move = search.top(score, last)
        rank = torch.arange(len(owner)) - torch.searchsorted(owner, owner, side="left")
        if search.oracle.follows is not None:
            later = (rank >= options.looks[-2]) & ~search.moves.removes(front, owner, move)
            order = torch.argsort(2 * owner + later.long(), stable=True)
            owner, move = owner[order], move[order]
        if search.oracle.way(search.base).ranks:
            # what cannot be tried completely is left to the ranking
            many = torch.isfinite(score).sum(1) > options.every
            worth = ~many[owner] | (rank < options.most)
            owner, move, rank = owner[worth], move[worth], rank[worth]
        self.listed, self.rank = (owner, move), rank
        empty = torch.zeros(0, dtype=torch.long)
        self.which, self.move = empty, empty
        self.margin, self.flip, self.extra = empty.double(), empty.bool(), empty.double()

    def look(self, before: int, until: int) -> None:
        """Try each unsolved state's moves from rank ``before`` to rank ``until``, as far as budgets reach."""
        search, front = self.search, self.front
        left = ~search.solved[front.row] & ~search.stopped[front.row]
        at = (left[self.listed[0]] & (self.rank >= before) & (self.rank < until)).nonzero().flatten()
        which, move = self.listed[0][at], self.listed[1][at]
        if before:
            rest = left.nonzero().flatten()
            fits = search.affordable(front.row[rest], torch.bincount(which, minlength=len(front))[rest])
            paid = torch.isin(which, rest[fits])
            which, move = which[paid], move[paid]
        search.oracle.note()
        margin, flip = search.try_moves(front, which, move)
        extra = search.oracle.noted(len(which))
        self.extra = torch.cat([self.extra, extra])
        self.which, self.move = torch.cat([self.which, which]), torch.cat([self.move, move])
        self.margin, self.flip = torch.cat([self.margin, margin]), torch.cat([self.flip, flip])

    def settle(self, stage: str) -> None:
        """Confirm each graph's cheapest flip with the untouched model; take the next one where it disagrees."""
        search = self.search
        while True:
            rows = self.front.row[self.which]
            open_flips = (self.flip & ~search.solved[rows]).nonzero().flatten()
            if not len(open_flips):
                return
            w = self.which[open_flips]
            total = self.cost[w] + search.moves.cost[rows[open_flips], self.move[open_flips]]
            total = total + self.extra[open_flips]
            best = best_in_group(rows[open_flips], [search.snap(total), search.snap(self.margin[open_flips])])
            chosen = open_flips[best]
            state = search.moves.apply(self.front, self.move[chosen], self.which[chosen])
            agreed = search.confirm(state)
            search.accept(state[agreed.nonzero().flatten()], stage)
            self.flip[chosen[~agreed]] = False

    def next_front(self, width: int) -> State:
        """The ``width`` best partial answers of each unsolved graph, each set of edits once."""
        search = self.search
        rows = self.front.row[self.which]
        alive = (~search.solved[rows] & ~search.stopped[rows]).nonzero().flatten()
        if not len(alive):
            return self.front[alive]
        molecules = search.moves.allowed.chemistry is not None
        # a flip that is left over was refused: as a molecule it has to be mended, more margin is of no use
        refused = [(self.margin[alive] < 0).long()] if molecules else []
        # keep a reserve, since the same set of edits is reached in several orders
        spare = best_in_group(rows[alive], [*refused, search.snap(self.margin[alive])], keep=4 * width)
        chosen = alive[spare]
        state = search.moves.apply(self.front, self.move[chosen], self.which[chosen])
        first = first_of_equals(search, state)
        broken = [(~search.legal(state[first])).long()] if molecules else []
        kept = best_in_group(state.row[first], broken, keep=width)
        return state[first[kept]]


def first_of_equals(search: Search, s: State) -> Tensor:
    """Indices of the states that no earlier state equals."""
    generator = torch.Generator().manual_seed(0)
    flat = torch.cat([s.adj.flatten(1), s.x.flatten(1).to(s.adj.dtype)], 1)
    key = flat @ torch.rand(flat.shape[1], generator=generator, dtype=flat.dtype).to(flat.device)
    pair = torch.stack([s.row.to(key.dtype), torch.round(key * 1e7)], 1)
    _, inverse = torch.unique(pair, dim=0, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(s), dtype=torch.long)
    first.scatter_reduce_(0, inverse, torch.arange(len(s)), "amin")
    return torch.sort(first).values


def try_pairs(search: Search, rows: Tensor, most: int) -> None:
    """Try the best-ranked moves two by two: all pairs of a graph's moves where they are at most ``most``.

    What a beam of partial answers cannot do on a plateau: where no single edit lowers the margin, no partial answer
    is better than another (explainers' note 14.2).

    Args:
        search: The batch.
        rows: Which graphs, ``(R,)``.
        most: Pairs tried of one graph.
    """
    front = State.start(search.base, rows)
    front = front[search.affordable(rows, torch.full_like(rows, most + 1)).nonzero().flatten()]
    if not len(front):
        return
    score, _ = search.rank(front, 1)
    keep = int((1 + (1 + 8 * most) ** 0.5) / 2)  # keep (keep - 1) / 2 <= most
    owner, move = search.top(score, keep)
    count = torch.bincount(owner, minlength=len(front))
    start = count.cumsum(0) - count
    a, b = torch.triu_indices(keep, keep, 1)
    which = torch.arange(len(front))[:, None].expand(len(front), len(a))
    known = b < count[:, None]
    which = which[known]
    first, second = (move[(start[:, None] + k)[known]] for k in (a, b))
    pairs = torch.stack([first, second], 1)
    cost = search.moves.cost[front.row[which]].gather(1, pairs).sum(1)
    margin, flip = search.try_together(front, which, pairs)
    while bool(flip.any()):
        at = flip.nonzero().flatten()
        best = at[best_in_group(which[at], [search.snap(cost[at]), search.snap(margin[at])])]
        state = front[which[best]]
        for k in (0, 1):
            state = search.moves.apply(state, pairs[best, k])
        agreed = search.confirm(state)
        search.accept(state[agreed.nonzero().flatten()], "pairs")
        flip[best] = False
        flip &= ~search.solved[front.row[which]]

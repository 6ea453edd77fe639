"""Ranked by gradient, verified by the oracle: the beam search that answers most graphs with one edit.

Level 1 looks at single edits: the best-ranked few first, then more, then (where that is affordable) all of them, which
proves that a graph without an answer there needs two. Deeper levels extend the ``width`` best partial answers by their
best-ranked moves. Sources: GRBCD (Geisler et al. 2021) and Nettack (2018) rank by first-order gains and verify.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group

__all__ = ["BeamOptions", "beam_search"]


@dataclass(frozen=True)
class BeamOptions:
    """How wide and deep to look.

    Args:
        looks: How many of the best-ranked single edits to have tried after each look; a graph that a look answers
            is spared the next, wider one.
        every: The last look: all single edits when a graph has at most this many, else this many of the best.
        width: Partial answers kept a level.
        per_state: Best-ranked moves tried from each of them.
        depth: Most edits a partial answer may reach.
        rivals: Classes aimed at, nearest first.
    """

    looks: tuple[int, ...] = (2, 8, 32, 64)
    every: int = 4096
    width: int = 8
    per_state: int = 32
    depth: int = 12
    rivals: int = 3


def beam_search(search: Search, rows: Tensor, options: BeamOptions) -> None:
    """Search counterfactuals of the given graphs; answers go into ``search``.

    Args:
        search: The batch.
        rows: Which of its graphs, ``(R,)``.
        options: Width, depth.
    """
    per_state = options.per_state if search.oracle.way(search.base).exact else options.every
    front = State.start(search.base, rows)
    for level in range(1, options.depth + 1):
        short = tuple(look for look in options.looks if look < options.every)
        looks = (*short, options.every) if level == 1 else (per_state,)
        front = _payable(search, front, looks[0])
        if not len(front):
            return
        score, _ = search.rank(front, options.rivals)
        tried = _Tried(search, front, score, looks[-1])
        for before, until in zip((0, *looks), looks, strict=False):
            tried.look(before, until)
            tried.settle(f"greedy-{level}")
        front = tried.next_front(options.width)


def _payable(search: Search, front: State, per_state: int) -> State:
    """The states of graphs whose budget covers one more level."""
    graphs, counts = torch.unique(front.row, return_counts=True)
    # a ranking pass is one call a state, each tried move one more
    fits = search.affordable(graphs, counts * (1 + per_state))
    return front[torch.isin(front.row, graphs[fits])]


class _Tried:
    """The moves tried from one front, with their exact margins.

    Args:
        search: The batch.
        front: Partial answers.
        score: Of every move of each.
        most: Rank up to which moves will be tried at all.
    """

    def __init__(self, search: Search, front: State, score: Tensor, most: int) -> None:
        self.search, self.front = search, front
        self.cost = search.moves.costs(front)
        # every state's moves, best first, one state after the other
        self.listed = search.top(score, most)
        owner = self.listed[0]
        self.rank = torch.arange(len(owner)) - torch.searchsorted(owner, owner, side="left")
        empty = torch.zeros(0, dtype=torch.long)
        self.which, self.move = empty, empty
        self.margin, self.flip = empty.double(), empty.bool()

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
        margin, flip = search.try_moves(front, which, move)
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
        # keep a reserve, since the same set of edits is reached in several orders
        spare = best_in_group(rows[alive], [search.snap(self.margin[alive])], keep=4 * width)
        chosen = alive[spare]
        state = search.moves.apply(self.front, self.move[chosen], self.which[chosen])
        first = _first_of_equals(search, state)
        kept = best_in_group(state.row[first], [], keep=width)
        return state[first[kept]]


def _first_of_equals(search: Search, s: State) -> Tensor:
    """Indices of the states that no earlier state equals."""
    generator = torch.Generator().manual_seed(0)
    flat = torch.cat([s.adj.flatten(1), s.x.flatten(1).to(s.adj.dtype)], 1)
    key = flat @ torch.rand(flat.shape[1], generator=generator, dtype=flat.dtype).to(flat.device)
    pair = torch.stack([s.row.to(key.dtype), torch.round(key * 1e7)], 1)
    _, inverse = torch.unique(pair, dim=0, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(s), dtype=torch.long)
    first.scatter_reduce_(0, inverse, torch.arange(len(s)), "amin")
    return torch.sort(first).values

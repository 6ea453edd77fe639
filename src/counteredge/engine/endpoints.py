"""Walk back to the graph from graphs far away that the model calls otherwise.

A gradient that leads nowhere does not matter here: labels are enough. *Endpoints* are guessed (the empty and the
complete graph, random densities, stars, cliques, rings) or given (references); those that flip are verified, and the
way from the graph to each of them is bisected along several orders of its edits. Sources: Boundary Attack (Brendel et
al., ICLR 2018), HopSkipJump (Chen et al., 2020); each further bisection puts the edit that the last one found needed in
front, as linear search for minimal unsatisfiable sets does (Marques-Silva et al., CAV 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from counteredge.engine.alignment import aligned, nearest
from counteredge.engine.draws import noise_like
from counteredge.engine.greedy import first_of_equals
from counteredge.engine.masks import additive_features, additive_start
from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group

__all__ = ["EndpointOptions", "walk_back"]

DENSITIES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
SHARES = (0.05, 0.15, 0.3, 0.6)  # of pairs flipped, or of feature entries written
RINGS = (1, 2, 4, 8)
CLIQUES = (3, 4, 6, 10)
HUBS = (1, 2, 4)


@dataclass(frozen=True)
class EndpointOptions:
    """How far to look and how many ways to go back.

    Args:
        keep: Endpoints a graph is walked back from, those with fewest edits.
        orders: Random orders of the edits of each, besides the one by gradient.
        ways: Ways that are followed after the first bisection, the shortest.
        rounds: Bisections one after the other.
        references: Given graphs that are laid onto each graph, the most alike.
    """

    keep: int = 8
    orders: int = 2
    ways: int = 6
    rounds: int = 16
    references: int = 12


def walk_back(
    search: Search,
    rows: Tensor,
    options: EndpointOptions,
    *,
    seed: int,
    references: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Find endpoints that flip, and the shortest prefix of a way there that still does.

    Args:
        search: The batch.
        rows: Which graphs, ``(R,)``.
        options: How many.
        seed: Of random endpoints and orders.
        references: Take the user's references as endpoints, instead of guesses.
        tick: Called after each round.
    """
    if not len(rows):
        return
    made = _given(search, rows, options) if references else _guessed(search, rows, seed)
    ends = _flipping(search, rows, made, options)
    if not len(ends):
        return
    stage = "reference" if references else "endpoint"
    ways = _Ways.spread(search, ends, _keys(search, ends, options, seed))
    for turn in range(options.rounds):
        if not bool(ways.bisect(search).any()) or search.late():
            break
        if not turn:
            ways = ways.shortest(search, options.ways)
        tick()
    _settle(search, ways, stage)


# -- endpoints ---------------------------------------------------------------------------------------------------------


def _flipping(search: Search, rows: Tensor, ends: Iterator[State], options: EndpointOptions) -> State:
    """Those of the endpoints that are flips, the ``keep`` with fewest edits of each graph."""
    nothing = torch.zeros(0, dtype=torch.long)
    held = State.start(search.base, nothing)
    later = int(search.oracle.way(search.base).ranks)  # one pass with gradients, once it is known where to
    for end in ends:
        known = torch.isin(end.row, rows) & search.moves.changed(end).any(1)
        end = end[known.nonzero().flatten()]
        graphs, counts = torch.unique(end.row, return_counts=True)
        fits = torch.isin(end.row, graphs[search.affordable(graphs, counts + later)])
        end = end[fits.nonzero().flatten()]
        if not len(end):
            continue
        _, flip = search.try_undos(end, torch.arange(len(end)), torch.zeros(len(end), search.moves.unit_count).bool())
        held = State.cat([held, end[flip.nonzero().flatten()]])
        held = held[first_of_equals(search, held)] if len(held) else held
        held = held[best_in_group(held.row, [search.snap(search.moves.costs(held))], keep=options.keep)]
    return held


def _given(search: Search, rows: Tensor, options: EndpointOptions) -> Iterator[State]:
    """The user's references that are called as wished, most alike first, laid onto each graph."""
    graphs, z = search.references
    owner: list[int] = []
    laid: list[tuple[Tensor, Tensor]] = []
    for row in rows.tolist():
        wished = search.oracle.decision.flips(z, search.y0[row].expand(len(z), *search.y0.shape[1:]))
        at = wished.nonzero().flatten().tolist()
        chosen = nearest(search.base.graphs[row], [graphs[k] for k in at], options.references) if at else []
        laid += [aligned(search.base, row, graphs[at[k]]) for k in chosen]
        owner += [row] * len(chosen)
    if laid:
        of, adj, x = torch.tensor(owner), torch.stack([a for a, _ in laid]), torch.stack([v for _, v in laid])
        for features in (search.base.x[of], x):
            yield _within(search, State(of, adj, features))


def _guessed(search: Search, rows: Tensor, seed: int) -> Iterator[State]:
    """Endpoints that need no data; the same for a graph alone and in a batch."""
    base = search.base
    x = base.x[rows]
    if bool(search.moves.allowed.flip[rows].any()):
        for adj in _structures(search, rows, seed):
            yield _within(search, State(rows, adj, x))
    if bool(search.moves.allowed.features[rows].any()):
        for values in _values(search, rows, seed):
            yield _within(search, State(rows, base.adj[rows], values))


def _structures(search: Search, rows: Tensor, seed: int) -> Iterator[Tensor]:
    base = search.base
    a, sizes = base.adj[rows], base.sizes[rows][:, None, None]
    graphs = tuple(base.graphs[r] for r in rows.tolist())
    yield torch.zeros_like(a)
    yield torch.ones_like(a)
    yield 1 - a
    share = torch.special.ndtr(_even(noise_like(graphs, base.nodes, None, seed, 1001), base.directed)).to(a.device)
    for density in DENSITIES:
        yield (share < density).to(a.dtype)
    for flipped in SHARES:
        yield torch.where(share < flipped, 1 - a, a)
        yield torch.where(share < flipped, torch.zeros_like(a), a)
        yield torch.where(share < flipped, torch.ones_like(a), a)
    degree = (a.sum(1) + a.sum(2)).masked_fill(~base.mask[rows], -1.0)
    draw = noise_like(graphs, base.nodes, 1, seed, 1002)[:, :, 0].to(a.device)
    hidden = draw.masked_fill(~base.mask[rows], float("inf"))
    by_degree = torch.argsort(torch.argsort(-degree, dim=1, stable=True), dim=1)
    by_chance = torch.argsort(torch.argsort(hidden, dim=1, stable=True), dim=1)
    for place in (by_degree, by_chance):
        p, q = place[:, :, None], place[:, None, :]
        apart = (p - q).abs()
        around = torch.minimum(apart, sizes - apart)
        for hubs in HUBS:
            star = (torch.minimum(p, q) < hubs).to(a.dtype)
            yield from (star, torch.maximum(a, star), a * (1 - star))
        for reach in RINGS:
            ring = (around <= reach).to(a.dtype)
            yield from (ring, torch.maximum(a, ring))
        yield (apart == 1).to(a.dtype)
        for size in CLIQUES:
            yield (p // size == q // size).to(a.dtype)
        for part in (2, 3):
            half = ((p * part < sizes) & (q * part < sizes)).to(a.dtype)
            yield from (half, torch.maximum(a, half), a * (1 - half))
        yield (p % 2 != q % 2).to(a.dtype)


def _values(search: Search, rows: Tensor, seed: int) -> Iterator[Tensor]:
    """Feature values drawn evenly from what is allowed, at some or all of the entries."""
    base, moves = search.base, search.moves
    x = base.x[rows]
    graphs = tuple(base.graphs[r] for r in rows.tolist())
    editable = moves.allowed.features[rows]
    ends = torch.where(torch.isfinite(moves.lo) & torch.isfinite(moves.hi), 1.0, 0.0).to(x.dtype)
    even = (torch.special.ndtr(noise_like(graphs, base.nodes, x.shape[2], seed, 1003)).to(x) * ends).to(x.dtype)
    which = torch.special.ndtr(noise_like(graphs, base.nodes, moves.units, seed, 1004)).to(x.device)
    start = additive_start(x, moves)
    for share in (*SHARES, 1.0):
        chosen = (which < share)[:, :, moves.unit_of]
        yield additive_features(torch.where(chosen, even, start), x, editable, moves)


def _even(noise: Tensor, directed: bool) -> Tensor:
    upper = noise.triu(1)
    return noise if directed else upper + upper.transpose(1, 2)


def _within(search: Search, end: State) -> State:
    """An endpoint cut to what the edit space allows."""
    base, moves = search.base, search.moves
    allowed = moves.allowed
    adj = torch.where(allowed.flip[end.row], end.adj, base.adj[end.row])
    old = base.x[end.row]
    if not old.is_floating_point():
        return State(end.row, adj, old)
    editable = allowed.features[end.row]
    blocked = (~editable).to(torch.float64) @ moves.together.to(torch.float64) > 0
    lo, hi = moves.lo.to(old.dtype), moves.hi.to(old.dtype)
    value = torch.maximum(torch.minimum(end.x, hi), lo)
    value = torch.where(moves.number, moves.on_grid(value), end.x)
    value = torch.where(moves.onehot, value, moves.directed_from(value, old))
    value = torch.where(moves.onehot & blocked | ~editable, old, value)
    value = torch.where(moves.onehot & (_sums(search, value) != 1), old, value)
    return State(end.row, adj, value)


def _sums(search: Search, x: Tensor) -> Tensor:
    """For each entry of a one-hot group how much the group holds."""
    return x @ search.moves.together.to(x.dtype)


# -- ways back ---------------------------------------------------------------------------------------------------------


def _keys(search: Search, ends: State, options: EndpointOptions, seed: int) -> list[Tensor]:
    """Keys to sort each endpoint's edits by, smallest first, each ``(S, units)``."""
    base, moves = search.base, search.moves
    graphs = tuple(base.graphs[r] for r in ends.row.tolist())
    keys = []
    for k in range(options.orders):
        pairs = _even(noise_like(graphs, base.nodes, None, seed, 1010 + 2 * k), base.directed)
        units = noise_like(graphs, base.nodes, moves.units, seed, 1011 + 2 * k)
        keys.append(torch.cat([pairs[:, moves.i, moves.j], units.flatten(1)], 1).to(base.adj.device))
    if search.oracle.way(base).ranks:
        keys.insert(0, _slopes(search, ends, keys[0] if keys else None))
    return keys


def _slopes(search: Search, ends: State, ties: Tensor | None) -> Tensor:
    """First-order gains at the graph itself, on the ranking grid; features by their best write."""
    moves = search.moves
    rows, back = torch.unique(ends.row, return_inverse=True)
    score, _ = search.rank(State.start(search.base, rows), 1)
    score = score.masked_fill(~torch.isfinite(score), 0.0)
    score = search.snap(score / score.abs().amax(1, keepdim=True).clamp(min=1e-30))
    pairs, writes = score[:, : moves.pairs], score[:, moves.pairs :]
    n, f = search.base.nodes, search.base.x.shape[2]
    each = writes.view(len(rows), -1, n, f).amin(1)
    group = torch.zeros(len(rows), n, moves.units, dtype=each.dtype, device=each.device)
    group.scatter_reduce_(2, moves.unit_of.expand_as(each), each, "amin")
    key = torch.cat([pairs, group.flatten(1)], 1)[back]
    return key if ties is None else key + 0.4 * torch.tanh(ties)


@dataclass
class _Ways:
    """Orders in which the edits of endpoints are made: edits at places below ``count`` give a flip.

    Shapes:
        ends: ``E`` states; end, first, count: ``(W,)``; place: ``(W, units)``, ``OUT`` where an edit is not made.
    """

    ends: State
    end: Tensor
    place: Tensor
    first: Tensor
    count: Tensor

    OUT = 1 << 30

    @classmethod
    def spread(cls, search: Search, ends: State, keys: list[Tensor]) -> _Ways:
        """Every endpoint in every order."""
        changed = search.moves.changed(ends)
        count = changed.sum(1)
        places = []
        for key in keys:
            order = torch.argsort(key.masked_fill(~changed, float("inf")), dim=1, stable=True)
            place = torch.argsort(order, dim=1)
            places.append(place.masked_fill(~changed, cls.OUT))
        end = torch.arange(len(ends)).repeat(len(keys))
        first = torch.zeros(len(end), dtype=torch.long)
        return cls(ends, end, torch.cat(places), first, count.repeat(len(keys)))

    def __getitem__(self, index: Tensor) -> _Ways:
        return _Ways(self.ends, self.end[index], self.place[index], self.first[index], self.count[index])

    def states(self, search: Search) -> State:
        """The graphs after the edits of each way."""
        return search.moves.undo(self.ends[self.end], self.place >= self.count[:, None])

    def shortest(self, search: Search, keep: int) -> _Ways:
        """The ``keep`` shortest ways of each graph."""
        return self[best_in_group(self.ends.row[self.end], [search.snap(self.costs(search))], keep=keep)]

    def costs(self, search: Search) -> Tensor:
        """Of the edits of each way, ``(W,)``."""
        made = self.place < self.count[:, None]
        return (search.moves.unit_cost[self.ends.row[self.end]] * made).sum(1)

    def bisect(self, search: Search) -> Tensor:
        """Shorten each way to a prefix that flips without its last edit doing so; that edit goes to the front.

        Returns:
            Which ways had something left to look at, ``(W,)``.
        """
        # edits in front were each found needed; with none of them the graph is as it was
        low = (self.first - 1).clamp(min=0)
        alive = self._payable(search, self.count - low > 1)
        at = alive.nonzero().flatten()
        while len(at):
            at = at[self.count[at] - low[at] > 1]
            if not len(at):
                break
            middle = (low[at] + self.count[at]) // 2
            _, flip = search.try_undos(self.ends, self.end[at], self.place[at] >= middle[:, None])
            self.count[at] = torch.where(flip, middle, self.count[at])
            low[at] = torch.where(flip, low[at], middle)
        place, last, first = self.place, self.count - 1, self.first
        place = place.masked_fill(place >= self.count[:, None], self.OUT)
        move = (alive & (last >= first))[:, None]
        needed = place == last[:, None]
        later = (place >= first[:, None]) & (place < last[:, None])
        self.place = torch.where(
            move & needed, first[:, None].expand_as(place), torch.where(move & later, place + 1, place)
        )
        self.first = torch.where(move[:, 0], torch.minimum(first + 1, self.count), first)
        return alive

    def _payable(self, search: Search, alive: Tensor) -> Tensor:
        rows = self.ends.row[self.end]
        graphs = torch.unique(rows[alive])
        steps = torch.log2(self.count.clamp(min=2).double()).ceil().long() + 1
        due = torch.zeros(search.base.size, dtype=torch.long).index_add_(0, rows, steps * alive)
        return alive & torch.isin(rows, graphs[search.affordable(graphs, due[graphs])])


def _settle(search: Search, ways: _Ways, stage: str) -> None:
    """The shortest way of each graph that the untouched model confirms."""
    while len(ways.end):
        best = ways.shortest(search, 1)
        state = best.states(search)
        agreed = search.confirm(state)
        search.accept(state[agreed.nonzero().flatten()], stage)
        refused = state.row[~agreed]
        if not len(refused):
            return
        # leave out what was refused, and look at the next
        costs = ways.costs(search)
        order = best_in_group(ways.ends.row[ways.end], [search.snap(costs)], keep=len(costs))
        rows = ways.ends.row[ways.end][order]
        start = torch.searchsorted(rows, rows, side="left")
        rank = torch.arange(len(rows)) - start
        ways = ways[order[torch.isin(rows, refused) & (rank > 0)]]

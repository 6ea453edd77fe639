"""Proof by enumeration: no counterfactual with fewer edge flips exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search, best_in_group
from counteredge.graphs import buckets
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["edge_lower_bound", "edge_lower_bounds", "enumerable", "enumerate_all", "flips_by_edges"]

BLOCK = 4096  # pairs of flips materialised at once


def enumerable(search: Search, rows: Tensor, most: int) -> Tensor:
    """Which graphs are so small that all sets of their edge flips can be tried, ``(R,)`` boolean.

    At most ``most`` pairs may change, no feature may, and a budget of calls must cover it twice.
    """
    allowed = search.moves.allowed
    pairs = search.moves.flip[rows].sum(1)
    few = (pairs <= most) & search.oracle.way(search.base).edges_matter
    few &= ~allowed.features[rows].flatten(1).any(1)
    if search.budget.calls is not None:
        few &= 2.0 ** (pairs + 1).clamp(max=62) <= search.budget.calls
    return few


def enumerate_all(search: Search, rows: Tensor) -> None:
    """Try all sets of edge flips of small graphs: the cheapest answer, or the proof that there is none.

    Graphs that are proved to have no answer are marked in ``search.exhausted``.

    Args:
        search: The batch.
        rows: Which graphs, see :func:`enumerable`.
    """
    for row in rows.tolist():
        if search.late():
            search.stopped[row] = True
            continue
        pairs = search.moves.flip[row].nonzero().flatten()
        near = _cheapest(search, row, pairs)
        if not search.solved[row] and not near and not search.late():
            search.exhausted[row] = True


def _cheapest(search: Search, row: int, pairs: Tensor) -> bool:
    """Accept the cheapest set that flips; tells whether any came near enough for rounding to decide."""
    start = State.start(search.base, torch.tensor([row]))
    i, j = search.moves.i[pairs], search.moves.j[pairs]
    near, found = False, []
    for first in range(0, 1 << len(pairs), BLOCK):
        code = torch.arange(first, min(first + BLOCK, 1 << len(pairs)), device=pairs.device)
        sets = (code[:, None] >> torch.arange(len(pairs), device=pairs.device)) & 1
        state = start[torch.zeros_like(code)]
        flipped = torch.zeros_like(state.adj)
        flipped[:, i, j] = sets.to(flipped)
        if not search.base.directed:
            flipped[:, j, i] = sets.to(flipped)
        state.adj = (state.adj - flipped).abs()
        margin, flip = search.margins(state)
        near = near or bool((margin < 1e-3).any())
        at = flip.nonzero().flatten()
        cost = (sets[at].to(torch.float64) * search.moves.unit_cost[row, pairs]).sum(1)
        best = at[best_in_group(state.row[at], [search.snap(cost), search.snap(margin[at])], keep=8)]
        found.append(state[best])
    held = State.cat(found)
    for k in torch.sort(search.snap(search.moves.costs(held)), stable=True).indices:
        if bool(search.confirm(held[k[None]])):
            search.accept(held[k[None]], "enumeration")
            break
    return near


def edge_lower_bound(search: Search, row: int, most: int) -> int:
    """Enumerate all sets of fewer than ``most + 1`` edge flips of one graph until one is a counterfactual.

    Args:
        search: The batch.
        row: Which graph.
        most: Largest number of flips to enumerate, 1 or 2.

    Returns:
        ``k``: no counterfactual with fewer than ``k`` edge flips (and no feature edit) exists.
    """
    for flips in range(1, most + 1):
        if flips_by_edges(search, row, flips):
            return flips
    return most + 1


def edge_lower_bounds(
    oracle: Oracle, graphs: Sequence[Data], most: int, schema: FeatureSchema | None = None
) -> list[int]:
    """:func:`edge_lower_bound` of each graph: the yardstick that sizes found are held against.

    With a schema, columns that follow from the edges do so.
    """
    bounds = [0] * len(graphs)
    with oracle.session(graphs):
        schema = schema or FeatureSchema.fixed(1 if graphs[0].x.dim() == 1 else graphs[0].x.shape[1])
        oracle.follow(schema, graphs[0].x.dtype)
        for base in buckets(graphs, memory=oracle.memory):
            allowed = EditSpace(features=False).allowed(base, schema)
            search = Search(oracle, base, allowed, oracle.predict(base.graphs), Budget(), None, lambda n: None)
            for row, i in enumerate(base.ids.tolist()):
                bounds[i] = edge_lower_bound(search, row, most)
    return bounds


def flips_by_edges(search: Search, row: int, flips: int) -> bool:
    """Whether some set of exactly ``flips`` (1 or 2) allowed edge flips is a counterfactual of the graph.

    ``False`` is a proof; ``True`` is also said when the time is over before every set was looked at.
    """
    start = State.start(search.base, torch.tensor([row]))
    pairs = search.moves.flip[row].nonzero().flatten()
    for first, second in _sets(pairs, flips):
        if search.late():
            return True
        zero = torch.zeros(len(first), dtype=torch.long)
        state = search.moves.apply(start[zero], first)
        if second is not None:
            state = search.moves.apply(state, second)
        if search.could_flip(state):
            return True
    return False


def _sets(pairs: Tensor, flips: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    if flips == 1:
        for s in range(0, len(pairs), BLOCK):
            yield pairs[s : s + BLOCK], None
        return
    for k in range(len(pairs) - 1):
        rest = pairs[k + 1 :]
        for s in range(0, len(rest), BLOCK):
            part = rest[s : s + BLOCK]
            yield pairs[k].expand(len(part)), part

"""Proof by enumeration: no counterfactual with fewer edge flips exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search
from counteredge.graphs import buckets
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["edge_lower_bound", "edge_lower_bounds", "flips_by_edges"]

BLOCK = 4096  # pairs of flips materialised at once


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
    model: nn.Module, graphs: Sequence[Data], most: int, schema: FeatureSchema | None = None, **options: Any
) -> list[int]:
    """:func:`edge_lower_bound` of each graph under a model: the yardstick that sizes found are held against.

    With a schema, columns that follow from the edges do so; ``options`` go to the oracle.
    """
    oracle = Oracle(model, **options)
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

"""Greedy: the yardstick. Rank all single edits, verify the best, commit one, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.engine.greedy import BeamOptions, Tried
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import choice, whole
from counteredge.nodes import NodeOracle
from counteredge.nodes.head import MARK
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["Greedy"]

ALL = 1 << 40  # more moves than any graph has


class Greedy(Explainer):
    r"""First-order greedy search with exact verification, and no more: what any method should beat.

    At the present graph each single edit ``e`` is worth its first-order gain; a pair's is

    .. math:: g_e = (1 - 2 A_e) \, \partial m / \partial A_e

    with ``m`` the margin (below 0 once the prediction has changed). The ``top`` edits of smallest ``g_e`` per unit of
    cost are tried on the model in one batch, the one that leaves the smallest margin is committed, until the
    prediction changes. No beam, no restarts, no shrinking. Where no gradients with respect to edges are exact, all
    single edits are tried; where the model gives labels only, no edit is better than another, and the search ends after
    the first.

    Args:
        top: How many of the best-ranked edits are tried a step; ``None`` tries all of them, without gradients, so that
            an answer of one edit is found wherever there is one.
        steps: Most edits of an answer.
        candidates: ``"all"`` that the edit space allows; ``"deletions"`` of edges; ``"target"``: deletions anywhere and
            additions at the explained node (or nodes), of a node task.
        mode: ``"paper"``; there is no other.
        seed: Does nothing: nothing is drawn.
        postprocess: ``"shrink"`` makes answers one-minimal; ``None`` (default) does not.
        memory: Bytes that one batched pass may take.

    Sources: Nettack (Zuegner et al., KDD 2018) and GRBCD (Geisler et al., NeurIPS 2021) rank flips this way.

    Example:
        >>> from torch_geometric.data import Data
        >>> class Edges(torch.nn.Module):  # says 1 exactly when the graph has at least three edges
        ...     def forward(self, x, edge_index, batch):
        ...         edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        ...         return torch.stack([torch.full_like(edges, 2.5), edges], 1)
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> Greedy(top=None).explain(Edges(), path, edits="edges").edits.added
        ((0, 2),)
    """

    name: ClassVar[str] = "greedy"
    title: ClassVar[str] = "greedy yardstick"

    def __init__(
        self,
        *,
        top: int | None = 8,
        steps: int = 12,
        candidates: Literal["all", "deletions", "target"] = "all",
        mode: str | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        self.top = None if top is None else whole("top", top, 1, more=", or None to try all edits")
        self.steps = whole("steps", steps, 1)
        self.candidates = choice("candidates", candidates, ("all", "deletions", "target"))

    def parameters(self) -> dict[str, Any]:
        """How many are tried, how often, of which edits."""
        return {"top": self.top, "steps": self.steps, "candidates": self.candidates, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """How far it went."""
        steps = 1 if search.oracle.decision.flat else self.steps
        return f"{steps} greedy edits did not change the prediction, or nothing was left to edit"

    def _space(self, space: EditSpace) -> EditSpace:
        if self.candidates == "all":
            return space
        return space.only(features=False, add_edges=self.candidates == "target")

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        if self.candidates == "target" and not isinstance(oracle, NodeOracle):
            raise InputError("candidates='target' is for node tasks: give node=, or use 'all' or 'deletions'")

    def _search(self, search: Search) -> None:
        search.moves.check_bounds()
        ranked = self.top is not None and search.oracle.way(search.base).exact
        last = self.top if self.top is not None and ranked else ALL
        options = BeamOptions(every=ALL)
        steps = 1 if search.oracle.decision.flat else min(self.steps, search.budget.edits or self.steps)
        front = State.start(search.base, search.open_rows())
        for step in range(1, steps + 1):
            allowed = self._candidates(search, front)
            count = allowed.sum(1)
            front, allowed, count = front[count > 0], allowed[count > 0], count[count > 0]
            fits = search.affordable(front.row, count.clamp(max=last) + int(ranked))
            front, allowed = front[fits], allowed[fits]
            if not len(front):
                return
            score = search.rank(front)[0] if ranked else torch.zeros_like(allowed, dtype=torch.float64)
            tried = Tried(search, front, score.masked_fill(~allowed, float("inf")), last, options)
            tried.look(0, last)
            tried.settle(f"greedy-{step}")
            front = tried.next_front(1)

    def _candidates(self, search: Search, s: State) -> Tensor:
        """Which moves may be committed next, ``(S, M)``."""
        moves = search.moves
        allowed = moves.open(s)
        if self.candidates == "target":
            marked = _marked([search.base.graphs[r] for r in s.row.tolist()], search.base.nodes)
            present = s.adj[:, moves.i, moves.j] > 0.5
            allowed[:, : moves.pairs] &= present | marked[:, moves.i] | marked[:, moves.j]
        return allowed


def _marked(balls: Sequence[Any], nodes: int) -> Tensor:
    """The explained nodes of each ball, ``(S, n)`` boolean."""
    out = torch.zeros(len(balls), nodes, dtype=torch.bool)
    for k, ball in enumerate(balls):
        out[k, : len(ball.x)] = ball[MARK].cpu()
    return out

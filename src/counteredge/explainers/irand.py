"""iRand: random sets of edge flips, one flip more a level, until one of them is a counterfactual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.engine.draws import generator_of
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import number, whole
from counteredge.space import EditSpace

__all__ = ["IRand"]

Kind = Literal["even", "mixed", "ordered"]
KINDS: dict[str, tuple[Kind, ...]] = {"paper": ("even",), "improved": ("even", "mixed"), "legacy_gretel": ("ordered",)}


class IRand(Explainer):
    r"""Random flips of growing number, labels only (iRand of GRETEL; Prado-Romero and Stilo, CIKM 2022).

    Level ``i = 1 .. K`` draws ``t`` sets of ``i`` distinct pairs, each set uniformly among all, and flips them in a
    copy of the graph; the first copy with another label is the answer:

    .. math:: A' = A \oplus 1_S, \quad |S| = i \le K = \max(1, \lfloor p M \rfloor)

    with ``M`` the number of pairs that may change. A black box will do, features stay as they are. One level of all
    graphs that are still open is one batch: ``calls.forward`` counts all of it (and one call more, in which the
    untouched model confirms the answer), ``calls.to_first_valid`` only what lies before the answer in the order drawn.

    Args:
        mode: ``"paper"`` (default), as above. ``"improved"``: graphs that this leaves open get as many sets again of
            which each flip is a deletion or an addition with equal odds (of a sparse graph, pairs drawn evenly are
            almost all additions), and answers are shrunk.
            ``"legacy_gretel"``: as the public code has it. Pairs are ordered (``M`` counts an undirected one twice) and
            drawn with replacement (what is drawn an even number of times stays as it is), levels are
            ``1 .. floor(p M) - 1`` (none at all where ``p M < 2``), and features that should follow the edges keep
            their values, unless the edit space says otherwise.
        p: Share of the pairs that the last level flips. 0.01 as in published comparisons; GRETEL's own default is 0.1.
        t: Sets drawn a level.
        seed: Of the draws; each graph has draws of its own.
        postprocess: ``"shrink"`` makes answers one-minimal, ``None`` does not; ``"auto"`` does for ``"improved"``.
        memory: Bytes that one batched pass may take.

    Example:
        >>> from torch_geometric.data import Data
        >>> def odd(batch):  # any change of one edge changes the label
        ...     return [g.edge_index.shape[1] // 2 % 2 for g in batch.to_data_list()]
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> cf = IRand().explain(odd, path)
        >>> cf.found, len(cf.edits), cf.calls.to_first_valid
        (True, 1, 2)
    """

    name: ClassVar[str] = "irand"
    title: ClassVar[str] = "iRand"
    modes: ClassVar[tuple[str, ...]] = ("paper", "improved", "legacy_gretel")

    def __init__(
        self,
        *,
        p: float = 0.01,
        t: int = 3,
        mode: str | None = None,
        seed: int = 0,
        postprocess: Literal["auto", "shrink"] | None = "auto",
        memory: int = 1 << 30,
    ) -> None:
        if postprocess == "auto":
            postprocess = "shrink" if mode == "improved" else None
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        self.p, self.t = number("p", p, 0, 1, open_below=True), whole("t", t, 1)
        self.copies = 2 * t + 2

    def parameters(self) -> dict[str, Any]:
        """Share and sets a level."""
        return {"p": self.p, "t": self.t, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """What was drawn in vain."""
        if self.mode == "legacy_gretel":
            return (
                f"none of {self.t} draws a level was a counterfactual; levels are 1 to floor({self.p:g} M) - 1 for M "
                "ordered pairs, none at all for small graphs"
            )
        return f"none of {self.t} draws a level was a counterfactual, up to {self.p:g} of all pairs"

    def _space(self, space: EditSpace) -> EditSpace:
        if self.mode == "legacy_gretel" and space.structural is None:
            space = replace(space, structural="frozen")
        return space.only(features=False)

    def _levels(self, pairs: int, directed: bool) -> int:
        """The last level of a graph of which so many pairs may change."""
        if self.mode == "legacy_gretel":
            return floor(self.p * (pairs if directed else 2 * pairs) + 1e-9) - 1
        return min(pairs, max(1, floor(self.p * pairs + 1e-9)))

    def _search(self, search: Search) -> None:
        most = search.budget.edits if self.postprocess is None else None
        rows = search.open_rows()
        draws = {r: _Draws(search, r, self.seed) for r in rows.tolist()}
        last = torch.zeros(search.base.size, dtype=torch.long)
        for r, draw in draws.items():
            levels = self._levels(len(draw.pairs), search.base.directed)
            last[r] = levels if most is None else min(levels, most)
        for kind in KINDS[self.mode]:
            for level in range(1, int(last.max()) + 1):
                left = ~search.solved[rows] & ~search.stopped[rows] & (last[rows] >= level)
                left[left.clone()] = search.affordable(rows[left], torch.full_like(rows[left], self.t))
                if bool(left.any()):
                    self._try(search, rows[left], [draws[r] for r in rows[left].tolist()], kind, level)

    def _try(self, search: Search, rows: Tensor, draws: Sequence[_Draws], kind: Kind, level: int) -> None:
        """One level: all sets of all graphs in one batch; the first hit of each graph is its answer."""
        base, moves, valid = search.base, search.moves, search.oracle.first_valid
        before = search.oracle.forward_calls[base.ids[rows]].clone()
        # a candidate is the graph with all pairs flipped, of which all but those drawn are flipped back
        a = base.adj[rows]
        ends = State(rows, torch.where(moves.allowed.flip[rows], 1 - a, a), base.x[rows])
        undone = torch.ones(len(rows), self.t, moves.unit_count, dtype=torch.bool)
        for k, draw in enumerate(draws):
            undone[k][:, draw.pairs] = ~draw.flipped(level, self.t, kind)
        undone = undone.flatten(0, 1)
        _, flip = search.try_undos(ends, torch.arange(len(rows)).repeat_interleave(self.t), undone)
        flip = flip.view(len(rows), self.t)
        at = flip.any(1).nonzero().flatten()
        while len(at):
            hit = flip[at].long().argmax(1)
            state = moves.undo(ends[at], undone[at * self.t + hit])
            agreed = search.confirm(state)
            ids = base.ids[rows[at[agreed]]]
            # what was drawn after the hit is not counted towards it
            valid[ids] = torch.where(valid[ids] == 0, before[at[agreed]] + hit[agreed] + 1, valid[ids])
            search.accept(state[agreed.nonzero().flatten()], f"{kind}-{level}")
            # where the untouched model disagrees, the next
            flip[at, hit] = False
            at = at[~agreed & flip[at].any(1)]
            at = at[search.affordable(rows[at], torch.zeros_like(at))]


class _Draws:
    """The draws of one graph: the same alone and in any batch.

    Args:
        search: The batch.
        row: Which of its graphs.
        seed: Of the explainer.
    """

    def __init__(self, search: Search, row: int, seed: int) -> None:
        base, moves = search.base, search.moves
        self.generator = generator_of(base.graphs[row], seed)
        self.pairs = moves.flip[row].nonzero().flatten()
        self.present = base.adj[row, moves.i[self.pairs], moves.j[self.pairs]].cpu() > 0.5

    def flipped(self, level: int, t: int, kind: Kind) -> Tensor:
        """Which of the pairs are flipped in each of ``t`` sets, ``(t, M)`` boolean."""
        count = len(self.pairs)
        if kind == "ordered":
            drawn = torch.randint(count, (t, level), generator=self.generator)
            return torch.zeros(t, count, dtype=torch.long).scatter_add_(1, drawn, torch.ones_like(drawn)) % 2 > 0
        key = torch.rand(t, count, generator=self.generator, dtype=torch.float64)
        if kind == "even":
            return _smallest(key, torch.full((t,), level))
        removed = (torch.rand(t, level, generator=self.generator) < 0.5).sum(1)
        there = int(self.present.sum())
        removed = removed.clamp(min=level - (count - there), max=there)
        out = torch.zeros_like(key, dtype=torch.bool)
        out[:, self.present] = _smallest(key[:, self.present], removed)
        out[:, ~self.present] = _smallest(key[:, ~self.present], level - removed)
        return out


def _smallest(key: Tensor, count: Tensor) -> Tensor:
    """The ``count[k]`` smallest entries of each row, boolean. Shapes: key ``(t, M)``, count ``(t,)``."""
    return key.argsort(1).argsort(1) < count[:, None]

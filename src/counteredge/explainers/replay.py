"""Answers that are known already, on their way through the search and the harness once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from counteredge.edits import EditSet
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.results import Counterfactual
from counteredge.space import EditSpace

__all__ = ["shrink"]


def shrink(
    model: nn.Module,
    counterfactuals: Sequence[Counterfactual],
    *,
    edits: EditSpace | str | None = None,
    memory: int = 1 << 30,
    progress: bool | None = None,
    **options: Any,
) -> list[Counterfactual]:
    """Undo needless edits of counterfactuals, whatever method they come from, until none can be undone.

    The same as ``postprocess="shrink"`` of their explainer, without searching anew.

    Args:
        model: The model that was explained.
        counterfactuals: Its answers for whole graphs; those that were not found stay as they are.
        edits: What was allowed to change; the meaning of the columns is read off the answers when that is left open.
        memory: Bytes that one batched pass may take.
        progress: Show a progress bar; from two seconds on when ``None``.
        options: ``desired``, ``task``, ``forward_fn``, ``output_fn`` as for ``explain``.

    Returns:
        New answers in the same order; ``raw`` holds the size before, ``calls`` count what shrinking took alone.

    Raises:
        InputError: For answers about nodes, for which ``postprocess="shrink"`` of the explainer is the way.

    Example:
        >>> from counteredge import EmptyGraph
        >>> from counteredge.datasets import tree_cycles
        >>> def dense(batch):
        ...     return [int(g.num_edges > 54) for g in batch.to_data_list()]
        >>> found = EmptyGraph().explain(dense, tree_cycles(8).graphs)
        >>> [(len(a.edits), len(b.edits)) for a, b in zip(found, shrink(dense, found), strict=True) if a.found][0]
        (28, 1)
    """
    for cf in counterfactuals:
        if cf.node is not None:
            raise InputError(f"{cf.subject} is a node task: give its explainer postprocess='shrink' instead")
    found = [cf for cf in counterfactuals if cf.found]
    space = EditSpace.of(edits)
    if space.schema is None and found and found[0].schema is not None:
        space = replace(space, schema=found[0].schema)
    if space.structural is None and found:
        space = replace(space, structural=found[0].structural)
    again = _Replay([cf.edits for cf in found], memory=memory)
    smaller = iter(again.explain(model, [cf.original for cf in found], edits=space, progress=progress, **options))
    return [_as(cf, next(smaller)) if cf.found else cf for cf in counterfactuals]


def _as(old: Counterfactual, new: Counterfactual) -> Counterfactual:
    """The smaller answer, under the name of the method that found the larger one."""
    if not new.found:  # the model gave another word than when it was explained, or the space forbids the answer
        return old
    new.explainer, new.preset, new.seed, new.stage = old.explainer, old.preset, old.seed, old.stage
    new.index, new.label_names = old.index, old.label_names
    new.parameters = {**old.parameters, "postprocess": "shrink"}
    return new


class _Replay(Explainer):
    """Proposes what it was given."""

    name: ClassVar[str] = "replay"

    def __init__(self, answers: Sequence[EditSet], *, memory: int) -> None:
        super().__init__(postprocess="shrink", memory=memory)
        self.answers = answers

    def _search(self, search: Search) -> None:
        rows = search.open_rows().tolist()
        known = {r: self.answers[int(search.base.ids[r])] for r in rows}
        outside = {r: e for r, e in known.items() if e.node_count or e.attribute_count}
        search.settle_edits(outside, self.name)
        within = [(r, e) for r, e in known.items() if r not in outside]
        state = State.of(search.base, within)
        worth = search.moves.changed(state).any(1) & search.legal(state)
        fits = search.affordable(state.row, torch.zeros_like(state.row))
        search.settle(state[(worth & fits).nonzero().flatten()], self.name)

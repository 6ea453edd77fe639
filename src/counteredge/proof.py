"""How far a counterfactual can be trusted: a certificate, what each edit contributes, what random edits do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from counteredge.data import content_key, new_edge_values
from counteredge.edits import EditSet, Pair, apply_all
from counteredge.engine.exhaustive import edge_lower_bounds
from counteredge.errors import InputError
from counteredge.nodes import NodeOracle, Targets
from counteredge.oracle import Oracle
from counteredge.results import Counterfactual
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["certify", "importance", "robustness"]

ENUMERABLE = {1: 60, 2: 40}  # most nodes for enumerating sets of so many flips


def certify(model: nn.Module, counterfactual: Counterfactual, *, edges: int = 2, **options: Any) -> int:
    """Prove by enumeration how many edge flips are needed at least, whatever search found the answer.

    All sets of 1 (and 2) edge flips are evaluated, in batches; columns that follow from the edges do so where the
    counterfactual was searched that way. The bound is also written to ``counterfactual.certified_lower_bound``.

    Args:
        model: The model that was explained.
        counterfactual: Its answer, found or not.
        edges: Enumerate up to so many flips: 1 (graphs of at most 60 nodes) or 2 (at most 40).
        options: As for ``explain``: ``desired``, ``task``, ``forward_fn``, ``output_fn``.

    Returns:
        ``k``: no counterfactual with fewer than ``k`` edge flips and no feature edit exists (``edges + 1`` at most).

    Raises:
        InputError: For larger graphs, or other numbers of flips.

    Source:
        The opt-in stage "certify" of the ``minimal`` preset.
    """
    if edges not in ENUMERABLE:
        raise InputError(f"edges={edges!r}: enumeration is offered for 1 or 2 edge flips")
    n = len(counterfactual.original.x)
    if n > ENUMERABLE[edges]:
        raise InputError(f"the graph has {n} nodes; {edges} flips are enumerated up to {ENUMERABLE[edges]}")
    oracle, graph = _asked(model, counterfactual, options)
    (bound,) = edge_lower_bounds(oracle, [graph], edges, _follow(counterfactual))
    counterfactual.certified_lower_bound = bound
    return bound


def importance(model: nn.Module, counterfactual: Counterfactual, **options: Any) -> list[float]:
    """What each edit contributes: how much the margin rises when it alone is undone.

    ``m(G' without e) - m(G')``, where ``m``, the margin of the original prediction, is below zero exactly at a
    counterfactual.
    An edit whose value is larger than ``-m(G')`` is needed for the flip.

    Args:
        model: The model that was explained.
        counterfactual: A found answer.
        options: As for ``explain``: ``desired``, ``task``, ``forward_fn``, ``output_fn``.

    Returns:
        One number an edit, in the order of ``edits.describe()``; in units of the model's logits.

    Raises:
        InputError: When nothing was found.
    """
    _found(counterfactual)
    sets = [counterfactual.edits, *(counterfactual.edits.without(k) for k in range(len(counterfactual.edits)))]
    full, *fewer = _margins(model, counterfactual, sets, options).tolist()
    return [m - full for m in fewer]


def robustness(
    model: nn.Module,
    counterfactual: Counterfactual,
    edits: int = 1,
    *,
    samples: int = 100,
    seed: int = 0,
    **options: Any,
) -> float:
    """Share of random further edge flips under which the answer still is one.

    Args:
        model: The model that was explained.
        counterfactual: A found answer.
        edits: How many pairs are flipped besides, drawn without replacement from the pairs that it leaves alone.
        samples: How many draws.
        seed: Of the draws; with the graph's content it decides them.
        options: As for ``explain``: ``desired``, ``task``, ``forward_fn``, ``output_fn``.

    Returns:
        Between 0 and 1; 1 when no noise of this size undoes the flip.

    Raises:
        InputError: When nothing was found, or the graph has too few other pairs.

    Source:
        Bajaj et al., Robust Counterfactual Explanations on Graph Neural Networks, NeurIPS 2021.
    """
    _found(counterfactual)
    if edits < 1 or samples < 1:
        raise InputError(f"edits and samples must be at least 1, got {edits=}, {samples=}")
    cf = counterfactual
    n = len(cf.original.x)
    present = torch.zeros(n, n, dtype=torch.bool)
    present[tuple(cf.original.edge_index.cpu())] = True
    free = ~torch.eye(n, dtype=torch.bool)
    free = free if cf.edits.directed else free.triu(1)
    for i, j in (*cf.edits.added, *cf.edits.removed):
        if max(i, j) < n:  # pairs of new nodes are not drawn
            free[i, j] = False
    for node in cf.edits.removed_nodes:
        free[node, :] = free[:, node] = False
    pairs = free.nonzero()
    if len(pairs) < edits:
        raise InputError(f"only {len(pairs)} pairs are left alone, {edits} cannot be drawn from them")
    generator = torch.Generator().manual_seed((content_key(cf.original) ^ seed) & (2**63 - 1))
    sets = []
    for _ in range(samples):
        drawn = pairs[torch.randperm(len(pairs), generator=generator)[:edits]]
        gone = present[drawn[:, 0], drawn[:, 1]]
        more, less = (tuple(map(tuple, drawn[which].tolist())) for which in (~gone, gone))
        sets.append(_and(cf, more, less))
    return float((_margins(model, cf, sets, options) < 0).double().mean())


def _and(cf: Counterfactual, more: tuple[Pair, ...], less: tuple[Pair, ...]) -> EditSet:
    """The edits and further edges, which get the attributes that a new edge has when nobody says otherwise."""
    usual = {key: new_edge_values(key, cf.original[key], len(more)).tolist() for key, _ in cf.edits.values}
    return replace(
        cf.edits,
        added=cf.edits.added + more,
        removed=cf.edits.removed + less,
        values=tuple((key, (*rows, *usual[key])) for key, rows in cf.edits.values),
        attributes=tuple(e for e in cf.edits.attributes if e.pair not in less),
    )


def _margins(model: nn.Module, cf: Counterfactual, sets: Sequence[EditSet], options: dict[str, Any]) -> Tensor:
    """The untouched model's margins at the graph edited by each of the sets, ``(len(sets),)``."""
    oracle, graph = _asked(model, cf, options)
    graphs = apply_all(sets, [graph] * len(sets), _follow(cf))
    with oracle.session([graph]):
        y0 = oracle.decision.labels(oracle.predict([graph]))
        z = oracle.predict(graphs)
        return oracle.decision.margins(z, y0.expand(len(sets), *y0.shape[1:]))


def _asked(model: nn.Module, cf: Counterfactual, options: dict[str, Any]) -> tuple[Oracle, Data]:
    """What is asked about the prediction that was explained, and the graph as it is given to it."""
    if cf.node is None:
        return Oracle(model, **options), cf.original
    oracle = NodeOracle(model, cf.original, Targets((cf.targets,), True), **options)
    (graph,) = oracle.prepare(EditSpace(), whole=True)
    return oracle, graph


def _follow(cf: Counterfactual) -> FeatureSchema | None:
    return cf.schema if cf.structural == "refreshed" else None


def _found(cf: Counterfactual) -> None:
    if not cf.found:
        raise InputError(f"there is no counterfactual to look at: {cf.reason}")

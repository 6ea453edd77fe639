"""What edits without any search are worth: the empty graph, the complete graph, as many flips at random.

A figure that one of these reaches too says nothing about an explainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import content_key, pairs_of, rebuild
from counteredge.decision import Label
from counteredge.edits import EditSet
from counteredge.errors import unknown
from counteredge.metrics.sample import Sample

__all__ = ["CONTROLS", "control_sample", "rule_of"]

JUDGED_AT_ONCE = 1 << 18  # nodes and arcs of the graphs that the model is asked about together
Pairs = tuple[Tensor, Tensor]
Rule = Callable[[Data, bool, int, int], Pairs]  # graph, directed, how many flips, seed


def control_sample(sample: Sample, name: str, *, seed: int = 0) -> Sample:
    """The sample with every graph edited by rule instead of by a search.

    ``empty``: all edges removed; ``complete``: all pairs joined; ``random``: as many pairs flipped as the
    counterfactual has, none where nothing was found, drawn by the graph's content and the seed. Nodes, features and
    attributes of edges stay, so that an answer that edits those too is compared in its edges alone; columns that follow
    from the edges do so where the counterfactuals' do.

    Args:
        sample: What was measured.
        name: Which control.
        seed: Of the random one.

    Returns:
        A sample whose answers are the model's where it was given. Without a model it is not known whether any of them
        is a counterfactual: all count as found for sizes and similarities, and their labels are not known.

    Raises:
        InputError: For an unknown name.
    """
    rule = rule_of(name)
    count = torch.zeros(len(sample), dtype=torch.float64)
    structures: list[Data] = []
    shared: dict[tuple[int, bool], Data] = {}
    after: list[Label | None] = []
    waiting: list[Data] = []
    held = 0
    asked = torch.ones(len(sample), dtype=torch.bool)
    flips = torch.ones(len(sample), dtype=torch.bool)
    for k, (g, removed, added) in enumerate(_edited(sample, rule, seed)):
        count[k] = len(removed) + len(added)
        directed = bool(sample.directed[k])
        asked[k] = name != "random" or bool(sample.found[k])
        # equal structures are one object: they are made and embedded once
        key = (k if name == "random" else -len(g.x), directed)
        edited = rebuild(g, removed, added, directed=directed) if sample.judge is not None or key not in shared else g
        structures.append(shared.setdefault(key, Data(edge_index=edited.edge_index, num_nodes=len(g.x))))
        if sample.judge is not None:
            waiting.append(edited)
            held += len(g.x) + g.num_edges + edited.num_edges
            if held >= JUDGED_AT_ONCE or k == len(sample) - 1:
                rows = range(k + 1 - len(waiting), k + 1)
                graphs = sample.settled(rows, waiting)
                said, flips[list(rows)] = sample.judge.verdicts([sample.originals[r] for r in rows], graphs)
                after += said
                waiting, held = [], 0
    labels: list[Label | None] = after if sample.judge is not None else [None] * len(sample)
    return Sample(
        originals=sample.originals,
        edited=structures,
        edits=[EditSet(directed=e.directed) for e in sample.edits],
        edge_edits=count,
        directed=sample.directed,
        nodes=sample.nodes,
        found=flips & asked,
        before=sample.before,
        after=labels,
        labels=sample.labels,
        costs=None,
        minimal=sample.nothing,
        refreshed=sample.nothing,
        frozen=sample.nothing,
        schema=sample.schema,
        follows=sample.follows,
    )


def rule_of(name: str) -> Rule:
    """How a control edits a graph.

    Raises:
        InputError: For an unknown name.
    """
    if name not in CONTROLS:
        raise unknown("control", name, CONTROLS)
    return CONTROLS[name]


def _edited(sample: Sample, rule: Rule, seed: int) -> Iterator[tuple[Data, Tensor, Tensor]]:
    for k, g in enumerate(sample.originals):
        flips = int(sample.edge_edits[k]) if bool(sample.found[k]) else 0
        # nodes of one graph have draws of their own
        own = sum((place + 1) * (node + 1) * 2_654_435_761 for place, node in enumerate(sample.nodes[k]))
        yield (g, *rule(g, bool(sample.directed[k]), flips, seed ^ own))


def _empty(g: Data, directed: bool, flips: int, seed: int) -> Pairs:
    every = pairs_of(g, directed=directed)
    return every, every[:0]


def _complete(g: Data, directed: bool, flips: int, seed: int) -> Pairs:
    present = _matrix(g, directed)
    missing = (~present if directed else ~present.triu(1) & torch.ones_like(present).triu(1)).nonzero()
    missing = missing[missing[:, 0] != missing[:, 1]]
    return missing[:0], missing


def _random(g: Data, directed: bool, flips: int, seed: int) -> Pairs:
    n = len(g.x)
    total = n * (n - 1) if directed else n * (n - 1) // 2
    generator = torch.Generator().manual_seed((content_key(g) ^ seed) & (2**63 - 1))
    drawn = torch.randperm(total, generator=generator)[:flips]
    present = _matrix(g, directed)
    pairs = (~torch.eye(n, dtype=torch.bool) if directed else torch.ones(n, n, dtype=torch.bool).triu(1)).nonzero()
    chosen = pairs[drawn]
    there = present[chosen[:, 0], chosen[:, 1]]
    return chosen[there], chosen[~there]


def _matrix(g: Data, directed: bool) -> Tensor:
    n = len(g.x)
    out = torch.zeros(n, n, dtype=torch.bool)
    i, j = pairs_of(g, directed=directed).t()
    out[i, j] = True
    return out


CONTROLS: dict[str, Rule] = {
    "empty": _empty,
    "complete": _complete,
    "random": _random,
}

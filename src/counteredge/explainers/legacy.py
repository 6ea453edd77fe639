"""The search that published tables call XPlore and CF-GNNExplainer: the code behind them loses the model's gradient.

That code stores the gradient of the prediction loss where the next backward pass does not read it, and propagates a
vector of ones instead. What is left needs no model to propose anything: every logit of a present pair sinks at the
constant rate ``lr * sigmoid'(P)``, that of an absent pair at ``1 + beta`` times this rate (the distance is taken to the
complete graph, with a minus sign), and features move by ``lr * x`` a step. The first graph that the model labels
differently is the answer. Without additions (CF-GNNExplainer) all edges leave together, at the 45th look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from counteredge.engine.draws import noise_like
from counteredge.engine.masks import bounded, gated
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search

__all__ = ["LegacyOptions", "run_legacy"]


@dataclass(frozen=True)
class LegacyOptions:
    """The published method without its gradient.

    Args:
        iterations: Most looks at the model.
        lr: Step size.
        beta: How much faster absent pairs sink.
        extended: Whether absent pairs take part: XPlore; otherwise CF-GNNExplainer.
        features: XPlore's variants, or ``None``.
        noise: Standard deviation of the start.
    """

    iterations: int = 50
    lr: float = 0.1
    beta: float = 0.5
    extended: bool = False
    features: Literal["gating", "freedom"] | None = None
    noise: float = 0.1


def run_legacy(search: Search, rows: Tensor, options: LegacyOptions, *, seed: int) -> None:
    """Search the given graphs.

    Args:
        search: The batch.
        rows: Which graphs, ``(R,)``.
        options: The method's numbers.
        seed: Of the noise.
    """
    schedule = Schedule(options.iterations, options.lr, select="first")
    optimise(search, rows, lambda at: _Masks(search, rows[at], options, seed), schedule, stage="legacy")


class _Masks(Masks):
    def __init__(self, search: Search, rows: Tensor, options: LegacyOptions, seed: int) -> None:
        super().__init__(search, rows)
        self.options = options
        base = search.base
        p = torch.ones_like(self.a)
        if options.extended:
            graphs = tuple(base.graphs[r] for r in rows.tolist())
            noise = options.noise * noise_like(graphs, base.nodes, None, seed, 0)
            p = self.a + noise + search.moves.allowed.gamma[rows]
        self.leaves = [p.requires_grad_()]
        if options.features is not None and self.x.is_floating_point():
            self.leaves.append(torch.ones_like(self.x, dtype=torch.float64).requires_grad_())

    def step(self, t: int) -> Step:
        options = self.options
        p = self.mirrored(self.leaves[0])
        free = self.flip if options.extended else self.deletable
        adj = torch.where(free, (p > 0).to(p.dtype), self.a).detach()
        # what sinks, and how fast: no word of the model in it
        loss = self.pair_count(torch.sigmoid(p) * free * (1 + options.beta * (adj < 0.5)))
        x = self.x
        if len(self.leaves) > 1 and options.features is not None:
            v = self.leaves[1]
            moving = torch.sigmoid(v) if options.features == "gating" else v
            rate = 1 + options.beta * (t > 0)
            loss = loss + (rate * moving * self.x * self.editable).flatten(1).sum(1)
            x = bounded(gated(v, x, self.editable, options.features), x, self.editable, self.search.moves).detach()
        state = State(self.rows, adj, x)
        _, valid = self.judged(state)
        return Step(loss, state, valid, torch.zeros(len(adj), dtype=torch.float64))

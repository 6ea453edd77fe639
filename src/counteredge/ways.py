"""Which relaxed pass is right for a model: measured against the model itself, once for each kind of graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from counteredge.data import Kind
from counteredge.errors import InputError, ModelError
from counteredge.graphs import GraphBatch
from counteredge.relax import DenseTwin, EdgeWeights

__all__ = ["Way", "Ways", "probe_states", "telling"]

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}

Run = Callable[[GraphBatch, Tensor, Tensor, Tensor, "DenseTwin | EdgeWeights | None"], Tensor]


@dataclass(frozen=True)
class Way:
    """How relaxed passes are made for one kind of graph.

    Attributes:
        relax: The relaxation; ``None``: real graphs only, no gradients to edges.
        name: As results show it.
        edges_matter: Whether the prediction depends on edges at all.
        exact: Whether it was measured to be exact, so that its values count. Otherwise it ranks edges, no more.
    """

    relax: DenseTwin | EdgeWeights | None
    name: str
    edges_matter: bool
    exact: bool = False

    @property
    def ranks(self) -> bool:
        """Whether gradients with respect to edges are to be had, be they of a relaxation or a guess."""
        return self.relax is not None


class Ways:
    """The ways found until now.

    Args:
        model: The model.
        wanted: ``"auto"``, or force ``"dense"``, ``"weights"`` or ``"none"``.
    """

    def __init__(self, model: nn.Module, wanted: str) -> None:
        if wanted not in ("auto", "dense", "weights", "none"):
            raise InputError(f"relaxation={wanted!r} is unknown; use auto, dense, weights or none")
        self.model, self.wanted = model, wanted
        self._found: dict[Kind, Way] = {}

    def forget(self) -> None:
        """Measure anew: what the passes do has changed."""
        self._found = {}

    def of(self, base: GraphBatch, run: Run, precision: torch.dtype) -> Way:
        """How relaxed passes over graphs of this kind are made.

        Args:
            base: Graphs of one kind.
            run: Makes one pass: ``(base, row, adj, x, relaxation or None)``.
            precision: That it is made in.
        """
        if base.kind not in self._found:
            self._found[base.kind] = self._measure(base.kind, telling(base.graphs), run, precision)
        return self._found[base.kind]

    def _measure(self, kind: Kind, g: Data, run: Run, precision: torch.dtype) -> Way:
        base = GraphBatch.from_graphs([g], directed=kind.directed)
        row, adj = probe_states(base)
        x = base.x.expand(len(row), -1, -1)
        with torch.no_grad():
            real = run(base, row, adj, x, None)
        matter = bool(((real - real[:1]).abs() > 1e-9).any())
        for build in (DenseTwin, EdgeWeights):
            if self.wanted not in ("auto", build.name):
                continue
            try:
                way = build(self.model)
                with torch.no_grad():
                    z = run(base, row, adj, x, way)
            except (ValueError, RuntimeError, KeyError, IndexError, TypeError):
                continue
            if bool(((z - real).abs() <= TOLERANCE[precision] * real.abs().clamp(min=1.0)).all()):
                return Way(way, f"exact ({build.name})", matter, exact=True)
        if self.wanted not in ("auto", "none"):
            raise ModelError(f"relaxation={self.wanted!r} is not exact for this model; leave it at 'auto'")
        guess = self._approximate(base, run, row, adj, x) if self.wanted == "auto" else None
        return Way(guess, "none" if guess is None else f"approximate ({guess.name})", matter)

    def _approximate(self, base: GraphBatch, run: Run, row: Tensor, adj: Tensor, x: Tensor) -> EdgeWeights | None:
        """Edge weights that have gradients although their values, or what lies between them, are not the model's."""
        leaf = adj.clone().requires_grad_()
        try:
            way = EdgeWeights(self.model, strict=False)
            with torch.enable_grad():
                z = run(base, row, leaf, x, way)
                torch.autograd.grad(z.sum(), leaf)
        except (ValueError, RuntimeError, KeyError, IndexError, TypeError):
            return None
        return way if bool(torch.isfinite(z).all()) else None


def telling(graphs: Sequence[Data]) -> Data:
    """A small graph that has edges and a few nodes, where there is one: others say little about a model."""
    return min(graphs, key=lambda g: (g.edge_index.shape[1] == 0, g.x.shape[0] < 3, g.x.shape[0]))


def probe_states(base: GraphBatch) -> tuple[Tensor, Tensor]:
    """The graph as it is, with its first edge removed, with an edge inserted, and with none at all."""
    a = base.adj[0]
    states = [a]
    one = (a > 0).nonzero()
    free = ((a == 0) & ~torch.eye(len(a), dtype=torch.bool, device=a.device)).nonzero()
    for pairs, value in ((one, 0.0), (free, 1.0)):
        if len(pairs):
            changed = a.clone()
            i, j = pairs[0].tolist()
            changed[i, j] = changed[j, i] = value
            states.append(changed)
    states.append(torch.zeros_like(a))
    adj = torch.stack(states)
    return torch.zeros(len(adj), dtype=torch.long, device=a.device), adj

"""Random draws that depend on the graph and the seed alone: the same for a graph alone and in any batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import content_key

__all__ = ["generator_of", "noise_like", "uniform_like"]


def generator_of(data: Data, seed: int, number: int = 0) -> torch.Generator:
    """The generator of a graph's draws, seeded by (seed, content); another one for each number."""
    return torch.Generator().manual_seed((content_key(data) ^ (seed * 1_000_003 + number)) & (2**63 - 1))


def noise_like(graphs: tuple[Data, ...], nodes: int, width: int | None, seed: int, restart: int) -> Tensor:
    """Standard normal draws ``(S, n, width)``, each graph's from its own generator seeded by (seed, content).

    Without a width, a column a node: ``(S, n, n)``; what lies beyond a graph's own nodes is zero.
    """
    out = torch.zeros(len(graphs), nodes, nodes if width is None else width, dtype=torch.float64)
    for b, g in enumerate(graphs):
        generator = generator_of(g, seed, restart)
        n = int(g.x.shape[0])
        columns = n if width is None else width
        out[b, :n, :columns] = torch.randn(n, columns, generator=generator, dtype=torch.float64)
    return out


def uniform_like(graphs: tuple[Data, ...], nodes: int, width: int | None, seed: int, restart: int) -> Tensor:
    """Draws of ``U(-1, 1)``, as :func:`noise_like` otherwise."""
    return torch.erf(noise_like(graphs, nodes, width, seed, restart) / 2**0.5)

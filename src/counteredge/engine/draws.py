"""Random draws that depend on the graph and the seed alone: the same for a graph alone and in any batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import content_key

__all__ = ["noise_like"]


def noise_like(graphs: tuple[Data, ...], nodes: int, width: int | None, seed: int, restart: int) -> Tensor:
    """Standard normal draws ``(S, n, width)``, each graph's from its own generator seeded by (seed, content).

    Without a width, a column a node: ``(S, n, n)``; what lies beyond a graph's own nodes is zero.
    """
    out = torch.zeros(len(graphs), nodes, nodes if width is None else width, dtype=torch.float64)
    for b, g in enumerate(graphs):
        generator = torch.Generator().manual_seed((content_key(g) ^ (seed * 1_000_003 + restart)) & (2**63 - 1))
        n = int(g.x.shape[0])
        columns = n if width is None else width
        out[b, :n, :columns] = torch.randn(n, columns, generator=generator, dtype=torch.float64)
    return out

"""InduCE's policy: how promising each edit of a partly edited graph is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["LAYERS", "Policy", "View"]

LAYERS = ("gat", "gcn", "sage")


@dataclass(frozen=True)
class View:
    """What the policy sees of ``S`` graphs: their real nodes one after the other.

    Attributes:
        features: Of the nodes.
        arcs: Source and target of each arc, both ways, in these nodes' numbers.
        first, second: Ends of each action's pair.
        flag: 1 where the action takes an edge away, 0 where it adds one.
        ordered: Whether the first end differs in kind from the second (the target of an addition, a source).

    Shapes:
        features: ``(N, d)``; arcs: ``(2, M)``; first, second, flag, ordered: ``(K,)``.
    """

    features: Tensor
    arcs: Tensor
    first: Tensor
    second: Tensor
    flag: Tensor
    ordered: Tensor


class Policy(nn.Module):
    """Three graph layers, each with BatchNorm and LeakyReLU, and an MLP over the ends of a pair.

    ``score(u, w) = MLP([h_u, h_w, flag])``; of pairs without an order the mean over both orders.

    Args:
        features: Columns of the nodes.
        layer: ``"gat"``, ``"gcn"`` or ``"sage"``.
        hidden: Width of the graph layers.
        inner: Width of the two inner layers of the MLP.
        depth: Number of graph layers.

    Shapes:
        forward: returns ``(K,)``, a score an action.
    """

    def __init__(self, features: int, layer: str = "gat", hidden: int = 16, inner: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [features, *[hidden] * depth]
        kind = {"gat": _Attention, "gcn": _Convolution, "sage": _Sage}[layer]
        self.layers = nn.ModuleList(kind(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(depth))
        # a constant added to all scores of a graph would change nothing
        out = nn.Linear(inner, 1, bias=False)
        self.head = nn.Sequential(
            nn.Linear(2 * hidden + 1, inner), nn.LeakyReLU(), nn.Linear(inner, inner), nn.LeakyReLU(), out
        )
        self.to(torch.float64)

    def embed(self, view: View) -> Tensor:
        """Embeddings of the nodes, ``(N, hidden)``."""
        h = view.features
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = F.leaky_relu(norm(layer(h, *view.arcs)))
        return h

    def score(self, view: View, h: Tensor) -> Tensor:
        """Scores of the actions from the embeddings."""
        a, b, flag = h[view.first], h[view.second], view.flag[:, None]
        there = self.head(torch.cat([a, b, flag], 1))[:, 0]
        back = self.head(torch.cat([b, a, flag], 1))[:, 0]
        return torch.where(view.ordered, there, (there + back) / 2)

    def forward(self, view: View) -> Tensor:
        """Scores of the actions."""
        return self.score(view, self.embed(view))


# BatchNorm follows every graph layer and takes constants away: the layers need no bias


class _Attention(nn.Module):
    """One head of graph attention, every node among its own neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.ends = nn.Linear(outputs, 2, bias=False)

    def forward(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        h = self.lin(h)
        sent, got = self.ends(h).unbind(1)
        raw, own = F.leaky_relu(sent[source] + got[target], 0.2), F.leaky_relu(sent + got, 0.2)
        most = own.detach().scatter_reduce(0, target, raw.detach(), "amax")
        weight, self_weight = (raw - most[target]).exp(), (own - most).exp()
        total = self_weight.index_add(0, target, weight)
        mixed = (self_weight[:, None] * h).index_add(0, target, weight[:, None] * h[source])
        return mixed / total[:, None]


class _Convolution(nn.Module):
    """``D^-1/2 (A + I) D^-1/2 H W``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)

    def forward(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        scale = (1.0 + torch.bincount(target, minlength=len(h))).to(h.dtype).rsqrt()[:, None]
        h = self.lin(h) * scale
        return h.index_add(0, target, h[source]) * scale


class _Sage(nn.Module):
    """``H W + mean of the neighbours' H  V``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs, bias=False)
        self.near = nn.Linear(inputs, outputs, bias=False)

    def forward(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        count = torch.bincount(target, minlength=len(h)).clamp(min=1).to(h.dtype)[:, None]
        mean = torch.zeros_like(h).index_add(0, target, h[source]) / count
        out: Any = self.own(h) + self.near(mean)
        return out

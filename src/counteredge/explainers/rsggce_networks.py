"""The networks of RSGG-CE: a residual generator of graphs and the discriminators that it plays against."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from counteredge.explainers.padded import normalised

__all__ = ["Discriminator", "ResidualGenerator"]

NOISE, DROPOUT = 0.2, 0.4  # of the discriminators, in training


class ResidualGenerator(nn.Module):
    """``P = sigmoid(H H^T + A)`` with ``H`` of two graph convolutions, and ``X' = X + D`` with ``D`` of two more.

    Args:
        features: Columns of ``x``.
        booster: Hidden columns for each of them.
        std: Of the normal start of all weights; Glorot's uniform one when ``None``. With zeros ``P = sigmoid(A)``.

    Shapes:
        adj: ``(B, n, n)``; x: ``(B, n, f)``; mask: ``(B, n)``.
    """

    def __init__(self, features: int, booster: int, std: float | None) -> None:
        super().__init__()
        hidden = features * booster
        self.encoder = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, hidden)])
        self.decoder = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, features)])
        for layer in (*self.encoder, *self.decoder):
            if std is None:
                nn.init.xavier_uniform_(layer.weight)
            else:
                nn.init.normal_(layer.weight, 0.0, std)
            nn.init.zeros_(layer.bias)

    def forward(self, adj: Tensor, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Edge probabilities, 0 at padding and on the diagonal, and features; ``(B, n, n)`` and ``(B, n, f)``."""
        spread, real = normalised(adj), mask[:, :, None].to(x.dtype)
        h = _twice(self.encoder, spread, x) * real
        p = torch.sigmoid(h @ h.transpose(1, 2) + adj) * real * real.transpose(1, 2)
        p = p * (1 - torch.eye(adj.shape[1], dtype=p.dtype, device=p.device))
        return p, (x + _twice(self.decoder, spread, x)) * real


class Discriminator(nn.Module):
    """Tells graphs as they are from generated ones: a convolution, noise, and one linear layer over all nodes.

    Args:
        features: Columns of ``x``.
        nodes: Of the largest graph.
        kind: ``"simple"``: nodes in their order, with dropout. ``"topk"``: nodes in the order of a learnt score, and
            weighted by it.

    Shapes:
        adj: ``(B, nodes, nodes)``, weights of the arcs; x: ``(B, nodes, f)``; mask: ``(B, nodes)``; logits ``(B,)``.
    """

    def __init__(self, features: int, nodes: int, kind: Literal["simple", "topk"]) -> None:
        super().__init__()
        width = int(features**0.5) + 1
        self.conv = nn.Linear(features, width)
        self.score = nn.Parameter(torch.randn(width) / width**0.5) if kind == "topk" else None
        self.dropout = nn.Dropout(0.0 if kind == "topk" else DROPOUT)
        self.last = nn.Linear(nodes * width, 1)

    def forward(self, adj: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """The logit of "real"."""
        h = normalised(adj) @ self.conv(x)
        if self.training:
            h = h + NOISE * torch.randn_like(h)
        h = torch.relu(h) * mask[:, :, None]
        if self.score is not None:
            score = torch.tanh(h @ self.score / self.score.norm().clamp(min=1e-12))
            order = score.masked_fill(~mask, float("-inf")).argsort(dim=1, descending=True, stable=True)
            h = (h * score[:, :, None]).gather(1, order[:, :, None].expand_as(h))
        return self.last(self.dropout(h).flatten(1))[:, 0]


def _twice(layers: nn.ModuleList, spread: Tensor, x: Tensor) -> Tensor:
    return spread @ layers[1](torch.relu(spread @ layers[0](x)))

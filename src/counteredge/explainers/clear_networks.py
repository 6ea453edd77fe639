"""The networks of CLEAR: an encoder, a prior and a decoder of whole graphs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from counteredge.explainers.padded import normalised

__all__ = ["GraphVAE"]


class GraphVAE(nn.Module):
    """A conditional variational auto-encoder of graphs: ``q(z | G, u, y*)``, ``p(z | u)`` and ``p(G' | z, y*)``.

    The encoder is one graph convolution and a readout. The ``"dense"`` decoder writes all pairs and all features of
    ``nodes`` nodes from ``(z, y*)`` alone, node by number. The ``"inner"`` one gives each node a vector ``s_v`` of its
    convolution and ``(z, y*)``, and a pair the logit ``s_v W s_w + b``: it knows no largest graph.

    Args:
        features: Columns of ``x``.
        nodes: Nodes that the dense decoder writes.
        wish: Numbers that say what is wished, ``y*``.
        cause: 1 when there is an auxiliary variable ``u``, else 0.
        hidden: Width of all hidden layers.
        latent: Width of ``z``.
        dropout: Of the decoder.
        pool: Readout of the encoder.
        decoder: ``"dense"`` or ``"inner"``.
        mirrored: A pair of nodes has one logit, not one each way.

    Shapes:
        adj: ``(B, n, n)``; x: ``(B, n, f)``; mask: ``(B, n)``; u: ``(B, cause)``; wish: ``(B, wish)``.
    """

    def __init__(
        self,
        features: int,
        nodes: int,
        wish: int,
        cause: int,
        hidden: int,
        latent: int,
        dropout: float,
        pool: Literal["mean", "sum"],
        decoder: Literal["dense", "inner"],
        mirrored: bool,
    ) -> None:
        super().__init__()
        self.features, self.nodes, self.pool, self.inner, self.mirrored = (
            features,
            nodes,
            pool,
            decoder == "inner",
            mirrored,
        )
        self.conv = nn.Linear(features, hidden)
        self.mean = nn.Sequential(nn.Linear(hidden + cause + wish, latent), nn.BatchNorm1d(latent), nn.ReLU())
        self.spread = nn.Sequential(
            nn.Linear(hidden + cause + wish, latent), nn.BatchNorm1d(latent), nn.ReLU(), nn.Sigmoid()
        )
        self.prior_mean = nn.Linear(cause, latent) if cause else None
        self.prior_spread = nn.Sequential(nn.Linear(cause, latent), nn.Sigmoid()) if cause else None
        given = latent + wish
        if self.inner:
            self.of_pairs = nn.Sequential(nn.Linear(hidden + given, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
            self.of_entries = nn.Sequential(
                nn.Linear(hidden + given, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, features)
            )
            self.form = nn.Parameter(torch.eye(hidden))
            self.bias = nn.Parameter(torch.zeros(()))
        else:
            self.of_pairs = nn.Sequential(*_trunk(given, hidden, dropout), nn.Linear(hidden, nodes * nodes))
            self.of_entries = nn.Sequential(*_trunk(given, hidden, dropout), nn.Linear(hidden, nodes * features))

    def encode(self, adj: Tensor, x: Tensor, mask: Tensor, u: Tensor, wish: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden vectors of the nodes, and mean and log-variance of ``z``.

        Shapes:
            returns ``(B, n, hidden)`` and twice ``(B, latent)``.
        """
        real = mask[:, :, None].to(x.dtype)
        h = normalised(adj) @ self.conv(x) * real
        read = h.sum(1) if self.pool == "sum" else h.sum(1) / real.sum(1).clamp(min=1)
        given = torch.cat([read, u, wish], 1)
        return h, self.mean(given), self.spread(given)

    def prior(self, u: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of ``p(z | u)``; 0 and 1 where there is no ``u``."""
        if self.prior_mean is None or self.prior_spread is None:
            return torch.zeros_like(like), torch.ones_like(like)
        return self.prior_mean(u), self.prior_spread(u)

    def decode(self, h: Tensor, z: Tensor, wish: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of all pairs and features of all nodes.

        Shapes:
            h: ``(B, n, hidden)``; z: ``(B, latent)``; returns ``(B, n, n)`` and ``(B, n, f)``.
        """
        n = h.shape[1]
        given = torch.cat([z, wish], 1)
        if self.inner:
            each = torch.cat([h, given[:, None].expand(-1, n, -1)], 2)
            s = self.of_pairs(each)
            logits = s @ self.form @ s.transpose(1, 2) + self.bias
            x = self.of_entries(each)
        else:
            logits = self.of_pairs(given).view(-1, self.nodes, self.nodes)[:, :n, :n]
            x = self.of_entries(given).view(-1, self.nodes, self.features)[:, :n]
        if self.mirrored:
            logits = (logits + logits.transpose(1, 2)) / 2
        return logits, x


def _trunk(width: int, hidden: int, dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.Dropout(dropout), nn.ReLU()]
        width = hidden
    return layers

"""A network on pairs of nodes (provably powerful graph network) that tells which pairs of a noisy graph are edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PPGN", "pair_bytes"]

# resident memory in matrices a channel, measured: about three times the tensors alive, the rest is the allocator's
KEPT = 16  # that each block leaves for the backward pass
PASSING = 40  # and besides, once


class PPGN(nn.Module):
    """Maron et al. (NeurIPS 2019), as the denoiser of D4Explainer: one logit a pair.

    Each pair starts as ``[A_ij, x_j, x_i, 1[i = j] t(s)]`` with ``t`` a small network of the noise level. A block turns
    the channels ``u`` into ``ReLU(norm(W [u, m1(u) m2(u) / sqrt(n)]))``, with a matrix product in every channel. The
    input and the outputs of all blocks are mixed into the logit.

    Everything is masked: padding adds nothing to products, means or variances, so it does not matter to the result.

    Args:
        features: Columns of ``x``.
        hidden: Channels.
        layers: Blocks.
        dropout: Before the last layer.

    Shapes:
        adj: ``(K, n, n)``, arcs of the noisy graphs; x: ``(K, n, f)``; mask: ``(K, n)``, nodes that take part; level:
        ``(K,)``; returns ``(K, n, n)``, zero outside the mask.
    """

    def __init__(self, features: int, hidden: int = 64, layers: int = 6, dropout: float = 1e-3) -> None:
        super().__init__()
        width = 2 * features + 2
        self.time = nn.Sequential(nn.Linear(1, 4), nn.GELU(), nn.Linear(4, 1))
        self.enter = nn.Linear(width, hidden)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(layers))
        self.skip = nn.Linear(width + layers * hidden, hidden)
        self.dropout = dropout
        self.out = nn.Linear(hidden, 1)

    def forward(self, adj: Tensor, x: Tensor, mask: Tensor, level: Tensor) -> Tensor:
        """Logits of the pairs."""
        pairs = (mask[:, :, None] & mask[:, None, :]).to(adj.dtype)[:, None]
        x = x * mask[:, :, None].to(x.dtype)
        time = self.time(level[:, None])
        width = self.enter.in_features
        count = pairs.sum((2, 3), keepdim=True).clamp(min=1.0)
        u = _pair_input(self.enter.weight, self.enter.bias, adj, x, time, pairs)
        # a layer of what is laid side by side is the sum of layers of the parts
        total = _pair_input(self.skip.weight[:, :width], self.skip.bias, adj, x, time, pairs)
        for block, weight in zip(self.blocks, torch.split(self.skip.weight[:, width:], u.shape[1], 1), strict=True):
            u = block(u, pairs, count)
            total = total + _mix(weight, u)
        h = _normed(F.relu(total), pairs, count)
        h = F.dropout(h, self.dropout, self.training)
        logits = _mix(self.out.weight, h) + self.out.bias
        return (logits * pairs)[:, 0]


class Block(nn.Module):
    """One step of the network; see :class:`PPGN`."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.merge = nn.Linear(2 * hidden, hidden, bias=False)  # the norm would take a bias off

    def forward(self, u: Tensor, pairs: Tensor, count: Tensor) -> Tensor:
        """New channels, ``(K, h, n, n)``."""
        left, right = (_mix(m.weight, u) + m.bias[:, None, None] * pairs for m in (self.left, self.right))
        product = left @ right / count.sqrt().sqrt()  # there are as many pairs as nodes squared
        own, new = torch.split(self.merge.weight, u.shape[1], 1)
        merged = _mix(own, u) + _mix(new, product)
        return F.relu(_normed(merged, pairs, count))


def _mix(weight: Tensor, u: Tensor) -> Tensor:
    """A linear layer over channels. weight: ``(o, c)``; u: ``(K, c, n, n)``; returns ``(K, o, n, n)``."""
    return F.conv2d(u, weight[:, :, None, None])


def _pair_input(weight: Tensor, bias: Tensor, adj: Tensor, x: Tensor, time: Tensor, pairs: Tensor) -> Tensor:
    """The first layer, without the widths that it would need laid out by pairs; ``(K, h, n, n)``."""
    f = x.shape[2]
    edge, far, near, own = weight[:, 0], weight[:, 1 : f + 1], weight[:, f + 1 : 2 * f + 1], weight[:, -1]
    u = edge[:, None, None] * adj[:, None] + bias[:, None, None]
    u = u + (x @ far.t()).transpose(1, 2)[:, :, None, :] + (x @ near.t()).transpose(1, 2)[:, :, :, None]
    u = u + torch.diag_embed((own * time)[:, :, None].expand(-1, -1, adj.shape[1]))
    return u * pairs


def _normed(u: Tensor, pairs: Tensor, count: Tensor) -> Tensor:
    """Each channel of each graph brought to mean 0 and variance 1 over its real pairs."""
    centred = (u - u.sum((2, 3), keepdim=True) / count) * pairs
    variance = centred.square().sum((2, 3), keepdim=True) / count
    return centred * torch.rsqrt(variance + 1e-5)


def pair_bytes(hidden: int, layers: int, *, training: bool) -> int:
    """Bytes a pair that one graph takes in a pass: single precision with all blocks kept, or double with none."""
    return 4 * hidden * (KEPT * layers + PASSING) if training else 8 * hidden * PASSING

"""What methods that write whole graphs share: padded training graphs, legal features, draws of every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import content_key
from counteredge.engine.draws import noise_like
from counteredge.engine.masks import legal_features, straight_through
from counteredge.engine.moves import Moves
from counteredge.errors import InputError
from counteredge.explainers.trained import Training

__all__ = ["Padded", "Part", "check_width", "generated_features", "normalised", "pair_draws", "width_of"]


@dataclass(frozen=True)
class Part:
    """Some of the training graphs, padded.

    Attributes:
        ids: Their numbers.
        adj: 1 where an arc is present.
        x: Features as numbers.
        mask: ``True`` at real nodes.
        flip: Pairs that may change.
        editable: Entries of ``x`` that may change.

    Shapes:
        ids: ``(B,)``; adj, flip: ``(B, n, n)``; x, editable: ``(B, n, f)``; mask: ``(B, n)``.
    """

    ids: Tensor
    adj: Tensor
    x: Tensor
    mask: Tensor
    flip: Tensor
    editable: Tensor


class Padded:
    """Training graphs of all sizes, held in batches of like size, given out padded to the largest.

    Args:
        training: What the method gets to learn from.
        memory: Padded graphs are kept, not made anew each time, up to so many bytes.
    """

    def __init__(self, training: Training, memory: int) -> None:
        self.oracle = training.oracle
        self.bases = list(training.batches())
        self.moves = [Moves(base, training.space.allowed(base, training.schema)) for base in self.bases]
        count = len(training.graphs)
        self.at, self.row = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long)
        for k, base in enumerate(self.bases):
            self.at[base.ids.cpu()], self.row[base.ids.cpu()] = k, torch.arange(base.size)
        self.nodes = max(base.nodes for base in self.bases)
        self.width = int(self.bases[0].x.shape[2])
        fits = 5 * count * self.nodes * (self.nodes + self.width) <= memory
        self.kept = self._made(torch.arange(count)) if fits else None

    def take(self, ids: Tensor) -> Part:
        """These graphs in single precision, ``ids``: ``(B,)``."""
        if self.kept is None:
            return self._made(ids)
        kept = self.kept
        return Part(ids, kept.adj[ids], kept.x[ids], kept.mask[ids], kept.flip[ids], kept.editable[ids])

    def _made(self, ids: Tensor) -> Part:
        size, n, f = len(ids), self.nodes, self.width
        adj, x = torch.zeros(size, n, n), torch.zeros(size, n, f)
        flip = torch.zeros(size, n, n, dtype=torch.bool)
        mask, editable = torch.zeros(size, n, dtype=torch.bool), torch.zeros(size, n, f, dtype=torch.bool)
        for k, at in self._parts(ids):
            base, allowed, rows = self.bases[k], self.moves[k].allowed, self.row[ids[at]]
            m = base.nodes
            adj[at, :m, :m] = base.adj[rows].float().cpu()
            x[at, :m] = base.x[rows].float().cpu()
            mask[at, :m] = base.mask[rows].cpu()
            flip[at, :m, :m] = allowed.flip[rows].cpu()
            editable[at, :m] = allowed.features[rows].cpu()
        return Part(ids, adj, x, mask, flip, editable)

    def legal(self, part: Part, x: Tensor) -> Tensor:
        """Generated features as the schema allows them; gradients pass as if they were free, ``(B, n, f)``."""
        hard = part.x.clone()
        for k, at in self._parts(part.ids):
            base = self.bases[k]
            if base.x.is_floating_point():
                old, editable = part.x[at, : base.nodes], part.editable[at, : base.nodes]
                values = x[at, : base.nodes].detach()
                hard[at, : base.nodes] = generated_features(values, old, editable, self.moves[k], old.dtype)
        return torch.where(part.editable, straight_through(x, hard), part.x)

    def outputs(self, part: Part, adj: Tensor, x: Tensor) -> Tensor:
        """What the model says of relaxed graphs, with gradients.

        Shapes:
            adj: ``(B, n, n)``; x: ``(B, n, f)``; returns ``(B, C)``.
        """
        order, found = [], []
        for k, at in self._parts(part.ids):
            base = self.bases[k]
            m = base.nodes
            for some in torch.split(at, self.oracle.chunk(base, gradients=True)):
                rows = self.row[part.ids[some]].to(base.adj.device)
                values = x[some, :m].to(base.x) if base.x.is_floating_point() else base.x[rows]
                found.append(self.oracle.relaxed(base, rows, adj[some, :m, :m].to(base.adj), values).cpu())
                order.append(some)
        return torch.cat(found)[torch.cat(order).argsort()]

    def _parts(self, ids: Tensor) -> list[tuple[int, Tensor]]:
        at = self.at[ids]
        return [(k, (at == k).nonzero().flatten()) for k in torch.unique(at).tolist()]


def width_of(data: Data) -> int:
    """Columns of ``x``."""
    return 1 if data.x.dim() == 1 else int(data.x.shape[1])


def check_width(fitted: int, width: int) -> None:
    """Refuse graphs that have other columns than those that a network was fitted on."""
    if width != fitted:
        raise InputError(f"fitted on graphs with {fitted} columns of x, these have {width}")


def normalised(adj: Tensor) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2`` of dense (weighted) graphs, for messages along the arcs, ``(B, n, n)``.

    Example:
        >>> normalised(torch.zeros(1, 2, 2)).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
    """
    own = adj.transpose(1, 2) + torch.eye(adj.shape[1], dtype=adj.dtype, device=adj.device)
    scale = own.sum(2).clamp(min=1e-12).rsqrt()
    return scale[:, :, None] * own * scale[:, None, :]


def pair_draws(graphs: Sequence[Data], nodes: int, seed: int, number: int, *, directed: bool, least: int = 0) -> Tensor:
    """Uniform draws in (0, 1), one a pair, from each graph's own generator: the same alone and in any batch.

    Args:
        graphs: Whose draws these are.
        nodes: To how many nodes they are padded.
        seed: Of the draws.
        number: Of the draw.
        directed: Each way its own draw.
        least: Pairs with padding up to so many nodes have draws too, 1/2 elsewhere.

    Shapes:
        returns ``(S, nodes, nodes)``, symmetric unless ``directed``.
    """
    normal = noise_like(tuple(graphs), nodes, None, seed, 2 * number)
    filler = Data(x=torch.zeros(least, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))
    for k, g in enumerate(graphs):
        n = len(g.x)
        if n < least:
            more = noise_like((filler,), least, None, content_key(g) % (1 << 20) + seed, 2 * number + 1)[0]
            more[:n, :n] = normal[k, :n, :n]
            normal[k, :least, :least] = more
    drawn = torch.special.ndtr(normal)
    if directed:
        return drawn
    upper = drawn.triu(1)
    return upper + upper.transpose(1, 2)


def generated_features(value: Tensor, x: Tensor, editable: Tensor, moves: Moves, dtype: torch.dtype) -> Tensor:
    """Generated numbers as features that the schema allows, in the user's precision.

    Shapes:
        value, x, editable: ``(S, n, f)``.
    """
    # the last digits of a network depend on how many graphs it is shown
    hard = legal_features(value.to(x.dtype).round(decimals=6), x, editable, moves)
    return torch.where(editable, hard.to(dtype).to(x.dtype), x)

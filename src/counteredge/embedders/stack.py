"""Graphs of one size as dense matrices, with everything that several embedders need computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from counteredge.embedders.simple import SimpleGraphs
from counteredge.errors import BudgetError

__all__ = ["MEMORY", "POINTS", "THETA", "GraphStack", "largest_loop_degree", "stacks", "waves"]

MEMORY = 1 << 30  # bytes that one batch may take
CACHED = 1 << 21  # bytes of one (B, n, n) matrix: beyond this, memory traffic makes it slower
NARROW = 32  # nodes as which a smaller graph counts in that, for its vectors are not smaller
MATRICES = 20  # (n, n) matrices that a graph takes while all embedders look at it
COLUMNS = 512  # (n,) vectors that it takes besides
POWERS = 6  # highest power of P that is asked for
POINTS = 25  # evaluation points of a characteristic function
THETA = 2.5
EXACT = 4096  # nodes up to which single precision counts paths exactly, n^2 <= 2^24


def waves(signals: Tensor) -> Tensor:
    """``cos(s theta)`` and ``sin(s theta)`` of node signals at 25 points ``theta`` from 0.01 to 2.5.

    Args:
        signals: Numbers of each node.

    Returns:
        All cosines (signal by signal, 25 points each), then all sines.

    Shapes:
        signals: ``(B, n, s)``; returns ``(B, n, 50 s)``.
    """
    theta = torch.linspace(0.01, THETA, POINTS, dtype=signals.dtype, device=signals.device)
    # degrees and clustering coefficients take few values: each cosine is computed once
    values, place = torch.unique(signals, return_inverse=True)
    if 4 * len(values) > signals.numel():
        angle = (signals[..., None] * theta).flatten(2)
        return torch.cat([angle.cos(), angle.sin()], 2)
    angle = values[:, None] * theta
    return torch.cat([angle.cos()[place].flatten(2), angle.sin()[place].flatten(2)], 2)


class GraphStack:
    """``B`` graphs with ``n`` nodes each, and what follows from their adjacency, computed when asked for.

    Notation of the embedders: ``A`` is symmetric, 0/1, without loops; ``d = A 1``; the reference embeds graphs to
    which a loop was added at every node, which counts twice in a degree, so ``k = d + 2`` is the *loop degree* and
    ``P = diag(1/k) (A + I)``.

    Attributes:
        ids: Numbers of the graphs in the caller's list.
        adj: ``A``.
        largest: Largest loop degree of all graphs that are embedded in the same call.
        features: Node features of each graph where it has some.

    Shapes:
        ids: ``(B,)``; adj: ``(B, n, n)``; features: ``B`` times ``(n, f)``.
    """

    def __init__(self, ids: Tensor, adj: Tensor, largest: int, features: Sequence[Tensor | None] = ()) -> None:
        self.ids, self.adj, self.largest, self.features = ids, adj, largest, features

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n(self) -> int:
        """Nodes of each graph."""
        return self.adj.shape[1]

    @cached_property
    def x(self) -> Tensor | None:
        """Node features, ``(B, n, f)``, where all graphs have them in one width; nan at a node that has none."""
        # a graph without nodes was read as one node, for which there is no row
        found = [
            x.new_full((1, x.shape[1]), torch.nan) if len(x) < self.n == 1 else x
            for x in self.features
            if x is not None
        ]
        fits = len(found) == len(self) and all(x.shape == (self.n, found[0].shape[1]) for x in found)
        return torch.stack(found) if found and fits else None

    @cached_property
    def degree(self) -> Tensor:
        """``d``, neighbours of each node, ``(B, n)``."""
        return self.adj.sum(2)

    @cached_property
    def loop_degree(self) -> Tensor:
        """``k = d + 2``, ``(B, n)``."""
        return self.degree + 2

    @cached_property
    def clustering(self) -> Tensor:
        """``c = ((A A) * A) 1 / (d (d - 1))``, 0 where ``d < 2``, ``(B, n)``."""
        closed = (torch.bmm(self.adj, self.adj) * self.adj).sum(2)
        pairs = self.degree * (self.degree - 1)
        return closed / pairs.clamp(min=1)

    @cached_property
    def log_degree(self) -> Tensor:
        """``g = ln(k + 1)``, ``(B, n)``."""
        return (self.loop_degree + 1).log()

    @cached_property
    def signals(self) -> Tensor:
        """``Z``: cosines of ``g`` and ``c``, then their sines, at 25 points, ``(B, n, 100)``."""
        return waves(torch.stack([self.log_degree, self.clustering], 2))

    @cached_property
    def pools(self) -> Tensor:
        """``w^r = (1/n) 1^T P^r`` for ``r = 0 .. 6``, ``(B, 7, n)``: the mean over nodes of ``P^r X`` is ``w^r X``."""
        rows = [torch.full_like(self.degree, 1 / self.n)]
        for _ in range(POWERS):
            shares = rows[-1] / self.loop_degree
            rows.append(torch.bmm(shares[:, None], self.adj)[:, 0] + shares)
        return torch.stack(rows, 1)

    @cached_property
    def hops(self) -> Tensor:
        """Lengths of shortest paths in single precision, ``inf`` where there is none, ``(B, n, n)``.

        By halving (Seidel 1995): ``A'`` joins nodes that are one or two steps apart. Where ``t`` are the distances
        in ``A'``, those in ``A`` are ``2 t`` or ``2 t - 1``; they are odd where ``sum_k t_ik A_kj < t_ij d_j``. Takes
        ``2 log2`` of the largest distance many products instead of as many as the distance. Between components ``t``
        is 0 on both sides, so it stays 0 until it is made infinite at the end.
        """
        kind = torch.float32 if self.n <= EXACT else torch.float64
        levels = [self.adj.bool()]  # one byte an entry: a long path has many levels
        while True:
            joined = levels[-1].to(kind)
            reach = (torch.bmm(joined, joined) > 0).logical_or_(levels[-1])
            reach.diagonal(dim1=1, dim2=2).fill_(False)
            if torch.equal(reach, levels[-1]):
                break
            levels.append(reach)
        far = levels.pop().to(kind)
        for level in reversed(levels):
            joined = level.to(kind)
            odd = torch.bmm(far, joined) < far * joined.sum(1, keepdim=True)
            far = far.mul_(2).sub_(odd.to(kind))
        far.masked_fill_(far == 0, torch.inf)
        far.diagonal(dim1=1, dim2=2).zero_()
        return far

    @cached_property
    def together(self) -> Tensor:
        """Which pairs of nodes lie in one component, ``(B, n, n)``."""
        return self.hops.isfinite()

    @cached_property
    def laplacian_eigh(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues, ascending, and eigenvectors of ``L = diag(d) - A``, ``(B, n)`` and ``(B, n, n)``."""
        values, vectors = torch.linalg.eigh(torch.diag_embed(self.degree) - self.adj)
        return values, vectors

    @cached_property
    def normalised_spectrum(self) -> Tensor:
        """Ascending eigenvalues of ``diag(d > 0) - D^(-1/2) A D^(-1/2)``, ``(B, n)``."""
        root = torch.where(self.degree > 0, self.degree.clamp(min=1).rsqrt(), 0.0)
        return torch.linalg.eigvalsh(torch.diag_embed((self.degree > 0).double()) - _scaled(self.adj, root))

    @property
    def loop_laplacian(self) -> Tensor:
        """``diag(d + 1)^(-1/2) L diag(d + 1)^(-1/2)``, the normalised Laplacian with loops, ``(B, n, n)``."""
        share = self.degree / (self.degree + 1)
        return torch.diag_embed(share) - _scaled(self.adj, (self.degree + 1).rsqrt())

    @cached_property
    def loop_spectrum(self) -> Tensor:
        """Ascending eigenvalues of :attr:`loop_laplacian`, ``(B, n)``."""
        return torch.linalg.eigvalsh(self.loop_laplacian)


def _scaled(a: Tensor, factor: Tensor) -> Tensor:
    return a * factor[:, :, None] * factor[:, None]


def largest_loop_degree(graphs: SimpleGraphs) -> int:
    """The largest ``d + 2`` of all nodes of all graphs; 2 where there is no edge."""
    start = graphs.nodes.cumsum(0) - graphs.nodes
    degrees = torch.bincount((graphs.edges + start[graphs.owner]).flatten())
    return 2 + (int(degrees.max()) if len(degrees) else 0)


def stacks(graphs: SimpleGraphs, *, memory: int = MEMORY) -> Iterator[GraphStack]:
    """The graphs in batches of equal size, so that none is padded and a graph's numbers are those it has alone.

    Args:
        graphs: Any number of graphs.
        memory: Bound in bytes of one batch.

    Yields:
        Batches; together they hold every graph once.

    Raises:
        BudgetError: When a single graph does not fit, before anything is allocated.
    """
    largest = largest_loop_degree(graphs)
    order = torch.argsort(graphs.nodes, stable=True)
    place = torch.argsort(order)[graphs.owner]
    by_place = torch.argsort(place, stable=True)
    (u, v), place = graphs.edges[:, by_place], place[by_place]
    first = torch.searchsorted(place, torch.arange(len(graphs) + 1)).tolist()
    done = 0
    for n, count in zip(*(t.tolist() for t in torch.unique(graphs.nodes, return_counts=True)), strict=True):
        each = 8 * n * (MATRICES * n + COLUMNS)
        if each > memory:
            raise BudgetError(
                f"graph {int(order[done])} with {n} nodes needs {each / 2**20:.0f} MiB to be embedded, the bound is "
                f"{memory / 2**20:.0f} MiB: raise memory=, or leave such graphs out"
            )
        step = max(1, min(CACHED // (8 * n * max(n, NARROW)), memory // each))
        for start in range(done, done + count, step):
            end = min(start + step, done + count)
            part = slice(first[start], first[end])
            adj = torch.zeros(end - start, n, n, dtype=torch.float64)
            adj[place[part] - start, u[part], v[part]] = 1.0
            adj[place[part] - start, v[part], u[part]] = 1.0
            ids = order[start:end]
            yield GraphStack(ids, adj, largest, [graphs.x[k] for k in ids.tolist()])
        done += count

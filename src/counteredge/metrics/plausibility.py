"""Whether counterfactuals look like real graphs, of the class that they claim to be of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import coo_array
from torch import Tensor
from torch_geometric.data import Data

from counteredge.decision import Label
from counteredge.embedders import Embedder
from counteredge.embedders.simple import SimpleGraphs, distinct
from counteredge.embedders.stack import stacks
from counteredge.metrics.aggregate import resampled
from counteredge.metrics.definition import metric
from counteredge.metrics.sample import Sample, own_label

__all__ = ["Surroundings", "mmd"]

GENERATORS = "You et al., GraphRNN (ICML 2018); kernel: O'Bray et al. (ICLR 2022)"
NEIGHBOURS = 15
CLUSTERING_BINS = 100
DENSE_UP_TO = 512  # nodes up to which triangles are counted by dense products
GRID = 1e-9
MMD_BOUND = 2 * (1 - math.exp(-1))  # of a kernel between 1/e and 1
ROUNDS = 200  # bootstrap samples of a figure that takes all pairs of graphs
BLOCK = 1 << 22  # numbers of one block of a kernel matrix


@dataclass(frozen=True)
class Surroundings:
    """Real graphs and their classes in an embedding space, every column scaled by its spread among them.

    Attributes:
        points: Vectors of the real graphs.
        labels: Their classes.
        scale: Standard deviation of each column, 1 where it is constant.

    Shapes:
        points: ``(R, D)``; labels: ``(R,)``; scale: ``(D,)``.
    """

    points: Tensor
    labels: Tensor
    scale: Tensor

    @classmethod
    def of(
        cls,
        embedder: Embedder,
        graphs: Sequence[Data],
        *,
        most: int = 2000,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Surroundings | None:
        """Embed real graphs, their classes in ``y``; of more than ``most`` a random part.

        ``None`` when one of them has no class, a whole number.
        """
        labels = [own_label(g) for g in graphs]
        classes = [int(y) for y in labels if isinstance(y, int) or (isinstance(y, float) and y.is_integer())]
        if not classes or len(classes) != len(labels):
            return None
        chosen = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))[:most].sort().values
        vectors = embedder.transform([graphs[k] for k in chosen.tolist()], progress=progress)
        spread = vectors.std(0, correction=0)
        scale = torch.where(spread > 1e-12, spread, torch.ones_like(spread))
        return cls(vectors / scale, torch.tensor(classes)[chosen], scale)

    @cached_property
    def usual(self) -> dict[int, float]:
        """How far graphs of each class are from their nearest ones."""
        return {int(c): _usual(self.points[self.labels == c]) for c in torch.unique(self.labels)}

    def near(
        self, found: Tensor, after: Sequence[Label | None], originals: Tensor, edited: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Agreement of the nearest real graphs with the new class, and distance to those of that class.

        Args:
            found: Whether there is a counterfactual that changes the structure, which is all that is looked at.
            after: Its class.
            originals: Vectors of the originals.
            edited: Vectors of the edited graphs.

        Shapes:
            found: ``(N,)``; originals, edited: ``(N, D)``; returns two ``(N,)``, NaN where nothing can be said.
        """
        agree = torch.full((len(found),), torch.nan, dtype=torch.float64)
        far = agree.clone()
        rows = torch.tensor([k for k in found.nonzero().flatten().tolist() if isinstance(after[k], int)])
        for part in torch.split(rows.long(), max(1, BLOCK // max(1, len(self.points)))):
            distance = _distance(edited[part] / self.scale, self.points)
            # the graph itself is no witness, neither for its old class nor for its new one
            itself = _distance(originals[part] / self.scale, self.points) < GRID
            first = itself & (itself.cumsum(1) == 1)
            distance = distance.masked_fill(first, torch.inf)
            # graphs that are equal up to the order of their nodes are equally far, whatever the rounding
            which = torch.argsort(torch.round(distance / GRID), dim=1, stable=True)
            near = distance.gather(1, which)
            wanted = torch.tensor([after[k] for k in part.tolist()])
            real = torch.isfinite(near)
            same = (self.labels[which] == wanted[:, None]) & real
            top = real[:, :NEIGHBOURS].sum(1)
            agree[part] = torch.where(top > 0, same[:, :NEIGHBOURS].sum(1).double() / top.clamp(min=1), torch.nan)
            chosen = same & (same.cumsum(1) <= NEIGHBOURS)
            mean = near.masked_fill(~chosen, 0.0).sum(1) / chosen.sum(1)
            typical = torch.tensor([self.usual.get(int(c), 0.0) for c in wanted], dtype=torch.float64)
            far[part] = torch.where((typical > 0) & chosen.any(1), mean / typical, torch.nan)
        return agree, far


def _distance(one: Tensor, other: Tensor) -> Tensor:
    """Euclidean; not by a matrix product, whose rounding is as large as the distance of near graphs."""
    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist")


def _usual(points: Tensor) -> float:
    """Median over the graphs of a class of the mean distance to their nearest ones; 0 where there is no other."""
    if len(points) < 2:
        return 0.0
    found = []
    for part in torch.split(points, max(1, BLOCK // len(points))):
        distance = torch.sort(_distance(part, points), dim=1).values[:, 1 : NEIGHBOURS + 1]
        found.append(distance.mean(1))
    return float(torch.cat(found).quantile(0.5))


@metric(
    "class_agreement", "Neighbours' agreement",
    f"share of the {NEIGHBOURS} nearest real graphs of class Phi(G'); WaveletCharacteristic, columns scaled; GED > 0",
    high=1.0, direction="higher", reference="counteredge; the number behind the paper's t-SNE (appendix C)",
    needs="dataset with classes",
)  # fmt: skip
def class_agreement(sample: Sample) -> Tensor:
    """Whether a counterfactual lands among real graphs of its new class; the original itself is left out."""
    return sample.nothing if sample.near is None else sample.near[0]


@metric(
    "class_distance", "Distance to the new class",
    f"mean distance to the {NEIGHBOURS} nearest real graphs of class Phi(G') / median of that in the class; GED > 0",
    direction="lower", reference="counteredge; the number behind the paper's t-SNE (appendix C)",
    needs="dataset with classes",
)  # fmt: skip
def class_distance(sample: Sample) -> Tensor:
    """1: as near as real graphs of the class are to each other."""
    return sample.nothing if sample.near is None else sample.near[1]


@metric(
    "degree_mmd", "Degree MMD^2",
    "MMD^2 between the degree histograms of originals and counterfactuals, kernel exp(-TV)",
    high=MMD_BOUND, direction="lower", reference=GENERATORS,
    whole=True,
)  # fmt: skip
def degree_mmd(sample: Sample) -> Tensor:
    """How far the degrees of the counterfactuals, as a set, are from those of their originals."""
    pairs = [_degree_histograms(g) for g in _both(sample)]
    width = max((h.shape[1] for h in pairs), default=1)
    one, other = (torch.nn.functional.pad(h, (0, width - h.shape[1])) for h in pairs)
    return mmd(one, other)


@metric(
    "clustering_mmd", "Clustering MMD^2",
    f"the same of the clustering coefficients, {CLUSTERING_BINS} bins",
    high=MMD_BOUND, direction="lower", reference=GENERATORS,
    whole=True,
)  # fmt: skip
def clustering_mmd(sample: Sample) -> Tensor:
    """How far the clustering coefficients of the counterfactuals, as a set, are from those of their originals."""
    one, other = (_clustering_histograms(g) for g in _both(sample))
    return mmd(one, other)


def mmd(one: Tensor, other: Tensor, *, rounds: int = ROUNDS, seed: int = 0) -> Tensor:
    """Squared maximum mean discrepancy of two sets of distributions, and of bootstrap samples of the pairs.

    ``mean k(x, x') + mean k(y, y') - 2 mean k(x, y)`` with ``k = exp(-TV(p, q))``, ``TV = |p - q|_1 / 2``: 0 for
    equal sets. Unlike the Gaussian of a total variation, which is in use too, this kernel is positive definite, so
    that nothing negative comes out. Kernel matrices are made in blocks and never held.

    Args:
        one: Distributions of the first set.
        other: As many of the second; pair by pair for the bootstrap.
        rounds: Bootstrap samples.
        seed: Of the draws.

    Shapes:
        one, other: ``(N, b)``; returns ``(1 + rounds,)``, the figure itself first; all NaN for ``N = 0``.

    Source:
        Gretton et al., A kernel two-sample test (JMLR 2012), equation 5; the kernel: O'Bray et al. (ICLR 2022).

    Example:
        >>> p = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
        >>> float(mmd(p, p)[0])
        0.0
    """
    n = len(one)
    if not n:
        return torch.full((1 + rounds,), torch.nan, dtype=torch.float64)
    weights = torch.cat([torch.full((n, 1), 1 / n, dtype=torch.float64), resampled(n, rounds=rounds, seed=seed)], 1)
    step = max(1, BLOCK // n)
    total = torch.zeros(1 + rounds, dtype=torch.float64)
    for k in range(0, n, step):
        rows = slice(k, k + step)
        for a, b, sign in ((one, one, 1.0), (other, other, 1.0), (one, other, -2.0)):
            kernel = torch.exp(-torch.cdist(a[rows], b, p=1) / 2)
            total += sign * (weights[rows] * (kernel @ weights)).sum(0)
    return total.clamp(min=0)


def _both(sample: Sample) -> tuple[list[Data], list[Data]]:
    rows = sample.found.nonzero().flatten().tolist()
    return [sample.originals[k] for k in rows], [sample.edited[k] for k in rows]


def _degree_histograms(graphs: Sequence[Data]) -> Tensor:
    """Shares of the nodes with each degree, ``(N, largest degree + 1)``."""
    first, back = distinct(graphs)
    read = SimpleGraphs.of(first)
    if not len(read):
        return torch.zeros(0, 1, dtype=torch.float64)
    degrees = torch.cat(read.degrees())
    width = int(degrees.max()) + 1
    owner = torch.repeat_interleave(torch.arange(len(read)), read.nodes)
    counts = torch.bincount(owner * width + degrees, minlength=len(read) * width).reshape(-1, width)
    return (counts / read.nodes[:, None].to(torch.float64))[back]


def _clustering_histograms(graphs: Sequence[Data]) -> Tensor:
    """Shares of the nodes in each bin of the clustering coefficient, ``(N, bins)``; the last bin is closed."""
    first, back = distinct(graphs)
    read = SimpleGraphs.of(first)
    out = torch.zeros(len(read), CLUSTERING_BINS, dtype=torch.float64)
    large = (read.nodes > DENSE_UP_TO).nonzero().flatten()
    for k in large.tolist():
        out[k] = _shares(_sparse_clustering(read.edges[:, read.owner == k], int(read.nodes[k]))[None])
    small = (read.nodes <= DENSE_UP_TO).nonzero().flatten()
    for stack in stacks(SimpleGraphs.of([first[k] for k in small.tolist()])):
        out[small[stack.ids]] = _shares(stack.clustering)
    return out[back]


def _shares(clustering: Tensor) -> Tensor:
    """Histograms of coefficients, ``(B, n)`` to ``(B, bins)``."""
    bins = (clustering * CLUSTERING_BINS + 1e-9).long().clamp(max=CLUSTERING_BINS - 1)
    counts = torch.zeros(len(clustering), CLUSTERING_BINS, dtype=torch.float64)
    return counts.scatter_add_(1, bins, torch.ones_like(clustering)) / clustering.shape[1]


def _sparse_clustering(edges: Tensor, n: int) -> Tensor:
    """Coefficients of one graph that is too large for dense matrices, ``(n,)``."""
    u, v = edges.numpy()
    half = coo_array((np.ones(len(u)), (u, v)), shape=(n, n))
    a = (half + half.T).tocsr()
    degree = torch.from_numpy(a.sum(1))
    closed = torch.from_numpy(((a @ a) * a).sum(1))
    return closed / (degree * (degree - 1)).clamp(min=1)

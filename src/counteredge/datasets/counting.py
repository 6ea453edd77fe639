"""Random graphs whose class is a count: green nodes, triangles; graph ``i`` depends on the seed and on ``i`` alone.

The recipes of Knyazev et al. (2019), as read off the published files: ``n`` nodes and ``m`` edges are uniform,
``n <= m <= 2 n - 1``, and no node has more than 14 neighbours. The first graphs are small, the last ones large.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from counteredge.datasets.dataset import Content
from counteredge.datasets.generators import undirected
from counteredge.errors import InputError
from counteredge.schema import Column

__all__ = ["make_colors", "make_triangles"]

MAX_DEGREE = 14
COLORS = ("red", "green", "blue", "extra")
COLORS_LARGE, COLORS_MIXED = 5500, 8000  # from here on graphs are larger; from here on colours mix, too
TRIANGLES_LARGE = 40000
# the published set holds no graph twice, which leaves few of the smallest: shares of the draws that are kept
RARE = {4: 0.01, 5: 0.26, 6: 0.93}

Pairs = NDArray[np.int64]


def make_colors(graphs: int = 10500, *, seed: int = 0) -> Content:
    """Count the green nodes, 0 to 10, like COLORS-3.

    The count is uniform over what fits into the graph. Other nodes are red or blue; from graph 8000 on they have any
    mixture of red, blue and a fourth colour, none included.

    Args:
        graphs: Number of graphs; the published set has 10500.
        seed: Seed; the global random state is not used.

    Returns:
        Graphs with the four colours as ``x`` and the count as class.

    Shapes:
        x ``(n, 4)``, edge_index ``(2, 2 m)``, y ``(1,)``.

    Raises:
        InputError: When a number is out of range.

    Example:
        >>> graph = make_colors(1).graphs[0]
        >>> int(graph.y) == int(graph.x[:, 1].sum())
        True
    """
    _check(graphs, seed)
    made = []
    for i in range(graphs):
        rng = np.random.default_rng([seed, i])
        n = _nodes(rng, (4, 25) if i < COLORS_LARGE else (26, 200))
        green = int(rng.integers(0, min(10, n) + 1))
        x = np.zeros((n, 4), np.float32)
        x[:green, 1] = 1
        if i < COLORS_MIXED:
            x[np.arange(green, n), rng.choice([0, 2], n - green)] = 1
        else:
            x[green:, [0, 2, 3]] = rng.integers(0, 2, (n - green, 3))
        pairs = _edges(rng, n)
        while _degrees(pairs, n).max() > MAX_DEGREE:
            pairs = _edges(rng, n)
        features = torch.from_numpy(x[rng.permutation(n)])
        made.append(Data(x=features, edge_index=undirected(pairs), y=torch.tensor([green])))
    return Content(made, tuple(Column("binary", name=c) for c in COLORS), tuple(str(k) for k in range(11)))


def make_triangles(graphs: int = 45000, *, seed: int = 0) -> Content:
    """Count the triangles, 1 to 10, like TRIANGLES; classes take turns.

    Graphs are drawn until one has the count of its turn.

    Args:
        graphs: Number of graphs; the published set has 45000.
        seed: Seed; the global random state is not used.

    Returns:
        Graphs without features.

    Shapes:
        edge_index ``(2, 2 m)``, y ``(1,)``.

    Raises:
        InputError: When a number is out of range.

    Example:
        >>> [int(g.y) for g in make_triangles(3).graphs]  # class 0 is one triangle
        [0, 1, 2]
    """
    _check(graphs, seed)
    made = []
    for i in range(graphs):
        rng = np.random.default_rng([seed, i])
        sizes = (4, 25) if i < TRIANGLES_LARGE else (26, 100)
        while True:
            n = _nodes(rng, sizes)
            if n in RARE and rng.random() >= RARE[n]:
                continue
            pairs = _edges(rng, n)
            if _triangles(pairs, n) == i % 10 + 1 and _degrees(pairs, n).max() <= MAX_DEGREE:
                break
        made.append(Data(edge_index=undirected(pairs), y=torch.tensor([i % 10]), num_nodes=n))
    return Content(made, (), tuple(str(k) for k in range(1, 11)))


def _check(graphs: int, seed: int) -> None:
    if graphs < 0 or seed < 0:
        raise InputError(f"graphs and seed must be 0 or more, got graphs={graphs}, seed={seed}")


def _nodes(rng: np.random.Generator, sizes: tuple[int, int]) -> int:
    return int(rng.integers(sizes[0], sizes[1] + 1))


def _edges(rng: np.random.Generator, n: int) -> Pairs:
    """Uniformly many edges from ``n`` to ``2 n - 1`` (as far as there are so many pairs), uniformly chosen."""
    pairs = _all_pairs(n)
    m = int(rng.integers(n, min(2 * n - 1, pairs.shape[1]) + 1))
    return pairs[:, rng.choice(pairs.shape[1], m, replace=False, shuffle=False)]


def _degrees(pairs: Pairs, n: int) -> Pairs:
    return np.bincount(pairs.ravel(), minlength=n)


def _triangles(pairs: Pairs, n: int) -> int:
    half = np.zeros((n, n), np.float32)
    half[pairs[0], pairs[1]] = 1
    # the first node is below the second: a triangle is a way over two edges that a third one cuts short
    return int(np.vdot(half @ half, half))


@cache
def _all_pairs(n: int) -> Pairs:
    return np.array(np.triu_indices(n, 1))

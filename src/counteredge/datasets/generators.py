"""Synthetic trees with motifs; graph ``i`` depends on the seed and on ``i`` alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from counteredge.datasets.dataset import Content, GraphDataset
from counteredge.errors import InputError
from counteredge.schema import FeatureSchema

__all__ = ["MOTIFS", "make_motifs", "tree_cycles", "undirected"]

Edges = list[tuple[int, int]]


class _Motif(NamedTuple):
    """A synthetic set: class 0 is a bare tree, class 1 a smaller tree with motifs hung on.

    Classes alternate; besides, graph ``every / 2`` and each ``every``-th after it are of class 1 (0: none are).
    """

    nodes: int
    tree: Callable[[int, np.random.Generator], Edges]
    motif: Callable[[np.random.Generator], list[Edges]]
    size: int
    every: int
    label_names: tuple[str, str]


def make_motifs(name: str, graphs: int, *, seed: int = 0, node_task: bool = False) -> Content:
    """One of the synthetic sets of the paper, without features.

    Args:
        name: A name of ``MOTIFS``.
        graphs: Number of graphs; the published sets have 5000.
        seed: Seed; the global random state is not used.
        node_task: ``y`` says of each node whether it is on a motif, instead of one class for the graph.

    Returns:
        Graphs with ``edge_index`` and ``y``.

    Raises:
        InputError: When a number is out of range.

    Example:
        >>> [g.num_edges // 2 for g in make_motifs("Tree-Grid", 2, seed=1).graphs]
        [63, 67]
    """
    _check(graphs, seed)
    about = MOTIFS[name]
    made = [_graph(about, seed, i, node_task=node_task) for i in range(graphs)]
    return Content(made, (), ("off motif", "on motif") if node_task else about.label_names)


def tree_cycles(graphs: int = 5000, nodes: int = 28, *, seed: int = 0, cycle_share: float = 0.3) -> GraphDataset:
    """Trees (class 0) against trees with one or two cycles hung on by single edges (class 1).

    Classes alternate. One cycle or two are equally likely, so a default graph has 27.75 undirected edges on
    average, as in the paper's table (27 for a tree, 28 or 29 with cycles).

    Args:
        graphs: Number of graphs.
        nodes: Number of nodes of every graph.
        seed: Seed; the global random state is not used.
        cycle_share: Share of the nodes that lie on cycles in class 1, rounded to whole nodes (at least 3).

    Returns:
        The dataset; ``x`` is a column of ones.

    Shapes:
        x ``(nodes, 1)``, edge_index ``(2, 2 * undirected edges)``, y ``(1,)``.

    Raises:
        InputError: When a number is out of range.

    Example:
        >>> data = tree_cycles(2)
        >>> [(int(g.y), g.num_nodes) for g in data]
        [(0, 28), (1, 28)]
    """
    _check(graphs, seed)
    if nodes < 4 or not 0 < cycle_share < 1:
        raise InputError(f"need at least 4 nodes and a cycle_share between 0 and 1, got {nodes=}, {cycle_share=}")
    size = min(max(3, round(cycle_share * nodes)), nodes - 1)
    about = MOTIFS["Tree-Cycles"]._replace(nodes=nodes, motif=partial(_cycles, size), size=size)
    made = [_graph(about, seed, i) for i in range(graphs)]
    for graph in made:
        graph.x = torch.ones(nodes, 1)
    return GraphDataset(
        name="Tree-Cycles",
        graphs=made,
        schema=FeatureSchema.fixed(1),
        num_classes=2,
        label_names=about.label_names,
        has_atoms=False,
        source="generated",
    )


def undirected(pairs: NDArray[np.int64]) -> torch.Tensor:
    """Both directions of every edge, sorted.

    Args:
        pairs: Each edge once.

    Returns:
        An edge index.

    Shapes:
        pairs ``(2, m)``, returns ``(2, 2 m)``.

    Example:
        >>> undirected(np.array([[2, 0], [1, 2]])).tolist()
        [[0, 1, 2, 2], [2, 2, 0, 1]]
    """
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    both = both[:, np.lexsort((both[1], both[0]))]
    return torch.from_numpy(np.ascontiguousarray(both))


def _check(graphs: int, seed: int) -> None:
    if graphs < 0 or seed < 0:
        raise InputError(f"graphs and seed must be 0 or more, got graphs={graphs}, seed={seed}")


def _random_tree(nodes: int, rng: np.random.Generator) -> Edges:
    """A uniformly random labelled tree, by its Prüfer sequence."""
    if nodes < 2:
        return []
    return list(nx.from_prufer_sequence(rng.integers(0, nodes, nodes - 2).tolist()).edges())


def _attachment_tree(nodes: int, rng: np.random.Generator) -> Edges:
    """A Barabási-Albert tree: each new node joins one node, with a chance in proportion to its degree."""
    return list(nx.barabasi_albert_graph(nodes, 1, seed=int(rng.integers(2**32))).edges())


def _cycles(nodes: int, rng: np.random.Generator) -> list[Edges]:
    """One cycle or two, of ``nodes`` nodes together."""
    sizes = [nodes]
    if nodes >= 6 and rng.random() < 0.5:
        first = int(rng.integers(3, nodes - 2))
        sizes = [first, nodes - first]
    return [[(k, (k + 1) % size) for k in range(size)] for size in sizes]


def _grid(rng: np.random.Generator) -> list[Edges]:
    """A 3 x 3 grid; the node that hangs it on is a random one, here by a random renumbering."""
    order = rng.permutation(9).tolist()
    rows = [(3 * r + c, 3 * r + c + 1) for r in range(3) for c in range(2)]
    columns = [(k, k + 3) for k in range(6)]
    return [[(order[i], order[j]) for i, j in rows + columns]]


def _house(rng: np.random.Generator) -> list[Edges]:
    """A square with a roof, five nodes; hung on by a random node."""
    order = rng.permutation(5).tolist()
    return [[(order[i], order[j]) for i, j in ((0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1))]]


def _hung_on(motifs: list[Edges], start: int, rng: np.random.Generator) -> Edges:
    """The motifs' edges under numbers from ``start`` on, and an edge from a random tree node to each motif's node 0."""
    anchors = rng.integers(0, start, len(motifs)).tolist()
    edges: Edges = []
    for motif, anchor in zip(motifs, anchors, strict=True):
        edges += [(start + i, start + j) for i, j in motif]
        edges.append((anchor, start))
        start += 1 + max(max(pair) for pair in motif)
    return edges


def _graph(about: _Motif, seed: int, i: int, *, node_task: bool = False) -> Data:
    """Graph ``i``, under shuffled node numbers."""
    rng = np.random.default_rng([seed, i])
    label = i % 2 or int(about.every > 0 and i % about.every == about.every // 2)
    motifs = about.motif(rng) if label else []
    start = about.nodes - (about.size if label else 0)
    edges = about.tree(start, rng)
    edges += _hung_on(motifs, start, rng)
    order = rng.permutation(about.nodes)
    y = torch.tensor([label])
    if node_task:
        y = torch.zeros(about.nodes, dtype=torch.long)
        y[torch.from_numpy(order[start:])] = 1
    pairs = order[np.asarray(edges, dtype=np.int64).T]
    return Data(edge_index=undirected(pairs), y=y, num_nodes=about.nodes)


# The table's averages of 65.01 (63 edges without a grid, 67 with) and 64.01 (63 without a house, 65 with) say that a
# little more than half of the graphs have the motif, so every so many graphs of the other half get one too.
MOTIFS: dict[str, _Motif] = {
    "Tree-Cycles": _Motif(28, _random_tree, partial(_cycles, 8), 8, 0, ("tree", "cycle")),
    "Tree-Grid": _Motif(64, _random_tree, _grid, 9, 400, ("tree", "grid")),
    "BAShapes": _Motif(64, _attachment_tree, _house, 5, 200, ("no house", "house")),
}

"""Synthetic datasets; graph ``i`` depends on the seed and on ``i`` alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from counteredge.datasets.dataset import GraphDataset
from counteredge.errors import InputError
from counteredge.schema import FeatureSchema

__all__ = ["tree_cycles"]


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
    if graphs < 0 or seed < 0:
        raise InputError(f"graphs and seed must be 0 or more, got graphs={graphs}, seed={seed}")
    if nodes < 4 or not 0 < cycle_share < 1:
        raise InputError(f"need at least 4 nodes and a cycle_share between 0 and 1, got {nodes=}, {cycle_share=}")
    on_cycles = min(max(3, round(cycle_share * nodes)), nodes - 1)
    made = []
    for i in range(graphs):
        rng = np.random.default_rng([seed, i])
        label = i % 2
        edges = _tree_with_cycles(nodes, on_cycles, rng) if label else _random_tree(nodes, rng)
        made.append(_to_data(edges, nodes, label, rng))
    return GraphDataset(
        name="Tree-Cycles",
        graphs=made,
        schema=FeatureSchema.fixed(1),
        num_classes=2,
        label_names=("tree", "cycle"),
        has_atoms=False,
        source="generated",
    )


def _random_tree(nodes: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """A uniformly random labelled tree, by its Prüfer sequence."""
    if nodes < 2:
        return []
    return list(nx.from_prufer_sequence(rng.integers(0, nodes, nodes - 2).tolist()).edges())


def _tree_with_cycles(nodes: int, on_cycles: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """A random tree with one or two cycles of ``on_cycles`` nodes together, each attached by one edge."""
    sizes = [on_cycles]
    if on_cycles >= 6 and rng.random() < 0.5:
        first = int(rng.integers(3, on_cycles - 2))
        sizes = [first, on_cycles - first]
    start = nodes - on_cycles
    edges = _random_tree(start, rng)
    anchors = rng.integers(0, start, len(sizes)).tolist()
    for size, anchor in zip(sizes, anchors, strict=True):
        edges += [(start + k, start + (k + 1) % size) for k in range(size)]
        edges.append((anchor, start))
        start += size
    return edges


def _to_data(edges: list[tuple[int, int]], nodes: int, label: int, rng: np.random.Generator) -> Data:
    """Both directions of every edge, sorted, under shuffled node numbers."""
    pairs = rng.permutation(nodes)[np.asarray(edges, dtype=np.int64).T]
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    both = both[:, np.lexsort((both[1], both[0]))]
    return Data(
        x=torch.ones(nodes, 1),
        edge_index=torch.from_numpy(np.ascontiguousarray(both)),
        y=torch.tensor([label]),
    )

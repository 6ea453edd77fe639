"""Centralities of graphs that differ by one edge from a common one, against a search in each graph alone."""

import networkx as nx
import pytest
import torch

import counteredge.shortest as shortest
from counteredge.shortest import by_shortest_paths

GRAPHS = {
    "path": nx.path_graph(9),
    "tree": nx.balanced_tree(2, 3),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4)),
    "odd cycle and tail": nx.lollipop_graph(3, 6),
    "two parts": nx.disjoint_union(nx.cycle_graph(6), nx.star_graph(4)),
    "no edges": nx.empty_graph(7),
    "complete": nx.complete_graph(8),
    **{f"random {s}": nx.gnp_random_graph(14, 0.08 + 0.05 * s, seed=s) for s in range(6)},
}


def flipped(g, pad=0):
    """The graph with each of its pairs flipped, and the pairs."""
    n = g.number_of_nodes()
    i, j = torch.triu_indices(n, n, 1)
    a = torch.zeros(len(i), n + pad, n + pad, dtype=torch.float64)
    a[:, :n, :n] = torch.from_numpy(nx.to_numpy_array(g))
    k = torch.arange(len(i))
    a[k, i, j] = 1 - a[k, i, j]
    a[k, j, i] = a[k, i, j]
    mask = torch.zeros(len(i), n + pad, dtype=torch.bool)
    mask[:, :n] = True
    return a, mask


def one_by_one(a, mask):
    return torch.cat([by_shortest_paths(b[None], m[None], True) for b, m in zip(a, mask, strict=True)])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("pad", [0, 3])
def test_graphs_with_one_edge_more_or_less_follow_from_the_common_one(name, pad):
    a, mask = flipped(GRAPHS[name], pad)
    found = by_shortest_paths(a, mask, True)
    torch.testing.assert_close(found, one_by_one(a, mask), rtol=1e-12, atol=1e-13)
    assert torch.equal(found.float(), one_by_one(a, mask).float())
    without = by_shortest_paths(a, mask, False)
    torch.testing.assert_close(without[..., :2], found[..., :2], rtol=1e-12, atol=1e-13)
    assert not without[..., 2].any()


def test_the_common_graph_is_used(monkeypatch):
    seen = []
    through = shortest._through
    monkeypatch.setattr(shortest, "_through", lambda a, paths: seen.append(len(a)) or through(a, paths))
    a, mask = flipped(GRAPHS["tree"])
    by_shortest_paths(a, mask, True)
    assert not seen  # all edges of a tree are bridges


@pytest.mark.parametrize("seed", range(3))
def test_mixed_graphs_as_each_alone(seed):
    """Runs of several graphs, of several sizes, with graphs of no run between them."""
    generator = torch.Generator().manual_seed(seed)
    parts = [flipped(GRAPHS[name], 16 - len(GRAPHS[name])) for name in ("tree", "grid", "random 3", "no edges")]
    a, mask = (torch.cat([p[k] for p in parts]) for k in (0, 1))
    keep = torch.rand(len(a), generator=generator) < 0.7
    a, mask = a[keep], mask[keep]
    torch.testing.assert_close(by_shortest_paths(a, mask, True), one_by_one(a, mask), rtol=1e-12, atol=1e-13)
    order = torch.randperm(len(a), generator=generator)
    mixed = by_shortest_paths(a[order], mask[order], True)
    torch.testing.assert_close(mixed, one_by_one(a, mask)[order], rtol=1e-12, atol=1e-13)


def test_many_paths_are_counted_exactly():
    """Beyond 2^24 paths single precision would not do: 2^32 through a chain of squares."""
    g = nx.Graph()
    for k in range(32):
        g.add_edges_from([(3 * k, 3 * k + 1), (3 * k, 3 * k + 2), (3 * k + 1, 3 * k + 3), (3 * k + 2, 3 * k + 3)])
    a = torch.from_numpy(nx.to_numpy_array(g, nodelist=sorted(g)))[None]
    mask = torch.ones(a.shape[:2], dtype=torch.bool)
    assert float(shortest._Paths.of(a, mask).number[0, 0, 96]) == 2.0**32
    found = by_shortest_paths(a, mask, True)[0, :, 2]
    expected = nx.betweenness_centrality(g)
    torch.testing.assert_close(found, torch.tensor([expected[v] for v in sorted(g)], dtype=torch.float64))

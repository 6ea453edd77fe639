"""Descriptors against networkx, their gradients, and what an edit makes of them."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from counteredge.descriptors import (
    DESCRIPTORS,
    StructuralFeatures,
    append_descriptors,
    compute,
    descriptor_columns,
    refresh,
    refreshed,
)
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import FeatureSchema

GRAPHS = {
    "one node": nx.empty_graph(1),
    "two nodes": nx.path_graph(2),
    "no edges": nx.empty_graph(4),
    "path": nx.path_graph(6),
    "cycle": nx.cycle_graph(5),
    "complete": nx.complete_graph(30),
    "star": nx.star_graph(12),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
    "two parts": nx.disjoint_union(nx.cycle_graph(4), nx.star_graph(3)),
    **{f"random {s}": nx.gnp_random_graph(5 + 3 * s, 0.1 + 0.05 * s, seed=s) for s in range(8)},
}


def as_data(g):
    edges = np.array([e for u, v in g.edges() for e in ((u, v), (v, u))], dtype=np.int64).reshape(-1, 2)
    return Data(edge_index=torch.from_numpy(edges.T.copy()), num_nodes=g.number_of_nodes())


def by_networkx(g, name):
    n = g.number_of_nodes()
    if name == "katz" and n == 1:
        return [1.0]  # where networkx fails
    largest = max([d for _, d in g.degree()] + [1])
    alpha = min(0.1, 0.9 / largest)
    values = {
        "degree": lambda: dict(g.degree()),
        "clustering": lambda: nx.clustering(g),
        "closeness": lambda: nx.closeness_centrality(g),
        "betweenness": lambda: nx.betweenness_centrality(g),
        "harmonic": lambda: nx.harmonic_centrality(g),
        "katz": lambda: nx.katz_centrality_numpy(g, alpha=alpha, beta=1.0, normalized=False),
    }[name]()
    return [values[i] for i in range(n)]


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_equals_networkx_alone_and_in_a_batch(name):
    graphs = list(GRAPHS.values())
    base = GraphBatch.from_graphs(
        [Data(x=torch.zeros(g.number_of_nodes(), 0), edge_index=as_data(g).edge_index) for g in graphs]
    )
    together = compute(base.adj, base.mask, [name])[..., 0]
    for k, g in enumerate(graphs):
        n = g.number_of_nodes()
        expected = torch.tensor(by_networkx(g, name), dtype=torch.float64)
        torch.testing.assert_close(together[k, :n], expected, rtol=1e-10, atol=1e-12)
        assert not together[k, n:].any()
        alone = compute(base.adj[k : k + 1, :n, :n], base.mask[k : k + 1, :n], [name])[0, :, 0]
        torch.testing.assert_close(alone, expected, rtol=1e-10, atol=1e-12)


def test_no_node_order_matters():
    g = nx.gnp_random_graph(12, 0.3, seed=3)
    order = np.random.default_rng(0).permutation(12)
    moved = nx.relabel_nodes(g, {i: int(order[i]) for i in range(12)})
    a, b = (append_descriptors([as_data(h)])[0].x for h in (g, moved))
    torch.testing.assert_close(a, b[order])


def test_loops_repeats_and_directions_do_not_count():
    plain = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    odd = Data(edge_index=torch.tensor([[0, 1, 1, 0], [1, 2, 2, 0]]), num_nodes=3)
    torch.testing.assert_close(append_descriptors([plain])[0].x, append_descriptors([odd])[0].x)


def test_one_hot_degree():
    star = as_data(nx.star_graph(3))
    x = append_descriptors([star], ["degree=1", "degree=3"])[0].x
    assert x.tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]


def test_unknown_name():
    with pytest.raises(InputError, match=r"unknown descriptor 'grade'.*degree"):
        append_descriptors([as_data(nx.path_graph(3))], ["grade"])


@pytest.mark.parametrize("name", ["degree", "clustering", "katz"])
def test_gradients_are_exact(name):
    g = nx.gnp_random_graph(6, 0.6, seed=1)
    adj = torch.from_numpy(nx.to_numpy_array(g))[None] * 0.7
    mask = torch.ones(1, 6, dtype=torch.bool)
    weights = torch.randn(1, 6, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    upper = torch.triu(torch.ones(6, 6), 1).bool()

    def total(entries):
        full = torch.zeros(6, 6, dtype=torch.float64).masked_scatter(upper, entries)
        return (compute((full + full.T)[None], mask, [name]) * weights).sum()

    entries = adj[0][upper].clone().requires_grad_()
    assert torch.autograd.gradcheck(total, entries)


def test_degree_onehot_slope_is_half_the_central_difference():
    adj = torch.from_numpy(nx.to_numpy_array(nx.path_graph(3)))[None].requires_grad_()
    columns = [f"degree={k}" for k in range(4)]
    x = compute(adj, torch.ones(1, 3, dtype=torch.bool), columns)
    (slope,) = torch.autograd.grad(x[0, 0] @ torch.tensor([1.0, 10, 100, 1000], dtype=torch.float64), adj)
    # node 0 has one neighbour: (value at degree 2 - value at degree 0) / 2, shared by the two directions of each pair
    assert float(slope[0, 0, 1] + slope[0, 1, 0]) == pytest.approx((100 - 1) / 2)


def test_gradients_reach_edges_that_are_not_there():
    adj = torch.zeros(1, 3, 3, dtype=torch.float64, requires_grad=True)
    x = compute(adj, torch.ones(1, 3, dtype=torch.bool), list(DESCRIPTORS))
    (slope,) = torch.autograd.grad(x.sum(), adj)
    assert bool(torch.isfinite(slope).all())
    assert float(slope[0, 0, 1] + slope[0, 1, 0]) > 0


def test_refresh_follows_an_edit_and_leaves_the_rest():
    graph = append_descriptors([Data(x=torch.rand(4, 2), edge_index=as_data(nx.path_graph(4)).edge_index)])[0]
    schema = FeatureSchema((*FeatureSchema.fixed(2).columns, *descriptor_columns()))
    assert torch.equal(refreshed([graph], schema)[0].x, graph.x)
    cut = graph.clone()
    cut.edge_index = graph.edge_index[:, 2:]
    new = refreshed([cut], schema)[0]
    assert torch.equal(new.x[:, :2], graph.x[:, :2])
    expected = append_descriptors([Data(x=graph.x[:, :2], edge_index=cut.edge_index)])[0].x
    assert torch.equal(new.x, expected)
    base = GraphBatch.from_graphs([cut])
    assert torch.equal(refresh(base.adj, base.mask, base.x, schema, torch.float32)[0].float(), expected)


def test_refresh_without_such_columns_does_nothing():
    graph = as_data(nx.path_graph(3))
    graph.x = torch.ones(3, 1)
    assert refreshed([graph], FeatureSchema.fixed(1))[0] is graph


def test_transform_leaves_its_input():
    graph = from_networkx(nx.cycle_graph(4))
    out = StructuralFeatures(["degree", "clustering"])(graph)
    assert out.x.tolist() == [[2.0, 0.0]] * 4
    assert graph.x is None
    assert out.edge_index is graph.edge_index


def test_graphs_without_nodes_pass():
    empty = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=0)
    out = append_descriptors([empty, as_data(nx.path_graph(2))], ["degree"])
    assert [tuple(g.x.shape) for g in out] == [(0, 1), (2, 1)]
    assert append_descriptors([], ["degree"]) == []

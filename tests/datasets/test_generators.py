import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import coalesce, is_undirected, to_networkx

from counteredge.datasets import load, tree_cycles
from counteredge.datasets.generators import MOTIFS, make_motifs
from counteredge.errors import InputError

HOUSE = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1)])


@pytest.fixture(scope="module")
def thousand():
    return tree_cycles(1000)


def test_trees_are_trees_and_cycles_have_cycles(thousand):
    for data in thousand:
        graph = to_networkx(data, to_undirected=True)
        assert len(graph) == 28
        assert nx.is_connected(graph)
        if int(data.y) == 0:
            assert nx.is_tree(graph)
        else:
            cycles = nx.cycle_basis(graph)
            assert len(cycles) in (1, 2)
            assert sum(map(len, cycles)) == 8 == len({v for c in cycles for v in c})


def test_statistics_of_the_paper(thousand):
    assert sum(int(g.y) for g in thousand) == 500
    edges = sum(g.num_edges for g in thousand) / 2 / len(thousand)
    assert abs(edges - 27.75) <= 0.05


@pytest.mark.parametrize(("name", "edges"), [("Tree-Cycles", 27.75), ("Tree-Grid", 65.01), ("BAShapes", 64.01)])
def test_averages_of_the_paper_to_the_last_digit(name, edges):
    graphs = make_motifs(name, 5000).graphs
    assert round(sum(g.num_edges for g in graphs) / 2 / 5000, 2) == edges
    assert {g.num_nodes for g in graphs} == {MOTIFS[name].nodes}
    assert 0.5 <= sum(int(g.y) for g in graphs) / 5000 <= 0.506


def test_tensors(thousand):
    for data in thousand.graphs[:20]:
        assert data.x.dtype == torch.float32
        assert torch.equal(data.x, torch.ones(28, 1))
        assert data.y.dtype == torch.long
        assert data.y.shape == (1,)
        assert is_undirected(data.edge_index)
        assert torch.equal(data.edge_index, coalesce(data.edge_index))
        assert not data.has_self_loops()


@pytest.mark.parametrize(("name", "motif"), [("Tree-Grid", nx.grid_2d_graph(3, 3)), ("BAShapes", HOUSE)])
def test_grids_and_houses_hang_on_by_one_edge(name, motif):
    classes = make_motifs(name, 60).graphs
    for data, nodes in zip(classes, make_motifs(name, 60, node_task=True).graphs, strict=True):
        graph = to_networkx(data, to_undirected=True)
        assert torch.equal(data.edge_index, nodes.edge_index)
        assert torch.equal(data.edge_index, coalesce(data.edge_index))
        assert (len(graph), nx.is_connected(graph)) == (64, True)
        on = nodes.y.nonzero().flatten().tolist()
        if int(data.y) == 0:
            assert nx.is_tree(graph)
            assert not on
        else:
            assert nx.is_isomorphic(graph.subgraph(on), motif)
            rest = graph.subgraph(set(graph) - set(on))
            assert nx.is_tree(rest)
            assert graph.number_of_edges() == motif.number_of_edges() + rest.number_of_edges() + 1


def test_the_motif_hangs_on_by_any_of_its_nodes():
    degrees = set()
    for data in make_motifs("BAShapes", 200, node_task=True).graphs:
        on = data.y.nonzero().flatten().tolist()
        graph = to_networkx(data, to_undirected=True)
        degrees |= {(graph.subgraph(on).degree(v), graph.degree(v)) for v in on if graph.degree(v) > 2}
    assert degrees == {(2, 3), (3, 3), (3, 4)}


def test_attachment_trees_have_hubs():
    def largest(name):
        return np.mean([np.bincount(g.edge_index[0]).max() for g in make_motifs(name, 100).graphs[::2]])

    assert largest("BAShapes") > 1.8 * largest("Tree-Grid")


def test_node_numbers_give_nothing_away(thousand):
    # every node number is on a cycle about equally often
    on = np.zeros(28)
    for data in thousand.graphs[1::2]:
        for cycle in nx.cycle_basis(to_networkx(data, to_undirected=True)):
            on[cycle] += 1
    assert abs(on / 500 - 8 / 28).max() < 0.1


@pytest.mark.parametrize("name", MOTIFS)
def test_a_graph_depends_on_seed_and_number_alone(name):
    few, many = load(name, limit=3), load(name, limit=7)
    assert [len(few), len(many)] == [3, 7]
    for a, b in zip(few.graphs, many.graphs, strict=False):
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.x, b.x)
    other = load(name, seed=1, limit=3)
    assert not all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(few.graphs, other.graphs, strict=True))


def test_the_registered_set_has_the_same_graphs(thousand):
    for ours, theirs in zip(load("TCR", limit=9), thousand, strict=False):
        assert torch.equal(ours.edge_index, theirs.edge_index)


@pytest.mark.parametrize("name", MOTIFS)
def test_global_random_state_is_untouched(name):
    before, before_torch = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    make_motifs(name, 3)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before_torch)


@pytest.mark.parametrize(("nodes", "share"), [(4, 0.3), (4, 0.99), (5, 0.5), (12, 0.9), (40, 0.2)])
def test_any_size(nodes, share):
    for data in tree_cycles(6, nodes, cycle_share=share):
        graph = to_networkx(data, to_undirected=True)
        assert len(graph) == nodes
        assert nx.is_connected(graph)
        assert nx.is_tree(graph) == (int(data.y) == 0)


@pytest.mark.parametrize("bad", [{"nodes": 3}, {"graphs": -1}, {"seed": -1}, {"cycle_share": 0.0}])
def test_bad_options(bad):
    with pytest.raises(InputError, match="got"):
        tree_cycles(**{"graphs": 1, **bad})

"""Faults that users of this field report about shapes of graphs (rows 3c of docs/field_faults.md)."""

import time

import pytest
import torch
from field_models import Edges, Net, arcs, near, pairs, s6, solve
from torch_geometric.data import Data

import counteredge as ce
from counteredge.edits import EditSet

# -- shapes of graphs ------------------------------------------------------------------------------------------------


def test_dig_112_self_loops_are_never_edited():
    """Attributes stay with their edges although layers append self-loops of their own."""
    g = s6()
    g.edge_index = torch.cat([arcs((2, 2)), g.edge_index, arcs((5, 5))], 1)
    g.edge_weight = torch.arange(1.0, 13.0)
    cf = solve(near(Net("gat"), g), g, edits="edges")
    assert all(i < j for i, j in (*cf.edits.added, *cf.edits.removed))
    weights = dict(zip(zip(*g.edge_index.tolist(), strict=True), g.edge_weight.tolist(), strict=True))
    for edge, weight in zip(zip(*cf.data.edge_index.tolist(), strict=True), cf.data.edge_weight.tolist(), strict=True):
        assert weight == weights.get(edge, 1.0)


@pytest.mark.parametrize("preset", ["minimal", "paper"])
@pytest.mark.parametrize("conv", ["gcn", "gat", "gin"])
def test_larsholdijk_4_the_users_self_loops_come_back(conv, preset):
    g = s6()
    g.edge_index = torch.cat([arcs((2, 2)), g.edge_index, arcs((5, 5))], 1)
    given = g.edge_index.clone()
    models = [near(Net(conv), g, to=to) for to in (0.02, -0.02)]
    found = [ce.XPlore(preset).explain(model, g, edits="edges", progress=False) for model in models]
    assert any(cf.found for cf in found)
    for cf in found:
        assert cf.original.edge_index is g.edge_index
        if cf.found:
            src, dst = cf.data.edge_index
            assert src[src == dst].tolist() == [2, 5]
    assert torch.equal(g.edge_index, given)


@pytest.mark.parametrize("least", [12, 10], ids=["insert", "remove"])
def test_dig_144_both_directions_of_an_undirected_edge_change_together(least):
    g = s6()
    cf = solve(Edges(least=least), g)
    changed = set(zip(*g.edge_index.tolist(), strict=True)) ^ set(zip(*cf.data.edge_index.tolist(), strict=True))
    (pair,) = (*cf.edits.added, *cf.edits.removed)
    assert changed == {pair, pair[::-1]}


@pytest.mark.parametrize(("least", "arcs_after"), [(12, 12), (10, 8)], ids=["insert", "remove"])
def test_pyg_2092_an_undirected_edit_counts_once(least, arcs_after):
    g = s6()
    cf = solve(Edges(least=least), g)
    assert len(cf.edits) == cf.edits.edge_count == 1
    assert cf.data.edge_index.shape[1] == arcs_after
    assert cf.edit_ratio == pytest.approx(1 / (6 + 5))


def test_chandlerbang_pro_gnn_14_a_directed_cycle_is_edited_by_single_arcs():
    g = Data(x=s6().x[:4], edge_index=arcs((0, 1), (1, 2), (2, 3), (3, 0)))
    cf = solve(Edges(least=5), g, edits="edges")
    assert cf.edits.directed
    assert len(cf.edits) == 1
    assert cf.data.edge_index.shape[1] == 5
    cf = solve(near(Net(), g), g, edits="edges")
    before = set(zip(*g.edge_index.tolist(), strict=True))
    after = set(zip(*cf.data.edge_index.tolist(), strict=True))
    assert after - before == set(cf.edits.added)
    assert before - after == set(cf.edits.removed)


def test_chandlerbang_pro_gnn_14_uneven_duplicates_do_not_make_a_graph_directed():
    g = s6()
    g.edge_index = torch.cat([g.edge_index, arcs((0, 1))], 1)  # 0 -> 1 twice, 1 -> 0 once: PyG says directed
    cf = ce.XPlore().explain(near(Net(), g), g, edits="edges", progress=False)
    assert cf.found
    assert not cf.edits.directed


@pytest.mark.parametrize("loops", [0, 2], ids=["cycle", "with loops"])
def test_pyg_3265_as_many_arcs_as_nodes(loops):
    n = 6
    g = Data(x=s6().x, edge_index=pairs((0, 1), (2, 3), (4, 5)), z=torch.arange(n))
    if loops:
        g.edge_index = torch.cat([pairs((0, 1), (2, 3)), arcs((4, 4), (5, 5))], 1)
    assert g.edge_index.shape[1] == n
    cf = solve(near(Net(), g), g)
    assert torch.equal(cf.data.z, g.z)


def test_pyg_3265_graph_with_one_edge():
    g = Data(x=s6().x[:2], edge_index=pairs((0, 1)), y=torch.tensor([1]), edge_weight=torch.tensor([0.5, 0.5]))
    cf = solve(Edges(least=2), g)
    assert cf.edits.removed == ((0, 1),)
    assert cf.data.edge_weight.shape == (0,)
    assert cf.data.y.tolist() == [1]


def test_orphicx_2_no_graph_is_skipped_silently():
    """Nothing is padded to a fixed size: one graph of 200 nodes among small ones is answered like them."""
    large = Data(x=torch.ones(200, 4), edge_index=pairs(*((i, i + 1) for i in range(199))))
    graphs = [s6(), large, s6()]
    answers = ce.XPlore(restarts=0).explain(Edges(least=400), graphs, edits="edges", budget=ce.Budget(calls=200))
    assert [cf.index for cf in answers] == [0, 1, 2]
    assert [cf.found for cf in answers] == [False, True, False]
    assert all(cf.reason for cf in answers if not cf.found)


def test_networkx_3673_distances_need_no_search():
    """Nodes keep their numbers, so the distance is a count: no time on graphs where exact GED does not end."""
    n = 60
    g = Data(x=torch.ones(n, 4), edge_index=pairs(*((i, j) for i in range(n) for j in range(i) if (i * j) % 3 == 1)))
    cf = solve(Edges(least=g.edge_index.shape[1]), g, edits="edges")
    begun = time.monotonic()
    after = Data(x=cf.data.x, edge_index=torch.cat([cf.data.edge_index, pairs((0, 1), (0, 2), (0, 3))], 1))
    assert len(EditSet.between(g, cf.data)) == len(cf.edits.removed) == 1
    assert EditSet.between(g, after).edge_count == 4  # node 0 had no edge
    assert time.monotonic() - begun < 1

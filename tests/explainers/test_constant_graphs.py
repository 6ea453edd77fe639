"""The two controls."""

import pytest
import torch

import counteredge as ce
from counteredge.explainers.constant_graphs import CompleteGraph, EmptyGraph
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema())


class TestEmpty(ExplainerContract):
    equivariant = True

    def make(self, **options):
        return EmptyGraph(**options)


class TestComplete(ExplainerContract):
    equivariant = True
    least_found = 0.0  # no complete graph is called otherwise there

    def make(self, **options):
        return CompleteGraph(**options)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", [EmptyGraph, CompleteGraph])
def test_found_exactly_where_the_constant_graph_flips(kind, directed):
    model, graphs = sample_model(), sample_graphs(20, seed=2, directed=directed)
    cfs = kind().explain(model, graphs, edits=SPACE, progress=False)
    assert 0 < sum(cf.found for cf in cfs) < 20
    for g, cf in zip(graphs, cfs, strict=True):
        n = len(g.x)
        loops = g.edge_index[:, g.edge_index[0] == g.edge_index[1]]
        every = (~torch.eye(n, dtype=torch.bool)).nonzero().t()
        index = torch.cat([loops, every[:, :0] if kind is EmptyGraph else every], 1)
        with torch.no_grad():
            zero = torch.zeros(n, dtype=torch.long)
            old, new = (int(model(g.x, e, batch=zero).argmax()) for e in (g.edge_index, index))
        assert cf.found == (old != new)
        assert (cf.calls.forward, cf.calls.backward) == (2, 0)
        if cf.found:
            assert {tuple(e) for e in cf.data.edge_index.t().tolist()} == {tuple(e) for e in index.t().tolist()}
            assert torch.equal(cf.data.x, g.x)
            assert cf.calls.to_first_valid == 2
            assert cf.stage == kind.name
        else:
            assert kind.name.replace("_", " ") in cf.reason


def test_what_may_not_change_stays():
    space = ce.EditSpace(schema=sample_schema(), frozen_nodes=[0])
    for kind in (EmptyGraph, CompleteGraph):
        for cf in kind().explain(sample_model(), sample_graphs(20, seed=2), edits=space, progress=False):
            assert all(0 not in pair for pair in (*cf.edits.added, *cf.edits.removed))
    only = ce.EditSpace(schema=sample_schema(), remove_edges=False)
    for cf in EmptyGraph().explain(sample_model(), sample_graphs(), edits=only, progress=False):
        assert (cf.found, cf.calls.forward) == (False, 1)  # there is nothing to ask about
        assert "refused" in cf.reason


def test_limits_on_whole_graphs_hold():
    space = ce.EditSpace(schema=sample_schema(), keep_connected=True)
    graphs = sample_graphs(20, seed=2)
    assert not any(cf.found for cf in EmptyGraph().explain(sample_model(), graphs, edits=space, progress=False))


def test_shrunk_on_request():
    cfs = EmptyGraph(postprocess="shrink").explain(sample_model(), sample_graphs(20, seed=2), progress=False)
    assert any(cf.found for cf in cfs)
    assert all(cf.minimal for cf in cfs if cf.found)

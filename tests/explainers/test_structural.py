"""Columns that follow from the edges: refreshed by default, frozen as in the paper, and judged both ways."""

import json

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import from_networkx, scatter

import counteredge as ce
from counteredge.descriptors import DESCRIPTORS, append_descriptors, descriptor_columns
from counteredge.errors import InputError
from counteredge.models import GraphClassifier
from counteredge.results import Counterfactual
from counteredge.schema import Column, FeatureSchema

FLAG = Column("binary", name="flag")
SCHEMA = FeatureSchema((FLAG, *descriptor_columns()))


def graphs(count=6):
    made = []
    for k in range(count):
        g = nx.gnp_random_graph(6 + k, 0.35, seed=k)
        flags = torch.tensor([float((i + k) % 2) for i in range(6 + k)])
        made.append(Data(x=flags[:, None], edge_index=from_networkx(g).edge_index))
    return append_descriptors(made)


def model(conv="gcn", seed=1):
    generator = torch.Generator().manual_seed(seed)
    net = GraphClassifier(SCHEMA.width, 2, conv=conv, layers=2, hidden=8)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.5)
        # in the middle of what it says about these graphs, so that both classes occur
        z = torch.cat([net(g.x, g.edge_index) for g in graphs()])
        net.dense[-1].bias[1] += (z[:, 0] - z[:, 1]).median() + 0.01
    return net.eval()


def label(net, g):
    with torch.no_grad():
        return int(net(g.x, g.edge_index).argmax())


def recomputed(cf):
    """The edited graph with the columns that its edges give, built from the edits alone."""
    plain = cf.edits.apply(cf.original)
    return append_descriptors([Data(x=plain.x[:, :1], edge_index=plain.edge_index)])[0]


@pytest.mark.parametrize("conv", ["gcn", "gin"])
@pytest.mark.parametrize("edits", ["edges", "both"])
def test_by_default_the_columns_follow_the_edited_edges(conv, edits):
    net = model(conv)
    space = ce.EditSpace(schema=SCHEMA, features=edits == "both")
    cfs = ce.XPlore().explain(net, graphs(), edits=space)
    assert sum(cf.found for cf in cfs) >= 5
    for cf in (c for c in cfs if c.found):
        assert cf.structural == "refreshed"
        assert torch.equal(cf.data.x, recomputed(cf).x)
        assert label(net, cf.data) != label(net, cf.original)
        assert all(e.columns == (0,) for e in cf.edits.features)
        assert cf.valid_refreshed
        assert cf.valid_frozen == (label(net, cf.edits.apply(cf.original)) != label(net, cf.original))


def test_frozen_columns_keep_their_values_and_are_judged_refreshed_too():
    net = model()
    space = ce.EditSpace(schema=SCHEMA, features=False, structural="frozen")
    cfs = ce.XPlore().explain(net, graphs(), edits=space)
    assert any(cf.found for cf in cfs)
    for cf in (c for c in cfs if c.found):
        assert cf.structural == "frozen"
        assert torch.equal(cf.data.x, cf.original.x)
        assert cf.valid_frozen
        assert cf.valid_refreshed == (label(net, recomputed(cf)) != label(net, cf.original))


def test_the_two_ways_of_judging_differ_somewhere():
    net = model()
    frozen = ce.XPlore().explain(net, graphs(), edits=ce.EditSpace(schema=SCHEMA, features=False, structural="frozen"))
    assert not all(cf.valid_refreshed for cf in frozen if cf.found)


def test_paper_preset_freezes_and_edits_them_as_plain_numbers():
    net = model()
    space = ce.EditSpace(schema=SCHEMA.as_numbers())
    cfs = ce.XPlore("paper", features="freedom").explain(net, graphs(), edits=space)
    found = [cf for cf in cfs if cf.found]
    assert found
    assert {cf.structural for cf in found} == {"frozen"}
    assert any(e.columns[0] > 0 for cf in found for e in cf.edits.features)
    for cf in found:
        assert cf.valid_refreshed == (label(net, recomputed(cf)) != label(net, cf.original))


def test_paper_preset_can_be_asked_to_refresh():
    space = ce.EditSpace(schema=SCHEMA.as_numbers(), structural="refreshed")
    cfs = ce.XPlore("paper", features="freedom").explain(model(), graphs(), edits=space)
    for cf in (c for c in cfs if c.found):
        assert all(e.columns == (0,) for e in cf.edits.features)
        assert torch.equal(cf.data.x[:, 1:], recomputed(cf).x[:, 1:])


class Dense(nn.Module):
    """Knows nothing of edges but what the degree column says."""

    def forward(self, x, edge_index, batch):
        degree = global_mean_pool(x[:, 1:2], batch)
        return torch.cat([2.0 - degree, degree - 2.0], 1)


def test_a_model_that_sees_edges_only_through_a_column_is_answered_by_edges():
    graph = append_descriptors([Data(x=torch.zeros(6, 1), edge_index=from_networkx(nx.path_graph(6)).edge_index)])[0]
    cf = ce.XPlore().explain(Dense(), graph, edits=ce.EditSpace(schema=SCHEMA, features=False))
    # ten arcs on six nodes: two more edges lift the mean degree above 2
    assert cf.found
    assert (len(cf.edits.added), len(cf.edits.removed)) == (2, 0)
    frozen = ce.EditSpace(schema=SCHEMA, features=False, structural="frozen")
    assert not ce.XPlore().explain(Dense(), graph, edits=frozen).found


def test_one_hot_degrees_follow_too():
    columns = [f"degree={k}" for k in range(4)]
    schema = FeatureSchema(descriptor_columns(columns))
    graph = append_descriptors([from_networkx(nx.path_graph(4))], columns)[0]

    class CountsTwos(nn.Module):
        def forward(self, x, edge_index, batch):
            twos = scatter(x[:, 2], batch, reduce="sum")
            return torch.stack([twos - 1.5, 1.5 - twos], 1)

    cf = ce.XPlore().explain(CountsTwos(), graph, edits=ce.EditSpace(schema=schema))
    assert cf.found
    assert len(cf.edits) == 1
    assert cf.data.x.sum(1).tolist() == [1.0] * 4


def test_alone_and_in_a_batch_the_same():
    net, every = model(), graphs()
    space = ce.EditSpace(schema=SCHEMA)
    together = ce.XPlore().explain(net, every, edits=space)
    for cf, g in zip(together, every, strict=True):
        alone = ce.XPlore().explain(net, g, edits=space)
        alone.index = cf.index
        assert alone.to_dict(timings=False) == cf.to_dict(timings=False)


def test_json_round_trip_and_the_first_version():
    net = model()
    cf = next(
        c for c in ce.XPlore().explain(net, graphs(), edits=ce.EditSpace(schema=SCHEMA, features=False)) if c.found
    )
    back = Counterfactual.from_json(cf.to_json())
    assert back == cf
    assert torch.equal(back.data.x, cf.data.x)
    old = json.loads(cf.to_json())
    for key in ("structural", "valid_refreshed", "valid_frozen"):
        del old[key]
    old["version"] = 1
    read = Counterfactual.from_dict(old)
    assert read.structural is None
    assert read.valid_refreshed is True
    assert torch.equal(read.data.x, cf.original.x)


def test_a_column_that_is_not_what_it_says_is_refused():
    wrong = graphs()
    wrong[2].x[3, 1] += 1
    with pytest.raises(InputError, match=r"graph 2: column 1 is said to be 'degree', but at node 3 it is \d+ where"):
        ce.XPlore().explain(model(), wrong, edits=ce.EditSpace(schema=SCHEMA))


def test_unknown_treatment_is_refused():
    with pytest.raises(InputError, match="structural='fixed' is unknown"):
        ce.EditSpace(structural="fixed")


def test_a_structural_column_needs_its_descriptor():
    with pytest.raises(InputError, match="name of its descriptor"):
        Column("structural")
    assert SCHEMA.derived == tuple(range(1, 1 + len(DESCRIPTORS)))
    assert FeatureSchema.from_dict(SCHEMA.as_numbers().to_dict()) == SCHEMA.as_numbers()

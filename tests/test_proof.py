"""Certificates, the part of each edit, and robustness, against the model itself."""

from itertools import combinations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge.descriptors import append_descriptors, descriptor_columns
from counteredge.schema import FeatureSchema
from counteredge.testing import sample_graphs, sample_model, sample_schema


class Edges(nn.Module):
    """Says 1 from ``least`` undirected edges on; the margin is the number of edges that are missing."""

    def __init__(self, least=5.0):
        super().__init__()
        self.least = least

    def forward(self, x, edge_index, batch):
        count = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).to(x.dtype) / 2
        return torch.stack([torch.full_like(count, self.least - 0.5), count], 1)


def path(n=5):
    arcs = [p for i in range(n - 1) for p in ((i, i + 1), (i + 1, i))]
    return Data(x=torch.ones(n, 1), edge_index=torch.tensor(arcs).t())


def explain(least, **options):
    return ce.XPlore(**options).explain(Edges(least), path(), edits="edges")


@pytest.mark.parametrize(("least", "bound"), [(5, 1), (6, 2), (7, 3)])
def test_certify_says_how_many_flips_are_needed(least, bound):
    cf = explain(float(least))
    assert len(cf.edits) == least - 4
    assert ce.certify(Edges(float(least)), cf) == bound
    assert cf.certified_lower_bound == bound
    assert ce.certify(Edges(float(least)), cf, edges=1) == min(bound, 2)


def test_certify_agrees_with_enumeration_by_hand():
    model, graphs = sample_model(), sample_graphs(6)
    for cf in ce.XPlore().explain(model, graphs, edits=ce.EditSpace(schema=sample_schema(), features=False)):
        n = cf.original.num_nodes
        with torch.no_grad():
            y0 = int(model(cf.original.x, cf.original.edge_index).argmax())
            present = {tuple(e) for e in cf.original.edge_index.t().tolist()}

            def flips(pairs, cf=cf, y0=y0, present=present):
                more = tuple(p for p in pairs if p not in present)
                less = tuple(p for p in pairs if p in present)
                after = ce.EditSet(more, less).apply(cf.original)
                return int(model(after.x, after.edge_index).argmax()) != y0

            every = list(combinations(range(n), 2))
            expected = 1 if any(flips([p]) for p in every) else 2
            if expected == 2 and not any(flips(two) for two in combinations(every, 2)):
                expected = 3
        assert ce.certify(model, cf) == expected


def test_certify_follows_derived_columns():
    class Degrees(nn.Module):
        def forward(self, x, edge_index, batch):
            total = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add(0, batch, x[:, 0])
            return torch.stack([torch.full_like(total, 11.0), total], 1)

    graph = append_descriptors([Data(edge_index=path().edge_index, num_nodes=5)], ["degree"])[0]
    schema = FeatureSchema(descriptor_columns(["degree"]))
    cf = ce.XPlore().explain(Degrees(), graph, edits=ce.EditSpace(schema=schema))
    assert len(cf.edits) == 2
    assert ce.certify(Degrees(), cf) == 2


def test_certify_refuses_what_would_take_for_ever():
    cf = explain(5.0)
    with pytest.raises(ce.InputError, match="edges=3: enumeration is offered for 1 or 2"):
        ce.certify(Edges(), cf, edges=3)
    cf.original = path(41)
    with pytest.raises(ce.InputError, match="the graph has 41 nodes; 2 flips are enumerated up to 40"):
        ce.certify(Edges(), cf)


def test_importance_is_what_an_edit_adds_to_the_margin():
    model = Edges(6.0)
    cf = explain(6.0)
    assert ce.importance(model, cf) == pytest.approx([1.0, 1.0])
    model, graphs = sample_model(), sample_graphs(8)
    for cf in ce.XPlore().explain(model, graphs, edits=ce.EditSpace(schema=sample_schema(), features=False)):
        if not cf.found:
            continue
        parts = ce.importance(model, cf)
        assert len(parts) == len(cf.edits)
        with torch.no_grad():
            z = model(cf.data.x, cf.data.edge_index)[0]
        y0 = cf.before.label
        margin = float(z[y0] - max(z[c] for c in range(3) if c != y0))
        assert all(p > -margin for p in parts), "each edit of a one-minimal answer is needed"


def test_robustness():
    cf = explain(5.0)  # five edges suffice: of the nine other pairs four are edges, and losing one undoes the flip
    share = ce.robustness(Edges(5.0), cf, samples=2000)
    assert share == pytest.approx(5 / 9, abs=0.04)
    assert ce.robustness(Edges(5.0), cf, samples=50) == ce.robustness(Edges(5.0), cf, samples=50)
    assert ce.robustness(Edges(5.0), cf, samples=50) != ce.robustness(Edges(5.0), cf, samples=50, seed=1)
    with pytest.raises(ce.InputError, match="only 9 pairs are left alone, 10"):
        ce.robustness(Edges(5.0), cf, 10)
    with pytest.raises(ce.InputError, match="at least 1"):
        ce.robustness(Edges(5.0), cf, 0)


def test_nothing_found_has_no_parts():
    cf = ce.XPlore(depth=2, restarts=0).explain(Edges(99.0), path(), edits="edges")
    for ask in (ce.importance, ce.robustness):
        with pytest.raises(ce.InputError, match="there is no counterfactual to look at: proved"):
            ask(Edges(99.0), cf)


def test_edits_of_nodes_and_attributes_are_held_against_the_model():
    g = path(4)
    g.edge_attr = torch.ones(6, 1)
    model = Edges(4.0)
    edits = ce.EditSet(
        ((3, 4), (0, 4)),
        ((0, 1),),
        values=(("edge_attr", ((2.0,), (3.0,))),),
        new_nodes=((1.0,),),
        attributes=(ce.AttributeEdit((2, 3), "edge_attr", (1.0,), (5.0,)),),
        nodes=4,
    )
    (cf,) = ce.XPlore().explain(model, [g], edits="edges")
    cf.edits, cf.data, cf.found = edits, edits.apply(g), True
    # 4 edges are needed: without one of the new ones it is 3, without the removal 5, without the node 2
    assert ce.importance(model, cf) == pytest.approx([1, 1, -1, 2, 0])
    assert 0 < ce.robustness(model, cf, samples=40) < 1
    cf.edits = ce.EditSet(removed=((0, 1),), removed_nodes=(0,))
    cf.data = cf.edits.apply(g)
    assert 0 <= ce.robustness(model, cf, 3, samples=5) <= 1
    with pytest.raises(ce.InputError, match="only 3 pairs are left alone"):  # none with the node that is gone
        ce.robustness(model, cf, 4)

"""Constraints of an edit space hold in every answer: pairs, directions, steps, degrees, connection, kinds of edits."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

import counteredge as ce
from counteredge.engine.search import Budget
from counteredge.graphs import GraphBatch
from counteredge.space import EditSpace
from counteredge.testing import sample_graphs, sample_model, sample_schema

FLAG, COUNT, LEVEL = 3, 4, 5


def explain(count=6, budget=None, preset="minimal", seed=2, **limits):
    graphs = sample_graphs(count)
    explainer = ce.XPlore("paper", features="freedom", alpha=0.5) if preset == "paper" else ce.XPlore(depth=6)
    space = EditSpace(**{"schema": sample_schema(), **limits})
    return explainer.explain(sample_model(seed=seed), graphs, edits=space, budget=budget)


def found(cfs):
    some = [cf for cf in cfs if cf.found]
    assert some, "a limit that leaves nothing to look at tests nothing"
    return some


def undirected(data):
    g = to_networkx(data, to_undirected=True)
    g.remove_edges_from(nx.selfloop_edges(g))
    return g


def test_allowed_pairs():
    only = [(0, 1), (2, 0), (1, 3), (0, 3), (2, 3)]
    listed = explain(features=False, allowed_pairs=only)
    for cf in found(listed):
        assert {frozenset(p) for p in (*cf.edits.added, *cf.edits.removed)} <= {frozenset(p) for p in only}
    asked = explain(features=False, allowed_pairs=lambda g: np.array(only))
    assert [cf.edits for cf in asked] == [cf.edits for cf in listed]
    none = explain(features=False, allowed_pairs=[])
    assert {cf.reason for cf in none} == {"the edit space allows no change on this graph"}


@pytest.mark.parametrize("preset", ["minimal", "paper"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_directions(preset, way):
    columns = (FLAG, COUNT, LEVEL)
    cfs = explain(preset=preset, frozen_features=[0, 1, 2], direction=dict.fromkeys(columns, way))
    changes = [cf.data.x - cf.original.x for cf in found(cfs)]
    for change in changes:
        assert bool((change >= 0 if way == "up" else change <= 0).all())
    assert preset == "paper" or any(bool(c.any()) for c in changes)


def test_steps():
    columns = list(sample_schema().columns)
    columns[LEVEL] = ce.Column("continuous", lo=-2, hi=1.8, name="level", step=0.75)
    columns[COUNT] = ce.Column("integer", lo=0, hi=5, name="count", step=2)
    schema = ce.FeatureSchema(tuple(columns))
    cfs = explain(12, schema=schema, add_edges=False, remove_edges=False, frozen_features=[0, 1, 2, FLAG])
    seen = 0
    for cf in found(cfs):
        for e in cf.edits.features:
            ((column, value),) = zip(e.columns, e.new, strict=True)
            steps = (value + 2) / 0.75 if column == LEVEL else value / 2
            assert steps == pytest.approx(round(steps), abs=1e-5)
            assert -2 <= value <= 5
            seen += 1
    assert seen
    assert ce.FeatureSchema.from_dict(schema.to_dict()) == schema


def test_keep_connected():
    free, kept = (explain(12, features=False, keep_connected=keep) for keep in (False, True))
    parts = lambda g: nx.number_connected_components(undirected(g))  # noqa: E731
    assert any(parts(cf.data) > parts(cf.original) for cf in free if cf.found)
    for cf in found(kept):
        assert parts(cf.data) <= parts(cf.original)


def test_max_degree():
    most = 3
    free, kept = (explain(12, features=False, max_degree=m) for m in (None, most))
    degrees = lambda g: np.array([d for _, d in sorted(undirected(g).degree())])  # noqa: E731
    breaks = lambda cf: bool(  # noqa: E731
        ((degrees(cf.data) > most) & (degrees(cf.data) > degrees(cf.original))).any()
    )
    assert any(breaks(cf) for cf in free if cf.found)
    assert not any(breaks(cf) for cf in found(kept))


@pytest.mark.parametrize(("limit", "count"), [("edges", "edge_count"), ("features", "feature_count")])
def test_budgets_by_kind(limit, count):
    cost = {"feature_cost": 9.0} if limit == "edges" else {"add_cost": 9.0, "remove_cost": 9.0}
    free = explain(12, seed=5, **cost)
    assert any(getattr(cf.edits, count) > 1 for cf in free if cf.found)
    for cf in found(explain(12, Budget(**{limit: 1}), seed=5, **cost)):
        assert getattr(cf.edits, count) <= 1


@pytest.mark.parametrize("preset", ["minimal", "paper"])
def test_limits_hold_in_every_preset(preset):
    for cf in explain(preset=preset, keep_connected=True, max_degree=2, budget=Budget(edges=2)):
        if not cf.found:
            continue
        assert cf.edits.edge_count <= 2
        before, after = undirected(cf.original), undirected(cf.data)
        assert nx.number_connected_components(after) <= nx.number_connected_components(before)
        assert all(d <= max(2, before.degree(v)) for v, d in after.degree())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 4))
def test_what_is_legal_equals_networkx(seed, most):
    rng = np.random.default_rng(seed)
    graphs, after = [], []
    for n in (1, 4, 7):
        pair = [np.triu(rng.random((n, n)) < 0.4, 1) for _ in range(2)]
        graphs.append(Data(x=torch.zeros(n, 1), edge_index=torch.from_numpy(np.argwhere(pair[0] | pair[0].T).T.copy())))
        after.append(pair[1] | pair[1].T)
    base = GraphBatch.from_graphs(graphs)
    adj = torch.zeros_like(base.adj)
    for k, a in enumerate(after):
        adj[k, : len(a), : len(a)] = torch.from_numpy(a).double()
    rows = torch.arange(3)
    schema = ce.FeatureSchema.fixed(1)
    legal = [
        EditSpace(**options).allowed(base, schema).legal(base, rows, adj).tolist()
        for options in ({"keep_connected": True}, {"max_degree": most}, {})
    ]
    old = [undirected(g) for g in graphs]
    new = [nx.from_numpy_array(a) for a in after]
    count = nx.number_connected_components
    assert legal[0] == [count(b) <= count(a) for a, b in zip(old, new, strict=True)]
    assert legal[1] == [all(d <= max(most, a.degree(v)) for v, d in b.degree()) for a, b in zip(old, new, strict=True)]
    assert legal[2] == [True] * 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_degree": -1}, "max_degree=-1 must be a whole number"),
        ({"max_degree": 2.5}, r"max_degree=2\.5 must be a whole number"),
        ({"direction": {4: "left"}}, "must be like"),
        ({"direction": "up"}, "must be like"),
        ({"direction": {9: "up"}}, r"direction names column 9 but x has columns 0\.\.5"),
        ({"direction": {0: "up"}}, "column 0 belongs to a one-hot group"),
        ({"allowed_pairs": [(0, 99)]}, "allowed_pairs name nodes outside"),
        ({"allowed_pairs": 3}, "allowed_pairs=3 must be a list"),
    ],
)
def test_what_cannot_be_meant(options, said):
    with pytest.raises(ce.InputError, match=said):
        explain(**options)


def test_steps_are_for_numbers():
    with pytest.raises(ce.InputError, match="step=1 is for numbers"):
        ce.Column("binary", step=1)


class Bonds(torch.nn.Module):
    """Says 1 when the edge attributes of a graph sum to more than five a column, twice for the two directions."""

    def forward(self, x, edge_index, edge_attr, batch):
        total = torch.zeros(int(batch.max()) + 1, dtype=edge_attr.dtype).index_add(
            0, batch[edge_index[0]], edge_attr[:, 0]
        )
        return torch.stack([torch.full_like(total, 5.0), total], 1)


def bonds():
    edges = torch.tensor([[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]]).t()
    return Data(x=torch.ones(4, 1), edge_index=edges, edge_attr=torch.tensor([[1.0], [1], [1], [1], [0.4], [0.4]]))


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ("mode", 1.0),
        ("mean", 0.8),
        ("zero", None),
        (lambda g, key: torch.tensor([3.0]), 3.0),
        (lambda g, key: torch.full((4, 4, 1), 2.0), 2.0),
    ],
)
@pytest.mark.parametrize("relaxation", ["auto", "none"])
def test_attributes_of_new_edges(policy, value, relaxation):
    space = EditSpace(features=False, remove_edges=False, new_edges=policy)
    cf = ce.XPlore().explain(Bonds(), bonds(), edits=space, relaxation=relaxation)
    if value is None:
        assert not cf.found
        return
    assert cf.found
    assert len(cf.edits.added) == 1
    assert cf.data.edge_attr.flatten().tolist() == pytest.approx([1, 1, 1, 1, 0.4, 0.4, value, value])
    back = ce.Counterfactual.from_json(cf.to_json())
    assert back == cf
    assert torch.equal(back.data.edge_attr, cf.data.edge_attr)
    assert torch.equal(cf.edits.without(0).apply(cf.original).edge_attr, cf.original.edge_attr)


def test_attributes_of_new_edges_by_pair():
    table = torch.zeros(4, 4, 1)
    table[0, 3] = table[3, 0] = 2.0
    space = EditSpace(features=False, remove_edges=False, new_edges=lambda g, key: table)
    cf = ce.XPlore().explain(Bonds(), bonds(), edits=space)
    assert cf.edits.added == ((0, 3),)


def test_new_edges_that_cannot_be_meant():
    with pytest.raises(ce.InputError, match="new_edges='most' is unknown"):
        EditSpace(new_edges="most")
    with pytest.raises(ce.InputError, match=r"new_edges gave edge_attr of shape \(2,\) for a graph with 4 nodes"):
        ce.XPlore().explain(Bonds(), bonds(), edits=EditSpace(new_edges=lambda g, key: torch.ones(2)))

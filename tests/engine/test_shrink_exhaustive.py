import itertools

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge.edits import EditSet
from counteredge.engine.exhaustive import edge_lower_bound, flips_by_edges
from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search, best_in_group
from counteredge.engine.shrink import shrink
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace


class CountsEdges(nn.Module):
    """Class 1 when the weights of the present pairs (by node numbers) plus the weighted features reach a threshold."""

    def __init__(self, weight, at, feature=None):
        super().__init__()
        self.register_buffer("weight", weight.double())
        self.register_buffer("at", torch.tensor(float(at), dtype=torch.float64))
        self.register_buffer("feature", torch.zeros(1).double() if feature is None else feature.double())

    def forward(self, x, edge_index, batch):
        count = int(batch.max()) + 1
        number = torch.cat([torch.arange(k) for k in torch.bincount(batch).tolist()])
        src, dst = edge_index
        each = self.weight.to(x.dtype)[number[src], number[dst]] / 2
        total = x.new_zeros(count).index_add(0, batch[src], each)
        total = total.index_add(0, batch, (x * self.feature.to(x.dtype)).sum(1))
        return torch.stack([total.new_zeros(count), total - self.at.to(x.dtype)], 1)


def symmetric(values):
    upper = values.triu(1)
    return upper + upper.t()


def empty(n, x=None):
    return Data(x=torch.zeros(n, 1) if x is None else x, edge_index=torch.zeros(2, 0, dtype=torch.long))


def random_graph(seed, n):
    g = torch.Generator().manual_seed(seed)
    adj = symmetric((torch.rand(n, n, generator=g) < 0.4).float())
    return Data(x=torch.zeros(n, 1), edge_index=adj.nonzero().t())


def search_of(oracle, graphs, space=None, schema=None, **budget):
    base = GraphBatch.from_graphs(graphs)
    allowed = (space or EditSpace.of("edges")).allowed(base, schema or FeatureSchema.fixed(graphs[0].x.shape[1]))
    before = oracle.predict(graphs, range(len(graphs)))
    return Search(oracle, base, allowed, before, Budget(**budget), None, lambda n: None)


def take(search, adj, x=None):
    """Record fully edited graphs as the answers to shrink."""
    rows = torch.arange(search.base.size)
    state = State(rows, adj, search.base.x.clone() if x is None else x)
    assert search.confirm(state).all(), "not a counterfactual to begin with"
    search.accept(state, "test")
    return rows


def answers(search):
    """The answers as edits, and whether each flips; and every answer with one edit less."""
    out = []
    for r in range(search.base.size):
        data = search.base.to_data(r, search.state.adj[r], search.state.x[r])
        out.append(EditSet.between(search.base.graphs[r], data, search.moves.allowed.schema))
    return out


def flips(search, row, edits):
    z = search.oracle.predict([edits.apply(search.base.graphs[row])])
    return bool(search.oracle.decision.flips(z, search.y0[row : row + 1])[0])


def assert_one_minimal(search):
    for r, edits in enumerate(answers(search)):
        assert flips(search, r, edits)
        for k in range(len(edits)):
            assert not flips(search, r, edits.without(k)), f"edit {k} of {edits} can be undone"


# -- shrink -----------------------------------------------------------------------------------------------------------


def test_shrink_keeps_just_the_needed_edges():
    """All pairs of ten nodes are inserted; the model needs two certain ones."""
    weight = torch.zeros(10, 10)
    for i, j in ((2, 7), (3, 4)):
        weight[i, j] = weight[j, i] = 1
    oracle = Oracle(CountsEdges(weight, 1.5))
    with oracle.session([empty(10)]):
        search = search_of(oracle, [empty(10)])
        rows = take(search, 1 - torch.eye(10).double()[None])
        shrink(search, rows)
        (edits,) = answers(search)
        assert edits == EditSet(added=((2, 7), (3, 4)))
        # 45 edits: halving first, not 45 undos a round
        assert int(oracle.forward_calls[0]) < 45 * 10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_shrink_is_one_minimal(seed, count):
    g = torch.Generator().manual_seed(seed)
    sizes = torch.randint(4, 9, (count,), generator=g).tolist()
    graphs = [random_graph(seed + k, n) for k, n in enumerate(sizes)]
    weight = symmetric(torch.randn(8, 8, generator=g))
    oracle = Oracle(CountsEdges(weight, 0.0))
    with oracle.session(graphs):
        search = search_of(oracle, graphs)
        base = search.base
        # the farthest flip there is: every pair as the other class likes it best
        liked = weight[: base.nodes, : base.nodes]
        wish = torch.where(search.y0[:, None, None] == 0, liked, -liked) > 0
        real = base.mask[:, :, None] & base.mask[:, None, :]
        adj = (wish & real).double()
        assume(search.confirm(State(torch.arange(count), adj, base.x)).all())
        rows = take(search, adj)
        cost = [len(e) for e in answers(search)]
        shrink(search, rows)
        assert_one_minimal(search)
        assert all(len(e) <= c for e, c in zip(answers(search), cost, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_shrink_of_many_edits_is_one_minimal(seed, monkeypatch):
    """Edits that work against the flip are among them: without these, others that were needed are superfluous."""
    monkeypatch.setattr("counteredge.engine.shrink.SINGLES", 2)
    monkeypatch.setattr("counteredge.engine.shrink.MANY", 3)
    monkeypatch.setattr("counteredge.engine.shrink.LARGE", 2)
    g = torch.Generator().manual_seed(seed)
    graphs = [empty(n) for n in (5, 7, 8)]
    weight = symmetric(torch.randn(8, 8, generator=g))
    complete = weight[:5, :5].triu(1).sum(), weight[:7, :7].triu(1).sum(), weight.triu(1).sum()
    # all pairs together are more than is needed
    oracle = Oracle(CountsEdges(weight + (1 - min(complete) / 10).clamp(min=0) * (1 - torch.eye(8)), 0.5))
    with oracle.session(graphs):
        search = search_of(oracle, graphs)
        real = search.base.mask[:, :, None] & search.base.mask[:, None, :]
        adj = real.double() * (1 - torch.eye(8).double())
        shrink(search, take(search, adj))
        assert_one_minimal(search)
        together = [len(e) for e in answers(search)]
    for graph, size in zip(graphs, together, strict=True):
        with oracle.session([graph]):
            search = search_of(oracle, [graph])
            n = len(graph.x)
            shrink(search, take(search, (1 - torch.eye(n).double())[None]))
            assert [len(e) for e in answers(search)] == [size]


def test_shrink_of_many_edits_asks_about_each_a_few_times():
    """All 780 pairs are inserted, most are needed: it is not asked about all of them after every success."""
    weight = symmetric(torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) + 0.1)
    oracle = Oracle(CountsEdges(weight, float(weight.triu(1).sum()) * 0.7))
    with oracle.session([empty(40)]):
        search = search_of(oracle, [empty(40)])
        shrink(search, take(search, (1 - torch.eye(40).double())[None]))
        assert_one_minimal(search)
        assert int(oracle.forward_calls[0]) < 780 * 4


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_shrink_of_edges_features_and_numbers(seed):
    """One-hot swaps, flips and numbers shrink with the edges; numbers move back towards their old value."""
    g = torch.Generator().manual_seed(seed)
    schema = FeatureSchema(
        (*FeatureSchema.onehot(["a", "b"]).columns, Column("integer", hi=9), Column("continuous", hi=9))
    )
    n = 4
    x = torch.tensor([[1.0, 0.0, 0.0, 0.0]] * n)
    graphs = [empty(n, x)]
    feature = torch.tensor([0.0, *torch.rand(3, generator=g).tolist()])
    oracle = Oracle(CountsEdges(symmetric(torch.rand(n, n, generator=g)), 3.0, feature))
    with oracle.session(graphs):
        search = search_of(oracle, graphs, EditSpace(), schema)
        full = torch.tensor([[0.0, 1.0, 9.0, 9.0]] * n).double()[None]
        rows = take(search, (1 - torch.eye(n).double())[None], full)
        shrink(search, rows)
        (edits,) = answers(search)
        assert_one_minimal(search)
        now = search.state.x[0]
        assert (now[:, :2].sum(1) == 1).all()
        assert torch.equal(now[:, 2], now[:, 2].round())
        assert ((now[:, 2:] >= 0) & (now[:, 2:] <= 9)).all()
        assert len(edits) >= 1
        assert torch.equal(now, now.float().double())  # what the user's dtype can hold


def test_a_number_comes_close_to_where_the_label_flips():
    schema = FeatureSchema((Column("continuous", lo=0, hi=100),))
    oracle = Oracle(CountsEdges(torch.zeros(1, 1), 10.0, torch.ones(1)))
    with oracle.session([empty(1)]):
        search = search_of(oracle, [empty(1)], EditSpace(), schema)
        shrink(search, take(search, search.base.adj, torch.full((1, 1, 1), 100.0).double()))
        assert 10 < float(search.state.x[0, 0, 0]) < 10.1


def test_an_integer_number_stays_whole():
    schema = FeatureSchema((Column("integer", lo=0, hi=100),))
    oracle = Oracle(CountsEdges(torch.zeros(1, 1), 10.5, torch.ones(1)))
    with oracle.session([empty(1)]):
        search = search_of(oracle, [empty(1)], EditSpace(), schema)
        shrink(search, take(search, search.base.adj, torch.full((1, 1, 1), 100.0).double()))
        assert float(search.state.x[0, 0, 0]) == 11


def test_graphs_shrink_together_as_alone():
    weight = symmetric(torch.rand(8, 8, generator=torch.Generator().manual_seed(1)))
    graphs = [empty(4), empty(8), empty(6)]
    found = []
    for chosen in ([0, 1, 2], [0], [1], [2], [2, 0]):
        oracle = Oracle(CountsEdges(weight, 1.2))
        made = [graphs[k] for k in chosen]
        with oracle.session(made):
            search = search_of(oracle, made)
            base = search.base
            real = base.mask[:, :, None] & base.mask[:, None, :] & ~torch.eye(base.nodes, dtype=torch.bool)
            shrink(search, take(search, real.double()))
            found.append(dict(zip(chosen, answers(search), strict=True)))
    together, *others = found
    for other in others:
        for k, edits in other.items():
            assert edits == together[k]


def test_shrink_keeps_to_its_budget():
    oracle = Oracle(CountsEdges(1 - torch.eye(8), 3.5))
    with oracle.session([empty(8)]):
        search = search_of(oracle, [empty(8)], calls=20)
        rows = take(search, 1 - torch.eye(8).double()[None])
        shrink(search, rows)
        assert int(oracle.forward_calls[0]) <= 20
        assert bool(search.stopped[0])
        (edits,) = answers(search)
        assert flips(search, 0, edits)
        assert len(edits) < 28  # what was afforded was used


def test_what_the_real_model_does_not_confirm_goes_back(monkeypatch):
    oracle = Oracle(CountsEdges(1 - torch.eye(4), 0.5))
    with oracle.session([empty(4)]):
        search = search_of(oracle, [empty(4)])
        full = 1 - torch.eye(4).double()[None]
        rows = take(search, full)
        monkeypatch.setattr(search, "confirm", lambda s: torch.zeros(len(s), dtype=torch.bool))
        shrink(search, rows)
        assert torch.equal(search.state.adj, full)


# -- exhaustive -------------------------------------------------------------------------------------------------------


def brute_force(model, g, space, most):
    """The least number of edge flips that changes the label, ``most + 1`` when more than ``most`` are needed."""
    n = g.num_nodes
    zero = torch.zeros(n, dtype=torch.long)
    base = GraphBatch.from_graphs([g])
    flip = space.allowed(base, FeatureSchema.fixed(1)).flip[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if flip[i, j]]
    present = {tuple(e) for e in g.edge_index.t().tolist()}
    before = int(model(g.x.double(), g.edge_index, zero).argmax())
    for k in range(1, most + 1):
        for chosen in itertools.combinations(pairs, k):
            edits = EditSet(tuple(p for p in chosen if p not in present), tuple(p for p in chosen if p in present))
            after = edits.apply(g)
            if int(model(after.x.double(), after.edge_index, zero).argmax()) != before:
                return k
    return most + 1


SPACES = {
    "all": EditSpace.of("edges"),
    "remove": EditSpace(add_edges=False, features=False),
    "frozen": EditSpace(features=False, frozen_nodes=[0], frozen_edges=[(1, 2)]),
}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 5), st.sampled_from(sorted(SPACES)), st.floats(0.1, 4))
def test_lower_bound_is_brute_force(seed, n, name, scale):
    g = torch.Generator().manual_seed(seed)
    graphs = [random_graph(seed, n), random_graph(seed + 1, n)]
    model = CountsEdges(symmetric(torch.randn(n, n, generator=g)), float(torch.randn(1, generator=g)) * scale)
    oracle = Oracle(model)
    with oracle.session(graphs):
        search = search_of(oracle, graphs, SPACES[name])
        for row, data in enumerate(graphs):
            for most in (1, 2):
                assert edge_lower_bound(search, row, most) == brute_force(model, data, SPACES[name], most)


@pytest.mark.parametrize(("at", "bound"), [(0.5, 1), (1.5, 2), (2.5, 3), (6.5, 3)])
def test_lower_bounds_of_a_threshold(at, bound):
    oracle = Oracle(CountsEdges(1 - torch.eye(4), at))
    with oracle.session([empty(4)]):
        search = search_of(oracle, [empty(4)])
        assert edge_lower_bound(search, 0, 2) == bound
        assert edge_lower_bound(search, 0, 1) == min(bound, 2)


def test_blocks(monkeypatch):
    """More sets than fit into one block; the only pair of flips that works is the last."""
    monkeypatch.setattr("counteredge.engine.exhaustive.BLOCK", 2)
    weight = torch.zeros(5, 5)
    weight[3, 4] = weight[4, 3] = weight[2, 4] = weight[4, 2] = 1
    oracle = Oracle(CountsEdges(weight, 1.5))
    with oracle.session([empty(5)]):
        search = search_of(oracle, [empty(5)])
        before = int(oracle.forward_calls[0])
        assert not flips_by_edges(search, 0, 1)
        assert int(oracle.forward_calls[0]) - before == 10
        assert flips_by_edges(search, 0, 2)
        assert int(oracle.forward_calls[0]) - before <= 10 + 45


def test_nothing_to_flip():
    oracle = Oracle(CountsEdges(torch.zeros(1, 1), 1.0))
    with oracle.session([empty(1)]):
        search = search_of(oracle, [empty(1)])
        assert edge_lower_bound(search, 0, 2) == 3


# -- ranking ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=12), st.integers(1, 3))
def test_best_in_group_against_sorted(rows, keep):
    group, first, second = (torch.tensor([r[k] for r in rows], dtype=torch.long) for k in range(3))
    expected = []
    for g in sorted({r[0] for r in rows}):
        order = sorted((r[1], r[2], k) for k, r in enumerate(rows) if r[0] == g)
        expected += [k for *_, k in order[:keep]]
    assert best_in_group(group, [first, second], keep).tolist() == expected


class _Shallow(torch.nn.Module):
    """Class 1 from four edges on, by little beside a third logit: what the search calls no flip is one."""

    def forward(self, x, edge_index, batch):
        edges = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add_(
            0, batch[edge_index[0]], torch.ones(edge_index.shape[1], dtype=x.dtype)
        )
        zero = torch.zeros_like(edges)
        return torch.stack([zero, 0.002 * (edges - 7), zero - 1000], 1)


def test_what_rounding_decides_is_asked_of_the_model():
    ring = Data(x=torch.ones(6, 1), edge_index=torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]))
    cf = ce.XPlore().explain(_Shallow(), ring, edits="edges", progress=False)
    assert cf.found
    assert cf.minimal
    assert len(cf.edits) == 1

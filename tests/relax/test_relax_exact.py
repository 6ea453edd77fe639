"""R12: at 0/1 masks the relaxed pass is the plain model on the really edited graph, to 1e-9 in double."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    ARMAConv,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GENConv,
    GINConv,
    GINEConv,
    GraphConv,
    MessagePassing,
    MFConv,
    PNAConv,
    SAGEConv,
    SAGPooling,
    SGConv,
    TAGConv,
    TopKPooling,
    TransformerConv,
    global_add_pool,
)

import counteredge as ce
from counteredge.data import is_directed
from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search
from counteredge.errors import ModelError
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.relax import DenseTwin, EdgeWeights, flips
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

F, H = 3, 4


class Net(nn.Module):
    """Two layers of a kind; edge weights go where they are taken."""

    def __init__(self, make, weighted=False):
        super().__init__()
        self.convs = nn.ModuleList([make(F, H), make(H, H)])
        self.weighted = weighted
        self.lin = nn.Linear(H, 2)
        self.double().eval()

    def forward(self, x, edge_index, batch, edge_weight=None):
        for conv in self.convs:
            x = (conv(x, edge_index, edge_weight) if self.weighted else conv(x, edge_index)).tanh()
        return self.lin(global_add_pool(x, batch))


class Pooled(nn.Module):
    def __init__(self, ratio=0.5, pool=TopKPooling):
        super().__init__()
        self.a, self.pool, self.b = GCNConv(F, H), pool(H, ratio), GCNConv(H, 2)
        self.double().eval()

    def forward(self, x, edge_index, batch):
        x, edge_index, _, batch, _, _ = self.pool(self.a(x, edge_index), edge_index, None, batch)
        return global_add_pool(self.b(x, edge_index), batch)


class Improved(nn.Module):
    """GCN(improved=True) has a dense twin, GAT needs weights, with which PyG fills in another self-loop."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.lin = GCNConv(F, H, improved=True), GATConv(H, H), nn.Linear(H, 2)
        self.double().eval()

    def forward(self, x, edge_index, batch):
        return self.lin(global_add_pool(self.b(self.a(x, edge_index).tanh(), edge_index).tanh(), batch))


def gin(a, b):
    return GINConv(nn.Sequential(nn.Linear(a, H), nn.Tanh(), nn.Linear(H, b)), train_eps=True)


def with_options(conv, **options):
    return lambda a, b: conv(a, b, **options)


SHARED = {
    "gcn": GCNConv,
    "gcn no loops": with_options(GCNConv, add_self_loops=False),
    "gcn cached": with_options(GCNConv, cached=True),
    "gcn backwards": with_options(GCNConv, flow="target_to_source"),
    "gcn raw": with_options(GCNConv, normalize=False, add_self_loops=False),
    "gin": gin,
    "graphconv add": with_options(GraphConv, aggr="add"),
    "graphconv mean": with_options(GraphConv, aggr="mean"),
    "graphconv backwards": with_options(GraphConv, flow="target_to_source"),
    "sage mean": with_options(SAGEConv, aggr="mean"),
    "sage mean backwards": with_options(SAGEConv, aggr="mean", flow="target_to_source"),
    "sage sum": with_options(SAGEConv, aggr="sum"),
    "sage project": with_options(SAGEConv, project=True, normalize=True, root_weight=False),
}
DENSE = {**SHARED, "gcn improved": with_options(GCNConv, improved=True)}
WEIGHTS = {
    **SHARED,
    "tag": TAGConv,
    "cheb": with_options(ChebConv, K=3),
    "arma": with_options(ARMAConv, num_stacks=2, num_layers=2),
    "sg": with_options(SGConv, K=2),
    "gat": GATConv,
    "gat heads": with_options(GATConv, heads=3, concat=False),
    "gat no loops": with_options(GATConv, add_self_loops=False),
    "gat backwards": with_options(GATConv, flow="target_to_source"),
    "gatv2": with_options(GATv2Conv, heads=2, concat=False),
    "gatv2 no loops": with_options(GATv2Conv, add_self_loops=False, share_weights=True),
    "transformer": with_options(TransformerConv, heads=2, concat=False),
    "transformer beta": with_options(TransformerConv, beta=True, root_weight=True),
}
WEIGHTED = {
    "gcn": GCNConv,
    "gcn improved": with_options(GCNConv, improved=True),
    "gcn no loops": with_options(GCNConv, add_self_loops=False),
    "gcn backwards": with_options(GCNConv, flow="target_to_source"),
    "graphconv add": with_options(GraphConv, aggr="add"),
}


def sample(seed, n=None, *, directed=False, loops=True, weight=False, repeat=False):
    """A random graph with an isolated node (the last) and, perhaps, self-loops and repeated edges."""
    g = torch.Generator().manual_seed(seed)
    n = n or int(torch.randint(4, 7, (1,), generator=g))
    upper = (torch.rand(n, n, generator=g) < 0.5) & ~torch.eye(n, dtype=torch.bool)
    adj = upper if directed else upper.triu(1) | upper.triu(1).t()
    adj[-1] = False
    adj[:, -1] = False
    if loops:
        adj[0, 0] = adj[2, 2] = True
    edges = adj.nonzero().t()
    values = torch.rand(n, n, generator=g) + 0.25
    values = values if directed else values.triu() + values.triu(1).t()
    if repeat:
        again = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, again], 1)
    data = Data(x=torch.randn(n, F, generator=g, dtype=torch.float64), edge_index=edges)
    if weight:
        data.edge_weight = values[edges[0], edges[1]].double()
    return data


def edited(base, count, seed):
    """Random 0/1 states: edges removed and inserted (arcs when directed), also with none and with all."""
    g = torch.Generator().manual_seed(seed)
    row = torch.randint(0, base.size, (count,), generator=g)
    n = base.nodes
    pairs = base.mask[row][:, :, None] & base.mask[row][:, None, :] & ~torch.eye(n, dtype=torch.bool)
    flips = torch.rand(count, n, n, generator=g) < 0.3
    if not base.directed:
        flips = flips.triu(1) | flips.triu(1).transpose(1, 2)
    adj = torch.where(flips & pairs, 1 - base.adj[row], base.adj[row])
    adj[0], adj[1] = 0, pairs[1].double()
    return row, adj, base.x[row]


def worst_error(oracle, base, seed=0, count=8, must_differ=True):
    row, adj, x = edited(base, count, seed)
    real = [base.to_data(r, adj[k], x[k]) for k, r in enumerate(row.tolist())]
    expected = torch.cat([oracle.predict([g]) for g in real])
    differ = float((expected - expected[:1]).abs().max()) > 1e-3
    assert differ or not must_differ, "the states must differ"
    got = oracle.relaxed(base, row, adj, x).detach()
    return float((got - expected).abs().max() / expected.abs().max().clamp(min=1))


def check(make, relaxation, graphs, *, weighted=False):
    torch.manual_seed(0)
    oracle = Oracle(Net(make, weighted), relaxation=relaxation)
    with oracle.session(graphs):
        assert oracle.relaxation == f"exact ({relaxation})"
        for directed in (False, True):
            chosen = [k for k, g in enumerate(graphs) if is_directed(g) == directed]
            if chosen:
                base = GraphBatch.from_graphs([graphs[k] for k in chosen], chosen, directed=directed)
                assert worst_error(oracle, base) < 1e-9


CASES = [("dense", k) for k in DENSE] + [("weights", k) for k in WEIGHTS]


@pytest.mark.parametrize(("tier", "layer"), CASES)
def test_exact_at_binary_masks(tier, layer):
    """Undirected and directed graphs of several sizes in one batch, with isolated nodes and self-loops."""
    graphs = [sample(s, directed=d) for s in range(3) for d in (False, True)]
    check({**DENSE, **WEIGHTS}[layer], tier, graphs)


ATTRIBUTED = {
    "gine": lambda a, b: GINEConv(nn.Sequential(nn.Linear(a, H), nn.Tanh(), nn.Linear(H, b)), edge_dim=2),
    "gat": with_options(GATConv, edge_dim=2, add_self_loops=False),
    "gatv2": with_options(GATv2Conv, edge_dim=2, heads=2, concat=False, add_self_loops=False),
    "transformer": with_options(TransformerConv, edge_dim=2),
}


class Attributed(Net):
    def forward(self, x, edge_index, batch, edge_attr):
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr=edge_attr).tanh()
        return self.lin(global_add_pool(x, batch))


@pytest.mark.parametrize("layer", sorted(ATTRIBUTED))
@pytest.mark.parametrize("loops", [False, True])
def test_exact_with_edge_attributes(layer, loops):
    """Existing edges keep their own attributes, inserted ones get the graph's most frequent."""
    torch.manual_seed(0)
    graphs = [sample(s, 6 - s, loops=loops) for s in range(3)]
    for g in graphs:
        sums = g.edge_index.sum(0)
        g.edge_attr = torch.stack([(sums % 3).double(), (sums % 2).double()], 1)
    oracle = Oracle(Attributed(ATTRIBUTED[layer]))
    with oracle.session(graphs):
        assert oracle.relaxation == "exact (weights)"
        assert worst_error(oracle, GraphBatch.from_graphs(graphs)) < 1e-9


@pytest.mark.parametrize(("tier", "layer"), [(t, k) for t in ("dense", "weights") for k in SHARED])
def test_exact_with_repeated_edges(tier, layer):
    check(SHARED[layer], tier, [sample(s, repeat=True, loops=False) for s in range(2)])


@pytest.mark.parametrize(
    ("tier", "layer"),
    [(t, k) for t in ("dense", "weights") for k in WEIGHTED] + [("weights", "tag")],
)
def test_exact_with_the_datas_own_weights(tier, layer):
    make = {**WEIGHTED, "tag": TAGConv}[layer]
    check(make, tier, [sample(s, weight=True, directed=d) for s in range(2) for d in (False, True)], weighted=True)


@pytest.mark.parametrize("layer", ["gin", "sage mean", "sage sum", "gcn", "graphconv mean"])
def test_exact_where_the_model_ignores_the_datas_weights(layer):
    check(DENSE[layer], "dense", [sample(s, weight=True, loops=False) for s in range(2)])


class Mixed(nn.Module):
    """A layer that is given weights beside one that is not."""

    def __init__(self):
        super().__init__()
        self.a, self.b = GCNConv(F, H), GCNConv(H, 2)
        self.double().eval()

    def forward(self, x, edge_index, batch, edge_weight):
        return global_add_pool(self.b(self.a(x, edge_index, edge_weight).tanh(), edge_index), batch)


def test_weighted_and_unweighted_layers_side_by_side():
    torch.manual_seed(0)
    graphs = [sample(s, weight=True, loops=False) for s in range(2)]
    oracle = Oracle(Mixed())
    with oracle.session(graphs):
        assert oracle.relaxation == "exact (dense)"
        assert worst_error(oracle, GraphBatch.from_graphs(graphs)) < 1e-9


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(DENSE)), st.booleans())
def test_dense_twin_on_random_graphs(seed, layer, directed):
    g = sample(seed, directed=directed)
    torch.manual_seed(seed)
    oracle = Oracle(Net(DENSE[layer]), relaxation="dense")
    with oracle.session([g]):
        base = GraphBatch.from_graphs([g], directed=directed)
        # some drawn networks saturate and say the same of every state
        assert worst_error(oracle, base, seed, must_differ=False) < 1e-9


# -- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("layer", sorted(DENSE))
def test_gradients_equal_finite_differences(layer, weight):
    torch.manual_seed(0)
    takes = weight and layer in WEIGHTED
    graphs = [sample(k, 5 - k, directed=True, weight=weight, loops=takes or not weight) for k in range(2)]
    oracle = Oracle(Net(DENSE[layer], takes), relaxation="dense")
    with oracle.session(graphs):
        base = GraphBatch.from_graphs(graphs, directed=True)
        row = torch.arange(2)
        g = torch.Generator().manual_seed(3)
        off = base.mask[:, :, None] & base.mask[:, None, :] & ~torch.eye(base.nodes, dtype=torch.bool)
        adj = (0.2 + 0.7 * torch.rand(base.adj.shape, generator=g, dtype=torch.float64)) * off
        adj, x = adj.requires_grad_(), base.x.clone().requires_grad_()
        probe = torch.randn(2, 2, generator=g, dtype=torch.float64)

        def value(a, v):
            return float((oracle.relaxed(base, row, a, v) * probe).sum())

        slopes = torch.autograd.grad((oracle.relaxed(base, row, adj, x) * probe).sum(), [adj, x])
        assert all(torch.isfinite(s).all() for s in slopes)
        assert float(slopes[0].abs().max()) > 1e-3
        step = 1e-6
        for which, slope in enumerate(slopes):
            leaf = (adj, x)[which].detach()
            places = (off if which == 0 else base.mask[:, :, None].expand_as(leaf)).nonzero()
            for at in places[torch.randperm(len(places), generator=g)[:12]].tolist():
                ends = []
                for sign in (1, -1):
                    moved = leaf.clone()
                    moved[tuple(at)] += sign * step
                    ends.append(value(moved, base.x) if which == 0 else value(adj.detach(), moved))
                assert float(slope[tuple(at)]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6, rel=1e-5)


@pytest.mark.parametrize("layer", sorted(DENSE))
def test_gradients_are_finite_without_any_edge(layer):
    torch.manual_seed(0)
    g = Data(x=torch.randn(3, F).double(), edge_index=torch.zeros(2, 0, dtype=torch.long))
    oracle = Oracle(Net(DENSE[layer]), relaxation="dense")
    with oracle.session([g]):
        base = GraphBatch.from_graphs([g])
        adj, x = base.adj.clone().requires_grad_(), base.x.clone().requires_grad_()
        z = oracle.relaxed(base, torch.zeros(1, dtype=torch.long), adj, x)
        for slope in torch.autograd.grad(z[:, 0].sum(), [adj, x]):
            assert torch.isfinite(slope).all()


def search_over(oracle, graphs):
    base = GraphBatch.from_graphs(graphs)
    allowed = EditSpace().allowed(base, FeatureSchema.infer([g.x for g in graphs]))
    return Search(oracle, base, allowed, oracle.predict(graphs, range(len(graphs))), Budget(), None, lambda n: None)


@pytest.mark.parametrize("edges", [True, False], ids=["isolated node", "no edges"])
@pytest.mark.parametrize("layer", [*sorted(WEIGHTS), "gine"])
def test_gradients_by_weights_are_finite_where_they_are_used(layer, edges):
    """PyG's normalisation has no derivative at a node without edges: only the pairs there are NaN, the ranking none."""
    torch.manual_seed(0)
    g = sample(0, 6, loops=False)
    if not edges:
        g = Data(x=g.x, edge_index=torch.zeros(2, 0, dtype=torch.long))
    if layer == "gine":
        g.edge_attr = torch.ones(g.edge_index.shape[1], 2, dtype=torch.float64)
        model = Attributed(ATTRIBUTED["gine"])
    else:
        model = Net(WEIGHTS[layer])
    oracle = Oracle(model, relaxation="weights")
    with oracle.session([g]):
        search = search_over(oracle, [g])
        base = search.base
        adj, x = base.adj.clone().requires_grad_(), base.x.clone().requires_grad_()
        z = oracle.relaxed(base, torch.zeros(1, dtype=torch.long), adj, x)
        slopes = torch.autograd.grad(z[:, 0].sum(), [adj, x])
        degree = base.adj[0].sum(0)
        alone = (degree[:, None] == 0) | (degree[None, :] == 0)
        assert torch.isfinite(slopes[0][0][~alone]).all()
        assert not edges or (slopes[0][0][~alone & ~torch.eye(6, dtype=torch.bool)] != 0).any()
        assert torch.isfinite(slopes[1]).all()
        score, _ = search.rank(State.start(base, torch.tensor([0])))
        assert torch.isfinite(score[search.moves.open(State.start(base, torch.tensor([0])))]).all()


# -- falling back -----------------------------------------------------------------------------------------------------

PNA = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification"]}
RANKED = {
    "sage max": lambda: Net(with_options(SAGEConv, aggr="max")),
    "sage several": lambda: Net(with_options(SAGEConv, aggr=["mean", "max"])),
    "graphconv max": lambda: Net(with_options(GraphConv, aggr="max")),
    "graphconv max, weighted": lambda: Net(with_options(GraphConv, aggr="max"), weighted=True),
    "pna": lambda: Net(with_options(PNAConv, deg=torch.tensor([1, 2, 3, 2]), **PNA)),
    "gen": lambda: Net(GENConv),
    "mf": lambda: Net(with_options(MFConv, max_degree=4)),
    "gat max": lambda: Net(with_options(GATConv, aggr="max")),
    "gcn improved beside gat": Improved,
}
NOT_EXACT = {**RANKED, "topk": Pooled, "sag": lambda: Pooled(pool=SAGPooling)}


def on_some(kind):
    weight = "weighted" in kind
    return [sample(s, 6, weight=weight, loops=False) for s in range(2)]


@pytest.mark.parametrize("kind", sorted(NOT_EXACT))
def test_the_probe_falls_back(kind):
    torch.manual_seed(0)
    graphs = on_some(kind)
    oracle = Oracle(NOT_EXACT[kind]())
    with oracle.session(graphs):
        assert (oracle.relaxation, oracle.exact) == ("approximate (weights)" if kind in RANKED else "none", False)
        base = GraphBatch.from_graphs(graphs)
        assert worst_error(oracle, base) < 1e-9  # relaxed() then runs on the really edited graph
        x = base.x.clone().requires_grad_()
        adj = base.adj.clone().requires_grad_()
        z = oracle.relaxed(base, torch.arange(2), adj, x)
        g_adj, g_x = torch.autograd.grad(z.sum(), [adj, x], allow_unused=True)
        assert g_adj is None
        assert torch.isfinite(g_x).all()


@pytest.mark.parametrize("kind", sorted(RANKED))
def test_an_approximate_way_ranks_present_edges_and_absent_pairs(kind):
    torch.manual_seed(0)
    graphs = on_some(kind)
    oracle = Oracle(RANKED[kind]())
    with oracle.session(graphs):
        search = search_over(oracle, graphs)
        start = State.start(search.base)
        score, _ = search.rank(start)
        score = score[:, : search.moves.pairs]
        present = search.base.adj[:, search.moves.i, search.moves.j] > 0
        for some in (present, ~present & torch.isfinite(score)):
            assert torch.isfinite(score[some]).all()
            assert (score[some] != 0).any()


@pytest.mark.parametrize("kind", ["sage max", "sage several", "graphconv max, weighted", "pna", "gen"])
def test_differences_of_single_edges_are_exact_in_one_layer(kind):
    """Without a nonlinearity behind the layer, a pair's score is what flipping it really does."""

    class Single(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.conv, self.lin, self.weighted = inner.convs[0], inner.lin, inner.weighted

        def forward(self, x, edge_index, batch, edge_weight=None):
            h = self.conv(x, edge_index, edge_weight) if self.weighted else self.conv(x, edge_index)
            return self.lin(global_add_pool(h, batch))

    torch.manual_seed(0)
    graphs = [sample(s, 6, directed=True, weight="weighted" in kind) for s in range(2)]
    inner = RANKED[kind]()
    if kind == "gen":
        inner.convs[0].mlp = nn.Linear(H, H).double()
    oracle = Oracle(Single(inner))
    with oracle.session(graphs):
        assert oracle.relaxation == "approximate (weights)"
        base = GraphBatch.from_graphs(graphs, directed=True)
        row = torch.arange(2)
        adj = base.adj.clone().requires_grad_()
        z = oracle.relaxed(base, row, adj, base.x, ranking=True)
        assert torch.allclose(z, oracle.logits(base, row, base.adj, base.x), atol=1e-12)
        (slope,) = torch.autograd.grad(z[:, 0].sum(), adj)
        for b, i, j in (~torch.eye(6, dtype=torch.bool)).expand(2, 6, 6).nonzero().tolist():
            flipped = base.adj.clone()
            flipped[b, i, j] = 1 - flipped[b, i, j]
            real = (oracle.logits(base, row, flipped, base.x) - z.detach())[b, 0]
            assert float(slope[b, i, j] * (flipped - base.adj)[b, i, j]) == pytest.approx(float(real), abs=1e-9)


def test_differences_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    torch.manual_seed(0)
    model, graphs = RANKED["pna"](), on_some("pna")
    found = []
    for most in (flips.NUMBERS_AT_ONCE, 1):
        monkeypatch.setattr(flips, "NUMBERS_AT_ONCE", most)
        oracle = Oracle(model)
        with oracle.session(graphs):
            found.append(search_over(oracle, graphs).rank(State.start(GraphBatch.from_graphs(graphs)))[0])
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("kind", ["sage max", "mf", "pna"])
def test_an_approximate_way_is_trusted_with_nothing_but_ranking(kind):
    torch.manual_seed(0)
    graphs = on_some(kind)
    oracle = Oracle(RANKED[kind]())
    with oracle.session(graphs):
        base = GraphBatch.from_graphs(graphs)
        row, adj, x = edited(base, 8, 0)
        real = torch.cat([oracle.predict([base.to_data(r, adj[k], x[k])]) for k, r in enumerate(row.tolist())])
        assert torch.allclose(oracle.logits(base, row, adj, x), real, atol=1e-9)
        leaf, x = base.adj.clone().requires_grad_(), base.x.clone().requires_grad_()
        z = oracle.relaxed(base, torch.arange(2), leaf, x)
        assert torch.autograd.grad(z.sum(), [leaf, x], allow_unused=True)[0] is None
    for forced in ("none", "dense", "weights"):
        oracle = Oracle(RANKED[kind](), relaxation=forced)
        if forced == "none":
            with oracle.session(graphs):
                assert oracle.relaxation == "none"
        else:
            with pytest.raises(ModelError, match="is not exact"), oracle.session(graphs):
                pass


@pytest.mark.parametrize("kind", sorted(RANKED))
def test_an_approximate_way_needs_fewer_calls_and_misses_nothing(kind):
    torch.manual_seed(0)
    graphs = [sample(s, 9, loops=False, weight="weighted" in kind) for s in range(6)]
    model = RANKED[kind]()
    with torch.no_grad():  # both classes occur, and no graph is far from the boundary
        oracle = Oracle(model)
        with oracle.session(graphs):
            z = oracle.predict(graphs)
        model.lin.bias[0] -= (z[:, 0] - z[:, 1]).median() - 0.01
    plain = {"restarts": 0, "exhaust": 0, "endpoints": 0}
    ranked, blind = (
        ce.XPlore(**plain).explain(model, graphs, edits="edges", relaxation=way, progress=False)
        for way in ("auto", "none")
    )
    for a, b in zip(ranked, blind, strict=True):
        assert a.found >= b.found
        assert (a.relaxation, b.relaxation) == ("approximate (weights)", "none")
    # a graph that the ranked beam does not answer costs more than without the guess: everything is tried after it
    calls = [(a.calls.forward, b.calls.forward) for a, b in zip(ranked, blind, strict=True) if a.found]
    assert sum(a for a, _ in calls) < sum(b for _, b in calls)
    alone = [ce.XPlore(**plain).explain(model, g, edits="edges", progress=False) for g in graphs]
    assert [cf.edits for cf in alone] == [cf.edits for cf in ranked]
    assert [cf.calls for cf in alone] == [cf.calls for cf in ranked]


@pytest.mark.parametrize("tier", ["dense", "weights"])
@pytest.mark.parametrize("kind", sorted(NOT_EXACT))
def test_a_forced_tier_that_is_not_exact_is_refused(kind, tier):
    torch.manual_seed(0)
    oracle = Oracle(NOT_EXACT[kind](), relaxation=tier)
    with pytest.raises(ModelError, match=f"relaxation='{tier}' is not exact"), oracle.session([sample(0, 6)]):
        pass


def test_no_relaxation_when_asked_for_none():
    torch.manual_seed(0)
    oracle = Oracle(Net(GCNConv), relaxation="none")
    with oracle.session([sample(0)]):
        assert oracle.relaxation == "none"


def test_improved_gcn_is_not_exact_with_weights():
    """PyG fills in another self-loop as soon as it gets weights: the probe must see it."""
    torch.manual_seed(0)
    oracle = Oracle(Net(with_options(GCNConv, improved=True)), relaxation="weights")
    with pytest.raises(ModelError, match="not exact"), oracle.session([sample(0)]):
        pass


def test_tiers_refuse_what_they_do_not_understand():
    with pytest.raises(ValueError, match="dense twin needs"):
        DenseTwin(Net(TAGConv))
    with pytest.raises(ValueError, match="dense twin needs"):
        DenseTwin(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="sum and mean"):
        EdgeWeights(Net(with_options(SAGEConv, aggr="max")))


def hooks_of(model):
    return {
        (name, key): len(value)
        for name, m in model.named_modules()
        for key, value in m.__dict__.items()
        if "hook" in key and hasattr(value, "__len__")
    }


@pytest.mark.parametrize("tier", ["dense", "weights"])
def test_hooks_are_gone_after_success_and_after_failure(tier):
    torch.manual_seed(0)
    model, g = Net(GCNConv), sample(0)
    before = hooks_of(model)
    assert any("propagate" in key for _, key in before)
    oracle = Oracle(model, relaxation=tier)
    with oracle.session([g]):
        base = GraphBatch.from_graphs([g])
        inside = hooks_of(model)
        oracle.relaxed(base, torch.zeros(1, dtype=torch.long), base.adj, base.x).sum()
        assert hooks_of(model) == inside
        with pytest.raises(RuntimeError):
            oracle.relaxed(base, torch.zeros(1, dtype=torch.long), base.adj, base.x[:, :, :1])
        assert hooks_of(model) == inside
    assert hooks_of(model) == before
    assert set(before.values()) == {0}
    assert isinstance(model.convs[0], MessagePassing)


# -- kinds of graphs are probed apart ----------------------------------------------------------------------------------


def loose(layer, odd, weighted=False, plain_weight=False):
    """Error of the relaxed pass on ``odd`` when an ordinary smaller graph is what the probe looks at."""
    torch.manual_seed(0)
    small = sample(0, 4, loops=False)
    if plain_weight:
        small.edge_weight = torch.ones(small.edge_index.shape[1], dtype=torch.float64)
    oracle = Oracle(layer if isinstance(layer, nn.Module) else Net(layer, weighted))
    with oracle.session([small, odd]):
        return worst_error(oracle, GraphBatch.from_graphs([odd], [1]))


def test_repeated_self_loops_in_another_graph():
    odd = sample(1, 6)
    loops = odd.edge_index[:, odd.edge_index[0] == odd.edge_index[1]]
    odd.edge_index = torch.cat([odd.edge_index, loops], 1)
    assert loose(GCNConv, odd) < 1e-9


def test_weighted_self_loops_in_another_graph_and_a_layer_without_weights():
    assert loose(gin, sample(1, 6, weight=True), plain_weight=True) < 1e-9


def test_repeated_weighted_edges_in_another_graph_and_a_layer_without_weights():
    assert loose(gin, sample(1, 6, weight=True, repeat=True, loops=False), plain_weight=True) < 1e-9


def test_weighted_mean_in_another_graph():
    odd = sample(1, 6, weight=True, loops=False)
    assert loose(with_options(GraphConv, aggr="mean"), odd, weighted=True, plain_weight=True) < 1e-9


def test_pooling_that_only_larger_graphs_show():
    torch.manual_seed(1)
    even = Data(x=torch.ones(3, F).double(), edge_index=torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]))
    big = sample(1, 12)
    oracle = Oracle(Pooled(0.9))
    with oracle.session([even, big]):
        assert worst_error(oracle, GraphBatch.from_graphs([big], [1])) < 1e-9

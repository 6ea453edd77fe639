import random

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    MLP,
    GATConv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    RGCNConv,
    SAGEConv,
    global_add_pool,
    global_mean_pool,
)

from counteredge.errors import BudgetError, InputError, ModelError
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.untouched import untouched

F, H = 3, 8


def graph(seed, n=5, **extra):
    g = torch.Generator().manual_seed(seed)
    adj = (torch.rand(n, n, generator=g) < 0.5).triu(1)
    adj[0, 1] = True
    adj = adj | adj.t()
    edges = adj.nonzero().t()
    data = Data(x=torch.randn(n, F, generator=g), edge_index=edges)
    for key, width in extra.items():
        rows = edges.shape[1] if "edge" in key else n
        data[key] = torch.rand((rows, width) if width else (rows,), generator=g) + 0.25
    return data


def graphs(count=3, **extra):
    return [graph(s, 4 + s, **extra) for s in range(count)]


class Net(nn.Module):
    def __init__(self, make=GCNConv, out=2, norm=False):
        super().__init__()
        self.convs = nn.ModuleList([make(F, H), make(H, H)])
        self.norm = nn.BatchNorm1d(H) if norm else nn.Identity()
        self.drop = nn.Dropout(0.5)
        self.lin = nn.Linear(H, out)

    def embed(self, x, edge_index, batch, *more):
        for conv in self.convs:
            x = self.drop(self.norm(conv(x, edge_index, *more)).tanh())
        return self.lin(global_add_pool(x, batch))

    def forward(self, x, edge_index, batch):
        return self.embed(x, edge_index, batch)


def edits(base, count=7, seed=0):
    """Random really edited states: pairs removed and inserted, a feature changed."""
    g = torch.Generator().manual_seed(seed)
    row = torch.arange(count) % base.size
    n = base.nodes
    pairs = (base.mask[row][:, :, None] & base.mask[row][:, None, :]).triu(1)
    flips = (torch.rand(count, n, n, generator=g) < 0.3) & pairs
    flips = flips | flips.transpose(1, 2)
    x = base.x[row].clone()
    if x.is_floating_point():
        x[:, 0, 0] += torch.randn(count, generator=g)
    return row, torch.where(flips, 1 - base.adj[row], base.adj[row]), x


def agree(model, made, expected=None, **options):
    """``logits`` on edited states against ``predict`` on the edited graphs; returns the oracle's name for its way."""
    oracle = Oracle(model, **options)
    with oracle.session(made):
        base = GraphBatch.from_graphs(made)
        row, adj, x = edits(base)
        real = [base.to_data(r, adj[k], x[k]) for k, r in enumerate(row.tolist())]
        z = oracle.logits(base, row, adj, x)
        alone = torch.cat([oracle.predict([g]) for g in real])
        assert z.shape == (len(row), oracle.outputs)
        assert z.dtype == torch.float64
        scale = alone.abs().clamp(min=1)
        assert ((z - alone).abs() <= 1e-5 * scale).all()
        assert ((oracle.predict(real) - alone).abs() <= 1e-5 * scale).all()
        assert float((z - z[:1]).abs().max()) > 1e-3, "the states must differ"
        if expected is not None:
            direct = torch.cat([expected(g) for g in real]).double().reshape(len(real), -1)
            assert ((alone - direct).abs() <= 1e-5 * scale).all()
    return oracle.relaxation


# -- R2: no trace -----------------------------------------------------------------------------------------------------


def gcn_with_history():
    """Mixed training flags, one frozen parameter, gradients, a warm cache, batch statistics."""
    torch.manual_seed(0)
    model = Net(lambda a, b: GCNConv(a, b, cached=True), norm=True)
    g = graph(7)
    model.train()
    model(g.x, g.edge_index, torch.zeros(5, dtype=torch.long)).sum().backward()
    model.convs[0].lin.weight.requires_grad_(False)
    model.norm.eval()
    model.convs[1].eval()
    model.lin.bias.grad = None
    return model


def deep(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return tuple(map(deep, value)) if isinstance(value, tuple) else value


def snapshot(model, made):
    found = {}
    for name, m in model.named_modules():
        found[name, "flags"] = m.training
        for key, value in m.__dict__.items():
            if "hook" in key and hasattr(value, "__len__"):
                found[name, key] = len(value)
            elif key.startswith("_cached") or isinstance(value, bool | int | float | str | type(None)):
                found[name, key] = deep(value)
    for name, p in model.named_parameters():
        found[name, "value"], found[name, "requires"] = deep(p), p.requires_grad
        found[name, "grad"], found[name, "id"] = deep(p.grad), id(p)
        found[name, "grad id"] = id(p.grad)
    for name, b in model.named_buffers():
        found[name, "buffer"], found[name, "id"] = deep(b), id(b)
    for k, g in enumerate(made):
        for key, value in g.to_dict().items():
            found[k, key] = deep(value)
    found["torch"] = torch.get_rng_state()
    found["numpy"] = [a.tolist() if isinstance(a, np.ndarray) else a for a in np.random.get_state()]  # noqa: NPY002
    found["random"] = random.getstate()
    return found


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, tuple) and any(isinstance(v, torch.Tensor) for v in a):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def assert_no_trace(before, after):
    assert before.keys() == after.keys()
    assert [k for k in before if not equal(before[k], after[k])] == []


def work(oracle, model, made):
    """Everything an explainer may do, and some things that it should not."""
    base = GraphBatch.from_graphs(made)
    row, adj, x = edits(base)
    oracle.logits(base, row, adj, x)
    x.requires_grad_()
    oracle.relaxed(base, row, adj.requires_grad_(), x).sum().backward()
    oracle.predict(made, range(len(made)))
    g = made[0]
    model(g.x, g.edge_index, torch.zeros(g.x.shape[0], dtype=torch.long)).sum().backward()
    model.train()
    model(g.x, g.edge_index, torch.zeros(g.x.shape[0], dtype=torch.long))
    model.lin.weight.requires_grad_(False)
    torch.rand(3)
    np.random.rand(3)  # noqa: NPY002
    random.random()


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("relaxation", ["auto", "weights", "none"])
def test_no_trace(end, relaxation):
    model, made = gcn_with_history(), graphs()
    before = snapshot(model, made)
    assert before["convs.0", "_cached_edge_index"] is not None
    assert {before["", "flags"], before["norm", "flags"]} == {True, False}
    oracle = Oracle(model, relaxation=relaxation)

    def run():
        with oracle.session(made):
            assert not any(m.training for m in model.modules())
            work(oracle, model, made)
            if end is not None:
                raise end

    if end is None:
        run()
    else:
        with pytest.raises(end):
            run()
    assert_no_trace(before, snapshot(model, made))


def test_no_trace_of_a_model_that_fails_or_of_bad_graphs():
    model, made = gcn_with_history(), graphs()
    wide = [Data(x=torch.ones(3, F + 1), edge_index=made[0].edge_index[:, :0])]
    before = snapshot(model, made)
    with pytest.raises(ModelError), Oracle(model).session(wide):
        pass
    with pytest.raises(InputError), Oracle(model).session([*made, *wide]):
        pass
    assert_no_trace(before, snapshot(model, made))


def test_no_trace_inside_a_failing_pass():
    model, made = gcn_with_history(), graphs()
    before = snapshot(model, made)
    oracle = Oracle(model)
    base = GraphBatch.from_graphs(made)
    with pytest.raises(RuntimeError), oracle.session(made):
        oracle.relaxed(base, torch.arange(3), base.adj, base.x[:, :, :1])
    assert_no_trace(before, snapshot(model, made))


def test_a_stale_cache_does_not_answer():
    model, made = gcn_with_history(), graphs(1)
    fresh = Net(GCNConv, norm=True)
    fresh.load_state_dict(model.state_dict())
    fresh.eval()
    expected = fresh(made[0].x, made[0].edge_index, torch.zeros(4, dtype=torch.long))
    oracle = Oracle(model)
    with oracle.session(made):
        assert torch.allclose(oracle.predict(made), expected.double(), atol=1e-6)


def test_buffers_that_the_model_replaces_come_back():
    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("passes", torch.zeros(1))

        def forward(self, x, edge_index, batch):
            self.passes = self.passes + 1
            return super().forward(x, edge_index, batch)

    model, made = Counting(), graphs()
    before = snapshot(model, made)
    oracle = Oracle(model)
    with oracle.session(made):
        oracle.predict(made)
        assert model.passes > 0
    assert_no_trace(before, snapshot(model, made))


def test_untouched_keeps_gradients_from_a_backward_pass():
    model = gcn_with_history()
    g = graph(1)
    before = snapshot(model, [g])
    with untouched(model):
        model(g.x, g.edge_index, torch.zeros(5, dtype=torch.long)).sum().backward()
        assert model.lin.weight.grad is not None
    assert_no_trace(before, snapshot(model, [g]))


# -- counts -----------------------------------------------------------------------------------------------------------


class Alone(Net):
    """Takes no batch: one graph at a time."""

    def forward(self, x, edge_index):
        return self.embed(x, edge_index, torch.zeros(x.shape[0], dtype=torch.long))


class Whole(Net):
    def forward(self, data):
        return self.embed(data.x, data.edge_index, data.batch)


CALLS = {
    "batch": (Net, {}),
    "alone": (Alone, {}),
    "data": (Whole, {}),
    "forward_fn positional": (Net, {"forward_fn": lambda m, b: m(b.x, b.edge_index, b.batch)}),
    "forward_fn named": (Net, {"forward_fn": lambda m, b: m(x=b.x, edge_index=b.edge_index, batch=b.batch)}),
}


@pytest.mark.parametrize("relaxation", ["auto", "none"])
@pytest.mark.parametrize("way", sorted(CALLS))
def test_seen_is_the_tally(way, relaxation):
    torch.manual_seed(0)
    kind, options = CALLS[way]
    made = graphs()
    oracle = Oracle(kind(), relaxation=relaxation, **options)
    with oracle.session(made):
        assert oracle.seen == 0
        base = GraphBatch.from_graphs(made)
        row, adj, x = edits(base)
        oracle.predict(made, [0, 1, 2])
        oracle.predict([made[1]], [1])
        oracle.logits(base, row, adj, x)
        oracle.relaxed(base, row[:2], adj[:2].requires_grad_(), x[:2].requires_grad_())
        expected = torch.tensor([1, 2, 1]) + torch.bincount(row, minlength=3) + torch.tensor([1, 1, 0])
        assert torch.equal(oracle.forward_calls, expected)
        assert oracle.seen == int(expected.sum())
        oracle.predict(made)  # the harness's own checks: seen, on nobody's bill
        assert torch.equal(oracle.forward_calls, expected)
        assert oracle.seen == int(expected.sum()) + 3


def test_direct_calls_are_seen():
    model, made = Net(), graphs()
    oracle = Oracle(model)
    with oracle.session(made):
        g = made[0]
        model(g.x, g.edge_index, torch.zeros(4, dtype=torch.long))
        model(x=g.x, edge_index=g.edge_index, batch=torch.tensor([0, 0, 1, 1]))
        assert (oracle.seen, oracle.launches) == (3, 2)
        assert oracle.forward_calls.tolist() == [0, 0, 0]
    model(g.x, g.edge_index, torch.zeros(4, dtype=torch.long))
    assert oracle.seen == 3  # no longer watched


def test_backward_calls_and_first_valid():
    made = graphs()
    oracle = Oracle(Net())
    with oracle.session(made):
        base = GraphBatch.from_graphs(made)
        row = torch.tensor([0, 2, 2])
        adj = base.adj[row].requires_grad_()
        z = oracle.relaxed(base, row, adj, base.x[row])
        assert oracle.backward_calls.tolist() == [0, 0, 0]
        torch.autograd.grad(z.sum(), adj)
        assert oracle.backward_calls.tolist() == [1, 0, 2]
        oracle.mark_valid(torch.tensor([2]))
        oracle.predict(made, [0, 1, 2])
        oracle.mark_valid(torch.tensor([0, 2]))
        assert oracle.first_valid.tolist() == [2, 0, 2]
    with oracle.session(made):
        assert oracle.tally.sum() == 0


def test_calls_past_the_oracle_are_charged():
    model, made = Net(), graphs()
    oracle = Oracle(model)
    with oracle.session(made):
        base = GraphBatch.from_graphs(made)
        adj = base.adj.clone().requires_grad_()
        torch.autograd.grad(oracle.relaxed(base, torch.arange(3), adj, base.x).sum(), adj)
        oracle.predict(made, [0, 1, 2])
        oracle.predict(made)  # the harness's own
        oracle.charge_bypassed(torch.arange(3))
        assert oracle.tally.tolist() == [[2, 2, 2], [1, 1, 1], [0, 0, 0]]
        x = torch.ones(4, F, requires_grad=True)
        z = model(x, made[0].edge_index[:, :0], torch.tensor([0, 0, 1, 1]))
        torch.autograd.grad(z.sum(), x)
        oracle.charge_bypassed(torch.tensor([0, 1]))
        assert oracle.tally.tolist() == [[3, 3, 2], [2, 2, 1], [0, 0, 0]]


def test_sub_batches_bill_the_callers_graphs():
    made = graphs()
    oracle = Oracle(Net())
    with oracle.session(made):
        base = GraphBatch.from_graphs(made[1:], [1, 2])
        oracle.logits(base, torch.tensor([0, 0, 1]), base.adj[[0, 0, 1]], base.x[[0, 0, 1]])
        assert oracle.forward_calls.tolist() == [0, 2, 1]


# -- logits is the model on really edited graphs ----------------------------------------------------------------------


def gin(a, b):
    return GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)))


LAYERS = {
    "gcn": (GCNConv, "exact (dense)"),
    "gcn cached": (lambda a, b: GCNConv(a, b, cached=True), "exact (dense)"),
    "gin": (gin, "exact (dense)"),
    "graphconv add": (lambda a, b: GraphConv(a, b, aggr="add"), "exact (dense)"),
    "graphconv mean": (lambda a, b: GraphConv(a, b, aggr="mean"), "exact (dense)"),
    "sage mean": (SAGEConv, "exact (dense)"),
    "sage sum": (lambda a, b: SAGEConv(a, b, aggr="sum"), "exact (dense)"),
    "gat": (GATConv, "exact (weights)"),
    "sage max": (lambda a, b: SAGEConv(a, b, aggr="max"), "approximate (weights)"),
}


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_logits(layer):
    torch.manual_seed(0)
    make, relaxation = LAYERS[layer]
    assert agree(Net(make), graphs()) == relaxation


@pytest.mark.parametrize("layer", ["gcn", "gcn cached", "gat"])
def test_logits_without_relaxation_and_by_weights(layer):
    torch.manual_seed(0)
    assert agree(Net(LAYERS[layer][0]), graphs(), relaxation="none") == "none"


@pytest.mark.parametrize("layer", ["gcn", "gat"])
def test_small_memory_gives_the_same(layer):
    torch.manual_seed(0)
    model, made = Net(LAYERS[layer][0]), graphs()
    found, launches = [], []
    for memory in (1 << 30, 40_000):
        oracle = Oracle(model, memory=memory)
        with oracle.session(made):
            base = GraphBatch.from_graphs(made)
            row, adj, x = edits(base, 30)
            before = oracle.launches
            found.append(oracle.logits(base, row, adj, x))
            launches.append(oracle.launches - before)
    assert launches[0] == 1
    assert launches[1] >= 3
    assert torch.allclose(found[0], found[1], atol=1e-12)


def test_no_candidates_and_no_memory():
    made = graphs()
    oracle = Oracle(Net(), memory=1000)
    with oracle.session(made):
        base = GraphBatch.from_graphs(made)
        with pytest.raises(BudgetError, match=r"graph with 6 nodes needs about 0 MiB, .* raise memory="):
            oracle.logits(base, torch.arange(3), base.adj, base.x)
    oracle = Oracle(Net())
    with oracle.session(made):
        assert oracle.logits(base, torch.arange(0), base.adj[:0], base.x[:0]).shape == (0, 2)


# -- ways to be called ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", sorted(CALLS))
def test_ways_to_be_called(way):
    torch.manual_seed(0)
    kind, options = CALLS[way]
    model = kind().eval()
    zeros = lambda g: torch.zeros(g.x.shape[0], dtype=torch.long)  # noqa: E731
    assert agree(model, graphs(), lambda g: model.embed(g.x, g.edge_index, zeros(g)), **options) == "exact (dense)"


class Weighted(Net):
    def forward(self, x, edge_index, edge_weight, batch):
        return self.embed(x, edge_index, batch, edge_weight)


class MaybeWeighted(Net):
    def forward(self, x, edge_index, batch=None, edge_weight=None):
        return self.embed(x, edge_index, batch, edge_weight)


class WholeWeighted(Net):
    def forward(self, data):
        return self.embed(data.x, data.edge_index, data.batch, data.edge_weight)


@pytest.mark.parametrize("kind", [Weighted, MaybeWeighted, WholeWeighted])
@pytest.mark.parametrize("layer", ["gcn", "graphconv add"])
def test_edge_weight(kind, layer):
    torch.manual_seed(0)
    model = kind(LAYERS[layer][0]).eval()

    def direct(g):
        return model.embed(g.x, g.edge_index, torch.zeros(g.x.shape[0], dtype=torch.long), g.edge_weight)

    assert agree(model, graphs(edge_weight=0), direct) == "exact (dense)"


def test_optional_edge_weight_is_none_where_the_data_has_none():
    assert agree(MaybeWeighted().eval(), graphs()) == "exact (dense)"


class Gine(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GINEConv(MLP([F, H, H], norm=None), edge_dim=2)
        self.lin = nn.Linear(H, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        return self.lin(global_mean_pool(self.conv(x, edge_index, edge_attr), batch))


class WholeGine(Gine):
    def forward(self, data):
        return super().forward(data.x, data.edge_index, data.edge_attr, data.batch)


@pytest.mark.parametrize("kind", [Gine, WholeGine])
def test_edge_attr(kind):
    torch.manual_seed(0)
    model = kind().eval()
    conv, lin = model.conv, model.lin

    def direct(g):
        zero = torch.zeros(g.x.shape[0], dtype=torch.long)
        return lin(global_mean_pool(conv(g.x, g.edge_index, g.edge_attr), zero))

    agree(model, graphs(edge_attr=2), direct)


def test_missing_edge_attr_is_named():
    oracle = Oracle(Gine())
    with pytest.raises(ModelError, match="'edge_attr', which the graphs do not have"), oracle.session(graphs()):
        pass


def test_extra_node_attribute():
    class Placed(Net):
        def forward(self, x, edge_index, pos, batch):
            return self.embed(x + pos, edge_index, batch)

    torch.manual_seed(0)
    model = Placed().eval()

    def direct(g):
        return model.embed(g.x + g.pos, g.edge_index, torch.zeros(g.x.shape[0], dtype=torch.long))

    assert agree(model, graphs(pos=F), direct) == "exact (dense)"


@pytest.mark.parametrize("whole", [False, True])
def test_edge_type(whole):
    class Relational(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = RGCNConv(F, 2, 2)

        def forward(self, x, edge_index, edge_type, batch):
            return global_add_pool(self.conv(x, edge_index, edge_type), batch)

    made = graphs()
    for g in made:
        g.edge_type = (g.edge_index.sum(0) % 2).long()
    call = {"forward_fn": lambda m, b: m(b.x, b.edge_index, b.edge_type, b.batch)} if whole else {}
    agree(Relational(), made, **call)


def test_number_of_graphs_is_passed_on():
    class Counted(Net):
        def forward(self, x, edge_index, batch, num_graphs):
            assert num_graphs == int(batch.max()) + 1
            return self.embed(x, edge_index, batch)

    agree(Counted(), graphs())


def test_tuple_output():
    class Two(Net):
        def forward(self, x, edge_index, batch):
            return x, self.embed(x, edge_index, batch)

    torch.manual_seed(0)
    assert agree(Two(), graphs(), output_fn=lambda out: out[1]) == "exact (dense)"
    with pytest.raises(ModelError, match="returned a tuple; pass output_fn"), Oracle(Two()).session(graphs()):
        pass


@pytest.mark.parametrize("out", [1, 3])
def test_squeezed_outputs(out):
    class Squeezed(Net):
        def forward(self, x, edge_index, batch):
            return self.embed(x, edge_index, batch).squeeze()

    torch.manual_seed(0)
    agree(Squeezed(out=out), graphs())
    oracle = Oracle(Squeezed(out=out))
    with oracle.session(graphs()):
        assert oracle.outputs == out
        assert oracle.decision.task == ("binary" if out == 1 else "multiclass")


def test_binary_head():
    assert agree(Net(out=1), graphs()) == "exact (dense)"


def test_double_model_with_single_graphs():
    torch.manual_seed(0)
    model = Net().double()
    assert agree(model, graphs()) == "exact (dense)"
    made = graphs()
    oracle = Oracle(model)
    with oracle.session(made):
        assert oracle.precision == torch.float64
        oracle.predict(made)


def test_integer_features_into_an_embedding():
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.conv, self.lin = nn.Embedding(5, H), GCNConv(H, H), nn.Linear(H, 2)

        def forward(self, x, edge_index, batch):
            return self.lin(global_add_pool(self.conv(self.table(x), edge_index).relu(), batch))

    torch.manual_seed(0)
    made = graphs()
    for g in made:
        g.x = torch.arange(g.x.shape[0]) % 5
    assert agree(Embedded(), made) == "exact (dense)"


def test_a_model_that_insists_on_single_precision():
    class Single(Net):
        def forward(self, x, edge_index, batch):
            return self.embed(x.float(), edge_index, batch)

    made = graphs()
    oracle = Oracle(Single())
    with oracle.session(made):
        assert oracle.precision == torch.float32
    agree(Single(), made)


def test_a_model_that_ignores_edges():
    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(F, 2)

        def forward(self, x, edge_index, batch):
            return self.lin(global_add_pool(x, batch))

    oracle = Oracle(Blind())
    with oracle.session(graphs()):
        assert not oracle.way(GraphBatch.from_graphs(graphs())).edges_matter
    oracle = Oracle(Net())
    with oracle.session(graphs()):
        assert oracle.way(GraphBatch.from_graphs(graphs())).edges_matter


# -- what is refused --------------------------------------------------------------------------------------------------


class NodeLevel(Net):
    def forward(self, x, edge_index, batch):
        return self.lin(self.convs[0](x, edge_index))


class SqueezedNodeLevel(NodeLevel):
    def forward(self, x, edge_index, batch):
        return super().forward(x, edge_index, batch)[:, 0]


class Random(Net):
    def forward(self, x, edge_index, batch):
        return self.embed(x, edge_index, batch) + torch.rand(1)


class NaN(Net):
    def forward(self, x, edge_index, batch):
        return self.embed(x, edge_index, batch) * float("nan")


class Infinite(Net):
    def forward(self, x, edge_index, batch):
        return self.embed(x, edge_index, batch) / 0


class Cube(Net):
    def forward(self, x, edge_index, batch):
        return self.embed(x, edge_index, batch)[None]


class Broken(Net):
    def forward(self, x, edge_index, batch):
        raise ValueError("my own fault")


class Untold(Net):
    def forward(self, x, edge_index, batch, charge):
        return self.embed(x, edge_index, batch)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NodeLevel, "4 rows for one graph with 4 nodes: it predicts nodes"),
        (SqueezedNodeLevel, "4 rows for one graph with 4 nodes: it predicts nodes"),
        (Random, "answers differently on the same graph in eval mode"),
        (NaN, "NaN or infinite logits"),
        (Infinite, "NaN or infinite logits"),
        (Cube, r"returned shape \(1, 1, 2\)"),
        (Broken, r"my own fault.*forward\(x, edge_index, batch\); pass forward_fn"),
        (Untold, "'charge', which the graphs do not have"),
    ],
)
def test_models_that_are_refused(kind, said):
    model, made = kind(), graphs()
    before = snapshot(model, made)
    with pytest.raises(ModelError, match=said), Oracle(model).session(made):
        pass
    assert_no_trace(before, snapshot(model, made))


def test_dropout_left_in_train_mode_is_no_randomness():
    agree(Net().train(), graphs())


def test_signature_that_says_nothing():
    class Odd(nn.Module):
        def forward(self, nodes, arcs):
            return nodes

    with pytest.raises(ModelError, match=r"Odd.forward takes \(nodes, arcs\).*Pass forward_fn"):
        Oracle(Odd())


def test_lazy_parameters():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.LazyLinear(2)

        def forward(self, x, edge_index, batch):
            return self.lin(x)

    with pytest.raises(ModelError, match="run it once first"):
        Oracle(Lazy())


def test_options_that_are_refused():
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, or a function .* got int"):
        Oracle(3)
    with pytest.raises(InputError, match="relaxation='exact' is unknown"):
        Oracle(Net(), relaxation="exact")
    for options, said in (
        ({"desired": 2}, "desired=2 must be some"),
        ({"task": "binary"}, "read from one output"),
        ({"desired": (0, 1)}, "read from one output"),
    ):
        with pytest.raises(InputError, match=said), Oracle(Net(), **options).session(graphs()):
            pass


def test_another_device():
    oracle = Oracle(Net().to("meta"))
    with pytest.raises(InputError, match="the model is on meta but the graphs are on cpu"), oracle.session(graphs()):
        pass


def test_graphs_that_are_refused():
    good = graphs(2)
    bad = graph(5)
    bad.x[2, 1] = float("nan")
    with pytest.raises(InputError, match="graph 2: x holds NaN or infinity at node 2, column 1"):
        Oracle(Net()).session([*good, bad]).__enter__()
    with pytest.raises(InputError, match="the graph: x holds NaN"):
        Oracle(Net()).session([bad]).__enter__()
    wide = Data(x=torch.ones(3, 7), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match=r"different numbers of feature columns: \[3, 7\]"):
        Oracle(Net()).session([*good, wide]).__enter__()
    with pytest.raises(ModelError, match=r"graph with x \(3, 7\) torch.float32 failed"):
        Oracle(Net()).session([wide]).__enter__()


@pytest.mark.parametrize("key", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("first", [0, 1])
def test_attributes_that_only_some_graphs_have(key, first):
    """One pass over both would drop the weights of one of them, or fail."""
    made = [graph(0), graph(1)]
    made[first][key] = torch.full((made[first].edge_index.shape[1],), 2.0)
    with pytest.raises(InputError, match=f"graph {1 - first} has no {key} but others do"):
        Oracle(MaybeWeighted()).session(made).__enter__()

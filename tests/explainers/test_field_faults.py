"""Faults that users of this field report (threads of PyG, DIG, DiCE, ...), each asked of XPlore."""

import copy
import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import (
    ARMAConv,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    RGCNConv,
    SAGEConv,
    SAGPooling,
    TAGConv,
    TopKPooling,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

import counteredge as ce

CONVS = {
    "gcn": lambda: GCNConv(4, 8),
    "sage": lambda: SAGEConv(4, 8),
    "gin": lambda: GINConv(nn.Linear(4, 8)),
    "gat": lambda: GATConv(4, 8),
    "gatv2": lambda: GATv2Conv(4, 8),
    "cheb": lambda: ChebConv(4, 8, K=2),
    "arma": lambda: ARMAConv(4, 8),
    "tag": lambda: TAGConv(4, 8),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Tiny tensors: a second thread only costs time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def arcs(*edges):
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous()


def pairs(*edges):
    return arcs(*(e for i, j in edges for e in ((i, j), (j, i))))


def s6(**attributes):
    """The path 0-1-2-3-4-5 with four random columns."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    return Data(x=x, edge_index=pairs(*((i, i + 1) for i in range(5))), **attributes)


class Net(nn.Module):
    def __init__(self, conv="gcn", outputs=2, pool=global_mean_pool):
        super().__init__()
        torch.manual_seed(0)
        self.conv = (CONVS[conv] if isinstance(conv, str) else conv)()
        self.lin = nn.Linear(8, outputs)
        self.pool = pool

    def head(self, h, batch):
        return self.lin(self.pool(h.relu(), batch))

    def forward(self, x, edge_index, batch):
        return self.head(self.conv(x, edge_index), batch)


class Bonds(Net):
    """Takes three numbers an edge."""

    def __init__(self):
        super().__init__(lambda: GINEConv(nn.Linear(4, 8), edge_dim=3))

    def forward(self, x, edge_index, edge_attr, batch):
        return self.head(self.conv(x, edge_index, edge_attr), batch)


class Constant(Net):
    """Looks at everything, answers class 0 always."""

    def forward(self, x, edge_index, batch):
        return 0 * super().forward(x, edge_index, batch) + torch.tensor([1.0, 0.0], dtype=x.dtype)


class Edges(nn.Module):
    """Class 1 exactly when the graph has at least ``least`` arcs."""

    def __init__(self, least):
        super().__init__()
        self.least = least

    def forward(self, x, edge_index, batch):
        count = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).double()
        return torch.stack([torch.full_like(count, self.least - 0.5), count], 1)


def single(model, g):
    return model(g.x, g.edge_index, torch.zeros(len(g.x), dtype=torch.long))


def near(model, graph, call=single, to=0.02):
    """The model with its last bias shifted so that ``graph`` lies close to the boundary."""
    mode = model.training
    with torch.no_grad():
        model.lin.bias -= call(model.eval(), graph).reshape(-1)
        model.lin.bias[0] += to * float(model.lin.weight.abs().mean())
    return model.train(mode)


def label(z):
    return int(z.reshape(-1).argmax())


def solve(model, graph, call=single, explainer=None, read=label, **options):
    """A counterfactual, checked on a deep copy of the untouched model."""
    fresh = copy.deepcopy(model).eval()
    cf = (explainer or ce.XPlore()).explain(model, graph, progress=False, **options)
    assert cf.found, cf.reason
    with torch.no_grad():
        assert read(call(fresh, cf.data)) != read(call(fresh, graph))
    structure_holds(graph, cf)
    return cf


def structure_holds(graph, cf):
    """Gate R4: symmetric, the user's self-loops, aligned attributes, the same nodes and dtypes."""
    data = cf.data
    assert data.x.shape == graph.x.shape
    assert data.x.dtype == graph.x.dtype
    src, dst = data.edge_index
    before = graph.edge_index
    assert sorted(src[src == dst].tolist()) == sorted(before[0][before[0] == before[1]].tolist())
    if not cf.edits.directed:
        assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == sorted(
            zip(dst.tolist(), src.tolist(), strict=True)
        )
    for key in ("edge_attr", "edge_weight", "edge_type"):
        if graph.get(key) is not None:
            assert data[key].shape == (len(src), *graph[key].shape[1:])
            assert data[key].dtype == graph[key].dtype


def numbers(width, lo=-2.0, hi=2.0):
    return ce.FeatureSchema(tuple(ce.Column("continuous", lo=lo, hi=hi) for _ in range(width)))


# -- layers and pooling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [False, True], ids=["plain", "loops"])
@pytest.mark.parametrize("conv", CONVS)
def test_layers_with_and_without_self_loops_in_the_data(conv, loops):
    g = s6()
    if loops:
        g.edge_index = torch.cat([g.edge_index, arcs((0, 0), (3, 3))], 1)
    solve(near(Net(conv), g), g)


@pytest.mark.parametrize("conv", CONVS)
def test_an_isolated_node_and_a_node_that_loses_its_last_edge(conv):
    g = s6()
    g.edge_index = pairs((0, 1), (2, 3), (3, 4))  # 5 is isolated, 0 and 1 hang on one edge
    cf = solve(near(Net(conv), g), g)
    assert torch.isfinite(cf.data.x).all()
    only = ce.EditSpace(add_edges=False, features=False)
    cf = ce.XPlore().explain(near(Net(conv), g), g, edits=only, progress=False)
    assert cf.found or cf.reason.startswith("no answer within")


@pytest.mark.parametrize("conv", CONVS)
def test_one_node_without_edges(conv):
    g = Data(x=s6().x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long))
    solve(near(Net(conv), g), g, edits=ce.EditSpace(schema=numbers(4)))


@pytest.mark.parametrize("pooling", [TopKPooling, SAGPooling])
def test_pooling_that_drops_nodes(pooling):
    class Pooled(Net):
        def __init__(self):
            super().__init__()
            self.top, self.deep = pooling(8, ratio=0.5), GCNConv(8, 8)

        def forward(self, x, edge_index, batch):
            h, edge_index, _, batch, _, _ = self.top(self.conv(x, edge_index), edge_index, batch=batch)
            return self.lin(self.pool(self.deep(h, edge_index), batch))

    g = s6()
    cf = solve(near(Pooled(), g), g)
    assert cf.relaxation == "none"


def test_a_gat_model_can_insert_edges():
    g = s6()
    cf = solve(near(Net("gat"), g), g, edits=ce.EditSpace(remove_edges=False, features=False))
    assert cf.edits.added


def test_relations_follow_their_edges():
    class Relations(Net):
        def __init__(self):
            super().__init__(lambda: RGCNConv(4, 8, 2))

        def forward(self, x, edge_index, edge_type, batch):
            return self.head(self.conv(x, edge_index, edge_type), batch)

    class Whole(Relations):
        def forward(self, data):
            return super().forward(data.x, data.edge_index, data.edge_type, data.batch)

    g = s6(edge_type=torch.tensor([0, 0, 1, 1, 0, 0, 1, 1, 1, 1]))
    first = lambda m, g: m(g.x, g.edge_index, g.edge_type, torch.zeros(6, dtype=torch.long))  # noqa: E731
    whole = lambda m, g: m(Batch.from_data_list([g]))  # noqa: E731
    space = ce.EditSpace(remove_edges=False, features=False)
    a = solve(near(Relations(), g, first), g, first, edits=space)
    b = solve(near(Whole(), g, whole), g, whole, edits=space)
    assert a.edits == b.edits
    assert a.edits.added
    kept = {(i, j): t for i, j, t in zip(*g.edge_index.tolist(), g.edge_type.tolist(), strict=True)}
    for i, j, t in zip(*a.data.edge_index.tolist(), a.data.edge_type.tolist(), strict=True):
        assert t == kept.get((i, j), 1)  # a new edge is of the graph's most frequent relation


def test_edge_attributes_follow_their_edges():
    g = s6(edge_attr=torch.randn(10, 3, generator=torch.Generator().manual_seed(5)))
    call = lambda m, g: m(g.x, g.edge_index, g.edge_attr, torch.zeros(6, dtype=torch.long))  # noqa: E731
    cf = solve(near(Bonds(), g, call), g, call, edits="edges")
    kept = dict(zip(zip(*g.edge_index.tolist(), strict=True), g.edge_attr, strict=True))
    for edge, row in zip(zip(*cf.data.edge_index.tolist(), strict=True), cf.data.edge_attr, strict=True):
        if edge in kept:
            assert torch.equal(row, kept[edge])


def test_inserted_attributes_have_the_shape_even_when_there_is_no_edge():
    g = Data(x=s6().x, edge_index=torch.zeros(2, 0, dtype=torch.long), edge_attr=torch.zeros(0, 3))
    call = lambda m, g: m(g.x, g.edge_index, g.edge_attr, torch.zeros(6, dtype=torch.long))  # noqa: E731
    cf = solve(near(Bonds(), g, call, to=-0.02), g, call, edits="edges")
    assert cf.edits.added
    assert cf.data.edge_attr.shape == (2 * len(cf.edits.added), 3)


def test_a_stale_cache_is_never_asked():
    g = s6()
    cached = near(Net(lambda: GCNConv(4, 8, cached=True)), g)
    single(cached, s6())  # fills the cache
    assert cached.conv._cached_edge_index is not None
    kept = cached.conv._cached_edge_index
    plain = near(Net(), g)
    plain.load_state_dict(cached.state_dict())
    cf = ce.XPlore().explain(cached, g, edits="edges", progress=False)
    assert cf.found
    assert label(single(plain, cf.data)) != label(single(plain, g))
    assert cached.conv._cached_edge_index is kept
    assert cached.conv.cached
    other = Data(x=s6().x[:4], edge_index=pairs((0, 1), (2, 3)))  # another size than the cache's
    assert ce.XPlore().explain(cached, other, progress=False).original is other


def test_two_models_give_two_explanations():
    g = s6()
    first, second = near(Net(), g), Net()
    with torch.no_grad():
        second.conv.lin.weight.mul_(-1)
    near(second, g)
    assert solve(first, g).edits != solve(second, g).edits


# -- heads and signatures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_binary_heads_of_every_shape(shape):
    class Binary(Net):
        def forward(self, x, edge_index, batch):
            z = super().forward(x, edge_index, batch)
            return z.reshape(shape) if len(z) == 1 else z.reshape(len(z), *shape[1:])

    read = lambda z: float(z) > 0  # noqa: E731
    for g in (s6(), Data(x=s6().x[:2], edge_index=pairs((0, 1)))):
        model = near(Binary(outputs=1), g)
        cf = solve(model, g, read=read)
        assert {cf.before.label, cf.after.label} == {0, 1}
        assert 0 <= cf.before.probability <= 1
        there = ce.XPlore().explain(model, g, desired=cf.before.label, progress=False)
        assert "already" in there.reason


@pytest.mark.parametrize("pool", [global_add_pool, global_mean_pool, global_max_pool])
def test_batch_absent_and_batch_of_zeros_give_the_same(pool):
    class Optional(Net):
        def forward(self, x, edge_index, batch=None):
            return super().forward(x, edge_index, batch)

    class Absent(Net):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index, None)

    g = s6()
    answers = []
    for kind, call in ((Net, single), (Optional, single), (Absent, lambda m, g: m(g.x, g.edge_index))):
        answers.append(solve(near(kind(pool=pool), g, call), g, call).edits)
    assert answers[0] == answers[1] == answers[2]


def test_a_model_that_takes_the_whole_data():
    class Whole(Net):
        def forward(self, data):
            assert data.num_graphs == int(data.batch.max()) + 1
            return super().forward(data.x, data.edge_index, data.batch)

    g = s6()
    call = lambda m, g: m(Batch.from_data_list([g]))  # noqa: E731
    cf = solve(near(Whole(), g, call), g, call)
    assert cf.edits == solve(near(Net(), g), g).edits
    assert cf.edits == solve(near(Net(), g), g, forward_fn=lambda m, b: m(b.x, b.edge_index, b.batch)).edits


def test_a_batch_of_three_is_three_single_answers():
    graphs = [s6(), Data(x=s6().x[:4], edge_index=pairs((0, 1), (1, 2))), s6()]
    graphs[2].x = graphs[2].x.flip(0)
    model = near(Net(), graphs[0])
    space = ce.EditSpace(schema=numbers(4))
    together = ce.XPlore().explain(model, Batch.from_data_list(graphs), edits=space, progress=False)
    for g, cf in zip(graphs, together, strict=True):
        alone = ce.XPlore().explain(model, g, edits=space, progress=False)
        assert (alone.edits, alone.stage, alone.calls, alone.found) == (cf.edits, cf.stage, cf.calls, cf.found)


def test_multilabel_changes_some_bit():
    g = s6()
    bits = lambda z: (z > 0).tolist()  # noqa: E731
    model = near(Net(outputs=3), g)
    with torch.no_grad():
        model.lin.bias += torch.tensor([0.0, 0.02, -0.02])  # no logit at zero itself
    cf = solve(model, g, read=bits, task="multilabel")
    assert len(cf.before.label) == 3


def test_regression_reaches_the_wished_range():
    g = s6()
    model = near(Net(outputs=1), g)
    start = single(model.eval(), g).item()
    for lo, hi in ((start + 0.05, start + 0.2), (start - 0.2, start - 0.05)):
        inside = lambda z, lo=lo, hi=hi: lo <= float(z) <= hi  # noqa: E731
        cf = solve(model, g, desired=(lo, hi), read=inside)
        assert cf.before.label == pytest.approx(start, abs=1e-6)
        assert lo <= cf.after.label <= hi


def test_target_class():
    g = s6()
    model = near(Net(outputs=3), g)
    before = label(single(model.eval(), g))
    for target in {0, 1, 2} - {before}:
        cf = solve(model, g, desired=target)
        assert cf.after.label == target


# -- modes, traces, determinism --------------------------------------------------------------------------------------


class Stochastic(Net):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)

    def forward(self, x, edge_index, batch):
        return self.head(self.drop(self.norm(self.conv(x, edge_index))), batch)


@pytest.mark.parametrize("graph", [s6(), Data(x=s6().x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long))])
def test_batch_norm_and_dropout_in_train_mode(graph):
    model = near(Stochastic(), graph).train()
    model.norm.eval()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    modes = {name: m.training for name, m in model.named_modules()}
    solve(model, graph, edits=ce.EditSpace(schema=numbers(4)))
    assert {name: m.training for name, m in model.named_modules()} == modes
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_nothing_is_left_behind():
    g = s6()
    model = near(Net(), g)
    grads = {n: torch.ones_like(p) for n, p in model.named_parameters() if n == "lin.weight"}
    model.lin.weight.grad = grads["lin.weight"]
    model.lin.bias.requires_grad_(False)
    x, edge_index = g.x.clone(), g.edge_index.clone()
    states = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    solve(model, g)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert str(np.random.get_state()) == states[1]  # noqa: NPY002
    assert torch.equal(g.x, x)
    assert torch.equal(g.edge_index, edge_index)
    assert model.lin.weight.grad is grads["lin.weight"]
    assert torch.equal(grads["lin.weight"], torch.ones_like(model.lin.weight))
    assert model.conv.lin.weight.grad is None
    assert not model.lin.bias.requires_grad
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert all(m.explain is None for m in model.modules() if isinstance(m, GCNConv))


def test_an_exception_leaves_nothing_behind_either():
    class Tires(Net):
        calls = 0

        def forward(self, x, edge_index, batch):
            type(self).calls += 1
            if self.calls > 6:
                raise KeyboardInterrupt
            return super().forward(x, edge_index, batch)

    g = s6()
    model = near(Tires(), g).train()
    with pytest.raises(KeyboardInterrupt):
        ce.XPlore().explain(model, g, progress=False)
    assert model.training
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert not model.conv._propagate_forward_pre_hooks
    assert all(p.grad is None for p in model.parameters())


def test_pygs_explainer_before_and_after():
    g = s6()
    model = near(Net(), g).eval()
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}

    def theirs(m):
        torch.manual_seed(1)
        explainer = Explainer(m, GNNExplainer(epochs=5), "model", config, "attributes", "object")
        out = explainer(g.x, g.edge_index, batch=torch.zeros(6, dtype=torch.long))
        return out.node_mask, out.edge_mask

    alone = theirs(copy.deepcopy(model))
    ours = ce.XPlore().explain(copy.deepcopy(model), g, progress=False).to_json(timings=False)
    for got, wanted in zip(theirs(model), alone, strict=True):
        assert torch.equal(got, wanted)
    assert ce.XPlore().explain(model, g, progress=False).to_json(timings=False) == ours
    for got, wanted in zip(theirs(model), alone, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("preset", ["minimal", "paper"])
def test_same_seed_same_json(preset):
    g = s6()
    model = near(Net(), g)

    def run():
        return ce.XPlore(preset=preset, seed=3).explain(model, g, progress=False).to_json(timings=False)

    first = run()
    torch.manual_seed(99)
    torch.rand(7)
    assert run() == first
    try:
        torch.use_deterministic_algorithms(True)
        assert run() == first
    finally:
        torch.use_deterministic_algorithms(False)


def test_same_json_in_another_process(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import counteredge as ce\n"
        "from test_field_faults import Net, near, s6\n"
        "g = s6()\n"
        "print(ce.XPlore(seed=3).explain(near(Net(), g), g, progress=False).to_json(timings=False))\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    env = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), here], capture_output=True, text=True, env=env, check=True
    )
    g = s6()
    assert out.stdout.strip() == ce.XPlore(seed=3).explain(near(Net(), g), g, progress=False).to_json(timings=False)


@pytest.mark.parametrize(("data", "model"), [(torch.float64, torch.float32), (torch.float32, torch.float64)])
def test_double_against_float(data, model):
    g = s6()
    net = near(Net(), g).to(model)
    given = Data(x=g.x.to(data), edge_index=g.edge_index)
    cf = solve(net, given, lambda m, g: m(g.x.to(model), g.edge_index, torch.zeros(6, dtype=torch.long)))
    assert cf.data.x.dtype == data


# -- shapes of graphs ------------------------------------------------------------------------------------------------


def test_self_loops_stay_and_are_never_edited():
    g = s6()
    g.edge_index = torch.cat([arcs((2, 2)), g.edge_index, arcs((5, 5))], 1)
    g.edge_weight = torch.arange(1.0, 13.0)
    cf = solve(near(Net("gat"), g), g, edits="edges")
    assert all(i < j for i, j in (*cf.edits.added, *cf.edits.removed))
    src, dst = cf.data.edge_index
    assert cf.data.edge_weight[src == dst].tolist() == [1.0, 12.0]
    assert ce.XPlore().explain(near(Net(), g), g, progress=False).original.edge_index is g.edge_index


def test_an_undirected_edit_counts_once_and_moves_both_arcs():
    g = s6()
    cf = solve(Edges(least=12), g)
    assert len(cf.edits) == cf.edits.edge_count == 1
    assert cf.data.edge_index.shape[1] == 12
    assert cf.edit_ratio == pytest.approx(1 / (6 + 5))


def test_a_directed_cycle_is_edited_by_single_arcs():
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


def test_uneven_duplicates_do_not_make_a_graph_directed():
    g = s6()
    g.edge_index = torch.cat([g.edge_index, arcs((0, 1))], 1)  # 0 -> 1 twice, 1 -> 0 once: PyG says directed
    cf = ce.XPlore().explain(near(Net(), g), g, edits="edges", progress=False)
    assert cf.found
    assert not cf.edits.directed


@pytest.mark.parametrize("loops", [0, 2], ids=["cycle", "with loops"])
def test_as_many_arcs_as_nodes(loops):
    n = 6
    g = Data(x=s6().x, edge_index=pairs((0, 1), (2, 3), (4, 5)), z=torch.arange(n))
    if loops:
        g.edge_index = torch.cat([pairs((0, 1), (2, 3)), arcs((4, 4), (5, 5))], 1)
    assert g.edge_index.shape[1] == n
    cf = solve(near(Net(), g), g)
    assert torch.equal(cf.data.z, g.z)


def test_graph_with_one_edge():
    g = Data(x=s6().x[:2], edge_index=pairs((0, 1)), y=torch.tensor([1]), edge_weight=torch.tensor([0.5, 0.5]))
    cf = solve(Edges(least=2), g)
    assert cf.edits.removed == ((0, 1),)
    assert cf.data.edge_weight.shape == (0,)
    assert cf.data.y.tolist() == [1]


def test_no_graph_is_skipped_silently():
    graphs = [s6(), Data(x=torch.ones(40, 4), edge_index=pairs(*((i, i + 1) for i in range(39)))), s6()]
    answers = ce.XPlore(restarts=0).explain(Edges(least=80), graphs, edits="edges", progress=False)
    assert [cf.index for cf in answers] == [0, 1, 2]
    assert answers[1].found


# -- features and constraints ----------------------------------------------------------------------------------------


class Embedded(Net):
    def __init__(self):
        super().__init__(lambda: GCNConv(8, 8))
        self.table = nn.Embedding(5, 8)

    def forward(self, x, edge_index, batch):
        return super().forward(self.table(x).reshape(len(x), 8), edge_index, batch)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_indices_into_an_embedding_stay_indices(shape):
    g = Data(x=torch.tensor([0, 1, 2, 3, 4, 1]).reshape(shape), edge_index=s6().edge_index)
    cf = solve(near(Embedded(), g), g)
    assert cf.data.x.dtype == torch.long
    assert torch.equal(cf.data.x, g.x)
    for preset in ("minimal", "paper"):  # every stage of the search, none of which finds anything
        explainer = ce.XPlore(preset=preset, features="freedom" if preset == "paper" else None)
        stuck = explainer.explain(near(Embedded(), g, to=1e4), g, progress=False)
        assert not stuck.found


def onehot_graph():
    x = torch.cat([torch.eye(3)[torch.tensor([0, 1, 2, 0, 1, 2])], s6().x[:, :1]], 1)
    return Data(x=x, edge_index=s6().edge_index)


def test_one_hot_groups_stay_one_hot():
    g = onehot_graph()
    inferred = ce.FeatureSchema.infer([g.x])
    assert [c.kind for c in inferred.columns] == ["onehot", "onehot", "onehot", "continuous"]
    cf = solve(near(Net(), g, to=0.3), g, edits="features")
    assert cf.edits.feature_count
    group = cf.data.x[:, :3]
    assert ((group == 0) | (group == 1)).all()
    assert (group.sum(1) == 1).all()
    assert any(len(e.columns) == 2 for e in cf.edits.features), "no swap was made: the test says nothing"


def test_what_is_frozen_is_bit_identical():
    g = s6()
    space = ce.EditSpace(
        schema=numbers(4), frozen_nodes=[0], frozen_edges=[(2, 3), (3, 5)], frozen_features=[1], remove_edges=False
    )
    cf = solve(near(Net(), g, to=1.5), g, edits=space)
    assert len(cf.edits) > 1
    assert torch.equal(cf.data.x[0], g.x[0])
    assert torch.equal(cf.data.x[:, 1], g.x[:, 1])
    assert not cf.edits.removed
    assert all(0 not in pair and pair != (3, 5) for pair in cf.edits.added)


@pytest.mark.parametrize("node", range(5))
def test_edges_of_a_frozen_node_are_frozen(node):
    """All insertions are equally good to this model, so the first that is allowed is taken."""
    cf = solve(Edges(least=12), s6(), edits=ce.EditSpace(frozen_nodes=[node], remove_edges=False))
    assert all(node not in pair for pair in cf.edits.added)
    cf = solve(Edges(least=12), s6(), edits=ce.EditSpace(frozen_nodes=lambda g: [node, 5], remove_edges=False))
    assert all(node not in pair and 5 not in pair for pair in cf.edits.added)


@pytest.mark.parametrize("shrink", [False, True])
def test_bounds_on_some_columns_only(shrink):
    g = s6()
    inferred = ce.FeatureSchema.infer([g.x])
    tight = replace(inferred.columns[2], lo=-0.25, hi=0.25)
    schema = ce.FeatureSchema((*inferred.columns[:2], tight, inferred.columns[3]))
    space = ce.EditSpace(schema=schema, add_edges=False, remove_edges=False)
    cf = solve(near(Net(), g, to=1.0), g, edits=space, explainer=ce.XPlore(shrink=shrink))
    changed = cf.data.x != g.x
    assert changed.any()
    for k, column in enumerate(schema.columns):
        new = cf.data.x[:, k][changed[:, k]]
        assert ((new >= column.lo) & (new <= column.hi)).all()


def test_bounds_are_inclusive():
    class Sum(nn.Module):  # class 1 only when every entry is at its upper bound
        def forward(self, x, edge_index, batch):
            total = global_add_pool(x.double(), batch)
            return torch.cat([torch.full_like(total, 1.99), total], 1)

    g = Data(x=torch.tensor([[0.0], [1.0]]), edge_index=pairs((0, 1)))
    cf = solve(Sum(), g, edits=ce.EditSpace(schema=numbers(1, lo=0.0, hi=1.0)))
    assert float(cf.data.x[0, 0]) == pytest.approx(0.99, abs=0.01)
    assert cf.data.x.max() <= 1


@pytest.mark.parametrize("frozen", ["all", "none"])
def test_all_or_no_column_frozen(frozen):
    g = s6()
    model = near(Net(), g)
    space = ce.EditSpace(frozen_features=range(4) if frozen == "all" else (), schema=numbers(4))
    cf = solve(model, g, edits=space)
    if frozen == "all":
        assert cf.edits.feature_count == 0
        none = ce.XPlore().explain(model, g, edits=replace(space, add_edges=False, remove_edges=False), progress=False)
        assert not none.found
        assert "allows no change" in none.reason


def test_no_columns_at_all():
    g = Data(x=torch.zeros(5, 0), edge_index=pairs((0, 1), (1, 2)))
    cf = solve(Edges(least=6), g)
    assert cf.edits.feature_count == 0
    assert cf.data.x.shape == (5, 0)
    assert ce.Counterfactual.from_json(cf.to_json()) == cf


def test_a_schema_of_another_width_names_both():
    with pytest.raises(ce.InputError, match="schema describes 5 columns but x has 4"):
        ce.XPlore().explain(Net(), s6(), edits=ce.EditSpace(schema=numbers(5)))


def test_no_edit_is_too_small_to_matter():
    """Every edit of a minimal answer is needed, and no number moved by rounding alone."""
    g = s6()
    cf = solve(near(Net(), g, to=0.3), g)
    assert cf.minimal
    for k in range(len(cf.edits)):
        assert label(single(near(Net(), g, to=0.3), cf.edits.without(k).apply(g))) == cf.before.label
    for e in cf.edits.features:
        assert all(abs(a - b) > 1e-5 for a, b in zip(e.old, e.new, strict=True))


# -- termination -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"restarts": 1}, {"preset": "paper"}], ids=["minimal", "paper"])
def test_a_constant_model_ends_without_an_answer(options):
    cf = ce.XPlore(**options).explain(Constant(), s6(), progress=False)
    assert not cf.found
    assert cf.data is None
    assert cf.after is None
    assert cf.reason
    assert len(cf.edits) == 0


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"certify": 2}], ids=["minimal", "paper", "certify"])
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "one by one"])
def test_time_is_kept(options, batch):
    class Slow(Constant):
        def forward(self, x, edge_index, batch):
            time.sleep(0.02)
            return super().forward(x, edge_index, batch)

    class SlowSingle(Slow):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index, torch.zeros(len(x), dtype=torch.long))

    begun = time.monotonic()
    explainer = ce.XPlore(**options)
    cf = explainer.explain(Slow() if batch else SlowSingle(), s6(), budget=ce.Budget(seconds=0.4), progress=False)
    assert time.monotonic() - begun < 1.4
    assert not cf.found
    assert "0.4 seconds" in cf.reason


def test_a_proof_that_ran_out_of_time_claims_nothing():
    class Stalls(Edges):
        calls = 0

        def forward(self, x, edge_index, batch):
            type(self).calls += 1
            if self.calls > 40:
                time.sleep(0.02)
            return super().forward(x, edge_index, batch)

    begun = time.monotonic()
    cf = ce.XPlore(certify=2).explain(Stalls(least=14), s6(), edits="edges", budget=ce.Budget(seconds=0.4))
    assert time.monotonic() - begun < 3
    assert cf.certified_lower_bound in (None, 1, 2)


def test_calls_are_kept():
    for calls in (1, 5, 40, 200):
        cf = ce.XPlore().explain(Constant(), s6(), budget=ce.Budget(calls=calls), progress=False)
        assert not cf.found
        assert cf.calls.forward <= calls
        assert f"{calls} oracle calls" in cf.reason


def test_calls_do_not_grow_with_the_number_of_classes():
    g = s6()
    spent = []
    for outputs in (2, 12):
        model = near(Net(outputs=outputs), g)
        with torch.no_grad():
            model.lin.weight[2:] = 0  # further classes that are never predicted
            model.lin.bias[2:] = -50
        spent.append(solve(model, g, edits="edges").calls.forward)
    assert spent[1] <= spent[0]


# -- no dead option --------------------------------------------------------------------------------------------------

WEAK = {"width": 1, "per_state": 1, "every": 1}


@pytest.mark.parametrize(
    ("option", "value", "others"),
    [
        ("preset", "paper", {}),
        ("seed", 5, {"preset": "paper"}),
        ("width", 1, {"per_state": 2, "every": 1, "restarts": 0}),
        ("per_state", 1, {"every": 1, "restarts": 0}),
        ("every", 1, {"restarts": 0}),
        ("depth", 1, {"restarts": 0}),
        ("restarts", 0, {"depth": 1}),
        ("certify", 1, {}),
        ("features", "freedom", {"preset": "paper"}),
        ("features", "gating", {"preset": "paper", "alpha": 3.0}),
        ("iterations", 3, {"preset": "paper"}),
        ("alpha", 0.9, {"preset": "paper"}),
        ("beta", 0.0, {"preset": "paper"}),
        ("box", True, {"preset": "paper"}),
        ("surrogate", "sigmoid", {"preset": "paper"}),
        ("temperature", 0.5, {"preset": "paper", "surrogate": "sigmoid"}),
        ("anneal", 20.0, {"preset": "paper", "surrogate": "sigmoid"}),
        ("gamma_weights", True, {"preset": "paper"}),
        ("shrink", False, {"restarts": 4, **WEAK, "depth": 1}),
        ("shrink", True, {"preset": "paper"}),
    ],
)
def test_every_option_changes_something(option, value, others):
    """Not its mention in the record, but the path or the answer."""
    graphs = [s6(), Data(x=s6().x.flip(0), edge_index=pairs((0, 1), (1, 2), (2, 0), (3, 4)))]
    models = [near(Net(conv), graphs[0], to=to) for conv, to in (("gcn", 0.05), ("gin", 0.5), ("sage", 2.0))]
    space = ce.EditSpace(gamma=0.2) if option == "gamma_weights" else None

    def run(**options):
        out = []
        for model in models:
            for cf in ce.XPlore(**options).explain(model, graphs, edits=space, progress=False):
                record = cf.to_dict(timings=False)
                for key in ("parameters", "preset", "seed", "reason"):
                    del record[key]
                out.append(record)
        return json.dumps(out)

    assert run(**others) != run(**{**others, option: value})


def test_memory_is_an_option_too():
    g = Data(x=torch.ones(300, 4), edge_index=pairs(*((i, i + 1) for i in range(299))))
    budget = ce.Budget(calls=1)
    assert not ce.XPlore().explain(Edges(least=999), g, budget=budget, progress=False).found
    with pytest.raises(ce.BudgetError, match="memory"):
        ce.XPlore(memory=1 << 20).explain(Edges(least=999), g, budget=budget, progress=False)


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "best"},
        {"seed": -1},
        {"seed": 0.5},
        {"width": 0},
        {"per_state": 0},
        {"every": 0},
        {"depth": 0},
        {"restarts": -1},
        {"certify": 3},
        {"features": "gating"},
        {"features": "free", "preset": "paper"},
        {"iterations": 0},
        {"alpha": 0},
        {"beta": -1},
        {"memory": 10},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ce.InputError):
        ce.XPlore(**options)


def test_a_surrogate_that_does_not_exist_is_refused_at_once():
    with pytest.raises(ce.InputError, match="surrogate='relu'"):
        ce.XPlore(preset="paper", surrogate="relu")


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.2},
        {"box": True},
        {"iterations": 7},
        {"preset": "paper", "width": 2},
        {"preset": "paper", "restarts": 1},
        {"depth": "3"},
        {"width": 2.5},
        {"restarts": None},
        {"iterations": True, "preset": "paper"},
    ],
    ids=str,
)
def test_options_that_would_do_nothing_or_make_no_sense_are_refused(options):
    with pytest.raises(ce.InputError, match=next(k for k in options if k != "preset")):
        ce.XPlore(**options)


@pytest.mark.parametrize(
    "options", [{"calls": float("nan")}, {"seconds": "1"}, {"edits": 1.5}, {"calls": True}], ids=str
)
def test_budgets_that_make_no_sense_are_refused(options):
    with pytest.raises(ce.InputError, match=next(iter(options))):
        ce.Budget(**options)

"""Faults that users of this field report about models and layers (rows 3a of docs/field_faults.md)."""

import ast
import json
from pathlib import Path

import pytest
import torch
from field_models import CONVS, Bonds, Net, arcs, label, near, numbers, pairs, s6, single, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    FiLMConv,
    GCNConv,
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
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle

# -- layers and pooling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [False, True], ids=["plain", "loops"])
@pytest.mark.parametrize("conv", CONVS)
def test_pyg_2934_layers_with_and_without_self_loops_in_the_data(conv, loops):
    g = s6()
    if loops:
        g.edge_index = torch.cat([g.edge_index, arcs((0, 0), (3, 3))], 1)
    solve(near(Net(conv), g), g)


@pytest.mark.parametrize("conv", CONVS)
def test_pyg_61_an_isolated_node_and_a_node_that_loses_its_last_edge(conv):
    g = s6()
    g.edge_index = pairs((0, 1), (2, 3), (3, 4))  # 5 is isolated, 0 and 1 hang on one edge
    cf = solve(near(Net(conv), g), g)
    assert torch.isfinite(cf.data.x).all()
    only = ce.EditSpace(add_edges=False, features=False)
    cf = ce.XPlore().explain(near(Net(conv), g), g, edits=only, progress=False)
    assert cf.found or cf.reason.startswith(("no answer within", "proved"))


@pytest.mark.parametrize("conv", [GCNConv, TAGConv])
def test_pyg_61_negative_weights_whose_normalisation_has_no_value(conv):
    """A weighted degree below zero has no square root: the graph says so, or is answered with numbers."""

    class Weighted(Net):
        def forward(self, x, edge_index, edge_weight, batch):
            return self.head(self.conv(x, edge_index, edge_weight), batch)

    g = s6(edge_weight=torch.tensor([1.0, 1.0, -3.0, -3.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0]))
    call = lambda m, g: m(g.x, g.edge_index, g.edge_weight, torch.zeros(6, dtype=torch.long))  # noqa: E731
    model = Weighted(lambda: conv(4, 8))
    if not torch.isfinite(call(model, g)).all():
        with pytest.raises(ce.ModelError, match="NaN or infinite logits"):
            ce.XPlore().explain(model, g, progress=False)
        return
    cf = solve(near(model, g, call), g, call)
    assert cf.before.label in (0, 1)
    assert torch.isfinite(call(model, cf.data)).all()


@pytest.mark.parametrize("conv", CONVS)
def test_pyg_1129_one_node_without_edges(conv):
    g = Data(x=s6().x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long))
    solve(near(Net(conv), g), g, edits=ce.EditSpace(schema=numbers(4)))


@pytest.mark.parametrize("pooling", [TopKPooling, SAGPooling])
def test_pyg_1730_pooling_that_drops_nodes(pooling):
    class Pooled(Net):
        def __init__(self):
            super().__init__()
            self.top, self.deep = pooling(8, ratio=0.5), GCNConv(8, 8)

        def forward(self, x, edge_index, batch):
            h, edge_index, _, batch, _, _ = self.top(self.conv(x, edge_index), edge_index, batch=batch)
            return self.lin(self.pool(self.deep(h, edge_index), batch))

    g = s6()
    model = near(Pooled(), g)
    cf = solve(model, g)
    assert cf.relaxation == "none"
    again = ce.XPlore().explain(model, g, progress=False)
    assert again.to_json(timings=False) == cf.to_json(timings=False)
    edges = solve(model, g, edits="edges")
    assert edges.edits.edge_count


@pytest.mark.parametrize("conv", ["gat", "gatv2"])
def test_deeprobust_132_a_gat_model_can_insert_edges(conv):
    g = s6()
    model = near(Net(conv), g)
    cf = solve(model, g, edits=ce.EditSpace(remove_edges=False, features=False))
    assert cf.edits.added
    oracle = Oracle(model)
    with oracle.session([g]):
        base = GraphBatch.from_graphs([g])
        adj = base.adj.clone().requires_grad_()
        z = oracle.relaxed(base, torch.zeros(1, dtype=torch.long), adj, base.x)
        (slope,) = torch.autograd.grad(z[:, 0].sum(), adj)
    absent = (base.adj[0] == 0) & ~torch.eye(6, dtype=torch.bool)
    assert torch.isfinite(slope).all()
    assert (slope[0][absent] != 0).all()


@pytest.mark.parametrize("conv", [RGCNConv, FiLMConv])
def test_pyg_7303_relations_follow_their_edges(conv):
    class Relations(Net):
        def __init__(self):
            super().__init__(lambda: conv(4, 8, num_relations=2))

        def forward(self, x, edge_index, edge_type, batch):
            return self.head(self.conv(x, edge_index, edge_type), batch)

    class Whole(Relations):
        def forward(self, data):
            return super().forward(data.x, data.edge_index, data.edge_type, data.batch)

    g = s6(edge_type=torch.tensor([0, 0, 1, 1, 0, 0, 1, 1, 1, 1]))
    first = lambda m, g: m(g.x, g.edge_index, g.edge_type, torch.zeros(6, dtype=torch.long))  # noqa: E731
    whole = lambda m, g: m(Batch.from_data_list([g]))  # noqa: E731
    space = ce.EditSpace(remove_edges=False, features=False)
    for to in (0.02, -0.02):
        a = solve(near(Relations(), g, first, to), g, first, edits=space)
        b = solve(near(Whole(), g, whole, to), g, whole, edits=space)
        assert a.edits == b.edits
        assert a.edits.added
        kept = {(i, j): t for i, j, t in zip(*g.edge_index.tolist(), g.edge_type.tolist(), strict=True)}
        for i, j, t in zip(*a.data.edge_index.tolist(), a.data.edge_type.tolist(), strict=True):
            assert t == kept.get((i, j), 1)  # a new edge is of the graph's most frequent relation


@pytest.mark.parametrize(
    "policy",
    ["mode", "mean", "zero", lambda g, key: torch.tensor([1.0, 2.0, 3.0])],
    ids=["mode", "mean", "zero", "function"],
)
def test_pyg_1406_edge_attributes_follow_their_edges(policy):
    g = s6(edge_attr=torch.randn(10, 3, generator=torch.Generator().manual_seed(5)))
    g.edge_attr[4:8] = g.edge_attr[4]
    call = lambda m, g: m(g.x, g.edge_index, g.edge_attr, torch.zeros(6, dtype=torch.long))  # noqa: E731
    space = ce.EditSpace(features=False, remove_edges=False, new_edges=policy)
    # one of the two sides of the boundary is the one that insertions lead to
    found = []
    for to in (0.02, -0.02):
        cf = ce.XPlore().explain(near(Bonds(), g, call, to), g, edits=space, progress=False)
        found += [solve(near(Bonds(), g, call, to), g, call, edits=space)] if cf.found else []
    assert found
    new = {"mode": g.edge_attr[4], "mean": g.edge_attr.mean(0), "zero": torch.zeros(3)}
    new = torch.tensor([1.0, 2.0, 3.0]) if callable(policy) else new[policy]
    kept = dict(zip(zip(*g.edge_index.tolist(), strict=True), g.edge_attr, strict=True))
    for cf in found:
        assert cf.edits.added
        for edge, row in zip(zip(*cf.data.edge_index.tolist(), strict=True), cf.data.edge_attr, strict=True):
            torch.testing.assert_close(row, kept.get(edge, new), rtol=0, atol=0 if edge in kept else 1e-6)


def test_pyg_1342_inserted_attributes_have_the_shape_even_when_there_is_no_edge():
    g = Data(x=s6().x, edge_index=torch.zeros(2, 0, dtype=torch.long), edge_attr=torch.zeros(0, 3))
    call = lambda m, g: m(g.x, g.edge_index, g.edge_attr, torch.zeros(6, dtype=torch.long))  # noqa: E731
    cf = solve(near(Bonds(), g, call, to=-0.02), g, call, edits="edges")
    assert cf.edits.added
    assert cf.data.edge_attr.shape == (2 * len(cf.edits.added), 3)


def test_pyg_3762_a_stale_cache_is_never_asked():
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


# -- heads and signatures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "g",
    [
        pytest.param(s6(), id="DIG#253"),
        pytest.param(Data(x=s6().x[:2], edge_index=pairs((0, 1))), id="pyg PR#2576"),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_binary_heads_of_every_shape(shape, g):
    class Binary(Net):
        def forward(self, x, edge_index, batch):
            z = super().forward(x, edge_index, batch)
            return z.reshape(shape) if len(z) == 1 else z.reshape(len(z), *shape[1:])

    read = lambda z: float(z) > 0  # noqa: E731
    model = near(Binary(outputs=1), g)
    cf = solve(model, g, read=read)
    assert {cf.before.label, cf.after.label} == {0, 1}
    assert 0 <= cf.before.probability <= 1
    there = ce.XPlore().explain(model, g, desired=cf.before.label, progress=False)
    assert "already" in there.reason


@pytest.mark.parametrize("pool", [global_add_pool, global_mean_pool, global_max_pool])
def test_pyg_258_batch_absent_and_batch_of_zeros_give_the_same(pool):
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


def test_pyg_9888_a_model_that_takes_the_whole_data():
    class Whole(Net):
        def forward(self, data):
            assert data.num_graphs == int(data.batch.max()) + 1
            return super().forward(data.x, data.edge_index, data.batch)

    g = s6()
    call = lambda m, g: m(Batch.from_data_list([g]))  # noqa: E731
    cf = solve(near(Whole(), g, call), g, call)
    assert cf.edits == solve(near(Net(), g), g).edits
    assert cf.edits == solve(near(Net(), g), g, forward_fn=lambda m, b: m(b.x, b.edge_index, b.batch)).edits


def test_pyg_4315_a_batch_of_three_is_three_single_answers():
    graphs = [s6(), Data(x=s6().x[:4], edge_index=pairs((0, 1), (1, 2))), s6()]
    graphs[2].x = graphs[2].x.flip(0)
    model = near(Net(), graphs[0])
    space = ce.EditSpace(schema=numbers(4))
    together = ce.XPlore().explain(model, Batch.from_data_list(graphs), edits=space, progress=False)
    for g, cf in zip(graphs, together, strict=True):
        alone = ce.XPlore().explain(model, g, edits=space, progress=False)
        assert (alone.edits, alone.stage, alone.calls, alone.found) == (cf.edits, cf.stage, cf.calls, cf.found)


@pytest.mark.parametrize(
    ("names", "extra"),
    [
        ("x, edge_index, batch", 0),
        ("batch, edge_index, x", 0),
        ("edge_index, batch, x", 0),
        ("edge_index, x, batch, *, scale=1.0", 0),
        ("batch, x, edge_index, num_graphs", 1),
    ],
)
def test_pyg_7039_a_batch_is_passed_wherever_the_model_wants_it(names, extra):
    """Arguments are matched by name, so their order does not matter; ``batch`` without a default is given."""
    scope = {"Net": Net}
    check = "assert num_graphs == int(batch.max()) + 1" if extra else "pass"
    exec(
        f"class Ordered(Net):\n    def forward(self, {names}):\n        {check}\n"
        "        return Net.forward(self, x, edge_index, batch)\n",
        scope,
    )
    g = s6()
    more = {"num_graphs": 1} if extra else {}
    call = lambda m, g: m(x=g.x, edge_index=g.edge_index, batch=torch.zeros(6, dtype=torch.long), **more)  # noqa: E731
    cf = solve(near(scope["Ordered"](), g, call), g, call)
    assert cf.edits == solve(near(Net(), g), g).edits


def test_pyg_7039_a_tuple_is_read_by_output_fn():
    class Two(Net):
        def forward(self, x, edge_index, batch):
            h = self.conv(x, edge_index)
            return h, self.head(h, batch)

    g = s6()
    call = lambda m, g: single(m, g)[1]  # noqa: E731
    with pytest.raises(ce.ModelError, match="returned a tuple; pass output_fn"):
        ce.XPlore().explain(Two(), g, progress=False)
    cf = solve(near(Two(), g, call), g, call, output_fn=lambda out: out[1])
    assert cf.edits == solve(near(Net(), g), g).edits
    assert cf.relaxation == "exact (dense)"


# -- what is done is shown, and only what is public is used ----------------------------------------------------------


@pytest.mark.parametrize(
    ("conv", "relaxation"),
    [
        ("gcn", "exact (dense)"),
        ("gat", "exact (weights)"),
        (lambda: SAGEConv(4, 8, aggr="max"), "approximate (weights)"),
        (lambda: RGCNConv(4, 8, 2), "none"),
    ],
    ids=["gcn", "gat", "max", "relations"],
)
def test_pyg_1320_the_result_says_how_edges_were_ranked(conv, relaxation):
    class Typed(Net):
        def forward(self, x, edge_index, batch):
            more = [edge_index.sum(0) % 2] if isinstance(self.conv, RGCNConv) else []
            return self.head(self.conv(x, edge_index, *more), batch)

    g = s6()
    cf = solve(near(Typed(conv), g), g)
    assert cf.relaxation == relaxation
    assert json.loads(cf.to_json())["relaxation"] == relaxation
    assert relaxation.split(" ")[0] in (Path(__file__).parents[2] / "docs" / "method.md").read_text()


SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))


PRIVATE = {"_edge_mask", "__edge_mask__", "_loop_mask", "__loop_mask__", "_apply_sigmoid", "_explain", "__explain__"}


def test_dig_105_no_private_mask_of_pyg_is_touched():
    """``__edge_mask__`` became ``_edge_mask``, and its kind changed: explainers that wrote it broke."""
    assert SOURCES
    for path in SOURCES:
        tree = list(ast.walk(ast.parse(path.read_text())))
        used = {node.attr for node in tree if isinstance(node, ast.Attribute)}
        used |= {node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not used & PRIVATE, path


def test_graphxai_41_only_public_names_of_pyg_are_imported():
    seen = 0
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch_geometric"):
                seen += 1
                assert not any(part.startswith("_") for part in node.module.split(".")), path
                assert not any(alias.name.startswith("_") for alias in node.names), path
    assert seen > 10


# -- a flip is a flip of the untouched model -------------------------------------------------------------------------


def test_gretel_cf2_py_gradients_are_not_added_up():
    """The second pass over a point has the gradient of the first, and so has one after a whole search."""
    g = s6()
    model = near(Net("gat"), g)
    oracle = Oracle(model)
    slopes = []
    with oracle.session([g]):
        base = GraphBatch.from_graphs([g])
        adj = base.adj.clone().requires_grad_()
        for turn in range(3):
            if turn == 2:
                ce.XPlore("paper", iterations=3).explain(model, g, progress=False)
            z = oracle.relaxed(base, torch.zeros(1, dtype=torch.long), adj, base.x)
            slopes.append(torch.autograd.grad(z[:, 0].sum(), adj)[0])
    assert slopes[0].abs().max() > 0
    assert torch.equal(slopes[0], slopes[1])
    assert torch.equal(slopes[0], slopes[2])
    assert all(p.grad is None for p in model.parameters())


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([*sorted(CONVS), "max"]),
    st.booleans(),
    st.sampled_from(["minimal", "paper"]),
)
def test_pyg_pr_7929_every_answer_flips_a_copy_of_the_untouched_model(seed, conv, directed, preset):
    """Never a fractional mask, never another graph than the one returned."""
    generator = torch.Generator().manual_seed(seed)
    n = int(torch.randint(2, 8, (1,), generator=generator))
    upper = (torch.rand(n, n, generator=generator) < 0.4) & ~torch.eye(n, dtype=torch.bool)
    adj = upper if directed else upper.triu(1) | upper.triu(1).t()
    g = Data(x=torch.randn(n, 4, generator=generator), edge_index=adj.nonzero().t().contiguous())
    model = Net(lambda: SAGEConv(4, 8, aggr="max")) if conv == "max" else Net(conv)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    near(model, g, to=0.3)
    if conv == "max" and preset == "paper":
        with pytest.raises(ce.CapabilityError, match="needs gradients"):
            ce.XPlore(preset).explain(model, g, progress=False)
        return
    cf = ce.XPlore(preset).explain(model, g, progress=False)
    assert cf.found == (cf.data is not None)
    if cf.found:
        assert label(single(model, cf.data)) == cf.after.label != cf.before.label == label(single(model, g))
        assert len(cf.edits) > 0
        assert torch.equal(cf.edits.apply(g).edge_index, cf.data.edge_index)

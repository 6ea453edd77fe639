"""Bad input: a clear error that names what is wrong, or a counterfactual that the untouched model confirms."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINEConv,
    SAGEConv,
    Sequential,
    TopKPooling,
    global_add_pool,
    global_mean_pool,
)

import counteredge as ce

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Tiny tensors: a second thread only costs time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pairs(*edges):
    both = [e for i, j in edges for e in ((i, j), (j, i))]
    return torch.tensor(both, dtype=torch.long).reshape(-1, 2).t().contiguous()


def path(n=6, width=3, seed=1, **attributes):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=g)
    return Data(x=x, edge_index=pairs(*((i, i + 1) for i in range(n - 1))), **attributes)


class Net(nn.Module):
    """One convolution, pooling, linear head; the classes are close, so that small edits flip it."""

    def __init__(self, conv=None, outputs=2, pool=global_mean_pool, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = GCNConv(3, 8) if conv is None else conv()
        self.lin = nn.Linear(8, outputs)
        self.pool = pool

    def embed(self, x, edge_index, batch):
        return self.pool(self.conv(x, edge_index).relu(), batch)

    def forward(self, x, edge_index, batch):
        return self.lin(self.embed(x, edge_index, batch))


def centred(model, graph, call=None):
    """Shift the last layer's bias so that the graph lies close to the boundary: some edit flips it."""
    call = call or (lambda m, g: m(g.x, g.edge_index, torch.zeros(len(g.x), dtype=torch.long)))
    mode = model.training
    with torch.no_grad():
        z = call(model.eval(), graph).reshape(-1)
        model.lin.bias -= z
        model.lin.bias[0] += 0.02 * float(model.lin.weight.abs().mean())
    return model.train(mode)


def default_call(model, g):
    return model(g.x, g.edge_index, torch.zeros(len(g.x), dtype=torch.long))


def explained(model, graph, call=default_call, explainer=None, read=lambda z: int(z.reshape(-1).argmax()), **options):
    """Explain one graph, and check the answer on a deep copy taken before."""
    before = copy.deepcopy(model).eval()
    cf = (explainer or ce.XPlore()).explain(model, graph, progress=False, **options)
    assert cf.found, cf.reason
    assert len(cf.edits) >= 1
    with torch.no_grad():
        assert read(call(before, cf.data)) != read(call(before, graph))
    return cf


def refuses(message, graph, model=None, error=ce.InputError, **options):
    with pytest.raises(error, match=message):
        ce.XPlore().explain(Net() if model is None else model, graph, progress=False, **options)


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_borealisai_slaps_gnn_3_nan_in_x_names_node_and_column(bad):
    g = path()
    g.x[4, 1] = bad
    refuses(r"x holds NaN or infinity at node 4, column 1", g)
    refuses(r"graph 1: x holds NaN or infinity at node 4, column 1", [path(), g])


@pytest.mark.parametrize("key", ["edge_attr", "edge_weight"])
def test_gtn_20_nan_in_edge_values_names_the_edge(key):
    g = path()
    g[key] = torch.ones(10) if key == "edge_weight" else torch.ones(10, 2)
    g[key][7] = NAN
    refuses(rf"{key} holds NaN or infinity at edge 7, column 0", g)


def test_borealisai_slaps_gnn_3_nan_logits_are_an_error_when_the_first_call_gives_them():
    class Broken(Net):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch) / 0

    refuses("returns NaN or infinite logits", path(), Broken(), ce.ModelError)


def test_borealisai_slaps_gnn_3_nan_logits_of_one_graph_are_its_reason_and_are_stored():
    class Sometimes(Net):
        def forward(self, x, edge_index, batch):
            z = super().forward(x, edge_index, batch)
            return z.masked_fill((torch.bincount(batch) == 5)[:, None], NAN)

    model = centred(Sometimes(), path(4))
    good, bad = ce.XPlore().explain(model, [path(4), path(5)], progress=False)
    assert good.found
    assert not bad.found
    assert "NaN" in bad.reason
    assert ce.Counterfactual.from_json(bad.to_json()) == bad


# -- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [6, 99, -1])
def test_pyg_3785_edge_index_out_of_range(node):
    g = path()
    g.edge_index[1, 3] = node
    refuses(rf"edge_index names node .*{node}.*nodes 0\.\.5", g)


def test_edge_index_of_a_wrong_kind():
    refuses(r"edge_index must be an integer tensor", Data(x=torch.ones(3, 3), edge_index=torch.rand(2, 4)))
    refuses(r"edge_index must be an integer tensor", Data(x=torch.ones(3, 3), edge_index=torch.ones(4, 2).long()))
    refuses("has no edge_index", Data(x=torch.ones(3, 3)))


@pytest.mark.parametrize("key", ["edge_attr", "edge_weight"])
def test_edge_values_of_another_number_of_edges(key):
    refuses(rf"{key} has 4 rows but edge_index has 10 edges", path(**{key: torch.ones(4)}))


@pytest.mark.parametrize("key", ["edge_attr", "edge_weight"])
def test_edge_values_in_some_graphs_only(key):
    refuses(rf"graph 1 has no {key}", [path(**{key: torch.ones(10)}), path()])


def test_budget_is_a_budget():
    g = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ce.InputError, match=r"budget must be a Budget, as Budget\(edits=10\).*, got 10"):
        ce.XPlore().explain(lambda batch: torch.zeros(batch.num_graphs, 2), g, budget=10)


def test_whole_number_features_are_not_edited_and_the_reason_says_so():
    g = Data(x=torch.ones(3, 1).long(), edge_index=torch.tensor([[0, 1], [1, 0]]))
    cf = ce.XPlore().explain(lambda batch: torch.zeros(batch.num_graphs, 2), g, edits="features")
    assert cf.reason == "the edit space allows no change on this graph; whole-number x is never edited, float x may be"


def test_no_edges():
    g = Data(x=path(5).x, edge_index=torch.zeros(2, 0, dtype=torch.long))
    cf = explained(centred(Net(), g), g)
    assert cf.original.edge_index.shape == (2, 0)
    cf = explained(centred(Net(), g), g, edits="edges")
    assert cf.edits.added
    assert not cf.edits.removed


def test_single_node():
    g = Data(x=torch.tensor([[0.3, -1.0, 0.5]]), edge_index=torch.zeros(2, 0, dtype=torch.long))
    model = centred(Net(), g)
    alone = ce.XPlore().explain(model, g, progress=False)
    assert not alone.found
    assert "allows no change" in alone.reason  # nothing observed says what its features could be
    schema = ce.FeatureSchema(tuple(ce.Column("continuous", lo=-2, hi=2) for _ in range(3)))
    cf = explained(model, g, edits=ce.EditSpace(schema=schema))
    assert cf.edits.edge_count == 0
    assert cf.edits.feature_count >= 1


def test_duplicate_edges_go_together_and_are_kept_otherwise():
    g = path(5)
    g.edge_index = torch.cat([g.edge_index, g.edge_index[:, :2], g.edge_index[:, :2]], 1)  # (0, 1) three times
    g.edge_weight = torch.arange(1.0, 13.0)
    cf = explained(centred(Net(), g), g, edits="edges")
    kept = [p for p in ((0, 1), (1, 2), (2, 3), (3, 4)) if p not in cf.edits.removed]
    copies = {(0, 1): 3}
    for i, j in kept:
        count = int(((cf.data.edge_index[0] == i) & (cf.data.edge_index[1] == j)).sum())
        assert count == copies.get((i, j), 1)
    for i, j in cf.edits.removed:
        assert not ((cf.data.edge_index[0] == i) & (cf.data.edge_index[1] == j)).any()
    assert len(cf.data.edge_weight) == cf.data.edge_index.shape[1]


def test_a_repeated_edge_can_be_removed():
    class Counts(nn.Module):  # class 1 exactly when the graph has no edge
        def forward(self, x, edge_index, batch):
            arcs = torch.zeros(int(batch.max()) + 1, dtype=x.dtype)
            arcs = arcs.index_add(0, batch[edge_index[0]], torch.ones(edge_index.shape[1], dtype=x.dtype))
            return torch.stack([arcs, torch.full_like(arcs, 0.5)], 1)

    g = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]))
    cf = explained(Counts(), g)
    assert cf.edits.removed == ((0, 1),)
    assert cf.data.edge_index.shape == (2, 0)


def test_self_loops_are_kept_and_never_edited():
    g = path(5)
    g.edge_index = torch.cat([g.edge_index, torch.tensor([[2, 4], [2, 4]])], 1)
    model = centred(Net(), g)
    cf = explained(model, g, edits="edges")
    src, dst = cf.data.edge_index
    assert sorted(src[src == dst].tolist()) == [2, 4]
    assert all(i != j for i, j in (*cf.edits.added, *cf.edits.removed))


@pytest.mark.parametrize("count", [2, 4, 6])
def test_as_many_nodes_as_edges_is_no_guess(count):
    """E == N (arcs) and E == 2: node attributes stay node attributes."""
    n = count
    g = Data(x=path(n).x, edge_index=pairs(*((i, i + 1) for i in range(n // 2))), z=torch.arange(n))
    assert g.edge_index.shape[1] == n

    class Exactly(nn.Module):  # class 0 exactly when the graph has n arcs
        def forward(self, x, edge_index, batch):
            arcs = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).to(x.dtype)
            return torch.stack([0.5 - (arcs - n).abs(), torch.zeros_like(arcs)], 1)

    cf = explained(Exactly(), g, edits="edges")
    assert torch.equal(cf.data.z, torch.arange(n))
    assert torch.equal(cf.data.x, g.x)
    assert cf.data.is_undirected()


def test_pyg_3265_edge_label_index_is_left_alone():
    g = path(5, edge_label_index=torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 4, 2, 3, 4, 0]]))
    cf = explained(centred(Net(), g), g, edits="edges")
    assert torch.equal(cf.data.edge_label_index, g.edge_label_index)


# -- node features ---------------------------------------------------------------------------------------------------


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, 8)
        self.conv = GCNConv(8, 8)
        self.lin = nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        h = self.table(x).reshape(len(x), -1)
        return self.lin(global_mean_pool(self.conv(h, edge_index).relu(), batch))


def test_float_x_into_an_embedding():
    refuses(r"x \(6, 3\) torch\.float32 failed.*Long", path(), Embedded(), ce.ModelError)


def test_wrong_feature_width_names_both():
    refuses(r"x \(6, 4\).*cannot be multiplied \(6x4 and 3x8\)", path(width=4), error=ce.ModelError)
    refuses(r"different numbers of feature columns: \[3, 4\]", [path(), path(width=4)])


def test_empty_graph_and_missing_x():
    empty = Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    refuses("is empty: it has no nodes", empty)
    refuses("graph 1 is empty", [path(), empty])
    refuses("has no node features x", Data(edge_index=pairs((0, 1)), num_nodes=2))


def test_x_of_a_wrong_kind():
    g = path()
    refuses("x must be a dense torch tensor, got a ndarray", Data(x=g.x.numpy(), edge_index=g.edge_index))
    refuses("dense torch tensor, got a torch.sparse_coo", Data(x=g.x.to_sparse(), edge_index=g.edge_index))
    refuses(r"dtype torch\.bool", Data(x=g.x > 0, edge_index=g.edge_index))
    refuses(r"shape \(n, f\), got \(6, 3, 1\)", Data(x=g.x[..., None], edge_index=g.edge_index))
    refuses("x has 6 rows but the graph says num_nodes=9", Data(x=g.x, edge_index=g.edge_index, num_nodes=9))


def test_integers_and_floats_do_not_mix():
    g = path()
    refuses("graph 1 has integer x but others have floats", [g, Data(x=g.x.long(), edge_index=g.edge_index)])


def test_pyg_6620_devices_are_named():
    g = path()
    refuses("x is on meta but edge_index is on cpu", Data(x=g.x.to("meta"), edge_index=g.edge_index))
    refuses("meta device", path().to("meta"))
    refuses("the model is on meta but the graphs are on cpu", g, Net().to("meta"))


# -- what is no list of graphs ---------------------------------------------------------------------------------------


def test_pyg_8496_heterogeneous_data():
    h = HeteroData()
    h["atom"].x = torch.ones(2, 3)
    h["atom", "bond", "atom"].edge_index = pairs((0, 1))
    for given in (h, Batch.from_data_list([h, h])):
        refuses("HeteroData is not supported", given, error=ce.CapabilityError)
    refuses("graph 1 is HeteroData", [path(), h], error=ce.CapabilityError)


@pytest.mark.parametrize(
    ("given", "named"), [(None, "NoneType"), (3, "int"), ("abc", "str"), (torch.ones(2), "Tensor")]
)
def test_no_graphs_at_all(given, named):
    refuses(named, given)


def test_model_must_be_a_module():
    refuses("got type. Give an instance, not the class", path(), Net)
    refuses("model must be a torch.nn.Module, or a function .* got int", path(), 3)


def test_an_empty_list_gives_an_empty_list():
    assert ce.XPlore().explain(Net(), []) == []


def test_batch_list_and_loader_give_the_same():
    graphs = [path(4), path(6, seed=2), path(5, seed=3)]
    model = centred(Net(), graphs[0])
    schema = ce.FeatureSchema.infer([g.x for g in graphs])
    ways = (graphs, Batch.from_data_list(graphs), DataLoader(graphs, batch_size=2), tuple(graphs))
    answers = [
        [cf.to_json(timings=False) for cf in ce.XPlore().explain(model, w, edits=ce.EditSpace(schema=schema))]
        for w in ways
    ]
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert len(answers[0]) == 3


# -- models ----------------------------------------------------------------------------------------------------------


def test_squeezed_single_logit():
    class Scalar(Net):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch).squeeze()

    for graph in (path(), Data(x=path(2).x, edge_index=pairs((0, 1)))):  # two nodes and one edge: all sizes are 1
        model = centred(Scalar(outputs=1), graph)
        explained(model, graph, read=lambda z: bool(z > 0))
        explained(centred(Scalar(outputs=2), graph), graph)


def test_node_level_models_are_refused_squeezed_or_not():
    class NodeLevel(Net):
        def forward(self, x, edge_index, batch):
            return self.lin(self.conv(x, edge_index))

    class NodeBinary(NodeLevel):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch)[:, 0]

    for model in (NodeLevel(), NodeBinary()):
        refuses("6 rows for one graph with 6 nodes: it predicts nodes", path(), model, ce.ModelError)


def test_squeezed_classes_as_many_as_nodes_are_no_node_level_model():
    class Squeezed(Net):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch).squeeze()

    g = path(3)
    explained(centred(Squeezed(outputs=3), g), g)


class NoBatch(Net):
    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index).relu().mean(0, keepdim=True))


class OptionalBatch(Net):
    def forward(self, x, edge_index, batch=None):
        return super().forward(x, edge_index, batch)


class WholeData(Net):
    def forward(self, data):
        return super().forward(data.x, data.edge_index, data.batch)


class Answers(Net):
    def forward(self, x, edge_index, batch):
        return {"logits": super().forward(x, edge_index, batch), "extra": x}


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (NoBatch, lambda m, g: m(g.x, g.edge_index)),
        (OptionalBatch, lambda m, g: m(g.x, g.edge_index)),
        (WholeData, lambda m, g: m(Batch.from_data_list([g]))),
    ],
)
def test_signatures(kind, call):
    g = path()
    cf = explained(centred(kind(), g, call), g, call)
    plain = explained(centred(Net(), g), g)
    assert cf.edits == plain.edits


def test_output_fn_and_forward_fn():
    g = path()
    refuses("returned a dict; pass output_fn", g, Answers(), ce.ModelError)
    call = lambda m, g: default_call(m, g)["logits"]  # noqa: E731
    explained(centred(Answers(), g, call), g, call, output_fn=lambda out: out["logits"])

    layers = [(GCNConv(3, 8), "x, edge_index -> x"), (global_mean_pool, "x, batch -> x"), nn.Linear(8, 2)]
    explained(Sequential("x, edge_index, batch", layers), g, forward_fn=lambda m, b: m(b.x, b.edge_index, b.batch))

    class Odd(Net):
        def forward(self, adj, feats):
            return None

    refuses(r"Odd\.forward takes \(adj, feats\).*forward_fn", g, Odd(), ce.ModelError)


def test_a_missing_argument_is_named():
    class Positions(Net):
        def forward(self, x, edge_index, pos, batch):
            return super().forward(x + pos, edge_index, batch)

    refuses("needs 'pos', which the graphs do not have", path(), Positions(), ce.ModelError)
    g = path(pos=torch.zeros(6, 3))
    explained(centred(Positions(), path(), lambda m, g: Net.forward(m, g.x, g.edge_index, g.batch)), g,
              lambda m, g: m(g.x, g.edge_index, g.pos, torch.zeros(len(g.x), dtype=torch.long)))  # fmt: skip


@pytest.mark.parametrize("model_dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("data_dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_mixture_of_precisions(model_dtype, data_dtype):
    g = path()
    model = centred(Net(), g).to(model_dtype)
    given = Data(x=g.x.to(data_dtype), edge_index=g.edge_index)

    def call(m, g):
        return m(g.x.to(model_dtype), g.edge_index, torch.zeros(len(g.x), dtype=torch.long))

    cf = explained(model, given, call)
    assert cf.data.x.dtype == data_dtype
    assert next(model.parameters()).dtype == model_dtype


class Stochastic(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.drop, self.lin = GCNConv(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.lin(self.drop(global_mean_pool(self.norm(self.conv(x, edge_index)).relu(), batch)))


def test_model_left_in_train_mode():
    g = path()
    model = centred(Stochastic(), g).train()
    model.drop.eval()  # one module differs from the rest
    state, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    explained(model, g)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_dropout_that_ignores_eval_is_refused():
    class Random(Net):
        def forward(self, x, edge_index, batch):
            return super().forward(nn.functional.dropout(x, 0.5), edge_index, batch)

    refuses("answers differently on the same graph in eval mode", path(), Random(), ce.ModelError)


def test_model_without_edge_weight():
    g = path()
    cf = explained(centred(Net(lambda: GATConv(3, 8)), g), g, edits="edges")
    assert cf.relaxation == "exact (weights)"
    cf = explained(centred(Net(lambda: SAGEConv(3, 8, aggr="max")), g), g, edits="edges")
    assert cf.relaxation == "approximate (weights)"


def test_pyg_8966_model_that_ignores_edges():
    class NoEdges(Net):
        def embed(self, x, edge_index, batch):
            return self.pool(self.conv.lin(x).relu(), batch)

    g = path()
    model = centred(NoEdges(), g)
    cf = explained(model, g)
    assert cf.edits.edge_count == 0
    for preset in ("minimal", "paper"):
        stuck = ce.XPlore(preset=preset).explain(model, g, edits="edges", progress=False)
        assert not stuck.found
        assert "did not depend on edges" in stuck.reason


def test_top_k_pooling():
    class Pooled(Net):
        def __init__(self):
            super().__init__()
            self.top = TopKPooling(8, ratio=0.5)

        def embed(self, x, edge_index, batch):
            h, _, _, batch, _, _ = self.top(self.conv(x, edge_index).relu(), edge_index, batch=batch)
            return global_add_pool(h, batch)

    g = path()
    explained(centred(Pooled(), g), g)


def test_pyg_1406_edge_attributes_that_the_model_needs():
    class Bonds(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.lin = GINEConv(nn.Linear(3, 8), edge_dim=2), nn.Linear(8, 2)

        def forward(self, x, edge_index, edge_attr, batch):
            return self.lin(global_mean_pool(self.conv(x, edge_index, edge_attr).relu(), batch))

    refuses("needs 'edge_attr', which the graphs do not have", path(), Bonds(), ce.ModelError)


# -- heads -----------------------------------------------------------------------------------------------------------


def test_multilabel_head():
    g = path()
    model = centred(Net(outputs=3), g)
    bits = lambda z: tuple((z.reshape(-1) > 0).tolist())  # noqa: E731
    cf = explained(model, g, read=bits, task="multilabel")
    assert isinstance(cf.before.label, tuple)
    assert cf.before.label != cf.after.label


def test_regression_head():
    g = path()
    model = centred(Net(outputs=1), g)
    value = default_call(model.eval(), g).item()
    cf = explained(model, g, desired=(value + 0.01, value + 1), read=lambda z: bool(value + 0.01 <= z <= value + 1))
    assert value + 0.01 <= cf.after.label <= value + 1
    there = ce.XPlore().explain(model, g, desired=(value - 1, value + 1), progress=False)
    assert not there.found
    assert "already" in there.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"desired": 7}, r"desired=7 must be some, not all, of the model's classes 0\.\.1"),
        ({"desired": (0, 1)}, "read from one output, the model gives 2"),
        ({"task": "regression"}, "read from one output, the model gives 2"),
        ({"task": "binary"}, "read from one output, the model gives 2"),
        ({"task": "nonsense"}, "task='nonsense' is unknown"),
        ({"task": "multilabel", "desired": 1}, "a multilabel wish is a dict"),
        ({"task": "multiclass", "desired": (0, 1)}, "is for regression models"),
        ({"relaxation": "nonsense"}, "relaxation='nonsense' is unknown"),
        ({"desired": "b"}, "'b' is no whole number"),
        ({"desired": 1.0}, r"1\.0 is no whole number"),
        ({"edits": ["edges"]}, r"edits=\['edges'\] is unknown"),
        ({"edits": "nonsense"}, "edits='nonsense' is unknown"),
        ({"edits": ce.EditSpace(frozen_nodes=[17])}, r"frozen_nodes \[17\].*0\.\.5"),
        ({"edits": ce.EditSpace(frozen_edges=[(0, 17)])}, r"frozen_edges name nodes outside 0\.\.5"),
        ({"edits": ce.EditSpace(frozen_features=[3])}, r"column 3 but x has columns 0\.\.2"),
        ({"edits": ce.EditSpace(frozen_features=["age"])}, r"column 'age' but x has columns 0\.\.2"),
        ({"edits": ce.EditSpace(feature_cost=[1.0, 2.0])}, "feature_cost has 2 entries but x has 3"),
        ({"edits": ce.EditSpace(add_cost=0.0)}, "edge costs must be positive"),
        ({"edits": ce.EditSpace(gamma=1.5)}, r"gamma must lie in \[-1, 1\]"),
    ],
)
def test_options_that_cannot_be_meant(options, message):
    refuses(message, path(), **options)


def test_numbers_without_finite_bounds_are_refused_before_infinity_is_written():
    class Total(nn.Module):
        def forward(self, x, edge_index, batch):
            return global_add_pool(x, batch).sum(1, keepdim=True)

    g = Data(x=-torch.ones(3, 2), edge_index=pairs((0, 1)))
    endless = (ce.Column("continuous", lo=-1, hi=1), ce.Column("continuous", lo=-INF, hi=INF))
    space = ce.EditSpace(schema=ce.FeatureSchema(endless))
    refuses(r"columns \[1\] of x have no finite bounds", g, Total(), edits=space)
    space = ce.EditSpace(
        schema=ce.FeatureSchema((ce.Column("continuous", lo=-1, hi=9), endless[1])), frozen_features=[1]
    )
    cf = ce.XPlore().explain(Total(), g, edits=space)
    assert cf.found
    assert torch.isfinite(cf.data.x).all()


def test_memory_is_refused_before_it_is_taken():
    n = 600
    g = Data(x=torch.ones(n, 3), edge_index=pairs(*((i, i + 1) for i in range(n - 1))))
    with pytest.raises(ce.BudgetError, match=r"600 nodes.*MiB.*raise memory="):
        ce.XPlore(memory=1 << 20).explain(Net(), g)


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("preset", ["minimal", "paper"])
def test_callers_that_switched_gradients_off(switch, preset):
    g = path()
    model = centred(Net(), g)
    explainer = ce.XPlore(preset=preset)
    usual = explainer.explain(model, g, progress=False).to_json(timings=False)
    with switch():
        assert explainer.explain(model, g, progress=False).to_json(timings=False) == usual
        assert not torch.is_grad_enabled()


def test_features_that_require_gradients():
    g = path()
    g.x.requires_grad_()
    explained(centred(Net(), g), g)
    assert g.x.grad is None
    assert g.x.requires_grad


def test_numpy_numbers_are_numbers():
    g = path()
    model = centred(Net(), g)
    explained(
        model, g, desired=torch.tensor(1), edits=ce.EditSpace(frozen_nodes=np.array([0]), frozen_features=np.array([1]))
    )
    explained(model, g, desired=np.int64(1))


def test_nothing_may_change_costs_one_call():
    g = path()
    for space in (ce.EditSpace(frozen_nodes=list(range(g.num_nodes))), ce.EditSpace(False, False, False)):
        cf = ce.XPlore().explain(centred(Net(), g), g, edits=space)
        assert not cf.found
        assert cf.reason == "the edit space allows no change on this graph"
        assert cf.calls.forward == 1


@pytest.mark.parametrize("name", ["frozen_nodes", "frozen_edges", "frozen_features"])
@pytest.mark.parametrize("value", [0, "ab"])
def test_frozen_things_come_in_lists(name, value):
    with pytest.raises(ce.InputError, match=rf"{name}={value!r} must be a list, for example {name}=\[0\]"):
        ce.EditSpace(**{name: value})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models(dtype):
    g = path()
    model = centred(Net(), g).to(dtype)
    half = g.clone()
    half.x = g.x.to(dtype)
    cf = ce.XPlore().explain(model, half)
    assert cf.found
    assert cf.data.x.dtype == dtype
    with torch.no_grad():
        answers = [
            int(model(d.x, d.edge_index, torch.zeros(len(d.x), dtype=torch.long)).argmax()) for d in (half, cf.data)
        ]
    assert answers == [cf.before.label, cf.after.label]
    assert answers[0] != answers[1]

"""Models that are nothing but a function of a batch."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_networkx

import counteredge as ce
from counteredge.blackbox import BlackBox
from counteredge.testing import ExplainerContract, model_state, random_state, sample_graphs, sample_model, sample_schema

EDGES = ce.EditSpace(schema=sample_schema(), features=False)
SPACE = ce.EditSpace(schema=sample_schema())


def ring(nodes):
    i = torch.arange(nodes)
    j = (i + 1) % nodes
    return Data(x=torch.ones(nodes, 1), edge_index=torch.stack([torch.cat([i, j]), torch.cat([j, i])]))


def has_triangle(batch):
    return [sum(nx.triangles(to_networkx(g, to_undirected=True)).values()) > 0 for g in batch.to_data_list()]


def labels_of(model):
    def predict(batch):
        with torch.no_grad():
            return model(batch.x, batch.edge_index, batch=batch.batch).argmax(1)

    return predict


def scores_of(model):
    def predict(batch):
        with torch.no_grad():
            return model(batch.x, batch.edge_index, batch=batch.batch).softmax(1).numpy()

    return predict


def explain(predict, graphs, edits="edges", **options):
    return ce.XPlore().explain(predict, graphs, edits=edits, progress=False, **options)


def test_a_rule_is_explained():
    cf = explain(has_triangle, ring(5))
    assert cf.found
    assert len(cf.edits) == 1
    assert (cf.before.label, cf.after.label, cf.relaxation) == (0, 1, "none")
    assert cf.calls.backward == 0
    assert cf.calls.forward > 1
    triangles = ring(3)
    assert explain(has_triangle, triangles).edits.removed


def test_labels_alone_find_answers_of_many_edits():
    """Six edges must go before the label changes: no single edit, no pair tells anything."""

    def sparse(batch):
        return [int(g.edge_index.shape[1] // 2 <= 4) for g in batch.to_data_list()]

    cf = explain(sparse, ring(10))
    assert cf.found
    assert cf.stage == "endpoint"
    assert (len(cf.edits.removed), len(cf.edits.added), cf.minimal) == (6, 0, True)


def test_pairs_are_tried_where_singles_fail():
    def without_two(batch):
        return [int(g.edge_index.shape[1] // 2 <= 8) for g in batch.to_data_list()]

    cf = explain(without_two, ring(10))
    assert (cf.stage, len(cf.edits)) == ("pairs", 2)


def test_labels_may_be_any_numbers_and_appear_late():
    def edges_less_nine(batch):
        return np.array([g.edge_index.shape[1] // 2 - 9 for g in batch.to_data_list()])

    cf = explain(edges_less_nine, ring(6), desired=-5)
    assert (cf.before.label, cf.after.label) == (-3, -5)
    assert len(cf.edits) == 2
    cf = explain(edges_less_nine, ring(6), desired={-3, 4})
    assert "already" in cf.reason


def test_a_wrapped_model_gets_the_answers_of_the_model():
    model, graphs = sample_model(), sample_graphs(10)
    inside = ce.XPlore().explain(model, graphs, edits=SPACE, progress=False)
    for predict in (scores_of(model), labels_of(model)):
        outside = explain(predict, graphs, SPACE)
        for a, b in zip(inside, outside, strict=True):
            assert b.found
            assert b.before.label == a.before.label
            assert (len(a.edits) == 1) == (len(b.edits) == 1)


def test_probabilities_are_shown_as_they_are():
    model, g = sample_model(), sample_graphs(1)[0]
    given = ce.XPlore().explain(model, g, edits=SPACE).before
    seen = explain(scores_of(model), g, SPACE).before
    assert seen.probability == pytest.approx(given.probability, abs=1e-6)


def test_an_estimator_on_graph_statistics():
    """What a scikit-learn classifier looks like from outside, on columns that the user computes."""

    class NearestMean:
        def fit(self, columns, y):
            self.means = np.stack([columns[y == k].mean(0) for k in (0, 1)])
            return self

        def predict_proba(self, columns):
            closeness = -((columns[:, None] - self.means) ** 2).sum(2)
            weight = np.exp(closeness - closeness.max(1, keepdims=True))
            return weight / weight.sum(1, keepdims=True)

    def columns(graphs):
        return np.array([[g.num_edges / g.num_nodes, g.num_nodes / 10] for g in graphs])

    graphs = [ring(n) for n in (5, 6, 7)]
    dense = [Data(x=torch.ones(6, 1), edge_index=torch.ones(6, 6).triu(1).nonzero().t()) for _ in range(3)]
    for g in dense:
        g.edge_index = torch.cat([g.edge_index, g.edge_index.flip(0)], 1)
    clf = NearestMean().fit(columns([*graphs, *dense]), np.array([0, 0, 0, 1, 1, 1]))
    cfs = explain(lambda batch: clf.predict_proba(columns(batch.to_data_list())), graphs)
    assert all(cf.found and cf.minimal and cf.after.label == 1 for cf in cfs)
    with pytest.raises(ce.InputError, match=r"lambda batch: clf\.predict"):
        explain(type("Estimator", (), {"predict": None})(), graphs)


def test_regression_is_one_float_a_graph():
    def edges(batch):
        return [float(g.num_edges // 2) for g in batch.to_data_list()]

    cf = explain(edges, ring(6), task="regression", desired=(8.5, 9.5))
    assert cf.after.label == 9
    with pytest.raises(ce.ModelError, match="task='regression'"):
        explain(edges, ring(6))


def test_the_batch_is_the_users_own():
    """Own dtypes, slices that fit the edited edges, edge attributes in step, other attributes carried along."""
    seen = []

    def watch(batch):
        graphs = batch.to_data_list()
        for g in graphs:
            seen.append((g.x.dtype, g.edge_attr.shape[0] == g.num_edges, g.tag))
            assert g.num_edges == 0 or int(g.edge_index.max()) < g.num_nodes
        return [int(g.num_edges) for g in graphs]

    graphs = sample_graphs(4)
    for g in graphs:
        g.x = g.x.double()
    cfs = explain(watch, graphs, EDGES)
    assert all(len(cf.edits) == 1 for cf in cfs)
    assert {(dtype, fits) for dtype, fits, _ in seen} == {(torch.float64, True)}
    assert {tag for *_, tag in seen} == {g.tag for g in graphs}


def test_no_trace_is_left():
    model, graphs = sample_model().train(), sample_graphs(3)
    before = model_state(model)["training"], random_state()

    def noisy(batch):
        torch.rand(3), np.random.rand(2)  # noqa: NPY002
        return labels_of(model)(batch)

    explain(noisy, graphs, SPACE)
    assert model_state(model)["training"] == before[0]
    again = random_state()
    assert torch.equal(again[0], before[1][0])
    assert str(again[1:]) == str(before[1][1:])


def test_large_graphs_are_not_searched_at_their_first_nodes_only():
    """More pairs than are tried: 4950 of a ring of 100 nodes, the answer lies among the last."""

    def joined_at_the_end(batch):
        return [int(bool((g.edge_index.amin(0) >= 60).logical_and(g.edge_index.diff(dim=0).abs()[0] > 1).any()))
                for g in batch.to_data_list()]  # fmt: skip

    cf = explain(joined_at_the_end, ring(100))
    assert (cf.stage, len(cf.edits)) == ("greedy-1", 1)


def test_budgets_are_kept():
    for calls in (3, 30, 300):
        for cf in explain(labels_of(sample_model()), sample_graphs(), SPACE, budget=ce.Budget(calls=calls)):
            assert cf.calls.forward <= calls


@pytest.mark.parametrize(
    ("predict", "said"),
    [
        (lambda batch: "yes", "returned str"),
        (lambda batch: [[1.0, 2.0], [1.0]] * batch.num_graphs, "different lengths"),
        (lambda batch: [0.5] * batch.num_graphs, "of two classes give both columns"),
        (lambda batch: [[0.5]] * batch.num_graphs, "of two classes give both columns"),
        (lambda batch: [1, 2, 3], r"expected labels \(1,\)"),
        (lambda batch: None, "returned NoneType"),
        (lambda batch: batch.missing, "the function failed on a batch of one graph: AttributeError"),
    ],
)
def test_answers_that_are_refused(predict, said):
    with pytest.raises(ce.ModelError, match=said):
        explain(predict, ring(5))


def test_options_that_do_not_go_with_a_function():
    for options in ({"relaxation": "dense"}, {"forward_fn": lambda m, b: m(b)}, {"output_fn": lambda out: out}):
        with pytest.raises(ce.InputError, match="are for modules"):
            explain(has_triangle, ring(5), **options)
    with pytest.raises(ce.InputError, match="the function returns labels"):
        explain(has_triangle, ring(5), desired={0: 1})
    with pytest.raises(ce.InputError, match="give scores"):
        explain(has_triangle, ring(5), task="multilabel")
    with pytest.raises(ce.InputError, match=r"needs a torch\.nn\.Module"):
        explain(has_triangle, ring(5), node=0)
    with pytest.raises(ce.CapabilityError, match="HeteroData"):
        explain(has_triangle, HeteroData())


def test_proofs_and_robustness_take_functions_too():
    cf = explain(has_triangle, ring(5))
    assert ce.certify(has_triangle, cf) == 1
    assert 0 <= ce.robustness(has_triangle, cf, 1, samples=20) <= 1


def test_paper_preset_says_that_it_needs_gradients():
    with pytest.raises(ce.CapabilityError, match="gradients"):
        ce.XPlore("paper").explain(has_triangle, ring(5))


def test_numbers_of_every_kind_are_read():
    batch = type("Batch", (), {"num_graphs": 2})()
    for out in ([1, 0], (True, False), np.array([1, 0], dtype=np.int8), torch.tensor([1, 0])):
        assert BlackBox(lambda _, out=out: out)(batch).tolist() == [[1.0], [0.0]]
    assert BlackBox(lambda _: [[0.2, 0.8], [1, 0]])(batch).tolist() == [[0.2, 0.8], [1.0, 0.0]]


class TestLabels(ExplainerContract):
    """The contract, with the sample model seen through its labels alone."""

    minimal = True
    least_found = 0.9

    def make(self, **options):
        return ce.XPlore(**options)

    def run(self, graphs=None, model=None, **options):
        return super().run(graphs, labels_of((model or sample_model()).eval()), **options)

    def test_r2_leaves_no_trace(self):
        """What a function does to the model inside it is its own affair."""

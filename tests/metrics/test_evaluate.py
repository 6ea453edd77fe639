"""``evaluate``: what it takes, what it refuses, what it gives back."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from naive import (
    NAIVE,
    Waves,
    World,
    counterfactual,
    make_counterfactual,
    make_counterfactuals,
    make_dataset,
    make_graph,
    make_labels,
)
from torch_geometric.data import Data

from counteredge.edits import EditSet
from counteredge.embedders import LDP, get_embedders
from counteredge.errors import BudgetError, InputError
from counteredge.explainers import XPlore
from counteredge.metrics import METRICS, definitions, evaluate
from counteredge.space import EditSpace
from counteredge.testing import model_state, random_state, sample_graphs, sample_model, sample_schema

FEW = {"embedders": ["LDP", "SF"], "rounds": 20}


def equal(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, dict):
            equal(value, b[key])
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, b[key]), key
        else:
            assert value == b[key], key


# -- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tensor", "scalar tensor", "int"])
def test_labels_are_the_graphs_own(kind):
    cfs, labels = make_counterfactuals(40), make_labels(40, 22)
    for c, y in zip(cfs, labels, strict=True):
        if y is not None:
            c.original.y = {"tensor": torch.tensor([y]), "scalar tensor": torch.tensor(y), "int": y}[kind]
    found, given = evaluate(cfs, controls=(), **FEW), evaluate(cfs, labels, controls=(), **FEW)
    assert found["fidelity"] == given["fidelity"]
    assert found["fidelity"].count == sum(y is not None for y in labels) > 0
    assert found["fidelity_signed"].mean != found["fidelity"].mean


def test_labels_as_a_tensor_and_over_the_own_ones():
    cfs = make_counterfactuals(41)
    labels = [k % 3 for k in range(len(cfs))]
    for c in cfs:
        c.original.y = torch.tensor([0])
    one, other = evaluate(cfs, labels, **FEW), evaluate(cfs, torch.tensor(labels), **FEW)
    assert one["fidelity_signed"] == other["fidelity_signed"]
    assert one["oracle_accuracy"] != evaluate(cfs, **FEW)["oracle_accuracy"]


def test_labels_as_a_column_are_the_same_labels():
    """Not classes that no prediction equals."""
    cfs = make_counterfactuals(41)
    labels = torch.tensor([k % 3 for k in range(len(cfs))])
    assert evaluate(cfs, labels[:, None], **FEW)["oracle_accuracy"] == evaluate(cfs, labels, **FEW)["oracle_accuracy"]


def test_without_labels_there_is_no_fidelity():
    found = evaluate(make_counterfactuals(42, count=6), **FEW)
    for name in ("fidelity", "fidelity_signed", "oracle_accuracy"):
        assert found[name].count == 0
        assert math.isnan(found[name].mean)
        assert found.mean(name) is None
    assert found.mean("validity") == found["validity"].mean


@pytest.mark.parametrize("count", [3, 5])
def test_wrong_number_of_labels(count):
    cfs = make_counterfactuals(43, count=4)
    with pytest.raises(InputError, match=f"4 counterfactuals but {count} labels"):
        evaluate(cfs, [0] * count, **FEW)


# -- what it refuses --------------------------------------------------------------------------------------------------


def test_unknown_names():
    cfs = make_counterfactuals(44, count=4)
    with pytest.raises(InputError, match="unknown embedder 'graph2vek'; did you mean 'Graph2Vec'"):
        evaluate(cfs, embedders=["graph2vek"])
    with pytest.raises(InputError, match="unknown control 'complet'; did you mean 'complete'"):
        evaluate(cfs, controls=["complet"], **FEW)
    with pytest.raises(InputError, match="over='valid' must be 'found' or 'all'"):
        evaluate(cfs, over="valid", **FEW)


def test_several_answers_a_graph():
    cfs = make_counterfactuals(45, count=4)
    with pytest.raises(InputError, match=r"counterfactual 1 is a list.*k= answers a graph, choose one"):
        evaluate([cfs[0], cfs[1:3], cfs[3]], **FEW)
    with pytest.raises(InputError, match=r"counterfactual 0 is a Data, expected Counterfactual$"):
        evaluate([cfs[0].original], **FEW)


@pytest.mark.parametrize("y", [None, torch.tensor([0.5]), torch.tensor([0, 1])])
def test_dataset_without_classes(y):
    cfs = make_counterfactuals(46, count=6)
    real = make_dataset(46, cfs, (3, 3, 3))
    real[4].y = y
    found = evaluate(cfs, dataset=real, **FEW)
    assert found["class_agreement"].count == found["class_distance"].count == 0
    assert found["cosine_similarity"].count > 0


def test_dataset_with_classes_as_floats():
    cfs = make_counterfactuals(46, count=6)
    real = make_dataset(46, cfs, (3, 3, 3))
    figures = evaluate(cfs, dataset=real, **FEW)
    for g in real:
        g.y = g.y.float()
    assert figures["class_agreement"].count > 0
    assert evaluate(cfs, dataset=real, **FEW)["class_agreement"] == figures["class_agreement"]


def test_dataset_with_other_columns():
    cfs = make_counterfactuals(46, count=6)
    other = [Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=0)]
    with pytest.raises(InputError, match="dataset= have 2 feature columns, those of the counterfactuals"):
        evaluate(cfs, dataset=other, **FEW)


@pytest.mark.parametrize(("options", "named"), [({"rounds": 0}, "rounds=0"), ({"ged_timeout": 0}, "ged_timeout=0")])
def test_options_that_do_not_work(options, named):
    with pytest.raises(InputError, match=named):
        evaluate(make_counterfactuals(46, count=3), **{**FEW, **options})


def test_memory_is_bounded():
    cfs = make_counterfactuals(46, count=3)
    with pytest.raises(BudgetError, match="raise memory="):
        evaluate(cfs, memory=1000, **FEW)


def test_one_alone_is_no_list():
    with pytest.raises(InputError, match="expected a list"):
        evaluate(make_counterfactuals(46, count=3)[0], **FEW)


def test_counterfactuals_of_nodes():
    """Labels are those of the nodes; the model cannot judge controls of a node task."""

    class Nodes(torch.nn.Module):
        def forward(self, x, edge_index):
            degree = torch.zeros(len(x)).index_add_(0, edge_index[1], torch.ones(edge_index.shape[1]))
            return torch.stack([torch.full_like(degree, 1.5), degree], 1)

    ring = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    graph = Data(x=torch.ones(5, 1), edge_index=ring, y=torch.tensor([1, 1, 0, 0, 0]))
    cfs = XPlore().explain(Nodes(), graph, node=[0, 2, 4], edits="edges")
    assert all(c.found for c in cfs)
    assert evaluate(cfs, **FEW).values["oracle_accuracy"].tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="model= judges controls of graph tasks"):
        evaluate(cfs, model=Nodes(), **FEW)


# -- which graphs it is over ------------------------------------------------------------------------------------------


def test_over_all_counts_a_graph_without_a_counterfactual_as_one():
    cfs = make_counterfactuals(47)
    found, every = evaluate(cfs, **FEW), evaluate(cfs, over="all", **FEW)
    missing = sum(not c.found for c in cfs)
    assert missing > 0
    for name in ("cosine_similarity", "cs_ldp", "cs_sf"):
        one, other = found[name], every[name]
        assert (one.count, other.count) == (len(cfs) - missing, len(cfs))
        assert other.mean == pytest.approx((one.mean * one.count + missing) / len(cfs), abs=1e-12)
    assert (found.over, every.over) == ("found", "all")
    for name in ("ged", "validity", "degree_mmd"):
        assert found[name] == every[name]


def test_features_alone_leave_the_structure_as_it_is():
    rng = np.random.default_rng(48)
    cfs = [make_counterfactual(rng, k, 6, found=True, kind="features", directed=k == 1) for k in range(3)]
    found = evaluate(cfs, embedders="all", rounds=20, controls=("random",), progress=False)
    assert found.values["cosine_similarity"].tolist() == [1.0] * 3
    assert found["validity"].mean == 1
    assert found["validity_structural"].mean == 0
    assert found["feature_edits"].mean > 0
    assert found.controls["random"]["ged"].mean == 0


@pytest.mark.parametrize("model", [None, Waves()])
@pytest.mark.parametrize("dataset", [False, True])
def test_no_counterfactuals(model, dataset):
    real = make_dataset(49, [], (5, 5, 5)) if dataset else None
    found = evaluate([], dataset=real, model=model, ged_timeout=1.0, **FEW)
    assert found.graphs == 0
    for figures in (found.metrics, *found.controls.values()):
        for name in METRICS:
            assert figures[name].count == 0, name
            assert all(math.isnan(v) for k, v in vars(figures[name]).items() if k != "count"), name
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.to_markdown().count("\n") == 2


@pytest.mark.parametrize("over", ["found", "all"])
def test_nothing_found(over):
    rng = np.random.default_rng(50)
    cfs = [
        replace(make_counterfactual(rng, k, 5, found=False), valid_refreshed=False, valid_frozen=False)
        for k in range(4)
    ]
    real = make_dataset(50, cfs, (5, 5, 5))
    found = evaluate(cfs, [0, 1, 2, 0], dataset=real, model=Waves(), ged_timeout=60.0, over=over, **FEW)
    for name, m in METRICS.items():
        if m.over == "found" and not (over == "all" and m.needs == "embedders"):
            assert found[name].count == 0, name
            assert all(math.isnan(v) for k, v in vars(found[name]).items() if k != "count"), name
    for name in ("validity", "validity_structural", "validity_refreshed", "validity_frozen", "fidelity"):
        assert (found[name].mean, found[name].count) == (0, 4), name
    if over == "all":
        assert (found["cosine_similarity"].mean, found["cosine_similarity"].count) == (1, 4)
    json.dumps(found.to_dict(), allow_nan=False)


# -- what it gives ----------------------------------------------------------------------------------------------------


def test_json_has_no_nan(tmp_path):
    cfs = make_counterfactuals(51)
    found = evaluate(cfs, **FEW)
    assert math.isnan(found["pyg_fid_plus"].mean)
    value = found.to_dict()
    text = json.dumps(value, allow_nan=False)
    assert json.loads(text) == value
    assert value["metrics"]["pyg_fid_plus"] == {"mean": None, "std": None, "count": 0, "low": None, "high": None}
    assert value["metrics"]["ged"] == vars(found["ged"])
    assert value["metrics"].keys() == METRICS.keys()
    assert (value["graphs"], value["embedders"], value["similarity_over"]) == (22, ["LDP", "SF"], "found")
    assert "runtime" not in found.to_dict(timings=False)["metrics"]
    found.save(tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text(encoding="utf-8")) == value


def test_the_same_again():
    cfs, labels = make_counterfactuals(52), make_labels(52, 22)
    real = make_dataset(52, cfs, (9, 9, 7))
    options = {"dataset": real, "model": Waves(), "embedders": "all", "rounds": 50, "progress": False}
    one = evaluate(cfs, labels, **options).to_dict()
    torch.manual_seed(99)
    assert evaluate(cfs, labels, **options).to_dict() == one
    assert evaluate(cfs, labels, **options, seed=1).to_dict() != one


def test_seed_and_rounds_are_those_of_the_intervals():
    cfs = make_counterfactuals(59)
    options = {"embedders": [], "controls": ()}
    one = evaluate(cfs, rounds=20, **options)["ged"]
    for more in ({"rounds": 20, "seed": 1}, {"rounds": 21}):
        other = evaluate(cfs, **more, **options)["ged"]
        assert (other.mean, other.std, other.count) == (one.mean, one.std, one.count)
        assert (other.low, other.high) != (one.low, one.high)


def test_markdown():
    cfs = make_counterfactuals(53)
    found = evaluate(cfs, controls=("complete", "empty"), **FEW)
    head, rule, *lines = [[c.strip() for c in line.strip("|").split("|")] for line in found.to_markdown().splitlines()]
    assert head == ["metric", "mean", "std", "count", "95 % interval", "complete", "empty"]
    assert rule == ["---"] * 7
    assert [line[0] for line in lines] == [m.title for name, m in METRICS.items() if found[name].count]
    assert all(len(line) == 7 for line in lines)
    line = next(line for line in lines if line[0] == METRICS["ged"].title)
    ged = found["ged"]
    assert line[1:4] == [f"{ged.mean:.4g}", f"{ged.std:.4g}", str(ged.count)]
    assert line[4] == f"{ged.low:.4g} to {ged.high:.4g}"
    # over how many graphs, where they are not as many
    assert line[5:] == [f"{found.controls[c]['ged'].mean:.4g} (22)" for c in ("complete", "empty")]
    assert ged.count < 22
    assert "nan" not in found.to_markdown()
    assert str(found).startswith("22 graphs; similarity over found, mean of 2 embedders\n")


def test_definitions_name_every_metric():
    lines = definitions().splitlines()
    assert len(lines) == len(METRICS) + 2
    for line, (name, m) in zip(lines[2:], METRICS.items(), strict=True):
        assert line.startswith(f"| `{name}` | {m.title} | ")
        assert line.replace("\\|", "").count("|") == 9


def test_values_stand_beside_the_figures():
    cfs = make_counterfactuals(54)
    found = evaluate(cfs, **FEW)
    assert found.values.keys() == {name for name, m in METRICS.items() if not m.whole}
    for name, values in found.values.items():
        assert values.shape == (len(cfs),), name
        assert values.dtype == torch.float64, name
        assert int((~values.isnan()).sum()) == found[name].count, name
        assert found[name].count == 0 or float(values.nanmean()) == pytest.approx(found[name].mean, abs=1e-9), name


def test_embedders_left_out_named_and_given():
    cfs = make_counterfactuals(55, count=8)
    found = evaluate(cfs, embedders=[], rounds=20)
    assert found.embedders == ()
    assert found["cosine_similarity"].count == found["cs_ldp"].count == 0
    found = evaluate(cfs, embedders="ldp", rounds=20)
    assert found.embedders == ("LDP",)
    assert found["cosine_similarity"].mean == found["cs_ldp"].mean
    assert found["cs_sf"].count == 0
    assert evaluate(cfs, embedders=[LDP()], rounds=20)["cs_ldp"] == found["cs_ldp"]


def test_embedders_are_fitted_on_the_dataset():
    cfs = make_counterfactuals(56, count=8)
    real = make_dataset(56, cfs, (6, 6, 6))
    options = {"controls": (), "rounds": 20, "progress": False}
    found = evaluate(cfs, dataset=real, embedders=["Graph2Vec"], **options)
    fitted = get_embedders(["Graph2Vec"])[0].fit(real, progress=False)
    world = World(
        cfs, [None] * 8, embed=lambda name, graphs: fitted.transform(list(graphs)).numpy(), names=["Graph2Vec"]
    )
    world.real = real
    np.testing.assert_allclose(found.values["cs_graph2vec"], NAIVE["cs_graph2vec"](world), atol=1e-9)
    other = evaluate(cfs, embedders=["Graph2Vec"], **options)
    assert not torch.equal(found.values["cs_graph2vec"].nan_to_num(), other.values["cs_graph2vec"].nan_to_num())


# -- models and explainers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
def test_model_and_random_states_are_left_alone(training):
    model, graphs = sample_model(), sample_graphs(8)
    cfs = XPlore().explain(model, graphs, edits="edges")
    model.train(training)
    torch.manual_seed(5)
    states, before = random_state(), model_state(model)
    real = [g.clone() for g in graphs]
    for k, g in enumerate(real):
        g.y = torch.tensor([k % 2])
    found = evaluate(cfs, dataset=real, model=model, embedders="all", rounds=20, progress=False)
    assert found.controls["complete"]["validity"].count == 8
    equal(model_state(model), before)
    assert model.training is training
    for a, b in zip(random_state(), states, strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b)
        else:
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_of_an_explainer():
    """Figures of real answers are those of the naive, and what the results say themselves."""
    model, graphs = sample_model(), sample_graphs(10)
    cfs = XPlore().explain(model, graphs, edits=EditSpace(schema=sample_schema()))
    found = evaluate(cfs, [k % 3 for k in range(10)], model=model, **FEW)
    world = World(cfs, [k % 3 for k in range(10)])
    for name in ("validity", "validity_structural", "fidelity_signed", "ged", "edit_ratio", "feature_edits"):
        np.testing.assert_allclose(found.values[name], NAIVE[name](world), rtol=1e-12, err_msg=name)
    for c, ratio in zip(cfs, found.values["edit_ratio"].tolist(), strict=True):
        assert not c.found or ratio == pytest.approx(c.edit_ratio, abs=1e-12)
    assert found["validity"].mean > 0


def test_removals_that_flip_are_necessary():
    """Where only edges were removed and the flip is real, taking them away changes the label: fid+ is 1."""
    model, graphs = sample_model(), sample_graphs(20, seed=3)
    cfs = XPlore().explain(model, graphs, edits=EditSpace(schema=sample_schema(), features=False, add_edges=False))
    found = evaluate(cfs, model=model, **FEW)
    assert found["pyg_fid_plus"].count == sum(c.found for c in cfs) > 0
    assert found["pyg_fid_plus"].mean == 1


class Count(torch.nn.Module):
    """A number: how many arcs there are."""

    def forward(self, x, edge_index, batch):
        return torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1)[:, None].to(x.dtype)


def test_model_of_a_number():
    """A counterfactual brings the number into a wished range; the model is taken, as ``task=`` says."""
    graph = make_graph(np.random.default_rng(57), 6, density=0.5, messy=False)
    arcs = graph.num_edges
    cfs = XPlore().explain(Count(), [graph], edits="edges", task="regression", desired=(arcs - 4.5, arcs - 3.5))
    assert cfs[0].found
    assert len(cfs[0].edits.removed) == len(cfs[0].edits) == 2
    found = evaluate(cfs, model=Count(), task="regression", desired=(arcs - 4.5, arcs - 3.5), **FEW)
    assert (found["validity"].mean, found["ged"].mean) == (1, 2)
    assert found["fidelity"].count == 0
    # any other number is not yet in the range
    assert found.controls["complete"]["validity"].mean != 1


def test_model_of_several_labels():
    class Bits(torch.nn.Module):
        def forward(self, x, edge_index, batch):
            count = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).to(x.dtype)
            return torch.stack([count - 5, 9 - count], 1)

    graph = make_graph(np.random.default_rng(58), 5, density=0.5, messy=False)
    graph.y = torch.tensor([[1, 0]])
    before = (int(graph.num_edges > 5), int(graph.num_edges < 9))
    cf = counterfactual(graph, EditSet(), found=False, before=before)
    found = evaluate([cf], [before], model=Bits(), task="multilabel", controls=("empty", "complete"), **FEW)
    assert found["oracle_accuracy"].mean == 1
    for control, after in (("empty", (0, 1)), ("complete", (1, 0))):
        assert found.controls[control]["validity"].mean == (after != before), control

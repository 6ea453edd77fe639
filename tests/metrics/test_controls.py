"""Controls against graphs edited by hand."""

import math

import numpy as np
import pytest
import torch
from naive import (
    DEGREE,
    KINDS,
    SCHEMA,
    Waves,
    ask,
    cosine,
    counterfactual,
    edges,
    make_counterfactual,
    make_counterfactuals,
    make_dataset,
    make_graph,
    make_labels,
    simple,
    with_degrees,
    with_edges,
)

from counteredge.edits import EditSet
from counteredge.embedders import get_embedders
from counteredge.errors import InputError
from counteredge.metrics import CONTROLS, METRICS, evaluate
from counteredge.metrics.controls import control_sample
from counteredge.metrics.sample import Sample

PLAIN = {"embedders": ["LDP"], "rounds": 20}
NOT_OF_CONTROLS = (
    "validity_refreshed", "validity_frozen", "one_minimal_share", "survives_refresh", "pyg_fid_plus", "pyg_fid_minus",
    "ged_exact", "calls_forward", "calls_backward", "oracle_calls", "calls_to_first_valid", "runtime",
)  # fmt: skip


def everything(n, directed):
    return {(u, v) for u in range(n) for v in range(n) if u < v or (directed and u != v)}


def wanted(c, control):
    """The edges of the control graph."""
    return set() if control == "empty" else everything(c.original.num_nodes, c.edits.directed)


def test_there_are_three():
    assert list(CONTROLS) == ["empty", "complete", "random"]


@pytest.mark.parametrize("control", ["empty", "complete"])
def test_edges_are_what_the_name_says(control):
    cfs = make_counterfactuals(20)
    sample = control_sample(Sample.of(cfs), control)
    for c, g, count in zip(cfs, sample.edited, sample.edge_edits.tolist(), strict=True):
        assert g.num_nodes == c.original.num_nodes
        assert edges(g, c.edits.directed) == wanted(c, control)
        assert count == len(edges(c.original, c.edits.directed) ^ wanted(c, control))
    assert sample.edge_edits.sum() > 0


def flips(c, g):
    return edges(c.original, c.edits.directed) ^ edges(g, c.edits.directed)


def drawn(cfs, seed=0):
    """The flips of the random control, graph by graph."""
    sample = control_sample(Sample.of(cfs), "random", seed=seed)
    found = [flips(c, g) for c, g in zip(cfs, sample.edited, strict=True)]
    assert sample.edge_edits.tolist() == [len(f) for f in found]
    return found


def test_random_flips_as_many_pairs_as_the_counterfactual():
    cfs = make_counterfactuals(21, count=40)
    found = drawn(cfs)
    assert [len(f) for f in found] == [c.edits.edge_count if c.found else 0 for c in cfs]
    assert {len(f) for f in found} >= {0, 1, 2, 3, 4}


def test_random_flips_belong_to_the_graph_and_the_seed():
    cfs = make_counterfactuals(22, count=30)
    found = drawn(cfs)
    assert drawn(cfs) == found
    assert drawn(cfs[::-1]) == found[::-1]
    assert [drawn([c])[0] for c in cfs] == found
    assert drawn(cfs, seed=1) != found
    before = torch.get_rng_state()
    torch.manual_seed(3)
    assert drawn(cfs) == found
    torch.set_rng_state(before)


@pytest.mark.parametrize("directed", [False, True])
def test_random_draws_every_pair(directed):
    """Over many seeds every pair is flipped about as often, present or not."""
    graph = make_graph(np.random.default_rng(23), 5, directed)
    pairs = sorted(everything(5, directed))
    cf = counterfactual(graph, EditSet.between(graph, with_edges(graph, set(pairs[:3]), directed), directed=directed))
    seen = dict.fromkeys(pairs, 0)
    for seed in range(400):
        for p in drawn([cf], seed)[0]:
            seen[p] += 1
    share = cf.edits.edge_count / len(pairs)
    for count in seen.values():
        assert count / 400 == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 400))


def made_by_hand(cfs, control):
    """Each control graph with its features; degrees as they are in the counterfactuals."""
    out = [with_edges(c.original, wanted(c, control), c.edits.directed) for c in cfs]
    return [with_degrees(g) if c.structural == "refreshed" else g for c, g in zip(cfs, out, strict=True)]


@pytest.mark.parametrize("structural", ["refreshed", "frozen"])
@pytest.mark.parametrize("control", ["empty", "complete"])
def test_model_is_asked_about_the_control_graphs(control, structural):
    model, cfs = Waves(), make_counterfactuals(24, count=40)
    for c in cfs:
        c.structural = structural
        c.before = type(c.before)(ask(model, c.original), 0.5)
    labels = make_labels(24, len(cfs))
    after = [ask(model, g) for g in made_by_hand(cfs, control)]
    valid = [a != c.before.label for a, c in zip(after, cfs, strict=True)]
    figures = evaluate(cfs, labels, model=model, controls=(control,), **PLAIN).controls[control]
    assert 0 < sum(valid) < len(cfs)
    assert figures["validity"].mean == pytest.approx(np.mean(valid), abs=1e-12)
    assert figures["validity"].count == len(cfs)
    signed = [
        float(c.before.label == y) - float(a == y) for c, a, y in zip(cfs, after, labels, strict=True) if y is not None
    ]
    assert figures["fidelity_signed"].mean == pytest.approx(np.mean(signed), abs=1e-12)
    assert figures["fidelity"].mean == pytest.approx(np.mean(np.clip(signed, 0, None)), abs=1e-12)
    sizes = [
        len(edges(c.original, c.edits.directed) ^ wanted(c, control)) for c, v in zip(cfs, valid, strict=True) if v
    ]
    assert figures["ged"].mean == pytest.approx(np.mean(sizes), abs=1e-12)
    assert figures["ged"].count == sum(valid)
    moved = [
        v and len(flips(c, with_edges(c.original, wanted(c, control), c.edits.directed))) > 0
        for c, v in zip(cfs, valid, strict=True)
    ]
    assert figures["validity_structural"].mean == pytest.approx(np.mean(moved), abs=1e-12)


def test_refreshed_columns_make_a_difference():
    """Else the two cases above would be one."""
    cfs = make_counterfactuals(24, count=40)
    for c in cfs:
        c.structural = "refreshed"
    refreshed = [ask(Waves(), g) for g in made_by_hand(cfs, "empty")]
    for c in cfs:
        c.structural = "frozen"
    assert refreshed != [ask(Waves(), g) for g in made_by_hand(cfs, "empty")]


def test_random_control_asks_the_model_where_something_was_found():
    model, cfs = Waves(), make_counterfactuals(25, count=40)
    for c in cfs:
        c.before = type(c.before)(ask(model, c.original), 0.5)
    valid = []
    for c, pairs in zip(cfs, drawn(cfs, seed=4), strict=True):
        graph = with_edges(c.original, edges(c.original, c.edits.directed) ^ pairs, c.edits.directed)
        valid.append(
            c.found and ask(model, with_degrees(graph) if c.structural == "refreshed" else graph) != c.before.label
        )
    figures = evaluate(cfs, model=model, controls=("random",), seed=4, **PLAIN).controls["random"]
    assert 0 < sum(valid) < sum(c.found for c in cfs)
    assert figures["validity"].mean == pytest.approx(np.mean(valid), abs=1e-12)
    assert figures["validity"].count == len(cfs)


@pytest.mark.parametrize("control", ["empty", "complete"])
def test_sizes_and_similarity_without_a_model(control):
    cfs = make_counterfactuals(26)
    embedder = get_embedders(["LDP"])[0]
    found = evaluate(cfs, controls=(control,), dataset=make_dataset(26, cfs, (9, 9, 7)), **PLAIN)
    figures = found.controls[control]
    edited = [with_edges(c.original, wanted(c, control), c.edits.directed) for c in cfs]
    one, other = (embedder.transform(g).numpy() for g in ([c.original for c in cfs], edited))
    assert figures["cs_ldp"].mean == pytest.approx(np.mean([cosine(a, b) for a, b in zip(one, other, strict=True)]))
    count = [len(edges(c.original, c.edits.directed) ^ wanted(c, control)) for c in cfs]
    size = [c.original.num_nodes + len(edges(c.original, c.edits.directed)) for c in cfs]
    assert figures["ged"].mean == pytest.approx(np.mean(count), abs=1e-12)
    assert figures["edit_ratio"].mean == pytest.approx(np.mean(np.divide(count, size)), abs=1e-12)
    assert figures["ged"].count == len(cfs)
    assert figures["feature_edits"].mean == figures["feature_l1"].mean == 0
    for name in ("validity", "validity_structural", "fidelity", "fidelity_signed", "class_agreement"):
        assert math.isnan(figures[name].mean), name
        assert figures[name].count == 0, name


def test_random_control_has_no_size_where_nothing_was_found():
    cfs = make_counterfactuals(32)
    figures = evaluate(cfs, controls=("random",), **PLAIN).controls["random"]
    sizes = [c.edits.edge_count for c in cfs if c.found]
    assert figures["ged"].count == len(sizes) < len(cfs)
    assert figures["ged"].mean == pytest.approx(np.mean(sizes), abs=1e-12)


@pytest.mark.parametrize("control", ["empty", "complete"])
def test_over_all_a_control_that_does_not_flip_counts_as_one(control):
    model, cfs = Waves(), make_counterfactuals(33)
    for c in cfs:
        c.structural = "frozen"
        c.before = type(c.before)(ask(model, c.original), 0.5)
    edited = made_by_hand(cfs, control)
    embedder = get_embedders(["LDP"])[0]
    one, other = (embedder.transform(g).numpy() for g in ([c.original for c in cfs], edited))
    expected = [
        cosine(a, b) if ask(model, g) != c.before.label else 1.0
        for a, b, g, c in zip(one, other, edited, cfs, strict=True)
    ]
    figures = evaluate(cfs, model=model, over="all", controls=(control,), **PLAIN).controls[control]
    assert figures["cs_ldp"].mean == pytest.approx(np.mean(expected), abs=1e-12)
    assert figures["cs_ldp"].count == len(cfs)


def test_what_controls_do_not_have_is_not_known():
    cfs = make_counterfactuals(27, count=10)
    found = evaluate(cfs, model=Waves(), **PLAIN)
    assert list(found.controls) == list(CONTROLS)
    for figures in found.controls.values():
        assert list(figures) == list(METRICS)
        for name in NOT_OF_CONTROLS:
            assert math.isnan(figures[name].mean), name
            assert figures[name].count == 0, name


def test_oracle_accuracy_is_the_same_everywhere():
    cfs = make_counterfactuals(28)
    found = evaluate(cfs, make_labels(28, len(cfs)), **PLAIN)
    assert found["oracle_accuracy"].count > 0
    for figures in found.controls.values():
        assert figures["oracle_accuracy"] == found["oracle_accuracy"]


def test_empty_graph_that_is_empty_already_is_no_counterfactual():
    rng = np.random.default_rng(29)
    graph = make_graph(rng, 4, density=0.0)
    model = Waves()
    cf = counterfactual(graph, EditSet(added=((0, 1),)), before=ask(model, graph), after=(ask(model, graph) + 1) % 3)
    figures = evaluate([cf], model=model, controls=("empty",), **PLAIN).controls["empty"]
    assert figures["validity"].mean == 0
    assert figures["ged"].count == 0


def test_what_is_as_wished_already_is_not_flipped():
    """A graph of the wished class that stays in it is no counterfactual, for a control as for an explainer."""
    model, cfs = Waves(), make_counterfactuals(34, count=40)
    for c in cfs:
        c.structural = "frozen"
        c.before = type(c.before)(ask(model, c.original), 0.5)
    after = [ask(model, g) for g in made_by_hand(cfs, "complete")]
    kept = [counterfactual(c.original, EditSet(directed=c.edits.directed), found=False, before=1)
            for c, y in zip(cfs, after, strict=True) if c.before.label == y == 1]  # fmt: skip
    assert kept
    figures = evaluate(kept, model=model, desired=1, controls=("complete",), **PLAIN).controls["complete"]
    assert figures["validity"].mean == 0


def test_structure_follows_features_stay():
    """The control graphs as the model sees them."""
    seen = []

    class Watching(Waves):
        def forward(self, x, edge_index, batch):
            seen.append((x.clone(), edge_index.clone(), batch.clone()))
            return super().forward(x, edge_index, batch)

    rng = np.random.default_rng(30)
    cfs = [make_counterfactual(rng, k, 5, found=True, kind=KINDS[k], directed=False) for k in range(4)]
    for c in cfs:
        c.structural = "refreshed"
    evaluate(cfs, model=Watching(), controls=("complete",), **PLAIN)
    kept = [x[-20:] for x, _, _ in seen if bool((x[-20:, DEGREE] == 4).all())]
    assert kept, "no call with four complete graphs of five nodes"
    expected = torch.cat([c.original.x[:, :DEGREE] for c in cfs])
    assert all(torch.equal(x[:, :DEGREE], expected) for x in kept)
    assert all(simple(c.original).number_of_edges() < 10 for c in cfs)
    assert SCHEMA.columns[DEGREE].derived == "degree"


def test_nodes_of_one_graph_have_draws_of_their_own():
    graph = make_graph(np.random.default_rng(33), 12, density=0.3, messy=False)
    cfs = [counterfactual(graph, EditSet(added=((0, 1),)), node=node) for node in range(6)]
    sample = control_sample(Sample.of(cfs), "random")
    assert len({str(g.edge_index.tolist()) for g in sample.edited}) > 1
    again = control_sample(Sample.of(cfs[3:4]), "random")
    assert torch.equal(again.edited[0].edge_index, sample.edited[3].edge_index)


def test_unknown_control():
    with pytest.raises(InputError, match="unknown control 'randm'; did you mean 'random'"):
        evaluate(make_counterfactuals(31, count=4), controls=("randm",), **PLAIN)
    with pytest.raises(InputError, match="unknown control"):
        control_sample(Sample.of([]), "none")

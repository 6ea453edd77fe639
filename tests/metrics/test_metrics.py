"""Every metric against its twin in ``naive``, and what has to hold whatever the graphs are."""

import copy
import math
from dataclasses import replace
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import (
    NAIVE,
    NAN,
    SCHEMA,
    Waves,
    World,
    counterfactual,
    edges,
    ged,
    least_ged,
    make_counterfactual,
    make_counterfactuals,
    make_dataset,
    make_edits,
    make_graph,
    make_labels,
    simple,
    with_degrees,
)
from torch_geometric.data import Data

from counteredge.edits import AttributeEdit, EditSet, FeatureEdit
from counteredge.embedders import EMBEDDERS, get_embedders
from counteredge.metrics import METRICS, CosineSimilarity, aggregate, cosine, evaluate, exact_ged, plausibility
from counteredge.schema import Column, FeatureSchema

PLAIN = {"embedders": ["LDP", "SF"], "controls": (), "rounds": 20}


def of(graphs_and_edits, **more):
    return [counterfactual(g, e, index=k, **more) for k, (g, e) in enumerate(graphs_and_edits)]


def both(*pairs):
    return torch.tensor([p for u, v in pairs for p in ((u, v), (v, u))], dtype=torch.long).reshape(-1, 2).t()


def bare(n, *pairs):
    return with_degrees(Data(x=torch.zeros(n, SCHEMA.width), edge_index=both(*pairs)))


# -- against the naive ------------------------------------------------------------------------------------------------


@cache
def measured(seed, over="found"):
    """What the library says and the world for the naive to look at, embedded by all ten embedders."""
    cfs = make_counterfactuals(seed)
    labels, real = make_labels(seed, len(cfs)), make_dataset(seed, cfs, (9, 9, 7))
    embedders = get_embedders("all")
    found = evaluate(
        cfs, labels, dataset=real, model=Waves(), embedders=embedders, over=over, controls=(), rounds=50, progress=False
    )
    made = {e.name: e for e in embedders}
    names = list(made)

    def embed(name, graphs):
        return made[name].transform(list(graphs), progress=False).numpy()

    return found, World(cfs, labels, real, Waves(), embed, names, over)


@cache
def settled(seed):
    """Graphs small enough to go through all ways to match their nodes."""
    cfs = make_counterfactuals(seed, count=14, most=5)
    return evaluate(cfs, embedders=[], controls=(), ged_timeout=120.0, rounds=20), World(cfs, [None] * len(cfs))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", METRICS)
def test_metric_is_the_naive_one(name, seed):
    assert name in NAIVE, f"{name} has no naive twin"
    found, world = settled(seed) if name == "ged_exact" else measured(seed)
    compare(found, world, name)


@pytest.mark.parametrize("name", [name for name in METRICS if "cs_" in name or name == "cosine_similarity"])
def test_similarity_over_all_is_the_naive_one(name):
    compare(*measured(2, "all"), name)


def compare(found, world, name):
    expected = NAIVE[name](world)
    figures = found[name]
    if METRICS[name].whole:
        assert figures.mean == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert figures.count == sum(c.found for c in world.cfs)
        assert math.isnan(figures.std)
        return
    np.testing.assert_allclose(found.values[name].numpy(), expected, rtol=1e-12, atol=1e-12)
    kept = [v for v in expected if not math.isnan(v)]
    assert len(kept) > 1, "the sample tries nothing"
    assert figures.count == len(kept)
    assert figures.mean == pytest.approx(np.mean(kept), rel=1e-12, abs=1e-12)
    assert figures.std == pytest.approx(np.std(kept, ddof=1), rel=1e-12, abs=1e-12)


def test_the_sample_has_every_kind_of_case():
    cfs = make_counterfactuals(0)
    found = [c for c in cfs if c.found]
    assert 0 < len(found) < len(cfs)
    assert {c.edits.directed for c in found} == {True, False}
    assert any((c.original.edge_index[0] == c.original.edge_index[1]).any() for c in found)
    assert any(len(c.original.edge_index.t().unique(dim=0)) < c.original.num_edges for c in found)
    assert any(not c.edits.edge_count for c in found)
    assert any(not c.edits.feature_count and not c.edits.added for c in found)
    assert any(len(e.columns) == 2 for c in found for e in c.edits.features)
    assert {c.original.num_nodes for c in found} >= {1, 3}
    assert {c.structural for c in found} == {"refreshed", "frozen"}
    # columns that follow from the edges did change where nobody edited them
    assert any(c.structural == "refreshed" and (c.data.x[:, 6] != c.original.x[:, 6]).any() for c in found)


def test_no_twin_without_a_metric():
    assert set(NAIVE) == set(METRICS)


def among(seed, sizes):
    """What the library says and what the naive looks at, with ``sizes[c]`` real graphs of class ``c``."""
    cfs = make_counterfactuals(seed)
    real = make_dataset(seed, cfs, sizes)
    found = evaluate(cfs, dataset=real, embedders=[], controls=(), rounds=20)
    embedder = get_embedders(["WaveletCharacteristic"])[0]
    return found, World(cfs, [None] * len(cfs), real, embed=lambda _, graphs: embedder.transform(list(graphs)).numpy())


@pytest.mark.parametrize("sizes", [(21, 21, 21), (20, 22, 24), (7, 9, 9)])
def test_neighbours_among_more_and_fewer_graphs(sizes):
    """Where classes have more than 15 members, of an odd and of an even number, and where they have fewer."""
    found, world = among(3, sizes)
    np.testing.assert_allclose(found.values["class_agreement"], NAIVE["class_agreement"](world), rtol=1e-6)
    np.testing.assert_allclose(found.values["class_distance"], NAIVE["class_distance"](world), rtol=1e-9)


def test_usual_distance_is_the_median_of_an_even_number_too():
    found, world = among(4, (8, 8, 8))
    np.testing.assert_allclose(found.values["class_distance"], NAIVE["class_distance"](world), rtol=1e-9)


@pytest.mark.parametrize("more", [15, 60])
def test_the_original_is_no_neighbour_of_its_counterfactual(more):
    """A graph is no witness of its own class, neither of the old one nor of the new one."""
    rng = np.random.default_rng(5)
    for k in range(4):
        cf = make_counterfactual(rng, k, 8, found=True, kind="edges")
        cf = replace(cf, before=replace(cf.before, label=0), after=replace(cf.after, label=1))
        real = make_dataset(5, [cf], (1 + more,))
        for one, g in enumerate(real):  # no graph but the original is of the class of its counterfactual
            g.y = torch.tensor([int(one == 0)])
        figures = evaluate([cf], dataset=real, embedders=[], controls=(), rounds=20)
        assert figures["class_agreement"].mean == 0
        assert figures["class_distance"].count == 0


def test_neighbours_are_of_answers_that_change_the_structure():
    """One that changes nothing but features lies where its original does, whatever its class."""
    rng = np.random.default_rng(5)
    cfs = [make_counterfactual(rng, k, 8, found=True, kind=kind) for k, kind in enumerate(["features", "edges"])]
    figures = evaluate(cfs, dataset=make_dataset(5, cfs, (9, 9, 9)), embedders=[], controls=(), rounds=20)
    assert [math.isnan(v) for v in figures.values["class_agreement"].tolist()] == [True, False]
    assert figures["class_distance"].count == 1


def test_node_difference_counts():
    graph = bare(3, (0, 1), (1, 2))
    bigger = bare(5, (0, 1), (1, 2), (2, 3))
    cf = counterfactual(graph, EditSet(added=((2, 3),)), data=bigger)
    found = evaluate([cf], **PLAIN)
    assert found["ged"].mean == ged(cf) == 3
    assert found["edit_ratio"].mean == 3 / 5
    assert found["sparsity_cfgnn"].mean == 1 - 3 / 2


def node_edits():
    """A path of three with a bond to a new node in place of its last one, and another bond type."""
    graph = bare(3, (0, 1), (1, 2))
    graph.edge_attr = torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2)
    upgrade = AttributeEdit((0, 1), "edge_attr", (1.0, 0.0), (0.0, 1.0))
    edits = EditSet(
        added=((0, 3),),
        removed=((1, 2),),
        new_nodes=((0.0,) * graph.x.shape[1],),
        removed_nodes=(2,),
        attributes=(upgrade,),
        nodes=3,
    )
    return graph, edits


def test_edits_of_nodes_and_attributes():
    graph, edits = node_edits()
    cf = counterfactual(graph, edits)
    assert cf.data.num_nodes == 3  # as many as before, and yet two node edits
    found = evaluate([cf], ged_timeout=5, **PLAIN)
    assert found["ged"].mean == cf.edits.ged == 4
    assert found["edit_ratio"].mean == cf.edit_ratio == 4 / 5
    assert found["sparsity_cfgnn"].mean == 1 - 4 / 2
    assert found["feature_edits"].mean == found["feature_l1"].mean == 1
    assert found["ged_exact"].mean == 0  # a path again
    assert found["cosine_similarity"].mean == pytest.approx(1)
    assert found["validity_structural"].mean == 1
    assert found["pyg_fid_plus"].count == 0


def test_removed_edges_of_removed_nodes_are_no_explanation_by_edges():
    graph = bare(3, (0, 1), (1, 2))
    gone = EditSet(removed=((1, 2),), removed_nodes=(2,))
    model = Waves()
    found = evaluate(
        [counterfactual(graph, gone), counterfactual(graph, EditSet(removed=((1, 2),)))], model=model, **PLAIN
    )
    assert [math.isnan(v) for v in found.values["pyg_fid_plus"].tolist()] == [True, False]
    assert [math.isnan(v) for v in found.values["pyg_fid_minus"].tolist()] == [True, False]


def test_numbers_of_edges_are_in_ranges():
    graph = bare(3, (0, 1), (1, 2))
    graph.edge_weight = torch.tensor([1.0, 1.0, 5.0, 5.0])
    change = AttributeEdit((0, 1), "edge_weight", 1.0, 2.0)
    found = evaluate([counterfactual(graph, EditSet(attributes=(change,)))], **PLAIN)
    assert found["feature_l1"].mean == 0.25
    assert found["ged"].mean == 0
    assert found["validity_structural"].mean == 0
    graph.edge_weight = torch.ones(4)
    found = evaluate([counterfactual(graph, EditSet(attributes=(change,)))], **PLAIN)
    assert found["feature_l1"].mean == 1


def test_controls_of_edits_of_nodes_keep_the_nodes():
    cfs = of([node_edits()])
    figures = evaluate(cfs, embedders=["LDP"], rounds=20).controls
    assert figures["random"]["ged"].mean == 2  # as many pairs as the answer edits
    assert figures["empty"]["ged"].mean == 2
    assert figures["complete"]["ged"].mean == 1
    assert all(f["feature_edits"].mean == 0 for f in figures.values())


def test_without_a_schema_every_column_is_one():
    rng = np.random.default_rng(6)
    cfs = [make_counterfactual(rng, k, 6, found=True, kind="features") for k in range(6)]
    for c in cfs:
        c.schema = None
        c.data = c.edits.apply(c.original)
        columns = [
            FeatureEdit(e.node, (k,), (a,), (b,))
            for e in c.edits.features
            for k, a, b in zip(e.columns, e.old, e.new, strict=True)
        ]
        c.edits = EditSet(features=tuple(columns))
    found, world = evaluate(cfs, **PLAIN), World(cfs, [None] * 6)
    for name in ("feature_edits", "feature_l1"):
        compare(found, world, name)


@pytest.mark.parametrize(
    ("lo", "hi", "seen", "expected"),
    [(-5, 5, (0, 1), 0.2), (-math.inf, math.inf, (0, 4), 0.5), (0, math.inf, (0, 4), 0.5), (3, 3, (0, 1), 2.0),
     (-math.inf, math.inf, (0, 0), 2.0)],
)  # fmt: skip
def test_feature_distance_is_in_ranges(lo, hi, seen, expected):
    schema = FeatureSchema((Column("continuous", lo=lo, hi=hi),))
    graph = Data(x=torch.tensor([[float(v)] for v in seen]), edge_index=both((0, 1)))
    cf = counterfactual(graph, EditSet(features=(FeatureEdit(0, (0,), (0.0,), (2.0,)),)), schema=schema)
    assert evaluate([cf], **PLAIN)["feature_l1"].mean == pytest.approx(expected, abs=1e-15)


# -- the registry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
def test_entry_says_what_it_is(name):
    m = METRICS[name]
    assert m.name == name
    for text in (m.name, m.title, m.formula, m.reference):
        assert text.strip() == text != ""
    assert m.direction in ("higher", "lower", "neither")
    assert m.over in ("all graphs", "found")
    assert m.low < m.high
    assert m.compute.__doc__ or name.startswith("cs_")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", METRICS)
def test_values_lie_in_the_range(name, seed):
    m = METRICS[name]
    found = settled(seed)[0] if name == "ged_exact" else measured(seed)[0]
    figures = found[name]
    assert figures.count > 0
    values = [figures.mean, figures.low, figures.high]
    values += [] if m.whole else [v for v in found.values[name].tolist() if not math.isnan(v)]
    assert all(m.low <= v <= m.high for v in values)


# -- properties -------------------------------------------------------------------------------------------------------


def relabelled(c, order):
    """The same counterfactual with node ``v`` called ``order[v]``."""
    place = torch.tensor(order)

    def graph(g):
        out = g.clone()
        out.edge_index = place[g.edge_index]
        out.x = torch.empty_like(g.x)
        out.x[place] = g.x
        return out

    def pairs(found):
        moved = [(order[u], order[v]) for u, v in found]
        return tuple(sorted(p if c.edits.directed else (min(p), max(p)) for p in moved))

    e = c.edits
    features = tuple(sorted((replace(f, node=order[f.node]) for f in e.features), key=lambda f: (f.node, f.columns)))
    return replace(
        c, original=graph(c.original), data=None if c.data is None else graph(c.data),
        edits=EditSet(pairs(e.added), pairs(e.removed), features, e.directed),
    )  # fmt: skip


@pytest.mark.parametrize("seed", [0, 7])
def test_names_of_nodes_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    cfs = make_counterfactuals(seed, count=12, most=7)
    others = [relabelled(c, rng.permutation(c.original.num_nodes).tolist()) for c in cfs]
    real, labels = make_dataset(seed, cfs, (7, 9, 9)), make_labels(seed, len(cfs))
    options = {
        "dataset": real, "model": Waves(), "embedders": ["LDP", "SF", "FGSD"], "controls": ("empty", "complete"),
        "rounds": 20,
    }  # fmt: skip
    one, other = evaluate(cfs, labels, **options), evaluate(others, labels, **options)
    assert any(not torch.equal(a.original.edge_index, b.original.edge_index) for a, b in zip(cfs, others, strict=True))
    for name in METRICS:
        same(one[name], other[name], name)
        for control in one.controls:
            same(one.controls[control][name], other.controls[control][name], name)


def same(a, b, name):
    for key, value in vars(a).items():
        assert value == pytest.approx(vars(b)[key], rel=1e-9, abs=1e-9, nan_ok=True), (name, key)


def test_order_of_counterfactuals_does_not_matter():
    cfs, labels = make_counterfactuals(8), make_labels(8, 22)
    real, options = make_dataset(8, cfs, (9, 9, 7)), {"model": Waves(), **PLAIN, "controls": ("empty", "random")}
    order = np.random.default_rng(8).permutation(len(cfs))
    one = evaluate(cfs, labels, dataset=real, **options)
    other = evaluate([cfs[k] for k in order], [labels[k] for k in order], dataset=real, **options)
    for name in METRICS:
        pairs = [(one[name], other[name]), *((one.controls[c][name], other.controls[c][name]) for c in one.controls)]
        for a, b in pairs:
            assert a.mean == pytest.approx(b.mean, rel=1e-9, abs=1e-9, nan_ok=True), name
            assert a.std == pytest.approx(b.std, rel=1e-9, abs=1e-9, nan_ok=True), name
            assert a.count == b.count, name
    for name, values in one.values.items():
        np.testing.assert_allclose(values[torch.tensor(order)], other.values[name], rtol=1e-9, atol=1e-9)


def test_nothing_changed_is_perfect():
    rng = np.random.default_rng(9)
    graphs = [make_graph(rng, n, directed=d, density=0.7) for n in (5, 6, 7) for d in (False, True)]
    cfs = [counterfactual(g, EditSet(directed=k % 2 == 1)) for k, g in enumerate(graphs)]
    found = evaluate(cfs, embedders="all", controls=(), ged_timeout=60.0, rounds=20, progress=False)
    perfect = {"ged": 0, "edit_ratio": 0, "sparsity_cfgnn": 1, "feature_edits": 0, "feature_l1": 0, "ged_exact": 0}
    perfect |= {"cosine_similarity": 1, "validity_structural": 0}
    perfect |= {f"cs_{name.lower().replace('-', '_')}": 1 for name in EMBEDDERS}
    for name, value in perfect.items():
        those = found.values[name][::2] if name == "ged_exact" else found.values[name]  # of undirected graphs only
        assert set(those.tolist()) == {value}, name
    for name in ("degree_mmd", "clustering_mmd"):
        assert found[name].mean == pytest.approx(0, abs=1e-15)
        assert found[name].count == len(cfs)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31))
def test_original_and_edited_can_be_swapped(seed):
    rng = np.random.default_rng(seed)
    schema = FeatureSchema(tuple(replace(c, lo=-9, hi=9) if c.kind != "onehot" else c for c in SCHEMA.columns))
    cfs = [
        make_counterfactual(rng, k, int(rng.integers(4, 8)), found=True, kind=["both", "edges"][k % 2], directed=k == 2)
        for k in range(4)
    ]
    cfs = [replace(c, schema=schema) for c in cfs]
    back = []
    for c in cfs:
        features = tuple(FeatureEdit(e.node, e.columns, e.new, e.old) for e in c.edits.features)
        turned = EditSet(c.edits.removed, c.edits.added, features, c.edits.directed)
        back.append(replace(c, original=c.data, data=c.original, edits=turned))
    similarity = CosineSimilarity(["LDP", "SF"]).fit([c.original for c in cfs])
    options = {**PLAIN, "embedders": similarity.embedders}
    one, other = evaluate(cfs, **options), evaluate(back, **options)
    for name in ("ged", "feature_edits", "feature_l1", "cosine_similarity", "cs_ldp", "cs_sf"):
        np.testing.assert_allclose(one.values[name], other.values[name], rtol=1e-9, atol=1e-12, err_msg=name)
    for name in ("degree_mmd", "clustering_mmd"):
        assert one[name].mean == pytest.approx(other[name].mean, abs=1e-12)
    assert one["ged"].mean > 0
    assert one["feature_l1"].mean > 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31))
def test_cosine_is_numpys(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(6, 4)), rng.normal(size=(6, 5))
    a[0] = b[0] = 0  # both are zero
    a[1] = 0  # one is
    b[2] = np.append(a[2], 0)  # the same, one longer
    b[3] = np.append(-3 * a[3], 0)
    got = cosine(torch.tensor(a), torch.tensor(b)).tolist()
    assert got[:4] == [1.0, 0.0, 1.0, pytest.approx(-1, abs=1e-12)]
    for k in (4, 5):
        expected = a[k] @ b[k, :4] / np.linalg.norm(a[k]) / np.linalg.norm(b[k])
        assert got[k] == pytest.approx(expected, abs=1e-12)
    assert all(-1 <= v <= 1 for v in got)


# -- exact distance ---------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_exact_distance(seed):
    rng = np.random.default_rng(seed)
    graph = make_graph(rng, int(rng.integers(2, 6)))
    c = counterfactual(graph, make_edits(rng, graph, False, "edges"))
    got = exact_ged(c.original, c.data, timeout=120.0)
    assert got == least_ged(c) == nx.graph_edit_distance(simple(c.original), simple(c.data))
    assert got <= ged(c)
    assert exact_ged(c.data, c.original, timeout=120.0) == got


def test_exact_distance_is_below_the_aligned_one_where_nodes_trade_places():
    path, other = bare(4, (0, 1), (1, 2), (2, 3)), bare(4, (0, 1), (1, 3), (2, 3))
    cf = counterfactual(path, EditSet(added=((1, 3),), removed=((1, 2),)), data=other)
    found = evaluate([cf], **PLAIN, ged_timeout=60.0)
    assert (found["ged"].mean, found["ged_exact"].mean) == (2, 0)


def test_exact_distance_with_more_nodes():
    assert exact_ged(bare(3, (0, 1)), bare(5, (0, 1), (1, 2)), timeout=60.0) == 3


def test_exact_distance_that_is_not_settled_is_not_known():
    rng = np.random.default_rng(10)
    one, other = make_graph(rng, 12, density=0.5), make_graph(rng, 12, density=0.5)
    assert math.isnan(exact_ged(one, other, timeout=0.05))
    present, wanted = edges(one, False), edges(other, False)
    cf = counterfactual(one, EditSet(tuple(wanted - present), tuple(present - wanted)), data=other)
    figures = evaluate([cf], **PLAIN, ged_timeout=0.05)["ged_exact"]
    assert math.isnan(figures.mean)
    assert figures.count == 0


# -- aggregate --------------------------------------------------------------------------------------------------------

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=30)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(0, 3))
def test_mean_and_spread_are_numpys(values, unknown):
    found = aggregate(torch.tensor([*values, *[NAN] * unknown], dtype=torch.float64))
    assert found.count == len(values)
    if not values:
        assert all(math.isnan(v) for v in (found.mean, found.std, found.low, found.high))
        return
    scale = max(1.0, max(map(abs, values)))
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-12 * scale)
    if len(values) == 1:
        assert math.isnan(found.std)
    else:
        assert found.std == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-12 * scale)
    assert found.low - 1e-9 * scale <= found.mean <= found.high + 1e-9 * scale


def test_nothing_is_not_zero():
    for values in ([], [NAN, NAN]):
        found = aggregate(torch.tensor(values))
        assert found.count == 0
        assert all(math.isnan(v) for v in (found.mean, found.std, found.low, found.high))
        assert found.to_dict() == {"mean": None, "std": None, "count": 0, "low": None, "high": None}


def test_equal_values_have_no_spread():
    found = aggregate(torch.full((7,), 0.1, dtype=torch.float64))
    assert (found.mean, found.std, found.count, found.low, found.high) == (0.1, 0.0, 7, 0.1, 0.1)


def test_interval_is_a_bootstrap():
    values = np.random.default_rng(11).exponential(size=80)
    found = aggregate(torch.tensor(values), rounds=20000)
    means = values[np.random.default_rng(12).integers(0, 80, (20000, 80))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.01)
    assert found.high == pytest.approx(high, abs=0.01)
    assert low + 0.1 < high


def test_interval_depends_on_the_seed_alone():
    values = torch.rand(40, generator=torch.Generator().manual_seed(13))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = aggregate(values, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert aggregate(values, seed=5) == one
    assert aggregate(values, seed=6) != one
    assert aggregate(values, seed=5, rounds=10) != one


def test_interval_in_several_draws_is_one_bootstrap(monkeypatch):
    """Samples are drawn in pieces where they are large; the interval is of all of them."""
    values = torch.rand(50, generator=torch.Generator().manual_seed(14))
    whole = aggregate(values, rounds=500)
    monkeypatch.setitem(aggregate.__globals__, "CHUNK", 50 * 7)
    pieces = aggregate(values, rounds=500)
    assert pieces.low == pytest.approx(whole.low, abs=0.02)
    assert pieces.high == pytest.approx(whole.high, abs=0.02)


def test_interval_of_a_figure_of_the_set_contains_it():
    cfs = make_counterfactuals(15)
    found = evaluate(cfs, embedders=[], controls=(), rounds=20)
    for name in ("degree_mmd", "clustering_mmd"):
        assert found[name].low <= found[name].mean <= found[name].high


def test_clustering_on_the_edge_of_a_bin():
    """29 % as a float times 100 is below 29."""
    near = [(u, v) for u in range(1, 26) for v in range(u + 1, 26)]
    assert 87 / 300 * 100 < 29
    graph = bare(26, *((0, v) for v in range(1, 26)), *near[:87])
    cf = counterfactual(graph, EditSet(removed=(near[86],)))
    got = evaluate([cf], embedders=[], controls=(), rounds=20)["clustering_mmd"].mean
    assert got == pytest.approx(NAIVE["clustering_mmd"](World([cf], [])), abs=1e-12)


def test_squared_discrepancy_of_different_sets_is_above_zero():
    """With a kernel that is not positive definite, such as exp(-TV^2 / 2), it is below zero for this sample."""
    cfs = make_counterfactuals(2, count=40)
    expected = NAIVE["clustering_mmd"](World(cfs, []))
    assert expected > 1e-4
    assert evaluate(cfs, embedders=[], controls=(), rounds=20)["clustering_mmd"].mean == pytest.approx(expected)


def test_evaluating_does_not_change_what_it_is_given():
    cfs = make_counterfactuals(16, count=8)
    before = [copy.deepcopy(c).to_json() for c in cfs]
    evaluate(cfs, dataset=make_dataset(16, cfs, (5, 4, 4)), model=Waves(), embedders=["LDP"], rounds=20)
    assert [c.to_json() for c in cfs] == before


def test_large_graphs_have_the_same_clustering(monkeypatch):
    """Node tasks: thousands of nodes, of which no dense matrix is made."""
    cfs = make_counterfactuals(31, count=12)
    dense = evaluate(cfs, embedders=[], controls=(), rounds=20)["clustering_mmd"]
    monkeypatch.setattr(plausibility, "DENSE_UP_TO", 3)
    assert evaluate(cfs, embedders=[], controls=(), rounds=20)["clustering_mmd"] == dense
    ring = torch.arange(3000)
    large = Data(x=torch.ones(3000, 1), edge_index=torch.stack([ring, (ring + 1) % 3000]))
    cf = counterfactual(large, EditSet(added=((0, 2),)))
    assert evaluate([cf], embedders=[], controls=(), rounds=20)["clustering_mmd"].mean > 0

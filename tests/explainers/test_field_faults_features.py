"""Faults that users of this field report about features, targets, ends (rows 3d of docs/field_faults.md)."""

import json
import time
from dataclasses import replace

import pytest
import torch
from field_models import Constant, Edges, Net, label, near, numbers, pairs, s6, single, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GCNConv,
    global_add_pool,
)

import counteredge as ce


def test_pyg_1223_multilabel_changes_some_bit():
    g = s6()
    bits = lambda z: (z > 0).tolist()  # noqa: E731
    model = near(Net(outputs=3), g)
    with torch.no_grad():
        model.lin.bias += torch.tensor([0.0, 0.02, -0.02])  # no logit at zero itself
    cf = solve(model, g, read=bits, task="multilabel")
    assert len(cf.before.label) == 3
    before = cf.before.label
    for k in range(3):
        wished = solve(model, g, read=bits, task="multilabel", desired={k: 1 - int(before[k])})
        assert int(wished.after.label[k]) == 1 - int(before[k])


def test_pyg_1223_regression_reaches_the_wished_range():
    g = s6()
    model = near(Net(outputs=1), g)
    start = single(model.eval(), g).item()
    for lo, hi in ((start + 0.05, start + 0.2), (start - 0.2, start - 0.05)):
        inside = lambda z, lo=lo, hi=hi: lo <= float(z) <= hi  # noqa: E731
        cf = solve(model, g, desired=(lo, hi), read=inside)
        assert cf.before.label == pytest.approx(start, abs=1e-6)
        assert lo <= cf.after.label <= hi


def test_pyg_1223_target_class():
    g = s6()
    model = near(Net(outputs=3), g)
    before = label(single(model.eval(), g))
    for target in {0, 1, 2} - {before}:
        cf = solve(model, g, desired=target)
        assert cf.after.label == target


# -- features and constraints ----------------------------------------------------------------------------------------


class Embedded(Net):
    def __init__(self):
        super().__init__(lambda: GCNConv(8, 8))
        self.table = nn.Embedding(5, 8)

    def forward(self, x, edge_index, batch):
        return super().forward(self.table(x).reshape(len(x), 8), edge_index, batch)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_pyg_3810_indices_into_an_embedding_stay_indices(shape):
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


def test_dice_186_one_hot_groups_stay_one_hot():
    g = onehot_graph()
    inferred = ce.FeatureSchema.infer([g.x])
    assert [c.kind for c in inferred.columns] == ["onehot", "onehot", "onehot", "continuous"]
    cf = solve(near(Net(), g, to=0.3), g, edits="features")
    assert cf.edits.feature_count
    group = cf.data.x[:, :3]
    assert ((group == 0) | (group == 1)).all()
    assert (group.sum(1) == 1).all()
    assert any(len(e.columns) == 2 for e in cf.edits.features), "no swap was made: the test says nothing"


def test_dice_441_what_is_frozen_is_bit_identical():
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
def test_dice_441_edges_of_a_frozen_node_are_frozen(node):
    """All insertions are equally good to this model, so the first that is allowed is taken."""
    cf = solve(Edges(least=12), s6(), edits=ce.EditSpace(frozen_nodes=[node], remove_edges=False))
    assert all(node not in pair for pair in cf.edits.added)
    cf = solve(Edges(least=12), s6(), edits=ce.EditSpace(frozen_nodes=lambda g: [node, 5], remove_edges=False))
    assert all(node not in pair and 5 not in pair for pair in cf.edits.added)


@pytest.mark.parametrize("postprocess", [None, "shrink"])
def test_dice_106_bounds_on_some_columns_only(postprocess):
    g = s6()
    inferred = ce.FeatureSchema.infer([g.x])
    tight = replace(inferred.columns[2], lo=-0.25, hi=0.25)
    schema = ce.FeatureSchema((*inferred.columns[:2], tight, inferred.columns[3]))
    space = ce.EditSpace(schema=schema, add_edges=False, remove_edges=False)
    cf = solve(near(Net(), g, to=1.0), g, edits=space, explainer=ce.XPlore(postprocess=postprocess))
    changed = cf.data.x != g.x
    assert changed.any()
    for k, column in enumerate(schema.columns):
        new = cf.data.x[:, k][changed[:, k]]
        assert ((new >= column.lo) & (new <= column.hi)).all()


def test_dice_106_bounds_are_inclusive():
    class Sum(nn.Module):  # class 1 only when every entry is at its upper bound
        def forward(self, x, edge_index, batch):
            total = global_add_pool(x.double(), batch)
            return torch.cat([torch.full_like(total, 1.99), total], 1)

    g = Data(x=torch.tensor([[0.0], [1.0]]), edge_index=pairs((0, 1)))
    cf = solve(Sum(), g, edits=ce.EditSpace(schema=numbers(1, lo=0.0, hi=1.0)))
    assert float(cf.data.x[0, 0]) == pytest.approx(0.99, abs=0.01)
    assert cf.data.x.max() <= 1


@pytest.mark.parametrize("frozen", ["all", "none"])
def test_dice_349_all_or_no_column_frozen(frozen):
    g = s6()
    model = near(Net(), g)
    space = ce.EditSpace(frozen_features=range(4) if frozen == "all" else (), schema=numbers(4))
    cf = solve(model, g, edits=space)
    if frozen == "all":
        assert cf.edits.feature_count == 0
        none = ce.XPlore().explain(model, g, edits=replace(space, add_edges=False, remove_edges=False), progress=False)
        assert not none.found
        assert "allows no change" in none.reason


def test_dice_349_no_columns_at_all():
    g = Data(x=torch.zeros(5, 0), edge_index=pairs((0, 1), (1, 2)))
    cf = solve(Edges(least=6), g)
    assert cf.edits.feature_count == 0
    assert cf.data.x.shape == (5, 0)
    assert ce.Counterfactual.from_json(cf.to_json()) == cf


def test_dice_270_a_schema_of_another_width_names_both():
    with pytest.raises(ce.InputError, match="schema describes 5 columns but x has 4"):
        ce.XPlore().explain(Net(), s6(), edits=ce.EditSpace(schema=numbers(5)))


def test_dice_193_no_edit_is_too_small_to_matter():
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
def test_dice_298_a_constant_model_ends_without_an_answer(options):
    cf = ce.XPlore(**options).explain(Constant(), s6(), progress=False)
    assert not cf.found
    assert cf.data is None
    assert cf.after is None
    assert cf.reason
    assert len(cf.edits) == 0


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"certify": 2}], ids=["minimal", "paper", "certify"])
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "one by one"])
def test_dice_298_time_is_kept(options, batch):
    # the paper's descent has nothing to follow here, and ends before a short time is over
    nap = (0.1 if batch else 0.04) if options.get("preset") == "paper" else 0.02

    class Slow(Constant):
        def forward(self, x, edge_index, batch):
            time.sleep(nap)
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


def test_dig_111_calls_do_not_grow_with_the_number_of_classes():
    g = s6()
    spent = []
    for outputs in (2, 12):
        model = near(Net(outputs=outputs), g)
        with torch.no_grad():
            model.lin.weight[2:] = 0  # further classes that are never predicted
            model.lin.bias[2:] = -50
        spent.append(solve(model, g, edits="edges").calls.forward)
    assert spent[1] <= spent[0]


# -- what to do with many answers ------------------------------------------------------------------------------------


def test_dice_206_many_answers_are_ranked_and_show_only_what_changed():
    g = onehot_graph()
    answers = ce.XPlore().explain(near(Net(), g), g, k=20, max_overlap=0.5, progress=False)
    assert len(answers) > 3
    sizes = [len(cf.edits) for cf in answers]
    assert sizes == sorted(sizes)
    assert len({json.dumps(cf.edits.to_dict()) for cf in answers}) == len(answers)
    for cf in answers:
        lines = str(cf).split("\n")[1:-1]  # between the prediction and the cost
        assert len(lines) == len(cf.edits)


@settings(max_examples=15, deadline=None)
@given(
    st.sets(st.integers(0, 5), max_size=3),
    st.sets(st.integers(0, 3), max_size=3),
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] != p[1]), max_size=6),
    st.sampled_from(["minimal", "paper"]),
)
def test_dice_441_whatever_is_frozen_stays(nodes, columns, frozen_pairs, preset):
    g = s6()
    space = ce.EditSpace(
        schema=numbers(4),
        frozen_nodes=sorted(nodes),
        frozen_features=sorted(columns),
        frozen_edges=sorted(frozen_pairs),
    )
    explainer = ce.XPlore(preset, **({"features": "freedom"} if preset == "paper" else {}))
    cf = explainer.explain(near(Net(), g, to=0.5), g, edits=space, progress=False)
    assert cf.found or preset == "paper"
    if not cf.found:
        return
    assert torch.equal(cf.data.x[sorted(nodes)], g.x[sorted(nodes)])
    assert torch.equal(cf.data.x[:, sorted(columns)], g.x[:, sorted(columns)])
    kept = {frozenset(p) for p in frozen_pairs}
    for pair in (*cf.edits.added, *cf.edits.removed):
        assert frozenset(pair) not in kept
        assert not set(pair) & nodes

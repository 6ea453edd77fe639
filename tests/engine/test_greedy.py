"""Ranking, selection, and the beam against brute force."""

import itertools

import pytest
import torch

import counteredge as ce
from counteredge.engine.search import Budget, best_in_group
from counteredge.testing import sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema(), features=False)


def test_best_in_group_sorts_by_keys_then_position():
    group = torch.tensor([1, 0, 1, 0, 1])
    cost = torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0])
    margin = torch.tensor([0.0, 5.0, 3.0, 4.0, 3.0])
    assert best_in_group(group, [cost, margin]).tolist() == [3, 2]
    assert best_in_group(group, [cost], keep=2).tolist() == [1, 3, 2, 4]
    assert best_in_group(group[:0], [cost[:0]]).tolist() == []


def smallest_by_brute_force(model, g, most):
    """Number of edge flips of the smallest counterfactual, by trying all sets."""
    pairs = list(itertools.combinations(range(g.num_nodes), 2))
    with torch.no_grad():
        y = int(model(g.x, g.edge_index).argmax())
        present = {tuple(sorted(e)) for e in g.edge_index.t().tolist()}
        for size in range(1, most + 1):
            for chosen in itertools.combinations(pairs, size):
                edits = ce.EditSet(
                    added=tuple(p for p in chosen if p not in present),
                    removed=tuple(p for p in chosen if p in present),
                )
                if int(model(g.x, edits.apply(g).edge_index).argmax()) != y:
                    return size
    return None


def test_sizes_equal_the_exhaustive_minimum():
    model = sample_model()
    graphs = [g for g in sample_graphs(24, seed=5) if g.num_nodes <= 6]
    cfs = ce.XPlore(certify=2).explain(model, graphs, edits=SPACE, progress=False)
    sizes = []
    for g, cf in zip(graphs, cfs, strict=True):
        least = smallest_by_brute_force(model, g, 2)
        sizes.append(least)
        if least is None:
            assert cf.certified_lower_bound == 3
            assert not cf.found or len(cf.edits) >= 3
        else:
            assert cf.certified_lower_bound == least
            assert len(cf.edits) == least
    assert {1, 2} <= set(sizes), "the sample must contain both cases"


def test_without_gradients_the_same_singles_are_found():
    model, graphs = sample_model(), sample_graphs(10)
    with_gradients = ce.XPlore().explain(model, graphs, edits=SPACE, progress=False)
    without = ce.XPlore().explain(model, graphs, edits=SPACE, relaxation="none", progress=False)
    for a, b in zip(with_gradients, without, strict=True):
        assert (len(a.edits) == 1) == (len(b.edits) == 1)
        assert b.relaxation == "none"


def test_ranking_saves_calls():
    model, graphs = sample_model(), sample_graphs(60)
    ranked = ce.XPlore().explain(model, graphs, edits=SPACE, progress=False)
    blind = ce.XPlore().explain(model, graphs, edits=SPACE, relaxation="none", progress=False)
    # where there are more pairs than the first look takes, gradients find the single edit in that look
    single = [(a, b) for a, b in zip(ranked, blind, strict=True) if a.original.num_nodes >= 7 and len(a.edits) == 1]
    assert len(single) > 5
    assert sum(a.calls.forward for a, _ in single) < sum(b.calls.forward for _, b in single)


def test_costs_steer_the_choice():
    model, graphs = sample_model(), sample_graphs(12)

    def run(**space):
        cfs = ce.XPlore().explain(model, graphs, edits=ce.EditSpace(schema=sample_schema(), **space), progress=False)
        return sum(c.edits.edge_count for c in cfs), sum(c.edits.feature_count for c in cfs)

    dear_edges = run(add_cost=50.0, remove_cost=50.0)
    dear_features = run(feature_cost=50.0)
    assert dear_edges[0] < dear_features[0]
    assert dear_edges[1] > dear_features[1]


def test_target_class_is_reached():
    model, graphs = sample_model(), sample_graphs(8)
    for target in range(3):
        for cf in ce.XPlore().explain(model, graphs, desired=target, edits=ce.EditSpace(schema=sample_schema())):
            if cf.before.label == target:
                assert not cf.found
                assert "already" in cf.reason
            elif cf.found:
                assert cf.after.label == target


def test_escalation_answers_what_greedy_leaves_open():
    """With the greedy stage held to one edit, mask descents take over, and their answers are shrunk."""
    model, graphs = sample_model(), sample_graphs(24)
    held = {"depth": 1, "endpoints": 0, "exhaust": 0}
    short = ce.XPlore(restarts=0, **held).explain(model, graphs, edits=SPACE, progress=False)
    longer = ce.XPlore(restarts=8, **held).explain(model, graphs, edits=SPACE, progress=False)
    gained = [c for a, c in zip(short, longer, strict=True) if c.found and not a.found]
    assert gained
    assert all(c.stage == "descent" and c.minimal for c in gained)


@pytest.mark.parametrize("name", ["calls", "seconds", "edits"])
def test_budget_must_be_positive(name):
    with pytest.raises(ce.InputError, match=name):
        Budget(**{name: 0})


def test_spent_budget_says_so():
    cf = ce.XPlore().explain(sample_model(), sample_graphs(1)[0], budget=Budget(calls=2), edits=SPACE)
    assert not cf.found
    assert "2 oracle calls" in cf.reason


def test_a_set_of_classes_is_reached():
    model, graphs = sample_model(), sample_graphs(8)
    for wished in ({0, 1}, [1, 2]):
        for cf in ce.XPlore().explain(model, graphs, desired=wished, edits=ce.EditSpace(schema=sample_schema())):
            if cf.before.label in wished:
                assert not cf.found
                assert "already" in cf.reason
            else:
                assert cf.found
                assert cf.after.label in wished


def test_wished_labels_of_a_multilabel_model_are_reached():
    model, graphs = sample_model(), sample_graphs(8)
    cfs = ce.XPlore().explain(model, graphs, desired={0: 1, 2: 0}, edits=ce.EditSpace(schema=sample_schema()))
    found = [cf for cf in cfs if cf.found]
    assert found
    assert all((cf.after.label[0], cf.after.label[2]) == (1, 0) for cf in found)

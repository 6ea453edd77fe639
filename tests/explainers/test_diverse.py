"""Several answers a graph: each valid, one-minimal, different enough, smallest first."""

from itertools import combinations

import pytest
import torch

import counteredge as ce
from counteredge.testing import sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema())


def places(cf):
    """Where an answer edits: pairs, and nodes with a column or a one-hot group."""
    columns = sample_schema().columns
    return {
        *cf.edits.added,
        *cf.edits.removed,
        *((e.node, "group" if columns[e.columns[0]].kind == "onehot" else e.columns[0]) for e in cf.edits.features),
    }


def explain(k, **options):
    return ce.XPlore().explain(sample_model(), sample_graphs(6), edits=SPACE, k=k, **options)


@pytest.mark.parametrize("overlap", [0.0, 0.4])
def test_different_answers(overlap):
    model, some = sample_model(), explain(4, max_overlap=overlap)
    assert [answers[0].index for answers in some] == list(range(6))
    assert sum(len(answers) for answers in some) > 12
    for answers in some:
        assert [len(cf.edits) for cf in answers] == sorted(len(cf.edits) for cf in answers)
        for cf in answers:
            if cf.found:
                with torch.no_grad():
                    assert int(model(cf.data.x, cf.data.edge_index).argmax()) == cf.after.label != cf.before.label
        for a, b in combinations(answers, 2):
            assert len(places(a) & places(b)) <= overlap * len(places(a) | places(b))


def test_the_first_is_the_only_one_of_k_1():
    alone, several = explain(1), explain(3)
    for cf, answers in zip(alone, several, strict=True):
        smallest = min(len(a.edits) for a in answers)
        assert len(cf.edits) == smallest
        assert any(a.edits == cf.edits for a in answers)


def test_one_graph_gives_one_list():
    graph = sample_graphs(1)[0]
    answers = ce.XPlore().explain(sample_model(), graph, edits=SPACE, k=2)
    assert isinstance(answers, list)
    assert all(isinstance(cf, ce.Counterfactual) for cf in answers)


def test_where_there_is_none_the_one_says_why():
    frozen = ce.EditSpace(False, False, False)
    answers = ce.XPlore().explain(sample_model(), sample_graphs(1)[0], edits=frozen, k=3)
    assert [cf.reason for cf in answers] == ["the edit space allows no change on this graph"]


def test_paper_preset_too():
    some = ce.XPlore("paper").explain(sample_model(), sample_graphs(6), edits="edges", k=2, max_overlap=0.5)
    for answers in some:
        for a, b in combinations(answers, 2):
            assert len(places(a) & places(b)) <= 0.5 * len(places(a) | places(b))


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1.5}, {"k": 2, "max_overlap": 2}])
def test_what_cannot_be_meant(options):
    with pytest.raises(ce.InputError, match="k must be a whole number"):
        ce.XPlore().explain(sample_model(), sample_graphs(1)[0], edits=SPACE, **options)

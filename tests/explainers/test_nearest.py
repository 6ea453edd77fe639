"""Nearest unlike neighbours: which reference is taken, and how far the way back goes."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge.explainers.nearest import Nearest
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema())


class Contract(ExplainerContract):
    __test__ = False
    minimal = True
    least_found = 0.6

    def run(self, graphs=None, model=None, **options):
        first = (graphs[0] if isinstance(graphs, list) else graphs) if graphs is not None else None
        directed = first is not None and first.is_directed()
        options.setdefault("references", sample_graphs(30, directed=directed, seed=1))
        return super().run(graphs, model, **options)


class TestNearest(Contract):
    __test__ = True
    minimal = False

    def make(self, **options):
        return Nearest(**options)


class TestMoreEnds(Contract):
    __test__ = True

    def make(self, **options):
        return Nearest(ends=4, rounds=4, postprocess="shrink", **options)


def graph(nodes, *pairs):
    both = [p for i, j in pairs for p in ((i, j), (j, i))]
    return Data(x=torch.ones(nodes, 1), edge_index=torch.tensor(both, dtype=torch.long).reshape(-1, 2).t())


class Counts(nn.Module):
    """Class 1 from ``least`` edges on."""

    def __init__(self, least):
        super().__init__()
        self.least = least

    def forward(self, x, edge_index, batch):
        edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        return torch.stack([torch.full_like(edges, self.least - 0.5), edges], 1)


PATH = graph(6, *((k, k + 1) for k in range(5)))
RING = graph(6, *((k, (k + 1) % 6) for k in range(6)))
FULL = graph(6, *((i, j) for i in range(6) for j in range(i + 1, 6)))


def explain(model, given, references, edits="edges", **options):
    method = Nearest(**{"postprocess": "shrink", **options})
    return method.explain(model, given, references=references, edits=edits, progress=False)


def test_the_way_back_ends_at_the_boundary():
    """The complete graph has ten edges more than the path; three of them are enough."""
    for shrunk in (None, "shrink"):
        cf = explain(Counts(8), PATH, [FULL], postprocess=shrunk)
        assert (cf.found, cf.stage, len(cf.edits.added), len(cf.edits.removed)) == (True, "reference", 3, 0)
        assert cf.minimal


def test_bisection_takes_few_calls():
    big = [(i, j) for i in range(30) for j in range(i + 1, 30)]
    chain = graph(30, *((k, k + 1) for k in range(29)))
    cf = explain(Counts(100), chain, [graph(30, *big)], postprocess=None)
    assert len(cf.edits.added) == 100 - 29
    # 406 edits to halve along three orders, the references, the ranking, the first and the last prediction
    assert cf.calls.forward <= 3 * 9 + 2 * 1 + 1 + 2


def test_of_the_references_the_nearest_is_taken():
    """Both are wished; only edges of the nearer one are proposed."""
    cf = explain(Counts(6), PATH, [FULL, RING], postprocess=None)
    assert cf.edits.added == ((0, 5),)


def test_references_are_aligned():
    order, number = torch.tensor([3, 0, 5, 1, 4, 2]), torch.arange(6.0)[:, None]
    mixed = Data(x=number[torch.argsort(order)], edge_index=order[RING.edge_index])
    cf = explain(Counts(6), Data(x=number, edge_index=PATH.edge_index), [mixed], postprocess=None)
    assert cf.edits.added == ((0, 5),)


def test_only_references_that_are_wished_count():
    cf = explain(Counts(8), PATH, [RING, PATH])
    assert not cf.found
    assert "no reference is predicted as wished" in cf.reason
    assert cf.calls.forward == 1


def test_labels_are_enough():
    def many(batch):
        return [int(g.edge_index.shape[1] >= 16) for g in batch.to_data_list()]

    cf = explain(many, PATH, [FULL])
    assert (len(cf.edits), cf.calls.backward) == (3, 0)


def test_what_may_not_change_does_not():
    space = ce.EditSpace(features=False, frozen_nodes=[5])
    cf = explain(Counts(8), PATH, [FULL], edits=space)
    assert cf.found
    assert all(5 not in pair for pair in cf.edits.added)
    cf = explain(Counts(15), PATH, [FULL], edits=space)
    assert not cf.found


def test_the_budget_holds_to_the_call():
    for calls in range(1, 40):
        for cf in Nearest(postprocess="shrink").explain(
            sample_model(),
            sample_graphs(),
            references=sample_graphs(30, seed=1),
            edits=SPACE,
            budget=ce.Budget(calls=calls),
            progress=False,
        ):
            assert cf.calls.forward <= calls


def test_needs_references():
    with pytest.raises(ce.InputError, match="pass training graphs"):
        Nearest().explain(Counts(6), PATH, progress=False)
    with pytest.raises(ce.InputError, match="pass training graphs"):
        explain(Counts(6), PATH, [])


def test_is_for_whole_graphs():
    class Each(nn.Module):
        def forward(self, x, edge_index):
            return torch.cat([x, 1 - x], 1)

    with pytest.raises(ce.InputError, match=r"references|whole graphs"):
        Nearest().explain(Each(), PATH, node=0, progress=False)


@pytest.mark.parametrize("option", ["neighbours", "ends", "orders", "rounds"])
@pytest.mark.parametrize("value", [0, 1.5, True, None])
def test_bad_options(option, value):
    with pytest.raises(ce.InputError, match=f"{option} must be a whole number >= 1"):
        Nearest(**{option: value})

"""iRand: what is drawn, in which order, and what it costs; held against a sequential twin."""

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Batch, Data

import counteredge as ce
from counteredge.engine.moves import Moves, State
from counteredge.explainers.irand import KINDS, IRand, _Draws
from counteredge.graphs import GraphBatch
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema(), features=False)


class TestPaper(ExplainerContract):
    least_found = 0.5

    def make(self, **options):
        return IRand(p=0.5, t=8, **options)


class TestImproved(ExplainerContract):
    minimal = True
    least_found = 0.5

    def make(self, **options):
        return IRand(p=0.5, t=8, mode="improved", **options)


class TestLegacy(ExplainerContract):
    least_found = 0.5

    def make(self, **options):
        return IRand(p=0.5, t=8, mode="legacy_gretel", **options)


def ring(nodes):
    i = torch.arange(nodes)
    j = (i + 1) % nodes
    return Data(x=torch.ones(nodes, 1), edge_index=torch.stack([torch.cat([i, j]), torch.cat([j, i])]))


def never(batch):
    return [0] * batch.num_graphs


def parity(batch):
    return [g.edge_index.shape[1] // 2 % 2 for g in batch.to_data_list()]


def labels_of(model):
    def predict(batch):
        with torch.no_grad():
            return model(batch.x, batch.edge_index, batch=batch.batch).argmax(1)

    return predict


def draws_of(graph, space, schema, *, seed):
    base = GraphBatch.from_graphs([graph])
    moves = Moves(base, space.allowed(base, schema))
    return _Draws(SimpleNamespace(base=base, moves=moves), 0, seed), base, moves


def drawn(graph, level, t, kind, seed=0):
    """Sets of pairs that one graph draws at one level, and which of its pairs are edges."""
    draws, _, _ = draws_of(graph, ce.EditSpace.of("edges"), ce.FeatureSchema.fixed(1), seed=seed)
    return draws.flipped(level, t, kind), draws.present


@pytest.mark.parametrize("mode", ["paper", "improved"])
def test_parity_flips_at_the_first_try(mode):
    graphs = [ring(n) for n in (3, 5, 20, 40)]
    for cf in IRand(mode=mode).explain(parity, graphs, progress=False):
        assert (cf.found, len(cf.edits), cf.stage) == (True, 1, "even-1")
        # the first prediction, three candidates in one batch, the confirmation
        assert (cf.calls.to_first_valid, cf.calls.forward, cf.calls.backward) == (2, 5, 0)


@pytest.mark.parametrize(("nodes", "calls"), [(14, 1), (15, 4), (17, 4), (18, 7), (28, 19)])
def test_legacy_calls_are_bounded_as_published(nodes, calls):
    cf = IRand(mode="legacy_gretel").explain(never, ring(nodes), progress=False)
    assert cf.calls.forward == calls


def test_reasons_say_what_was_drawn():
    class Crowded(torch.nn.Module):
        """Class 1 from a thousand edges on."""

        def forward(self, x, edge_index, batch):
            edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
            return torch.stack([torch.full_like(edges, 1000.0), edges], 1)

    reasons = [IRand(mode=m).explain(Crowded(), ring(14), progress=False).reason for m in ("paper", "legacy_gretel")]
    assert "up to 0.01 of all pairs" in reasons[0]
    assert "none at all for small graphs" in reasons[1]


@pytest.mark.parametrize(("nodes", "p", "levels"), [(5, 0.01, 1), (28, 0.01, 3), (5, 0.29, 2), (4, 1.0, 6)])
def test_levels_are_a_share_of_the_pairs(nodes, p, levels):
    cf = IRand(p=p, t=2).explain(never, ring(nodes), progress=False)
    assert cf.calls.forward == 1 + 2 * levels
    assert not cf.found


def test_candidates_have_as_many_flips_as_their_level():
    graph, seen = ring(8), []
    old = {frozenset(p) for p in graph.edge_index.t().tolist()}

    def watch(batch):
        for g in batch.to_data_list():
            arcs = {tuple(p) for p in g.edge_index.t().tolist()}
            assert arcs == {(j, i) for i, j in arcs}
            assert all(i != j for i, j in arcs)
            seen.append(len({frozenset(p) for p in arcs} ^ old))
        return [0] * batch.num_graphs

    IRand(p=0.2, t=4).explain(watch, graph, progress=False)
    assert [k for k in seen if k][-20:] == [k for k in range(1, 6) for _ in range(4)]


def test_pairs_are_drawn_evenly_and_once():
    sets, _ = drawn(ring(6), 4, 6000, "even")
    assert (sets.sum(1) == 4).all()
    share = sets.double().mean(0)
    assert torch.allclose(share, torch.full_like(share, 4 / 15), atol=0.03)


def test_legacy_draws_with_replacement():
    sets, _ = drawn(ring(3), 2, 6000, "ordered")
    assert set(sets.sum(1).tolist()) == {0, 2}
    assert float((sets.sum(1) == 0).double().mean()) == pytest.approx(1 / 3, abs=0.03)


def test_improved_mixes_deletions_and_additions():
    sets, present = drawn(ring(20), 6, 4000, "mixed")
    assert (sets.sum(1) == 6).all()
    assert float((sets & present).sum() / sets.sum()) == pytest.approx(0.5, abs=0.03)
    plain, _ = drawn(ring(20), 6, 4000, "even")
    assert float((plain & present).sum() / plain.sum()) == pytest.approx(20 / 190, abs=0.03)
    within = sets[:, present].double().mean(0)
    assert torch.allclose(within, within.mean().expand_as(within), atol=0.03)
    # with too few of one kind the other makes up for it
    full, all_present = drawn(ring(3), 2, 50, "mixed")
    assert all_present.all()
    assert (full.sum(1) == 2).all()


@pytest.mark.parametrize("mode", ["paper", "improved", "legacy_gretel"])
def test_equals_a_sequential_twin(mode):
    """One candidate after the other, on real graphs, stopping at the first with another label."""
    predict = labels_of(sample_model())
    graphs = sample_graphs(12, seed=5)
    explainer = IRand(p=0.4, mode=mode, postprocess=None, seed=3)
    cfs = explainer.explain(predict, graphs, edits=SPACE, progress=False)
    assert 2 <= sum(cf.found for cf in cfs) < 12
    assert len({cf.calls.to_first_valid for cf in cfs if cf.found}) > 2
    for graph, cf in zip(graphs, cfs, strict=True):
        draws, base, moves = draws_of(graph, SPACE, sample_schema(), seed=3)
        before, calls, answer = int(predict(Batch.from_data_list([graph]))), 1, None
        levels = range(1, explainer._levels(len(draws.pairs), False) + 1)
        for kind, level in ((kind, level) for kind in KINDS[mode] for level in levels):
            for flipped in draws.flipped(level, 3, kind):
                calls += 1
                state = State.start(base)
                for k in draws.pairs[flipped].tolist():
                    i, j = int(moves.i[k]), int(moves.j[k])
                    state.adj[0, i, j] = state.adj[0, j, i] = 1 - state.adj[0, i, j]
                data = base.to_data(0, state.adj[0], state.x[0])
                if int(predict(Batch.from_data_list([data]))) != before:
                    answer = data
                    break
            if answer is not None:
                break
        assert cf.found == (answer is not None)
        if answer is not None:
            assert {tuple(e) for e in answer.edge_index.t().tolist()} == {
                tuple(e) for e in cf.data.edge_index.t().tolist()
            }
            assert cf.calls.to_first_valid == calls
            assert cf.stage == f"{kind}-{level}"
            assert cf.calls.forward == 1 + 3 * -(-(calls - 1) // 3) + 1  # whole levels, and the confirmation


def test_improved_shrinks():
    """Two of the rings' edges must go; whatever else was flipped is undone."""

    def few(batch):
        return [int(g.edge_index.shape[1] // 2 <= 6) for g in batch.to_data_list()]

    cfs = IRand(p=0.5, t=200, mode="improved").explain(few, [ring(8)] * 2, progress=False)
    assert all(cf.found and cf.minimal and len(cf.edits.removed) == 2 and not cf.edits.added for cf in cfs)


def test_improved_finds_what_paper_finds():
    graphs, model = sample_graphs(40, seed=8), sample_model()
    for calls in (5, 9, 20, None):
        plain, more = (
            IRand(p=0.3, mode=m).explain(model, graphs, edits=SPACE, budget=ce.Budget(calls=calls), progress=False)
            for m in ("paper", "improved")
        )
        assert all(b.found for a, b in zip(plain, more, strict=True) if a.found)
        if calls is None:
            assert sum(b.found for b in more) > sum(a.found for a in plain) > 0


def test_frozen_pairs_are_never_drawn():
    space = ce.EditSpace(allowed_pairs=[(0, 1), (2, 5)])
    for cf in IRand(p=1.0).explain(parity, [ring(6)] * 3, edits=space, progress=False):
        assert {*cf.edits.added, *cf.edits.removed} <= {(0, 1), (2, 5)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 0}, "p must be a number above 0 and <= 1, got 0"),
        ({"p": 1.5}, r"got 1\.5"),
        ({"p": True}, "got True"),
        ({"p": float("nan")}, "got nan"),
        ({"t": 0}, "t must be a whole number >= 1, got 0"),
        ({"t": 2.0}, r"got 2\.0"),
        ({"mode": "reference"}, "unknown mode of IRand 'reference'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ce.InputError, match=message):
        IRand(**options)

"""Stages for graphs that a beam leaves open: endpoints, references, leaps, enumeration."""

import itertools

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge.engine.alignment import aligned, nearest
from counteredge.engine.leaps import LeapOptions, leap
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.testing import sample_graphs, sample_model, sample_schema

EDGES = ce.EditSpace(schema=sample_schema(), features=False)


def ring(nodes, x=None):
    i = torch.arange(nodes)
    j = (i + 1) % nodes
    x = torch.ones(nodes, 1) if x is None else x
    return Data(x=x, edge_index=torch.stack([torch.cat([i, j]), torch.cat([j, i])]))


class Edges(nn.Module):
    """Says 1 where a function of the number of edges is positive; flat where asked to be."""

    def __init__(self, score):
        super().__init__()
        self.score = score

    def forward(self, x, edge_index, batch):
        edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        z = self.score(edges)
        return torch.stack([torch.zeros_like(z), z], 1).to(x.dtype)


def plateau(edges):
    """No single edit, and no partial answer, is better than another."""
    return torch.where(edges >= 25, 1.0, -1.0)


def test_an_endpoint_solves_a_plateau():
    g = ring(10)
    stuck = ce.XPlore(endpoints=0).explain(Edges(plateau), g, edits="edges")
    assert not stuck.found
    assert "endpoint" not in stuck.reason
    cf = ce.XPlore().explain(Edges(plateau), g, edits="edges")
    assert (cf.stage, len(cf.edits.added), len(cf.edits.removed), cf.minimal) == ("endpoint", 15, 0, True)


def test_endpoints_keep_to_the_edit_space():
    space = ce.EditSpace(features=False, frozen_nodes=[0], max_degree=6)
    cf = ce.XPlore().explain(Edges(plateau), ring(12), edits=space)
    assert cf.found
    assert not any(0 in pair for pair in (*cf.edits.added, *cf.edits.removed))
    assert int(torch.bincount(cf.data.edge_index[0]).max()) <= 6


def test_endpoints_are_the_same_alone_and_in_a_batch():
    graphs = [ring(n) for n in (9, 10, 11, 12)]
    together = ce.XPlore().explain(Edges(plateau), graphs, edits="edges")
    alone = [ce.XPlore().explain(Edges(plateau), g, edits="edges") for g in graphs]
    assert [c.edits for c in together] == [c.edits for c in alone]
    assert any(c.stage == "endpoint" for c in together)
    other = [ce.XPlore(seed=5).explain(Edges(plateau), g, edits="edges") for g in graphs]
    assert all(c.found for c in other)


def test_feature_endpoints():
    class Sum(nn.Module):
        def forward(self, x, edge_index, batch):
            total = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add(0, batch, x[:, 3])
            z = torch.where(total >= 4, 1.0, -1.0).to(x.dtype)
            return torch.stack([torch.zeros_like(z), z], 1)

    g = sample_graphs(1)[0]
    g.x[:, 3] = 0
    space = ce.EditSpace(schema=sample_schema(), add_edges=False, remove_edges=False)
    cf = ce.XPlore().explain(Sum(), g, edits=space)
    assert (cf.stage, cf.edits.feature_count, cf.edits.edge_count) == ("endpoint", 4, 0)


def hidden(edge_set, nodes):
    """1 only at graphs that hold a whole pattern that no guess hits, 0 elsewhere."""
    wanted = torch.zeros(nodes, nodes)
    for i, j in edge_set:
        wanted[i, j] = wanted[j, i] = 1

    def predict(batch):
        out = []
        for g in batch.to_data_list():
            a = torch.zeros(nodes, nodes)
            a[tuple(g.edge_index)] = 1
            out.append(int(bool((a == wanted).all())))
        return out

    return predict, Data(x=torch.ones(nodes, 1), edge_index=wanted.nonzero().t())


def undirected(pairs):
    e = torch.tensor(pairs).t()
    return torch.cat([e, e.flip(0)], 1)


def test_references_are_walked_back_from():
    pattern = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 4), (4, 7), (5, 7), (6, 7)]
    predict, reference = hidden(pattern, 8)
    reference.x = torch.arange(8.0)[:, None]
    g = Data(x=reference.x, edge_index=undirected(pattern[3:]))
    decoy = Data(x=g.x.clone(), edge_index=g.edge_index[:, :2])
    explainer = ce.XPlore(exhaust=0)
    assert not explainer.explain(predict, g, edits="edges").found
    assert not explainer.explain(predict, g, edits="edges", references=[decoy]).found
    cf = explainer.explain(predict, g, edits="edges", references=[decoy, reference])
    assert (cf.found, cf.stage, set(cf.edits.added), cf.edits.removed) == (True, "reference", set(pattern[:3]), ())
    # the answer does not depend on which graphs are explained together
    assert explainer.explain(predict, [decoy, g], edits="edges", references=reference)[1].edits == cf.edits


def test_references_that_are_refused():
    g = ring(6)
    with pytest.raises(ce.InputError, match="reference 0 has x of shape"):
        ce.XPlore().explain(
            Edges(plateau), g, edits="edges", references=[Data(x=torch.ones(3, 2), edge_index=g.edge_index[:, :2])]
        )
    with pytest.raises(ce.InputError, match="does nothing with XPlore in preset='paper'"):
        ce.XPlore("paper").explain(sample_model(), sample_graphs(1), references=sample_graphs(2))
    with pytest.raises(ce.InputError, match="do not go with node="):
        ce.XPlore().explain(sample_model(), sample_graphs(1), references=sample_graphs(2), node=0)


@pytest.mark.parametrize("directed", [False, True])
def test_alignment_finds_the_same_graph_under_other_numbers(directed):
    generator = torch.Generator().manual_seed(0)
    for g in sample_graphs(8, directed=directed):
        order = torch.randperm(g.num_nodes, generator=generator)
        twin = Data(x=g.x[order], edge_index=torch.argsort(order)[g.edge_index])
        base = GraphBatch.from_graphs([g], directed=directed)
        adj, x = aligned(base, 0, twin)
        assert torch.equal(adj, base.adj[0])
        assert torch.equal(x, base.x[0])


def test_alignment_of_other_sizes():
    small, large = ring(4, torch.tensor([[1.0], [2], [3], [4]])), ring(7, torch.full((7, 1), 9.0))
    base = GraphBatch.from_graphs([large, small])
    adj, x = aligned(base, 0, small)
    assert (int(adj.sum()), int((adj.sum(0) == 0).sum())) == (8, 3)
    assert sorted(x.flatten().tolist()) == [1, 2, 3, 4, 9, 9, 9]
    adj, x = aligned(base, 1, large)
    assert int(adj[:4, :4].sum()) == int(adj.sum()) <= 6
    assert x[:4].flatten().tolist() == [9] * 4


def test_nearest_prefers_what_looks_alike():
    g = ring(6)
    assert nearest(g, [ring(20), ring(7), ring(6)], 2) == [2, 1]


def searching(model, graphs, space=EDGES):
    oracle = Oracle(model)
    base = GraphBatch.from_graphs(graphs)
    session = oracle.session(graphs)
    session.__enter__()
    return session, Search(
        oracle, base, space.allowed(base, sample_schema()), oracle.predict(graphs), ce.Budget(), None, lambda n: None
    )


def test_leaps_end_in_answers_that_are_flips():
    model, graphs = sample_model(), sample_graphs(12)
    session, search = searching(model, graphs, ce.EditSpace(schema=sample_schema()))
    leap(search, State.start(search.base), LeapOptions())
    assert search.solved.sum() > 6
    rows = search.solved.nonzero().flatten()
    now = State(rows, search.state.adj[rows], search.state.x[rows])
    assert bool(search.margins(now)[1].all())
    assert {search.stage[r] for r in rows.tolist()} == {"leap"}
    before = search.moves.costs(now)
    leap(search, State.start(search.base), LeapOptions(most=1))
    after = search.moves.costs(State(rows, search.state.adj[rows], search.state.x[rows]))
    assert bool((after <= before).all())
    session.__exit__(None, None, None)


def brute_force(model, g):
    pairs = list(itertools.combinations(range(g.num_nodes), 2))
    zero = torch.zeros(g.num_nodes, dtype=torch.long)
    present = {tuple(sorted(e)) for e in g.edge_index.t().tolist()}
    y = int(model(g.x, g.edge_index, batch=zero).argmax())
    for size in range(1, len(pairs) + 1):
        for chosen in itertools.combinations(pairs, size):
            edits = ce.EditSet(tuple(p for p in chosen if p not in present), tuple(p for p in chosen if p in present))
            if int(model(g.x, edits.apply(g).edge_index, batch=zero).argmax()) != y:
                return size
    return None


def test_enumeration_is_exact_and_proves_that_there_is_nothing():
    model = sample_model("gin")
    graphs = [g for g in sample_graphs(40, seed=3) if g.num_nodes == 4]
    cfs = ce.XPlore().explain(model, graphs, edits=EDGES)
    least = [brute_force(model, g) for g in graphs]
    assert [len(c.edits) if c.found else None for c in cfs] == least
    assert None in least
    for cf, size in zip(cfs, least, strict=True):
        if size is None:
            assert cf.reason == "proved: none of the 2^6 sets of allowed edge flips is a counterfactual"
        elif size > 2:
            assert cf.stage == "enumeration"


def test_enumeration_needs_its_budget():
    graphs = [g for g in sample_graphs(40, seed=3) if g.num_nodes == 4]
    for calls in (20, 100, 200):
        for cf in ce.XPlore().explain(sample_model("gin"), graphs, edits=EDGES, budget=ce.Budget(calls=calls)):
            assert cf.calls.forward <= calls

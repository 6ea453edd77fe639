"""The greedy yardstick, held against loops over all edits of one graph."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.nn.aggr import MaxAggregation

import counteredge as ce
from counteredge.explainers.greedy_search import Greedy
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema(), features=False)


class TestRanked(ExplainerContract):
    least_found = 0.8

    def make(self, **options):
        return Greedy(**options)


class TestExact(ExplainerContract):
    equivariant = True
    least_found = 0.8

    def make(self, **options):
        return Greedy(top=None, **options)


def arcs_of(graph):
    return {tuple(e) for e in graph.edge_index.t().tolist()}


def with_arcs(graph, arcs):
    out = copy.copy(graph)
    out.edge_index = torch.tensor(sorted(arcs), dtype=torch.long).reshape(-1, 2).t()
    return out


def margin_of(model, graph, label):
    """How far the label is ahead of the others, in double precision."""
    with torch.no_grad():
        z = model(graph.x.double(), graph.edge_index, batch=torch.zeros(len(graph.x), dtype=torch.long))[0]
    rest = z.clone()
    rest[label] = float("-inf")
    return float(z[label] - rest.max())


def twin(model, graph, steps, deletions=False):
    """All flips of single pairs, one after the other; the best is committed. Returns the flips made and the calls."""
    twice = copy.deepcopy(model).double()
    with torch.no_grad():
        label = int(
            twice(graph.x.double(), graph.edge_index, batch=torch.zeros(len(graph.x), dtype=torch.long)).argmax()
        )
    present, n, made, calls = graph, len(graph.x), [], 1
    for _ in range(steps):
        arcs, tried = arcs_of(present), []
        for i in range(n):
            for j in range(i + 1, n):
                if (i, j) in made or (deletions and (i, j) not in arcs):
                    continue
                changed = with_arcs(present, arcs ^ {(i, j), (j, i)})
                tried.append((round(margin_of(twice, changed, label), 9), (i, j), changed))
        if not tried:
            break
        calls += len(tried)
        margin, pair, present = min(tried, key=lambda found: found[:2])
        made.append(pair)
        if margin < 0:
            return made, calls + 1  # the untouched model confirms
    return None, calls


@pytest.mark.parametrize("candidates", ["all", "deletions"])
def test_exact_equals_loops(candidates):
    model, graphs = sample_model(), sample_graphs(10, seed=4)
    cfs = Greedy(top=None, steps=3, candidates=candidates).explain(model, graphs, edits=SPACE, progress=False)
    assert {len(cf.edits) for cf in cfs} >= ({0, 1, 2} if candidates == "all" else {0, 1})
    for graph, cf in zip(graphs, cfs, strict=True):
        made, calls = twin(model, graph, 3, candidates == "deletions")
        assert cf.found == (made is not None)
        assert cf.calls.forward == calls
        assert cf.calls.backward == 0
        if made is not None:
            assert sorted(made) == sorted((*cf.edits.added, *cf.edits.removed))
            assert cf.stage == f"greedy-{len(made)}"


def test_ranked_tries_the_best_few():
    graphs = sample_graphs(10, seed=4)
    cfs = Greedy(top=4, steps=3).explain(sample_model(), graphs, edits=SPACE, progress=False)
    for cf in cfs:
        steps = int(cf.stage.removeprefix("greedy-")) if cf.found else 3
        # each step is one pass with gradients, and four candidates
        assert cf.calls.backward == steps
        assert cf.calls.forward == 1 + 5 * steps + cf.found
    exact = Greedy(top=None, steps=3).explain(sample_model(), graphs, edits=SPACE, progress=False)
    single = [i for i, cf in enumerate(exact) if len(cf.edits) == 1]
    assert sum(len(cfs[i].edits) == 1 for i in single) >= len(single) - 1
    # with every move tried the ranking does not matter
    every = Greedy(top=10_000, steps=3).explain(sample_model(), graphs, edits=SPACE, progress=False)
    assert [cf.edits for cf in every] == [cf.edits for cf in exact]


def test_without_exact_gradients_all_edits_are_tried():
    model = sample_model()
    for m in model.modules():
        if isinstance(m, MessagePassing):
            m.aggr_module = MaxAggregation()
    graphs = sample_graphs(6, seed=4)
    some, every = (Greedy(top=k).explain(model, graphs, edits=SPACE, progress=False) for k in (8, None))
    assert [cf.edits for cf in some] == [cf.edits for cf in every]
    assert all(cf.calls.backward == 0 for cf in some)


def test_labels_alone_stop_after_one_step():
    def predict(batch):
        return [int(g.edge_index.shape[1] // 2 >= 6) for g in batch.to_data_list()]

    i = torch.arange(5)
    ring = Data(x=torch.ones(5, 1), edge_index=torch.stack([torch.cat([i, (i + 1) % 5]), torch.cat([(i + 1) % 5, i])]))
    cf = Greedy().explain(predict, ring, progress=False)
    assert len(cf.edits.added) == 1
    assert cf.calls.forward == 1 + 10 + 1
    fewer = Data(x=ring.x, edge_index=ring.edge_index[:, [0, 1, 2, 5, 6, 7]])
    cf = Greedy().explain(predict, fewer, progress=False)
    assert (cf.found, cf.calls.forward) == (False, 11)


class Nodes(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = GCNConv(3, 8), GCNConv(8, 2)
        with torch.no_grad():
            for p in self.parameters():
                p.mul_(2)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.fixture(scope="module")
def node_task():
    generator = torch.Generator().manual_seed(0)
    adj = (torch.rand(30, 30, generator=generator) < 0.08).triu(1)
    graph = Data(x=torch.randn(30, 3, generator=generator), edge_index=(adj | adj.t()).nonzero().t())
    model = Nodes().eval()
    with torch.no_grad():  # both classes
        z = model(graph.x, graph.edge_index)
        model.second.bias[0] -= (z[:, 0] - z[:, 1]).median()
    return model, graph


def test_target_means_deletions_and_additions_at_the_node(node_task):
    model, graph = node_task
    nodes = list(range(12))
    explain = {
        kind: Greedy(top=None, candidates=kind).explain(model, graph, node=nodes, edits="edges", progress=False)
        for kind in ("target", "deletions")
    }
    assert any(cf.edits.added for cf in explain["target"])
    for node, cf in zip(nodes, explain["target"], strict=True):
        assert all(node in pair for pair in cf.edits.added)
        if cf.found:
            with torch.no_grad():
                old, new = (model(g.x, g.edge_index)[node].argmax() for g in (graph, cf.data))
            assert old != new
    assert not any(cf.edits.added for cf in explain["deletions"])
    # what deletions do in one edit, deletions and additions do too
    for cf, fewer in zip(explain["target"], explain["deletions"], strict=True):
        assert len(fewer.edits) != 1 or len(cf.edits) == 1


def test_single_deletions_of_nodes_are_all_found(node_task):
    model, graph = node_task
    nodes = list(range(30))
    cfs = Greedy(top=None, candidates="deletions").explain(model, graph, node=nodes, progress=False)
    with torch.no_grad():
        labels = model(graph.x, graph.edge_index).argmax(1)
        flips = torch.zeros(30, dtype=torch.bool)
        for i, j in {(i, j) for i, j in graph.edge_index.t().tolist() if i < j}:
            fewer = with_arcs(graph, arcs_of(graph) - {(i, j), (j, i)})
            flips |= model(graph.x, fewer.edge_index).argmax(1) != labels
    assert [len(cf.edits) == 1 for cf in cfs] == flips.tolist()
    assert bool(flips.any())


def test_target_is_for_nodes():
    with pytest.raises(ce.InputError, match="candidates='target' is for node tasks"):
        Greedy(candidates="target").explain(sample_model(), sample_graphs(1), progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top must be a whole number >= 1, or None to try all edits, got 0"),
        ({"top": True}, "top must be"),
        ({"steps": None}, "steps must be a whole number >= 1, got None"),
        ({"candidates": "additions"}, "candidates='additions' is unknown"),
        ({"mode": "improved"}, "unknown mode of Greedy"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ce.InputError, match=message):
        Greedy(**options)

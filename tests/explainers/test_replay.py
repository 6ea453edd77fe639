"""Shrinking answers that are known: the same as shrinking them where they were found."""

import pytest
import torch
from torch_geometric.data import Batch, Data

import counteredge as ce
from counteredge.datasets import tree_cycles
from counteredge.models import GraphClassifier


@pytest.fixture(scope="module")
def asked():
    """Graphs with atoms of three kinds, a degree column that follows, and a model."""
    torch.manual_seed(3)
    base = tree_cycles(24).graphs
    graphs = []
    for k, g in enumerate(base):
        kinds = torch.nn.functional.one_hot((torch.arange(len(g.x)) + k) % 3, 3).float()
        graphs.append(Data(x=kinds, edge_index=g.edge_index, y=g.y))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = GraphClassifier(3, 2, "gin", layers=2, hidden=16).eval()
    batch = Batch.from_data_list(graphs)
    with torch.no_grad():  # half of the graphs on each side
        z = model(batch.x, batch.edge_index, batch.batch)
        list(model.parameters())[-1][0] -= (z[:, 0] - z[:, 1]).median()
    return model, graphs


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("empty_graph", {}),
        ("complete_graph", {}),
        ("irand", {"p": 0.2}),
        ("greedy", {}),
        ("xplore", {"mode": "paper"}),
        ("xplore", {"mode": "paper", "features": "freedom"}),
        ("nearest", {}),
    ],
)
def test_shrunk_afterwards_is_shrunk_at_once(asked, name, options):
    model, graphs = asked
    references = graphs if name == "nearest" else None
    raw = ce.get_explainer(name, **options).explain(model, graphs, references=references, progress=False)
    at_once = ce.get_explainer(name, postprocess="shrink", **options).explain(
        model, graphs, references=references, progress=False
    )
    after = ce.shrink(model, raw, progress=False)
    assert any(cf.found for cf in raw)
    for a, b, c in zip(raw, at_once, after, strict=True):
        assert a.found == b.found == c.found
        assert (b.edits, b.raw, b.minimal) == (c.edits, c.raw, c.minimal)
        assert (c.index, c.explainer, c.preset, c.seed) == (a.index, a.explainer, a.preset, a.seed)
        assert len(c.edits) <= len(a.edits)
        assert not c.found or c.minimal
    assert any(len(c.edits) < len(a.edits) for a, c in zip(raw, after, strict=True)) or name in ("greedy", "irand")


def test_nodes_that_came_are_shrunk_too(asked):
    model, graphs = asked
    raw = ce.C2Explainer(iterations=60).explain(model, graphs[:8], progress=False)
    after = ce.shrink(model, raw, progress=False)
    for a, c in zip(raw, after, strict=True):
        assert a.found == c.found
        assert len(c.edits) <= len(a.edits)
        assert not c.found or c.minimal


def test_what_was_not_found_stays(asked):
    model, graphs = asked
    (cf,) = ce.XPlore().explain(lambda b: [0] * b.num_graphs, graphs[:1], progress=False)
    assert not cf.found
    assert ce.shrink(model, [cf]) == [cf]
    assert ce.shrink(model, []) == []


def test_node_answers_are_refused(asked):
    _, graphs = asked
    model = GraphClassifier(3, 2, "gin", layers=2, hidden=8, task="node").eval()
    (cf,) = ce.EmptyGraph().explain(model, graphs[0], node=[0], progress=False)
    with pytest.raises(ce.InputError, match="postprocess='shrink'"):
        ce.shrink(lambda b: [0], [cf])

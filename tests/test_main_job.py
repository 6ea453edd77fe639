"""The main job's figures on MUTAG, all 188 molecules (docs/main_job.md)."""

import pytest
import torch

import counteredge as ce
from counteredge.datasets import load
from counteredge.engine.exhaustive import edge_lower_bounds
from counteredge.metrics import evaluate
from counteredge.models import oracle_for
from counteredge.oracle import Oracle


@pytest.fixture(scope="module")
def mutag():
    try:
        dataset = load("MUTAG")
    except ce.DataError as e:
        pytest.skip(f"MUTAG is in no data folder and cannot be downloaded: {e}")
    return dataset, oracle_for(dataset.name, dataset.graphs, dataset.num_classes)


def summary(dataset, cfs):
    return evaluate(cfs, [int(g.y) for g in dataset.graphs], embedders=(), controls=())


def test_oracle_is_accurate(mutag):
    _, oracle = mutag
    assert oracle.accuracy >= 0.85
    assert oracle.accuracy_heldout >= 0.85


def test_edges_and_features(mutag):
    dataset, oracle = mutag
    cfs = ce.XPlore().explain(oracle.model, dataset, progress=False)
    figures = summary(dataset, cfs)
    assert figures.graphs == 188
    assert figures.mean("validity") == 1.0
    assert figures.mean("ged") + figures.mean("feature_edits") <= 1.2
    assert figures.mean("one_minimal_share") == 1.0
    assert {c.relaxation for c in cfs} == {"exact (dense)"}
    for cf in cfs:  # atoms stay atoms
        assert (cf.data.x.sum(1) == 1).all()
    # judged by the model, one graph at a time, with nothing of ours in between
    with torch.no_grad():
        for cf in cfs:
            assert (
                oracle.model(cf.data.x, cf.data.edge_index).argmax()
                != oracle.model(cf.original.x, cf.original.edge_index).argmax()
            )


def test_edges_only_and_the_exhaustive_share(mutag):
    dataset, oracle = mutag
    cfs = ce.XPlore().explain(oracle.model, dataset, edits="edges", progress=False)
    figures = summary(dataset, cfs)
    assert figures.mean("validity") >= 0.99
    assert figures.mean("ged") <= 2.0
    assert figures.mean("edit_ratio") <= 0.05
    assert figures.mean("one_minimal_share") == 1.0
    bounds = edge_lower_bounds(Oracle(oracle.model), dataset.graphs[:100], 1)
    assert 0 < bounds.count(1) < 100
    assert [len(c.edits) == 1 for c in cfs[:100]] == [b == 1 for b in bounds]

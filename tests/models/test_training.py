import random

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from counteredge.errors import InputError
from counteredge.models import Recipe, train

QUICK = Recipe(hidden=8, layers=2, epochs=20, lr=0.02, batch_size=8, dropout=0.1)


@pytest.fixture
def graphs():
    """40 graphs; class 1 has a large first feature: learnt in a moment."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i in range(40):
        x = torch.randn(4, 2, generator=generator)
        x[:, 0] += 4 * (i % 2)
        edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        made.append(Data(x=x, edge_index=edges, y=torch.tensor([i % 2])))
    return made


def test_learns_and_reports(graphs):
    trained = train(graphs, 2, QUICK, seed=3)
    assert trained.accuracy > 0.9
    assert not trained.model.training
    assert all(p.grad is None for p in trained.model.parameters())
    assert (trained.recipe, trained.seed) == (QUICK, 3)
    train_part, test_part = trained.split["train"], trained.split["test"]
    assert len(train_part) == 32
    assert sorted(train_part + test_part) == list(range(40))
    right = [int(trained.model(g.x, g.edge_index).argmax() == g.y) for g in graphs]
    assert trained.accuracy == pytest.approx(sum(right) / 40)
    assert trained.accuracy_heldout == pytest.approx(sum(right[i] for i in test_part) / 8)
    # the scaler saw the training part only
    torch.testing.assert_close(trained.model.x_mean, torch.cat([graphs[i].x for i in train_part]).mean(0))


def test_same_seed_same_weights_whatever_the_global_state(graphs):
    torch.manual_seed(1)
    first = train(graphs, 2, QUICK)
    torch.manual_seed(2)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    second = train(graphs, 2, QUICK)
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)
    for a, b in zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert train(graphs, 2, QUICK, seed=1).split != first.split


def test_global_random_states_are_untouched(graphs):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    train(graphs, 2, QUICK)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # noqa: NPY002


def test_graphs_beyond_max_graphs_are_held_out(graphs):
    trained = train(graphs, 2, Recipe(hidden=4, epochs=1, max_graphs=10), progress=True)
    assert len(trained.split["train"]) == 8
    assert max(trained.split["train"]) < 10
    assert trained.split["test"][2:] == list(range(10, 40))


def test_bad_graphs(graphs):
    with pytest.raises(InputError, match="at least 2"):
        train(graphs[:1], 2, QUICK)
    with pytest.raises(InputError, match="graph 1 needs"):
        train(graphs, 1, QUICK)
    with pytest.raises(InputError, match="graph 0 needs"):
        train([Data(edge_index=torch.empty(2, 0), y=torch.tensor([0]), num_nodes=1)] * 2, 1, QUICK)

import random
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from counteredge.errors import InputError
from counteredge.models import Recipe, train
from counteredge.models.classifier import Conv

QUICK = Recipe(hidden=8, layers=2, epochs=20, lr=0.02, batch_size=8, dropout=0.1)


def easy_graphs(count=40, task="graph"):
    """Class 1 has a large first feature: learnt in a moment."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i in range(count):
        x = torch.randn(4, 2, generator=generator)
        x[:, 0] += 4 * (i % 2)
        edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        y = torch.tensor([i % 2] * (4 if task == "node" else 1))
        made.append(Data(x=x, edge_index=edges, y=y))
    return made


@pytest.fixture
def graphs():
    return easy_graphs()


def same_weights(a, b):
    pairs = zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_learns_and_reports(graphs):
    trained = train(graphs, 2, QUICK, seed=3)
    assert trained.accuracy > 0.9
    assert not trained.model.training
    assert all(p.grad is None for p in trained.model.parameters())
    assert (trained.recipe, trained.seed, trained.protocol, trained.epochs) == (QUICK, 3, "heldout", 20)
    train_part, test_part = trained.split["train"], trained.split["test"]
    assert len(train_part) == 32
    assert sorted(train_part + test_part) == list(range(40))
    right = [int(trained.model(g.x, g.edge_index).argmax() == g.y) for g in graphs]
    assert trained.accuracy == pytest.approx(sum(right) / 40)
    assert trained.accuracy_heldout == pytest.approx(sum(right[i] for i in test_part) / 8)
    assert trained.accuracy_train == pytest.approx(sum(right[i] for i in train_part) / 32)
    # the scaler saw the training part only
    torch.testing.assert_close(trained.model.x_mean, torch.cat([graphs[i].x for i in train_part]).mean(0))


@pytest.mark.parametrize("conv", get_args(Conv))
@pytest.mark.parametrize("task", ["graph", "node"])
def test_every_convolution_learns(conv, task):
    recipe = Recipe(conv=conv, task=task, hidden=8, layers=2, epochs=30, lr=0.02, batch_size=16, norm=True)
    trained = train(easy_graphs(task=task), 2, recipe, protocol="paper")
    assert trained.accuracy >= 0.95


def test_same_seed_same_weights_whatever_the_global_state(graphs):
    torch.manual_seed(1)
    first = train(graphs, 2, QUICK)
    torch.manual_seed(2)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    second = train(graphs, 2, QUICK)
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)
    assert same_weights(first, second)
    other = train(graphs, 2, QUICK, seed=1)
    assert other.split != first.split
    assert not same_weights(first, other)


def test_global_random_states_are_untouched(graphs):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    train(graphs, 2, replace(QUICK, norm=True, validation=0.2))
    train(graphs, 2, QUICK, protocol="paper")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # noqa: NPY002


def test_every_part_of_the_split_has_the_classes_in_the_same_proportions():
    graphs = easy_graphs(100)
    for i, g in enumerate(graphs):
        g.y = torch.tensor([0 if i < 50 else 1 if i < 80 else 2])
    recipe = Recipe(hidden=4, epochs=1, validation=0.25, train_graphs=30)
    trained = train(graphs, 3, recipe)
    shares = {
        part: np.bincount([int(graphs[i].y) for i in numbers]).tolist() for part, numbers in trained.split.items()
    }
    assert shares == {"test": [10, 6, 4], "validation": [10, 6, 4], "train": [15, 9, 6]}
    parts = [set(numbers) for numbers in trained.split.values()]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert trained.split != train(graphs, 3, recipe, seed=1).split


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_nothing_held_out_is_looked_at(graphs, validation):
    recipe = replace(QUICK, validation=validation, patience=5)
    first = train(graphs, 2, recipe)
    for i in first.split["test"]:  # other graphs of the same classes: the split stays, all else is new
        graphs[i].x = torch.full((4, 2), 1e3)
        graphs[i].edge_index = torch.tensor([[0, 3], [3, 0]])
    second = train(graphs, 2, recipe)
    assert second.split == first.split
    assert second.epochs == first.epochs
    assert same_weights(first, second)


def test_paper_protocol_learns_from_all_graphs_and_stops_at_its_goal(graphs):
    trained = train(graphs, 2, replace(QUICK, epochs=200, goal=0.9), protocol="paper")
    assert trained.split == {"train": list(range(40)), "validation": [], "test": []}
    assert trained.accuracy == trained.accuracy_train >= 0.9
    assert trained.accuracy_heldout is None
    assert trained.epochs < 200


def test_the_best_watched_weights_are_kept(graphs):
    generator = torch.Generator().manual_seed(1)
    for g in graphs:
        g.y = torch.randint(0, 2, (1,), generator=generator)  # nothing to learn: accuracy goes up and down
    recipe = replace(QUICK, epochs=60, patience=10, lr=0.05)
    trained = train(graphs, 2, recipe, protocol="paper")
    assert trained.epochs <= 60
    full = train(graphs, 2, replace(recipe, epochs=trained.epochs - 1, patience=0), protocol="paper")
    assert trained.accuracy >= full.accuracy - 0.2
    held = train(graphs, 2, replace(recipe, validation=0.25), progress=True)
    right = [
        int(held.model(graphs[i].x, graphs[i].edge_index).argmax() == graphs[i].y) for i in held.split["validation"]
    ]
    assert sum(right) / len(right) >= 0.5


def test_bad_calls(graphs):
    with pytest.raises(InputError, match="at least 2"):
        train(graphs[:1], 2, QUICK)
    with pytest.raises(InputError, match="protocol must be one of heldout, paper"):
        train(graphs, 2, QUICK, protocol="test")

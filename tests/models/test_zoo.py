import pickle

import pytest
import torch
from torch_geometric.data import Data

from counteredge.datasets import load
from counteredge.datasets.files import local_folders
from counteredge.errors import InputError
from counteredge.models import RECIPES, Recipe, oracle_for, zoo


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


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder and a recipe that trains in a moment."""
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path))
    monkeypatch.setitem(RECIPES, "MUTAG", Recipe(hidden=4, layers=1, epochs=2))
    return tmp_path / "oracles"


def same(a, b):
    weights = zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True)
    rest = (a.accuracy, a.accuracy_heldout, a.split, a.recipe, a.seed)
    return all(torch.equal(x, y) for x, y in weights) and rest == (
        b.accuracy,
        b.accuracy_heldout,
        b.split,
        b.recipe,
        b.seed,
    )


def no_training(*_, **__):
    raise AssertionError("should have been read from the cache")


def test_second_call_reads_the_first_ones_file(cache, monkeypatch, graphs):
    first = oracle_for("mutag", graphs, 2, seed=5)
    (file,) = cache.iterdir()
    assert file.name.startswith("mutag-seed5-")
    monkeypatch.setattr(zoo, "train", no_training)
    before = torch.get_rng_state()
    second = oracle_for("MUTAG", graphs, 2, seed=5)
    assert same(first, second)
    assert not second.model.training
    assert torch.equal(torch.get_rng_state(), before)


def test_other_data_seed_or_recipe_is_another_file(cache, monkeypatch, graphs):
    oracle_for("MUTAG", graphs, 2)
    oracle_for("MUTAG", graphs, 2, seed=1)
    oracle_for("MUTAG", graphs[:-1], 2)
    graphs[7].x[0, 0] += 1
    oracle_for("MUTAG", graphs, 2)
    monkeypatch.setitem(RECIPES, "MUTAG", Recipe(hidden=5, layers=1, epochs=2))
    oracle_for("MUTAG", graphs, 2)
    assert len(list(cache.iterdir())) == 5


class Evil:
    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


@pytest.mark.parametrize(
    "content",
    [b"", b"no checkpoint", pickle.dumps(Evil()), "cut", "foreign", "keyless"],
    ids=["empty", "text", "evil", "cut", "foreign", "keyless"],
)
def test_a_damaged_file_is_trained_anew_and_replaced(cache, content, graphs):
    first = oracle_for("MUTAG", graphs, 2)
    (file,) = cache.iterdir()
    good = torch.load(file, weights_only=True)
    if content == "cut":
        file.write_bytes(file.read_bytes()[:500])
    elif content == "foreign":
        torch.save({**good, "state": {"a": torch.ones(1)}}, file)
    elif content == "keyless":
        torch.save({"state": good["state"]}, file)
    else:
        file.write_bytes(content)
    with pytest.warns(UserWarning, match="replaced"):
        assert same(first, oracle_for("MUTAG", graphs, 2))
    assert torch.load(file, weights_only=True)["key"] == good["key"]
    assert list(cache.iterdir()) == [file]


def test_a_cache_that_cannot_be_written_does_no_harm(cache, graphs):
    cache.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept"):
        assert oracle_for("MUTAG", graphs, 2).model is not None


def test_unknown_name(graphs):
    with pytest.raises(InputError, match="did you mean 'Tree-Cycles'"):
        oracle_for("Tree-Cycle", graphs, 2)


def test_mutag_oracle(monkeypatch, tmp_path):
    if not any((folder / "MUTAG.zip").is_file() for folder in local_folders()):
        pytest.skip("MUTAG.zip is in none of the data folders")
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path))
    trained = oracle_for("MUTAG", load("MUTAG").graphs, 2)
    assert trained.accuracy >= 0.85
    assert trained.accuracy_heldout >= 0.85


def test_tree_cycles_oracle(monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path))
    trained = oracle_for("Tree-Cycles", load("Tree-Cycles", limit=500).graphs, 2)
    assert trained.accuracy >= 0.99

import hashlib
import json
import pickle

import pytest
import torch
from safetensors.torch import save
from torch_geometric.data import Data

from counteredge.datasets import load
from counteredge.datasets.files import local_folders
from counteredge.errors import InputError
from counteredge.models import RECIPES, OracleRecipe, Recipe, checkpoints, oracle_for, zoo
from counteredge.models.zoo import checkpoint_paths

QUICK = Recipe(hidden=4, layers=1, epochs=2, norm=True)


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
    monkeypatch.setitem(RECIPES, "MUTAG", OracleRecipe(heldout=QUICK, paper=QUICK))
    return tmp_path / "oracles"


def files(cache):
    (weights,) = cache.glob("*.safetensors")
    (card,) = cache.glob("*.json")
    assert len(list(cache.iterdir())) == 2
    return weights, card


def same(a, b):
    pairs = zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True)
    fields = ("accuracy", "accuracy_heldout", "accuracy_train", "split", "recipe", "seed", "protocol", "epochs")
    return all(torch.equal(x, y) for x, y in pairs) and all(getattr(a, f) == getattr(b, f) for f in fields)


def no_training(*_, **__):
    raise AssertionError("should have been read from the cache")


@pytest.mark.parametrize("protocol", ["heldout", "paper"])
def test_second_call_reads_the_first_ones_files(cache, monkeypatch, graphs, protocol):
    first = oracle_for("mutag", graphs, 2, seed=5, protocol=protocol)
    weights, _ = files(cache)
    assert weights.name.startswith(f"mutag-{protocol}-seed5-")
    assert checkpoint_paths("Mutag", protocol) == [weights]
    monkeypatch.setattr(zoo, "train", no_training)
    before = torch.get_rng_state()
    second = oracle_for("MUTAG", graphs, 2, seed=5, protocol=protocol)
    assert same(first, second)
    assert not second.model.training
    assert torch.equal(torch.get_rng_state(), before)


def test_the_card_says_what_the_weights_are(cache, monkeypatch, graphs):
    recipe = Recipe(hidden=4, layers=1, epochs=2, train_graphs=20)
    monkeypatch.setitem(RECIPES, "MUTAG", OracleRecipe(heldout=recipe, paper=recipe))
    trained = oracle_for("MUTAG", graphs, 2)
    card = json.loads(files(cache)[1].read_text())
    assert card["architecture"] == trained.model.config
    assert card["recipe"]["train_graphs"] == 20
    assert (card["name"], card["protocol"], card["seed"]) == ("MUTAG", "heldout", 0)
    assert card["accuracy"]["all"] == trained.accuracy
    assert card["split"] == trained.split
    assert card["trained_on"] == {"graphs": 20, "subset": True}
    assert set(card["versions"]) == {"counteredge", "torch", "torch_geometric", "python"}


def test_other_data_seed_recipe_or_protocol_is_another_checkpoint(cache, monkeypatch, graphs):
    oracle_for("MUTAG", graphs, 2)
    oracle_for("MUTAG", graphs, 2, seed=1)
    oracle_for("MUTAG", graphs, 2, protocol="paper")
    oracle_for("MUTAG", graphs[:-1], 2)
    graphs[7].x[0, 0] += 1
    oracle_for("MUTAG", graphs, 2)
    other = Recipe(hidden=5, layers=1, epochs=2)
    monkeypatch.setitem(RECIPES, "MUTAG", OracleRecipe(heldout=other, paper=other))
    oracle_for("MUTAG", graphs, 2)
    assert len(checkpoint_paths("MUTAG", "heldout")) == 5
    assert len(list(cache.iterdir())) == 12


class Evil:
    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


def damage(how, weights, card):
    text = card.read_text()
    if how == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-50])
    elif how == "other weights":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif how == "pickle":
        weights.write_bytes(pickle.dumps(Evil()))
    elif how == "no weights":
        weights.unlink()
    elif how == "no card":
        card.unlink()
    elif how == "cut card":
        card.write_text(text[: len(text) // 2])
    elif how == "list card":
        card.write_text("[]")
    elif how == "better card":
        told = json.loads(text)
        told["accuracy"]["heldout"] = 1.0
        card.write_text(json.dumps(told))
    elif how in ("foreign weights", "no tensors"):
        content = save({"a": torch.ones(1)}) if how == "foreign weights" else b"whole, but no safetensors"
        weights.write_bytes(content)
        told = json.loads(text)
        del told["card_sha256"]
        told["weights_sha256"] = hashlib.sha256(content).hexdigest()
        card.write_text(json.dumps({**told, "card_sha256": checkpoints._digest(told)}))
    elif how == "card without its digest":
        told = json.loads(text)
        del told["card_sha256"]
        card.write_text(json.dumps(told))


@pytest.mark.parametrize(
    "how",
    [
        "cut weights", "other weights", "pickle", "no weights", "no card", "cut card", "list card", "better card",
        "card without its digest", "foreign weights", "no tensors",
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_trained_anew_and_replaced(cache, how, graphs):
    first = oracle_for("MUTAG", graphs, 2)
    weights, card = files(cache)
    good = weights.read_bytes(), json.loads(card.read_text())["accuracy"]
    damage(how, weights, card)
    with pytest.warns(UserWarning, match="replaced"):
        assert same(first, oracle_for("MUTAG", graphs, 2))
    weights, card = files(cache)
    assert (weights.read_bytes(), json.loads(card.read_text())["accuracy"]) == good


def test_a_checkpoint_of_another_model_or_format_is_replaced(cache, monkeypatch, graphs):
    oracle_for("MUTAG", graphs, 2)
    weights, card = files(cache)
    kept = weights.read_bytes(), card.read_bytes()
    oracle_for("MUTAG", graphs, 2, seed=1)
    weights.write_bytes(next(p for p in checkpoint_paths("MUTAG", "heldout") if p != weights).read_bytes())
    card.write_bytes(next(p for p in sorted(cache.glob("*.json")) if p != card).read_bytes())
    with pytest.warns(UserWarning, match="another model"):
        oracle_for("MUTAG", graphs, 2)
    assert weights.read_bytes() == kept[0]
    monkeypatch.setattr("counteredge.models.checkpoints.FORMAT", 1)
    with pytest.warns(UserWarning, match="format 2, this version reads 1"):
        oracle_for("MUTAG", graphs, 2)


def test_a_cache_that_cannot_be_written_does_no_harm(cache, graphs):
    cache.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept"):
        assert oracle_for("MUTAG", graphs, 2).model is not None


def test_unknown_name_or_protocol(graphs):
    with pytest.raises(InputError, match="did you mean 'Tree-Cycles'"):
        oracle_for("Tree-Cycle", graphs, 2)
    with pytest.raises(InputError, match="protocol must be one of"):
        oracle_for("Tree-Cycles", graphs, 2, protocol="held out")


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

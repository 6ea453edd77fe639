import copy
import json
import pickle
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from torch_geometric.data import Data

from counteredge.datasets import Figures, load, registry, store
from counteredge.datasets.store import cache_path, read_graphs, write_graphs

GRAPHS = [
    Data(
        x=torch.tensor([[0.0, 300.0], [1.0, 2.0]]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.tensor([[0.25], [-0.0]]),
        y=torch.tensor([70000]),
        mask=torch.tensor([True, False]),
        text="C=O",
    ),
    Data(
        x=torch.tensor([[5.0, -1.0]]),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        edge_attr=torch.zeros(0, 1),
        y=torch.tensor([-3]),
        mask=torch.tensor([True]),
        text="Ünicode",
    ),
]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
    few = replace(registry.REGISTRY["Tree-Cycles"], figures=Figures(graphs=30))
    monkeypatch.setitem(registry.REGISTRY, "Tree-Cycles", few)


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert set(a.keys()) == set(b.keys())
        for key in a.keys():  # noqa: SIM118
            if isinstance(a[key], str):
                assert a[key] == b[key]
            else:
                assert (a[key].dtype, a[key].shape, a[key].is_contiguous()) == (b[key].dtype, b[key].shape, True)
                assert a[key].contiguous().numpy().tobytes() == b[key].contiguous().numpy().tobytes()


def test_round_trip_to_the_bit(tmp_path):
    path = tmp_path / "a" / "x.safetensors"
    assert write_graphs(path, GRAPHS, {"note": [1, "é"]})
    graphs, about = read_graphs(path)
    same(graphs, GRAPHS)
    assert about == {"note": [1, "é"]}
    assert [p.name for p in path.parent.iterdir()] == ["x.safetensors"]
    same(read_graphs(path, 1)[0], GRAPHS[:1])
    assert read_graphs(path, 0)[0] == []
    assert read_graphs(tmp_path / "none") is None


def test_numbers_are_kept_small(tmp_path):
    write_graphs(tmp_path / "x", GRAPHS, {})
    with safe_open(tmp_path / "x", framework="pt") as file:
        kinds = {key: file.get_tensor(key).dtype for key in file.keys()}  # noqa: SIM118
    assert kinds["edge_index"] == torch.uint8
    assert kinds["x"] == torch.int16
    assert kinds["y"] == torch.int32
    assert kinds["mask"] == torch.bool
    assert kinds["edge_attr"] == torch.float32


def test_many_graphs_in_chunks_of_different_types(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_CHUNK", 1)
    values = (torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([-40000.0]), torch.tensor([1e12]))
    graphs = [Data(x=v) for v in values]
    write_graphs(tmp_path / "x", graphs, {})
    same(read_graphs(tmp_path / "x")[0], graphs)


def test_a_graph_does_not_carry_the_others(tmp_path):
    many = [Data(x=torch.rand(50, 8), edge_index=torch.randint(50, (2, 90))) for _ in range(200)]
    write_graphs(tmp_path / "x", many, {})
    graph = read_graphs(tmp_path / "x")[0][7]
    assert len(pickle.dumps(graph)) < 10_000
    assert copy.deepcopy(graph).x.untyped_storage().nbytes() == 4 * graph.x.numel()


def empty(raw):
    return b""


def cut(raw):
    return raw[: len(raw) // 2]


def flip_last_byte(raw):
    return raw[:-1] + bytes([raw[-1] ^ 1])


def flip_in_header(raw):
    return raw[:20] + b"}" + raw[21:]


def huge_header(raw):
    return (1 << 62).to_bytes(8, "little") + raw[8:]


@pytest.mark.parametrize("damage", [empty, cut, flip_last_byte, flip_in_header, huge_header])
def test_a_damaged_cache_is_made_again_with_a_warning(damage):
    good = load("Tree-Cycles", descriptors=["degree"])
    (path,) = (store.cache_dir() / "datasets" / "processed").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=r"damaged.*made again"):
        again = load("Tree-Cycles", descriptors=["degree"])
    same(again.graphs, good.graphs)
    assert read_graphs(path) is not None


def test_a_foreign_safetensors_file_counts_as_damaged(tmp_path):
    store.save_file({"x": torch.ones(1)}, tmp_path / "x")
    with pytest.warns(UserWarning, match="damaged"):
        assert read_graphs(tmp_path / "x") is None
    store.save_file({"x": torch.ones(1)}, tmp_path / "x", {"counteredge": json.dumps({"sha256": "0"})})
    with pytest.warns(UserWarning, match="digest"):
        assert read_graphs(tmp_path / "x") is None


def test_from_the_cache_it_is_the_same_and_nothing_is_made(monkeypatch):
    made = load("Tree-Cycles", descriptors=["degree"], seed=3)
    monkeypatch.setattr(registry, "_described", None)
    kept = load("Tree-Cycles", descriptors=["degree"], seed=3)
    same(kept.graphs, made.graphs)
    assert (kept.schema, kept.label_names) == (made.schema, made.label_names)


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "file"))
    assert len(load("Tree-Cycles", descriptors=())) == 30
    assert not write_graphs(cache_path("x"), GRAPHS, {})


def test_the_key_covers_all_that_matters(monkeypatch):
    keys = [cache_path("A"), cache_path("B"), cache_path("A", seed=1), cache_path("A", descriptors=("degree",))]
    monkeypatch.setattr(store, "FORMAT", 0)
    keys.append(cache_path("A"))
    assert len(set(keys)) == 5

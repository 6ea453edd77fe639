import numpy as np
import pytest
import torch
from torch_geometric.utils import is_undirected

from counteredge.datasets import load
from counteredge.datasets.anchors import read_anchor
from counteredge.datasets.registry import REGISTRY
from counteredge.errors import DataError

NAMES = ("node-tree-cycles", "node-tree-grid", "node-ba-shapes")
GOOD = {
    "x": np.ones((3, 2), np.float32),
    "edge_index": np.array([[0, 1], [1, 0]]),
    "y": np.array([0, 1, 0]),
    "train_mask": np.array([True, False, False]),
    "val_mask": np.array([False, True, False]),
    "test_mask": np.array([False, False, True]),
}


@pytest.mark.parametrize("name", NAMES)
def test_released_graphs(name, monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
    if not REGISTRY[name].present():
        pytest.skip(f"{REGISTRY[name].file} is in none of the data folders")
    for data in (load(name), load(name)):  # the second one comes from the cache
        (graph,) = data
        assert (data.task, data.figures()) == ("node", REGISTRY[name].figures)
        assert [c.kind for c in data.schema.columns] == ["fixed"] * 10
        assert is_undirected(graph.edge_index)
        assert graph.y.bincount().shape == (data.num_classes,)
        masks = graph.train_mask.int() + graph.val_mask.int() + graph.test_mask.int()
        assert torch.equal(masks, torch.ones_like(masks))


def test_a_small_one(tmp_path):
    np.savez(tmp_path / "own.npz", **GOOD)
    (graph,), columns, labels = read_anchor(tmp_path / "own.npz", ("a", "b"))
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.val_mask.tolist() == [False, True, False]
    assert (len(columns), labels) == (2, ("a", "b"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array([0, 1])}, "do not fit together"),
        ({"y": np.array([0, 1, 2])}, "out of range"),
        ({"edge_index": np.array([[0, 3], [3, 0]])}, "out of range"),
        ({"edge_index": np.array([0, 1])}, "do not fit together"),
        ({"x": np.array([object()] * 3)}, "cannot be read"),  # pickled objects
        ({"x": None}, "cannot be read"),
    ],
)
def test_damaged_files(tmp_path, changes, message):
    np.savez(tmp_path / "own.npz", **{k: v for k, v in (GOOD | changes).items() if v is not None})
    with pytest.raises(DataError, match=message):
        read_anchor(tmp_path / "own.npz", ("a", "b"))


def test_other_files(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_anchor(tmp_path / "none.npz", ("a",))
    np.savez(tmp_path / "tree_grid.npz", **GOOD)
    with pytest.raises(DataError, match="not the known file"):
        read_anchor(tmp_path / "tree_grid.npz", ("a", "b"))
    (tmp_path / "own.npz").write_bytes((tmp_path / "tree_grid.npz").read_bytes()[:300])
    with pytest.raises(DataError, match="cannot be read"):
        read_anchor(tmp_path / "own.npz", ("a", "b"))

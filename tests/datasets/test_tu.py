import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import TUDataset

from counteredge.datasets import tu
from counteredge.datasets.files import local_folders
from counteredge.datasets.tu import content_sha256, read_tu
from counteredge.errors import DataError


@pytest.fixture
def mutag_zip():
    for folder in local_folders():
        if (folder / "MUTAG.zip").is_file():
            return folder / "MUTAG.zip"
    pytest.skip("MUTAG.zip is in none of the data folders")


TOY = {
    "A": "1,2\n2,1\n2,2\n1,2\n3,4\n4,3\n",
    "graph_indicator": "1\n1\n3\n3\n",
    "graph_labels": "5\n-1\n-1\n",
    "node_labels": "2\n3\n2\n2\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n",
    "edge_labels": "0\n1\n0\n1\n1\n0\n",
}


@pytest.fixture
def toy(tmp_path):
    """Writes a small TU zip; keyword arguments replace members, None leaves one out."""

    def write(**changes):
        path = tmp_path / "TOY.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, text in (TOY | changes).items():
                if text is not None:
                    archive.writestr(f"TOY/TOY_{part}.txt", text)
        return path

    return write


def test_equals_pyg_on_mutag(mutag_zip, tmp_path):
    raw = tmp_path / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(mutag_zip) as archive:
        for member in archive.namelist():
            (raw / Path(member).name).write_bytes(archive.read(member))
    expected = TUDataset(str(tmp_path), "MUTAG", use_node_attr=True, use_edge_attr=True)
    got = read_tu(mutag_zip, "MUTAG")
    assert len(got) == len(expected) == 188
    for ours, theirs in zip(got, expected, strict=True):
        for field in ("x", "edge_index", "edge_attr", "y"):
            assert ours[field].dtype == theirs[field].dtype
            assert torch.equal(ours[field], theirs[field])


def test_toy_tensors(toy):
    first, empty, last = read_tu(toy(), "TOY")
    assert first.x.tolist() == [[0.5, 1, 1, 0], [1.5, 2, 0, 1]]
    assert first.edge_index.tolist() == [[0, 1], [1, 0]]  # no self-loop, the repeat is gone
    assert first.edge_attr.tolist() == [[1, 0], [0, 1]]  # the first of the two 1-2 lines
    assert last.edge_index.tolist() == [[0, 1], [1, 0]]
    assert last.edge_attr.tolist() == [[0, 1], [1, 0]]
    assert [int(g.y) for g in (first, empty, last)] == [1, 0, 0]
    assert empty.num_nodes == 0
    assert first.x.untyped_storage().nbytes() == 4 * first.x.numel()  # no view of the whole dataset


def test_optional_parts(toy):
    bare = read_tu(toy(node_labels=None, node_attributes=None, edge_labels=None), "TOY")
    assert bare[0].x is None
    assert bare[0].num_nodes == 2
    assert bare[0].edge_attr is None
    values = toy(graph_labels=None, graph_attributes="3.0\n1.0\n2.0\n")
    assert [int(g.y) for g in read_tu(values, "TOY")] == [2, 0, 1]
    assert read_tu(toy(), "TOY", node_labels=False)[0].x.shape == (2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": None}, "has no TOY_A.txt"),
        ({"graph_labels": None}, "has no TOY_graph_labels.txt"),
        ({"A": "1,2\nx,1\n"}, "cannot be read"),
        ({"A": "1\n2\n", "edge_labels": None}, "two node numbers"),
        ({"A": "1,9\n9,1\n", "edge_labels": None}, "node numbers must be 1 to 4"),
        ({"A": "1,3\n3,1\n", "edge_labels": None}, "joins two graphs"),
        ({"graph_indicator": "1\n3\n1\n3\n"}, "must rise"),
        ({"graph_indicator": "1\n1\n3\n4\n"}, "at most 3"),
        ({"node_labels": "1\n"}, "has 1 lines, expected 4"),
        ({"edge_labels": "1\n"}, "has 1 lines, expected 6"),
    ],
)
def test_damaged_files(toy, changes, message):
    with pytest.raises(DataError, match=message):
        read_tu(toy(**changes), "TOY")


def test_wide_labels_are_refused(toy, monkeypatch):
    monkeypatch.setattr(tu, "MAX_DENSE", 16)
    with pytest.raises(DataError, match="node_labels=False"):
        read_tu(toy(), "TOY")


def test_no_zip_and_cut_zip(toy, tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_tu(tmp_path / "none.zip", "TOY")
    path = toy()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="cannot be read"):
        read_tu(path, "TOY")


def test_hash_is_checked_first(toy, monkeypatch):
    path = toy(A="no numbers at all")
    monkeypatch.setitem(tu.KNOWN_SHA256, "TOY", "0" * 64)
    with pytest.raises(DataError, match=rf"{content_sha256(path, 'TOY')}, expected {'0' * 64}"):
        read_tu(path, "TOY")
    monkeypatch.setitem(tu.KNOWN_SHA256, "TOY", content_sha256(toy(), "TOY"))
    assert len(read_tu(toy(), "TOY")) == 3


def test_bombs_are_refused(toy, monkeypatch):
    with pytest.raises(DataError, match="refused"):
        read_tu(toy(A="\n" * (2 << 20)), "TOY")
    monkeypatch.setattr(tu, "MAX_MEMBER", 10)
    with pytest.raises(DataError, match="refused"):
        read_tu(toy(), "TOY")


def test_members_cannot_leave_the_zip(toy, tmp_path):
    path = toy()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../outside.txt", "1")
    before = set(tmp_path.parent.rglob("*"))
    read_tu(path, "TOY")
    assert set(tmp_path.parent.rglob("*")) == before
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../TOY_A.txt", "1,2\n")
    with pytest.raises(DataError, match="twice"):
        read_tu(path, "TOY")

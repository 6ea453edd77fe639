import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import TUDataset

from counteredge.datasets import tu, tu_zip
from counteredge.datasets.files import local_file
from counteredge.datasets.tu import read_tables, read_tu
from counteredge.datasets.tu_zip import content_sha256, read_numbers
from counteredge.errors import DataError


@pytest.fixture
def mutag_zip():
    return local_file("MUTAG.zip") or pytest.skip("MUTAG.zip is in none of the data folders")


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


def as_pyg_reads_it(path, name, folder):
    """The same zip through PyG's own reader."""
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            (raw / Path(member).name).write_bytes(archive.read(member))
    return TUDataset(str(folder), name, use_node_attr=True, use_edge_attr=True)


def test_equals_pyg_on_mutag(mutag_zip, tmp_path):
    expected = as_pyg_reads_it(mutag_zip, "MUTAG", tmp_path)
    got = read_tu(mutag_zip, "MUTAG")
    assert len(got) == len(expected) == 188
    for ours, theirs in zip(got, expected, strict=True):
        for field in ("x", "edge_index", "edge_attr", "y"):
            assert ours[field].dtype == theirs[field].dtype
            assert torch.equal(ours[field], theirs[field])


@pytest.mark.data
@pytest.mark.parametrize("name", ["BZR", "COX2", "AIDS", "ENZYMES", "PROTEINS_full", "Fingerprint", "MSRC_21"])
def test_equals_pyg(name, tmp_path):
    path = local_file(f"{name}.zip") or pytest.skip(f"{name}.zip is in none of the data folders")
    expected = as_pyg_reads_it(path, name, tmp_path)
    got = read_tu(path, name)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        for field in {"x", "edge_index", "edge_attr", "y"} & set(theirs.keys()):
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
    assert first.edge_index.untyped_storage().nbytes() == 8 * first.edge_index.numel()


def test_sorted_edges_need_no_sorting(toy):
    in_order, shuffled = "1,2\n2,1\n3,4\n4,3\n", "4,3\n2,1\n3,4\n1,2\n"
    for ours, theirs in zip(
        read_tu(toy(A=in_order, edge_labels=None), "TOY"),
        read_tu(toy(A=shuffled, edge_labels=None), "TOY"),
        strict=True,
    ):
        assert torch.equal(ours.edge_index, theirs.edge_index)


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
        ({"A": ""}, "cannot be read.*no numbers"),
        ({"A": "1\n2\n", "edge_labels": None}, "two node numbers"),
        ({"A": "1,9\n9,1\n", "edge_labels": None}, "node numbers must be 1 to 4"),
        ({"A": "0,1\n1,0\n", "edge_labels": None}, "node numbers must be 1 to 4"),
        ({"A": "1,3\n3,1\n", "edge_labels": None}, "joins two graphs"),
        ({"graph_indicator": "1\n3\n1\n3\n"}, "must rise"),
        ({"graph_indicator": "1\n1\n3\n4\n"}, "at most 3"),
        ({"graph_labels": "5\n-1\n"}, "at most 2"),
        ({"graph_labels": "5\nyes\n-1\n"}, "cannot be read"),
        ({"graph_attributes": "5\n"}, "has 1 lines, expected 3"),
        ({"node_labels": "1\n"}, "has 1 lines, expected 4"),
        ({"edge_labels": "1\n"}, "has 1 lines, expected 6"),
        ({"node_attributes": "0.5\n1.5, 2\n2\n3\n"}, "cannot be read"),
    ],
)
def test_damaged_files(toy, changes, message):
    with pytest.raises(DataError, match=message):
        read_tu(toy(**changes), "TOY")


@pytest.mark.parametrize("chunk", [1 << 24, 5, 1])
@pytest.mark.parametrize(
    "text", ["1,2\n30,4\n", "1, 2\n30, 4\n", "1, 2\r\n30, 4\r\n", "1,2\n30,4", " 1 ,2\n30,  4\n", "1,2\n\n30,4\n\n"]
)
def test_ways_to_write_numbers(toy, monkeypatch, text, chunk):
    monkeypatch.setattr(tu_zip, "CHUNK", chunk)
    assert read_numbers(toy(A=text), "TOY")["A"].tolist() == [[1, 2], [30, 4]]


@pytest.mark.parametrize(
    "text", ["1,2\n3\n", "1,2\n3,4,5\n", "1 2\n3 4\n5,6\n", "1,,2\n3,4\n", "1,2,\n", "1,2\n3,-\n", "1;2\n"]
)
def test_lines_that_are_no_rows_of_numbers(toy, text):
    with pytest.raises(DataError, match="cannot be read"):
        read_numbers(toy(A=text), "TOY")


def test_signs_fractions_and_large_numbers(toy):
    numbers = read_numbers(toy(graph_labels="5\n-1\n3000000000\n", node_attributes="1,2\n3,4\n5,6\n7,8\n"), "TOY")
    assert numbers["graph_labels"].tolist() == [[5], [-1], [3000000000]]
    assert numbers["node_attributes"].dtype == np.float64


def test_parts_can_be_skipped(toy):
    assert read_tables(toy(), "TOY", skip=("node_attributes",)).node_attributes is None


def test_wide_labels_are_refused(toy, monkeypatch):
    monkeypatch.setattr(tu, "MAX_DENSE", 16)
    with pytest.raises(DataError, match="node_labels=False"):
        read_tu(toy(), "TOY")


def test_no_zip_and_cut_zip(toy, tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_tu(tmp_path / "none.zip", "TOY")
    whole = toy().read_bytes()
    for size in range(0, len(whole), 97):
        (tmp_path / "cut.zip").write_bytes(whole[:size])
        with pytest.raises(DataError, match="cannot be read"):
            read_tu(tmp_path / "cut.zip", "TOY")


def test_hash_is_checked_first(toy, monkeypatch):
    path = toy(A="no numbers at all")
    monkeypatch.setitem(tu_zip.KNOWN_SHA256, "TOY", "0" * 64)
    with pytest.raises(DataError, match=rf"{content_sha256(path, 'TOY')}, expected {'0' * 64}"):
        read_tu(path, "TOY")
    monkeypatch.setitem(tu_zip.KNOWN_SHA256, "TOY", content_sha256(toy(), "TOY"))
    assert len(read_tu(toy(), "TOY")) == 3


def test_bombs_are_refused(toy, monkeypatch):
    with pytest.raises(DataError, match="refused"):
        read_tu(toy(A="\n" * (17 << 20)), "TOY")
    monkeypatch.setattr(tu_zip, "MAX_MEMBER", 10)
    with pytest.raises(DataError, match="refused"):
        read_tu(toy(), "TOY")


def test_a_claim_of_ten_gigabytes_is_refused(toy):
    path = toy()
    with zipfile.ZipFile(path) as archive:
        (info,) = (i for i in archive.infolist() if i.filename.endswith("_A.txt"))
    raw = path.read_bytes()
    size, claim = info.file_size.to_bytes(4, "little"), (4 * 10**9).to_bytes(4, "little")
    at = raw.index(b"PK\x01\x02")  # the entry of _A.txt in the central directory, its size is 24 bytes further
    assert raw[at + 24 : at + 28] == size
    path.write_bytes(raw[: at + 24] + claim + raw[at + 28 :])
    with pytest.raises(DataError, match=r"unpacks to 4000000000 bytes.*refused"):
        read_tu(path, "TOY")


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "TOY/../../outside.txt",
        "/etc/outside.txt",
        "..\\outside.txt",
        "C:\\outside.txt",
        "../TOY_A.txt",
    ],
)
def test_members_outside_the_zip_are_refused(toy, tmp_path, name):
    path = toy()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "1,2\n")
    before = set(tmp_path.parent.rglob("*"))
    with pytest.raises(DataError, match="points outside the zip; refused"):
        read_tu(path, "TOY")
    assert set(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["TOY/TOY_A.txt", "TOY/readme.txt"])
def test_links_are_refused(toy, name):
    path = toy(A=None)
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="is a link; refused"):
        read_tu(path, "TOY")


def test_a_member_that_is_there_twice(toy):
    path = toy()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("OTHER/TOY_A.txt", "1,2\n")
    with pytest.raises(DataError, match="twice"):
        read_tu(path, "TOY")


def test_nothing_is_written(toy, tmp_path):
    path = toy()
    before = set(tmp_path.parent.rglob("*"))
    read_tu(path, "TOY")
    assert set(tmp_path.parent.rglob("*")) == before

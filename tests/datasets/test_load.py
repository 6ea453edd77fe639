import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric import data as pyg_data

from counteredge.cache import cache_dir
from counteredge.datasets import available, files, load
from counteredge.datasets.registry import REGISTRY
from counteredge.descriptors import DESCRIPTORS, append_descriptors
from counteredge.errors import DataError, InputError


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mutag_zip():
    return files.local_file("MUTAG.zip") or pytest.skip("MUTAG.zip is in none of the data folders")


@pytest.fixture
def nothing_local(monkeypatch, tmp_path):
    """No folder outside tmp_path is looked in."""
    monkeypatch.delenv("COUNTEREDGE_DATA", raising=False)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "files.py"))
    return tmp_path


def test_mutag(mutag_zip):
    data = load("mutag")
    assert (len(data), data.num_classes, data.has_atoms, data.source) == (188, 2, True, "file")
    assert data.schema.names == ("C", "N", "O", "F", "I", "Cl", "Br")
    assert data[0].x.shape[1] == data.schema.width
    mutagenic = data.label_names.index("mutagenic")
    assert sum(int(g.y) == mutagenic for g in data) == 125
    assert len(load("MUTAG", limit=5)) == 5


@pytest.mark.parametrize("name", [n for n, entry in REGISTRY.items() if entry.file is None])
def test_generated_sets_fit_their_schema(name):
    data = load(name, limit=4)
    assert (data.name, data.source, len(data)) == (name, "generated", 4)
    assert data.task == ("node" if name.endswith("-node") else "graph")
    assert len(data.label_names) == data.num_classes == REGISTRY[name].figures.classes
    for g in data:
        assert g.x.shape == (g.num_nodes, data.schema.width)
        assert g.x.dtype == torch.float32
        assert g.y.shape == ((g.num_nodes,) if data.task == "node" else (1,))
        assert 0 <= int(g.y.min()) <= int(g.y.max()) < data.num_classes
        assert set(g.keys()) == {"x", "edge_index", "y"}


def test_descriptors(mutag_zip):
    default = load("TCR", limit=3)
    assert default.schema.names == DESCRIPTORS
    assert {c.kind for c in default.schema.columns} == {"structural"}
    assert load("TCR", limit=3, descriptors="degree").schema.names == ("degree",)
    ones = load("TCR", limit=3, descriptors=())
    assert [c.kind for c in ones.schema.columns] == ["fixed"]
    assert torch.equal(ones[0].x, torch.ones(28, 1))
    more = load("MUTAG", descriptors=("degree=3", "katz"))
    assert more.schema.names[-2:] == ("degree=3", "katz")
    expected = append_descriptors([load("MUTAG")[100]], ("degree=3", "katz"))[0]
    assert torch.equal(more[100].x, expected.x)
    with pytest.raises(InputError, match=r"unknown descriptor 'pagerank'\. Known: degree"):
        load("TCR", descriptors=["pagerank"])


def test_a_graph_is_the_same_whatever_the_limit():
    whole, part = load("Tree-Cycles"), load("Tree-Cycles", limit=20)
    assert [len(whole), len(part)] == [5000, 20]
    for ours, theirs in zip(part, whole, strict=False):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.edge_index, theirs.edge_index)
    assert len(load("Tree-Cycles", limit=10**9)) == 5000
    assert len(load("Tree-Cycles", limit=0)) == 0


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("TCR", "Tree-Cycles"),
        ("tg", "Tree-Grid"),
        ("BAS", "BAShapes"),
        ("COLOR-3", "COLORS-3"),
        ("MSRC", "MSRC_21"),
        ("DBLP", "DBLP_v1"),
        ("imdb", "IMDB-BINARY"),
        ("TWITTER", "TWITTER-Real-Graph-Partial"),
        ("MSRC-node", "MSRC_21-node"),
    ],
)
def test_aliases(alias, name, nothing_local):
    if REGISTRY[name].file:
        (nothing_local / REGISTRY[name].file).write_bytes(b"no zip")
        with pytest.raises(DataError, match=f"TU zip of {name.removesuffix('-node')}"):
            load(alias, nothing_local)
    else:
        assert load(alias, limit=1).name == name


def test_names_are_unique():
    names = [n.lower() for e in REGISTRY.values() for n in (e.name, *e.aliases)]
    assert len(names) == len(set(names))
    assert available() == tuple(REGISTRY)


def test_unknown_names():
    with pytest.raises(InputError, match=r"did you mean 'MUTAG'\? Known: MUTAG, BZR"):
        load("MUTAGG")
    with pytest.raises(InputError, match="Known: MUTAG"):
        load("qqqqqq")
    with pytest.raises(InputError, match="limit"):
        load("TCR", limit=-1)
    with pytest.raises(InputError, match="seed"):
        load("TCR", seed=-1)


def test_root_comes_before_the_environment(mutag_zip, nothing_local, monkeypatch):
    for folder in ("root", "env"):
        (nothing_local / folder).mkdir()
        shutil.copy(mutag_zip, nothing_local / folder / "MUTAG.zip")
    monkeypatch.setenv("COUNTEREDGE_DATA", str(nothing_local / "env"))
    assert files.find_file("MUTAG.zip", nothing_local / "root").parent.name == "root"
    assert files.find_file("MUTAG.zip").parent.name == "env"
    assert len(load("MUTAG", nothing_local / "root")) == 188


def test_beside_the_checkout(nothing_local, monkeypatch):
    checkout = nothing_local / "repo"
    monkeypatch.setattr(files, "__file__", str(checkout / "src" / "counteredge" / "datasets" / "files.py"))
    beside = nothing_local.resolve() / "shared" / "data"
    assert beside not in files.local_folders()
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    assert beside in files.local_folders()
    anchor = nothing_local / "shared" / "testdata" / "node_anchors" / "tree_grid.npz"
    anchor.parent.mkdir(parents=True)
    anchor.touch()
    beside.mkdir()
    assert files.local_file("tree_grid.npz") == anchor.resolve()


def test_download(mutag_zip, nothing_local, monkeypatch):
    asked = []

    def copy(url, folder, **_):
        asked.append(url)
        return shutil.copy(mutag_zip, Path(folder) / "MUTAG.zip")

    monkeypatch.setattr(pyg_data, "download_url", copy)
    assert not REGISTRY["MUTAG"].present()
    assert len(load("MUTAG")) == len(load("MUTAG")) == 188
    assert REGISTRY["MUTAG"].present()
    assert asked == [f"{files.TU_URL}/MUTAG.zip"]
    assert sorted(p.name for p in (cache_dir() / "datasets").iterdir()) == ["MUTAG.zip", "processed"]


def test_failed_download_says_where_it_looked(nothing_local, monkeypatch):
    def fail(url, folder, **_):
        (Path(folder) / "MUTAG.zip").write_bytes(b"half")
        raise OSError("no network")

    monkeypatch.setattr(pyg_data, "download_url", fail)
    own = nothing_local / "own"
    with pytest.raises(DataError, match="own' is no folder"):
        load("MUTAG", own)
    own.mkdir()
    with pytest.raises(DataError, match=r"(?s)own.*cache.*no network.*COUNTEREDGE_DATA=FOLDER"):
        load("MUTAG", own)
    assert not list((cache_dir() / "datasets").iterdir())


@pytest.mark.parametrize("name", ["BBBP", "node-tree-grid"])
def test_files_that_are_not_downloaded(name, nothing_local):
    with pytest.raises(DataError, match=r"is in none of: .*not downloaded by itself.*COUNTEREDGE_DATA=FOLDER"):
        load(name)
    assert not REGISTRY[name].present()


def test_another_file_is_read_anew(mutag_zip, nothing_local):
    # the same data packed otherwise are read and checked again; other data never come out of the cache
    path = nothing_local / "MUTAG.zip"
    shutil.copy(mutag_zip, path)
    first = load("MUTAG", nothing_local)
    with zipfile.ZipFile(mutag_zip) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for member in source.namelist():
            target.writestr(member, source.read(member))
    again = load("MUTAG", nothing_local)
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert len(list((cache_dir() / "datasets" / "processed").iterdir())) == 2
    path.write_bytes(path.read_bytes().replace(b"\n1\n1\n1\n", b"\n1\n1\n2\n"))
    with pytest.raises(DataError, match="MUTAG"):
        load("MUTAG", nothing_local)
    assert len(list((cache_dir() / "datasets" / "processed").iterdir())) == 2


def test_cache_dir(monkeypatch, tmp_path):
    monkeypatch.delenv("COUNTEREDGE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == Path.home() / ".cache" / "counteredge"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "counteredge"
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"

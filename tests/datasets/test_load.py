import shutil
from pathlib import Path

import pytest
from torch_geometric import data as pyg_data

from counteredge.cache import cache_dir
from counteredge.datasets import available, files, load
from counteredge.errors import DataError, InputError


@pytest.fixture
def mutag_zip():
    for folder in files.local_folders():
        if (folder / "MUTAG.zip").is_file():
            return folder / "MUTAG.zip"
    pytest.skip("MUTAG.zip is in none of the data folders")


@pytest.fixture
def nothing_local(monkeypatch, tmp_path):
    """No folder outside tmp_path is looked in."""
    monkeypatch.delenv("COUNTEREDGE_DATA", raising=False)
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
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


@pytest.mark.parametrize("name", available())
def test_every_name_loads_and_fits_its_schema(name, request):
    if name == "MUTAG":
        request.getfixturevalue("mutag_zip")
    data = load(name, limit=4)
    assert data.name == name
    assert len(data.label_names) == data.num_classes
    assert all(g.x.shape[1] == data.schema.width and 0 <= int(g.y) < data.num_classes for g in data)


def test_unknown_names():
    with pytest.raises(InputError, match=r"did you mean 'MUTAG'\? Known: MUTAG, Tree-Cycles"):
        load("MUTAGG")
    with pytest.raises(InputError, match="Known: MUTAG"):
        load("qqqqqq")
    with pytest.raises(InputError, match="limit"):
        load("TCR", limit=-1)


def test_root_comes_before_the_environment(mutag_zip, nothing_local, monkeypatch):
    for folder in ("root", "env"):
        (nothing_local / folder).mkdir()
        shutil.copy(mutag_zip, nothing_local / folder / "MUTAG.zip")
    monkeypatch.setenv("COUNTEREDGE_DATA", str(nothing_local / "env"))
    assert files.find_zip("MUTAG", nothing_local / "root").parent.name == "root"
    assert files.find_zip("MUTAG").parent.name == "env"
    assert len(load("MUTAG", nothing_local / "root")) == 188


def test_beside_the_checkout(nothing_local, monkeypatch):
    checkout = nothing_local / "repo"
    monkeypatch.setattr(files, "__file__", str(checkout / "src" / "counteredge" / "datasets" / "files.py"))
    beside = nothing_local.resolve() / "shared" / "data"
    assert beside not in files.local_folders()
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    assert beside in files.local_folders()


def test_download(mutag_zip, nothing_local, monkeypatch):
    asked = []

    def copy(url, folder, **_):
        asked.append(url)
        return shutil.copy(mutag_zip, Path(folder) / "MUTAG.zip")

    monkeypatch.setattr(pyg_data, "download_url", copy)
    assert len(load("MUTAG")) == len(load("MUTAG")) == 188
    assert asked == [f"{files.TU_URL}/MUTAG.zip"]
    assert [p.name for p in (cache_dir() / "datasets").iterdir()] == ["MUTAG.zip"]


def test_failed_download_says_where_it_looked(nothing_local, monkeypatch):
    def fail(url, folder, **_):
        (Path(folder) / "MUTAG.zip").write_bytes(b"half")
        raise OSError("no network")

    monkeypatch.setattr(pyg_data, "download_url", fail)
    with pytest.raises(DataError, match=r"(?s)own.*cache.*no network.*COUNTEREDGE_DATA=FOLDER"):
        load("MUTAG", nothing_local / "own")
    assert not list((cache_dir() / "datasets").iterdir())


def test_cache_dir(monkeypatch, tmp_path):
    monkeypatch.delenv("COUNTEREDGE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == Path.home() / ".cache" / "counteredge"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "counteredge"
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"

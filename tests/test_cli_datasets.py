from dataclasses import replace

import pytest
from typer.testing import CliRunner

from counteredge.cli import app
from counteredge.datasets import registry, table
from counteredge.datasets.dataset import Figures


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Three of the datasets; Tree-Cycles is small, MUTAG nowhere."""
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
    small = replace(registry.REGISTRY["Tree-Cycles"], figures=Figures(6, 2, 28.0, 27.83, 0))
    entries = {"Tree-Cycles": small}
    entries |= {name: registry.REGISTRY[name] for name in ("MUTAG", "TWITTER-Real-Graph-Partial")}
    for module in (registry, table):
        monkeypatch.setattr(module, "REGISTRY", entries)
    monkeypatch.setattr(registry, "local_file", lambda name, root: None)
    return entries


def run(*words):
    return CliRunner().invoke(app, ["datasets", *words])


def test_the_table_is_printed_without_loading(few, monkeypatch):
    monkeypatch.setattr(table, "load", None)
    result = run()
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["Tree-Cycles"] == ["Tree-Cycles", "graph", "6", "2", "28.00", "27.83", "0", "generated", "yes"]
    assert rows["MUTAG"] == ["MUTAG", "graph", "188", "2", "17.93", "19.79", "0", "TU", "no"]
    assert "144033" in result.stdout


def test_check_loads_what_is_present(few):
    result = run("--check")
    expected = table.check("Tree-Cycles")
    assert result.exit_code == (1 if expected else 0)
    few["Tree-Cycles"] = replace(few["Tree-Cycles"], figures=Figures(6, 2, 29.0, None, 0))
    result = run("--check")
    assert result.exit_code == 1
    assert "Tree-Cycles: nodes: 28.0, expected 29.0" in result.stdout
    assert "differs" in result.stdout


def test_check_names_what_cannot_be_read(few, monkeypatch, tmp_path):
    (tmp_path / "MUTAG.zip").write_bytes(b"no zip")
    monkeypatch.setattr(registry, "local_file", lambda name, root: tmp_path / name if name == "MUTAG.zip" else None)
    result = run("--check", "--data-root", str(tmp_path))
    assert result.exit_code == 1
    assert "cannot be read as the TU zip of MUTAG" in result.stdout


def test_figures_are_compared_to_the_last_digit():
    found = Figures(10, 2, 4.01, None, 3)
    assert table.differences(found, Figures(10, 2, 4.0, 9.9)) == ["nodes: 4.01, expected 4.0"]
    assert table.differences(found, found) == []


def test_every_dataset_has_a_row():
    rows = table.table()
    assert [row.name for row in rows] == list(registry.REGISTRY)
    assert {row.source for row in rows} == {"TU", "MoleculeNet", "generated", "released"}
    assert all(row.present for row in rows if row.source == "generated")

"""Everything that is made of a store, by the command that makes it."""

import sys

import pandas as pd
import pytest

import counteredge as ce
from counteredge.bench import parse_sweep, run_sweep
from counteredge.cli import main
from counteredge.report import write_report

pytestmark = pytest.mark.usefixtures("own_cache")

SWEEP = """
datasets = ["Tree-Cycles"]
graphs = 12
embedders = ["LDP"]
[[method]]
explainer = "xplore"
[[method]]
explainer = "xplore"
edits = "edges"
name = "<b>edges</b>"
[[method]]
explainer = "irand"
"""


@pytest.fixture(scope="module")
def store(own_cache, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    assert run_sweep(parse_sweep(SWEEP, "mine"), folder, progress=False).done == 3
    return folder


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["counteredge", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code or 0


def test_all_of_it(store, tmp_path, monkeypatch, capsys):
    assert command(monkeypatch, "bench", "report", store, "--out", tmp_path / "r") == 0
    assert "files in" in capsys.readouterr().out
    made = {str(p.relative_to(tmp_path / "r")) for p in (tmp_path / "r").rglob("*") if p.is_file()}
    assert made >= {
        *("report.html", "jobs.parquet", "instances.parquet"),
        *(f"tables/{t}" for t in ("main.md", "main.tex", "main.csv", "paper_table.csv")),
        *(f"figures/{f}" for f in ("validity_bars.png", "validity_bars.pdf", "projection-tree-cycles.png")),
    }
    page = (tmp_path / "r/report.html").read_text()
    assert "&lt;b&gt;edges" in page
    assert "<b>edges" not in page
    rows = pd.read_csv(tmp_path / "r/tables/paper_table.csv", keep_default_na=False)
    assert list(rows.columns) == [
        "dataset",
        "explainer",
        "preset",
        "metric",
        "ours",
        "ci_low",
        "ci_high",
        "graphs",
        "paper",
    ]
    validity = rows[rows["metric"] == "validity"].set_index(["explainer", "preset"])
    assert validity.loc[("xplore", "minimal"), "paper"] == "1.0"
    assert validity.loc[("xplore", "minimal edges"), "paper"] == "0.9968"  # the ablation's edges only
    assert set(validity["graphs"]) == {12}
    instances = pd.read_parquet(tmp_path / "r/instances.parquet")
    assert len(instances) == 36


def test_equal_sweeps_give_equal_bytes(store, tmp_path):
    formats = ["md", "latex", "csv", "figures"]
    first = write_report(store, tmp_path / "a", formats=formats, timings=False)
    second = write_report(store, tmp_path / "b", formats=formats, timings=False)
    assert [p.relative_to(tmp_path / "a") for p in first] == [p.relative_to(tmp_path / "b") for p in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))


def test_status(store, monkeypatch, capsys):
    assert command(monkeypatch, "bench", "status", store) == 0
    assert "Tree-Cycles" in capsys.readouterr().out
    key = next((store / "jobs").iterdir())
    content = key.read_bytes()
    key.unlink()
    try:
        assert command(monkeypatch, "bench", "status", store, "--verbose") == 1
        assert "missing Tree-Cycles" in capsys.readouterr().out
    finally:
        key.write_bytes(content)


def test_what_cannot_be_reported(store, tmp_path, monkeypatch, capsys):
    with pytest.raises(ce.InputError, match="unknown format 'htm'; did you mean 'html'"):
        write_report(store, tmp_path, formats=["htm"])
    assert command(monkeypatch, "bench", "report", tmp_path / "nothing") == 2
    assert "holds no sweep" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    with pytest.raises(ce.StoreError, match="the report cannot be written to"):
        write_report(store, tmp_path / "file/r", formats=["md"])


def test_the_smoke_sweep_by_the_command_line(tmp_path, monkeypatch, capsys):
    file = tmp_path / "mine.toml"
    file.write_text(SWEEP)
    words = ("bench", "run", file, "--out", tmp_path / "s", "--graphs", 3, "--method", "irand", "--data-root", tmp_path)
    assert command(monkeypatch, *words) == 0
    assert "1 of 1 jobs done, 0 failed" in capsys.readouterr().out
    assert command(monkeypatch, "bench", "run", tmp_path / "no.toml", "--out", tmp_path / "s") == 2
    assert "cannot be read as a sweep file" in capsys.readouterr().err
    assert command(monkeypatch, "bench", "run", "--help") == 0
    assert "--shard" in capsys.readouterr().out

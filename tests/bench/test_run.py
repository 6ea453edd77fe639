"""The main job: files, resuming, errors, the command line."""

import json
import signal
import subprocess
import sys
import time

import pytest

import counteredge as ce
from counteredge.bench import RunSpec, run_explain
from counteredge.cli import main
from counteredge.metrics import CONTROLS, METRICS

pytestmark = pytest.mark.usefixtures("own_cache")

KEYS = {
    "dataset", "explainer", "preset", "seed", "graphs", "oracle_accuracy", "oracle_accuracy_heldout", "seconds",
    "embedders", "similarity_over", "metrics", "controls", "versions",
}  # fmt: skip


def plain(cfs):
    return [json.dumps(c.to_dict(timings=False)) for c in cfs]


def test_run_writes_and_resumes(tmp_path):
    spec = RunSpec("Tree-Cycles")
    result = run_explain(spec, tmp_path / "a", limit=40, progress=False)
    assert set(result.summary) >= KEYS
    assert json.loads((tmp_path / "a/summary.json").read_text()) == result.summary
    figures = result.summary["metrics"]
    assert set(figures) == set(METRICS)
    assert figures["validity"]["mean"] == figures["one_minimal_share"]["mean"] == 1.0
    assert 0.5 < figures["cosine_similarity"]["mean"] < 1.0
    assert set(result.summary["controls"]) == set(CONTROLS)
    assert len(result.summary["embedders"]) == 10
    assert (tmp_path / "a/gallery.png").stat().st_size > 10_000
    stored = list(ce.read_jsonl(tmp_path / "a/counterfactuals.jsonl"))
    assert stored == result.counterfactuals

    # an interrupted run: some results, the last line cut off
    lines = (tmp_path / "a/counterfactuals.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/run.json").write_text((tmp_path / "a/run.json").read_text())
    (tmp_path / "b/counterfactuals.jsonl").write_text("".join(lines[:7]) + lines[7][:50])
    again = run_explain(spec, tmp_path / "b", limit=40, progress=False)
    assert again.resumed == 7
    assert plain(again.counterfactuals) == plain(result.counterfactuals)
    assert len((tmp_path / "b/counterfactuals.jsonl").read_text().splitlines()) == 40

    # more graphs into the same folder, and nothing to do
    assert run_explain(spec, tmp_path / "a", limit=44, progress=False).resumed == 40
    assert run_explain(spec, tmp_path / "a", limit=44, progress=False).resumed == 44


def test_a_misspelt_dataset_does_not_reserve_the_folder(tmp_path):
    with pytest.raises(ce.InputError, match="Tree-Cycles"):
        run_explain(RunSpec("Tree-Cycle"), tmp_path / "a", limit=2, progress=False)
    assert not (tmp_path / "a").exists()
    assert len(run_explain(RunSpec("Tree-Cycles"), tmp_path / "a", limit=2, progress=False).counterfactuals) == 2


def test_folder_of_another_run_is_refused(tmp_path):
    run_explain(RunSpec("Tree-Cycles"), tmp_path, limit=2, progress=False)
    with pytest.raises(ce.InputError, match="edits='both' \\(now 'edges'\\)"):
        run_explain(RunSpec("Tree-Cycles", edits="edges"), tmp_path, limit=2, progress=False)


def test_paper_preset_runs(tmp_path):
    spec = RunSpec("Tree-Cycles", preset="paper", features="gating")
    result = run_explain(spec, tmp_path, limit=4, progress=False)
    assert result.summary["preset"] == "paper"
    assert all(1 <= c.calls.forward <= 52 for c in result.counterfactuals)


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["counteredge", *words])
    with pytest.raises(SystemExit) as stop:
        main()  # the command line always leaves by an exit
    return stop.value.code or 0


def test_command_line(monkeypatch, capsys, tmp_path):
    out = tmp_path / "run"
    assert command(monkeypatch, "explain", "--dataset", "Tree-Cycles", "--limit", "3", "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "gallery.png" in shown
    assert "validity" in shown
    assert command(monkeypatch, "explain", "--help") == 0
    assert "--data-root" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "MUTGA"], "MUTAG"),
        (["--dataset", "Tree-Cycles", "--explainer", "nobody"], "xplore"),
        (["--dataset", "Tree-Cycles", "--features", "gating"], "preset='minimal'"),
        (["--dataset", "Tree-Cycles", "--preset", "paper", "--edits", "features"], "edits edges only"),
        (
            ["--dataset", "Tree-Cycles", "--preset", "paper", "--features", "freedom", "--edits", "edges"],
            "would edit no feature",
        ),
    ],
)
def test_command_line_errors_are_one_line(monkeypatch, capsys, tmp_path, words, message):
    assert command(monkeypatch, "explain", "--out", str(tmp_path / "x"), *words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_unusable_folders_are_one_line_too(monkeypatch, capsys, tmp_path):
    words = ["explain", "--dataset", "Tree-Cycles", "--limit", "1", "--out"]
    (tmp_path / "file").write_text("")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/run.json").write_text("{")
    for out, message in (("file", "cannot be made a folder"), ("torn", "does not say what the folder is for")):
        assert command(monkeypatch, *words, str(tmp_path / out)) == 2
        err = capsys.readouterr().err
        assert message in err
        assert "Traceback" not in err


def test_paper_preset_without_features_is_recorded_as_edges():
    assert RunSpec("Tree-Cycles", preset="paper").edits == "edges"
    assert RunSpec("Tree-Cycles", preset="paper", features="gating").edits == "both"


def test_version(monkeypatch, capsys):
    assert command(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"counteredge {ce.__version__}"


def test_usage_errors(monkeypatch, capsys, tmp_path):
    assert command(monkeypatch, "explain", "--dataset", "MUTAG") == 2
    assert command(monkeypatch, "explain", "--dataset", "MUTAG", "--edits", "all", "--out", str(tmp_path)) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    out = tmp_path / "run"
    words = [sys.executable, "-W", "ignore", "-m", "counteredge", "explain", "--dataset", "Tree-Cycles"]

    def listen():  # a test run that was started in the background ignores Ctrl-C, and hands that on
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    words += ["--limit", "2000", "--out", str(out)]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    file = out / "counterfactuals.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not file.exists() or file.stat().st_size == 0):
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "finished is kept" in err
    kept = list(ce.read_jsonl(file))
    assert kept
    assert [c.index for c in kept] == list(range(len(kept)))

"""The programs behind docs/ still run: each is imported, and the one that wraps the oracle is run on a few graphs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted((ROOT / "benchmarks").glob("*.py"))


def run(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_help_teaches(program):
    done = run(program, "--help")
    assert done.returncode == 0, done.stderr
    assert "docs/results" in done.stdout


@pytest.mark.data
def test_speed_measures_a_few_graphs(tmp_path):
    done = run(ROOT / "benchmarks" / "speed.py", "--graphs", 4, "--repeats", 1, "--out", tmp_path)
    if "DataError" in done.stderr:
        pytest.skip("MUTAG is in no data folder and cannot be downloaded")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "speed.csv").read_text().splitlines()) == 5

import csv

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from counteredge import datasets
from counteredge.cli import app
from counteredge.errors import DataError
from counteredge.models import OracleRecipe, Recipe

QUICK = Recipe(hidden=4, layers=1, epochs=2)


class Few:
    """40 graphs; class 1 has a large first feature."""

    num_classes = 2

    def __init__(self):
        edges = torch.tensor([[0, 1], [1, 0]])
        self.graphs = [
            Data(x=torch.tensor([[1.0 * (i % 2), 2.0], [0.0, 1.0]]), edge_index=edges, y=torch.tensor([i % 2]))
            for i in range(40)
        ]


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Four known datasets, one of which has no file; the calls of ``load``."""
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
    recipes = {
        "One": OracleRecipe(QUICK, QUICK, paper_accuracy=0.75),
        "Two": OracleRecipe(QUICK, QUICK),
        "Gone": OracleRecipe(QUICK, QUICK),
        "Tree-Cycles": OracleRecipe(QUICK, QUICK),
    }
    monkeypatch.setattr("counteredge.models.recipes.RECIPES", recipes)
    for module in ("models", "models.zoo", "models.report"):
        monkeypatch.setattr(f"counteredge.{module}.RECIPES", recipes)
    calls = []

    def load(name, root=None):
        calls.append(name)
        if name == "Gone":
            raise DataError("Gone.zip is nowhere")
        return Few()

    monkeypatch.setattr(datasets, "load", load)
    return calls


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["oracle", *map(str, arguments)])


def test_one_dataset_under_both_protocols_and_then_from_the_cache(asked):
    shown = run("train", "one")
    assert shown.exit_code == 0, shown.output
    assert "heldout" in shown.output
    assert "paper" in shown.output
    assert asked == ["One"]
    assert run("train", "One", "--protocol", "paper", "--quiet").output == ""
    listed = run("list")
    assert listed.exit_code == 0
    assert listed.output.count("seed 0") == 2
    assert "75.00" in listed.output


def test_an_alias_will_do(asked):
    assert run("train", "tcr", "--protocol", "heldout").exit_code == 0
    assert asked == ["Tree-Cycles"]


def test_all_writes_the_table_and_names_what_is_missing(asked, tmp_path):
    doc = tmp_path / "oracles.md"
    doc.write_text("before\n<!-- oracles: begin -->\nold\n<!-- oracles: end -->\nafter\n")
    shown = run("train", "all", "--seed", 3, "--out", tmp_path, "--doc", doc)
    assert shown.exit_code == 2
    assert "left out: Gone: Gone.zip is nowhere" in shown.output
    with (tmp_path / "oracles.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [r["dataset"] for r in rows] == ["One", "Two", "Tree-Cycles"]
    assert rows[0]["paper_accuracy"] == "75.00"
    assert rows[1]["paper_accuracy"] == ""
    assert rows[0]["seed"] == "3"
    assert rows[0]["architecture"] == "1 GCN x 4, mean, 1 dense"
    text = doc.read_text()
    assert text.startswith("before\n<!-- oracles: begin -->\n| dataset |")
    assert text.endswith("|\n<!-- oracles: end -->\nafter\n")
    assert "old" not in text
    assert "| One | 75.00 | " in text


def test_one_row_is_replaced_and_the_others_stay(asked, tmp_path):
    run("train", "all", "--out", tmp_path)
    first = (tmp_path / "oracles.csv").read_text().splitlines()
    run("train", "two", "--seed", 1, "--out", tmp_path)
    second = (tmp_path / "oracles.csv").read_text().splitlines()
    assert first[:2] == second[:2]
    assert (second[3:], len(second)) == (first[3:], 4)
    assert ",1," in second[2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "Onee"], "did you mean 'One'?"),
        (["train", "Gone"], "Gone.zip is nowhere"),
        (["train", "One", "--protocol", "paper", "--out", "x"], "--out needs --protocol both"),
        (["train", "One", "--doc", "x"], "--doc needs --out"),
    ],
)
def test_errors_are_one_line(asked, arguments, told):
    shown = run(*arguments)
    assert shown.exit_code == 2
    assert told in shown.output
    assert "Traceback" not in shown.output


def test_files_that_are_something_else_are_refused(asked, tmp_path):
    (tmp_path / "oracles.csv").write_text("a,b\n1,2\n")
    assert "has the columns" in run("train", "One", "--out", tmp_path).output
    (tmp_path / "oracles.csv").unlink()
    doc = tmp_path / "other.md"
    doc.write_text("no marks")
    assert "to put the table between" in run("train", "One", "--out", tmp_path, "--doc", doc).output
    assert doc.read_text() == "no marks"

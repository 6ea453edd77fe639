"""The page of definitions is what the code says, and the command line shows the figures."""

import json
import sys
from pathlib import Path

import pytest

import counteredge as ce
from counteredge.cli import main
from counteredge.metrics import METRICS, definitions, embedders_table

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def between(name):
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"<!-- {name}: begin -->\n")[2].partition(f"<!-- {name}: end -->")[0]


@pytest.mark.parametrize(("name", "table"), [("metrics", definitions), ("embedders", embedders_table)])
def test_page_is_what_the_code_says(name, table):
    assert between(name) == table()


def test_every_metric_has_a_line():
    lines = between("metrics").splitlines()
    assert len(lines) == len(METRICS) + 2
    assert all(len(line.replace("\\|", "").split("|")) == 10 for line in lines)


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["counteredge", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def test_commands(monkeypatch, capsys, tmp_path, two_answers):
    ce.write_jsonl(tmp_path / "cfs.jsonl", two_answers)
    assert not command(
        monkeypatch, "evaluate", tmp_path / "cfs.jsonl", "--embedders", "ldp,SF", "--out", tmp_path / "f"
    )
    shown = capsys.readouterr().out
    assert "CS, LDP" in shown
    assert "FGSD" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert json.loads((tmp_path / "f").read_text())["metrics"]["validity"]["count"] == 2
    assert command(monkeypatch, "evaluate", tmp_path / "none.jsonl") == 2
    assert command(monkeypatch, "evaluate", tmp_path / "cfs.jsonl", "--embedders", "fsgd") == 2
    assert "did you mean 'FGSD'" in capsys.readouterr().err
    assert command(monkeypatch, "metrics", "--doc", tmp_path / "page.md") == 2
    (tmp_path / "page.md").write_text(PAGE.read_text(encoding="utf-8"))
    assert not command(monkeypatch, "metrics", "--doc", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == PAGE.read_text(encoding="utf-8")


@pytest.fixture
def two_answers():
    import torch
    from torch_geometric.data import Data

    class Edges(torch.nn.Module):
        """Class 1 from three edges on."""

        def forward(self, x, edge_index, batch):
            count = torch.zeros(int(batch.max()) + 1).index_add_(
                0, batch[edge_index[0]], torch.ones(edge_index.shape[1])
            )
            return torch.stack([torch.zeros_like(count), count - 5], 1)

    path = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), y=torch.tensor([0]))
    ring = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    cfs = ce.XPlore().explain(Edges(), [path, Data(x=torch.ones(4, 1), edge_index=ring, y=torch.tensor([1]))])
    assert all(c.found for c in cfs)
    return cfs

"""What the oracles of the known datasets reach: rows of a table, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from counteredge.cache import write_atomic, write_between
from counteredge.errors import InputError
from counteredge.models.recipes import RECIPES, Recipe
from counteredge.models.training import TrainedModel

__all__ = ["OracleRow", "architecture", "oracle_row", "read_rows", "update_document", "write_rows"]


@dataclass(frozen=True)
class OracleRow:
    """One dataset's oracle under both protocols; accuracies are percentages.

    Args:
        dataset: Name of the recipe.
        task: ``"graph"`` or ``"node"``.
        paper_accuracy: What the paper prints for its own oracle.
        accuracy_all: On all graphs, of the model trained on all of them.
        accuracy_heldout: On the held-out graphs, of the model that never saw them.
        architecture: In words.
        seed: Of both trainings.
        heldout_accuracy_all: On all graphs, of the model that never saw the held-out ones.
        train_graphs: Graphs the model learnt from in the ``paper`` protocol.
        seconds_paper: Training time.
        seconds_heldout: Training time.
    """

    dataset: str
    task: str
    paper_accuracy: str
    accuracy_all: str
    accuracy_heldout: str
    architecture: str
    seed: str
    heldout_accuracy_all: str
    train_graphs: str
    seconds_paper: str
    seconds_heldout: str


def architecture(recipe: Recipe) -> str:
    """A recipe's model in words.

    Example:
        >>> architecture(Recipe(conv="gin", pool="add", norm=True))
        '3 GIN x 64, batch norm, sum, 1 dense'
    """
    convs = {"gcn": "GCN", "gin": "GIN", "sage": "SAGE", "graph": "GraphConv", "gat": "GAT", "gatv2": "GATv2"}
    parts = [f"{recipe.layers} {convs.get(recipe.conv, recipe.conv.capitalize())} x {recipe.hidden}"]
    parts += ["batch norm"] * recipe.norm + ["jumping"] * recipe.jump
    if recipe.task == "graph":
        parts.append("sum" if recipe.pool == "add" else recipe.pool)
    return ", ".join([*parts, f"{recipe.dense} dense"])


def oracle_row(name: str, paper: TrainedModel, heldout: TrainedModel) -> OracleRow:
    """The row of a dataset.

    Args:
        name: Name of the recipe, as ``RECIPES`` spells it.
        paper: Its model of the ``paper`` protocol.
        heldout: Its model of the ``heldout`` protocol.
    """
    return OracleRow(
        dataset=name,
        task=paper.recipe.task,
        paper_accuracy=_percent(RECIPES[name].paper_accuracy),
        accuracy_all=_percent(paper.accuracy),
        accuracy_heldout=_percent(heldout.accuracy_heldout),
        architecture=architecture(paper.recipe),
        seed=str(paper.seed),
        heldout_accuracy_all=_percent(heldout.accuracy),
        train_graphs=str(len(paper.split["train"])),
        seconds_paper=f"{paper.seconds:.1f}",
        seconds_heldout=f"{heldout.seconds:.1f}",
    )


def read_rows(path: Path) -> list[OracleRow]:
    """Rows of a CSV; none when there is no such file.

    Raises:
        InputError: When the file has other columns.
    """
    if not path.is_file():
        return []
    reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    wanted = [f.name for f in fields(OracleRow)]
    if list(reader.fieldnames or []) != wanted:
        raise InputError(f"{path} has the columns {reader.fieldnames}, expected {wanted}")
    return [OracleRow(**row) for row in reader]


def write_rows(path: Path, rows: Iterable[OracleRow]) -> None:
    """Put rows into a CSV; rows of other datasets that it has stay.

    Args:
        path: The file; made when missing.
        rows: New rows; the file has all of them in the order of the recipes.

    Raises:
        InputError: When the file there has other columns.
    """
    known = {row.dataset: row for row in [*read_rows(path), *rows]}
    ordered = [known[name] for name in RECIPES if name in known]
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(OracleRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.getvalue().encode())


def update_document(path: Path, rows: Sequence[OracleRow]) -> None:
    """Replace the table between the two marks of a Markdown file.

    Args:
        path: The file, with the marks ``<!-- oracles: begin -->`` and ``<!-- oracles: end -->``.
        rows: Rows of the new table.

    Raises:
        InputError: When the file or its marks are missing.
    """
    write_between(path, "oracles", _table(rows))


def _table(rows: Sequence[OracleRow]) -> str:
    head = ("dataset", "paper", "all", "held out", "all (held-out model)", "architecture", "trained on", "seconds")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for r in rows:
        cells = (
            r.dataset,
            r.paper_accuracy or "-",
            r.accuracy_all,
            r.accuracy_heldout,
            r.heldout_accuracy_all,
            r.architecture,
            r.train_graphs,
            f"{float(r.seconds_paper):.0f} + {float(r.seconds_heldout):.0f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"

"""What a table is made of: cells with their spread, the paper's figure and their rank; and how numbers are written."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["DASH", "Cell", "Column", "Row", "Table", "Unit", "marked", "number_text", "ranked", "slug"]

DASH = "–"  # stands for a figure that there is not
Unit = Literal["text", "prose", "percent", "ratio", "count", "seconds", "whole"]
Direction = Literal["higher", "lower", "neither"]
Mark = Literal["", "best", "second"]
ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}


@dataclass(frozen=True)
class Cell:
    """One figure, or a text.

    Attributes:
        value: Text in columns of text; else a number in the metric's own unit (shares are 0 to 1), ``None`` for none.
        std: Standard deviation.
        low: Lower end of the 95 % interval.
        high: Upper end.
        paper: The paper's figure.
        count: How many graphs (or classes) the value is the mean of.
        mark: Whether it is the best or second best of those it is compared with.
        partial: Whether jobs behind it failed, so that it is the mean over a part of the graphs.
    """

    value: float | str | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    count: int | None = None
    mark: Mark = ""
    partial: bool = False


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        key: Its name in files.
        title: Its head, without arrow.
        unit: How its numbers are written: ``"percent"`` (of a share; one decimal), ``"ratio"`` (three), ``"count"``
            (two), ``"seconds"`` (three significant digits), ``"whole"``; ``"text"`` for labels, ``"prose"`` for
            long text.
        direction: Which way is better.
    """

    key: str
    title: str
    unit: Unit = "text"
    direction: Direction = "neither"

    @property
    def head(self) -> str:
        """Title and arrow."""
        return self.title + ARROWS[self.direction]

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.unit not in ("text", "prose")


@dataclass(frozen=True)
class Row:
    """A row; rows of controls stand last, beneath a rule."""

    cells: tuple[Cell, ...]
    control: bool = False


@dataclass(frozen=True)
class Table:
    """A table, before it is Markdown, LaTeX or CSV.

    Attributes:
        slug: Its name in links; lower case letters, digits and hyphens.
        title: In a few words.
        caption: What a reader must know.
        columns: Labels first.
        rows: As many cells each as there are columns.
        across: What its numeric columns are: ``"metric"``, ``"dataset"``, ``"variant"``.
        about: What all of it is of, as pairs of a name and a value: ``(("dataset", "MUTAG"),)``.
        spread: Whether standard deviations are shown.
    """

    slug: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    across: str = "metric"
    about: tuple[tuple[str, str], ...] = ()
    spread: bool = False


def number_text(value: float | None, unit: Unit) -> str:
    """A number as tables show it.

    Args:
        value: In the metric's own unit; ``None`` and NaN are an en dash.
        unit: Of :class:`Column`.

    Example:
        >>> number_text(0.9968, "percent"), number_text(0.0123456, "seconds"), number_text(None, "ratio")
        ('99.7', '0.0123', '–')
    """
    if value is None or math.isnan(value):
        return DASH
    if unit == "seconds":
        value = float(f"{value:.3g}")
        decimals = 2 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
        return f"{value:.{max(0, decimals)}f}"
    decimals = {"percent": 1, "ratio": 3, "count": 2}.get(unit, 0)
    # what rounds to zero has no sign
    return f"{value * 100 if unit == 'percent' else value:z.{decimals}f}"


def marked(cells: Sequence[Cell], column: Column, competing: Sequence[bool], *, second: bool = True) -> list[Cell]:
    """Mark the best and the second best value of cells that are compared with each other.

    Values that read alike rank alike: any number of cells may be best. The second best are those next to the best.

    Args:
        cells: Of one metric; missing values and those of a part of the graphs win nothing, nor does a zero where more
            is better.
        column: Unit and direction; where neither way is better nothing is marked.
        competing: Which cells take part.
        second: Whether the second best are marked.

    Returns:
        The cells, in the same order.
    """
    if column.direction == "neither":
        return list(cells)
    shown = [_rank(c, column) if take else None for c, take in zip(cells, competing, strict=True)]
    order = sorted({v for v in shown if v is not None}, reverse=column.direction == "higher")
    marks: dict[float, Mark] = {order[0]: "best"} if order else {}
    if second and len(order) > 1:
        marks[order[1]] = "second"
    return [replace(c, mark=marks.get(v, "") if v is not None else "") for c, v in zip(cells, shown, strict=True)]


def ranked(
    rows: Sequence[Sequence[Cell]], columns: Sequence[Column], competing: Sequence[bool], *, second: bool = True
) -> list[list[Cell]]:
    """Mark the best and the second best of each numeric column.

    Args:
        rows: As many cells each as there are columns.
        columns: Those with a direction are ranked.
        competing: Which rows take part.
        second: Whether the second best are marked.

    Returns:
        The rows, in the same order.
    """
    if not rows:
        return []
    down = []
    for cells, column in zip(zip(*rows, strict=True), columns, strict=True):
        down.append(marked(cells, column, competing, second=second) if column.numeric else cells)
    return [list(cells) for cells in zip(*down, strict=True)]


def _rank(cell: Cell, column: Column) -> float | None:
    if cell.value is None or isinstance(cell.value, str) or cell.partial or math.isnan(cell.value):
        return None
    shown = float(number_text(cell.value, column.unit))
    return None if shown == 0 and column.direction == "higher" else shown


def slug(name: str) -> str:
    """Lower case letters and digits, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

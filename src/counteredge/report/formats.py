"""Tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from counteredge.report.cells import Cell, Column, Row, Table, number_text

__all__ = ["RENDERERS", "cell_text", "to_csv", "to_latex", "to_markdown"]

FIGURES = ("value", "std", "low", "high", "graphs", "paper", "mark", "partial")  # columns of a CSV file in long form
PARTIAL = "†"
TALL = 54  # lines of \footnotesize that a page is tall
WIDE = 122  # characters of \footnotesize, with two between columns, that a page is wide
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "–": "--", "±": r"$\pm$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\leq$", "†": r"$^\dagger$", "×": r"$\times$", "…": r"\ldots{}",
    "’": "'", "²": "$^2$", "³": "$^3$", "γ": r"$\gamma$",
}  # fmt: skip


def cell_text(cell: Cell, column: Column, *, spread: bool = False) -> tuple[str, str]:
    """What a cell shows, unescaped.

    Args:
        cell: The cell.
        column: Its column.
        spread: Whether its standard deviation is shown.

    Returns:
        Its value, with its spread, which a mark is put on; and what stands behind that: a dagger where jobs failed, and
        the paper's figure in parentheses. The latter is empty or begins with its own space.
    """
    if not column.numeric:
        return "" if cell.value is None else " ".join(str(cell.value).split()), ""
    value = number_text(_number(cell.value), column.unit)
    if spread and cell.std is not None and not math.isnan(cell.std):
        decimals = len(value.partition(".")[2])  # of seconds as many as the value has; always so of other units
        value += (
            f" ± {cell.std:.{decimals}f}" if column.unit == "seconds" else f" ± {number_text(cell.std, column.unit)}"
        )
    paper = f" ({number_text(cell.paper, column.unit)})" if cell.paper is not None else ""
    return value, (PARTIAL if cell.partial else "") + paper


def to_markdown(tables: Sequence[Table]) -> str:
    """Tables under headings; the best values bold, the second best in italics.

    Args:
        tables: Any number of them.
    """
    return "\n".join(_markdown(t) for t in tables)


def _markdown(table: Table) -> str:
    lines = [f"## {_markdown_escaped(table.title)}", "", _markdown_escaped(_caption(table, "in italics")), ""]
    lines.append(_line(_markdown_escaped(c.head) for c in table.columns))
    lines.append("|" + "|".join("---:" if c.numeric else "---" for c in table.columns) + "|")
    ruled = False
    for row in table.rows:
        if row.control and not ruled:
            lines.append(_line(["*controls*", *[""] * (len(table.columns) - 1)]))
            ruled = True
        lines.append(_line(_markdown_cell(table, *pair) for pair in zip(row.cells, table.columns, strict=True)))
    return "\n".join(lines) + "\n"


def _caption(table: Table, second: str) -> str:
    """The caption, and what the signs in the cells mean."""
    cells = [c for row in table.rows for c in row.cells]
    marks = {c.mark for c in cells}
    notes = [table.caption]
    if table.spread:
        notes.append("± is the standard deviation.")
    if any(c.paper is not None for c in cells):
        notes.append("In parentheses: the paper's figures.")
    if "best" in marks:
        notes.append(f"The best are bold, the second best {second}." if "second" in marks else "The best are bold.")
    if any(c.partial for c in cells):
        notes.append(f"{PARTIAL} Some jobs failed: over the graphs of the others, not ranked.")
    if any(row.control for row in table.rows):
        notes.append("Controls edit without any search and are not ranked.")
    return " ".join(n for n in notes if n)


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(table: Table, cell: Cell, column: Column) -> str:
    value, behind = cell_text(cell, column, spread=table.spread)
    around = {"best": "**", "second": "*", "": ""}[cell.mark]
    return f"{around}{_markdown_escaped(value)}{around}{_markdown_escaped(behind)}"


def _markdown_escaped(text: str) -> str:
    text = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)


def to_latex(tables: Sequence[Table]) -> str:
    r"""Tables for a paper: the best values ``\textbf``, the second best ``\underline``.

    A table wider than a page is cut into blocks of columns, one below the other, each with the labels of the rows.

    Args:
        tables: Any number of them.

    Returns:
        A ``table*`` each; the package that they need is named in a comment.
    """
    return "% needs \\usepackage{booktabs}\n" + "\n".join(_latex(t) for t in tables)


def _latex(table: Table) -> str:
    caption = f"{table.title}. {_caption(table, 'underlined')}"
    blocks = [_latex_block(table, chosen) for chosen in _blocks(table)]
    tall = len(blocks) * (len(table.rows) + 2) > TALL
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        r"\scriptsize" if tall else r"\footnotesize",
        rf"\caption{{{_latex_escaped(caption)}}}",
        rf"\label{{tab:{table.slug}}}",
        "\n\\par\\medskip\n".join(blocks),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _blocks(table: Table) -> list[list[int]]:
    """Which columns stand side by side: the labels of the rows, and as many others as a page is wide."""
    labels = [k for k, c in enumerate(table.columns) if not c.numeric]
    numbers = [k for k, c in enumerate(table.columns) if c.numeric]
    room = WIDE - sum(_width(table, k) for k in labels)
    blocks: list[list[int]] = []
    left = 0
    for k in numbers:
        left -= _width(table, k)
        if not blocks or left < 0:
            blocks.append([])
            left = room - _width(table, k)
        blocks[-1].append(k)
    return [labels + block for block in blocks] or [labels]


def _width(table: Table, k: int) -> int:
    """Characters of a column, and the two that part it from the next."""
    column = table.columns[k]
    texts = ("".join(cell_text(row.cells[k], column, spread=table.spread)) for row in table.rows)
    return 2 + max(len(column.head), *(len(t) for t in texts), 0)


def _latex_block(table: Table, chosen: Sequence[int]) -> str:
    columns = [table.columns[k] for k in chosen]
    kinds = "".join({"text": "l", "prose": r"p{0.4\textwidth}"}.get(c.unit, "r") for c in columns)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
        r"\toprule",
        " & ".join(_latex_escaped(c.head) for c in columns) + r" \\",
        r"\midrule",
    ]
    for k, row in enumerate(table.rows):
        if row.control and k and not table.rows[k - 1].control:
            lines.append(r"\midrule")
        lines.append(" & ".join(_latex_cell(table, row, c) for c in chosen) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_cell(table: Table, row: Row, k: int) -> str:
    cell, column = row.cells[k], table.columns[k]
    value, behind = cell_text(cell, column, spread=table.spread)
    text = _latex_escaped(value)
    if column.numeric:
        text = text.replace("-", "$-$", 1) if value.startswith("-") else text
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}", "": text}[cell.mark]
    return text + _latex_escaped(behind)


def _latex_escaped(text: str) -> str:
    return "".join(LATEX.get(c) or (c if _compiles(c) else "?") for c in _one_line(text))


def _compiles(c: str) -> bool:
    """Letters of other scripts and emoji stop a compiler that was not prepared for them; accents do not."""
    return c.isascii() or (c <= "ÿ" and unicodedata.normalize("NFD", c)[0].isascii())


def _one_line(text: str) -> str:
    """Line breaks and control characters as spaces: the former would end a row."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.splitlines()))


def to_csv(tables: Sequence[Table]) -> str:
    """Numbers as they are, in full precision, a line each; tables without numbers keep their shape.

    Columns of the long form: what the table is about, its labels, what its columns are, then ``value``, ``std``,
    ``low`` and ``high`` (95 % interval), ``graphs`` (how many the value is the mean of), ``paper``, ``mark`` and
    ``partial`` (1 where jobs behind the value failed).

    Args:
        tables: Of one kind: with the same labels.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for k, table in enumerate(tables):
        labels = [c.key for c in table.columns if not c.numeric]
        long = len(labels) < len(table.columns)
        if not k:
            about = [name for name, _ in table.about]
            writer.writerow([*about, *labels, table.across, *FIGURES] if long else labels)
        for row in table.rows:
            writer.writerows(_records(table, row) if long else [[_plain(c.value) for c in row.cells]])
    return out.getvalue()


def _records(table: Table, row: Row) -> list[list[str]]:
    pairs = list(zip(row.cells, table.columns, strict=True))
    head = [value for _, value in table.about] + [_plain(c.value) for c, column in pairs if not column.numeric]
    return [
        [*head, column.key, *(_plain(v) for v in (c.value, c.std, c.low, c.high, c.count, c.paper)), c.mark,
         str(int(c.partial))]
        for c, column in pairs
        if column.numeric
    ]  # fmt: skip


def _plain(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value)


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)


RENDERERS: dict[str, Callable[[Sequence[Table]], str]] = {"md": to_markdown, "latex": to_latex, "csv": to_csv}

"""Tables in which methods meet on equal terms: within so many edits, on the graphs that all solve, class by class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counteredge.bench.collect import Collected
from counteredge.report.cells import Cell, Column, Row, Table, ranked, slug
from counteredge.report.pooled import Method, Pool, column, mean_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["node_table", "paired_table"]

LIMITS = (1, 2, 5, 10)
NODE_METRICS = ("validity", "fidelity", "ged", "calls_forward")
METHOD = Column("method", "Method")
ALL, MEAN = "all", "mean over classes"
Place = tuple[int, int, str, int]  # seed, graph and node of an instance; how many of the same came before it


def paired_table(collected: Collected) -> list[Table]:
    """Validity within 1, 2, 5 and 10 edits, and mean edits over the graphs that all methods solve; a table a dataset.

    Edits are those of edges and of features. Controls do not choose the graphs of the mean, nor do methods that
    answered none, which the caption names; they have a mean only where they solve all of these graphs.

    Args:
        collected: Results of sweeps.
    """
    pool = Pool.of(collected)
    return [_paired(pool, d) for d in pool.answered]


def _paired(pool: Pool, dataset: str) -> Table:
    methods = pool.methods_on(dataset)
    compared = [m for m in methods if pool.competes(dataset, m)]
    silent = [m for m in methods if not m.control and m not in compared]
    edits = {m: _edits(pool.rows(dataset, m)) for m in methods}
    solved = {m: {place for place, n in edits[m].items() if not math.isnan(n)} for m in methods}
    shared = sorted(set.intersection(*(solved[m] for m in compared))) if compared else []
    columns = (
        METHOD,
        Column("graphs", "Graphs", "whole"),
        *(Column(f"validity_{k}", f"≤ {k} edit{'s' * (k > 1)} (%)", "percent", "higher") for k in LIMITS),
        Column("edits_shared", "Edits, paired", "count", "lower"),
    )
    cells = []
    for m in methods:
        partial = pool.partial(dataset, m)
        within = [mean_cell([float(n <= k) for n in edits[m].values()], partial=partial) for k in LIMITS]
        every = shared if solved[m].issuperset(shared) else []
        cells.append([Cell(m.name), Cell(len(edits[m])), *within, mean_cell([edits[m][p] for p in every])])
    rows = ranked(cells, columns, [m in compared for m in methods])
    return Table(
        f"paired-{slug(dataset)}", f"Few edits, and the same graphs, on {dataset}",
        _pairing(compared, silent, len(shared)), columns,
        tuple(Row(tuple(r), m.control) for r, m in zip(rows, methods, strict=True)), about=(("dataset", dataset),),
    )  # fmt: skip


def _pairing(compared: Sequence[Method], silent: Sequence[Method], shared: int) -> str:
    sizes = f"{_count(shared, 'graph')}, {_count(len(compared), 'method')}"
    text = (
        "Share of all graphs with a counterfactual of at most so many edits of edges and features; then the mean edits "
        f"over the graphs that all compared methods solve ({sizes})."
    )
    if silent:
        text += f" Not compared, as they answered none: {', '.join(m.name for m in silent)}."
    return text


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _edits(rows: pd.DataFrame) -> dict[Place, float]:
    """Edits of every instance, NaN for one without a counterfactual."""
    if rows.empty:
        return {}
    count = (rows["ged"] + rows["feature_edits"]).where(rows["found"].astype(bool)).astype(float)
    seen: Counter[tuple[int, int, str]] = Counter()
    found: dict[Place, float] = {}
    names = (rows["seed"].astype(int), rows["graph"].astype(int), rows["node"].astype(str))
    for seed, graph, node, edits in zip(*names, count, strict=True):
        found[seed, graph, node, seen[seed, graph, node]] = edits
        seen[seed, graph, node] += 1
    return found


def node_table(collected: Collected) -> list[Table]:
    """Node tasks: a table a dataset, over all nodes, class by class, and the mean over the classes.

    A class is what the model says before. The mean over the classes weighs each the same, however many nodes it has; a
    class without a value (no node of it has a counterfactual to measure) does not count.

    Args:
        collected: Results of sweeps.
    """
    pool = Pool.of(collected)
    return [t for d in pool.answered if (t := _of_nodes(pool, d)) is not None]


def _of_nodes(pool: Pool, dataset: str) -> Table | None:
    methods = pool.methods_on(dataset)
    nodes = {m: _with_nodes(pool.rows(dataset, m)) for m in methods}
    if all(part.empty for part in nodes.values()):
        return None
    columns = (
        METHOD, Column("class", "Class"), Column("nodes", "Nodes", "whole"), *(column(m) for m in NODE_METRICS)
    )  # fmt: skip
    blocks = [_block(m, nodes[m], partial=pool.partial(dataset, m)) for m in methods]
    competing = [pool.competes(dataset, m) for m in methods]
    for place in (0, -1):  # methods are compared over all nodes, and in the mean over the classes
        for block, row in zip(blocks, ranked([b[place] for b in blocks], columns, competing), strict=True):
            block[place] = row
    rows = [Row(tuple(cells), m.control) for m, block in zip(methods, blocks, strict=True) for cells in block]
    caption = "Means over all nodes, over those of a class (the model's answer before), and the mean over classes."
    return Table(
        f"nodes-{slug(dataset)}", f"Nodes of {dataset}", caption, columns, tuple(rows), about=(("dataset", dataset),)
    )


def _with_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["node"].notna()] if "node" in rows else rows.iloc[:0]


def _block(method: Method, rows: pd.DataFrame, *, partial: bool) -> list[list[Cell]]:
    """The rows of one method: all nodes, each class, the mean over the classes."""

    def figures(name: str, part: pd.DataFrame) -> list[Cell]:
        cells = [mean_cell(part.get(k, ()), partial=partial) for k in NODE_METRICS]
        return [Cell(method.name), Cell(name), Cell(len(part)), *cells]

    classes = [] if rows.empty else sorted(rows["before"].dropna().unique().tolist(), key=_numbers_first)
    single = [figures(str(c), rows[rows["before"] == c]) for c in classes]
    over = []
    for k in range(3, 3 + len(NODE_METRICS)):
        cell = mean_cell([r[k].value for r in single if r[k].value is not None], partial=partial)
        over.append(Cell(cell.value, count=cell.count, partial=partial))
    return [figures(ALL, rows), *single, [Cell(method.name), Cell(MEAN), Cell(len(rows)), *over]]


def _numbers_first(label: str) -> tuple[bool, int, str]:
    number = label.isdecimal()
    return not number, int(label) if number else 0, label

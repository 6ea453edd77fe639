"""A sweep's tables, laid out as the paper's and beside its figures.

Each builder returns a list, which is empty where the results hold nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from counteredge.bench.collect import Collected
from counteredge.cache import write_atomic
from counteredge.errors import unknown
from counteredge.report.cells import Cell, Column, Row, Table, marked, ranked, slug
from counteredge.report.comparisons import node_table, paired_table
from counteredge.report.formats import RENDERERS
from counteredge.report.paper_rows import paper_table_rows
from counteredge.report.pooled import Method, Pool, column
from counteredge.report.published import contradictions

__all__ = [
    "FORMATS",
    "ablation_table",
    "extended_tables",
    "failures_table",
    "main_table",
    "node_table",
    "paired_table",
    "paper_table_rows",
    "write_tables",
]

FORMATS = tuple(RENDERERS)
ENDINGS = {"md": "md", "latex": "tex", "csv": "csv"}
METHOD = Column("method", "Method")
EXTENDED = (
    "validity", "fidelity", "edit_ratio", "ged", "feature_edits", "shrunk_edit_ratio", "shrunk_ged",
    "shrunk_feature_edits", "cosine_similarity", "calls_forward", "calls_backward", "calls_to_first_valid", "runtime",
    "one_minimal_share",
)  # fmt: skip
PAPER_VARIANTS = {"edges only": "", "gating": "gating", "freedom": "freedom"}


def main_table(collected: Collected) -> list[Table]:
    """Validity and fidelity of every method on every dataset, the paper's main table: a table each.

    Args:
        collected: Results of sweeps.
    """
    pool = Pool.of(collected)
    return [_across_datasets(pool, m) for m in ("validity", "fidelity")] if pool.answered else []


def _across_datasets(pool: Pool, metric: str) -> Table:
    datasets, of = pool.datasets, column(metric)
    down = []  # the cells of a dataset
    for d in datasets:
        cells = [pool.cell(d, m, metric) for m in pool.ordered]
        down.append(marked(cells, of, [pool.competes(d, m) for m in pool.ordered]))
    rows = [Row((Cell(m.name), *(cells[k] for cells in down)), m.control) for k, m in enumerate(pool.ordered)]
    # the arrow stands in the title: columns are datasets
    columns = (METHOD, *(Column(d, d, of.unit) for d in datasets))
    caption = "Means over all graphs; a graph without a counterfactual counts as 0."
    return Table(
        f"main-{metric}", of.head, caption, columns, tuple(rows), across="dataset", about=(("metric", metric),)
    )


def extended_tables(collected: Collected, *, timings: bool = True) -> list[Table]:
    """Every metric of every method, a table a dataset: the paper's extended table.

    Args:
        collected: Results of sweeps.
        timings: Whether seconds are shown: they differ between two runs of the same sweep.
    """
    pool = Pool.of(collected)
    return [_extended(pool, d, [m for m in EXTENDED if timings or m != "runtime"]) for d in pool.answered]


def _extended(pool: Pool, dataset: str, metrics: Sequence[str]) -> Table:
    methods = pool.methods_on(dataset)
    columns = (METHOD, Column("graphs", "Graphs", "whole"), *(column(m) for m in metrics))
    cells = [
        [Cell(m.name), Cell(len(pool.rows(dataset, m))), *(pool.cell(dataset, m, metric) for metric in metrics)]
        for m in methods
    ]
    rows = ranked(cells, columns, [pool.competes(dataset, m) for m in methods])
    caption = (
        "Validity, fidelity, forward and backward calls are means over all graphs; the others are over the graphs with "
        "a counterfactual, which are not the same for every method; shrunk sizes over those answers that were shrunk."
        + _disagreement(dataset, methods)
    )
    return Table(
        f"extended-{slug(dataset)}", f"Every metric on {dataset}", caption, columns,
        tuple(Row(tuple(r), m.control) for r, m in zip(rows, methods, strict=True)),
        about=(("dataset", dataset),), spread=True,
    )  # fmt: skip


def _disagreement(dataset: str, methods: Sequence[Method]) -> str:
    """Says where the figure in parentheses is only one of two that the paper prints."""
    return "".join(
        f" The paper prints {c.main:g} and {c.extended:g} as the {c.metric} of {c.explainer}: its main table is shown."
        for c in contradictions()
        if c.dataset == dataset
        and any(m.paper(dataset, c.metric) == c.main for m in methods if m.explainer == c.explainer)
    )


def ablation_table(collected: Collected) -> list[Table]:
    """Validity of the variants of XPlore's preset ``paper``, of ``minimal`` and of CF-GNNExplainer, a row a dataset.

    The paper's figures are those of its ablation; that of ``minimal`` is its main table's XPlore. Where a sweep has
    more than one method of a kind (with other options) the first is taken.

    Args:
        collected: Results of sweeps.
    """
    pool = Pool.of(collected)
    variants = [(title, _first(pool, "xplore", "paper", f), "ablation") for title, f in PAPER_VARIANTS.items()]
    if not any(m and any(len(pool.rows(d, m)) for d in pool.answered) for _, m, _ in variants):
        return []
    chosen = [
        *variants,
        ("minimal", _first(pool, "xplore", "minimal", ""), None),
        ("CF-GNNExplainer", _first(pool, "cfgnn", "paper", ""), "ablation"),
    ]
    of = column("validity")
    rows = []
    for d in pool.answered:
        cells = [pool.cell(d, m, "validity", table=table) if m else Cell() for _, m, table in chosen]
        competing = [m is not None and pool.competes(d, m) for _, m, _ in chosen]
        if any(c.value is not None for c in cells):
            rows.append(Row((Cell(d), *marked(cells, of, competing, second=False))))
    columns = (Column("dataset", "Dataset"), *(Column(slug(title), title, of.unit) for title, _, _ in chosen))
    names = "; ".join(m.name for _, m, _ in chosen if m)
    caption = f"XPlore's published variants, its preset minimal, and CF-GNNExplainer; in the sweep: {names}."
    return [
        Table(
            "ablation", f"{of.head} of the variants of XPlore", caption, columns, tuple(rows), across="variant",
            about=(("metric", "validity"),),
        )
    ]  # fmt: skip


def _first(pool: Pool, explainer: str, preset: str, features: str) -> Method | None:
    wanted = (explainer, preset, features)
    return next((m for m in pool.ordered if (m.explainer, m.preset, m.features) == wanted), None)


def failures_table(collected: Collected) -> list[Table]:
    """Jobs that failed, and why.

    Args:
        collected: Results of sweeps.
    """
    jobs = collected.jobs
    failed = jobs[jobs["status"] == "failed"]
    if failed.empty:
        return []
    names = ("dataset", "method", "seed", "part", "error")
    rows = [Row(tuple(Cell(str(v)) for v in row)) for row in failed[list(names)].itertuples(index=False)]
    columns = tuple(Column(n, n.capitalize(), "prose" if n == "error" else "text") for n in names)
    return [Table("failures", "Jobs that failed", f"{len(rows)} of {len(jobs)} jobs.", columns, tuple(rows))]


def write_tables(
    collected: Collected,
    folder: str | Path,
    formats: Sequence[str] = ("md", "latex", "csv"),
    *,
    timings: bool = True,
) -> list[Path]:
    """Write every table that the results hold anything for, a file a kind and format.

    The files are ``FOLDER/tables/{main,extended,paired,ablation,nodes,failures}.{md,tex,csv}`` and, as CSV alone,
    ``paper_table.csv``, the rows of :func:`paper_table_rows`. A file of these names that an earlier call left, and for
    which there is nothing now, is removed. The same results give the same bytes.

    Args:
        collected: Results of sweeps.
        folder: Where the folder ``tables`` is made, if it is missing.
        formats: Of ``"md"``, ``"latex"`` and ``"csv"``.
        timings: Whether seconds are written; without them, two runs of one sweep can be compared byte by byte.

    Returns:
        The files, those of one table together.

    Raises:
        InputError: For an unknown format.
    """
    wanted = [formats] if isinstance(formats, str) else list(dict.fromkeys(formats))
    for name in wanted:
        if name not in RENDERERS:
            raise unknown("format of tables", name, FORMATS)
    pool, out = Pool.of(collected), Path(folder) / "tables"
    out.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, Callable[[], list[Table]]] = {
        "main": lambda: main_table(pool),
        "extended": lambda: extended_tables(pool, timings=timings),
        "paired": lambda: paired_table(pool),
        "ablation": lambda: ablation_table(pool),
        "nodes": lambda: node_table(pool),
        "failures": lambda: failures_table(pool),
    }
    written = []
    for kind, build in kinds.items():
        tables = build()
        for name in wanted:
            path = out / f"{kind}.{ENDINGS[name]}"
            if tables:
                write_atomic(path, RENDERERS[name](tables).encode())
                written.append(path)
            else:
                path.unlink(missing_ok=True)
    if "csv" in wanted:
        rows = paper_table_rows(pool, timings=timings)
        written.append(out / "paper_table.csv")
        write_atomic(written[-1], rows.to_csv(index=False, lineterminator="\n").encode())
    return written

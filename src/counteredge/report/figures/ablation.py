"""What single options change: gamma, metric by metric, and XPlore's variants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counteredge.errors import InputError
from counteredge.metrics import METRICS, Aggregate
from counteredge.report.figures.heat import Square, heat_map
from counteredge.report.figures.strip import Panels
from counteredge.report.figures.style import (
    INK,
    SMALL,
    NothingToDraw,
    finish,
    placeholder,
    styles,
)
from counteredge.report.figures.values import count_text, known_datasets, known_methods
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["gamma_ablation", "variant_ablation"]

GAMMA_METRICS = ("validity", "fidelity", "edit_ratio", "ged", "cosine_similarity", "oracle_calls", "runtime")
ARROWS = {"higher": "\N{NO-BREAK SPACE}↑", "lower": "\N{NO-BREAK SPACE}↓", "neither": ""}
VARIANTS = (
    ("xplore", "paper", ""),
    ("xplore", "paper", "gating"),
    ("xplore", "paper", "freedom"),
    ("xplore", "minimal", ""),
    ("cfgnn", "paper", ""),
)


def gamma_ablation(
    collected: Collected,
    dataset: str | None = None,
    *,
    methods: Sequence[str] | None = None,
    metrics: Sequence[str] = GAMMA_METRICS,
) -> Figure:
    """Methods that differ in gamma, a small panel a metric.

    Args:
        collected: Results of sweeps.
        dataset: Which one; the first that has results of these methods by default.
        methods: What tables call them; by default those that differ in gamma alone, by its size.
        metrics: Names, a panel each; those that nothing has a value of are left out.

    Raises:
        NothingToDraw: When there are no such methods, or no results of them.
        InputError: For a dataset, a method or a metric that is not there.
    """
    for name in metrics:
        if name not in METRICS:
            raise InputError(f"{name!r} is no metric; known: {', '.join(METRICS)}")
    pool = Pool.of(collected)
    chosen = _gammas(pool) if methods is None else known_methods(collected, methods)
    if dataset is not None:
        known_datasets(collected, [dataset])
    candidates = [d for d in collected.datasets if any(pool.has(d, m) for m in chosen)]
    if not candidates or (dataset is not None and dataset not in candidates):
        raise NothingToDraw(f"there is no result of {', '.join(chosen)}" + (f" on {dataset}" if dataset else ""))
    where = dataset or candidates[0]
    table = {name: {m: pool.figure(where, m, name) for m in chosen} for name in metrics}
    table = {name: row for name, row in table.items() if any(f.count for f in row.values())}
    return _multiples(collected, where, chosen, table)


def _gammas(pool: Pool) -> list[str]:
    """The variant that was tried with the most gammas."""
    kinds: dict[tuple[str, str, str], dict[float, str]] = {}
    for name, m in pool.method.items():
        kinds.setdefault((m.explainer, m.preset, m.features), {}).setdefault(m.gamma, name)
    most = max(kinds.values(), key=len)
    if len(most) < 2:
        raise NothingToDraw("no two methods differ in gamma alone: name methods=")
    return [name for _, name in sorted(most.items())]


def _multiples(
    collected: Collected, dataset: str, methods: Sequence[str], table: dict[str, dict[str, Aggregate]]
) -> Figure:
    looks = styles(collected)
    grid = Panels(len(table), 4, height=1.35, width=max(1.5, 0.35 * len(methods)))
    from matplotlib.patches import Patch

    for k, (name, row) in enumerate(table.items()):
        axes = grid.panels[k]
        grid.title(k, METRICS[name].title + ARROWS[METRICS[name].direction])
        for x, m in enumerate(methods):
            f = row[m]
            if not f.count:
                placeholder(axes, x, 0.8)
                continue
            axes.bar(x, f.mean, 0.8, zorder=2, **looks[m].bar)
            if f.high > f.low:
                reach = [[f.mean - f.low], [f.high - f.mean]]
                axes.errorbar(x, f.mean, reach, fmt="none", ecolor=INK, elinewidth=0.8, capsize=2, zorder=3)
        top = max(f.high for f in row.values() if f.count)
        axes.set_ylim(min(0.0, *(f.low for f in row.values() if f.count)), 1.1 * top if top > 0 else 1.0)
        axes.set_xlim(-0.7, len(methods) - 0.3)
        axes.set_xticks([])
        axes.set_xlabel(count_text(f.count for f in row.values()), fontsize=SMALL, labelpad=2)
    notes = [
        f"{dataset}. Arrows: the better direction. Whiskers: bootstrap 95 % intervals.",
        "Each panel has an axis of its own.",
    ]
    return finish(grid.figure, [(m, Patch(**looks[m].bar)) for m in methods], notes)


def variant_ablation(
    collected: Collected, *, datasets: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> Figure:
    """Validity in percent of XPlore's variants and CF-GNNExplainer, a heat map.

    Args:
        collected: Results of sweeps.
        datasets: Rows; by default all with a result of one of these methods.
        methods: Columns; by default the first of XPlore's modes for edges only, with gating, with freedom, minimal, and
            CF-GNNExplainer.

    Raises:
        NothingToDraw: When there are fewer than two such methods, or no results of them.
    """
    pool = Pool.of(collected)
    kinds = {name: (m.explainer, m.preset, m.features) for name, m in pool.method.items()}
    if methods is None:
        firsts = [next((m for m in collected.methods if kinds[m] == kind), None) for kind in VARIANTS]
        columns = [m for m in firsts if m is not None]
    else:
        columns = known_methods(collected, methods)
    known = known_datasets(collected, datasets)
    rows = [d for d in known if datasets is not None or any(pool.has(d, m) for m in columns)]
    if len(columns) < 2 or not rows:
        raise NothingToDraw("a comparison of variants needs results of two of them")
    table = {(d, m): pool.figure(d, m, "validity") for d in rows for m in columns}
    squares: dict[tuple[str, str], Square] = {}
    for (d, m), f in table.items():
        if not f.count:
            continue
        best = max(table[d, o].mean for o in columns if table[d, o].count)
        paper = pool.method[m].paper(d, "validity")
        text = f"{100 * f.mean:.1f}" + ("" if paper is None else f"\n({100 * paper:.1f})")
        squares[d, m] = Square(f.mean, text, bold=math.isclose(f.mean, best))
    labels = {d: f"{d}\n{count_text(table[d, m].count for m in columns)}" for d in rows}
    notes = ["Validity in percent; in brackets the paper's figure. Bold: best of the row. n: graphs; n/a: no result."]
    return heat_map(rows, columns, squares, labels, bar="Validity (%)", share=True, notes=notes)

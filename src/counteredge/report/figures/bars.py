"""Grouped bars: validity, fidelity, runtime, node tasks and their classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counteredge.metrics import METRICS, aggregate
from counteredge.report.figures.style import (
    INK,
    SMALL,
    TEXT,
    WIDTH,
    NothingToDraw,
    Style,
    finish,
    page,
    placeholder,
    plain_text,
    styles,
    tidy,
    wrapped,
)
from counteredge.report.figures.values import count_text, is_node_task, known_datasets
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["fidelity_bars", "node_bars", "node_class_bars", "runtime_bars", "validity_bars"]

SLOT = 0.1  # inches of a bar at least: the height of its "n/a"
GROUP = 0.9  # inches of a group at least: the width of its name
CLASSES = 8
INTERVAL = "Whiskers: bootstrap 95 % intervals."
NOT_THERE = "n/a: no result; 0: a result of zero."


@dataclass(frozen=True)
class Bar:
    """A bar: its height, the ends of its whisker, how many values it is the mean of, and the paper's figure."""

    height: float
    low: float
    high: float
    count: int
    paper: float | None = None


@dataclass(frozen=True)
class Row:
    """Groups of bars along one axis: the axis' name, the groups' names, and the bars by group and method."""

    ylabel: str
    groups: Sequence[str]
    bars: Mapping[tuple[str, str], Bar]
    title: str = ""
    log: bool = False


def validity_bars(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Share of graphs with a counterfactual, by dataset and method, beside the paper's figure where it has one.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; all that classify graphs by default.

    Raises:
        NothingToDraw: When there is no result.
    """
    return _shares(collected, "validity", datasets)


def fidelity_bars(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Fidelity by dataset and method, beside the paper's figure where it has one.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; all that classify graphs by default.

    Raises:
        NothingToDraw: When there is no result.
    """
    return _shares(collected, "fidelity", datasets)


def runtime_bars(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Seconds to a counterfactual, by dataset and method, on a logarithmic axis.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; all by default.

    Raises:
        NothingToDraw: When no method found anything.
    """
    pool, chosen = Pool.of(collected), known_datasets(collected, datasets)
    bars = {}
    for d in chosen:
        for m in collected.methods:
            f = pool.figure(d, m, "runtime")
            if f.count and f.mean > 0:
                std = 0.0 if math.isnan(f.std) else f.std
                bars[d, m] = Bar(f.mean, f.mean - std, f.mean + std, f.count)
    hosts = sorted({str(h) for h in collected.jobs["host"] if h})
    notes = [
        "Whiskers: one standard deviation, cut at the axis. n: counterfactuals found; n/a: none, or no result.",
        "Training of learned explainers is not counted.",
        f"Measured on {', '.join(hosts)}." if 0 < len(hosts) <= 3 else "",
    ]
    row = Row("Seconds to a\ncounterfactual", chosen, bars, log=True)
    return _figure(collected, [row], notes)


def node_bars(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Validity and fidelity on node tasks, by dataset and method.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; all that classify nodes by default.

    Raises:
        NothingToDraw: When there is no result of a node task.
    """
    pool, chosen = Pool.of(collected), _of_task(collected, datasets, nodes=True)
    rows = [Row(_axis(name), chosen, _means(pool, name, chosen)) for name in ("validity", "fidelity")]
    return _figure(collected, rows, [INTERVAL, NOT_THERE, "n: nodes."])


def node_class_bars(
    collected: Collected, *, metric: str = "validity", datasets: Sequence[str] | None = None, most: int = CLASSES
) -> Figure:
    """A metric on node tasks by the class that was predicted before: a panel a dataset, a group a class.

    Args:
        collected: Results of sweeps.
        metric: Its name.
        datasets: Which ones; all that classify nodes by default.
        most: Classes a dataset at most, those with the most nodes.

    Raises:
        NothingToDraw: When there is no result of a node task.
    """
    pool, rows, left_out = Pool.of(collected), [], False
    for d in _of_task(collected, datasets, nodes=True):
        counts: dict[str, int] = {}
        parts: dict[tuple[str, str], list[float]] = {}
        for m in collected.methods:
            pairs = zip(pool.column(d, m, "before"), pool.column(d, m, metric), strict=True)
            for label, value in pairs:
                parts.setdefault((label, m), []).append(float(value))
        for (label, _), values in parts.items():
            counts[label] = max(counts.get(label, 0), len(values))
        top = sorted(counts, key=lambda c: (-counts[c], _order(c)))[:most]
        left_out |= len(top) < len(counts)
        groups = {f"class {c}": c for c in sorted(top, key=_order)}
        bars = {
            (g, m): bar
            for g, c in groups.items()
            for m in collected.methods
            if (bar := _bar(parts.get((c, m), []))) is not None
        }
        if bars:
            rows.append(Row(_axis(metric), list(groups), bars, title=d))
    few = f"The {most} classes with the most nodes." if left_out else ""
    return _figure(collected, rows, ["Classes: as predicted before.", INTERVAL, NOT_THERE, "n: nodes.", few])


# -- what goes into them ---------------------------------------------------------------------------------------------


def _shares(collected: Collected, metric: str, datasets: Sequence[str] | None) -> Figure:
    chosen = _of_task(collected, datasets, nodes=False)
    bars = _means(Pool.of(collected), metric, chosen, paper=True)
    return _figure(collected, [Row(_axis(metric), chosen, bars)], [INTERVAL, NOT_THERE, "n: graphs."])


def _means(pool: Pool, metric: str, datasets: Sequence[str], *, paper: bool = False) -> dict[tuple[str, str], Bar]:
    """The mean of each dataset and method with its interval."""
    bars = {}
    for m, method in pool.method.items():
        for d in datasets:
            f = pool.figure(d, method, metric)
            known = method.paper(d, metric) if paper else None
            if f.count:
                bars[d, m] = Bar(f.mean, f.low, f.high, f.count, known)
            elif known is not None:
                bars[d, m] = Bar(math.nan, math.nan, math.nan, 0, known)
    return bars


def _bar(values: Sequence[float]) -> Bar | None:
    import torch

    f = aggregate(torch.tensor(values, dtype=torch.float64))
    return Bar(f.mean, f.low, f.high, f.count) if f.count else None


def _of_task(collected: Collected, datasets: Sequence[str] | None, *, nodes: bool) -> list[str]:
    if datasets is not None:
        return known_datasets(collected, datasets)
    return [d for d in collected.datasets if is_node_task(collected, d) == nodes]


def _axis(metric: str) -> str:
    title = METRICS[metric].title
    return f"{title} (%)" if metric == "validity" else title


def _order(label: Any) -> tuple[int, float, str]:
    """Numbers first and by their value."""
    try:
        return 0, float(label), ""
    except (TypeError, ValueError):
        return 1, 0.0, str(label)


# -- drawing ---------------------------------------------------------------------------------------------------------


def _figure(collected: Collected, rows: Sequence[Row], notes: Sequence[str]) -> Figure:
    """Rows of grouped bars; one with too many groups for a page goes on in the next row."""
    drawn = {m for row in rows for (_, m), b in row.bars.items() if b.count}
    if not drawn:
        raise NothingToDraw("the results hold nothing that these bars could show")
    methods, looks = collected.methods, styles(collected)
    slots = len(methods) + 1.5
    fit = max(1, int((WIDTH - 0.6) / max(SLOT * slots, GROUP)))
    widest = max(len(row.groups) for row in rows)
    across = math.ceil(widest / math.ceil(widest / fit))  # groups a row, evenly
    parts = [(row, row.groups[k : k + across]) for row in rows for k in range(0, len(row.groups), across)]
    width = min(WIDTH, max(4.2, 0.6 + across * max(GROUP, 0.25 * slots)))
    figure = page(width, 1.55 * len(parts) + 0.45 + 0.16 * len(methods) * 2.2 / width)
    all_axes = figure.subplots(len(parts), 1, squeeze=False)[:, 0]
    bottom = _bottom(rows)
    for axes, (row, groups) in zip(all_axes, parts, strict=True):
        _groups(axes, row, groups, methods, looks, bottom)
        axes.set_xlim(-1.0, across * slots - 0.75)
        if row.title and groups[0] == row.groups[0]:
            axes.set_title(plain_text(row.title), fontsize=TEXT, loc="left", pad=3)
    for row in rows:
        _same_height([a for a, (r, _) in zip(all_axes, parts, strict=True) if r is row], row)
    return finish(figure, _entries(methods, looks, rows), notes)


def _bottom(rows: Sequence[Row]) -> float:
    """Where bars begin on a logarithmic axis: a decade's end below the lowest."""
    lowest = min((b.height for r in rows for b in r.bars.values() if r.log), default=1.0)
    return 10.0 ** math.floor(math.log10(lowest) - 0.3)


def _groups(
    axes: Axes, row: Row, groups: Sequence[str], methods: Sequence[str], looks: Mapping[str, Style], bottom: float
) -> None:
    tidy(axes)
    slots, ticks, labels = len(methods) + 1.5, [], []
    if row.log:
        axes.set_yscale("log")
    for g, group in enumerate(groups):
        here = [row.bars.get((group, m)) for m in methods]
        for k, (m, bar) in enumerate(zip(methods, here, strict=True)):
            x = g * slots + k
            _one(axes, x, bar, looks[m], bottom if row.log else 0.0)
        ticks.append(g * slots + (len(methods) - 1) / 2)
        labels.append(f"{wrapped(group, 13)}\n{count_text(b.count for b in here if b)}")
    axes.set_xticks(ticks, labels)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(row.ylabel, fontsize=TEXT)


def _one(axes: Axes, x: float, bar: Bar | None, look: Style, bottom: float) -> None:
    if bar is None or not bar.count:
        placeholder(axes, x, 0.9)
    else:
        axes.bar(x, bar.height - bottom, 0.9, bottom=bottom, zorder=2, **look.bar)
        reach = [[bar.height - max(bar.low, bottom)], [bar.high - bar.height]]
        if bar.high > bar.low:
            axes.errorbar(x, bar.height, reach, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5, zorder=3)
        if bar.height == 0:
            above = 5 if bar.paper is not None and bar.paper < 0.15 else 1.5  # not on the paper's marker
            text: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": SMALL, "color": INK}
            axes.annotate("0", (x, 0), (0, above), textcoords="offset points", **text)
    if bar is not None and bar.paper is not None:
        axes.scatter(
            x, bar.paper, 13, marker="D", facecolor="white", edgecolor=INK, linewidth=0.8, zorder=4, clip_on=False
        )


def _same_height(all_axes: Sequence[Axes], row: Row) -> None:
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    if row.log:
        low = _bottom([row])
        high = max(max(b.height, b.high) for b in row.bars.values()) * 1.5
        for axes in all_axes:
            axes.set_ylim(low, max(high, low * 12))
        return
    lowest = min((b.low for b in row.bars.values() if b.count), default=0.0)
    highest = max((b.high for b in row.bars.values() if b.count), default=1.0)
    for axes in all_axes:
        if highest <= 1 and lowest >= 0:
            axes.set_ylim(0, 1.06)
            axes.yaxis.set_major_locator(MultipleLocator(0.25))
        else:
            axes.set_ylim(min(0.0, lowest * 1.06), highest * 1.06)
        if row.ylabel.endswith("(%)"):
            axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:g}"))


def _entries(methods: Sequence[str], looks: Mapping[str, Style], rows: Sequence[Row]) -> list[tuple[str, Any]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[tuple[str, Any]] = [(m, Patch(**looks[m].bar)) for m in methods]
    if any(b.paper is not None for r in rows for b in r.bars.values()):
        mark = Line2D([], [], ls="", marker="D", markersize=4, markerfacecolor="white", markeredgecolor=INK)
        entries.append(("the paper's figure", mark))
    return entries

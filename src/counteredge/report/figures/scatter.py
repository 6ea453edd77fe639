"""How far counterfactuals are from their originals against how like them they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counteredge.metrics import METRICS
from counteredge.report.figures.strip import STRIP, Panels, strip
from counteredge.report.figures.style import (
    MISSING,
    SMALL,
    TEXT,
    NothingToDraw,
    Style,
    finish,
    styles,
)
from counteredge.report.figures.values import known_datasets
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["ged_against_cs", "marks"]


def marks(methods: Sequence[str], looks: Mapping[str, Style]) -> list[tuple[str, Any]]:
    """Entries of a legend of markers."""
    from matplotlib.lines import Line2D

    entries: list[tuple[str, Any]] = []
    for m in methods:
        s = looks[m]
        look: dict[str, Any] = {"markerfacecolor": s.colour, "markeredgecolor": s.edge, "markeredgewidth": s.line}
        entries.append((m, Line2D([], [], ls="", marker=s.marker, markersize=5.5, **look)))
    return entries


def ged_against_cs(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Mean GED against mean cosine similarity of the counterfactuals found: a panel a dataset, a marker a method.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; by default all in which both are known of a method.

    Raises:
        NothingToDraw: When there is no dataset with both.
    """
    pool, methods, looks = Pool.of(collected), collected.methods, styles(collected)
    points: dict[str, dict[str, tuple[float, float, int]]] = {}
    for d in known_datasets(collected, datasets):
        points[d] = {}
        for m in methods:
            ged, cs = (pool.figure(d, m, name) for name in ("ged", "cosine_similarity"))
            if ged.count and cs.count and ged.mean > 0:
                points[d][m] = (ged.mean, cs.mean, min(ged.count, cs.count))
    chosen = [d for d in points if points[d] or datasets is not None]
    if not any(points.values()):
        raise NothingToDraw("no dataset has both GED and cosine similarity of a method")
    grid = Panels(len(chosen), 4, height=1.25, width=2.4, strips=STRIP)
    for k, d in enumerate(chosen):
        axes = grid.panels[k]
        grid.title(k, d)
        axes.set_xscale("log")
        for m, (x, y, _) in points[d].items():
            axes.scatter(x, y, 26, zorder=3, **looks[m].point)
        if not points[d]:
            axes.set_facecolor(MISSING)
            axes.text(0.5, 0.5, "n/a", transform=axes.transAxes, ha="center", va="center", fontsize=TEXT)
        _decades(grid, k, [p[0] for p in points[d].values()])
        if k % grid.columns == 0:
            axes.set_ylabel(METRICS["cosine_similarity"].title, fontsize=TEXT)
        axes.set_xlabel("mean GED", fontsize=SMALL, labelpad=1)
        counts = [str(points[d][m][2]) if m in points[d] else "–" for m in methods]
        strip(grid.strips[k], methods, looks, counts, "n" if grid.leads(k) else "")
    for k in range(0, len(chosen), grid.columns):
        values = [p[1] for d in chosen[k : k + grid.columns] for p in points[d].values()]
        _same_range(grid.row(k), values)
    rows = collected.instances
    embedders = sum(str(n).startswith("cs_") and bool(rows[n].notna().any()) for n in rows)
    notes = [
        "Means over the counterfactuals found; n: how many, – where there are none.",
        f"CS: mean over {embedders} embedders." if embedders else "",
        "GED on a logarithmic axis; CS shared by the panels of a row.",
    ]
    return finish(grid.figure, marks(methods, looks), notes)


def _decades(grid: Panels, k: int, values: Sequence[float]) -> None:
    """At least a decade wide, so that there are ticks that can be read."""
    from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter

    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    middle, reach = (low * high) ** 0.5, max(10**0.5, (high / low) ** 0.5 * 1.35)
    axes = grid.panels[k]
    axes.set_xlim(middle / reach, middle * reach)
    wide = reach**2 > 200
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _same_range(row: Sequence[Any], values: Sequence[float]) -> None:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = max(0.005, 0.12 * (high - low))
    for axes in row:
        axes.set_ylim(low - margin, high + margin)
        axes.tick_params(labelleft=axes is row[0])

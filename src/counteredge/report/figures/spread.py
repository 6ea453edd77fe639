"""How cosine similarity and GED are spread over the counterfactuals: a violin a method, a panel a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counteredge.metrics import METRICS
from counteredge.report.figures.scatter import marks
from counteredge.report.figures.strip import Panels
from counteredge.report.figures.style import INK, SMALL, TEXT, NothingToDraw, Style, finish, styles
from counteredge.report.figures.values import known_datasets
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["cs_violins", "ged_violins"]

FEWEST = 5  # values that a violin is drawn of
HOW = "The methods in the order of the legend; below each, n. Marker: median, line: quartiles."
FEW = f"Points themselves where n < {FEWEST}."


def cs_violins(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Cosine similarity of each counterfactual to its original, averaged over embedders, by method.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; by default all that have any.

    Raises:
        NothingToDraw: When there is no value.
    """
    return _violins(collected, "cosine_similarity", datasets, log=False)


def ged_violins(collected: Collected, *, datasets: Sequence[str] | None = None) -> Figure:
    """Graph edit distance of each counterfactual to its original, by method, on a logarithmic axis.

    Args:
        collected: Results of sweeps.
        datasets: Which ones; by default all that have any.

    Raises:
        NothingToDraw: When there is no value.
    """
    return _violins(collected, "ged", datasets, log=True)


def _violins(collected: Collected, metric: str, datasets: Sequence[str] | None, *, log: bool) -> Figure:
    pool, methods, looks = Pool.of(collected), collected.methods, styles(collected)
    values = {d: {m: pool.values(d, m, metric).numpy() for m in methods} for d in known_datasets(collected, datasets)}
    zeros = sum(int((v == 0).sum()) for found in values.values() for v in found.values()) if log else 0
    if log:
        values = {d: {m: v[v > 0] for m, v in found.items()} for d, found in values.items()}
    chosen = [d for d, found in values.items() if datasets is not None or any(len(v) for v in found.values())]
    if not any(len(v) for d in chosen for v in values[d].values()):
        raise NothingToDraw(f"no method has a value of {metric}")
    columns = max(1, min(4, int(7.0 / (0.15 * len(methods) + 0.45))))
    grid = Panels(len(chosen), columns, height=1.3, width=max(1.75, 0.3 * len(methods)))
    for k, d in enumerate(chosen):
        axes = grid.panels[k]
        grid.title(k, d)
        if log:
            axes.set_yscale("log")
        for x, m in enumerate(methods):
            _one(axes, x, values[d][m], looks[m], log=log)
        counts = [str(len(values[d][m])) for m in methods]
        upright = 90 if max(map(len, counts)) * 0.07 > 6.4 / grid.columns / (len(methods) + 1) else 0
        axes.set_xticks(range(len(methods)), counts, fontsize=SMALL, rotation=upright)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.7, len(methods) - 0.3)
        if grid.leads(k):
            axes.set_ylabel("GED" if log else METRICS[metric].title, fontsize=TEXT)
        _limits(axes, np.concatenate(list(values[d].values())), log=log)
    left_out = f"Counterfactuals of GED 0, which change features alone, are left out: {zeros}." if log else ""
    return finish(grid.figure, marks(methods, looks), [HOW, FEW, left_out])


def _one(axes: Axes, x: int, values: np.ndarray, look: Style, *, log: bool) -> None:
    """A violin, a strip of points, or "n/a"."""
    if not len(values):
        text: dict[str, Any] = {"fontsize": SMALL, "rotation": 90, "ha": "center", "va": "bottom", "color": "#777777"}
        axes.text(x, 0.04, "n/a", transform=axes.get_xaxis_transform(), **text)
        return
    if len(values) < FEWEST:
        away = (np.arange(len(values)) - (len(values) - 1) / 2) * 0.15
        axes.scatter(x + away, values, 12, zorder=3, **look.point)
        return
    spread = np.log10(values) if log else values
    parts: Any = axes.violinplot([spread], [x], widths=0.85, showextrema=False)
    body = parts["bodies"][0]
    if log:  # the density is that of the logarithm, which is what the axis shows
        for path in body.get_paths():
            path.vertices[:, 1] = 10 ** path.vertices[:, 1]
    body.set(alpha=1, zorder=2, **look.bar)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    axes.vlines(x, low, high, color="white", linewidth=3.0, zorder=3)
    axes.vlines(x, low, high, color=INK, linewidth=1.2, zorder=3)
    axes.scatter(x, middle, 16, zorder=4, **{**look.point, "facecolor": "white", "edgecolor": INK, "linewidth": 0.7})


def _limits(axes: Axes, values: np.ndarray, *, log: bool) -> None:
    """Room around all values; at least a decade of a logarithmic axis, so that there are ticks that can be read."""
    low, high = (values.min(), values.max()) if len(values) else (1.0, 1.0)
    if log:
        middle, reach = (low * high) ** 0.5, max(10**0.5, (high / low) ** 0.5 * 1.2)
        axes.set_ylim(middle / reach, middle * reach)
    else:
        margin = max(0.002, 0.06 * (high - low))
        axes.set_ylim(low - margin, high + margin)

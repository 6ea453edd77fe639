"""Heat maps with their numbers in them: a table that can be seen at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counteredge.metrics import METRICS
from counteredge.report.figures.style import (
    INK,
    MISSING,
    SMALL,
    TEXT,
    WIDTH,
    NothingToDraw,
    finish,
    page,
    plain_text,
    wrapped,
)
from counteredge.report.figures.values import count_text, known_datasets
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["Square", "embedder_heatmap", "heat_map"]


@dataclass(frozen=True)
class Square:
    """A number of a heat map, how it is written, and whether it is the best of its row."""

    value: float
    text: str
    bold: bool = False


def embedder_heatmap(collected: Collected, dataset: str | None = None) -> Figure:
    """Mean cosine similarity in the space of each embedder, by method: which of them the mean of all hangs on.

    Args:
        collected: Results of sweeps.
        dataset: Which one; by default all counterfactuals of all datasets are pooled.

    Raises:
        NothingToDraw: When no embedder has a value.
    """
    import torch

    from counteredge.metrics import aggregate

    pool = Pool.of(collected)
    where = known_datasets(collected, None if dataset is None else [dataset])
    names = ["cosine_similarity", *(n for n in METRICS if n.startswith("cs_"))]
    squares: dict[tuple[str, str], Square] = {}
    counts: dict[str, list[int]] = {}
    titles = {n: "mean of all" if n == "cosine_similarity" else METRICS[n].title.removeprefix("CS, ") for n in names}
    for m in collected.methods:
        for n in names:
            f = aggregate(torch.cat([pool.values(d, m, n) for d in where]), rounds=1)
            if f.count:
                squares[m, titles[n]] = Square(f.mean, f"{f.mean:.3f}")
                counts.setdefault(m, []).append(f.count)
    methods = [m for m in collected.methods if m in counts]
    columns = [t for t in titles.values() if any((m, t) in squares for m in methods)]
    if not methods:
        raise NothingToDraw("no embedder has a cosine similarity" + (f" on {dataset}" if dataset else ""))
    labels = {m: f"{m}\n{count_text(counts[m])}" for m in methods}
    pooled = f"all counterfactuals of {len(where)} datasets, pooled" if dataset is None else f"{dataset}"
    notes = [f"Mean cosine similarity of original and counterfactual: {pooled}. n: counterfactuals found."]
    return heat_map(methods, columns, squares, labels, bar="Cosine similarity", share=False, notes=notes)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    squares: Mapping[tuple[str, str], Square],
    labels: Mapping[str, str],
    *,
    bar: str,
    share: bool,
    notes: Sequence[str],
) -> Figure:
    """A heat map with a number in each square.

    Args:
        rows: Their keys.
        columns: Their keys and names.
        squares: By row and column; others are hatched and say "n/a".
        labels: What stands beside each row.
        bar: Name of the colour bar.
        share: Whether colours go from 0 to 1 and are named in percent; otherwise over what there is.
        notes: Sentences below.
    """
    across = min(WIDTH, max(4.2, 2.3 + 0.72 * len(columns)))
    figure = page(across, 1.25 + 0.33 * len(rows))
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter

    axes = figure.subplots()
    table = np.full((len(rows), len(columns)), np.nan)
    for (r, c), square in squares.items():
        table[rows.index(r), columns.index(c)] = square.value
    low, high = (0.0, 1.0) if share else (float(np.nanmin(table)), float(np.nanmax(table)))
    # light ones only, on which dark text can be read
    colours = LinearSegmentedColormap.from_list("light", colormaps["Blues"](np.linspace(0.03, 0.6, 256)))
    picture = axes.imshow(table, cmap=colours, vmin=low, vmax=high if high > low else low + 1e-9, aspect="auto")
    for i, r in enumerate(rows):
        for j, c in enumerate(columns):
            found = squares.get((r, c))
            if found is None:
                look: dict[str, Any] = {"facecolor": MISSING, "edgecolor": "#9a9a9a", "hatch": "////", "linewidth": 0}
                axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **look))
            box = {} if found else {"bbox": {"facecolor": MISSING, "edgecolor": "none", "pad": 0.6}}
            axes.text(
                j, i, "n/a" if found is None else found.text, ha="center", va="center", fontsize=SMALL,
                color=INK, fontweight="bold" if found and found.bold else "normal",
                linespacing=1.0, **box,
            )  # fmt: skip
    _names(axes, [wrapped(c, 11) for c in columns], [plain_text(labels[r]) for r in rows])
    scale = figure.colorbar(picture, ax=axes, fraction=0.05, pad=0.015, aspect=30)
    scale.set_label(bar, fontsize=TEXT)
    scale.ax.tick_params(labelsize=SMALL, length=2, width=0.6)
    scale.outline.set_visible(False)
    if share:
        scale.formatter = FuncFormatter(lambda v, _: f"{100 * v:g}")
        scale.update_ticks()
    return finish(figure, [], notes)


def _names(axes: Axes, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Names of columns on top, of rows at the left, and white lines between the squares."""
    axes.set_xticks(range(len(columns)), columns, fontsize=SMALL)
    if len(columns) > 6:
        axes.tick_params(axis="x", rotation=90)
    axes.set_yticks(range(len(rows)), rows, fontsize=SMALL)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(-0.5, len(columns)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(rows)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)

"""Which stage of a search found the answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from counteredge.report.figures.strip import Panels
from counteredge.report.figures.style import SMALL, NothingToDraw, finish, plain_text
from counteredge.report.figures.values import known_datasets, known_methods
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = ["stage_bars"]

NOT_FOUND = "not found"
LEVELS = 3  # from which on the levels of a stage count as one
# from cheap to dear; of XPlore
COLOURS = {
    "greedy-1": "#deebf7",
    "greedy-2": "#9ecae1",
    "greedy-3 or more": "#4292c6",
    "enumeration": "#08519c",
    "pairs": "#756bb1",
    "leap": "#bcbddc",
    "descent": "#a1d99b",
    "descent-far": "#31a354",
    "reference": "#fa9fb5",
    "endpoint": "#c51b8a",
}
SPARE = ("#117733", "#999933", "#661100", "#88ccee", "#332288", "#ddcc77", "#aa4499", "#6699cc")
ABSENT = {"facecolor": "#e8e8e8", "edgecolor": "#9a9a9a", "hatch": "////", "linewidth": 0.5}


def stage_bars(
    collected: Collected, *, methods: Sequence[str] | None = None, datasets: Sequence[str] | None = None
) -> Figure:
    """Shares of the graphs answered by each stage of a search, and of those without an answer: a panel a method.

    Args:
        collected: Results of sweeps.
        methods: Which ones; by default those whose answers come from several stages.
        datasets: Which ones; by default all with a result.

    Raises:
        NothingToDraw: When there is no such method.
    """
    pool, known = Pool.of(collected), known_datasets(collected, datasets)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for m in known_methods(collected, methods):
        counts[m] = {d: _counted(pool, d, m) for d in known if pool.has(d, m)}
        several = {s for c in counts[m].values() for s in c} - {NOT_FOUND}
        if not counts[m] or (methods is None and len(several) < 2):
            del counts[m]
    if not counts:
        raise NothingToDraw("no method found its answers in several stages")
    stages = {s for found in counts.values() for c in found.values() for s in c}
    others = sorted(stages - set(COLOURS) - {NOT_FOUND})
    order = [*(s for s in COLOURS if s in stages), *others]
    colours = COLOURS | {s: SPARE[k % len(SPARE)] for k, s in enumerate(others)}
    looks: dict[str, dict[str, Any]] = {
        s: {"facecolor": colours[s], "edgecolor": "white", "linewidth": 0.4} for s in order
    }
    looks[NOT_FOUND] = ABSENT
    return _draw(counts, [d for d in known if any(d in c for c in counts.values())], looks)


def _counted(pool: Pool, dataset: str, method: str) -> Counter[str]:
    pairs = zip(pool.column(dataset, method, "stage"), pool.column(dataset, method, "found"), strict=True)
    return Counter(_short(str(stage)) if found else NOT_FOUND for stage, found in pairs)


def _short(stage: str) -> str:
    """Levels of one stage are told apart up to a point: a search has two dozen of them."""
    name, mark, level = re.fullmatch(r"(.*?)(?:([- ])(\d+))?", stage).groups()  # type: ignore[union-attr]
    if level is None or int(level) < LEVELS:
        return stage
    return f"{name}{mark}{LEVELS} or more"


def _draw(counts: dict[str, dict[str, Counter[str]]], datasets: Sequence[str], looks: dict[str, Any]) -> Figure:
    columns = 3 if len(counts) > 2 else 2
    grid = Panels(len(counts), columns, height=0.25 + 0.19 * len(datasets), width=3.6)
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    for k, (m, found) in enumerate(counts.items()):
        axes = grid.panels[k]
        grid.title(k, m)
        for y, d in enumerate(datasets):
            total = sum(found.get(d, Counter()).values())
            left = 0.0
            for stage, look in looks.items():
                share = found[d][stage] / total if total else 0.0
                if share:
                    axes.barh(y, share, 0.8, left=left, zorder=2, **look)
                    left += share
            axes.text(1.02, y, str(total) if total else "n/a", va="center", fontsize=SMALL, color="#555555")
        axes.set_xlim(0, 1)
        axes.set_ylim(len(datasets) - 0.4, -0.6)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:g}"))
        names = [plain_text(d) for d in datasets] if grid.leads(k) else [""] * len(datasets)
        axes.set_yticks(range(len(datasets)), names, fontsize=SMALL)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("share of the graphs (%)", fontsize=SMALL, labelpad=1)
        axes.grid(visible=False)
    entries = [(s, Patch(**look)) for s, look in looks.items()]
    return finish(grid.figure, entries, ["The stage of the search that found each answer. At the right: n, graphs."])

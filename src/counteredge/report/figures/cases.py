"""Some counterfactuals as they are: a graph a row of panels, the original and what each method made of it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import networkx as nx

from counteredge.draw import Look, layout, legend_handles, paint, shown
from counteredge.edits import EditSet
from counteredge.report.figures.style import SMALL, WIDTH, NothingToDraw, finish, page, wrapped
from counteredge.report.figures.values import known_datasets, known_methods

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected
    from counteredge.results import Counterfactual

__all__ = ["answers_by_graph", "cases"]

ACROSS = 7  # panels side by side at most
Key = tuple[int, Hashable]  # number of the graph, and the node of a node task


def answers_by_graph(
    collected: Collected, dataset: str, methods: Sequence[str]
) -> dict[Key, dict[str, Counterfactual]]:
    """The kept answers by graph and method; of several seeds the first."""
    found: dict[Key, dict[str, Counterfactual]] = {}
    for kept in collected.answers:
        if kept.dataset == dataset and kept.method in methods:
            cf = kept.counterfactual
            found.setdefault((cf.index, cf.node), {}).setdefault(kept.method, cf)
    return found


def cases(collected: Collected, dataset: str, count: int = 4, *, methods: Sequence[str] | None = None) -> Figure:
    """A gallery of counterfactuals, every panel of a graph in the same layout.

    Args:
        collected: Results of sweeps.
        dataset: Which one.
        count: How many graphs: those that the most methods answered.
        methods: Which ones; by default all of which answers were kept.

    Raises:
        NothingToDraw: When no answer for a graph of the dataset was kept.
    """
    known_datasets(collected, [dataset])
    wanted = known_methods(collected, methods)
    found = answers_by_graph(collected, dataset, wanted)
    answered = {key: sum(cf.found for cf in row.values()) for key, row in found.items()}
    chosen = sorted((key for key in found if answered[key]), key=lambda k: (-answered[k], k[0], str(k[1])))[:count]
    if not chosen:
        raise NothingToDraw(f"no counterfactual of {dataset} was kept")
    chosen.sort(key=lambda k: (k[0], str(k[1])))
    shown_methods = [m for m in wanted if any(m in found[key] for key in chosen)]
    panels = 1 + len(shown_methods)
    lines = math.ceil(panels / ACROSS)
    across = math.ceil(panels / lines)
    side = min(1.5, WIDTH / across)
    figure = page(max(4.2, side * across), lines * len(chosen) * (side + 0.42) + 0.6, pad=0.02)
    grid = figure.add_gridspec(lines * len(chosen), across)
    for r, key in enumerate(chosen):
        row = found[key]
        spots = [figure.add_subplot(grid[r * lines + k // across, k % across]) for k in range(panels)]
        _row(spots, row, shown_methods, side)
    cfs = [cf for key in chosen for cf in found[key].values()]
    entries = [(h.get_label(), h) for h in legend_handles(cfs)]
    notes = [
        f"{dataset}: the graphs that the most methods answered, of those kept.",
        "Positions are the same in all panels of a graph.",
    ]
    return finish(figure, entries, notes)


def _row(spots: Sequence[Axes], row: dict[str, Counterfactual], methods: Sequence[str], side: float) -> None:
    """The original and its counterfactuals."""
    first = next(iter(row.values()))
    base = nx.compose_all([shown(cf) for cf in row.values()])
    place = layout(_union(base, list(row.values())))
    look = _look(len(place), side)
    original = replace(first, found=False, data=None, edits=EditSet(directed=first.edits.directed), after=None)
    for axes, name in zip(spots, ("original", *methods), strict=True):
        cf = original if name == "original" else row.get(name)
        text = [name if name == "original" else wrapped(name, int(side / 0.062))]
        if name == "original":
            text += [f"{first.subject}", f"class {first.before.label}"]
        elif cf is None:
            text.append("no result")
        elif not cf.found or cf.after is None:
            text.append("not found")
        else:
            edits = len(cf.edits)
            text.append(f"{edits} edit{'s' if edits != 1 else ''} → class {cf.after.label}")
        axes.set_title("\n".join(text), fontsize=SMALL, pad=2, linespacing=1.05)
        axes.set_axis_off()
        if cf is not None:
            paint(axes, cf, base, place, look)
        _frame(axes, place)
        if cf is None or (name != "original" and not cf.found):
            for artist in axes.collections:
                artist.set_alpha(0.3)


def _union(base: nx.Graph, cfs: Sequence[Counterfactual]) -> nx.Graph:
    """The original with what answers add, but for answers that add more than there is: they would hide its shape."""
    laid = base.copy()
    n = len(cfs[0].original.x)
    for cf in cfs:
        few = len(cf.edits.added) <= base.number_of_edges()
        laid.add_nodes_from(range(n, n + len(cf.edits.new_nodes)))
        laid.add_edges_from(p for p in cf.edits.added if few or max(p) >= n)
    return laid


def _look(nodes: int, side: float) -> Look:
    """Smaller nodes and lines where there are many, or little room."""
    scale = side / 1.5
    area = max(4.0, min(60.0, 480.0 / max(nodes, 1))) * scale
    return Look(node=area, kept=0.5 if nodes > 60 else 0.9, edited=1.8 * max(0.7, scale), font=0.0, rings=nodes <= 60)


def _frame(axes: Axes, place: dict[int, Any]) -> None:
    xs, ys = [p[0] for p in place.values()], [p[1] for p in place.values()]
    for limits, values in ((axes.set_xlim, xs), (axes.set_ylim, ys)):
        margin = 0.12 * (max(values) - min(values)) or 1.0
        limits(min(values) - margin, max(values) + margin)

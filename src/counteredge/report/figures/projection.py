"""A map of a dataset's graphs, and where counterfactuals land on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counteredge.embedders import WaveletCharacteristic
from counteredge.errors import CapabilityError
from counteredge.metrics.plausibility import NEIGHBOURS
from counteredge.metrics.sample import own_label
from counteredge.report.figures.cases import answers_by_graph
from counteredge.report.figures.scatter import marks
from counteredge.report.figures.strip import STRIP, Panels, strip
from counteredge.report.figures.style import INK, NothingToDraw, finish, styles
from counteredge.report.figures.values import known_datasets, known_methods
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

    from counteredge.bench.collect import Collected
    from counteredge.results import Counterfactual

__all__ = ["projection"]

CLOUDS = (("#b9d3ec", "o"), ("#f3c6b8", "^"), ("#c3e3c0", "s"), ("#ded0ee", "D"), ("#e6deb4", "v"), ("#c4e4e6", "P"))
OTHERS = ("#dddddd", ".")
PERPLEXITY = 30
COMPONENTS = 50


def projection(
    collected: Collected,
    dataset: str,
    graphs: Sequence[Data],
    *,
    methods: Sequence[str] | None = None,
    count: int = 6,
    most: int = 400,
    seed: int = 0,
) -> Figure:
    """t-SNE of WaveletCharacteristic vectors: the dataset's classes, some originals, their counterfactuals.

    One map is made of all of them together, columns scaled by their spread and reduced to 50 principal components; each
    panel shows one original on it with an arrow to each of its counterfactuals. Distances on such a map mean little, so
    below each panel stands a number from the space itself: the share of the 15 nearest real graphs that are of the
    counterfactual's class, as measured.

    Args:
        collected: Results of sweeps.
        dataset: Which one.
        graphs: The graphs of the dataset, in its order, each with its class in ``y``.
        methods: Which ones; by default all of which answers were kept.
        count: How many originals: those that the most methods found an answer for, at least two of them.
        most: Graphs of the dataset on the map at most, evenly spread over it.
        seed: Of t-SNE.

    Raises:
        NothingToDraw: When no original has answers of two methods, or there are too few graphs for a map.
        CapabilityError: When scikit-learn is not installed.
    """
    known_datasets(collected, [dataset])
    wanted = known_methods(collected, methods)
    chosen = _chosen(collected, dataset, wanted, count)
    if not chosen:
        raise NothingToDraw(f"no graph of {dataset} has kept answers of two methods")
    cloud = [g for k, g in enumerate(graphs) if k not in {row[0].index for row in chosen}]
    cloud = [cloud[k] for k in np.unique(np.linspace(0, len(cloud) - 1, min(most, len(cloud))).round().astype(int))]
    drawn = [g for row in chosen for g in (row[0].original, *(cf.data for cf in row[1].values()))]
    if len(cloud) < 3:
        raise NothingToDraw(f"a map of {dataset} needs more graphs than {len(graphs)}")
    places = _map([*cloud, *drawn], seed)
    shown = [m for m in wanted if any(m in row[1] for row in chosen)]
    return _draw(collected, dataset, chosen, cloud, places, shown)


Case = tuple["Counterfactual", dict[str, "Counterfactual"]]  # one that holds the original, and those found


def _chosen(collected: Collected, dataset: str, methods: Sequence[str], count: int) -> list[Case]:
    rows: list[Case] = []
    for (_, node), row in answers_by_graph(collected, dataset, methods).items():
        found = {m: row[m] for m in methods if m in row and row[m].data is not None}
        if len(found) >= 2 and node is None:
            rows.append((next(iter(found.values())), found))
    rows.sort(key=lambda r: (-len(r[1]), r[0].index))
    return sorted(rows[:count], key=lambda r: r[0].index)


def _map(graphs: Sequence[Data], seed: int) -> np.ndarray:
    """Positions of graphs on one map, ``(N, 2)``."""
    try:
        from sklearn.decomposition import PCA
        from sklearn.manifold import TSNE
    except ImportError as e:
        raise CapabilityError("maps of graphs need scikit-learn: pip install 'counteredge[bench]'") from e
    vectors = WaveletCharacteristic().transform(graphs, progress=False).numpy()
    spread = vectors.std(0)
    vectors = (vectors - vectors.mean(0)) / np.where(spread > 1e-12, spread, 1.0)
    n = len(vectors)
    reduced = PCA(min(COMPONENTS, n, vectors.shape[1]), svd_solver="full").fit_transform(vectors)
    tsne = TSNE(
        2, perplexity=min(PERPLEXITY, (n - 1) / 3), init="pca", learning_rate="auto", early_exaggeration=12.0,
        metric="euclidean", method="barnes_hut", angle=0.5, random_state=seed, n_jobs=1,
    )  # fmt: skip
    return np.asarray(tsne.fit_transform(reduced), dtype=float)


def _draw(
    collected: Collected,
    dataset: str,
    chosen: Sequence[Case],
    cloud: Sequence[Data],
    places: np.ndarray,
    methods: Sequence[str],
) -> Figure:
    looks, pool = styles(collected), Pool.of(collected)
    grid = Panels(len(chosen), 3, height=1.9, width=2.4, strips=STRIP, extra=1.1)
    labels = [own_label(g) for g in cloud]
    clouds = _clouds(chosen, labels)
    at = len(cloud)
    for k, (first, found) in enumerate(chosen):
        axes = grid.panels[k]
        _background(axes, places[: len(cloud)], labels, clouds)
        start = places[at]
        for x, (m, end) in enumerate(zip(found, places[at + 1 :], strict=False)):
            arrow = {
                "arrowstyle": "-|>",
                "color": looks[m].edge,
                "lw": 0.8,
                "mutation_scale": 6,
                "shrinkA": 0,
                "shrinkB": 3,
            }
            axes.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=4)
            # of answers in one place the later ones are smaller, so that all are seen
            axes.scatter(end[0], end[1], 44 - 30 * x / len(found), zorder=6 + x / 100, **looks[m].point)
        axes.scatter(start[0], start[1], 70, marker="*", facecolor="white", edgecolor=INK, linewidth=0.9, zorder=5)
        at += 1 + len(found)
        grid.title(k, f"graph {first.index}, class {_named(first, first.before.label)}")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set(visible=True, color="#cccccc", linewidth=0.6)
        axes.margins(0.06)
        shares = [_agreement(pool, dataset, m, first.index) if m in found else "–" for m in methods]
        strip(grid.strips[k], methods, looks, shares, "")
    example = chosen[0][0]
    entries = [*_legend(example, clouds), *marks(methods, looks)]
    notes = [
        f"{dataset}: one map (t-SNE) of {len(cloud)} graphs, {len(chosen)} originals and their counterfactuals.",
        "Distances on it are qualitative only.",
        f"Below each panel: share (%) of the {NEIGHBOURS} nearest real graphs, in the space of 1000 numbers, that",
        "are of the counterfactual's class (n/a: not measured, –: not found).",
    ]
    return finish(grid.figure, entries, notes)


def _clouds(chosen: Sequence[Case], labels: Sequence[Any]) -> dict[Any, tuple[str, str]]:
    """Colour and marker of each class; where there are too many, of those that the counterfactuals are about."""
    every = sorted(set(labels), key=str)
    if len(every) > len(CLOUDS):
        about = {p.label for first, found in chosen for p in (first.before, *(cf.after for cf in found.values())) if p}
        every = [c for c in every if c in about][: len(CLOUDS)]
    return {c: CLOUDS[k] for k, c in enumerate(every)}


def _background(axes: Axes, places: np.ndarray, labels: Sequence[Any], clouds: dict[Any, tuple[str, str]]) -> None:
    axes.grid(visible=False)
    rest = np.array([c not in clouds for c in labels])
    if rest.any():
        axes.scatter(places[rest, 0], places[rest, 1], 6, color=OTHERS[0], marker=OTHERS[1], linewidth=0, zorder=1)
    for c, (colour, marker) in clouds.items():
        mine = np.array([c == label for label in labels])
        axes.scatter(places[mine, 0], places[mine, 1], 7, color=colour, marker=marker, linewidth=0, zorder=2)


def _legend(cf: Counterfactual, clouds: dict[Any, tuple[str, str]]) -> list[tuple[str, Any]]:
    from matplotlib.lines import Line2D

    entries: list[tuple[str, Any]] = [
        (f"class {_named(cf, c)}", Line2D([], [], ls="", marker=marker, markersize=4, color=colour))
        for c, (colour, marker) in clouds.items()
    ]
    star = Line2D([], [], ls="", marker="*", markersize=8, markerfacecolor="white", markeredgecolor=INK)
    return [*entries, ("original", star)]


def _named(cf: Counterfactual, label: Any) -> str:
    names = cf.label_names
    return f"{label} {names[label]}" if isinstance(label, int) and label < len(names) else str(label)


def _agreement(pool: Pool, dataset: str, method: str, graph: int) -> str:
    pairs = zip(pool.column(dataset, method, "graph"), pool.column(dataset, method, "class_agreement"), strict=False)
    values = [float(v) for g, v in pairs if g == graph and v == v]
    return f"{100 * values[0]:.0f}" if values else "n/a"

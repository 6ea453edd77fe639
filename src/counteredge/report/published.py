"""The figures that the XPlore paper prints, by the names of this package's registries."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from counteredge.errors import unknown

__all__ = ["TABLES", "Contradiction", "contradictions", "paper_value", "published", "published_std"]

TABLES = ("main", "extended", "ablation")  # in the order in which a figure is looked for
WITHOUT = ("greedy", "nearest", "empty_graph", "complete_graph")  # no method of the paper
Key = tuple[str, str, str, str]  # dataset, explainer, features, metric
Figure = tuple[float | None, float | None]  # mean and std; None where the paper has a dash or nothing


class Contradiction(NamedTuple):
    """A figure that the paper prints twice, differently.

    Attributes:
        dataset: Name in the registry.
        explainer: Name in the registry.
        features: Of XPlore's variant.
        metric: Which figure.
        main: In the paper's main table.
        extended: In its extended one.
    """

    dataset: str
    explainer: str
    features: str
    metric: str
    main: float
    extended: float


def published(dataset: str, explainer: str, metric: str, features: str = "", table: str | None = None) -> float | None:
    """A mean as the paper prints it; validity is a share, not a percentage.

    Args:
        dataset: Name in the registry.
        explainer: Name in the registry.
        metric: ``"validity"``, ``"fidelity"``, ``"edit_ratio"`` (the paper's sparsity) or ``"calls_forward"`` (its
            oracle calls).
        features: XPlore's variant: ``"freedom"``, ``"gating"``, or ``""`` for edges only and for other methods.
        table: ``"main"``, ``"extended"`` or ``"ablation"``. ``None`` takes the first of them that has the figure; they
            disagree where :func:`contradictions` says so.

    Returns:
        The figure; ``None`` where the paper has a dash, or nothing at all.

    Raises:
        InputError: For an unknown table.

    Source:
        XPlore (KDD 2026), main, ablation and extended tables.

    Example:
        >>> published("MUTAG", "xplore", "validity", "freedom")
        0.6755
        >>> published("MUTAG", "cf2", "edit_ratio") is None
        True
    """
    return _figure(dataset, explainer, metric, features, table)[0]


def published_std(
    dataset: str, explainer: str, metric: str, features: str = "", table: str | None = None
) -> float | None:
    """The standard deviation beside a mean: the extended table alone has them.

    Args:
        dataset: As in :func:`published`.
        explainer: As in :func:`published`.
        metric: As in :func:`published`.
        features: As in :func:`published`.
        table: As in :func:`published`; ``None`` takes the first that has a deviation.

    Returns:
        The figure, or ``None``.

    Raises:
        InputError: For an unknown table.
    """
    return _figure(dataset, explainer, metric, features, table, part=1)[1]


def paper_value(
    explainer: str, preset: str, features: str, dataset: str, metric: str, *, table: str | None = None
) -> float | None:
    """The paper's figure that stands beside one of ours.

    XPlore's preset ``minimal`` is held against the paper's XPlore, the row of its main table, which is the variant
    ``freedom``, and where it may edit edges alone against the paper's edges only. Preset ``paper`` is held against its
    own variant: ``freedom`` is the row of the main table, ``gating`` and edges only stand in the ablation alone. Other
    methods are held against their row in any mode but ``legacy_gretel``.

    Args:
        explainer: Name in the registry.
        preset: Preset or mode.
        features: XPlore's variant, ``""`` for none; ``"edges"`` for preset ``minimal`` kept to edges.
        dataset: Name in the registry.
        metric: Name in the registry.
        table: As in :func:`published`.

    Returns:
        The figure; ``None`` for controls, methods and datasets that are not in the paper, and legacy modes.

    Raises:
        InputError: For an unknown table.

    Example:
        >>> paper_value("xplore", "minimal", "", "AIDS", "validity")
        0.323
        >>> paper_value("xplore", "paper", "", "AIDS", "validity")
        0.003
        >>> paper_value("xplore", "minimal", "edges", "AIDS", "validity")
        0.003
    """
    if explainer in WITHOUT or preset.startswith("legacy"):
        return None
    if explainer == "xplore" and preset == "minimal":
        features = "" if features == "edges" else "freedom"
    return published(dataset, explainer, metric, features, table)


def contradictions() -> list[Contradiction]:
    """Figures that differ between the paper's main and extended tables, in the order of the main one.

    Example:
        >>> [(c.dataset, c.explainer, c.main, c.extended) for c in contradictions() if c.metric == "fidelity"]
        [('DBLP_v1', 'irand', 0.06, 0.006), ('COLORS-3', 'xplore', 0.896, 0.871)]
    """
    every = _read()
    found = []
    for (dataset, explainer, features, metric), (main, _) in every["main"].items():
        other = every["extended"].get((dataset, explainer, features, metric), (None, None))[0]
        if main is not None and other is not None and main != other:
            found.append(Contradiction(dataset, explainer, features, metric, main, other))
    return found


def _figure(dataset: str, explainer: str, metric: str, features: str, table: str | None, *, part: int = 0) -> Figure:
    if table is not None and table not in TABLES:
        raise unknown("table of the paper", table, TABLES)
    for name in (table,) if table else TABLES:
        figure = _read()[name].get((dataset, explainer, features, metric), (None, None))
        if figure[part] is not None:
            return figure
    return None, None


@lru_cache(maxsize=1)
def _read() -> dict[str, dict[Key, Figure]]:
    text = resources.files("counteredge.report").joinpath("published.csv").read_text(encoding="utf-8")
    found: dict[str, dict[Key, Figure]] = {name: {} for name in TABLES}
    for row in csv.DictReader(text.splitlines()):
        key = (row["dataset"], row["explainer"], row["features"], row["metric"])
        found[row["table"]][key] = (_number(row["mean"]), _number(row["std"]))
    return found


def _number(text: str) -> float | None:
    return float(text) if text else None

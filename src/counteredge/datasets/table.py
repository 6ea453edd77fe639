"""The table of datasets, from the registry's figures alone; and how far loaded data differ from them."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import NamedTuple

from counteredge.datasets.dataset import Figures
from counteredge.datasets.registry import REGISTRY, load
from counteredge.errors import CounterEdgeError

__all__ = ["Row", "check", "differences", "table"]


class Row(NamedTuple):
    """One dataset of the table.

    Args:
        name: Name in the registry.
        task: ``"graph"`` or ``"node"``.
        figures: As recorded.
        paper: As the paper has them, or ``None``.
        source: Where it comes from.
        present: Whether it can be loaded here without a download.
    """

    name: str
    task: str
    figures: Figures
    paper: Figures | None
    source: str
    present: bool


def table(root: str | os.PathLike[str] | None = None) -> list[Row]:
    """All datasets; nothing is loaded.

    Args:
        root: Folder that may hold files, looked in first.

    Returns:
        A row each, in the order of the registry.

    Example:
        >>> [row.figures.graphs for row in table() if row.name == "Tree-Grid"]
        [5000]
    """
    return [Row(e.name, e.task, e.figures, e.paper, e.origin, e.present(root)) for e in REGISTRY.values()]


def check(name: str, root: str | os.PathLike[str] | None = None) -> list[str]:
    """Load a dataset and compare it with the registry.

    Args:
        name: Name in the registry.
        root: Folder that holds its file.

    Returns:
        What differs, or why it cannot be loaded, in words; nothing when all figures are as recorded.

    Example:
        >>> check("node-tree-cycles") if REGISTRY["node-tree-cycles"].present() else []
        []
    """
    try:
        return differences(load(name, root).figures(), REGISTRY[name].figures)
    except CounterEdgeError as error:
        return [str(error)]


def differences(found: Figures, expected: Figures) -> list[str]:
    """Figures that are not the same to the last digit; those that are not given are not compared.

    Args:
        found: As measured.
        expected: As recorded.

    Returns:
        One text a difference.

    Example:
        >>> differences(Figures(graphs=3, classes=2), Figures(graphs=4))
        ['graphs: 3, expected 4']
    """
    wanted = asdict(expected)
    return [
        f"{key}: {value}, expected {wanted[key]}"
        for key, value in asdict(found).items()
        if None not in (value, wanted[key]) and value != wanted[key]
    ]

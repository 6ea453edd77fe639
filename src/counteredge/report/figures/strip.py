"""Panels in a grid, and the row of markers with numbers below a panel: what would not fit beside the markers in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counteredge.report.figures.style import SMALL, TEXT, WIDTH, Style, page, tidy, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STRIP", "Panels", "strip"]

STRIP = 0.13  # inches of a strip, its texts apart
TEXTS = 0.85  # inches of a panel's own texts, and of a strip's


class Panels:
    """A figure of a grid of panels, each with a strip below it if wanted.

    Args:
        count: How many panels.
        columns: Most panels side by side.
        height: Of a panel in inches.
        width: Of a panel in inches at most; they fill the page where there are enough of them.
        strips: Height of the strips in inches, 0 for none.
        extra: Inches for the legend and the notes.
    """

    def __init__(
        self, count: int, columns: int, *, height: float, width: float, strips: float = 0.0, extra: float = 0.9
    ) -> None:
        self.columns = max(1, min(columns, count))
        self.rows = math.ceil(count / self.columns)
        across = min(WIDTH, max(4.2, width * self.columns))
        self.figure: Figure = page(across, self.rows * (height + (strips + TEXTS if strips else 0.3)) + extra)
        parts = 2 if strips else 1
        grid = self.figure.add_gridspec(
            self.rows * parts, self.columns, height_ratios=[height, *([strips] if strips else [])] * self.rows
        )
        self.panels: list[Axes] = []
        self.strips: list[Axes] = []
        for k in range(count):
            row, column = divmod(k, self.columns)
            axes = self.figure.add_subplot(grid[row * parts, column])
            tidy(axes)
            self.panels.append(axes)
            if strips:
                self.strips.append(self.figure.add_subplot(grid[row * parts + 1, column]))

    def title(self, k: int, text: str) -> None:
        """Put a text over the ``k``-th panel, in lines that are no wider than it."""
        inches = self.figure.get_figwidth() / self.columns - 0.35
        self.panels[k].set_title(wrapped(text, max(8, int(inches / 0.07))), fontsize=TEXT, pad=3, linespacing=1.05)

    def row(self, k: int) -> list[Axes]:
        """The panels beside the ``k``-th, itself included."""
        first = k - k % self.columns
        return self.panels[first : first + self.columns]

    def leads(self, k: int) -> bool:
        """Whether the ``k``-th panel is the first of its row, which has the axis' name."""
        return k % self.columns == 0


def strip(axes: Axes, methods: Sequence[str], looks: Mapping[str, Style], texts: Sequence[str], name: str) -> None:
    """A row of the methods' markers, each with a text below it.

    Args:
        axes: Where.
        methods: In their order.
        looks: Of the methods.
        texts: One a method.
        name: What the texts say, at the left; ``""`` for nothing.
    """
    for x, m in enumerate(methods):
        axes.scatter(x, 0, 16, **looks[m].point)
    upright = len(methods) > 6 or max(map(len, texts)) > 4
    rotation: dict[str, Any] = {"rotation": 90} if upright else {}
    axes.set_xticks(range(len(methods)), texts, fontsize=SMALL, **rotation)
    axes.set_yticks([0] if name else [], [name] if name else [], fontsize=SMALL)
    axes.tick_params(length=0, pad=1)
    axes.set_xlim(-0.7, len(methods) - 0.3)
    axes.set_ylim(-1, 1)
    axes.spines[:].set_visible(False)

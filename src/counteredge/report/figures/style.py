"""How figures look: one colour, marker and hatch for each method, legends, notes, what stands for no result."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counteredge.draw import new_figure, plain_text
from counteredge.errors import InputError
from counteredge.report.pooled import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.bench.collect import Collected

__all__ = [
    "INK",
    "MISSING",
    "SMALL",
    "TEXT",
    "WIDTH",
    "NothingToDraw",
    "Style",
    "finish",
    "page",
    "placeholder",
    "plain_text",
    "slug",
    "styles",
    "tidy",
    "wrapped",
]

SMALL, TEXT = 7.0, 8.0  # sizes of text in points; nothing is smaller
WIDTH = 7.2  # inches across a page
INK, MISSING, DARK = "#222222", "#e3e3e3", "#3a2a00"
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "++++")

# colours that the usual colour blindnesses keep apart: Okabe and Ito's, continued with Tol's muted ones
FAMILIES: dict[str, tuple[str, Any]] = {
    "irand": ("#332288", "<"),
    "cf2": ("#56b4e9", "^"),
    "clear": ("#009e73", "v"),
    "rsggce": ("#d55e00", "X"),
    "d4explainer": ("#cc79a7", "P"),
    "cfgnn": ("#0072b2", "s"),
    "combinex": ("#882255", ">"),
    "c2explainer": ("#117733", "p"),
    "induce": ("#aa4499", "h"),
    "meg": ("#44aa99", "8"),
    # yardsticks and controls
    "greedy": ("#4d4d4d", "d"),
    "nearest": ("#7f7f7f", (4, 1, 0)),
    "empty_graph": ("#a6a6a6", (8, 1, 0)),
    "complete_graph": ("#cccccc", (3, 1, 0)),
}
XPLORE: dict[tuple[str, str], tuple[str, Any, str]] = {
    ("minimal", ""): ("#f5b700", "o", ""),
    ("minimal", "edges"): ("#f9d25c", (6, 0, 0), "////"),
    ("paper", "freedom"): ("#e58a00", "D", "////"),
    ("paper", "gating"): ("#ffe08a", (5, 0, 180), "...."),
    ("paper", ""): ("#a87900", "H", "\\\\\\\\"),
}
LEGACY: tuple[str, Any, str] = ("#fff3cc", (4, 1, 45), "xxxx")
MODES = {"paper": 0, "reference": 1, "improved": 2, "legacy_gretel": 4}
SPARE: tuple[tuple[str, Any], ...] = (
    ("#999933", (5, 1, 0)),
    ("#661100", (6, 0, 0)),
    ("#6699cc", (7, 0, 0)),
    ("#ddcc77", (7, 1, 0)),
)


class NothingToDraw(InputError):
    """The results hold nothing that a figure could show."""


@dataclass(frozen=True)
class Style:
    """How a method looks, everywhere.

    Attributes:
        colour: Of its bars and markers.
        marker: As matplotlib takes it.
        hatch: Of its bars; ``""`` for none.
        edge: Colour of outlines and hatches.
        line: Width of outlines in points.
    """

    colour: str
    marker: Any
    hatch: str = ""
    edge: str = INK
    line: float = 0.5

    @property
    def bar(self) -> dict[str, Any]:
        """Options of a bar."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": self.edge, "linewidth": self.line}

    @property
    def point(self) -> dict[str, Any]:
        """Options of a marker drawn by ``scatter``."""
        return {"marker": self.marker, "facecolor": self.colour, "edgecolor": self.edge, "linewidth": self.line}


def page(width: float, height: float, *, pad: float = 0.03) -> Figure:
    """An empty figure of this size in inches, with little room between its panels."""
    figure = new_figure((width, height))
    engine: Any = figure.get_layout_engine()
    engine.set(h_pad=pad, w_pad=pad, hspace=0.02, wspace=0.02)
    return figure


def styles(collected: Collected) -> dict[str, Style]:
    """The look of each method, by what tables call it.

    It follows from explainer, mode and variant alone, so that a method looks the same in every report. Only methods
    that differ in further options, and explainers that are not the package's own, are told apart by their order.
    """
    found: dict[str, Style] = {}
    seen: dict[tuple[str, str, str], int] = {}
    strangers: dict[str, int] = {}
    for method, m in Pool.of(collected).method.items():
        explainer, preset, features = m.explainer, m.preset, m.features
        again = seen.get((explainer, preset, features), 0)
        seen[explainer, preset, features] = again + 1
        if explainer == "xplore":
            colour, marker, hatch = XPLORE.get((preset, features), LEGACY)
            edge, line = DARK, 1.0
        else:
            stranger = strangers.setdefault(explainer, len(strangers)) if explainer not in FAMILIES else 0
            colour, marker = FAMILIES.get(explainer, SPARE[stranger % len(SPARE)])
            mode = MODES.get(preset, 3)
            hatch, edge, line = HATCHES[mode], _mixed(colour, "#000000", 0.5), 0.5
            colour = _mixed(colour, "#ffffff", 0.18 * mode)
        if again:
            hatch = HATCHES[(HATCHES.index(hatch) + again) % len(HATCHES)]
            colour = _mixed(colour, "#ffffff", min(0.75, 0.35 * again))
        found[method] = Style(colour, marker, hatch, edge, line)
    return found


def _mixed(colour: str, other: str, share: float) -> str:
    """``share`` of the other colour in it."""
    pairs = ((int(colour[k : k + 2], 16), int(other[k : k + 2], 16)) for k in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def slug(name: str) -> str:
    """A name as a part of a file's name: small letters, digits and hyphens alone."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def wrapped(name: str, width: int) -> str:
    """A name over several lines, nothing in it read as mathematics."""
    return plain_text("\n".join(textwrap.wrap(name, width, break_long_words=False)) or name)


def tidy(axes: Axes) -> None:
    """Small ticks, no frame at the top and the right, a faint grid behind."""
    axes.tick_params(labelsize=SMALL, length=2.5, width=0.6, pad=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)


def placeholder(axes: Axes, x: float, width: float, *, height: float = 0.36) -> None:
    """A hatched grey box with "n/a" that stands for a bar that does not exist; ``height`` is a share of the axes."""
    from matplotlib.patches import Rectangle

    across = axes.get_xaxis_transform()
    look: dict[str, Any] = {"facecolor": MISSING, "edgecolor": "#9a9a9a", "hatch": "////", "linewidth": 0.5}
    axes.add_patch(Rectangle((x - width / 2, 0), width, height, transform=across, zorder=2, **look))
    box = {"facecolor": MISSING, "edgecolor": "none", "pad": 0.4}
    text: dict[str, Any] = {
        "fontsize": SMALL,
        "rotation": 90,
        "ha": "center",
        "va": "center",
        "color": "#555555",
        "zorder": 3,
    }
    axes.text(x, height / 2, "n/a", transform=across, bbox=box, **text)


def finish(figure: Figure, entries: Iterable[tuple[str, Any]], notes: Sequence[str]) -> Figure:
    """Put the legend above the panels and the notes below them.

    Args:
        figure: Whose panels are drawn.
        entries: What the legend explains: a text and the artist beside it.
        notes: Sentences that say what is shown; empty ones are left out.
    """
    listed = [(plain_text(name), handle) for name, handle in entries]
    width = figure.get_figwidth()
    if listed:
        longest = max(len(name) for name, _ in listed)
        columns = max(1, min(len(listed), int(width / (0.062 * longest + 0.5))))
        figure.legend(
            [h for _, h in listed], [n for n, _ in listed], loc="outside upper center", ncols=columns,
            fontsize=SMALL, frameon=False, handlelength=1.8, handleheight=1.1, columnspacing=1.2, borderaxespad=0.3,
        )  # fmt: skip
    text = " ".join(n for n in notes if n)
    if text:
        lines = textwrap.wrap(text, max(30, int(width / 0.058)))
        figure.supxlabel(plain_text("\n".join(lines)), fontsize=SMALL, color="#444444")
    return figure

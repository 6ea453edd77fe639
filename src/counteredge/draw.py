"""Pictures of counterfactuals: what is added green, what is removed red and dashed, what is changed orange."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import torch

from counteredge.errors import CapabilityError, InputError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counteredge.results import Counterfactual

__all__ = [
    "Look",
    "draw",
    "gallery",
    "layout",
    "legend_handles",
    "new_figure",
    "paint",
    "plain_text",
    "shown",
    "to_html",
]

ADDED, REMOVED, CHANGED, KEPT, NODE = "#1a9850", "#d73027", "#e69f00", "#9a9a9a", "#dfe8f1"
TARGET = "#3b6fb6"  # the node whose prediction is explained
LEGEND: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "frameon": False, "handlelength": 1.6}
DASHES = (0, (1.4, 0.6))  # short ones, so that a short edge shows more than one
SURROUNDINGS = 60  # most nodes of the picture of a node task


@dataclass(frozen=True)
class Look:
    """Sizes in the picture of a graph, in points.

    Attributes:
        node: Area of a node.
        kept: Width of a kept edge.
        edited: Width of an edited one.
        font: Size of the nodes' names; 0 leaves them out.
        rings: Whether changed nodes are drawn larger.
    """

    node: float
    kept: float = 1.2
    edited: float = 2.6
    font: float = 9.0
    rings: bool = True


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure with a constrained layout, of a width and a height in inches.

    Raises:
        CapabilityError: When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise CapabilityError("drawing needs matplotlib: pip install 'counteredge[viz]'") from e
    # the object-oriented interface: pyplot would keep global state
    return Figure(figsize=size, layout="constrained")


def draw(cf: Counterfactual, path: str | Path | None = None) -> Figure:
    """Draw one counterfactual; see :meth:`counteredge.Counterfactual.draw`."""
    figure = new_figure((5.2, 5.2))
    _panel(figure.add_subplot(), cf)
    figure.legend(handles=legend_handles([cf]), fontsize=8, **LEGEND)
    if path is not None:
        _save(figure, path, 150)
    return figure


def gallery(cfs: Sequence[Counterfactual], path: str | Path | None = None, *, most: int = 12) -> Figure:
    """The first ``most`` counterfactuals side by side, found ones first.

    Args:
        cfs: Results.
        path: Where to save the picture.
        most: How many panels at most.
    """
    chosen = sorted(cfs, key=lambda c: not c.found)[:most]
    columns = max(1, min(4, len(chosen)))
    rows = max(1, -(-len(chosen) // columns))
    figure = new_figure((3.3 * columns, 3.4 * rows + 0.4))
    for k, cf in enumerate(chosen):
        _panel(figure.add_subplot(rows, columns, k + 1), cf, small=True)
    figure.legend(handles=legend_handles(chosen), fontsize=9, **LEGEND)
    if path is not None:
        _save(figure, path, 110)
    return figure


def _save(figure: Figure, path: str | Path, dpi: int) -> None:
    kinds = figure.canvas.get_supported_filetypes()
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind and kind not in kinds:
        raise unknown("kind of picture", kind, kinds)
    try:
        figure.savefig(path, dpi=dpi)
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror or e}") from e


def legend_handles(cfs: Sequence[Counterfactual]) -> list[Any]:
    """Lines of the legend of pictures of these counterfactuals."""
    from matplotlib.lines import Line2D

    ring: dict[str, Any] = {
        "marker": "o",
        "markersize": 9,
        "markeredgewidth": 2.2,
        "color": "none",
    }
    target = Line2D([], [], markerfacecolor=TARGET, markeredgecolor="#5b6b7b", label="node explained", **ring)
    return [
        Line2D([], [], color=ADDED, lw=2.6, label="edge added"),
        Line2D([], [], color=REMOVED, lw=2.6, ls=DASHES, label="edge removed"),
        Line2D([], [], markerfacecolor=NODE, markeredgecolor=CHANGED, label="node changed", **ring),
        Line2D([], [], color=KEPT, lw=1.2, label="edge kept"),
        *_rarer(cfs, ring),
        *([target] if any(cf.node is not None for cf in cfs) else []),
    ]


def _rarer(cfs: Sequence[Counterfactual], ring: dict[str, Any]) -> list[Any]:
    """Lines of the legend for edits that most pictures do not have."""
    from matplotlib.lines import Line2D

    found = []
    if any(cf.edits.new_nodes for cf in cfs):
        found.append(Line2D([], [], markerfacecolor=ADDED, markeredgecolor="#5b6b7b", label="node added", **ring))
    if any(cf.edits.removed_nodes for cf in cfs):
        found.append(Line2D([], [], markerfacecolor="white", markeredgecolor=REMOVED, label="node removed", **ring))
    if any(cf.edits.attributes for cf in cfs):
        found.append(Line2D([], [], color=CHANGED, lw=2.6, label="edge changed"))
    return found


def _panel(axes: Axes, cf: Counterfactual, *, small: bool = False) -> None:
    graph = shown(cf)
    n = len(cf.original.x)
    laid = graph.copy()
    laid.add_nodes_from(range(n, n + len(cf.edits.new_nodes)))
    # the surroundings of both ends are a picture only together; a new node lies where it is bound
    laid.add_edges_from(p for p in cf.edits.added if cf.node is not None or max(p) >= n)
    dense = len(laid) > 60
    size = (70 if dense else 130) if small else (110 if dense else 230)
    font = 0.0 if dense else 6.5 if small else 9.0
    paint(axes, cf, graph, layout(laid), Look(size, 0.5 if dense else 1.2, font=font, rings=not dense))
    axes.set_title(_title(cf), fontsize=8 if small else 11)
    axes.margins(0.08)


def shown(cf: Counterfactual) -> nx.Graph:
    """The original as far as it is drawn: all of it, or what lies around the node of a node task."""
    graph: nx.Graph = nx.DiGraph() if cf.edits.directed else nx.Graph()
    graph.add_nodes_from(range(len(cf.original.x)))
    src, dst = cf.original.edge_index.tolist()
    graph.add_edges_from((i, j) for i, j in zip(src, dst, strict=True) if i != j)
    return graph if cf.node is None else graph.subgraph(_surroundings(graph, cf)).copy()


def paint(axes: Axes, cf: Counterfactual, graph: nx.Graph, place: dict[int, Any], look: Look) -> None:
    """Draw a graph and the edits of a counterfactual.

    Args:
        axes: Where; its frame is taken away.
        cf: Its edits are drawn; without any it is the original alone.
        graph: The original as far as it is to be seen, see :func:`shown`; every edited pair lies in it.
        place: Position of each node, new ones included.
        look: Sizes.
    """
    n = len(cf.original.x)
    new = range(n, n + len(cf.edits.new_nodes))
    graph = graph.copy()
    graph.add_nodes_from(new)
    nodes = sorted(graph)
    removed, added = set(cf.edits.removed), set(cf.edits.added)
    changed = {e.pair for e in cf.edits.attributes}
    drawn = removed | changed
    kept = [e for e in graph.edges if e not in drawn and (cf.edits.directed or e[::-1] not in drawn)]
    graph.add_edges_from(added)
    ringed, targets = {e.node for e in cf.edits.features}, set(cf.targets)
    wide = {"ax": axes, "node_size": look.node, "width": look.edited}
    nx.draw_networkx_edges(graph, place, kept, edge_color=KEPT, **{**wide, "width": look.kept})
    nx.draw_networkx_edges(graph, place, list(changed), edge_color=CHANGED, **wide)
    nx.draw_networkx_edges(graph, place, list(removed), edge_color=REMOVED, style=DASHES, **wide)
    nx.draw_networkx_edges(graph, place, list(added), edge_color=ADDED, **wide)
    gone = set(cf.edits.removed_nodes)
    circles = nx.draw_networkx_nodes(
        graph,
        place,
        nodes,
        ax=axes,
        node_size=[look.node * (2.2 if v in ringed and look.rings else 1) for v in nodes],
        node_color=[ADDED if v in new else "white" if v in gone else TARGET if v in targets else NODE for v in nodes],
        edgecolors=[REMOVED if v in gone else CHANGED if v in ringed else "#5b6b7b" for v in nodes],
        linewidths=[look.edited - 0.2 if v in ringed | gone else 0.7 for v in nodes],
    )
    if gone:
        circles.set_linestyle([DASHES if v in gone else "solid" for v in nodes])
    if look.font:
        light = targets | set(new)
        for some, colour in ((light, "white"), (set(nodes) - light, "black")):
            labels = {v: plain_text(text) for v, text in _labels(cf).items() if v in some}
            nx.draw_networkx_labels(graph, place, labels, font_size=look.font, font_color=colour, ax=axes)
    axes.set_axis_off()


def _surroundings(graph: nx.Graph, cf: Counterfactual) -> set[int]:
    """The targets, the ends of edits, and what lies within two hops of them, as far as a picture has room."""
    pairs = (*cf.edits.added, *cf.edits.removed, *(e.pair for e in cf.edits.attributes))
    inside = {
        *cf.targets,
        *cf.edits.removed_nodes,
        *(e.node for e in cf.edits.features),
        *(v for p in pairs for v in p),
    }
    inside = {v for v in inside if v in graph}  # new nodes come later
    plain = graph.to_undirected(as_view=True)
    for _ in range(2):
        wider = inside | {u for v in inside for u in plain[v]}
        if len(wider) > SURROUNDINGS:
            break
        inside = wider
    return inside


def layout(graph: nx.Graph) -> dict[int, Any]:
    """Positions from the original graph (and what is bound to new nodes) alone, the same every time."""
    plain = graph.to_undirected()
    if nx.is_connected(plain) and len(plain) <= 120:
        return dict(nx.kamada_kawai_layout(plain))
    return dict(nx.spring_layout(plain, seed=0, iterations=100))


def _labels(cf: Counterfactual) -> dict[int, str]:
    """Atom symbols (or category names) where named columns are one-hot, node numbers otherwise."""
    x, schema = cf.original.x, cf.schema
    n, gone = len(x), set(cf.edits.removed_nodes)
    rows = torch.tensor(cf.edits.new_nodes, dtype=x.dtype).reshape(len(cf.edits.new_nodes), *x.shape[1:])
    x = torch.cat([x, rows])
    numbers = {v: str(v) for v in range(len(x))}
    named = [] if schema is None or x.dim() != 2 else [k for k, c in enumerate(schema.columns) if c.name]
    if schema is None or not named or not bool(_onehot(x[:, named]).all()):
        return numbers
    names = [schema.columns[k].name for k in named]
    old = x[:, named]
    new = old.clone()
    if cf.data is not None:
        new[[v for v in numbers if v not in gone]] = cf.data.x[:, named]
    labels = {}
    for v in numbers:
        before = names[int(old[v].argmax())]
        if v >= n or torch.equal(old[v], new[v]):
            labels[v] = before
        else:
            labels[v] = f"{before}→{names[int(new[v].argmax())] if bool(_onehot(new[v])) else '*'}"
    return labels


def _onehot(rows: torch.Tensor) -> torch.Tensor:
    return ((rows == 0) | (rows == 1)).all(-1) & (rows.sum(-1) == 1)


def plain_text(text: str) -> str:
    """Text that matplotlib must not read as mathematics."""
    return text.replace("$", r"\$")


def _title(cf: Counterfactual) -> str:
    before = cf.before.describe(cf.label_names)
    after = "not found" if cf.after is None else f"→ {cf.after.describe(cf.label_names)}"
    return plain_text(f"{cf.subject}: {before}\n{after}")


def to_html(cf: Counterfactual) -> str:
    """For notebooks: the picture and the list of edits; every text is escaped."""
    lines = "<br>".join(html.escape(line) for line in str(cf).split("\n"))
    text = f'<div style="font-family:monospace;white-space:pre-wrap">{lines}</div>'
    try:
        buffer = io.BytesIO()
        draw(cf).savefig(buffer, format="png", dpi=90)
    except CapabilityError:
        return text
    picture = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<div><img alt="counterfactual" src="data:image/png;base64,{picture}">{text}</div>'

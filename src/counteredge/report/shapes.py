"""What the page draws: nodes at places, edges by kind, labels; and molecules as RDKit draws them."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.chemistry import elements_by_number
from counteredge.chemistry.judge import judge, rdkit
from counteredge.chemistry.reading import Columns, read
from counteredge.data import pairs_of
from counteredge.errors import CapabilityError, InputError
from counteredge.results import Counterfactual
from counteredge.schema import FeatureSchema

__all__ = ["MOST_EDGES", "MOST_NODES", "chemical", "drawing", "molecules", "sanitised", "size"]

MOST_NODES, MOST_EDGES = 150, 600  # of a picture; a larger one shows nothing but a blot
SURROUNDINGS = 60  # most nodes of the picture of a node task
LABELLED = 60  # nodes up to which labels can be read
SMALL = 60  # nodes up to which distances in the graph become distances in the picture, which takes cubic time
BOX, MARGIN = (320, 240), 16
WIDEST = 4  # letters that fit into a node

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "g", "rect", "path", "text", "tspan", "ellipse", "circle", "line", "polygon"}
ATTRIBUTES = {
    "version", "width", "height", "viewBox", "d", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry",
    "points", "fill", "stroke", "style", "opacity", "text-anchor", "font-size", "transform",
}  # fmt: skip
HARMLESS = re.compile(r"[\w\s:;#.,%()+-]*")
# what SVG does anyway, which RDKit says of every bond
USUAL = {"fill-rule:evenodd", "stroke-linecap:butt", "stroke-linejoin:miter", "stroke-opacity:1", "opacity:1.0"}


def size(cf: Counterfactual) -> tuple[int, int]:
    """Nodes and edges of the original, undirected edges once."""
    return len(cf.original.x), len(pairs_of(cf.original, directed=cf.edits.directed))


def drawing(cf: Counterfactual, schema: FeatureSchema | None = None) -> dict[str, Any] | None:
    """One picture for both sides: the original with everything that its edits bring.

    Nodes lie where :mod:`networkx` puts them in the union of both graphs, starting from their places in the original:
    by distances where it is connected and has at most 60 nodes, by springs (seed 0) elsewhere. Of a node task the
    surroundings are shown.

    Args:
        cf: An answer, found or not.
        schema: What gives nodes their labels; the answer's own when ``None``.

    Returns:
        Plain values: ``box`` (width, height), ``r`` (radius of nodes), ``xy`` (x and y of each node in turn, one
        decimal), ``before`` and ``after`` (labels), ``directed``; lists of edges ``kept, changed, removed, added``
        (both ends of each in turn) and of nodes ``marked, gone, fresh, targets``, all as places in the list of nodes.
        ``None`` when there are more than 150 nodes or 600 edges.
    """
    n, edits = len(cf.original.x), cf.edits
    pairs = pairs_of(cf.original, directed=edits.directed)
    own = range(n) if cf.node is None else _surroundings(cf, n)
    nodes = [*own, *range(n, n + len(edits.new_nodes))]
    if len(nodes) > MOST_NODES or (cf.node is None and len(pairs) + len(edits.added) > MOST_EDGES):
        return None
    at = {v: k for k, v in enumerate(nodes)}
    inside = [(i, j) for i, j in pairs.tolist() if i in at and j in at]
    if len(inside) + len(edits.added) > MOST_EDGES:
        return None
    changed, removed = {e.pair for e in edits.attributes}, set(edits.removed)
    kept = [p for p in inside if p not in changed and p not in removed]
    xy = _layout(nodes, inside, edits.added)
    before, after = _labels(cf, nodes, schema or cf.schema)
    edges = {"kept": kept, "changed": sorted(changed), "removed": edits.removed, "added": edits.added}
    return {
        "box": list(BOX),
        "r": _radius(xy),
        "xy": [_short(v) for v in xy.flatten().tolist()],
        "before": before,
        "after": after,
        "directed": edits.directed,
        **{name: [at[v] for pair in some for v in pair] for name, some in edges.items()},
        "marked": [at[v] for v in sorted({e.node for e in edits.features})],
        "gone": [at[v] for v in edits.removed_nodes],
        "fresh": [at[v] for v in nodes if v >= n],
        "targets": [at[v] for v in cf.targets],
    }


def _surroundings(cf: Counterfactual, n: int) -> list[int]:
    """The targets, the ends of edits, and up to two hops around them, as far as there is room."""
    pairs = (*cf.edits.added, *cf.edits.removed, *(e.pair for e in cf.edits.attributes))
    first = {*cf.targets, *cf.edits.removed_nodes, *(e.node for e in cf.edits.features), *(v for p in pairs for v in p)}
    inside = torch.zeros(n, dtype=torch.bool)
    inside[[v for v in first if v < n]] = True
    src, dst = cf.original.edge_index.cpu()
    for _ in range(2):
        wider = inside.clone()
        wider[dst[inside[src]]] = True
        wider[src[inside[dst]]] = True
        if int(wider.sum()) > SURROUNDINGS:
            break
        inside = wider
    return inside.nonzero().flatten().tolist()


def _layout(nodes: list[int], own: list[tuple[int, int]], added: Sequence[tuple[int, int]]) -> Any:
    """Places inside the box, the longer side of the graph along the longer side of the box, ``(n, 2)``."""
    inner = {v for pair in own for v in pair}
    start = _places(nodes, own)
    if added:
        # from the original's places on, so that answers of several methods to one graph look alike
        for v in nodes:
            beside = [start[u] for pair in added if v in pair for u in pair if u != v and u in inner]
            if v not in inner and beside:
                start[v] = np.mean(beside, 0) + 0.05
        start = _places(nodes, [*own, *added], start)
    xy = np.array([start[v] for v in nodes])
    xy = xy - xy.min(0)
    if xy[:, 1].max() > xy[:, 0].max():
        xy = xy[:, ::-1]
    room = np.array(BOX) - 2 * MARGIN
    extent = xy.max(0)
    scale = min((r / e for r, e in zip(room, extent, strict=True) if e > 1e-9), default=0.0)
    return MARGIN + xy * scale + (room - extent * scale) / 2


def _places(nodes: list[int], pairs: list[tuple[int, int]], start: dict[int, Any] | None = None) -> dict[int, Any]:
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(pairs)
    if len(nodes) <= SMALL and nx.is_connected(graph):
        return dict(nx.kamada_kawai_layout(graph, pos=start))
    return dict(nx.spring_layout(graph, pos=start, seed=0))


def _radius(xy: Any) -> float:
    """Of a node: such that most neighbours do not touch."""
    if len(xy) == 1:
        return 10.0
    apart = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(-1))
    np.fill_diagonal(apart, np.inf)
    return _short(float(np.clip(0.36 * np.median(apart.min(1)), 2.2, 10)))


def _short(value: float) -> float:
    return round(value, 1) + 0.0  # no -0.0


def _labels(cf: Counterfactual, nodes: list[int], schema: FeatureSchema | None) -> tuple[list[str], list[str]]:
    """Of each node before and after: its category where columns are named and one-hot, its number elsewhere."""
    if len(nodes) > LABELLED:
        return [], []
    numbers = [str(v) for v in nodes]
    x = cf.original.x.detach().cpu()
    named = [] if schema is None or x.dim() != 2 or schema.width != x.shape[1] else _named(schema)
    if schema is None or not named or not bool(_onehot(x[:, named]).all()):
        return numbers, numbers
    names = [schema.columns[k].name for k in named]
    if max(map(len, names)) > WIDEST:
        return numbers, numbers
    before = {v: names[int(x[v, named].argmax())] for v in nodes if v < len(x)}
    if cf.data is None:
        return [before[v] for v in nodes], [before[v] for v in nodes]
    gone = set(cf.edits.removed_nodes)
    left = [v for v in range(len(x) + len(cf.edits.new_nodes)) if v not in gone]
    rows = cf.data.x.detach().cpu()[:, named]
    after = {v: names[int(row.argmax())] if bool(_onehot(row)) else "*" for v, row in zip(left, rows, strict=True)}
    return [before.get(v, "") for v in nodes], [after.get(v, before.get(v, "")) for v in nodes]


def _named(schema: FeatureSchema) -> list[int]:
    """Named columns of one-hot groups; all named ones where columns are edited as plain numbers."""
    groups = [k for k in schema.indices("onehot") if schema.columns[k].name]
    return groups or [k for k, c in enumerate(schema.columns) if c.name]


def _onehot(rows: Tensor) -> Tensor:
    return ((rows == 0) | (rows == 1)).all(-1) & (rows.sum(-1) == 1)


# -- molecules ---------------------------------------------------------------------------------------------------------


def chemical(cf: Counterfactual) -> FeatureSchema | None:
    """The schema with columns named by element when the original is a molecule that RDKit takes, else ``None``."""
    try:
        schema = None if cf.schema is None else elements_by_number(cf.schema)
    except CapabilityError:
        return None
    return None if schema is None or _read(cf.original, schema) is None else schema


def molecules(cf: Counterfactual, schema: FeatureSchema) -> list[dict[str, str]]:
    """What RDKit draws of the original and, where that is a molecule too, of the counterfactual.

    Both have the original's coordinates as long as no atom is new.

    Args:
        cf: An answer.
        schema: As :func:`chemical` gives it.

    Returns:
        One or two of ``name, smiles, note, picture``; the picture is a data URI of an SVG.
    """
    mol = _read(cf.original, schema)
    if mol is None:
        return []
    from rdkit.Chem import rdDepictor

    rdDepictor.Compute2DCoords(mol)
    found = [("Original", mol)]
    other = None if cf.data is None else _read(cf.data, schema)
    if other is not None:
        if cf.edits.new_nodes:
            rdDepictor.Compute2DCoords(other)
        else:
            _take_places(other, mol, set(cf.edits.removed_nodes))
        found.append(("Counterfactual", other))
    columns = Columns.of(schema)
    typed = columns.bonded and cf.original.get("edge_attr") is not None
    note = "" if typed else "The data has no bond orders: every bond is drawn single."
    return [{"name": name, "smiles": rdkit().MolToSmiles(m), "note": note, "picture": _picture(m)} for name, m in found]


def _read(data: Data, schema: FeatureSchema) -> Any | None:
    """The molecule, or ``None`` where there is none, or no RDKit."""
    if len(data.x) > MOST_NODES:
        return None
    try:
        mol, refused = judge(*read(data, schema))
    except (CapabilityError, InputError, ValueError, RuntimeError):  # RDKit raises the latter two
        return None
    return None if refused else mol


def _take_places(mol: Any, original: Any, gone: set[int]) -> None:
    from rdkit.Chem import Conformer

    places = original.GetConformer()
    conformer = Conformer(mol.GetNumAtoms())
    left = [v for v in range(original.GetNumAtoms()) if v not in gone]
    for k, v in enumerate(left):
        conformer.SetAtomPosition(k, places.GetAtomPosition(v))
    mol.AddConformer(conformer)


def _picture(mol: Any) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(*BOX)
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    svg = sanitised(drawer.GetDrawingText()).encode()
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def sanitised(svg: str) -> str:
    """An SVG with shapes and texts alone: no scripts, links, foreign elements, or attributes that could load anything.

    Args:
        svg: As RDKit writes it.

    Raises:
        ValueError: It is no SVG.
    """
    text = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.DOTALL)
    if "<!" in text or "<?" in text:  # no document types, and so no entities
        raise ValueError("the SVG declares something")
    try:
        root = ElementTree.fromstring(text.strip())  # noqa: S314 - made by RDKit, and without declarations
    except ElementTree.ParseError as e:
        raise ValueError(f"no SVG: {e}") from e
    if root.tag != f"{SVG}svg":
        raise ValueError(f"no SVG: {root.tag}")
    clean = _cleaned(root)
    clean.set("xmlns", SVG[1:-1])
    return ElementTree.tostring(clean, encoding="unicode")


def _cleaned(element: ElementTree.Element) -> ElementTree.Element:
    safe = {
        k: v
        for k, v in element.attrib.items()
        if k in ATTRIBUTES and HARMLESS.fullmatch(v) and "url" not in v.lower() and "import" not in v.lower()
    }
    if "style" in safe:
        safe["style"] = ";".join(part for part in safe["style"].split(";") if part not in USUAL)
    out = ElementTree.Element(element.tag.removeprefix(SVG), safe)
    out.text = element.text.strip() if element.text else None
    known = [e for e in element if e.tag.startswith(SVG) and e.tag.removeprefix(SVG) in ELEMENTS]
    out.extend(_cleaned(e) for e in known)
    return out

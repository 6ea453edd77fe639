"""The closed table of datasets and :func:`load`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch_geometric.data import Data

from counteredge.datasets.anchors import read_anchor
from counteredge.datasets.counting import make_colors, make_triangles
from counteredge.datasets.dataset import Content, Figures, GraphDataset, Task
from counteredge.datasets.files import TU_URL, find_file, local_file
from counteredge.datasets.generators import make_motifs
from counteredge.datasets.molecules import read_bbbp
from counteredge.datasets.store import cache_path, read_graphs, write_graphs
from counteredge.datasets.tu_sets import AIDS_SYMBOLS, MUTAG_SYMBOLS, TUSpec, read_tu_set
from counteredge.descriptors import DESCRIPTORS, append_descriptors, descriptor_columns, descriptor_names
from counteredge.errors import InputError, unknown
from counteredge.schema import Column, FeatureSchema

__all__ = ["REGISTRY", "Entry", "available", "canonical", "load"]

DEGREES = tuple(f"degree={k}" for k in range(15))  # 14 is the largest degree of COLORS-3 and TRIANGLES


@dataclass(frozen=True)
class Entry:
    """One dataset: where it comes from, what is in it, what the paper says of it.

    Args:
        name: Name that :func:`load` takes.
        figures: As measured on the data.
        paper: As in the paper's tables; ``None`` for datasets that are not in them.
        origin: Where it comes from, in a word.
        file: Name of its file; ``None`` when it is generated.
        read: Makes the content from the file's path.
        generate: Makes the content from a number of graphs and ``seed=``.
        url: Where the file can be downloaded.
        descriptors: Structural columns that it gets unless the caller says otherwise.
        task: ``"graph"`` or ``"node"``.
        has_atoms: Nodes are atoms and columns are named by element.
        aliases: Other names, for example the paper's.
        edge_names: What the columns of ``edge_attr`` are called, where its source tells.
    """

    name: str
    figures: Figures
    paper: Figures | None
    origin: str
    file: str | None = None
    read: Callable[[Path], Content] | None = None
    generate: Callable[..., Content] | None = None
    url: str | None = None
    descriptors: tuple[str, ...] = ()
    task: Task = "graph"
    has_atoms: bool = False
    aliases: tuple[str, ...] = ()
    edge_names: tuple[str, ...] = ()

    def present(self, root: str | os.PathLike[str] | None = None) -> bool:
        """Whether it can be loaded without a download; generated ones always can.

        Args:
            root: The caller's own folder, looked in first.
        """
        if self.file is None:
            return True
        found = local_file(self.file, root)
        return found is not None and ".no-edges." not in found.name


def _tu(
    spec: TUSpec,
    figures: Figures,
    paper: Figures | None = None,
    *,
    name: str | None = None,
    descriptors: tuple[str, ...] = (),
    has_atoms: bool = False,
    aliases: tuple[str, ...] = (),
    edge_names: tuple[str, ...] = (),
) -> Entry:
    return Entry(
        name=name or spec.name,
        figures=figures,
        paper=paper,
        origin="TU",
        file=f"{spec.name}.zip",
        read=partial(read_tu_set, spec=spec),
        url=f"{TU_URL}/{spec.name}.zip",
        descriptors=descriptors,
        task="node" if spec.node_labels == "target" else "graph",
        has_atoms=has_atoms,
        aliases=aliases,
        edge_names=edge_names,
    )


def _made(
    name: str,
    generate: Callable[..., Content],
    figures: Figures,
    paper: Figures | None = None,
    *,
    descriptors: tuple[str, ...] = DESCRIPTORS,
    task: Task = "graph",
    aliases: tuple[str, ...] = (),
) -> Entry:
    return Entry(
        name=name,
        figures=figures,
        paper=paper,
        origin="generated",
        generate=generate,
        descriptors=descriptors,
        task=task,
        aliases=aliases,
    )


def _anchor(name: str, file: str, labels: tuple[str, ...], figures: Figures) -> Entry:
    return Entry(name, figures, None, "released", file, read=partial(read_anchor, label_names=labels), task="node")


_FINGERS = ("L", "TR", "A", "TA", "W", "R", "T", "WR", "TL", "LT", "AT", "RT", "WL", "RW", "AR")
_TWITTER = "TWITTER-Real-Graph-Partial"
# fmt: off
_TABLE = (
    _tu(TUSpec("MUTAG", ("non-mutagenic", "mutagenic"), node_labels="onehot", symbols=MUTAG_SYMBOLS),
        Figures(188, 2, 17.93, 19.79, 0), Figures(188, 2, 17.93, 19.79, 0), has_atoms=True,
        edge_names=("aromatic", "single", "double", "triple")),
    _tu(TUSpec("BZR", attributes=("",) * 3, node_labels="onehot"),
        Figures(405, 2, 35.75, 38.36, 3), Figures(405, 2, 35.75, 38.36, 3)),
    _tu(TUSpec("COX2", attributes=("",) * 3, node_labels="onehot"),
        Figures(467, 2, 41.22, 43.45, 3), Figures(467, 2, 41.22, 43.45, 3)),
    _tu(TUSpec("AIDS", ("active", "inactive"), ("chem", "charge", "x", "y"), node_labels="onehot",
               symbols=AIDS_SYMBOLS),
        Figures(2000, 2, 15.69, 16.20, 4), Figures(2000, 2, 15.69, 16.20, 4), has_atoms=True,
        edge_names=("single", "double", "triple")),
    Entry("BBBP", Figures(2039, 2, 24.06, 25.95, 3), Figures(2039, 2, 25.95, 24.06, 0), "MoleculeNet", "BBBP.csv",
          read=read_bbbp, has_atoms=True, edge_names=("single", "double", "triple", "aromatic")),
    _tu(TUSpec("ENZYMES", tuple(f"EC {k}" for k in range(1, 7)), ("",) * 18, node_labels="onehot"),
        Figures(600, 6, 32.63, 62.14, 18), Figures(600, 6, 32.63, 62.14, 18)),
    _tu(TUSpec("PROTEINS", ("enzyme", "non-enzyme"), ("",), node_labels="onehot"),
        Figures(1113, 2, 39.06, 72.82, 1)),
    _tu(TUSpec("PROTEINS_full", ("enzyme", "non-enzyme"), ("",) * 29, node_labels="onehot"),
        Figures(1113, 2, 39.06, 72.82, 29), Figures(1113, 2, 39.06, 72.82, 29)),
    _tu(TUSpec("Fingerprint", _FINGERS, ("x", "y")),
        Figures(2149, 15, 7.06, 5.76, 2), Figures(2149, 15, 7.06, 5.76, 2)),
    _tu(TUSpec("COLLAB"),
        Figures(5000, 3, 74.49, 2457.22, 0), Figures(5000, 3, 74.49, 2457.78, 0), descriptors=DESCRIPTORS),
    _tu(TUSpec("COLORS-3", attributes=("red", "green", "blue", "extra"), drop=1),
        Figures(10500, 11, 61.31, 91.03, 4), Figures(10500, 11, 61.31, 91.03, 4), aliases=("COLOR-3",)),
    _tu(TUSpec("TRIANGLES"),
        Figures(45000, 10, 20.85, 32.74, 0), Figures(45000, 10, 20.85, 32.74, 0),
        descriptors=(*DEGREES, *DESCRIPTORS)),
    _tu(TUSpec("MSRC_21", node_labels="onehot"),
        Figures(563, 20, 77.52, 198.32, 0), Figures(563, 20, 77.52, 198.32, 0), aliases=("MSRC",)),
    _tu(TUSpec("DBLP_v1", node_labels="onehot"),
        Figures(19456, 2, 10.48, 19.65, 0), Figures(19456, 2, 10.48, 19.65, 0), aliases=("DBLP",)),
    _tu(TUSpec("IMDB-BINARY"),
        Figures(1000, 2, 19.77, 96.53, 0), Figures(1000, 2, 19.77, 96.53, 0), descriptors=DESCRIPTORS,
        aliases=("IMDB",)),
    _tu(TUSpec(_TWITTER, node_labels="onehot"),
        Figures(144033, 2, 4.03, None, 0), Figures(144033, 2, 4.03, 4.98, 0), aliases=("TWITTER",)),
    _made("Tree-Cycles", partial(make_motifs, "Tree-Cycles"),
          Figures(5000, 2, 28.0, 27.75, 0), Figures(5000, 2, 28.0, 27.75, 0), aliases=("TCR",)),
    _made("Tree-Grid", partial(make_motifs, "Tree-Grid"),
          Figures(5000, 2, 64.0, 65.01, 0), Figures(5000, 2, 64.0, 65.01, 1), aliases=("TG",)),
    _made("BAShapes", partial(make_motifs, "BAShapes"),
          Figures(5000, 2, 64.0, 64.01, 0), Figures(5000, 2, 64.0, 64.01, 4), aliases=("BAS",)),
    _made("COLORS-3-generated", make_colors, Figures(10500, 11, 61.57, 92.15, 4), descriptors=()),
    _made("TRIANGLES-generated", make_triangles, Figures(45000, 10, 20.86, 32.76, 0),
          descriptors=(*DEGREES, *DESCRIPTORS)),
    _made("BAS-node", partial(make_motifs, "BAShapes", node_task=True),
          Figures(5000, 2, 64.0, 64.01, 0), Figures(classes=2), task="node", aliases=("BAShapes-node",)),
    _tu(TUSpec("BZR", attributes=("",) * 3, node_labels="target"),
        Figures(405, 10, 35.75, 38.36, 3), Figures(classes=10), name="BZR-node", descriptors=DESCRIPTORS),
    _tu(TUSpec("ENZYMES", attributes=("",) * 18, node_labels="target"),
        Figures(600, 3, 32.63, 62.14, 18), Figures(classes=3), name="ENZYMES-node", descriptors=DESCRIPTORS),
    _tu(TUSpec("MSRC_21", node_labels="target"),
        Figures(563, 22, 77.52, 198.32, 0), Figures(classes=22), name="MSRC_21-node", descriptors=DESCRIPTORS,
        aliases=("MSRC-node",)),
    _tu(TUSpec(_TWITTER, node_labels="target"),
        Figures(144033, 1323, 4.03, None, 0), Figures(classes=1323), name="TWITTER-node", descriptors=DESCRIPTORS),
    _anchor("node-tree-cycles", "tree_cycles.npz", ("tree", "cycle"), Figures(1, 2, 871.0, 970.0, 10)),
    _anchor("node-tree-grid", "tree_grid.npz", ("tree", "grid"), Figures(1, 2, 1231.0, 1705.0, 10)),
    _anchor("node-ba-shapes", "ba_shapes.npz", ("base", "middle", "bottom", "top"),
            Figures(1, 4, 700.0, 1979.0, 10)),
)
# fmt: on
REGISTRY: dict[str, Entry] = {entry.name: entry for entry in _TABLE}


def available() -> tuple[str, ...]:
    """Names that :func:`load` takes.

    Returns:
        The names, without aliases.

    Example:
        >>> available()[:3]
        ('MUTAG', 'BZR', 'COX2')
    """
    return tuple(REGISTRY)


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    limit: int | None = None,
    descriptors: Sequence[str] | None = None,
) -> GraphDataset:
    """Load or generate a dataset.

    What has been made once is kept in the cache folder; a dataset from a file is taken from there only while the file
    is the same.

    Args:
        name: One of :func:`available`, or an alias such as the paper's ``"TCR"``; in any case.
        root: Folder that holds the dataset's file. After it ``$COUNTEREDGE_DATA``, ``../shared/data`` beside a
            checkout and the cache folder are looked in, then a TU zip is downloaded.
        seed: Seed of generated datasets.
        limit: Give only the first graphs. Graph ``i`` is the same whatever the limit.
        descriptors: Structural columns to append to ``x``, see :func:`counteredge.descriptors.compute`; ``None`` for
            the dataset's own choice, ``()`` for none. A dataset that then has no column at all gets a column of ones.

    Returns:
        The dataset.

    Raises:
        InputError: When the name or a descriptor is unknown, or the limit negative.
        DataError: When the file is missing, damaged or not the known one.
        CapabilityError: When the dataset needs a package that is not installed.

    Example:
        >>> data = load("tree-cycles", limit=4, descriptors=["degree"])
        >>> len(data), data.label_names, data.schema.names
        (4, ('tree', 'cycle'), ('degree',))
    """
    if limit is not None and limit < 0:
        raise InputError(f"limit must be 0 or more, got {limit}")
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}")
    entry = REGISTRY[canonical(name)]
    names = descriptor_names(entry.descriptors if descriptors is None else descriptors)
    content = _from_file(entry, root, limit, names) if entry.file else _generated(entry, seed, limit, names)
    return GraphDataset(
        name=entry.name,
        graphs=content.graphs,
        schema=FeatureSchema(content.columns, entry.edge_names),
        num_classes=len(content.label_names),
        label_names=content.label_names,
        has_atoms=entry.has_atoms,
        source="file" if entry.file else "generated",
        task=entry.task,
    )


def _from_file(
    entry: Entry, root: str | os.PathLike[str] | None, limit: int | None, descriptors: tuple[str, ...]
) -> Content:
    path = find_file(str(entry.file), root, url=entry.url)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    kept = cache_path(entry.name, source=digest, descriptors=descriptors)
    read = entry.read
    assert read is not None  # noqa: S101 - every entry with a file has a reader
    return _kept(kept, limit, lambda: _described(read(path), descriptors))


def _generated(entry: Entry, seed: int, limit: int | None, descriptors: tuple[str, ...]) -> Content:
    whole = entry.figures.graphs or 0
    count = whole if limit is None else min(limit, whole)
    generate = entry.generate
    assert generate is not None  # noqa: S101 - every entry without a file has a generator
    if count < whole:  # a few graphs are made faster than all
        return _described(generate(count, seed=seed), descriptors)
    kept = cache_path(entry.name, seed=seed, descriptors=descriptors)
    return _kept(kept, None, lambda: _described(generate(count, seed=seed), descriptors))


def _kept(path: Path, limit: int | None, make: Callable[[], Content]) -> Content:
    """From the cache, or made and put there."""
    found = read_graphs(path, limit)
    if found is not None:
        graphs, about = found
        return Content(graphs, FeatureSchema.from_dict(about["columns"]).columns, tuple(about["label_names"]))
    content = make()
    about = {"columns": FeatureSchema(content.columns).to_dict(), "label_names": content.label_names}
    write_graphs(path, content.graphs, about)
    return content._replace(graphs=content.graphs[:limit])


def _described(content: Content, descriptors: tuple[str, ...]) -> Content:
    """The content with structural columns; with a column of ones when it would have none at all."""
    if descriptors:
        graphs = append_descriptors(content.graphs, descriptors)
        return Content(graphs, (*content.columns, *descriptor_columns(descriptors)), content.label_names)
    if content.columns:
        return content
    graphs = [Data(x=torch.ones(int(g.num_nodes or 0), 1), edge_index=g.edge_index, y=g.y) for g in content.graphs]
    return Content(graphs, (Column("fixed"),), content.label_names)


def canonical(name: str) -> str:
    """The registered name of a dataset.

    Args:
        name: That name or an alias, in any case.

    Raises:
        InputError: When there is no such dataset.

    Example:
        >>> canonical("tcr")
        'Tree-Cycles'
    """
    known = {n.lower(): n for n in REGISTRY}
    known |= {alias.lower(): entry.name for entry in _TABLE for alias in entry.aliases}
    if name.lower() in known:
        return known[name.lower()]
    raise unknown("dataset", name, REGISTRY, others=(alias for entry in _TABLE for alias in entry.aliases))

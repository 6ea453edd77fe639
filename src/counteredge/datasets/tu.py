"""Graphs of the TU collection: tables of numbers become PyG graphs.

Morris et al., TUDataset: A collection of benchmark datasets for learning with graphs, 2020.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from counteredge.datasets.tu_zip import read_numbers
from counteredge.errors import DataError

__all__ = ["Tables", "onehot", "read_tables", "read_tu"]

MAX_DENSE = 4 << 30  # bytes of a one-hot matrix

Floats = NDArray[np.float32]
Ints = NDArray[Any]


@dataclass(frozen=True)
class Tables:
    """A TU dataset as checked tables; node and edge rows of a graph lie together.

    Args:
        name: Name of the dataset.
        labels: Label of each graph as in the file (a graph attribute where the file has no labels).
        node_at: Graph ``i`` has the node rows ``node_at[i]`` to ``node_at[i + 1]``.
        edge_at: Likewise for edges.
        edges: Row and column of every directed edge, counted from 0 within its graph; sorted, without self-loops
            and repeats.
        node_attributes: One row a node, or ``None``.
        node_labels: One row a node, or ``None``.
        edge_attr: Edge attributes, then one-hot edge labels, or ``None``.

    Shapes:
        labels ``(G,)``, node_at and edge_at ``(G + 1,)``, edges ``(E, 2)``, node_attributes ``(N, a)`` float32,
        node_labels ``(N, k)``, edge_attr ``(E, d)`` float32.
    """

    name: str
    labels: Ints
    node_at: Ints
    edge_at: Ints
    edges: Ints
    node_attributes: Floats | None
    node_labels: Ints | None
    edge_attr: Floats | None

    def graphs(self, x: Tensor | None, y: Tensor, *, node_task: bool = False) -> list[Data]:
        """One ``Data`` a graph, each with tensors of its own.

        Args:
            x: Features of all nodes; stored in a small integer type or as float32.
            y: Class of each graph, or of each node.
            node_task: ``y`` is per node.

        Returns:
            Graphs in file order, also those without nodes.

        Shapes:
            x ``(N, f)``; y ``(G,)``, or ``(N,)`` for a node task.
        """
        graphs = []
        edge_attr = None if self.edge_attr is None else torch.from_numpy(self.edge_attr)
        nodes, edges = self.node_at.tolist(), self.edge_at.tolist()
        for i in range(len(self.labels)):
            first, last, low, high = nodes[i], nodes[i + 1], edges[i], edges[i + 1]
            fields: dict[str, Any] = {"num_nodes": last - first}
            if x is not None:
                fields = {"x": x[first:last].to(torch.float32, copy=True)}
            pairs = np.array(self.edges[low:high].T, dtype=np.int64, order="C")
            fields["edge_index"] = torch.from_numpy(pairs)
            if edge_attr is not None:
                fields["edge_attr"] = edge_attr[low:high].clone()
            fields["y"] = (y[first:last] if node_task else y[i : i + 1]).clone()
            graphs.append(Data(**fields))
        return graphs


def read_tu(path: str | os.PathLike[str], name: str, *, node_labels: bool = True) -> list[Data]:
    """Read all graphs of a TU zip, as PyG does.

    Args:
        path: The zip, with members ``NAME/NAME_A.txt`` and so on (any folder).
        name: Name of the dataset. When its hash is known the data are checked against it first.
        node_labels: Leave the one-hot node labels out with ``False`` (DBLP_v1 has 41325 of them).

    Returns:
        Graphs in file order, also those without nodes. ``x`` is the node attributes, then the one-hot node
        labels (absent when the zip has neither); ``edge_index`` is sorted, without self-loops and repeats (of
        equal edges the first stays); ``edge_attr`` likewise, when present; ``y`` are classes from 0 in the
        order of the file's labels, or of ``graph_attributes`` when there are no labels.

    Shapes:
        x ``(n, f)`` float32, edge_index ``(2, E)`` long, edge_attr ``(E, d)`` float32, y ``(1,)`` long.

    Raises:
        DataError: When the zip is missing, damaged, unsafe, not the known one, or inconsistent.
    """
    tables = read_tables(path, name, skip=() if node_labels else ("node_labels",))
    blocks = [] if tables.node_attributes is None else [tables.node_attributes]
    if tables.node_labels is not None:
        blocks += _dense(tables.node_labels, f"{name}: one-hot node labels")
    x = torch.from_numpy(np.concatenate(blocks, axis=1)) if blocks else None
    y = np.unique(tables.labels, return_inverse=True)[1].astype(np.int64)
    return tables.graphs(x, torch.from_numpy(y))


def read_tables(path: str | os.PathLike[str], name: str, *, skip: Collection[str] = ()) -> Tables:
    """Read a TU zip and check that its members fit together.

    Args:
        path: The zip.
        name: Name of the dataset.
        skip: Parts that are not parsed, for example ``"node_labels"``.

    Returns:
        The tables.

    Raises:
        DataError: When the zip is missing, damaged, unsafe, not the known one, or inconsistent.
    """
    numbers = read_numbers(path, name, skip=skip)
    labels = (numbers["graph_labels"] if "graph_labels" in numbers else numbers["graph_attributes"])[:, 0]
    owner, edges = numbers["graph_indicator"][:, 0] - 1, numbers.pop("A")
    edges -= 1
    _check(numbers, name, owner, edges, len(labels))

    places = np.arange(len(labels) + 1)
    node_at = np.searchsorted(owner, places)
    kept = np.flatnonzero(edges[:, 0] != edges[:, 1])
    key = edges[kept, 0] * np.int64(len(owner)) + edges[kept, 1]
    if (key[1:] <= key[:-1]).any():
        # np.unique gives the first place of each key, in the order of the keys: by row, then column
        kept = kept[np.unique(key, return_index=True)[1]]
    del key
    edges = edges[kept]
    edge_owner = owner[edges[:, 0]]
    edges -= node_at[edge_owner].astype(edges.dtype)[:, None]
    edge_attr = _edge_columns(numbers, name)
    attributes = numbers.get("node_attributes")
    return Tables(
        name=name,
        labels=labels,
        node_at=node_at,
        edge_at=np.searchsorted(edge_owner, places),
        edges=edges,
        node_attributes=None if attributes is None else attributes.astype(np.float32),
        node_labels=numbers.get("node_labels"),
        edge_attr=None if edge_attr is None else edge_attr[kept],
    )


def onehot(codes: Ints, width: int) -> NDArray[np.uint8]:
    """One-hot rows in bytes.

    Args:
        codes: Category of each row, from 0.
        width: Number of categories.

    Returns:
        The rows.

    Shapes:
        codes ``(N,)``, returns ``(N, width)``.

    Example:
        >>> onehot(np.array([1, 0]), 3).tolist()
        [[0, 1, 0], [1, 0, 0]]
    """
    rows = np.zeros((len(codes), width), np.uint8)
    rows[np.arange(len(codes)), codes] = 1
    return rows


def _check(numbers: dict[str, Ints], name: str, owner: Ints, edges: Ints, graphs: int) -> None:
    rows = {"node": len(owner), "edge": len(edges), "graph": graphs}
    for part, values in numbers.items():
        expected = len(values) if part == "graph_indicator" else rows[part.split("_")[0]]
        if len(values) != expected:
            raise DataError(f"{name}_{part}.txt has {len(values)} lines, expected {expected}")
    if edges.shape[1] != 2 or not len(owner):
        raise DataError(f"{name}: need two node numbers a line in _A.txt and at least one node")
    if (np.diff(owner) < 0).any() or owner[0] < 0 or owner[-1] >= graphs:
        raise DataError(f"{name}_graph_indicator.txt: graph numbers must rise from 1 to at most {graphs}")
    if len(edges) and (edges.min() < 0 or edges.max() >= len(owner)):
        raise DataError(f"{name}_A.txt: node numbers must be 1 to {len(owner)}")
    if (owner[edges[:, 0]] != owner[edges[:, 1]]).any():
        raise DataError(f"{name}_A.txt: an edge joins two graphs")


def _edge_columns(numbers: dict[str, Ints], name: str) -> Floats | None:
    """Edge attributes, then one-hot edge labels; None when the files have neither."""
    blocks: list[Floats] = []
    if "edge_attributes" in numbers:
        blocks.append(numbers["edge_attributes"].astype(np.float32))
    if "edge_labels" in numbers:
        blocks += _dense(numbers["edge_labels"], f"{name}: one-hot edge labels")
    return np.concatenate(blocks, axis=1) if blocks else None


def _dense(labels: Ints, what: str) -> list[Floats]:
    """A one-hot block for each column of labels, one column for every number from the smallest to the largest."""
    blocks = []
    for column in labels.T:
        codes = column - column.min()
        width = int(codes.max()) + 1
        if 4 * width * len(codes) > MAX_DENSE:
            raise DataError(
                f"{what} would take {4 * width * len(codes) / 2**30:.0f} GiB ({len(codes)} rows, {width} labels); "
                "read it with node_labels=False"
            )
        blocks.append(onehot(codes, width).astype(np.float32))
    return blocks

"""What every dataset gives: graphs, and what their columns and classes mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch_geometric.data import Data

from counteredge.schema import Column, FeatureSchema

__all__ = ["Content", "Figures", "GraphDataset", "Source", "Task"]

Source = Literal["file", "generated"]
Task = Literal["graph", "node"]


class Content(NamedTuple):
    """What a reader or a generator makes, before descriptors are appended."""

    graphs: list[Data]
    columns: tuple[Column, ...]
    label_names: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """The figures by which datasets are compared; ``None`` where one is not given.

    Args:
        graphs: Number of graphs.
        classes: Number of classes, of nodes for a node task.
        nodes: Nodes a graph, on average.
        edges: Undirected edges a graph, on average.
        attributes: Columns of ``x`` that are neither one-hot labels nor derived from the edges.
    """

    graphs: int | None = None
    classes: int | None = None
    nodes: float | None = None
    edges: float | None = None
    attributes: int | None = None


@dataclass(frozen=True)
class GraphDataset:
    """Graphs with one class each, or one class a node.

    Args:
        name: Name in the registry.
        graphs: PyG graphs with ``x``, ``edge_index`` and ``y``: of shape ``(1,)``, or ``(n,)`` for a node task.
        schema: The meaning of the columns of ``x``.
        num_classes: Number of classes.
        label_names: Name of each class, in the order of ``y``.
        has_atoms: Nodes are atoms and columns of ``x`` are named by element.
        source: ``"file"`` or ``"generated"``.
        task: ``"graph"`` or ``"node"``: what has a class.
    """

    name: str
    graphs: list[Data]
    schema: FeatureSchema
    num_classes: int
    label_names: tuple[str, ...]
    has_atoms: bool
    source: Source
    task: Task = "graph"

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> Data:
        return self.graphs[index]

    def __iter__(self) -> Iterator[Data]:
        return iter(self.graphs)

    def figures(self) -> Figures:
        """Measure what the table of datasets records.

        Returns:
            Counts, and averages rounded to two decimals.

        Example:
            >>> from counteredge.datasets import tree_cycles
            >>> tree_cycles(2).figures().nodes
            28.0
        """
        count = max(len(self.graphs), 1)
        return Figures(
            graphs=len(self.graphs),
            classes=self.num_classes,
            nodes=round(sum(g.x.shape[0] for g in self.graphs) / count, 2),
            edges=round(sum(g.edge_index.shape[1] for g in self.graphs) / 2 / count, 2),
            attributes=sum(c.kind not in ("onehot", "structural") for c in self.schema.columns),
        )

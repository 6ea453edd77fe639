"""What every dataset gives: graphs, and what their columns and classes mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch_geometric.data import Data

from counteredge.schema import FeatureSchema

__all__ = ["GraphDataset"]


@dataclass(frozen=True)
class GraphDataset:
    """Graphs with one class each.

    Args:
        name: Name in the registry.
        graphs: PyG graphs with ``x``, ``edge_index`` and ``y`` of shape ``(1,)``.
        schema: The meaning of the columns of ``x``.
        num_classes: Number of classes.
        label_names: Name of each class, in the order of ``y``.
        has_atoms: Nodes are atoms and the columns of ``x`` are named by element.
        source: ``"file"`` or ``"generated"``.
    """

    name: str
    graphs: list[Data]
    schema: FeatureSchema
    num_classes: int
    label_names: tuple[str, ...]
    has_atoms: bool
    source: Literal["file", "generated"]

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> Data:
        return self.graphs[index]

    def __iter__(self) -> Iterator[Data]:
        return iter(self.graphs)

"""Graph and node classification datasets by name, each with the meaning of its feature columns."""

from counteredge.datasets.dataset import Figures, GraphDataset
from counteredge.datasets.generators import tree_cycles
from counteredge.datasets.registry import available, load

__all__ = ["Figures", "GraphDataset", "available", "load", "tree_cycles"]

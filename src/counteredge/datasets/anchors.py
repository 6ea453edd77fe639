"""The node-classification graphs released with counterfactual explainers: one graph each, with split masks."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from counteredge.datasets.dataset import Content
from counteredge.datasets.tu_sets import attribute_columns
from counteredge.errors import DataError

__all__ = ["KNOWN_ANCHORS", "read_anchor"]

KNOWN_ANCHORS: dict[str, str] = {
    "tree_cycles.npz": "9fc020d7b96a94039b1cb40439da15e4c9c6d9f58fa2b5dcabd0c90fb322a7ee",
    "tree_grid.npz": "0e04e96d8c16e9ae9aa5fd4f57292f7ef2e0f40f3d298c746c53850ba8c61133",
    "ba_shapes.npz": "88388a4e3cb6a5cc90c310db176132789c99076a05ec850486bd2206d956d697",
}
_FIELDS = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")


def read_anchor(path: str | os.PathLike[str], label_names: tuple[str, ...]) -> Content:
    """Read a released graph from its arrays; pickled objects in the file are refused.

    Args:
        path: The ``.npz``; when its name is a known one its digest is checked first.
        label_names: Names of the node classes.

    Returns:
        One graph with ``x``, ``edge_index``, ``y`` and the three split masks.

    Shapes:
        x ``(n, f)``, edge_index ``(2, E)``, y and masks ``(n,)``.

    Raises:
        DataError: When the file is missing, damaged or not the known one.
    """
    try:
        raw = Path(path).read_bytes()
        expected = KNOWN_ANCHORS.get(Path(path).name)
        if expected is not None and (got := hashlib.sha256(raw).hexdigest()) != expected:
            raise DataError(f"{path} is not the known file: its SHA-256 is {got}, expected {expected}")
        with np.load(path, allow_pickle=False) as arrays:
            fields = {name: torch.from_numpy(arrays[name]) for name in _FIELDS}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as a released node graph: {error}") from error
    x, y, edge_index = fields["x"].float(), fields["y"].long(), fields["edge_index"].long()
    nodes = x.shape[0] if x.dim() == 2 else -1
    rows = [y, *(fields[name] for name in _FIELDS[3:])]
    if any(t.shape != (nodes,) for t in rows) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise DataError(f"{path}: x, y, edge_index and masks do not fit together")
    ranges = ((y, len(label_names)), (edge_index, nodes))
    if any(int(t.min()) < 0 or int(t.max()) >= end for t, end in ranges):
        raise DataError(f"{path}: a label or a node number is out of range")
    graph = Data(x=x, edge_index=edge_index, y=y, **{name: fields[name].bool() for name in _FIELDS[3:]})
    return Content([graph], tuple(attribute_columns(x, [""] * x.shape[1])), label_names)

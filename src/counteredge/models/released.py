"""Oracles that others have released with their explainers: node classifiers on three synthetic graphs."""

from __future__ import annotations

import os
import zipfile
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from counteredge.errors import DataError, InputError

__all__ = ["ReleasedGCN", "released_oracle"]


class ReleasedGCN(nn.Module):
    """Three graph convolutions and a linear head, as two papers had them.

    ``"cfgnn"`` (Lucic et al., AISTATS 2022): width 20, symmetric normalisation, ReLU after the first two layers, the
    outputs of all three side by side. ``"c2"`` (Ma et al., FAccT 2025): widths 100, 100, 20, no normalisation, ReLU
    after the first two layers, the last output. Read that way they are 96 to 100 % accurate on their graphs; with a
    third ReLU the one of BA-Shapes is 33 %.

    Shapes:
        x ``(n, f)``, edge_index ``(2, E)``, edge_weight ``(E,)``; returns ``(n, C)``.
    """

    def __init__(self, kind: Literal["cfgnn", "c2"], features: int, classes: int) -> None:
        super().__init__()
        self.side_by_side = kind == "cfgnn"
        widths = (features, 20, 20, 20) if self.side_by_side else (features, 100, 100, 20)
        self.convs = nn.ModuleList(GCNConv(a, b, normalize=self.side_by_side) for a, b in pairwise(widths))
        self.lin = nn.Linear(60 if self.side_by_side else 20, classes)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits of every node."""
        layers = []
        for k, conv in enumerate(self.convs):
            x = conv(x, edge_index, edge_weight)
            if k < 2:
                x = x.relu()
            layers.append(x)
        return torch.as_tensor(self.lin(torch.cat(layers, 1) if self.side_by_side else x))


def released_oracle(path: str | os.PathLike[str], kind: Literal["cfgnn", "c2"]) -> ReleasedGCN:
    """The released model of a node graph, in eval mode.

    Args:
        path: The ``.npz`` of ``node-tree-cycles``, ``node-tree-grid`` or ``node-ba-shapes``; the weights lie beside the
            graph. ``counteredge.datasets.files.find_file`` finds it.
        kind: ``"cfgnn"`` or ``"c2"``.

    Raises:
        DataError: When the file is missing, damaged or holds no such weights.
        InputError: For other kinds.
    """
    if kind not in ("cfgnn", "c2"):
        raise InputError(f"kind={kind!r} is unknown; use 'cfgnn' or 'c2'")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            prefix = f"{kind}_gcn."
            weights = {k.removeprefix(prefix): torch.from_numpy(arrays[k]) for k in arrays if k.startswith(prefix)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    state: dict[str, Tensor] = {}
    for key, value in weights.items():
        layer, _, rest = key.partition(".")
        if layer == "lin":
            state[key] = value
        elif kind == "cfgnn":  # a plain matrix that is multiplied from the right
            own = f"convs.{int(layer.removeprefix('gc')) - 1}."
            state[own + ("lin.weight" if rest == "weight" else rest)] = value.t() if rest == "weight" else value
        else:
            state[f"convs.{int(layer.removeprefix('conv')) - 1}.{rest}"] = value
    first = state.get("convs.0.lin.weight")
    if first is None or "lin.bias" not in state:
        raise DataError(f"{path} holds no {kind!r} weights")
    model = ReleasedGCN(kind, first.shape[1], len(state["lin.bias"]))
    model.load_state_dict(state)
    return model.eval()

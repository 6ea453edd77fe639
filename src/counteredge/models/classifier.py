"""A plain graph or node classifier: convolutions, one pooling (none for nodes), dense layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

from counteredge.errors import InputError

__all__ = ["Conv", "GraphClassifier", "Pool", "Task"]

Conv = Literal["gcn", "gin", "sage", "graph", "gat", "gatv2", "transformer"]
Pool = Literal["mean", "add", "max"]
Task = Literal["graph", "node"]
_CONVS = {
    "gcn": GCNConv,
    "sage": SAGEConv,
    "graph": GraphConv,
    "gat": GATConv,
    "gatv2": GATv2Conv,
    "transformer": TransformerConv,
}
_POOLS = {"mean": global_mean_pool, "add": global_add_pool, "max": global_max_pool}
_WEIGHTED = ("gcn", "graph")


def _conv(kind: Conv, width_in: int, width_out: int) -> nn.Module:
    if kind == "gin":
        return GINConv(nn.Sequential(nn.Linear(width_in, width_out), nn.ReLU(), nn.Linear(width_out, width_out)))
    conv: nn.Module = _CONVS[kind](width_in, width_out)
    return conv


class GraphClassifier(nn.Module):
    """Logits of a graph or of its nodes: ``dense(pool(conv(...conv((x - x_mean) / x_std))))``.

    Args:
        in_channels: Columns of ``x``.
        num_classes: Number of classes.
        conv: ``"gcn"``, ``"gin"``, ``"sage"``, ``"graph"`` (GraphConv, sum), ``"gat"``, ``"gatv2"`` or
            ``"transformer"``.
        layers: Number of convolutions.
        hidden: Width of every hidden layer.
        dense: Number of linear layers after the pooling.
        pool: ``"mean"``, ``"add"`` or ``"max"`` over the nodes.
        dropout: Probability, after every convolution but the last, in training only.
        task: ``"graph"``, or ``"node"``: no pooling, one row of logits a node.
        norm: Batch normalisation after every convolution.
        jump: The pooling sees the outputs of all convolutions side by side, not only the last.

    Shapes:
        x ``(n, in_channels)``, edge_index ``(2, E)``, edge_weight ``(E,)``, batch ``(n,)``; logits
        ``(B, num_classes)``, or ``(n, num_classes)`` for nodes.

    Raises:
        InputError: When an option is unknown or a size is not positive.

    Example:
        >>> model = GraphClassifier(3, 2, conv="gin", layers=2, hidden=8)
        >>> model(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([1, 2])
    """

    x_mean: Tensor
    x_std: Tensor

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv: Conv = "gcn",
        layers: int = 3,
        hidden: int = 64,
        dense: int = 1,
        pool: Pool = "mean",
        dropout: float = 0.0,
        task: Task = "graph",
        norm: bool = False,
        jump: bool = False,
    ) -> None:
        super().__init__()
        for key, value, known in (("conv", conv, Conv), ("pool", pool, Pool), ("task", task, Task)):
            if value not in get_args(known):
                raise InputError(f"{key} must be one of {', '.join(get_args(known))}; got {key}={value!r}")
        if min(in_channels, num_classes, layers, hidden, dense) < 1 or not 0 <= dropout < 1:
            raise InputError(
                "in_channels, num_classes, layers, hidden and dense must be 1 or more and dropout in [0, 1), "
                f"got {in_channels=}, {num_classes=}, {layers=}, {hidden=}, {dense=}, {dropout=}"
            )
        self.config: dict[str, Any] = {
            "in_channels": in_channels,
            "num_classes": num_classes,
            "conv": conv,
            "layers": layers,
            "hidden": hidden,
            "dense": dense,
            "pool": pool,
            "dropout": dropout,
            "task": task,
            "norm": norm,
            "jump": jump,
        }
        widths = [in_channels, *[hidden] * layers]
        self.convs = nn.ModuleList(_conv(conv, a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers if norm else 0))
        heads = [hidden * layers if jump else hidden, *[hidden] * (dense - 1), num_classes]
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(heads))
        self.register_buffer("x_mean", torch.zeros(in_channels))
        self.register_buffer("x_std", torch.ones(in_channels))

    def fit_scaler(self, x: Tensor) -> None:
        """Set mean and standard deviation of the input columns.

        0/1 columns and columns that never change stay as they are (mean 0, std 1): scaling would blow a rare
        atom type up to tens of standard deviations, and centring would wipe a constant column out.

        Args:
            x: Node features of the training graphs, ``(n, in_channels)``.
        """
        x = x.detach().to(self.x_mean)
        as_is = ((x == 0) | (x == 1)).all(0) | (x == x[:1]).all(0)
        self.x_mean.copy_(torch.where(as_is, 0.0, x.mean(0)))
        self.x_std.copy_(torch.where(as_is, 1.0, x.std(0, correction=0)))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Logits of every graph of the batch, or of every node.

        Args:
            x: Node features.
            edge_index: Both directions of every edge.
            edge_weight: Used by ``"gcn"`` and ``"graph"``; the other convolutions ignore it.
            batch: Graph of every node; None means one graph.

        Returns:
            Logits ``(B, num_classes)``, or ``(n, num_classes)`` for nodes.
        """
        h = (x - self.x_mean) / self.x_std
        weight = (edge_weight,) if self.config["conv"] in _WEIGHTED else ()
        outs = []
        for k, conv in enumerate(self.convs):
            if k:
                h = nn.functional.dropout(h, self.config["dropout"], self.training)
            h = conv(h, edge_index, *weight)
            h = (self.norms[k](h) if self.config["norm"] else h).relu()
            outs.append(h)
        if self.config["jump"]:
            h = torch.cat(outs, 1)
        if self.config["task"] == "graph":
            h = _POOLS[self.config["pool"]](h, batch)
        for k, layer in enumerate(self.dense):
            h = layer(h.relu() if k else h)
        return h

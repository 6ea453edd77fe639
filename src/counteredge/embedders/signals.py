"""Characteristic functions of node signals, and node features as such signals."""

from __future__ import annotations

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.stack import POINTS, GraphStack, waves
from counteredge.errors import InputError

__all__ = ["NodeSignals", "flag", "of_features"]

BLOCK = 1 << 25  # bytes of the cosines of those features that are looked at together


def flag(name: str, value: object) -> bool:
    """An option that is on or off, checked.

    Raises:
        InputError: When it is no bool.
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} is either True or False, got {value!r}")
    return value


def of_features(weights: Tensor, x: Tensor) -> Tensor:
    """Weighted sums over the nodes of ``cos(x_j theta)`` and ``sin(x_j theta)``.

    Args:
        weights: Weights of the nodes, several sets a graph.
        x: Node signals.

    Returns:
        For each set of weights all cosines (signal by signal, 25 points each), then all sines.

    Shapes:
        weights: ``(B, R, n)``; x: ``(B, n, f)``; returns ``(B, R, 50 f)``.
    """
    size, n, _ = x.shape
    step = max(1, BLOCK // (8 * 2 * POINTS * size * n))
    parts = [torch.bmm(weights, waves(part)) for part in torch.split(x, step, 2)]
    return torch.cat([p.reshape(size, weights.shape[1], 2, -1) for p in parts], 3).flatten(2)


class NodeSignals(StackEmbedder):
    """An embedder that can look at node features as further node signals.

    The columns of ``x`` are standardised with the mean and the standard deviation over all nodes of the graphs that
    the embedder was fitted on. A column that is constant there has no scale: it is only centred.

    Args:
        node_features: Whether features are looked at; the embedder then has to be fitted.
    """

    def __init__(self, node_features: bool = False) -> None:
        self.node_features = flag("node_features", node_features)
        self.needs_fit = node_features
        self.mean = torch.zeros(0, dtype=torch.float64)
        self.scale = torch.ones(0, dtype=torch.float64)

    @property
    def width(self) -> int:
        """Number of feature columns that are looked at."""
        if self.needs_fit and not self.fitted:
            raise InputError(f"{self.name} with node_features=True knows the number of features only after fit(graphs)")
        return len(self.mean)

    def _fit(self, graphs: SimpleGraphs, progress: bool | None) -> None:
        if not self.node_features:
            return
        self._complete(graphs)
        rows = [x for x in graphs.x if x is not None and len(x)]
        if not rows:
            raise InputError(f"{self.name} with node_features=True was fitted on graphs that all have no nodes")
        if len({x.shape[1] for x in rows}) > 1:
            k, x = next((k, x) for k, x in enumerate(graphs.x) if x is not None and x.shape[1] != rows[0].shape[1])
            raise InputError(f"graph {k} has {x.shape[1]} features a node, the graphs before it {rows[0].shape[1]}")
        every = torch.cat(rows)
        if not every.shape[1]:
            raise InputError(f"{self.name} with node_features=True was fitted on graphs whose x has no columns")
        spread = (every - every.mean(0)).square().mean(0).sqrt()
        constant = every.amin(0) == every.amax(0)
        # the mean of equal numbers may miss them by a rounding error
        self.mean = torch.where(constant, every[0], every.mean(0))
        self.scale = torch.where(constant, 1.0, spread)

    def _complete(self, graphs: SimpleGraphs) -> None:
        """Every node of every graph has finite features."""
        for k, (n, x) in enumerate(zip(graphs.nodes.tolist(), graphs.x, strict=True)):
            if x is None:
                raise InputError(f"graph {k} has no x, which {self.name} looks at with node_features=True")
            # a graph without nodes is read as one node, whose features nobody knows
            if len(x) != n and not (n == 1 and not len(x)):
                raise InputError(f"graph {k} has {n} nodes, but x has {len(x)} rows")
            if not bool(x.isfinite().all()):
                raise InputError(f"x of graph {k} holds nan or inf, which cannot be embedded")

    def check(self, graphs: SimpleGraphs) -> None:
        """All graphs have the features that the embedder was fitted on.

        Raises:
            InputError: When one has none, or others.
        """
        if not self.node_features:
            return
        self._complete(graphs)
        for k, x in enumerate(graphs.x):
            if x is not None and x.shape[1] != self.width:
                raise InputError(
                    f"graph {k} has {x.shape[1]} features a node, {self.name} was fitted on graphs with {self.width}"
                )

    def _with_features(self, default: Tensor, weights: Tensor, stack: GraphStack) -> Tensor:
        """The default numbers, then those of the features, ``(B, D + 50 R f)``."""
        if not self.node_features:
            return default
        if stack.x is None or stack.x.shape[2] != self.width:
            raise InputError(f"{self.name} needs {self.width} features at each node")
        # nan stands for a node that has no features: it is put at the mean
        x = ((stack.x - self.mean) / self.scale).nan_to_num(nan=0.0)
        return torch.cat([default, of_features(weights, x).flatten(1)], 1)

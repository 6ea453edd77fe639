"""Edge weights for models that have no dense twin: injected where a layer takes them, else masked into messages."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, MessagePassing, TransformerConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.utils import scatter, softmax

from counteredge.relax.flips import Flips

__all__ = ["EdgeWeights", "drops_nodes"]

ATTENTION = (GATConv, GATv2Conv, TransformerConv)


def drops_nodes(model: nn.Module) -> bool:
    """Whether the model holds a pooling layer that can change the graph between convolutions (TopK, SAG, ...)."""
    return any(type(m).__module__.startswith("torch_geometric.nn.pool") for m in model.modules())


class EdgeWeights:
    """Weighted evaluation on an edge list that contains absent pairs too, with weight 0.

    Layers whose ``forward`` takes ``edge_weight`` get it there (GCN, GraphConv, TAG, ...); in the others a message is
    multiplied by its weight, which is exact for plain sums (GIN, GINE). Means are renormalised by the sum of the
    weights, attention (GAT, GATv2, Transformer) by the attention that the weights leave over: ``m a / sum(m a)``.

    Args:
        model: The user's model.
        strict: Refuse layers that aggregate otherwise. If not, their gradients are differences that single edges make
            (see :class:`~counteredge.relax.flips.Flips`), and ``smooth`` is false.

    Raises:
        ValueError: When some layer aggregates otherwise (max, softmax, ...), or nodes are dropped between layers.
    """

    name = "weights"

    def __init__(self, model: nn.Module, *, strict: bool = True) -> None:
        self.convs = [m for m in model.modules() if isinstance(m, MessagePassing)]
        self.smooth = all(map(_plain, self.convs))
        if drops_nodes(model) or not self.convs or (strict and not self.smooth):
            raise ValueError("edge weights are exact for sum and mean aggregation only")

    @contextmanager
    def attached(self, weight: Tensor) -> Iterator[None]:
        """Within this block, every layer sees ``weight`` (one entry an edge of the list it is called with).

        Shapes:
            weight: ``(E,)``.
        """
        handles: list[Any] = []
        for conv in self.convs:
            if not _plain(conv):
                handles += Flips(conv, weight).attach()
                continue
            takes = "edge_weight" in inspect.signature(conv.forward).parameters
            if takes:
                handles.append(conv.register_forward_pre_hook(_inject(weight), with_kwargs=True))
            else:
                handles.append(conv.register_message_forward_hook(_mask(weight)))
            if type(conv) in ATTENTION:
                attention = _Attention(conv, weight)
                handles.append(conv.register_message_forward_hook(attention.keep))
                handles.append(conv.register_aggregate_forward_hook(attention.renormalise))
            if isinstance(conv.aggr_module, MeanAggregation):
                handles.append(conv.register_aggregate_forward_hook(_renormalise(weight)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _plain(conv: MessagePassing) -> bool:
    return type(conv.aggr_module) in (SumAggregation, MeanAggregation)


def _inject(weight: Tensor) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        bound = inspect.signature(module.forward).bind_partial(*args, **kwargs)
        bound.arguments["edge_weight"] = weight
        return bound.args, bound.kwargs

    return hook


def _mask(weight: Tensor) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        full = _extended(weight, output.shape[0])
        return output * full.view(-1, *[1] * (output.dim() - 1))

    return hook


class _Attention:
    """Attention over all listed pairs, made attention over the present ones."""

    def __init__(self, conv: MessagePassing, weight: Tensor) -> None:
        self.conv, self.weight = conv, weight
        self.alpha: Tensor | None = None

    def keep(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Note the attention of the messages that are being sent."""
        given = inputs[0]
        self.alpha = given["alpha"] if "alpha" in given else self._of_transformer(given)

    def _of_transformer(self, given: dict[str, Any]) -> Tensor:
        conv: Any = self.conv
        key = given["key_j"]
        if conv.lin_edge is not None:
            key = key + conv.lin_edge(given["edge_attr"]).view(key.shape)
        score = (given["query_i"] * key).sum(-1) / math.sqrt(conv.out_channels)
        attention: Tensor = softmax(score, given["index"], given["ptr"], given["size_i"])
        return attention

    def renormalise(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        """Divide by the attention that is left at each target."""
        if self.alpha is None:
            raise ValueError("messages were aggregated before they were sent")
        left = self.alpha * _extended(self.weight, len(self.alpha))[:, None]
        total = scatter(left, inputs[0]["index"], dim_size=output.shape[0], reduce="sum")
        return output / torch.where(total > 0, total, torch.ones_like(total))[..., None]


def _renormalise(weight: Tensor) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        index = inputs[0]["index"]
        full = _extended(weight, index.shape[0])
        count = scatter(torch.ones_like(full), index, dim_size=output.shape[0], reduce="sum")
        total = scatter(full, index, dim_size=output.shape[0], reduce="sum")
        return output * (count / total.clamp(min=1.0))[:, None]

    return hook


def _extended(weight: Tensor, messages: int) -> Tensor:
    """Self-loops that a layer appended itself are always present."""
    extra = messages - weight.shape[0]
    if extra < 0:
        raise ValueError(f"a layer sends {messages} messages over {weight.shape[0]} edges")
    return torch.cat([weight, weight.new_ones(extra)]) if extra else weight

"""What single edges do to an aggregation that no weight relaxes: max, softmax, standard deviations, several at once."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

__all__ = ["Flips"]

NUMBERS_AT_ONCE = 4_000_000  # what is aggregated in one go: bounds the memory


class Flips:
    """Hooks that put one layer's own aggregation over the present edges in place of one over all listed pairs.

    The values are those of the layer itself at weights that are zero or not. The derivative by a pair's weight is the
    difference that this one edge makes to the aggregation: each target's messages are aggregated once more with the
    absent message, or without the present one. That ranks edges; it is no relaxation, so nothing descends along it.

    Args:
        conv: The layer.
        weight: One entry an edge of the list that the layer is called with, ``(E,)``; 0 is absence.
    """

    def __init__(self, conv: MessagePassing, weight: Tensor) -> None:
        self.conv, self.weight = conv, weight
        self.messages: Tensor | None = None

    def attach(self) -> list[Any]:
        """Register the hooks; returns their handles."""
        return [
            self.conv.register_forward_pre_hook(self._as_if_present, with_kwargs=True),
            self.conv.register_message_forward_hook(self._keep),
            self.conv.register_aggregate_forward_hook(self._replace),
        ]

    def _as_if_present(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Where the model passes weights on, an absent pair's message is the one it would send: of weight 1."""
        bound = inspect.signature(module.forward).bind_partial(*args, **kwargs)
        given = bound.arguments.get("edge_weight")
        if given is not None:
            bound.arguments["edge_weight"] = torch.where(given == 0, torch.ones_like(given), given).detach()
        return bound.args, bound.kwargs

    def _keep(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        self.messages = output

    def _replace(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        messages, index = self.messages, inputs[0]["index"]
        extra = -1 if messages is None else len(messages) - len(self.weight)
        if messages is None or extra < 0 or len(messages) != len(index):
            raise ValueError(f"{type(self.conv).__name__} does not send one message an edge")
        # self-loops that the layer appended itself are always present
        weight = torch.cat([self.weight, self.weight.new_ones(extra)])
        now = weight.detach()
        there = now != 0
        out = self._aggregate(messages[there], index[there], output.shape[0])
        with torch.no_grad():
            change = self._changes(messages.detach(), index, there, out.detach())
        share = (weight - now) / torch.where(there, now, torch.ones_like(now))
        return out.index_add(0, index, change * _like(share, out))

    def _changes(self, messages: Tensor, index: Tensor, there: Tensor, out: Tensor) -> Tensor:
        """What each pair's edge adds to its target's aggregation, ``(E, ...)``."""
        order = there.nonzero().flatten()[torch.argsort(index[there], stable=True)]
        count = torch.bincount(index[order], minlength=out.shape[0])
        first = count.cumsum(0) - count
        each = int(count.max()) * messages[:1].numel() if len(messages) else 0
        step = max(1, NUMBERS_AT_ONCE // max(1, each))
        parts = [out[:0]]
        for start in range(0, len(index), step):
            pairs = torch.arange(start, min(start + step, len(index)), device=index.device)
            # beside every pair, all present messages of its target but its own
            repeats = count[index[pairs]]
            row = torch.repeat_interleave(pairs - start, repeats)
            within = torch.arange(len(row), device=index.device) - (repeats.cumsum(0) - repeats)[row]
            message = order[first[index[pairs[row]]] + within]
            other = message != pairs[row]
            absent = (~there[pairs]).nonzero().flatten()
            row, message = torch.cat([row[other], absent]), torch.cat([message[other], pairs[absent]])
            by_row = torch.argsort(row, stable=True)
            flipped = self._aggregate(messages[message[by_row]], row[by_row], len(pairs))
            parts.append(
                torch.where(_like(there[pairs], out), out[index[pairs]] - flipped, flipped - out[index[pairs]])
            )
        return torch.cat(parts)

    def _aggregate(self, messages: Tensor, index: Tensor, size: int) -> Tensor:
        aggregated: Tensor = self.conv.aggr_module(messages, index, dim_size=size, dim=0)
        return aggregated


def _like(rows: Tensor, values: Tensor) -> Tensor:
    """One number a row, in the shape that spreads over values of ``(E, ...)``."""
    return rows.view(-1, *[1] * (values.dim() - 1))

"""The dense twin: the user's own forward pass with every graph convolution computed on a dense adjacency.

The model's ``forward`` runs on all node rows with an *empty* edge list; at each convolution's ``propagate`` a hook puts
in what the convolution would have gathered from a dense ``(K, n, n)`` adjacency. Activations, normalisation, jumping
connections, pooling and heads are the user's own code, so nothing about the architecture is guessed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GraphConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from counteredge.relax.weights import drops_nodes

__all__ = ["DenseTwin"]


def _understood(conv: MessagePassing) -> bool:
    if type(conv) not in (GCNConv, GINConv, GraphConv, SAGEConv):
        return False
    return type(conv.aggr_module) in (SumAggregation, MeanAggregation)


class DenseTwin:
    """Dense evaluation of models built from GCN, GIN, GraphConv and SAGE layers with sum or mean aggregation.

    Args:
        model: The user's model.

    Raises:
        ValueError: When some message-passing layer is not understood.
    """

    name = "dense"

    def __init__(self, model: nn.Module) -> None:
        self.convs = [m for m in model.modules() if isinstance(m, MessagePassing)]
        if drops_nodes(model) or not self.convs or not all(map(_understood, self.convs)):
            raise ValueError("the dense twin needs GCNConv, GINConv, GraphConv or SAGEConv layers throughout")
        self.signatures = [inspect.signature(conv.forward) for conv in self.convs]

    @contextmanager
    def attached(
        self, weighted: Tensor, plain: Tensor, loops: Tensor, mask: Tensor, *, detach_degree: bool = False
    ) -> Iterator[None]:
        """Within this block, the model's convolutions gather from a dense adjacency instead of their edge list.

        Args:
            weighted: Arc weights, source by target; 0 is absence. May require gradients. For layers that the model
                gives edge weights.
            plain: The same for the layers that it gives none.
            loops: Self-loop weights of the nodes.
            mask: Real nodes; the model's node rows are these, graph after graph.
            detach_degree: Send no gradient through the degrees that layers divide by (CF-GNNExplainer).

        Shapes:
            weighted, plain: ``(K, n, n)``; loops, mask: ``(K, n)``.
        """
        layout = _Layout(weighted, plain, loops, mask, detach_degree)
        handles: list[Any] = []
        # a GCN layer would normalise its own (empty) edge list first: that is done here, once for all layers
        normalised = [conv for conv in self.convs if isinstance(conv, GCNConv) and conv.normalize]
        try:
            for conv, signature in zip(self.convs, self.signatures, strict=True):
                gather = _Gather(conv, layout, signature)
                handles.append(conv.register_forward_pre_hook(gather.enter, with_kwargs=True))
                handles.append(conv.register_propagate_forward_pre_hook(gather.before))
                handles.append(conv.register_propagate_forward_hook(gather.after))
            for conv in normalised:
                conv.normalize = False
            yield
        finally:
            for conv in normalised:
                conv.normalize = True
            for handle in handles:
                handle.remove()


class _Layout:
    """Node rows to padded blocks and back, and the degree terms that layers of one pass share."""

    def __init__(self, weighted: Tensor, plain: Tensor, loops: Tensor, mask: Tensor, detach_degree: bool) -> None:
        self.weighted, self.plain, self.loops, self.mask = weighted, plain, loops, mask
        self.detach_degree = detach_degree
        full = bool(mask.all())
        self.rows = None if full else mask.flatten().nonzero().flatten()
        self.count = int(mask.sum())
        # a padding place repeats its graph's last node: no edge leads from there, so what it holds does not matter
        sizes = mask.sum(1)
        within = torch.minimum(torch.arange(mask.shape[1], device=mask.device), sizes[:, None] - 1)
        self.filled = None if full else ((sizes.cumsum(0) - sizes)[:, None] + within).flatten()
        self.terms: dict[tuple[Any, ...], Tensor] = {}

    def pad(self, x: Tensor) -> Tensor:
        if x.shape[0] != self.count:
            raise ValueError(f"a layer sees {x.shape[0]} nodes of {self.count}: the twin cannot follow")
        k, n = self.mask.shape
        return (x if self.filled is None else x.index_select(0, self.filled)).view(k, n, -1)

    def unpad(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        return flat if self.rows is None else flat.index_select(0, self.rows)


class _Gather:
    """Replaces what one convolution's ``propagate`` returns."""

    def __init__(self, conv: MessagePassing, layout: _Layout, signature: inspect.Signature) -> None:
        self.conv, self.layout, self.signature = conv, layout, signature
        self.normalise = isinstance(conv, GCNConv) and conv.normalize
        self.x: Tensor | None = None
        self.weighted = False

    def enter(self, conv: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = self.signature.bind_partial(*args, **kwargs)
        self.weighted = bound.arguments.get("edge_weight") is not None

    def before(self, conv: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        _, _, kwargs = inputs
        x = kwargs["x"][0] if isinstance(kwargs["x"], tuple) else kwargs["x"]
        self.x = x
        # the layer's own message passing then has nothing left to do
        empty = torch.zeros(2, 0, dtype=torch.long, device=x.device)
        thin = x[:, :1].detach()
        slim = {**kwargs, "x": (thin, thin) if isinstance(kwargs["x"], tuple) else thin}
        if "edge_weight" in slim:
            slim["edge_weight"] = None
        return empty, (x.shape[0], x.shape[0]), slim

    def after(self, conv: MessagePassing, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if self.x is None:
            raise ValueError("propagate ended without having begun")
        x = self.layout.pad(self.x)
        adj = self.layout.weighted if self.weighted else self.layout.plain
        if self.normalise and isinstance(conv, GCNConv):
            out = torch.bmm(self._normalised(conv, adj), x)
        else:
            along = self._along(adj)
            out = torch.bmm(along, x) + self.layout.loops[..., None] * x
            if isinstance(conv.aggr_module, MeanAggregation):
                out = out / self._degree(along).clamp(min=1.0)[..., None]
        return self.layout.unpad(out)

    def _degree(self, along: Tensor) -> Tensor:
        key = ("degree", self.conv.flow, self.weighted)
        if key not in self.layout.terms:
            degree = along.sum(2) + self.layout.loops
            self.layout.terms[key] = degree.detach() if self.layout.detach_degree else degree
        return self.layout.terms[key]

    def _normalised(self, conv: GCNConv, adj: Tensor) -> Tensor:
        """``D^-1/2 (A + loops) D^-1/2``, target by source: once a pass, shared by all layers of the same options."""
        key = ("gcn", conv.flow, self.weighted, conv.add_self_loops, conv.improved)
        if key not in self.layout.terms:
            loops = self.layout.loops
            if conv.add_self_loops:
                # PyG gives a new self-loop the "improved" weight 2 only where other edges have weights
                fill = torch.full_like(loops, 2.0 if conv.improved and self.weighted else 1.0)
                loops = torch.where(loops > 0, loops, fill)
            full = self._along(adj) + torch.diag_embed(loops)
            degree = full.sum(2)
            degree = degree.detach() if self.layout.detach_degree else degree
            safe = torch.where(degree > 0, degree, torch.ones_like(degree))
            # a node without degree sends and receives nothing; its gradient is zero, not NaN
            scale = torch.where(degree > 0, safe.rsqrt(), torch.zeros_like(degree))
            self.layout.terms[key] = scale[:, :, None] * full * scale[:, None, :]
        return self.layout.terms[key]

    def _along(self, adj: Tensor) -> Tensor:
        return adj.transpose(1, 2) if self.conv.flow == "source_to_target" else adj

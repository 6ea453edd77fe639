"""How the user's model is called: which arguments its ``forward`` takes, in which precision, and what it returns."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from counteredge.data import edge_attributes
from counteredge.errors import ModelError
from counteredge.graphs import GraphBatch

__all__ = ["Caller", "ModelInputs", "discrete_inputs", "moved_inputs", "relaxed_inputs", "stacked_inputs"]


@dataclass
class ModelInputs:
    """What a forward pass over ``K`` graphs gets.

    Shapes:
        x: ``(N, f)`` or ``(N,)``; edge_index: ``(2, E)``; batch: ``(N,)``; edge_weight: ``(E,)``;
        edge_attr: ``(E, d)``; others: each ``(E, ...)``, further edge-aligned attributes by name (``edge_type``, ...).
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    sources: list[Data]
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    others: dict[str, Tensor] = field(default_factory=dict)

    @property
    def graphs(self) -> int:
        """Number of graphs ``K``."""
        return len(self.sources)


class _Door(nn.Module):
    """Gives ``functional_call`` one module to enter, whichever way the model wants to be called."""

    def __init__(self, model: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self.call = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self.model, *args, **kwargs)


class Caller:
    """Calls one model, in its own precision or, through ``functional_call``, in another.

    Args:
        model: The user's model.
        forward_fn: ``(model, batch) -> output`` for models with unusual signatures.
        output_fn: Picks the prediction out of what the model returns (tuples, dicts).
    """

    def __init__(
        self,
        model: nn.Module,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
    ) -> None:
        self.output_fn = output_fn
        parameters = inspect.signature(model.forward).parameters
        self.names = [n for n, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.required = {n for n in self.names if parameters[n].default is inspect.Parameter.empty}
        self.whole = forward_fn is not None or "edge_index" not in self.names
        if forward_fn is None and self.whole and len(self.required) != 1:
            raise ModelError(
                f"{type(model).__name__}.forward takes ({', '.join(self.names)}); expected x, edge_index, ... or one "
                "Data. Pass forward_fn=lambda model, batch: ... to say how it is called"
            )
        self.takes_batch = self.whole or "batch" in self.names
        self.takes_weight = self.whole or "edge_weight" in self.names
        self.takes_attr = self.whole or "edge_attr" in self.names
        self.door = _Door(model, forward_fn or (lambda m, *a, **k: m(*a, **k)))
        floats = [t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()]
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise ModelError("the model has lazy parameters that no forward pass has filled yet: run it once first")
        self.dtype = floats[0].dtype if floats else torch.float32
        self.device = floats[0].device if floats else None
        self.width = max([int(t.shape[0]) for t in floats if t.dim() > 0] or [1])
        self.weights: dict[torch.dtype, dict[str, Tensor]] = {}

    def __call__(self, inputs: ModelInputs, dtype: torch.dtype | None = None) -> Tensor:
        """The model's raw output; with ``dtype``, computed in that precision on detached copies of the weights."""
        working = dtype or self.dtype
        args, kwargs = self._arguments(inputs, working)
        if dtype is None:
            out = self.door(*args, **kwargs)
        else:
            out = torch.func.functional_call(self.door, self._weights_in(dtype), args, kwargs)
        if self.output_fn is not None:
            out = self.output_fn(out)
        if not isinstance(out, Tensor):
            raise ModelError(
                f"the model returned a {type(out).__name__}; pass output_fn=lambda out: ... that picks the logits"
            )
        return out

    def _weights_in(self, dtype: torch.dtype) -> dict[str, Tensor]:
        if dtype not in self.weights:
            state = [*self.door.named_parameters(), *self.door.named_buffers()]
            self.weights[dtype] = {
                name: t.detach().to(dtype) if t.is_floating_point() else t.detach() for name, t in state
            }
        return self.weights[dtype]

    def _arguments(self, inputs: ModelInputs, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def cast(t: Tensor | None) -> Tensor | None:
            return t.to(dtype) if t is not None and t.is_floating_point() else t

        known: dict[str, Any] = {
            "x": cast(inputs.x),
            "edge_index": inputs.edge_index,
            "batch": inputs.batch,
            "edge_weight": cast(inputs.edge_weight),
            "edge_attr": cast(inputs.edge_attr),
            **{key: cast(value) for key, value in inputs.others.items()},
        }
        if getattr(self.door.model, "wants_graphs", False):
            return (restored(inputs),), {}
        if self.whole:
            data = Batch.from_data_list(inputs.sources)
            for key, value in list(data.to_dict().items()):
                if isinstance(value, Tensor):
                    data[key] = cast(value)
            for key, value in known.items():
                if value is not None:
                    data[key] = value
            return (data,), {}
        kwargs: dict[str, Any] = {}
        for name in self.names:
            if known.get(name) is not None:
                kwargs[name] = known[name]
            elif name in ("num_graphs", "batch_size"):
                kwargs[name] = inputs.graphs
            elif name in self.required:
                if not all(name in g for g in inputs.sources):
                    raise ModelError(f"the model's forward needs {name!r}, which the graphs do not have")
                kwargs[name] = cast(torch.cat([g[name] for g in inputs.sources]))
        return (), kwargs


def restored(inputs: ModelInputs) -> Batch:
    """The graphs as ``Data`` of their own in the user's dtypes, batched: what user code may take apart again."""
    count = inputs.graphs
    sizes = torch.bincount(inputs.batch, minlength=count)
    owner = inputs.batch[inputs.edge_index[0]]
    order = torch.argsort(owner, stable=True)
    arcs = torch.bincount(owner, minlength=count).tolist()
    local = (inputs.edge_index - (sizes.cumsum(0) - sizes)[owner])[:, order]
    edges = torch.split(local, arcs, 1)
    aligned = {"edge_weight": inputs.edge_weight, "edge_attr": inputs.edge_attr, **inputs.others}
    parts = {key: torch.split(value.detach()[order], arcs) for key, value in aligned.items() if value is not None}
    graphs = []
    for k, (source, x) in enumerate(zip(inputs.sources, torch.split(inputs.x.detach(), sizes.tolist()), strict=True)):
        g = copy.copy(source)
        for key in edge_attributes(source):
            del g[key]
        g.x, g.edge_index = x.to(source.x.dtype), edges[k]
        for key, part in parts.items():
            g[key] = part[k].to(source[key].dtype)
        graphs.append(g)
    return Batch.from_data_list(graphs)


def _nodes(base: GraphBatch, row: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Node rows of the real nodes, their graph, and the first row of every graph."""
    mask = base.mask[row]
    flat = x[mask]
    if base.graphs[0].x.dim() == 1:
        flat = flat[:, 0]
    sizes = mask.sum(1)
    graph = torch.repeat_interleave(torch.arange(len(row), device=x.device), sizes)
    return flat, graph, sizes.cumsum(0) - sizes


def relaxed_inputs(base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor, *, edges: bool) -> ModelInputs:
    """Inputs whose edge list holds every pair with its (fractional) weight; an empty list when not ``edges``."""
    flat, graph, start = _nodes(base, row, x)
    sources = [base.graphs[i] for i in row.tolist()]
    if not edges:
        empty = torch.zeros(2, 0, dtype=torch.long, device=x.device)
        none = {key: sources[0][key][:0] for key in base.edge_keys}
        weight, attr = none.pop("edge_weight", None), none.pop("edge_attr", None)
        return ModelInputs(flat, empty, graph, sources, weight, attr, none)
    mask = base.mask[row]
    pairs = mask[:, :, None] & mask[:, None, :]
    pairs &= ~torch.eye(base.nodes, dtype=torch.bool, device=x.device)
    k, i, j = pairs.nonzero(as_tuple=True)
    kl, il = (base.loops[row] > 0).nonzero(as_tuple=True)
    index = torch.stack([torch.cat([start[k] + i, start[kl] + il]), torch.cat([start[k] + j, start[kl] + il])])
    weight = torch.cat([(adj * base.weight[row])[k, i, j], base.loops[row][kl, il]])
    values = {
        key: torch.cat([base.pair_values(key)[row[k], i, j], base.pair_values(key)[row[kl], il, il]])
        for key in base.edge_keys
        if key != "edge_weight"
    }
    return ModelInputs(flat, index, graph, sources, weight, values.pop("edge_attr", None), values)


def _edges(base: GraphBatch, row: Tensor, adj: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Arcs of really edited graphs: which state has each, its ends, and its attributes. Kept ones first, then new."""
    device = adj.device
    used = sorted(set(row.tolist()))
    place = torch.zeros(base.size, dtype=torch.long, device=device)
    place[used] = torch.arange(len(used), device=device)
    graphs = [base.graphs[i] for i in used]
    counts = torch.tensor([g.edge_index.shape[1] for g in graphs], device=device)
    all_edges = torch.cat([g.edge_index for g in graphs], 1)
    owner = place[row]
    k, position = _repeated(counts, owner)
    src, dst = all_edges[:, position]
    keep = (src == dst) | (adj[k, src, dst] > 0.5)
    k, src, dst, position = k[keep], src[keep], dst[keep], position[keep]
    kn, i, j = ((adj > 0.5) & (base.adj[row] < 0.5)).nonzero(as_tuple=True)
    values: dict[str, Tensor] = {}
    for key in base.edge_keys:
        old = torch.cat([g[key] for g in graphs])
        values[key] = torch.cat([old[position], base.pair_values(key)[row[kn], i, j]])
    return torch.cat([k, kn]), torch.cat([src, i]), torch.cat([dst, j]), values


def _repeated(counts: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
    """Items of consecutive groups of ``counts`` items, the group ``owner[k]`` repeated for each ``k``.

    Shapes:
        counts: ``(G,)``; owner: ``(K,)``; returns ``k`` and the item's number, one entry an item.
    """
    repeats = counts[owner]
    k = torch.repeat_interleave(torch.arange(len(owner), device=owner.device), repeats)
    first = (counts.cumsum(0) - counts)[owner]
    number = torch.arange(len(k), device=owner.device) - (repeats.cumsum(0) - repeats)[k] + first[k]
    return k, number


def discrete_inputs(base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor) -> ModelInputs:
    """Inputs of really edited graphs: kept edges in their order with their attributes, then the new ones."""
    flat, graph, start = _nodes(base, row, x)
    k, src, dst, values = _edges(base, row, adj)
    return _inputs(base, row, (flat, graph), torch.stack([start[k] + src, start[k] + dst]), values)


def moved_inputs(base: GraphBatch, row: Tensor, adj: Tensor, which: Tensor, x: Tensor, pair: Tensor) -> ModelInputs:
    """Inputs of states after one more move each, without a dense matrix for every candidate.

    Args:
        base: The original graphs.
        row: Which graph each state comes from.
        adj: The states.
        which: Which state each candidate comes from.
        x: Features of the candidates.
        pair: The pair that each candidate flips, or -1 for none.

    Shapes:
        row: ``(S,)``; adj: ``(S, n, n)``; which: ``(K,)``; x: ``(K, n, f)``; pair: ``(K, 2)``.
    """
    k, src, dst, values = _edges(base, row, adj)
    order = torch.sort(k, stable=True).indices
    src, dst = src[order], dst[order]
    c, number = _repeated(torch.bincount(k, minlength=len(row)), which)
    src, dst, number = src[number], dst[number], order[number]
    i, j = pair.t()
    hit = (src == i[c]) & (dst == j[c])
    if not base.directed:
        hit |= (src == j[c]) & (dst == i[c])
    c, src, dst, number = c[~hit], src[~hit], dst[~hit], number[~hit]
    new = ((i >= 0) & (adj[which, i.clamp(min=0), j.clamp(min=0)] < 0.5)).nonzero().flatten()
    ni, nj = i[new], j[new]
    if not base.directed:
        new, ni, nj = torch.cat([new, new]), torch.cat([ni, nj]), torch.cat([nj, ni])
    rows = row[which]
    flat, graph, start = _nodes(base, rows, x)
    index = torch.stack([torch.cat([start[c] + src, start[new] + ni]), torch.cat([start[c] + dst, start[new] + nj])])
    values = {key: torch.cat([v[number], base.pair_values(key)[rows[new], ni, nj]]) for key, v in values.items()}
    return _inputs(base, rows, (flat, graph), index, values)


def _inputs(
    base: GraphBatch, row: Tensor, nodes: tuple[Tensor, Tensor], index: Tensor, values: dict[str, Tensor]
) -> ModelInputs:
    weight, attr = values.pop("edge_weight", None), values.pop("edge_attr", None)
    return ModelInputs(nodes[0], index, nodes[1], [base.graphs[i] for i in row.tolist()], weight, attr, values)


def stacked_inputs(graphs: Sequence[Data], keys: Sequence[str]) -> ModelInputs:
    """Real graphs, and their edge-aligned attributes of these names, as one block-diagonal batch."""
    sizes = torch.tensor([g.x.shape[0] for g in graphs])
    start = (sizes.cumsum(0) - sizes).tolist()
    device = graphs[0].x.device
    graph = torch.repeat_interleave(torch.arange(len(graphs)), sizes).to(device)
    index = torch.cat([g.edge_index + s for g, s in zip(graphs, start, strict=True)], 1)

    x = torch.cat([g.x for g in graphs])
    edges = {key: torch.cat([g[key] for g in graphs]) for key in keys}
    weight, attr = edges.pop("edge_weight", None), edges.pop("edge_attr", None)
    return ModelInputs(x, index, graph, list(graphs), weight, attr, edges)

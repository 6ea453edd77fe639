"""What may change: ``EditSpace``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.chemistry import Chemistry, new_bonds
from counteredge.data import NewEdges
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import FeatureSchema

__all__ = ["Allowed", "EditSpace", "nodes_of", "pairs_of"]

Pair = tuple[int, int]
PerGraph = Callable[[Data], Any]


@dataclass(frozen=True)
class EditSpace:
    """What may change, and at which cost.

    Args:
        add_edges: Allow insertions.
        remove_edges: Allow deletions.
        features: Allow feature edits.
        schema: Meaning of the columns; read off the given graphs when ``None``.
        directed: Edit single arcs (``True``) or undirected pairs (``False``); as each graph is when ``None``.
        frozen_nodes: Nodes whose features and incident edges stay: indices for every graph, or a function
            ``data -> indices``.
        frozen_edges: Pairs (present or absent) that stay: ``[(i, j), ...]``, or a function ``data -> pairs``.
        frozen_features: Columns that stay.
        allowed_pairs: The only pairs that may change: ``[(i, j), ...]``, or a function ``data -> pairs``; all when
            ``None``.
        direction: Columns that may only rise or fall, ``{column: "up" or "down"}``.
        new_edges: Attributes of inserted edges: ``"mode"``, the most frequent of the graph; ``"mean"``; ``"zero"``; or
            a function ``(data, name) -> values``, one row for all or ``(n, n, ...)``. A weight is always 1.
        keep_connected: An answer has no more connected components than its graph.
        max_degree: Most neighbours of a node in an answer; a node that has more may keep as many as it has.
        chemistry: ``"valence"``: an answer is a molecule that RDKit sanitises and reads back from its SMILES, see
            :func:`counteredge.chemistry.valid_molecule`; where the original is none, no atom is worse off than in it.
            New edges are single bonds unless ``new_edges`` is a function; columns named ``hydrogens`` and ``aromatic``
            are no targets of edits, since the bonds say as much. Needs ``counteredge[mol]``.
        add_cost: Cost of one insertion: a number or a function ``data -> (n, n)`` tensor.
        remove_cost: Cost of one deletion, likewise.
        feature_cost: Cost of one feature edit: a number or one number a column.
        structural: What becomes of columns that the schema says follow from the edges. ``"refreshed"``: they are no
            targets of edits but follow the edited edges. ``"frozen"``: they keep their values, as in the XPlore
            paper. ``None``: refreshed, except in the ``paper`` presets.
        gamma: Prior of a pair in [-1, 1] (paper, Method): above 0 the pair is cheaper to flip, cost / (1 + gamma)
            (paper, App. A.4), and at -1 it is frozen; the ``paper`` preset adds it to the start of P. A number,
            for absent pairs, an ``(n, n)`` tensor, or a function ``data -> (n, n)`` tensor.
        nodes: Allow nodes to come and go, with the few methods that do so (C2Explainer, MEG, CLEAR with its padding).

    Example:
        >>> EditSpace.of("edges").features
        False
    """

    add_edges: bool = True
    remove_edges: bool = True
    features: bool = True
    schema: FeatureSchema | None = None
    directed: bool | None = None
    frozen_nodes: Sequence[int] | PerGraph = ()
    frozen_edges: Sequence[Pair] | PerGraph = ()
    frozen_features: Sequence[int] = ()
    allowed_pairs: Sequence[Pair] | PerGraph | None = None
    direction: Mapping[int, Literal["up", "down"]] = field(default_factory=dict)
    new_edges: NewEdges = "mode"
    keep_connected: bool = False
    max_degree: int | None = None
    chemistry: Literal["valence"] | None = None
    add_cost: float | PerGraph = 1.0
    remove_cost: float | PerGraph = 1.0
    feature_cost: float | Sequence[float] = 1.0
    structural: Literal["refreshed", "frozen"] | None = None
    gamma: float | Tensor | PerGraph = field(default=0.0, compare=False)
    nodes: bool = True

    def __post_init__(self) -> None:
        if self.structural not in (None, "refreshed", "frozen"):
            raise InputError(f"structural={self.structural!r} is unknown; use 'refreshed' or 'frozen'")
        if not isinstance(self.nodes, bool):
            raise InputError(f"nodes={self.nodes!r} must be True or False: whether nodes may come and go")
        if self.chemistry not in (None, "valence"):
            raise InputError(f"chemistry={self.chemistry!r} is unknown; use 'valence', or None")
        if not callable(self.new_edges) and self.new_edges not in ("mode", "mean", "zero"):
            raise InputError(f"new_edges={self.new_edges!r} is unknown; use 'mode', 'mean', 'zero' or a function")
        if self.max_degree is not None and (not isinstance(self.max_degree, int) or self.max_degree < 0):
            raise InputError(f"max_degree={self.max_degree!r} must be a whole number >= 0, or None")
        if not isinstance(self.direction, Mapping) or not set(self.direction.values()) <= {"up", "down"}:
            raise InputError(f"direction={self.direction!r} must be like {{column: 'up'}} or {{column: 'down'}}")
        for name in ("frozen_nodes", "frozen_edges", "frozen_features", "allowed_pairs"):
            value = getattr(self, name)
            if value is None and name == "allowed_pairs":
                continue
            listed = hasattr(value, "__len__") and not isinstance(value, str)
            if not listed and not (callable(value) and name != "frozen_features"):
                raise InputError(f"{name}={value!r} must be a list, for example {name}=[0]")

    @classmethod
    def of(cls, edits: EditSpace | str | None) -> EditSpace:
        """An edit space, or the name of one: ``"edges"``, ``"features"``, ``"both"``."""
        if isinstance(edits, EditSpace):
            return edits
        names = {
            None: cls(),
            "both": cls(),
            "edges": cls(features=False),
            "features": cls(add_edges=False, remove_edges=False),
        }
        if not (edits is None or isinstance(edits, str)) or edits not in names:
            raise InputError(f"edits={edits!r} is unknown; use 'edges', 'features', 'both' or an EditSpace")
        return names[edits]

    def only(self, *, add_edges: bool = True, remove_edges: bool = True, features: bool = True) -> EditSpace:
        """The space without some kinds of edits, for methods that cannot make them.

        Args:
            add_edges: ``False`` takes insertions out.
            remove_edges: ``False`` takes deletions out.
            features: ``False`` takes feature edits out.

        Example:
            >>> EditSpace().only(features=False) == EditSpace.of("edges")
            True
        """
        return replace(
            self,
            add_edges=self.add_edges and add_edges,
            remove_edges=self.remove_edges and remove_edges,
            features=self.features and features,
        )

    def edge_policy(self, schema: FeatureSchema) -> NewEdges:
        """What inserted edges get: ``new_edges``, or single bonds where chemistry is asked for."""
        return new_bonds(schema, self.new_edges) if self.chemistry else self.new_edges

    def allowed(self, batch: GraphBatch, schema: FeatureSchema) -> Allowed:
        """Spell the space out for a batch.

        Raises:
            InputError: Indices out of range, a schema of another width, costs that are not positive.
        """
        width = batch.x.shape[2]
        if schema.width != width:
            raise InputError(f"the schema describes {schema.width} columns but x has {width}")
        for k in self.frozen_features:
            if isinstance(k, str) or not 0 <= k < width:
                raise InputError(f"frozen_features names column {k!r} but x has columns 0..{width - 1}")
        like = batch.adj
        flip = batch.mask[:, :, None] & batch.mask[:, None, :]
        flip &= ~torch.eye(batch.nodes, dtype=torch.bool, device=like.device)
        nodes = batch.mask.clone()
        if any(callable(kind) or len(kind) for kind in (self.frozen_nodes, self.frozen_edges)):
            for b, g in enumerate(batch.graphs):
                _freeze(g, self, flip[b], nodes[b], batch.directed)
        if self.allowed_pairs is not None:
            for b, g in enumerate(batch.graphs):
                only = torch.zeros_like(flip[b])
                _mark(only, pairs_of(self.allowed_pairs, "allowed_pairs", g), batch.directed, True)
                flip[b] &= only
        gamma = _squares(self.gamma, "gamma", batch)
        if isinstance(self.gamma, float | int):
            gamma = gamma.masked_fill(like > 0, 0.0)
        cost = torch.where(
            like > 0, _squares(self.remove_cost, "remove_cost", batch), _squares(self.add_cost, "add_cost", batch)
        )
        if not bool((cost > 0).all()):
            raise InputError("edge costs must be positive; freeze a pair with frozen_edges instead")
        if not bool((gamma.abs() <= 1).all()):
            raise InputError("gamma must lie in [-1, 1]")
        flip &= gamma > -1
        within = flip.clone()
        flip &= torch.where(like > 0, torch.tensor(self.remove_edges), torch.tensor(self.add_edges))
        cost = cost / (1 + gamma).clamp(min=1e-12)
        columns = torch.ones(width, dtype=torch.bool, device=like.device)
        columns[schema.indices("fixed", "structural")] = False
        if self.structural != "frozen":
            columns[list(schema.derived)] = False
        columns[list(self.frozen_features)] = False
        chemistry = Chemistry(batch, schema) if self.chemistry else None
        if chemistry is not None:
            columns[list(chemistry.columns.following)] = False
        if not self.features or not batch.x.is_floating_point():
            columns[:] = False
        prices = torch.as_tensor(self.feature_cost, dtype=like.dtype, device=like.device)
        if prices.dim() == 1 and len(prices) != width:
            raise InputError(f"feature_cost has {len(prices)} entries but x has {width} columns")
        if prices.dim() == 1:
            for k, column in enumerate(schema.columns):
                if column.kind == "onehot" and float(prices[k]) != float(prices[schema.group_of(k)[0]]):
                    raise InputError("feature_cost differs inside a one-hot group; a swap is one edit with one cost")
        if not bool((prices > 0).all()):
            raise InputError("feature costs must be positive; freeze a column with frozen_features instead")
        rise, fall = (self._free(schema, other) for other in ("down", "up"))
        return Allowed(
            flip=flip,
            cost=cost,
            gamma=gamma,
            features=nodes[:, :, None] & columns,
            feature_cost=prices.expand(width),
            schema=schema,
            rise=rise.to(like.device),
            fall=fall.to(like.device),
            keep_connected=self.keep_connected,
            max_degree=self.max_degree,
            chemistry=chemistry,
            nodes=self.nodes and self.allowed_pairs is None,
            within=within,
            free=nodes,
            adds=self.add_edges,
            removes=self.remove_edges,
        )

    def _free(self, schema: FeatureSchema, other: str) -> Tensor:
        """Columns that are not bound to the other direction, ``(f,)``."""
        free = torch.ones(schema.width, dtype=torch.bool)
        for k, way in self.direction.items():
            if isinstance(k, str) or not 0 <= k < schema.width:
                raise InputError(f"direction names column {k!r} but x has columns 0..{schema.width - 1}")
            if schema.columns[k].kind == "onehot":
                raise InputError(f"direction: column {k} belongs to a one-hot group, which has no up and down")
            free[k] = way != other
        return free


def _squares(value: float | Tensor | PerGraph, name: str, batch: GraphBatch) -> Tensor:
    """One number for all pairs, or each graph's own matrix, as ``(B, n, n)``."""
    if isinstance(value, float | int):
        return torch.full_like(batch.adj, float(value))
    out = torch.zeros_like(batch.adj) if name == "gamma" else torch.ones_like(batch.adj)
    for b, g in enumerate(batch.graphs):
        n = int(g.x.shape[0])
        found = torch.as_tensor(value(g) if callable(value) else value, dtype=out.dtype, device=out.device)
        if found.dim() != 0 and tuple(found.shape) != (n, n):
            raise InputError(f"{name} has shape {tuple(found.shape)} but the graph has {n} nodes")
        if found.dim() == 2 and not batch.directed and not torch.equal(found, found.t()):
            raise InputError(f"{name} must be symmetric on an undirected graph: (i, j) and (j, i) are one pair")
        out[b, :n, :n] = found
    return out


def nodes_of(given: Sequence[int] | PerGraph, data: Data) -> Tensor:
    """The frozen nodes of one graph, given as numbers, as a mask, or by a function of the graph, ``(k,)``."""
    n = int(data.x.shape[0])
    found = torch.as_tensor(given(data) if callable(given) else given).cpu()
    if found.dtype == torch.bool:
        found = found.nonzero().flatten()
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < n:
        raise InputError(f"frozen_nodes {found.tolist()} do not all exist: the graph has nodes 0..{n - 1}")
    return found.long()


def pairs_of(given: Sequence[Pair] | PerGraph, name: str, data: Data) -> Tensor:
    """The pairs meant for one graph, given as a list or by a function of the graph, ``(p, 2)``."""
    n = int(data.x.shape[0])
    found = torch.as_tensor(given(data) if callable(given) else given).cpu().long().reshape(-1, 2)
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < n:
        raise InputError(f"{name} name nodes outside 0..{n - 1}: {found.tolist()}")
    return found


def _freeze(data: Data, space: EditSpace, flip: Tensor, nodes: Tensor, directed: bool) -> None:
    """Strike the frozen pairs and nodes from ``flip`` (n, n) and ``nodes`` (n,), in place."""
    index = nodes_of(space.frozen_nodes, data)
    nodes[index] = False
    flip[index, :] = False
    flip[:, index] = False
    _mark(flip, pairs_of(space.frozen_edges, "frozen_edges", data), directed, False)


def _mark(flip: Tensor, pairs: Tensor, directed: bool, value: bool) -> None:
    """Write ``value`` at the pairs, both ways when undirected, in place."""
    flip[pairs[:, 0], pairs[:, 1]] = value
    if not directed:
        flip[pairs[:, 1], pairs[:, 0]] = value


@dataclass(frozen=True)
class Allowed:
    """An :class:`EditSpace` spelled out for one batch.

    Attributes:
        flip: Pairs that may change.
        cost: Of a change of each pair.
        gamma: Its prior.
        features: Entries of ``x`` that may change.
        feature_cost: Of a change in each column.
        schema: Meaning of the columns.
        rise, fall: Columns whose numbers may go up, and down.
        keep_connected, max_degree: See :class:`EditSpace`.
        chemistry: Judges answers as molecules; ``None`` when they need not be any.
        nodes: Whether nodes may come and go.
        within: Pairs that are not frozen, whether edges may be added and removed or not.
        free: Nodes that are not frozen.
        adds, removes: Whether edges may be added, and removed.

    Shapes:
        flip, cost, gamma, within: ``(B, n, n)``; free: ``(B, n)``; features: ``(B, n, f)``; feature_cost, rise,
        fall: ``(f,)``.
    """

    flip: Tensor
    cost: Tensor
    gamma: Tensor
    features: Tensor
    feature_cost: Tensor
    schema: FeatureSchema
    rise: Tensor
    fall: Tensor
    within: Tensor
    free: Tensor
    adds: bool
    removes: bool
    keep_connected: bool = False
    max_degree: int | None = None
    chemistry: Chemistry | None = None
    nodes: bool = False

    @property
    def grows(self) -> bool:
        """Whether new nodes may come: they would have no edges otherwise."""
        return self.adds and self.nodes

    def legal(
        self, batch: GraphBatch, row: Tensor, adj: Tensor, x: Tensor | None = None, among: Tensor | None = None
    ) -> Tensor:
        """Whether edited graphs keep what can only be judged of a graph as a whole, ``(S,)``.

        Args:
            batch: The original graphs.
            row: Which of them each comes from.
            adj: The edges of each.
            x: The features of each; the original ones when ``None``.
            among: Which are worth a costly look, ``False`` is said of the others then; all when ``None``.

        Shapes:
            row, among: ``(S,)``; adj: ``(S, n, n)``; x: ``(S, n, f)``.
        """
        legal = torch.ones(len(row), dtype=torch.bool, device=adj.device)
        if self.max_degree is not None:
            before, after = (_undirected(a).sum(2) for a in (batch.adj[row], adj))
            legal &= ((after <= self.max_degree) | (after <= before)).all(1)
        if self.keep_connected:
            before, after = (_components(_undirected(a), batch.mask[row]) for a in (batch.adj[row], adj))
            legal &= after <= before
        if self.chemistry is not None:
            worth = legal if among is None else legal & among
            legal = self.chemistry.legal(row, adj, batch.x[row] if x is None else x, worth)
        return legal


def _undirected(adj: Tensor) -> Tensor:
    return ((adj + adj.transpose(1, 2)) > 0.5).to(adj.dtype)


def _components(adj: Tensor, mask: Tensor) -> Tensor:
    """Number of connected components of each graph, ``(S,)``, by repeated squaring of reachability."""
    n = adj.shape[1]
    reach = ((adj + torch.eye(n, dtype=adj.dtype, device=adj.device)) > 0).to(adj.dtype)
    for _ in range(max(1, (n - 1).bit_length())):
        reach = (torch.bmm(reach, reach) > 0).to(adj.dtype)
    # a node that reaches no node before it is the first of its component
    first = reach.tril(-1).sum(2) == 0
    return (first & mask).sum(1)

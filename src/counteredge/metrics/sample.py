"""Counterfactuals laid out for measuring: who was asked, what came back, at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import pairs_of
from counteredge.decision import Label
from counteredge.descriptors import refreshed
from counteredge.edits import EditSet
from counteredge.errors import InputError
from counteredge.metrics.judge import Judge
from counteredge.results import Counterfactual
from counteredge.schema import FeatureSchema

__all__ = ["Costs", "Sample", "own_label"]


@dataclass(frozen=True)
class Costs:
    """What each answer took, ``(N,)`` each; NaN where it is not known."""

    forward: Tensor
    backward: Tensor
    to_first_valid: Tensor
    seconds: Tensor


@dataclass
class Sample:
    """``N`` graphs with their counterfactuals.

    Attributes:
        originals: The graphs as given.
        edited: The edited graphs; the original itself where nothing was found.
        edits: What changed, as pairs and entries; empty for controls.
        edge_edits: Pairs edited.
        directed: Whether single arcs are edited; otherwise a pair is one edit.
        nodes: The nodes that were explained, none of a graph task.
        found: Whether there is a counterfactual.
        before: Predicted label of the original.
        after: Predicted label of the edited graph; ``None`` where it is not known.
        labels: True label of each graph; ``None`` where it is not known.
        costs: Calls and time; ``None`` for controls.
        minimal: 1 where no single edit can be undone, 0 elsewhere, also where that was not tested; NaN for controls.
        refreshed: Whether the edits flip with structure-derived columns computed anew; NaN where it is not known.
        frozen: Whether they do with such columns as they were; NaN where it is not known.
        schema: What the feature columns mean, where the counterfactuals say so.
        follows: Whether its edited graph has structure-derived columns computed anew.
        judge: The model, where the caller gave it.
        cosines: Cosine of original and edited graph, one column an embedder.
        dataset: All original graphs, where the caller gave them.
        exact: Distance over all ways to match the nodes, where the caller wanted it.
        over_all: Whether similarity counts graphs without a counterfactual too, as 1.
        near: Agreement of the neighbours and distance to the new class, where the caller gave real graphs.

    Shapes:
        edge_edits, directed, found, minimal, refreshed, frozen, follows: ``(N,)``; each of ``cosines``, ``near`` too.
    """

    originals: list[Data]
    edited: list[Data]
    edits: list[EditSet]
    edge_edits: Tensor
    directed: Tensor
    nodes: list[tuple[int, ...]]
    found: Tensor
    before: list[Label]
    after: list[Label | None]
    labels: list[Label | None]
    costs: Costs | None
    minimal: Tensor
    refreshed: Tensor
    frozen: Tensor
    follows: Tensor
    schema: FeatureSchema | None = None
    judge: Judge | None = None
    cosines: dict[str, Tensor] = field(default_factory=dict)
    near: tuple[Tensor, Tensor] | None = None
    dataset: list[Data] | None = None
    exact: Tensor | None = None
    over_all: bool = False

    def __len__(self) -> int:
        return len(self.originals)

    @classmethod
    def of(cls, counterfactuals: Sequence[Counterfactual], labels: Sequence[Label] | Tensor | None = None) -> Sample:
        """Lay out results.

        Args:
            counterfactuals: One a graph.
            labels: True label of each; those in the graphs' own ``y`` when ``None``.

        Raises:
            InputError: When something is no counterfactual, or there are more or fewer labels than results.
        """
        if isinstance(counterfactuals, Counterfactual):
            raise InputError("expected a list of counterfactuals, got a single one: put it into a list")
        cfs = list(counterfactuals)
        for k, cf in enumerate(cfs):
            if not isinstance(cf, Counterfactual):
                hint = ": of k= answers a graph, choose one" if isinstance(cf, list) else ""
                raise InputError(f"counterfactual {k} is a {type(cf).__name__}, expected Counterfactual{hint}")
        truth = _labels(cfs, labels)
        edits = [c.edits if c.found else EditSet(directed=c.edits.directed) for c in cfs]
        first = [float("nan") if c.calls.to_first_valid is None else float(c.calls.to_first_valid) for c in cfs]
        costs = Costs(
            _numbers([c.calls.forward for c in cfs]),
            _numbers([c.calls.backward for c in cfs]),
            _numbers(first),
            _numbers([c.seconds for c in cfs]),
        )
        return cls(
            originals=[c.original for c in cfs],
            edited=[c.data if c.found and c.data is not None else c.original for c in cfs],
            edits=edits,
            edge_edits=_numbers([e.edge_count for e in edits]),
            directed=torch.tensor([c.edits.directed for c in cfs], dtype=torch.bool),
            nodes=[c.targets for c in cfs],
            found=torch.tensor([c.found for c in cfs], dtype=torch.bool),
            before=[c.before.label for c in cfs],
            after=[c.after.label if c.found and c.after is not None else c.before.label for c in cfs],
            labels=truth,
            costs=costs,
            minimal=_numbers([float(c.minimal is True) for c in cfs]),
            refreshed=_numbers([float(bool(c.valid_refreshed)) for c in cfs]),
            frozen=_numbers([float(bool(c.valid_frozen)) for c in cfs]),
            follows=torch.tensor([c.structural == "refreshed" for c in cfs], dtype=torch.bool),
            schema=next((c.schema for c in cfs if c.schema is not None), None),
        )

    def settled(self, rows: Sequence[int], graphs: list[Data]) -> list[Data]:
        """Edited graphs of these rows, structure-derived columns computed anew where the counterfactuals' are."""
        at = [k for k, row in enumerate(rows) if bool(self.follows[row])]
        if self.schema is not None and at:
            for k, g in zip(at, refreshed([graphs[k] for k in at], self.schema), strict=True):
                graphs[k] = g
        return graphs

    @property
    def nothing(self) -> Tensor:
        """No value of any graph, ``(N,)``."""
        return torch.full((len(self),), torch.nan, dtype=torch.float64)

    def where_found(self, values: Tensor) -> Tensor:
        """The values of the graphs with a counterfactual, NaN elsewhere."""
        return torch.where(self.found, values.to(torch.float64), torch.nan)

    @cached_property
    def sizes(self) -> tuple[Tensor, Tensor]:
        """Nodes and edges of the originals, ``(N,)`` each; an undirected edge is one, a loop none."""
        nodes = _numbers([int(g.num_nodes or 0) for g in self.originals])
        asked = zip(self.originals, self.directed.tolist(), strict=True)
        return nodes, _numbers([len(pairs_of(g, directed=directed)) for g, directed in asked])

    @cached_property
    def ged(self) -> Tensor:
        """Edge edits of each graph, and nodes added or removed, ``(N,)``."""
        sizes = zip(self.originals, self.edited, self.edits, strict=True)
        # edits list nodes that come as well as nodes that go; of graphs made elsewhere only the difference is known
        differ = [max(e.node_count, abs(int(a.num_nodes or 0) - int(b.num_nodes or 0))) for a, b, e in sizes]
        return self.edge_edits + _numbers(differ)


def _labels(counterfactuals: Sequence[Counterfactual], labels: Sequence[Label] | Tensor | None) -> list[Label | None]:
    """The true label of each graph: as given, else its own ``y`` where that is one number."""
    if labels is None:
        return [own_label(c.original) if c.node is None else _node_label(c) for c in counterfactuals]
    if isinstance(labels, Tensor) and labels.dim() == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # a column is a list, not one-bit multi-labels
    given = labels.tolist() if isinstance(labels, Tensor) else list(labels)
    if len(given) != len(counterfactuals):
        raise InputError(f"{len(counterfactuals)} counterfactuals but {len(given)} labels")
    return [tuple(y) if isinstance(y, list) else y for y in given]


def _node_label(cf: Counterfactual) -> Label | None:
    """The label of a node in the graph's ``y``; ``None`` of several nodes that were to change together."""
    y = cf.original.get("y")
    if isinstance(cf.node, tuple) or not isinstance(y, Tensor) or len(y) != len(cf.original.x) or y.dim() != 1:
        return None
    return own_label(Data(y=y[cf.node]))


def own_label(data: Data) -> Label | None:
    """The label in a graph's ``y``; ``None`` where it is not one number."""
    y = data.get("y")
    if isinstance(y, int | float):
        return y
    if isinstance(y, Tensor) and y.numel() == 1:
        value = y.reshape(()).item()
        return float(value) if y.is_floating_point() else int(value)
    return None


def _numbers(values: Sequence[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)

"""Two controls: the graph without edges and the complete graph, as answers for every graph."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.explainers.base import Explainer
from counteredge.space import EditSpace

__all__ = ["CompleteGraph", "EmptyGraph"]


class _Constant(Explainer):
    """Proposes one graph for each, whatever the model says."""

    control: ClassVar[bool] = True
    kept: ClassVar[float] = 0.0  # what every pair that may change becomes

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(features=False)

    def describe_failure(self, search: Search) -> str:
        """It is the only candidate."""
        return (
            f"the {self.name.replace('_', ' ')} was refused (it is the graph itself, or breaks a limit of the edit "
            "space or the budget) or is no counterfactual; no other was tried"
        )

    def _search(self, search: Search) -> None:
        base = search.base
        rows = search.open_rows()
        state = State(rows, self._proposed(base.adj[rows], search.moves.allowed.flip[rows]), base.x[rows])
        worth = search.moves.changed(state).any(1) & search.legal(state)
        state = state[worth.nonzero().flatten()]
        fits = search.affordable(state.row, torch.zeros_like(state.row))
        search.settle(state[fits.nonzero().flatten()], self.name)

    def _proposed(self, adj: Tensor, flip: Tensor) -> Tensor:
        return torch.where(flip, torch.full_like(adj, self.kept), adj)


class EmptyGraph(_Constant):
    r"""Control: remove every edge that may be removed; one evaluation a graph.

    .. math:: A' = 0

    An explainer whose validity is that of this control may well do just this. Features stay as they are.

    Args:
        mode: ``"paper"``; there is no other.
        seed: Does nothing: nothing is drawn.
        postprocess: ``"shrink"`` puts edges back as long as the answer holds.
        memory: Bytes that one batched pass may take.

    Example:
        >>> from torch_geometric.data import Data
        >>> def has_edges(batch):
        ...     return [int(g.edge_index.shape[1] > 0) for g in batch.to_data_list()]
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> EmptyGraph().explain(has_edges, path).edits.removed
        ((0, 1), (1, 2))
    """

    name: ClassVar[str] = "empty_graph"
    title: ClassVar[str] = "control: empty graph"


class CompleteGraph(_Constant):
    r"""Control: insert every edge that may be inserted; one evaluation a graph.

    .. math:: A'_{ij} = 1, \quad i \ne j

    Args:
        mode: ``"paper"``; there is no other.
        seed: Does nothing: nothing is drawn.
        postprocess: ``"shrink"`` takes edges out again as long as the answer holds.
        memory: Bytes that one batched pass may take.

    Example:
        >>> from torch_geometric.data import Data
        >>> def closed(batch):
        ...     return [int(g.edge_index.shape[1] == len(g.x) * (len(g.x) - 1)) for g in batch.to_data_list()]
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> CompleteGraph().explain(closed, path).edits.added
        ((0, 2),)
    """

    name: ClassVar[str] = "complete_graph"
    title: ClassVar[str] = "control: complete graph"
    kept: ClassVar[float] = 1.0

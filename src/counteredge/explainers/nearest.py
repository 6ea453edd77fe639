"""Nearest: walk back to the graph from the most alike of the given graphs that the model calls otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor
from torch_geometric.data import Data

from counteredge.engine.endpoints import EndpointOptions, walk_back
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import whole
from counteredge.nodes import NodeOracle
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema

__all__ = ["Nearest"]


class Nearest(Explainer):
    r"""Nearest unlike neighbour, laid onto the graph, and bisected back towards it.

    Among ``references=`` (training graphs, usually) those are taken that the model predicts as wished; the most alike
    are aligned with the graph, node by node. The one that then needs fewest edits and still is a counterfactual, ``H``,
    gives the edits ``e_1, ..., e_d`` that lead from ``G`` to it, in order of their first-order gain (where there are
    gradients) and in random orders; bisection finds for each order

    .. math:: k: \; G + e_1 + \dots + e_k \text{ flips, } \; G + e_1 + \dots + e_{k-1} \text{ does not,}

    and the shortest is the answer. Labels are enough. An answer exists nearly always and need not be the smallest: a
    floor. The number of nodes is fixed: a larger reference loses its nodes of lowest degree, a smaller one leaves
    nodes isolated, and either may no longer be a counterfactual then.

    Args:
        neighbours: References laid onto each graph: the most alike in size, edges, degrees and features.
        ends: Of those that still flip, how many are walked back from, those with fewest edits.
        orders: Random orders of the edits of each.
        rounds: Bisections one after the other; each but the first keeps the edits that those before it found needed.
        mode: ``"paper"``; there is no other.
        seed: Of the random orders.
        postprocess: ``"shrink"`` makes answers one-minimal; ``None`` leaves them as bisected.
        memory: Bytes that one batched pass may take.

    Sources: Wachter et al. (2018) and Keane and Smyth (ICCBR 2020) for the neighbour; Boundary Attack (Brendel et al.,
    ICLR 2018) and HopSkipJump (Chen et al., 2020) for the way back.

    Example:
        >>> import torch
        >>> def ringed(batch):  # has as many edges as nodes
        ...     return [int(g.edge_index.shape[1] >= 2 * len(g.x)) for g in batch.to_data_list()]
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> path = Data(x=torch.ones(4, 1), edge_index=ring[:, [0, 1, 2, 4, 5, 6]])
        >>> square = Data(x=torch.ones(4, 1), edge_index=ring)
        >>> Nearest().explain(ringed, path, references=[square], edits="edges").edits.added
        ((0, 3),)
    """

    name: ClassVar[str] = "nearest"
    title: ClassVar[str] = "nearest unlike neighbour"
    takes_references = needs_references = True

    def __init__(
        self,
        *,
        neighbours: int = 12,
        ends: int = 1,
        orders: int = 2,
        rounds: int = 1,
        mode: str | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        given = {"neighbours": neighbours, "ends": ends, "orders": orders, "rounds": rounds}
        self.options = {option: whole(option, value, 1) for option, value in given.items()}
        self.copies = 2 * neighbours + ends * (orders + 1)

    def parameters(self) -> dict[str, Any]:
        """How many neighbours, and how the ways back are looked for."""
        return {**self.options, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """Why no neighbour helped."""
        return (
            "no reference is predicted as wished, or none of those that are still is when laid onto the graph's nodes"
        )

    def _references(
        self, oracle: Oracle, references: Any, schema: FeatureSchema
    ) -> tuple[Sequence[Data], Tensor] | None:
        if isinstance(oracle, NodeOracle):
            raise InputError("Nearest walks back from whole graphs; for node= use another method")
        if references is None:
            raise InputError("Nearest needs references=: pass training graphs, some of them predicted as wished")
        given = super()._references(oracle, references, schema)
        if given is None or not len(given[0]):
            raise InputError("Nearest got no references: pass training graphs, some of them predicted as wished")
        return given

    def _search(self, search: Search) -> None:
        rows = search.open_rows()
        options = EndpointOptions(
            keep=self.options["ends"],
            orders=self.options["orders"],
            ways=self.options["ends"] * (self.options["orders"] + 1),
            rounds=self.options["rounds"],
            references=self.options["neighbours"],
        )
        walk_back(search, rows, options, seed=self.seed, references=True)

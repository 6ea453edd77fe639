"""The user's model, asked about graphs that no explainer proposed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.decision import Label
from counteredge.oracle import Oracle

__all__ = ["Judge"]


class Judge:
    """The untouched model's word on edited graphs.

    Args:
        oracle: The model, with what is wished of it.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    def labels(self, graphs: Sequence[Data]) -> list[Label]:
        """What the model says of each graph."""
        with self.oracle.session(graphs):
            return [label for label, _ in self.oracle.decision.read(self.oracle.predict(graphs))]

    def verdicts(self, originals: Sequence[Data], edited: Sequence[Data]) -> tuple[list[Label], Tensor]:
        """What the model says of each edited graph, and whether that is a flip from what it says of the original.

        What is as wished already is not flipped.

        Shapes:
            the second: ``(N,)``, boolean.
        """
        with self.oracle.session([*originals, *edited]):
            decision = self.oracle.decision
            before, after = torch.tensor_split(self.oracle.predict([*originals, *edited]), [len(originals)])
            first = decision.labels(before)
            flips = decision.flips(after, first) & ~decision.flips(before, first)
            return [label for label, _ in decision.read(after)], flips

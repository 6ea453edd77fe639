"""The protocol of whole-graph embedders: fit once on the original graphs, then transform any graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.stack import MEMORY, GraphStack, stacks
from counteredge.errors import InputError

__all__ = ["Embedder", "ListEmbedder", "StackEmbedder", "embed", "hidden"]


def hidden(progress: bool | None) -> bool | None:
    """What tqdm's ``disable`` has to be: no bar where none is wanted, nor by default where there is no terminal."""
    return None if progress is None else not progress


class Embedder(ABC):
    """A function from graphs to vectors.

    Fitted once on the original graphs of a dataset, never on counterfactuals; originals and counterfactuals then go
    through the same :meth:`transform`. Node attributes are not looked at unless a method says so.

    Attributes:
        name: As the papers write it.
        reference: Where the method is published.
        needs_fit: Whether :meth:`transform` needs :meth:`fit` before.
    """

    name: ClassVar[str]
    reference: ClassVar[str]
    needs_fit: bool = False
    fitted: bool = False

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of the vectors."""

    def fit(self, graphs: Sequence[Data], *, progress: bool | None = None) -> Self:
        """Learn what the embedder needs from the original graphs of a dataset.

        Args:
            graphs: At least one graph.
            progress: Show a bar; by default when it takes more than two seconds on a terminal.

        Returns:
            The embedder itself.
        """
        read = SimpleGraphs.of(graphs)
        if not len(read):
            raise InputError(f"{self.name} was given no graph to fit on")
        self._fit(read, progress)
        self.fitted = True
        return self

    def _fit(self, graphs: SimpleGraphs, progress: bool | None) -> None:  # noqa: B027 - most embedders learn nothing
        """Nothing, for embedders that learn nothing."""

    def check(self, graphs: SimpleGraphs) -> None:  # noqa: B027 - most embedders take every graph
        """Refuse graphs that cannot be embedded; called before anything is computed."""

    def transform(self, graphs: Sequence[Data], *, memory: int = MEMORY, progress: bool | None = None) -> Tensor:
        """Vectors of graphs; a graph's vector does not depend on the others.

        Args:
            graphs: Any number of graphs.
            memory: Bound in bytes of one batch.
            progress: Show a bar; by default when it takes more than two seconds on a terminal.

        Raises:
            InputError: When it was to be fitted before and was not.
            BudgetError: When a graph does not fit into ``memory``.

        Shapes:
            returns ``(N, D)``, double precision.
        """
        return embed([self], SimpleGraphs.of(graphs), memory=memory, progress=progress)[0]


class StackEmbedder(Embedder):
    """An embedder computed on batches of graphs of one size; several of them share what they have in common."""

    @abstractmethod
    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, D)``."""


class ListEmbedder(Embedder):
    """An embedder computed on edge lists."""

    @abstractmethod
    def of_list(self, graphs: SimpleGraphs, progress: bool | None) -> Tensor:
        """Vectors of the graphs, ``(N, D)``."""


def embed(
    embedders: Sequence[Embedder], graphs: SimpleGraphs, *, memory: int = MEMORY, progress: bool | None = None
) -> list[Tensor]:
    """Vectors of all graphs from several embedders at once, with shared intermediates.

    Args:
        embedders: Fitted where they need it.
        graphs: The graphs.
        memory: Bound in bytes of one batch.
        progress: Show a bar.

    Returns:
        One ``(N, D)`` tensor an embedder, in their order.
    """
    for e in embedders:
        if e.needs_fit and not e.fitted:
            raise InputError(f"{e.name} has to be fitted before it embeds: call fit(graphs) with the original graphs")
        e.check(graphs)
    found: list[Tensor | None] = [
        e.of_list(graphs, progress) if isinstance(e, ListEmbedder) else None for e in embedders
    ]
    dense = [(k, e) for k, e in enumerate(embedders) if isinstance(e, StackEmbedder)]
    if dense:
        rows: list[list[Tensor]] = [[] for _ in dense]
        ids: list[Tensor] = []
        with tqdm(
            total=len(graphs), desc="embedding", unit="graph", delay=2, leave=False, disable=hidden(progress)
        ) as bar:
            for stack in stacks(graphs, memory=memory):
                ids.append(stack.ids)
                for out, (_, e) in zip(rows, dense, strict=True):
                    out.append(e.of_stack(stack))
                bar.update(len(stack))
        back = torch.argsort(torch.cat(ids)) if ids else torch.zeros(0, dtype=torch.long)
        for out, (k, e) in zip(rows, dense, strict=True):
            found[k] = torch.cat(out)[back] if out else torch.zeros(0, e.dim, dtype=torch.float64)
    return [f for f in found if f is not None]

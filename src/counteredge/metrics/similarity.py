"""Cosine similarity of original and counterfactual in the embedders' spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.embedders import EMBEDDERS, Embedder, embed, get_embedders
from counteredge.embedders.simple import SimpleGraphs, distinct
from counteredge.embedders.stack import MEMORY
from counteredge.errors import InputError
from counteredge.metrics.definition import PAPER, metric
from counteredge.metrics.sample import Sample

__all__ = ["CosineSimilarity", "Similarities", "cosine", "slug"]


@dataclass(frozen=True)
class Similarities:
    """Cosines of ``N`` pairs in ``M`` spaces.

    Attributes:
        values: One column an embedder, by its name.

    Shapes:
        each of values: ``(N,)``.
    """

    values: dict[str, Tensor]

    @property
    def mean(self) -> Tensor:
        """Mean over the embedders, ``(N,)``."""
        return torch.stack(list(self.values.values())).mean(0)


class CosineSimilarity:
    """``CS = 1 / (M N) sum_j sum_i cos(E_j(G_i), E_j(G'_i))`` over ``M`` embedders.

    The embedders are fitted once, on original graphs, and never on counterfactuals. None of the ten looks at node
    attributes at its defaults: a counterfactual that changes features alone has CS = 1. Embedders differ widely in
    how far an edit moves them (FGSD and LDP alone make most of the differences in the mean), so look at each of them.

    Args:
        embedders: ``"all"``, or names and :class:`~counteredge.embedders.Embedder` objects.

    Source:
        XPlore (KDD 2026), section 4.1.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> star = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4)
        >>> similarity = CosineSimilarity(["LDP", "SF"]).fit([path, star])
        >>> {k: round(v.item(), 3) for k, v in similarity.score([path], [star]).values.items()}
        {'LDP': 0.697, 'SF': 0.963}
    """

    def __init__(self, embedders: str | Sequence[str | Embedder] = "all") -> None:
        self.embedders = get_embedders(embedders)
        if not self.embedders:
            raise InputError("cosine similarity needs at least one embedder; embedders='all' gives the ten")

    def fit(self, graphs: Sequence[Data], *, progress: bool | None = None) -> Self:
        """Fit each embedder on the original graphs of a dataset; one that is fitted already stays so."""
        for e in self.embedders:
            if e.needs_fit and not e.fitted:
                e.fit(graphs, progress=progress)
        return self

    def embed(self, graphs: Sequence[Data], *, memory: int = MEMORY, progress: bool | None = None) -> dict[str, Tensor]:
        """Vectors by embedder, to keep and to pass to :meth:`score`: originals serve every explainer.

        Objects that appear several times are embedded once.

        Shapes:
            each ``(N, D)``.
        """
        first, back = distinct(list(graphs))
        vectors = embed(self.embedders, SimpleGraphs.of(first), memory=memory, progress=progress)
        return {e.name: v[back] for e, v in zip(self.embedders, vectors, strict=True)}

    def score(
        self, originals: Sequence[Data] | Mapping[str, Tensor], counterfactuals: Sequence[Data] | Mapping[str, Tensor]
    ) -> Similarities:
        """Cosine of each pair in each space.

        Args:
            originals: Graphs, or what :meth:`embed` gave for them.
            counterfactuals: As many graphs, in the same order, or their vectors.

        Raises:
            InputError: When the two differ in number.
        """
        one, other = (g if isinstance(g, Mapping) else self.embed(g) for g in (originals, counterfactuals))
        names = [e.name for e in self.embedders]
        for name in names:
            if len(one[name]) != len(other[name]):
                raise InputError(f"{len(one[name])} originals but {len(other[name])} counterfactuals")
        return Similarities({name: cosine(one[name], other[name]) for name in names})


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """``a . b / (|a| |b|)`` of each row, in [-1, 1]; equal rows, also two zero rows, give 1, one zero row gives 0.

    The shorter vectors are continued with zeros.

    Shapes:
        a: ``(N, D)``; b: ``(N, E)``; returns ``(N,)``.

    Example:
        >>> cosine(torch.tensor([[1.0, 0], [0, 0], [0, 0]]), torch.tensor([[1.0, 1], [0, 0], [1, 0]])).tolist()
        [0.7071067690849304, 1.0, 0.0]
    """
    width = max(a.shape[1], b.shape[1])
    a, b = (torch.nn.functional.pad(t, (0, width - t.shape[1])) for t in (a, b))
    norms = a.norm(dim=1) * b.norm(dim=1)
    found = (a * b).sum(1) / torch.where(norms > 0, norms, torch.ones_like(norms))
    return torch.where((a == b).all(1), torch.ones_like(found), found.clamp(-1, 1))


def slug(name: str) -> str:
    """Key of an embedder's column: ``cs_feather_g``."""
    return "cs_" + name.lower().replace("-", "_")


@metric(
    "cosine_similarity", "Cosine similarity (CS)", "mean over the M embedders of cos(E_j(G), E_j(G'))",
    low=-1.0, high=1.0, direction="higher", reference=f"{PAPER}, section 4.1", needs="embedders",
)  # fmt: skip
def cosine_similarity(sample: Sample) -> Tensor:
    """Of the structure alone: a counterfactual that changes features only has CS = 1."""
    return _over(sample, Similarities(sample.cosines).mean if sample.cosines else None)


def _over(sample: Sample, values: Tensor | None) -> Tensor:
    if values is None:
        return sample.nothing
    return torch.where(sample.found, values, 1.0) if sample.over_all else sample.where_found(values)


def _register(name: str, reference: str) -> None:
    @metric(
        slug(name), f"CS, {name}", f"cos(E(G), E(G')), E = {name}",
        low=-1.0, high=1.0, direction="higher", reference=reference, needs="embedders",
    )  # fmt: skip
    def one(sample: Sample) -> Tensor:
        return _over(sample, sample.cosines.get(name))


for _name, _class in EMBEDDERS.items():
    _register(_name, _class.reference)

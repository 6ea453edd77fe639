"""IGE: walks by degree, the low end of the spectrum, and a histogram of its high end."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from counteredge.embedders.base import StackEmbedder
from counteredge.embedders.histogram import histogram
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.stack import GraphStack, largest_loop_degree
from counteredge.errors import InputError

__all__ = ["IGE"]

BLOCKS = (2, 3, 4, 2, 3, 4, 5, 6)  # powers of P: from 2 to 4 and from 2 to 6, so the first three come twice
SPECTRA = (10, 20)
PAIRS = 5  # largest eigenpairs in the histogram
BINS = (10, 20)
SAME = 1e-9  # eigenvalues closer than this, relative to their size, are one


class IGE(StackEmbedder):
    """Mass of random walks on each degree, smallest eigenvalues, histogram of the high end of the spectrum.

    1. For ``p`` = 2, 3, 4, then 2, ..., 6: ``f_p[c] = sum_{v: k_v = c} w^p_v`` for each loop degree ``c`` from 0 to
       the largest of the graphs that the embedder was fitted on; ``w^p`` are the column means of ``P^p``.
    2. For a length of 10, then 20: zeros, followed by the smallest eigenvalues of ``L`` in descending order, as many
       as fit, at most ``n - 1``.
    3. ``S = V diag(1/lambda) V^T`` over the 5 largest eigenpairs of ``L``: histograms of its ``n^2`` entries in 10,
       then 20 bins from -1 to 1.

    Rules where the reference fails or depends on chance:

    - With at most 6 nodes, the ``min(5, n - 1)`` largest pairs are taken; pairs with an eigenvalue of 0 are left out.
    - Where the choice of 5 cuts through an eigenspace, the part that is kept is its projector times the share of its
      dimensions that are kept, so that no basis is preferred.
    - Where graphs have larger degrees than those of the fit, the columns of these degrees are appended at the end of
      the vector, degree by degree with the 8 powers each. Filling up shorter vectors with zeros makes vectors of
      different calls comparable.

    Shapes:
        vectors: ``(8 (K + 1) + 60 + 8 more,)`` with the largest loop degree ``K`` of the fit and ``more`` loop degrees
        above it.

    Raises:
        InputError: When it was not fitted.

    Source:
        Galland, Lelarge, "Invariant embedding for graph classification", ICML 2019 workshop on learning and reasoning
        with graph-structured data.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> IGE().fit([path]).transform([path]).shape
        torch.Size([1, 100])
    """

    name: ClassVar[str] = "IGE"
    reference: ClassVar[str] = "Galland & Lelarge, ICML 2019 workshop"
    needs_fit = True
    largest: int | None = None

    def _fit(self, graphs: SimpleGraphs, progress: bool | None) -> None:
        self.largest = largest_loop_degree(graphs)

    @property
    def dim(self) -> int:
        """Length of the vectors where no degree is above those of the fit."""
        return len(BLOCKS) * (self._fitted_largest() + 1) + sum(SPECTRA) + sum(BINS)

    def _fitted_largest(self) -> int:
        if self.largest is None:
            raise InputError(f"{self.name} learns the largest degree: call fit(graphs) with the original graphs first")
        return self.largest

    def of_stack(self, stack: GraphStack) -> Tensor:
        """Vectors of the graphs of one batch, ``(B, D)``."""
        fitted = self._fitted_largest() + 1
        walks = _by_degree(stack, max(fitted, stack.largest + 1))
        values, vectors = stack.laplacian_eigh
        fine = histogram(_high_end(values, vectors), -1.0, 1.0, BINS[1])
        coarse = fine.reshape(len(stack), BINS[0], -1).sum(2)  # the same edges, every second one
        spectra = [_low_end(values, length) for length in SPECTRA]
        later = walks[:, :, fitted:].transpose(1, 2).flatten(1)
        return torch.cat([walks[:, :, :fitted].flatten(1), *spectra, coarse, fine, later], 1)


def _by_degree(stack: GraphStack, width: int) -> Tensor:
    """``f_p`` of each block, ``(B, 8, width)``."""
    pools = stack.pools[:, min(BLOCKS) :]
    column = stack.loop_degree.long()[:, None].expand_as(pools)
    found = pools.new_zeros(len(stack), pools.shape[1], width).scatter_add_(2, column, pools)
    return found[:, [p - min(BLOCKS) for p in BLOCKS]]


def _low_end(values: Tensor, length: int) -> Tensor:
    """The smallest eigenvalues in descending order at the end of ``length`` numbers, ``(B, length)``."""
    count = min(values.shape[1] - 1, length)
    found = values.new_zeros(len(values), length)
    found[:, length - count :] = values[:, :count].flip(1)
    return found


def _high_end(values: Tensor, vectors: Tensor) -> Tensor:
    """``S``, ``(B, n, n)``."""
    n = values.shape[1]
    kept = min(PAIRS, n - 1)
    if not kept:
        return torch.zeros_like(vectors)
    cut = values[:, n - kept, None]
    same = (values - cut).abs() <= SAME * (1 + cut)
    above = (values > cut) & ~same
    share = (kept - above.sum(1, keepdim=True)) / same.sum(1, keepdim=True)
    weight = above.to(values.dtype) + same * share
    # components have the eigenvalue 0, which has no inverse
    weight = torch.where(values > SAME, weight / values.clamp(min=SAME), 0.0)
    return (vectors * weight[:, None]) @ vectors.transpose(1, 2)

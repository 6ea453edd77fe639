"""Graph2Vec: a graph as a document of Weisfeiler-Lehman words of its nodes; and what it shares with GL2Vec."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm

from counteredge.embedders.base import ListEmbedder, hidden
from counteredge.embedders.doc2vec import (
    BACKENDS,
    Backend,
    Doc2VecOptions,
    DocumentModel,
    GensimDoc2Vec,
    NativeDoc2Vec,
    whole,
)
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.words import Documents, node_words
from counteredge.errors import unknown

__all__ = ["DocumentEmbedder", "Graph2Vec"]


class DocumentEmbedder(ListEmbedder):
    """A graph is a document of words; its vector is learned together with those of the words.

    Attributes:
        options: Of the document model.
        wl_iterations: How often labels are refined.
        backend: Which document model.
        model: The document model.
    """

    needs_fit = True

    def __init__(
        self,
        *,
        dim: int = 128,
        epochs: int = 10,
        learning_rate: float = 0.025,
        min_alpha: float = 1e-4,
        down_sampling: float = 1e-4,
        min_count: int = 5,
        negative: int = 5,
        seed: int = 42,
        wl_iterations: int = 2,
        backend: Backend = "native",
    ) -> None:
        whole("wl_iterations", wl_iterations, 0)
        if backend not in BACKENDS:
            raise unknown("backend", str(backend), BACKENDS)
        self.options = Doc2VecOptions(
            dim=dim,
            epochs=epochs,
            learning_rate=learning_rate,
            min_alpha=min_alpha,
            down_sampling=down_sampling,
            min_count=min_count,
            negative=negative,
            seed=seed,
        )
        self.wl_iterations = wl_iterations
        self.backend: Backend = backend
        self.model: DocumentModel = (NativeDoc2Vec if backend == "native" else GensimDoc2Vec)(self.options)

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self.options.dim

    @abstractmethod
    def documents(self, graphs: SimpleGraphs) -> Iterator[Documents]:
        """The words of the graphs, in parts."""

    def _fit(self, graphs: SimpleGraphs, progress: bool | None) -> None:
        with tqdm(
            total=len(graphs), desc="reading", unit="graph", delay=2, leave=False, disable=hidden(progress)
        ) as bar:
            parts = []
            for part in self.documents(graphs):
                parts.append(part)
                bar.update(part.size)
        self.model.fit(Documents.merge(parts), progress)

    def of_list(self, graphs: SimpleGraphs, progress: bool | None) -> Tensor:
        """Vectors of the graphs, ``(N, dim)``."""
        none = torch.zeros(0, self.dim, dtype=torch.float64)
        return torch.cat([none, *(self.model.infer(part, progress) for part in self.documents(graphs))])


class Graph2Vec(DocumentEmbedder):
    """Graph2Vec: PV-DBOW over the Weisfeiler-Lehman words of the nodes.

    ``label_0(v) = d_v + 2``, ``label_i+1(v) = md5(label_i(v), sorted labels of N(v) and v)``; a document holds all
    labels of all nodes.

    The vectors carry little signal: most words are rarer than ``min_count`` or thinned out, and with some hundred
    fitted graphs they point in nearly one direction, so the cosine of almost any two graphs is close to 1.

    Args:
        dim: Length of the vectors.
        epochs: Passes over the documents, in fitting and in inference.
        learning_rate: What the learning rate starts with.
        min_alpha: What it falls to while fitting.
        down_sampling: Share of a word in all words above which it is thinned out; 0 for never.
        min_count: Words that occur less often in all fitted graphs together are ignored.
        negative: Noise words for each word.
        seed: Of the start vectors.
        wl_iterations: How often labels are refined.
        backend: ``"native"`` is deterministic; ``"gensim"`` is for comparison with published numbers.

    Raises:
        InputError: For an option that cannot be used.
        CapabilityError: For ``backend="gensim"`` when gensim is not installed.

    Shapes:
        :meth:`transform` returns ``(N, dim)``, double precision.

    Source:
        Narayanan et al., graph2vec: learning distributed representations of graphs (2017).

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> same = Data(edge_index=torch.tensor([[3, 1, 0], [1, 0, 2]]), num_nodes=4)
        >>> star = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4)
        >>> found = Graph2Vec(dim=8, min_count=1).fit([path, star]).transform([path, same, star])
        >>> found.shape, torch.equal(found[0], found[1]), torch.equal(found[0], found[2])
        (torch.Size([3, 8]), True, False)
    """

    name = "Graph2Vec"
    reference = "Narayanan et al., graph2vec: learning distributed representations of graphs (2017)"

    def documents(self, graphs: SimpleGraphs) -> Iterator[Documents]:
        """The words of the nodes, in parts."""
        return node_words(graphs, self.wl_iterations)

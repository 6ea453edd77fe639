"""GL2Vec: a graph as a document of Weisfeiler-Lehman words of its edges."""

from __future__ import annotations

from collections.abc import Iterator

from counteredge.embedders.graph2vec import DocumentEmbedder
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.words import Documents, edge_words

__all__ = ["GL2Vec"]


class GL2Vec(DocumentEmbedder):
    """GL2Vec: PV-DBOW over the Weisfeiler-Lehman words of the line graph.

    The line graph is that of the graph with a loop at every node: its vertices are edges and loops, its start labels
    their degrees, ``d_u + d_v`` of an edge and ``d_v`` of a loop. Its edges are never listed, so dense graphs are no
    problem. A graph without edges has an empty document and keeps the start vector. Edge attributes are not used.

    The vectors carry little signal at the defaults, see :class:`Graph2Vec`.

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
        Chen and Koga, GL2vec: graph embedding enriched by line graphs with edge features (ICONIP 2019).

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> star = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4)
        >>> bare = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=4)
        >>> embedder = GL2Vec(dim=8, min_count=1).fit([path, star])
        >>> torch.equal(embedder.transform([bare])[0], embedder.options.start)
        True
    """

    name = "GL2Vec"
    reference = "Chen and Koga, GL2vec: graph embedding enriched by line graphs with edge features (ICONIP 2019)"

    def documents(self, graphs: SimpleGraphs) -> Iterator[Documents]:
        """The words of edges and loops, in parts."""
        return edge_words(graphs, self.wl_iterations)

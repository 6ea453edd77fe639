"""Weisfeiler-Lehman words of many graphs: the documents that Graph2Vec and GL2Vec read."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from counteredge.embedders.simple import SimpleGraphs

__all__ = ["Documents", "edge_words", "node_words"]

RUN = 1 << 18  # nodes and edges of the graphs whose words are computed together

Ints = npt.NDArray[np.int64]
# from the distinct labels, sorted, and the number of each thing's label: the same one round later
Refine = Callable[[list[str], Ints], tuple[list[str], Ints]]


@dataclass(frozen=True)
class Documents:
    """The words of ``N`` graphs, as a sparse matrix of counts.

    Attributes:
        size: Number of graphs, ``N``.
        words: The distinct words.
        graph: Row of each entry, ascending.
        word: Column of each entry, an index into ``words``; ascending in a row.
        count: How often the graph has the word, at least 1.

    Shapes:
        graph, word, count: ``(entries,)``.

    Example:
        >>> Documents.merge([Documents.of([["a", "b", "a"]]), Documents.of([["c"], []])]).lists()
        [['a', 'a', 'b'], ['c'], []]
    """

    size: int
    words: tuple[str, ...]
    graph: Tensor
    word: Tensor
    count: Tensor

    @classmethod
    def of(cls, lists: Sequence[Iterable[str]]) -> Documents:
        """Documents from lists of words."""
        tokens = [(k, w) for k, words in enumerate(lists) for w in words]
        names, word = _numbered([w for _, w in tokens], np.arange(len(tokens)))
        return cls._counted(len(lists), names, np.array([k for k, _ in tokens], dtype=np.int64), word)

    @classmethod
    def _counted(cls, size: int, words: Sequence[str], graph: Ints, word: Ints) -> Documents:
        """From one entry a token."""
        width = max(1, len(words))
        key, count = np.unique(graph * width + word, return_counts=True)
        entries = (torch.from_numpy(a) for a in (key // width, key % width, count.astype(np.int64)))
        return cls(size, tuple(words), *entries)

    @classmethod
    def merge(cls, parts: Iterable[Documents]) -> Documents:
        """Documents one after another."""
        place: dict[str, int] = {}
        none = torch.zeros(0, dtype=torch.long)
        rows, columns, counts, size = [none], [none], [none], 0
        for part in parts:
            at = torch.tensor([place.setdefault(w, len(place)) for w in part.words], dtype=torch.long)
            rows.append(part.graph + size)
            columns.append(at[part.word])
            counts.append(part.count)
            size += part.size
        graph, word = torch.cat(rows), torch.cat(columns)
        order = torch.argsort(graph * max(1, len(place)) + word)
        return cls(size, tuple(place), graph[order], word[order], torch.cat(counts)[order])

    def lists(self) -> list[list[str]]:
        """The words of each graph, sorted, each as often as it occurs."""
        found: list[list[str]] = [[] for _ in range(self.size)]
        for k, w, count in zip(self.graph.tolist(), self.word.tolist(), self.count.tolist(), strict=True):
            found[k] += [self.words[w]] * count
        return [sorted(words) for words in found]


def node_words(graphs: SimpleGraphs, iterations: int = 2) -> Iterator[Documents]:
    """Words of the nodes, as Graph2Vec reads them.

    Every node gets a loop. ``label_0(v) = str(d_v + 2)``, since a loop counts twice in a degree, and
    ``label_i+1(v) = md5(label_i(v) _ sorted labels of N(v) and v)`` in hexadecimal, joined by underscores; labels are
    sorted as strings. A document holds all labels of all nodes: ``(iterations + 1) n`` words.

    Each distinct pair of a label and a multiset of labels around it is hashed once for all graphs of a run; a run is as
    many neighbouring graphs as have 2^18 nodes and edges together, so that memory is bounded.

    Args:
        graphs: Any number of graphs.
        iterations: How often labels are refined.

    Yields:
        Documents of neighbouring graphs, in their order.

    Source:
        Narayanan et al., graph2vec (2017); Shervashidze et al., Weisfeiler-Lehman graph kernels (2011).

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> next(node_words(SimpleGraphs.of([path]), iterations=0)).lists()
        [['3', '3', '4']]
    """
    for run in _runs(graphs):
        degree = np.bincount(np.concatenate(run.edges), minlength=len(run.owner))
        yield _documents(run, degree + 2, run.owner, iterations, _around_nodes(run))


def edge_words(graphs: SimpleGraphs, iterations: int = 2) -> Iterator[Documents]:
    """Words of the edges, as GL2Vec reads them: those of the line graph.

    Every node gets a loop; the vertices of the line graph are the ``m`` edges and the loops, adjacent where they share
    an end. ``label_0`` is the degree there: ``d_u + d_v`` of an edge, ``d_v`` of a loop. Then labels are refined as in
    :func:`node_words`, but a vertex is not among its own neighbours. The loop of an isolated node has no neighbour and
    is left out, so a graph without edges has no words.

    The line graph has of the order of ``sum d^2`` edges, which are never listed. The neighbours of an edge ``uv`` are
    what meets at ``u`` and what meets at ``v``, without the edge itself, so their labels are two sorted lists, one a
    node, merged. Each distinct triple of a label and two such lists is merged and hashed once in a run; memory is of
    the order of ``n + m``, and no bound on the line graph is needed.

    Args:
        graphs: Any number of graphs.
        iterations: How often labels are refined.

    Yields:
        Documents of neighbouring graphs, in their order.

    Source:
        Chen and Koga, GL2vec: graph embedding enriched by line graphs with edge features (ICONIP 2019).

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> next(edge_words(SimpleGraphs.of([path]), iterations=0)).lists()
        [['1', '1', '2', '3', '3']]
    """
    for run in _runs(graphs):
        u, v = run.edges
        degree = np.bincount(np.concatenate([u, v]), minlength=len(run.owner))
        loops = np.flatnonzero(degree)
        first = np.concatenate([degree[u] + degree[v], degree[loops]])
        owner = np.concatenate([run.owner[u], run.owner[loops]])
        yield _documents(run, first, owner, iterations, _around_edges(run, loops))


def _around_nodes(run: _Run) -> Refine:
    n = len(run.owner)
    u, v = run.edges
    holder, held = np.concatenate([u, v, np.arange(n)]), np.concatenate([v, u, np.arange(n)])

    def refine(names: list[str], label: Ints) -> tuple[list[str], Ints]:
        kind, members = _multisets(label[held], holder, n, len(names))
        distinct, back = np.unique(kind * len(names) + label, return_inverse=True)
        called = names.__getitem__
        hashes = [
            _md5("_".join((names[own], *map(called, members[k]))))
            for k, own in zip((distinct // len(names)).tolist(), (distinct % len(names)).tolist(), strict=True)
        ]
        return _numbered(hashes, back)

    return refine


def _around_edges(run: _Run, loops: Ints) -> Refine:
    u, v = run.edges
    m, n = len(u), len(run.owner)
    left, right = np.concatenate([u, loops]), np.concatenate([v, loops])
    holder = np.concatenate([u, v, loops])
    held = np.concatenate([np.arange(m), np.arange(m), m + np.arange(len(loops))])

    def refine(names: list[str], label: Ints) -> tuple[list[str], Ints]:
        kind, members = _multisets(label[held], holder, n, len(names))
        a, b = np.minimum(kind[left], kind[right]), np.maximum(kind[left], kind[right])
        b[m:] = len(members)  # a loop has one list
        members.append([])
        # in two steps, since three numbers might not fit into one
        pairs, pair = np.unique(a * len(members) + b, return_inverse=True)
        distinct, back = np.unique(pair * len(names) + label, return_inverse=True)
        pairs = pairs[distinct // len(names)]
        triples = zip(
            (pairs // len(members)).tolist(),
            (pairs % len(members)).tolist(),
            (distinct % len(names)).tolist(),
            strict=True,
        )
        return _numbered([_edge_hash(names, members[i], members[j], own) for i, j, own in triples], back)

    return refine


def _edge_hash(names: list[str], left: list[int], right: list[int], own: int) -> str:
    """The new label of an edge with label ``own``, from the labels at its ends; ``right`` is empty for a loop."""
    around = sorted(left + right)
    at = bisect_left(around, own)
    del around[at : at + (2 if right else 1)]  # the edge itself is in the list of either end
    return _md5("_".join((names[own], *map(names.__getitem__, around))))


@dataclass(frozen=True)
class _Run:
    """Some graphs as one: node numbers run through."""

    size: int
    owner: Ints
    edges: tuple[Ints, Ints]


def _runs(graphs: SimpleGraphs) -> Iterator[_Run]:
    nodes = graphs.nodes.numpy()
    ptr = np.searchsorted(graphs.owner.numpy(), np.arange(len(nodes) + 1))
    ends = graphs.edges.numpy()
    load = np.concatenate([[0], np.cumsum(nodes) + ptr[1:]])
    start = 0
    while start < len(nodes):
        stop = max(start + 1, int(np.searchsorted(load, load[start] + RUN, side="right")) - 1)
        sizes = nodes[start:stop]
        part = slice(ptr[start], ptr[stop])
        shift = (np.cumsum(sizes) - sizes)[graphs.owner.numpy()[part] - start]
        owner = np.repeat(np.arange(stop - start), sizes)
        yield _Run(stop - start, owner, (ends[0, part] + shift, ends[1, part] + shift))
        start = stop


def _documents(run: _Run, first: Ints, owner: Ints, iterations: int, refine: Refine) -> Documents:
    """Documents from the numbers that things (nodes, edges) start with and the function that refines their labels."""
    numbers, back = np.unique(first, return_inverse=True)
    names, label = _numbered([str(x) for x in numbers.tolist()], back)
    words, found = list(names), [label]
    for _ in range(iterations if len(label) else 0):
        names, label = refine(names, label)
        # labels of different rounds differ: what is hashed starts with labels of different rounds
        found.append(label + len(words))
        words += names
    return Documents._counted(run.size, words, np.tile(owner, len(found)), np.concatenate(found))


def _multisets(label: Ints, holder: Ints, n: int, labels: int) -> tuple[Ints, list[list[int]]]:
    """Which of the distinct multisets of labels each of ``n`` holders has, and those multisets, sorted."""
    key = np.sort(holder * labels + label)
    raw = (key % labels).astype(np.int32).tobytes()
    stops = 4 * np.concatenate([[0], np.cumsum(np.bincount(holder, minlength=n))])
    table: dict[bytes, int] = {}
    kind = [table.setdefault(raw[a:b], len(table)) for a, b in pairwise(stops.tolist())]
    return np.array(kind, dtype=np.int64), [memoryview(k).cast("i").tolist() for k in table]


def _numbered(strings: Sequence[str], back: Ints) -> tuple[list[str], Ints]:
    """The distinct strings, sorted, and the number of ``strings[back]``: numbers are ordered as the strings are."""
    names = sorted(set(strings))
    place = {w: i for i, w in enumerate(names)}
    return names, np.array([place[w] for w in strings], dtype=np.int64)[back]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

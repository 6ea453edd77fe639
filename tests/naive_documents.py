"""The words of Graph2Vec and GL2Vec written down plainly, for comparison."""

import hashlib

import networkx as nx

ROUNDS = 2


def graph2vec_words(graph: nx.Graph) -> list[str]:
    """Weisfeiler-Lehman words of the graph with a loop at every node."""
    return _words(_looped(graph))


def gl2vec_words(graph: nx.Graph) -> list[str]:
    """The same of the line graph of the looped graph, without vertices that have no neighbour."""
    line = nx.line_graph(_looped(graph))
    return _words(line.subgraph([v for v, d in line.degree() if d]))


def _looped(graph: nx.Graph) -> nx.Graph:
    looped = nx.Graph(graph)
    looped.add_edges_from((v, v) for v in graph)
    return looped


def _words(graph: nx.Graph) -> list[str]:
    label = {v: str(d) for v, d in graph.degree()}
    words = list(label.values())
    for _ in range(ROUNDS):
        label = {v: _md5("_".join([label[v], *sorted(label[u] for u in graph[v])])) for v in graph}
        words += label.values()
    return words


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()

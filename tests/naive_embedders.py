"""Whole-graph embedders one graph at a time, written straight from their definitions with networkx, numpy and scipy.

They share no code with the library and go other ways than it does where there are some: matrix powers of the graph
with its loops instead of pooled vectors, pseudo-inverses instead of inverses, paths by breadth-first search.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.spatial.distance

THETA = np.linspace(0.01, 2.5, 25)
TIE = 1e-9


def with_loops(graph: nx.Graph) -> nx.Graph:
    """The graph with a loop at every node and nodes numbered from 0; loops that it has are one and the same."""
    nodes = sorted(graph.nodes)
    out = nx.Graph()
    out.add_nodes_from(range(len(nodes)))
    place = {v: k for k, v in enumerate(nodes)}
    out.add_edges_from((place[u], place[v]) for u, v in graph.edges)
    out.add_edges_from((v, v) for v in out)
    return out


def without_loops(graph: nx.Graph) -> nx.Graph:
    out = with_loops(graph)
    out.remove_edges_from(nx.selfloop_edges(out))
    return out


def matrix(graph: nx.Graph) -> np.ndarray:
    return nx.to_numpy_array(graph, nodelist=range(len(graph)))


def degrees(graph: nx.Graph) -> np.ndarray:
    return np.array([graph.degree(v) for v in range(len(graph))], dtype=float)


def clustering(graph: nx.Graph) -> np.ndarray:
    plain = without_loops(graph)
    return np.array([nx.clustering(plain, v) for v in range(len(plain))], dtype=float)


def waves(*signals: np.ndarray) -> np.ndarray:
    angles = np.concatenate([np.outer(s, THETA) for s in signals], axis=1)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def counts(values: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    """Histogram in which a value just below an edge lies on it."""
    flat = np.ravel(values) + TIE
    flat = np.where(np.abs(flat - TIE - high) <= TIE, high, flat)
    return np.histogram(flat, bins=bins, range=(low, high))[0].astype(float)


def walk(graph: nx.Graph) -> np.ndarray:
    looped = with_loops(graph)
    return matrix(looped) / degrees(looped)[:, None]


def looped_laplacian(graph: nx.Graph) -> np.ndarray:
    a = matrix(with_loops(graph))
    root = np.diag(1 / np.sqrt(a.sum(1)))
    return root @ (np.diag(a.sum(1)) - a) @ root


def feather_g(graph: nx.Graph) -> np.ndarray:
    looped = with_loops(graph)
    step = scipy.sparse.csr_array(walk(graph))
    x = waves(np.log(degrees(looped) + 1), clustering(graph))
    out = []
    for _ in range(5):
        x = step @ x
        out.append(x.mean(0))
    return np.concatenate(out)


def netlsd(graph: nx.Graph) -> np.ndarray:
    values = np.linalg.eigvalsh(nx.normalized_laplacian_matrix(without_loops(graph)).toarray())
    n = len(values)
    if n > 400:
        values = np.concatenate([values[:199], np.linspace(values[199], values[n - 200], n - 398), values[n - 199 :]])
    elif n > 2:
        values = values[2:]
    return np.array([np.exp(-t * values).mean() for t in np.logspace(-2, 2, 250)])


def wavelet_characteristic(graph: nx.Graph, self_loops: bool = True) -> np.ndarray:
    plain, looped = without_loops(graph), with_loops(graph)
    n = len(plain)
    heat = scipy.linalg.expm(-nx.laplacian_matrix(plain, nodelist=range(n)).toarray().astype(float))
    unlike = np.exp(scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(heat, "cityblock")))
    used = looped if self_loops else plain
    x = waves(np.log(degrees(used) + 1), clustering(plain))
    out = []
    power = np.eye(n)
    for _ in range(5):
        power = np.minimum(power @ matrix(used), 1)
        for m in (power, power * unlike):
            total = m.sum(1, keepdims=True)
            rows = np.divide(m, total, out=np.zeros_like(m), where=total > 0)
            out.append((rows @ x).mean(0))
    return np.concatenate(out)


def ige(graph: nx.Graph, largest: int | None = None) -> np.ndarray:
    looped, step = with_loops(graph), walk(graph)
    k = degrees(looped).astype(int)
    n = len(k)
    onehot = np.eye((max(k) if largest is None else largest) + 1)[k]
    out = [(np.linalg.matrix_power(step, p) @ onehot).mean(0) for top in (3, 5) for p in range(2, top + 2)]
    values, vectors = np.linalg.eigh(nx.laplacian_matrix(looped, nodelist=range(n)).toarray().astype(float))
    for length in (10, 20):
        block = np.zeros(length)
        for position in range(min(n - 1, length)):
            block[length - 1 - position] = values[position]
        out.append(block)
    s = top_pairs(values, vectors)
    return np.concatenate([*out, counts(s, -1, 1, 10), counts(s, -1, 1, 20)])


def top_pairs(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """``V diag(1/lambda) V^T`` of the five largest eigenpairs, eigenspace by eigenspace."""
    left = min(5, len(values) - 1)
    s = np.zeros_like(vectors)
    end = len(values)
    while left > 0:
        start = end
        while start > 0 and abs(values[start - 1] - values[end - 1]) <= 1e-9 * (1 + values[end - 1]):
            start -= 1
        projector = vectors[:, start:end] @ vectors[:, start:end].T
        if values[end - 1] > 1e-9:
            s += min(left, end - start) / (end - start) / values[end - 1] * projector
        left -= end - start
        end = start
    return s


def ldp(graph: nx.Graph) -> np.ndarray:
    looped = with_loops(graph)
    x = {v: float(np.log(d)) for v, d in looped.degree}
    rows = []
    for v in looped:
        around = np.array([x[u] for u in looped.neighbors(v)])
        rows.append([x[v], around.min(), around.max(), around.std(), around.mean()])
    return np.concatenate([counts(column, 0, 10, 32) for column in np.array(rows).T])


def geo_scattering(graph: nx.Graph, wavelets: str = "elementwise") -> np.ndarray:
    looped, plain = with_loops(graph), without_loops(graph)
    far = np.zeros(len(plain))
    for part in nx.connected_components(plain):
        for v, e in nx.eccentricity(plain.subgraph(part)).items():
            far[v] = e
    x = np.stack([np.log(degrees(looped) + 1), far, clustering(graph)], axis=1)
    lazy = (np.eye(len(plain)) + walk(graph)) / 2
    power = (lambda p: lazy**p) if wavelets == "elementwise" else (lambda p: np.linalg.matrix_power(lazy, p))
    psi = [power(2**s) - power(2 ** (s + 1)) for s in range(5)]
    out = [np.sum(np.abs(x[:, c]) ** p) for c in range(3) for p in range(1, 5)]
    out += [np.sum(np.abs(psi[s] @ x[:, c]) ** q) for c in range(3) for s in range(5) for q in range(1, 4)]
    for c in range(3):
        for i in range(4):
            for j in range(i + 1, 4):
                twice = np.abs(psi[j] @ np.abs(psi[i] @ x[:, c]))
                out += [np.sum(twice**q) for q in range(1, 4)]
    return np.array(out)


def sf(graph: nx.Graph) -> np.ndarray:
    values = np.sort(nx.normalized_laplacian_spectrum(with_loops(graph)))
    if len(values) > 128:
        return values[-128:]
    values[0] = 0.0
    return np.concatenate([values, np.zeros(128 - len(values))])


def spectral_distances(graph: nx.Graph) -> np.ndarray:
    inverse = np.linalg.pinv(looped_laplacian(graph), rcond=1e-10, hermitian=True)
    own = np.diag(inverse)
    s = own[:, None] + own[None] - 2 * inverse
    np.fill_diagonal(s, 0.0)
    return s


def fgsd(graph: nx.Graph) -> np.ndarray:
    return counts(spectral_distances(graph), 0, 20, 200)


NAIVE: dict[str, Callable[[nx.Graph], np.ndarray]] = {
    "FEATHER-G": feather_g,
    "NetLSD": netlsd,
    "WaveletCharacteristic": wavelet_characteristic,
    "IGE": ige,
    "LDP": ldp,
    "GeoScattering": geo_scattering,
    "SF": sf,
    "FGSD": fgsd,
}

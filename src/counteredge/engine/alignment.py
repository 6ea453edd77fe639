"""Other graphs laid onto the nodes of one graph: targets to walk back from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch_geometric.data import Data

from counteredge.graphs import GraphBatch

__all__ = ["aligned", "nearest"]

REFINEMENTS = 4  # assignments made again with the edges that the last one matched

Array = NDArray[np.float64]


def nearest(graph: Data, references: Sequence[Data], keep: int) -> list[int]:
    """The references that look most like a graph, before nodes are matched: sizes, edges, features and degrees.

    Args:
        graph: The graph.
        references: Graphs with the same columns.
        keep: How many at most.

    Returns:
        Their numbers, most alike first.
    """
    looks = np.stack([_look(g) for g in (graph, *references)])
    scale = np.maximum(np.abs(looks).max(0), 1e-12)
    distance = (np.abs(looks[1:] - looks[:1]) / scale).sum(1)
    order = np.argsort(np.round(distance, 9), kind="stable")[:keep]
    return [int(k) for k in order]


def _look(g: Data) -> Array:
    x = g.x.reshape(len(g.x), -1).double().cpu().numpy()
    degree = np.sort(np.bincount(g.edge_index[0].cpu().numpy(), minlength=len(x)))
    quantiles = np.quantile(degree, [0.1, 0.5, 0.9, 1.0])
    out: Array = np.concatenate([[len(x)], [degree.sum()], quantiles, x.sum(0)])
    return out


def aligned(base: GraphBatch, row: int, reference: Data) -> tuple[Tensor, Tensor]:
    """A reference in the numbering of one graph of a batch.

    Nodes are matched by the least total difference of features, degree and sums over neighbours (Kuhn 1955; scipy's
    ``linear_sum_assignment``), then again with the edges that the last matching brings together (Frank and Wolfe's step
    on the quadratic assignment, as in FAQ, Vogelstein et al. 2015); the matching with fewest edge edits counts. The
    number of nodes is fixed: surplus nodes of the reference are left out, those of lowest degree first; surplus nodes
    of the graph become isolated and keep their features.

    Args:
        base: The batch.
        row: Which of its graphs.
        reference: The other graph.

    Shapes:
        returns adjacency ``(n, n)`` and features ``(n, f)``, padded as the batch is.
    """
    n = int(base.sizes[row])
    a, x = base.adj[row, :n, :n].cpu().numpy(), base.x[row, :n].double().cpu().numpy()
    b, y = _matrix(reference, base.directed), reference.x.reshape(len(reference.x), -1).double().cpu().numpy()
    if len(b) > n:
        kept = np.sort(np.argsort(-(b.sum(0) + b.sum(1)), kind="stable")[:n])
        b, y = b[np.ix_(kept, kept)], y[kept]
    real, padding = len(b), n - len(b)
    b, y = np.pad(b, (0, padding)), np.pad(y, ((0, padding), (0, 0)))
    match = _match(a, x, b, y)
    adj, feats = np.zeros_like(a), x.copy()
    adj = b[np.ix_(match, match)]
    present = match < real
    feats[present] = y[match[present]]
    out_adj, out_x = base.adj[row].clone(), base.x[row].clone()
    out_adj[:n, :n] = torch.from_numpy(adj).to(out_adj)
    out_x[:n] = torch.from_numpy(feats).to(out_x)
    return out_adj, out_x


def _matrix(g: Data, directed: bool) -> Array:
    n = len(g.x)
    b = np.zeros((n, n))
    src, dst = g.edge_index.cpu().numpy()
    b[src, dst] = 1.0
    np.fill_diagonal(b, 0.0)
    return b if directed else np.maximum(b, b.T)


def _match(a: Array, x: Array, b: Array, y: Array) -> NDArray[np.int64]:
    """For each node of the graph the node of the reference laid onto it."""
    looks = [np.column_stack([m.sum(1), m.sum(0), v, m @ v, m @ m.sum(1)]) for m, v in ((a, x), (b, y))]
    scale = np.maximum(np.abs(np.concatenate(looks)).max(0), 1e-12)
    p, q = (look / scale for look in looks)
    cost = np.abs(p[:, None] - q[None]).sum(2)
    match = np.arange(len(a))  # graphs that come from one another often share their numbering
    best, fewest, now = match, np.inf, cost
    for turn in range(REFINEMENTS + 2):
        if turn:
            match = linear_sum_assignment(np.round(now, 9))[1]
        edits = np.abs(a - b[np.ix_(match, match)]).sum() + 0.5 * np.abs(x - y[match]).sum() / max(1.0, np.abs(x).max())
        if edits < fewest - 1e-9:
            best, fewest = match, edits
        if not turn:
            continue
        permuted = b[match]  # row k: what the node laid onto k is joined to, in the reference's numbering
        now = 0.5 * cost - (a @ permuted + a.T @ b.T[match])
    return best

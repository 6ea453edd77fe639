"""How much was changed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.metrics.definition import PAPER, metric
from counteredge.metrics.sample import Sample

__all__ = ["exact_ged"]


@metric(
    "ged", "Graph edit distance", "edges and nodes, added and removed, nodes aligned; loops never counted",
    direction="lower", reference=f"{PAPER}, appendix C.3",
)  # fmt: skip
def ged(sample: Sample) -> Tensor:
    """Edits of the structure; an undirected edge counts once, features and attributes of edges do not count."""
    return sample.where_found(sample.ged)


@metric(
    "edit_ratio", "Edit ratio", "GED / (n + |E|)", direction="lower",
    reference=f"the \"sparsity\" of {PAPER}, appendix C.3; not the sparsity of CF-GNNExplainer",
)  # fmt: skip
def edit_ratio(sample: Sample) -> Tensor:
    """Structural edits relative to the size of the original."""
    nodes, edges = sample.sizes
    return sample.where_found(sample.ged / (nodes + edges))


@metric(
    "sparsity_cfgnn", "Sparsity (CF-GNNExplainer)", "1 - GED / |E|; NaN for a graph without edges",
    low=-math.inf, high=1.0, direction="higher", reference="Lucic et al., CF-GNNExplainer (AISTATS 2022)",
)  # fmt: skip
def sparsity_cfgnn(sample: Sample) -> Tensor:
    """Share of edges left alone; negative where more pairs and nodes were edited than there are edges."""
    _, edges = sample.sizes
    return sample.where_found(torch.where(edges > 0, 1 - sample.ged / edges.clamp(min=1), torch.nan))


@metric(
    "feature_edits", "Feature edits (L0)",
    "number of changed entries of x, a swap inside a one-hot group being one, and of edges with another attribute",
    direction="lower", reference="Mothilal et al., DiCE (FAT* 2020), sparsity",
)  # fmt: skip
def feature_edits(sample: Sample) -> Tensor:
    """Edits of features; columns that follow from the edges are none, nor are the rows of new nodes."""
    counts = [float(e.feature_count + e.attribute_count) for e in sample.edits]
    return sample.where_found(torch.tensor(counts, dtype=torch.float64))


@metric(
    "feature_l1", "Feature distance (L1)",
    "sum over edited entries of |x' - x| / (hi - lo); a swap inside a one-hot group is 1; of edges' attributes alike",
    direction="lower", reference="Gower (1971); Wachter et al. (2018) scale by spread likewise",
)  # fmt: skip
def feature_l1(sample: Sample) -> Tensor:
    """How far features moved, in ranges: of the schema where it has bounds, else of the dataset, or the originals."""
    if not any(e.features or e.attributes for e in sample.edits):
        return sample.where_found(torch.zeros(len(sample), dtype=torch.float64))
    ranges = _ranges(sample)
    spreads = {
        name: _spread(_real(sample), name) for name in sorted({a.name for e in sample.edits for a in e.attributes})
    }
    schema = sample.schema
    out = []
    for edits in sample.edits:
        total = 0.0
        for edit in edits.features:
            swap = schema is not None and all(schema.columns[c].kind == "onehot" for c in edit.columns)
            parts = [abs(b - a) / ranges[c] for c, a, b in zip(edit.columns, edit.old, edit.new, strict=True)]
            total += sum(parts) / (2 if swap and len(parts) > 1 else 1)
        for change in edits.attributes:
            old, new = (torch.tensor(row, dtype=torch.float64).flatten() for row in (change.old, change.new))
            swap = all(int((row == 1).sum()) == 1 == int((row != 0).sum()) for row in (old, new)) and len(old) > 1
            total += 1.0 if swap else float(((new - old).abs() / spreads[change.name]).sum())
        out.append(total)
    return sample.where_found(torch.tensor(out, dtype=torch.float64))


def _ranges(sample: Sample) -> list[float]:
    """Width of each column's range; 1 where it is constant."""
    seen = torch.cat([g.x.reshape(len(g.x), -1).double() for g in _real(sample) if len(g.x)])
    spread = (seen.amax(0) - seen.amin(0)).tolist()
    if sample.schema is not None:
        bounds = [c.hi - c.lo for c in sample.schema.columns]
        spread = [b if math.isfinite(b) else s for b, s in zip(bounds, spread, strict=True)]
    return [s if s > 0 else 1.0 for s in spread]


def _real(sample: Sample) -> list[Data]:
    return sample.originals if sample.dataset is None else sample.dataset


def _spread(graphs: Sequence[Data], name: str) -> Tensor:
    """Width of the range of each column of an attribute of edges; 1 where it is constant."""
    rows = [g[name].reshape(len(g[name]), -1).double() for g in graphs if name in g and len(g[name])]
    seen = torch.cat(rows)
    spread = seen.amax(0) - seen.amin(0)
    return torch.where(spread > 0, spread, 1.0)


@metric(
    "ged_exact", "Graph edit distance, exact", "the least edits of the structure over all ways to match the nodes",
    direction="lower", reference="Abu-Aisheh et al. (ICPRAM 2015), as networkx implements it", needs="ged_timeout",
)  # fmt: skip
def ged_exact(sample: Sample) -> Tensor:
    """At most the aligned distance; NaN where it was not settled in time."""
    return sample.nothing if sample.exact is None else sample.where_found(sample.exact)


def exact_ged(original: Data, edited: Data, *, timeout: float = 10.0) -> float:
    """Graph edit distance over all ways to match the nodes, by networkx: at most the aligned one.

    Inserting or deleting a node or an edge costs 1, attributes are not compared, loops do not count.

    Args:
        original: A graph, read as undirected.
        edited: Another.
        timeout: Seconds after which the search gives up.

    Returns:
        The distance; NaN when it was not settled in time.

    Source:
        Abu-Aisheh et al., An exact graph edit distance algorithm (ICPRAM 2015), as networkx implements it.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> other = Data(edge_index=torch.tensor([[0, 0], [1, 2]]), num_nodes=3)
        >>> exact_ged(path, other)  # the same path, its nodes in another order
        0.0
    """
    begun = time.perf_counter()
    found = nx.graph_edit_distance(_simple(original), _simple(edited), timeout=timeout)
    late = time.perf_counter() - begun >= timeout
    return math.nan if found is None or late else float(found)


def _simple(data: Data) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(int(data.num_nodes or 0)))
    graph.add_edges_from((u, v) for u, v in data.edge_index.t().tolist() if u != v)
    return graph

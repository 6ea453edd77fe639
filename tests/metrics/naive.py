"""Every metric once more, one graph at a time, and counterfactuals made at random to try them on.

Written from the formulas with plain loops, networkx and numpy. Sizes are read off the two graphs, not off the list of
edits; the exact distance goes through all permutations; clustering coefficients are fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations

import networkx as nx
import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from counteredge.edits import EditSet, FeatureEdit
from counteredge.results import Calls, Counterfactual, Prediction
from counteredge.schema import Column, FeatureSchema

NAN = float("nan")
INF = float("inf")
SCHEMA = FeatureSchema(
    (
        *FeatureSchema.onehot(["C", "N", "O"]).columns,
        Column("continuous", lo=-5, hi=5, name="bounded"),
        Column("continuous", lo=-INF, hi=INF, name="free"),
        Column("integer", lo=0, hi=INF, name="same everywhere"),
        Column("structural", name="degree"),
    )
)
DEGREE = 6


# -- counterfactuals made by hand -------------------------------------------------------------------------------------


class Waves(nn.Module):
    """Three classes that change with nearly every edge and every degree."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.7, 0.31, 0.17]))

    def forward(self, x, edge_index, batch):
        size = int(batch.max()) + 1
        arcs = torch.bincount(batch[edge_index[0]], minlength=size).to(x.dtype)
        sums = torch.zeros(size, x.shape[1], dtype=x.dtype).index_add(0, batch, x)
        # products of neighbouring features, so that it matters which edges there are
        pairs = torch.zeros(size, dtype=x.dtype).index_add(
            0, batch[edge_index[0]], (x[edge_index[0], 3] - x[edge_index[1], 0]).abs()
        )
        angle = self.weight[0] * arcs + self.weight[1] * sums[:, -1] + self.weight[2] * pairs
        return torch.stack([angle.cos(), (angle + 2).cos(), (angle + 4).cos()], 1)


def ask(model, graph):
    """The model's class of one graph, asked directly."""
    with torch.no_grad():
        return int(model(graph.x, graph.edge_index, torch.zeros(len(graph.x), dtype=torch.long)).argmax())


def simple(graph) -> nx.Graph:
    """Undirected, no loops, each edge once."""
    out = nx.Graph()
    out.add_nodes_from(range(graph.num_nodes))
    out.add_edges_from((u, v) for u, v in graph.edge_index.t().tolist() if u != v)
    return out


def edges(graph, directed) -> set:
    found = set()
    for u, v in graph.edge_index.t().tolist():
        if u != v:
            found.add((u, v) if directed else (min(u, v), max(u, v)))
    return found


def with_edges(graph, kept, directed):
    """The graph with these edges alone, each arc as often as before; loops stay, other edges are new."""
    there, arcs = edges(graph, directed), []
    for u, v in graph.edge_index.t().tolist():
        if u == v or ((u, v) if directed else (min(u, v), max(u, v))) in kept:
            arcs.append((u, v))
    arcs += [p for u, v in sorted(set(kept) - there) for p in ([(u, v)] if directed else [(u, v), (v, u)])]
    return Data(x=graph.x.clone(), edge_index=torch.tensor(arcs, dtype=torch.long).reshape(-1, 2).t())


def with_degrees(graph):
    """The graph with its last column computed from its edges."""
    out = graph.clone()
    out.x[:, DEGREE] = torch.tensor([float(d) for _, d in simple(graph).degree()])
    return out


def make_graph(rng, n, directed=False, density=0.4, messy=True):
    """Columns of :data:`SCHEMA`; ``messy``: with loops and with arcs listed twice."""
    arcs = []
    for u in range(n):
        for v in range(u + 1, n):
            if rng.random() < density:
                arcs += [(u, v)] if directed and rng.random() < 0.7 else [(u, v), (v, u)]
    if messy and n:
        arcs += [(v, v) for v in range(n) if rng.random() < 0.2]
        arcs += [a for a in list(arcs) if rng.random() < 0.2]
        arcs = [arcs[k] for k in rng.permutation(len(arcs))]
        if not directed:  # both arcs of an edge, however often
            arcs = [*arcs, *((v, u) for u, v in arcs if (v, u) not in arcs)]
    eighths = rng.integers(-40, 41, (n, 2)) / 8
    x = np.concatenate([np.eye(3)[rng.integers(0, 3, n)], eighths, np.full((n, 1), 7.0), np.zeros((n, 1))], 1)
    edge_index = torch.tensor(arcs, dtype=torch.long).reshape(-1, 2).t()
    return with_degrees(Data(x=torch.tensor(x, dtype=torch.float32), edge_index=edge_index))


def make_edits(rng, graph, directed, kind):
    """Kind: ``edges`` of both sorts, ``removed`` edges, ``features`` or ``both``."""
    n, there = graph.num_nodes, edges(graph, directed)
    pairs = [(u, v) for u in range(n) for v in range(n) if u < v or (directed and u != v)]
    if kind == "removed":
        pairs = sorted(there)
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[: rng.integers(1, 5)]] if kind != "features" else []
    features = []
    for v in sorted(rng.permutation(n)[: rng.integers(1, 4)].tolist()) if kind in ("features", "both") else ():
        old = int(graph.x[v, :3].argmax())
        new = (old + int(rng.integers(1, 3))) % 3
        pair = tuple(sorted((old, new)))
        if rng.random() < 0.6:
            features.append(
                FeatureEdit(v, pair, tuple(float(c == old) for c in pair), tuple(float(c == new) for c in pair))
            )
        for c, step in ((3, 0.25), (4, 1.5), (5, 2.0)):
            if rng.random() < 0.5:
                value = float(graph.x[v, c])
                features.append(FeatureEdit(v, (c,), (value,), (value - step if value > 4 else value + step,)))
    added = tuple(sorted(p for p in chosen if p not in there))
    return EditSet(added, tuple(sorted(p for p in chosen if p in there)), tuple(features), directed)


def counterfactual(graph, edits, *, found=True, before=0, after=1, index=0, structural=None, data=None, **more):
    """A result as an explainer would give it."""
    if found and data is None:
        data = edits.apply(graph, SCHEMA if structural == "refreshed" else None)
    given = {
        "reason": "" if found else "nothing flips it",
        "stage": "greedy",
        "minimal": None,
        "certified_lower_bound": None,
        "calls": Calls(10, 3, 4 if found else None),
        "seconds": 0.25,
        "schema": SCHEMA,
    } | more
    return Counterfactual(
        index, graph, data if found else None, edits if found else EditSet(directed=edits.directed),
        Prediction(before, 0.75), Prediction(after, 0.625) if found else None, found,
        relaxation="none", explainer="by hand", preset="none", seed=0, structural=structural, **given,
    )  # fmt: skip


def make_counterfactual(rng, index, n, *, found, kind="both", directed=False, density=0.4):
    graph = make_graph(rng, n, directed, density)
    before, structural = int(rng.integers(0, 3)), ["refreshed", "frozen"][int(rng.integers(0, 2))]
    whether = [None, True, False]
    return counterfactual(
        graph, make_edits(rng, graph, directed, kind), found=found, before=before, index=index, structural=structural,
        after=(before + int(rng.integers(1, 3))) % 3, minimal=whether[int(rng.integers(0, 3))],
        calls=Calls(
            int(rng.integers(1, 99)), int(rng.integers(0, 99)), int(rng.integers(1, 50)) if rng.random() < 0.8 else None
        ),
        seconds=float(rng.random()), valid_refreshed=whether[int(rng.integers(0, 3))],
        valid_frozen=whether[int(rng.integers(0, 3))],
    )  # fmt: skip


KINDS = ("both", "edges", "removed", "features")


def make_counterfactuals(seed, count=22, most=9):
    """Of graphs with up to ``most`` nodes, one edgeless and one of a single node among them."""
    rng = np.random.default_rng(seed)
    made = [
        make_counterfactual(
            rng, k, int(rng.integers(4, most + 1)), found=rng.random() < 0.7, kind=KINDS[k % 4], directed=k % 3 == 2
        )
        for k in range(count - 2)
    ]
    made.append(make_counterfactual(rng, count - 2, 3, found=True, kind="both", density=0.0))
    made.append(make_counterfactual(rng, count - 1, 1, found=True, kind="features"))
    return made


def make_labels(seed, count):
    """True classes, a few of them unknown."""
    rng = np.random.default_rng(1000 + seed)
    return [None if rng.random() < 0.15 else int(rng.integers(0, 3)) for _ in range(count)]


def make_dataset(seed, counterfactuals, sizes):
    """The originals and further graphs; ``sizes[c]`` graphs are of class ``c``."""
    rng = np.random.default_rng(2000 + seed)
    graphs = [c.original.clone() for c in counterfactuals]
    graphs += [make_graph(rng, int(rng.integers(7, 11)), messy=False) for _ in range(sum(sizes) - len(graphs))]
    for g, y in zip(graphs, rng.permutation(np.repeat(np.arange(len(sizes)), sizes)), strict=True):
        g.y = torch.tensor([int(y)])
    return graphs


# -- what is measured -------------------------------------------------------------------------------------------------


@dataclass
class World:
    """Counterfactuals and everything else that a metric may look at.

    Attributes:
        cfs: The counterfactuals.
        labels: True classes, ``None`` where unknown.
        real: Real graphs with their classes in ``y``.
        model: What was explained.
        embed: From an embedder's name and graphs to vectors.
        names: Embedders that the similarity is the mean of.
        over: ``"found"`` or ``"all"``.
    """

    cfs: Sequence[Counterfactual]
    labels: Sequence[int | None]
    real: Sequence[Data] = ()
    model: nn.Module | None = None
    embed: Callable[[str, Sequence[Data]], np.ndarray] | None = None
    names: Sequence[str] = ()
    over: str = "found"
    kept: dict = field(default_factory=dict)

    @property
    def edited(self) -> list[Data]:
        return [c.data if c.found else c.original for c in self.cfs]

    def vectors(self, name):
        """Of originals, edited graphs and real graphs."""
        if name not in self.kept:
            originals = [c.original for c in self.cfs]
            self.kept[name] = [self.embed(name, g) if len(g) else None for g in (originals, self.edited, self.real)]
        return self.kept[name]


def of_found(one):
    """A metric of single counterfactuals, NaN where there is none."""
    return lambda w: [float(one(c)) if c.found else NAN for c in w.cfs]


def of_all(one):
    return lambda w: [float(one(c)) for c in w.cfs]


def size(c):
    return c.original.num_nodes, len(edges(c.original, c.edits.directed))


def ged(c):
    a, b = (edges(g, c.edits.directed) for g in (c.original, c.data))
    return len(a ^ b) + abs(c.original.num_nodes - c.data.num_nodes)


def sparsity(c):
    return 1 - ged(c) / size(c)[1] if size(c)[1] else NAN


def least_ged(c):
    """Over all ways to match the nodes of two graphs of one size, which never delete a node."""
    a, b = ({frozenset(e) for e in simple(g).edges} for g in (c.original, c.data))
    n = c.original.num_nodes
    return min(len({frozenset(order[v] for v in e) for e in a} ^ b) for order in permutations(range(n)))


def changes(c):
    """Changed columns of each node; a group of one-hot columns is one change, named by a tuple."""
    width, schema = c.original.x.shape[1], c.schema
    found = []
    for v in range(c.original.num_nodes):
        differ = [k for k in range(width) if c.original.x[v, k] != c.data.x[v, k]]
        groups = set()
        for k in differ:
            kind = "continuous" if schema is None else schema.columns[k].kind
            if kind == "structural":
                continue
            if kind == "onehot":
                groups.add(("group", schema.columns[k].group))
            else:
                found.append((v, k))
        found += [(v, g) for g in groups]
    return found


def feature_l1(w):
    def width(k):
        column = None if w.cfs[0].schema is None else w.cfs[0].schema.columns[k]
        if column is not None and math.isfinite(column.hi) and math.isfinite(column.lo):
            reach = column.hi - column.lo
        else:
            seen = [float(v) for c in w.cfs for v in c.original.x[:, k]]
            reach = max(seen) - min(seen)
        return reach if reach > 0 else 1.0

    def one(c):
        total = 0.0
        for v, k in changes(c):
            total += 1.0 if isinstance(k, tuple) else abs(float(c.data.x[v, k]) - float(c.original.x[v, k])) / width(k)
        return total

    return of_found(one)(w)


def fidelity_signed(w):
    out = []
    for c, y in zip(w.cfs, w.labels, strict=True):
        after = c.after.label if c.found else c.before.label
        out.append(NAN if y is None else float(c.before.label == y) - float(after == y))
    return out


def accuracy(w):
    return [NAN if y is None else float(c.before.label == y) for c, y in zip(w.cfs, w.labels, strict=True)]


def fid(w, part):
    """``part``: ``"rest"`` takes the removed edges away, ``"alone"`` leaves nothing else."""
    out = []
    for c in w.cfs:
        if not c.found or c.edits.added or c.edits.features or not c.edits.removed:
            out.append(NAN)
            continue
        kept = set(c.edits.removed) if part == "alone" else edges(c.original, c.edits.directed) - set(c.edits.removed)
        graph = with_edges(c.original, kept, c.edits.directed)
        if c.structural == "refreshed":
            graph.x[:, DEGREE] = torch.tensor([float(d) for _, d in sorted(simple(graph).degree)])
        out.append(1 - float(ask(w.model, graph) == c.before.label))
    return out


def cosine(a, b):
    if not np.any(a) and not np.any(b):
        return 1.0
    if not np.any(a) or not np.any(b):
        return 0.0
    return float(np.dot(a, b) / np.sqrt(np.dot(a, a)) / np.sqrt(np.dot(b, b)))


def similarity(name):
    def all_of(w):
        if name not in w.names:
            return [NAN] * len(w.cfs)
        one, other, _ = w.vectors(name)
        cosines = [cosine(a, b) for a, b in zip(one, other, strict=True)]
        lost = 1.0 if w.over == "all" else NAN
        return [v if c.found else lost for v, c in zip(cosines, w.cfs, strict=True)]

    return all_of


def mean_similarity(w):
    rows = [similarity(name)(w) for name in w.names]
    return [sum(row[k] for row in rows) / len(rows) for k in range(len(w.cfs))]


def neighbours(w):
    """Agreement and distance of each graph."""
    originals, edited, real = w.vectors("WaveletCharacteristic")
    spread = real.std(0)
    spread[spread <= 1e-12] = 1.0
    classes = [int(g.y) for g in w.real]

    def far(a, b):
        return float(np.sqrt((((a - b) / spread) ** 2).sum()))

    usual = {}
    for c in set(classes):
        members = [k for k, y in enumerate(classes) if y == c]
        means = [np.mean(sorted(far(real[k], real[m]) for m in members if m != k)[:15]) for k in members]
        usual[c] = float(np.median(means))
    agree, distance = [], []
    for c, a, b in zip(w.cfs, originals, edited, strict=True):
        if not c.found or ged(c) == 0:
            agree.append(NAN)
            distance.append(NAN)
            continue
        itself = [k for k, r in enumerate(real) if far(a, r) < 1e-7][:1]
        ways = sorted((far(b, r), k) for k, r in enumerate(real) if k not in itself)
        nearest = [classes[k] for _, k in ways[:15]]
        agree.append(sum(y == c.after.label for y in nearest) / len(nearest))
        same = [d for d, k in ways if classes[k] == c.after.label][:15]
        distance.append(sum(same) / len(same) / usual[c.after.label])
    return agree, distance


def kernel(p, q):
    """Of two histograms as dictionaries from bin to share."""
    variation = sum(abs(p.get(k, 0) - q.get(k, 0)) for k in set(p) | set(q)) / 2
    return math.exp(-float(variation))


def histogram(bins):
    return {k: Fraction(bins.count(k), len(bins)) for k in set(bins)}


def clustering_bins(graph):
    """100 bins of equal width in [0, 1], the last one closed."""
    g, out = simple(graph), []
    for v in g:
        near = list(g[v])
        closed = sum(g.has_edge(a, b) for a in near for b in near if a < b)
        pairs = len(near) * (len(near) - 1) // 2
        share = Fraction(closed, pairs) if pairs else Fraction(0)
        out.append(min(99, math.floor(100 * share)))
    return out


def mmd(bins):
    def whole(w):
        one, other = (
            [histogram(bins(g)) for g in graphs]
            for graphs in zip(*((c.original, c.data) for c in w.cfs if c.found), strict=True)
        )

        def mean(a, b):
            return sum(kernel(p, q) for p in a for q in b) / (len(a) * len(b))

        return mean(one, one) + mean(other, other) - 2 * mean(one, other)

    return whole


NAIVE: dict[str, Callable[[World], list[float] | float]] = {
    "oracle_accuracy": accuracy,
    "validity": of_all(lambda c: c.found),
    "validity_structural": of_all(lambda c: c.found and ged(c) > 0),
    "validity_refreshed": of_all(lambda c: c.valid_refreshed),
    "validity_frozen": of_all(lambda c: c.valid_frozen),
    "fidelity": lambda w: [v if math.isnan(v) else max(0.0, v) for v in fidelity_signed(w)],
    "fidelity_signed": fidelity_signed,
    "pyg_fid_plus": lambda w: fid(w, "rest"),
    "pyg_fid_minus": lambda w: fid(w, "alone"),
    "one_minimal_share": of_found(lambda c: c.minimal is True),
    "survives_refresh": of_found(lambda c: c.valid_refreshed),
    "ged": of_found(ged),
    "edit_ratio": of_found(lambda c: ged(c) / sum(size(c))),
    "sparsity_cfgnn": of_found(sparsity),
    "feature_edits": of_found(lambda c: len(changes(c))),
    "feature_l1": feature_l1,
    "ged_exact": of_found(lambda c: NAN if c.edits.directed else least_ged(c)),
    "calls_forward": of_all(lambda c: c.calls.forward),
    "calls_backward": of_all(lambda c: c.calls.backward),
    "oracle_calls": of_all(lambda c: c.calls.forward + c.calls.backward),
    "calls_to_first_valid": of_found(lambda c: NAN if c.calls.to_first_valid is None else c.calls.to_first_valid),
    "runtime": of_found(lambda c: c.seconds),
    "cosine_similarity": mean_similarity,
    "class_agreement": lambda w: neighbours(w)[0],
    "class_distance": lambda w: neighbours(w)[1],
    "degree_mmd": mmd(lambda g: [d for _, d in simple(g).degree()]),
    "clustering_mmd": mmd(clustering_bins),
} | {
    f"cs_{name.lower().replace('-', '_')}": similarity(name)
    for name in (
        "FEATHER-G", "Graph2Vec", "NetLSD", "WaveletCharacteristic", "IGE", "LDP", "GeoScattering", "GL2Vec", "SF",
        "FGSD",
    )
}  # fmt: skip

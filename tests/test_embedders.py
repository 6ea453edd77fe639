"""Whole-graph embedders against reference vectors, against naive implementations, and at the edges of their rules."""

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import naive_embedders as naive
from counteredge.embedders.base import embed
from counteredge.embedders.feather import FeatherG
from counteredge.embedders.fgsd import FGSD
from counteredge.embedders.histogram import histogram
from counteredge.embedders.ige import IGE
from counteredge.embedders.ldp import LDP
from counteredge.embedders.netlsd import NetLSD
from counteredge.embedders.scattering import GeoScattering
from counteredge.embedders.sf import SF
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.stack import COLUMNS, MATRICES, largest_loop_degree, stacks
from counteredge.embedders.wavelet import WaveletCharacteristic
from counteredge.errors import BudgetError, InputError

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "testdata" / "embeddings"
with_reference = pytest.mark.skipif(
    not (FOLDER / "reference.json").is_file(), reason="the reference vectors are not beside the checkout"
)
EIGHT = (FeatherG, NetLSD, WaveletCharacteristic, IGE, LDP, GeoScattering, SF, FGSD)
HISTOGRAM = 30  # last numbers of IGE
EXACT = {
    "feather_g": (FeatherG(), 1e-12),
    "netlsd": (NetLSD(), 5e-6),  # the reference has eigenvalues in single precision
    "wavelet_characteristic": (WaveletCharacteristic(), 1e-12),
    "wavelet_characteristic_noloops": (WaveletCharacteristic(self_loops=False), 1e-12),
    "ldp": (LDP(), 0.0),
    "sf": (SF(), 1e-12),
}
GRAPHS = {
    "one node": nx.empty_graph(1),
    "one edge": nx.path_graph(2),
    "no edges": nx.empty_graph(4),
    "path": nx.path_graph(6),
    "long path": nx.path_graph(37),
    "cycle": nx.cycle_graph(9),
    "complete": nx.complete_graph(7),
    "complete of five": nx.complete_graph(5),
    "star": nx.star_graph(12),
    "petersen": nx.petersen_graph(),
    "two triangles": nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
    "two parts": nx.disjoint_union(nx.cycle_graph(4), nx.star_graph(3)),
    "isolated": nx.disjoint_union(nx.cycle_graph(6), nx.empty_graph(2)),
    "wide": nx.barabasi_albert_graph(131, 2, seed=3),
    **{f"random {s}": nx.gnp_random_graph(2 + 3 * s, 0.1 + 0.04 * s, seed=s) for s in range(10)},
    **{f"tree {s}": nx.random_labeled_tree(28, seed=s) for s in range(3)},
}


def as_data(g, x=None):
    edges = np.array([e for u, v in g.edges() for e in ((u, v), (v, u))], dtype=np.int64).reshape(-1, 2)
    return Data(x=x, edge_index=torch.from_numpy(edges.T.copy()), num_nodes=g.number_of_nodes())


def data(n, *edges, x=None):
    return Data(x=x, edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, num_nodes=n)


def fitted(kind, graphs):
    return kind().fit(graphs)


def vector(embedder, g):
    return embedder.transform([g])[0].numpy()


def ige_with(largest):
    """Fitted on a star with that loop degree."""
    return IGE().fit([as_data(nx.star_graph(largest - 2))])


@pytest.fixture(scope="module")
def reference():
    return json.loads((FOLDER / "reference.json").read_text())


def of_reference(reference, embedder, name):
    """Pairs of vectors, ours first, by graph."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        theirs = {key: file[key] for key in file.files if "/" in key}
    read = {f"{s}/{k}": data(g["n"], *g["edges"]) for s, part in reference["graphs"].items() for k, g in part.items()}
    ours = embedder.transform([read[key] for key in theirs]).numpy()
    assert len(theirs) >= 32
    return {key: (own, their) for own, (key, their) in zip(ours, theirs.items(), strict=True)}


def as_networkx(reference, key):
    part, name = key.split("/")
    g = nx.empty_graph(reference["graphs"][part][name]["n"])
    g.add_edges_from(reference["graphs"][part][name]["edges"])
    return g


def ties_explain(counts, values, low, high):
    """Whether the histogram is that of the values when each one at an edge may fall on either side of it."""
    place = (np.ravel(values) - low) * len(counts) / (high - low)
    edge = np.round(place)
    tied = np.abs(place - edge) <= 1e-7
    inside = (place >= 0) & (place < len(counts))
    left = counts - np.bincount(np.floor(place[~tied & inside]).astype(int), minlength=len(counts))
    # those at an edge, from the lowest on: as many as the bin below still lacks, the rest goes to the bin above
    at = np.bincount(edge[tied & (edge >= 0) & (edge <= len(counts))].astype(int), minlength=len(counts) + 1)
    least = most = 0  # bounds on what the edges so far may have put into the bin above them
    for k, lacking in enumerate(left):
        first = (0, at[0]) if k == 0 else (least, most)  # at the lower end: in or dropped
        below = (max(0, lacking - first[1]), min(at[k + 1], lacking - first[0]))
        if lacking < 0 or below[0] > below[1]:
            return False
        least, most = at[k + 1] - below[1], at[k + 1] - below[0]
    return True


def test_ties_are_explained_only_by_ties():
    assert ties_explain(np.array([1, 1]), np.array([0.5, 0.5]), 0, 1)
    assert ties_explain(np.array([2, 0]), np.array([0.5, 0.0]), 0, 1)
    assert ties_explain(np.array([0, 1]), np.array([0.5, 1.0]), 0, 1)
    assert not ties_explain(np.array([2, 1]), np.array([0.5, 0.5]), 0, 1)
    assert not ties_explain(np.array([0, 1]), np.array([0.2]), 0, 1)


@with_reference
@pytest.mark.parametrize("name", EXACT)
def test_equals_the_reference(reference, name):
    embedder, bound = EXACT[name]
    pairs = of_reference(reference, embedder, name)
    if name.endswith("noloops"):
        # the reference keeps the loops of the input there; here a graph's own loops never count
        pairs.pop("edge_cases/cycle8_loops03")
    off = {key: np.abs(own - their).max() for key, (own, their) in pairs.items()}
    assert max(off.values()) <= bound, off


@with_reference
def test_scattering_equals_the_reference(reference):
    for own, their in of_reference(reference, GeoScattering(), "geo_scattering").values():
        np.testing.assert_allclose(own, their, rtol=1e-12, atol=1e-12)


@with_reference
def test_ige_equals_the_reference(reference):
    with np.load(FOLDER / "ige.npz", allow_pickle=False) as file:
        largest = int(file["max_deg"])
    embedder = ige_with(largest)
    assert embedder.dim == 8 * (largest + 1) + 60
    equal = 0
    for key, (own, their) in of_reference(reference, embedder, "ige").items():
        np.testing.assert_allclose(own[:-HISTOGRAM], their[:-HISTOGRAM], rtol=0, atol=1e-12)
        report = reference["exactness"][key]
        if report["ige_degenerate_cut"]:
            continue  # there the reference depends on the basis that its solver happens to return
        g = nx.laplacian_matrix(naive.without_loops(as_networkx(reference, key))).toarray().astype(float)
        s = naive.top_pairs(*np.linalg.eigh(g))
        assert ties_explain(their[-HISTOGRAM:-20], s, -1, 1)
        assert ties_explain(their[-20:], s, -1, 1)
        if not report["ige_hist_edge_ties"]:
            assert np.array_equal(own[-HISTOGRAM:], their[-HISTOGRAM:])
            equal += 1
    assert equal == 24


@with_reference
def test_fgsd_equals_the_reference(reference):
    equal = 0
    for key, (own, their) in of_reference(reference, FGSD(), "fgsd").items():
        s = naive.spectral_distances(as_networkx(reference, key))
        off_diagonal = s[~np.eye(len(s), dtype=bool)]
        for counts in (own, their):
            left = counts.copy()
            left[0] -= len(s)  # the diagonal always counts in the first bin
            assert ties_explain(left, off_diagonal, 0, 20), key
        if reference["exactness"].get(key, {}).get("fgsd_edge_ties") == 0:
            assert np.array_equal(own, their)
            equal += 1
    assert equal == 21


@with_reference
def test_cosines_under_six_edits(reference):
    expected = {
        FeatherG(): 0.999082,
        FGSD(): 0.934900,
        GeoScattering(): 0.998364,
        ige_with(19): 0.999787,
        LDP(): 0.951230,
        NetLSD(): 0.999999,
        SF(): 0.999547,
        WaveletCharacteristic(): 0.998849,
    }
    graphs = {k: data(g["n"], *g["edges"]) for k, g in reference["graphs"]["random"].items()}
    names = [k for k in graphs if "__" not in k]
    assert len(names) == 6
    for embedder, value in expected.items():
        before = embedder.transform([graphs[k] for k in names])
        after = embedder.transform([graphs[f"{k}__edit6"] for k in names])
        assert round(float(torch.cosine_similarity(before, after).mean()), 6) == value, embedder.name


@pytest.mark.parametrize("kind", EIGHT)
@pytest.mark.parametrize("which", GRAPHS)
def test_equals_the_naive_one(kind, which):
    g = GRAPHS[which]
    own = vector(fitted(kind, [as_data(g)]), as_data(g))
    their = naive.NAIVE[kind.name](g)
    if kind in (LDP, FGSD):
        assert np.array_equal(own, their)
    elif kind is IGE:
        np.testing.assert_allclose(own[:-HISTOGRAM], their[:-HISTOGRAM], rtol=0, atol=1e-11)
        assert np.array_equal(own[-HISTOGRAM:], their[-HISTOGRAM:])
    else:
        np.testing.assert_allclose(own, their, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("which", GRAPHS)
def test_variants_equal_the_naive_ones(which):
    g = GRAPHS[which]
    own = vector(WaveletCharacteristic(self_loops=False), as_data(g))
    np.testing.assert_allclose(own, naive.wavelet_characteristic(g, self_loops=False), rtol=0, atol=1e-11)
    own = vector(GeoScattering(wavelets="matrix"), as_data(g))
    np.testing.assert_allclose(own, naive.geo_scattering(g, wavelets="matrix"), rtol=1e-11, atol=1e-11)


def test_large_graphs():
    g = nx.barabasi_albert_graph(420, 2, seed=1)
    for kind in (NetLSD, SF, LDP):
        np.testing.assert_allclose(vector(kind(), as_data(g)), naive.NAIVE[kind.name](g), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", EIGHT)
def test_dim_is_the_length(kind):
    embedder = fitted(kind, [as_data(g) for g in GRAPHS.values()])
    assert embedder.transform([]).shape == (0, embedder.dim)
    out = embedder.transform([as_data(GRAPHS["path"])])
    assert out.shape == (1, embedder.dim)
    assert out.dtype == torch.float64
    assert embedder.reference


@st.composite
def relabelled(draw):
    n = draw(st.integers(1, 14))
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    order = draw(st.permutations(range(n)))
    return data(n, *edges), data(n, *[(order[v], order[u]) for u, v in edges])


@settings(deadline=None, max_examples=60)
@given(relabelled())
def test_order_of_the_nodes_does_not_matter(pair):
    options = [WaveletCharacteristic(self_loops=False), GeoScattering(wavelets="matrix")]
    for embedder in [*(fitted(kind, pair) for kind in EIGHT), *options]:
        one, other = embedder.transform(pair)
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=embedder.name)


@pytest.mark.parametrize("kind", EIGHT)
def test_a_batch_equals_one_by_one(kind):
    graphs = [as_data(g) for g in (*GRAPHS.values(), *(nx.gnp_random_graph(12, 0.3, seed=s) for s in range(20)))]
    graphs = [graphs[k] for k in np.random.default_rng(0).permutation(len(graphs))]
    embedder = fitted(kind, graphs)
    together = embedder.transform(graphs)
    alone = torch.cat([embedder.transform([g]) for g in graphs])
    bounded = embedder.transform(graphs, memory=8 * 131 * (MATRICES * 131 + COLUMNS))
    for other in (alone, bounded):
        np.testing.assert_allclose(together, other, rtol=1e-12, atol=1e-12)


def test_several_at_once_are_the_same_as_each():
    graphs = [as_data(g) for g in GRAPHS.values()]
    embedders = [fitted(kind, graphs) for kind in EIGHT]
    for embedder, out in zip(embedders, embed(embedders, SimpleGraphs.of(graphs)), strict=True):
        assert torch.equal(out, embedder.transform(graphs))


@pytest.mark.parametrize("kind", EIGHT)
def test_every_graph_is_read_as_a_simple_one(kind):
    plain = data(4, (0, 1), (1, 0), (1, 2), (2, 1))
    others = [data(4, (0, 1), (2, 1)), data(4, (1, 0), (1, 0), (1, 2), (2, 2), (3, 3), (0, 0))]
    weighted = Data(edge_index=plain.edge_index, edge_weight=torch.tensor([3.0, 3.0, 0.1, 0.1]), num_nodes=4)
    embedder = fitted(kind, [plain])
    out = embedder.transform([plain, *others, weighted])
    assert torch.equal(out, out[:1].expand_as(out))
    nothing, node = embedder.transform([data(0), data(1)])
    assert torch.equal(nothing, node)


def test_the_stack_has_its_graphs():
    graphs = [as_data(g) for g in GRAPHS.values()]
    seen = []
    for stack in stacks(SimpleGraphs.of(graphs)):
        assert stack.largest == max(max((d for _, d in g.degree()), default=0) for g in GRAPHS.values()) + 2
        assert len(stack) == len(stack.adj)
        for k, i in enumerate(stack.ids.tolist()):
            g = list(GRAPHS.values())[i]
            assert np.array_equal(stack.adj[k], nx.to_numpy_array(g))
            hops = np.full((stack.n, stack.n), np.inf)
            for u, found in nx.all_pairs_shortest_path_length(g):
                hops[u, list(found)] = list(found.values())
            assert np.array_equal(stack.hops[k], hops)
            seen.append(i)
    assert sorted(seen) == list(range(len(graphs)))
    with pytest.raises(BudgetError, match="131 nodes"):
        list(stacks(SimpleGraphs.of(graphs), memory=1 << 20))
    assert largest_loop_degree(SimpleGraphs.of([])) == 2


def test_histogram_rule():
    x = [0.1 + 0.2, 0.3, 0.3 - 2e-10, 0.3 - 2e-9, -2e-10, 1 + 2e-10, -1e-8, 1 + 1e-8, np.inf, -np.inf, np.nan]
    expected = [1, 0, 1, 3, 0, 0, 0, 0, 0, 1]
    assert histogram(torch.tensor([x], dtype=torch.float64), 0.0, 1.0, 10)[0].tolist() == expected
    random = np.random.default_rng(1).normal(size=(3, 4, 5))
    found = histogram(torch.from_numpy(random), -1.0, 2.0, 7).numpy()
    assert np.array_equal(found, [np.histogram(part, 7, (-1, 2))[0] for part in random])


# where the reference fails, or what it returns is left to chance


def test_netlsd_with_one_and_two_nodes():
    times = np.logspace(-2, 2, 250)
    assert np.array_equal(vector(NetLSD(), data(1)), np.ones(250))
    np.testing.assert_allclose(vector(NetLSD(), data(2, (0, 1))), (1 + np.exp(-2 * times)) / 2, atol=1e-14)
    assert np.array_equal(vector(NetLSD(), data(2)), np.ones(250))
    assert np.array_equal(vector(NetLSD(), data(5)), np.ones(250))


def test_netlsd_of_a_large_graph_draws_a_line_through_the_middle():
    values = np.linalg.eigvalsh(nx.normalized_laplacian_matrix(nx.cycle_graph(402)).toarray())
    middle = np.linspace(values[199], values[202], 4)
    used = np.concatenate([values[:199], middle, values[203:]])
    expected = [np.exp(-t * used).mean() for t in np.logspace(-2, 2, 250)]
    np.testing.assert_allclose(vector(NetLSD(), as_data(nx.cycle_graph(402))), expected, atol=1e-12)


def test_loop_free_wavelets_give_isolated_nodes_a_zero_row():
    embedder = WaveletCharacteristic(self_loops=False)
    assert not vector(embedder, data(3)).any()
    cycle, more = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(6), nx.empty_graph(1))
    np.testing.assert_allclose(vector(embedder, as_data(more)), vector(embedder, as_data(cycle)) * 6 / 7, atol=1e-13)


def test_sf_of_small_and_large_graphs():
    assert not vector(SF(), data(1)).any()
    assert not vector(SF(), data(6)).any()
    assert not vector(SF(), data(200)).any()
    g = nx.random_labeled_tree(140, seed=0)
    values = np.linalg.eigvalsh(naive.looped_laplacian(g))
    np.testing.assert_allclose(vector(SF(), as_data(g)), values[12:], atol=1e-12)
    g = nx.random_labeled_tree(128, seed=0)
    assert vector(SF(), as_data(g))[0] == 0
    values = np.linalg.eigvalsh(naive.looped_laplacian(g))
    np.testing.assert_allclose(vector(SF(), as_data(g)), [0, *values[1:]], atol=1e-12)


def test_scattering_looks_at_each_component_for_the_eccentricity():
    out = vector(GeoScattering(), data(6, (0, 1), (1, 2), (3, 4)))
    assert out[4:8].tolist() == [sum(e**p for e in (2, 1, 2, 1, 1, 0)) for p in range(1, 5)]
    single = vector(GeoScattering(), data(1))
    assert single[0] == pytest.approx(np.log(3))
    assert not single[4:12].any()


def test_fgsd_across_components():
    assert vector(FGSD(), data(2))[0] == 4
    assert vector(FGSD(), data(1))[0] == 1
    assert vector(FGSD(), data(1)).sum() == 1
    out = vector(FGSD(), data(6, (0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)))
    # a triangle's pseudo-inverse is (I - J/3): 2 inside, 4/3 across
    assert {int(k): int(out[k]) for k in out.nonzero()[0]} == {0: 6, 13: 18, 20: 12}


def test_ldp_of_an_isolated_node():
    assert vector(LDP(), data(1)).sum() == 5
    out = vector(LDP(), data(3, (0, 1))).reshape(5, 32)
    assert (out.sum(1) == 3).all()


@pytest.mark.parametrize(
    "which", ["one edge", "path", "complete of five", "two triangles", "no edges", "petersen", "star"]
)
def test_ige_of_small_and_symmetric_graphs(which):
    g = GRAPHS[which]
    n = len(g)
    values, vectors = np.linalg.eigh(nx.laplacian_matrix(g).toarray().astype(float))
    s = naive.top_pairs(values, vectors)
    own = vector(fitted(IGE, [as_data(g)]), as_data(g))
    assert own[-20:].sum() == own[-HISTOGRAM:-20].sum() == (np.abs(s) <= 1).sum()
    assert np.array_equal(own[-20:], naive.counts(s, -1, 1, 20))
    if n <= 6:  # all pairs but the zeros: the pseudo-inverse
        np.testing.assert_allclose(s, np.linalg.pinv(nx.laplacian_matrix(g).toarray()), atol=1e-12)
    if which == "petersen":  # 5 of the four-fold 5 and the five-fold 2: one fifth of the second
        assert np.trace(s) == pytest.approx(4 / 5 + 1 / 2)


def test_ige_of_one_node():
    embedder = ige_with(4)
    out = vector(embedder, data(1))
    parts = out[:40].reshape(8, 5)
    np.testing.assert_allclose(parts[:, 2], [2.0**-p for p in (2, 3, 4, 2, 3, 4, 5, 6)])
    assert np.count_nonzero(parts) == 8
    assert out[40:].nonzero()[0].tolist() == [30 + 5, 40 + 10]


def test_ige_puts_degrees_above_the_fitted_ones_at_the_end():
    star, path = as_data(nx.star_graph(5)), as_data(nx.path_graph(6))
    small = IGE().fit([path])
    assert small.dim == 8 * 5 + 60
    alone, both = small.transform([path]), small.transform([path, star])
    assert alone.shape == (1, small.dim)
    assert both.shape == (2, small.dim + 8 * 3)  # loop degrees 5, 6 and 7
    assert torch.equal(both[0, : small.dim], alone[0])
    assert not both[0, small.dim :].any()
    large = IGE().fit([star])
    blocks = large.transform([star])[0, :64].reshape(8, 8)
    assert torch.equal(both[1, :40].reshape(8, 5), blocks[:, :5])
    assert torch.equal(both[1, small.dim :].reshape(3, 8), blocks[:, 5:].T)
    assert torch.equal(both[1, 40 : small.dim], large.transform([star])[0, 64:])


def test_ige_before_fit():
    for call in (lambda: IGE().transform([data(2, (0, 1))]), lambda: IGE().dim):
        with pytest.raises(InputError, match="fit"):
            call()
    with pytest.raises(InputError, match="no graph"):
        IGE().fit([])


# node features


def with_x(seed, f=3, n=9):
    g = nx.gnp_random_graph(n, 0.3, seed=seed)
    return as_data(g, torch.from_numpy(np.random.default_rng(seed).normal(3, 2, size=(n, f))))


def expected_features(g, x, kind):
    """The definition on standardised features ``x``: the naive walk and ball matrices with other signals."""
    graph = nx.empty_graph(g.num_nodes)
    graph.add_edges_from(g.edge_index.T.tolist())
    table = naive.waves(*x.T)
    if kind is FeatherG:
        return np.concatenate([(np.linalg.matrix_power(naive.walk(graph), r) @ table).mean(0) for r in range(1, 6)])
    values, vectors = np.linalg.eigh(nx.laplacian_matrix(graph).toarray().astype(float))
    heat = vectors @ np.diag(np.exp(-values)) @ vectors.T
    unlike = np.exp(np.abs(heat[:, None] - heat[None]).sum(2))
    out = []
    for r in range(1, 6):
        ball = np.linalg.matrix_power(naive.matrix(naive.with_loops(graph)), r) > 0
        out += [(m / m.sum(1, keepdims=True) @ table).mean(0) for m in (ball * 1.0, ball * unlike)]
    return np.concatenate(out)


@pytest.mark.parametrize(("kind", "default", "each"), [(FeatherG, 500, 250), (WaveletCharacteristic, 1000, 500)])
def test_node_features_are_further_signals(kind, default, each):
    graphs = [with_x(s) for s in range(4)]
    for g in graphs:
        g.x[:, 1] = 0.1  # constant
    embedder = kind(node_features=True)
    assert embedder.needs_fit
    assert not kind().needs_fit
    assert kind().dim == default
    embedder.fit(graphs)
    assert embedder.dim == default + 3 * each
    out = embedder.transform(graphs)
    assert out.shape == (4, embedder.dim)
    assert torch.equal(out[:, :default], kind().transform(graphs))
    every = np.concatenate([g.x for g in graphs])
    every[:, 1] = 0
    spread = every.std(0)
    spread[1] = 1
    for g, row in zip(graphs, out, strict=True):
        x = (g.x.numpy() - every.mean(0)) / spread
        x[:, 1] = 0
        np.testing.assert_allclose(row[default:], expected_features(g, x, kind), atol=1e-11)
    edited = with_x(9)
    edited.x = graphs[0].x + 1  # the constant column has another value, but no scale
    alone = embedder.transform([edited])
    x = (edited.x.numpy() - every.mean(0)) / spread
    x[:, 1] = 1
    np.testing.assert_allclose(alone[0, default:], expected_features(edited, x, kind), atol=1e-11)
    assert float(embedder.mean[1]) == 0.1
    np.testing.assert_allclose(embedder.transform([*graphs, edited])[-1:], alone, atol=1e-12)
    assert torch.equal(embedder.transform(graphs), out)


def test_many_features_go_in_blocks(monkeypatch):
    graphs = [with_x(s, f=7) for s in range(2)]
    embedder = FeatherG(node_features=True).fit(graphs)
    whole = embedder.transform(graphs)
    monkeypatch.setattr("counteredge.embedders.signals.BLOCK", 1)
    np.testing.assert_allclose(embedder.transform(graphs), whole, atol=1e-13)


@pytest.mark.parametrize("kind", [FeatherG, WaveletCharacteristic])
def test_node_features_that_are_missing_or_others(kind):
    embedder = kind(node_features=True)
    for call in (lambda: embedder.transform([with_x(0)]), lambda: embedder.dim):
        with pytest.raises(InputError, match="fit"):
            call()
    nan = with_x(1)
    nan.x[2, 0] = torch.nan
    short = with_x(1)
    short.num_nodes, short.x = 9, short.x[:5]
    for bad, message in (
        ([with_x(0), data(3)], "graph 1 has no x"),
        ([with_x(0), with_x(1, f=2)], "graph 1 has 2 features"),
        ([with_x(0, f=0)], "no columns"),
        ([with_x(0), nan], "x of graph 1 holds nan"),
        ([short], "graph 0 has 9 nodes, but x has 5 rows"),
    ):
        with pytest.raises(InputError, match=message):
            kind(node_features=True).fit(bad)
    embedder.fit([with_x(0), with_x(2, n=5)])
    for bad, message in (
        ([with_x(1), data(3)], "graph 1 has no x"),
        ([with_x(1), with_x(1, f=2)], "graph 1 has 2 features a node, .* fitted on graphs with 3"),
        ([nan], "graph 0 holds nan"),
    ):
        with pytest.raises(InputError, match=message):
            embedder.transform(bad)


@pytest.mark.parametrize("kind", [FeatherG, WaveletCharacteristic])
def test_node_features_of_a_graph_without_nodes_are_the_mean(kind):
    read = SimpleGraphs(
        torch.tensor([1]), torch.zeros(2, 0).long(), torch.zeros(0).long(), (torch.zeros(0, 3).double(),)
    )
    embedder = kind(node_features=True).fit([with_x(0)])
    node = Data(x=embedder.mean[None], edge_index=torch.zeros(2, 0).long())
    np.testing.assert_allclose(embed([embedder], read)[0], embedder.transform([node]), atol=1e-14)
    with pytest.raises(InputError, match="no nodes"):
        kind(node_features=True)._fit(read, None)


def test_options_that_do_not_exist():
    for make, message in (
        (lambda: WaveletCharacteristic(self_loops="no"), "self_loops is either True or False, got 'no'"),
        (lambda: WaveletCharacteristic(node_features=1), "node_features"),
        (lambda: FeatherG(node_features=None), "node_features is either True or False, got None"),
        (lambda: GeoScattering(wavelets="matrx"), "did you mean 'matrix'"),
        (lambda: GeoScattering(wavelets=2), "unknown wavelets '2'"),
        (lambda: FGSD().transform(data(2)), "list of graphs"),
    ):
        with pytest.raises(InputError, match=message):
            make()

"""Graph2Vec and GL2Vec: words against the reference and a naive implementation, vectors by their structure."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity
from torch_geometric.data import Data

from counteredge.embedders import doc2vec, words
from counteredge.embedders.doc2vec import Doc2VecOptions, NativeDoc2Vec
from counteredge.embedders.gl2vec import GL2Vec
from counteredge.embedders.graph2vec import Graph2Vec
from counteredge.embedders.simple import SimpleGraphs
from counteredge.embedders.words import Documents, edge_words, node_words
from counteredge.errors import CapabilityError, InputError
from naive_documents import gl2vec_words, graph2vec_words

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "testdata" / "embeddings"
BOTH = pytest.mark.parametrize("kind", [Graph2Vec, GL2Vec])
needs_gensim = pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim is not installed")

ODD = {
    "one node": nx.empty_graph(1),
    "no edges": nx.empty_graph(4),
    "one edge": nx.path_graph(2),
    "isolated": nx.disjoint_union(nx.cycle_graph(5), nx.empty_graph(2)),
    "loops": nx.Graph([(0, 0), (0, 1), (1, 2), (2, 2), (3, 3)]),
    "two parts": nx.disjoint_union(nx.complete_graph(4), nx.star_graph(11)),
    "dense": nx.gnp_random_graph(30, 0.8, seed=3),
    **{f"random {s}": nx.gnp_random_graph(4 + 4 * s, 0.05 + 0.05 * s, seed=s) for s in range(8)},
}


def as_data(g):
    edges = torch.tensor(list(g.edges()), dtype=torch.long).reshape(-1, 2)
    return Data(edge_index=edges.T.contiguous(), num_nodes=g.number_of_nodes())


def shuffled(g, seed=0):
    order = torch.randperm(g.num_nodes, generator=torch.Generator().manual_seed(seed))
    edges = order[g.edge_index]
    return Data(edge_index=edges.flip(0)[:, torch.randperm(edges.shape[1])], num_nodes=g.num_nodes)


def trees_and_cycles(count, n=28):
    """Random trees; every second one with a cycle through six nodes."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        edges = [(int(rng.integers(v)), v) for v in range(1, n)]
        if k % 2:
            ring = rng.choice(n, 6, replace=False).tolist()
            edges += zip(ring, ring[1:] + ring[:1], strict=True)
        found.append(as_data(nx.Graph(edges)))
    return found


def edited(g, seed):
    """One edge in or out."""
    graph = nx.Graph(g.edge_index.T.tolist())
    u, v = np.random.default_rng(seed).choice(g.num_nodes, 2, replace=False).tolist()
    graph.add_nodes_from(range(g.num_nodes))
    (graph.remove_edge if graph.has_edge(u, v) else graph.add_edge)(u, v)
    return as_data(graph)


@pytest.fixture(scope="module")
def graphs():
    return trees_and_cycles(220)


@pytest.fixture(scope="module", params=[Graph2Vec, GL2Vec])
def fitted(request, graphs):
    return request.param().fit(graphs)


# words


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the reference embeddings are not beside the checkout")
@pytest.mark.parametrize(("name", "read"), [("graph2vec", node_words), ("gl2vec", edge_words)])
def test_words_of_the_reference(name, read):
    known = json.loads((FOLDER / "reference.json").read_text())["graphs"]
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        names, vocabulary, counts = file["doc_names"].tolist(), file["vocab"].tolist(), file["counts"]
    found = [known[group][one] for group, one in (n.split("/") for n in names)]
    data = [
        Data(edge_index=torch.tensor(g["edges"], dtype=torch.long).reshape(-1, 2).T, num_nodes=g["n"]) for g in found
    ]
    ours = Documents.merge(read(SimpleGraphs.of(data)))
    assert len(names) == ours.size == 40
    assert set(vocabulary) == set(ours.words)
    for row, document in zip(counts.tolist(), ours.lists(), strict=True):
        assert Counter(document) == {w: c for w, c in zip(vocabulary, row, strict=True) if c}


@pytest.mark.parametrize(("read", "naive"), [(node_words, graph2vec_words), (edge_words, gl2vec_words)])
@pytest.mark.parametrize("run", [1, 60, 1 << 18])
def test_words_as_naively(read, naive, run, monkeypatch):
    monkeypatch.setattr(words, "RUN", run)
    parts = list(read(SimpleGraphs.of([as_data(g) for g in ODD.values()])))
    assert len(parts) == len(ODD) if run == 1 else len(parts) < len(ODD)
    for name, document, g in zip(ODD, Documents.merge(parts).lists(), ODD.values(), strict=True):
        assert document == sorted(naive(g)), name


def test_words_of_a_star_with_many_edges():
    # the line graph of this star has 18 million edges
    star = SimpleGraphs.of([as_data(nx.star_graph(6000))])
    found = next(edge_words(star))
    assert found.count.sum() == 3 * (6000 + 6001)
    # edges, loops at leaves and the loop at the centre: three labels in each round
    assert len(found.words) == 9
    assert {"1", "6000", "6001"} <= set(found.words)


def test_documents():
    nothing = Documents.merge(node_words(SimpleGraphs.of([])))
    assert nothing.size == 0
    assert nothing.words == ()
    assert nothing.lists() == []
    assert Documents.of([[], []]).lists() == [[], []]
    lists = [["b", "a", "b"], [], ["c"]]
    assert Documents.of(lists).lists() == [sorted(x) for x in lists]
    assert Documents.merge([Documents.of(lists), Documents.of([["b"]])]).lists() == [*map(sorted, lists), ["b"]]


@pytest.mark.parametrize(("read", "at_most"), [(node_words, 3), (edge_words, 4)])
def test_each_signature_is_hashed_once(read, at_most, monkeypatch):
    texts = []
    md5 = words._md5
    monkeypatch.setattr(words, "_md5", lambda text: texts.append(text) or md5(text))
    list(read(SimpleGraphs.of([as_data(nx.cycle_graph(n)) for n in range(5, 25)])))
    assert len(texts) == len(set(texts)) <= at_most + 2


# vectors


def test_same_and_isomorphic_graphs_have_the_same_vector(fitted, graphs):
    some = graphs[:60]
    found = fitted.transform(some)
    again = fitted.transform([shuffled(g, k) for k, g in enumerate(some)])
    assert found.shape == (60, 128)
    assert found.dtype == torch.float64
    assert torch.equal(found, again)
    assert torch.allclose(cosine_similarity(found, again), torch.ones(60, dtype=torch.float64), atol=1e-12)


def test_batch_as_one_by_one(fitted, graphs):
    whole = fitted.transform(graphs)
    assert torch.allclose(whole[70:90], torch.cat([fitted.transform([g]) for g in graphs[70:90]]), rtol=0, atol=1e-12)
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(whole[order], fitted.transform([graphs[k] for k in order]), rtol=0, atol=1e-12)
    assert fitted.transform([]).shape == (0, 128)


def test_vectors_grow_and_one_edit_is_near(fitted, graphs):
    found = fitted.transform(graphs)
    assert found.norm(dim=1).median() > 10 * fitted.options.start.norm()
    near = fitted.transform([edited(g, k) for k, g in enumerate(graphs)])
    assert cosine_similarity(found, near).mean() > 0.99


def test_vectors_have_more_than_one_direction(fitted, graphs):
    lengths = torch.linalg.svdvals(fitted.transform(graphs))
    assert lengths[1] > 1e-4 * lengths[0]


def test_unknown_words_keep_the_start_vector(fitted):
    start = fitted.options.start
    alien = fitted.transform([as_data(nx.complete_graph(40)), as_data(nx.complete_graph(60))])
    assert torch.equal(alien, start.expand(2, -1))
    assert start.abs().max() <= 0.5 / 128


def test_documents_without_words_keep_the_start_vector(graphs):
    fitted = GL2Vec().fit(graphs)
    assert torch.equal(fitted.transform([as_data(nx.empty_graph(28))])[0], fitted.options.start)


@BOTH
@pytest.mark.parametrize("backend", ["native", pytest.param("gensim", marks=needs_gensim)])
@pytest.mark.filterwarnings("ignore:PYTHONHASHSEED")
def test_empty_vocabulary(kind, backend):
    odd = [as_data(g) for g in (nx.path_graph(2), nx.empty_graph(1), nx.star_graph(3))]
    fitted = kind(min_count=1000, backend=backend).fit(odd)
    found = fitted.transform(odd)
    assert torch.equal(found, fitted.options.start.expand(3, -1))
    assert torch.allclose(cosine_similarity(found[:1], found), torch.ones(3, dtype=torch.float64))


def test_large_documents_do_not_diverge(monkeypatch):
    drawn = torch.Generator().manual_seed(0)
    counts = torch.randint(1, 2000, (64, 100), generator=drawn) * (torch.rand(64, 100, generator=drawn) < 0.3)
    graph, word = counts.nonzero().T
    large = Documents(64, tuple(f"{k:03}" for k in range(100)), graph, word, counts[graph, word])
    model = NativeDoc2Vec(Doc2VecOptions())
    model.fit(large)
    assert 0.1 < model.infer(large).norm(dim=1).median() < 10
    monkeypatch.setattr(doc2vec, "CURVATURE", 1e-300)  # as if there were no bound
    model.fit(large)
    assert not model.infer(large).norm(dim=1).median() < 1e3


def test_small_steps_are_those_of_the_formula():
    options = Doc2VecOptions(dim=3, epochs=2, min_count=1, down_sampling=0.1, negative=2)
    lists = [["a", "b", "b"], ["b", "c"]]
    model = NativeDoc2Vec(options)
    model.fit(Documents.of(lists))
    c = torch.tensor([[1, 2, 0], [0, 1, 1]], dtype=torch.float64)
    f = c.sum(0)
    t = 0.1 * f.sum()
    c = c * (((f / t).sqrt() + 1) * t / f).clamp(max=1)
    p = f**0.75 / (f**0.75).sum()
    v, u = options.draw(3)[1:], torch.zeros(3, 3, dtype=torch.float64)

    def gradient(v, u):
        x = torch.sigmoid(v @ u.T)
        return c * (1 - x) - 2 * c.sum(1, keepdim=True) * p * x

    for rate in (0.025, 0.025 - (0.025 - 1e-4) / 2):
        g = gradient(v, u)
        v, u = v + rate * g @ u, u + rate * g.T @ v
    assert torch.allclose(model.output, u, rtol=1e-12, atol=0)
    v = options.start.repeat(2, 1)
    for rate in (0.025, 1e-5):
        v = v + rate * gradient(v, u) @ u
    assert torch.allclose(model.infer(Documents.of(lists)), v, rtol=1e-12, atol=0)


SCRIPT = """
import sys
import numpy as np, torch
sys.path.insert(0, {folder!r})
from test_document_embedders import GL2Vec, Graph2Vec, trees_and_cycles
torch.set_num_threads(1)
graphs = trees_and_cycles(70)
made = [Graph2Vec(), GL2Vec()]
np.save({target!r}, torch.stack([one.fit(graphs).transform(graphs) for one in made]).numpy())
"""


def test_same_vectors_in_another_process(tmp_path):
    found = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.npy"
        script = SCRIPT.format(folder=str(Path(__file__).parent), target=str(target))
        env = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", script], check=True, env=env)
        found.append(np.load(target))
    np.testing.assert_array_equal(*found)


@BOTH
def test_global_random_numbers_are_left_alone(kind, graphs):
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    a = kind().fit(graphs[:70])
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(6)
    b = kind().fit(graphs[:70])
    other = kind(seed=1).fit(graphs[:70])
    first, again, third = (one.transform(graphs[:9]) for one in (a, b, other))
    assert torch.equal(first, again)
    assert not torch.equal(first, third)


# options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dim": 0}, "dim=0"),
        ({"dim": 2.5}, "dim=2.5"),
        ({"epochs": True}, "epochs=True"),
        ({"min_count": 0}, "min_count=0"),
        ({"negative": 0}, "negative=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 1 << 32}, "seed=4294967296"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"min_alpha": 1.0}, "min_alpha=1.0"),
        ({"down_sampling": -1}, "down_sampling=-1"),
        ({"wl_iterations": -1}, "wl_iterations=-1"),
        ({"backend": "gensin"}, "did you mean 'gensim'"),
    ],
)
@BOTH
def test_refused_options(kind, options, named):
    with pytest.raises(InputError, match=named):
        kind(**options)


@BOTH
def test_before_fitting(kind):
    with pytest.raises(InputError, match="fit"):
        kind().transform([as_data(nx.path_graph(3))])
    with pytest.raises(InputError, match="no graph"):
        kind().fit([])


@BOTH
def test_other_options(kind, graphs):
    fitted = kind(dim=7, wl_iterations=0, down_sampling=0, min_count=1).fit(graphs[:20])
    assert fitted.dim == 7
    assert fitted.transform(graphs[:3]).shape == (3, 7)
    assert all(len(w) < 3 for w in fitted.model.vocabulary)


# gensim


def test_gensim_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(CapabilityError, match=r"counteredge\[doc2vec\]"):
        Graph2Vec(backend="gensim")


@needs_gensim
@BOTH
def test_gensim(kind, graphs, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    fitted = kind(backend="gensim").fit(graphs)
    found = fitted.transform(graphs[:40])
    assert found.shape == (40, 128)
    assert found.dtype == torch.float64
    assert cosine_similarity(found, fitted.transform([shuffled(g) for g in graphs[:40]])).min() > 0.98
    assert torch.equal(found[5:6], fitted.transform([graphs[5]]))
    assert found.norm(dim=1).median() > 5 * fitted.options.start.norm()
    assert cosine_similarity(found, fitted.transform([edited(g, k) for k, g in enumerate(graphs[:40])])).mean() > 0.99
    known = set(fitted.model.model.wv.key_to_index)
    assert known == set(doc_vocabulary(kind, graphs))


def doc_vocabulary(kind, graphs):
    """The native model's vocabulary."""
    return kind().fit(graphs).model.vocabulary


@needs_gensim
def test_gensim_warns_about_the_hash_seed(graphs, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with pytest.warns(UserWarning, match="PYTHONHASHSEED"):
        GL2Vec(backend="gensim").fit(graphs[:10])


@needs_gensim
def test_gensim_without_words(graphs, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    fitted = GL2Vec(backend="gensim").fit(graphs[:60])
    bare = [as_data(nx.empty_graph(3))] * 2
    assert torch.equal(fitted.transform(bare), fitted.options.start.expand(2, -1))

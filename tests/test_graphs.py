import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData

from counteredge import graphs as module
from counteredge.data import (
    as_graph_list,
    check_graph,
    content_key,
    edge_attributes,
    is_directed,
    new_edge_values,
    rebuild,
)
from counteredge.errors import BudgetError, CapabilityError, InputError
from counteredge.graphs import GraphBatch, buckets


def pairs(*found):
    return torch.tensor(found, dtype=torch.long).reshape(-1, 2)


def both(*found):
    return torch.tensor([p for i, j in found for p in ((i, j), (j, i))], dtype=torch.long).reshape(-1, 2).t()


@st.composite
def graph(draw, directed=None, most=6):
    """Any graph: self-loops, repeated edges, no edges, one node; every dtype of x; edge attributes or none."""
    n = draw(st.integers(1, most))
    node = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(node, node), max_size=9))
    if not (draw(st.booleans()) if directed is None else directed):
        arcs = [p for i, j in arcs for p in ({(i, j), (j, i)} if i != j else [(i, j)])]
    arcs = draw(st.permutations(arcs))
    seed = draw(st.integers(0, 999))
    g = torch.Generator().manual_seed(seed)
    kind = draw(st.sampled_from(["float32", "float64", "float16", "long", "flat"]))
    if kind == "flat":
        x = torch.randint(0, 9, (n,), generator=g)
    elif kind == "long":
        x = torch.randint(0, 9, (n, 2), generator=g)
    else:
        x = torch.randn(n, draw(st.integers(1, 3)), generator=g).to(getattr(torch, kind))
    data = Data(x=x, edge_index=torch.tensor(arcs, dtype=torch.long).reshape(-1, 2).t().contiguous())
    if draw(st.booleans()):
        data.edge_attr = torch.randn(len(arcs), 2, generator=g)
    if draw(st.booleans()):
        data.edge_weight = torch.rand(len(arcs), generator=g)
    if draw(st.booleans()):
        data.edge_type = torch.randint(0, 3, (len(arcs),), generator=g)
    data.y = torch.tensor([seed])
    data.pos = torch.randn(n, 3, generator=g)
    return data


def same(a, b):
    assert set(a.keys()) == set(b.keys())
    for key in a.keys():  # noqa: SIM118 - iterating a Data gives pairs
        assert a[key].dtype == b[key].dtype, key
        assert torch.equal(a[key], b[key]), key


# -- round trip -------------------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(st.lists(graph(), min_size=1, max_size=3), st.sampled_from([torch.float64, torch.float32]))
def test_round_trip_changes_nothing(made, dtype):
    made = [
        g
        for g in made
        if (g.x.dim(), g.x.dtype, g.x.shape[1:]) == (made[0].x.dim(), made[0].x.dtype, made[0].x.shape[1:])
    ]
    directed = any(map(is_directed, made))
    batch = GraphBatch.from_graphs(made, directed=directed, dtype=dtype)
    for k, g in enumerate(made):
        same(batch.to_data(k, batch.adj[k], batch.x[k]), g)


@pytest.mark.parametrize(
    "edges",
    [
        both((0, 1)),  # E == 2: looks like an edge_index of its own
        torch.tensor([[0, 1, 2], [1, 2, 0]]),  # E == N, directed cycle
        both((0, 1), (1, 2), (2, 3)),
        torch.zeros(2, 0, dtype=torch.long),
    ],
)
def test_sizes_are_never_guessed(edges):
    """Node attributes with as many rows as there are edges stay node attributes."""
    n = max(3, int(edges.max()) + 1 if edges.numel() else 1)
    count = edges.shape[1]
    g = Data(x=torch.randn(n, 2), edge_index=edges, edge_attr=torch.randn(count, count or 1), charge=torch.randn(count))
    assert edge_attributes(g) == ["edge_attr"]
    check_graph(g)
    batch = GraphBatch.from_graphs([g], directed=is_directed(g))
    adj = batch.adj[0].clone()
    adj[adj > 0] = 0
    out = batch.to_data(0, adj, batch.x[0])
    assert out.edge_index.shape == (2, 0)
    assert out.edge_attr.shape == (0, count or 1)
    assert torch.equal(out.charge, g.charge)
    same(batch.to_data(0, batch.adj[0], batch.x[0]), g)


def test_fields_of_a_batch():
    edges = torch.tensor([[0, 1, 0, 1, 2, 2], [1, 0, 1, 0, 2, 2]])
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 0.5])
    g = Data(x=torch.ones(3, 1), edge_index=edges, edge_weight=weight)
    b = GraphBatch.from_graphs([g, Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))], [7, 9])
    assert (b.size, b.nodes, b.sizes.tolist(), b.ids.tolist()) == (2, 3, [3, 1], [7, 9])
    assert b.adj[0].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert b.weight[0, 0, 1] == 4
    assert b.weight[0, 1, 0] == 6
    assert b.weight[0, 0, 2] == 1
    assert b.loops[0].tolist() == [0, 0, 5.5]
    assert b.mask.tolist() == [[True] * 3, [True, False, False]]


def test_integer_features_keep_their_dtype():
    g = Data(x=torch.tensor([4, 2**40]), edge_index=both((0, 1)))
    b = GraphBatch.from_graphs([g])
    assert b.x.dtype == torch.long
    assert b.x[0, :, 0].tolist() == [4, 2**40]


# -- edits against a naive dict ---------------------------------------------------------------------------------------


def naive(data, adj, directed):
    """Edges with their attributes, edited one by one."""
    rows = list(zip(*data.edge_index.tolist(), range(data.edge_index.shape[1]), strict=True))
    kept = [(i, j, e) for i, j, e in rows if i == j or adj[i][j]]
    have = {(i, j) for i, j, _ in rows}
    n = len(adj)
    new = {(i, j) for i in range(n) for j in range(n) if i != j and adj[i][j]} - have
    return kept, new


@settings(max_examples=120, deadline=None)
@given(st.data(), st.booleans())
def test_attributes_follow_their_edges(data, directed):
    g = data.draw(graph(directed=directed))
    directed = is_directed(g)
    batch = GraphBatch.from_graphs([g], directed=directed)
    n = batch.nodes
    flips = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))).view(n, n)
    flips &= ~torch.eye(n, dtype=torch.bool)
    if not directed:
        flips = flips.triu(1) | flips.triu(1).t()
    adj = torch.where(flips, 1 - batch.adj[0], batch.adj[0])
    before = g.clone()
    out = batch.to_data(0, adj, batch.x[0])
    same(g, before)  # the input stays
    kept, new = naive(g, adj.tolist(), directed)
    edges = [tuple(e) for e in out.edge_index.t().tolist()]
    assert edges[: len(kept)] == [(i, j) for i, j, _ in kept]
    assert sorted(edges[len(kept) :]) == sorted(new)
    position = [e for *_, e in kept]
    for key in edge_attributes(g):
        assert torch.equal(out[key][: len(kept)], g[key][position])
        assert torch.equal(out[key][len(kept) :], new_edge_values(key, g[key], len(new)))
    assert torch.equal(out.x, g.x)
    assert is_directed(out) <= directed


def test_values_of_new_edges():
    rows = torch.tensor([[1, 0], [0, 1], [0, 1]])
    assert new_edge_values("edge_attr", rows, 2).tolist() == [[0, 1], [0, 1]]
    assert new_edge_values("edge_attr", rows[:0], 2).tolist() == [[0, 0], [0, 0]]
    assert new_edge_values("edge_weight", torch.tensor([5.0, 5.0]), 3).tolist() == [1, 1, 1]
    assert new_edge_values("edge_weight", torch.zeros(0), 1).tolist() == [1]
    assert new_edge_values("edge_type", torch.tensor([3, 2, 3]), 1).tolist() == [3]


def test_rebuild_removes_every_copy_of_a_repeated_edge():
    g = Data(x=torch.ones(3, 1), edge_index=both((0, 1), (1, 2), (0, 1)), edge_attr=torch.arange(6))
    out = rebuild(g, pairs((1, 0)), pairs())
    assert out.edge_index.tolist() == [[1, 2], [2, 1]]
    assert out.edge_attr.tolist() == [2, 3]
    one_way = rebuild(g, pairs((1, 0)), pairs((2, 0)), directed=True)
    assert one_way.edge_index.tolist() == [[0, 1, 2, 0, 2], [1, 2, 1, 1, 0]]


def test_untouched_features_keep_their_bits():
    x = torch.tensor([[0.1, 1e-30]], dtype=torch.float64)
    g = Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long))
    b = GraphBatch.from_graphs([g], dtype=torch.float32)
    new = b.x[0].clone()
    new[0, 1] = 2
    assert b.to_data(0, b.adj[0], new).x.tolist() == [[0.1, 2.0]]


# -- direction, keys --------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(graph())
def test_is_directed_against_naive(g):
    arcs = {tuple(e) for e in g.edge_index.t().tolist() if e[0] != e[1]}
    assert is_directed(g) == any((j, i) not in arcs for i, j in arcs)


@settings(max_examples=30, deadline=None)
@given(graph(), graph())
def test_content_key(a, b):
    key = content_key(a)
    assert key == content_key(a.clone())
    assert 0 <= key < 2**63
    padded = Batch.from_data_list([a, a.clone()]).to_data_list()
    assert content_key(padded[1]) == key
    shuffled = a.clone()
    shuffled.y = torch.tensor([-1])
    assert content_key(shuffled) == key
    differs = a.x.shape != b.x.shape or a.x.dtype != b.x.dtype or not torch.equal(a.x, b.x)
    if differs and torch.equal(a.edge_index, b.edge_index) and a.x.numpy().tobytes() != b.x.numpy().tobytes():
        assert content_key(b) != key


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(4, 2).t(),
        torch.ones(7, 3)[:1],
        torch.arange(10)[::7][:1],
        torch.ones(3, 4)[:, :1],
        torch.ones(2, 1).bfloat16(),
    ],
)
def test_content_key_does_not_depend_on_strides(x):
    edges = torch.zeros(0, 2, dtype=torch.long).t()
    plain = Data(x=torch.tensor(x.tolist(), dtype=x.dtype), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert content_key(Data(x=x, edge_index=edges)) == content_key(plain)


# -- buckets ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(graph(), min_size=1, max_size=8), st.integers(3_000, 20_000))
def test_buckets_hold_every_graph_once_within_memory(made, memory):
    for g in made:
        g.x = torch.ones(g.x.shape[0], 2)
    seen = []
    for batch in buckets(made, memory=memory):
        assert batch.size * module.bytes_per_graph(batch.nodes, 2) <= memory
        assert {is_directed(g) for g in batch.graphs} == {batch.directed}
        assert all(g is made[i] for g, i in zip(batch.graphs, batch.ids.tolist(), strict=True))
        seen += batch.ids.tolist()
    assert sorted(seen) == list(range(len(made)))


def test_buckets_part_dtypes_and_dimensions():
    made = [
        Data(x=x, edge_index=both((0, 1)))
        for x in (torch.ones(2, 1), torch.ones(2, 1).double(), torch.ones(2).long(), torch.ones(2, 1))
    ]
    found = sorted(sorted(b.ids.tolist()) for b in buckets(made, memory=1 << 20))
    assert found == [[0, 3], [1], [2]]


def test_buckets_refuse_before_allocating(monkeypatch):
    monkeypatch.setattr(GraphBatch, "from_graphs", lambda *a, **k: pytest.fail("something was allocated"))
    g = Data(x=torch.ones(30_000, 1), edge_index=both((0, 1)))
    with pytest.raises(BudgetError, match=r"graph 0 with 30000 nodes needs \d+ MiB .* bound is 1 MiB.*memory="):
        next(iter(buckets([g], memory=1 << 20)))


def test_buckets_refuse_pairs_on_a_directed_graph():
    """Flipping the pair (0, 1) of a graph that has only 1 -> 0 would turn the arc round instead of removing it."""
    made = [Data(x=torch.ones(2, 1), edge_index=e) for e in (both((0, 1)), torch.tensor([[1], [0]]))]
    with pytest.raises(InputError, match="graph 1 is directed"):
        list(buckets(made, memory=1 << 20, directed=False))
    assert {b.directed for b in buckets(made, memory=1 << 20, directed=True)} == {True}


# -- what comes in ----------------------------------------------------------------------------------------------------


def test_as_graph_list():
    g = Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert as_graph_list(g) == ([g], True)
    assert as_graph_list((g, g)) == ([g, g], False)
    assert as_graph_list(x for x in [g]) == ([g], False)
    found, single = as_graph_list(Batch.from_data_list([g, g]))
    assert (len(found), single) == (2, False)
    with pytest.raises(CapabilityError, match="to_homogeneous"):
        as_graph_list(HeteroData())
    with pytest.raises(CapabilityError, match="graph 1 is HeteroData"):
        as_graph_list([g, HeteroData()])
    with pytest.raises(InputError, match="got int"):
        as_graph_list(3)
    with pytest.raises(InputError, match="graph 1 is a ndarray"):
        as_graph_list([g, np.ones(2)])


def spoilt(**changes):
    g = Data(x=torch.ones(3, 2), edge_index=both((0, 1), (1, 2)), edge_attr=torch.ones(4, 2), edge_weight=torch.ones(4))
    for key, value in changes.items():
        g[key] = value
    return g


def holed(shape, at, value):
    t = torch.ones(shape)
    t[at] = value
    return t


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edge_index": None}, "G has no edge_index"),
        ({"x": None}, "G has no node features x"),
        ({"x": torch.ones(3, 2, 2)}, r"x must have shape \(n, f\), got \(3, 2, 2\)"),
        ({"x": torch.zeros(0, 2), "edge_index": torch.zeros(2, 0, dtype=torch.long)}, "G is empty: it has no nodes"),
        ({"x": torch.ones(3, 2).bool()}, "x has dtype torch.bool"),
        ({"x": torch.ones(3, 2, dtype=torch.complex64)}, "x has dtype torch.complex64"),
        ({"num_nodes": 5}, "x has 3 rows but the graph says num_nodes=5"),
        ({"edge_index": torch.zeros(3, 4, dtype=torch.long)}, r"shape \(2, E\), got \(3, 4\)"),
        ({"edge_index": torch.zeros(4, dtype=torch.long)}, r"shape \(2, E\), got \(4,\)"),
        ({"edge_index": torch.zeros(2, 4)}, "must be an integer tensor"),
        ({"edge_index": torch.tensor([[0, 1, 1, 3], [1, 0, 2, 1]])}, r"names node 3 .* has nodes 0..2"),
        ({"edge_index": torch.tensor([[0, 1, 1, -4], [1, 0, 2, 1]])}, r"smallest -4\) but the graph has nodes 0..2"),
        ({"x": holed((3, 2), (1, 0), float("nan"))}, "G: x holds NaN or infinity at node 1, column 0"),
        ({"x": holed((3,), 2, float("-inf"))}, "G: x holds NaN or infinity at node 2, column 0"),
        ({"edge_attr": holed((4, 2), (3, 1), float("inf"))}, "edge_attr holds NaN or infinity at edge 3, column 1"),
        ({"edge_weight": holed((4,), 2, float("nan"))}, "edge_weight holds NaN or infinity at edge 2, column 0"),
        ({"edge_attr": torch.ones(3, 1)}, "edge_attr has 3 rows but edge_index has 4 edges"),
        ({"edge_weight": torch.ones(5)}, "edge_weight has 5 rows but edge_index has 4 edges"),
    ],
)
def test_check_graph_names_what_is_wrong(changes, said):
    with pytest.raises(InputError, match=said):
        check_graph(spoilt(**changes), "G")


@settings(max_examples=60, deadline=None)
@given(graph())
def test_check_graph_lets_good_graphs_pass(g):
    check_graph(g)


def test_check_graph_no_edges_but_edge_attributes():
    none = torch.zeros(2, 0, dtype=torch.long)
    check_graph(Data(x=torch.ones(2, 1), edge_index=none, edge_attr=torch.zeros(0, 3), edge_weight=torch.zeros(0)))

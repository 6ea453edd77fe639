import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from counteredge.data import node_attributes
from counteredge.edits import AttributeEdit, EditSet, FeatureEdit
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace

SCHEMA = FeatureSchema((*FeatureSchema.onehot(["C", "N", "O"]).columns, Column("continuous", lo=-5, hi=5, name="z")))


def both(*found):
    return torch.tensor([p for i, j in found for p in ((i, j), (j, i))], dtype=torch.long).reshape(-1, 2).t()


def path(n, x=None):
    return Data(x=torch.ones(n, 2) if x is None else x, edge_index=both(*((i, i + 1) for i in range(n - 1))))


# -- EditSet ----------------------------------------------------------------------------------------------------------


@st.composite
def graph_and_edits(draw):
    n, directed = draw(st.integers(2, 6)), draw(st.booleans())
    node = st.integers(0, n - 1)
    pair = st.tuples(node, node)
    arcs = draw(st.lists(pair, max_size=8))
    present = {p if directed else (min(p), max(p)) for p in arcs if p[0] != p[1]}
    if not directed:
        arcs = [p for i, j in arcs for p in ({(i, j), (j, i)} if i != j else [(i, j)])]
    everything = [(i, j) for i in range(n) for j in range(n) if i < j or (directed and i != j)]
    flips = sorted(draw(st.sets(st.sampled_from(everything), max_size=5)))
    kinds = torch.tensor(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    x = torch.cat([torch.nn.functional.one_hot(kinds, 3).float(), torch.zeros(n, 1)], 1)
    features = []
    for v in sorted(draw(st.sets(node, max_size=3))):
        old = int(kinds[v])
        new = (old + draw(st.integers(1, 2))) % 3
        columns = tuple(sorted((old, new)))
        features.append(
            FeatureEdit(v, columns, tuple(x[v, list(columns)].tolist()), tuple(float(c == new) for c in columns))
        )
        if draw(st.booleans()):
            features.append(FeatureEdit(v, (3,), (0.0,), (draw(st.sampled_from([0.5, -1.25, 3.0])),)))
    g = Data(
        x=x, edge_index=torch.tensor(arcs, dtype=torch.long).reshape(-1, 2).t(), edge_attr=torch.rand(len(arcs), 1)
    )
    added = tuple(p for p in flips if p not in present)
    return g, EditSet(added, tuple(p for p in flips if p in present), tuple(features), directed)


@settings(max_examples=150, deadline=None)
@given(graph_and_edits())
def test_between_is_the_inverse_of_apply(case):
    g, edits = case
    before = g.clone()
    out = edits.apply(g)
    assert EditSet.between(g, out, SCHEMA, directed=edits.directed) == edits
    for key in ("x", "edge_index", "edge_attr"):
        assert torch.equal(g[key], before[key])
    assert out.edge_attr.shape[0] == out.edge_index.shape[1]
    assert len(edits) == edits.edge_count + edits.feature_count
    back = EditSet(
        edits.removed,
        edits.added,
        tuple(FeatureEdit(e.node, e.columns, e.new, e.old) for e in edits.features),
        edits.directed,
    )
    assert len(EditSet.between(g, back.apply(out), SCHEMA, directed=edits.directed)) == 0


@settings(max_examples=60, deadline=None)
@given(graph_and_edits())
def test_without_drops_exactly_one(case):
    g, edits = case
    everything = [*edits.added, *edits.removed, *edits.features]
    for k in range(len(edits)):
        left = edits.without(k)
        assert [*left.added, *left.removed, *left.features] == everything[:k] + everything[k + 1 :]
        assert left.directed == edits.directed
        assert EditSet.between(g, left.apply(g), SCHEMA, directed=edits.directed) == left


@settings(max_examples=60, deadline=None)
@given(graph_and_edits())
def test_dict_round_trip(case):
    _, edits = case
    assert EditSet.from_dict(json.loads(json.dumps(edits.to_dict(), allow_nan=False))) == edits
    assert len(edits.describe(SCHEMA)) == len(edits)


def test_one_hot_swap_counts_once_and_single_columns_each():
    g = Data(x=torch.tensor([[1.0, 0, 0, 2]]), edge_index=torch.zeros(2, 0, dtype=torch.long))
    after = g.clone()
    after.x = torch.tensor([[0.0, 0, 1, 2.5]])
    with_schema = EditSet.between(g, after, SCHEMA)
    assert with_schema.features == (FeatureEdit(0, (0, 2), (1, 0), (0, 1)), FeatureEdit(0, (3,), (2,), (2.5,)))
    assert with_schema.describe(SCHEMA) == ["x[0]: C -> O", "x[0, z]: 2 -> 2.5"]
    assert len(EditSet.between(g, after)) == 3
    assert EditSet.between(g, after).describe()[0] == "x[0, 0]: 1 -> 0"


def test_two_groups_are_two_edits():
    schema = FeatureSchema(tuple(Column("onehot", group=k // 2) for k in range(4)))
    g, after = path(2, torch.tensor([[1.0, 0, 1, 0]] * 2)), path(2, torch.tensor([[0.0, 1, 0, 1], [1, 0, 1, 0]]))
    assert [e.columns for e in EditSet.between(g, after, schema).features] == [(0, 1), (2, 3)]


def test_undirected_edges_count_once_directed_twice():
    a, b = path(3), path(2)
    b = Data(x=torch.ones(3, 2), edge_index=b.edge_index)
    assert EditSet.between(a, b).removed == ((1, 2),)
    assert EditSet.between(a, b, directed=True).removed == ((1, 2), (2, 1))
    assert EditSet.between(b, a).describe() == ["+edge (1, 2)"]
    assert EditSet.between(a, b).describe() == ["-edge (1, 2)"]


def test_between_ignores_self_loops_order_and_copies():
    a = path(3)
    b = Data(x=a.x, edge_index=torch.tensor([[2, 1, 1, 0, 0, 2, 2], [1, 2, 0, 1, 1, 2, 2]]))
    assert len(EditSet.between(a, b)) == 0


def test_between_refuses_other_nodes():
    with pytest.raises(InputError, match=r"shape \(3, 2\) before and \(4, 2\) after"):
        EditSet.between(path(3), path(4))


@pytest.mark.parametrize("x", [torch.tensor([4, 5]), torch.tensor([[4.0], [5.0]], dtype=torch.float64)])
def test_feature_edits_keep_shape_and_dtype(x):
    out = EditSet(features=(FeatureEdit(1, (0,), (5,), (7,)),)).apply(path(2, x))
    assert (out.x.dtype, out.x.shape) == (x.dtype, x.shape)
    assert out.x.flatten().tolist() == [4, 7]


# -- edits of nodes and of attributes ---------------------------------------------------------------------------------


@st.composite
def node_edits(draw):
    """A graph with attributes of every kind, and edits of nodes, edges, features and attributes."""
    n, directed = draw(st.integers(2, 6)), draw(st.booleans())
    everything = [(i, j) for i in range(n) for j in range(n) if i < j or (directed and i != j)]
    present = sorted(draw(st.sets(st.sampled_from(everything))))
    loops = sorted(draw(st.sets(st.integers(0, n - 1), max_size=2)))
    arcs = [a for i, j in present for a in ([(i, j)] if directed else [(i, j), (j, i)])] + [(v, v) for v in loops]
    colours = torch.arange(float(len(arcs)))
    g = Data(
        x=torch.arange(2.0 * n).reshape(n, 2),
        edge_index=torch.tensor(arcs, dtype=torch.long).reshape(-1, 2).t(),
        edge_attr=torch.stack([colours, -colours], 1),
        pos=torch.rand(n, 3),
        ring=torch.tensor([7] + [3] * (n - 1)),
        y=torch.tensor([1]),
    )
    m = draw(st.integers(0, 3))
    gone = sorted(draw(st.sets(st.integers(0, n - 1), max_size=2)))
    alive = [v for v in range(n + m) if v not in gone]
    removed = [p for p in present if set(p) & set(gone) or draw(st.booleans())]
    absent = [(i, j) for i in alive for j in alive if (i < j or (directed and i != j)) and (i, j) not in present]
    added = sorted(draw(st.sets(st.sampled_from(absent), max_size=3))) if absent else []
    stay = [p for p in present if p not in removed]
    changes = sorted(draw(st.sets(st.sampled_from(stay), max_size=2))) if stay else []
    row = {a: tuple(r) for a, r in zip(arcs, g.edge_attr.tolist(), strict=True)}
    edits = EditSet(
        tuple(added),
        tuple(removed),
        tuple(FeatureEdit(v, (0,), (float(2 * v),), (-1.0,)) for v in alive if v < n and draw(st.booleans())),
        directed,
        (("edge_attr", tuple((0.5, float(k)) for k in range(len(added)))),) if added else (),
        tuple((float(100 + k), 0.0) for k in range(m)),
        tuple(gone),
        tuple(AttributeEdit(p, "edge_attr", row[p], (-5.0, -5.0)) for p in changes),
        n if m else None,
    )
    return g, edits


def naive(g, edits):
    """Edges by name with their rows, and rows of nodes by name; nodes of the edited graph named as in the edits."""
    n = len(g.x)
    both_ways = (lambda p: [p]) if edits.directed else (lambda p: [p, p[::-1]])
    rows = dict(zip(map(tuple, g.edge_index.t().tolist()), g.edge_attr.tolist(), strict=True))
    x = dict(enumerate(g.x.tolist()))
    for e in edits.features:
        x[e.node][0] = e.new[0]
    for k, row in enumerate(edits.new_nodes):
        x[n + k] = list(row)
    for p in edits.removed:
        for arc in both_ways(p):
            del rows[arc]
    for e in edits.attributes:
        for arc in both_ways(e.pair):
            rows[arc] = list(e.new)
    for k, p in enumerate(edits.added):
        for arc in both_ways(p):
            rows[arc] = list(edits.values[0][1][k])
    for v in edits.removed_nodes:
        rows.pop((v, v), None)
        del x[v]
    return x, rows


def same_as_naive(g, edits):
    x, rows = naive(g, edits)
    out = edits.apply(g)
    names = sorted(x)
    assert out.x.tolist() == [x[v] for v in names]
    found = [(names[i], names[j]) for i, j in out.edge_index.t().tolist()]
    assert dict(zip(found, out.edge_attr.tolist(), strict=True)) == rows
    assert len(found) == len(rows)
    assert out.num_nodes == len(names)
    n = len(g.x)
    assert out.pos.tolist() == [g.pos[v].tolist() if v < n else [0, 0, 0] for v in names]
    assert out.ring.tolist() == [
        int(g.ring[v]) if v < n else (3 if n > 2 else int(g.ring.mode().values)) for v in names
    ]
    assert out.y.tolist() == [1]
    assert out.is_valid() if hasattr(out, "is_valid") else out.validate()


@settings(max_examples=150, deadline=None)
@given(node_edits())
def test_nodes_and_attributes_by_the_book(case):
    g, edits = case
    before = g.clone()
    same_as_naive(g, edits)
    for key in ("x", "edge_index", "edge_attr", "pos", "ring"):
        assert torch.equal(g[key], before[key])
    assert edits.node_count == len(edits.new_nodes) + len(edits.removed_nodes)
    assert edits.ged == edits.edge_count + edits.node_count
    assert len(edits) == edits.ged + edits.feature_count + edits.attribute_count == len(edits.describe())
    assert EditSet.from_dict(json.loads(json.dumps(edits.to_dict(), allow_nan=False))) == edits


@settings(max_examples=100, deadline=None)
@given(node_edits())
def test_undoing_nodes_undoes_what_cannot_be_without_them(case):
    g, edits = case
    new_from = len(edits.added) + len(edits.removed) + len(edits.features)
    for k in range(len(edits)):
        left = edits.without(k)
        same_as_naive(g, left)
        assert left == edits.without(k - len(edits))
        lost = 1
        if new_from <= k < new_from + len(edits.new_nodes):
            lost += sum(len(g.x) + k - new_from in p for p in edits.added)
        if len(edits.added) <= k < len(edits.added) + len(edits.removed):
            lost += len(set(edits.removed[k - len(edits.added)]) & set(edits.removed_nodes))
        assert len(left) == len(edits) - lost


def test_a_new_node_goes_with_its_edges_and_the_others_move_up():
    edits = EditSet(
        ((0, 3), (1, 4), (3, 4)), new_nodes=((1.0, 0.0), (0.0, 1.0)), nodes=3, values=(("edge_weight", (1, 2, 3)),)
    )
    left = edits.without(3)
    assert left == EditSet(((1, 3),), new_nodes=((0.0, 1.0),), nodes=3, values=(("edge_weight", (2,)),))
    assert left.without(0) == EditSet(new_nodes=((0.0, 1.0),), nodes=3)  # alone, and its edge gone
    assert left.without(1) == EditSet()
    with pytest.raises(IndexError):
        edits.without(5)


def test_an_edge_of_a_removed_node_comes_back_with_it():
    edits = EditSet(removed=((0, 1), (1, 2)), removed_nodes=(1,))
    assert edits.without(0) == EditSet(removed=((1, 2),))
    assert edits.without(2) == EditSet(removed=((0, 1), (1, 2)))


def test_edits_of_nodes_and_bonds_for_people():
    schema = replace(SCHEMA, edge_names=("single", "double"))
    upgrade = AttributeEdit((3, 4), "edge_attr", (1.0, 0.0), (0.0, 1.0))
    weight = AttributeEdit((0, 1), "edge_weight", 0.5, 1.0)
    edits = EditSet(new_nodes=((1.0, 0.0, 0.0, 2.0),), removed_nodes=(4,), attributes=(upgrade, weight), nodes=17)
    assert edits.describe(schema) == [
        "+node 17: C",
        "-node 4",
        "edge (3, 4): single -> double",
        "edge (0, 1), edge_weight: 0.5 -> 1",
    ]
    assert edits.describe() == [
        "+node 17: (1, 0, 0, 2)",
        "-node 4",
        "edge (3, 4), edge_attr: (1, 0) -> (0, 1)",
        "edge (0, 1), edge_weight: 0.5 -> 1",
    ]


def test_flat_x_integers_and_a_stated_number_of_nodes():
    g = Data(x=torch.tensor([4, 5]), edge_index=both((0, 1)), edge_weight=torch.tensor([0.5, 0.5]), num_nodes=2)
    edits = EditSet(((1, 2),), ((0, 1),), new_nodes=((9,),), removed_nodes=(0,), nodes=2)
    out = edits.apply(g)
    assert (out.x.tolist(), out.x.dtype, out.num_nodes) == ([5, 9], torch.long, 2)
    assert out.edge_index.tolist() == [[0, 1], [1, 0]]
    assert out.edge_weight.tolist() == [1, 1]
    changed = EditSet(attributes=(AttributeEdit((0, 1), "edge_weight", 0.5, 2.0),)).apply(g)
    assert changed.edge_weight.tolist() == [2, 2]
    assert EditSet(new_nodes=((9,),), nodes=2).apply(g).num_nodes == 3


def test_structure_follows_new_nodes():
    schema = FeatureSchema((Column("binary"), Column("structural", name="degree")))
    g = Data(x=torch.tensor([[1.0, 1], [0, 1]]), edge_index=both((0, 1)))
    edits = EditSet(((1, 2),), new_nodes=((1.0, 0.0),), nodes=2)
    assert edits.apply(g, schema).x.tolist() == [[1, 1], [0, 2], [1, 1]]
    assert edits.apply(g).x.tolist() == [[1, 1], [0, 1], [1, 0]]


def test_which_attributes_are_of_nodes():
    g = path(2)
    g.pos, g.edge_attr, g.y, g.some_index, g.name = (
        torch.rand(2, 3),
        torch.rand(2, 1),
        torch.ones(1, 2),
        torch.ones(2),
        "a",
    )
    assert node_attributes(g) == ["pos"]
    lone = Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([1]))
    assert node_attributes(lone) == []


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (lambda: EditSet(new_nodes=((1.0, 1.0),)), "say it with nodes="),
        (lambda: EditSet(new_nodes=((1.0, 1.0),), nodes=4), "graph of 4 nodes; this one has 3, and 2 columns"),
        (lambda: EditSet(new_nodes=((1.0,),), nodes=3), "this one has 3, and 2 columns"),
        (lambda: EditSet(removed_nodes=(3,)), "are not different nodes out of 0..2"),
        (lambda: EditSet(removed_nodes=(0, 0)), "are not different nodes"),
        (lambda: EditSet(removed_nodes=(0,)), r"edge \(0, 1\) of a removed node is not among the removed"),
        (lambda: EditSet(((0, 2),), ((0, 1),), removed_nodes=(0,)), "node 0 is removed and edited"),
        (lambda: EditSet(attributes=(AttributeEdit((0, 1), "edge_attr", 0, 1),)), "have no attribute 'edge_attr'"),
        (lambda: EditSet(attributes=(AttributeEdit((0, 2), "edge_weight", 0, 1),)), "there is no such edge"),
        (
            lambda: EditSet(removed=((0, 1),), attributes=(AttributeEdit((0, 1), "edge_weight", 0, 1),)),
            "or it is removed",
        ),
    ],
)
def test_edits_of_another_graph_are_refused(edits, said):
    g = path(3)
    g.edge_weight = torch.ones(4)
    with pytest.raises(InputError, match=said):
        edits().apply(g)


# -- EditSpace --------------------------------------------------------------------------------------------------------


def spell(space, *made, schema=None, directed=False):
    made = made or (path(3),)
    batch = GraphBatch.from_graphs(made, directed=directed)
    return space.allowed(batch, schema or FeatureSchema((Column("binary"), Column("continuous"))))


def test_everything_is_allowed_but_the_diagonal_and_the_padding():
    allowed = spell(EditSpace(), path(3), path(2))
    assert torch.equal(allowed.flip[0], ~torch.eye(3, dtype=torch.bool))
    assert allowed.flip[1].nonzero().tolist() == [[0, 1], [1, 0]]
    assert allowed.features[0].all()
    assert allowed.features[1].tolist() == [[True] * 2, [True] * 2, [False] * 2]
    assert (allowed.cost == 1).all()
    assert (allowed.gamma == 0).all()
    assert allowed.feature_cost.tolist() == [1, 1]


def test_names_of_spaces():
    assert EditSpace.of(None) == EditSpace.of("both") == EditSpace()
    only = EditSpace.of("features")
    assert not spell(only).flip.any()
    assert spell(only).features.all()
    assert not spell(EditSpace.of("edges")).features.any()
    mine = EditSpace(add_edges=False)
    assert EditSpace.of(mine) is mine
    with pytest.raises(InputError, match="edits='nodes' is unknown"):
        EditSpace.of("nodes")


def test_adding_and_removing():
    assert spell(EditSpace(add_edges=False)).flip[0].nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert spell(EditSpace(remove_edges=False)).flip[0].nonzero().tolist() == [[0, 2], [2, 0]]


@pytest.mark.parametrize(
    "frozen",
    [
        [1],
        (1,),
        np.array([1]),
        torch.tensor([1]),
        lambda g: [1],
        lambda g: torch.tensor([False, True, False]),
        lambda g: [False, True, False],
        lambda g: np.array([False, True, False]),
        [False, True, False],
    ],
)
def test_frozen_nodes(frozen):
    allowed = spell(EditSpace(frozen_nodes=frozen))
    assert allowed.flip[0].nonzero().tolist() == [[0, 2], [2, 0]]
    assert allowed.features[0].tolist() == [[True] * 2, [False] * 2, [True] * 2]


def test_no_frozen_nodes_from_callables():
    for nothing in (lambda g: [], lambda g: torch.zeros(3, dtype=torch.bool), lambda g: torch.zeros(0)):
        assert torch.equal(spell(EditSpace(frozen_nodes=nothing)).flip, spell(EditSpace()).flip)


def test_frozen_by_graph():
    """A callable sees each graph; ``k`` nodes of each, the last one is frozen."""
    allowed = spell(EditSpace(frozen_nodes=lambda g: [g.num_nodes - 1]), path(3), path(2))
    assert allowed.flip[0].nonzero().tolist() == [[0, 1], [1, 0]]
    assert not allowed.flip[1].any()


@pytest.mark.parametrize("frozen", [[(0, 2)], [(2, 0)], torch.tensor([[0, 2]]), lambda g: [(0, 2)]])
def test_frozen_edges(frozen):
    space = EditSpace(frozen_edges=frozen)
    assert spell(space).flip[0].nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    struck = ~spell(space, directed=True).flip[0] & ~torch.eye(3, dtype=torch.bool)
    assert struck.sum() == 1  # only the named arc


def test_frozen_and_fixed_features():
    schema = FeatureSchema((Column("binary"), Column("fixed")))
    assert spell(EditSpace(), schema=schema).features[0].tolist() == [[True, False]] * 3
    assert not spell(EditSpace(frozen_features=[0]), schema=schema).features.any()


def test_integer_features_are_never_edited():
    g = path(2, torch.tensor([1, 2]))
    assert not spell(EditSpace(), g, schema=FeatureSchema((Column("integer", hi=9),))).features.any()


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (EditSpace(frozen_nodes=[3]), r"frozen_nodes \[3\] do not all exist: the graph has nodes 0..2"),
        (EditSpace(frozen_nodes=[-1]), "frozen_nodes"),
        (EditSpace(frozen_edges=[(0, 3)]), "frozen_edges name nodes outside 0..2"),
        (EditSpace(frozen_features=[2]), "names column 2 but x has columns 0..1"),
        (EditSpace(frozen_features=[-1]), "names column -1"),
        (EditSpace(add_cost=0), "edge costs must be positive"),
        (EditSpace(remove_cost=-1), "edge costs must be positive"),
        (EditSpace(add_cost=float("nan")), "edge costs must be positive"),
        (EditSpace(add_cost=lambda g: torch.ones(2, 2)), r"add_cost has shape \(2, 2\) but the graph has 3 nodes"),
        (EditSpace(gamma=torch.zeros(4, 4)), r"gamma has shape \(4, 4\) but the graph has 3 nodes"),
        (EditSpace(gamma=torch.zeros(3)), r"gamma has shape \(3,\)"),
        (EditSpace(gamma=torch.zeros(5)), r"gamma has shape \(5,\)"),
        (EditSpace(gamma=1.5), r"gamma must lie in \[-1, 1\]"),
        (EditSpace(gamma=float("nan")), r"gamma must lie in \[-1, 1\]"),
        (EditSpace(gamma=lambda g: -2 * torch.eye(3)), r"gamma must lie in \[-1, 1\]"),
        (EditSpace(feature_cost=[1, 2, 3]), "feature_cost has 3 entries but x has 2 columns"),
        (EditSpace(feature_cost=0), "feature costs must be positive"),
        (EditSpace(feature_cost=[1, -1]), "feature costs must be positive"),
    ],
)
def test_what_does_not_fit_is_refused(space, said):
    with pytest.raises(InputError, match=said):
        spell(space)


def test_schema_of_another_width():
    with pytest.raises(InputError, match="describes 5 columns but x has 2"):
        spell(EditSpace(), schema=FeatureSchema.fixed(5))


def test_costs():
    allowed = spell(EditSpace(add_cost=3, remove_cost=lambda g: torch.full((3, 3), 2.0), feature_cost=[1, 4]))
    assert allowed.cost[0].tolist() == [[3, 2, 3], [2, 3, 2], [3, 2, 3]]
    assert allowed.feature_cost.tolist() == [1, 4]


def test_scalar_gamma_is_for_absent_pairs():
    allowed = spell(EditSpace(gamma=0.5, add_cost=3))
    assert allowed.gamma[0].tolist() == [[0.5, 0, 0.5], [0, 0.5, 0], [0.5, 0, 0.5]]
    assert allowed.cost[0, 0, 2] == pytest.approx(3 / 1.5)
    assert allowed.cost[0, 0, 1] == 1
    assert spell(EditSpace(gamma=-1)).flip[0].nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: lambda g: t, lambda t: lambda g: t.numpy()])
def test_gamma_matrix(wrap):
    gamma = torch.zeros(3, 3)
    gamma[0, 1] = gamma[1, 0] = -1
    gamma[1, 2] = gamma[2, 1] = 1
    allowed = spell(EditSpace(gamma=wrap(gamma)))
    assert not allowed.flip[0, 0, 1]
    assert not allowed.flip[0, 1, 0]
    assert allowed.flip[0, 0, 2]
    assert allowed.cost[0, 1, 2] == 0.5
    assert torch.equal(allowed.gamma[0], gamma.double())
    assert torch.isfinite(allowed.cost).all()


def test_padding_has_no_gamma():
    allowed = spell(EditSpace(gamma=lambda g: torch.full((g.num_nodes,) * 2, 0.5)), path(3), path(2))
    assert (allowed.gamma[1, 2] == 0).all()
    assert (allowed.gamma[1, :2, :2] == 0.5).all()


def test_spaces_compare_without_gamma():
    assert EditSpace(gamma=torch.ones(2, 2)) == EditSpace(gamma=torch.zeros(3, 3))
    assert replace(EditSpace(), features=False) == EditSpace.of("edges")

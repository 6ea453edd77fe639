import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from counteredge.edits import EditSet
from counteredge.engine.moves import Moves, State
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace

SCHEMA = FeatureSchema(
    (
        Column("onehot", group=0),
        Column("onehot", group=0),
        Column("onehot", group=0),
        Column("binary"),
        Column("integer", lo=0, hi=4),
        Column("continuous", lo=-1.5, hi=2.0),
        Column("fixed", lo=7, hi=7),
    )
)


def graph(seed, n, directed=False):
    g = torch.Generator().manual_seed(seed)
    adj = (torch.rand(n, n, generator=g) < 0.4) & ~torch.eye(n, dtype=torch.bool)
    adj = adj if directed else adj.triu(1) | adj.triu(1).t()
    kind = torch.nn.functional.one_hot(torch.randint(0, 3, (n,), generator=g), 3).float()
    columns = [
        torch.randint(0, 2, (n, 1), generator=g),
        torch.randint(0, 5, (n, 1), generator=g),
        torch.rand(n, 1, generator=g) * 3.5 - 1.5,
        torch.full((n, 1), 7),
    ]
    return Data(x=torch.cat([kind, *columns], 1), edge_index=adj.nonzero().t())


@st.composite
def moves_and_state(draw, steps=True):
    """A batch of two graphs of different size, an edit space, and states some moves away from the originals."""
    directed, seed = draw(st.booleans()), draw(st.integers(0, 999))
    made = [graph(seed, draw(st.integers(2, 4)), directed), graph(seed + 1, draw(st.integers(1, 4)), directed)]
    space = EditSpace(
        add_edges=draw(st.booleans()),
        features=draw(st.booleans()),
        frozen_nodes=draw(st.sampled_from([(), (0,)])),
        frozen_features=draw(st.sets(st.integers(0, 6), max_size=2)),
        add_cost=2.0,
        remove_cost=3.0,
        feature_cost=[5.0, 5.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    )
    base = GraphBatch.from_graphs(made, directed=directed)
    moves = Moves(base, space.allowed(base, SCHEMA))
    state = State.start(base, torch.tensor([0, 1, 0]))
    for _ in range(draw(st.integers(0, 3)) if steps else 0):
        state = step(moves, state, draw)
    return moves, state


def step(moves, state, draw):
    """One random open move in each state that has one."""
    is_open = moves.open(state)
    has = is_open.any(1).nonzero().flatten()
    if not len(has):
        return state
    chosen = [draw(st.sampled_from(is_open[k].nonzero().flatten().tolist())) for k in has.tolist()]
    after = moves.apply(state[has], torch.tensor(chosen))
    adj, x = state.adj.clone(), state.x.clone()
    adj[has], x[has] = after.adj, after.x
    return State(state.row, adj, x)


def every(moves, state):
    """All open moves: the index of their state, their number, and the states they lead to."""
    which, move = moves.open(state).nonzero(as_tuple=True)
    return which, move, moves.apply(state[which], move)


def key(adj, x):
    return tuple(adj.flatten().tolist()), tuple(x.flatten().tolist())


def naive_neighbours(moves, state, k):
    """What one more edit can lead to, spelled out with loops: {(adj, x): cost}."""
    allowed, base, row = moves.allowed, moves.base, int(state.row[k])
    a0, x0, a, x = base.adj[row], base.x[row], state.adj[k], state.x[k]
    n = base.nodes
    found = {}
    for i in range(n):
        for j in range(n):
            if i == j or (not base.directed and i > j) or not allowed.flip[row, i, j] or a[i, j] != a0[i, j]:
                continue
            new = a.clone()
            new[i, j] = 1 - a[i, j]
            if not base.directed:
                new[j, i] = new[i, j]
            found[key(new, x)] = 2.0 if a[i, j] == 0 else 3.0
    for v in range(n):
        free = allowed.features[row, v]
        if torch.equal(x[v, :3], x0[v, :3]):
            now = int(x[v, :3].argmax())
            for c in range(3):
                if c != now and free[c] and free[now]:
                    new = x.clone()
                    new[v, :3] = 0
                    new[v, c] = 1
                    found[key(a, new)] = 5.0
        for c, cost, values in ((3, 6, [1 - x[v, 3]]), (4, 7, [0, 4]), (5, 8, [-1.5, 2.0])):
            if not free[c] or x[v, c] != x0[v, c]:
                continue
            for value in values:
                if value != x[v, c]:
                    new = x.clone()
                    new[v, c] = value
                    found[key(a, new)] = float(cost)
    return found


@settings(max_examples=60, deadline=None)
@given(moves_and_state())
def test_open_moves_are_all_legal_single_edits(case):
    moves, state = case
    which, move, after = every(moves, state)
    found = [{} for _ in range(len(state))]
    for p, k in enumerate(which.tolist()):
        reached = key(after.adj[p], after.x[p])
        assert reached not in found[k], "two moves with the same effect"
        found[k][reached] = float(moves.cost[state.row[k], move[p]])
    assert found == [naive_neighbours(moves, state, k) for k in range(len(state))]


@settings(max_examples=60, deadline=None)
@given(moves_and_state())
def test_apply_then_undo_is_identity(case):
    moves, state = case
    which, _, after = every(moves, state)
    before = state[which]
    fresh = moves.changed(after) & ~moves.changed(before)
    assert (fresh.sum(1) == 1).all()  # one move, one unit
    back = moves.undo(after, fresh)
    assert torch.equal(back.adj, before.adj)
    assert torch.equal(back.x, before.x)
    start = State.start(moves.base, state.row)
    home = moves.undo(state, moves.changed(state))
    assert torch.equal(home.adj, start.adj)
    assert torch.equal(home.x, start.x)
    assert not moves.changed(home).any()


@settings(max_examples=60, deadline=None)
@given(moves_and_state())
def test_costs_and_counts(case):
    moves, state = case
    which, move, after = every(moves, state)
    added = moves.costs(after) - moves.costs(state)[which]
    assert torch.allclose(added, moves.cost[state.row[which], move])
    for k, row in enumerate(state.row.tolist()):
        data = moves.base.to_data(row, state.adj[k], state.x[k])
        edits = EditSet.between(moves.base.graphs[row], data, SCHEMA, directed=moves.base.directed)
        assert len(edits) == int(moves.changed(state)[k].sum())


@settings(max_examples=60, deadline=None)
@given(moves_and_state(), st.integers(0, 999))
def test_gains_are_exact_for_a_linear_model(case, seed):
    moves, state = case
    g = torch.Generator().manual_seed(seed)
    g_adj = torch.randn(state.adj.shape, generator=g, dtype=torch.float64)
    g_x = torch.randn(state.x.shape, generator=g, dtype=torch.float64)

    def margin(s, of):
        return (g_adj[of] * s.adj).flatten(1).sum(1) + (g_x[of] * s.x).flatten(1).sum(1)

    which, move, after = every(moves, state)
    real = margin(after, which) - margin(state, torch.arange(len(state)))[which]
    gains = moves.gains(state, g_adj, g_x)
    assert gains.shape == (len(state), moves.count)
    assert torch.allclose(gains[which, move], real, atol=1e-6)
    pair = move < moves.pairs
    assert (moves.gains(state, None, g_x)[which, move][pair] == 0).all()
    assert (moves.gains(state, g_adj, None)[which, move][~pair] == 0).all()


@settings(max_examples=60, deadline=None)
@given(moves_and_state())
def test_what_moves_never_break(case):
    moves, state = case
    _, _, after = every(moves, state)
    base = moves.base
    row = after.row
    real = base.mask[row]
    assert (after.x[..., :3].sum(2)[real] == 1).all()
    assert ((after.x[..., :4] == 0) | (after.x[..., :4] == 1)).all()
    assert (after.x[..., 4] == after.x[..., 4].round()).all()
    lo, hi = moves.lo, moves.hi
    assert ((after.x >= lo - 1e-12) & (after.x <= hi + 1e-12))[real].all()
    frozen = ~moves.allowed.features[row]
    assert torch.equal(after.x[frozen], base.x[row][frozen])
    stay = ~(moves.allowed.flip[row] | (moves.allowed.flip[row].transpose(1, 2) if not base.directed else False))
    assert torch.equal(after.adj[stay], base.adj[row][stay])
    if not base.directed:
        assert torch.equal(after.adj, after.adj.transpose(1, 2))
    assert (torch.diagonal(after.adj, dim1=1, dim2=2) == 0).all()


@settings(max_examples=20, deadline=None)
@given(moves_and_state())
def test_apply_by_index_is_apply_on_the_indexed_states(case):
    moves, state = case
    which, move, after = every(moves, state)
    before = state.adj.clone(), state.x.clone()
    again = moves.apply(state, move, which)
    for name in ("row", "adj", "x"):
        assert torch.equal(getattr(again, name), getattr(after, name))
    assert torch.equal(before[0], state.adj)
    assert torch.equal(before[1], state.x)


def test_directed_moves_are_single_arcs():
    g = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0], [1]]))
    for directed, count in ((True, 6), (False, 3)):
        graphs = [g] if directed else [Data(x=g.x, edge_index=torch.tensor([[0, 1], [1, 0]]))]
        base = GraphBatch.from_graphs(graphs, directed=directed)
        moves = Moves(base, EditSpace().allowed(base, FeatureSchema.fixed(1)))
        assert (moves.pairs, int(moves.open(State.start(base)).sum())) == (count, count)
        after = moves.apply(State.start(base), torch.tensor([0]))
        assert float((after.adj - base.adj).abs().sum()) == (1 if directed else 2)


def test_a_node_without_a_category_can_get_one():
    g = Data(x=torch.tensor([[0.0, 0.0], [1.0, 0.0]]), edge_index=torch.zeros(2, 0, dtype=torch.long))
    base = GraphBatch.from_graphs([g])
    moves = Moves(base, EditSpace.of("features").allowed(base, FeatureSchema.onehot(["a", "b"])))
    after = every(moves, State.start(base))[2]
    assert after.x.tolist() == [[[1, 0], [1, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]]]


def test_integer_features_have_no_moves():
    g = Data(x=torch.tensor([1, 2]), edge_index=torch.tensor([[0, 1], [1, 0]]))
    base = GraphBatch.from_graphs([g])
    moves = Moves(base, EditSpace().allowed(base, FeatureSchema((Column("integer", hi=9),))))
    assert moves.open(State.start(base)).nonzero().tolist() == [[0, 0]]


def test_states():
    base = GraphBatch.from_graphs([graph(0, 3), graph(1, 2)])
    s = State.start(base, torch.tensor([1, 0]))
    both = State.cat([s, s[torch.tensor([1])]])
    assert both.row.tolist() == [1, 0, 0]
    assert torch.equal(both.adj[2], base.adj[0])
    assert len(State.start(base)) == 2


def test_costs_that_differ_inside_a_group_are_refused():
    base = GraphBatch.from_graphs([Data(x=torch.eye(2), edge_index=torch.zeros(2, 0, dtype=torch.long))])
    with pytest.raises(InputError, match="one-hot group"):
        EditSpace(feature_cost=[1.0, 4.0]).allowed(base, FeatureSchema.onehot(["a", "b"]))


def test_a_gamma_that_says_two_things_about_a_pair_is_refused():
    base = GraphBatch.from_graphs([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))])
    gamma = torch.tensor([[0.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(InputError, match="symmetric"):
        EditSpace(gamma=gamma).allowed(base, FeatureSchema.fixed(1))
    moves = Moves(base, EditSpace(gamma=gamma + gamma.t()).allowed(base, FeatureSchema.fixed(1)))
    assert not moves.open(State.start(base)).any()

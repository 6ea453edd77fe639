"""InduCE: the contract, its parts against naive twins, and what it must learn where the best edit is known."""

import functools

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from counteredge.edits import EditSet
from counteredge.engine.search import Budget, Search
from counteredge.errors import BudgetError, InputError
from counteredge.explainers.induce import InduCE
from counteredge.explainers.induce_play import Game, Play, candidates
from counteredge.explainers.induce_policy import Policy, View
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

FAST = {"episodes": 2, "batch": 3, "steps": 6, "lr": 0.01}


@functools.cache
def fitted(mode: str, seed: int, **options) -> InduCE:
    explainer = InduCE(mode=mode, seed=seed, **FAST, **options)
    graphs = sample_graphs(12, seed=9)
    explainer.fit(sample_model(), graphs, edits=EditSpace(schema=sample_schema()), progress=False)
    return explainer


class TestPaper(ExplainerContract):
    def make(self, **options):
        return fitted("paper", options["seed"])


class TestImproved(ExplainerContract):
    def make(self, **options):
        return fitted("improved", options["seed"], undo=True, rollouts=2)


class TestTransductive(ExplainerContract):
    def make(self, **options):
        return InduCE(transductive=True, episodes=2, batch=2, steps=3, lr=0.01, **options)


class TestRandom(ExplainerContract):
    def make(self, **options):
        return InduCE(policy="random", **options)


# -- parts against naive twins ---------------------------------------------------------------------------------------


def view_of(graph: Data, pairs: torch.Tensor) -> View:
    zero = torch.zeros(len(pairs))
    return View(graph.x.double(), graph.edge_index, pairs[:, 0], pairs[:, 1], zero.double(), zero.bool())


def test_graph_layers_are_those_of_pyg():
    graph = sample_graphs(3)[1]
    for layer, conv in (("gat", GATConv), ("gcn", GCNConv), ("sage", SAGEConv)):
        torch.manual_seed(1)
        mine = Policy(6, layer).layers[0]
        theirs = conv(6, 16, bias=False).double()
        state = {"lin.weight": mine.lin.weight} if layer != "sage" else {}
        if layer == "gat":
            state |= {"att_src": mine.ends.weight[0].view(1, 1, -1), "att_dst": mine.ends.weight[1].view(1, 1, -1)}
        if layer == "sage":
            state = {"lin_l.weight": mine.near.weight, "lin_r.weight": mine.own.weight}
        theirs.load_state_dict(state)
        got = mine(graph.x.double(), *graph.edge_index)
        torch.testing.assert_close(got, theirs(graph.x.double(), graph.edge_index))


def test_a_pair_without_order_has_one_score():
    graph = sample_graphs(3)[1]
    policy = Policy(6).eval()
    pairs = torch.tensor([[0, 1], [1, 3]])
    torch.testing.assert_close(policy(view_of(graph, pairs)), policy(view_of(graph, pairs.flip(1))))


def test_returns_are_discounted_sums_and_are_compared_within_a_target():
    game = Game(4, 3)
    rewards = torch.tensor([[1.0, 2.0, 3.0, 5.0], [4.0, 0.0, 6.0, 0.0], [0.0, 0.0, 7.0, 0.0]], dtype=torch.float64)
    game.reward = rewards
    game.live = rewards > 0
    returns = game.returns(0.5)
    assert returns[0].tolist() == [1 + 2, 2, 3 + 3 + 7 / 4, 5]
    less = game.less_mean(returns, 2)
    assert less[0].tolist() == [0.5, -0.5, (7.75 - 5) / 2, -(7.75 - 5) / 2]
    assert less[1, 2].item() == 0  # the only play of its target that is as far


class Pairs(nn.Module):
    """Says 1 exactly when the graph has more than 2.5 edges."""

    def forward(self, x, edge_index, batch):
        edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        return torch.stack([torch.full_like(edges, 2.5), edges], 1).to(x.dtype)


def path(nodes: int) -> Data:
    src = torch.arange(nodes - 1)
    return Data(
        x=torch.ones(nodes, 1), edge_index=torch.cat([torch.stack([src, src + 1]), torch.stack([src + 1, src])], 1)
    )


def searched(graphs, options, model=None):
    oracle = Oracle(model or Pairs())
    session = oracle.session(graphs)
    session.__enter__()
    base = GraphBatch.from_graphs(graphs)
    allowed = EditSpace(features=False).allowed(base, FeatureSchema.fixed(1))
    return Search(oracle, base, allowed, oracle.predict(graphs), Budget(), None, lambda n: None), session


def test_rewards_are_potential_differences():
    options = InduCE(beta=0.5, bonus=2.0)
    search, session = searched([path(3)], options)
    play = Play(search, torch.tensor([0]), options)
    play.look()
    logp = lambda edges: torch.tensor([2.5, edges], dtype=torch.float64).log_softmax(0)[0].item()  # noqa: E731
    ends = [(int(search.moves.i[p]), int(search.moves.j[p])) for p in play.pair[0].tolist()]
    assert ends == [(0, 1), (0, 2), (1, 2)]
    reward, done = play.step(torch.tensor([0]))  # two edges, then one: surer of the old label
    assert reward.item() == pytest.approx(logp(2.0) - logp(1.0) - 0.5, abs=1e-6)
    assert not done.item()
    reward, done = play.step(torch.tensor([1]))
    assert reward.item() == pytest.approx(logp(1.0) - logp(2.0) - 0.5, abs=1e-6)
    session.__exit__(None, None, None)

    search, session = searched([path(3)], options)
    play = Play(search, torch.tensor([0]), options)
    play.look()
    reward, done = play.step(torch.tensor([1]))  # three edges: the label flips
    assert done.item()
    assert reward.item() == pytest.approx(logp(2.0) - 0.5 + 2.0, abs=1e-6)
    assert play.open()[0].tolist() == [True, False, True]  # an edit is made once
    session.__exit__(None, None, None)


def test_reciprocal_reward():
    options = InduCE(reward="reciprocal", undo=True)
    search, session = searched([path(3)], options)
    play = Play(search, torch.tensor([0]), options)
    play.look()
    reward, _ = play.step(torch.tensor([1]))
    assert reward.item() == pytest.approx(1 / 0.5)
    assert play.open()[0].all()
    _, done = play.step(torch.tensor([1]))  # taken back
    assert not done.item()
    assert torch.equal(play.state.adj, search.base.adj)
    session.__exit__(None, None, None)


def test_additions_of_large_graphs_are_drawn_alike_alone_and_in_a_batch():
    options = InduCE(seed=3)
    (alone, session) = searched([path(20)], options)
    pair, real = candidates(alone, None, options)
    ends = {(int(alone.moves.i[p]), int(alone.moves.j[p])) for p in pair[0][real[0]]}
    session.__exit__(None, None, None)
    assert {(k, k + 1) for k in range(19)} <= ends
    assert len(ends) == 19 + 4 * 19
    (both, session) = searched([path(22), path(20)], options)
    pair, real = candidates(both, None, options)
    assert ends == {(int(both.moves.i[p]), int(both.moves.j[p])) for p in pair[1][real[1]]}
    session.__exit__(None, None, None)


# -- node tasks ------------------------------------------------------------------------------------------------------


class Leaves(nn.Module):
    """Calls a node 1 when it has at least two neighbours."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(1, 2)

    def forward(self, x, edge_index):
        degree = torch.zeros(len(x), dtype=x.dtype).index_add(0, edge_index[1], torch.ones_like(x[edge_index[0], 0]))
        return torch.stack([torch.full_like(degree, 1.5), degree], 1) + 0 * self.conv(x, edge_index)


def test_edits_stay_in_the_ball_and_additions_start_at_the_target():
    graph = path(14)
    for seed in range(6):
        cf = InduCE(policy="random", hops=3, steps=6, seed=seed).explain(Leaves(), graph, node=6, progress=False)
        assert all(6 in pair for pair in cf.edits.added)
        assert all(3 <= min(p) <= max(p) <= 9 for p in (*cf.edits.added, *cf.edits.removed))
    assert not InduCE(policy="random").explain(Leaves(), graph, node=0, edits="features", progress=False).found


def test_a_policy_learns_to_cut_at_the_target():
    # of the edits in the ball of an inner node only the two deletions at it flip it
    graph = path(40)
    options = {"episodes": 50, "batch": 8, "lr": 0.02, "hops": 2, "mark_target": True}
    explainer = InduCE(**options)
    report = explainer.fit(Leaves(), graph, node=list(range(5, 30)), progress=False)
    returns = report.losses["mean_return"]
    assert sum(returns[-10:]) > sum(returns[:10]) + 10
    cfs = explainer.explain(Leaves(), graph, node=list(range(31, 37)), progress=False)
    assert [len(cf.edits) for cf in cfs] == [1] * 6
    assert all(cf.index + 31 in cf.edits.removed[0] for cf in cfs)
    control = [
        InduCE(policy="random", hops=2, seed=k).explain(Leaves(), graph, node=33, progress=False) for k in range(8)
    ]
    assert sum(len(cf.edits) if cf.found else 15 for cf in control) > 12


def test_the_released_trainer_teaches_nothing():
    for mode, learns in (("paper", True), ("reference", False)):
        explainer = InduCE(mode=mode, episodes=3, batch=8)
        explainer.fit(Pairs(), [path(3), path(4)], progress=False)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            fresh = Policy(5)
        policy = explainer.networks["policy"]
        moved = [not torch.equal(a, b) for a, b in zip(fresh.parameters(), policy.parameters(), strict=True)]
        assert any(moved) == learns
        assert not torch.equal(policy.norms[0].running_mean, torch.zeros(16, dtype=torch.float64))


def test_without_training_embeddings_only_the_last_mlp_moves():
    explainer = InduCE(episodes=3, batch=8, train_embeddings=False)
    explainer.fit(Pairs(), [path(3), path(4)], progress=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = dict(Policy(5).named_parameters())
    for name, value in explainer.networks["policy"].named_parameters():
        assert torch.equal(value, fresh[name]) != name.startswith("head"), name


def test_transductive_finds_one_edit_and_counts_its_calls():
    cf = InduCE(transductive=True, episodes=20, batch=4).explain(Pairs(), path(4), progress=False)
    assert cf.found
    assert len(cf.edits) == 1
    assert cf.edits in [EditSet(removed=((k, k + 1),), nodes=4) for k in range(3)] or len(cf.edits.removed) == 1
    assert cf.calls.forward >= 1 + 4 + 1


def test_more_attempts_are_never_worse():
    one, many = fitted("paper", 0), InduCE(mode="paper", rollouts=6, **FAST)
    many._build(one.spec)
    many.spec = one.spec
    many.load_state_dict(one.state_dict())
    many.networks["policy"].eval().requires_grad_(False)
    space = EditSpace(schema=sample_schema())
    pairs = zip(
        *(e.explain(sample_model(), sample_graphs(), edits=space, progress=False) for e in (one, many)), strict=True
    )
    for a, b in pairs:
        assert b.found >= a.found
        if a.found:
            assert len(b.edits) <= len(a.edits)


def test_saved_and_loaded_it_answers_the_same(tmp_path):
    explainer = fitted("improved", 0, undo=True, rollouts=2)
    explainer.save(tmp_path / "induce.safetensors")
    again = InduCE.load(tmp_path / "induce.safetensors")
    space = EditSpace(schema=sample_schema())
    answers = [e.explain(sample_model(), sample_graphs(), edits=space, progress=False) for e in (explainer, again)]
    plain = [[cf.to_dict(timings=False) for cf in cfs] for cfs in answers]
    assert plain[0] == plain[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps must be a whole number >= 1"),
        ({"lr": 0.0}, "lr must be a number above 0"),
        ({"gamma_discount": 1.5}, "gamma_discount must be a number >= 0 and <= 1"),
        ({"beta": float("inf")}, "beta must be a number"),
        ({"layer": None}, "layer=None is unknown"),
        ({"entropy": -1}, "entropy must be a number >= 0"),
        ({"layer": "gin"}, "layer"),
        ({"reward": "other"}, "reward"),
        ({"undo": 1}, "undo must be True or False"),
        ({"policy": "random", "transductive": True}, "learns nothing"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(InputError, match=said):
        InduCE(**options)


def test_a_graph_of_which_the_plays_do_not_fit_is_refused():
    explainer = InduCE(episodes=1, batch=2, repeats=4, memory=1 << 20)
    with pytest.raises(BudgetError, match=r"graph 1 with 80 nodes needs 2 MiB for 4 plays at once, the bound is 1 MiB"):
        explainer.fit(Pairs(), [path(4), path(80)], progress=False)
    assert InduCE(transductive=True, batch=8, repeats=3).copies == 48
    assert InduCE(transductive=True, batch=2).copies == 8
    with pytest.raises(BudgetError, match="30 nodes"):
        InduCE(transductive=True, batch=100, memory=1 << 20).explain(Pairs(), path(30), progress=False)


def test_the_graph_as_it_is_is_asked_about_once_however_often_it_is_played():
    asked = []

    class Watched(Pairs):
        def forward(self, x, edge_index, batch):
            asked.extend(torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).tolist())
            return super().forward(x, edge_index, batch)

    options = InduCE(repeats=3)
    search, session = searched([path(5), path(3)], options, Watched())
    play = Play(search, torch.tensor([0, 0, 0, 1, 1, 1]), options)
    asked.clear()
    before = int(search.oracle.tally.sum())
    play.begin()
    assert sorted(asked) == [4, 8]
    assert int(search.oracle.tally.sum()) - before == 2
    seen, loss = play.seen.clone(), play.loss.clone()
    play.look()
    assert torch.equal(seen, play.seen)
    assert torch.equal(loss, play.loss)
    session.__exit__(None, None, None)


def test_what_cannot_be_learnt_is_said():
    with pytest.raises(InputError, match="has to learn first"):
        InduCE().explain(Pairs(), path(3))
    with pytest.raises(InputError, match="nothing to learn"):
        InduCE(policy="random").fit(Pairs(), [path(3)])
    with pytest.raises(InputError, match="inside explain"):
        InduCE(transductive=True).fit(Pairs(), [path(3)])
    with pytest.raises(InputError, match="already is what was asked for"):
        InduCE(episodes=1).fit(Pairs(), [path(3)], desired=0)
    with pytest.raises(InputError, match="fitted to graphs of 6 columns"):
        fitted("paper", 0).explain(Pairs(), path(3))

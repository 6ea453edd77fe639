import copy
import functools
import math
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SimpleConv

from counteredge import Budget, EditSpace
from counteredge.engine.search import Search
from counteredge.errors import BudgetError, CapabilityError, DataError, InputError
from counteredge.explainers.d4explainer import D4Explainer, _in_order, _noisy
from counteredge.explainers.ppgn import PPGN
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema

TINY = {"hidden": 8, "layers": 2, "levels": 3, "batch_size": 8, "lr": 0.01}


@functools.cache
def fitted(mode, seed):
    # what the reference selects hardly flips anything, and a contract without answers says little
    options = {**TINY, "levels": 2, "batch_size": 6, "select": "validity", "holdout": 0.0}
    explainer = D4Explainer(mode=mode, seed=seed, epochs=40, restarts=4, every=4, alpha_cf=3.0, **options)
    explainer.fit(sample_model(), sample_graphs(), edits=EditSpace(schema=sample_schema()), progress=False)
    return explainer


class TestPaper(ExplainerContract):
    def make(self, **options):
        return copy.deepcopy(fitted("paper", **options))


class TestReference(ExplainerContract):
    def make(self, **options):
        return copy.deepcopy(fitted("reference", **options))


class TestImproved(ExplainerContract):
    def make(self, **options):
        return copy.deepcopy(fitted("improved", **options))


# -- the denoiser ------------------------------------------------------------------------------------------------------


def naive_denoiser(net, adj, x, level):
    """The denoiser of one graph without padding, pair by pair and with everything laid out."""
    n, f = x.shape
    inputs = torch.zeros(n, n, 2 * f + 2, dtype=x.dtype)
    for i in range(n):
        for j in range(n):
            inputs[i, j] = torch.cat([adj[i, j].view(1), x[j], x[i], torch.zeros(1, dtype=x.dtype)])
        inputs[i, i, -1] = net.time(level.view(1, 1)).squeeze()

    def norm(u):
        flat = u.reshape(n * n, -1)
        return ((flat - flat.mean(0)) / (flat.var(0, unbiased=False) + 1e-5).sqrt()).reshape(u.shape)

    u = net.enter(inputs)
    seen = [inputs]
    for block in net.blocks:
        left, right = block.left(u), block.right(u)
        product = torch.zeros_like(u)
        for c in range(u.shape[2]):
            product[:, :, c] = left[:, :, c] @ right[:, :, c] / math.sqrt(n)
        u = torch.relu(norm(block.merge(torch.cat([u, product], 2))))
        seen.append(u)
    return net.out(norm(torch.relu(net.skip(torch.cat(seen, 2)))))[:, :, 0]


def test_denoiser_is_the_naive_one_whatever_the_padding():
    torch.manual_seed(0)
    net = PPGN(3, hidden=5, layers=3).double().eval()
    n, wide = 5, 9
    adj, x = (torch.rand(n, n) < 0.4).double(), torch.randn(n, 3, dtype=torch.float64)
    level = torch.tensor(0.3, dtype=torch.float64)
    want = naive_denoiser(net, adj, x, level)
    padded, features = torch.ones(2, wide, wide).double(), torch.full((2, wide, 3), 7.0).double()  # rubbish around it
    padded[1, :n, :n], features[1, :n] = adj, x
    mask = torch.ones(2, wide, dtype=torch.bool)
    mask[1, n:] = False
    with torch.no_grad():
        got = net(padded, features, mask, torch.stack([level / 2, level]))
        alone = net(adj[None], x[None], torch.ones(1, n, dtype=torch.bool), level[None])
    assert torch.allclose(got[1, :n, :n], want, atol=1e-10)
    assert torch.allclose(alone[0], want, atol=1e-10)
    assert not got[1, n:].any()


def test_noise_flips_the_stated_share_and_nothing_else():
    adj = torch.zeros(1, 60, 60)
    adj[0, :30, :30] = 1 - torch.eye(30)
    pairs = (torch.ones(60, 60) - torch.eye(60)).bool()[None]
    pairs[:, :5] = pairs[:, :, :5] = False
    draw = torch.rand(3, 1, 60, 60, generator=torch.Generator().manual_seed(0))
    level = torch.tensor([[0.0], [0.1], [0.4]])
    noisy = _noisy(adj, draw, level, pairs, directed=False)
    assert torch.equal(noisy[0], adj)
    assert torch.equal(noisy, noisy.transpose(2, 3))
    flipped = noisy != adj
    assert not (flipped & ~pairs).any()
    share = flipped.sum((1, 2, 3)) / pairs.sum()
    assert torch.allclose(share, level[:, 0], atol=0.03)
    arcs = _noisy(adj, draw, level, pairs, directed=True)
    assert not torch.equal(arcs[2], arcs[2].transpose(1, 2))


def test_counterfactual_loss_is_minus_log_of_what_is_left():
    z = torch.tensor([[2.0, 0.5, -1.0], [30.0, -40.0, 3.0]], dtype=torch.float64)
    y0 = torch.tensor([0, 0])
    plain = -(1 - z.softmax(1)[:, 0]).log()
    decide = Oracle(sample_model())._decide
    assert torch.allclose(-decide(3).log_chance(z, y0), plain, rtol=1e-4)
    wished = Oracle(sample_model(), desired=2)._decide(3)
    assert torch.allclose(-wished.log_chance(z, y0), -z.log_softmax(1)[:, 2])
    far = torch.tensor([[900.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.isclose(-decide(3).log_chance(far, y0[:1]), torch.tensor([900 - math.log(2)], dtype=torch.float64))
    binary = Oracle(sample_model(), task="binary")._decide(1)
    assert torch.allclose(-binary.log_chance(z[:, :1], y0), -torch.nn.functional.logsigmoid(z[:, 0]))


# -- learning ----------------------------------------------------------------------------------------------------------


class Reds(torch.nn.Module):
    """Says 1 when an edge joins two red nodes (first column), 0 when none does."""

    def __init__(self):
        super().__init__()
        self.sum = SimpleConv(aggr="sum")

    def forward(self, x, edge_index, batch=None, edge_weight=None):
        red = x[:, :1]
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        there = self.sum(red, edge_index, edge_weight) * red
        size = int(batch.max()) + 1
        edges = torch.zeros(size, 1, dtype=x.dtype).index_add(0, batch, there) / 2
        return torch.cat([torch.full_like(edges, 0.5), edges], 1) * 4


def family(count, seed):
    """Rings with one chord; three nodes in a row are red, so that two edges join red nodes."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        n = int(torch.randint(7, 11, (1,), generator=generator))
        at = int(torch.randint(0, n, (1,), generator=generator))
        x = torch.zeros(n, 2)
        x[:, 1] = 1
        x[[at, (at + 1) % n, (at + 2) % n]] = torch.tensor([1.0, 0.0])
        ring = [(i, (i + 1) % n) for i in range(n)] + [((at + 4) % n, (at + 6) % n)]
        edges = torch.tensor(ring + [(j, i) for i, j in ring]).t()
        graphs.append(Data(x=x, edge_index=edges))
    return graphs


@functools.cache
def learnt(alpha_cf, mode="paper", epochs=40):
    options = {"hidden": 12, "layers": 2, "levels": 4, "batch_size": 8, "lr": 0.01, "every": 5}
    explainer = D4Explainer(mode=mode, epochs=epochs, alpha_cf=alpha_cf, restarts=4, **options)
    if mode == "improved":  # learns as the paper's does
        explainer.spec = learnt(alpha_cf).spec
        explainer._build(explainer.spec)
        explainer.load_state_dict(learnt(alpha_cf).state_dict())
        explainer.networks.eval()
    else:
        explainer.fit(Reds(), family(20, 0), progress=False)
    return explainer


def denoised(explainer, graphs, level):
    """Edge probabilities after denoising from one level, the adjacency, and which pairs there are."""
    base = GraphBatch.from_graphs(graphs)
    net = copy.deepcopy(explainer.networks["denoiser"]).double()
    pairs = EditSpace.of("edges").allowed(base, FeatureSchema.fixed(base.x.shape[2])).flip
    steps = torch.full((base.size,), level, dtype=torch.float64)
    draw = torch.rand(base.adj.shape, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        logits = net(_noisy(base.adj, draw, steps, pairs, directed=False), base.x, base.mask, steps)
    return torch.sigmoid((logits + logits.transpose(1, 2)) / 2), base.adj, pairs


def auc(score, truth):
    """Share of (edge, other pair) couples in the right order."""
    yes, no = score[truth], score[~truth]
    return float(((yes[:, None] > no) + 0.5 * (yes[:, None] == no)).double().mean())


def test_denoising_nothing_gives_the_graph_back():
    p, adj, pairs = denoised(learnt(0.0), family(12, 1), 0.0)
    assert auc(p[pairs], adj[pairs] > 0.5) > 0.95
    p, adj, pairs = denoised(learnt(0.0), family(12, 1), 0.2)
    noise = auc(torch.rand(int(pairs.sum())), adj[pairs] > 0.5)
    assert auc(p[pairs], adj[pairs] > 0.5) > max(0.75, noise)


def test_counterfactual_term_lowers_the_old_probability():
    model, graphs, old = Reds(), family(12, 1), {}
    for alpha in (0.0, 2.0):
        p, adj, pairs = denoised(learnt(alpha), graphs, 0.1)
        base = GraphBatch.from_graphs(graphs)
        oracle = Oracle(model)
        with oracle.session(graphs):
            soft = torch.where(pairs, p, adj)
            z = oracle.relaxed(base, torch.arange(base.size), soft, base.x)
        old[alpha] = float(z.softmax(1)[:, 1].mean())
    assert old[2.0] < old[0.0] - 0.2


def test_beats_random_flips_of_the_same_number():
    model, graphs = Reds(), family(20, 2)
    cfs = learnt(2.0).explain(model, graphs, edits="edges", progress=False)
    found = [cf for cf in cfs if cf.found]
    assert len(found) >= 0.8 * len(cfs)
    assert all({*cf.edits.removed} for cf in found)
    pairs = sum(len(g.x) * (len(g.x) - 1) / 2 for g in graphs) / len(graphs)
    rate = sum(len(cf.edits) for cf in found) / len(found) / pairs
    base = GraphBatch.from_graphs(graphs)
    allowed = EditSpace.of("edges").allowed(base, FeatureSchema.fixed(2)).flip
    oracle, generator, flipped = Oracle(model), torch.Generator().manual_seed(0), []
    with oracle.session(graphs):
        for _ in range(25):
            draw = torch.rand(base.adj.shape, generator=generator)
            adj = _noisy(base.adj, draw, torch.full((base.size,), rate), allowed, directed=False)
            z = oracle.logits(base, torch.arange(base.size), adj, base.x)
            flipped.append(oracle.decision.flips(z, torch.ones(base.size, dtype=torch.long)))
    control = torch.stack(flipped).double().mean()
    # four candidates a graph were drawn: the control gets as many
    assert len(found) / len(cfs) > 1 - (1 - control) ** 4 + 0.1
    # the empty graph flips them all, with every edge removed
    ratios = [len(cf.edits) / (cf.original.edge_index.shape[1] // 2) for cf in found]
    assert sum(ratios) / len(ratios) < 0.75


def test_improved_is_never_worse_and_smaller():
    graphs = family(12, 3)
    paper, improved = learnt(2.0), learnt(2.0, "improved")
    for calls in (4, 12, None):
        budget = Budget(calls=calls)
        a = paper.explain(Reds(), graphs, edits="edges", budget=budget, progress=False)
        b = improved.explain(Reds(), graphs, edits="edges", budget=budget, progress=False)
        assert all(y.found for x, y in zip(a, b, strict=True) if x.found)
        assert all(len(y.edits) <= len(x.edits) for x, y in zip(a, b, strict=True) if x.found)
    assert sum(len(y.edits) for y in b) < sum(len(x.edits) for x in a)


def test_order_of_wishes_by_hand():
    """Of the wishes a > b > c > d only a, b and c together flip: 1, 2 and 4 are tried, then 3."""
    g = Data(x=torch.ones(5, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))

    class Count(Reds):
        def forward(self, x, edge_index, batch=None, edge_weight=None):
            z = super().forward(x, edge_index, batch, edge_weight) / 4
            return torch.stack([torch.full_like(z[:, 0], 2.5), z[:, 1]], 1)

    base, oracle = GraphBatch.from_graphs([g]), Oracle(Count())
    space, schema = EditSpace.of("edges"), FeatureSchema.fixed(1)
    with oracle.session([g]):
        z = oracle.predict([g], [0])
        search = Search(oracle, base, space.allowed(base, schema), z, Budget(), None, lambda n: None)
        logits = torch.zeros(1, 5, 5).double()
        for score, (i, j) in zip((4.0, 3.0, 2.0, 1.0), ((2, 3), (0, 1), (3, 4), (1, 4)), strict=True):
            logits[0, i, j] = logits[0, j, i] = score if (i, j) != (0, 1) else -score
        _in_order(search, search.moves.allowed.flip, logits)
    # (2, 3) in, (0, 1) out, (3, 4) in, (1, 4) in: three edges only after four flips
    assert bool(search.solved[0])
    assert {tuple(p) for p in (search.state.adj[0].triu(1) > 0.5).nonzero().tolist()} == {(2, 3), (3, 4), (1, 4)}
    assert int(oracle.forward_calls[0]) == 1 + 3 + 1 + 1  # the prediction, 1, 2 and 4 flips, the check, 3 flips


def test_reference_favours_the_graph_itself():
    """Its checkpoint is the one with the fewest edits, so it flips no more than the paper's."""
    paper, reference = learnt(2.0), learnt(2.0, "reference", epochs=15)
    preset = D4Explainer(mode="reference")
    assert (preset.select, preset.restarts, preset.level_weights_bug) == ("modification", 1, True)
    graphs = family(12, 3)
    found = [sum(c.found for c in e.explain(Reds(), graphs, progress=False)) for e in (paper, reference)]
    assert found[0] >= found[1]


def test_only_the_reference_leaves_isolated_nodes_alone():
    class Busy(torch.nn.Module):
        def forward(self, x, edge_index, batch=None):
            edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).to(x.dtype) / 2
            return torch.stack([torch.full_like(edges, 3.5), edges], 1)

    graphs = [Data(x=torch.ones(6, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])) for _ in range(4)]
    touched = {}
    for mode in ("paper", "reference"):
        explainer = D4Explainer(mode=mode, epochs=1, alpha_cf=0.0, restarts=3, **TINY)
        explainer.fit(Busy(), graphs, progress=False)
        with torch.no_grad():
            explainer.networks["denoiser"].out.bias.fill_(50.0)  # wants every pair
        (cf, *_) = explainer.explain(Busy(), graphs, edits="edges", progress=False)
        touched[mode] = {v for p in cf.edits.added for v in p}
    assert touched == {"paper": {0, 1, 2, 3, 4, 5}, "reference": set()}  # three edges among three nodes do not flip


def step(bug=False, lean=False, alpha_cf=0.0):
    """One step on two graphs of different sizes: its losses and gradients, and what it was made of."""
    options = {"hidden": 4, "layers": 2, "levels": 3, "dropout": 0, "alpha_cf": alpha_cf, "holdout": 0.0}
    explainer = D4Explainer(level_weights_bug=bug, epochs=1, lr=1e-12, **options)
    graphs, levels = family(6, 0)[-2:], torch.tensor([0.05, 0.2, 0.35])
    explainer.fit(Reds(), graphs, progress=False)
    net = explainer.networks["denoiser"].requires_grad_(True)
    base, oracle = GraphBatch.from_graphs(graphs), Oracle(Reds())
    with oracle.session(graphs):
        training = SimpleNamespace(
            oracle=oracle,
            space=EditSpace.of("edges"),
            schema=FeatureSchema.fixed(2),
            labels=torch.ones(2, dtype=torch.long),
            generator=torch.Generator().manual_seed(3),
        )
        losses = explainer._step(training, net, base, levels, 2, lean)
    return losses, [p.grad for p in net.parameters()], (net, base, levels)


@pytest.mark.parametrize("bug", [False, True])
def test_loss_by_hand(bug):
    (dist, _), _, (net, base, levels) = step(bug)
    draw = torch.rand(3, *base.adj.shape, generator=torch.Generator().manual_seed(3))
    total = 0.0
    for k in range(3):
        for b in range(2):
            n = int(base.sizes[b])
            adj, upper = base.adj[b, :n, :n].float(), torch.ones(n, n).triu(1)
            hit = ((draw[k, b, :n, :n] < levels[k]) * upper).bool()
            noisy = torch.where(hit | hit.t(), 1 - adj, adj)
            x, mask = base.x[b : b + 1, :n].float(), torch.ones(1, n, dtype=torch.bool)
            with torch.no_grad():
                logit = net(noisy[None], x, mask, levels[k : k + 1])[0]
            p = torch.sigmoid((logit + logit.t()) / 2)[upper > 0]
            truth = adj[upper > 0]
            bce = -(2.5 * truth * p.log() + (1 - truth) * (1 - p).log()).mean()
            of = levels[(k * 2 + b) % 3 if bug else k]
            total += float((1 - 2 * of + 1 / 3) * bce) / 3
    assert float(dist) == pytest.approx(total, rel=1e-4)


def test_little_memory_gives_the_same_gradients():
    """One level after the other, with activations computed again, adds up to the same."""
    (one, plain, _), (two, lean, _) = step(alpha_cf=0.5), step(lean=True, alpha_cf=0.5)
    assert torch.allclose(one, two)
    assert one[1] > 0
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, lean, strict=True))
    assert any(bool(g.abs().max() > 1e-4) for g in plain)


# -- files, memory, options --------------------------------------------------------------------------------------------


def test_round_trip_keeps_the_answers(tmp_path):
    explainer = learnt(2.0)
    path = tmp_path / "d4.safetensors"
    explainer.save(path)
    again = D4Explainer.load(path)
    assert again.parameters() == explainer.parameters()
    graphs = family(4, 2)
    one, two = (e.explain(Reds(), graphs, progress=False) for e in (explainer, again))
    assert [c.to_dict(timings=False) for c in one] == [c.to_dict(timings=False) for c in two]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError):
        D4Explainer.load(path)


def test_parts_keep_to_the_memory():
    parts = {}
    for memory in (1 << 30, 1 << 21):
        explainer = D4Explainer(hidden=16, layers=3, levels=6, memory=memory)
        training = SimpleNamespace(graphs=family(12, 0), schema=FeatureSchema.fixed(2), space=EditSpace.of("edges"))
        parts[memory] = [(b.ids.tolist(), lean) for b, lean in explainer._parts(training, torch.arange(12))]
        assert sorted(i for ids, _ in parts[memory] for i in ids) == list(range(12))
    assert len(parts[1 << 30]) == 2  # sizes up to 8, and above
    assert not any(lean for _, lean in parts[1 << 30])
    assert all(lean for _, lean in parts[1 << 21])
    assert len(parts[1 << 21]) > 2


def test_too_large_graphs_are_refused_before_anything_is_allocated():
    big = Data(x=torch.ones(400, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(BudgetError, match="up to 175 nodes fit"):
        D4Explainer().fit(Reds(), [*family(2, 0), big])
    small = copy.deepcopy(learnt(0.0))
    small.memory = 1 << 22
    with pytest.raises(BudgetError, match="up to 33 nodes fit"):
        small.explain(Reds(), big)


def test_models_without_gradients_are_refused_unless_only_denoising():
    class Hard(torch.nn.Module):
        def forward(self, x, edge_index, batch=None):
            high = torch.zeros(len(x), dtype=x.dtype).scatter_reduce(0, edge_index[1], x[edge_index[0], 0], "amax")
            total = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add(0, batch, high)
            return torch.stack([torch.full_like(total, 2.5), total], 1)

    with pytest.raises(CapabilityError, match="D4Explainer"):
        D4Explainer(epochs=1, **TINY).fit(Hard(), family(4, 0), progress=False)
    assert D4Explainer(epochs=1, alpha_cf=0.0, **TINY).fit(Hard(), family(4, 0), progress=False).calls.backward == 0


def test_stops_early():
    report = D4Explainer(epochs=50, every=1, patience=2, lr=1e-9, hidden=4, layers=1, levels=2).fit(
        Reds(), family(6, 0), progress=False
    )
    assert report.stopped_early
    assert report.epochs == 3


def test_nodes(tmp_path):
    torch.manual_seed(0)

    class Nodes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(2, 2)

        def forward(self, x, edge_index):
            return 3 * self.conv(x, edge_index)

    model, g = Nodes(), family(1, 4)[0]
    explainer = D4Explainer(epochs=3, restarts=3, **TINY)
    explainer.fit(model, g, node=[0, 1, 2, 3], edits="edges", progress=False)
    assert explainer.networks["denoiser"].enter.in_features == 2 * 3 + 2  # which node is meant is a column
    cfs = explainer.explain(model, g, node=[4, 5], progress=False)
    assert [c.node for c in cfs] == [4, 5]
    with pytest.raises(InputError, match="without node="):
        explainer.explain(Reds(), g, progress=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "legacy"}, "mode"),
        ({"epochs": 0}, "epochs"),
        ({"restarts": 1.5}, "restarts"),
        ({"patience": 0}, "patience"),
        ({"prob_high": 0.7}, "prob_high"),
        ({"prob_low": 0.4, "prob_high": 0.1}, "prob_low"),
        ({"alpha_cf": -1.0}, "alpha_cf"),
        ({"lr": 0.0}, "lr"),
        ({"dropout": 1.0}, "dropout"),
        ({"select": "best"}, "select"),
        ({"prob_low": float("nan")}, "prob_low"),
        ({"alpha_cf": float("nan")}, "alpha_cf"),
        ({"alpha_cf": "much"}, "alpha_cf"),
        ({"isolated": 1}, "isolated must be True or False"),
        ({"level_weights_bug": "no"}, "level_weights_bug"),
    ],
)
def test_options_that_cannot_be_used(options, says):
    with pytest.raises(InputError, match=says):
        D4Explainer(**options)


def test_fit_and_explain_say_what_does_not_go():
    with pytest.raises(InputError, match="fit"):
        D4Explainer().explain(Reds(), family(1, 0))
    with pytest.raises(InputError, match="edges only"):
        D4Explainer().fit(Reds(), family(2, 0), edits="features")
    with pytest.raises(InputError, match="already"):
        D4Explainer().fit(Reds(), family(2, 0), desired=1)
    wide = family(1, 0)[0]
    wide.x = torch.ones(len(wide.x), 5)
    with pytest.raises(InputError, match="2 feature columns"):
        learnt(0.0).explain(Reds(), wide)

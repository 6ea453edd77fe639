"""CLEAR against hand-computed losses and networks, what the model's loss buys, and the contract."""

import functools

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, GraphConv

import counteredge as ce
from counteredge.data import pairs_of
from counteredge.engine.moves import Moves
from counteredge.errors import BudgetError, CapabilityError, InputError
from counteredge.explainers.clear import CLEAR
from counteredge.explainers.clear_networks import GraphVAE
from counteredge.explainers.padded import generated_features, normalised, pair_draws
from counteredge.graphs import GraphBatch
from counteredge.testing import ExplainerContract, sample_graphs, sample_model, sample_schema


@functools.cache
def fitted(mode, seed, directed=False, **options):
    made = CLEAR(mode=mode, seed=seed, epochs=30, hidden=8, latent=4, lr=0.02, **options)
    space = ce.EditSpace(schema=sample_schema())
    made.fit(sample_model(), sample_graphs(24, directed=directed, seed=1), edits=space, progress=False)
    return made


class TestPaper(ExplainerContract):
    def make(self, *, seed=0):
        return fitted("paper", seed)


class TestImproved(ExplainerContract):
    def make(self, *, seed=0):
        return fitted("improved", seed, decoder="inner", targets="all", samples=2)


class TestReference(ExplainerContract):
    # of the public code's quirks two are left out: draws each way make arcs of edges, padding adds nodes
    def make(self, *, seed=0):
        return fitted("reference", seed, symmetric=True, crop_padding=True)


def community(count, seed=0):
    """Two communities of ten nodes; the class says how dense the first is, ``u`` how dense the second."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for k in range(count):
        u = float(torch.rand((), generator=generator))
        chance = torch.full((20, 20), 0.02)
        chance[:10, :10], chance[10:, 10:] = (0.5, 0.95)[k % 2], 0.7 + 0.3 * u
        upper = (torch.rand(20, 20, generator=generator) < chance).triu(1)
        x = torch.eye(2).repeat_interleave(10, 0)
        edges = (upper | upper.t()).nonzero().t().contiguous()
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([k % 2]), u=torch.tensor([u])))
    return graphs


class Dense(torch.nn.Module):
    """Class 1 where the first community has more than 33 edges, counted by a message passing layer."""

    def __init__(self):
        super().__init__()
        self.conv = GraphConv(2, 1, bias=False)
        with torch.no_grad():
            self.conv.lin_rel.weight.copy_(torch.tensor([[1.0, 0.0]]))
            self.conv.lin_root.weight.zero_()

    def forward(self, x, edge_index, batch):
        inside = self.conv(x, edge_index)[:, 0] * x[:, 0]
        edges = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add(0, batch, inside) / 2
        return torch.stack([torch.full_like(edges, 33.0), edges], 1) / 4


def auc(made, graphs, wishes):
    shares = []
    for g, (p, _) in zip(graphs, made.generate(graphs, wishes), strict=True):
        n = len(g.x)
        a = torch.zeros(n, n, dtype=torch.bool)
        a[g.edge_index[0], g.edge_index[1]] = True
        i, j = torch.triu_indices(n, n, 1)
        edges, rest = p[i, j][a[i, j]], p[i, j][~a[i, j]]
        away = edges[:, None] - rest[None]
        shares.append(float(((away > 0).double() + (away == 0).double() / 2).mean()))
    return sum(shares) / len(shares)


def test_the_models_loss_makes_counterfactuals_out_of_reconstructions():
    graphs = community(60)
    other = [1 - int(g.y) for g in graphs]
    options = {"epochs": 300, "lr": 0.01, "samples": 2}
    before, after = CLEAR(**options, warmup=1.0), CLEAR(**options)
    valid = {}
    for name, made in (("before", before), ("after", after)):
        report = made.fit(Dense(), graphs, edits="edges", progress=False)
        cfs = made.explain(Dense(), graphs, edits="edges", progress=False)
        valid[name] = sum(cf.found for cf in cfs) / len(cfs)
        counted = report.losses["counterfactual"]
        assert set(counted[: int(0.225 * 300)]) == {0.0}
        assert (counted[-1] > 0) == (name == "after")
        assert report.calls.backward == (0 if name == "before" else 60 * (300 - int(0.225 * 300)))
    assert auc(before, graphs, other) > 0.9
    assert valid["before"] < 0.3
    assert valid["after"] > 0.9
    # what is wished decides: the first community gets denser, or thinner
    inside = {w: sum(float(p[:10, :10].sum()) for p, _ in after.generate(graphs, w)) for w in (0, 1)}
    assert inside[1] > inside[0] * 1.1


def test_encoder_and_decoder_by_hand():
    torch.manual_seed(0)
    net = GraphVAE(2, 4, 1, 1, 3, 5, 0.1, "sum", "dense", False).double().eval()
    adj = torch.zeros(1, 4, 4, dtype=torch.float64)
    adj[0, 0, 1] = adj[0, 1, 0] = adj[0, 1, 2] = adj[0, 2, 1] = 1
    x, mask = torch.randn(1, 4, 2, dtype=torch.float64), torch.tensor([[True, True, True, False]])
    x[0, 3] = 0
    u, wish = torch.tensor([[0.3]]).double(), torch.tensor([[1.0]]).double()
    read = torch.zeros(3, dtype=torch.float64)
    degree = adj[0].sum(1) + 1
    for v in range(3):
        for w in range(3):
            if v == w or adj[0, v, w]:
                read += (net.conv.weight @ x[0, w] + net.conv.bias) / (degree[v] * degree[w]) ** 0.5
    given = torch.cat([read, u[0], wish[0]])[None]
    _, mean, spread = net.encode(adj, x, mask, u, wish)
    torch.testing.assert_close(mean, net.mean(given))
    torch.testing.assert_close(spread, net.spread(given))
    assert bool((spread >= 0.5).all() & (spread < 1).all())
    logits, values = net.decode(torch.zeros(1, 4, 3).double(), mean, wish)
    flat = net.of_pairs(torch.cat([mean, wish], 1))[0]
    assert torch.equal(logits[0], flat.view(4, 4))
    assert values.shape == (1, 4, 2)
    average = GraphVAE(2, 4, 1, 1, 3, 5, 0.1, "mean", "dense", False).double().eval()
    average.load_state_dict(net.state_dict())
    torch.testing.assert_close(
        average.encode(adj, x, mask, u, wish)[1], net.mean(torch.cat([read / 3, u[0], wish[0]])[None])
    )


def test_normalisation_of_arcs_is_that_of_a_graph_convolution():
    torch.manual_seed(0)
    adj = (torch.rand(6, 6) < 0.4).float().fill_diagonal_(0)
    x = torch.randn(6, 3)
    conv = GCNConv(3, 3, bias=False)
    due = conv(x, adj.nonzero().t())
    torch.testing.assert_close(normalised(adj[None])[0] @ x @ conv.lin.weight.t(), due)


def test_losses_by_hand():
    graphs = community(4)
    seen = {}

    class Watched(CLEAR):
        def _losses(self, network, padded, training, part, u, target, alpha):
            torch.manual_seed(5)
            out = super()._losses(network, padded, training, part, u, target, alpha)
            torch.manual_seed(5)
            _, mean, spread = network.encode(part.adj, part.x, part.mask, u, target[:, None].float())
            noise = torch.randn_like(mean)
            z = mean + (spread / 2).exp() * noise
            logits, x = network.decode(torch.zeros(4, 20, 16), z, target[:, None].float())
            seen.update(out=out, logits=logits, x=x, mean=mean, spread=spread, part=part, target=target)
            seen["prior"] = network.prior(u, mean)
            return out

    made = Watched(epochs=1, warmup=0.0, dropout=0.0, u="u")
    made.fit(Dense(), graphs, edits="edges", progress=False)
    part, out = seen["part"], seen["out"]
    assert sorted(part.ids.tolist()) == [0, 1, 2, 3]
    p = torch.sigmoid(seen["logits"]).detach()
    bce, count = 0.0, 0
    for b in range(4):
        for i in range(20):
            for j in range(20):
                if i != j:
                    bce -= float(torch.log(p[b, i, j] if part.adj[b, i, j] else 1 - p[b, i, j]))
                    count += 1
    assert float(out["edges"].detach()) == pytest.approx(10 * bce / count, rel=1e-4)
    away = [float((seen["x"][b] - part.x[b]).pow(2).sum().sqrt()) / 4 for b in range(4)]
    assert float(out["features"].detach()) == pytest.approx(10 * sum(away) / 4, rel=1e-4)
    mean_u, spread_u = seen["prior"]
    prior = torch.distributions.Normal(mean_u, (spread_u / 2).exp())
    own = torch.distributions.Normal(seen["mean"], (seen["spread"] / 2).exp())
    assert float(out["kl"].detach()) == pytest.approx(
        float(torch.distributions.kl_divergence(own, prior).mean()), rel=1e-4
    )
    edges = (p * (1 - torch.eye(20)))[:, :10, :10].sum((1, 2)) / 2
    logits = torch.stack([torch.full_like(edges, 33.0), edges], 1) / 4
    due = 5 * torch.nn.functional.cross_entropy(logits, seen["target"])
    assert float(out["counterfactual"].detach()) == pytest.approx(float(due), rel=1e-4)


def test_candidates_of_a_known_decoder():
    """The threshold flips nothing, or all; draws follow the probabilities; the fewest edge edits are kept."""
    graphs = community(8)
    made = CLEAR(epochs=1, samples=6)
    made.fit(Dense(), graphs, edits="edges", progress=False)
    p = torch.zeros(20, 20, dtype=torch.float64)
    p[:10, :10] = 0.6  # 45 pairs: the most likely graph has all of them, draws about 27

    def known(base, rows, target):
        return p.expand(len(rows), 20, 20), torch.zeros(len(rows), 20, 2).double()

    made._generated = known
    sparse = [g for g in graphs if int(g.y) == 0]
    for cf in made.explain(Dense(), sparse, edits="edges", progress=False):
        assert cf.found
        before, after = ({tuple(e) for e in pairs_of(g, directed=False).tolist()} for g in (cf.original, cf.data))
        candidates = [{(i, j) for i in range(10) for j in range(i + 1, 10)}]
        for k in range(6):
            u = pair_draws([cf.original], 20, 0, k * 3 + 1, directed=False)[0]
            candidates.append({(i, j) for i in range(20) for j in range(i + 1, 20) if u[i, j] < p[i, j]})
        valid = [c for c in candidates if sum(j < 10 for _, j in c) > 33]
        assert after in valid
        assert len(before ^ after) == min(len(before ^ c) for c in valid)


def test_improved_is_never_worse_than_the_paper():
    graphs = sample_graphs(24)
    space = ce.EditSpace(schema=sample_schema())
    modes = ("paper", "improved")
    runs = {m: fitted(m, 0, samples=2).explain(sample_model(), graphs, edits=space, progress=False) for m in modes}
    pairs = list(zip(runs["paper"], runs["improved"], strict=True))
    assert all(b.found and len(b.edits) <= len(a.edits) for a, b in pairs if a.found)
    assert sum(len(b.edits) for a, b in pairs if a.found) < sum(len(a.edits) for a, b in pairs if a.found)


def test_generated_features_are_legal():
    graphs = sample_graphs(3)
    base = GraphBatch.from_graphs(graphs)
    allowed = ce.EditSpace(frozen_features=[1], direction={4: "up"}).allowed(base, sample_schema())
    moves = Moves(base, allowed)
    value = torch.randn(base.x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 9
    out = generated_features(value, base.x, allowed.features, moves, torch.float32)
    assert torch.equal(out[..., :3], base.x[..., :3])  # a group that is partly frozen stays
    assert set(out[..., 3].unique().tolist()) <= {0.0, 1.0}
    assert bool((out[..., 4] >= base.x[..., 4]).all() & (out[..., 4] <= 5).all() & (out[..., 4] % 1 == 0).all())
    assert bool((out[..., 5].abs() <= 2).all())
    free = ce.EditSpace().allowed(base, sample_schema())
    out = generated_features(value, base.x, free.features, Moves(base, free), torch.float32)
    real = base.mask
    assert torch.equal(out[..., :3].argmax(-1)[real], value[..., :3].argmax(-1)[real])
    assert torch.equal(out[..., :3].sum(-1)[real], torch.ones(int(real.sum())).double())


def test_features_are_written_only_when_asked_for():
    graphs = sample_graphs(12)
    for written in (True, False):
        made = CLEAR(epochs=30, hidden=8, latent=4, lr=0.02, features=written, samples=2)
        made.fit(sample_model(), graphs, edits=ce.EditSpace(schema=sample_schema()), progress=False)
        cfs = made.explain(sample_model(), graphs, edits=ce.EditSpace(schema=sample_schema()), progress=False)
        found = [cf for cf in cfs if cf.found]
        assert found
        assert any(cf.edits.feature_count for cf in found) == written


def test_padding_is_new_nodes_where_the_code_is_followed():
    graphs = sample_graphs(16)
    space = ce.EditSpace(schema=sample_schema())
    made = CLEAR(mode="reference", epochs=20, hidden=8, latent=4, samples=4)
    made.fit(sample_model(), graphs, edits=space, progress=False)
    most = max(len(g.x) for g in graphs)
    cfs = made.explain(sample_model(), graphs, edits=space, progress=False)
    alone = [made.explain(sample_model(), g, edits=space, progress=False) for g in graphs]
    assert [c.edits for c in cfs] == [c.edits for c in alone]
    found = [cf for cf in cfs if cf.found]
    assert found
    assert all(len(cf.data.x) == most for cf in found)
    assert all(len(cf.edits.new_nodes) == most - len(cf.original.x) and cf.edits.directed for cf in found)
    assert any(j >= len(cf.original.x) for cf in found for _, j in cf.edits.added)


def test_padding_keeps_to_the_edit_space():
    graphs = sample_graphs(16)
    made = CLEAR(mode="reference", epochs=20, hidden=8, latent=4, samples=4)
    made.fit(sample_model(), graphs, edits=ce.EditSpace(schema=sample_schema()), progress=False)

    def explain(k=1, **space):
        edits = ce.EditSpace(schema=sample_schema(), **space)
        return made.explain(sample_model(), graphs, edits=edits, k=k, progress=False)

    small = [k for k, g in enumerate(graphs) if len(g.x) < made.spec["nodes"]]
    for space in ({"nodes": False}, {"add_edges": False}):
        found = [cf for cf in explain(**space) if cf.found]
        assert found
        assert not any(cf.edits.new_nodes for cf in found)
        assert all(max(p) < len(cf.original.x) for cf in found for p in cf.edits.added)
    for limit in ({"max_degree": 4}, {"keep_connected": True}, {"k": 2}):
        with pytest.raises(InputError, match="use crop_padding=True"):
            explain(**limit)
    # new nodes are of the first category where features stay as they are
    rows = [v for k in small for v in explain(features=False)[k].edits.new_nodes]
    assert rows
    assert all(v == (1, 0, 0, 0, 0, 0) for v in rows)


def test_memory_is_bounded_by_what_is_explained_and_by_the_batch():
    graphs = community(12)
    small = Data(x=graphs[0].x[:4], edge_index=torch.tensor([[0, 1], [1, 0]]))
    made = CLEAR(epochs=1, hidden=4, latent=4, samples=1)
    made.fit(Dense(), graphs, edits="edges", progress=False)
    p, x = made._generated(GraphBatch.from_graphs([small]), torch.tensor([0]), torch.tensor([1]))
    assert p.shape == (1, 4, 4)
    assert x.shape == (1, 4, 2)
    large = []
    for g in graphs:
        more = torch.zeros(50, 2)
        large.append(Data(x=torch.cat([g.x, more]), edge_index=g.edge_index))
    tight = {"epochs": 1, "hidden": 4, "latent": 4, "samples": 1, "memory": 1 << 20}
    with pytest.raises(BudgetError, match=r"pads 12 training graphs a step to 70 nodes.* 4 MiB.* batch_size=3 fits"):
        CLEAR(**tight).fit(Dense(), large, edits="edges", progress=False)
    CLEAR(**tight, batch_size=3).fit(Dense(), large, edits="edges", progress=False)
    with pytest.raises(InputError, match="2 columns of x, these have 3"):
        made.generate(Data(x=torch.ones(4, 3), edge_index=small.edge_index), 1)


def test_larger_graphs_than_in_training():
    small, large = sample_graphs(8), sample_graphs(30, seed=3)
    large = [g for g in large if len(g.x) == 8][:3]
    small = [g for g in small if len(g.x) < 8]
    space = ce.EditSpace(schema=sample_schema())
    for decoder in ("dense", "inner"):
        made = CLEAR(epochs=2, hidden=4, latent=4, decoder=decoder)
        made.fit(sample_model(), small, edits=space, progress=False)
        cfs = made.explain(sample_model(), [*large, *small], edits=space, progress=False)
        refused = [cf for cf in cfs[: len(large)] if not cf.found and "no graph of more than 7 nodes" in cf.reason]
        assert len(refused) == (len(large) if decoder == "dense" else 0)
        if decoder == "dense":
            with pytest.raises(InputError, match="8 nodes"):
                made.generate(large[0], 0)
        else:
            assert made.generate(large[0], 0)[0][0].shape == (8, 8)
    assert CLEAR(dense_limit=3, epochs=1).fit(sample_model(), small, progress=False)


def test_inner_decoder_follows_the_nodes():
    made = fitted("improved", 0, decoder="inner", targets="all", samples=2)
    (g,) = sample_graphs(1)
    order = torch.randperm(len(g.x), generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    twin = Data(x=g.x[order], edge_index=place[g.edge_index])
    p, x = made.generate(g, 1)[0]
    q, y = made.generate(twin, 1)[0]
    torch.testing.assert_close(p[order][:, order], q)
    torch.testing.assert_close(x[order], y)


def test_causes_and_wishes():
    graphs = community(12)
    made = CLEAR(epochs=2, u="u")
    made.fit(Dense(), graphs, edits="edges", progress=False)
    assert made.networks["vae"].prior_mean.weight.shape == (16, 1)
    with pytest.raises(InputError, match="u='u' must be one number"):
        made.explain(Dense(), Data(x=graphs[0].x, edge_index=graphs[0].edge_index), edits="edges", progress=False)
    with pytest.raises(InputError, match="wish"):
        made.generate(graphs[:2], 2)
    cfs = made.explain(Dense(), graphs, desired=1, edits="edges", progress=False)
    assert all(cf.after.label == 1 for cf in cfs if cf.found)
    assert all("already" in cf.reason for cf in cfs if cf.before.label == 1)
    labels = CLEAR(epochs=2, hidden=4, latent=4)
    labels.fit(sample_model(), sample_graphs(8), task="multilabel", progress=False)
    labels.explain(sample_model(), sample_graphs(4), task="multilabel", progress=False)
    with pytest.raises(InputError, match="classes"):
        labels.explain(sample_model(), sample_graphs(2), progress=False)


def test_files_keep_everything(tmp_path):
    made = fitted("paper", 0)
    space = ce.EditSpace(schema=sample_schema())
    before = made.explain(sample_model(), sample_graphs(), edits=space, progress=False)
    made.save(tmp_path / "made.safetensors")
    again = CLEAR.load(tmp_path / "made.safetensors")
    assert [c.edits for c in again.explain(sample_model(), sample_graphs(), edits=space, progress=False)] == [
        c.edits for c in before
    ]
    assert again.parameters() == made.parameters()


def test_models_without_gradients_are_refused():
    def few(batch):
        return torch.bincount(batch.batch[batch.edge_index[0]], minlength=batch.num_graphs) % 2

    with pytest.raises(CapabilityError, match="gradients"):
        CLEAR(epochs=1).fit(few, community(4), progress=False)
    with pytest.raises(InputError, match="at least two"):
        CLEAR(epochs=1).fit(Dense(), community(1), progress=False)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "legacy_gretel"}, {"epochs": 0}, {"batch_size": 1}, {"warmup": 1.5}, {"alpha": -1}, {"pool": "max"},
        {"samples": 0, "threshold": False}, {"targets": "best"}, {"decoder": "deep"}, {"u": 3}, {"features": "yes"},
        {"steps": "graph"}, {"label": "wrong"}, {"lr": 0}, {"dropout": 1.0},
    ],
)  # fmt: skip
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError):
        CLEAR(**options)

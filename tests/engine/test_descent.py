"""Algorithm 1 against a naive implementation, and its options."""

import copy

import pytest
import torch
from torch_geometric.nn import global_mean_pool

import counteredge as ce
from counteredge.engine.descent import DescentOptions
from counteredge.engine.draws import noise_like
from counteredge.testing import sample_graphs, sample_model, sample_schema

NUMBERS = sample_schema().as_numbers()


def explain(graphs, model, edits=None, **options):
    space = edits or ce.EditSpace(schema=NUMBERS)
    return ce.XPlore("paper", **options).explain(model, graphs, edits=space, progress=False)


def naive_algorithm_1(model, g, features, gamma=0.0, seed=0, K=50, alpha=0.1, beta=0.5):
    """The paper's loop, written for one graph with plain matrices and the layers' own weights."""
    judge = copy.deepcopy(model).double().eval()
    n = g.num_nodes
    a = torch.zeros(n, n, dtype=torch.float64)
    src, dst = g.edge_index
    off = src != dst
    a[src[off], dst[off]] = 1
    x = g.x.double()

    def oracle(a_hat, x_hat):
        with_loops = a_hat + torch.eye(n, dtype=torch.float64)
        scale = with_loops.sum(0).rsqrt()
        norm = scale[:, None] * with_loops * scale[None, :]
        h = (x_hat - judge.x_mean) / judge.x_std
        for conv in judge.convs:
            h = torch.relu(norm.t() @ conv.lin(h) + conv.bias)
        return judge.dense[0](global_mean_pool(h, torch.zeros(n, dtype=torch.long)))[0]

    y = int(oracle(a, x).argmax())
    noise = noise_like((g,), n, None, seed, 0)[0]
    p = a + 0.1 * noise + gamma * (1 - a)
    v = torch.ones_like(x)
    best, best_distance = None, float("inf")
    for _ in range(K):
        p.requires_grad_()
        v.requires_grad_()
        upper = p.triu(1)
        soft = upper + upper.t()
        hard = (torch.sigmoid(soft) >= 0.5).double() * (1 - torch.eye(n, dtype=torch.float64))
        a_hat = soft + (hard - soft).detach()
        a_hat = a_hat * (1 - torch.eye(n, dtype=torch.float64))
        mask = v
        if features == "gating":
            mask = v + ((torch.sigmoid(v) >= 0.5).double() - v).detach()
        x_hat = x if features is None else mask * x
        z = oracle(a_hat, x_hat)
        distance = (a - a_hat).abs().sum() + (x - x_hat).abs().sum()
        same = int(z.argmax()) == y
        if not same and distance <= best_distance:
            best, best_distance = (hard.detach().clone(), x_hat.detach().clone()), float(distance.detach())
        ce_loss = torch.nn.functional.cross_entropy(z[None], torch.tensor([y]))
        loss = -float(same) * ce_loss + beta * distance
        grads = torch.autograd.grad(loss, [p, v], allow_unused=True)
        with torch.no_grad():
            p = p - alpha * grads[0]
            v = v if grads[1] is None else v - alpha * grads[1]
    return best


@pytest.mark.parametrize("features", [None, "gating", "freedom"])
@pytest.mark.parametrize("gamma", [0.0, 0.05])
def test_paper_preset_is_algorithm_1(features, gamma):
    model = sample_model("gcn")
    graphs = [g for g in sample_graphs(8) if (g.edge_index[0] != g.edge_index[1]).all()]
    cfs = explain(graphs, model, ce.EditSpace(schema=NUMBERS, gamma=gamma), features=features)
    hits = 0
    for g, cf in zip(graphs, cfs, strict=True):
        expected = naive_algorithm_1(model, g, features, gamma)
        assert cf.found == (expected is not None)
        if cf.found:
            hits += 1
            adjacency = torch.zeros(g.num_nodes, g.num_nodes, dtype=torch.float64)
            adjacency[tuple(cf.data.edge_index)] = 1
            assert torch.equal(adjacency, expected[0])
            torch.testing.assert_close(cf.data.x.double(), expected[1], atol=1e-6, rtol=1e-6)
    assert hits > 0


def test_gamma_pushes_pairs_in():
    """A positive prior on absent pairs makes the first candidates denser; -1 forbids a pair (paper, Method)."""
    model, graphs = sample_model(), sample_graphs(12)
    sizes = {}
    for gamma in (-0.5, 0.0, 0.5):
        cfs = explain(graphs, model, ce.EditSpace(schema=NUMBERS, gamma=gamma), iterations=1)
        sizes[gamma] = sum(len(c.edits.added) for c in cfs)
    assert sizes[-0.5] < sizes[0.0] < sizes[0.5]
    forbidden = explain(graphs, model, ce.EditSpace(schema=NUMBERS, gamma=-1.0))
    assert not any(c.edits.added for c in forbidden)


@pytest.mark.parametrize(
    "options",
    [
        {"box": True},
        {"surrogate": "sigmoid"},
        {"surrogate": "sigmoid", "temperature": 1.0},
        {"surrogate": "sigmoid", "temperature": 1.0, "anneal": 20.0},
        {"alpha": 0.5},
        {"beta": 0.05},
        {"iterations": 5},
        {"seed": 3},
    ],
    ids=str,
)
def test_every_option_changes_the_run(options):
    model, graphs = sample_model(), sample_graphs(16)
    plain = [c.edits for c in explain(graphs, model)]
    other = explain(graphs, model, **options)
    assert [c.edits for c in other] != plain
    assert any(c.found for c in other) or options == {"box": True}


def test_gamma_weights_change_the_price_of_a_pair():
    """App. A.4: the regulariser of a pair is beta / (1 + gamma)."""
    model, graphs = sample_model(), sample_graphs(16)
    space = ce.EditSpace(schema=NUMBERS, gamma=lambda g: torch.full((g.num_nodes, g.num_nodes), 0.9))
    plain = explain(graphs, model, space)
    weighted = explain(graphs, model, space, gamma_weights=True)
    assert [c.edits for c in plain] != [c.edits for c in weighted]


def test_options_are_checked():
    for bad in ({"iterations": 0}, {"alpha": 0.0}, {"beta": -1.0}, {"features": "wrong"}):
        with pytest.raises(ce.InputError):
            DescentOptions(**bad)


def test_noise_depends_on_graph_seed_and_restart_only():
    a, b = sample_graphs(2)
    alone = noise_like((a,), 8, None, 0, 0)[0]
    batched = noise_like((b, a), 12, None, 0, 0)[1]
    n = a.num_nodes
    assert torch.equal(alone[:n, :n], batched[:n, :n])
    assert not torch.equal(alone, noise_like((a,), 8, None, 1, 0)[0])
    assert not torch.equal(alone, noise_like((a,), 8, None, 0, 1)[0])
    assert batched[n:].abs().sum() == 0

"""Faults that users of this field report about modes, traces and determinism (rows 3b of docs/field_faults.md)."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from field_models import Net, near, numbers, s6, solve
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer, fidelity
from torch_geometric.nn import (
    GCNConv,
)

import counteredge as ce
from counteredge.metrics import evaluate


def test_pyg_5114_two_models_give_two_explanations():
    g = s6()
    first, second = near(Net(), g), Net()
    with torch.no_grad():
        second.conv.lin.weight.mul_(-1)
    near(second, g)
    assert solve(first, g).edits != solve(second, g).edits


# -- modes, traces, determinism --------------------------------------------------------------------------------------


class Stochastic(Net):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)

    def forward(self, x, edge_index, batch):
        return self.head(self.drop(self.norm(self.conv(x, edge_index))), batch)


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(s6(), id="pyg#8403"),
        pytest.param(Data(x=s6().x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long)), id="pyg#1408"),
    ],
)
def test_batch_norm_and_dropout_in_train_mode(graph):
    model = near(Stochastic(), graph).train()
    model.norm.eval()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    modes = {name: m.training for name, m in model.named_modules()}
    solve(model, graph, edits=ce.EditSpace(schema=numbers(4)))
    assert {name: m.training for name, m in model.named_modules()} == modes
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_nothing_is_left_behind():
    g = s6()
    model = near(Net(), g)
    grads = {n: torch.ones_like(p) for n, p in model.named_parameters() if n == "lin.weight"}
    model.lin.weight.grad = grads["lin.weight"]
    model.lin.bias.requires_grad_(False)
    x, edge_index = g.x.clone(), g.edge_index.clone()
    states = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    solve(model, g)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert str(np.random.get_state()) == states[1]  # noqa: NPY002
    assert torch.equal(g.x, x)
    assert torch.equal(g.edge_index, edge_index)
    assert model.lin.weight.grad is grads["lin.weight"]
    assert torch.equal(grads["lin.weight"], torch.ones_like(model.lin.weight))
    assert model.conv.lin.weight.grad is None
    assert not model.lin.bias.requires_grad
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert all(m.explain is None for m in model.modules() if isinstance(m, GCNConv))


def test_an_exception_leaves_nothing_behind_either():
    class Tires(Net):
        calls = 0

        def forward(self, x, edge_index, batch):
            type(self).calls += 1
            if self.calls > 6:
                raise KeyboardInterrupt
            return super().forward(x, edge_index, batch)

    g = s6()
    model = near(Tires(), g).train()
    with pytest.raises(KeyboardInterrupt):
        ce.XPlore().explain(model, g, progress=False)
    assert model.training
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert not model.conv._propagate_forward_pre_hooks
    assert all(p.grad is None for p in model.parameters())


def gnn_explainer(model, g):
    """What PyG's explainer says, the state of the global generator being the same each time."""
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    torch.manual_seed(1)
    explainer = Explainer(model, GNNExplainer(epochs=20), "model", config, "attributes", "object")
    zeros = torch.zeros(len(g.x), dtype=torch.long)
    return explainer, explainer(g.x, g.edge_index, batch=zeros)


def masks(model, g):
    out = gnn_explainer(model, g)[1]
    return out.node_mask, out.edge_mask


def fidelities(model, g):
    return torch.tensor(fidelity(*gnn_explainer(model, g)))


@pytest.mark.parametrize(
    "theirs", [pytest.param(masks, id="pyg#9653"), pytest.param(fidelities, id="pyg#6508: fidelity")]
)
@pytest.mark.parametrize("conv", ["gcn", "gat", "sage"])
def test_pygs_explainer_before_and_after(theirs, conv):
    """On one model, theirs, ours, theirs, ours: each says what it says alone, bit by bit."""
    g = s6()
    model = near(Net(conv), g).eval()
    alone = theirs(copy.deepcopy(model), g)
    ours = ce.XPlore().explain(copy.deepcopy(model), g, progress=False).to_json(timings=False)
    for _ in range(2):
        for got, wanted in zip(theirs(model, g), alone, strict=True):
            assert torch.equal(got, wanted)
        cf = ce.XPlore().explain(model, g, progress=False)
        assert cf.found
        assert cf.to_json(timings=False) == ours
        paper = ce.XPlore("paper", iterations=5).explain(model, g, progress=False)
        assert evaluate([cf, paper], [cf.before.label] * 2, embedders=()).mean("fidelity") >= 0.5


def test_run_pyg_gnnexplainer_a_training_step_after_an_explanation_changes_nothing():
    """[run]: PyG's GNNExplainer leaves gradients on the parameters, which the next optimiser step would apply."""
    g = s6()
    model = near(Net(), g)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    for explainer in (ce.XPlore(), ce.XPlore("paper")):
        explainer.explain(model, g, progress=False)
        assert all(p.grad is None for p in model.parameters())
        optimiser.step()
        assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    gnn_explainer(model, g)
    optimiser.step()
    assert any(not torch.equal(v, weights[k]) for k, v in model.state_dict().items()), "the check would see nothing"


@pytest.mark.parametrize(
    "deterministic", [pytest.param(False, id="pyg#2034"), pytest.param(True, id="pyg#2788: deterministic algorithms")]
)
@pytest.mark.parametrize("preset", ["minimal", "paper"])
def test_same_seed_same_json(preset, deterministic):
    g = s6()
    model = near(Net(), g)

    def run():
        return ce.XPlore(preset=preset, seed=3).explain(model, g, progress=False).to_json(timings=False)

    first = run()
    torch.manual_seed(99)
    torch.rand(7)
    state = torch.get_rng_state()
    try:
        torch.use_deterministic_algorithms(deterministic)
        assert run() == first
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(torch.get_rng_state(), state)


def test_pyg_6620_models_are_never_moved(monkeypatch):
    """Neither the model nor any part of it; tensors of two devices are named in test_bad_input."""
    g = s6()
    model = near(Net(), g)

    def moved(self, *args, **kwargs):
        raise AssertionError(f"{type(self).__name__} was moved or cast")

    for name in ("to", "_apply", "double", "float", "half", "cpu", "cuda"):
        monkeypatch.setattr(nn.Module, name, moved)
    for preset in ("minimal", "paper"):
        cf = ce.XPlore(preset).explain(model, g, progress=False)
        assert cf.reason == ""
        assert cf.data.x.device == g.x.device


def test_pyg_2034_same_json_in_another_process(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import counteredge as ce\n"
        "from field_models import Net, near, s6\n"
        "g = s6()\n"
        "print(ce.XPlore(seed=3).explain(near(Net(), g), g, progress=False).to_json(timings=False))\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    env = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), here], capture_output=True, text=True, env=env, check=True
    )
    g = s6()
    assert out.stdout.strip() == ce.XPlore(seed=3).explain(near(Net(), g), g, progress=False).to_json(timings=False)


@pytest.mark.parametrize(("data", "model"), [(torch.float64, torch.float32), (torch.float32, torch.float64)])
def test_dgl_3052_double_against_float(data, model):
    g = s6()
    net = near(Net(), g).to(model)
    given = Data(x=g.x.to(data), edge_index=g.edge_index)
    cf = solve(net, given, lambda m, g: m(g.x.to(model), g.edge_index, torch.zeros(6, dtype=torch.long)))
    assert cf.data.x.dtype == data

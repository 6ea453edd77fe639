from typing import get_args

import pytest
import torch

from counteredge.errors import InputError
from counteredge.models import GraphClassifier
from counteredge.models.classifier import Conv

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
CONVS = get_args(Conv)


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("pool", ["mean", "add", "max"])
def test_a_batch_gives_what_its_graphs_give(conv, pool):
    model = GraphClassifier(4, 3, conv=conv, pool=pool, hidden=8, dense=2, norm=True, jump=True).eval()
    x = torch.randn(5, 4)
    both = model(x, EDGES, batch=torch.tensor([0, 0, 0, 1, 1]))
    first = model(x[:3], EDGES[:, :4])
    second = model(x[3:], EDGES[:, 4:] - 3)
    torch.testing.assert_close(both, torch.cat([first, second]))
    assert both.shape == (2, 3)


@pytest.mark.parametrize("conv", CONVS)
def test_nodes_get_a_row_each_and_see_their_own_graph_only(conv):
    model = GraphClassifier(4, 3, conv=conv, hidden=8, dense=2, task="node").eval()
    x = torch.randn(5, 4)
    both = model(x, EDGES, batch=torch.tensor([0, 0, 0, 1, 1]))
    assert both.shape == (5, 3)
    torch.testing.assert_close(both[:3], model(x[:3], EDGES[:, :4]))


@pytest.mark.parametrize("conv", CONVS)
def test_weight_zero_is_the_absence_of_an_edge_where_weights_are_taken(conv):
    model = GraphClassifier(4, 2, conv=conv, hidden=8).eval()
    x = torch.randn(5, 4)
    weight = torch.tensor([1.0, 1, 1, 1, 0, 0])
    full, masked, without = model(x, EDGES), model(x, EDGES, weight), model(x, EDGES[:, :4])
    torch.testing.assert_close(masked, without if conv in ("gcn", "graph") else full)


def test_rebuilt_from_its_config():
    options = {"layers": 2, "hidden": 8, "dense": 3, "pool": "max", "dropout": 0.1, "norm": True, "jump": True}
    model = GraphClassifier(4, 2, conv="sage", **options).eval()
    model.fit_scaler(torch.randn(20, 4))
    twin = GraphClassifier(**model.config).eval()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(model(x, EDGES), twin(x, EDGES))


def test_scaler_leaves_constant_and_binary_columns_alone():
    model = GraphClassifier(3, 2)
    measured = torch.randn(100) * 5 + 7
    binary = torch.zeros(100)
    binary[0] = 1
    model.fit_scaler(torch.stack([measured, binary, torch.full((100,), 4.0)], dim=1))
    torch.testing.assert_close(model.x_mean, torch.tensor([measured.mean().item(), 0, 0]))
    torch.testing.assert_close(model.x_std, torch.tensor([measured.std(correction=0).item(), 1, 1]))


@pytest.mark.parametrize("bad", [{"conv": "gcn2"}, {"pool": "sum"}, {"task": "edge"}, {"layers": 0}, {"dropout": 1.0}])
def test_bad_options(bad):
    with pytest.raises(InputError, match="got"):
        GraphClassifier(3, 2, **bad)

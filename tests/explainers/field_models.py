"""What the field-fault tests share: small graphs and models, and an answer checked on an untouched copy."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    ARMAConv,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    SAGEConv,
    TAGConv,
    global_mean_pool,
)

import counteredge as ce

CONVS = {
    "gcn": lambda: GCNConv(4, 8),
    "sage": lambda: SAGEConv(4, 8),
    "gin": lambda: GINConv(nn.Linear(4, 8)),
    "gat": lambda: GATConv(4, 8),
    "gatv2": lambda: GATv2Conv(4, 8),
    "cheb": lambda: ChebConv(4, 8, K=2),
    "arma": lambda: ARMAConv(4, 8),
    "tag": lambda: TAGConv(4, 8),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tiny tensors: a second thread only costs time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def arcs(*edges):
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous()


def pairs(*edges):
    return arcs(*(e for i, j in edges for e in ((i, j), (j, i))))


def s6(**attributes):
    """The path 0-1-2-3-4-5 with four random columns."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    return Data(x=x, edge_index=pairs(*((i, i + 1) for i in range(5))), **attributes)


class Net(nn.Module):
    def __init__(self, conv="gcn", outputs=2, pool=global_mean_pool):
        super().__init__()
        torch.manual_seed(0)
        self.conv = (CONVS[conv] if isinstance(conv, str) else conv)()
        self.lin = nn.Linear(8, outputs)
        self.pool = pool

    def head(self, h, batch):
        return self.lin(self.pool(h.relu(), batch))

    def forward(self, x, edge_index, batch):
        return self.head(self.conv(x, edge_index), batch)


class Bonds(Net):
    """Takes three numbers an edge."""

    def __init__(self):
        super().__init__(lambda: GINEConv(nn.Linear(4, 8), edge_dim=3))

    def forward(self, x, edge_index, edge_attr, batch):
        return self.head(self.conv(x, edge_index, edge_attr), batch)


class Constant(Net):
    """Looks at everything, answers class 0 always."""

    def forward(self, x, edge_index, batch):
        return 0 * super().forward(x, edge_index, batch) + torch.tensor([1.0, 0.0], dtype=x.dtype)


class Edges(nn.Module):
    """Class 1 exactly when the graph has at least ``least`` arcs."""

    def __init__(self, least):
        super().__init__()
        self.least = least

    def forward(self, x, edge_index, batch):
        count = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).double()
        return torch.stack([torch.full_like(count, self.least - 0.5), count], 1)


def single(model, g):
    return model(g.x, g.edge_index, torch.zeros(len(g.x), dtype=torch.long))


def near(model, graph, call=single, to=0.02):
    """The model with its last bias shifted so that ``graph`` lies close to the boundary."""
    mode = model.training
    with torch.no_grad():
        model.lin.bias -= call(model.eval(), graph).reshape(-1)
        model.lin.bias[0] += to * float(model.lin.weight.abs().mean())
    return model.train(mode)


def label(z):
    return int(z.reshape(-1).argmax())


def solve(model, graph, call=single, explainer=None, read=label, **options):
    """A counterfactual, checked on a deep copy of the untouched model."""
    fresh = copy.deepcopy(model).eval()
    cf = (explainer or ce.XPlore()).explain(model, graph, progress=False, **options)
    assert cf.found, cf.reason
    with torch.no_grad():
        assert read(call(fresh, cf.data)) != read(call(fresh, graph))
    structure_holds(graph, cf)
    return cf


def structure_holds(graph, cf):
    """Gate R4: symmetric, the user's self-loops, aligned attributes, the same nodes and dtypes."""
    data = cf.data
    assert data.x.shape == graph.x.shape
    assert data.x.dtype == graph.x.dtype
    src, dst = data.edge_index
    before = graph.edge_index
    assert sorted(src[src == dst].tolist()) == sorted(before[0][before[0] == before[1]].tolist())
    if not cf.edits.directed:
        assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == sorted(
            zip(dst.tolist(), src.tolist(), strict=True)
        )
    for key in ("edge_attr", "edge_weight", "edge_type"):
        if graph.get(key) is not None:
            assert data[key].shape == (len(src), *graph[key].shape[1:])
            assert data[key].dtype == graph[key].dtype


def numbers(width, lo=-2.0, hi=2.0):
    return ce.FeatureSchema(tuple(ce.Column("continuous", lo=lo, hi=hi) for _ in range(width)))

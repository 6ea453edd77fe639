"""Node tasks: the answer is proved on the full graph, in its own numbers, whatever ball the search looked at."""

import copy
import json

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import k_hop_subgraph, to_undirected

import counteredge as ce
from counteredge.errors import InputError, ModelError
from counteredge.nodes import NodeHead, NodeOracle, Targets
from counteredge.results import Counterfactual
from counteredge.testing import sample_model


def tree(n=60, extra=8, seed=0, *, f=3, directed=False):
    """A random tree with a few more edges, random features."""
    rng = torch.Generator().manual_seed(seed)
    parents = torch.stack([(torch.rand((), generator=rng) * k).long() for k in range(1, n)])
    more = torch.randint(0, n, (2, extra), generator=rng)
    edges = torch.cat([torch.stack([parents, torch.arange(1, n)]), more[:, more[0] != more[1]]], 1)
    edges = torch.unique(edges, dim=1) if directed else to_undirected(edges)
    return Data(x=torch.randn(n, f, generator=rng), edge_index=edges)


class Net(nn.Module):
    """A node classifier of a few layers; batch norm and dropout make it depend on its mode."""

    def __init__(self, conv=GCNConv, f=3, classes=3, layers=2, seed=0, **options):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.convs = nn.ModuleList(conv(f if k == 0 else 8, 8, **options) for k in range(layers))
            self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
            self.head = nn.Linear(8, classes)
        with torch.no_grad():  # all classes occur
            out = self.eval()(tree(f=f).x, tree(f=f).edge_index)
            self.head.weight.mul_(4)
            self.head.bias.copy_(-4 * (out - self.head.bias).mean(0))

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = self.drop(self.norm(conv(x, edge_index)).relu())
        return self.head(x)


def flips(model, cf):
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        before, after = (model(g.x, g.edge_index).argmax(1) for g in (cf.original, cf.data))
    return before, after


@pytest.mark.parametrize("conv", [GCNConv, SAGEConv, GATConv])
@pytest.mark.parametrize("edits", ["edges", "both"])
def test_answers_flip_the_node_on_the_full_graph(conv, edits):
    model, data = Net(conv).train(), tree()
    state, given = copy.deepcopy(model.state_dict()), data.clone()
    cfs = ce.XPlore().explain(model, data, node=range(0, 60, 6), edits=edits)
    assert [cf.node for cf in cfs] == list(range(0, 60, 6))
    assert sum(cf.found for cf in cfs) >= 5
    for cf in cfs:
        if not cf.found:
            continue
        before, after = flips(model, cf)
        assert before[cf.node] == cf.before.label
        assert after[cf.node] == cf.after.label != cf.before.label
        assert torch.equal(cf.edits.apply(data).edge_index, cf.data.edge_index)
        changed = (before != after).nonzero().flatten().tolist()
        assert sorted(cf.collateral) == [v for v in changed if v != cf.node]
        assert cf.minimal is True
        assert cf.original is data
    assert model.training
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(data.x, given.x)
    assert torch.equal(data.edge_index, given.edge_index)
    assert set(data.keys()) == {"x", "edge_index"}  # nothing is left on the graph


def test_the_same_alone_and_in_a_list_and_from_a_mask():
    model, data = Net(), tree()
    mask = torch.zeros(60, dtype=torch.bool)
    mask[[3, 17, 40]] = True
    many = ce.XPlore().explain(model, data, node=mask)
    for cf in many:
        alone = ce.XPlore().explain(model, data, node=cf.node)
        assert {**cf.to_dict(timings=False), "index": 0} == alone.to_dict(timings=False)
    assert ce.XPlore().explain(model, data, node=[]) == []


def test_one_edit_where_enumeration_finds_one():
    """Every single edge flip inside the node's ball, tried on the full graph, one after the other."""
    model, data = Net().eval(), tree(n=30, extra=4)
    for cf in ce.XPlore().explain(model, data, node=range(10), edits="edges"):
        inside, _, _, _ = k_hop_subgraph(cf.node, 3, data.edge_index)
        y0 = model(data.x, data.edge_index).argmax(1)[cf.node]
        single = False
        for a in inside.tolist():
            for b in inside.tolist():
                if a < b:
                    present = bool(((data.edge_index[0] == a) & (data.edge_index[1] == b)).any())
                    pair = ((a, b),)
                    edits = ce.EditSet(removed=pair) if present else ce.EditSet(added=pair)
                    g = edits.apply(data)
                    single |= bool(model(g.x, g.edge_index).argmax(1)[cf.node] != y0)
        assert not single or len(cf.edits) == 1


def test_a_new_edge_may_lead_to_any_node():
    """The target stands alone with its like; the only node that can change its mind is far away."""

    class Rich(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(1, 1, aggr="sum", bias=False)
            with torch.no_grad():
                self.conv.lin_l.weight.fill_(1.0)
                self.conv.lin_r.weight.fill_(0.0)

        def forward(self, x, edge_index):
            s = self.conv(x, edge_index)
            return torch.cat([torch.full_like(s, 2.5), s], 1)

    n = 40
    arcs = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    x = torch.zeros(n, 1)
    x[33] = 9.0
    cf = ce.XPlore().explain(Rich(), Data(x=x, edge_index=to_undirected(arcs)), node=2, edits="edges")
    assert cf.found
    assert cf.edits.added == ((2, 33),)
    assert cf.ball < n


def test_a_set_of_nodes_is_one_answer_that_flips_all_of_them():
    model, data = Net(), tree()
    joint = ce.XPlore().explain(model, data, node={5, 30})
    assert joint.found
    assert joint.node == (5, 30)
    before, after = flips(model, joint)
    assert before[5] != after[5]
    assert before[30] != after[30]
    assert joint.before.label == (int(before[5]), int(before[30]))
    assert not set(joint.collateral) & {5, 30}
    aim = int((before[5] + 1) % 3)
    wished = ce.XPlore().explain(model, data, node={5, 30}, desired=aim)
    if wished.found:
        assert wished.after.label == (aim, aim)


def test_other_nodes_are_spared_where_that_costs_nothing():
    model, data = Net(), tree()
    nodes = range(0, 60, 2)
    spared = ce.XPlore().explain(model, data, node=nodes, edits="edges")
    free = ce.XPlore().explain(model, data, node=nodes, edits="edges", keep_others=0)
    alike = [(a, b) for a, b in zip(spared, free, strict=True) if len(a.edits) == len(b.edits)]
    assert len(alike) > 20
    assert sum(len(a.collateral) for a, _ in alike) < sum(len(b.collateral) for _, b in alike)


def test_the_soft_constraint_enters_the_descent():
    """With a heavy weight on the other nodes the published search ends elsewhere."""
    model, data = Net(), tree(n=25, extra=4)
    answers = []
    for weight in (0.0, 50.0):
        cfs = ce.XPlore("paper").explain(model, data, node=range(8), keep_others=weight)
        answers.append([cf.edits for cf in cfs])
    assert answers[0] != answers[1]


def test_constraints_are_given_in_numbers_of_the_full_graph():
    model, data = Net(), tree()
    free = ce.XPlore().explain(model, data, node=[3, 17, 40], edits="edges")
    for cf in free:
        used = [*cf.edits.added, *cf.edits.removed]
        space = ce.EditSpace(features=False, frozen_edges=used)
        other = ce.XPlore().explain(model, data, node=cf.node, edits=space)
        assert not set(used) & {*other.edits.added, *other.edits.removed}
        ends = sorted({v for pair in used for v in pair})
        still = ce.XPlore().explain(model, data, node=cf.node, edits=ce.EditSpace(features=False, frozen_nodes=ends))
        assert not {v for p in (*still.edits.added, *still.edits.removed) for v in p} & set(ends)
        only = ce.XPlore().explain(model, data, node=cf.node, edits=ce.EditSpace(features=False, allowed_pairs=used))
        assert only.found
        assert {*only.edits.added, *only.edits.removed} <= set(used)


def test_a_largest_degree_holds_on_the_full_graph():
    model, data = Net(), tree()
    for cf in ce.XPlore().explain(model, data, node=range(0, 60, 5), edits=ce.EditSpace(features=False, max_degree=4)):
        if cf.found:
            was, now = (torch.bincount(g.edge_index[0], minlength=60) for g in (data, cf.data))
            assert bool(((now <= 4) | (now <= was)).all())


def test_directed_graphs_get_arcs():
    model, data = Net(SAGEConv), tree(directed=True)
    cfs = ce.XPlore().explain(model, data, node=range(0, 60, 6), edits="edges")
    assert any(cf.found for cf in cfs)
    for cf in cfs:
        assert cf.edits.directed
        if cf.found:
            before, after = flips(model, cf)
            assert before[cf.node] != after[cf.node]


class Whole(nn.Module):
    """Takes a Data and returns a pair."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, data):
        return self.net(data.x, data.edge_index), "more"


class Everywhere(nn.Module):
    """Looks at all nodes at once, so that no ball is enough."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, edge_index, batch):
        mean = torch.zeros(int(batch.max()) + 1, x.shape[1], dtype=x.dtype).index_add(0, batch, x)
        return self.net(x + 0.3 * mean[batch] / torch.bincount(batch)[batch][:, None] ** 0.5, edge_index)


def test_models_that_take_a_whole_data_and_return_more():
    data = tree()
    cf = ce.XPlore().explain(Whole(), data, node=7, output_fn=lambda out: out[0])
    plain = ce.XPlore().explain(Whole().net, data, node=7)
    assert cf.found
    assert cf.edits == plain.edits
    other = ce.XPlore().explain(Whole(), data, node=7, forward_fn=lambda m, d: m.net(d.x, d.edge_index))
    assert other.edits == plain.edits


def test_a_model_without_a_ball_is_explained_on_the_full_graph():
    data = tree(n=40)
    cf = ce.XPlore().explain(Everywhere(), data, node=7)
    assert cf.ball == 40
    assert cf.found
    model = Everywhere().eval()
    zero = torch.zeros(40, dtype=torch.long)
    before, after = (model(g.x, g.edge_index, zero)[7].argmax() for g in (data, cf.data))
    assert before != after


def test_columns_that_follow_from_the_edges_are_those_of_the_full_graph():
    from counteredge.descriptors import append_descriptors, descriptor_columns

    (data,) = append_descriptors([tree(n=30, f=1)])
    schema = ce.FeatureSchema((ce.Column("continuous", lo=-3, hi=3, name="own"), *descriptor_columns()))
    model = Net(f=schema.width)
    cf = ce.XPlore().explain(model, data, node=4, edits=ce.EditSpace(schema=schema, features=False))
    assert (cf.ball, cf.structural) == (30, "refreshed")
    if cf.found:
        before, after = flips(model, cf)
        assert before[4] != after[4]


def test_results_survive_storage_and_can_be_drawn(tmp_path):
    model, data = Net(), tree(n=200)
    for node in (3, {3, 9}):
        cf = ce.XPlore().explain(model, data, node=node)
        again = Counterfactual.from_json(cf.to_json())
        assert again == cf
        assert (again.node, again.collateral, again.ball) == (cf.node, cf.collateral, cf.ball)
        cf.draw(tmp_path / "node.png")
        shown = cf.draw().axes[0]
        assert len(shown.texts) <= 60  # the surroundings, not 200 nodes
        assert "node" in shown.get_title()
    assert "node 3" in str(ce.XPlore().explain(model, data, node=3))
    old = json.loads(cf.to_json())
    for key in ("node", "collateral", "ball"):
        del old[key]
    old["version"] = 2
    assert Counterfactual.from_dict(old).node is None


def test_k_answers_and_budgets():
    model, data = Net(), tree()
    several = ce.XPlore().explain(model, data, node=7, edits="edges", k=3, max_overlap=0)
    sets = [{*cf.edits.added, *cf.edits.removed} for cf in several]
    assert len(sets) > 1
    assert all(not (a & b) for i, a in enumerate(sets) for b in sets[:i])
    few = ce.XPlore().explain(model, data, node=[7, 12], budget=ce.Budget(calls=3))
    assert all(cf.calls.forward <= 3 for cf in few)


def test_proofs_of_node_answers_look_at_the_full_graph():
    model, data = Net(), tree(n=40)
    for node in (7, {7, 20}):
        cf = ce.XPlore().explain(model, data, node=node, edits="edges")
        parts = ce.importance(model, cf)
        margin = min(parts)
        assert len(parts) == len(cf.edits)
        assert margin > 0  # one-minimal: each is needed
        assert 0 <= ce.robustness(model, cf, samples=20) <= 1
        assert 1 <= ce.certify(model, cf, edges=1) <= len(cf.edits)


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (60, "does not exist"),
        (-1, "does not exist"),
        ("a", "no node number"),
        (2.5, "no node number"),
        (set(), "empty"),
    ],
)
def test_bad_nodes(node, says):
    with pytest.raises(InputError, match=says):
        ce.XPlore().explain(Net(), tree(), node=node)


def test_a_mask_must_fit_the_graph():
    for shape in [(59,), (60, 1)]:
        with pytest.raises(InputError, match="mask of shape"):
            ce.XPlore().explain(Net(), tree(), node=torch.ones(shape, dtype=torch.bool))


def test_nothing_is_called_proved_where_only_a_ball_was_looked_at():
    n = 200
    ring = Data(
        x=torch.randn(n, 3), edge_index=to_undirected(torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]))
    )
    far = [(20, u) for u in range(120, 126)]
    for pairs in (far, [*far, (20, 22)]):
        space = ce.EditSpace(features=False, remove_edges=False, allowed_pairs=pairs)
        cf = ce.XPlore().explain(Net(), ring, node=20, edits=space)
        assert cf.found or "ball" in cf.reason
        assert not cf.reason.startswith("proved")


def test_the_ends_of_allowed_pairs_are_looked_at_wherever_they_are():
    n = 120
    around = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    ring = Data(x=tree(n).x, edge_index=to_undirected(around))
    model = Net().eval()
    free = ce.XPlore().explain(model, ring, node=20, edits=ce.EditSpace(features=False, remove_edges=False))
    assert free.found
    far = [(20, u) for u in range(70, 100)]
    y0 = model(ring.x, ring.edge_index)[20].argmax()
    single = []
    for pair in far:
        g = ce.EditSet(added=(pair,)).apply(ring)
        single += [pair] * int(model(g.x, g.edge_index)[20].argmax() != y0)
    assert single  # chosen so that some pair far away is enough
    cf = ce.XPlore().explain(model, ring, node=20, edits=ce.EditSpace(features=False, allowed_pairs=far))
    assert len(cf.edits) == 1
    assert cf.edits.added[0] in single
    frozen = [v for v in range(n) if v != 20 and v not in {p[1] for p in single}]
    other = ce.XPlore().explain(model, ring, node=20, edits=ce.EditSpace(features=False, frozen_nodes=frozen))
    assert other.found
    assert not {v for p in (*other.edits.added, *other.edits.removed) for v in p} & set(frozen)


def test_a_model_with_parameters_of_its_own_for_every_node():
    class Own(Net):
        def __init__(self):
            super().__init__(f=5)
            self.own = nn.Parameter(torch.randn(40, 2, generator=torch.Generator().manual_seed(1)))

        def forward(self, x, edge_index):
            return super().forward(torch.cat([x, self.own], 1) if x.shape[1] == 3 else x, edge_index)

    model, data = Own(), tree(n=40)
    cf = ce.XPlore().explain(model, data, node=7)
    assert (cf.found, cf.ball) == (True, 40)
    before, after = flips(model, cf)
    assert before[7] != after[7]


def test_a_tensor_of_the_whole_graph_goes_with_it():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, x, edge_index, u):
            return self.net(x + u[0], edge_index)

    model, data = Shifted(), tree()
    data.u = torch.full((1, 3), 0.1)
    cf = ce.XPlore().explain(model, data, node=7)
    assert cf.found
    z = [copy.deepcopy(model).eval()(g.x, g.edge_index, g.u)[7].argmax() for g in (data, cf.data)]
    assert z[0] != z[1]


def test_sparing_other_nodes_costs_no_calls():
    model, data = Net(), tree()
    spared, free = (
        ce.XPlore(depth=1, restarts=0, endpoints=0).explain(model, data, node=3, edits="edges", keep_others=k)
        for k in (0.01, 0)
    )
    assert spared.calls.forward == free.calls.forward


def test_bad_models_and_graphs():
    with pytest.raises(InputError, match="one graph"):
        ce.XPlore().explain(Net(), [tree(), tree()], node=1)
    with pytest.raises(InputError, match="keep_others"):
        ce.XPlore().explain(Net(), tree(), node=1, keep_others=-1)
    with pytest.raises(ModelError, match="one row of outputs a node"):
        ce.XPlore().explain(sample_model(), tree(f=6), node=1)
    with pytest.raises(ModelError, match="node="):
        ce.XPlore().explain(Net(), tree())


def test_an_interrupted_search_leaves_no_trace():
    class Stop(Net):
        calls = 0

        def forward(self, x, edge_index):
            type(self).calls += 1
            if type(self).calls > 8:
                raise KeyboardInterrupt
            return super().forward(x, edge_index)

    model, data = Stop(), tree()
    modules = [dict(m.__dict__) for m in model.modules()]
    with pytest.raises(KeyboardInterrupt):
        ce.XPlore().explain(model, data, node=3)
    assert modules == [dict(m.__dict__) for m in model.modules()]
    assert set(data.keys()) == {"x", "edge_index"}


def test_head_and_targets():
    head = NodeHead(Net().eval(), 2, watch=True)
    mark = torch.zeros(60, dtype=torch.bool)
    mark[[4, 9]] = True
    data, batch = tree(), torch.zeros(60, dtype=torch.long)
    labels = head.model(data.x, data.edge_index).argmax(1)
    out = head(x=data.x, edge_index=data.edge_index, batch=batch, is_target=mark, kept_label=labels)
    assert out.shape == (1, 6)
    assert float(head.disturbance()) == 0
    labels[0] = (labels[0] + 1) % 3
    head(x=data.x, edge_index=data.edge_index, batch=batch, is_target=mark, kept_label=labels)
    assert float(head.disturbance()) == 1
    assert float(head.soft_loss().detach()) > 0
    assert Targets.of(torch.tensor([1, 2]), 5).groups == ((1,), (2,))
    with pytest.raises(ModelError, match="no pass"):
        NodeHead(Net()).disturbance()


def test_balls_are_the_smallest_that_predict_like_the_full_graph():
    model, data = Net(layers=2), tree()
    oracle = NodeOracle(model, data, Targets.of([5], 60))
    (ball,) = oracle.prepare(ce.EditSpace(add_edges=False))
    inside, _, _, _ = k_hop_subgraph(5, 3, data.edge_index)
    assert ball.node_ids.tolist() == sorted(inside.tolist())

"""The harness, not the explainer, says found; and nobody calls the model uncounted."""

import pytest
import torch

import counteredge as ce
from counteredge.explainers import Explainer
from counteredge.testing import sample_graphs, sample_model, sample_schema

SPACE = ce.EditSpace(schema=sample_schema())


class Liar(Explainer):
    """Claims that the unchanged graph is a counterfactual."""

    name = "liar"

    def _search(self, search):
        search.solved[:] = True


class Sneak(Explainer):
    """Asks the model past the oracle."""

    name = "sneak"

    def _search(self, search):
        for g in search.base.graphs:
            x = g.x.clone().requires_grad_()
            for _ in range(7):
                z = search.oracle.model(x, g.edge_index, batch=torch.zeros(g.num_nodes, dtype=torch.long))
            torch.autograd.grad(z.sum(), x)


def test_a_claim_is_no_proof():
    for cf in Liar().explain(sample_model(), sample_graphs(), edits=SPACE, progress=False):
        assert not cf.found
        assert cf.data is None
        assert "did not confirm" in cf.reason


def test_calls_past_the_oracle_are_counted():
    for cf in Sneak().explain(sample_model(), sample_graphs(), edits=SPACE, progress=False):
        assert cf.calls.forward >= 1 + 7
        assert cf.calls.backward >= 1


def test_honest_counts_are_not_inflated():
    """The tally of the oracle equals what hung on the model's own forward."""
    model, graphs = sample_model(), sample_graphs()
    seen = []
    handle = model.register_forward_pre_hook(lambda m, a, k: seen.append(int(k["batch"].max()) + 1), with_kwargs=True)
    with_limit = ce.XPlore().explain(model, graphs, edits=SPACE, progress=False)
    handle.remove()
    charged = sum(c.calls.forward for c in with_limit)
    # the probe at the start and the harness's own checks are free: both small, both known
    kinds = 2  # without and with self-loops; each is probed in four states, really and relaxed
    probe = 2 + 4 + kinds * (4 + 4)
    harness = sum(1 + 2 * c.found + (len(c.edits) if len(c.edits) > 1 else 0) for c in with_limit)
    assert sum(seen) == charged + probe + harness


def test_one_data_in_one_out_and_lists_keep_their_order():
    model, graphs = sample_model(), sample_graphs(5)
    single = ce.XPlore().explain(model, graphs[0], edits=SPACE)
    assert isinstance(single, ce.Counterfactual)
    from torch_geometric.data import Batch

    for form in (graphs, Batch.from_data_list(graphs), tuple(graphs)):
        cfs = ce.XPlore().explain(model, form, edits=SPACE, progress=False)
        assert [c.index for c in cfs] == list(range(5))
        for g, cf in zip(graphs, cfs, strict=True):
            assert torch.equal(cf.original.x, g.x)
    assert ce.XPlore().explain(model, [], edits=SPACE) == []


def test_registry():
    assert isinstance(ce.get_explainer("xplore"), ce.XPlore)
    assert isinstance(ce.get_explainer(ce.XPlore, seed=3), ce.XPlore)
    made = ce.XPlore()
    assert ce.get_explainer(made) is made
    with pytest.raises(ce.InputError, match="xplore"):
        ce.get_explainer("xplor")

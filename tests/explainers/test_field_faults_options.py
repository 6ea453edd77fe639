"""Options that are accepted and change nothing (rows 3b of docs/field_faults.md), or that make no sense."""

import json

import pytest
import torch
from field_models import Edges, Net, near, pairs, s6
from torch_geometric.data import Data

import counteredge as ce

# -- no dead option --------------------------------------------------------------------------------------------------

WEAK = {"width": 1, "per_state": 1, "every": 1}


@pytest.mark.parametrize(
    ("option", "value", "others"),
    [
        ("preset", "paper", {}),
        ("seed", 5, {"preset": "paper"}),
        ("width", 1, {"per_state": 2, "every": 1, "restarts": 0}),
        ("per_state", 1, {"every": 1, "restarts": 0}),
        ("every", 1, {"restarts": 0}),
        ("depth", 1, {"restarts": 0}),
        ("restarts", 0, {"depth": 1}),
        ("certify", 1, {}),
        ("features", "freedom", {"preset": "paper"}),
        ("features", "gating", {"preset": "paper", "alpha": 3.0}),
        ("iterations", 3, {"preset": "paper"}),
        ("alpha", 0.9, {"preset": "paper"}),
        ("beta", 0.0, {"preset": "paper"}),
        ("box", True, {"preset": "paper"}),
        ("surrogate", "sigmoid", {"preset": "paper"}),
        ("temperature", 0.5, {"preset": "paper", "surrogate": "sigmoid"}),
        ("anneal", 20.0, {"preset": "paper", "surrogate": "sigmoid"}),
        ("gamma_weights", True, {"preset": "paper"}),
        ("postprocess", None, {"restarts": 4, **WEAK, "depth": 1}),
        ("postprocess", "shrink", {"preset": "paper"}),
    ],
)
def test_dig_pr_109_every_option_changes_something(option, value, others):
    """Not its mention in the record, but the path or the answer."""
    graphs = [s6(), Data(x=s6().x.flip(0), edge_index=pairs((0, 1), (1, 2), (2, 0), (3, 4)))]
    models = [near(Net(conv), graphs[0], to=to) for conv, to in (("gcn", 0.05), ("gin", 0.5), ("sage", 2.0))]
    space = ce.EditSpace(gamma=0.2) if option == "gamma_weights" else None

    def run(**options):
        out = []
        for model in models:
            for cf in ce.XPlore(**options).explain(model, graphs, edits=space, progress=False):
                record = cf.to_dict(timings=False)
                for key in ("parameters", "preset", "seed", "reason", "raw"):
                    record.pop(key, None)
                out.append(record)
        return json.dumps(out)

    assert run(**others) != run(**{**others, option: value})


def test_memory_is_an_option_too():
    g = Data(x=torch.ones(300, 4), edge_index=pairs(*((i, i + 1) for i in range(299))))
    budget = ce.Budget(calls=1)
    assert not ce.XPlore().explain(Edges(least=999), g, budget=budget, progress=False).found
    with pytest.raises(ce.BudgetError, match="memory"):
        ce.XPlore(memory=1 << 20).explain(Edges(least=999), g, budget=budget, progress=False)


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "best"},
        {"seed": -1},
        {"seed": 0.5},
        {"width": 0},
        {"per_state": 0},
        {"every": 0},
        {"depth": 0},
        {"restarts": -1},
        {"certify": 3},
        {"features": "gating"},
        {"features": "free", "preset": "paper"},
        {"iterations": 0},
        {"alpha": 0},
        {"beta": -1},
        {"memory": 10},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ce.InputError):
        ce.XPlore(**options)


def test_a_surrogate_that_does_not_exist_is_refused_at_once():
    with pytest.raises(ce.InputError, match="surrogate='relu'"):
        ce.XPlore(preset="paper", surrogate="relu")


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.2},
        {"box": True},
        {"iterations": 7},
        {"preset": "paper", "width": 2},
        {"preset": "paper", "restarts": 1},
        {"depth": "3"},
        {"width": 2.5},
        {"restarts": None},
        {"iterations": True, "preset": "paper"},
    ],
    ids=str,
)
def test_options_that_would_do_nothing_or_make_no_sense_are_refused(options):
    with pytest.raises(ce.InputError, match=next(k for k in options if k != "preset")):
        ce.XPlore(**options)


@pytest.mark.parametrize(
    "options", [{"calls": float("nan")}, {"seconds": "1"}, {"edits": 1.5}, {"calls": True}], ids=str
)
def test_budgets_that_make_no_sense_are_refused(options):
    with pytest.raises(ce.InputError, match=next(iter(options))):
        ce.Budget(**options)

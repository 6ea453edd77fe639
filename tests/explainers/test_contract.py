"""The published contract, over every registered explainer in all its presets."""

from pathlib import Path

import pytest
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import MaxAggregation

import counteredge as ce
from counteredge.testing import ExplainerContract, sample_model


@pytest.mark.parametrize("name", list(ce.EXPLAINERS))
def test_every_registered_explainer_has_a_contract(name):
    """Here or in the file of its own method (making each of them here would fit those that learn)."""
    made = f"{ce.EXPLAINERS[name].__name__}("
    files = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py")]
    assert any("(ExplainerContract)" in text and made in text for text in files)


class TestMinimal(ExplainerContract):
    equivariant = True
    minimal = True
    least_found = 1.0

    def make(self, **options):
        return ce.XPlore(**options)


class TestPaperEdges(ExplainerContract):
    def make(self, **options):
        return ce.XPlore("paper", **options)


class TestPaperGating(ExplainerContract):
    def make(self, **options):
        return ce.XPlore("paper", features="gating", **options)


class TestPaperFreedom(ExplainerContract):
    def make(self, **options):
        return ce.XPlore("paper", features="freedom", **options)


class TestPaperShrunk(ExplainerContract):
    minimal = True

    def make(self, **options):
        return ce.XPlore("paper", features="gating", postprocess="shrink", **options)


class TestApproximate(TestMinimal):
    """The same model with max aggregation: edges are ranked by a way that is not exact."""

    least_found = 0.5

    def run(self, graphs=None, model=None, **options):
        model = model or sample_model()
        for m in model.modules():
            if isinstance(m, MessagePassing):
                m.aggr_module = MaxAggregation().train(m.training)
        answers = super().run(graphs, model, **options)
        for cf in answers if isinstance(answers, list) else [answers]:
            assert cf.relaxation == "approximate (weights)"
        return answers

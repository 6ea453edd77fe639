"""The published contract, over every registered explainer in all its presets."""

import counteredge as ce
from counteredge.testing import ExplainerContract


def test_every_registered_explainer_has_a_contract_here():
    covered = {c().make().name for c in ExplainerContract.__subclasses__()}
    assert covered >= set(ce.EXPLAINERS)


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
        return ce.XPlore("paper", features="gating", shrink=True, **options)

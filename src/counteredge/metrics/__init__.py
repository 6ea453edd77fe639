"""What a set of counterfactuals is worth."""

from counteredge.metrics.summary import summarise

__all__ = ["summarise"]

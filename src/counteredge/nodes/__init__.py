"""Node tasks: a node's prediction explained on its computation ball, and decided on the full graph."""

from __future__ import annotations

from counteredge.nodes.balls import Targets, localised
from counteredge.nodes.head import NodeHead
from counteredge.nodes.oracle import NodeOracle

__all__ = ["NodeHead", "NodeOracle", "Targets", "localised"]

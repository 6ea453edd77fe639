"""The figures of one run, over all graphs that were asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counteredge.errors import InputError
from counteredge.results import Counterfactual

__all__ = ["summarise"]


def summarise(counterfactuals: Sequence[Counterfactual], labels: Sequence[int]) -> dict[str, Any]:
    """Validity, fidelity, sizes, minimality and cost.

    - ``validity``: share of graphs with a counterfactual (edits of any kind), in [0, 1].
    - ``validity_refreshed``, ``validity_frozen``: the same edits judged with structure-derived columns of the edited
      graph, and with such columns as they were; both equal ``validity`` where there are none.
    - ``fidelity``: mean of ``max(0, 1[Phi(G) = y] - 1[Phi(G') = y])``, the paper's clipped form; 0 for a graph
      without a counterfactual.
    - ``mean_edge_edits``, ``mean_feature_edits``, ``mean_edit_ratio``: over the counterfactuals found; an undirected
      edge and a one-hot swap count once; ratio = edge edits / (n + E).
    - ``one_minimal_share``: share of the found ones in which no single edit can be undone.
    - ``mean_oracle_calls``: forward calls a graph, failures included.

    Means over nothing are ``None``, never 0.

    Args:
        counterfactuals: Results, one a graph.
        labels: True class of each graph, in the same order.

    Raises:
        InputError: When the two differ in length.
    """
    if len(counterfactuals) != len(labels):
        raise InputError(f"{len(counterfactuals)} counterfactuals but {len(labels)} labels")
    found = [c for c in counterfactuals if c.found]
    faithful = [
        max(0, int(c.before.label == y) - int(c.after is None or c.after.label == y))
        for c, y in zip(counterfactuals, labels, strict=True)
    ]
    return {
        "graphs": len(counterfactuals),
        "validity": _mean([float(c.found) for c in counterfactuals]),
        "validity_refreshed": _mean([float(bool(c.valid_refreshed)) for c in counterfactuals]),
        "validity_frozen": _mean([float(bool(c.valid_frozen)) for c in counterfactuals]),
        "fidelity": _mean([float(f) for f in faithful]),
        "mean_edge_edits": _mean([float(c.edits.edge_count) for c in found]),
        "mean_feature_edits": _mean([float(c.edits.feature_count) for c in found]),
        "mean_edit_ratio": _mean([c.edit_ratio for c in found]),
        "one_minimal_share": _mean([float(c.minimal is True) for c in found]),
        "mean_oracle_calls": _mean([float(c.calls.forward) for c in counterfactuals]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

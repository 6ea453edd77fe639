"""What figures read: the rows of a dataset and a method, and figures over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from counteredge.errors import unknown
from counteredge.metrics import Aggregate, aggregate

if TYPE_CHECKING:
    from counteredge.bench.collect import Collected

__all__ = ["Cells", "count_text", "is_node_task", "known_datasets", "known_methods"]


class Cells:
    """The rows of ``instances``, by dataset and method; those of several seeds and parts are pooled.

    Args:
        collected: Results of sweeps.
    """

    def __init__(self, collected: Collected) -> None:
        rows = collected.instances
        self.rows: dict[tuple[str, str], Any] = {}
        if len(rows):
            # by graph, so that a set explained in parts gives the same interval as one explained at once
            by = [k for k in ("seed", "graph", "node") if k in rows]
            rows = rows.sort_values(by, key=lambda c: c.astype(str) if c.dtype == object else c)
            self.rows = {(str(d), str(m)): part for (d, m), part in rows.groupby(["dataset", "method"])}

    def column(self, dataset: str, method: str, name: str) -> Any:
        """A column as pandas holds it; empty where there is none."""
        rows = self.rows.get((dataset, method))
        return [] if rows is None or name not in rows else rows[name]

    def values(self, dataset: str, method: str, metric: str) -> Tensor:
        """Values of a metric that are no NaN, ``(N,)``."""
        values = torch.tensor([float(v) for v in self.column(dataset, method, metric)], dtype=torch.float64)
        return values[~torch.isnan(values)]

    def figure(self, dataset: str, method: str, metric: str) -> Aggregate:
        """Mean, spread, count and interval of a metric."""
        return aggregate(self.values(dataset, method, metric))


def is_node_task(collected: Collected, dataset: str) -> bool:
    """Whether its rows are nodes; where there are none the registry says it."""
    from counteredge.datasets.registry import REGISTRY

    rows = collected.instances[collected.instances["dataset"] == dataset]
    if len(rows) and "node" in rows:
        return bool(rows["node"].notna().any())
    return dataset in REGISTRY and REGISTRY[dataset].task == "node"


def known_datasets(collected: Collected, wanted: Sequence[str] | None) -> list[str]:
    """The datasets asked for, all by default.

    Raises:
        InputError: When one of them is not in the results.
    """
    return _chosen("dataset", wanted, collected.datasets)


def known_methods(collected: Collected, wanted: Sequence[str] | None) -> list[str]:
    """The methods asked for in the order of the sweep, all by default.

    Raises:
        InputError: When one of them is not in the results.
    """
    chosen = _chosen("method", wanted, collected.methods)
    return [m for m in collected.methods if m in chosen]


def _chosen(what: str, wanted: Sequence[str] | None, there: list[str]) -> list[str]:
    if wanted is None:
        return there
    for name in wanted:
        if name not in there:
            raise unknown(what, name, there)
    return list(wanted)


def count_text(counts: Iterable[int]) -> str:
    """``n = 30``, or ``n = 28–30`` where they differ; zeros are left out, they are seen as missing."""
    some = sorted({c for c in counts if c})
    if not some:
        return "n = 0"
    return f"n = {some[0]}" if len(some) == 1 else f"n = {some[0]}–{some[-1]}"

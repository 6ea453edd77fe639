"""What figures are asked for: which datasets, which methods, and words about counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counteredge.errors import unknown

if TYPE_CHECKING:
    from counteredge.bench.collect import Collected

__all__ = ["count_text", "is_node_task", "known_datasets", "known_methods"]


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

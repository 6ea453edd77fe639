"""The tables of definitions, out of the code that computes them."""

from __future__ import annotations

import math

from counteredge.embedders import EMBEDDERS
from counteredge.errors import InputError
from counteredge.metrics.definition import METRICS

__all__ = ["definitions", "embedders_table"]

ARROWS = {"higher": "higher", "lower": "lower", "neither": "-"}


def definitions() -> str:
    """Every metric with its formula, range, direction and source, as a Markdown table."""
    lines = ["| name | metric | formula | range | better | over | needs | reference |", "|---" * 8 + "|"]
    for m in METRICS.values():
        low, high = (f"{b:g}" if math.isfinite(b) else ("-inf" if b < 0 else "inf") for b in (m.low, m.high))
        opened, closed = "(" if low == "-inf" else "[", ")" if high == "inf" else "]"
        cells = (
            f"`{m.name}`", m.title, m.formula, f"{opened}{low}, {high}{closed}", ARROWS[m.direction],
            "the set" if m.whole else m.over, m.needs or "-", m.reference,
        )  # fmt: skip
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def embedders_table() -> str:
    """The embedders with the length of their vectors, what they learn and where they are published."""
    lines = ["| embedder | length | learns from the fitted graphs | reference |", "|---" * 4 + "|"]
    for name, make in EMBEDDERS.items():
        one = make()
        try:
            length = str(one.dim)
        except InputError:  # known once it is fitted
            length = "by the fit"
        lines.append(f"| {name} | {length} | {'yes' if one.needs_fit else 'no'} | {one.reference} |")
    return "\n".join(lines) + "\n"

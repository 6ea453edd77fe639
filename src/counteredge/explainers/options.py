"""Options of explainers, checked: what was got and what would work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counteredge.errors import InputError

__all__ = ["choice", "number", "whole"]


def whole(name: str, value: Any, least: int) -> int:
    """A whole number that is not too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number >= {least}, got {value!r}")
    return value


def number(name: str, value: Any, lo: float, hi: float = float("inf"), *, open_below: bool = False) -> float:
    """A number in a range."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and lo <= value <= hi
    if not good or (open_below and value == lo):
        bound = f"above {lo:g}" if open_below else f">= {lo:g}"
        raise InputError(
            f"{name} must be a number {bound}" + (f" and <= {hi:g}" if hi < 1e300 else "") + f", got {value!r}"
        )
    return float(value)


def choice(name: str, value: Any, known: Sequence[Any]) -> Any:
    """One of a few words."""
    if value not in known:
        raise InputError(f"{name}={value!r} is unknown; use {', '.join(map(repr, known))}")
    return value

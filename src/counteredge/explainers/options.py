"""Options of explainers, checked: what was got and what would work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from counteredge.errors import InputError

__all__ = ["choice", "flag", "number", "refuse_dead", "whole"]


def whole(name: str, value: Any, least: int, *, more: str = "") -> int:
    """A whole number that is not too small; ``more`` says what else would do."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number >= {least}{more}, got {value!r}")
    return value


def number(
    name: str,
    value: Any,
    lo: float,
    hi: float = math.inf,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> float:
    """A finite number in a range, whose ends belong to it unless they are open."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and lo <= value <= hi and value < math.inf
    if not good or (open_below and value == lo) or (open_above and value == hi):
        bound = f"above {lo:g}" if open_below else f">= {lo:g}"
        if hi < math.inf:
            bound += f" and below {hi:g}" if open_above else f" and <= {hi:g}"
        raise InputError(f"{name} must be a number {bound}, got {value!r}")
    return float(value)


def choice(name: str, value: Any, known: Sequence[Any]) -> Any:
    """One of a few words."""
    if value not in known:
        raise InputError(f"{name}={value!r} is unknown; use {', '.join(map(repr, known))}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or false, no text that looks like it."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return value


def refuse_dead(where: str, given: dict[str, Any]) -> None:
    """Refuse options that would be taken and change nothing.

    Args:
        where: What they do nothing with, for example ``"mode='legacy_gretel'"``.
        given: By name; ``None`` where the caller left it alone.
    """
    dead = [f"{name}=" for name, value in given.items() if value is not None]
    if dead:
        raise InputError(f"{', '.join(dead)} would do nothing with {where}: leave out")

"""Errors: each message names what was got, where, and what would work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BudgetError",
    "CapabilityError",
    "CounterEdgeError",
    "DataError",
    "InputError",
    "ModelError",
    "StoreError",
    "unknown",
]


class CounterEdgeError(Exception):
    """Root of every error that counteredge raises on purpose."""


class InputError(CounterEdgeError, ValueError):
    """A graph, an edit space or an option that cannot be used as given."""


class ModelError(CounterEdgeError, RuntimeError):
    """The user's model cannot be called, or answers something that is no prediction."""


class CapabilityError(CounterEdgeError):
    """Something that this method or this version does not do, named plainly."""


class BudgetError(CounterEdgeError, MemoryError):
    """The search would need more memory than it was given; nothing was allocated."""


class DataError(CounterEdgeError):
    """A dataset or a checkpoint that is missing, damaged or unsafe."""


class StoreError(CounterEdgeError, OSError):
    """Results that cannot be kept: a disk that is full, or that may not be written to."""


def unknown(what: str, name: str, known: Iterable[str], *, others: Iterable[str] = ()) -> InputError:
    """The error for a name that is none of the known ones, with the nearest of them.

    Args:
        what: What was named, for example ``"dataset"``.
        name: As it was given.
        known: Names that would work.
        others: Further ones that may be suggested but are not listed (aliases).

    Example:
        >>> unknown("dataset", "mutga", ["MUTAG", "BZR"])
        InputError("unknown dataset 'mutga'; did you mean 'MUTAG'? Known: MUTAG, BZR")
    """
    listed = list(known)
    folded = {n.lower(): n for n in (*others, *listed)}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    hint = f"; did you mean {folded[close[0]]!r}?" if close else "."
    return InputError(f"unknown {what} {name!r}{hint} Known: {', '.join(listed)}")

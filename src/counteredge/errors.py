"""Errors: each message names what was got, where, and what would work."""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "CapabilityError",
    "CounterEdgeError",
    "DataError",
    "InputError",
    "ModelError",
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

"""What the columns of ``x`` mean: one-hot group, binary, number, derived from the structure; and their names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from counteredge.errors import InputError

__all__ = ["Column", "FeatureSchema", "Kind"]

Kind = Literal["onehot", "binary", "integer", "continuous", "fixed", "structural"]


@dataclass(frozen=True)
class Column:
    """One column of ``x``.

    Args:
        kind: ``"onehot"`` (one of ``group``'s columns is 1), ``"binary"``, ``"integer"``, ``"continuous"`` or
            ``"fixed"`` (never edited), or ``"structural"`` (follows from the edges; ``name`` says which descriptor).
        group: Number of the one-hot group; -1 for the other kinds.
        lo: Smallest value an edit may write (inclusive).
        hi: Largest value an edit may write (inclusive).
        name: What a person calls it, for example ``"C"`` for carbon.
        step: Values that an edit may write lie whole steps from ``lo`` (from 0 when that is infinite); 0 is any value.
        derived: The descriptor of the edges that the column holds; ``name`` for a ``"structural"`` column. A column of
            another kind with it is edited as a plain number, as the XPlore paper does.
    """

    kind: Kind
    group: int = -1
    lo: float = 0.0
    hi: float = 1.0
    name: str = ""
    step: float = 0.0
    derived: str = ""

    def __post_init__(self) -> None:
        if self.kind == "structural" and not self.derived:
            object.__setattr__(self, "derived", self.name)
        if self.kind == "structural" and not self.derived:
            raise InputError("a structural column needs the name of its descriptor, for example 'degree'")
        if self.kind not in get_args(Kind):
            raise InputError(f"column kind {self.kind!r} is unknown; use one of {', '.join(get_args(Kind))}")
        if (self.kind == "onehot") != (self.group >= 0):
            raise InputError(f"column {self.name!r}: exactly the one-hot columns have a group, got {self}")
        if self.step < 0 or (self.step and self.kind not in ("integer", "continuous")):
            raise InputError(f"column {self.name!r}: step={self.step} is for numbers and at least 0")
        if not self.lo <= self.hi:
            raise InputError(f"column {self.name!r}: lo={self.lo} is above hi={self.hi}")


@dataclass(frozen=True)
class FeatureSchema:
    """The meaning of every column of ``x``, in order.

    Args:
        columns: One entry a column of ``x``.
        edge_names: What the columns of ``edge_attr`` are called, in order, for example ``("single", "double",
            "triple", "aromatic")``; empty when nobody said. Only the chemistry of an edit space reads them.

    Example:
        >>> schema = FeatureSchema.onehot(["C", "N", "O"])
        >>> schema.width, schema.columns[1].name
        (3, 'N')
    """

    columns: tuple[Column, ...]
    edge_names: tuple[str, ...] = field(default=(), compare=False)  # of other data than the columns are

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; a column without a name is ``x[:, k]`` by its number."""
        return tuple(c.name or str(k) for k, c in enumerate(self.columns))

    def indices(self, *kinds: Kind) -> list[int]:
        """Numbers of the columns of the given kinds."""
        return [k for k, c in enumerate(self.columns) if c.kind in kinds]

    @property
    def derived(self) -> tuple[int, ...]:
        """Numbers of the columns that follow from the edges."""
        return tuple(k for k, c in enumerate(self.columns) if c.derived)

    def group_of(self, column: int) -> list[int]:
        """All columns of the one-hot group that ``column`` belongs to."""
        group = self.columns[column].group
        return [k for k, c in enumerate(self.columns) if c.kind == "onehot" and c.group == group]

    @classmethod
    def onehot(cls, names: Sequence[str]) -> FeatureSchema:
        """All columns form one group: atom types, node labels."""
        return cls(tuple(Column("onehot", group=0, name=n) for n in names))

    @classmethod
    def fixed(cls, width: int) -> FeatureSchema:
        """No column may be edited."""
        return cls(tuple(Column("fixed") for _ in range(width)))

    @classmethod
    def infer(cls, features: Iterable[Tensor]) -> FeatureSchema:
        """Read the schema off observed node features.

        A run of neighbouring 0/1 columns in which every row sums to one is a one-hot group; other 0/1 columns are
        binary; whole numbers are integer; the rest is continuous. Bounds are the observed minimum and maximum. A
        column that never changes (and is in no group) is fixed: nothing observed says what else it could be.

        Args:
            features: Node feature matrices of one or many graphs.

        Returns:
            The schema of their common columns.

        Shapes:
            features: each ``(n_i, f)``.

        Raises:
            InputError: When the widths differ.

        Example:
            >>> s = FeatureSchema.infer([torch.tensor([[1.0, 0.0, 2.5], [0.0, 1.0, -1.0]])])
            >>> [c.kind for c in s.columns], s.columns[2].lo
            (['onehot', 'onehot', 'continuous'], -1.0)
        """
        rows = [f if f.dim() == 2 else f.reshape(f.shape[0], -1) for f in features if f.numel()]
        widths = sorted({r.shape[1] for r in rows})
        if len(widths) > 1:
            raise InputError(f"the graphs have different numbers of feature columns: {widths}")
        if not rows:
            return cls(())
        x = torch.cat(rows).double()
        lo, hi = x.min(0).values.tolist(), x.max(0).values.tolist()
        zero_one = ((x == 0) | (x == 1)).all(0).tolist()
        whole = (x == x.round()).all(0).tolist()
        columns: list[Column] = []
        group, k = 0, 0
        while k < x.shape[1]:
            size = _group_size(x, zero_one, k)
            if size:
                columns += [Column("onehot", group=group) for _ in range(size)]
                group, k = group + 1, k + size
                continue
            if lo[k] == hi[k]:
                columns.append(Column("fixed", lo=lo[k], hi=hi[k]))
            elif zero_one[k]:
                columns.append(Column("binary"))
            else:
                kind: Kind = "integer" if whole[k] else "continuous"
                columns.append(Column(kind, lo=lo[k], hi=hi[k]))
            k += 1
        return cls(tuple(columns))

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain lists and dicts for JSON."""
        return [
            {"kind": c.kind, "group": c.group, "lo": _bound(c.lo), "hi": _bound(c.hi), "name": c.name}
            | ({"step": c.step} if c.step else {})
            | ({"derived": c.derived} if c.derived else {})
            for c in self.columns
        ]

    @classmethod
    def from_dict(cls, columns: Sequence[dict[str, Any]]) -> FeatureSchema:
        """Inverse of :meth:`to_dict`."""
        return cls(
            tuple(
                Column(
                    c["kind"],
                    c["group"],
                    float("-inf") if c["lo"] is None else c["lo"],
                    float("inf") if c["hi"] is None else c["hi"],
                    c["name"],
                    c.get("step", 0.0),
                    c.get("derived", ""),
                )
                for c in columns
            )
        )

    def as_numbers(self) -> FeatureSchema:
        """The same columns read as plain numbers without bounds, as the paper's variants treat them."""
        numbers = tuple(
            Column("continuous", lo=float("-inf"), hi=float("inf"), name=c.name, derived=c.derived)
            for c in self.columns
        )
        return replace(self, columns=numbers)


def _bound(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _group_size(x: Tensor, zero_one: list[bool], start: int) -> int:
    """Length of the one-hot group that begins at column ``start``; 0 when none does."""
    end = start
    while end < x.shape[1] and zero_one[end]:
        end += 1
    if end - start < 2:
        return 0
    total = x[:, start:end].cumsum(1)
    complete = (total == 1).all(0).nonzero().flatten()
    if not len(complete):
        return 0
    # the longest block that still sums to one takes in categories that these graphs do not show
    size = int(complete[-1]) + 1
    return size if size > 1 else 0  # a column of ones alone is constant, no choice among categories

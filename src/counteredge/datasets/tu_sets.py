"""What the files of each TU dataset mean: which columns become features, what they and the classes are called."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from counteredge.datasets.dataset import Content
from counteredge.datasets.tu import Ints, Tables, onehot, read_tables
from counteredge.errors import DataError
from counteredge.schema import Column, FeatureSchema

__all__ = ["AIDS_SYMBOLS", "MUTAG_SYMBOLS", "TUSpec", "read_tu_set"]

MAX_LABELS = 256  # node labels that get a column of their own; the last column stands for the rarer ones

MUTAG_SYMBOLS = ("C", "N", "O", "F", "I", "Cl", "Br")
# fmt: off
AIDS_SYMBOLS = (
    "C", "O", "N", "Cl", "F", "S", "Se", "P", "Na", "I", "Co", "Br", "Li", "Si", "Mg", "Cu", "As", "B", "Pt", "Ru",
    "K", "Pd", "Au", "Te", "W", "Rh", "Zn", "Bi", "Pb", "Ge", "Sb", "Sn", "Ga", "Hg", "Ho", "Tl", "Ni", "Tb",
)
# fmt: on


@dataclass(frozen=True)
class TUSpec:
    """How a TU dataset is read.

    Args:
        name: Name of the dataset in its files.
        label_names: Names of the classes in the order of the file's labels; the labels themselves when empty.
        attributes: Names of the node attributes that become columns; ``None`` leaves all of them out.
        drop: So many leading attribute columns are left out.
        node_labels: ``"onehot"`` makes columns of them, ``"target"`` what is to be predicted.
        symbols: Name of the node labels 0, 1, ... where the dataset's readme tells.
    """

    name: str
    label_names: tuple[str, ...] = ()
    attributes: tuple[str, ...] | None = None
    drop: int = 0
    node_labels: Literal["onehot", "target", "unused"] = "unused"
    symbols: tuple[str, ...] = ()


def read_tu_set(path: str | os.PathLike[str], spec: TUSpec) -> Content:
    """Read a TU zip as its spec says; graphs without nodes are left out.

    Args:
        path: The zip.
        spec: Meaning of its tables.

    Returns:
        Graphs with attributes, then the one-hot node labels that occur, as ``x`` (none when there are no columns).

    Raises:
        DataError: When the zip cannot be used, or has other classes or attributes than the spec says.
    """
    unused = (("node_attributes", spec.attributes is None), ("node_labels", spec.node_labels == "unused"))
    tables = read_tables(path, spec.name, skip=[part for part, skipped in unused if skipped])
    blocks: list[Tensor] = []
    columns: list[Column] = []
    if spec.attributes is not None:
        values = _attributes(tables, spec)
        blocks.append(values)
        columns += attribute_columns(values, spec.attributes)
    if spec.node_labels == "onehot":
        codes, names = frequent_labels(_labels(tables), spec.symbols)
        blocks.append(torch.from_numpy(onehot(codes, len(names))))
        columns += [Column("onehot", group=0, name=n) for n in names]
    x = None if not blocks else blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)

    task = spec.node_labels == "target"
    kinds, y = np.unique(_labels(tables) if task else tables.labels, return_inverse=True)
    names = list(spec.label_names) or [f"label={k}" if task else f"{k:g}" for k in kinds.tolist()]
    if len(names) != len(kinds):
        raise DataError(f"{path}: {spec.name} has {len(kinds)} classes, expected {len(names)}: {', '.join(names)}")
    graphs = tables.graphs(x, torch.from_numpy(y.astype(np.int64)), node_task=task)
    sizes = np.diff(tables.node_at).tolist()
    return Content([g for g, n in zip(graphs, sizes, strict=True) if n], tuple(columns), tuple(names))


def attribute_columns(values: Tensor, names: Sequence[str]) -> list[Column]:
    """Kind and observed bounds of each column by itself; neighbouring 0/1 columns are no one-hot group.

    Args:
        values: Attributes of all nodes.
        names: Name of each column, ``""`` where it has none.

    Returns:
        A column each.

    Shapes:
        values ``(N, len(names))``.

    Example:
        >>> [c.kind for c in attribute_columns(torch.tensor([[0.0, 5.0], [1.0, 2.5]]), ["ring", ""])]
        ['binary', 'continuous']
    """
    found = [FeatureSchema.infer([values[:, k : k + 1]]).columns[0] for k in range(values.shape[1])]
    return [replace(c, name=n) for c, n in zip(found, names, strict=True)]


def frequent_labels(labels: Ints, symbols: Sequence[str] = ()) -> tuple[Ints, list[str]]:
    """Codes from 0 for the labels that occur; beyond ``MAX_LABELS`` the rarest share the last code.

    Args:
        labels: Label of each node.
        symbols: Name of the labels 0, 1, ... where known.

    Returns:
        Code of each node, and the name of each code: the symbol, else ``label=NUMBER``; ``other`` for the rest.

    Shapes:
        labels and codes ``(N,)``.

    Example:
        >>> frequent_labels(np.array([7, 2, 7]))
        (array([1, 0, 1]), ['label=2', 'label=7'])
    """
    kinds, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(kinds) > MAX_LABELS:
        # the most frequent, of equally frequent ones the smaller number; then in the order of the numbers again
        kept = np.sort(np.argsort(-counts, kind="stable")[: MAX_LABELS - 1])
        place = np.full(len(kinds), MAX_LABELS - 1)
        place[kept] = np.arange(len(kept))
        kinds, codes = kinds[kept], place[codes]
    names = [symbols[k] if 0 <= k < len(symbols) else f"label={k}" for k in kinds.tolist()]
    return codes, [*names, "other"] if codes.max(initial=0) == len(names) else names


def _attributes(tables: Tables, spec: TUSpec) -> Tensor:
    wanted = len(spec.attributes or ())
    found = 0 if tables.node_attributes is None else tables.node_attributes.shape[1]
    if tables.node_attributes is None or found != wanted + spec.drop:
        raise DataError(f"{spec.name}: {found} node attributes a line, expected {wanted + spec.drop}")
    return torch.from_numpy(np.ascontiguousarray(tables.node_attributes[:, spec.drop :]))


def _labels(tables: Tables) -> Ints:
    if tables.node_labels is None or tables.node_labels.shape[1] != 1:
        raise DataError(f"{tables.name}: need {tables.name}_node_labels.txt with one label a line")
    return tables.node_labels[:, 0]

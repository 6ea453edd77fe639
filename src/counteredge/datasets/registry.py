"""The closed list of datasets and :func:`load`."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass

from counteredge.datasets.dataset import GraphDataset
from counteredge.datasets.files import find_zip
from counteredge.datasets.generators import tree_cycles
from counteredge.datasets.tu import read_tu
from counteredge.errors import InputError
from counteredge.schema import FeatureSchema

__all__ = ["available", "load"]


@dataclass(frozen=True)
class _TU:
    """What the files of a TU dataset do not say; ``label_names`` follow the sorted file labels."""

    label_names: tuple[str, ...]
    schema: FeatureSchema
    has_atoms: bool = False


# MUTAG: file label 1 (125 graphs) is mutagenic, -1 (63 graphs) is not
_TU_SETS = {
    "MUTAG": _TU(
        label_names=("non-mutagenic", "mutagenic"),
        schema=FeatureSchema.onehot(["C", "N", "O", "F", "I", "Cl", "Br"]),
        has_atoms=True,
    ),
}
_NAMES = (*_TU_SETS, "Tree-Cycles")
_ALIASES = {"tcr": "Tree-Cycles"}


def available() -> tuple[str, ...]:
    """Names that :func:`load` takes.

    Returns:
        The names, without aliases.

    Example:
        >>> available()
        ('MUTAG', 'Tree-Cycles')
    """
    return _NAMES


def load(
    name: str, root: str | os.PathLike[str] | None = None, *, seed: int = 0, limit: int | None = None
) -> GraphDataset:
    """Load or generate a dataset.

    Args:
        name: One of :func:`available`, in any case; ``"TCR"`` is Tree-Cycles.
        root: Folder that holds ``NAME.zip``. After it ``$COUNTEREDGE_DATA``, ``../shared/data`` beside a
            checkout and the cache folder are looked in, then the zip is downloaded.
        seed: Seed of generated datasets.
        limit: Give only the first graphs. Graph ``i`` is the same whatever the limit.

    Returns:
        The dataset.

    Raises:
        InputError: When the name is unknown or the limit negative.
        DataError: When the file is missing, damaged or not the known one.

    Example:
        >>> data = load("tree-cycles", limit=4)
        >>> len(data), data.label_names, data.schema.width
        (4, ('tree', 'cycle'), 1)
    """
    if limit is not None and limit < 0:
        raise InputError(f"limit must be 0 or more, got {limit}")
    name = _resolve(name)
    if name == "Tree-Cycles":
        return tree_cycles(5000 if limit is None else min(limit, 5000), seed=seed)
    about = _TU_SETS[name]
    graphs = read_tu(find_zip(name, root), name)
    return GraphDataset(
        name=name,
        graphs=graphs[:limit],
        schema=about.schema,
        num_classes=len(about.label_names),
        label_names=about.label_names,
        has_atoms=about.has_atoms,
        source="file",
    )


def _resolve(name: str) -> str:
    """The registered name, whatever the case."""
    known = {n.lower(): n for n in _NAMES} | _ALIASES
    if name.lower() in known:
        return known[name.lower()]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {known[close[0]]!r}?" if close else ""
    raise InputError(f"unknown dataset {name!r}{hint} Known: {', '.join(_NAMES)}")

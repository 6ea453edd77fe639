"""Finished datasets on disk: one safetensors file each, written whole or not at all, checked when read.

A file holds every field of all graphs end to end, whole numbers in the smallest type that holds them exactly. Its
header has the types to give back and a digest of the contents.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch_geometric.data import Data

from counteredge.cache import cache_dir

__all__ = ["FORMAT", "cache_path", "read_graphs", "write_graphs"]

FORMAT = 1  # raise when a reader, a generator, a descriptor or this layout gives other numbers than before
_SMALL = (torch.uint8, torch.int16, torch.int32)
_CHUNK = 4096  # graphs that are put end to end before their numbers are made small


def cache_path(name: str, **key: Any) -> Path:
    """Where a dataset of this key is kept; the file need not exist.

    Args:
        name: Name of the dataset.
        key: All that the graphs depend on: the digest of the source, options.

    Returns:
        A path in the cache folder; another one for every key and format.

    Example:
        >>> cache_path("A b", seed=0) == cache_path("A b", seed=1)
        False
    """
    text = json.dumps([FORMAT, name, key], sort_keys=True)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())
    return (
        cache_dir() / "datasets" / "processed" / f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.safetensors"
    )


def write_graphs(path: Path, graphs: Sequence[Data], about: dict[str, Any]) -> bool:
    """Keep graphs; they all have the same fields: tensors and strings.

    Args:
        path: File to write.
        graphs: The graphs.
        about: What JSON can hold, kept beside them.

    Returns:
        Whether it could be written; a folder that cannot be written to is no error.
    """
    tensors: dict[str, Tensor] = {}
    header: dict[str, Any] = {"about": about, "graphs": len(graphs), "dtypes": {}, "strings": {}}
    for field in graphs[0].to_dict() if graphs else ():
        values = [g[field] for g in graphs]
        if isinstance(values[0], str):
            header["strings"][field] = values
            continue
        dim = _dim(field)
        header["dtypes"][field] = str(values[0].dtype).removeprefix("torch.")
        parts = (torch.cat(values[i : i + _CHUNK], dim) for i in range(0, len(values), _CHUNK))
        tensors[field] = torch.cat([_small(p) for p in parts], dim).contiguous()
        tensors[f"{field}.sizes"] = _small(torch.tensor([v.shape[dim] for v in values]))
    header["sha256"] = _digest(tensors)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".partial-") as partial:
            whole = Path(partial) / path.name
            save_file(tensors, whole, {"counteredge": json.dumps(header)})
            os.replace(whole, path)
    except (OSError, SafetensorError):
        return False
    return True


def read_graphs(path: Path, limit: int | None = None) -> tuple[list[Data], dict[str, Any]] | None:
    """What :func:`write_graphs` kept.

    Args:
        path: The file.
        limit: Give only the first graphs.

    Returns:
        Graphs with tensors of their own, and ``about``; ``None`` when there is no file. A damaged file is reported by
        a warning and counts as none.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["counteredge"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        if _digest(tensors) != header["sha256"]:
            raise ValueError("its contents do not fit its digest")
        with _no_collection():
            return _unpack(tensors, header, limit), header["about"]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        warnings.warn(f"the cached dataset {path} is damaged ({error}); it is made again", stacklevel=2)
        return None


def _unpack(tensors: dict[str, Tensor], header: dict[str, Any], limit: int | None) -> list[Data]:
    count = header["graphs"] if limit is None else min(limit, header["graphs"])
    columns: dict[str, Iterable[Any]] = {k: v[:count] for k, v in header["strings"].items()}
    for field, dtype in header["dtypes"].items():
        dim, kind = _dim(field), getattr(torch, dtype)
        sizes = tensors[f"{field}.sizes"][:count].tolist()
        used = tensors[field].narrow(dim, 0, sum(sizes))
        # a copy: each view would drag the storage of all graphs into whatever it is copied or sent to
        columns[field] = [piece.to(kind, copy=True).contiguous() for piece in torch.split(used, sizes, dim)]
    return [Data(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing that is made meanwhile is garbage; looking for some all along would take as long as the making."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _dim(field: str) -> int:
    """The dimension along which graphs are put end to end."""
    return 1 if field == "edge_index" else 0


def _small(values: Tensor) -> Tensor:
    """The same numbers in the smallest type that holds them exactly; fractions and negative zeros stay as they are."""
    if values.dtype == torch.bool or not values.numel():
        return values
    if values.is_floating_point() and ((values != values.round()) | ((values == 0) & values.signbit())).any():
        return values
    lo, hi = values.min().item(), values.max().item()
    for dtype in _SMALL:
        if torch.iinfo(dtype).min <= lo and hi <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"{name}:{values.dtype}:{tuple(values.shape)}\n".encode())
        digest.update(values.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

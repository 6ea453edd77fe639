"""Recipes for the known datasets, and their trained models kept as safe checkpoints."""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch_geometric.data import Data

from counteredge.cache import cache_dir
from counteredge.errors import InputError
from counteredge.models.training import Recipe, TrainedModel, build, seeded, train

__all__ = ["RECIPES", "oracle_for"]

FORMAT = 1  # raise when training or the file changes meaning: older files are then trained anew

RECIPES: dict[str, Recipe] = {
    "MUTAG": Recipe(conv="gcn", hidden=64, dense=1, pool="mean", epochs=300, lr=0.01, batch_size=32),
    "Tree-Cycles": Recipe(
        conv="gin", hidden=32, dense=2, pool="add", epochs=100, lr=0.003, batch_size=16, max_graphs=1000
    ),
}


def oracle_for(
    name: str, graphs: Sequence[Data], num_classes: int, *, seed: int = 0, progress: bool = False
) -> TrainedModel:
    """The model of a known dataset: read from the cache folder, or trained and kept there.

    A checkpoint belongs to one recipe, seed and exact set of graphs. A damaged one is replaced.

    Args:
        name: A name of ``RECIPES``, in any case.
        graphs: The graphs of the dataset.
        num_classes: Number of classes.
        seed: Seed of the training.
        progress: Show a progress bar while training.

    Returns:
        The trained model.

    Raises:
        InputError: When there is no recipe of that name, or the graphs cannot be trained on.
    """
    name = _resolve(name)
    recipe = RECIPES[name]
    key = _key(recipe, graphs, num_classes)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())
    path = cache_dir() / "oracles" / f"{slug}-seed{seed}-{key[:16]}.pt"
    if path.is_file():
        try:
            return _read(path, key, recipe, graphs[0].x.shape[1], num_classes, seed)
        except Exception as error:  # a foreign or damaged file can fail anywhere
            warnings.warn(f"{path} is no checkpoint of this model and is replaced ({error})", stacklevel=2)
    trained = train(graphs, num_classes, recipe, seed=seed, progress=progress)
    try:
        _write(path, key, trained)
    except OSError as error:
        warnings.warn(f"the trained model could not be kept in {path} ({error})", stacklevel=2)
    return trained


def _resolve(name: str) -> str:
    known = {n.lower(): n for n in RECIPES}
    if name.lower() in known:
        return known[name.lower()]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {known[close[0]]!r}?" if close else "."
    raise InputError(f"no recipe for dataset {name!r}{hint} Known: {', '.join(RECIPES)}")


def _key(recipe: Recipe, graphs: Sequence[Data], num_classes: int) -> str:
    """SHA-256 of everything that the weights depend on, but the seed."""
    digest = hashlib.sha256(json.dumps([FORMAT, asdict(recipe), len(graphs), num_classes]).encode())
    for graph in graphs:
        for field in ("x", "edge_index", "y"):
            value = graph[field]
            if value is not None:
                value = value.detach().cpu().contiguous()
                digest.update(f"{field} {value.dtype} {tuple(value.shape)}".encode())
                digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def _read(path: Path, key: str, recipe: Recipe, in_channels: int, num_classes: int, seed: int) -> TrainedModel:
    """The checkpoint; any exception means that it is not one of ours."""
    kept = torch.load(path, map_location="cpu", weights_only=True)
    if kept["key"] != key or kept["seed"] != seed:
        raise ValueError("it belongs to another model")
    with seeded(0):
        model = build(recipe, in_channels, num_classes)
    model.load_state_dict(kept["state"])
    return TrainedModel(
        model=model,
        accuracy=float(kept["accuracy"]),
        accuracy_heldout=float(kept["accuracy_heldout"]),
        split={part: [int(i) for i in kept["split"][part]] for part in ("train", "test")},
        recipe=recipe,
        seed=seed,
    )


def _write(path: Path, key: str, trained: TrainedModel) -> None:
    """Write beside the target and rename, so that no half-written file is ever seen."""
    buffer = io.BytesIO()
    torch.save(
        {
            "key": key,
            "seed": trained.seed,
            "accuracy": trained.accuracy,
            "accuracy_heldout": trained.accuracy_heldout,
            "split": trained.split,
            "state": trained.model.state_dict(),
        },
        buffer,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(buffer.getvalue())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

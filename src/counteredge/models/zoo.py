"""The oracles of the known datasets: read from the cache folder, or trained and kept there."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from counteredge.cache import cache_dir
from counteredge.errors import DataError
from counteredge.models.checkpoints import FORMAT, card_path, read_card, read_checkpoint, write_checkpoint
from counteredge.models.flat import FlatGraphs
from counteredge.models.recipes import RECIPES, Protocol, recipe_name
from counteredge.models.training import TrainedModel, train

__all__ = ["checkpoint_paths", "kept_cards", "oracle_for"]


def oracle_for(
    name: str,
    graphs: Sequence[Data],
    num_classes: int,
    *,
    seed: int = 0,
    protocol: Protocol = "heldout",
    progress: bool = False,
) -> TrainedModel:
    """The model of a known dataset: read from the cache folder, or trained and kept there.

    A checkpoint belongs to one recipe, protocol, seed and exact set of graphs. A damaged one is replaced.

    Args:
        name: A name of ``RECIPES``, in any case.
        graphs: The graphs of the dataset.
        num_classes: Number of classes.
        seed: Seed of the training.
        protocol: ``"heldout"`` keeps a fifth of the graphs aside; ``"paper"`` learns from all of them, as the
            published figures were made.
        progress: Show a progress bar while training.

    Returns:
        The trained model.

    Raises:
        InputError: When there is no recipe of that name, the protocol is unknown, or the graphs cannot be trained on.
    """
    name = recipe_name(name)
    recipe = RECIPES[name].of(protocol)
    flat = FlatGraphs.of(graphs, num_classes, per_node=recipe.task == "node")
    data = flat.sha256()
    about = json.dumps([FORMAT, asdict(recipe), protocol, seed, num_classes, data])
    key = hashlib.sha256(about.encode()).hexdigest()
    path = _folder() / f"{_prefix(name, protocol)}-seed{seed}-{key[:16]}.safetensors"
    if path.exists() or card_path(path).exists():
        try:
            return read_checkpoint(
                path,
                key=key,
                recipe=recipe,
                in_channels=flat.x.shape[1],
                num_classes=num_classes,
                seed=seed,
                protocol=protocol,
            )
        except DataError as error:
            warnings.warn(f"{path} is no checkpoint of this model and is replaced ({error})", stacklevel=2)
    trained = train(flat, num_classes, recipe, seed=seed, protocol=protocol, progress=progress)
    try:
        write_checkpoint(path, trained, name=name, key=key, data_sha256=data)
    except OSError as error:
        warnings.warn(f"the trained model could not be kept in {path} ({error})", stacklevel=2)
    return trained


def checkpoint_paths(name: str, protocol: Protocol) -> list[Path]:
    """Weights files of a dataset's oracle in the cache folder, of any seed, recipe and data.

    Args:
        name: A name of ``RECIPES``, in any case.
        protocol: Protocol of the training.

    Returns:
        Paths, in order.
    """
    return sorted(_folder().glob(f"{_prefix(recipe_name(name), protocol)}-seed*.safetensors"))


def kept_cards(name: str, protocol: Protocol) -> list[dict[str, Any]]:
    """Cards of the undamaged checkpoints that were trained by a dataset's present recipe.

    Args:
        name: A name of ``RECIPES``, in any case.
        protocol: Protocol of the training.

    Returns:
        Cards, by seed.
    """
    cards = []
    for path in checkpoint_paths(name, protocol):
        with suppress(DataError):
            cards.append(read_card(path))
    recipe = asdict(RECIPES[recipe_name(name)].of(protocol))
    return sorted((c for c in cards if c["recipe"] == recipe), key=lambda c: c["seed"])


def _folder() -> Path:
    return cache_dir() / "oracles"


def _prefix(name: str, protocol: Protocol) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}-{protocol}"

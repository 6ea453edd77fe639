"""Trained models on disk: weights as safetensors, and beside them a card in JSON that says what they are."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from counteredge.cache import write_atomic
from counteredge.errors import DataError
from counteredge.models.recipes import Protocol, Recipe
from counteredge.models.training import TrainedModel, build, seeded

__all__ = ["FORMAT", "card_path", "read_card", "read_checkpoint", "write_checkpoint"]

FORMAT = 2  # raise when training or the files change meaning: older files are then trained anew


def card_path(weights: Path) -> Path:
    """Where the card of a weights file is."""
    return weights.with_suffix(".json")


def write_checkpoint(path: Path, trained: TrainedModel, *, name: str, key: str, data_sha256: str) -> None:
    """Write the weights to ``path`` and the card beside them, each at once or not at all.

    Args:
        path: File for the weights, ending in ``.safetensors``.
        trained: What to keep.
        name: Name of the recipe.
        key: Digest of everything that the weights depend on.
        data_sha256: Digest of the graphs.

    Raises:
        OSError: When the folder cannot be written to.
    """
    from counteredge import __version__

    weights = save_tensors({k: v.contiguous() for k, v in trained.model.state_dict().items()})
    trained_on = len(trained.split["train"]) + len(trained.split["validation"])
    card = {
        "format": FORMAT,
        "name": name,
        "protocol": trained.protocol,
        "seed": trained.seed,
        "key": key,
        "data_sha256": data_sha256,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "architecture": trained.model.config,
        "recipe": asdict(trained.recipe),
        "accuracy": {
            "all": trained.accuracy,
            "train": trained.accuracy_train,
            "heldout": trained.accuracy_heldout,
        },
        "trained_on": {"graphs": trained_on, "subset": trained.recipe.train_graphs is not None},
        "split": trained.split,
        "epochs": trained.epochs,
        "seconds": round(trained.seconds, 3),
        "versions": {
            "counteredge": __version__,
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "python": platform.python_version(),
        },
    }
    card["card_sha256"] = _digest(card)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, weights)
    write_atomic(card_path(path), (json.dumps(card, indent=1) + "\n").encode())


def read_card(path: Path) -> dict[str, Any]:
    """The card of a weights file.

    Args:
        path: The weights file.

    Returns:
        The card, as it was written.

    Raises:
        DataError: When it is missing, damaged or of another format.
    """
    try:
        card = json.loads(card_path(path).read_text(encoding="utf-8"))
        told = card.pop("card_sha256")
        intact = told == _digest(card)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{card_path(path)} is no card of a trained model ({error!r})") from error
    if not intact:
        raise DataError(f"{card_path(path)} was changed after it was written")
    if card["format"] != FORMAT:
        raise DataError(f"{card_path(path)} has format {card['format']}, this version reads {FORMAT}")
    return dict(card)


def read_checkpoint(
    path: Path, *, key: str, recipe: Recipe, in_channels: int, num_classes: int, seed: int, protocol: Protocol
) -> TrainedModel:
    """Weights and card, checked against each other and against what is asked for.

    Args:
        path: The weights file.
        key: Digest of everything that the weights depend on.
        recipe: What it must have been trained by.
        in_channels: Columns of ``x``.
        num_classes: Number of classes.
        seed: Seed of the training.
        protocol: Protocol of the training.

    Returns:
        The trained model.

    Raises:
        DataError: When the files are missing, damaged, or belong to another model.
    """
    card = read_card(path)
    if (card["key"], card["seed"], card["protocol"]) != (key, seed, protocol):
        raise DataError(f"{path} belongs to another model")
    try:
        weights = path.read_bytes()
        if hashlib.sha256(weights).hexdigest() != card["weights_sha256"]:
            raise DataError(f"{path} is damaged: its SHA-256 is not the one on its card")
        with seeded(0):
            model = build(recipe, in_channels, num_classes)
        model.load_state_dict(load_tensors(weights))
        return TrainedModel(
            model=model,
            accuracy=card["accuracy"]["all"],
            accuracy_heldout=card["accuracy"]["heldout"],
            split=card["split"],
            recipe=recipe,
            seed=seed,
            protocol=protocol,
            accuracy_train=card["accuracy"]["train"],
            epochs=card["epochs"],
            seconds=card["seconds"],
        )
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as this model ({error})") from error


def _digest(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()

"""Recipes: architecture and training of every known dataset's oracle, read from one closed TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any, Literal, get_args

from counteredge.errors import InputError, unknown
from counteredge.models.classifier import Conv, Pool, Task

__all__ = ["RECIPES", "OracleRecipe", "Protocol", "Recipe", "parse_recipes", "recipe_name"]

Protocol = Literal["heldout", "paper"]


@dataclass(frozen=True)
class Recipe:
    """Architecture and training of one model.

    Args:
        conv: Convolution, see :class:`GraphClassifier`.
        layers: Number of convolutions.
        hidden: Width.
        dense: Linear layers after the pooling.
        pool: Pooling.
        dropout: Dropout probability.
        task: One class a graph, or one a node.
        norm: Batch normalisation.
        jump: Pool the outputs of all convolutions.
        epochs: Passes over the training part, at most.
        lr: First learning rate; it falls to 0 along a cosine.
        batch_size: Graphs a step.
        weight_decay: L2 penalty of Adam.
        validation: Share of the training part that is watched instead of trained on (``heldout`` protocol).
        goal: Stop when the watched accuracy reaches this.
        patience: Stop when the watched accuracy has not risen for so many epochs; 0 means never.
        train_graphs: Train on a fixed, stratified choice of so many graphs of the training part.
    """

    conv: Conv = "gcn"
    layers: int = 3
    hidden: int = 64
    dense: int = 1
    pool: Pool = "mean"
    dropout: float = 0.0
    task: Task = "graph"
    norm: bool = False
    jump: bool = False
    epochs: int = 100
    lr: float = 0.01
    batch_size: int = 32
    weight_decay: float = 0.0
    validation: float = 0.0
    goal: float = 1.0
    patience: int = 0
    train_graphs: int | None = None

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size) < 1 or self.lr <= 0 or min(self.weight_decay, self.patience) < 0:
            raise InputError(
                "epochs and batch_size must be 1 or more, lr above 0, weight_decay and patience 0 or more, got "
                f"epochs={self.epochs}, batch_size={self.batch_size}, lr={self.lr}, "
                f"weight_decay={self.weight_decay}, patience={self.patience}"
            )
        if not 0 <= self.validation < 1 or not 0 < self.goal <= 1:
            raise InputError(f"validation must be in [0, 1) and goal in (0, 1], got {self.validation} and {self.goal}")
        if self.train_graphs is not None and self.train_graphs < 2:
            raise InputError(f"train_graphs must be 2 or more, got {self.train_graphs}")


@dataclass(frozen=True)
class OracleRecipe:
    """What is known of one dataset's oracle.

    Args:
        heldout: Recipe of the ``heldout`` protocol.
        paper: Recipe of the ``paper`` protocol.
        paper_accuracy: What the paper prints for its oracle, 0 to 1; None when it prints nothing.
    """

    heldout: Recipe
    paper: Recipe
    paper_accuracy: float | None = None

    def of(self, protocol: Protocol) -> Recipe:
        """The recipe of a protocol.

        Raises:
            InputError: When the protocol is unknown.
        """
        if protocol not in get_args(Protocol):
            raise InputError(f"protocol must be one of {', '.join(get_args(Protocol))}, got {protocol!r}")
        return self.paper if protocol == "paper" else self.heldout


_TYPES: dict[str, type] = {
    **{f.name: type(f.default) for f in fields(Recipe)},
    "train_graphs": int,
}
_OF_THE_MODEL = ("conv", "layers", "hidden", "dense", "pool", "task", "norm", "jump")
_OVERRIDES = {key: kind for key, kind in _TYPES.items() if key not in _OF_THE_MODEL}
_HEAD: dict[str, type] = {"paper_accuracy": float}


def parse_recipes(text: str) -> dict[str, OracleRecipe]:
    r"""Read recipes: one table a dataset, in it the keys of :class:`Recipe` and at most two tables of overrides.

    Args:
        text: TOML. ``[NAME]`` holds keys of :class:`Recipe` and ``paper_accuracy``;
            ``[NAME.heldout]`` and ``[NAME.paper]`` replace keys of the training for one protocol.

    Returns:
        Recipes by dataset, in the order of the file.

    Raises:
        InputError: When the text is no TOML, a key is unknown or a value has the wrong type.

    Example:
        >>> parse_recipes("[Mine]\nconv = 'gin'\n[Mine.paper]\nepochs = 5")["Mine"].paper.epochs
        5
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipes are no TOML: {error}") from error
    return {name: _oracle_recipe(name, table) for name, table in tables.items()}


def _oracle_recipe(name: str, table: Any) -> OracleRecipe:
    protocols = get_args(Protocol)
    base = _checked(name, table, {**_TYPES, **_HEAD, **dict.fromkeys(protocols, dict)})
    overrides = {p: _checked(f"{name}.{p}", base.pop(p, {}), _OVERRIDES) for p in protocols}
    accuracy = base.pop("paper_accuracy", None)
    return OracleRecipe(
        heldout=Recipe(**{**base, **overrides["heldout"]}),
        paper=Recipe(**{**base, **overrides["paper"]}),
        paper_accuracy=accuracy,
    )


def _checked(where: str, table: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """The table with nothing but known keys of the right type."""
    if not isinstance(table, dict):
        raise InputError(f"[{where}] must be a table, got {table!r}")
    for key, value in table.items():
        if key not in types:
            raise InputError(f"[{where}]: {unknown('key', key, types)}")
        wanted = types[key]
        # whole numbers are fine where fractions are; true and false are no numbers
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits:
            raise InputError(f"[{where}] {key} must be of type {wanted.__name__}, got {value!r}")
    return dict(table)


def recipe_name(name: str) -> str:
    """The name of a recipe as ``RECIPES`` spells it, whatever the case.

    Raises:
        InputError: When there is none of that name.
    """
    known = {n.lower(): n for n in RECIPES}
    if name.lower() in known:
        return known[name.lower()]
    raise unknown("recipe", name, RECIPES)


RECIPES: dict[str, OracleRecipe] = parse_recipes(
    resources.files("counteredge.models").joinpath("recipes.toml").read_text(encoding="utf-8")
)

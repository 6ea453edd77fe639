"""What explains what: a dataset, a method and its options, as plain values; and the objects made of them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torch import nn
from torch_geometric.data import Data

from counteredge.cache import write_atomic
from counteredge.errors import DataError, InputError, unknown
from counteredge.explainers import Explainer, Trained, explainer_class, get_explainer
from counteredge.results import Counterfactual
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["RunSpec", "answers", "explainer_of", "fitted", "space_of"]


@dataclass(frozen=True)
class RunSpec:
    """What a run does; a folder holds results of one spec only.

    Args:
        dataset: Name in the dataset registry.
        explainer: Name in the explainer registry.
        preset: The explainer's mode (XPlore: its preset); its first one when ``None``.
        features: Variant of the ``paper`` preset (``"gating"``, ``"freedom"``), else ``None``.
        edits: ``"edges"``, ``"features"`` or ``"both"``.
        structural: Of the edit space: ``"refreshed"``, ``"frozen"``, or ``None`` for what the preset does.
        seed: Of the explainer; of the oracle's training too, unless that has a seed of its own.
        chemistry: Of the edit space: ``"valence"``, or ``None``.
        options: Further options of the explainer by name, as JSON values.
        gamma: Of the edit space: added to the start value of absent edges (the paper's scalar Gamma).
    """

    dataset: str
    explainer: str = "xplore"
    preset: str | None = None
    features: str | None = None
    edits: str = "both"
    structural: Literal["refreshed", "frozen"] | None = None
    seed: int = 0
    chemistry: Literal["valence"] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    gamma: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "explainer", explainer_class(self.explainer).name)
        if self.preset is None:
            object.__setattr__(self, "preset", explainer_class(self.explainer).modes[0])
        object.__setattr__(self, "gamma", float(self.gamma))  # 0 and 0.0 are one spec
        if self.explainer != "xplore" and self.features is not None:
            raise InputError(f"features {self.features} is a variant of xplore, {self.explainer} has none")
        if self.explainer != "xplore" or self.preset == "minimal":
            return
        if self.features is None and self.edits == "features":
            raise InputError(f"preset {self.preset} without features edits edges only: choose gating or freedom")
        if self.features is not None and self.edits == "edges":
            raise InputError(f"features {self.features} with edits edges would edit no feature: choose edits both")
        if self.features is None:
            object.__setattr__(self, "edits", "edges")  # what the variant without features can do


def explainer_of(spec: RunSpec) -> Explainer:
    """The explainer that a spec describes.

    Raises:
        InputError: For an option that it does not have.
    """
    own = {} if spec.features is None else {"features": spec.features}
    elsewhere = {"mode", "preset", "seed", *(("features",) if spec.explainer == "xplore" else ())}
    taken = [n for n in inspect.signature(explainer_class(spec.explainer)).parameters if n not in elsewhere]
    for name in spec.options:
        if name in elsewhere:
            raise InputError(f"option {name}= has a place of its own in a run, it is not among options")
        if name not in taken:
            raise unknown(f"option of {spec.explainer}", name, taken)
    return get_explainer(spec.explainer, mode=spec.preset, seed=spec.seed, **own, **spec.options)


def space_of(spec: RunSpec, schema: FeatureSchema, explainer: Explainer) -> EditSpace:
    """The edit space that a spec describes, columns meaning what they mean to the explainer."""
    space = replace(EditSpace.of(spec.edits), structural=spec.structural, chemistry=spec.chemistry, gamma=spec.gamma)
    return replace(space, schema=schema.as_numbers() if explainer.plain_numbers else schema)


def fitted(
    explainer: Trained,
    model: nn.Module,
    graphs: Sequence[Data],
    space: EditSpace,
    file: Path | None,
    *,
    progress: bool = False,
) -> tuple[Trained, dict[str, Any]]:
    """An explainer after it has learnt, and what that took; read from files where an earlier call left them.

    Args:
        explainer: That learns.
        model: The oracle.
        graphs: To learn from.
        space: What may change.
        file: Where it is kept, with a ``.json`` beside; damaged files are learnt anew. Nowhere when ``None``.
        progress: Show a bar.
    """
    if file is not None:
        with suppress(DataError, OSError, ValueError):
            return type(explainer).load(file), json.loads(file.with_suffix(".json").read_bytes())
    report = explainer.fit(model, graphs, edits=space, progress=progress)
    told = {
        "epochs": report.epochs,
        "stopped_early": report.stopped_early,
        "graphs": report.graphs,
        "calls": report.calls.forward,
        "seconds": report.seconds,
    }
    if file is not None:
        explainer.save(file)
        write_atomic(file.with_suffix(".json"), json.dumps(told).encode())
    return explainer, told


def answers(
    explainer: Explainer,
    model: nn.Module,
    graphs: Sequence[Data],
    numbers: Sequence[int],
    space: EditSpace,
    references: Sequence[Data],
    label_names: tuple[str, ...],
) -> list[Counterfactual]:
    """Explain some graphs of a dataset, numbered as they are there.

    Args:
        explainer: Ready to explain.
        model: The oracle.
        graphs: All of the dataset.
        numbers: Which to explain.
        space: What may change; with the dataset's schema, an answer does not depend on which others share its call.
        references: For explainers that need some.
        label_names: Of the classes.
    """
    given = list(references) if explainer.needs_references else None
    found: list[Counterfactual] = explainer.explain(
        model, [graphs[i] for i in numbers], edits=space, references=given, progress=False
    )
    for i, cf in zip(numbers, found, strict=True):
        cf.index, cf.label_names = i, label_names
    return found

"""One file a method; a closed registry of names."""

from __future__ import annotations

from typing import Any

from counteredge.errors import unknown
from counteredge.explainers.base import Explainer
from counteredge.explainers.xplore import XPlore

__all__ = ["EXPLAINERS", "Explainer", "XPlore", "get_explainer"]

EXPLAINERS: dict[str, type[Explainer]] = {XPlore.name: XPlore}


def get_explainer(explainer: str | type[Explainer] | Explainer, **options: Any) -> Explainer:
    """An explainer from its name, its class or itself.

    Example:
        >>> get_explainer("xplore", preset="paper").preset
        'paper'
    """
    if isinstance(explainer, Explainer):
        return explainer
    if isinstance(explainer, str):
        if explainer.lower() not in EXPLAINERS:
            raise unknown("explainer", explainer, sorted(EXPLAINERS))
        explainer = EXPLAINERS[explainer.lower()]
    return explainer(**options)

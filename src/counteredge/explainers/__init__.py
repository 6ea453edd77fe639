"""One file a method; a closed registry of names."""

from __future__ import annotations

from typing import Any

from counteredge.errors import InputError, unknown
from counteredge.explainers.base import Explainer
from counteredge.explainers.c2explainer import C2Explainer
from counteredge.explainers.cf2 import CF2
from counteredge.explainers.cfgnn import CFGNNExplainer
from counteredge.explainers.clear import CLEAR
from counteredge.explainers.combinex import COMBINEX
from counteredge.explainers.constant_graphs import CompleteGraph, EmptyGraph
from counteredge.explainers.d4explainer import D4Explainer
from counteredge.explainers.greedy_search import Greedy
from counteredge.explainers.induce import InduCE
from counteredge.explainers.irand import IRand
from counteredge.explainers.meg import MEG
from counteredge.explainers.nearest import Nearest
from counteredge.explainers.replay import shrink
from counteredge.explainers.rsggce import RSGGCE
from counteredge.explainers.trained import FitReport, Trained
from counteredge.explainers.xplore import XPlore

__all__ = [
    "CF2",
    "CLEAR",
    "COMBINEX",
    "EXPLAINERS",
    "MEG",
    "RSGGCE",
    "C2Explainer",
    "CFGNNExplainer",
    "CompleteGraph",
    "D4Explainer",
    "EmptyGraph",
    "Explainer",
    "FitReport",
    "Greedy",
    "IRand",
    "InduCE",
    "Nearest",
    "Trained",
    "XPlore",
    "explainer_class",
    "get_explainer",
    "shrink",
]

_CLASSES: tuple[type[Explainer], ...] = (
    XPlore,
    IRand,
    CFGNNExplainer,
    CF2,
    CLEAR,
    RSGGCE,
    D4Explainer,
    COMBINEX,
    C2Explainer,
    InduCE,
    MEG,
    Greedy,
    Nearest,
    EmptyGraph,
    CompleteGraph,
)
EXPLAINERS: dict[str, type[Explainer]] = {c.name: c for c in _CLASSES}


def explainer_class(name: str) -> type[Explainer]:
    """The class of a name.

    Raises:
        InputError: For a name that is not in the registry.
    """
    if not isinstance(name, str):
        raise InputError(f"explainer={name!r} must be a name: {', '.join(sorted(EXPLAINERS))}")
    if name.lower() not in EXPLAINERS:
        raise unknown("explainer", name, sorted(EXPLAINERS))
    return EXPLAINERS[name.lower()]


def get_explainer(explainer: str | type[Explainer] | Explainer, **options: Any) -> Explainer:
    """An explainer from its name, its class or itself.

    Example:
        >>> get_explainer("cfgnn", mode="improved").mode
        'improved'
    """
    if isinstance(explainer, Explainer):
        if options:
            raise InputError(f"an explainer that is made already takes no options, got {', '.join(options)}")
        return explainer
    made = explainer_class(explainer) if isinstance(explainer, str) else explainer
    return made(**options)

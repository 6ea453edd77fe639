"""Whole-graph embedders: vectors of graphs, for comparing originals with counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence

from counteredge.embedders.base import Embedder, embed
from counteredge.embedders.feather import FeatherG
from counteredge.embedders.fgsd import FGSD
from counteredge.embedders.gl2vec import GL2Vec
from counteredge.embedders.graph2vec import Graph2Vec
from counteredge.embedders.ige import IGE
from counteredge.embedders.ldp import LDP
from counteredge.embedders.netlsd import NetLSD
from counteredge.embedders.scattering import GeoScattering
from counteredge.embedders.sf import SF
from counteredge.embedders.wavelet import WaveletCharacteristic
from counteredge.errors import InputError, unknown

__all__ = [
    "EMBEDDERS",
    "FGSD",
    "IGE",
    "LDP",
    "SF",
    "Embedder",
    "FeatherG",
    "GL2Vec",
    "GeoScattering",
    "Graph2Vec",
    "NetLSD",
    "WaveletCharacteristic",
    "embed",
    "get_embedders",
]

# in the paper's order
EMBEDDERS: dict[str, type[Embedder]] = {
    e.name: e
    for e in (
        FeatherG, Graph2Vec, NetLSD, WaveletCharacteristic, IGE, LDP, GeoScattering, GL2Vec, SF, FGSD,
    )
}  # fmt: skip


def get_embedders(embedders: str | Sequence[str | Embedder] = "all") -> list[Embedder]:
    """Embedders by name (case does not matter), as they are, or ``"all"`` ten with their defaults.

    Raises:
        InputError: For an unknown name, or one that appears twice.

    Example:
        >>> [e.name for e in get_embedders(["ldp", SF()])]
        ['LDP', 'SF']
    """
    if embedders == "all":
        return [e() for e in EMBEDDERS.values()]
    folded = {name.lower(): e for name, e in EMBEDDERS.items()}
    found: list[Embedder] = []
    for one in [embedders] if isinstance(embedders, str) else embedders:
        if isinstance(one, str):
            if one.lower() not in folded:
                raise unknown("embedder", one, EMBEDDERS)
            found.append(folded[one.lower()]())
        elif isinstance(one, Embedder):
            found.append(one)
        else:
            raise InputError(f"an embedder is a name or an object like FeatherG(), got {one!r}")
    names = [e.name for e in found]
    if len(set(names)) < len(names):
        raise InputError(f"the embedders {', '.join(names)} name one twice")
    return found

"""Whether the answers are answers: accuracy, validity, fidelity, minimality."""

from __future__ import annotations

import torch
from torch import Tensor

from counteredge.data import pairs_of, rebuild
from counteredge.decision import Label
from counteredge.metrics.definition import PAPER, metric
from counteredge.metrics.sample import Sample

__all__: list[str] = []


def _shares(values: list[bool | None]) -> Tensor:
    return torch.tensor([float("nan") if v is None else float(v) for v in values], dtype=torch.float64)


def _same(one: Label | None, other: Label | None) -> bool | None:
    """Whether a prediction is the label; ``None`` where one is not known or is a number on a scale."""
    if one is None or other is None or isinstance(one, float):
        return None
    if isinstance(other, float) and not other.is_integer():
        return None
    return one == other  # losses like BCE want classes as 0.0 and 1.0


def _known(sample: Sample, flips: Tensor) -> Tensor:
    """As numbers, NaN where nobody asked the model about the edited graph."""
    known = torch.tensor([y is not None for y in sample.after], dtype=torch.bool)
    return torch.where(known, flips.to(torch.float64), torch.nan)


def _right(sample: Sample, predicted: list[Label | None]) -> Tensor:
    return _shares([_same(p, y) for p, y in zip(predicted, sample.labels, strict=True)])


@metric(
    "oracle_accuracy", "Oracle accuracy", "1[Phi(G) = y]",
    high=1.0, direction="neither", reference=f"{PAPER}, appendix C.3", over="all graphs", needs="labels",
)  # fmt: skip
def oracle_accuracy(sample: Sample) -> Tensor:
    """Share of graphs that the model classifies right, which no explainer can change."""
    return _right(sample, list(sample.before))


@metric(
    "validity", "Validity", "1[Phi(G') != Phi(G)], edits of any kind; 0 where nothing was found",
    high=1.0, direction="higher", reference=f"{PAPER}, appendix C.3", over="all graphs",
)  # fmt: skip
def validity(sample: Sample) -> Tensor:
    """Share of graphs with a counterfactual, as the harness found with the untouched model."""
    return _known(sample, sample.found)


@metric(
    "validity_structural", "Structural validity", "1[Phi(G') != Phi(G) and GED(G, G') > 0]",
    high=1.0, direction="higher", reference="validity as the GRETEL framework counts it (Prado-Romero et al. 2023)",
    over="all graphs",
)  # fmt: skip
def validity_structural(sample: Sample) -> Tensor:
    """Validity where counterfactuals that change features only do not count."""
    return _known(sample, sample.found & (sample.ged > 0))


@metric(
    "validity_refreshed", "Validity, refreshed",
    "1[Phi(G') != Phi(G)] with structure-derived columns of G' computed from its own edges",
    high=1.0, direction="higher", reference="counteredge", over="all graphs",
)  # fmt: skip
def validity_refreshed(sample: Sample) -> Tensor:
    """Validity when degree, centrality and the like are those of the edited graph."""
    return sample.refreshed


@metric(
    "validity_frozen", "Validity, frozen", "1[Phi(G') != Phi(G)] with structure-derived columns as they were in G",
    high=1.0, direction="higher", reference=f"{PAPER}: its columns are never computed anew", over="all graphs",
)  # fmt: skip
def validity_frozen(sample: Sample) -> Tensor:
    """Validity when such columns keep what they held."""
    return sample.frozen


@metric(
    "fidelity", "Fidelity", "max(0, 1[Phi(G) = y] - 1[Phi(G') = y]); G' = G where nothing was found",
    high=1.0, direction="higher", reference=f"{PAPER}, appendix C.3", over="all graphs", needs="labels",
)  # fmt: skip
def fidelity(sample: Sample) -> Tensor:
    """The paper's clipped form: a right prediction is made wrong."""
    return fidelity_signed(sample).clamp(min=0)


@metric(
    "fidelity_signed", "Fidelity, signed", "1[Phi(G) = y] - 1[Phi(G') = y]; G' = G where nothing was found",
    low=-1.0, high=1.0, direction="higher",
    reference="as the GRETEL framework computes it, without the clip (Prado-Romero et al. 2023)",
    over="all graphs", needs="labels",
)  # fmt: skip
def fidelity_signed(sample: Sample) -> Tensor:
    """Negative where the model was wrong and the counterfactual is of the true class."""
    return _right(sample, list(sample.before)) - _right(sample, sample.after)


def _parts(sample: Sample, keep: bool) -> Tensor:
    """Whether the model's label stays on the graph without the removed edges, or with those alone."""
    out = sample.nothing
    rows = [k for k, e in enumerate(sample.edits) if 0 < len(e.removed) == len(e)]
    if sample.judge is None or not rows:
        return out
    graphs = []
    for k in rows:
        g, gone = sample.originals[k], torch.tensor(sample.edits[k].removed)
        directed = bool(sample.directed[k])
        if keep:
            every, n = pairs_of(g, directed=directed), len(g.x)
            gone = every[~torch.isin(every @ torch.tensor([n, 1]), gone @ torch.tensor([n, 1]))]
        graphs.append(rebuild(g, gone, gone[:0], directed=directed))
    labels = sample.judge.labels(sample.settled(rows, graphs))
    out[rows] = _shares([_same(a, sample.before[k]) for a, k in zip(labels, rows, strict=True)])
    return out


@metric(
    "pyg_fid_plus", "fid+ (PyG)", "1 - 1[Phi(G without S) = Phi(G)], S the removed edges",
    high=1.0, direction="higher",
    reference="fid+ (model) of torch_geometric.explain.metric.fidelity; Amara et al., GraphFramEx (LoG 2022)",
    needs="model",
)  # fmt: skip
def pyg_fid_plus(sample: Sample) -> Tensor:
    """Necessity of an explanation that is a set of the graph's edges: defined where edges were removed and no more."""
    return sample.where_found(1 - _parts(sample, keep=False))


@metric(
    "pyg_fid_minus", "fid- (PyG)", "1 - 1[Phi(S alone) = Phi(G)], S the removed edges",
    high=1.0, direction="lower",
    reference="fid- (model) of torch_geometric.explain.metric.fidelity; Amara et al., GraphFramEx (LoG 2022)",
    needs="model",
)  # fmt: skip
def pyg_fid_minus(sample: Sample) -> Tensor:
    """Sufficiency of the same set: all other edges are taken away, nodes stay."""
    return sample.where_found(1 - _parts(sample, keep=True))


@metric(
    "one_minimal_share", "One-minimal share", "1[undoing any single edit loses the flip]",
    high=1.0, direction="higher", reference="counteredge; the paper discusses superfluous edits", over="found",
)  # fmt: skip
def one_minimal_share(sample: Sample) -> Tensor:
    """Share of counterfactuals without a superfluous edit; what was not tested counts as not minimal."""
    return sample.where_found(sample.minimal)


@metric(
    "survives_refresh", "Survives refresh", "1[the flip holds with structure-derived columns of the edited graph]",
    high=1.0, direction="higher", reference="counteredge", over="found",
)  # fmt: skip
def survives_refresh(sample: Sample) -> Tensor:
    """Share of counterfactuals that are such on the graph that they really describe."""
    return sample.where_found(sample.refreshed)

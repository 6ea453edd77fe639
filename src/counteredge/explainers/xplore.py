"""XPlore: gradients of the frozen model over every pair and every feature, one joint search."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal

import torch
from torch_geometric.data import Data

from counteredge.engine.descent import DescentOptions, descend
from counteredge.engine.endpoints import EndpointOptions, walk_back
from counteredge.engine.exhaustive import edge_lower_bound, enumerable, enumerate_all
from counteredge.engine.greedy import BeamOptions, beam_search, try_pairs
from counteredge.engine.leaps import LeapOptions, leap
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.legacy import LegacyOptions, run_legacy
from counteredge.explainers.options import refuse_dead
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["XPlore"]

# escalation of the default preset: descend on the margin from the graph itself, with legal features
ESCALATION = DescentOptions(
    iterations=100,
    alpha=0.05,
    beta=0.01,
    features="additive",
    loss="margin",
    optimizer="adam",
    noise=0.05,
    box=True,
    at_input=True,
)
# the last of them: from where the weight of the distance no longer holds it back
FAR = replace(ESCALATION, iterations=300, beta=0.0)
LEAPS = (LeapOptions(most=8), LeapOptions(most=256))


class XPlore(Explainer):
    """Counterfactuals by adding edges, removing edges and changing features (De Sanctis et al., KDD 2026).

    ``preset="minimal"`` (default) ranks all single edits by the gradient of the margin, verifies the best on the model,
    repeats, and shrinks the answer until no edit can be undone. ``preset="paper"`` is the published Algorithm 1.

    Args:
        preset: ``"minimal"`` or ``"paper"``.
        seed: Of every random draw.
        width: Partial answers kept a level (minimal).
        per_state: Best-ranked moves tried from each (minimal).
        every: Try all single edits of graphs that have at most so many, else the best so many (minimal).
        depth: Most edits of the greedy stage (minimal).
        restarts: Mask descents for graphs that the greedy stage left open, and one without regard to the distance for
            those that these leave open (minimal).
        endpoints: Graphs that flip, far away, from which a graph that is still open is walked back to (minimal).
        exhaust: Graphs of which at most so many pairs may change, and no feature, have all sets of flips tried: the
            smallest answer, or the proof that there is none (minimal).
        certify: Enumerate all sets of up to this many edge flips (0, 1 or 2) as a proof. Its evaluations are neither
            counted in ``calls`` nor bounded by ``Budget(calls=...)``.
        features: Paper variant: ``None`` (edges only), ``"gating"`` or ``"freedom"``.
        iterations: K of the paper.
        alpha: Step size of the paper.
        beta: Weight of the distance in the paper's loss.
        box: Keep P in [0, 1] by projection (paper, App. A.1).
        surrogate: ``"identity"`` or ``"sigmoid"`` backward pass of the threshold (App. A.2).
        temperature: Of the sigmoid.
        anneal: Factor by which the temperature grows over the run.
        gamma_weights: Distance weights ``1 / (1 + gamma)`` (App. A.4); gamma itself belongs to the edit space.
        mode: What other explainers call their presets: ``"minimal"``, ``"paper"``, or ``"legacy_gretel"``: the paper's
            variants as the code behind the published tables ran them, without the model's gradient (see
            :mod:`counteredge.explainers.legacy`).
        postprocess: ``"shrink"`` makes answers one-minimal, ``None`` does not; ``"auto"`` does for ``minimal``.
        memory: Bytes that one batched pass may take.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> class Triangles(torch.nn.Module):  # says 1 exactly when the graph has at least three edges
        ...     def forward(self, x, edge_index, batch):
        ...         edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        ...         return torch.stack([torch.full_like(edges, 2.5), edges], 1)
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> cf = XPlore().explain(Triangles(), path)
        >>> cf.found, cf.edits.added
        (True, ((0, 2),))
    """

    name: ClassVar[str] = "xplore"
    modes: ClassVar[tuple[str, ...]] = ("minimal", "paper", "legacy_gretel")

    def __init__(
        self,
        preset: Literal["minimal", "paper"] = "minimal",
        *,
        mode: Literal["minimal", "paper", "legacy_gretel"] | None = None,
        seed: int = 0,
        width: int = 8,
        per_state: int = 32,
        every: int = 4096,
        depth: int = 12,
        restarts: int = 4,
        endpoints: int = 8,
        exhaust: int = 15,
        certify: int = 0,
        features: Literal["gating", "freedom"] | None = None,
        iterations: int = 50,
        alpha: float = 0.1,
        beta: float = 0.5,
        box: bool = False,
        surrogate: Literal["identity", "sigmoid"] = "identity",
        temperature: float = 5.0,
        anneal: float = 1.0,
        gamma_weights: bool = False,
        postprocess: Literal["auto", "shrink"] | None = "auto",
        memory: int = 1 << 30,
    ) -> None:
        if preset not in ("minimal", "paper"):
            raise InputError(f"preset={preset!r} is unknown; use 'minimal' or 'paper'")
        if mode in ("minimal", "paper"):  # the word that all explainers have for it
            if preset not in ("minimal", mode):
                raise InputError(f"preset={preset!r} and mode={mode!r} contradict each other: give one of them")
            preset = mode
        elif mode == "legacy_gretel":
            preset = "paper"
        if postprocess == "auto":
            postprocess = "shrink" if preset == "minimal" else None
        super().__init__(mode=mode or preset, seed=seed, postprocess=postprocess, memory=memory)
        if certify not in (0, 1, 2):
            raise InputError(f"certify={certify!r}: enumeration is offered for 1 or 2 edge flips (0 is off)")
        if features not in (None, "gating", "freedom"):
            raise InputError(f"features={features!r} is unknown; use None, 'gating' or 'freedom'")
        if features is not None and preset != "paper":
            raise InputError("features= names the paper's variants; with preset='minimal' use edits='edges' or 'both'")
        counts = {"width": width, "per_state": per_state, "every": every, "depth": depth, "restarts": restarts}
        counts |= {"endpoints": endpoints, "exhaust": exhaust}
        for option, value in {**counts, "iterations": iterations}.items():
            least = 0 if option in ("restarts", "endpoints", "exhaust") else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{option} must be a whole number >= {least}, got {value!r}")
        given = {
            **counts,
            "iterations": iterations,
            "alpha": alpha,
            "beta": beta,
            "box": box,
            "surrogate": surrogate,
            "temperature": temperature,
            "anneal": anneal,
            "gamma_weights": gamma_weights,
        }
        _refuse_dead_options(preset, given)
        if mode == "legacy_gretel":
            unread: dict[str, Any] = {"box": box or None, "gamma_weights": gamma_weights or None}
            unread["surrogate"] = None if surrogate == "identity" else surrogate
            refuse_dead("mode='legacy_gretel'", unread)
        self.variant = preset
        self.plain_numbers = preset == "paper"
        self.needs_gradients = preset == "paper" and mode != "legacy_gretel"
        self.takes_references = preset == "minimal"
        self.beam = BeamOptions(every=every, width=width, per_state=per_state, depth=depth)
        # the beam keeps four candidates a place before it removes equals, and ranks all moves of each place
        self.copies = 8 * width if preset == "minimal" else 16
        self.restarts, self.certify = restarts, certify
        self.endpoints, self.exhaust = endpoints, exhaust
        self.paper_features = features
        self.descent = DescentOptions(
            iterations=iterations,
            alpha=alpha,
            beta=beta,
            features=features,
            box=box,
            surrogate=surrogate,
            temperature=temperature,
            anneal=anneal,
            gamma_weights=gamma_weights,
        )

    def parameters(self) -> dict[str, Any]:
        """The options of the chosen preset."""
        if self.mode == "legacy_gretel":
            own = {name: getattr(self.descent, name) for name in ("iterations", "alpha", "beta", "features", "noise")}
            return {**own, **super().parameters()}
        if self.variant == "paper":
            return {**asdict(self.descent), **super().parameters()}
        return {
            **asdict(self.beam),
            "restarts": self.restarts,
            "endpoints": self.endpoints,
            "exhaust": self.exhaust,
            "certify": self.certify,
            **super().parameters(),
        }

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        if self.variant == "paper":
            return f"none of the {self.descent.iterations} iterates was a counterfactual"
        depth = 2 if search.oracle.decision.flat else self.beam.depth
        descents = f", nor in {self.restarts} mask descents" if self.restarts and _descends(search) else ""
        ends = ", and no endpoint far away that flips" if self.endpoints else ""
        return f"no answer within {min(depth, self.beam.depth)} greedy edits{descents}{ends}"

    def _space(self, space: EditSpace) -> EditSpace:
        if self.variant == "paper" and space.structural is None:
            space = replace(space, structural="frozen")
        if self.variant == "paper" and self.descent.features is None:
            return space.only(features=False)
        return space

    def _schema(self, graphs: Sequence[Data], space: EditSpace) -> FeatureSchema:
        if self.variant == "minimal":
            return super()._schema(graphs, space)
        width = 1 if graphs[0].x.dim() == 1 else int(graphs[0].x.shape[1])
        return FeatureSchema.fixed(width).as_numbers()

    def _search(self, search: Search) -> None:
        if self.mode == "legacy_gretel":
            d = self.descent
            legacy = LegacyOptions(d.iterations, d.alpha, d.beta, True, self.paper_features)
            run_legacy(search, search.open_rows(), legacy, seed=self.seed)
        elif self.variant == "paper":
            descend(search, search.open_rows(), self.descent, seed=self.seed, stage="descent")
        else:
            search.moves.check_bounds()
            self._minimal(search)

    def _minimal(self, search: Search) -> None:
        """Cheap stages first; each sees the graphs that those before left open."""
        beam, flat = self.beam, search.oracle.decision.flat
        rows = search.open_rows()
        few = enumerable(search, rows, self.exhaust)
        # where all sets will be tried, and where margins say no more than yes or no, depth is of no use
        shallow = replace(beam, depth=min(beam.depth, 1 if flat else 2))
        beam_search(search, rows[few], shallow)
        partial = beam_search(search, rows[~few], shallow if flat else beam)
        enumerate_all(search, search.open_rows(rows[few]))
        if flat and beam.depth > 1:
            try_pairs(search, search.open_rows(), beam.every)
        if search.oracle.way(search.base).ranks and beam.depth > 1:
            partial = partial[torch.isin(partial.row, search.open_rows()).nonzero().flatten()]
            for start in (partial, State.start(search.base, partial.row)):
                for options in LEAPS:
                    leap(search, start, options)
        if _descends(search):
            leapt = search.solved[partial.row] if len(partial) else partial.row.bool()
            for restart in range(self.restarts):
                # leaps are quick, a descent often ends nearer
                more = partial.row[leapt] if not restart else partial.row[:0]
                rows = torch.cat([search.open_rows(), more]).sort().values
                descend(search, rows, ESCALATION, seed=self.seed, restart=restart)
            if self.restarts:
                descend(search, search.open_rows(), FAR, seed=self.seed, restart=self.restarts, stage="descent-far")
        if self.endpoints:
            ends = EndpointOptions(keep=self.endpoints)
            if len(search.references[0]):
                walk_back(search, search.open_rows(), ends, seed=self.seed, references=True)
            walk_back(search, search.open_rows(), ends, seed=self.seed)

    def _lower_bound(self, search: Search, row: int) -> int | None:
        if not self.certify or bool(search.stopped[row] & ~search.solved[row]):
            return None
        return edge_lower_bound(search, row, self.certify)


def _refuse_dead_options(preset: str, given: dict[str, Any]) -> None:
    """An option of the other preset would be accepted and change nothing."""
    defaults = inspect.signature(XPlore.__init__).parameters
    of_minimal = ("width", "per_state", "every", "depth", "restarts", "endpoints", "exhaust")
    for option, value in given.items():
        belongs = "minimal" if option in of_minimal else "paper"
        if belongs != preset and value != defaults[option].default:
            raise InputError(f"{option}= belongs to preset={belongs!r} and does nothing with preset={preset!r}")


def _descends(search: Search) -> bool:
    """Whether gradients reach all that may change."""
    return search.oracle.way(search.base).exact or not bool(search.moves.allowed.flip.any())

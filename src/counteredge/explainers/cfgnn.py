"""CF-GNNExplainer: delete edges by gradient descent on a mask."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.engine.masks import straight_through
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search
from counteredge.explainers.base import Explainer
from counteredge.explainers.legacy import LegacyOptions, run_legacy
from counteredge.explainers.options import choice, flag, number, refuse_dead
from counteredge.space import EditSpace

__all__ = ["CFGNNExplainer"]

BETA = ("inert", "ste")


class CFGNNExplainer(Explainer):
    """Counterfactuals by edge deletion (Lucic et al., AISTATS 2022).

    One logit P a present edge, all 1 at first, ``S = sigmoid(P)``. Each step evaluates the relaxed graph ``S o A`` and
    the discrete one ``1[S >= 0.5] o A`` and descends on
    ``1[discrete prediction unchanged] * log p_{y0}(relaxed) + beta * |A - discrete|_1 / 2``; of the discrete graphs
    that flip, the one of lowest loss (fewest deletions) is the answer.

    Args:
        mode: ``"paper"``; ``"reference"``, which as the authors' evaluation takes the first counterfactual instead of
            the best one; ``"improved"``: gradients through degrees and through the distance; ``"legacy_gretel"``:
            without the model's gradient, every edge goes at step 45, see :mod:`counteredge.explainers.legacy`.
        iterations: Steps K.
        lr: Step size. The paper: 0.1, and 0.01 with ``momentum=0.9`` on BA-Shapes.
        beta: Weight of the distance; 0.5 when ``None``.
        optimizer: ``"sgd"`` (default) or ``"adadelta"``.
        momentum: Of SGD, Nesterov's; none by default.
        clip: Largest norm of a graph's gradient.
        detach_degree: Send no gradient through the degrees that layers divide by, as the paper's relaxed pass does;
            ``False`` in ``improved``. It has its effect where the model has a dense twin (GCN and SAGE layers).
        beta_mode: ``"inert"``: the distance of the discrete graph has no slope, as in the equations; ``"ste"``: it is
            given that of the sigmoid, so that needless deletions come back (``improved``).
        select: ``"best"`` or ``"first"``.
        seed: Nothing is drawn; for the record.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one batched pass may take.

    Example:
        >>> CFGNNExplainer(mode="improved").parameters()["beta_mode"]
        'ste'
    """

    name: ClassVar[str] = "cfgnn"
    title: ClassVar[str] = "CF-GNNExplainer"
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved", "legacy_gretel")
    needs_gradients = True

    def __init__(
        self,
        *,
        mode: Literal["paper", "reference", "improved", "legacy_gretel"] = "paper",
        iterations: int | None = None,
        lr: float = 0.1,
        beta: float | None = None,
        optimizer: Literal["sgd", "adadelta"] | None = None,
        momentum: float | None = None,
        clip: float | None = 2.0,
        detach_degree: bool | None = None,
        beta_mode: Literal["inert", "ste"] | None = None,
        select: Literal["best", "first"] | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        legacy, better = mode == "legacy_gretel", mode == "improved"
        if legacy:
            dead = {"beta": beta, "optimizer": optimizer, "momentum": momentum, "detach_degree": detach_degree}
            refuse_dead("mode='legacy_gretel'", dead | {"beta_mode": beta_mode, "select": select})
        iterations = (50 if legacy else 500) if iterations is None else iterations
        self.beta = number("beta", 0.5 if beta is None else beta, 0)
        self.detach_degree = flag("detach_degree", (not better) if detach_degree is None else detach_degree)
        self.beta_mode = choice("beta_mode", ("ste" if better else "inert") if beta_mode is None else beta_mode, BETA)
        select = ("first" if mode == "reference" else "best") if select is None else select
        choice("select", select, ("best", "first"))
        self.schedule = Schedule(iterations, lr, optimizer or "sgd", momentum or 0.0, clip, select, passes=2)
        self.needs_gradients = not legacy
        self.copies = 16

    def parameters(self) -> dict[str, Any]:
        """The options, as they work in the chosen mode."""
        s = self.schedule
        if self.mode == "legacy_gretel":
            return {"iterations": s.iterations, "lr": s.lr, **super().parameters()}
        return {
            "iterations": s.iterations,
            "lr": s.lr,
            "beta": self.beta,
            "optimizer": s.optimizer,
            "momentum": s.momentum,
            "clip": s.clip,
            "detach_degree": self.detach_degree,
            "beta_mode": self.beta_mode,
            "select": s.select,
            **super().parameters(),
        }

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        if self.mode == "legacy_gretel":
            return f"within {self.schedule.iterations} looks, all edges or none of them gone, nothing flipped"
        return f"none of the {self.schedule.iterations} graphs with edges deleted was a counterfactual"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(add_edges=False, features=False)

    def _search(self, search: Search) -> None:
        rows = search.open_rows()
        if self.mode == "legacy_gretel":
            run_legacy(search, rows, LegacyOptions(self.schedule.iterations, self.schedule.lr), seed=self.seed)
            return
        optimise(search, rows, lambda at: _Masks(search, rows[at], self), self.schedule, stage="descent")


class _Masks(Masks):
    def __init__(self, search: Search, rows: Tensor, explainer: CFGNNExplainer) -> None:
        super().__init__(search, rows)
        self.of = explainer
        self.leaves = [torch.ones_like(self.a).requires_grad_()]

    def step(self, t: int) -> Step:
        search, of = self.search, self.of
        s = torch.sigmoid(self.mirrored(self.leaves[0]))
        free = self.deletable
        kept = (s >= 0.5).to(s.dtype)
        soft, hard = torch.where(free, s, self.a), torch.where(free, kept, self.a).detach()
        z = search.oracle.relaxed(search.base, self.rows, soft, self.x, detach_degree=of.detach_degree)
        state = State(self.rows, hard, self.x)
        _, valid = self.judged(state)
        felt = torch.where(free, straight_through(s, kept), self.a) if of.beta_mode == "ste" else hard
        prediction = -(~valid).to(z.dtype) * search.oracle.decision.prediction_loss(z, self.y0)
        loss = prediction + of.beta * self.pair_count((self.a - felt).abs())
        return Step(loss, state, valid, loss.detach())

"""CF2: one mask that is to be both sufficient and necessary."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.engine.draws import noise_like
from counteredge.engine.losses import probability_margin
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import choice, flag, number, refuse_dead
from counteredge.space import EditSpace

__all__ = ["CF2"]


class CF2(Explainer):
    """Counterfactual and factual reasoning over one edge mask (Tan et al., WWW 2022).

    A weight ``w_ij = (sigmoid(M_ij) + sigmoid(M_ji)) / 2`` for each present edge, ``M ~ N(1, 2 / n)`` at first. The
    kept part ``w o A`` is to have the old prediction (factual), the rest ``(1 - w) o A`` another one (counterfactual):
    ``L = |w|_1 + lam * (alp * L_f + (1 - alp) * L_c)``, ``L_f = relu(gam - margin_p(w o A))``,
    ``L_c = relu(gam + margin_p((1 - w) o A))`` with ``margin_p = p_{y0} - max_{c != y0} p_c``, ``|w|_1`` over both
    directions of an edge. The answer is the graph without the edges of ``w > thr``.

    Args:
        mode: ``"paper"``: the mask of the last step; ``"reference"``: as the authors' code, the binary loss is that of
            class 1 whatever the graph's own; ``"improved"``: ``alp=0`` and the best discrete graph on the way;
            ``"legacy_gretel"``: see ``trained_graphs``.
        iterations: Steps K.
        lr: Step size of Adam.
        lam: Weight of the prediction losses; 500 when ``None``. The paper: 1000 on graphs, 500 on nodes.
        alp: Share of the factual loss, 0.6 in the paper; 0 is a pure counterfactual search.
        gam: Margin of probability that is asked for; 0.5 when ``None``.
        thr: An edge goes when its weight is above; 0.5 when ``None``. The paper: 0.1 on Tree-Cycles.
        features: Also a mask on binary columns: entries of ``w > thr`` become 0.
        binary_form: Which class the loss of a single logit is about: ``"y0"``, or ``"class1"``.
        select: ``"last"``, or ``"best"``: the fewest deletions that flip, of all steps.
        trained_graphs: With ``mode="legacy_gretel"``: how many graphs the one mask that all of them share was trained
            on. Its loss there is the L1 term alone and gradients pile up, so that every logit sinks by ``lr`` a graph
            and step, and all edges go exactly when the float32 sigmoid has become 0, after ``88.7 / (lr * iterations)``
            graphs; before that nothing does.
        seed: Of the start.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one batched pass may take.

    Example:
        >>> CF2(lam=500, alp=0).parameters()["alp"]
        0.0
    """

    name: ClassVar[str] = "cf2"
    title: ClassVar[str] = "CF²"
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved", "legacy_gretel")
    needs_gradients = True

    def __init__(
        self,
        *,
        mode: Literal["paper", "reference", "improved", "legacy_gretel"] = "paper",
        iterations: int | None = None,
        lr: float | None = None,
        lam: float | None = None,
        alp: float | None = None,
        gam: float | None = None,
        thr: float | None = None,
        features: bool = False,
        binary_form: Literal["y0", "class1"] | None = None,
        select: Literal["last", "best"] | None = None,
        trained_graphs: int | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        legacy, better = mode == "legacy_gretel", mode == "improved"
        if legacy:
            refuse_dead("mode='legacy_gretel'", {"lam": lam, "alp": alp, "gam": gam, "thr": thr, "select": select})
        self.lam = number("lam", 500.0 if lam is None else lam, 0)
        self.alp = number("alp", (0.0 if better else 0.6) if alp is None else alp, 0, 1)
        self.gam = number("gam", 0.5 if gam is None else gam, 0, 1)
        self.thr = number("thr", 0.5 if thr is None else thr, 0, 1)
        self.features = flag("features", features)
        binary_form = ("class1" if mode == "reference" else "y0") if binary_form is None else binary_form
        self.binary_form = choice("binary_form", binary_form, ("y0", "class1"))
        select = ("best" if better else "last") if select is None else select
        choice("select", select, ("last", "best"))
        if legacy and (not isinstance(trained_graphs, int) or trained_graphs < 1):
            raise InputError(
                "mode='legacy_gretel' needs trained_graphs=: how many graphs the shared mask was trained on"
            )
        if not legacy and trained_graphs is not None:
            raise InputError(f"trained_graphs= belongs to mode='legacy_gretel' and does nothing with mode={mode!r}")
        self.trained_graphs = trained_graphs
        lr = (0.02 if legacy else 0.05) if lr is None else lr
        iterations = (20 if legacy else 500) if iterations is None else iterations
        held = 1 + (self.alp > 0)
        self.schedule = Schedule(
            iterations, lr, "adam", select=select, later=True, passes=held + (select == "best"), held=held
        )
        self.needs_gradients = not legacy
        self.copies = 24

    def parameters(self) -> dict[str, Any]:
        """The options, as they work in the chosen mode."""
        s = self.schedule
        own: dict[str, Any] = {"iterations": s.iterations, "lr": s.lr}
        if self.mode == "legacy_gretel":
            return {**own, "trained_graphs": self.trained_graphs, **super().parameters()}
        own |= {name: getattr(self, name) for name in ("lam", "alp", "gam", "thr", "features", "binary_form")}
        return {**own, "select": s.select, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        if self.mode == "legacy_gretel":
            return "the shared mask keeps every edge, or deletes all of them without a flip"
        which = "the last mask" if self.schedule.select == "last" else f"any of the {self.schedule.iterations} masks"
        return f"deleting the edges that {which} marks is no counterfactual"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(add_edges=False, features=self.features and self.mode != "legacy_gretel")

    def _search(self, search: Search) -> None:
        rows = search.open_rows()
        if self.mode == "legacy_gretel":
            self._shared_mask(search, rows)
            return
        optimise(search, rows, lambda at: _Masks(search, rows[at], self), self.schedule, stage="descent")

    def _shared_mask(self, search: Search, rows: Tensor) -> None:
        """All edges go when the one logit that they share has sunk so far that nothing is left of it."""
        sunk = self.schedule.lr * self.schedule.iterations * (self.trained_graphs or 0)
        if bool(torch.sigmoid(torch.tensor(-sunk, dtype=torch.float32)) > 0):
            return
        rows = rows[search.affordable(rows, torch.ones_like(rows))]
        adj = torch.where(search.moves.allowed.flip[rows], 0.0, search.base.adj[rows])
        search.settle(State(rows, adj, search.base.x[rows]), "legacy")


class _Masks(Masks):
    def __init__(self, search: Search, rows: Tensor, explainer: CF2) -> None:
        super().__init__(search, rows)
        self.of = explainer
        base = search.base
        graphs = tuple(base.graphs[r] for r in rows.tolist())
        spread = (2 / base.sizes[rows].clamp(min=1).double()).sqrt()[:, None, None]
        self.leaves = [(1 + spread * noise_like(graphs, base.nodes, None, explainer.seed, 0)).requires_grad_()]
        moves = search.moves
        self.columns = self.editable & moves.binary & moves.allowed.fall & (self.x > 0.5)
        if bool(self.columns.any()):
            start = noise_like(graphs, base.nodes, self.x.shape[2], explainer.seed, 1)
            self.leaves.append((1 + spread * start).requires_grad_())

    def keep(self, at: Tensor) -> None:
        """Go on with some of the graphs only."""
        self.columns = self.columns[at]
        super().keep(at)

    def step(self, t: int) -> Step:
        of, rows = self.of, self.rows
        w, wx = self._weights()
        parts = [self._graph(1 - w, 1 - wx)] + ([self._graph(w, wx)] if of.alp > 0 else [])
        adj, x = (torch.cat(p) for p in zip(*parts, strict=True))
        z = self.search.oracle.relaxed(self.search.base, rows.repeat(len(parts)), adj, x)
        margins = [self._margin(part) for part in torch.split(z, len(rows))]
        prediction = (1 - of.alp) * (of.gam + margins[0]).clamp(min=0)
        if of.alp > 0:
            prediction = prediction + of.alp * (of.gam - margins[1]).clamp(min=0)
        size = (w * self.deletable).flatten(1).sum(1) + (wx * self.columns).flatten(1).sum(1)
        loss = size + of.lam * prediction
        if of.schedule.select == "last":
            return Step(loss)
        found = self.last()
        return Step(loss, found.state, found.valid, found.cost)

    def last(self) -> Step:
        """The graph without what the mask marks."""
        w, wx = (t.detach() for t in self._weights())
        adj, x = self._graph((w <= self.of.thr).to(w.dtype), (wx <= self.of.thr).to(wx.dtype))
        state = State(self.rows, adj, x)
        _, valid = self.judged(state)
        return Step(None, state, valid, self.search.moves.costs(state))

    def _weights(self) -> tuple[Tensor, Tensor]:
        w = self.averaged(torch.sigmoid(self.leaves[0]))
        return w, torch.sigmoid(self.leaves[1]) if len(self.leaves) > 1 else torch.zeros_like(self.x)

    def _graph(self, share: Tensor, share_x: Tensor) -> tuple[Tensor, Tensor]:
        """The graph with this share of each edge and entry that may go."""
        return (
            torch.where(self.deletable, share * self.a, self.a),
            torch.where(self.columns, share_x * self.x, self.x) if len(self.leaves) > 1 else self.x,
        )

    def _margin(self, z: Tensor) -> Tensor:
        decision = self.search.oracle.decision
        if decision.task != "binary":
            return probability_margin(decision, z, self.y0)
        # a single logit: p - 1/2 instead of p - (1 - p)
        y0 = torch.ones_like(self.y0) if self.of.binary_form == "class1" else self.y0
        return probability_margin(decision, z, y0) / 2

"""C2Explainer: customisable mask optimisation with edge deletions, edge additions and new nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from counteredge.edits import EditSet
from counteredge.engine.draws import uniform_like
from counteredge.engine.losses import Targets, reached, targets, towards
from counteredge.engine.masks import straight_through
from counteredge.engine.moves import State
from counteredge.engine.optimise import Masks, Schedule, Step, optimise
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.options import choice, number, refuse_dead, whole
from counteredge.graphs import GraphBatch
from counteredge.nodes import NodeOracle
from counteredge.nodes.head import MARK
from counteredge.space import EditSpace

__all__ = ["C2Explainer"]


class C2Explainer(Explainer):
    """Counterfactuals by a straight-through mask over chosen pairs, towards a class (Ma et al., FAccT 2025).

    Two logits ``theta`` a candidate pair, ``w_ij = (sigmoid(theta_ij) + sigmoid(theta_ji)) / 2``; the forward pass sees
    ``1[w > 0.5]``, the backward pass ``w``. ``L = CE(z, y*) + beta * sum |sigmoid(theta) - a0|`` over both directions,
    ``a0`` being 1 for present edges and 0 for absent ones. Of all discrete graphs predicted ``y*`` the one with the
    fewest flips is the answer.

    Candidates of a node: the edges of its ball, and with ``candidates="ball"`` all absent pairs of nodes within L hops
    of it (L message-passing layers). Candidates of a graph: its edges, and either edges to ``new_nodes`` nodes that
    copy the features of the first ones (paper), or with ``new_nodes=0`` all absent pairs.

    Args:
        mode: ``"paper"``; ``"reference"``: answers of 10 undirected edits or more are dropped; ``"improved"``: adds
            edges between existing nodes of a graph instead of new nodes, and any other class will do.
        iterations: Steps K.
        lr: Step size of Adam.
        beta: Weight of the flips.
        candidates: ``"ball"``; ``"target"``: only pairs with the explained node (the paper's action-restricted mode);
            ``"deletions"``: only present edges (its subgraph mode).
        new_nodes: How many nodes may come (graph tasks).
        init: ``"uniform"``: ``theta ~ U(-1, 1)``, a random graph; ``"input"``: 2 for present and -2 for absent pairs.
            The latter looks better and is not: from there all candidates drift together under Adam, and answers on the
            released node oracles were larger.
        targets: The class aimed at: ``"runner_up"``, ``"next"``, or ``"all"`` in turn.
        drop_above: Answers of more flips count as none.
        seed: Of the start.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one batched pass may take.

    Example:
        >>> C2Explainer(mode="improved").parameters()["new_nodes"]
        0
    """

    name: ClassVar[str] = "c2explainer"
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved")
    needs_gradients = True
    looks_far = False

    def __init__(
        self,
        *,
        mode: Literal["paper", "reference", "improved"] = "paper",
        iterations: int = 1000,
        lr: float = 0.1,
        beta: float = 1.0,
        candidates: Literal["ball", "target", "deletions"] = "ball",
        new_nodes: int | None = None,
        init: Literal["uniform", "input"] | None = None,
        targets: Targets = "runner_up",
        drop_above: int | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        better = mode == "improved"
        self.init = choice("init", "uniform" if init is None else init, ("uniform", "input"))
        self.candidates = choice("candidates", candidates, ("ball", "target", "deletions"))
        self.targets: Targets = choice("targets", targets, ("runner_up", "next", "all"))
        if candidates != "ball":
            refuse_dead(f"candidates={candidates!r}", {"new_nodes": new_nodes})
        self.new_nodes = whole("new_nodes", (0 if better else 3) if new_nodes is None else new_nodes, 0)
        self.drop_above = 9 if drop_above is None and mode == "reference" else drop_above
        if self.drop_above is not None:
            whole("drop_above", self.drop_above, 1)
        number("beta", beta, 0)
        self.beta = beta
        self.schedule = Schedule(iterations, lr, "adam", passes=2)
        self.copies = 32

    def parameters(self) -> dict[str, Any]:
        """The options, as they work in the chosen mode."""
        names = ("beta", "candidates", "new_nodes", "init", "targets", "drop_above")
        own = {"iterations": self.schedule.iterations, "lr": self.schedule.lr}
        return {**own, **{name: getattr(self, name) for name in names}, **super().parameters()}

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        most = "" if self.drop_above is None else f" with at most {self.drop_above} flips"
        return f"none of the {self.schedule.iterations} graphs{most} was predicted as the class aimed at"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(features=False, add_edges=self.candidates != "deletions")

    def _search(self, search: Search) -> None:
        rows, target = targets(search, search.open_rows(), self.targets)
        node = isinstance(search.oracle, NodeOracle)
        if self.candidates == "target" and not node:
            raise InputError("candidates='target' are pairs with an explained node: it goes with node=")
        if self.new_nodes and self.candidates == "ball" and not node:
            self._with_new_nodes(search, rows, target, self.new_nodes if search.moves.allowed.grows else 0)
            return
        flip = _near_target(search, self.candidates) if node else None
        make = lambda at: _Masks(search, rows[at], target[at], self, flip)  # noqa: E731
        optimise(search, rows, make, self.schedule, stage="descent")

    def _with_new_nodes(self, search: Search, rows: Tensor, target: Tensor, count: int) -> None:
        """The same on graphs that have further nodes; those that get no edge are not in the answer."""
        base, allowed = search.base, search.moves.allowed
        if count and (allowed.keep_connected or allowed.max_degree is not None or allowed.chemistry or search.several):
            raise InputError(
                "new nodes cannot be held to keep_connected, max_degree or chemistry, nor be among several answers "
                "(k > 1): set new_nodes=0 for edges between the nodes there are, or EditSpace(nodes=False)"
            )
        grown, fresh = [], []
        for g in base.graphs:
            x = g.x.reshape(len(g.x), -1)
            copied = torch.arange(count) % len(x)
            fresh.append(tuple(tuple(row) for row in x[copied].tolist()))
            grown.append(EditSet(new_nodes=fresh[-1], nodes=len(x)).apply(g))
        wide = GraphBatch.from_graphs(
            grown, base.ids.tolist(), directed=base.directed, dtype=base.x.dtype, kind=base.kind,
            new_edges=base.new_edges,
        )  # fmt: skip
        wider = _Grown(search, wide, count)
        make = lambda at: _NewNodeMasks(wider, rows[at], target[at], self)  # noqa: E731
        optimise(wider, rows, make, self.schedule, stage="descent")
        self._hand_over(search, wider, fresh)

    def _hand_over(self, search: Search, wider: _Grown, fresh: list[Any]) -> None:
        """What was found on grown graphs, as edits of the graphs themselves."""
        found: dict[int, EditSet] = {}
        for r in wider.solved.nonzero().flatten().tolist():
            n = len(search.base.graphs[r].x)
            state, before = wider.state.adj[r] > 0.5, wider.base.adj[r] > 0.5
            changed = (state != before) if search.base.directed else (state != before).triu(1)
            pairs = changed.nonzero().tolist()
            used = sorted({v for pair in pairs for v in pair if v >= n})
            number = {v: v if v < n else n + used.index(v) for v in {v for pair in pairs for v in pair}}
            added = tuple((number[i], number[j]) for i, j in pairs if state[i, j])
            removed = tuple((i, j) for i, j in pairs if before[i, j])
            rows = tuple(fresh[r][v - n] for v in used)
            found[r] = EditSet(added, removed, directed=search.base.directed, new_nodes=rows, nodes=n)
        search.stopped |= wider.stopped
        search.settle_edits(found, "descent")


class _Masks(Masks):
    """Logits of candidate pairs among the nodes there are."""

    def __init__(
        self, search: Search, rows: Tensor, target: Tensor, explainer: C2Explainer, flip: Tensor | None = None
    ) -> None:
        self.only = None if flip is None else flip[rows]
        super().__init__(search, rows)
        self.of, self.target = explainer, target
        base = search.base
        if explainer.init == "input":
            theta = 4 * (self.a - 0.5)
        else:
            graphs = tuple(base.graphs[r] for r in rows.tolist())
            theta = uniform_like(graphs, base.nodes, None, explainer.seed, 0)
        self.leaves = [theta.clone().requires_grad_()]

    def _cut(self, rows: Tensor) -> None:
        super()._cut(rows)
        if self.only is not None:
            self.flip = self.flip & self.only

    def keep(self, at: Tensor) -> None:
        """Go on with some of the graphs only."""
        self.target = self.target[at]
        self.only = None if self.only is None else self.only[at]
        super().keep(at)

    def step(self, t: int) -> Step:
        search, of = self.search, self.of
        decision = search.oracle.decision
        sigma = torch.sigmoid(self.leaves[0])
        w = self.averaged(sigma)
        adj = torch.where(self.flip, straight_through(w, (w > 0.5).to(w.dtype)), self.a)
        z = search.oracle.relaxed(search.base, self.rows, adj, self.x)
        state = State(self.rows, adj.detach(), self.x)
        y = self._discrete(state)
        flips = decision.margins(y, self.y0) < -search.oracle.tolerance(y)
        valid = flips if of.mode == "improved" else reached(decision, y, self.target, flips)
        valid = valid & search.legal(state, valid)
        count = self.pair_count((state.adj != self.a).to(w.dtype))
        valid = valid & (count > 0)
        if of.drop_above is not None:
            valid = valid & (count <= of.drop_above)
        size = ((sigma - self.a).abs() * self.flip).flatten(1).sum(1)
        loss = towards(decision, z, self.y0, self.target) + of.beta * size
        return Step(loss, state, valid, count)

    def _discrete(self, state: State) -> Tensor:
        """Outputs of the discrete graphs."""
        return self.search.oracle.logits(self.search.base, state.row, state.adj, state.x)


class _Grown(Search):
    """A search over the same graphs with ``count`` further nodes each, whose only new pairs are those with them."""

    def __init__(self, search: Search, base: GraphBatch, count: int) -> None:
        allowed = search.moves.allowed
        size, n = base.size, base.nodes
        own = search.base.nodes
        flip = torch.zeros(size, n, n, dtype=torch.bool)
        flip[:, :own, :own] = allowed.flip & (search.base.adj > 0.5)
        # a node that is not frozen may get an edge to a new node
        may = torch.zeros(size, n, dtype=torch.bool)
        may[:, :own] = allowed.free
        place = torch.arange(n)
        old = search.base.sizes
        new = (place >= old[:, None]) & (place < (old + count)[:, None])
        flip |= (may[:, :, None] & new[:, None, :]) | (new[:, :, None] & may[:, None, :])
        x = torch.zeros(size, n, base.x.shape[2], dtype=torch.bool)
        cost, gamma = torch.ones_like(base.adj), torch.zeros_like(base.adj)
        grown = replace(allowed, flip=flip, features=x, cost=cost, gamma=gamma, chemistry=None)
        super().__init__(search.oracle, base, grown, search.before, search.budget, search.deadline, lambda done: None)
        self.new = new
        self.solved, self.stopped = search.solved.clone(), search.stopped.clone()

    def settle(self, s: State, stage: str) -> None:
        """What stands here is settled on the graphs themselves, see ``_hand_over``."""
        better = s[self.improves(s)]
        self.state.adj[better.row], self.state.x[better.row] = better.adj, better.x
        self.solved[better.row] = True


class _NewNodeMasks(_Masks):
    """Logits of present edges and of edges to new nodes; the discrete graph has those new nodes that have edges."""

    search: _Grown

    def _discrete(self, state: State) -> Tensor:
        search = self.search
        base = search.base
        idle = search.new[state.row] & ((state.adj.sum(1) + state.adj.sum(2)) == 0)
        # those without edges go to the end, where padding is; pairs of new nodes are alike in all but their ends
        order = torch.argsort(idle.long(), dim=1, stable=True)
        adj = state.adj.take_along_dim(order[:, :, None], 1).take_along_dim(order[:, None, :], 2)
        mask = (base.mask[state.row] & ~idle).take_along_dim(order, 1)
        x = state.x.take_along_dim(order[:, :, None], 1)
        # a graph may stand here for several targets: each has a mask, and so a row, of its own
        rows = torch.arange(len(state))
        own = replace(
            base, graphs=tuple(base.graphs[r] for r in state.row.tolist()), ids=base.ids[state.row], mask=mask,
            x=x, adj=base.adj[state.row], weight=base.weight[state.row], loops=base.loops[state.row],
            _tables={k: v[state.row] for k, v in base._tables.items()},
        )  # fmt: skip
        return search.oracle.logits(own, rows, adj, x)


def _near_target(search: Search, candidates: str) -> Tensor:
    """Candidate pairs of a node task, ``(B, n, n)``.

    Edges, and pairs whose ends both lie within L hops of an explained node; with ``"target"`` only pairs that an
    explained node is an end of.
    """
    base, oracle = search.base, search.oracle
    near = torch.zeros_like(base.mask)
    for b, g in enumerate(base.graphs):
        near[b, : len(g.x)] = g[MARK].bool()
    if candidates == "target":
        return near[:, :, None] | near[:, None, :]
    linked = ((base.adj + base.adj.transpose(1, 2)) > 0.5).to(base.adj.dtype)
    hops = oracle.layers if isinstance(oracle, NodeOracle) else 0
    for _ in range(hops):
        near |= torch.bmm(linked, near.to(linked.dtype)[:, :, None])[:, :, 0] > 0
    return (base.adj > 0.5) | (near[:, :, None] & near[:, None, :])

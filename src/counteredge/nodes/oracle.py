"""An oracle for node tasks: searches on balls, decides on the full graph, and speaks in the full graph's numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MessagePassing

from counteredge.calling import stacked_inputs
from counteredge.data import check_graph, edge_attributes
from counteredge.decision import Decision, JointDecision
from counteredge.edits import EditSet
from counteredge.errors import InputError, ModelError
from counteredge.nodes.balls import IDS, Targets, cut, reach
from counteredge.nodes.head import LABELS, MARK, NodeHead
from counteredge.oracle import Oracle
from counteredge.results import Counterfactual
from counteredge.space import EditSpace, nodes_of, pairs_of
from counteredge.untouched import untouched

__all__ = ["NodeOracle"]

FAR = 8  # nodes outside a ball that are brought in, with their own surroundings, as ends of new edges
STACKED_NODES = 200_000  # nodes of full graphs that one call of the model gets
AGREEMENT = 1e-4  # a ball is large enough when its prediction is that of the full graph, relative to the logits


class NodeOracle(Oracle):
    """One node-level model and one graph, as explainers of node tasks see it.

    Search passes see each target's ball: the nodes within ``L + 1`` hops (``L`` message-passing layers; the extra hop
    keeps degrees right), and, where edges may be added, a few far nodes with their surroundings. A ball whose
    prediction is not that of the full graph is widened, up to the full graph. :meth:`predict` always runs the untouched
    model on the full graph with the ball's edits in it, so what decides never is a ball.

    Args:
        model: A node-level model.
        data: The graph.
        targets: Which nodes.
        keep_others: Cost of another node's prediction changing, in edits.
        forward_fn: ``(model, batch) -> output``.
        output_fn: Picks the logits.
        options: As for :class:`~counteredge.oracle.Oracle`.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        targets: Targets,
        *,
        keep_others: float = 0.0,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(keep_others, int | float) or not keep_others >= 0:
            raise InputError(f"keep_others must be a number >= 0, got {keep_others!r}")
        if not isinstance(model, nn.Module):
            raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        check_graph(data, "the graph")
        together = len(targets.groups[0]) if targets.groups else 1
        head = NodeHead(model, together, forward_fn, output_fn, watch=True)
        super().__init__(head, **options)
        self.head, self.together = head, together
        self.full, self.targets, self.keep_others = data, targets, float(keep_others)
        self._rows: dict[bool, Tensor] = {}
        self._noted: list[Tensor] | None = None
        self.balls: list[Data] = []
        self.layers = _layers(model)  # how far a prediction looks, as far as the layers tell

    # -- balls -------------------------------------------------------------------------------------------------------

    def prepare(self, space: EditSpace, *, whole: bool = False, far: bool = True) -> list[Data]:
        """Cut the balls, one a group of targets.

        Args:
            space: What may change, in numbers of the full graph: where edges may be added, the ends of the pairs that
                are allowed join each ball, or else some of the nodes that are not frozen.
            whole: Take the full graph for every ball, for columns that follow from all of its edges.
            far: Bring in nodes from elsewhere as ends of new edges. Otherwise the ball is so wide that it stays exact
                when edges are added between nodes that the prediction looks at now: those messages come from twice
                as far.
        """
        self._edge_keys = tuple(edge_attributes(self.full))
        layers = self.layers
        with untouched(self.head), torch.no_grad():
            rows = self._all_rows()
            labels = _labels(rows)
            full = copy.copy(self.full)
            full[LABELS] = labels
            insides = [torch.ones(len(full.x), dtype=torch.bool)] * len(self.targets.groups)
            if not whole:
                near = not far and space.add_edges
                insides = self._wide_enough(full, 2 * layers if near else layers, rows)
                if far:
                    insides = [
                        self._with_far(inside, group, layers, rows, space)
                        for inside, group in zip(insides, self.targets.groups, strict=True)
                    ]
            self.balls = [cut(full, i.to(full.x.device), g) for i, g in zip(insides, self.targets.groups, strict=True)]
            # what the other nodes are called on the ball: those at its rim may be read otherwise than in the graph
            for ball, (_, own) in zip(self.balls, self._told(self.balls), strict=True):
                ball[LABELS] = _labels(own)
        return self.balls

    def partial(self, ids: Tensor) -> Tensor:
        """Which balls are not the full graph, ``(K,)``."""
        small = torch.tensor([len(ball.x) < len(self.full.x) for ball in self.balls], dtype=torch.bool)
        return small[ids.cpu()].to(ids.device)

    def _wide_enough(self, full: Data, layers: int, rows: Tensor) -> list[Tensor]:
        """For each group the nodes of the smallest ball that predicts its targets as the full graph does."""
        groups = self.targets.groups
        found: list[Tensor | None] = [None] * len(groups)
        for hops in range(layers + 1, 2 * layers + 3):
            left = [k for k, inside in enumerate(found) if inside is None]
            if not left:
                break
            wider = [reach(full, groups[k], hops) for k in left]
            try:
                told = self._told([cut(full, i, groups[k]) for k, i in zip(left, wider, strict=True)])
            except (RuntimeError, IndexError, ValueError):
                self.caller.takes_batch = False  # a model that wants just the nodes of the full graph
                break
            for k, inside, (z, _) in zip(left, wider, told, strict=True):
                due = rows[list(groups[k])].flatten()
                if bool(((z - due).abs() <= AGREEMENT * due.abs().amax().clamp(min=1.0)).all()):
                    found[k] = inside
        return [torch.ones(len(full.x), dtype=torch.bool) if i is None else i.cpu() for i in found]

    def _told(self, balls: Sequence[Data]) -> list[tuple[Tensor, Tensor]]:
        """The model's output at the targets of each ball, ``(T * C,)``, and at all of its nodes, ``(k, C)``."""
        step = max(1, STACKED_NODES // max(1, max((len(b.x) for b in balls), default=1)))
        step = step if self.caller.takes_batch else 1
        out = []
        for start in range(0, len(balls), step):
            part = balls[start : start + step]
            z = self.caller(stacked_inputs(part, self._edge_keys)).double().reshape(len(part), -1)
            out += list(zip(z, torch.split(self._seen(), [len(b.x) for b in part]), strict=True))
        return out

    def _with_far(self, inside: Tensor, group: Sequence[int], layers: int, rows: Tensor, space: EditSpace) -> Tensor:
        """The ball and some nodes elsewhere, as different from one another as their outputs are."""
        if not space.add_edges or bool(inside.all()):
            return inside
        if space.allowed_pairs is not None:
            ends = pairs_of(space.allowed_pairs, "allowed_pairs", self.full).flatten().tolist()
            return inside | reach(self.full, ends, layers).cpu() if ends else inside
        still = nodes_of(space.frozen_nodes, self.full)
        outside = (~inside).index_fill(0, still, False).nonzero().flatten()
        if not len(outside):
            return inside
        label = _labels(rows[[group[0]]])
        own = rows[outside]
        against = Decision("binary" if rows.shape[1] == 1 else "multiclass").margins(own, label.expand(len(own)))
        # one node of each kind: nodes with equal outputs look alike to the model
        _, kind = torch.unique(torch.round(own * 1e4), dim=0, return_inverse=True)
        first = torch.full((int(kind.max()) + 1,), len(outside), dtype=torch.long)
        first.scatter_reduce_(0, kind, torch.arange(len(outside)), "amin")
        order = first.sort().values
        order = order[torch.sort(against[order], stable=True).indices]
        chosen = order[torch.linspace(0, len(order) - 1, min(FAR, len(order))).round().long()]
        room = 2 * int(inside.sum()) + 64
        grown = inside
        for u in outside[chosen].tolist():
            wider = grown | reach(self.full, [u], layers).cpu()
            if int(wider.sum()) <= room:
                grown = wider
        return grown

    # -- the judge ---------------------------------------------------------------------------------------------------

    def predict(self, graphs: Sequence[Data], ids: Sequence[int] | None = None, *, precise: bool = False) -> Tensor:
        """The untouched model on the full graph with each ball's edits in it. Shapes as in the base class."""
        if ids is None:
            self.free += len(graphs)
        else:
            self.tally[0] += torch.bincount(torch.as_tensor(ids), minlength=self.tally.shape[1])
        out = torch.zeros(len(graphs), self.outputs, dtype=torch.float64)
        groups = {id(ball): group for ball, group in zip(self.balls, self.targets.groups, strict=True)}
        edited = []
        with torch.no_grad():
            for k, ball in enumerate(graphs):
                if id(ball) in groups:
                    out[k] = self._all_rows(precise)[list(groups[id(ball)])].flatten()
                else:
                    edited.append(k)
            step = max(1, STACKED_NODES // len(self.full.x)) if self.caller.takes_batch else 1
            for s in range(0, len(edited), step):
                part = edited[s : s + step]
                inputs = stacked_inputs([self._lifted(graphs[k]) for k in part], self._edge_keys)
                out[part] = self._shaped(self.caller(inputs, self.precision if precise else None), len(part)).double()
        return out

    def _lifted(self, ball: Data) -> Data:
        """The full graph with the part that the ball covers exchanged for the ball."""
        full, ids = self.full, ball[IDS]
        inside = torch.zeros(len(full.x), dtype=torch.bool, device=ids.device)
        inside[ids] = True
        kept = ~inside[full.edge_index].all(0)
        out = copy.copy(full)
        out.edge_index = torch.cat([full.edge_index[:, kept], ids[ball.edge_index]], 1)
        for key in edge_attributes(full):
            out[key] = torch.cat([full[key][kept], ball[key]])
        out.x = full.x.index_copy(0, ids, ball.x)
        out[MARK] = inside.index_copy(0, ids, ball[MARK]) & inside
        out[LABELS] = torch.zeros(len(full.x), dtype=torch.long, device=ids.device)
        return out

    def _all_rows(self, precise: bool = False) -> Tensor:
        """The model's output at every node of the full graph, ``(n, C)``."""
        if precise not in self._rows:
            full = copy.copy(self.full)
            full[MARK] = torch.zeros(len(full.x), dtype=torch.bool, device=full.x.device)
            full[MARK][list(self.targets.groups[0])] = True
            full[LABELS] = torch.zeros(len(full.x), dtype=torch.long, device=full.x.device)
            with torch.no_grad():
                if precise:
                    self.caller(stacked_inputs([full], self._edge_keys), self.precision)
                else:
                    self._ask(full)
            self._rows[precise] = self._seen()
        return self._rows[precise]

    def _seen(self) -> Tensor:
        if self.head.rows is None:
            raise ModelError("the model has not been called")
        return self.head.rows.detach().double().cpu()

    def _decide(self, outputs: int) -> Decision:
        if self.together == 1:
            return super()._decide(outputs)
        single = super()._decide(outputs // self.together)
        return JointDecision(**vars(single), targets=self.together)

    # -- the other nodes ---------------------------------------------------------------------------------------------

    def note(self) -> None:
        """From now on, count the other nodes of the ball whose label changes in each evaluated graph."""
        self._noted = [] if self.keep_others else None

    def noted(self, count: int) -> Tensor:
        """``keep_others`` times these numbers, ``(count,)``; zero for what was not looked at for want of time."""
        out = super().noted(count)
        if self._noted:
            seen = torch.cat(self._noted)
            out[: len(seen)] = self.keep_others * seen
        self._noted = None
        return out

    def _shaped(self, out: Tensor, graphs: int) -> Tensor:
        if self._noted is not None:
            self._noted.append(self.head.disturbance())
        return super()._shaped(out, graphs)

    def soft_loss(self) -> Tensor | float:
        """``keep_others`` times the other nodes' loss in the last relaxed pass, ``(K,)``."""
        return self.keep_others * self.head.soft_loss() if self.keep_others else 0.0

    # -- results -----------------------------------------------------------------------------------------------------

    def finish(self, cf: Counterfactual) -> Counterfactual:
        """A result about a ball as one about the full graph: original numbers, collateral flips, one more check."""
        ball, group = self.balls[cf.index], self.targets.groups[cf.index]
        ids = ball[IDS].tolist()
        cf.original, cf.ball = self.full, len(ids)
        cf.node = group[0] if self.together == 1 else group
        cf.edits = _renumbered(cf.edits, ids, len(self.full.x))
        cf.collateral = ()
        if not cf.found:
            return cf
        cf.data = cf.edits.apply(self.full, self.follows)
        shown = copy.copy(cf.data)
        shown[MARK] = torch.zeros(len(shown.x), dtype=torch.bool, device=shown.x.device)
        shown[MARK][list(group)] = True
        shown[LABELS] = torch.zeros(len(shown.x), dtype=torch.long, device=shown.x.device)
        before = self._all_rows()
        with torch.no_grad():
            z = self._shaped(self.caller(stacked_inputs([shown], self._edge_keys)), 1).double()
            after = self._seen()
        self.free += 1
        y0 = self.decision.labels(before[list(group)].reshape(1, -1))
        if not bool(self.decision.flips(z, y0)[0]):
            cf.found, cf.data, cf.after, cf.minimal = False, None, None, None
            cf.edits, cf.stage, cf.reason = (
                EditSet(directed=cf.edits.directed),
                "none",
                "the full graph did not confirm",
            )
            return cf
        changed = (_labels(after) != _labels(before)).nonzero().flatten().tolist()
        cf.collateral = tuple(v for v in changed if v not in group)
        return cf


def _labels(rows: Tensor) -> Tensor:
    """What each node is called; signs stand for single outputs."""
    return (rows[:, 0] > 0).long() if rows.shape[1] == 1 else rows.argmax(1)


def _layers(model: nn.Module) -> int:
    """How far messages travel; a guess that :meth:`NodeOracle._wide_enough` tests."""
    hops = sum(max(1, int(getattr(m, "K", 1) or 1)) for m in model.modules() if isinstance(m, MessagePassing))
    return hops or 3


def _renumbered(edits: EditSet, ids: Sequence[int], n: int) -> EditSet:
    """Numbers of the ball as numbers of the full graph of ``n`` nodes; the ball keeps their order."""
    place = [*ids, *range(n, n + len(edits.new_nodes))]
    return replace(
        edits,
        added=tuple((place[i], place[j]) for i, j in edits.added),
        removed=tuple((place[i], place[j]) for i, j in edits.removed),
        features=tuple(replace(e, node=place[e.node]) for e in edits.features),
        removed_nodes=tuple(place[v] for v in edits.removed_nodes),
        attributes=tuple(replace(e, pair=(place[e.pair[0]], place[e.pair[1]])) for e in edits.attributes),
        nodes=n,
    )

"""What an edit policy sees and does: many targets played at once, and what an episode was worth."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from counteredge.data import pairs_of
from counteredge.decision import Decision, JointDecision, LabelDecision
from counteredge.edits import apply_all, edit_sets
from counteredge.engine.draws import noise_like
from counteredge.engine.moves import State
from counteredge.engine.search import Search, best_in_group
from counteredge.explainers.induce_policy import Policy, View
from counteredge.nodes import NodeOracle
from counteredge.nodes.balls import IDS
from counteredge.nodes.head import MARK
from counteredge.nodes.oracle import STACKED_NODES
from counteredge.oracle import Oracle

if TYPE_CHECKING:
    from counteredge.explainers.induce import InduCE

__all__ = ["Game", "Play", "candidates", "label_columns"]

BLOCK = 4  # without a target, additions are drawn from so many absent pairs for each edge
NEAR_ZERO = 1e-3  # losses this small are not divided by


class Game:
    """What happened in an episode: rewards, and the chances of the actions taken.

    Args:
        size: Plays.
        steps: Most steps.

    Shapes:
        reward, live: ``(steps, size)``.
    """

    def __init__(self, size: int, steps: int) -> None:
        self.moves: list[tuple[int, Tensor, Tensor, Tensor]] = []
        self.reward = torch.zeros(steps, size, dtype=torch.float64)
        self.live = torch.zeros(steps, size, dtype=torch.bool)
        self.flipped = torch.zeros(size, dtype=torch.float64)

    def note(self, t: int, at: Tensor, chance: Tensor, spread: Tensor, reward: Tensor, done: Tensor) -> None:
        """Step ``t`` of plays ``at``: log-probability of the action, the policy's entropy, the reward, the flip."""
        self.moves.append((t, at, chance, spread))
        self.reward[t, at], self.live[t, at], self.flipped[at] = reward, True, done.to(torch.float64)

    def returns(self, gamma: float) -> Tensor:
        """Rewards from each step on, discounted, ``(steps, size)``."""
        out = self.reward.clone()
        for t in range(len(out) - 2, -1, -1):
            out[t] += gamma * out[t + 1]
        return out

    def less_mean(self, returns: Tensor, repeats: int) -> Tensor:
        """Returns compared with the mean over the plays of the same target that are as far, ``(steps, size)``."""
        parts, live = (v.reshape(len(returns), -1, repeats) for v in (returns, self.live.to(returns)))
        mean = (parts * live).sum(2, keepdim=True) / live.sum(2, keepdim=True).clamp(min=1)
        return (parts - mean).reshape(returns.shape)

    def summary(self) -> tuple[Tensor, Tensor, Tensor]:
        """Undiscounted return, whether it flipped, and edits of each play, ``(size,)`` each."""
        return self.reward.sum(0), self.flipped, self.live.sum(0).to(torch.float64)


class Play:
    """Some graphs while they are edited, one edit a step.

    Args:
        search: The batch they belong to.
        rows: Which graph each play is about.
        options: Ball, reward and limits.

    Shapes:
        pair, real: ``(S, K)``, pairs that may be edited, and where the table holds one; fresh: ``(S, K)``, which still
        may; seen: ``(S, n, c)``, what the model says of the nodes; loss: ``(S,)``; index: ``(S,)``, the play's number.
    """

    def __init__(self, search: Search, rows: Tensor, options: InduCE) -> None:
        self.search, self.options = search, options
        base, oracle = search.base, search.oracle
        self.target, self.outside = torch.zeros_like(base.mask), torch.zeros_like(base.loops)
        if isinstance(oracle, NodeOracle):
            self.target[base.mask] = torch.cat([g[MARK] for g in base.graphs])
            # edges that leave the ball are edges of its nodes too
            arcs = pairs_of(oracle.full, directed=base.directed)
            degree = torch.bincount(arcs.flatten(), minlength=len(oracle.full.x)).to(base.adj)
            here = base.adj.sum(2) + (base.adj.sum(1) if base.directed else 0)
            self.outside[base.mask] = degree[torch.cat([g[IDS] for g in base.graphs])] - here[base.mask]
        pair, real = candidates(search, self.target if isinstance(oracle, NodeOracle) else None, options)
        self.labels = label_columns(oracle)
        self.state = State.start(base, rows)
        self.index = torch.arange(len(rows))
        self.pair, self.real = pair[rows], real[rows]
        self.fresh = self.real
        self.seen = torch.zeros(len(rows), base.nodes, 1 + self.labels, dtype=torch.float64)
        self.loss = torch.zeros(len(rows), dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.index)

    def take(self, which: Tensor) -> Play:
        """Some of the plays, by number or mask; these stay as they are."""
        out = copy.copy(self)
        for name in ("state", "index", "pair", "real", "fresh", "seen", "loss"):
            setattr(out, name, getattr(self, name)[which])
        # as wide as these graphs need, whatever else was in the batch
        width = max(1, int(out.real.sum(1).max())) if len(out) else 1
        for name in ("pair", "real", "fresh"):
            setattr(out, name, getattr(out, name)[:, :width])
        return out

    def sizes(self) -> Tensor:
        """Edits of the answers known so far, ``(B,)``."""
        return self.search.moves.changed(self.search.state).sum(1)

    def open(self) -> Tensor:
        """Which of the pairs may be edited now, ``(S, K)``."""
        moves = self.search.moves
        if moves.allowed.chemistry is None:
            return self.fresh
        return self.fresh & moves.open(self.state)[:, : moves.pairs].gather(1, self.pair)

    def scores(self, policy: Policy) -> Tensor:
        """What the policy says of each pair, minus infinity where it may not be edited, ``(S, K)``."""
        s, base, moves = self.state, self.search.base, self.search.moves
        mask = base.mask[s.row]
        place = torch.full(mask.shape, -1, dtype=torch.long)
        place[mask] = torch.arange(int(mask.sum()))
        degree = s.adj.sum(2) + (s.adj.sum(1) if base.directed else 0) + self.outside[s.row]
        columns = [self.seen, degree[:, :, None], s.x]
        if self.options.mark_target:
            columns.append(self.target[s.row][:, :, None])
        features = torch.cat([c.to(torch.float64) for c in columns], 2)[mask]
        linked = torch.maximum(s.adj, s.adj.transpose(1, 2)) if base.directed else s.adj
        k, i, j = (linked > 0.5).nonzero(as_tuple=True)
        which, slot = self.open().nonzero(as_tuple=True)
        pair = self.pair[which, slot]
        a, b = moves.i[pair], moves.j[pair]
        flag = (s.adj[which, a, b] > 0.5).to(torch.float64)
        ends = self.target[s.row[which], a], self.target[s.row[which], b]
        if base.directed:
            ordered = torch.ones_like(ends[0])
        else:  # the target comes first
            ordered, turned = ends[0] ^ ends[1], ends[1] & ~ends[0]
            a, b = torch.where(turned, b, a), torch.where(turned, a, b)
        arcs = torch.stack([place[k, i], place[k, j]])
        view = View(features, arcs, place[which, a], place[which, b], flag, ordered)
        h = policy.embed(view)
        scores = policy.score(view, h if self.options.train_embeddings else h.detach())
        return torch.full(self.pair.shape, -math.inf, dtype=torch.float64).index_put((which, slot), scores)

    def step(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Make an edit in each state and look; its reward, and whether the label flips, ``(S,)`` each.

        Args:
            choice: Column of ``pair``, ``(S,)``.
        """
        at = torch.arange(len(self))
        self.state = self.search.moves.apply(self.state, self.pair[at, choice])
        if not self.options.undo:
            self.fresh = self.fresh.clone()
            self.fresh[at, choice] = False
        before = self.loss
        flips = self.look()
        if self.options.reward == "potential":
            return before - self.loss + self.options.bonus * flips, flips
        small = torch.where(self.loss < 0, -NEAR_ZERO, NEAR_ZERO)
        return 1 / torch.where(self.loss.abs() < NEAR_ZERO, small, self.loss), flips

    def begin(self) -> None:
        """Look at the graphs as they are, each once however often it is played."""
        at = self.open().any(1).nonzero().flatten()
        _, back = torch.unique(self.search.base.ids[self.state.row[at]], return_inverse=True)
        first = best_in_group(back, [])
        few = self.take(at[first])
        few.look()
        self.seen[at], self.loss[at] = few.seen[back], few.loss[back]

    def look(self) -> Tensor:
        """Ask the model about the states, a call each; whether their labels flip, ``(S,)``.

        Of a node task it is asked on the full graph: the ball's rim would hide what an edge to a far node brings in.
        """
        search, s = self.search, self.state
        oracle, decision = search.oracle, search.oracle.decision
        if not len(s):
            return torch.zeros(0, dtype=torch.bool)
        outputs, seen = [], []
        for part in torch.split(torch.arange(len(s)), self._at_once()):
            z, told = self._ask(s[part])
            outputs.append(z)
            seen.append(told)
        z, self.seen = torch.cat(outputs), torch.cat(seen)
        y0 = search.y0[s.row]
        flips = decision.margins(z, y0) < -oracle.tolerance(z)
        flips &= search.legal(s, flips)
        self.loss = torch.where(flips, 0.0, _log_chance(decision, z, y0)) + self.options.beta * self._cost()
        return flips

    def _at_once(self) -> int:
        """States that one pass may hold."""
        oracle = self.search.oracle
        if not isinstance(oracle, NodeOracle):
            return oracle.chunk(self.search.base)
        return max(1, STACKED_NODES // len(oracle.full.x)) if oracle.caller.takes_batch else 1

    def _ask(self, s: State) -> tuple[Tensor, Tensor]:
        """Outputs of some states, and what is said of their nodes."""
        search, base, oracle = self.search, self.search.base, self.search.oracle
        told = torch.zeros(len(s), base.nodes, 1 + self.labels, dtype=torch.float64)
        if not isinstance(oracle, NodeOracle):
            z = _on_grid(search, oracle.logits(base, s.row, s.adj, s.x))
            return z, told + _described(oracle.decision, z, self.labels)[:, None]
        edits = edit_sets(base, s.row, s.adj, s.x, search.moves.allowed.schema)
        graphs = apply_all(edits, [base.graphs[r] for r in s.row.tolist()], oracle.follows)
        z = _on_grid(search, oracle.predict(graphs, base.ids[s.row].tolist(), precise=True))
        if oracle.head.rows is not None:
            rows = _on_grid(search, oracle.head.rows.detach().to(torch.float64)).view(len(s), len(oracle.full.x), -1)
            k = base.mask[s.row].nonzero()[:, 0]
            told[base.mask[s.row]] = _described(
                oracle.decision, rows[k, torch.cat([g[IDS] for g in graphs])], self.labels
            )
        return z, told

    def _cost(self) -> Tensor:
        """Of the edits made, ``(S,)``."""
        s, base, moves = self.state, self.search.base, self.search.moves
        i, j = moves.i[self.pair], moves.j[self.pair]
        at = torch.arange(len(self))[:, None]
        edited = self.real & (s.adj[at, i, j] != base.adj[s.row[:, None], i, j])
        return (edited * moves.unit_cost[s.row[:, None], self.pair]).sum(1)


def candidates(search: Search, target: Tensor | None, options: InduCE) -> tuple[Tensor, Tensor]:
    """The pairs of each graph that the policy may edit, and which entries of the table are such.

    Args:
        search: The batch.
        target: Explained nodes; ``None`` in graph-level tasks.
        options: Radius of the ball, seed of the pairs that are drawn.

    Shapes:
        target: ``(B, n)``; returns ``(B, K)`` pair numbers and ``(B, K)`` boolean, filled from the left.
    """
    base, moves = search.base, search.moves
    present = base.adj[:, moves.i, moves.j] > 0.5
    allowed = moves.flip.clone()
    if target is not None:
        adj = torch.maximum(base.adj, base.adj.transpose(1, 2))
        inside = target
        for _ in range(options.hops):
            inside = inside | ((inside.to(adj)[:, None] @ adj)[:, 0] > 0)
        allowed &= inside[:, moves.i] & inside[:, moves.j]
        allowed &= present | target[:, moves.i] | target[:, moves.j]
    else:
        absent = allowed & ~present
        room = BLOCK * present.sum(1, keepdim=True).clamp(min=1)
        if bool((absent.sum(1, keepdim=True) > room).any()):
            noise = noise_like(base.graphs, base.nodes, None, options.seed, 0)[:, moves.i, moves.j]
            rank = noise.masked_fill(~absent, math.inf).argsort(1).argsort(1)
            allowed &= present | (rank < room)
    row, pair = allowed.nonzero(as_tuple=True)
    count = allowed.sum(1)
    slot = torch.arange(len(row)) - (count.cumsum(0) - count)[row]
    table = torch.zeros(base.size, max(1, int(count.max())), dtype=torch.long)
    real = torch.zeros_like(table, dtype=torch.bool)
    table[row, slot], real[row, slot] = pair, True
    return table, real


def label_columns(oracle: Oracle) -> int:
    """How many columns say what a node, or a graph, is predicted as; none where outputs are no scores."""
    decision = oracle.decision
    if isinstance(decision, LabelDecision) or decision.task == "regression":
        return 0
    if decision.task == "binary":
        return 2
    return oracle.outputs // (decision.targets if isinstance(decision, JointDecision) else 1)


def _described(decision: Decision, z: Tensor, width: int) -> Tensor:
    """Entropy of the predicted distribution, and the predicted label one-hot, ``(K, 1 + width)``."""
    one = decision.single if isinstance(decision, JointDecision) else decision
    if not width:
        return torch.zeros(len(z), 1, dtype=torch.float64)
    if one.task == "multilabel":
        p = torch.stack([torch.sigmoid(z), torch.sigmoid(-z)], 2)
        return torch.cat([torch.special.entr(p).sum((1, 2))[:, None], one.labels(z).to(torch.float64)], 1)
    p = one.scores(z).softmax(1)
    label = F.one_hot(one.labels(z), width).to(torch.float64)
    return torch.cat([torch.special.entr(p).sum(1, keepdim=True), label], 1)


def _log_chance(decision: Decision, z: Tensor, y0: Tensor) -> Tensor:
    """``log p_{y0}``, ``(K,)``."""
    return -decision.prediction_loss(z, y0)


def _on_grid(search: Search, z: Tensor) -> Tensor:
    """Outputs without the digits that hang on what else is in the batch."""
    return search.snap(z) * search.grid

"""InduCE: a policy, taught by REINFORCE, says which edge to remove, or to add at the target, next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor

from counteredge.data import kinds
from counteredge.engine.draws import generator_of
from counteredge.engine.search import Budget, Search, best_in_group
from counteredge.errors import BudgetError, InputError
from counteredge.explainers.induce_play import Game, Play, label_columns
from counteredge.explainers.induce_policy import LAYERS, Policy
from counteredge.explainers.options import choice, flag, number, whole
from counteredge.explainers.trained import FitReport, Trained, Training
from counteredge.graphs import GraphBatch, bytes_per_graph
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["InduCE"]


class InduCE(Trained):
    """A policy over single edge edits, taught by REINFORCE on some graphs, for graphs it has not seen (Verma et al.).

    An edit deletes an edge of the target's ball, or joins the target to a node of it. With
    ``l_t = 1[label_t = y0] log p_y0(G_t) + beta |edits|`` an edit is rewarded by ``r_t = l_{t-1} - l_t``, and by
    ``bonus`` more where the label flips; the policy ascends on ``sum_t A_t log pi(a_t)`` plus ``entropy`` times its
    entropy, ``A_t`` being the whitened returns ``sum_k gamma^k r_{t+k}``. To explain, the likeliest edit is made until
    the label flips. For graph-level models there is no target: any edge may be deleted, and pairs to add are drawn,
    four times as many as there are edges (all where there are fewer).

    The policy sees of each node the entropy of the model's prediction (in a graph-level task the graph's), its degree,
    the predicted label and the features: all of the graph as edited so far, and of a node task as the full graph has
    them. A step is one call.

    Args:
        mode: ``"paper"``; ``"reference"``, as the released trainer ran: reciprocal reward, and a loss of which no
            gradient reaches the policy, so that nothing but the statistics of BatchNorm changes; ``"improved"``: each
            target is played several times an episode and returns are compared with the mean over these plays, the
            target is marked in its ball, and a graph gets several attempts, of which the smallest answer is kept.
        steps: Most edits (delta).
        hops: Radius of the ball (k); edits stay inside.
        episodes: Updates of the policy. The paper has 500 of two targets each.
        batch: Targets an episode, drawn anew for each; plays of the one graph with ``transductive``. By mode when
            ``None``: 32, and 8 in ``"improved"``. The paper has 2, which takes many more episodes.
        lr: Of Adam. The paper has 3e-4, for many more updates.
        beta: Weight of an edit in the loss.
        bonus: Reward of the flip.
        gamma_discount: What a reward one step later is worth.
        entropy: Weight of the policy's entropy. The paper has 0.1, its code 0.001 by default.
        layer: Graph layers of the policy: ``"gat"``, ``"gcn"`` or ``"sage"``.
        policy: ``"learned"``; ``"random"`` draws uniformly from the same edits: the control to hold sizes against. It
            needs no ``fit``.
        reward: ``"potential"`` as above, or ``"reciprocal"``: ``r_t = 1 / l_t``. By mode when ``None``.
        repeats: Plays of each target an episode; above 1 returns are compared with their mean. By mode when ``None``:
            1, and 4 in ``"improved"``.
        rollouts: Attempts at each graph: the first begins with the likeliest edit, the second with the next likeliest,
            and so on; each goes on with the likeliest. By mode when ``None``: 1, and 8 in ``"improved"``.
        mark_target: A column that says which node is the target. By mode when ``None``: only in ``"improved"``.
        detach_policy: Let no gradient reach the policy. By mode when ``None``: only in ``"reference"``.
        train_embeddings: ``False`` trains the last MLP alone, as the released transductive trainer does.
        undo: Edits may be taken back; otherwise each pair is edited once.
        transductive: A policy of its own for each graph, taught inside :meth:`explain` for ``episodes`` episodes, or
            until an answer of one edit is found; the smallest answer met on the way is kept. Calls count.
        seed: Of weights and draws.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one batched pass may take.

    Source:
        Verma et al., *InduCE: Inductive Counterfactual Explanations for Graph Neural Networks*, TMLR 2024.

    Example:
        >>> from torch_geometric.data import Data
        >>> class Pairs(torch.nn.Module):  # says 1 exactly when the graph has at least two edges
        ...     def forward(self, x, edge_index, batch):
        ...         edges = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1) / 2
        ...         return torch.stack([torch.full_like(edges, 1.5), edges], 1)
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> explainer = InduCE(episodes=40, batch=4, lr=0.03)
        >>> report = explainer.fit(Pairs(), [path])
        >>> cf = explainer.explain(Pairs(), path)
        >>> cf.found, len(cf.edits), len(cf.edits.removed)
        (True, 1, 1)
    """

    name: ClassVar[str] = "induce"
    own: ClassVar[tuple[str, ...]] = (
        "steps", "hops", "episodes", "batch", "lr", "beta", "bonus", "gamma_discount", "entropy", "layer", "policy",
        "reward", "repeats", "rollouts", "mark_target", "detach_policy", "train_embeddings", "undo", "transductive",
    )  # fmt: skip
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved")

    def __init__(
        self,
        *,
        mode: str | None = None,
        steps: int = 15,
        hops: int = 4,
        episodes: int = 150,
        batch: int | None = None,
        lr: float = 5e-3,
        beta: float = 0.5,
        bonus: float = 3.0,
        gamma_discount: float = 0.6,
        entropy: float = 0.02,
        layer: str = "gat",
        policy: str = "learned",
        reward: str | None = None,
        repeats: int | None = None,
        rollouts: int | None = None,
        mark_target: bool | None = None,
        detach_policy: bool | None = None,
        train_embeddings: bool = True,
        undo: bool = False,
        transductive: bool = False,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        improved, reference = self.mode == "improved", self.mode == "reference"
        self.steps, self.hops, self.episodes = steps, hops, episodes
        self.batch = (8 if improved else 32) if batch is None else batch
        self.repeats = (4 if improved else 1) if repeats is None else repeats
        self.rollouts = (8 if improved else 1) if rollouts is None else rollouts
        self.lr, self.beta, self.bonus, self.gamma_discount, self.entropy = lr, beta, bonus, gamma_discount, entropy
        self.layer, self.policy = layer, policy
        self.reward = ("reciprocal" if reference else "potential") if reward is None else reward
        self.mark_target = improved if mark_target is None else mark_target
        self.detach_policy = reference if detach_policy is None else detach_policy
        self.train_embeddings, self.undo, self.transductive = train_embeddings, undo, transductive
        self.epochs = episodes
        self._check()
        if self.transductive:  # all plays of a graph, before and after a step
            self.copies = max(8, 2 * self.batch * self.repeats)

    def _check(self) -> None:
        for name in ("steps", "hops", "episodes", "batch", "repeats", "rollouts"):
            whole(name, getattr(self, name), 1)
        for name in ("beta", "bonus", "entropy"):
            number(name, getattr(self, name), 0)
        number("lr", self.lr, 0, open_below=True)
        number("gamma_discount", self.gamma_discount, 0, 1)
        known = {"layer": LAYERS, "policy": ("learned", "random"), "reward": ("potential", "reciprocal")}
        for name, values in known.items():
            choice(name, getattr(self, name), tuple(values))
        for name in ("mark_target", "detach_policy", "train_embeddings", "undo", "transductive"):
            flag(name, getattr(self, name))
        if self.transductive and self.policy == "random":
            raise InputError("policy='random' learns nothing: leave transductive at False")

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        if self.transductive:
            return f"none of the edits played in {self.episodes} episodes of at most {self.steps} was a counterfactual"
        tried = f"{self.rollouts} attempts of at most {self.steps}" if self.rollouts > 1 else f"{self.steps}"
        return f"the policy found no counterfactual within {tried} edits"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(features=False)

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        if self.policy == "random" or self.transductive:
            return
        super()._ready(oracle, schema)
        due = _spec_of(oracle, schema)
        if due != self.spec:
            raise InputError(
                f"InduCE was fitted to graphs of {self.spec['features']} columns and a model of {self.spec['labels']} "
                f"labels, these have {due['features']} and {due['labels']}: fit it to them"
            )

    # -- learning ----------------------------------------------------------------------------------------------------

    def fit(self, *args: Any, **options: Any) -> FitReport:
        """Learn from graphs, or nodes of one; see :meth:`counteredge.explainers.trained.Trained.fit`.

        The paper learns from nodes that are predicted correctly and whose label is not 0. ``report.losses`` holds an
        entry an episode: ``mean_return`` (undiscounted), ``found`` and ``size`` (edits made) of the plays.
        """
        if self.policy == "random" or self.transductive:
            which = "policy='random' has nothing to learn" if self.policy == "random" else "transductive=True learns"
            raise InputError(f"{which}{' inside explain()' if self.transductive else ''}: call explain() at once")
        return super().fit(*args, **options)

    def _spec(self, training: Training) -> dict[str, Any]:
        return _spec_of(training.oracle, training.schema)

    def _build(self, spec: dict[str, Any]) -> None:
        columns = 2 + spec["labels"] + spec["features"] + self.mark_target
        self.networks["policy"] = Policy(columns, self.layer)

    @property
    def _policy(self) -> Policy:
        return cast(Policy, self.networks["policy"])

    def _fit(self, training: Training) -> None:
        z = training.outputs
        usable = torch.isfinite(z).all(1) & ~training.oracle.decision.flips(z, training.labels)
        usable = usable.nonzero().flatten()
        if not len(usable):
            raise InputError("fit has nothing to learn from: every prediction already is what was asked for")
        self._check_memory(training, usable.tolist())
        policy = self._policy
        optimiser = torch.optim.Adam(policy.parameters(), lr=self.lr)
        for _ in range(self.episodes):
            drawn = usable[torch.randint(len(usable), (self.batch,), generator=training.generator)]
            games = []
            for search in _searches(training, drawn.tolist(), self):
                rows = torch.arange(search.base.size).repeat_interleave(self.repeats)
                play = Play(search, rows, self)
                play.begin()
                games.append(self._game(play, policy, training.generator))
            self._update(policy, optimiser, games)
            means = [torch.cat(parts).mean().item() for parts in zip(*(g.summary() for g in games), strict=True)]
            training.log(mean_return=means[0], found=means[1], size=means[2])

    def _bytes(self, nodes: int, width: int) -> int:
        """What all plays of a graph take."""
        return bytes_per_graph(nodes, width, self.copies * self.repeats)

    def _check_memory(self, training: Training, numbers: list[int]) -> None:
        """Refuse graphs of which the plays do not fit, before anything is played."""
        largest = max(numbers, key=lambda i: len(training.graphs[i].x))
        nodes = len(training.graphs[largest].x)
        each = self._bytes(nodes, training.schema.width)
        if each > self.memory:
            raise BudgetError(
                f"graph {largest} with {nodes} nodes needs {each / 2**20:.0f} MiB for {self.repeats} plays at once, "
                f"the bound is {self.memory / 2**20:.0f} MiB: raise memory=, lower repeats=, or leave it out of fit"
            )

    def _game(
        self,
        play: Play,
        policy: Policy,
        generator: torch.Generator,
        may: Callable[[int], bool] = lambda count: True,
        met: Callable[[Play, Tensor], bool] = lambda play, done: True,
    ) -> Game:
        """Play one episode by chance, edit by edit, all targets at once.

        Args:
            play: At its start, :meth:`Play.begin` done.
            policy: Whose chances are taken.
            generator: Of the draws.
            may: Told how many states are to be looked at next; ``False`` ends the game.
            met: Told which states flip; ``False`` ends the game.
        """
        game = Game(len(play), self.steps)
        play = play.take(play.open().any(1))
        if not len(play):
            return game
        # the statistics follow the graphs; actions are chosen with those that explain() will use
        policy.train()
        with torch.no_grad():
            play.scores(policy)
        policy.eval()
        for t in range(self.steps):
            if not len(play) or not may(len(play)):
                break
            chances = play.scores(policy).log_softmax(1)
            p = chances.detach().exp()
            choice = torch.multinomial(p, 1, generator=generator)
            spread = -(p * chances.masked_fill(p == 0, 0.0)).sum(1)
            reward, done = play.step(choice[:, 0])
            game.note(t, play.index, chances.gather(1, choice)[:, 0], spread, reward, done)
            if bool(done.any()) and not met(play, done):
                break
            play = play.take(~done & play.open().any(1))
        return game

    def _update(self, policy: Policy, optimiser: torch.optim.Optimizer, games: Sequence[Game]) -> None:
        """One step of REINFORCE."""
        returns = [g.returns(self.gamma_discount) for g in games]
        if self.repeats > 1:
            returns = [g.less_mean(r, self.repeats) for g, r in zip(games, returns, strict=True)]
        every = torch.cat([r[g.live] for g, r in zip(games, returns, strict=True)])
        if self.detach_policy or len(every) < 2:
            return
        mean, std = every.mean(), every.std(unbiased=False).clamp(min=1e-8)
        loss = torch.zeros((), dtype=torch.float64)
        for game, r in zip(games, returns, strict=True):
            for t, at, chance, spread in game.moves:
                loss = loss - ((r[t, at] - mean) / std * chance + self.entropy * spread).sum()
        optimiser.zero_grad()
        (loss / len(every)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    # -- explaining --------------------------------------------------------------------------------------------------

    def _search(self, search: Search) -> None:
        rows = search.open_rows()
        if not self.transductive:
            rows = rows[search.affordable(rows, torch.ones_like(rows))]
        if not len(rows):
            return
        start = Play(search, rows, self)
        if self.transductive:
            for k in range(len(start)):
                self._learn_one(start, k)
            return
        start.look()
        for turn in range(self.rollouts):
            self._attempt(start, turn)

    def _attempt(self, start: Play, turn: int) -> None:
        """Edit until the label flips, the likeliest edit each time; attempt ``turn`` begins with the next likeliest."""
        search, chance = start.search, self.policy == "random"
        sizes = start.sizes()
        play = start.take(~(search.solved & (sizes <= 1))[start.state.row])
        draws = torch.zeros(search.base.size, self.steps, dtype=torch.float64)
        if chance:
            for row in play.state.row.tolist():
                generator = generator_of(search.base.graphs[row], self.seed, turn)
                draws[row] = torch.rand(self.steps, generator=generator, dtype=torch.float64)
        for t in range(self.steps):
            # what takes as many edits as the answer that is known is of no use
            useful = ~search.solved | (t + 1 < sizes)
            rank = 0 if chance or t else turn
            play = play.take((play.open().sum(1) > rank) & useful[play.state.row])
            play = play.take(search.affordable(play.state.row, torch.ones_like(play.state.row)))
            if not len(play):
                return
            choice = self._drawn(play, draws[play.state.row, t]) if chance else self._likeliest(play, rank)
            _, done = play.step(choice)
            search.settle(play.state[done.nonzero().flatten()], f"step {t + 1}")
            sizes = play.sizes()
            play = play.take(~(done & (search.solved & (sizes <= t + 1))[play.state.row]))

    def _likeliest(self, play: Play, rank: int) -> Tensor:
        """The edit of each state that the policy ranks so, 0 being the likeliest; ties by position."""
        with torch.no_grad():
            scores = play.search.snap(play.scores(self._policy))
        return scores.sort(dim=1, descending=True, stable=True).indices[:, rank]

    def _drawn(self, play: Play, draw: Tensor) -> Tensor:
        """An edit of each state, uniformly by a number in [0, 1)."""
        below = play.open().cumsum(1)
        return (below <= draw[:, None] * below[:, -1:]).sum(1)

    def _learn_one(self, plays: Play, k: int) -> None:
        """A policy for graph ``k`` alone, taught on it; what it meets on the way is the answer."""
        search, at = plays.search, plays.state.row[k : k + 1]
        row = int(at)
        generator = generator_of(search.base.graphs[row], self.seed, 0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            spec = _spec_of(search.oracle, search.moves.allowed.schema)
            policy = Policy(2 + spec["labels"] + spec["features"] + self.mark_target, self.layer)
        optimiser = torch.optim.Adam(policy.parameters(), lr=self.lr)
        start = plays.take(torch.full((self.batch * self.repeats,), k))
        start.index = torch.arange(len(start))
        if not bool(start.open().any()) or not bool(search.affordable(at, torch.ones_like(at))):
            return
        start.begin()

        def may(count: int) -> bool:
            return bool(search.affordable(at, torch.tensor([count])))

        def met(play: Play, done: Tensor) -> bool:
            state = play.state[done.nonzero().flatten()]
            least = best_in_group(state.row, [search.snap(search.moves.costs(state))])
            search.settle(state[least], "transductive")
            return not (search.solved[row] and play.sizes()[row] <= 1)

        for _ in range(self.episodes):
            game = self._game(start.take(torch.arange(len(start))), policy, generator, may, met)
            if search.stopped[row] or not game.moves or (search.solved[row] and start.sizes()[row] <= 1):
                return
            self._update(policy, optimiser, [game])


def _searches(training: Training, drawn: list[int], options: InduCE) -> Iterator[Search]:
    """The drawn graphs as padded batches that fit into memory, directed ones apart."""
    space, schema = training.space, training.schema
    kind = [k.directed for k in kinds([training.graphs[i] for i in drawn])]
    for directed in (False, True):
        arcs = kind if space.directed is None else [space.directed] * len(drawn)
        part = [i for i, d in zip(drawn, arcs, strict=True) if d == directed]
        if not part:
            continue
        largest = max(len(training.graphs[i].x) for i in part)
        room = options.memory // options._bytes(largest, schema.width)
        for k in range(0, len(part), room):
            some = part[k : k + room]
            graphs = [training.graphs[i] for i in some]
            policy = space.edge_policy(schema)
            base = GraphBatch.from_graphs(graphs, some, directed=directed, new_edges=policy)
            before = training.outputs[torch.tensor(some)]
            yield Search(training.oracle, base, space.allowed(base, schema), before, Budget(), None, lambda n: None)


def _spec_of(oracle: Oracle, schema: FeatureSchema) -> dict[str, Any]:
    """What the policy's width hangs on."""
    return {"features": schema.width, "labels": label_columns(oracle)}

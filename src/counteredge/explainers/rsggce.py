"""RSGG-CE: a residual generator learns where edges belong, and a sampler walks there until the prediction flips."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counteredge.data import as_graph_list
from counteredge.decision import Decision, LabelDecision
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.errors import InputError
from counteredge.explainers.options import choice, flag, number, whole
from counteredge.explainers.padded import Padded, check_width, generated_features, pair_draws, width_of
from counteredge.explainers.rsggce_networks import Discriminator, ResidualGenerator
from counteredge.explainers.trained import Trained, Training
from counteredge.graphs import GraphBatch, buckets
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["RSGGCE"]

_PAPER: dict[str, Any] = {
    "epochs": 150,
    "batch_size": 1,
    "steps_per_epoch": 0,
    "optimizer": "sgd",
    "start": "normal",
    "discriminator": "simple",
    "direction": "paper",
    "gan_loss": "bce",
    "legacy_halving": False,
    "keep_features": False,
    "symmetric": True,
    "walks": 1,
    "steps": 500,
}
_CODE = {"steps_per_epoch": 1, "direction": "code", "gan_loss": "ce_bug", "legacy_halving": True, "symmetric": False}
_MODES: dict[str, dict[str, Any]] = {
    "paper": _PAPER,
    "reference": {**_PAPER, **_CODE},
    "improved": {**_PAPER, "optimizer": "adam", "batch_size": 16, "discriminator": "topk", "walks": 4},
    # ten steps leave features where they were, to two or three digits; answers of the published rows took two calls
    "legacy_gretel": {**_PAPER, **_CODE, "epochs": 10, "discriminator": "topk", "keep_features": True, "steps": 0},
}


class RSGGCE(Trained):
    r"""Counterfactuals sampled along a learnt edge order (Prado-Romero, Prenkaj, Stilo, AAAI 2024).

    For each class ``c`` that the model predicts in training, a generator ``P = sigmoid(H H^T + A)``, ``X' = X + D``
    learns to make graphs of class ``c`` look like those of the other classes. A discriminator tells them apart,

    ``L_D = -E_real[ w log D ] - E_fake[ log(1 - D) ]``, ``L_G = -E_fake[ log D ] + MSE(X', X)``,

    ``w`` the model's probability that the real graph is a counterfactual of class ``c``, 1 on average. To explain a
    graph, each of its edges is kept with probability ``p_e``; then missing pairs are added one by one, drawn in
    proportion to ``p``, up to ``T`` of them. The first graph that flips is the answer.

    Needs no gradients of the model, and explains functions as well as modules.

    Args:
        mode: ``"paper"``; its step size and start leave the generator where it began for thousands of steps.
            ``"improved"``: Adam, 16 graphs a step, and a discriminator that sorts nodes; where the first walk finds
            nothing, up to three more, with other draws, and in turn without and with generated features.
            ``"reference"``: the public code, by the options below. ``"legacy_gretel"``: that code as published
            comparisons ran it: ten steps with a discriminator that sorts nodes, which leave ``p`` at ``sigmoid(A)`` and
            features where they were, and of the sampler what the rows of molecules show, its first draw. That is to
            keep a random half of all arcs in two calls (edit ratio ``|E| / 2 / (n + |E|)`` where two arcs make an
            edge). ``steps=500`` goes on from there, as on their Tree-Cycles.
        seed: Of the networks' start, of training and of the draws.
        epochs: Passes over the training graphs; 150, or 10 (``legacy_gretel``).
        lr: Step size.
        batch_size: Graphs a step; 1, or 16 (``improved``).
        steps_per_epoch: Steps of each class an epoch; 0 is once over its graphs (``paper``), 1 the public code.
        optimizer: ``"sgd"``, or ``"adam"`` (``improved``).
        booster: Hidden columns of the generator for each column of ``x``.
        start: Of the generator's weights: ``"normal"`` with standard deviation 0.01, or ``"glorot"``.
        discriminator: ``"simple"`` or ``"topk"``, see :class:`~counteredge.explainers.rsggce_networks.Discriminator`.
        direction: Which class is real. ``"paper"``: the others, and graphs of class ``c`` are changed towards them.
            ``"code"``: the class itself, as in the public code, whose generators are then used the wrong way round.
        gan_loss: ``"bce"``; ``"ce_bug"``: cross-entropy over the batch instead of over real and fake, as in the public
            code. With one graph it is 0 for the generator, whatever it makes.
        steps: ``T``, most additions of a walk; 500, or 0 (``legacy_gretel``).
        walks: Most walks of a graph.
        legacy_halving: Keep as many arcs as the graph has edges, half of them, drawn in proportion to ``p``, instead of
            each by itself.
        keep_features: Leave features as they are.
        symmetric: One draw a pair. ``False``, as in the public code: one each way; edits are arcs then, also of
            undirected graphs.
        p: One probability for every pair, instead of the generator's: a control of what was learnt, see
            :meth:`constant`.
        postprocess: As for all explainers.
        memory: Bytes that one batched pass may take. Training graphs are held padded besides.

    **Shapes** (of :meth:`generate`): ``P (n, n)``, ``X' (n, f)`` a graph.

    Source:
        Prado-Romero, Prenkaj, Stilo: Robust Stochastic Graph Generator for Counterfactual Explanations, AAAI 2024.

    Example:
        >>> from counteredge.testing import sample_graphs, sample_model
        >>> rsggce = RSGGCE(epochs=2)
        >>> report = rsggce.fit(sample_model(), sample_graphs(8), progress=False)
        >>> sorted(report.losses)
        ['discriminator', 'generator']
        >>> cfs = rsggce.explain(sample_model(), sample_graphs(2, seed=1), progress=False)
    """

    name: ClassVar[str] = "rsggce"
    title: ClassVar[str] = "RSGG-CE"
    own: ClassVar[tuple[str, ...]] = (
        "epochs", "lr", "batch_size", "steps_per_epoch", "optimizer", "booster", "start", "discriminator",
        "direction", "gan_loss", "steps", "walks", "legacy_halving", "keep_features", "symmetric", "p",
    )  # fmt: skip
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved", "legacy_gretel")
    copies = 16

    def __init__(
        self,
        *,
        mode: str | None = None,
        seed: int = 0,
        epochs: int | None = None,
        lr: float = 1e-3,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        optimizer: Literal["sgd", "adam"] | None = None,
        booster: int = 1,
        start: Literal["normal", "glorot"] | None = None,
        discriminator: Literal["simple", "topk"] | None = None,
        direction: Literal["paper", "code"] | None = None,
        gan_loss: Literal["bce", "ce_bug"] | None = None,
        steps: int | None = None,
        walks: int | None = None,
        legacy_halving: bool | None = None,
        keep_features: bool | None = None,
        symmetric: bool | None = None,
        p: float | None = None,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        of_mode = _MODES[self.mode]

        def chosen(name: str, given: Any) -> Any:
            return of_mode[name] if given is None else given

        self.epochs = whole("epochs", chosen("epochs", epochs), 1)
        self.batch_size = whole("batch_size", chosen("batch_size", batch_size), 1)
        self.steps_per_epoch = whole("steps_per_epoch", chosen("steps_per_epoch", steps_per_epoch), 0)
        self.booster, self.steps = whole("booster", booster, 1), whole("steps", chosen("steps", steps), 0)
        self.walks = whole("walks", chosen("walks", walks), 1)
        self.lr = number("lr", lr, 0, open_below=True)
        self.p = None if p is None else number("p", p, 0, 1, open_below=True)
        self.optimizer = choice("optimizer", chosen("optimizer", optimizer), ("sgd", "adam"))
        self.start = choice("start", chosen("start", start), ("normal", "glorot"))
        self.discriminator = choice("discriminator", chosen("discriminator", discriminator), ("simple", "topk"))
        self.direction = choice("direction", chosen("direction", direction), ("paper", "code"))
        self.gan_loss = choice("gan_loss", chosen("gan_loss", gan_loss), ("bce", "ce_bug"))
        self.legacy_halving = flag("legacy_halving", chosen("legacy_halving", legacy_halving))
        self.keep_features = flag("keep_features", chosen("keep_features", keep_features))
        self.symmetric = flag("symmetric", chosen("symmetric", symmetric))

    # -- the record --------------------------------------------------------------------------------------------------

    def describe_failure(self, search: Search) -> str:
        """What was tried, and which graphs cannot be."""
        walks = f"{self.walks} walks" if self.walks > 1 else "the walk"
        return (
            f"no graph on {walks} of up to {self.steps} additions was a counterfactual; graphs of a class that had no "
            "graph in training, or no other class beside it, have no generator"
        )

    def _space(self, space: EditSpace) -> EditSpace:
        return space if self.symmetric else replace(space, directed=True)

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        super()._ready(oracle, schema)
        check_width(self.spec["features"], schema.width)
        due = _asked(oracle)
        fitted = self.spec.get("asked", due)  # files of earlier versions do not say
        if due != fitted:
            raise InputError(f"fitted for {_said(fitted)}, this is {_said(due)}: fit another one for it")

    # -- learning ----------------------------------------------------------------------------------------------------

    def _spec(self, training: Training) -> dict[str, Any]:
        keys = _keys(training.oracle.decision, training.labels)
        kinds = torch.unique(keys, dim=0)
        found = [k.tolist() for k in kinds if all(map(len, self._sides(training, keys, k)[:2]))]
        if not found:
            raise InputError(
                "fit needs graphs that are predicted otherwise than others (as wished, with desired=): the model "
                "says the same of all of them"
            )
        nodes = max(len(g.x) for g in training.graphs)
        asked = _asked(training.oracle)
        return {"features": training.schema.width, "nodes": nodes, "classes": found, "asked": asked}

    def _build(self, spec: dict[str, Any]) -> None:
        std = 0.01 if self.start == "normal" else None
        for k in range(len(spec["classes"])):
            self.networks[f"generator{k}"] = ResidualGenerator(spec["features"], self.booster, std)
            self.networks[f"discriminator{k}"] = Discriminator(spec["features"], spec["nodes"], self.discriminator)

    def _sides(self, training: Training, keys: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of the graphs of a class, of its counterfactuals, and how sure the model is of these."""
        decision, z = training.oracle.decision, training.outputs
        alike = (keys == key).all(1)
        if decision.task == "regression":  # there is one class, of all values that are not as wished
            alike = ~decision.flips(z, training.labels)
        own = alike.nonzero().flatten()
        if not len(own):
            return own, own, own.double()
        y0 = training.labels[own[:1]].expand(len(z), *training.labels.shape[1:])
        others = (decision.flips(z, y0) & ~alike).nonzero().flatten()
        return own, others, decision.log_chance(z, y0).exp()

    def _fit(self, training: Training) -> None:
        padded = Padded(training, self.memory)
        keys = _keys(training.oracle.decision, training.labels)
        games = []
        for k, key in enumerate(self.spec["classes"]):
            own, others, sure = self._sides(training, keys, torch.tensor(key, dtype=keys.dtype))
            fake, real = (own, others) if self.direction == "paper" else (others, own)
            weight = torch.ones(len(training.graphs))
            weight[real] = (sure[real] / sure[real].mean().clamp(min=1e-12)).float()
            games.append(_Game(self, padded, k, fake, real, weight))
        for _ in range(self.epochs):
            losses = torch.tensor([game.epoch(training.generator) for game in games]).mean(0).tolist()
            training.log(discriminator=losses[0], generator=losses[1])

    # -- explaining --------------------------------------------------------------------------------------------------

    def constant(self, p: float) -> RSGGCE:
        """The same fitted method with probability ``p`` for every pair: what its sampler does by itself.

        Features are generated as before. A generator that learnt nothing has ``p = sigmoid(1) = 0.731`` at edges.
        """
        made = copy.copy(self)
        made.p = number("p", p, 0, 1, open_below=True)
        return made

    def generate(self, graphs: Any, kind: int = 0) -> list[tuple[Tensor, Tensor]]:
        """What a generator makes of some graphs, before anything is drawn.

        Args:
            graphs: One or several graphs.
            kind: Which generator: its place in ``spec["classes"]``.

        Returns:
            A graph's edge probabilities ``P`` and features ``X'``.

        Raises:
            InputError: Nothing was learnt; a generator there is none of; other columns.
            BudgetError: A graph that does not fit into ``memory``.
        """
        self._network("generator", kind)
        out = {}
        for k, base, row in self._alone(graphs):
            n = len(base.graphs[row].x)
            p, x = self._generated(base, torch.tensor([row]), kind)
            out[k] = p[0, :n, :n], x[0, :n]
        return [out[k] for k in range(len(out))]

    def _alone(self, graphs: Any) -> Iterator[tuple[int, GraphBatch, int]]:
        """The number of each graph, its batch and its row there."""
        items, _ = as_graph_list(graphs)
        for g in items:
            check_width(self.spec["features"], width_of(g))
        for base in buckets(items, memory=self.memory):
            for row, k in enumerate(base.ids.tolist()):
                yield k, base, row

    def realness(self, graphs: Any, kind: int = 0, *, generated: bool = False) -> Tensor:
        """What a discriminator says of graphs as they are, or of what its generator makes of them, ``(G,)`` in (0, 1).

        Args:
            graphs: Graphs no larger than those in training.
            kind: Which discriminator: its place in ``spec["classes"]``.
            generated: Show it what the generator makes of the graphs.
        """
        judge = copy.deepcopy(self._network("discriminator", kind)).double().eval()
        nodes, told = int(self.spec["nodes"]), {}
        for k, base, row in self._alone(graphs):
            n = len(base.graphs[row].x)
            extra = nodes - n
            if extra < 0:
                raise InputError(f"graph {k} has {n} nodes, the discriminator knows up to {nodes}")
            at = torch.tensor([row])
            adj, x = self._generated(base, at, kind) if generated else (base.adj[at].cpu(), base.x[at].cpu().double())
            with torch.no_grad():
                logit = judge(
                    F.pad(adj[:, :n, :n].double(), (0, extra, 0, extra)),
                    F.pad(x[:, :n], (0, 0, 0, extra)),
                    torch.arange(nodes)[None] < n,
                )
            told[k] = torch.sigmoid(logit)
        return torch.cat([told[k] for k in range(len(told))]) if told else torch.zeros(0, dtype=torch.float64)

    def _network(self, name: str, kind: int) -> nn.Module:
        if not self.fitted:
            raise InputError("RSGGCE has to learn first: call fit(model, training_graphs)")
        if not 0 <= kind < len(self.spec["classes"]):
            raise InputError(f"kind={kind!r} is unknown; there are {len(self.spec['classes'])} generators, from 0 on")
        return self.networks[f"{name}{kind}"]

    def _generated(self, base: GraphBatch, rows: Tensor, kind: int) -> tuple[Tensor, Tensor]:
        """Edge probabilities, on a grid that no batch changes, and features; ``(R, n, n)`` and ``(R, n, f)``."""
        network = copy.deepcopy(self._network("generator", kind)).double().eval()
        edges, features = [], []
        for some in torch.split(rows, max(1, self.memory // (64 * base.nodes * (base.nodes + base.x.shape[2])))):
            with torch.no_grad():
                p, x = network(base.adj[some].cpu().double(), base.x[some].cpu().double(), base.mask[some].cpu())
            edges.append(p.round(decimals=9))
            features.append(x)
        return torch.cat(edges), torch.cat(features)

    def _search(self, search: Search) -> None:
        base, device = search.base, search.base.adj.device
        keys = _keys(search.oracle.decision, search.y0)
        n, f = base.nodes, base.x.shape[2]
        p = torch.zeros(base.size, n, n, dtype=torch.float64)
        values = torch.zeros(base.size, n, f, dtype=torch.float64)
        known = torch.zeros(base.size, dtype=torch.bool)
        for kind, key in enumerate(self.spec["classes"]):
            at = (keys == torch.tensor(key, dtype=keys.dtype)).all(1) if keys.shape[1] == len(key) else known & False
            rows = search.open_rows(at.nonzero().flatten())
            if len(rows):
                p[rows], values[rows] = self._generated(base, rows, kind)
                known[rows] = True
        if self.p is not None:
            p = torch.full_like(p, self.p)
        p = p.to(base.adj)
        x = base.x
        if x.is_floating_point() and not self.keep_features:
            dtype = base.graphs[0].x.dtype
            x = generated_features(values.to(device), x, search.moves.allowed.features, search.moves, dtype)
        for walk in range(self.walks):
            rows = search.open_rows(known.nonzero().flatten())
            if len(rows):
                self._walk(search, rows, p[rows], x if walk % 2 == 0 else base.x, walk)

    def _walk(self, search: Search, rows: Tensor, p: Tensor, x: Tensor, walk: int) -> None:
        """Thin the edges out, then add pairs one by one, until the prediction flips.

        Shapes:
            rows: ``(R,)``; p: ``(R, n, n)``; x: ``(B, n, f)``.
        """
        base, moves = search.base, search.moves
        i, j = moves.i, moves.j
        graphs = [base.graphs[r] for r in rows.tolist()]
        first, second = (
            pair_draws(graphs, base.nodes, self.seed, 2 * walk + k, directed=base.directed).to(p)[:, i, j]
            for k in (0, 1)
        )
        p, flip = p[:, i, j], moves.flip[rows]
        adj = base.adj[rows]
        present = adj[:, i, j] > 0.5
        kept = _half(present & flip, first, p) if self.legacy_halving else first < p
        here = present & (kept | ~flip)
        adj = torch.zeros_like(adj)
        adj[:, i, j] = here.to(adj.dtype)
        if not base.directed:
            adj[:, j, i] = here.to(adj.dtype)
        state = State(rows, adj, x[rows].clone())
        # the order in which draws without replacement, in proportion to p, take the pairs that are missing
        missing = flip & ~here
        order = _race(second, p).masked_fill(~missing, float("inf")).argsort(dim=1, stable=True)
        count = missing.sum(1).clamp(max=self.steps)
        at = torch.arange(len(rows))
        for t in range(int(count.max()) + 1):
            at = at[search.affordable(rows[at], torch.ones_like(at))]
            if not len(at):
                return
            now = state[at]
            # a draw of the public code is one question
            asked = search.legal(now) if self.legacy_halving and t == 0 else search.margins(now)[1]
            search.settle(now[asked], "thinned" if t == 0 else "additions")
            at = at[~search.solved[rows[at]] & (count[at] > t)]
            pair = order[at, t] if t < order.shape[1] else order[:0, 0]
            state.adj[at, i[pair], j[pair]] = 1.0
            if not base.directed:
                state.adj[at, j[pair], i[pair]] = 1.0


class _Game:
    """One class: a generator, a discriminator, and the graphs that they see.

    Args:
        method: Its options, and its networks.
        padded: All training graphs.
        kind: Which networks.
        fake: Numbers of the graphs that the generator changes.
        real: Numbers of those it is to make them like.
        weight: Of each graph as a real one, ``(G,)``.
    """

    def __init__(self, method: RSGGCE, padded: Padded, kind: int, fake: Tensor, real: Tensor, weight: Tensor) -> None:
        self.method, self.padded, self.fake, self.real, self.weight = method, padded, fake, real, weight
        self.maker = method.networks[f"generator{kind}"].train()
        self.judge = method.networks[f"discriminator{kind}"].train()
        make = torch.optim.Adam if method.optimizer == "adam" else torch.optim.SGD
        self.optimizers = [make(net.parameters(), lr=method.lr) for net in (self.judge, self.maker)]

    def epoch(self, generator: torch.Generator) -> tuple[float, float]:
        """A step of the discriminator and one of the generator for each batch; their mean losses."""
        size = self.method.batch_size
        batches = torch.split(self.fake[torch.randperm(len(self.fake), generator=generator)], size)
        if self.method.steps_per_epoch:
            batches = batches[: self.method.steps_per_epoch]
        sums = torch.zeros(2)
        for fake in batches:
            real = self.real[torch.randint(len(self.real), (len(fake),), generator=generator)]
            sums += torch.tensor(self._step(fake, real))
        first, second = (sums / len(batches)).tolist()
        return first, second

    def _step(self, fake: Tensor, real: Tensor) -> tuple[float, float]:
        given, wanted = self.padded.take(fake), self.padded.take(real)
        p, x = self.maker(given.adj, given.x, given.mask)
        told = self.judge(wanted.adj, wanted.x, wanted.mask), self.judge(p.detach(), x.detach(), given.mask)
        loss = self._judged(*told, self.weight[real])
        self._descend(0, loss)
        kept = given.mask[:, :, None].expand_as(x)
        won = self._won(self.judge(p, x, given.mask)) + F.mse_loss(x[kept], given.x[kept])
        self._descend(1, won)
        return float(loss.detach()), float(won.detach())

    def _descend(self, which: int, loss: Tensor) -> None:
        optimizer = self.optimizers[which]
        optimizer.zero_grad(set_to_none=True)
        parameters = [q for group in optimizer.param_groups for q in group["params"]]
        for q, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
            q.grad = gradient
        optimizer.step()

    def _judged(self, real: Tensor, fake: Tensor, weight: Tensor) -> Tensor:
        if self.method.gan_loss == "ce_bug":  # one "class" a graph, and the graphs compete
            told, due = torch.sigmoid(torch.cat([real, fake])), torch.cat([weight, torch.zeros_like(fake)])
            return -(due * F.log_softmax(told, 0)).sum()
        return (weight * F.softplus(-real)).mean() + F.softplus(fake).mean()

    def _won(self, fake: Tensor) -> Tensor:
        if self.method.gan_loss == "ce_bug":
            return -F.log_softmax(torch.sigmoid(fake), 0).sum()
        return F.softplus(-fake).mean()


def _asked(oracle: Oracle) -> dict[str, Any]:
    """What a model gives and what is wished of it, as JSON values."""
    d = oracle.decision
    return {
        "outputs": oracle.outputs,
        "task": "labels" if isinstance(d, LabelDecision) else d.task,
        "classes": list(d.classes),
        "bits": [list(b) for b in d.bits],
        "interval": list(d.interval) if d.interval else None,
    }


def _said(asked: dict[str, Any]) -> str:
    """A model and a wish in words."""
    wish: Any = None
    if asked["interval"]:
        wish = tuple(asked["interval"])
    elif asked["bits"]:
        wish = {label: bit for label, bit in asked["bits"]}
    elif asked["classes"]:
        wish = set(asked["classes"]) if len(asked["classes"]) > 1 else asked["classes"][0]
    outputs = f"{asked['outputs']} output{'' if asked['outputs'] == 1 else 's'}"
    return f"a model with {outputs} (task {asked['task']!r}) and desired={wish}"


def _keys(decision: Decision, labels: Tensor) -> Tensor:
    """What tells classes apart, ``(G, k)``: the labels; nothing for a regression, where the wish alone does."""
    if decision.task == "regression":
        return torch.zeros(len(labels), 1, dtype=torch.long)
    return labels.reshape(len(labels), -1).long().cpu()


def _race(u: Tensor, p: Tensor) -> Tensor:
    """Exponential times with rates ``p``: their order is one of draws without replacement in proportion to ``p``."""
    return -torch.log(u.clamp(min=1e-300, max=1 - 1e-16)) / p.clamp(min=1e-12)


def _half(edges: Tensor, u: Tensor, p: Tensor) -> Tensor:
    """Half of the edges of each graph, rounded down, drawn in proportion to ``p``, ``(R, pairs)``."""
    order = _race(u, p).masked_fill(~edges, float("inf")).argsort(dim=1, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    return edges & (rank < edges.sum(1, keepdim=True) // 2)

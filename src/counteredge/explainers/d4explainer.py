"""D4Explainer: a discrete diffusion over edges whose denoiser is trained to return counterfactuals."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from counteredge.engine.draws import noise_like
from counteredge.engine.moves import State
from counteredge.engine.search import Search
from counteredge.errors import BudgetError, InputError
from counteredge.explainers.opening import Opened
from counteredge.explainers.options import choice, flag, number, whole
from counteredge.explainers.ppgn import PPGN, pair_bytes
from counteredge.explainers.trained import Trained, Training
from counteredge.graphs import GraphBatch, buckets, bytes_per_graph
from counteredge.nodes import NodeOracle
from counteredge.nodes.head import MARK
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["D4Explainer"]

PAIRS_AT_ONCE = 4_000_000  # numbers a layer of one pass without gradients: beyond this, passes get slower


class D4Explainer(Trained):
    """Learns to denoise graphs into counterfactuals: edges flipped at random come back as a graph of another class.

    At noise level ``s`` every pair flips with probability ``s``, which gives ``A_s``. A denoiser (:class:`PPGN`) says
    for each pair how likely it is an edge, and is trained on

    ``L = mean_s (1 - 2 s + 1 / levels) BCE(logit(A_s), A) - alpha_cf log(1 - p_y0(sigmoid(mean_s logit)))``

    so that it gives back the graph, but on the other side of the model's decision. To explain a graph, fresh noise is
    drawn, the logits of the levels are averaged, and pairs with a logit above zero are the edges of the candidate; of
    ``restarts`` candidates the valid one with the fewest edits is kept. Edges only; features stay.

    The model must have exact gradients with respect to edges when fitting, none are needed to explain. Only pairs that
    may change get noise and enter the loss. Of a node task, the denoiser sees which node is meant (one more column).

    Args:
        mode: ``"paper"``; ``"reference"``: one candidate, the checkpoint with the fewest edits (which favours the graph
            itself), level weights given to the wrong samples, and no edge for nodes that have none; ``"improved"``: the
            paper's, and then pairs are flipped in the order of the denoiser's wish, as few as it takes.
        seed: Of every random draw.
        epochs: Passes over the training graphs.
        restarts: Candidates a graph; 10, in the reference 1.
        levels: Noise levels drawn for each step, and for each candidate.
        prob_low: Lowest noise level.
        prob_high: Highest noise level. The paper's 0.4 buries a sparse graph in false edges; 0.1 takes fewer
            epochs there.
        alpha_cf: Weight of the counterfactual term; 0 only denoises.
        sparsity_level: What a missed edge weighs in the loss, against a superfluous one.
        hidden: Channels of the denoiser.
        layers: Its blocks.
        dropout: Before its last layer.
        lr: Adam's step size.
        lr_decay: What it is multiplied by after each epoch.
        batch_size: Graphs a step; they pass through the denoiser in as many parts as ``memory`` asks for.
        holdout: Share of the training graphs that only choose the checkpoint; none where that is less than one graph.
        every: Epochs between looks at these.
        patience: Looks without a better checkpoint after which training stops; ``None``: never.
        select: The best checkpoint: ``"validity"``, most held-out graphs flipped by fewer edits than they have edges
            (so many flip by chance, or by removing all), then fewest edits an edge; ``"modification"``, fewest edits an
            edge alone (reference).
        level_weights_bug: Weigh the loss of graph ``b`` at level ``l`` of ``L`` by level ``(l B + b) mod L``
            (reference).
        isolated: Let nodes without edges take part; not in the reference.
        postprocess: ``"shrink"`` makes answers one-minimal.
        memory: Bytes that one pass may take.

    Source: Chen et al., D4Explainer: In-Distribution GNN Explanations via Discrete Denoising Diffusion, NeurIPS 2023.

    Example:
        >>> from counteredge.testing import sample_graphs, sample_model
        >>> explainer = D4Explainer(epochs=4, hidden=4, layers=1, levels=2)
        >>> report = explainer.fit(sample_model(), sample_graphs(8, seed=1), progress=False)
        >>> report.epochs, sorted(report.losses)
        (4, ['cf', 'dist', 'modification', 'validity'])
        >>> cfs = explainer.explain(sample_model(), sample_graphs(3), progress=False)
        >>> [cf.edits.feature_count for cf in cfs]
        [0, 0, 0]
    """

    name: ClassVar[str] = "d4explainer"
    own: ClassVar[tuple[str, ...]] = (
        "epochs", "restarts", "levels", "prob_low", "prob_high", "alpha_cf", "sparsity_level", "hidden", "layers",
        "dropout", "lr", "lr_decay", "batch_size", "holdout", "every", "patience", "select", "level_weights_bug",
        "isolated",
    )  # fmt: skip
    modes: ClassVar[tuple[str, ...]] = ("paper", "reference", "improved")

    def __init__(
        self,
        *,
        mode: str | None = None,
        seed: int = 0,
        epochs: int = 800,
        restarts: int | None = None,
        levels: int = 10,
        prob_low: float = 0.0,
        prob_high: float = 0.4,
        alpha_cf: float = 0.5,
        sparsity_level: float = 2.5,
        hidden: int = 64,
        layers: int = 6,
        dropout: float = 1e-3,
        lr: float = 1e-3,
        lr_decay: float = 0.999,
        batch_size: int = 32,
        holdout: float = 0.2,
        every: int = 10,
        patience: int | None = 20,
        select: Literal["validity", "modification"] | None = None,
        level_weights_bug: bool | None = None,
        isolated: bool | None = None,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        reference = self.mode == "reference"
        self.epochs, self.levels, self.hidden, self.layers = epochs, levels, hidden, layers
        self.restarts = (1 if reference else 10) if restarts is None else restarts
        self.batch_size, self.every, self.patience = batch_size, every, patience
        for option in ("epochs", "restarts", "levels", "hidden", "layers", "batch_size", "every", "patience"):
            if option == "patience" and patience is None:
                continue
            more = ", or None to go on whatever the looks say" if option == "patience" else ""
            whole(option, getattr(self, option), 1, more=more)
        # at 0.5 nothing is left of a graph
        self.prob_low, self.prob_high = number("prob_low", prob_low, 0, 0.5), number("prob_high", prob_high, 0, 0.5)
        if prob_low > prob_high:
            raise InputError(f"prob_low must not be above prob_high, got {prob_low=}, {prob_high=}")
        self.alpha_cf = number("alpha_cf", alpha_cf, 0)
        self.sparsity_level = number("sparsity_level", sparsity_level, 0, open_below=True)
        self.lr = number("lr", lr, 0, open_below=True)
        self.lr_decay = number("lr_decay", lr_decay, 0, 1, open_below=True)
        self.dropout = number("dropout", dropout, 0, 1, open_above=True)
        self.holdout = number("holdout", holdout, 0, 1, open_above=True)
        kinds = ("validity", "modification")
        self.select = choice("select", kinds[reference] if select is None else select, kinds)
        flags = {"level_weights_bug": level_weights_bug, "isolated": isolated}
        self.level_weights_bug, self.isolated = (
            flag(name, of_mode if value is None else value)
            for (name, value), of_mode in zip(flags.items(), (reference, not reference), strict=True)
        )

    def describe_failure(self, search: Search) -> str:
        """What was tried in vain."""
        more = ", nor were the pairs flipped in their order" if self.mode == "improved" else ""
        return f"none of the {self.restarts} denoised graphs was a counterfactual{more}"

    def _space(self, space: EditSpace) -> EditSpace:
        return space.only(features=False)

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        super()._ready(oracle, schema)
        if schema.width != self.spec["width"]:
            raise InputError(
                f"D4Explainer was fitted on graphs with {self.spec['width']} feature columns, these have {schema.width}"
            )
        if self.mode != "reference" and isinstance(oracle, NodeOracle) != self.spec["mark"]:
            fitted, way = ("nodes", "without") if self.spec["mark"] else ("whole graphs", "with")
            raise InputError(f"D4Explainer was fitted to explain {fitted}: fit another one {way} node= for these")

    def _buckets(self, work: Opened) -> Iterator[GraphBatch]:
        self._room(max(len(g.x) for g in work.graphs), training=False)
        return super()._buckets(work)

    # -- the denoiser ------------------------------------------------------------------------------------------------

    def _spec(self, training: Training) -> dict[str, Any]:
        mark = isinstance(training.oracle, NodeOracle) and self.mode != "reference"
        return {"width": training.schema.width, "mark": mark}

    def _build(self, spec: dict[str, Any]) -> None:
        features = int(spec["width"]) + bool(spec["mark"])
        self.networks["denoiser"] = PPGN(features, self.hidden, self.layers, self.dropout)

    def _inputs(self, base: GraphBatch, flip: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the denoiser sees of each graph besides its noisy edges, and which pairs it may change.

        Shapes:
            flip: ``(B, n, n)``; returns x ``(B, n, f)``, mask ``(B, n)``, pairs ``(B, n, n)``.
        """
        x, mask = base.x.to(base.adj.dtype), base.mask
        if self.spec["mark"]:
            mark = torch.zeros_like(x[:, :, :1])
            for b, g in enumerate(base.graphs):
                mark[b, : len(g.x), 0] = g[MARK].to(mark.dtype)
            x = torch.cat([x, mark], 2)
        if not self.isolated:
            mask = mask & ((base.adj + base.adj.transpose(1, 2)) > 0).any(2)
        return x, mask, flip & mask[:, :, None] & mask[:, None, :]

    @torch.no_grad()
    def _logits(self, net: PPGN, base: GraphBatch, flip: Tensor, rows: Tensor, restart: int) -> Tensor:
        """Logits averaged over noise levels, drawn for each graph by itself, ``(R, n, n)``."""
        dtype, n = net.out.weight.dtype, base.nodes
        x, mask, pairs = (t[rows] for t in self._inputs(base, flip))
        step = max(1, min(self._room(n, training=False), PAIRS_AT_ONCE // (n * n * self.hidden)))
        graphs = tuple(base.graphs[r] for r in rows.tolist())
        first = restart * (self.levels + 1)
        drawn = torch.special.ndtr(noise_like(graphs, n, self.levels, self.seed, first + self.levels)[:, 0])
        levels = (self.prob_low + (self.prob_high - self.prob_low) * drawn).to(x.device)
        total = torch.zeros_like(base.adj[rows])
        for k, level in enumerate(levels.t()):
            draw = torch.special.ndtr(noise_like(graphs, n, None, self.seed, first + k)).to(x.device)
            noisy = _noisy(base.adj[rows], draw, level, pairs, base.directed)
            for s in range(0, len(rows), step):
                part = slice(s, s + step)
                total[part] += net(noisy[part].to(dtype), x[part].to(dtype), mask[part], level[part].to(dtype))
        return _tied(total / self.levels, base.directed)

    def _room(self, nodes: int, *, training: bool) -> int:
        """How many graphs of so many nodes one pass through the denoiser may hold.

        Raises:
            BudgetError: When not even one fits.
        """
        each = pair_bytes(self.hidden, self.layers, training=training)
        fits = self.memory // (each * nodes * nodes)
        if not fits:
            raise BudgetError(
                f"a graph with {nodes} nodes needs about {each * nodes * nodes / 2**20:.0f} MiB in a denoiser with "
                f"hidden={self.hidden} and layers={self.layers}{' while it is fitted' if training else ''}, the bound "
                f"is {self.memory / 2**20:.0f} MiB: up to {math.isqrt(self.memory // each)} nodes fit; raise memory=, "
                "lower hidden= or layers=, or leave larger graphs out"
            )
        return fits

    # -- fit ---------------------------------------------------------------------------------------------------------

    def _fit(self, training: Training) -> None:
        if not training.space.add_edges and not training.space.remove_edges:
            raise InputError("D4Explainer changes edges only, and the edit space keeps them all: use edits='edges'")
        self._room(max(len(g.x) for g in training.graphs), training=True)
        net: PPGN = self.networks["denoiser"]  # type: ignore[assignment]
        net.to(training.graphs[0].x.device)
        learnt, held = self._split(training)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.lr)
        decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, self.lr_decay)
        best, kept, since = (-math.inf, -math.inf), copy.deepcopy(net.state_dict()), 0
        looked = {"validity": 0.0, "modification": 0.0}
        for epoch in range(self.epochs):
            net.train()
            sums = torch.zeros(2, dtype=torch.float64)
            order = learnt[torch.randperm(len(learnt), generator=training.generator)]
            for chosen in torch.split(order, self.batch_size):
                drawn = torch.rand(self.levels, generator=training.generator)
                levels = self.prob_low + (self.prob_high - self.prob_low) * drawn
                optimiser.zero_grad(set_to_none=True)
                for base, lean in self._parts(training, chosen):
                    sums += self._step(training, net, base, levels, len(chosen), lean)
                optimiser.step()
            decay.step()
            if epoch % self.every == 0 or epoch + 1 == self.epochs:
                looked = self._look(training, net, held)
                found = looked["validity"], -looked["modification"]
                found = (found[1], 0.0) if self.select == "modification" else found
                since += 1
                if found > best:
                    best, kept, since = found, copy.deepcopy(net.state_dict()), 0
            dist, cf = (sums / len(learnt)).tolist()
            training.log(dist=dist, cf=cf, **looked)
            if self.patience is not None and since >= self.patience:
                training.stopped_early = True
                break
        net.load_state_dict(kept)
        net.cpu()

    def _split(self, training: Training) -> tuple[Tensor, Tensor]:
        """Graphs to learn from, and those that choose the checkpoint: the same where there are too few."""
        done = training.oracle.decision.flips(training.outputs, training.labels)
        usable = (~done & torch.isfinite(training.outputs).all(1)).nonzero().flatten()
        if not len(usable):
            raise InputError("all training graphs already are what is desired: there is nothing to learn from them")
        order = usable[torch.randperm(len(usable), generator=training.generator)]
        held = min(int(self.holdout * len(order)), len(order) - 1)
        return (order[held:], order[:held]) if held else (order, order)

    def _parts(self, training: Training, chosen: Tensor) -> Iterator[tuple[GraphBatch, bool]]:
        """Some training graphs as batches of like size that fit into memory.

        Where even one graph does not with all noise levels at once, activations are computed again for the backward
        pass, one level after the other (``True``).
        """
        space, each = training.space, math.ceil(pair_bytes(self.hidden, self.layers, training=True) / 8)
        width = training.schema.width
        needs = [bytes_per_graph(len(training.graphs[i].x), width, self.levels * each) for i in chosen.tolist()]
        large = torch.tensor(needs) > self.memory
        for lean in (False, True):
            some = chosen[large == lean]
            if not len(some):
                continue
            for base in buckets(
                [training.graphs[i] for i in some.tolist()],
                # the room for one graph has been checked, in pairs
                memory=self.memory if not lean else max(self.memory, *needs),
                copies=each * self.levels,
                directed=space.directed,
                new_edges=space.edge_policy(training.schema),
            ):
                yield replace(base, ids=some[base.ids.cpu()]), lean

    def _step(self, training: Training, net: PPGN, base: GraphBatch, levels: Tensor, graphs: int, lean: bool) -> Tensor:
        """Add the gradient of a part of a batch of so many graphs; returns the sums of both losses."""
        oracle, adj, dtype = training.oracle, base.adj, net.out.weight.dtype
        allowed = training.space.allowed(base, training.schema)
        x, mask, pairs = self._inputs(base, allowed.flip)
        count, size = len(levels), base.size
        level = levels.to(adj)[:, None].expand(count, size)
        draw = torch.rand(count, *adj.shape, generator=training.generator).to(adj)
        noisy = _noisy(adj, draw, level, pairs, base.directed).to(dtype)
        x, steps = x.to(dtype), level.to(dtype)
        if lean:
            logits = torch.stack(
                [checkpoint(net, noisy[k], x, mask, steps[k], use_reentrant=False) for k in range(count)]
            )
        else:
            many = (noisy.flatten(0, 1), x.repeat(count, 1, 1), mask.repeat(count, 1), steps.flatten())
            logits = net(*many).unflatten(0, (count, size))
        logits = _tied(logits, base.directed)
        weight = 1 - 2 * steps + 1 / count
        if self.level_weights_bug:
            order = torch.arange(count * size, device=adj.device) % count
            weight = weight[:, 0][order].view(count, size)
        truth = adj.to(dtype).expand_as(logits)
        missed = torch.tensor(self.sparsity_level, dtype=dtype, device=adj.device)
        bce = F.binary_cross_entropy_with_logits(logits, truth, pos_weight=missed, reduction="none")
        dist = weight * (bce * pairs).sum((2, 3)) / pairs.sum((1, 2)).clamp(min=1)
        dist = dist.mean(0).sum()
        loss, cf = dist, adj.new_zeros(())
        if self.alpha_cf:
            soft = torch.where(pairs, torch.sigmoid(logits.mean(0)).to(adj.dtype), adj)
            cf, slope = self._counterfactual(oracle, base, soft.detach(), training.labels[base.ids])
            loss = loss + self.alpha_cf * (soft * slope).sum()
        (loss / graphs).backward()  # type: ignore[no-untyped-call]
        return torch.stack([dist.detach().double().cpu(), cf.double().cpu()])

    def _counterfactual(self, oracle: Oracle, base: GraphBatch, soft: Tensor, y0: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of ``-log(1 - p_y0)`` at soft adjacencies, and its gradient.

        Shapes:
            soft: ``(B, n, n)``; y0: ``(B,)``; returns a number and ``(B, n, n)``.
        """
        if not oracle.way(base).exact:
            raise self._without_gradients("alpha_cf=0 does without them")
        total, slopes = soft.new_zeros(()), []
        step = oracle.chunk(base, gradients=True)
        for rows in torch.split(torch.arange(base.size, device=soft.device), step):
            leaf = soft[rows].requires_grad_()
            z = oracle.relaxed(base, rows, leaf, base.x[rows])
            loss = -oracle.decision.log_chance(z, y0[rows.cpu()]).sum()
            slope = torch.autograd.grad(loss, leaf, allow_unused=True)[0] if loss.requires_grad else None
            slopes.append(torch.zeros_like(leaf) if slope is None else slope.nan_to_num(0, 0, 0))
            total = total + loss.detach()
        return total, torch.cat(slopes)

    def _look(self, training: Training, net: PPGN, held: Tensor) -> dict[str, float]:
        """Share of held-out graphs that one candidate flips by fewer edits than they have edges, and edits an edge."""
        net.eval()
        oracle, space = training.oracle, training.space
        valid = modification = 0.0
        for base in buckets(
            [training.graphs[i] for i in held.tolist()],
            memory=self.memory,
            copies=self.copies,
            directed=space.directed,
            new_edges=space.edge_policy(training.schema),
        ):
            base = replace(base, ids=held[base.ids.cpu()])
            rows = torch.arange(base.size, device=base.adj.device)
            flip = space.allowed(base, training.schema).flip
            logits = self._logits(net, base, flip, rows, 0)
            adj = torch.where(self._inputs(base, flip)[2], (logits > 0).to(base.adj), base.adj)
            z = oracle.logits(base, rows, adj, base.x)
            edits, edges = (adj != base.adj).sum((1, 2)), base.adj.sum((1, 2)).clamp(min=1)
            valid += float((oracle.decision.flips(z, training.labels[base.ids]) & (edits < edges)).sum())
            modification += float((edits / edges).sum())
        return {"validity": valid / len(held), "modification": modification / len(held)}

    # -- explain -----------------------------------------------------------------------------------------------------

    def _search(self, search: Search) -> None:
        base = search.base
        net: PPGN = copy.deepcopy(self.networks["denoiser"])  # type: ignore[assignment]
        net.to(base.adj.device, torch.float64)
        pairs = self._inputs(base, search.moves.allowed.flip)[2]
        total = torch.zeros_like(base.adj)
        for restart in range(self.restarts):
            rows = (~search.stopped).nonzero().flatten()
            rows = rows[search.affordable(rows, torch.ones_like(rows))]
            if not len(rows):
                return
            logits = self._logits(net, base, search.moves.allowed.flip, rows, restart)
            total[rows] += logits
            adj = torch.where(pairs[rows], (logits > 0).to(base.adj), base.adj[rows])
            _judge(search, State(rows, adj, base.x[rows]), "denoised")
        if self.mode == "improved":
            _in_order(search, pairs, total)


def _noisy(adj: Tensor, draw: Tensor, level: Tensor, pairs: Tensor, directed: bool) -> Tensor:
    """Graphs of which pairs flip with probability ``level``: those with a draw from [0, 1) below it.

    Shapes:
        adj, pairs: ``(B, n, n)``; draw: ``(..., B, n, n)``; level: ``(..., B)``; returns ``(..., B, n, n)``.
    """
    hit = draw < level[..., None, None]
    if not directed:
        hit = hit.triu(1)
        hit = hit | hit.transpose(-2, -1)
    return torch.where(hit & pairs, 1 - adj, adj)


def _tied(logits: Tensor, directed: bool) -> Tensor:
    """One logit for both directions of an undirected pair."""
    return logits if directed else (logits + logits.transpose(-2, -1)) / 2


def _judge(search: Search, s: State, stage: str) -> Tensor:
    """Evaluate candidates that differ from their graphs and better what these have; tells which flip, ``(S,)``."""
    flips = torch.zeros(len(s), dtype=torch.bool)
    at = search.improves(s)
    at = at[(s.adj[at] != search.base.adj[s.row[at]]).flatten(1).any(1)]
    if len(at):
        flips[at] = search.margins(s[at])[1]
        search.settle(s[flips.nonzero().flatten()], stage)
    return flips


def _in_order(search: Search, pairs: Tensor, logits: Tensor) -> None:
    """Flip pairs in the order of the denoiser's wish: 1, 2, 4, ... of them until that is valid, then fewer by halving.

    Shapes:
        pairs, logits: ``(B, n, n)``.
    """
    base, moves = search.base, search.moves
    wish = search.snap((1 - 2 * base.adj) * logits).masked_fill(~pairs, float("-inf"))[:, moves.i, moves.j]
    order = torch.sort(wish, dim=1, descending=True, stable=True).indices
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(moves.pairs).to(order).expand_as(order))
    most = torch.isfinite(wish).sum(1)
    # there is no use in as many flips as an answer has
    present = (search.state.adj != base.adj)[:, moves.i, moves.j].sum(1)
    most = torch.where(search.solved, torch.minimum(most, present - 1), most)

    def valid(rows: Tensor, flips: Tensor) -> Tensor:
        adj = base.adj[rows]
        k, pair = (rank[rows] < flips[:, None]).nonzero(as_tuple=True)
        i, j = moves.i[pair], moves.j[pair]
        adj[k, i, j] = 1 - adj[k, i, j]
        if not base.directed:
            adj[k, j, i] = adj[k, i, j]
        return _judge(search, State(rows, adj, base.x[rows]), "in-order")

    low, high = torch.zeros_like(most), torch.ones_like(most).clamp(max=most)
    rows = (~search.stopped & (most > 0)).nonzero().flatten()
    reached = rows[:0]
    while len(rows):
        rows = rows[search.affordable(rows, torch.ones_like(rows))]
        flips = valid(rows, high[rows])
        reached = torch.cat([reached, rows[flips]])
        rows = rows[~flips]
        rows = rows[high[rows] < most[rows]]
        low[rows] = high[rows]
        high[rows] = torch.minimum(2 * high[rows], most[rows])
    rows = reached.sort().values
    while len(rows := rows[high[rows] - low[rows] > 1]):
        rows = rows[search.affordable(rows, torch.ones_like(rows))]
        middle = (low[rows] + high[rows]) // 2
        flips = valid(rows, middle)
        high[rows], low[rows] = torch.where(flips, middle, high[rows]), torch.where(flips, low[rows], middle)

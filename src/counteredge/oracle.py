"""The user's frozen model behind one door: predictions, gradients, call counting, and no trace left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from counteredge.blackbox import BlackBox
from counteredge.calling import Caller, discrete_inputs, moved_inputs, relaxed_inputs, stacked_inputs
from counteredge.data import check_graph, edge_keys
from counteredge.decision import Decision, Desired, LabelDecision, Task
from counteredge.descriptors import MATRICES, refresh
from counteredge.errors import BudgetError, InputError, ModelError
from counteredge.graphs import GraphBatch
from counteredge.relax import DenseTwin, EdgeWeights
from counteredge.schema import FeatureSchema
from counteredge.untouched import untouched
from counteredge.ways import Way, Ways, probe_states, telling

__all__ = ["Oracle"]

MARGIN_TOLERANCE = 1e-5  # a search margin this close to zero (relative to the logits) is not called a flip
PREDICTED_AT_ONCE = 256  # real graphs stacked into one call of the model
CACHED_ENTRIES = 400_000  # hidden numbers a pass works on at once: beyond this, memory traffic makes passes slower
LISTED_ENTRIES = 4_000_000  # the same for passes over edge lists
LISTED_FROM = 128  # nodes from which on edge lists may be cheaper than dense matrices


class Oracle:
    """One model, as explainers see it.

    Search passes run in double precision on detached copies of the weights, so that equal candidates get equal numbers
    whatever else is in the batch; :meth:`predict` runs the untouched model in its own precision, and only that decides.
    One *call* is one graph evaluated once; the count hangs on the model's own ``forward``.

    Args:
        model: Any module that maps graphs to class logits (or log-probabilities), or a function ``(batch) -> labels or
            scores`` (:class:`~counteredge.blackbox.BlackBox`).
        forward_fn: ``(model, batch) -> output`` for models with unusual signatures.
        output_fn: Picks the logits out of what the model returns.
        task: ``"multiclass"``, ``"binary"``, ``"multilabel"`` or ``"regression"``; guessed when ``None``.
        desired: What is wished: a class, a set of classes, ``{label: bit}`` or a range; any change when ``None``.
        memory: Bytes that one batched pass may take.
        relaxation: ``"auto"``, or force ``"dense"``, ``"weights"`` or ``"none"``.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Batch], Any],
        *,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        task: Task | None = None,
        desired: Desired | None = None,
        memory: int = 1 << 30,
        relaxation: str = "auto",
    ) -> None:
        if not isinstance(model, nn.Module):
            if forward_fn is not None or output_fn is not None or relaxation not in ("auto", "none"):
                raise InputError("forward_fn, output_fn and relaxation= are for modules; a function gets a Batch")
            model, relaxation = BlackBox(model, single=task == "regression"), "none"
        self.model = model
        self.caller = Caller(model, forward_fn, output_fn)
        self.memory = memory
        self._asked: tuple[Any, ...] = (task, desired)
        self.relaxation = "none"
        self.exact = False
        self._ways = Ways(model, relaxation)
        self._follows: tuple[FeatureSchema, torch.dtype] | None = None
        self._edge_keys: tuple[str, ...] = ()
        self.precision: torch.dtype = torch.float64
        self.decision = Decision("multiclass")
        self.outputs = 0
        self.seen = 0
        self.last = 0
        self.seen_backward = 0
        self.free = 0
        self.launches = 0
        self.tally = torch.zeros(3, 0, dtype=torch.long)

    # -- sessions ----------------------------------------------------------------------------------------------------

    @contextmanager
    def session(self, graphs: Sequence[Data]) -> Iterator[Oracle]:
        """Open the door for these graphs: check them, probe the model, count calls, and leave no trace.

        Raises:
            InputError: For graphs that cannot be used.
            ModelError: For a model that fails, is random in eval mode, or returns no prediction per graph.
        """
        for i, g in enumerate(graphs):
            check_graph(g, f"graph {i}" if len(graphs) > 1 else "the graph")
        widths = sorted({1 if g.x.dim() == 1 else int(g.x.shape[1]) for g in graphs})
        if len(widths) > 1:
            raise InputError(f"the graphs have different numbers of feature columns: {widths}")
        kinds = [g.x.is_floating_point() for g in graphs]
        if any(kinds) and not all(kinds):
            raise InputError(f"graph {kinds.index(False)} has integer x but others have floats: give all the same kind")
        for key in ("edge_weight", "edge_attr"):
            have = [g.get(key) is not None for g in graphs]
            if any(have) and not all(have):
                raise InputError(f"graph {have.index(False)} has no {key} but others do: give all of them one, or none")
        if self.caller.device is not None and graphs[0].x.device != self.caller.device:
            raise InputError(f"the model is on {self.caller.device} but the graphs are on {graphs[0].x.device}")
        takes = {"edge_weight": self.caller.takes_weight, "edge_attr": self.caller.takes_attr}
        self._edge_keys = tuple(k for k in edge_keys(graphs) if takes.get(k, True))
        with untouched(self.model):
            handles = [
                self.model.register_forward_pre_hook(self._count, with_kwargs=True),
                self.model.register_forward_hook(self._count_gradients),
            ]
            try:
                self._probe(graphs)
                self.tally = torch.zeros(3, len(graphs), dtype=torch.long)
                self.seen = self.launches = self.free = self.seen_backward = 0
                yield self
            finally:
                for handle in handles:
                    handle.remove()
                self.caller.weights.clear()

    def _count(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts on the model's own forward, so a call past this class is counted as well."""
        batch = {**dict(zip(self.caller.names, args, strict=False)), **kwargs}.get("batch")
        for value in (*args, *kwargs.values()):
            if isinstance(value, Data):
                batch = value.get("batch")
        self.launches += 1
        self.last = int(batch.max()) + 1 if isinstance(batch, Tensor) and batch.numel() else 1
        self.seen += self.last

    def _count_gradients(self, model: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Counts backward passes on the model's own output."""
        graphs = self.last

        def count(gradient: Tensor) -> None:
            self.seen_backward += graphs

        for value in output if isinstance(output, tuple | list) else [output]:
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(count)  # type: ignore[no-untyped-call]
                return

    def charge_bypassed(self, ids: Tensor) -> None:
        """Share calls that went past this class (straight to the model) among the graphs at work."""
        for which, total in ((0, self.seen - self.free), (1, self.seen_backward)):
            excess = total - int(self.tally[which].sum())
            if excess > 0:
                self.tally[which, ids] += -(-excess // len(ids))

    @property
    def forward_calls(self) -> Tensor:
        """Forward calls by graph, ``(graphs,)``."""
        return self.tally[0]

    @property
    def backward_calls(self) -> Tensor:
        """Backward calls by graph."""
        return self.tally[1]

    @property
    def first_valid(self) -> Tensor:
        """Forward calls until the first valid candidate by graph; 0 when there was none."""
        return self.tally[2]

    def mark_valid(self, ids: Tensor) -> None:
        """Note that these graphs have a valid candidate now."""
        fresh = ids[self.tally[2, ids] == 0]
        self.tally[2, fresh] = self.tally[0, fresh]

    def follow(self, schema: FeatureSchema, dtype: torch.dtype) -> None:
        """From now on, columns that follow from the edges are those of the edited graph in every pass.

        Args:
            schema: Tells which columns.
            dtype: Of the user's features; the values are rounded to it, as they are in the edited ``Data``.
        """
        if schema.derived:
            self._follows = schema, dtype
            self._ways.forget()  # whether edges matter is another question now

    @property
    def follows(self) -> FeatureSchema | None:
        """The schema whose derived columns follow the edges; ``None`` when there is none to follow."""
        return None if self._follows is None else self._follows[0]

    # -- passes ------------------------------------------------------------------------------------------------------

    def predict(self, graphs: Sequence[Data], ids: Sequence[int] | None = None, *, precise: bool = False) -> Tensor:
        """The untouched model on real graphs, in its own precision: the only judge of validity.

        Args:
            graphs: Graphs as ``Data``.
            ids: Whose calls these are; uncounted (the harness's own checks) when ``None``.
            precise: In double precision where the model allows it: numbers to show, which no batch changes.

        Shapes:
            returns ``(len(graphs), C)``, double precision.
        """
        if ids is None:
            self.free += len(graphs)
        else:
            self.tally[0] += torch.bincount(torch.as_tensor(ids), minlength=self.tally.shape[1])
        dtype = self.precision if precise else None
        step = PREDICTED_AT_ONCE if self.caller.takes_batch else 1
        parts = [graphs[k : k + step] for k in range(0, len(graphs), step)]
        with torch.no_grad():
            z = [self._shaped(self.caller(stacked_inputs(p, self._edge_keys), dtype), len(p)).double() for p in parts]
        return torch.cat(z) if z else torch.zeros(0, self.outputs, dtype=torch.float64)

    def logits(self, base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor) -> Tensor:
        """Outputs at really edited graphs (0/1 adjacency), in batches that keep to the memory bound.

        Args:
            base: The original graphs.
            row: Which of them each candidate comes from.
            adj: Edited adjacencies.
            x: Edited features.

        Shapes:
            row: ``(K,)``; adj: ``(K, n, n)``; x: ``(K, n, f)``; returns ``(K, C)``.
        """
        step = self.chunk(base)
        # a dense twin is as exact on really edited graphs as it is between them; edge weights would only be slower
        dense = isinstance(self.way(base).relax, DenseTwin)
        parts = []
        with torch.no_grad():
            for s in range(0, len(row), step):
                part = slice(s, s + step)
                parts.append(self._pass(base, row[part], adj[part], x[part], dense))
        return torch.cat(parts) if parts else adj.new_zeros(0, self.outputs)

    def moved(self, base: GraphBatch, row: Tensor, adj: Tensor, which: Tensor, x: Tensor, pair: Tensor) -> Tensor:
        """Outputs at states after one more move each, as edge lists; see :func:`~counteredge.calling.moved_inputs`.

        Shapes:
            returns ``(len(which), C)``.
        """
        parts = []
        arcs = int(base.adj.sum((1, 2)).max()) + base.nodes
        step = max(1, min(self.memory // 64, LISTED_ENTRIES) // (arcs * max(self.caller.width, base.x.shape[2])))
        with torch.no_grad():
            for s in range(0, len(which), step):
                part = slice(s, s + step)
                self._add(0, base.ids[row[which[part]]])
                inputs = moved_inputs(base, row, adj, which[part], x[part], pair[part])
                parts.append(self._shaped(self.caller(inputs, self.precision), inputs.graphs).to(torch.float64))
        return torch.cat(parts) if parts else adj.new_zeros(0, self.outputs)

    def lists_pay(self, base: GraphBatch) -> bool:
        """Whether edge lists are the cheaper way to evaluate single moves: graphs that are large and sparse."""
        if base.nodes < LISTED_FROM or self._follows is not None or not self.caller.takes_batch:
            return False
        return float(base.adj.sum() / base.mask.sum() / base.nodes) < 0.1

    def relaxed(
        self,
        base: GraphBatch,
        row: Tensor,
        adj: Tensor,
        x: Tensor,
        *,
        ranking: bool = False,
        detach_degree: bool = False,
    ) -> Tensor:
        """Outputs with gradients to ``adj`` (where :meth:`way` is exact) and ``x``. Shapes as :meth:`logits`.

        With ``ranking`` an approximate way has gradients to ``adj`` too; its values then are guesses as well. With
        ``detach_degree`` a dense twin sends no gradient through degrees.
        """
        with torch.enable_grad():
            z = self._pass(base, row, adj, x, ranking or self.way(base).exact, detach_degree)
        ids = base.ids[row]
        if z.requires_grad:
            z.register_hook(lambda g: self._add(1, ids))  # type: ignore[no-untyped-call]
        return z

    def partial(self, ids: Tensor) -> Tensor:
        """Of which graphs search passes see but a part of what :meth:`predict` sees, ``(K,)``."""
        return torch.zeros_like(ids, dtype=torch.bool)

    def note(self) -> None:
        """From now on, remember what each evaluated graph costs besides its edits."""

    def noted(self, count: int) -> Tensor:
        """What the graphs evaluated since :meth:`note` cost besides: nothing for graph tasks, ``(count,)``."""
        return torch.zeros(count, dtype=torch.float64)

    def soft_loss(self) -> Tensor | float:
        """The same as a loss, of the graphs in the last relaxed pass."""
        return 0.0

    def chunk(self, base: GraphBatch, *, gradients: bool = False) -> int:
        """How many candidates of this batch one pass may hold.

        Raises:
            BudgetError: When not even one fits.
        """
        if not self.caller.takes_batch:
            return 1
        n, f = base.nodes, base.x.shape[2]
        width = max(self.caller.width, f)
        each = 8 * (4 * n * n + 6 * n * width) * (6 if gradients else 1)
        if self._follows is not None:
            each += 8 * MATRICES * n * n * (2 if gradients else 1)
        if not isinstance(self.way(base).relax, DenseTwin):
            each += 8 * n * n * width * (6 if gradients else 1)
        if each > self.memory:
            raise BudgetError(
                f"one pass over a graph with {n} nodes needs about {each / 2**20:.0f} MiB, the bound is "
                f"{self.memory / 2**20:.0f} MiB: raise memory= or explain a smaller subgraph"
            )
        return max(1, min(self.memory // each, CACHED_ENTRIES // (n * width)))

    def tolerance(self, z: Tensor) -> Tensor:
        """How far below zero a search margin must lie to count as a flip, ``(K,)``."""
        if isinstance(self.decision, LabelDecision):
            return torch.zeros_like(z[:, 0])  # outputs are names, not sizes
        return MARGIN_TOLERANCE * z.abs().amax(1).clamp(min=1.0)

    def _add(self, which: int, ids: Tensor) -> None:
        self.tally[which] += torch.bincount(ids.cpu(), minlength=self.tally.shape[1])

    def _pass(
        self, base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor, relaxed: bool, detach_degree: bool = False
    ) -> Tensor:
        if self.tally.shape[1]:
            self._add(0, base.ids[row])
        return self._run(base, row, adj, x, self.way(base).relax if relaxed else None, detach_degree)

    def _run(
        self,
        base: GraphBatch,
        row: Tensor,
        adj: Tensor,
        x: Tensor,
        relax: DenseTwin | EdgeWeights | None,
        detach_degree: bool = False,
    ) -> Tensor:
        """One uncounted pass: through a relaxation, or (``None``) on really edited graphs."""
        if not self.caller.takes_batch and len(row) > 1:
            each = (slice(k, k + 1) for k in range(len(row)))
            return torch.cat([self._run(base, row[k], adj[k], x[k], relax, detach_degree) for k in each])
        if self._follows is not None:
            x = refresh(adj, base.mask[row], x, *self._follows)
        if isinstance(relax, DenseTwin):
            inputs = relaxed_inputs(base, row, adj, x, edges=False)
            weighted = adj if base.unit else adj * base.weight[row]
            plain = adj if "edge_weight" in base.edge_keys else weighted
            with relax.attached(weighted, plain, base.loops[row], base.mask[row], detach_degree=detach_degree):
                out = self.caller(inputs, self.precision)
        elif isinstance(relax, EdgeWeights):
            inputs = relaxed_inputs(base, row, adj, x, edges=True)
            with relax.attached(inputs.edge_weight.to(self.precision)):  # type: ignore[union-attr]
                out = self.caller(inputs, self.precision)
        else:
            out = self.caller(discrete_inputs(base, row, adj.detach(), x), self.precision)
        return self._shaped(out, len(row)).to(torch.float64)

    def _shaped(self, out: Tensor, graphs: int) -> Tensor:
        """``(graphs, C)`` from whatever shape the head left, squeezed ones included."""
        if self.outputs and out.numel() == graphs * self.outputs:
            return out.reshape(graphs, self.outputs)
        if out.dim() == 2 and out.shape[0] == graphs and out.shape[1]:
            return out
        raise ModelError(
            f"the model returned shape {tuple(out.shape)} for {graphs} graph(s): expected one row of logits a graph. "
            "For a node-level model pass node=; pick the output with output_fn= if it is a different thing"
        )

    # -- the probe ---------------------------------------------------------------------------------------------------

    def _probe(self, graphs: Sequence[Data]) -> None:
        """Learn the head, then measure which relaxation is exact for the graphs at hand."""
        g = telling(graphs)
        self.outputs = 0
        self._ways.forget()
        self._follows = None
        raw = self._first(g)
        self.outputs = raw.shape[1]
        self.decision = self._decide(self.outputs)
        base = GraphBatch.from_graphs([g])
        row, adj = probe_states(base)
        self._precise(base, row, adj, base.x.expand(len(row), -1, -1), raw)
        self.exact, self.relaxation = self.way(base).exact, self.way(base).name

    def _decide(self, outputs: int) -> Decision:
        if not isinstance(self.model, BlackBox):
            return Decision.infer(outputs, *self._asked)
        task, desired = self._asked
        if not self.model.says_labels:
            return replace(Decision.infer(outputs, task, desired), probabilities=True)
        if task not in (None, "multiclass"):
            raise InputError(f"task={task!r}, but the function returns labels: give scores, or leave task at None")
        return LabelDecision.of(desired)

    def way(self, base: GraphBatch) -> Way:
        """How relaxed passes over graphs of this kind are made, measured on one of them."""
        seen, backward = self.seen, self.seen_backward
        found = self._ways.of(base, self._run, self.precision)
        self.free += self.seen - seen
        self.seen_backward = backward
        return found

    def _ask(self, g: Data) -> Tensor:
        """What a model that nobody has called yet says of one graph; errors become advice."""
        with torch.no_grad():
            try:
                return self.caller(stacked_inputs([g], self._edge_keys))
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as e:
                if isinstance(self.model, BlackBox):
                    if isinstance(e, ModelError):
                        raise
                    raise ModelError(f"the function failed on a batch of one graph: {type(e).__name__}: {e}") from e
                raise ModelError(
                    f"calling the model on a graph with x {tuple(g.x.shape)} {g.x.dtype} failed: {e}. Arguments are "
                    f"taken from forward({', '.join(self.caller.names)}); pass forward_fn=lambda model, batch: ... "
                    "if that is not how it is called"
                ) from e

    def _first(self, g: Data) -> Tensor:
        """The first prediction, and whether it is one."""
        raw, again = self._ask(g), self._ask(g)
        if not torch.equal(raw, again) and not bool(torch.isnan(raw).any()):
            raise ModelError("the model answers differently on the same graph in eval mode; it must be deterministic")
        squeezed = raw.dim() == 1 and raw.shape[0] == g.x.shape[0] > 1 and self.caller.takes_batch
        if squeezed:  # one number a node, or as many classes as this graph has nodes? two graphs tell
            with torch.no_grad():
                squeezed = self.caller(stacked_inputs([g, g], self._edge_keys)).dim() == 1
        if squeezed or (raw.dim() == 2 and raw.shape[0] == g.x.shape[0] > 1):
            raise ModelError(
                f"the model returned {raw.shape[0]} rows for one graph with {g.x.shape[0]} nodes: it predicts "
                "nodes. Say which one to explain with node=, or give a model with one prediction a graph"
            )
        if raw.numel() == 0 or raw.dim() > 2 or (raw.dim() == 2 and raw.shape[0] != 1):
            raise ModelError(f"the model returned shape {tuple(raw.shape)} for one graph: expected (1, C)")
        if not bool(torch.isfinite(raw).all()):
            raise ModelError("the model returns NaN or infinite logits")
        return raw.reshape(1, -1).double()

    def _precise(self, base: GraphBatch, row: Tensor, adj: Tensor, x: Tensor, raw: Tensor) -> Tensor:
        """Outputs at the probe states in double precision, or in the model's own where it insists on that."""
        for precision in (torch.float64, self.caller.dtype):
            self.precision = precision
            try:
                with torch.no_grad():
                    real = self._run(base, row, adj, x, None)
                if bool(((real[:1] - raw).abs() <= 1e-3 * raw.abs().clamp(min=1.0)).all()):
                    return real
            except RuntimeError:
                if self.precision == self.caller.dtype:
                    raise
        raise ModelError("the model answers differently on a copy of its weights; is its state outside parameters?")

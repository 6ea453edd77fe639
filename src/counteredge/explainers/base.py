"""The protocol of every explainer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from counteredge.data import as_graph_list, check_graph
from counteredge.decision import Desired, Task
from counteredge.engine.search import Budget, Search
from counteredge.engine.shrink import shrink, shrink_for_real
from counteredge.errors import CapabilityError, InputError, unknown
from counteredge.explainers.harness import Harness
from counteredge.explainers.opening import Asking, Opened, opened
from counteredge.graphs import GraphBatch, buckets
from counteredge.nodes import NodeOracle
from counteredge.oracle import Oracle
from counteredge.results import Counterfactual
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["Explainer"]


class Explainer:
    """Base class: one verb, :meth:`explain`, for every method.

    A method implements :meth:`_search`, which fills a :class:`~counteredge.engine.search.Search` with proposals. The
    :class:`~counteredge.explainers.harness.Harness` builds the edited graphs, asks the untouched model, and only its
    answer makes ``found``.

    Args:
        mode: How the method is to behave: ``"paper"``, what its equations say (default); ``"reference"``, with the
            quirks of the authors' public code; ``"improved"``, with the repairs that we recommend;
            ``"legacy_gretel"``, as published comparisons ran it. Not every method has all of them.
        seed: Of every random draw; same seed, same answer, alone or in a batch.
        postprocess: ``"shrink"`` undoes edits until the answer is one-minimal, whatever the method; the size before is
            kept in ``cf.raw``. ``None`` leaves answers as the method gives them.
        memory: Bytes that one batched pass may take.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""  # what tables call it; the class's own name when empty
    control: ClassVar[bool] = False  # whether it edits without any search, to show what a figure says of that
    modes: ClassVar[tuple[str, ...]] = ("paper",)
    takes_references: bool = False
    needs_references: bool = False
    one_answer: bool = False  # whether k > 1 is not to be had
    plain_numbers: bool = False  # reads every column as a number without bounds, as XPlore's published variants do
    needs_gradients: bool = False  # exact ones, with respect to edges
    looks_far: bool = True  # in node tasks: adds edges to nodes outside of the target's ball
    copies: int = 8  # edited versions of a graph that the method holds at once; bounds the batch

    def __init__(
        self,
        *,
        mode: str | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        mode = self.modes[0] if mode is None else mode
        if mode not in self.modes:
            raise unknown(f"mode of {type(self).__name__}", mode, self.modes)
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed must be a whole number >= 0, got {seed!r}")
        if postprocess not in (None, "shrink"):
            raise InputError(f"postprocess={postprocess!r} is unknown; use 'shrink', or None")
        if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1 << 20:
            raise InputError(f"memory must be a whole number of bytes, at least 1 MiB ({1 << 20}), got {memory!r}")
        self.mode = mode
        self.seed, self.postprocess = seed, postprocess
        self.memory = memory

    @property
    def preset(self) -> str:
        """The mode, as results call it."""
        return self.mode

    # -- for methods to fill in --------------------------------------------------------------------------------------

    def _search(self, search: Search) -> None:
        raise TypeError(f"{type(self).__name__} does not implement _search")

    def _schema(self, graphs: Sequence[Data], space: EditSpace) -> FeatureSchema:
        """Meaning of the columns when neither the user nor the dataset gave one."""
        first = graphs[0].x
        if not first.is_floating_point():
            return FeatureSchema.fixed(1 if first.dim() == 1 else first.shape[1])
        return FeatureSchema.infer([g.x for g in graphs])

    def _space(self, space: EditSpace) -> EditSpace:
        """The user's edit space cut to what the method can do."""
        return space

    def _lower_bound(self, search: Search, row: int) -> int | None:
        """A certificate, when the method was asked for one."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The method's options, for the record."""
        return {"postprocess": self.postprocess} if self.postprocess else {}

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        """Refuse what the method cannot explain, before anything is searched."""

    def describe_failure(self, search: Search) -> str:
        """Why a graph can stay without an answer although no budget ran out."""
        return "the search ended without a valid candidate"

    def _references(
        self, oracle: Oracle, references: Any, schema: FeatureSchema
    ) -> tuple[Sequence[Data], Tensor] | None:
        """The references and what the model says of them."""
        if references is None:
            return None
        if not self.takes_references:
            raise InputError(f"references= does nothing with {type(self).__name__} in preset={self.preset!r}")
        given, _ = as_graph_list(references)
        for i, g in enumerate(given):
            check_graph(g, f"reference {i}")
            if (1 if g.x.dim() == 1 else g.x.shape[1]) != schema.width:
                raise InputError(
                    f"reference {i} has x of shape {tuple(g.x.shape)} but the graphs have {schema.width} columns"
                )
        return given, oracle.predict(given)

    # -- the verb ----------------------------------------------------------------------------------------------------

    def explain(
        self,
        model: nn.Module | Callable[[Batch], Any],
        graphs: Any,
        *,
        desired: Desired | None = None,
        task: Task | None = None,
        edits: EditSpace | str | None = None,
        budget: Budget | None = None,
        references: Any = None,
        node: Any = None,
        keep_others: float = 0.01,
        k: int = 1,
        max_overlap: float = 0.5,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        relaxation: str = "auto",
        progress: bool | None = None,
    ) -> Any:
        """Find the smallest change that flips the model's prediction.

        Args:
            model: A trained graph-level model, or with ``node`` a node-level one; it is left exactly as it was.
                Or any function ``predict(batch)`` of a PyG ``Batch`` that returns a label a graph (whole numbers) or a
                row of scores: a black box, searched without gradients.
            graphs: One ``Data``, or a list, ``Batch`` or dataset of them. Whole-number ``x`` is read as indices, of an
                embedding for example, and never edited; pass floats where features may change.
            desired: What the prediction is to become: a class, a set of classes, ``{label: 0 or 1}`` for a multilabel
                model, a range ``(lo, hi)`` for a regression; anything else than now when ``None``.
            task: ``"multiclass"``, ``"binary"``, ``"multilabel"``, ``"regression"``; read off the output when ``None``.
            edits: What may change: ``"edges"``, ``"features"``, ``"both"`` (default) or an :class:`EditSpace`. Without
                a schema in it (or in the dataset), the meaning and bounds of the columns are read off the graphs given;
                pass a schema where answers must not depend on which graphs are explained together.
            budget: Limits on calls, seconds, edits.
            references: Graphs to walk back from where the search finds nothing: those that are predicted as wished are
                laid onto the graph, and what they need not differ in is undone. Predicting them is not counted.
            node: Of a single graph, the node whose prediction is to flip: a number; a list, tensor or mask of nodes for
                an answer each; a set of nodes for one answer that flips all of them. Edits may touch the node's
                computation ball and, by new edges, nodes elsewhere; the full graph decides.
            keep_others: With ``node``: what a changed prediction of another node costs, in edits. At 0.01 it decides
                between answers of one size; the paper's soft constraint.
            k: How many different answers a graph, smallest first.
            max_overlap: Largest share that any two of them have in common: places edited by both over places edited
                by either (Jaccard). An edit is its place here, whatever was written there.
            forward_fn: ``(model, batch) -> output`` for models with unusual signatures.
            output_fn: Picks the logits out of what the model returns.
            relaxation: How gradients with respect to edges are obtained: ``"auto"``, ``"dense"``, ``"weights"``,
                ``"none"``.
            progress: Show a progress bar; from two seconds on when ``None``.

        Returns:
            One :class:`~counteredge.results.Counterfactual` for one ``Data``, otherwise a list in the order given.
            With ``node``, one for a number or a set, a list for a list.
            With ``k`` above 1 a list in place of each: as many answers as were found, or the one that says why not.

        Raises:
            InputError: Unusable graphs or options.
            ModelError: A model that cannot be called or is no graph-level predictor.
            BudgetError: A graph too large for ``memory``.

        Example:
            >>> import networkx as nx
            >>> from torch_geometric.utils import to_networkx
            >>> from counteredge import XPlore
            >>> def has_triangle(batch):  # a rule instead of a model: labels, no more
            ...     graphs = [to_networkx(g, to_undirected=True) for g in batch.to_data_list()]
            ...     return [any(nx.triangles(g).values()) for g in graphs]
            >>> arcs = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
            >>> square = Data(x=torch.ones(4, 1), edge_index=arcs)
            >>> cf = XPlore().explain(has_triangle, square, edits="edges")
            >>> cf.before.label, cf.after.label, cf.edits.added
            (0, 1, ((0, 2),))
        """
        items, single = as_graph_list(graphs)
        if not items:
            return []
        if not isinstance(k, int) or k < 1 or not 0 <= max_overlap <= 1:
            raise InputError(f"k must be a whole number >= 1 and max_overlap lie in [0, 1], got {k=}, {max_overlap=}")
        if node is not None and references is not None:
            raise InputError("references= are whole graphs for graph-level models; they do not go with node=")
        if k > 1 and self.one_answer:
            raise InputError(f"{type(self).__name__} gives one answer a graph: leave k at 1, got {k}")
        space = self._space(EditSpace.of(edits))
        if budget is not None and not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, as Budget(edits=10) or Budget(calls=500), got {budget!r}")
        budget = budget or Budget()
        deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        names = tuple(getattr(graphs, "label_names", ()))
        asking = Asking(desired, task, node, keep_others, forward_fn, output_fn, relaxation, self.looks_far)
        found: dict[int, list[Counterfactual]] = {}
        known = _known_schema(graphs)
        with opened(model, items, space, asking, memory=self.memory, known=known, read=self._schema) as work:
            oracle, single = work.oracle, work.single or (single and node is None)
            if not work.graphs:
                return []
            self._ready(oracle, work.schema)
            known_ends = self._references(oracle, references, work.schema)
            asked = _Asked(work.space, work.schema, budget, deadline, k, max_overlap, names, known_ends)
            with _bar(len(work.graphs), type(self).__name__, progress) as bar:
                for base in self._buckets(work):
                    for cf in self._batch(oracle, base, asked, bar):
                        cf = oracle.finish(cf) if isinstance(oracle, NodeOracle) else cf
                        found.setdefault(cf.index, []).append(cf)
        ranked = [sorted(found[i], key=lambda cf: len(cf.edits)) for i in range(len(found))]
        results: list[Any] = ranked if k > 1 else [answers[0] for answers in ranked]
        return results[0] if single else results

    def _buckets(self, work: Opened) -> Iterator[GraphBatch]:
        """The graphs in batches of like size that fit into memory."""
        policy = work.space.edge_policy(work.schema)
        return buckets(
            work.graphs, memory=self.memory, copies=self.copies, directed=work.space.directed, new_edges=policy
        )

    def _batch(self, oracle: Oracle, base: GraphBatch, asked: _Asked, bar: tqdm[Any]) -> Iterator[Counterfactual]:
        """The answers of a batch, up to ``k`` a graph; a graph without any gives the result that says why."""
        begun = time.perf_counter()
        z, allowed = oracle.predict(base.graphs, base.ids.tolist()), asked.space.allowed(base, asked.schema)
        earlier: list[Tensor] = []
        for turn in range(asked.k):
            tick = bar.update if not turn else _silent
            others = earlier, asked.max_overlap
            search = Search(oracle, base, allowed, z, asked.budget, asked.deadline, tick, others)
            search.references, search.several = asked.references or search.references, asked.k > 1
            # nothing to do where nothing may change, where all is well, or where there was no answer before
            fixed = ~allowed.flip.flatten(1).any(1) & ~allowed.features.flatten(1).any(1)
            search.stopped |= oracle.decision.flips(z, search.y0) | ~torch.isfinite(z).all(1) | fixed
            if turn:
                search.stopped |= ~earlier[-1].any(1)
            self._search_checked(search)
            if self.postprocess == "shrink":
                _shrink(search)
            oracle.charge_bypassed(base.ids)
            tick(int((~search.solved).sum()))
            for cf in Harness(self, oracle, search, asked.budget, asked.names).results():
                cf.seconds = (time.perf_counter() - begun) / base.size
                if cf.found or not turn:
                    yield cf
            earlier.append(search.moves.changed(search.state) & search.solved[:, None])
            if not bool(search.solved.any()):
                return

    def _without_gradients(self, instead: str) -> CapabilityError:
        """The refusal of a model that the method cannot get gradients from."""
        return CapabilityError(
            f"{type(self).__name__} in mode {self.mode!r} needs gradients with respect to edges, and no relaxed pass "
            "is exact for this model and these graphs (maximum aggregation, pooling between layers and attention over "
            f"repeated edges have none); {instead}"
        )

    def _search_checked(self, search: Search) -> None:
        if self.needs_gradients and not search.oracle.way(search.base).exact and bool(search.moves.flip.any()):
            raise self._without_gradients("XPlore's preset 'minimal', 'greedy' and 'irand' search it without them")
        self._search(search)


def _shrink(search: Search) -> None:
    """Make all answers one-minimal; how large they were is noted."""
    search.note_raw()
    rows = search.solved.nonzero().flatten()
    shrink(search, rows)
    shrink_for_real(search, rows[search.oracle.partial(search.base.ids[rows])])


@dataclass(frozen=True)
class _Asked:
    """What a call of ``explain`` asks of each batch."""

    space: EditSpace
    schema: FeatureSchema
    budget: Budget
    deadline: float | None
    k: int
    max_overlap: float
    names: tuple[str, ...]
    references: tuple[Sequence[Data], Tensor] | None = None


def _known_schema(graphs: Any) -> FeatureSchema | None:
    """The schema of a dataset that has one."""
    known = getattr(graphs, "schema", None)
    return known if isinstance(known, FeatureSchema) else None


def _silent(count: int) -> None:
    """The progress bar counts graphs, not answers."""


@contextmanager
def _bar(total: int, title: str, progress: bool | None) -> Iterator[tqdm[Any]]:
    bar = tqdm(total=total, desc=title, unit="graph", delay=2.0, leave=False, disable=progress is False)
    try:
        yield bar
    finally:
        bar.close()

"""The protocol of every explainer, and the harness that decides what counts as found."""

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

from counteredge.data import as_graph_list
from counteredge.decision import Desired, Task
from counteredge.descriptors import refreshed
from counteredge.edits import EditSet, apply_all, edit_sets
from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search
from counteredge.errors import InputError
from counteredge.graphs import GraphBatch, buckets
from counteredge.oracle import Oracle
from counteredge.results import Calls, Counterfactual, Prediction
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["Explainer"]

UNDO_LIMIT = 1024  # answers with more edits are not tested for one-minimality


class Explainer:
    """Base class: one verb, :meth:`explain`, for every method.

    A method implements :meth:`_search`, which fills a :class:`~counteredge.engine.search.Search` with proposals. The
    harness here builds the edited graphs, asks the untouched model, and only its answer makes ``found``.

    Args:
        seed: Of every random draw; same seed, same answer, alone or in a batch.
        memory: Bytes that one batched pass may take.
    """

    name: ClassVar[str] = ""
    preset: str = "default"
    copies: int = 8  # edited versions of a graph that the method holds at once; bounds the batch

    def __init__(self, *, seed: int = 0, memory: int = 1 << 30) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed must be a whole number >= 0, got {seed!r}")
        if memory < 1 << 20:
            raise InputError(f"memory={memory} bytes is less than one MiB")
        self.seed = seed
        self.memory = memory

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
        return {}

    def describe_failure(self, search: Search) -> str:
        """Why a graph can stay without an answer although no budget ran out."""
        return "the search ended without a valid candidate"

    # -- the verb ----------------------------------------------------------------------------------------------------

    def explain(
        self,
        model: nn.Module,
        graphs: Any,
        *,
        desired: Desired | None = None,
        task: Task | None = None,
        edits: EditSpace | str | None = None,
        budget: Budget | None = None,
        k: int = 1,
        max_overlap: float = 0.5,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        relaxation: str = "auto",
        progress: bool | None = None,
    ) -> Any:
        """Find the smallest change that flips the model's prediction.

        Args:
            model: A trained graph-level model; it is left exactly as it was.
            graphs: One ``Data``, or a list, ``Batch`` or dataset of them.
            desired: What the prediction is to become: a class, a set of classes, ``{label: 0 or 1}`` for a multilabel
                model, a range ``(lo, hi)`` for a regression; anything else than now when ``None``.
            task: ``"multiclass"``, ``"binary"``, ``"multilabel"``, ``"regression"``; read off the output when ``None``.
            edits: What may change: ``"edges"``, ``"features"``, ``"both"`` (default) or an :class:`EditSpace`. Without
                a schema in it (or in the dataset), the meaning and bounds of the columns are read off the graphs given;
                pass a schema where answers must not depend on which graphs are explained together.
            budget: Limits on calls, seconds, edits.
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
            With ``k`` above 1 a list in place of each: as many answers as were found, or the one that says why not.

        Raises:
            InputError: Unusable graphs or options.
            ModelError: A model that cannot be called or is no graph-level predictor.
            BudgetError: A graph too large for ``memory``.
        """
        items, single = as_graph_list(graphs)
        if not items:
            return []
        space = self._space(EditSpace.of(edits))
        known = getattr(graphs, "schema", None)
        oracle = Oracle(
            model,
            forward_fn=forward_fn,
            output_fn=output_fn,
            task=task,
            desired=desired,
            memory=self.memory,
            relaxation=relaxation,
        )
        if not isinstance(k, int) or k < 1 or not 0 <= max_overlap <= 1:
            raise InputError(f"k must be a whole number >= 1 and max_overlap lie in [0, 1], got {k=}, {max_overlap=}")
        budget = budget or Budget()
        deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        found: dict[int, list[Counterfactual]] = {}
        # gradients are needed here even when the caller has switched them off
        switches = torch.inference_mode(False), torch.enable_grad()
        with switches[0], switches[1], _bar(len(items), type(self).__name__, progress) as bar, oracle.session(items):
            schema = space.schema or (known if isinstance(known, FeatureSchema) else self._schema(items, space))
            frozen = space.structural == "frozen"
            _check_derived(items, schema)
            if not frozen:
                oracle.follow(schema, items[0].x.dtype)
            for base in buckets(
                items,
                memory=self.memory,
                copies=self.copies,
                directed=space.directed,
                new_edges=space.new_edges,
            ):
                names = getattr(graphs, "label_names", ())
                asked = _Asked(space, schema, budget, deadline, k, max_overlap, tuple(names))
                for cf in self._batch(oracle, base, asked, bar):
                    found.setdefault(cf.index, []).append(cf)
        ranked = [sorted(found[i], key=lambda cf: len(cf.edits)) for i in range(len(items))]
        results: list[Any] = ranked if k > 1 else [answers[0] for answers in ranked]
        return results[0] if single else results

    def _batch(self, oracle: Oracle, base: GraphBatch, asked: _Asked, bar: tqdm[Any]) -> Iterator[Counterfactual]:
        """The answers of a batch, up to ``k`` a graph; a graph without any gives the result that says why."""
        begun = time.perf_counter()
        z, allowed = oracle.predict(base.graphs, base.ids.tolist()), asked.space.allowed(base, asked.schema)
        earlier: list[Tensor] = []
        for turn in range(asked.k):
            tick = bar.update if not turn else _silent
            others = earlier, asked.max_overlap
            search = Search(oracle, base, allowed, z, asked.budget, asked.deadline, tick, others)
            # nothing to do where nothing may change, where all is well, or where there was no answer before
            fixed = ~allowed.flip.flatten(1).any(1) & ~allowed.features.flatten(1).any(1)
            search.stopped |= oracle.decision.flips(z, search.y0) | ~torch.isfinite(z).all(1) | fixed
            if turn:
                search.stopped |= ~earlier[-1].any(1)
            self._search(search)
            oracle.charge_bypassed(base.ids)
            tick(int((~search.solved).sum()))
            for cf in _Harness(self, oracle, search, asked).results():
                cf.seconds = (time.perf_counter() - begun) / base.size
                if cf.found or not turn:
                    yield cf
            earlier.append(search.moves.changed(search.state) & search.solved[:, None])
            if not bool(search.solved.any()):
                return


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


class _Harness:
    """Turns the state of a search into results; only the untouched model's answer on real graphs makes ``found``."""

    def __init__(self, explainer: Explainer, oracle: Oracle, search: Search, asked: _Asked) -> None:
        self.explainer, self.oracle, self.search, self.budget = explainer, oracle, search, asked.budget
        self.names = asked.names
        self.parameters = explainer.parameters()

    def results(self) -> list[Counterfactual]:
        """One result a graph of the batch."""
        base, oracle = self.search.base, self.oracle
        claimed = {r: self._claim(r) for r in self.search.solved.nonzero().flatten().tolist()}
        edited = [data for _, data in claimed.values()]
        other = self._other_way(claimed)
        graphs = [*base.graphs, *edited]
        place = dict(zip(claimed, range(base.size, len(graphs)), strict=True))
        z = torch.cat([self.search.before, oracle.predict(edited)]) if edited else self.search.before
        # what is shown comes from the double-precision pass, which does not depend on the batch
        shown = oracle.decision.read(oracle.predict(graphs, precise=True))
        y0 = oracle.decision.labels(z[: base.size])
        already = oracle.decision.flips(z[: base.size], y0).tolist()
        confirmed = oracle.decision.flips(z[base.size :], y0[list(claimed)]).tolist()
        flips_too = confirmed if other is None else oracle.decision.flips(oracle.predict(other), y0[list(claimed)])
        legal = self._legal([(r, e) for r, (e, _) in claimed.items()])
        out = []
        for row in range(base.size):
            edits, data, reason = EditSet(directed=base.directed), None, ""
            if row not in claimed:
                reason = self._why_not(row, already[row], bool(torch.isfinite(z[row]).all()))
            else:
                edits, data = claimed[row]
                if not confirmed[place[row] - base.size]:
                    reason = "the untouched model did not confirm the candidate"
                elif not legal[place[row] - base.size]:
                    reason = "the answer found breaks a limit of the edit space or the budget"
                elif self.budget.edits is not None and len(edits) > self.budget.edits:
                    reason = f"the smallest answer found has {len(edits)} edits, the budget is {self.budget.edits}"
            after = None if reason else Prediction(*shown[place[row]])
            cf = self._result(row, edits, data, reason, Prediction(*shown[row]), after)
            if cf.found:
                here = bool(flips_too[place[row] - base.size])
                cf.valid_refreshed, cf.valid_frozen = (True, here) if oracle.follows else (here, True)
            out.append(cf)
        self._test_minimality([(cf, y0[k : k + 1]) for k, cf in enumerate(out) if cf.found])
        return out

    def _claim(self, row: int) -> tuple[EditSet, Data]:
        """The edits and the edited graph that the search ended with."""
        search = self.search
        if row in search.answers:
            return search.answers[row]
        at = torch.tensor([row])
        edits = edit_sets(search.base, at, search.state.adj[at], search.state.x[at], search.moves.allowed.schema)[0]
        return edits, edits.apply(search.base.graphs[row], search.oracle.follows)

    def _other_way(self, claimed: dict[int, tuple[EditSet, Data]]) -> list[Data] | None:
        """The edited graphs with derived columns treated the other way; ``None`` where there are none."""
        base, schema = self.search.base, self.search.moves.allowed.schema
        if not schema.derived or not claimed:
            return None
        follow = None if self.oracle.follows else schema
        return apply_all([e for e, _ in claimed.values()], [base.graphs[r] for r in claimed], follow)

    def _result(
        self, row: int, edits: EditSet, data: Data | None, reason: str, before: Prediction, after: Prediction | None
    ) -> Counterfactual:
        search, oracle, explainer = self.search, self.oracle, self.explainer
        i = int(search.base.ids[row])
        forward, backward, first = oracle.tally[:, i].tolist()
        found = not reason
        return Counterfactual(
            index=i,
            original=search.base.graphs[row],
            data=data if found else None,
            edits=edits if found else EditSet(directed=search.base.directed),
            before=before,
            after=after,
            found=found,
            reason=reason,
            stage=search.stage[row] if found else "none",
            minimal=None,
            certified_lower_bound=explainer._lower_bound(search, row),
            calls=Calls(forward, backward, first or None),
            seconds=0.0,
            relaxation=oracle.way(search.base).name,
            explainer=explainer.name,
            preset=explainer.preset,
            seed=explainer.seed,
            parameters=self.parameters,
            schema=search.moves.allowed.schema,
            structural=self._structural(),
            label_names=self.names,
        )

    def _legal(self, answers: Sequence[tuple[int, EditSet]]) -> list[bool]:
        """Whether edited graphs keep the limits on whole graphs and on kinds of edits."""
        if not answers or not self.search.limited:
            return [True] * len(answers)
        rows = torch.tensor([r for r, _ in answers])
        state = State.start(self.search.base, rows)
        for k, (_, edits) in enumerate(answers):
            for pairs, value in ((edits.added, 1.0), (edits.removed, 0.0)):
                for i, j in pairs:
                    state.adj[k, i, j] = value
                    if not edits.directed:
                        state.adj[k, j, i] = value
            for e in edits.features:
                state.x[k, e.node, list(e.columns)] = torch.tensor(e.new, dtype=state.x.dtype)
        return self.search.legal(state).tolist()

    def _structural(self) -> Literal["refreshed", "frozen"] | None:
        if self.oracle.follows:
            return "refreshed"
        return "frozen" if self.search.moves.allowed.schema.derived else None

    def _test_minimality(self, found: Sequence[tuple[Counterfactual, Tensor]]) -> None:
        """Undo each single edit and ask the untouched model again."""
        row_of = {int(i): r for r, i in enumerate(self.search.base.ids)}
        for cf, y0 in found:
            count = len(cf.edits)
            if count == 1:
                cf.minimal = True  # undoing the only edit gives the original, which is no counterfactual
            elif count <= UNDO_LIMIT:
                fewer = [cf.edits.without(k) for k in range(count)]
                z = self.oracle.predict(apply_all(fewer, [cf.original] * count, self.oracle.follows))
                flips = self.oracle.decision.flips(z, y0.expand(count, *y0.shape[1:]))
                legal = self._legal([(row_of[cf.index], e) for e in fewer])
                cf.minimal = not bool((flips & torch.tensor(legal)).any())

    def _why_not(self, row: int, already: bool, finite: bool) -> str:
        search, budget = self.search, self.budget
        if not finite:
            return "the model returns NaN or infinite logits on this graph"
        if already:
            return "the prediction already is what was asked for"
        allowed = search.moves.allowed
        if not bool(allowed.flip[row].any()) and not bool(allowed.features[row].any()):
            return "the edit space allows no change on this graph"
        if search.stopped[row]:
            if search.late():
                return f"the budget of {budget.seconds:g} seconds is spent"
            return f"the budget of {budget.calls} oracle calls is spent"
        if not self.oracle.way(search.base).edges_matter and not bool(allowed.features[row].any()):
            return "the prediction did not depend on edges where it was probed, and no feature may change"
        return self.explainer.describe_failure(search)


def _check_derived(graphs: Sequence[Data], schema: FeatureSchema) -> None:
    """Columns that are said to follow from the edges must do so on the graphs as given."""
    if schema.width != (1 if graphs[0].x.dim() == 1 else graphs[0].x.shape[1]):
        return  # said when the edit space is spelled out
    if not schema.derived:
        return
    at = list(schema.derived)
    given, due = (torch.cat([g.x[:, at] for g in some]).double() for some in (graphs, refreshed(graphs, schema)))
    wrong = ((given - due).abs() > 1e-4 * due.abs().clamp(min=1.0)).nonzero()
    if len(wrong):
        row, k = wrong[0].tolist()
        first = torch.tensor([0, *(len(g.x) for g in graphs)]).cumsum(0)
        i = int((first <= row).sum()) - 1
        raise InputError(
            f"graph {i}: column {at[k]} is said to be {schema.columns[at[k]].derived!r}, but at node "
            f"{row - int(first[i])} it is {float(given[row, k]):g} where the edges give {float(due[row, k]):g}; "
            "correct it (see counteredge.descriptors), or describe the column as continuous or fixed"
        )


def _silent(count: int) -> None:
    """The progress bar counts graphs, not answers."""


@contextmanager
def _bar(total: int, title: str, progress: bool | None) -> Iterator[tqdm[Any]]:
    bar = tqdm(total=total, desc=title, unit="graph", delay=2.0, leave=False, disable=progress is False)
    try:
        yield bar
    finally:
        bar.close()

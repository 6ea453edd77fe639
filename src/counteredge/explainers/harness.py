"""The harness: it, and not the explainer, says what is found, legal and one-minimal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.edits import EditSet, apply_all, edit_sets
from counteredge.engine.moves import State
from counteredge.engine.search import Budget, Search
from counteredge.oracle import Oracle
from counteredge.results import Calls, Counterfactual, Prediction

if TYPE_CHECKING:
    from counteredge.explainers.base import Explainer

__all__ = ["Harness"]

UNDO_LIMIT = 1024  # answers with more edits are not tested for one-minimality
UNDONE_AT_ONCE = 64  # graphs of that test asked about together; one flip among them settles it


class Harness:
    """Turns the state of a search into results; only the untouched model's answer on real graphs makes ``found``.

    Args:
        explainer: Whose search it was.
        oracle: In session.
        search: One batch, searched.
        budget: That was set.
        names: Of the classes.
    """

    def __init__(
        self, explainer: Explainer, oracle: Oracle, search: Search, budget: Budget, names: tuple[str, ...]
    ) -> None:
        self.explainer, self.oracle, self.search, self.budget = explainer, oracle, search, budget
        self.names = names
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
            raw=search.raw.get(row) if found else None,
        )

    def _legal(self, answers: Sequence[tuple[int, EditSet]]) -> list[bool]:
        """Whether edited graphs keep the limits on whole graphs and on kinds of edits."""
        if not answers or not (self.search.limited or self.search.keeps):
            return [True] * len(answers)
        outside = self.search.outside[[r for r, _ in answers]]
        legal = torch.ones(len(answers), dtype=torch.bool)
        for k in outside.nonzero().flatten().tolist():  # methods that change nodes take no limits on whole graphs
            row, edits = answers[k]
            most = self.budget.edges, self.budget.features
            parts = edits.edge_count + edits.node_count, edits.feature_count + edits.attribute_count
            legal[k] = all(m is None or part <= m for m, part in zip(most, parts, strict=True))
            legal[k] &= self.search.keeps is None or self.search.keeps(row, edits)
        unchanged = EditSet(directed=self.search.base.directed)
        state = State.of(
            self.search.base, [(r, unchanged if o else e) for (r, e), o in zip(answers, outside, strict=True)]
        )
        return (legal & (self.search.legal(state) | outside)).tolist()

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
                cf.minimal = not any(
                    self._any_undone(cf, row_of[cf.index], y0, range(k, min(k + UNDONE_AT_ONCE, count)))
                    for k in range(0, count, UNDONE_AT_ONCE)
                )

    def _any_undone(self, cf: Counterfactual, row: int, y0: Tensor, which: range) -> bool:
        """Whether the flip survives when one of these edits is undone."""
        fewer = [cf.edits.without(k) for k in which]
        z = self.oracle.predict(apply_all(fewer, [cf.original] * len(fewer), self.oracle.follows))
        flips = self.oracle.decision.flips(z, y0.expand(len(fewer), *y0.shape[1:]))
        return bool((flips & torch.tensor(self._legal([(row, e) for e in fewer]))).any())

    def _why_not(self, row: int, already: bool, finite: bool) -> str:
        search, budget = self.search, self.budget
        if not finite:
            return "the model returns NaN or infinite logits on this graph"
        if already:
            return "the prediction already is what was asked for"
        allowed = search.moves.allowed
        part = bool(self.oracle.partial(search.base.ids[row : row + 1])[0])
        if not bool(allowed.flip[row].any()) and not bool(allowed.features[row].any()):
            if part:
                return "the edit space allows no change among the nodes that were looked at, the node's ball"
            whole = "" if search.base.x.is_floating_point() else "; whole-number x is never edited, float x may be"
            return f"the edit space allows no change on this graph{whole}"
        if search.stopped[row]:
            if search.late():
                return f"the budget of {budget.seconds:g} seconds is spent"
            return f"the budget of {budget.calls} oracle calls is spent"
        if not self.oracle.way(search.base).edges_matter and not bool(allowed.features[row].any()):
            return "the prediction did not depend on edges where it was probed, and no feature may change"
        if search.exhausted[row]:
            pairs = int(allowed.flip[row].sum()) // (1 if search.base.directed else 2)
            if part:  # what lies outside of the ball was not tried: no proof
                return f"none of the 2^{pairs} sets of allowed edge flips within the node's ball is a counterfactual"
            return f"proved: none of the 2^{pairs} sets of allowed edge flips is a counterfactual"
        if row in search.reasons:
            return search.reasons[row]
        return self.explainer.describe_failure(search)

"""The instances of a sweep by dataset and method, and figures of them, each computed once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from counteredge.bench.collect import Collected
from counteredge.explainers import EXPLAINERS
from counteredge.metrics import METRICS, Aggregate, aggregate
from counteredge.report.cells import Cell, Column, Unit
from counteredge.report.published import paper_value

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Method", "Pool", "column", "mean_cell"]

UNITS: dict[str, Unit] = {
    "validity": "percent", "ged": "count", "feature_edits": "count", "calls_forward": "count",
    "calls_backward": "count", "calls_to_first_valid": "count", "runtime": "seconds",
}  # fmt: skip
TITLES = {
    "validity": "Validity (%)", "ged": "GED", "feature_edits": "Feature edits", "cosine_similarity": "CS",
    "calls_to_first_valid": "Calls to first valid", "runtime": "Runtime (s)", "one_minimal_share": "One-minimal",
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """What tables call a method, and what it is.

    Attributes:
        name: In tables.
        explainer: Name in the registry.
        preset: Preset or mode.
        features: XPlore's variant, ``""`` for none.
        gamma: Of the edit space.
    """

    name: str
    explainer: str
    preset: str
    features: str
    gamma: float

    @property
    def control(self) -> bool:
        """Whether it edits without any search, and so can be neither best nor second best."""
        return self.explainer in EXPLAINERS and EXPLAINERS[self.explainer].control

    def paper(self, dataset: str, metric: str, *, table: str | None = None) -> float | None:
        """See :func:`~counteredge.report.published.paper_value`."""
        return paper_value(self.explainer, self.preset, self.features, dataset, metric, table=table)


class Pool(Collected):
    """What was collected, with the instances of all seeds and parts of a dataset and a method pooled.

    Its figures are computed once: the tables do not change after.

    Args:
        collected: Results of sweeps.
    """

    def __init__(self, collected: Collected) -> None:
        super().__init__(collected.jobs, collected.instances, collected.answers)
        jobs = collected.jobs
        of = ["method", "explainer", "preset", "features", "gamma"]
        first = {row[0]: Method(*row) for row in jobs[of].drop_duplicates("method").itertuples(index=False)}
        every = [first[m] for m in collected.methods]
        self.ordered = [m for m in every if not m.control] + [m for m in every if m.control]
        self.method = {m.name: m for m in every}
        # by graph, so that a set explained in parts gives the bytes of the same set explained at once
        by = [k for k in ("seed", "graph", "node") if k in collected.instances]
        rows = collected.instances.sort_values(by, key=_sortable, kind="stable")
        self._rows = {(str(d), str(m)): part for (d, m), part in rows.groupby(["dataset", "method"], sort=False)}
        self._asked = set(zip(jobs["dataset"], jobs["method"], strict=True))
        failed = jobs[jobs["status"] == "failed"]
        self._failed = set(zip(failed["dataset"], failed["method"], strict=True))
        self._figures: dict[tuple[str, str, str], Aggregate] = {}

    @staticmethod
    def of(collected: Collected) -> Pool:
        """A pool as it is, so that the tables, figures and page of one report share theirs; else a new one."""
        return collected if isinstance(collected, Pool) else Pool(collected)

    @property
    def answered(self) -> list[str]:
        """Datasets with at least one instance, in the order in which jobs come."""
        some = {d for d, _ in self._rows}
        return [d for d in self.datasets if d in some]

    def methods_on(self, dataset: str) -> list[Method]:
        """Methods with a job on a dataset, failed ones too; controls last."""
        return [m for m in self.ordered if (dataset, m.name) in self._asked]

    def has(self, dataset: str, method: Method | str) -> bool:
        """Whether there are instances."""
        return (dataset, _name(method)) in self._rows

    def rows(self, dataset: str, method: Method | str) -> pd.DataFrame:
        """Instances; none where every job failed."""
        found = self._rows.get((dataset, _name(method)))
        return self.instances.iloc[:0] if found is None else found

    def column(self, dataset: str, method: Method | str, name: str) -> list[Any]:
        """One column of the instances; empty where there is none."""
        rows = self.rows(dataset, method)
        return list(rows[name]) if name in rows else []

    def values(self, dataset: str, method: Method | str, metric: str) -> torch.Tensor:
        """Values of a metric that are no NaN, ``(N,)``."""
        values = _tensor(self.column(dataset, method, metric))
        return values[~torch.isnan(values)]

    def competes(self, dataset: str, method: Method) -> bool:
        """Whether a method can win on a dataset: no control, and it found something there."""
        return not method.control and bool(self.rows(dataset, method)["found"].astype(bool).any())

    def failed(self, dataset: str, method: Method) -> bool:
        """Whether some jobs of a method failed on a dataset."""
        return (dataset, method.name) in self._failed

    def partial(self, dataset: str, method: Method) -> bool:
        """Whether some did and others did not."""
        return self.failed(dataset, method) and self.has(dataset, method)

    def figure(self, dataset: str, method: Method | str, metric: str) -> Aggregate:
        """Mean, spread and interval of a metric over all instances that have it."""
        key = (dataset, _name(method), metric)
        if key not in self._figures:
            self._figures[key] = aggregate(self.values(dataset, method, metric))
        return self._figures[key]

    def cell(self, dataset: str, method: Method, metric: str, *, table: str | None = None) -> Cell:
        """A metric with the paper's figure beside it."""
        paper = method.paper(dataset, metric, table=table)
        return _cell(self.figure(dataset, method, metric), paper, self.partial(dataset, method))


def mean_cell(values: Iterable[Any], *, partial: bool = False) -> Cell:
    """A cell with mean, spread, interval and count of the values that are no NaN."""
    return _cell(aggregate(_tensor(values)), None, partial)


def _cell(a: Aggregate, paper: float | None, partial: bool) -> Cell:
    return Cell(_known(a.mean), _known(a.std), _known(a.low), _known(a.high), paper, a.count, partial=partial)


def column(metric: str) -> Column:
    """The column of a metric; ``shrunk_`` before a name is that metric once needless edits are undone."""
    name = metric.removeprefix("shrunk_")
    title = TITLES.get(name, METRICS[name].title)
    if name != metric:
        title = f"Shrunk {title if title.isupper() else title[0].lower() + title[1:]}"
    return Column(metric, title, UNITS.get(name, "ratio"), METRICS[name].direction)


def _name(method: Method | str) -> str:
    return method if isinstance(method, str) else method.name


def _sortable(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers as they are; lists of nodes as text."""
    return column.astype(str) if column.dtype == object else column


def _tensor(values: Iterable[Any]) -> torch.Tensor:
    return torch.tensor([float(v) for v in values], dtype=torch.float64)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value

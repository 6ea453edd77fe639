"""Every figure beside the paper's, a line each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from counteredge.bench.collect import Collected, frames
from counteredge.report.pooled import Method, Pool

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "paper_table_rows"]

COLUMNS = ("dataset", "explainer", "preset", "metric", "ours", "ci_low", "ci_high", "graphs", "paper")
ROWS = (
    "validity", "fidelity", "edit_ratio", "ged", "cosine_similarity", "calls_forward", "calls_backward",
    "calls_to_first_valid", "runtime", "feature_edits", "one_minimal_share", "shrunk_edit_ratio", "shrunk_ged",
    "shrunk_feature_edits",
)  # fmt: skip


def paper_table_rows(collected: Collected, *, timings: bool = True) -> pd.DataFrame:
    """Our figures with their 95 % intervals beside the paper's, in long form.

    ``preset`` tells methods apart: it is the preset or mode, followed by the variant of XPlore's features (``"paper
    freedom"``). Methods that share explainer, preset and variant differ in other options; each of them has its name in
    tables there instead.

    Args:
        collected: Results of sweeps.
        timings: Whether there are rows of seconds.

    Returns:
        Columns ``dataset, explainer, preset, metric, ours, ci_low, ci_high, graphs, paper``. ``graphs`` is how many the
        mean is over: for sizes and similarities those with a counterfactual, 0 where there is no figure, which is NaN.
    """
    pool = Pool.of(collected)
    labels = _labels(pool.ordered)
    rows = []
    for dataset in pool.datasets:
        for m in pool.methods_on(dataset):
            for metric in ROWS:
                if metric == "runtime" and not timings:
                    continue
                a, paper = pool.figure(dataset, m, metric), m.paper(dataset, metric)
                head = (dataset, m.explainer, labels[m], metric)
                rows.append((*head, a.mean, a.low, a.high, a.count, float("nan") if paper is None else paper))
    table: pd.DataFrame = frames().DataFrame(rows, columns=list(COLUMNS))
    return table


def _labels(methods: list[Method]) -> dict[Method, str]:
    plain = {m: f"{m.preset} {m.features}".strip() for m in methods}
    shared = Counter((m.explainer, label) for m, label in plain.items())
    return {m: label if shared[m.explainer, label] == 1 else m.name for m, label in plain.items()}

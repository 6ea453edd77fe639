"""What a set of counterfactuals is worth: every metric with its name, formula, range, direction and source."""

# each of these registers its metrics, in the order of the tables
from counteredge.metrics import answers, size, cost, similarity, plausibility  # noqa: F401, I001
from counteredge.metrics.aggregate import Aggregate, aggregate
from counteredge.metrics.controls import CONTROLS
from counteredge.metrics.definition import METRICS, Metric
from counteredge.metrics.document import definitions, embedders_table
from counteredge.metrics.evaluate import Evaluation, Evaluator, evaluate
from counteredge.metrics.similarity import CosineSimilarity, cosine
from counteredge.metrics.size import exact_ged

__all__ = [
    "CONTROLS",
    "METRICS",
    "Aggregate",
    "CosineSimilarity",
    "Evaluation",
    "Evaluator",
    "Metric",
    "aggregate",
    "cosine",
    "definitions",
    "embedders_table",
    "evaluate",
    "exact_ged",
]

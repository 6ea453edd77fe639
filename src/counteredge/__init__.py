"""counteredge: the smallest change to a graph that flips a trained GNN's prediction, verified on the model itself.

import counteredge as ce
cf = ce.XPlore().explain(model, data)
print(cf)
"""

from counteredge.descriptors import StructuralFeatures
from counteredge.edits import EditSet, FeatureEdit
from counteredge.engine.search import Budget
from counteredge.errors import (
    BudgetError,
    CapabilityError,
    CounterEdgeError,
    DataError,
    InputError,
    ModelError,
)
from counteredge.explainers import EXPLAINERS, Explainer, XPlore, get_explainer
from counteredge.oracle import Oracle
from counteredge.proof import certify, importance, robustness
from counteredge.results import Counterfactual, Prediction, read_jsonl, write_jsonl
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace

__version__ = "0.1.0"

__all__ = [
    "EXPLAINERS",
    "Budget",
    "BudgetError",
    "CapabilityError",
    "Column",
    "CounterEdgeError",
    "Counterfactual",
    "DataError",
    "EditSet",
    "EditSpace",
    "Explainer",
    "FeatureEdit",
    "FeatureSchema",
    "InputError",
    "ModelError",
    "Oracle",
    "Prediction",
    "StructuralFeatures",
    "XPlore",
    "certify",
    "get_explainer",
    "importance",
    "read_jsonl",
    "robustness",
    "write_jsonl",
]

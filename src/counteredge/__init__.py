"""counteredge: the smallest change to a graph that flips a trained GNN's prediction, verified on the model itself.

import counteredge as ce
cf = ce.XPlore().explain(model, data)
print(cf)
"""

from counteredge.descriptors import StructuralFeatures
from counteredge.edits import AttributeEdit, EditSet, FeatureEdit
from counteredge.engine.search import Budget
from counteredge.errors import (
    BudgetError,
    CapabilityError,
    CounterEdgeError,
    DataError,
    InputError,
    ModelError,
    StoreError,
)
from counteredge.explainers import (
    CF2,
    CLEAR,
    COMBINEX,
    EXPLAINERS,
    MEG,
    RSGGCE,
    C2Explainer,
    CFGNNExplainer,
    CompleteGraph,
    D4Explainer,
    EmptyGraph,
    Explainer,
    FitReport,
    Greedy,
    InduCE,
    IRand,
    Nearest,
    XPlore,
    get_explainer,
    shrink,
)
from counteredge.oracle import Oracle
from counteredge.proof import certify, importance, robustness
from counteredge.results import Counterfactual, Prediction, read_jsonl, write_jsonl
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace

__version__ = "0.1.0"

__all__ = [
    "CF2",
    "CLEAR",
    "COMBINEX",
    "EXPLAINERS",
    "MEG",
    "RSGGCE",
    "AttributeEdit",
    "Budget",
    "BudgetError",
    "C2Explainer",
    "CFGNNExplainer",
    "CapabilityError",
    "Column",
    "CompleteGraph",
    "CounterEdgeError",
    "Counterfactual",
    "D4Explainer",
    "DataError",
    "EditSet",
    "EditSpace",
    "EmptyGraph",
    "Explainer",
    "FeatureEdit",
    "FeatureSchema",
    "FitReport",
    "Greedy",
    "IRand",
    "InduCE",
    "InputError",
    "ModelError",
    "Nearest",
    "Oracle",
    "Prediction",
    "StoreError",
    "StructuralFeatures",
    "XPlore",
    "certify",
    "get_explainer",
    "importance",
    "read_jsonl",
    "robustness",
    "shrink",
    "write_jsonl",
]

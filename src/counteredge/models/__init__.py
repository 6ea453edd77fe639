"""Graph and node classifiers to explain, how they are trained, and recipes for the known datasets."""

from counteredge.models.classifier import GraphClassifier
from counteredge.models.recipes import RECIPES, OracleRecipe, Protocol, Recipe
from counteredge.models.training import TrainedModel, train
from counteredge.models.zoo import oracle_for

__all__ = [
    "RECIPES",
    "GraphClassifier",
    "OracleRecipe",
    "Protocol",
    "Recipe",
    "TrainedModel",
    "oracle_for",
    "train",
]

"""Graph classifiers to explain, how they are trained, and recipes for the known datasets."""

from counteredge.models.classifier import GraphClassifier
from counteredge.models.training import Recipe, TrainedModel, train
from counteredge.models.zoo import RECIPES, oracle_for

__all__ = ["RECIPES", "GraphClassifier", "Recipe", "TrainedModel", "oracle_for", "train"]

"""Train a small GNN on generated graphs, and ask what would have changed its mind."""

import counteredge as ce
from counteredge.datasets import tree_cycles
from counteredge.models import Recipe, train

dataset = tree_cycles(200, nodes=16, seed=0)
recipe = Recipe(conv="gin", layers=3, hidden=16, dense=1, pool="add", epochs=40, lr=0.01, batch_size=32)
trained = train(dataset.graphs, dataset.num_classes, recipe, seed=0)
print(f"accuracy on held-out graphs: {trained.accuracy_heldout:.0%}")

cf = ce.XPlore().explain(trained.model, dataset[0])  # one graph in, one counterfactual out
print(cf)

cfs = ce.XPlore().explain(trained.model, dataset.graphs[:20])
print(f"{sum(c.found for c in cfs)} of {len(cfs)} graphs flip; edits: {[len(c.edits) for c in cfs]}")

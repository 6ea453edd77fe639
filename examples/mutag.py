"""Molecules: what would make the model call a mutagen harmless, in edges and in atoms? Draws the README's picture."""

import sys

import counteredge as ce
from counteredge.datasets import load
from counteredge.draw import gallery
from counteredge.models import oracle_for

dataset = load("MUTAG")
oracle = oracle_for(dataset.name, dataset.graphs, dataset.num_classes)
print(f"oracle accuracy {oracle.accuracy:.1%}, held out {oracle.accuracy_heldout:.1%}")

molecules = [dataset[0], dataset[4]]
both = ce.XPlore().explain(oracle.model, molecules, edits=ce.EditSpace(schema=dataset.schema))
edges = ce.XPlore().explain(oracle.model, molecules, edits=ce.EditSpace(schema=dataset.schema, features=False))
for cf in (*both, *edges):
    cf.label_names = dataset.label_names
    print(cf)

path = sys.argv[1] if len(sys.argv) > 1 else "mutag.png"
gallery([both[0], edges[0], both[1], edges[1]], path)
print(f"picture: {path}")

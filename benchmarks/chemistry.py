"""Molecules among the answers, with and without ``chemistry="valence"``; writes docs/results/chemistry.csv.

    python benchmarks/chemistry.py [--out docs/results] [--root FOLDER]

Rows ``originals``: graphs of a dataset that are valid molecules as they are. Rows ``answers``: all graphs of MUTAG
explained by the ``minimal`` preset under the oracle of protocol ``paper``, seed 0, by edits of edges or of both kinds:

- ``any``: the edit space says nothing of chemistry, a new edge gets the most frequent bond type of its graph;
- ``single bonds``: likewise, but new edges are single bonds;
- ``valence``: ``EditSpace(chemistry="valence")``.

``molecules`` counts answers that RDKit sanitises and reads back from their SMILES; ``broken`` those that it does not,
although the original was a molecule; ``mean_edits`` is over the graphs answered.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import torch

import counteredge as ce
from counteredge.chemistry import elements_by_number, new_bonds, valid_molecule
from counteredge.datasets import GraphDataset, load
from counteredge.models import oracle_for

COLUMNS = [
    "dataset",
    "what",
    "edits",
    "space",
    "graphs",
    "found",
    "molecules",
    "broken",
    "mean_edits",
    "calls",
    "seconds",
]
DATASETS = ("MUTAG", "BZR", "COX2", "AIDS", "BBBP")


def originals(name: str, root: Path | None) -> dict[str, Any]:
    """How many graphs of a dataset are molecules."""
    data = load(name, root)
    schema = elements_by_number(data.schema)
    valid = sum(valid_molecule(g, schema) for g in data)
    return {"dataset": name, "what": "originals", "graphs": len(data), "molecules": valid}


def answers(data: GraphDataset, model: torch.nn.Module, edits: str, named: str) -> dict[str, Any]:
    """One way of explaining all graphs of a dataset."""
    spaces: dict[str, dict[str, Any]] = {
        "any": {},
        "single bonds": {"new_edges": new_bonds(data.schema, "mode")},
        "valence": {"chemistry": "valence"},
    }
    space = ce.EditSpace(features=edits == "both", schema=data.schema, **spaces[named])
    begun = time.perf_counter()
    cfs = ce.XPlore().explain(model, data.graphs, edits=space, progress=False)
    seconds = time.perf_counter() - begun
    found = [cf for cf in cfs if cf.found]
    valid = [valid_molecule(cf.data, data.schema) for cf in found]
    was = [valid_molecule(cf.original, data.schema) for cf in found]
    return {
        "dataset": data.name,
        "what": "answers",
        "edits": edits,
        "space": named,
        "graphs": len(cfs),
        "found": len(found),
        "molecules": sum(valid),
        "broken": sum(a and not b for a, b in zip(was, valid, strict=True)),
        "mean_edits": f"{sum(len(cf.edits) for cf in found) / max(1, len(found)):.3f}",
        "calls": f"{sum(cf.calls.forward for cf in cfs) / len(cfs):.1f}",
        "seconds": f"{seconds:.1f}",
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--root", type=Path, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [originals(name, given.root) for name in DATASETS]
    data = load("MUTAG", given.root)
    model = oracle_for("MUTAG", data.graphs, data.num_classes, seed=0, protocol="paper").model
    rows += [answers(data, model, e, s) for e in ("edges", "both") for s in ("any", "single bonds", "valence")]
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "chemistry.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print((given.out / "chemistry.csv").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

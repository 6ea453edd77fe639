"""Commands that explain and measure: ``explain``, ``evaluate``, ``metrics``."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from counteredge.cli.common import app, figures_table, plain_errors
from counteredge.errors import InputError

__all__: list[str] = []


class Edits(StrEnum):
    """What may change."""

    edges = "edges"
    features = "features"
    both = "both"


class Structural(StrEnum):
    """What becomes of feature columns that follow from the edges."""

    refreshed = "refreshed"
    frozen = "frozen"


class Chemistry(StrEnum):
    """What chemistry asks of an answer."""

    none = "none"
    valence = "valence"


class Variant(StrEnum):
    """The paper's feature variants."""

    none = "none"
    gating = "gating"
    freedom = "freedom"


@app.command(epilog="Example: counteredge explain --dataset MUTAG --explainer xplore --limit 50 --out runs/mutag")
def explain(
    dataset: Annotated[
        str, typer.Option(help="A graph dataset: counteredge datasets lists them; Tree-Cycles needs no file.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the results; the same folder again resumes.")],
    explainer: Annotated[
        str,
        typer.Option(
            help="Which method explains: xplore, irand, cfgnn, cf2, clear, rsggce, d4explainer, combinex, c2explainer, "
            "induce, meg; the yardsticks greedy, nearest; the controls empty_graph, complete_graph."
        ),
    ] = "xplore",
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            "--preset",
            help="xplore: minimal (fewest edits, verified) or paper (the published Algorithm 1). The others: paper, "
            "reference, improved. legacy_gretel: as published tables were made. The first is the default.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Further option of the explainer as name=value, for example iterations=100. Repeatable."),
    ] = None,
    features: Annotated[
        Variant, typer.Option(help="Feature variant of the paper preset: none is edges only.")
    ] = Variant.none,
    edits: Annotated[Edits, typer.Option(help="What may change.")] = Edits.both,
    structural: Annotated[
        Structural | None,
        typer.Option(
            help="Columns that follow from the edges: refreshed after an edit (minimal's way), or frozen (paper's)."
        ),
    ] = None,
    chemistry: Annotated[
        Chemistry, typer.Option(help="valence: each answer is a molecule that RDKit takes, where the original is one.")
    ] = Chemistry.none,
    gamma: Annotated[
        float, typer.Option(min=-1.0, max=1.0, help="Start value of absent edges: above 0 they are tried more readily.")
    ] = 0.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Explain the first so many graphs only.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the oracle's training and of the search.")] = 0,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the dataset's zip ($COUNTEREDGE_DATA otherwise).")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar, no table.")] = False,
) -> None:
    """Train (or load) a dataset's oracle and explain its graphs.

    Writes counterfactuals.jsonl (one result a line), summary.json (the figures) and gallery.png (pictures) to --out.
    Ctrl-C keeps what is finished; the same command goes on from there.
    """
    from counteredge.bench import RunSpec, run_explain

    with plain_errors():
        console = Console(stderr=True, quiet=quiet)
        spec = RunSpec(
            dataset=dataset,
            explainer=explainer,
            preset=mode,
            features=None if features is Variant.none else features.value,
            edits=edits.value,
            structural=None if structural is None else structural.value,
            seed=seed,
            chemistry="valence" if chemistry is Chemistry.valence else None,
            options=_options(option or []),
            gamma=gamma,
        )
        result = run_explain(
            spec,
            out,
            limit=limit,
            data_root=data_root,
            progress=not quiet,
            say=lambda t: console.print(t, style="dim"),
        )
        s = result.summary
        printed = Console(quiet=quiet)
        printed.print(
            figures_table(result.evaluation, f"{s['dataset']}, {s['graphs']} graphs: {explainer}, {spec.preset}")
        )
        printed.print(f"Picture: {result.files['gallery']}", soft_wrap=True, highlight=False)
        printed.print(f"Table:   {result.files['summary']}", soft_wrap=True, highlight=False)
        printed.print(f"Results: {result.files['counterfactuals']}", soft_wrap=True, highlight=False)


def _options(given: list[str]) -> dict[str, Any]:
    """``name=value`` pairs; values as JSON where they are, else as text."""
    out: dict[str, Any] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--option {each!r} is not like name=value, for example iterations=100")
        value = {"True": "true", "False": "false", "None": "null"}.get(value, value)
        try:
            out[name.strip()] = json.loads(value)
        except ValueError:
            out[name.strip()] = value
    return out


@app.command(epilog="Example: counteredge evaluate runs/mutag/counterfactuals.jsonl --dataset MUTAG")
def evaluate(
    file: Annotated[Path, typer.Argument(help="Counterfactuals, as explain writes them.")],
    dataset: Annotated[
        str | None, typer.Option(help="Its graphs fit the embedders, and tell whether answers look like real graphs.")
    ] = None,
    embedders: Annotated[str, typer.Option(help="all, none, or names with commas between.")] = "all",
    out: Annotated[Path | None, typer.Option(help="JSON file for the figures.")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the datasets' files ($COUNTEREDGE_DATA otherwise).")
    ] = None,
) -> None:
    """Measure stored counterfactuals by every metric, with controls beside them.

    The model is not asked again: what needs it (validity of controls, PyG's fid+ and fid-) is left out.
    """
    from counteredge.datasets import load
    from counteredge.metrics import evaluate as measure
    from counteredge.results import read_jsonl

    with plain_errors():
        if not file.is_file():
            raise InputError(f"{file} is no file: give the counterfactuals.jsonl of a run")
        if out is not None and not out.parent.is_dir():
            raise InputError(f"{out.parent} is no folder: make it first, or give another --out")
        named = {"all": "all", "none": []}.get(embedders, [e.strip() for e in embedders.split(",")])
        graphs = None if dataset is None else load(dataset, data_root).graphs
        figures = measure(list(read_jsonl(file)), dataset=graphs, embedders=named)
        Console().print(figures_table(figures, f"{file.name}, {figures.graphs} graphs"))
        if out is not None:
            figures.save(out)


@app.command(epilog="Example: counteredge metrics --doc docs/metrics.md")
def metrics(
    doc: Annotated[Path | None, typer.Option(help="Markdown file whose tables get the definitions.")] = None,
) -> None:
    """List every metric with its formula, range and direction."""
    from counteredge.cache import write_between
    from counteredge.metrics import METRICS, definitions, embedders_table

    with plain_errors():
        if doc is not None:
            write_between(doc, "metrics", definitions())
            write_between(doc, "embedders", embedders_table())
        table = Table("name", "formula", "range", "better", box=None, padding=(0, 1, 0, 0))
        for m in METRICS.values():
            table.add_row(m.name, escape(m.formula), f"{m.low:g} to {m.high:g}", m.direction)
        Console().print(table)

"""The command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from counteredge.errors import CapabilityError, CounterEdgeError, DataError, InputError

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError as e:  # pragma: no cover - depends on the installation
    sys.exit(f"the command line needs more packages ({e.name}): pip install 'counteredge[cli,viz]'")

if TYPE_CHECKING:
    from counteredge.metrics import Evaluation

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The smallest change to a graph that flips a trained GNN's prediction, verified on the model itself.",
)


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


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counteredge {version('counteredge')}")
        raise typer.Exit


class TrainedBy(StrEnum):
    """Which graphs an oracle learns from."""

    heldout = "heldout"
    paper = "paper"
    both = "both"


PROTOCOLS: tuple[Literal["heldout", "paper"], ...] = ("heldout", "paper")


@app.callback()
def _root(
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Keep the subcommands named."""


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

    with _plain_errors():
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
        printed.print(_figures(result.evaluation, f"{s['dataset']}, {s['graphs']} graphs: {explainer}, {spec.preset}"))
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


oracles = typer.Typer(no_args_is_help=True, help="The models that are explained: train them, list them.")
app.add_typer(oracles, name="oracle")


@oracles.command("train", epilog="Example: counteredge oracle train all --out docs/results --doc docs/oracles.md")
def oracle_train(
    name: Annotated[str, typer.Argument(help="A dataset, or all.")],
    protocol: Annotated[
        TrainedBy, typer.Option(help="heldout keeps a fifth of the graphs aside; paper learns from all of them.")
    ] = TrainedBy.both,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, the weights and the batches.")] = 0,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the datasets' files ($COUNTEREDGE_DATA otherwise).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder whose oracles.csv gets the figures.")] = None,
    doc: Annotated[Path | None, typer.Option(help="Markdown file whose table gets the figures of oracles.csv.")] = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar, no table.")] = False,
) -> None:
    """Train the oracle of one dataset or of all (or read what is kept), and print its accuracies.

    With all, a dataset that cannot be loaded is left out and named at the end.
    """
    from counteredge.datasets import load
    from counteredge.datasets.registry import REGISTRY
    from counteredge.models import RECIPES, oracle_for
    from counteredge.models.recipes import recipe_name
    from counteredge.models.report import oracle_row, read_rows, update_document, write_rows

    with _plain_errors():
        if (out is not None and protocol is not TrainedBy.both) or (doc is not None and out is None):
            raise InputError("--out needs --protocol both, and --doc needs --out")
        console = Console(stderr=True, quiet=quiet)
        table = Table("dataset", "protocol", "all", "held out", "train", "epochs", "seconds", title=f"Oracles, {seed=}")
        missing = []
        aliases = {alias.lower(): entry.name for entry in REGISTRY.values() for alias in entry.aliases}
        for each in RECIPES if name == "all" else [recipe_name(aliases.get(name.lower(), name))]:
            console.print(f"{each}: loading", style="dim")
            try:
                dataset = load(each, data_root)
            except (DataError, CapabilityError) as e:
                if name != "all":
                    raise
                missing.append(f"{each}: {e}")
                continue
            trained = {
                p: oracle_for(each, dataset.graphs, dataset.num_classes, seed=seed, protocol=p, progress=not quiet)
                for p in PROTOCOLS
                if protocol.value in (p, "both")
            }
            for p, model in trained.items():
                shares = (model.accuracy, model.accuracy_heldout, model.accuracy_train)
                shown = ["-" if s is None else f"{100 * s:.2f}" for s in shares]
                table.add_row(each, p, *shown, str(model.epochs), f"{model.seconds:.1f}")
            if out is not None:
                write_rows(out / "oracles.csv", [oracle_row(each, trained["paper"], trained["heldout"])])
        Console(quiet=quiet).print(table)
        if doc is not None and out is not None:
            update_document(doc, read_rows(out / "oracles.csv"))
        if missing:
            raise DataError("left out: " + "; ".join(missing))


@oracles.command("list")
def oracle_list() -> None:
    """Recipes, and which trained models the cache folder holds."""
    from counteredge.models import RECIPES
    from counteredge.models.report import architecture
    from counteredge.models.zoo import kept_cards

    with _plain_errors():
        table = Table("dataset", "task", "architecture", "paper", *PROTOCOLS)
        for name, recipe in RECIPES.items():
            kept = [
                "\n".join(f"seed {c['seed']}: {100 * c['accuracy']['all']:.2f}" for c in kept_cards(name, p)) or "-"
                for p in PROTOCOLS
            ]
            printed = "-" if recipe.paper_accuracy is None else f"{100 * recipe.paper_accuracy:.2f}"
            table.add_row(name, recipe.paper.task, architecture(recipe.paper), printed, *kept)
        Console().print(table)


@app.command(epilog="Example: counteredge datasets --check --data-root ~/data")
def datasets(
    check: Annotated[
        bool, typer.Option("--check", help="Load every dataset that is present and compare its figures.")
    ] = False,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the datasets' files ($COUNTEREDGE_DATA otherwise).")
    ] = None,
) -> None:
    """List the datasets: size, where each comes from, and whether it is here.

    Nothing is downloaded, and nothing loaded without --check, which ends with status 1 when a figure differs.
    """
    from counteredge.datasets import table as listing

    with _plain_errors():
        shown = Table(box=None, padding=(0, 1, 0, 0), caption="nodes, edges: average of a graph; edges count once")
        shown.add_column("dataset", overflow="fold")
        for heading in ("task", "graphs", "classes", "nodes", "edges", "attr.", "source", "here"):
            side: Literal["left", "right"] = "left" if heading in ("task", "source", "here") else "right"
            shown.add_column(heading, no_wrap=True, justify=side)
        wrong: dict[str, list[str]] = {}
        for row in listing.table(data_root):
            state = "yes" if row.present else "no"
            if check and row.present:
                wrong[row.name] = listing.check(row.name, data_root)
                state = "differs" if wrong[row.name] else "ok"
            f = row.figures
            counts = ["-" if c is None else str(c) for c in (f.graphs, f.classes)]
            counts += ["-" if c is None else f"{c:.2f}" for c in (f.nodes, f.edges)]
            shown.add_row(row.name, row.task, *counts, str(f.attributes), row.source, state)
        console = Console()
        console.print(shown)
        for name, texts in wrong.items():
            for text in texts:
                console.print(f"{name}: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
        if any(wrong.values()):
            raise typer.Exit(1)


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

    with _plain_errors():
        if not file.is_file():
            raise InputError(f"{file} is no file: give the counterfactuals.jsonl of a run")
        if out is not None and not out.parent.is_dir():
            raise InputError(f"{out.parent} is no folder: make it first, or give another --out")
        named = {"all": "all", "none": []}.get(embedders, [e.strip() for e in embedders.split(",")])
        graphs = None if dataset is None else load(dataset, data_root).graphs
        figures = measure(list(read_jsonl(file)), dataset=graphs, embedders=named)
        Console().print(_figures(figures, f"{file.name}, {figures.graphs} graphs"))
        if out is not None:
            figures.save(out)


@app.command(epilog="Example: counteredge metrics --doc docs/metrics.md")
def metrics(
    doc: Annotated[Path | None, typer.Option(help="Markdown file whose tables get the definitions.")] = None,
) -> None:
    """List every metric with its formula, range and direction."""
    from counteredge.cache import write_between
    from counteredge.metrics import METRICS, definitions, embedders_table

    with _plain_errors():
        if doc is not None:
            write_between(doc, "metrics", definitions())
            write_between(doc, "embedders", embedders_table())
        table = Table("name", "formula", "range", "better", box=None, padding=(0, 1, 0, 0))
        for m in METRICS.values():
            table.add_row(m.name, escape(m.formula), f"{m.low:g} to {m.high:g}", m.direction)
        Console().print(table)


def _figures(figures: Evaluation, title: str) -> Table:
    """Mean and spread of each metric that has a value, over how many graphs, and its controls."""
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    table.add_column("metric", no_wrap=True)
    for heading in ("mean", "std", "graphs", *figures.controls):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, mean, std, count, _, *beside in figures.rows(digits=3):
        table.add_row(escape(name), mean, std, count, *beside)
    return table


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors meant for people become one line, without a traceback; Ctrl-C says what is kept."""
    console = Console(stderr=True)
    try:
        yield
    except CounterEdgeError as e:
        console.print(f"[bold red]error:[/] {escape(str(e))}", soft_wrap=True, highlight=False)
        raise typer.Exit(2) from e
    except KeyboardInterrupt as e:
        console.print("\nStopped. What is finished is kept; the same command goes on from there.")
        raise typer.Exit(130) from e


def main() -> None:
    """Entry point."""
    app()

"""Commands about what is explained: ``datasets``, ``oracle train``, ``oracle list``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from counteredge.cli.common import app, plain_errors
from counteredge.errors import CapabilityError, DataError, InputError

__all__: list[str] = []


class TrainedBy(StrEnum):
    """Which graphs an oracle learns from."""

    heldout = "heldout"
    paper = "paper"
    both = "both"


PROTOCOLS: tuple[Literal["heldout", "paper"], ...] = ("heldout", "paper")


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

    with plain_errors():
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

    with plain_errors():
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

    with plain_errors():
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

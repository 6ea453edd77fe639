"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from counteredge.errors import CounterEdgeError

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError as e:  # pragma: no cover - depends on the installation
    sys.exit(f"the command line needs more packages ({e.name}): pip install 'counteredge[cli,viz]'")

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


class Preset(StrEnum):
    """How XPlore searches."""

    minimal = "minimal"
    paper = "paper"


class Variant(StrEnum):
    """The paper's feature variants."""

    none = "none"
    gating = "gating"
    freedom = "freedom"


@app.callback()
def _root() -> None:
    """Keep the subcommands named: more of them follow."""


@app.command(epilog="Example: counteredge explain --dataset MUTAG --explainer xplore --limit 50 --out runs/mutag")
def explain(
    dataset: Annotated[str, typer.Option(help="MUTAG, or Tree-Cycles (which needs no file).")],
    out: Annotated[Path, typer.Option(help="Folder for the results; the same folder again resumes.")],
    explainer: Annotated[str, typer.Option(help="Which method explains.")] = "xplore",
    preset: Annotated[
        Preset, typer.Option(help="minimal: fewest edits, verified. paper: the published Algorithm 1.")
    ] = Preset.minimal,
    features: Annotated[
        Variant, typer.Option(help="Feature variant of the paper preset: none is edges only.")
    ] = Variant.none,
    edits: Annotated[Edits, typer.Option(help="What may change.")] = Edits.both,
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
            preset=preset.value,
            features=None if features is Variant.none else features.value,
            edits=edits.value,
            seed=seed,
        )
        result = run_explain(
            spec,
            out,
            limit=limit,
            data_root=data_root,
            progress=not quiet,
            say=lambda t: console.print(t, style="dim"),
        )
        table = Table(title=f"{result.summary['dataset']}: {explainer}, {preset.value}", show_header=False)
        for key, value in result.summary.items():
            if isinstance(value, float):
                table.add_row(key, f"{value:.4g}")
            elif isinstance(value, int | str):
                table.add_row(key, str(value))
        printed = Console(quiet=quiet)
        printed.print(table)
        printed.print(f"Picture: {result.files['gallery']}", soft_wrap=True, highlight=False)
        printed.print(f"Table:   {result.files['summary']}", soft_wrap=True, highlight=False)
        printed.print(f"Results: {result.files['counterfactuals']}", soft_wrap=True, highlight=False)


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

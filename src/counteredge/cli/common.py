"""What all commands share: the application, errors in one line, the table of an evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

from counteredge.errors import CounterEdgeError

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError as e:  # pragma: no cover - depends on the installation
    sys.exit(f"the command line needs more packages ({e.name}): pip install 'counteredge[cli,viz]'")

if TYPE_CHECKING:
    from counteredge.metrics import Evaluation

__all__ = ["app", "figures_table", "plain_errors"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The smallest change to a graph that flips a trained GNN's prediction, verified on the model itself.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counteredge {version('counteredge')}")
        raise typer.Exit


@app.callback()
def _root(
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Keep the subcommands named."""


def figures_table(figures: Evaluation, title: str) -> Table:
    """Mean and spread of each metric that has a value, over how many graphs, and its controls."""
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    table.add_column("metric", no_wrap=True)
    for heading in ("mean", "std", "graphs", *figures.controls):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, mean, std, count, _, *beside in figures.rows(digits=3):
        table.add_row(escape(name), mean, std, count, *beside)
    return table


@contextmanager
def plain_errors() -> Iterator[None]:
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

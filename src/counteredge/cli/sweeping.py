"""Commands about sweeps: ``bench run``, ``bench status``, ``bench report``."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from counteredge.cli.common import app, plain_errors

if TYPE_CHECKING:
    from counteredge.bench import Job

__all__: list[str] = []

LISTED = 20  # jobs named one by one
bench = typer.Typer(
    no_args_is_help=True, help="Sweeps over datasets and explainers: run them, see how far they are, make tables."
)
app.add_typer(bench, name="bench")


class Kind(StrEnum):
    """Where jobs run."""

    serial = "serial"
    processes = "processes"
    dask = "dask"


@bench.command("run", epilog="Example: counteredge bench run sweeps/smoke.toml --out runs/smoke")
def bench_run(
    sweep: Annotated[Path, typer.Argument(help="The sweep: a TOML file, see the folder sweeps.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; the same folder again goes on.")],
    executor: Annotated[
        Kind, typer.Option(help="serial: this process. processes: this machine. dask: a Dask cluster.")
    ] = Kind.serial,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each; as many as the machine has cores.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Of a Dask scheduler that runs already, like tcp://10.0.0.5:8786.")
    ] = None,
    scheduler_file: Annotated[
        Path | None,
        typer.Option(help="File in which a Dask scheduler wrote where it is (dask scheduler --scheduler-file)."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(help="i/N: the i-th of N parts; for arrays of independent jobs, as SLURM has them.")
    ] = None,
    graphs: Annotated[int | None, typer.Option(min=1, help="At most so many graphs a dataset.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this dataset of the sweep. Repeatable.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this explainer of the sweep, or this name in tables. Repeatable.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run jobs that ended in an error again.")
    ] = False,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the datasets' files ($COUNTEREDGE_DATA otherwise).")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar, no summary.")] = False,
) -> None:
    """Run the jobs of a sweep that have no result yet.

    Kill it, start it again, start it on several machines with one shared --out: each job is done once, and what is
    finished stays. A job that fails becomes a result too, with its error; the sweep goes on, and its end is status 0:
    ask bench status, which ends with 1 while any job is failed or missing.
    """
    from counteredge.bench import Where, read_sweep, run_sweep

    with plain_errors():
        console = Console(stderr=True, quiet=quiet)
        where = Where(executor.value, workers, address, None if scheduler_file is None else str(scheduler_file))
        asked = read_sweep(sweep, graphs=graphs, datasets=dataset or (), methods=method or ())
        outcome = run_sweep(
            asked,
            out,
            where=where,
            shard=shard,
            retry_failed=retry_failed,
            data_root=data_root,
            progress=not quiet,
            say=lambda t: console.print(t, style="dim", markup=False),
        )
        printed = Console(quiet=quiet)
        for job, error in list(outcome.errors.items())[:LISTED]:
            printed.print(f"[red]failed[/] {escape(job)}: {escape(error)}", soft_wrap=True, highlight=False)
        printed.print(
            f"{outcome.done} of {outcome.jobs} jobs done, {outcome.failed} failed, {outcome.kept} were there before; "
            f"{outcome.seconds:.0f} s",
            highlight=False,
        )
        if outcome.failed and not retry_failed:
            printed.print("Failed jobs stay as they are; --retry-failed runs them again.", highlight=False)
        printed.print(
            f"Tables:  counteredge bench report {shlex.quote(str(out))}", soft_wrap=True, highlight=False, markup=False
        )


@bench.command("status", epilog="Example: counteredge bench status runs/smoke")
def bench_status(
    folder: Annotated[Path, typer.Argument(help="The --out of bench run.")],
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every job that is not done.")] = False,
) -> None:
    """How far the sweeps of a folder are: done, failed, running, missing.

    Ends with status 1 while jobs are missing, running or failed.
    """
    from counteredge.bench import Store

    with plain_errors():
        status = Store(folder).status()
        console = Console()
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("dataset", "done", "failed", "running", "missing"):
            table.add_column(heading, justify="left" if heading == "dataset" else "right")
        kinds: dict[str, list[Job]] = {
            "done": status.done,
            "failed": [j for j, _ in status.failed],
            "running": [j for j, _ in status.running],
            "missing": status.missing,
        }
        datasets = dict.fromkeys(j.spec.dataset for jobs in kinds.values() for j in jobs)
        for name in sorted(datasets):
            table.add_row(name, *(str(sum(j.spec.dataset == name for j in jobs)) for jobs in kinds.values()))
        table.add_row("all", *(str(len(jobs)) for jobs in kinds.values()), style="bold")
        console.print(table)
        most = None if verbose else LISTED
        for job, error in status.failed[:most]:
            console.print(f"[red]failed[/] {escape(f'{job}: {error}')}", soft_wrap=True, highlight=False)
        for job, claim in status.running[:most]:
            text = f"{job} on {claim.host}, process {claim.pid}"
            console.print(f"[cyan]running[/] {escape(text)}", soft_wrap=True, highlight=False)
        for job in status.missing if verbose else ():
            console.print(f"[yellow]missing[/] {escape(str(job))}", soft_wrap=True, highlight=False)
        for path in status.damaged:
            console.print(
                f"[yellow]damaged[/] {escape(str(path))}: run the sweep again", soft_wrap=True, highlight=False
            )
        if status.failed or status.running or status.missing:
            raise typer.Exit(1)


@bench.command("report", epilog="Example: counteredge bench report runs/smoke --format md,html")
def bench_report(
    folder: Annotated[Path, typer.Argument(help="The --out of bench run.")],
    out: Annotated[Path | None, typer.Option(help="Folder for what is made; FOLDER/report when not given.")] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Of md, latex, csv, parquet, figures, html, with commas between.")
    ] = "md,latex,csv,parquet,figures,html",
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds the datasets' files ($COUNTEREDGE_DATA otherwise).")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="Say nothing.")] = False,
) -> None:
    """Make tables, figures and an HTML page from the results that a folder has so far."""
    from counteredge.report import write_report

    with plain_errors():
        console = Console(stderr=True, quiet=quiet)
        wanted = [f.strip() for f in formats.split(",") if f.strip()]
        target = folder / "report" if out is None else out
        paths = write_report(
            folder,
            target,
            formats=wanted,
            data_root=data_root,
            progress=False if quiet else None,
            say=lambda t: console.print(t, style="dim", markup=False),
        )
        Console(quiet=quiet).print(f"{len(paths)} files in {target}", soft_wrap=True, highlight=False, markup=False)

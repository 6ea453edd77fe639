"""All that can be made of a store: tables, figures, one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch_geometric.data import Data

from counteredge.bench import Collected, Store, collect
from counteredge.datasets import load
from counteredge.errors import CapabilityError, DataError, StoreError, unknown
from counteredge.report.figures import FIGURES, write_figures
from counteredge.report.page import write_page
from counteredge.report.pooled import Pool
from counteredge.report.tables import failures_table, main_table, paired_table, write_tables

__all__ = ["FORMATS", "write_report"]

TABLES = ("md", "latex", "csv")
FORMATS = (*TABLES, "parquet", "figures", "html")


def write_report(
    folder: str | Path,
    out: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    timings: bool = True,
    data_root: str | Path | None = None,
    progress: bool | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Make tables, figures and a page from the results that a store has so far.

    Args:
        folder: Of the store.
        out: Folder for what is made; made when missing.
        formats: Of ``"md"``, ``"latex"``, ``"csv"`` (tables), ``"parquet"`` (a row an instance, a row a job),
            ``"figures"`` (PNG and PDF), ``"html"`` (one self-contained page).
        timings: Whether tables show run times; without them equal sweeps give equal bytes.
        data_root: Folder that holds the datasets' files, for maps of embeddings.
        progress: Show a bar; from two seconds on when ``None``.
        say: Gets a line of text before each step.

    Returns:
        Paths written.

    Raises:
        InputError: For an unknown format, or a store without results.
        DataError: When the folder is no store.
        StoreError: When nothing can be written to ``out``.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    say(f"Reading {folder}")
    store = Store(folder)
    collected = Pool(collect(store.results()))
    target, written = Path(out), []
    with _told_of_disks(target):
        target.mkdir(parents=True, exist_ok=True)
        if "parquet" in formats:
            written += collected.save(target)
        chosen = [f for f in TABLES if f in formats]
        if chosen:
            say("Tables")
            written += write_tables(collected, target, chosen, timings=timings)
        pictures: list[Path] = []
        if "figures" in formats or "html" in formats:
            say("Figures")
            kinds = ("png", "pdf") if "figures" in formats else ("png",)
            originals = _originals(collected, data_root, say)
            pictures = write_figures(collected, target, formats=kinds, graphs=originals, progress=progress)
            written += pictures
        if "html" in formats:
            say("Page")
            written.append(_page(collected, target / "report.html", store.title or "Results", pictures))
    return written


@contextmanager
def _told_of_disks(target: Path) -> Iterator[None]:
    """Errors of the disk in words."""
    try:
        yield
    except OSError as e:
        raise StoreError(f"the report cannot be written to {target}: {e.strerror or e}") from e


def _page(collected: Collected, path: Path, title: str, pictures: Sequence[Path]) -> Path:
    tables = [*main_table(collected), *paired_table(collected), *failures_table(collected)]
    # its gallery shows cases one by one; a picture of each dataset's would make it as large again
    shown = [p for p in pictures if p.suffix == ".png" and not p.name.startswith(("cases-", "embedder_heatmap-"))]
    return write_page(collected, path, title=title, figures=[(_caption(p.stem), p) for p in shown], tables=tables)


def _caption(name: str) -> str:
    """What a figure shows: the first line of the function that draws it."""
    drawn, _, dataset = name.partition("-")
    says = (FIGURES[drawn].__doc__ or drawn).strip().splitlines()[0]
    return f"{says} Dataset: {dataset}." if dataset else says


def _originals(
    collected: Collected, data_root: str | Path | None, say: Callable[[str], None]
) -> dict[str, Sequence[Data]]:
    """The graphs of the datasets that have answers, where they are at hand."""
    found: dict[str, Sequence[Data]] = {}
    for name in dict.fromkeys(kept.dataset for kept in collected.answers if kept.counterfactual.found):
        try:
            dataset = load(name, data_root)
        except (DataError, CapabilityError) as e:
            say(f"No map of {name}: {e}")
            continue
        if dataset.task == "graph":
            found[name] = dataset.graphs
    return found

"""The figures of a sweep: each a function of what was collected, all of them drawn and saved by one call."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from counteredge.cache import write_atomic
from counteredge.errors import InputError
from counteredge.report.figures.ablation import gamma_ablation, variant_ablation
from counteredge.report.figures.bars import fidelity_bars, node_bars, node_class_bars, runtime_bars, validity_bars
from counteredge.report.figures.cases import cases
from counteredge.report.figures.heat import embedder_heatmap
from counteredge.report.figures.projection import projection
from counteredge.report.figures.scatter import ged_against_cs
from counteredge.report.figures.spread import cs_violins, ged_violins
from counteredge.report.figures.stages import stage_bars
from counteredge.report.figures.style import NothingToDraw, Style, slug, styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

    from counteredge.bench.collect import Collected

__all__ = [
    "FIGURES",
    "NothingToDraw",
    "Style",
    "cases",
    "cs_violins",
    "embedder_heatmap",
    "fidelity_bars",
    "gamma_ablation",
    "ged_against_cs",
    "ged_violins",
    "node_bars",
    "node_class_bars",
    "projection",
    "runtime_bars",
    "stage_bars",
    "styles",
    "validity_bars",
    "variant_ablation",
    "write_figures",
]

OF_ALL: tuple[Callable[..., Figure], ...] = (
    validity_bars,
    fidelity_bars,
    ged_against_cs,
    cs_violins,
    ged_violins,
    runtime_bars,
    variant_ablation,
    node_bars,
    node_class_bars,
    stage_bars,
    embedder_heatmap,
)
OF_A_DATASET: tuple[Callable[..., Figure], ...] = (gamma_ablation, embedder_heatmap, cases, projection)
FIGURES: dict[str, Callable[..., Figure]] = {f.__name__: f for f in (*OF_ALL, *OF_A_DATASET)}

# nothing that differs from one day, machine or version of matplotlib to the next
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
DPI = 200


def write_figures(
    collected: Collected,
    folder: str | Path,
    *,
    formats: Sequence[str] = ("png", "pdf"),
    graphs: Mapping[str, Sequence[Data]] | None = None,
    progress: bool | None = None,
) -> list[Path]:
    """Draw every figure that there are data for, into ``figures/NAME.FORMAT`` or ``figures/NAME-DATASET.FORMAT``.

    The same data give the same bytes.

    Args:
        collected: Results of sweeps.
        folder: In which ``figures`` is made.
        formats: ``"png"``, ``"pdf"``, ``"svg"``.
        graphs: The graphs of datasets by name, for the maps of :func:`projection`; datasets without get none.
        progress: Show a bar; from two seconds on when ``None``.

    Returns:
        The paths written, in the order of the figures.

    Raises:
        InputError: For an unknown format, or when the folder cannot be written to.
        CapabilityError: When matplotlib is not installed.
    """
    chosen = list(dict.fromkeys([formats] if isinstance(formats, str) else formats))
    for name in chosen:
        if name not in METADATA:
            raise InputError(f"unknown format {name!r} of figures; known: {', '.join(METADATA)}")
    target = Path(folder) / "figures"
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{target} cannot be made a folder for figures: {e.strerror or e}") from e
    paths = []
    calls = _calls(collected, graphs or {})
    for name, draw in tqdm(calls, desc="figures", unit="figure", delay=2.0, leave=False, disable=progress is False):
        figure = _tried(draw)
        if figure is None:
            continue
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for every format alike
        for kind in chosen:
            path = target / f"{name}.{kind}"
            write_atomic(path, _saved(figure, kind))
            paths.append(path)
    return paths


def _calls(collected: Collected, graphs: Mapping[str, Sequence[Data]]) -> list[tuple[str, Callable[[], Figure]]]:
    """Every figure that may be drawn, by the name of its file."""
    calls: list[tuple[str, Callable[[], Figure]]] = [(f.__name__, partial(f, collected)) for f in OF_ALL]
    for function in OF_A_DATASET:
        for dataset in collected.datasets:
            given: list[Any] = [dataset]
            if function is projection:
                if dataset not in graphs:
                    continue
                given.append(graphs[dataset])
            calls.append((f"{function.__name__}-{slug(dataset)}", partial(function, collected, *given)))
    return calls


def _tried(draw: Callable[[], Figure]) -> Figure | None:
    try:
        return draw()
    except NothingToDraw:
        return None


def _saved(figure: Figure, kind: str) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "counteredge"}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=METADATA[kind])
    return buffer.getvalue()

"""One HTML file of what a sweep found: a table that sorts, failures, figures, and a gallery of counterfactuals."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counteredge import draw
from counteredge.bench.collect import Collected, Kept
from counteredge.cache import write_atomic
from counteredge.errors import CapabilityError, InputError
from counteredge.report import shapes
from counteredge.report.cells import DASH, Cell, Column, Row, Table, number_text, ranked
from counteredge.report.pooled import Method, Pool, column
from counteredge.results import Counterfactual

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

    Picture = tuple[str, Figure | str | Path] | str | Path

__all__ = ["GRAPHS", "LINES", "write_page"]

GRAPHS = 6  # of the gallery, a dataset and method
LINES = 200  # edits listed of one answer
PNG = b"\x89PNG\r\n\x1a\n"
SHOWN = (
    "validity", "fidelity", "edit_ratio", "ged", "feature_edits", "shrunk_edit_ratio", "cosine_similarity",
    "calls_forward", "runtime",
)  # fmt: skip
NOTE = (
    "A row is a method on a dataset, a figure the mean over its graphs; sizes, similarity and runtime are means over "
    "the counterfactuals found, so a method that finds few is judged by those alone. Brackets hold 95 % bootstrap "
    "intervals. The best of each dataset has a star; controls and rows with failed jobs (a dagger) never have one. "
    "Beside a figure stands what the XPlore paper prints."
)


def write_page(
    collected: Collected,
    path: str | Path,
    *,
    title: str = "Counterfactual explanations: results",
    figures: Sequence[Picture] | None = None,
    tables: Sequence[Table] | None = None,
) -> Path:
    """Write all results as one HTML file that needs nothing else: no network, no fonts, no other files.

    The same input gives the same bytes. Every text is escaped, and the page's own Content-Security-Policy allows its
    one style, its one script and embedded pictures only.

    Sizes: the page itself takes about 25 kB, a row of the table 1 kB. The gallery holds at most 6 graphs a dataset
    and method and lists at most 200 edits of each; graphs of more than 150 nodes or 600 edges are listed and not drawn.
    An answer takes 1 to 12 kB, and 4 to 20 kB more for each different molecule. Figures come as they are, and a third
    more.

    Args:
        collected: The results.
        path: The file; its folder is made where it is missing.
        title: Heading of the page.
        figures: ``(caption, matplotlib figure)``, ``(caption, path of a PNG file)``, or just such a path.
        tables: Further tables, shown beneath the main one.

    Returns:
        The path.

    Raises:
        CapabilityError: Jinja2 is not installed.
        InputError: A figure that is none of these.
    """
    environment = _environment()
    colours = {name: getattr(draw, name.upper()) for name in ("added", "removed", "changed", "kept", "node", "target")}
    looks = {"colours": colours}
    groups, data = _gallery(collected)
    text = environment.get_template("page.html.j2").render(
        **looks,
        title=title,
        style_hash=_hash(environment, "page.css.j2", looks),
        script_hash=_hash(environment, "page.js.j2", looks),
        facts=_facts(collected),
        results=_results(Pool.of(collected)),
        tables=list(tables or ()),
        failures=collected.jobs[collected.jobs["status"] != "done"].to_dict("records"),
        figures=[_embedded(f) for f in figures or ()],
        datasets=collected.datasets,
        groups=groups,
        data=data,
        note=NOTE,
        limits={"nodes": shapes.MOST_NODES, "edges": shapes.MOST_EDGES, "graphs": GRAPHS},
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode("utf-8", "replace"))  # half a surrogate pair in a name is no reason to fail
    return path


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as e:
        raise CapabilityError("pages need Jinja2: pip install 'counteredge[viz]'") from e
    environment = Environment(
        loader=PackageLoader("counteredge.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # the filter tojson escapes < > & ' and, for being ASCII, the line separators of Unicode
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": True}
    environment.filters["number"] = number_text
    environment.globals["dash"] = DASH
    return environment


def _hash(environment: Environment, name: str, values: dict[str, Any]) -> str:
    """Of the text of a part, as a Content-Security-Policy names it."""
    text = environment.get_template(name).render(**values)
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _facts(collected: Collected) -> list[tuple[str, str]]:
    """What was run, as lines of a name and a value."""
    jobs, instances = collected.jobs, collected.instances
    explained = instances[["dataset", "graph", *(["node"] if "node" in instances else [])]].drop_duplicates()
    counts = explained["dataset"].value_counts()
    failed = int((jobs["status"] != "done").sum())

    def listed(column: str) -> str:
        return ", ".join(str(v) for v in sorted(set(jobs[column])))

    return [
        ("Datasets (graphs explained)", ", ".join(f"{d} ({int(counts.get(d, 0))})" for d in collected.datasets)),
        ("Methods", ", ".join(collected.methods)),
        ("Jobs", f"{len(jobs)}, of which {failed or 'none'} failed"),
        ("Protocol", listed("protocol")),
        ("Seeds", listed("seed")),
        ("Code", listed("code")),
    ]


# -- the main table ----------------------------------------------------------------------------------------------------


def _results(pool: Pool) -> Table:
    columns = (
        Column("dataset", "Dataset"),
        Column("method", "Method"),
        Column("graphs", "Graphs", "whole"),
        *(column(name) for name in SHOWN),
    )
    rows: list[Row] = []
    for dataset in pool.datasets:
        methods = pool.methods_on(dataset)
        block = ranked(
            [_row(pool, dataset, m) for m in methods],
            columns,
            [pool.competes(dataset, m) for m in methods],
            second=False,
        )
        rows += [Row(tuple(cells), m.control) for cells, m in zip(block, methods, strict=True)]
    return Table("results", "Results", NOTE, columns, tuple(rows))


def _row(pool: Pool, dataset: str, method: Method) -> list[Cell]:
    failed = pool.failed(dataset, method)
    count = Cell(len(pool.rows(dataset, method)), partial=failed)
    cells = [pool.cell(dataset, method, name) for name in SHOWN]
    # room for one interval: that of validity
    plain = [replace(c, std=None, low=None, high=None) for c in cells[1:]]
    return [Cell(dataset), Cell(method.name, partial=failed), count, replace(cells[0], std=None), *plain]


# -- figures -----------------------------------------------------------------------------------------------------------


def _embedded(item: Picture) -> dict[str, Any]:
    """A picture's caption, data URI and size in pixels."""
    caption, picture = item if isinstance(item, tuple) else (Path(item).stem, item)
    if isinstance(picture, str | Path):
        content = Path(picture).read_bytes()
    elif hasattr(picture, "savefig"):
        buffer = io.BytesIO()
        picture.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
        content = buffer.getvalue()
    else:
        raise InputError(
            f"figure {caption!r} is a {type(picture).__name__}: expected a matplotlib figure or a PNG file"
        )
    if not content.startswith(PNG) or len(content) < 24:
        raise InputError(f"figure {caption!r}: {picture} is no PNG file")
    width, height = struct.unpack(">II", content[16:24])
    uri = "data:image/png;base64," + base64.b64encode(content).decode("ascii")
    return {"caption": str(caption), "uri": uri, "width": width, "height": height}


# -- the gallery -------------------------------------------------------------------------------------------------------


def _gallery(collected: Collected) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the page lists: datasets, their graphs, and the answers by number; and the data behind each number."""
    answers: list[dict[str, Any]] = []
    pictures: dict[str, int] = {}
    listed: dict[str, list[dict[str, Any]]] = {}
    for group, kept in enumerate(_grouped(collected)):
        schema = next((s for k in kept if (s := shapes.chemical(k.counterfactual)) is not None), None)
        entries = []
        for k in kept:
            cf = k.counterfactual
            answer = _answer(k, group, shapes.drawing(cf, schema))
            for m in shapes.molecules(cf, schema) if schema is not None else ():
                number = pictures.setdefault(m["picture"], len(pictures))
                answer["molecules"].append({**m, "picture": number})
            entries.append({"number": len(answers), "method": k.method, "state": answer["state"]})
            answers.append(answer)
        first = kept[0].counterfactual
        nodes, edges = shapes.size(first)
        graph = {"title": first.subject, "size": f"{nodes} nodes, {edges} edges", "answers": entries}
        listed.setdefault(kept[0].dataset, []).append(graph)
    groups = [{"dataset": d, "graphs": graphs} for d, graphs in listed.items()]
    return groups, {"answers": answers, "pictures": list(pictures)}


def _grouped(collected: Collected) -> list[list[Kept]]:
    """The answers of each graph, in the order of the methods; at most so many graphs a dataset and method."""
    part = dict(zip(collected.jobs["key"], collected.jobs["part"], strict=True))
    place = {m: k for k, m in enumerate(collected.methods)}
    order = {d: k for k, d in enumerate(collected.datasets)}
    graphs: dict[tuple[Any, ...], dict[str, Kept]] = {}
    seen: dict[tuple[str, str], set[tuple[Any, ...]]] = {}
    for kept in collected.answers:
        cf = kept.counterfactual
        graph = (kept.dataset, part.get(kept.key, 0), cf.index, cf.node)
        known = seen.setdefault((kept.dataset, kept.method), set())
        if graph in known or len(known) >= GRAPHS:
            continue  # of several seeds the first
        known.add(graph)
        graphs.setdefault(graph, {})[kept.method] = kept
    ordered = sorted(graphs.items(), key=lambda item: order.get(item[0][0], len(order)))
    return [sorted(of.values(), key=lambda k: place.get(k.method, len(place))) for _, of in ordered]


def _answer(kept: Kept, group: int, drawing: dict[str, Any] | None) -> dict[str, Any]:
    """What the script shows of an answer."""
    cf = kept.counterfactual
    lines = cf.edits.describe(cf.schema)
    nodes, edges = shapes.size(cf)
    count = f"{len(cf.edits)} edit{'' if len(cf.edits) == 1 else 's'}"
    return {
        "group": group,
        "dataset": kept.dataset,
        "title": cf.subject,
        "method": kept.method,
        "state": count if cf.found else "not found",
        "found": cf.found,
        "before": cf.before.describe(cf.label_names),
        "after": "" if cf.after is None else cf.after.describe(cf.label_names),
        "reason": cf.reason,
        "facts": _details(cf, count),
        "edits": lines[:LINES],
        "more": max(0, len(lines) - LINES),
        "drawing": drawing,
        "size": f"{nodes} nodes, {edges} edges",
        "molecules": [],
    }


def _details(cf: Counterfactual, count: str) -> list[tuple[str, str]]:
    first = cf.calls.to_first_valid
    calls = f"{cf.calls.forward} forward, {cf.calls.backward} backward"
    found = [
        ("Edits", count + (f" ({sum(cf.raw)} before shrinking)" if cf.raw and sum(cf.raw) > len(cf.edits) else "")),
        ("Edit ratio", number_text(cf.edit_ratio, "ratio")),
        ("One-minimal", {True: "yes", False: "no", None: "not checked"}[cf.minimal]),
    ]
    return [
        ("Explainer", f"{cf.explainer}, preset {cf.preset}"),
        *(found if cf.found else []),
        ("Stage", cf.stage),
        ("Oracle calls", calls + ("" if first is None else f"; {first} to the first valid")),
        *([("Proof", f"fewer than {k} edge flips do not suffice")] if (k := cf.certified_lower_bound) else []),
        *([("Other predictions that change", str(len(cf.collateral)))] if cf.collateral else []),
    ]

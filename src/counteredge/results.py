"""``Counterfactual``: what every explainer returns, readable and storable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import pairs_of
from counteredge.decision import Label
from counteredge.edits import EditSet
from counteredge.errors import DataError
from counteredge.schema import FeatureSchema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Calls", "Counterfactual", "Prediction", "read_jsonl", "write_jsonl"]

VERSION = 4


@dataclass(frozen=True)
class Prediction:
    """A predicted label and its probability (1 for a regression value)."""

    label: Label
    probability: float

    def describe(self, names: tuple[str, ...] = ()) -> str:
        """For people: ``class 1 (p=0.98)``."""
        if isinstance(self.label, int):
            name = f" {names[self.label]}" if self.label < len(names) else ""
            return f"class {self.label}{name} (p={self.probability:.2f})"
        if isinstance(self.label, float):
            return f"value {self.label:.4g}"
        return f"labels {list(self.label)} (p={self.probability:.2f})"


@dataclass(frozen=True)
class Calls:
    """Oracle calls spent on one graph; one call is one graph evaluated once.

    Attributes:
        forward: Evaluations, the first prediction and the forward half of gradient passes included.
        backward: Gradient passes.
        to_first_valid: Forward calls until the first valid candidate was known; ``None`` when there was none.
    """

    forward: int
    backward: int
    to_first_valid: int | None


@dataclass(eq=False)
class Counterfactual:
    """The answer for one graph. ``found=False`` is an answer too, with its reason, and has no edited graph.

    Attributes:
        index: Number of the graph in the caller's list.
        original: The graph as given.
        data: The edited graph; ``None`` when nothing was found. ``edits.apply(original, schema)`` where ``structural``
            is ``"refreshed"``, ``edits.apply(original)`` elsewhere.
        edits: What changed.
        before: Prediction on the original.
        after: Prediction on the edited graph, by the untouched model.
        found: Whether the untouched model flips on ``data``.
        reason: Why nothing was found; empty otherwise.
        stage: Which stage of the search found it.
        minimal: Whether undoing any single edit loses the flip (checked on the untouched model); ``None`` if unchecked.
        certified_lower_bound: ``k`` when enumeration proved that no set of fewer than ``k`` edge flips suffices.
        calls: Oracle calls.
        seconds: Wall time of the graph's batch, divided by the graphs in it.
        relaxation: Which relaxed pass proposed edits, as measured: ``exact (dense)``, ``exact (weights)``,
            ``approximate (weights)`` (it ranked edges, no more) or ``none``.
        explainer: Name of the method.
        preset: Its preset.
        seed: Its seed.
        parameters: Its options.
        schema: Meaning of the feature columns.
        label_names: Names of the classes.
        structural: How columns that follow from the edges were treated: ``"refreshed"`` or ``"frozen"``; ``None``
            where there are none.
        valid_refreshed: Whether the edits flip the untouched model when such columns are those of the edited graph.
        valid_frozen: Whether they do when such columns keep what they hold.
        node: The node whose prediction is explained, or the nodes that were to change together; ``None`` when it is
            the graph's.
        collateral: Other nodes whose predicted label changes with the edits (node tasks).
        ball: How many nodes the search looked at (node tasks); the answer is checked on the full graph.
        raw: How many edits the answer had before ``postprocess="shrink"``: of edges and nodes, and of features and
            attributes of edges; ``None`` where no shrinking was asked for.
    """

    index: int
    original: Data
    data: Data | None
    edits: EditSet
    before: Prediction
    after: Prediction | None
    found: bool
    reason: str
    stage: str
    minimal: bool | None
    certified_lower_bound: int | None
    calls: Calls
    seconds: float
    relaxation: str
    explainer: str
    preset: str
    seed: int
    parameters: dict[str, Any] = field(default_factory=dict)
    schema: FeatureSchema | None = None
    label_names: tuple[str, ...] = ()
    structural: Literal["refreshed", "frozen"] | None = None
    valid_refreshed: bool | None = None
    valid_frozen: bool | None = None
    node: int | tuple[int, ...] | None = None
    collateral: tuple[int, ...] = ()
    ball: int | None = None
    raw: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        # without such columns both are the same question
        self.valid_refreshed = self.found if self.valid_refreshed is None else self.valid_refreshed
        self.valid_frozen = self.found if self.valid_frozen is None else self.valid_frozen

    @property
    def targets(self) -> tuple[int, ...]:
        """The nodes that are explained; none where it is the graph."""
        return self.node if isinstance(self.node, tuple) else () if self.node is None else (self.node,)

    @property
    def subject(self) -> str:
        """What was explained, for people: ``graph 3``, ``node 17``, ``nodes 3, 17``."""
        if not self.targets:
            return f"graph {self.index}"
        return f"node{'s' if len(self.targets) > 1 else ''} {', '.join(map(str, self.targets))}"

    @property
    def edit_ratio(self) -> float:
        """Structural edits over size, GED / (n + |E|), undirected edges once: the paper's sparsity; lower is better.

        GED counts edges and nodes, added or removed.
        """
        edges = len(pairs_of(self.original, directed=self.edits.directed))
        return self.edits.ged / (len(self.original.x) + edges)

    def __str__(self) -> str:
        head = f"Counterfactual of {self.subject} ({self.explainer}, {self.preset}): "
        head += self.before.describe(self.label_names)
        if not self.found or self.after is None:
            return f"{head} -> not found: {self.reason}\n  {self.calls.forward} oracle calls, {self.seconds:.2f} s"
        lines = [f"{head} -> {self.after.describe(self.label_names)}"]
        shown = self.edits.describe(self.schema)
        lines += [f"  {line}" for line in shown[:40]]
        if len(shown) > 40:
            lines.append(f"  ... and {len(shown) - 40} more")
        count = f"{len(self.edits)} edit{'s' if len(self.edits) != 1 else ''}"
        if self.raw is not None:
            count += f" ({sum(self.raw)} before shrinking)"
        minimal = {True: ", one-minimal", False: ", not minimal", None: ""}[self.minimal]
        proofs = {2: ", no single edge flip suffices (enumerated)", 3: ", no two edge flips suffice (enumerated)"}
        proof = proofs.get(self.certified_lower_bound or 0, "")
        if self.collateral:
            shown = [*map(str, self.collateral[:12]), *(["..."] if len(self.collateral) > 12 else [])]
            lines.append(f"  other predictions that change ({len(self.collateral)}): {', '.join(shown)}")
        lines.append(f"  {count}{minimal}{proof}; {self.calls.forward} oracle calls, {self.seconds:.2f} s")
        return "\n".join(lines)

    __repr__ = __str__

    def draw(self, path: str | Path | None = None) -> Figure:
        """Picture of the original with its edits: added green, removed red and dashed, changed ones orange.

        Args:
            path: Where to save it (png, svg, pdf); nothing is written when ``None``.

        Returns:
            The matplotlib figure.
        """
        from counteredge.draw import draw

        return draw(self, path)

    def _repr_html_(self) -> str:
        from counteredge.draw import to_html

        return to_html(self)

    # -- storage -----------------------------------------------------------------------------------------------------

    def to_dict(self, *, timings: bool = True) -> dict[str, Any]:
        """Plain values for JSON; without ``seconds`` when not ``timings``, for comparing runs.

        Attributes of the graph that are neither tensors nor plain values (arrays, molecules, ...) are left out.
        """
        out: dict[str, Any] = {
            "format": "counteredge.counterfactual",
            "version": VERSION,
            "index": self.index,
            "explainer": self.explainer,
            "preset": self.preset,
            "seed": self.seed,
            "parameters": json.loads(json.dumps(self.parameters)),  # as JSON gives them back: no tuples
            "found": self.found,
            "reason": self.reason,
            "stage": self.stage,
            "before": _prediction(self.before),
            "after": None if self.after is None else _prediction(self.after),
            "edits": self.edits.to_dict(),
            "minimal": self.minimal,
            "certified_lower_bound": self.certified_lower_bound,
            "structural": self.structural,
            "valid_refreshed": self.valid_refreshed,
            "valid_frozen": self.valid_frozen,
            "node": list(self.node) if isinstance(self.node, tuple) else self.node,
            "collateral": list(self.collateral),
            "ball": self.ball,
            "raw": None if self.raw is None else list(self.raw),
            "calls": vars(self.calls),
            "relaxation": self.relaxation,
            "schema": None if self.schema is None else self.schema.to_dict(),
            "label_names": list(self.label_names),
            "original": _graph_to_dict(self.original),
        }
        if self.schema is not None and self.schema.edge_names:
            out["edge_names"] = list(self.schema.edge_names)
        if timings:
            out["seconds"] = self.seconds
        return out

    def to_json(self, *, timings: bool = True) -> str:
        """One line of versioned JSON."""
        return json.dumps(self.to_dict(timings=timings), allow_nan=False)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Counterfactual:
        """Inverse of :meth:`to_dict`; reads every version ever written.

        Raises:
            DataError: When this is no counterfactual, a damaged one, or one of a later version.
        """
        if value.get("format") != "counteredge.counterfactual":
            raise DataError("this JSON holds no counteredge counterfactual (its 'format' says otherwise)")
        version = value.get("version")
        if not isinstance(version, int) or version < 1:
            raise DataError(f"version {version!r} is no version of the format (1 to {VERSION})")
        if version > VERSION:
            raise DataError(f"version {version} of the format is newer than {VERSION}: update counteredge")
        try:
            return cls._read(value)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as e:
            raise DataError(f"this counterfactual is damaged: {type(e).__name__} {e}") from e

    @classmethod
    def _read(cls, value: dict[str, Any]) -> Counterfactual:
        original = _graph_from_dict(value["original"])
        edits = EditSet.from_dict(value["edits"])
        calls = value["calls"]
        schema = None if value["schema"] is None else FeatureSchema.from_dict(value["schema"])
        if schema is not None:
            schema = replace(schema, edge_names=tuple(value.get("edge_names", ())))
        structural, node, raw = value.get("structural"), value.get("node"), value.get("raw")
        return cls(
            index=value["index"],
            original=original,
            data=edits.apply(original, schema if structural == "refreshed" else None) if value["found"] else None,
            edits=edits,
            before=_read_prediction(value["before"]),
            after=None if value["after"] is None else _read_prediction(value["after"]),
            found=value["found"],
            reason=value["reason"],
            stage=value["stage"],
            minimal=value["minimal"],
            certified_lower_bound=value["certified_lower_bound"],
            calls=Calls(calls["forward"], calls["backward"], calls["to_first_valid"]),
            seconds=value.get("seconds", 0.0),
            relaxation=value["relaxation"],
            explainer=value["explainer"],
            preset=value["preset"],
            seed=value["seed"],
            parameters=value["parameters"],
            schema=schema,
            label_names=tuple(value["label_names"]),
            structural=structural,
            valid_refreshed=value.get("valid_refreshed"),
            valid_frozen=value.get("valid_frozen"),
            node=tuple(node) if isinstance(node, list) else node,
            collateral=tuple(value.get("collateral", ())),
            ball=value.get("ball"),
            raw=None if raw is None else (int(raw[0]), int(raw[1])),
        )

    @classmethod
    def from_json(cls, text: str) -> Counterfactual:
        """Inverse of :meth:`to_json`."""
        try:
            value = json.loads(text)
        except ValueError as e:
            raise DataError(f"not JSON: {e}") from e
        if not isinstance(value, dict):
            raise DataError(f"expected a JSON object, got {type(value).__name__}")
        return cls.from_dict(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counterfactual) and self.to_dict() == other.to_dict()


def write_jsonl(path: str | Path, counterfactuals: Iterable[Counterfactual], *, append: bool = False) -> None:
    """Write one counterfactual a line; ``append`` adds them to the file (less a line cut off by a crash)."""
    if append and Path(path).exists():
        _mend(Path(path))
    with Path(path).open("a" if append else "w", encoding="utf-8") as f:
        for cf in counterfactuals:
            f.write(cf.to_json() + "\n")
            f.flush()


def _mend(path: Path) -> None:
    """End the last line, or drop it when it is only a part of one."""
    with path.open("r+b") as f:
        size = f.seek(0, 2)
        f.seek(max(0, size - 1))
        if f.read() in (b"", b"\n"):
            return
        f.seek(0)
        head, line_feed, last = f.read().rpartition(b"\n")
        try:
            json.loads(last)
            f.write(b"\n")
        except ValueError:
            f.truncate(len(head) + len(line_feed))


def read_jsonl(path: str | Path) -> Iterator[Counterfactual]:
    """Read what :func:`write_jsonl` wrote; a last line cut off by a crash is left out."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            yield Counterfactual.from_json(line)
        except DataError as e:
            if number == len(lines) - 1 and isinstance(e.__cause__, json.JSONDecodeError):
                return
            raise DataError(f"{path}, line {number + 1}: {e}") from e


def _prediction(p: Prediction) -> dict[str, Any]:
    label = list(p.label) if isinstance(p.label, tuple) else _number(p.label)
    return {"label": label, "probability": _number(p.probability)}


def _number(value: float) -> float | str:
    """JSON has no NaN and no infinity: they are written as text."""
    return value if math.isfinite(value) else str(value)


def _numbers(values: list[Any]) -> list[Any]:
    return [float(v) if isinstance(v, str) else v for v in values]


def _read_prediction(value: dict[str, Any]) -> Prediction:
    label = value["label"]
    return Prediction(tuple(label) if isinstance(label, list) else _numbers([label])[0], float(value["probability"]))


def _graph_to_dict(data: Data) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in sorted(data.to_dict().items()):  # the same text however the graph was put together
        if isinstance(value, Tensor):
            kind = str(value.dtype).removeprefix("torch.")
            if value.layout != torch.strided or kind not in _DTYPES:
                raise DataError(f"attribute {key!r} of the graph ({value.layout}, {kind}) cannot be written as JSON")
            flat = (torch.view_as_real(value) if value.is_complex() else value).flatten().tolist()
            out[key] = {"dtype": kind, "shape": list(value.shape), "values": [_number(v) for v in flat]}
        elif isinstance(value, float) and not math.isfinite(value):
            out[key] = {"number": _number(value)}
        else:
            try:
                out[key] = {"value": json.loads(json.dumps(value, allow_nan=False))}  # as JSON gives it back
            except (TypeError, ValueError):
                continue
    return out


_DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
              torch.complex128)
}  # fmt: skip


def _graph_from_dict(value: dict[str, Any]) -> Data:
    out = Data()
    for key, item in value.items():
        if "value" in item or "number" in item:
            out[key] = item["value"] if "value" in item else float(item["number"])
            continue
        if item["dtype"] not in _DTYPES:
            raise DataError(f"attribute {key!r} has dtype {item['dtype']!r}, which this version does not read")
        dtype = _DTYPES[item["dtype"]]
        if dtype.is_complex:
            pairs = torch.tensor(_numbers(item["values"]), dtype=dtype.to_real()).reshape(*item["shape"], 2)
            out[key] = torch.view_as_complex(pairs)
        else:
            out[key] = torch.tensor(_numbers(item["values"]), dtype=dtype).reshape(item["shape"])
    return out

"""Explainers that learn from graphs before they explain: ``fit``, its report, and safe files."""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from counteredge.cache import write_atomic
from counteredge.data import as_graph_list
from counteredge.decision import Desired, Task
from counteredge.errors import DataError, InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.opening import Asking, Opened, opened
from counteredge.graphs import GraphBatch
from counteredge.oracle import Oracle
from counteredge.results import Calls
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["FitReport", "Trained", "Training"]

FORMAT = 1


@dataclass(frozen=True)
class FitReport:
    """What a fit did.

    Attributes:
        epochs: Epochs run; fewer than asked for when it stopped early.
        stopped_early: Whether it did.
        losses: By name, one value an epoch.
        graphs: Graphs (or nodes) it learnt from.
        calls: Oracle calls spent, apart from those of ``explain``.
        seconds: Wall time.
    """

    epochs: int
    stopped_early: bool
    losses: dict[str, tuple[float, ...]]
    graphs: int
    calls: Calls
    seconds: float

    def __str__(self) -> str:
        last = ", ".join(f"{k} {v[0]:.4g} -> {v[-1]:.4g}" for k, v in self.losses.items() if v)
        early = ", stopped early" if self.stopped_early else ""
        return (
            f"{self.epochs} epochs over {self.graphs} graphs{early}; {last}; {self.calls.forward} oracle calls, "
            f"{self.seconds:.1f} s"
        )


@dataclass
class Training:
    """What a method gets to learn from.

    Attributes:
        oracle: In session; ``oracle.relaxed(base, row, adj, x)`` has gradients to ``adj`` and ``x``.
        graphs: The training graphs, or of a node task the balls of the training nodes.
        schema: Meaning of the columns.
        space: What may change.
        labels: What the untouched model says of each, ``(G,)``.
        outputs: Its outputs, ``(G, C)``.
        generator: For every draw that is not made by a network layer.
        batches: Makes the graphs into padded batches of like size that fit into memory.
        losses: To be filled by :meth:`log`.
    """

    oracle: Oracle
    graphs: Sequence[Data]
    schema: FeatureSchema
    space: EditSpace
    labels: Tensor
    outputs: Tensor
    generator: torch.Generator
    batches: Callable[[], Iterator[GraphBatch]]
    bar: tqdm[Any]
    losses: dict[str, list[float]] = field(default_factory=dict)
    stopped_early: bool = False

    @property
    def epochs(self) -> int:
        """Epochs so far."""
        return max((len(v) for v in self.losses.values()), default=0)

    def log(self, **losses: float) -> None:
        """Note the losses of an epoch; moves the progress bar on.

        Raises:
            InputError: A loss that is no finite number: training came apart.
        """
        for name, value in losses.items():
            if not torch.isfinite(torch.tensor(value)):
                raise InputError(f"training came apart: {name} is {value} in epoch {self.epochs + 1}; lower lr=")
            self.losses.setdefault(name, []).append(float(value))
        self.bar.set_postfix({k: f"{v:.3g}" for k, v in losses.items()}, refresh=False)
        self.bar.update()


class Trained(Explainer):
    """Base class of explainers that are fitted: :meth:`fit`, then :meth:`explain`; :meth:`save` and :meth:`load`.

    A method implements :meth:`_spec` (plain numbers from which its networks are built), :meth:`_build` (builds them
    into ``self.networks``), :meth:`_fit` (trains them) and :meth:`_search`.
    """

    own: ClassVar[tuple[str, ...]] = ()  # names of the method's options, each an attribute of that name
    epochs: int = 1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.networks = nn.ModuleDict()
        self.spec: dict[str, Any] = {}
        self.report: FitReport | None = None

    # -- for methods to fill in --------------------------------------------------------------------------------------

    @abstractmethod
    def _spec(self, training: Training) -> dict[str, Any]:
        """Sizes of the networks and what else must be known to build them, as JSON values."""

    @abstractmethod
    def _build(self, spec: dict[str, Any]) -> None:
        """Fill ``self.networks``; layers draw from the global generator, which is seeded and put back afterwards."""

    @abstractmethod
    def _fit(self, training: Training) -> None:
        """Train ``self.networks``; call ``training.log(...)`` once an epoch."""

    def _own(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.own}

    def options(self) -> dict[str, Any]:
        """Constructor options, as JSON values: what a file must keep."""
        shared = {"mode": self.mode, "seed": self.seed, "postprocess": self.postprocess, "memory": self.memory}
        return {**shared, **self._own()}

    def parameters(self) -> dict[str, Any]:
        """The method's options, for the record."""
        return {**self._own(), **super().parameters()}

    # -- fit ---------------------------------------------------------------------------------------------------------

    def fit(
        self,
        model: nn.Module,
        graphs: Any,
        *,
        desired: Desired | None = None,
        task: Task | None = None,
        edits: EditSpace | str | None = None,
        node: Any = None,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        relaxation: str = "auto",
        progress: bool | None = None,
    ) -> FitReport:
        """Learn from graphs and from what the model says of them; the model is left exactly as it was.

        Args:
            model: The model that will be explained.
            graphs: Training graphs: those that are explained later should not be among them.
            desired: As for :meth:`explain`.
            task: As for :meth:`explain`.
            edits: As for :meth:`explain`.
            node: Of a single graph, the nodes to learn from.
            forward_fn: As for :meth:`explain`.
            output_fn: As for :meth:`explain`.
            relaxation: As for :meth:`explain`.
            progress: Show a progress bar; from two seconds on when ``None``.

        Returns:
            What was done. Fitting again starts anew.

        Raises:
            InputError: No graphs, or graphs or options that cannot be used.
        """
        items, _ = as_graph_list(graphs)
        if not items:
            raise InputError("fit needs graphs to learn from, got none")
        begun = time.perf_counter()
        space = self._space(EditSpace.of(edits))
        schema = getattr(graphs, "schema", None)
        known = schema if isinstance(schema, FeatureSchema) else None
        asking = Asking(desired, task, node, 0.0, forward_fn, output_fn, relaxation, self.looks_far)
        with opened(model, items, space, asking, memory=self.memory, known=known, read=self._schema) as work:
            if not work.graphs:
                raise InputError("fit needs nodes to learn from, got none")
            bar = tqdm(
                total=self.epochs,
                desc=f"{type(self).__name__}.fit",
                unit="epoch",
                delay=2.0,
                leave=False,
                disable=progress is False,
            )
            before = self.spec, self.networks
            try:
                with bar:
                    training = self._training(work, bar)
                    torch.default_generator.manual_seed(self.seed)  # the session restores the global state
                    self.spec = self._spec(training)
                    self.networks = nn.ModuleDict()
                    self._build(self.spec)
                    self._fit(training)
            except BaseException:  # half a fit is none, Ctrl-C too
                self.spec, self.networks = before
                raise
            for network in self.networks.values():
                network.eval()
                network.requires_grad_(False)
            work.oracle.charge_bypassed(torch.arange(len(work.graphs)))
            forward, backward, _ = work.oracle.tally.sum(1).tolist()
        self.report = FitReport(
            training.epochs,
            training.stopped_early,
            {k: tuple(v) for k, v in training.losses.items()},
            len(training.graphs),
            Calls(forward, backward, None),
            time.perf_counter() - begun,
        )
        return self.report

    def _training(self, work: Opened, bar: tqdm[Any]) -> Training:
        z = work.oracle.predict(work.graphs, range(len(work.graphs)))
        return Training(
            oracle=work.oracle,
            graphs=work.graphs,
            schema=work.schema,
            space=work.space,
            labels=work.oracle.decision.labels(z),
            outputs=z,
            generator=torch.Generator().manual_seed(self.seed),
            batches=lambda: self._buckets(work),
            bar=bar,
        )

    @property
    def fitted(self) -> bool:
        """Whether the method has learnt."""
        return bool(self.spec)

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        if not self.fitted:
            name = type(self).__name__
            raise InputError(
                f"{name} has to learn first: call fit(model, training_graphs), or {name}.load(path) what was saved"
            )

    # -- files -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """The networks' weights by name."""
        return dict(self.networks.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set the networks' weights.

        Raises:
            DataError: Weights that do not belong to these networks.
        """
        try:
            self.networks.load_state_dict(state)
        except RuntimeError as error:
            raise DataError(f"the weights do not fit {type(self).__name__}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, options and sizes into one ``.safetensors`` file, at once or not at all.

        Raises:
            InputError: Nothing was learnt yet.
        """
        if not self.fitted:
            raise InputError(f"{type(self).__name__} has not learnt anything that could be saved: call fit() first")
        card = {"format": FORMAT, "explainer": self.name, "options": self.options(), "spec": self.spec}
        tensors = {k: v.contiguous() for k, v in self.state_dict().items()}
        write_atomic(Path(path), save_tensors(tensors, {"counteredge": json.dumps(card)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """An explainer as it was saved; nothing in the file is executed.

        Raises:
            DataError: A file that is missing, damaged, or of another explainer.
        """
        try:
            with safe_open(os.fspath(path), framework="pt") as file:
                card = json.loads((file.metadata() or {})["counteredge"])
                tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118 - not a dict
            name, options, spec = card["explainer"], dict(card["options"]), dict(card["spec"])
            version = card["format"]
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise DataError(f"{path} is no file of a fitted explainer: {error}") from error
        if version != FORMAT:
            raise DataError(f"{path} has format {version}, this version reads {FORMAT}")
        if name != cls.name:
            raise DataError(f"{path} holds a fitted {name!r}, not {cls.name!r}")
        if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
            raise DataError(f"{path} holds weights that are no finite numbers")
        try:
            made = cls(**options)
            with torch.random.fork_rng(devices=[]):
                made._build(spec)
        except Exception as error:  # whatever a damaged file leads to
            raise DataError(f"{path} holds options that {cls.__name__} does not take: {error}") from error
        made.spec = spec
        made.load_state_dict(tensors)
        for network in made.networks.values():
            network.eval()
            network.requires_grad_(False)
        return made

"""What every call does first: read the graphs, open the model, settle what the columns mean and what may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from counteredge.data import check_graph
from counteredge.decision import Desired, Task
from counteredge.descriptors import refreshed
from counteredge.errors import InputError
from counteredge.nodes import NodeOracle, Targets, localised
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["Asking", "Opened", "opened"]


@dataclass(frozen=True)
class Asking:
    """How a model is asked, and for what; see :meth:`~counteredge.explainers.base.Explainer.explain`."""

    desired: Desired | None = None
    task: Task | None = None
    node: Any = None
    keep_others: float = 0.0
    forward_fn: Callable[[nn.Module, Batch], Any] | None = None
    output_fn: Callable[[Any], Tensor] | None = None
    relaxation: str = "auto"
    far: bool = True  # whether nodes outside of a target's ball may be ends of new edges


@dataclass(frozen=True)
class Opened:
    """A model in session with the graphs that are searched.

    Attributes:
        oracle: In session; gradients are switched on.
        graphs: The graphs, or of a node task the ball of each target.
        space: What may change, in the numbers of these graphs.
        schema: Meaning of the columns.
        single: Whether one answer is wanted, not a list (node tasks).
    """

    oracle: Oracle
    graphs: Sequence[Data]
    space: EditSpace
    schema: FeatureSchema
    single: bool


@contextmanager
def opened(
    model: nn.Module | Callable[[Batch], Any],
    graphs: Sequence[Data],
    space: EditSpace,
    asking: Asking,
    *,
    memory: int,
    known: FeatureSchema | None,
    read: Callable[[Sequence[Data], EditSpace], FeatureSchema],
) -> Iterator[Opened]:
    """Open a model for some graphs; it is left exactly as it was.

    Args:
        model: A module, or a function of a batch.
        graphs: Of one kind, at least one.
        space: What may change.
        asking: How the model is asked.
        memory: Bytes that one batched pass may take.
        known: The dataset's schema; that of the edit space goes before it.
        read: Reads a schema off the graphs where there is none.

    Raises:
        InputError: Graphs, options or columns that cannot be used.
        ModelError: A model that cannot be called.
    """
    given: dict[str, Any] = {"forward_fn": asking.forward_fn, "output_fn": asking.output_fn, "task": asking.task}
    options = {**given, "desired": asking.desired, "memory": memory, "relaxation": asking.relaxation}
    schema = space.schema or known
    with ExitStack() as stack:
        # gradients are needed here even when the caller has switched them off
        for switch in (torch.inference_mode(False), torch.enable_grad()):
            stack.enter_context(switch)
        oracle: Oracle
        work, single, local = graphs, False, space
        if asking.node is None:
            oracle = Oracle(model, **options)
        else:
            if not isinstance(model, nn.Module):
                raise InputError("node= needs a torch.nn.Module, a function predicts whole graphs")
            targets, oracle = _node_task(model, graphs, asking.node, asking.keep_others, options)
            single, local = targets.single, localised(space, graphs[0])
            whole = schema is not None and bool(schema.derived) and space.structural != "frozen"
            work = oracle.prepare(space, whole=whole, far=asking.far) if targets.groups else []
        if work:
            stack.enter_context(oracle.session(work))
            schema = schema or read(graphs, local)
            _check_derived(graphs, schema)
            if space.structural != "frozen":
                oracle.follow(schema, graphs[0].x.dtype)
        yield Opened(oracle, work, local, schema or FeatureSchema.fixed(0), single)


def _check_derived(graphs: Sequence[Data], schema: FeatureSchema) -> None:
    """Columns that are said to follow from the edges must do so on the graphs as given."""
    if schema.width != (1 if graphs[0].x.dim() == 1 else graphs[0].x.shape[1]):
        return  # said when the edit space is spelled out
    if not schema.derived:
        return
    at = list(schema.derived)
    given, due = (
        torch.cat([g.x.reshape(len(g.x), -1)[:, at] for g in some]).double()
        for some in (graphs, refreshed(graphs, schema))
    )
    wrong = ((given - due).abs() > 1e-4 * due.abs().clamp(min=1.0)).nonzero()
    if len(wrong):
        row, k = wrong[0].tolist()
        first = torch.tensor([0, *(len(g.x) for g in graphs)]).cumsum(0)
        i = int((first <= row).sum()) - 1
        raise InputError(
            f"graph {i}: column {at[k]} is said to be {schema.columns[at[k]].derived!r}, but at node "
            f"{row - int(first[i])} it is {float(given[row, k]):g} where the edges give {float(due[row, k]):g}; "
            "correct it (see counteredge.descriptors), or describe the column as continuous or fixed"
        )


def _node_task(
    model: nn.Module, graphs: Sequence[Data], node: Any, keep_others: float, options: dict[str, Any]
) -> tuple[Targets, NodeOracle]:
    if len(graphs) != 1:
        raise InputError(f"node= explains nodes of one graph, {len(graphs)} graphs were given")
    (data,) = graphs
    check_graph(data, "the graph")
    targets = Targets.of(node, len(data.x))
    return targets, NodeOracle(model, data, targets, keep_others=keep_others, **options)

"""Computation balls: the part of a graph that a node's prediction depends on, as a graph of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.data import edge_attributes, is_directed
from counteredge.errors import InputError
from counteredge.nodes.head import MARK
from counteredge.space import EditSpace, nodes_of, pairs_of

__all__ = ["IDS", "Targets", "cut", "localised", "reach"]

IDS = "node_ids"  # node attribute of a ball: the node's number in the full graph
FULL = "ball_of"  # attribute of a ball that holds how many nodes the full graph has


@dataclass(frozen=True)
class Targets:
    """Which nodes are explained: one group of nodes an answer.

    Args:
        groups: Node numbers, sorted; all groups of one length.
        single: Whether one answer was asked for instead of a list.

    Example:
        >>> Targets.of(5, 10).groups, Targets.of([3, 1], 10).groups, Targets.of({3, 1}, 10).groups
        (((5,),), ((3,), (1,)), ((1, 3),))
    """

    groups: tuple[tuple[int, ...], ...]
    single: bool

    @classmethod
    def of(cls, node: Any, nodes: int) -> Targets:
        """Read ``node=``: a number, a list (an answer each), or a set (one answer that flips all of them).

        Raises:
            InputError: For other things, and nodes that do not exist.
        """
        if isinstance(node, Tensor):
            if node.dtype == torch.bool:
                if node.shape != (nodes,):
                    raise InputError(f"node= is a mask of shape {tuple(node.shape)}, the graph has {nodes} nodes")
                node = node.nonzero().flatten()
            node = node.tolist()
        if isinstance(node, set | frozenset):
            joint = tuple(sorted({_node(v, nodes) for v in node}))
            if not joint:
                raise InputError("node= is an empty set: name at least one node")
            return cls((joint,), True)
        if isinstance(node, Iterable) and not isinstance(node, str):
            return cls(tuple((_node(v, nodes),) for v in node), False)
        return cls(((_node(node, nodes),),), True)


def _node(value: Any, nodes: int) -> int:
    if isinstance(value, bool):
        raise InputError("node= holds truth values: give a mask as a torch tensor, or node numbers")
    try:
        found = operator.index(value)
    except TypeError as e:
        raise InputError(f"node={value!r} is no node number: give a number, a list, a mask or a set of numbers") from e
    if not 0 <= found < nodes:
        raise InputError(f"node {found} does not exist: the graph has nodes 0..{nodes - 1}")
    return int(found)


def reach(data: Data, start: Sequence[int], hops: int) -> Tensor:
    """Which nodes lie within so many hops of the given ones, edge directions ignored, ``(n,)`` boolean."""
    src, dst = data.edge_index
    inside = torch.zeros(len(data.x), dtype=torch.bool, device=src.device)
    inside[list(start)] = True
    for _ in range(hops):
        grown = inside.clone()
        grown[dst[inside[src]]] = True
        grown[src[inside[dst]]] = True
        if torch.equal(grown, inside):
            break
        inside = grown
    return inside


def cut(data: Data, inside: Tensor, targets: Sequence[int]) -> Data:
    """The subgraph on some nodes, with its targets marked and the nodes' numbers in the full graph.

    Shapes:
        inside: ``(n,)`` boolean.
    """
    ids = inside.nonzero().flatten()
    place = torch.full_like(inside, -1, dtype=torch.long)
    place[ids] = torch.arange(len(ids), device=ids.device)
    kept = inside[data.edge_index].all(0)
    edge_aligned = edge_attributes(data)
    out = Data(x=data.x[ids], edge_index=place[data.edge_index[:, kept]])
    for key in data.keys():  # noqa: SIM118 - a Data iterates over pairs
        value = data[key]
        if key in ("x", "edge_index", "num_nodes") or not isinstance(value, Tensor):
            continue
        if key in edge_aligned:
            out[key] = value[kept]
        elif "edge" not in key:
            of_nodes = value.dim() and value.shape[0] == len(inside)
            out[key] = value[ids] if of_nodes else value
    out[MARK] = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    out[MARK][place[list(targets)]] = True
    out[IDS] = ids
    out[FULL] = len(inside)
    return out


def localised(space: EditSpace, full: Data) -> EditSpace:
    """The user's edit space, given in numbers of the full graph, as it reads on a ball.

    Where a largest degree is set, nodes whose neighbours are not all in the ball get no new edges: their degree there
    is not their degree. ``keep_connected`` is judged within the ball, which is stricter than on the full graph.
    """

    def nodes(ball: Data) -> Tensor:
        return torch.isin(ball[IDS].cpu(), nodes_of(space.frozen_nodes, full))

    def pairs(given: Any, name: str) -> Callable[[Data], Tensor]:
        def of(ball: Data) -> Tensor:
            place = torch.full((len(full.x),), -1, dtype=torch.long)
            place[ball[IDS].cpu()] = torch.arange(len(ball[IDS]))
            here = place[pairs_of(given, name, full)]
            return here[(here >= 0).all(1)]

        return of

    def square(given: Any) -> Any:
        if not callable(given) and not isinstance(given, Tensor):
            return given

        def of(ball: Data) -> Any:
            value = torch.as_tensor(given(full) if callable(given) else given)
            return value[ball[IDS]][:, ball[IDS]] if value.dim() == 2 else value

        return of

    def attributes(ball: Data, key: str) -> Any:
        value = torch.as_tensor(space.new_edges(full, key))  # type: ignore[operator]
        whole = value.dim() >= 2 and tuple(value.shape[:2]) == (len(full.x), len(full.x))
        return value[ball[IDS]][:, ball[IDS]] if whole else value

    still = pairs(space.frozen_edges, "frozen_edges")
    degree = _degrees(full)

    def frozen_pairs(ball: Data) -> Tensor:
        found = still(ball)
        if space.max_degree is None:
            return found
        cut_off = (degree[ball[IDS]] != _degrees(ball)).nonzero().flatten()
        absent = torch.ones(len(ball.x), len(ball.x), dtype=torch.bool)
        absent[tuple(ball.edge_index.cpu())] = False
        some = torch.zeros_like(absent)
        some[cut_off] = True
        return torch.cat([found, (absent & (some | some.t())).nonzero()])

    return replace(
        space,
        directed=is_directed(full) if space.directed is None else space.directed,
        frozen_nodes=nodes,
        frozen_edges=frozen_pairs,
        allowed_pairs=None if space.allowed_pairs is None else pairs(space.allowed_pairs, "allowed_pairs"),
        add_cost=square(space.add_cost),
        remove_cost=square(space.remove_cost),
        gamma=square(space.gamma),
        new_edges=attributes if callable(space.new_edges) else space.new_edges,
    )


def _degrees(data: Data) -> Tensor:
    """Neighbours of each node, either direction, ``(n,)``."""
    src, dst = data.edge_index.cpu()
    n = len(data.x)
    arcs = torch.unique(torch.cat([src * n + dst, dst * n + src])[torch.cat([src != dst, src != dst])])
    return torch.bincount(arcs // n, minlength=n)

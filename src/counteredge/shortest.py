"""Centralities that rest on shortest paths, of many graphs at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

__all__ = ["CACHED", "MATRICES", "by_shortest_paths", "cached"]

MATRICES = 10  # (n, n) matrices that a graph takes while its descriptors are computed
CACHED = 1 << 23  # bytes worked on at once: beyond this, memory traffic makes it slower
WORTH = 3  # graphs of one edge more or less that make it worth to look at the common one first
SINGLE = 1 << 24  # whole numbers up to here are exact in single precision


def cached(nodes: int) -> int:
    """How many graphs are worked on at once."""
    return max(1, CACHED // (8 * MATRICES * max(1, nodes) ** 2))


def by_shortest_paths(a: Tensor, mask: Tensor, betweenness: bool) -> Tensor:
    """Closeness, harmonic and betweenness centrality (0 where that is not wanted).

    Searches ask about many graphs in a row that have one edge more than a common one: these follow from its paths.
    Masks are numbers 0 and 1 that are multiplied with here, which is faster than choosing.

    Args:
        a: 0/1 adjacencies, symmetric, zero on the diagonal and outside the mask.
        mask: Real nodes.
        betweenness: Whether that is wanted.

    Shapes:
        a: ``(K, n, n)``; mask: ``(K, n)``; returns ``(K, n, 3)``.
    """
    n, size = a.shape[1], mask.sum(1).to(a.dtype)
    found = a.new_zeros(*mask.shape, 3)
    rest = torch.ones(len(a), dtype=torch.bool, device=a.device)
    arcs = a.sum((1, 2))
    for first, last in _alike(a, arcs, mask):
        if last - first < WORTH:
            continue
        run = a[first:last]
        common = (2 * run.sum(0) > last - first).to(a.dtype)
        shared = run.flatten(1) @ common.flatten()
        more = (arcs[first:last] - shared == 2) & (common.sum() == shared)
        less = (arcs[first:last] == shared) & (common.sum() - shared == 2)
        at = (more | less).nonzero().flatten()
        # the table of the common one's paths costs as much as two searches, and n matrices while it is made
        if len(at) < WORTH or (len(at) * MATRICES < n and 8 * n**3 > CACHED):
            continue
        pair = (run[at] - common).abs_().flatten(1).argmax(1)  # of the edge's two entries, the first
        i, j = pair // n, pair % n
        more = more[at]
        paths = _Paths.of(common[None], mask[first : first + 1])
        less = ~more & _are_bridges(common, paths, i, j)
        table = _table(paths) if betweenness else None
        for chosen, measure in ((more, _with_edge), (less, _without_bridge)):
            for part in _parts(chosen, max(1, cached(n) // 3)):
                found[first + at[part]] = measure(paths, table, i[part], j[part], size[first])
        rest[first + at[more | less]] = False
    for part in _parts(rest, cached(n)):
        paths = _Paths.of(a[part], mask[part])
        through = _through(a[part], paths) if betweenness else torch.zeros_like(found[part, :, 0])
        found[part] = _scaled(paths.distance, paths.number, through, size[part])
    return found


def _alike(a: Tensor, arcs: Tensor, mask: Tensor) -> Iterator[tuple[int, int]]:
    """Where runs of graphs begin and end of which each has at most two edges otherwise than the one before."""
    shared = (a[1:] * a[:-1]).sum((1, 2))
    cut = (arcs[1:] + arcs[:-1] - 2 * shared > 4) | (mask[1:] != mask[:-1]).any(1)
    ends = [0, *(cut.nonzero().flatten() + 1).tolist(), len(a)]
    return pairwise(ends)


def _parts(chosen: Tensor, step: int) -> Iterator[Tensor]:
    """Where it is true, so many at once."""
    at = chosen.nonzero().flatten()
    return (at[k : k + step] for k in range(0, len(at), step))


@dataclass
class _Paths:
    """Shortest paths of each graph, found by one breadth-first search from all nodes at once.

    Attributes:
        distance: In edges; ``2 n`` where there is no path.
        number: How many there are; 1 from a node to itself.
        deepest: Largest distance.

    Shapes:
        distance, number: ``(K, n, n)``.
    """

    distance: Tensor
    number: Tensor
    deepest: int

    @staticmethod
    def of(a: Tensor, mask: Tensor) -> _Paths:
        """Level by level, ``number[l] = number[l-1] A`` where nobody has been yet (Brandes 2001, as products)."""
        single, real = a.float(), mask.float()
        eye = torch.eye(a.shape[1], dtype=torch.float32, device=a.device)
        unseen = real[:, :, None] * real[:, None, :] * (1 - eye) - single
        distance, number, level = single + 2 * unseen, single + eye, single
        deepest, left = 1, int(unseen.count_nonzero())
        while left:
            level = _product(level, single) * unseen
            unseen -= level.clamp(max=1)
            before, left = left, int(unseen.count_nonzero())
            if left == before:
                break
            deepest, number = deepest + 1, number + level
            distance += unseen
        distance += 2 * a.shape[1] * (1 - number.clamp(max=1))
        return _Paths(distance.to(a.dtype), number.to(a.dtype), deepest)


def _product(counts: Tensor, single: Tensor) -> Tensor:
    """Whole numbers times 0/1 matrices, in single precision where that is exact, as it is faster.

    A small result had no larger number on its way, as none is negative.
    """
    out = torch.bmm(counts, single.to(counts.dtype))
    if out.dtype == torch.float32 and float(out.max()) >= SINGLE:
        return torch.bmm(counts.double(), single.double())
    return out


def _scaled(distance: Tensor, number: Tensor, through: Tensor, size: Tensor) -> Tensor:
    """Closeness, harmonic and betweenness centrality, ``(K, n, 3)``.

    Shapes:
        distance, number: ``(K, n, n)``; through: ``(K, n)``, paths of ordered pairs; size: ``(K,)`` or of all.
    """
    size = size.reshape(-1, 1)
    others = number.clamp(max=1) - torch.eye(number.shape[1], dtype=number.dtype, device=number.device)
    reached, total = others.sum(2), (others * distance).sum(2)
    closeness = reached * reached / (total * (size - 1)).clamp(min=1.0)
    harmonic = others.div_(distance.clamp(min=1)).sum(2)
    return torch.stack([closeness, harmonic, through / ((size - 1) * (size - 2)).clamp(min=1.0)], 2)


def _through(a: Tensor, paths: _Paths) -> Tensor:
    """Shares of shortest paths through each node, summed over ordered pairs of other nodes, ``(K, n)``.

    Backwards: what depends on a node is shared among its predecessors by their numbers of paths.
    """
    each = paths.number.clamp(min=1).reciprocal()
    depends = torch.zeros_like(a)  # over the number of paths
    level = torch.empty_like(a)
    share = each * torch.eq(paths.distance, paths.deepest, out=level)
    for far in range(paths.deepest - 1, 0, -1):
        share = torch.bmm(share, a).mul_(torch.eq(paths.distance, far, out=level))
        depends += share
        share += each * level
    return (depends * paths.number).sum(1)


def _table(paths: _Paths) -> Tensor:
    """How many shortest paths of each pair of nodes lead through each other node.

    Shapes:
        paths: of one graph; returns ``(n (n - 1) / 2, n)``, pairs in the order of the upper triangle.
    """
    distance, number = paths.distance[0], paths.number[0]
    s, t = torch.triu_indices(len(number), len(number), 1, device=number.device)
    table = distance[s].add_(distance[t])
    torch.eq(table, distance[s, t][:, None], out=table)
    table.mul_(number[s]).mul_(number[t])
    return table.scatter_(1, torch.stack([s, t], 1), 0.0)


def _with_edge(paths: _Paths, table: Tensor | None, i: Tensor, j: Tensor, size: Tensor) -> Tensor:
    """The centralities when a graph gets one more edge ``i j``.

    A shortest path takes the new edge at most once. So it is an old shortest path, or an old one to ``i``, the edge,
    and an old one from ``j`` (or the other way round: seen from the other end).

    Args:
        paths: Of the graph as it is.
        table: See :func:`_table`; ``None`` where betweenness is not wanted.
        i: One end of each new edge.
        j: The other.
        size: Number of real nodes.

    Shapes:
        paths: of one graph; i, j: ``(K,)``; returns ``(K, n, 3)``.
    """
    distance, number = paths.distance, paths.number
    n = distance.shape[1]
    to_i, to_j, by_i, by_j = distance[0, i], distance[0, j], number[0, i], number[0, j]
    over = (to_i + 1)[:, :, None] + to_j[:, None, :]
    after = torch.minimum(torch.minimum(over, over.transpose(1, 2)), distance)
    crosses = torch.eq(over, after, out=over)
    stays = torch.eq(distance, after, out=torch.empty_like(after))
    new = crosses * by_i[:, :, None] * by_j[:, None, :]
    count = (stays * number).add_(new).add_(new.transpose(1, 2))
    if table is None:
        return _scaled(after, count, torch.zeros_like(by_i), size)
    each = count.clamp(min=1).reciprocal_()
    s, t = torch.triu_indices(n, n, 1, device=i.device)
    through = (stays * each).flatten(1).index_select(1, s * n + t) @ table
    crosses *= each
    from_i, from_j = (crosses * by_j[:, None, :]).sum(2), (crosses * by_i[:, :, None]).sum(1)
    eye = torch.eye(n, dtype=number.dtype, device=i.device)
    for to_end, by_end, pairs in ((to_i, by_i, from_i), (to_j, by_j, from_j)):
        # on the way from a node to the edge's end, that end included
        on = torch.eq(distance + to_end[:, None, :], to_end[:, :, None], out=torch.empty_like(after))
        on *= number - eye
        through += (on * pairs[:, :, None]).sum(1) * by_end
    return _scaled(after, count, 2 * through, size)


def _are_bridges(a: Tensor, paths: _Paths, i: Tensor, j: Tensor) -> Tensor:
    """Which edges are the only one between the nodes nearer to ``i`` than to ``j`` and the others, ``(K,)``."""
    near = (paths.distance[0, i] < paths.distance[0, j]).to(a.dtype)
    return ((near @ a) * (1 - near)).sum(1) == 1


def _without_bridge(paths: _Paths, table: Tensor | None, i: Tensor, j: Tensor, size: Tensor) -> Tensor:
    """The centralities when a graph loses an edge ``i j`` without which there is no way from ``i`` to ``j``.

    Paths on either side stay as they are, those from one to the other are gone. Arguments as of :func:`_with_edge`.
    """
    distance, number = paths.distance, paths.number
    n = distance.shape[1]
    over = (distance[0, i] + 1)[:, :, None] + distance[0, j][:, None, :]
    stays = 1 - torch.eq(over, distance, out=torch.empty_like(over))
    stays *= stays.transpose(1, 2).clone()
    through = torch.zeros_like(distance[0, i])
    if table is not None:
        s, t = torch.triu_indices(n, n, 1, device=i.device)
        kept = (stays / number.clamp(min=1)).flatten(1)
        through = 2 * (kept.index_select(1, s * n + t) @ table)
    return _scaled(distance * stays, number * stays, through, size)

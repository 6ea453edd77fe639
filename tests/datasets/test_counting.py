import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import coalesce, is_undirected, to_networkx

from counteredge.datasets.counting import COLORS_LARGE, COLORS_MIXED, TRIANGLES_LARGE, make_colors, make_triangles
from counteredge.errors import InputError


def test_classes_are_triangle_counts():
    graphs = make_triangles(60).graphs
    for i, data in enumerate(graphs):
        graph = to_networkx(data, to_undirected=True)
        assert sum(nx.triangles(graph).values()) // 3 == int(data.y) + 1 == i % 10 + 1
        n, m = len(graph), graph.number_of_edges()
        assert 4 <= n <= 25
        assert n <= m <= 2 * n - 1
        assert is_undirected(data.edge_index)
        assert torch.equal(data.edge_index, coalesce(data.edge_index))


def test_classes_are_green_counts():
    for data in make_colors(200).graphs:
        assert int(data.x[:, 1].sum()) == int(data.y) <= 10
        assert (data.x.sum(1) == 1).all()
        assert (data.x[:, 3] == 0).all()
        assert 4 <= data.num_nodes <= 25


@pytest.mark.parametrize(
    ("make", "name", "start"),
    [
        (make_colors, "COLORS_LARGE", COLORS_LARGE),
        (make_colors, "COLORS_MIXED", COLORS_MIXED),
        (make_triangles, "TRIANGLES_LARGE", TRIANGLES_LARGE),
    ],
)
def test_later_parts(make, name, start, monkeypatch):
    monkeypatch.setattr(f"counteredge.datasets.counting.{name}", 0)
    graphs = make(40).graphs
    sizes = [g.num_nodes for g in graphs]
    if name == "COLORS_MIXED":
        mixed = torch.cat([g.x for g in graphs])
        assert len(mixed.unique(dim=0)) == 9  # green, or any of the eight mixtures of the other three
        assert ((mixed[:, 1] == 0) | (mixed.sum(1) == 1)).all()
    else:
        assert 26 <= min(sizes) < max(sizes) <= (100 if make is make_triangles else 200)
    assert max(int(np.bincount(g.edge_index[0]).max()) for g in graphs) <= 14


@pytest.mark.parametrize("make", [make_colors, make_triangles])
def test_seeds(make):
    few, many, other = make(3).graphs, make(6).graphs, make(3, seed=1).graphs
    assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(few, many, strict=False))
    assert not all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(few, other, strict=True))
    for bad in ({"graphs": -1}, {"seed": -1}):
        with pytest.raises(InputError, match="got"):
            make(**{"graphs": 1, **bad})

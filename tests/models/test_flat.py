import pytest
import torch
from torch_geometric.data import Batch, Data

from counteredge.errors import InputError
from counteredge.models.flat import FlatGraphs


def some_graphs(per_node=False):
    generator = torch.Generator().manual_seed(0)
    made = []
    for n in (3, 1, 5, 2, 4):
        edges = torch.randint(0, n, (2, 2 * n), generator=generator) if n > 1 else torch.empty(2, 0, dtype=torch.long)
        y = torch.randint(0, 3, (n if per_node else 1,), generator=generator)
        made.append(Data(x=torch.randn(n, 2, generator=generator), edge_index=edges, y=y))
    return made


@pytest.mark.parametrize("per_node", [False, True])
def test_a_cut_is_what_pyg_would_collate(per_node):
    graphs = some_graphs(per_node)
    flat = FlatGraphs.of(graphs, 3, per_node=per_node)
    assert len(flat) == 5
    for numbers in ([0, 1, 2, 3, 4], [4, 1, 0], [2, 2], [1]):
        cut = flat.cut(torch.tensor(numbers))
        batch = Batch.from_data_list([graphs[i] for i in numbers])
        for field in ("x", "edge_index", "batch", "y"):
            assert torch.equal(getattr(cut, field), batch[field])


def test_main_class():
    graphs = some_graphs(per_node=True)
    graphs[0].y = torch.tensor([2, 1, 2])
    graphs[3].y = torch.tensor([1, 0])  # of equals, the lowest
    main = FlatGraphs.of(graphs, 3, per_node=True).main_class(3)
    assert (main[0], main[3]) == (2, 0)
    graphs = some_graphs()
    assert FlatGraphs.of(graphs, 3).main_class(3).tolist() == [int(g.y) for g in graphs]


def test_the_digest_follows_every_part():
    digests = set()
    for change in ("nothing", "nothing", "x", "edge_index", "y"):
        graphs = some_graphs()
        if change != "nothing":
            graphs[2][change] = (graphs[2][change] + 1) % 3
        digests.add(FlatGraphs.of(graphs, 3).sha256())
    digests.add(FlatGraphs.of(some_graphs()[:-1], 3).sha256())
    assert len(digests) == 5


def test_graphs_that_cannot_be_collated():
    graphs = some_graphs()
    with pytest.raises(InputError, match="at least 2"):
        FlatGraphs.of(graphs[:1], 3)
    with pytest.raises(InputError, match="classes must be 0 to 0"):
        FlatGraphs.of([Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0), y=torch.tensor([1]))] * 2, 1)
    with pytest.raises(InputError, match="graph 0 needs nodes"):
        FlatGraphs.of([Data(edge_index=torch.empty(2, 0), y=torch.tensor([0]), num_nodes=1)] * 2, 1)
    with pytest.raises(InputError, match="graph 0 needs one class y a node"):
        FlatGraphs.of(graphs, 3, per_node=True)
    graphs[3].x = torch.ones(2, 7)
    with pytest.raises(InputError, match="graph 3 has 7 columns"):
        FlatGraphs.of(graphs, 3)

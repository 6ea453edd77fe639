"""What may change is yours to say: frozen atoms, edges only, costs, a wished class."""

import torch
from torch_geometric.data import Data

import counteredge as ce


class CountsBonds(torch.nn.Module):
    """A stand-in for your trained model: class 0, 1, 2 by the number of edges."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits, one row a graph."""
        ones = torch.ones(edge_index.shape[1], dtype=x.dtype)
        edges = torch.zeros(int(batch.max()) + 1, dtype=x.dtype).index_add(0, batch[edge_index[0]], ones) / 2
        return torch.stack([4.5 - edges, 1 - (edges - 5).abs(), edges - 5.5], 1)


atoms = ce.FeatureSchema.onehot(["C", "N", "O"])
ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
molecule = Data(x=torch.eye(3)[[0, 0, 1, 2]], edge_index=torch.cat([ring, ring.flip(0)], 1))

free = ce.XPlore().explain(CountsBonds(), molecule, edits=ce.EditSpace(schema=atoms))
print(free)

space = ce.EditSpace(schema=atoms, features=False, remove_edges=False, frozen_nodes=[3])
bound = ce.XPlore().explain(CountsBonds(), molecule, edits=space)
print(bound)

# some wishes cannot be met: four nodes hold six edges at most, and node 3 is frozen
never = ce.XPlore().explain(CountsBonds(), molecule, edits=space, desired=2)
print(never)

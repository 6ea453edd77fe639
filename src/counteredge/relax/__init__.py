"""How an adjacency with fractional entries enters a model's forward pass.

Both ways run the user's own ``forward`` and touch nothing but PyG's public hooks, which are gone afterwards. Neither is
trusted: the oracle measures both against the model on really edited graphs before it uses one. One that is not exact
may rank edges, which the model itself then judges.
"""

from counteredge.relax.dense import DenseTwin
from counteredge.relax.weights import EdgeWeights

__all__ = ["DenseTwin", "EdgeWeights"]

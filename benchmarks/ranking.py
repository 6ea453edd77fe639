"""What ranking edges by a way that is not exact saves; writes docs/results/ranking.csv.

    python benchmarks/ranking.py [--out docs/results]

Models of two layers that no relaxed pass is exact for, trained for 40 epochs on "has at least three triangles" over 400
random graphs of 18 to 26 nodes, then explained on 25 others: with ``relaxation="none"``, where edges are tried in
their order, and with ``"auto"``, where they are ranked. No mask descents (they need an exact way). Calls are forward
calls a graph; ``mean_edits`` is over the graphs answered.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GENConv, GINConv, MFConv, PNAConv, SAGEConv, global_add_pool

import counteredge as ce

DEGREES = torch.tensor([10, 30, 40, 30, 20, 10, 5])
AGGREGATORS, SCALERS = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
LAYERS: dict[str, Any] = {
    "SAGE max": lambda a, b: SAGEConv(a, b, aggr="max"),
    "PNA": lambda a, b: PNAConv(a, b, AGGREGATORS, SCALERS, DEGREES),
    "GEN": GENConv,
    "MF": lambda a, b: MFConv(a, b, max_degree=6),
    "GIN max": lambda a, b: GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)), aggr="max"),
}


class Net(nn.Module):
    """Two layers, a sum, two dense layers."""

    def __init__(self, layer: Any, hidden: int = 16) -> None:
        super().__init__()
        self.convs = nn.ModuleList([layer(4, hidden), layer(hidden, hidden)])
        self.lin = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits ``(B, 2)``."""
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.lin(global_add_pool(x, batch))


def graph(seed: int) -> Data:
    """A random graph; class 1 from three triangles on."""
    g = torch.Generator().manual_seed(seed)
    n = int(torch.randint(18, 27, (1,), generator=g))
    adj = (torch.rand(n, n, generator=g) < 0.06 + 0.12 * torch.rand(1, generator=g)).triu(1)
    adj = adj | adj.t()
    x = torch.randn(n, 4, generator=g)
    triangles = float(torch.linalg.matrix_power(adj.double(), 3).trace()) / 6
    return Data(x=x, edge_index=adj.nonzero().t().contiguous(), y=torch.tensor([int(triangles >= 3)]))


def trained(layer: Any, graphs: list[Data]) -> tuple[Net, float]:
    """The model after 40 epochs, and its accuracy on what it was trained on."""
    torch.manual_seed(0)
    model = Net(layer)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(40):
        order = torch.randperm(len(graphs))
        for k in range(0, len(graphs), 32):
            b = Batch.from_data_list([graphs[i] for i in order[k : k + 32]])
            loss = nn.functional.cross_entropy(model(b.x, b.edge_index, b.batch), b.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    b = Batch.from_data_list(graphs)
    with torch.no_grad():
        right = model.eval()(b.x, b.edge_index, b.batch).argmax(1) == b.y
    return model, float(right.double().mean())


def measure(model: nn.Module, graphs: list[Data], relaxation: str, edits: str) -> dict[str, Any]:
    """One row of figures."""
    begun = time.perf_counter()
    answers = ce.XPlore(restarts=0).explain(model, graphs, edits=edits, relaxation=relaxation, progress=False)
    calls = [cf.calls.forward for cf in answers]
    return {
        "edits": edits,
        "relaxation": answers[0].relaxation,
        "graphs": len(answers),
        "answered": sum(cf.found for cf in answers),
        "mean_edits": round(mean(len(cf.edits) for cf in answers if cf.found), 2),
        "mean_calls": round(mean(calls), 1),
        "median_calls": median(calls),
        "seconds": round(time.perf_counter() - begun, 2),
    }


def main() -> None:
    """Train, explain both ways, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, test = [graph(s) for s in range(400)], [graph(10_000 + s) for s in range(25)]
    rows = []
    for name, layer in LAYERS.items():
        model, accuracy = trained(layer, train)
        for edits in ("edges", "both"):
            for relaxation in ("none", "auto"):
                figures = measure(model, test, relaxation, edits)
                rows.append({"layer": name, "accuracy": round(accuracy, 3), **figures})
                print(rows[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "ranking.csv").open("w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

"""What jobs on one dataset share: its graphs, its oracle, the graphs drawn from it, fitted embedders."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from counteredge.datasets import GraphDataset, load
from counteredge.metrics import Evaluator
from counteredge.metrics.sample import own_label
from counteredge.models import TrainedModel, oracle_for
from counteredge.models.recipes import Protocol

__all__ = ["Setting", "setting"]

SHOWN = 2000  # of larger datasets, so many graphs (and those drawn) stand for all in embedding spaces
Subject = tuple[int, int | None]  # a graph's number, and a node's of a node task


class Setting:
    """A dataset and its oracle, ready for jobs.

    Args:
        dataset: The graphs.
        oracle: Trained on them.
    """

    def __init__(self, dataset: GraphDataset, oracle: TrainedModel) -> None:
        self.dataset, self.oracle = dataset, oracle
        self.per_node = dataset.task == "node"
        self._evaluators: dict[Any, Evaluator] = {}

    def drawn(self, count: int | None) -> list[Subject]:
        """Graphs, or of a node task nodes, that are explained: all, or so many drawn by a fixed seed; in order."""
        if not self.per_node:
            return [(i, None) for i in _some(len(self.dataset), count, 0)]
        ends = torch.tensor([len(g.x) for g in self.dataset.graphs]).cumsum(0)
        at = torch.tensor(_some(int(ends[-1]), count, 0))
        graph = torch.searchsorted(ends, at, side="right")
        start = torch.cat([ends.new_zeros(1), ends])[graph]
        return list(zip(graph.tolist(), (at - start).tolist(), strict=True))

    def learnt(self, count: int | None, most: int) -> list[int]:
        """Graphs to learn from: of the oracle's own, none of those explained unless that leaves none."""
        explained = {graph for graph, _ in self.drawn(count)}
        train = sorted(int(i) for i in self.oracle.split["train"])
        apart = [i for i in train if i not in explained] or train
        return [apart[k] for k in _some(len(apart), most, 1)]

    def label(self, graph: int, node: int | None) -> Any:
        """The true class."""
        data = self.dataset.graphs[graph]
        return own_label(data) if node is None else int(data.y[node])

    def evaluator(self, embedders: tuple[str, ...], count: int | None) -> Evaluator:
        """Measures answers; made once for all jobs of the same kind."""
        key = (embedders, count)
        if key not in self._evaluators:
            graphs = self.dataset.graphs
            named: Any = "all" if embedders == ("all",) else list(embedders)
            if self.per_node or not named:
                self._evaluators[key] = Evaluator(embedders=[], controls=(), progress=False)
            else:
                shown = sorted({i for i, _ in self.drawn(count)} | set(_some(len(graphs), SHOWN, 2)))
                self._evaluators[key] = Evaluator(
                    dataset=[graphs[i] for i in shown],
                    model=self.oracle.model,
                    embedders=named,
                    controls=(),
                    progress=False,
                )
        return self._evaluators[key]


@lru_cache(maxsize=2)
def setting(name: str, protocol: Protocol, seed: int, data_root: str | os.PathLike[str] | None = None) -> Setting:
    """Load a dataset and its oracle, which is trained where the cache does not hold it; the last two are kept."""
    dataset = load(name, None if data_root is None else Path(data_root))
    oracle = oracle_for(dataset.name, dataset.graphs, dataset.num_classes, seed=seed, protocol=protocol)
    return Setting(dataset, oracle)


def _some(total: int, count: int | None, seed: int) -> list[int]:
    """Numbers below ``total``: all, or ``count`` drawn without replacement, in order."""
    if count is None or count >= total:
        return list(range(total))
    drawn = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return sorted(int(i) for i in drawn.tolist())

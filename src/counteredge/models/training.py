"""Trains a :class:`GraphClassifier` by a recipe, the same way every time for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from counteredge.errors import InputError
from counteredge.models.classifier import Conv, GraphClassifier, Pool

__all__ = ["Recipe", "TrainedModel", "train"]


@dataclass(frozen=True)
class Recipe:
    """Architecture and training of one model.

    Args:
        conv: Convolution, see :class:`GraphClassifier`.
        layers: Number of convolutions.
        hidden: Width.
        dense: Linear layers after the pooling.
        pool: Pooling.
        epochs: Passes over the training part.
        lr: First learning rate; it falls to 0 along a cosine.
        batch_size: Graphs a step.
        weight_decay: L2 penalty of Adam.
        dropout: Dropout probability.
        max_graphs: Split only the first so many graphs; the rest counts as held out.
    """

    conv: Conv = "gcn"
    layers: int = 3
    hidden: int = 64
    dense: int = 1
    pool: Pool = "mean"
    epochs: int = 100
    lr: float = 0.01
    batch_size: int = 32
    weight_decay: float = 0.0
    dropout: float = 0.0
    max_graphs: int | None = None


@dataclass(frozen=True)
class TrainedModel:
    """A trained classifier and how well it does.

    Args:
        model: The classifier, in eval mode.
        accuracy: Share of all graphs classified rightly, 0 to 1.
        accuracy_heldout: The same on the graphs it never saw in training.
        split: Graph numbers under ``"train"`` and ``"test"``.
        recipe: What it was trained by.
        seed: Seed of the split, the weights and the batches.
    """

    model: GraphClassifier
    accuracy: float
    accuracy_heldout: float
    split: dict[str, list[int]]
    recipe: Recipe
    seed: int


def train(
    dataset_graphs: Sequence[Data], num_classes: int, recipe: Recipe, *, seed: int = 0, progress: bool = False
) -> TrainedModel:
    """Train on a random 80 % of the graphs with Adam and cross entropy.

    The weights of the last epoch are kept, so nothing is chosen on the held-out graphs. The global random
    state is the same after the call as before. Training runs on one thread: such small graphs gain nothing
    from more, and the weights would differ with their number.

    Args:
        dataset_graphs: Graphs with ``x``, ``edge_index`` and ``y`` of one class each.
        num_classes: Number of classes.
        recipe: Architecture and training.
        seed: Seed of the split, the weights, the batches and the dropout.
        progress: Show a progress bar.

    Returns:
        The model in eval mode, with its accuracies.

    Raises:
        InputError: When there are fewer than two graphs, or one lacks ``x`` or a class below ``num_classes``.
    """
    graphs = _check(dataset_graphs, num_classes)
    generator = torch.Generator().manual_seed(seed)
    split = _split(len(graphs), recipe.max_graphs, generator)
    chosen = [graphs[i] for i in split["train"]]
    with seeded(seed), _one_thread():
        model = build(recipe, graphs[0].x.shape[1], num_classes)
        model.fit_scaler(torch.cat([g.x for g in chosen]))
        _fit(model, chosen, recipe, generator, progress)
        right = _is_right(model, graphs)
    return TrainedModel(
        model=model,
        accuracy=right.mean().item(),
        accuracy_heldout=right[split["test"]].mean().item(),
        split=split,
        recipe=recipe,
        seed=seed,
    )


def build(recipe: Recipe, in_channels: int, num_classes: int) -> GraphClassifier:
    """An untrained model of the recipe, in eval mode."""
    return GraphClassifier(
        in_channels,
        num_classes,
        conv=recipe.conv,
        layers=recipe.layers,
        hidden=recipe.hidden,
        dense=recipe.dense,
        pool=recipe.pool,
        dropout=recipe.dropout,
    ).eval()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weights and dropout draw from the global CPU generator: seed it here, give it back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        yield


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check(graphs: Sequence[Data], num_classes: int) -> list[Data]:
    """The graphs with nothing but what training needs."""
    if len(graphs) < 2:
        raise InputError(f"training needs at least 2 graphs, got {len(graphs)}")
    for i, g in enumerate(graphs):
        if g.x is None or g.y is None or g.y.numel() != 1 or not 0 <= int(g.y) < num_classes:
            raise InputError(f"graph {i} needs x and one class y from 0 to {num_classes - 1}, got {g}, y={g.y}")
    return [Data(x=g.x.float(), edge_index=g.edge_index, y=g.y.reshape(1).long()) for g in graphs]


def _split(total: int, limit: int | None, generator: torch.Generator) -> dict[str, list[int]]:
    pool = total if limit is None else min(total, limit)
    order = torch.randperm(pool, generator=generator).tolist()
    cut = min(max(1, round(0.8 * pool)), total - 1)
    return {"train": sorted(order[:cut]), "test": sorted(order[cut:]) + list(range(pool, total))}


def _fit(
    model: GraphClassifier, graphs: list[Data], recipe: Recipe, generator: torch.Generator, progress: bool
) -> None:
    adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, recipe.epochs)
    model.train()
    for _ in tqdm(range(recipe.epochs), desc="training", delay=2, leave=False, disable=not progress):
        order = torch.randperm(len(graphs), generator=generator)
        for part in torch.split(order, recipe.batch_size):
            batch = Batch.from_data_list([graphs[i] for i in part.tolist()])
            loss = torch.nn.functional.cross_entropy(_logits(model, batch), batch.y)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        falling.step()
    adam.zero_grad()
    model.eval()


@torch.no_grad()
def _is_right(model: GraphClassifier, graphs: list[Data]) -> Tensor:
    """1 where the prediction is the class, 0 elsewhere, per graph."""
    parts = [Batch.from_data_list(graphs[i : i + 256]) for i in range(0, len(graphs), 256)]
    return torch.cat([(_logits(model, b).argmax(1) == b.y).double() for b in parts])


def _logits(model: GraphClassifier, batch: Batch) -> Tensor:
    return model(batch.x, batch.edge_index, batch=batch.batch)

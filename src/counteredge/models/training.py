"""Trains a :class:`GraphClassifier` by a recipe, the same way every time for the same seed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from counteredge.errors import InputError
from counteredge.models.classifier import GraphClassifier
from counteredge.models.flat import FlatGraphs, Minibatch
from counteredge.models.recipes import Protocol, Recipe

__all__ = ["TrainedModel", "train"]

HELD_OUT = 0.2  # share of the graphs that the "heldout" protocol keeps aside
EVALUATED = 256  # graphs a pass when nothing is learnt


@dataclass(frozen=True)
class TrainedModel:
    """A trained classifier and how well it does.

    Args:
        model: The classifier, in eval mode.
        accuracy: Share of all graphs (all nodes, for node tasks) classified rightly, 0 to 1.
        accuracy_heldout: The same on the graphs it never saw in training; None in the ``paper`` protocol, which
            keeps none aside.
        split: Graph numbers under ``"train"`` (learnt from), ``"validation"`` (watched for stopping) and
            ``"test"`` (never looked at).
        recipe: What it was trained by.
        seed: Seed of the split, the weights and the batches.
        protocol: ``"heldout"`` or ``"paper"``.
        accuracy_train: Share of the graphs it learnt from classified rightly.
        epochs: Passes over the training part that were made.
        seconds: Time the training took.
    """

    model: GraphClassifier
    accuracy: float
    accuracy_heldout: float | None
    split: dict[str, list[int]]
    recipe: Recipe
    seed: int
    protocol: Protocol = "heldout"
    accuracy_train: float = 0.0
    epochs: int = 0
    seconds: float = field(default=0.0, compare=False)


def train(
    dataset_graphs: Sequence[Data] | FlatGraphs,
    num_classes: int,
    recipe: Recipe,
    *,
    seed: int = 0,
    protocol: Protocol = "heldout",
    progress: bool = False,
) -> TrainedModel:
    """Train with Adam and cross entropy.

    ``"heldout"`` keeps a fifth of the graphs aside, stratified by class and size, and never looks at it: when the
    recipe has a ``validation`` share, that share of the rest decides when to stop and which epoch's weights are kept,
    otherwise all epochs are made and the last weights kept. ``"paper"`` learns from all graphs, keeps the weights that
    do best on them and stops at the recipe's goal.

    The global random state is the same after the call as before. Training runs on one thread: such small graphs
    gain nothing from more, and the weights would differ with their number.

    Args:
        dataset_graphs: Graphs with ``x``, ``edge_index`` and ``y`` of one class each (one a node, for node tasks).
        num_classes: Number of classes.
        recipe: Architecture and training.
        seed: Seed of the split, the weights, the batches and the dropout.
        protocol: ``"heldout"`` or ``"paper"``.
        progress: Show a progress bar.

    Returns:
        The model in eval mode, with its accuracies.

    Raises:
        InputError: When there are fewer than two graphs, one lacks ``x`` or a class below ``num_classes``, or the
            protocol is unknown.
    """
    if protocol not in get_args(Protocol):
        raise InputError(f"protocol must be one of {', '.join(get_args(Protocol))}, got {protocol!r}")
    per_node = recipe.task == "node"
    if isinstance(dataset_graphs, FlatGraphs):
        graphs = dataset_graphs
    else:
        graphs = FlatGraphs.of(dataset_graphs, num_classes, per_node=per_node)
    begun = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    split = _split(graphs, num_classes, recipe, protocol, generator)
    with seeded(seed), _one_thread():
        model = build(recipe, graphs.x.shape[1], num_classes)
        model.fit_scaler(graphs.cut(split["train"]).x)
        watched = split["train"] if protocol == "paper" else split["validation"]
        epochs = _fit(model, graphs, split["train"], watched, recipe, generator, progress)
        seconds = time.perf_counter() - begun
        right = _is_right(model, graphs, torch.arange(len(graphs)))
    return TrainedModel(
        model=model,
        accuracy=_share(right),
        accuracy_heldout=_share(right[split["test"]]) if len(split["test"]) else None,
        split={part: numbers.tolist() for part, numbers in split.items()},
        recipe=recipe,
        seed=seed,
        protocol=protocol,
        accuracy_train=_share(right[split["train"]]),
        epochs=epochs,
        seconds=seconds,
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
        task=recipe.task,
        norm=recipe.norm,
        jump=recipe.jump,
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


def _split(
    graphs: FlatGraphs, num_classes: int, recipe: Recipe, protocol: Protocol, generator: torch.Generator
) -> dict[str, Tensor]:
    """Graph numbers of each part; every part has classes and sizes in the same proportions."""
    order = torch.randperm(len(graphs), generator=generator)
    order = order[graphs.node_at.diff()[order].argsort(stable=True)]
    rest = order[graphs.main_class(num_classes)[order].argsort(stable=True)]
    test = validation = rest[:0]
    if protocol == "heldout":
        test, rest = _spread_out(rest, min(max(1, round(HELD_OUT * len(rest))), len(rest) - 1), generator)
        validation, rest = _spread_out(rest, min(round(recipe.validation * len(rest)), len(rest) - 1), generator)
    if recipe.train_graphs is not None:
        rest, _ = _spread_out(rest, min(recipe.train_graphs, len(rest)), generator)
    return {
        "train": rest.sort().values,
        "validation": validation.sort().values,
        "test": test.sort().values,
    }


def _spread_out(numbers: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One random number out of each of ``count`` equal blocks, and the others, in order."""
    begins = torch.arange(count + 1) * len(numbers) // max(count, 1)
    chosen = begins[:-1] + (torch.rand(count, generator=generator) * begins.diff()).long()
    taken = torch.zeros(len(numbers), dtype=torch.bool)
    taken[chosen] = True
    return numbers[taken], numbers[~taken]


def _fit(
    model: GraphClassifier,
    graphs: FlatGraphs,
    numbers: Tensor,
    watched: Tensor,
    recipe: Recipe,
    generator: torch.Generator,
    progress: bool,
) -> int:
    """Train in place; the number of epochs made."""
    adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, recipe.epochs)
    steps = -(-len(numbers) // recipe.batch_size)
    best, best_epoch = -1.0, 0
    kept = model.state_dict()  # the live tensors: with nothing to watch, the last weights stay
    epoch = 0
    with tqdm(total=recipe.epochs, desc="training", delay=2, leave=False, disable=None if progress else True) as bar:
        while epoch < recipe.epochs:
            model.train()
            order = numbers[torch.randperm(len(numbers), generator=generator)]
            for part in torch.tensor_split(order, steps):
                batch = graphs.cut(part)
                loss = torch.nn.functional.cross_entropy(_logits(model, batch), batch.y)
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
            falling.step()
            epoch += 1
            bar.update()
            model.eval()
            if not len(watched):
                continue
            reached = _share(_is_right(model, graphs, watched))
            bar.set_postfix(watched=f"{reached:.4f}", refresh=False)
            if reached > best:
                best, best_epoch = reached, epoch
                kept = {k: v.clone() for k, v in model.state_dict().items()}
            if best >= recipe.goal or (recipe.patience and epoch - best_epoch >= recipe.patience):
                break
    adam.zero_grad()
    model.load_state_dict(kept)
    return epoch


@torch.no_grad()
def _is_right(model: GraphClassifier, graphs: FlatGraphs, numbers: Tensor) -> Tensor:
    """Per graph: how many classes it has to give, and how many of them are given rightly."""
    rows = []
    for part in torch.split(numbers, EVALUATED):
        batch = graphs.cut(part)
        right = (_logits(model, batch).argmax(1) == batch.y).double()
        owner = batch.batch if graphs.per_node else torch.arange(len(part))
        both = torch.stack([right, torch.ones_like(right)], 1)
        rows.append(torch.zeros(len(part), 2, dtype=torch.double).index_add_(0, owner, both))
    return torch.cat(rows)


def _share(right: Tensor) -> float:
    rightly, of = right.sum(0).tolist()
    return rightly / of


def _logits(model: GraphClassifier, batch: Minibatch) -> Tensor:
    return model(batch.x, batch.edge_index, batch=batch.batch)

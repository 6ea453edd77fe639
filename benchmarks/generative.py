"""Figures of the generative methods: CLEAR on two communities, RSGG-CE on Tree-Cycles, D4Explainer on MUTAG.

    python benchmarks/generative.py [--only clear rsggce legacy d4explainer]

Prints all that was measured; the rows of docs/results/acceptance.csv among it are written by acceptance.py.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from counteredge import EditSpace
from counteredge.data import pairs_of
from counteredge.datasets import load
from counteredge.explainers import CLEAR, RSGGCE, D4Explainer
from counteredge.models import GraphClassifier, oracle_for
from counteredge.results import Counterfactual


def communities(count: int, seed: int = 0) -> list[Data]:
    """Two communities of ten nodes; the class says how dense the first is, ``u`` how dense the second."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for k in range(count):
        u = float(torch.rand((), generator=generator))
        chance = torch.full((20, 20), 0.02)
        chance[:10, :10], chance[10:, 10:] = (0.5, 0.95)[k % 2], 0.7 + 0.3 * u
        upper = (torch.rand(20, 20, generator=generator) < chance).triu(1)
        x = torch.cat([torch.eye(2).repeat_interleave(10, 0), torch.randn(20, 2, generator=generator)], 1)
        edges = (upper | upper.t()).nonzero().t().contiguous()
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([k % 2]), u=torch.tensor([u])))
    return graphs


def community_model(graphs: Sequence[Data], seed: int = 0) -> nn.Module:
    """A small classifier that tells the two classes apart."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GraphClassifier(4, 2, conv="graph", layers=2, hidden=16)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(60):
            for batch in DataLoader(list(graphs), 50, shuffle=True):
                out = model(batch.x, batch.edge_index, batch=batch.batch)
                loss = nn.functional.cross_entropy(out, batch.y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return model.eval()


def predicted(model: nn.Module, graphs: Sequence[Data]) -> list[int]:
    """What a model says of each graph."""
    with torch.no_grad():
        batch = next(iter(DataLoader(list(graphs), len(graphs))))
        return model(batch.x, batch.edge_index, batch=batch.batch).argmax(1).tolist()


def reconstruction_auc(clear: CLEAR, graphs: Sequence[Data], wishes: Sequence[int]) -> float:
    """How well ``P`` ranks edges above other pairs, the mean over graphs."""
    areas = []
    for g, (p, _) in zip(graphs, clear.generate(graphs, wishes), strict=True):
        present = torch.zeros_like(p, dtype=torch.bool)
        present[g.edge_index[0], g.edge_index[1]] = True
        i, j = torch.triu_indices(len(p), len(p), 1)
        away = p[i, j][present[i, j]][:, None] - p[i, j][~present[i, j]][None]
        areas.append(((away > 0).double() + (away == 0).double() / 2).mean())
    return float(torch.stack(areas).mean())


def summary(cfs: Sequence[Counterfactual]) -> dict[str, float]:
    """Validity, and mean sizes over the answers."""
    found = [cf for cf in cfs if cf.found]
    count = max(1, len(found))
    return {
        "validity": len(found) / len(cfs),
        "edge_edits": sum(cf.edits.edge_count for cf in found) / count,
        "feature_edits": sum(cf.edits.feature_count for cf in found) / count,
        "calls": sum(cf.calls.forward for cf in cfs) / len(cfs),
    }


def clear_figures(count: int = 200, epochs: int = 2000, **options: Any) -> dict[str, float]:
    """Reconstruction after the warm-up, validity before and after the model's loss, and what another wish changes."""
    graphs = communities(count)
    model = community_model(graphs)
    labels = predicted(model, graphs)
    other = [1 - y for y in labels]
    warm = CLEAR(epochs=max(1, int(0.225 * epochs)), warmup=1.0, **options)
    warm.fit(model, graphs, progress=False)
    full = CLEAR(epochs=epochs, **options)
    seconds = full.fit(model, graphs, progress=False).seconds
    nearer = copy.copy(full)
    nearer.nearer = True
    swapped = [(a - b).abs().mean() for (a, _), (b, _) in zip(*(full.generate(graphs, w) for w in (0, 1)), strict=True)]
    figures = {"auc_after_warmup": reconstruction_auc(warm, graphs, other), "fit_seconds": seconds}
    figures["validity_after_warmup"] = summary(warm.explain(model, graphs, progress=False))["validity"]
    figures |= summary(full.explain(model, graphs, progress=False))
    figures |= {f"improved_{k}": v for k, v in summary(nearer.explain(model, graphs, progress=False)).items()}
    return figures | {"mean_change_of_P_by_the_wish": float(torch.stack(swapped).mean())}


def rsggce_figures(count: int = 200, steps: Sequence[int] = (500, 10), **options: Any) -> dict[str, float]:
    """What the discriminators tell apart on Tree-Cycles, and validity beside the sampler with one ``p`` for all."""
    dataset = load("TCR")
    model = oracle_for(dataset.name, dataset.graphs, dataset.num_classes).model
    graphs, space = dataset.graphs[:count], EditSpace(schema=dataset.schema)
    labels = predicted(model, graphs)
    method = RSGGCE(**options)
    figures = {"fit_seconds": method.fit(model, graphs, edits=space, progress=False).seconds}
    for kind, (label,) in enumerate(method.spec["classes"]):
        own = [g for g, y in zip(graphs, labels, strict=True) if y == label]
        others = [g for g, y in zip(graphs, labels, strict=True) if y != label]
        figures[f"real_{label}"] = float(method.realness(others, kind).mean())
        figures[f"fake_{label}"] = float(method.realness(own, kind, generated=True).mean())
    for most in steps:
        walker = copy.copy(method)
        walker.steps = most
        for name, run in (("", walker), ("_constant", walker.constant(0.731))):
            answers = summary(run.explain(model, graphs, edits=space, progress=False))
            figures |= {f"{k}_T{most}{name}": v for k, v in answers.items() if k in ("validity", "edge_edits")}
    return figures


def legacy_ratio(cf: Counterfactual) -> float:
    """Edit ratio as the published rows have it: two arcs are one edge."""
    return cf.edits.edge_count / 2 / (len(cf.original.x) + len(pairs_of(cf.original, directed=False)))


def legacy_figures(name: str) -> dict[str, float]:
    """The published RSGG-CE row of a dataset."""
    dataset = load(name)
    model = oracle_for(dataset.name, dataset.graphs, dataset.num_classes).model
    method = RSGGCE(mode="legacy_gretel")
    method.fit(model, dataset, progress=False)
    cfs = method.explain(model, dataset, progress=False)
    ratios = Tensor([legacy_ratio(cf) for cf in cfs if cf.found])
    calls = Tensor([cf.calls.forward for cf in cfs if cf.found])
    return {"validity": len(ratios) / len(cfs), "edit_ratio": float(ratios.mean()), "calls": float(calls.mean())}


def d4_figures(**options: Any) -> dict[str, float]:
    """MUTAG, less training than the paper's (which would take hours): validity and edits per edge on held-out graphs.

    Beside the method: graphs whose pairs are flipped at random, as many draws, and the improved way back from pairs in
    random order.
    """
    dataset = load("MUTAG")
    model = oracle_for(dataset.name, dataset.graphs, dataset.num_classes).model
    order = torch.randperm(len(dataset.graphs), generator=torch.Generator().manual_seed(0)).tolist()
    train, test = ([dataset.graphs[i] for i in part] for part in (order[:112], order[112:]))
    space = EditSpace(features=False, schema=dataset.schema)
    small = {"epochs": 120, "hidden": 16, "layers": 3, "levels": 4, "batch_size": 8, "lr": 0.003, "every": 5}
    method = D4Explainer(**{**small, "prob_high": 0.1, **options})
    figures = {"fit_seconds": method.fit(model, train, edits=space, progress=False).seconds}
    for mode in ("paper", "improved"):  # both learn the same, so one fit serves both
        method.mode = mode
        cfs = method.explain(model, test, edits=space, progress=False)
        ratios = [cf.edits.edge_count / len(pairs_of(cf.original, directed=False)) for cf in cfs if cf.found]
        figures[f"{mode}_validity"] = len(ratios) / len(cfs)
        figures[f"{mode}_ratio"] = sum(ratios) / max(1, len(ratios))
        figures[f"{mode}_valid_below_half"] = sum(r < 0.5 for r in ratios) / len(cfs)
    # the control: each pair flipped with the same probability, as many draws a graph
    rate, draws, below, flipped = 0.1, 10, 0, 0
    generator = torch.Generator().manual_seed(0)
    labels = predicted(model, test)
    for g, label in zip(test, labels, strict=True):
        n, edges = len(g.x), len(pairs_of(g, directed=False))
        adj = torch.zeros(n, n, dtype=torch.bool)
        adj[g.edge_index[0], g.edge_index[1]] = True
        flips = (
            torch.rand(draws, n, n, generator=generator) < rate * torch.rand(draws, 1, 1, generator=generator)
        ).triu(1)
        flips = flips | flips.transpose(1, 2)
        tried = [Data(x=g.x, edge_index=(adj ^ f).nonzero().t().contiguous()) for f in flips]
        sizes = flips.sum((1, 2)) / 2
        hit = [int(s) for s, y in zip(sizes, predicted(model, tried), strict=True) if y != label and s > 0]
        flipped += bool(hit)
        below += bool(hit) and min(hit) < 0.5 * edges
    return figures | {"random_validity": flipped / len(test), "random_valid_below_half": below / len(test)}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs: dict[str, list[tuple[str, Any]]] = {
        "legacy": [(f"legacy_gretel {name}", lambda name=name: legacy_figures(name)) for name in ("MUTAG", "BZR")],
        "clear": [("CLEAR", clear_figures)],
        "rsggce": [("RSGG-CE improved", lambda: rsggce_figures(mode="improved"))],
        "d4explainer": [("D4Explainer", d4_figures)],
    }
    parser.add_argument("--only", nargs="*", choices=list(jobs), default=list(jobs))
    for job in parser.parse_args().only:
        for title, make in jobs[job]:
            begun = time.perf_counter()
            told = {k: round(v, 4) for k, v in make().items()}
            print(f"{title}: {told} ({time.perf_counter() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

"""A small set of results as a sweep leaves them, made up but for its counterfactuals: what reports are tested on."""

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

import counteredge as ce
from counteredge.bench.collect import Collected, Kept
from counteredge.metrics import METRICS

# explainer, preset, features, method
METHODS = (
    ("irand", "paper", "", "iRand"),
    ("cfgnn", "paper", "", "CF-GNNExplainer"),
    ("xplore", "paper", "", "XPlore (paper, edges only)"),
    ("xplore", "paper", "freedom", "XPlore (paper, freedom)"),
    ("xplore", "minimal", "", "XPlore"),
    ("empty_graph", "paper", "", "control: empty graph"),
    ("cf2", "paper", "", "CF2"),  # fails on MUTAG, finds nothing on Tree-Cycles
)
DATASETS = ("Tree-Cycles", "MUTAG", "BZR")
GRAPHS = 30


def collected(seed=0):
    """Results of every method on every dataset; ``Kept`` ones are real answers."""
    rng = np.random.default_rng(seed)
    jobs, instances, answers = [], [], []
    for order, (explainer, preset, features, method) in enumerate(METHODS):
        for d, dataset in enumerate(DATASETS):
            key = f"{order:02d}{d:02d}" + "0" * 12
            head = dict(
                key=key, order=order, dataset=dataset, explainer=explainer, preset=preset, features=features,
                method=method, seed=0, oracle_seed=0, part=0,
            )  # fmt: skip
            failed = explainer == "cf2" and dataset == "MUTAG"
            share = 0.0 if explainer == "cf2" else 1.0 if preset == "minimal" else rng.uniform(0.3, 0.95)
            found = np.zeros(GRAPHS, bool) if failed else rng.random(GRAPHS) < share
            jobs.append(
                head
                | dict(
                    gamma=0.0, parts=1, protocol="heldout", status="failed" if failed else "done",
                    error="ModelError: the model broke <b>here</b>" if failed else "",
                    oracle_accuracy=0.95, oracle_accuracy_heldout=0.9, graphs=0 if failed else GRAPHS,
                    found=int(found.sum()), explain_seconds=rng.uniform(0.1, 20), shrink_seconds=0.5,
                    measure_seconds=0.4, load_seconds=0.1, fit_seconds=np.nan, fit_calls=np.nan, fit_graphs=np.nan,
                    degree_mmd=rng.random(), clustering_mmd=rng.random(), host="machine", code="0.1.0+0",
                )
            )  # fmt: skip
            if failed:
                continue
            size = rng.integers(1, 60, GRAPHS)
            columns = dict(
                graph=np.arange(GRAPHS), node=pd.array([None] * GRAPHS, dtype="Int64"), found=found,
                true_label=rng.integers(0, 2, GRAPHS).astype(str), before=rng.integers(0, 2, GRAPHS).astype(str),
                after=rng.integers(0, 2, GRAPHS).astype(str),
                stage=np.where(found, rng.choice(["greedy-1", "greedy-2", "descent"], GRAPHS), "none"),
            )  # fmt: skip
            for name, m in METRICS.items():
                if m.whole:
                    continue
                value = rng.random(GRAPHS) if m.high <= 1 else rng.uniform(1, 50, GRAPHS)
                columns[name] = np.where(found, value, np.nan) if m.over == "found" else value
            columns |= dict(
                validity=found.astype(float), fidelity=np.where(rng.random(GRAPHS) < 0.9, found, 0).astype(float),
                ged=np.where(found, size, np.nan), edit_ratio=np.where(found, size / 50, np.nan),
                ged_exact=np.full(GRAPHS, np.nan), runtime=np.where(found, rng.lognormal(-4, 1, GRAPHS), np.nan),
            )  # fmt: skip
            columns["shrunk_ged"] = np.where(found, np.maximum(1, size // 5), np.nan)
            columns["shrunk_feature_edits"] = np.where(found, 1.0, np.nan)
            columns["shrunk_edit_ratio"] = columns["shrunk_ged"] / 50
            instances.append(pd.DataFrame(head | columns))
            answers += [Kept(key, dataset, method, cf) for cf in real_answers(k=d, found=bool(found.any()))]
    return Collected(pd.DataFrame(jobs), pd.concat(instances, ignore_index=True), answers)


def real_answers(*, k=0, found=True):
    """Two graphs and a rule as the model, with answers; without any where ``found`` is not set."""

    def closed(batch):
        return [int(g.edge_index.shape[1] >= 2 * len(g.x)) if found else 0 for g in batch.to_data_list()]

    ring = [(i, (i + 1) % (5 + k)) for i in range(5 + k)]
    graphs = [graph(5 + k, ring), graph(5 + k, ring[:-1])]
    return ce.XPlore().explain(closed, graphs, edits="edges", progress=False)


def graph(n, pairs):
    arcs = [(i, j) for i, j in pairs] + [(j, i) for i, j in pairs]
    return Data(x=torch.ones(n, 1), edge_index=torch.tensor(arcs).t().contiguous(), y=torch.tensor([0]))

"""The contract of every explainer, as a test-suite that anyone can run on their own.

    from counteredge.testing import ExplainerContract

    class TestMine(ExplainerContract):
        def make(self, **options):
            return MyExplainer(**options)

pytest collects the inherited gates R1 - R10 then.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from counteredge.data import is_directed
from counteredge.engine.search import Budget
from counteredge.explainers import Explainer
from counteredge.models import GraphClassifier
from counteredge.results import Counterfactual
from counteredge.schema import Column, FeatureSchema
from counteredge.space import EditSpace

__all__ = ["Constant", "ExplainerContract", "Interrupted", "sample_graphs", "sample_model", "sample_schema"]


def sample_schema() -> FeatureSchema:
    """A one-hot group of three, a binary, an integer and a continuous column."""
    group = [Column("onehot", group=0, name=n) for n in ("red", "green", "blue")]
    numbers = [Column("binary", name="flag"), Column("integer", lo=0, hi=5, name="count")]
    return FeatureSchema((*group, *numbers, Column("continuous", lo=-2, hi=2, name="level")))


def sample_graphs(count: int = 6, *, directed: bool = False, seed: int = 0) -> list[Data]:
    """Small random graphs with the columns of :func:`sample_schema` and edge attributes; some have self-loops."""
    rng = np.random.default_rng(seed)
    graphs = []
    for k in range(count):
        n = int(rng.integers(4, 9))
        upper = np.triu(rng.random((n, n)) < 0.4, 1)
        upper[0, 1] = True
        adj = upper if directed else upper | upper.T
        if k % 3 == 2:
            adj[0, 0] = True
        edges = torch.from_numpy(np.argwhere(adj).T.copy())
        onehot = np.eye(3)[rng.integers(0, 3, n)]
        numbers = [rng.integers(0, 2, n), rng.integers(0, 6, n), rng.uniform(-2, 2, n)]
        x = torch.from_numpy(np.column_stack([onehot, *numbers])).float()
        attr = torch.from_numpy(edges.sum(0).numpy()[:, None] * np.ones((1, 2))).float()
        graphs.append(Data(x=x, edge_index=edges, edge_attr=attr, y=torch.tensor([k % 2]), tag=f"graph {k}"))
    return graphs


def sample_model(conv: str = "gcn", *, classes: int = 3, seed: int = 2) -> GraphClassifier:
    """An untrained classifier with weights large enough that predictions differ between graphs."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        model = GraphClassifier(6, classes, conv=conv, layers=2, hidden=8)  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.6)
    return model.eval()


class Constant(nn.Module):
    """Always the same prediction: nothing can flip it."""

    def __init__(self, like: GraphClassifier | None = None) -> None:
        super().__init__()
        self.inner = like or sample_model()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """Logits that depend on nothing, with a gradient that is zero."""
        return self.inner(x, edge_index, batch=batch) * 0 + torch.tensor([1.0, 0.0, 0.0], dtype=x.dtype)


class Interrupted(nn.Module):
    """Raises ``error`` at its ``after``-th forward pass."""

    def __init__(self, inner: nn.Module, after: int, error: BaseException) -> None:
        super().__init__()
        self.inner, self.after, self.error, self.seen = inner, after, error, 0

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """The inner model, until it is time to fail."""
        self.seen += 1
        if self.seen >= self.after:
            raise self.error
        return self.inner(x, edge_index, batch=batch)


def model_state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that a call must not change, in comparable form."""
    return {
        "tensors": {k: v.clone() for k, v in [*model.named_parameters(), *model.named_buffers()]},
        "grads": {k: None if p.grad is None else p.grad.clone() for k, p in model.named_parameters()},
        "requires": {k: p.requires_grad for k, p in model.named_parameters()},
        "training": {k: m.training for k, m in model.named_modules()},
        "hooks": {
            k: {name: len(v) for name, v in vars(m).items() if name.endswith("_hooks") and v is not None}
            for k, m in model.named_modules()
        },
        "attributes": {k: sorted(vars(m)) for k, m in model.named_modules()},
    }


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def random_state() -> list[Any]:
    """The global random states."""
    return [torch.get_rng_state(), list(np.random.get_state()), list(random.getstate())]  # noqa: NPY002


def _flips(model: nn.Module, before: Data, after: Data) -> bool:
    """Asked of a deep copy, graph by graph, outside the library's own code."""
    judge = copy.deepcopy(model).eval()
    zero = [torch.zeros(g.x.shape[0], dtype=torch.long) for g in (before, after)]
    with torch.no_grad():
        a, b = (judge(g.x, g.edge_index, batch=z) for g, z in zip((before, after), zero, strict=True))
    return int(a.argmax()) != int(b.argmax())


def _plain(cf: Counterfactual) -> str:
    value = cf.to_dict(timings=False)
    del value["index"]
    return json.dumps(value)


class ExplainerContract:
    """Gates R1 - R10. Subclass it, implement :meth:`make`, and let pytest collect the subclass.

    Attributes:
        equivariant: Whether relabelling a graph's nodes must relabel the answer (no random draws are involved).
        minimal: Whether every answer must be one-minimal.
        least_found: Smallest share of the sample graphs that must get an answer.
    """

    equivariant: ClassVar[bool] = False
    minimal: ClassVar[bool] = False
    least_found: ClassVar[float] = 0.1

    def make(self, **options: Any) -> Explainer:
        """A fresh explainer; ``seed`` is among the options."""
        raise TypeError("a contract needs make()")

    def run(
        self, graphs: Sequence[Data] | Data | None = None, model: nn.Module | None = None, *, seed: int = 0, **kw: Any
    ) -> Any:
        """Explain the sample graphs."""
        kw.setdefault("edits", EditSpace(schema=sample_schema()))
        chosen = sample_graphs() if graphs is None else graphs
        return self.make(seed=seed).explain(model or sample_model(), chosen, progress=False, **kw)

    def digest(self) -> str:
        """What another process must reproduce."""
        return hashlib.sha256("".join(_plain(c) for c in self.run()).encode()).hexdigest()

    # -- gates -------------------------------------------------------------------------------------------------------

    def test_r1_found_means_flipped(self) -> None:
        """R1: the untouched model flips on the edited graph; not found means no graph."""
        for conv in ("gcn", "gin", "sage", "graph"):
            model = sample_model(conv)
            cfs = self.run(model=model)
            for cf in cfs:
                assert cf.found == (cf.data is not None) == (cf.after is not None) == (not cf.reason)
                if cf.found:
                    assert len(cf.edits) > 0
                    assert _flips(model, cf.original, cf.data), f"{conv}: graph {cf.index} does not flip"
            if conv == "gcn":
                share = sum(c.found for c in cfs) / len(cfs)
                assert share >= self.least_found, f"only {share:.0%} of the sample graphs were answered"

    def test_r2_leaves_no_trace(self) -> None:
        """R2: model, graphs and random states are as before, also after an error and after Ctrl-C."""
        graphs = sample_graphs()
        inner = sample_model()
        inner.train()
        next(iter(inner.parameters())).requires_grad_(False)
        last = list(inner.parameters())[-1]
        last.grad = torch.ones_like(last)
        failing = [Interrupted(inner, k, e) for k in (1, 4, 9) for e in (RuntimeError("broken"), KeyboardInterrupt())]
        for model in (inner, *failing):
            before = model_state(model), random_state(), [copy.deepcopy(g) for g in graphs]
            try:
                self.run(graphs, model)
            except (Exception, KeyboardInterrupt):
                assert model is not inner, "the intact model must not fail"
            assert _same(model_state(model), before[0]), "the model was changed"
            assert _same(random_state(), before[1]), "a global random state was changed"
            for old, new in zip(before[2], graphs, strict=True):
                assert _same(old.to_dict(), new.to_dict()), "an input graph was changed"

    def test_r3_constraints_hold(self) -> None:
        """R3: what is frozen is bit-identical; bounds and one-hot groups hold."""
        space = EditSpace(schema=sample_schema(), frozen_nodes=[0], frozen_edges=[(1, 2), (2, 3)], frozen_features=[3])
        for cf in self.run(edits=space):
            if not cf.found:
                continue
            old, new = cf.original, cf.data
            assert torch.equal(old.x[0], new.x[0])
            stayed = [v for v in range(len(old.x)) if v not in cf.edits.removed_nodes]
            assert torch.equal(old.x[stayed, 3], new.x[: len(stayed), 3])
            touched = {frozenset(p) for p in (*cf.edits.added, *cf.edits.removed)}
            assert not any(0 in p for p in touched)
            assert not touched & {frozenset((1, 2)), frozenset((2, 3))}
            assert ((new.x[:, :3] == 0) | (new.x[:, :3] == 1)).all()
            assert (new.x[:, :3].sum(1) == 1).all()
            assert ((new.x[:, 4] >= 0) & (new.x[:, 4] <= 5) & (new.x[:, 4] == new.x[:, 4].round())).all()
            assert ((new.x[:, 5] >= -2) & (new.x[:, 5] <= 2)).all()
        for name, attribute in (("edges", "feature_count"), ("features", "edge_count")):
            for cf in self.run(edits=replace(EditSpace.of(name), schema=sample_schema())):
                assert getattr(cf.edits, attribute) == 0

    def test_r4_structure_is_kept(self) -> None:
        """R4: symmetry, self-loops, node count, dtypes and edge-aligned attributes survive."""
        for directed in (False, True):
            for cf in self.run(sample_graphs(directed=directed)):
                if not cf.found:
                    continue
                old, new = cf.original, cf.data
                assert cf.edits.directed == directed
                assert directed or not is_directed(new)
                assert new.num_nodes == old.num_nodes + len(cf.edits.new_nodes) - len(cf.edits.removed_nodes)
                assert (new.x.dtype, new.edge_index.dtype) == (old.x.dtype, old.edge_index.dtype)
                assert new.tag == old.tag
                loops = [(g.edge_index[0] == g.edge_index[1]).nonzero().numel() for g in (old, new)]
                assert loops[0] == loops[1]
                assert new.edge_attr.shape == (new.edge_index.shape[1], 2)
                had = {tuple(e) for e in old.edge_index.t().tolist()}
                for k, (i, j) in enumerate(new.edge_index.t().tolist()):
                    if (i, j) in had:
                        assert new.edge_attr[k].tolist() == [i + j, i + j]
                changed = {tuple(e) for e in new.edge_index.t().tolist()} ^ had
                pairs = {p if directed else (min(p), max(p)) for p in changed}
                assert pairs == {*cf.edits.added, *cf.edits.removed}

    def test_r5_minimal_is_minimal(self) -> None:
        """R5: where ``minimal`` is claimed, no single edit can be undone."""
        model = sample_model()
        for cf in self.run(model=model):
            if cf.found and self.minimal:
                assert cf.minimal
            if not cf.minimal:
                continue
            for k in range(len(cf.edits)):
                follow = cf.schema if cf.structural == "refreshed" else None
                smaller = cf.edits.without(k).apply(cf.original, follow)
                assert not _flips(model, cf.original, smaller), f"edit {k} of graph {cf.index} can be undone"

    def test_r6_same_seed_same_answer(self) -> None:
        """R6: repeated, alone, in any batch and order, with other thread counts, in another process."""
        graphs = sample_graphs()
        together = [_plain(c) for c in self.run(graphs)]
        assert together == [_plain(c) for c in self.run(graphs)]
        assert together == [_plain(self.run(g)) for g in graphs]
        assert together[::-1] == [_plain(c) for c in self.run(graphs[::-1])]
        assert together + together == [_plain(c) for c in self.run(graphs + graphs)]
        threads = torch.get_num_threads()
        try:
            for count in (1, 2):
                torch.set_num_threads(count)
                assert together == [_plain(c) for c in self.run(graphs)]
        finally:
            torch.set_num_threads(threads)
        here = type(self)
        code = f"from {here.__module__} import {here.__qualname__} as C; print(C().digest())"
        path = os.pathsep.join(p for p in sys.path if p)
        # another process, whose strings have other hashes
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
        done = subprocess.run(  # noqa: S603 - our own code, no shell
            [sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[-1] == self.digest()

    def test_r7_node_order_does_not_matter(self) -> None:
        """R7: relabelled nodes give an answer of the same size (exact methods), always a valid one."""
        model = sample_model()
        generator = torch.Generator().manual_seed(7)
        for g, cf in zip(sample_graphs(), self.run(model=model), strict=True):
            order = torch.randperm(g.num_nodes, generator=generator)
            place = torch.argsort(order)
            twin = Data(x=g.x[order], edge_index=place[g.edge_index], edge_attr=g.edge_attr, y=g.y, tag=g.tag)
            other = self.run(twin, model)
            if self.equivariant:
                assert (other.found, len(other.edits)) == (cf.found, len(cf.edits))
            if other.found:
                assert _flips(model, twin, other.data)

    def test_r8_more_budget_is_never_worse(self) -> None:
        """R8: with more calls or more edits allowed, an answer stays and does not grow."""
        for name, values in (("calls", (2, 20, 60, 200, None)), ("edits", (1, 2, 4, None))):
            best: dict[int, int] = {}
            for value in values:
                for cf in self.run(budget=Budget(**{name: value})):
                    if name == "calls" and value is not None:
                        assert cf.calls.forward <= value
                    if name == "edits" and value is not None and cf.found:
                        assert len(cf.edits) <= value
                    if cf.index in best:
                        assert cf.found, f"graph {cf.index} was answered with less than {name}={value}"
                        assert len(cf.edits) <= best[cf.index]
                    if cf.found:
                        best[cf.index] = len(cf.edits)

    def test_r9_ends_without_an_answer(self) -> None:
        """R9: a constant model gives ``found=False`` with a reason, and time-outs are kept."""
        for cf in self.run(model=Constant(), budget=Budget(calls=500)):
            assert not cf.found
            assert cf.data is None
            assert cf.reason
            assert len(cf.edits) == 0
        begun = time.monotonic()
        cfs = self.run(sample_graphs(30), Constant(), budget=Budget(seconds=0.2))
        assert time.monotonic() - begun < 20
        assert not any(c.found for c in cfs)

    def test_r10_round_trip(self) -> None:
        """R10: JSON and back is the same result, the edited graph included."""
        for cf in self.run():
            again = Counterfactual.from_json(cf.to_json())
            assert again == cf
            if cf.data is not None and again.data is not None:
                assert _same(again.data.to_dict(), cf.data.to_dict())

    def test_calls_are_counted(self) -> None:
        """Every result says what it cost, and when the first valid candidate was known."""
        for cf in self.run():
            assert cf.calls.forward >= 1
            if cf.found:
                assert cf.calls.to_first_valid is not None
                assert 1 < cf.calls.to_first_valid <= cf.calls.forward

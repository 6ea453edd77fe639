"""A node classifier read like a graph classifier: one row of outputs for the marked nodes of each graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch

from counteredge.calling import Caller
from counteredge.errors import ModelError

__all__ = ["LABELS", "MARK", "NodeHead"]

MARK = "is_target"  # node attribute: which nodes are explained
LABELS = "kept_label"  # node attribute: what the other nodes are predicted as


class NodeHead(nn.Module):
    """Wraps a node-level model: of the ``N`` rows it returns, only those of marked nodes go on.

    Args:
        model: Maps ``x`` and ``edge_index`` (or a whole ``Data``) to one row a node.
        targets: Marked nodes a graph, ``T``; their rows are put side by side, in the order of the nodes.
        forward_fn: ``(model, batch) -> output`` for models with unusual signatures.
        output_fn: Picks the logits out of what the model returns.
        watch: Remember the rows of the other nodes too, for :meth:`disturbance` and :meth:`soft_loss`.

    Shapes:
        forward: returns ``(K, T * C)`` for a batch of ``K`` graphs.

    Raises:
        ModelError: When the model does not return one row a node.
    """

    def __init__(
        self,
        model: nn.Module,
        targets: int = 1,
        forward_fn: Callable[[nn.Module, Batch], Any] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
        *,
        watch: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.targets, self.watch = model, targets, watch
        self.output_fn, self.forward_fn = output_fn, forward_fn
        inner = Caller(model, forward_fn, output_fn)
        self.rows: Tensor | None = None
        self.last: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        self.forward: Callable[..., Tensor] = self._whole if inner.whole else self._named(model, inner)

    def _named(self, model: nn.Module, inner: Caller) -> Callable[..., Tensor]:
        """A forward that takes the model's own arguments, and the marks; its signature says so."""
        own = [p for n, p in inspect.signature(model.forward).parameters.items() if n in inner.names]
        more = [n for n in ("batch", MARK, *((LABELS,) if self.watch else ())) if n not in inner.names]
        keyword = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature(
            [*(p.replace(kind=keyword) for p in own), *(inspect.Parameter(n, keyword) for n in more)]
        )

        def forward(**given: Any) -> Tensor:
            out = self.model(**{n: v for n, v in given.items() if n in inner.names})
            return self._read(out, given["batch"], given[MARK], given.get(LABELS))

        forward.__signature__ = signature  # type: ignore[attr-defined]
        return forward

    def _whole(self, data: Batch) -> Tensor:
        out = self.model(data) if self.forward_fn is None else self.forward_fn(self.model, data)
        return self._read(out, data.batch, data[MARK], data.get(LABELS))

    def _read(self, out: Any, batch: Tensor, mark: Tensor, labels: Tensor | None) -> Tensor:
        out = out if self.output_fn is None else self.output_fn(out)
        if not isinstance(out, Tensor):
            raise ModelError(
                f"the model returned a {type(out).__name__}; pass output_fn=lambda out: ... that picks the logits"
            )
        if out.dim() not in (1, 2) or out.shape[0] != len(mark):
            raise ModelError(
                f"node= needs a model with one row of outputs a node: it returned shape {tuple(out.shape)} for "
                f"{len(mark)} nodes. Leave node= out to explain a prediction about the whole graph"
            )
        out = out.reshape(len(mark), -1)
        self.rows = out
        if self.watch and labels is not None:
            self.last = out, batch, mark, labels
        return out[mark].reshape(-1, self.targets * out.shape[1])

    # -- what happened to the other nodes in the last pass -----------------------------------------------------------

    def disturbance(self) -> Tensor:
        """How many other nodes have another label than before in each graph of the last pass, ``(K,)``."""
        out, batch, mark, labels = self._last()
        now = (out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1)
        changed = (now != labels) & ~mark
        return torch.bincount(batch[changed], minlength=int(batch.max()) + 1).to(torch.float64)

    def soft_loss(self) -> Tensor:
        """Mean binary cross-entropy with logits of the other nodes' labels in each graph, ``(K,)``.

        Source:
            XPlore, Method, *Node Counterfactual Explanation*: the soft constraint on nodes that are no targets.
        """
        out, batch, mark, labels = self._last()
        wanted = labels[:, None].to(out.dtype) if out.shape[1] == 1 else F.one_hot(labels, out.shape[1]).to(out.dtype)
        each = F.binary_cross_entropy_with_logits(out, wanted, reduction="none").mean(1)
        others = (~mark).to(out.dtype)
        size = int(batch.max()) + 1
        total = out.new_zeros(size).index_add(0, batch, each * others)
        return (total / out.new_zeros(size).index_add(0, batch, others).clamp(min=1)).to(torch.float64)

    def _last(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if self.last is None:
            raise ModelError("no pass has been made yet, or this head does not watch the other nodes")
        return self.last

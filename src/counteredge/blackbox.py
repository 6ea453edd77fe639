"""Models of which nothing is known but their answers: any Python callable, behind the door of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from counteredge.errors import InputError, ModelError

__all__ = ["BlackBox"]


class BlackBox(nn.Module):
    """A callable ``predict(batch)`` as a module; it answers with labels or with one row of scores a graph.

    Labels ``(K,)`` are whole numbers or truth values; their number need not be known, since all that is asked of a
    label is whether it is the old one. Scores ``(K, C)`` may be probabilities, votes or logits. The callable is given a
    PyG ``Batch`` in the user's own dtypes that can be taken apart by ``to_data_list()``.

    Args:
        predict: The callable.
        single: It predicts one value a graph (regression), ``(K,)`` floats.

    Example:
        >>> from torch_geometric.data import Data
        >>> graph = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> BlackBox(lambda batch: [3])(Batch.from_data_list([graph])).tolist()
        [[3.0]]
    """

    wants_graphs = True  # the caller hands over whole graphs, not arguments taken apart

    def __init__(self, predict: Callable[[Batch], Any], *, single: bool = False) -> None:
        super().__init__()
        if isinstance(predict, type) or not callable(predict):
            hint = " Give an instance, not the class." if isinstance(predict, type) else ""
            if hasattr(predict, "predict"):
                hint = " Of an estimator, give a function that computes its columns: lambda batch: clf.predict(...)."
            raise InputError(
                "model must be a torch.nn.Module, or a function (batch) -> labels or scores, "
                f"got {type(predict).__name__}.{hint}"
            )
        self.predict = predict
        self.single = single
        self.says_labels = False

    def forward(self, data: Batch) -> Tensor:
        """Scores ``(K, C)``, or labels ``(K, 1)``, in double precision.

        Raises:
            ModelError: When the answer is neither.
        """
        out = self._read(self.predict(data))
        graphs = int(data.num_graphs)
        if out.dim() == 1 and len(out) == graphs and (self.single or not out.is_floating_point()):
            self.says_labels = not self.single
            return out.double()[:, None]
        if out.dim() == 2 and len(out) == graphs and (out.shape[1] > 1 or self.single):
            self.says_labels = False
            return out.double()
        hint = ""
        if out.dim() <= 2 and out.numel() == graphs:
            hint = ". One float a graph is read with task='regression'; of two classes give both columns, or labels"
        raise ModelError(
            f"the function returned {tuple(out.shape)} of {out.dtype} for {graphs} graph(s): expected labels "
            f"({graphs},) as whole numbers, or scores ({graphs}, C){hint}"
        )

    def _read(self, out: Any) -> Tensor:
        if isinstance(out, Tensor):
            return out.detach().cpu()
        try:
            values = np.asarray(out)
        except ValueError as e:
            raise ModelError(f"the function returned rows of different lengths: {e}") from e
        if values.dtype.kind not in "biuf":
            raise ModelError(
                f"the function returned {type(out).__name__} of {values.dtype}: expected a tensor, an array or a list "
                "of whole numbers (labels) or of rows of scores"
            )
        return torch.from_numpy(values.astype(np.float64 if values.dtype.kind == "f" else np.int64))

"""Leave no trace: a model and the global random states are after a call what they were before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

__all__ = ["untouched"]


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Run in eval mode and restore the model and every global random state afterwards, also after an exception.

    Restored bit for bit: each module's attributes (training flags, GCN caches, ...), buffers, ``requires_grad`` and
    ``.grad``, and the random states of torch, numpy and ``random``. Caches of ``cached=True`` layers are emptied
    meanwhile, since they would answer for another graph.
    """
    modules = [(m, dict(m.__dict__)) for m in model.modules()]
    registered = [(m._buffers, dict(m._buffers)) for m in model.modules()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    gradients = [(p, p.grad, p.requires_grad) for p in model.parameters()]
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - the user's global state
    try:
        model.eval()
        for parameter in model.parameters():
            parameter.grad = None  # set aside: a backward pass would add to it in place
        for module, attributes in modules:
            for name in attributes:
                if name.startswith("_cached"):
                    module.__dict__[name] = None
                elif name == "cached":
                    module.__dict__[name] = False
        yield
    finally:
        for module, attributes in modules:
            module.__dict__.clear()
            module.__dict__.update(attributes)
        for held, names in registered:
            held.clear()
            held.update(names)
        for buffer, value in buffers:
            if not torch.equal(buffer, value):
                buffer.data.copy_(value)
        for parameter, gradient, required in gradients:
            parameter.grad = gradient
            if parameter.requires_grad != required:
                parameter.requires_grad_(required)
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])

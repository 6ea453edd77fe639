"""What an answer took."""

from __future__ import annotations

from torch import Tensor

from counteredge.metrics.definition import PAPER, metric
from counteredge.metrics.sample import Costs, Sample

__all__: list[str] = []

COUNTED = "one call is one graph evaluated once, counted on the model's own forward"


def _costs(sample: Sample) -> Costs:
    return sample.costs or Costs(*[sample.nothing] * 4)


@metric(
    "calls_forward", "Forward calls", f"evaluations of the model; {COUNTED}",
    direction="lower", reference=f"{PAPER}, appendix C.3", over="all graphs",
)  # fmt: skip
def calls_forward(sample: Sample) -> Tensor:
    """Forward passes, failures and the forward half of gradient passes included."""
    return _costs(sample).forward


@metric(
    "calls_backward", "Backward calls", "gradient passes of the model", direction="lower", reference="counteredge",
    over="all graphs",
)  # fmt: skip
def calls_backward(sample: Sample) -> Tensor:
    """Gradient passes, which published figures leave out."""
    return _costs(sample).backward


@metric(
    "oracle_calls", "Oracle calls", "forward calls + backward calls", direction="lower",
    reference=f"{PAPER}, appendix C.3, which counts forward calls through one of two doors only", over="all graphs",
)  # fmt: skip
def oracle_calls(sample: Sample) -> Tensor:
    """All passes through the model."""
    costs = _costs(sample)
    return costs.forward + costs.backward


@metric(
    "calls_to_first_valid", "Calls to the first valid", "forward calls until a valid candidate was known",
    direction="lower", reference="counteredge",
)  # fmt: skip
def calls_to_first_valid(sample: Sample) -> Tensor:
    """What the flip took; the rest made it small."""
    return sample.where_found(_costs(sample).to_first_valid)


@metric(
    "runtime", "Runtime to counterfactual", "seconds of the graph's batch / graphs in it, of graphs with an answer",
    direction="lower", reference=f"{PAPER}, appendix C.3",
)  # fmt: skip
def runtime(sample: Sample) -> Tensor:
    """Wall time in seconds."""
    return sample.where_found(_costs(sample).seconds)

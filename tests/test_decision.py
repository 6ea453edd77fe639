import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counteredge.decision import Decision
from counteredge.errors import InputError

# few distinct values: ties are common
logits = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])


def outputs(width, rows=2):
    row = st.lists(logits, min_size=width, max_size=width)
    return st.lists(row, min_size=rows, max_size=rows).map(lambda v: torch.tensor(v, dtype=torch.float64))


@settings(max_examples=150, deadline=None)
@given(outputs(3), st.sampled_from([(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]))
def test_multiclass_margin(z, wished):
    d = Decision("multiclass", classes=wished)
    y0 = d.labels(z[:1])
    margin = float(d.margins(z[1:], y0)[0])
    own = z[1].tolist()
    if wished:
        goal = max(own[c] for c in wished) > max(own[c] for c in range(3) if c not in wished)
    else:
        goal = any(own[c] > own[int(y0)] for c in range(3))
    assert (margin < 0) == goal
    assert bool(d.flips(z[1:], y0)[0]) == goal
    if goal:
        assert int(d.labels(z[1:])) in wished if wished else int(d.labels(z[1:])) != int(y0)


@settings(max_examples=60, deadline=None)
@given(outputs(1), st.sampled_from([None, 0, 1]))
def test_binary_margin(z, target):
    d = Decision("binary", classes=() if target is None else (target,))
    y0, y1 = d.labels(z).tolist()
    assert (y0, y1) == (int(z[0] > 0), int(z[1] > 0))
    wish = 1 - y0 if target is None else target
    after = float(z[1])
    assert (float(d.margins(z[1:], torch.tensor([y0]))) < 0) == (after > 0 if wish else after < 0)


@settings(max_examples=80, deadline=None)
@given(outputs(3))
def test_multilabel_margin(z):
    d = Decision("multilabel")
    y0 = d.labels(z[:1])
    assert y0.tolist() == [[int(v > 0) for v in z[0].tolist()]]
    crossed = [(v > 0 and not y) or (v < 0 and bool(y)) for v, y in zip(z[1].tolist(), y0[0].tolist(), strict=True)]
    assert bool(d.flips(z[1:], y0)[0]) == any(crossed)


@settings(max_examples=60, deadline=None)
@given(outputs(1))
def test_regression_margin(z):
    d = Decision("regression", interval=(-1.0, 1.0))
    y0 = d.labels(z[:1])
    assert y0.tolist() == z[0].tolist()
    assert bool(d.flips(z[1:], y0)[0]) == (-1 < float(z[1]) < 1)


@pytest.mark.parametrize(
    ("d", "z"),
    [
        (Decision("multiclass"), [[1.0, 1.0, 0.0]]),
        (Decision("multiclass", classes=(1,)), [[1.0, 1.0, 0.0]]),
        (Decision("binary"), [[0.0]]),
        (Decision("binary", classes=(1,)), [[0.0]]),
        (Decision("regression", interval=(0.0, 2.0)), [[2.0]]),
        (Decision("regression", interval=(0.0, 2.0)), [[0.0]]),
    ],
)
def test_ties_are_no_flips(d, z):
    z = torch.tensor(z)
    y0 = torch.zeros(1, dtype=torch.long)
    assert d.margins(z, y0).tolist() == [0.0]
    assert d.flips(z, y0).tolist() == [False]


def test_multilabel_tie_is_no_flip():
    d = Decision("multilabel")
    for bit in (0, 1):
        assert d.flips(torch.tensor([[0.0, 3.0]]), torch.tensor([[bit, 1]])).tolist() == [False]


def test_the_original_never_flips():
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    for d in (Decision("multiclass"), Decision("multilabel")):
        assert not d.flips(z, d.labels(z)).any()
    assert not Decision("binary").flips(z[:, :1], Decision("binary").labels(z[:, :1])).any()


@settings(max_examples=60, deadline=None)
@given(outputs(4), st.integers(1, 5))
def test_rivals_are_nearest_first_and_begin_with_the_margin(z, count):
    for d in (
        Decision("multiclass"),
        Decision("multilabel"),
        Decision("multiclass", classes=(2,)),
        Decision("multiclass", classes=(0, 3)),
        Decision("multilabel", bits=((0, 1), (2, 0))),
    ):
        y0 = d.labels(z)
        r = d.rivals(z, y0, count)
        assert r.shape[1] <= count
        assert torch.equal(r[:, 0], d.margins(z, y0))
        assert torch.equal(r, r.sort(1).values)
        assert torch.isfinite(r).all()


def test_multiclass_rivals_are_the_other_classes():
    z = torch.tensor([[3.0, 1.0, 2.0]])
    assert Decision("multiclass").rivals(z, torch.tensor([0]), 5).tolist() == [[1.0, 2.0]]


def test_infer():
    assert Decision.infer(3, None, None).task == "multiclass"
    assert Decision.infer(1, None, None).task == "binary"
    assert Decision.infer(1, None, (0, 1)).task == "regression"
    assert Decision.infer(1, None, 0).classes == (0,)
    assert Decision.infer(4, None, {3, 1}).classes == Decision.infer(4, None, [1, 3]).classes == (1, 3)
    assert Decision.infer(3, "multilabel", None).task == "multilabel"
    assert Decision.infer(3, None, {2: 0, 0: 1}) == Decision("multilabel", bits=((0, 1), (2, 0)))


@settings(max_examples=60, deadline=None)
@given(outputs(3), st.dictionaries(st.integers(0, 2), st.integers(0, 1), min_size=1))
def test_wished_labels_all_hold(z, wished):
    d = Decision.infer(3, "multilabel", wished)
    goal = all(bool(z[1, k] > 0) == bool(v) and z[1, k] != 0 for k, v in wished.items())
    assert bool(d.flips(z[1:], d.labels(z[:1]))[0]) == goal


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3, "ordinal", None), "task='ordinal' is unknown"),
        ((1, "regression", None), r"needs desired=\(lo, hi\)"),
        ((1, "regression", (2, 1)), "lo < hi"),
        ((1, "regression", (1, 1)), "lo < hi"),
        ((1, "regression", (1, 2, 3)), r"desired=\(lo, hi\)"),
        ((1, "regression", 0), r"needs desired=\(lo, hi\)"),
        ((2, None, (0, 1)), "read from one output, the model gives 2"),
        ((2, "multiclass", (0, 1)), r"desired=\(0, 1\) is for regression models; this one has classes 0..1"),
        ((2, "multiclass", {0: 1}), "is for multilabel models"),
        ((2, "binary", None), "read from one output, the model gives 2"),
        ((1, "multiclass", None), "at least two outputs"),
        ((3, None, 3), r"desired=3 must be some, not all, of the model's classes 0..2"),
        ((3, None, -1), "desired=-1 must be some"),
        ((3, None, set()), r"desired=set\(\) must be some"),
        ((3, None, {0, 1, 2}), "some, not all"),
        ((1, None, 2), "classes 0..1"),
        ((3, None, 1.0), r"desired=1\.0: 1\.0 is no whole number"),
        ((3, "multilabel", 0), "a multilabel wish is a dict"),
        ((3, "multilabel", {}), "a multilabel wish is a dict"),
        ((3, None, {3: 1}), "must give labels 0..2 the values 0 or 1"),
        ((3, None, {0: 2}), "the values 0 or 1"),
    ],
)
def test_infer_errors(arguments, said):
    with pytest.raises(InputError, match=said):
        Decision.infer(*arguments)


def test_read():
    z = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
    found = Decision("multiclass").read(z)
    assert [v for v, _ in found] == [1, 0]
    assert [p for _, p in found] == pytest.approx(z.softmax(1).max(1).values.tolist())
    ((zero, p), (one, q)) = Decision("binary").read(torch.tensor([[-1.0], [3.0]]))
    assert (zero, one) == (0, 1)
    assert (p, q) == pytest.approx((torch.sigmoid(torch.tensor(1.0)).item(), torch.sigmoid(torch.tensor(3.0)).item()))
    ((bits, sure),) = Decision("multilabel").read(torch.tensor([[2.0, -1.0]]))
    assert bits == (1, 0)
    assert sure == pytest.approx(torch.sigmoid(torch.tensor([2.0, 1.0])).prod().item())
    assert Decision("regression", interval=(0, 1)).read(torch.tensor([[2.5]])) == [(2.5, 1.0)]


def test_prediction_loss():
    z, y0 = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([0])
    assert float(Decision("multiclass").prediction_loss(z, y0)) == pytest.approx(-float(z.log_softmax(1)[0, 0]))
    assert float(Decision("binary").prediction_loss(z[:, :1], y0)) == pytest.approx(
        -float(torch.sigmoid(-z[0, 0]).log())
    )
    bits = torch.tensor([[1, 0, 1]])
    expected = -(torch.sigmoid(z[0] * torch.tensor([1.0, -1.0, 1.0]))).log().sum()
    assert float(Decision("multilabel").prediction_loss(z, bits)) == pytest.approx(float(expected))

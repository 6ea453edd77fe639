import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counteredge.errors import InputError
from counteredge.schema import Column, FeatureSchema

INF = float("inf")


def kinds(*rows):
    return [c.kind for c in FeatureSchema.infer([torch.tensor(rows, dtype=torch.float32)]).columns]


def test_infer_one_group():
    schema = FeatureSchema.infer([torch.eye(3), torch.eye(3).flip(0)])
    assert [(c.kind, c.group) for c in schema.columns] == [("onehot", 0)] * 3


def test_infer_neighbouring_groups_stay_apart():
    x = torch.tensor([[1.0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 0, 0, 1]])
    schema = FeatureSchema.infer([x])
    assert [c.group for c in schema.columns] == [0, 0, 1, 1, 1]
    assert schema.group_of(3) == [2, 3, 4]


def test_infer_group_takes_in_categories_nobody_has():
    assert kinds([1, 0, 0], [0, 1, 0]) == ["onehot"] * 3


def test_infer_group_after_other_columns():
    assert kinds([0, 2, 1, 0], [1, 3, 0, 1]) == ["binary", "integer", "onehot", "onehot"]


def test_infer_group_after_a_column_of_ones():
    assert kinds([1, 1, 0], [1, 0, 1]) == ["fixed", "onehot", "onehot"]


def test_infer_a_column_of_ones_is_no_group_of_one():
    schema = FeatureSchema.infer([torch.tensor([[1.0, 0], [1, 1]])])
    assert [(c.kind, c.group) for c in schema.columns] == [("fixed", -1), ("binary", -1)]


def test_infer_0_1_columns_that_sum_to_other_things_are_binary():
    assert kinds([1, 1], [0, 1], [1, 0]) == ["binary", "binary"]


def test_infer_bounds_kinds_and_fixed():
    first = torch.tensor([[2.0, 0.5, 7.0], [4.0, 1.5, 7.0]])
    second = torch.tensor([[-1.0, 2.25, 7.0]])
    a, b, c = FeatureSchema.infer([first, second]).columns
    assert (a.kind, a.lo, a.hi) == ("integer", -1.0, 4.0)
    assert (b.kind, b.lo, b.hi) == ("continuous", 0.5, 2.25)
    assert (c.kind, c.lo, c.hi) == ("fixed", 7.0, 7.0)


def test_infer_one_dimensional_integers():
    schema = FeatureSchema.infer([torch.tensor([3, 5]), torch.tensor([4])])
    assert [(c.kind, c.lo, c.hi) for c in schema.columns] == [("integer", 3.0, 5.0)]


def test_infer_refuses_mixed_widths():
    with pytest.raises(InputError, match=r"different numbers of feature columns: \[2, 3\]"):
        FeatureSchema.infer([torch.ones(1, 2), torch.ones(4, 3)])


def test_infer_nothing():
    assert FeatureSchema.infer([]).width == 0
    assert FeatureSchema.infer([torch.zeros(0, 4)]).width == 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_infer_describes_what_it_saw(data):
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    entry = st.sampled_from([0.0, 1.0, 1.0, 2.0, 0.5])
    x = torch.tensor(data.draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=rows, max_size=rows)))
    schema = FeatureSchema.infer([x])
    assert len(schema) == width
    for k, c in enumerate(schema.columns):
        assert c.lo <= x[:, k].min()
        assert x[:, k].max() <= c.hi
        assert (c.kind == "fixed") <= (x[:, k].min() == x[:, k].max())
        if c.kind == "onehot":
            group = schema.group_of(k)
            assert len(group) > 1
            assert group == list(range(group[0], group[0] + len(group)))
            assert (x[:, group].sum(1) == 1).all()
        if c.kind == "integer":
            assert torch.equal(x[:, k], x[:, k].round())
        if c.kind == "binary":
            assert set(x[:, k].tolist()) == {0.0, 1.0}


def columns():
    bound = st.floats(-10, 10) | st.just(-INF)
    number = st.tuples(st.sampled_from(["binary", "integer", "continuous", "fixed"]), bound, st.booleans())
    return st.lists(
        st.one_of(
            number.map(lambda t: Column(t[0], lo=t[1], hi=INF if t[2] else max(t[1], 3.0), name="ü")),
            st.integers(0, 3).map(lambda g: Column("onehot", group=g)),
        ),
        max_size=6,
    )


@settings(max_examples=50, deadline=None)
@given(columns())
def test_dict_round_trip_is_valid_json(made):
    schema = FeatureSchema(tuple(made))
    text = json.dumps(schema.to_dict(), allow_nan=False)
    assert FeatureSchema.from_dict(json.loads(text)) == schema


def test_as_numbers_forgets_groups_and_bounds_but_not_names():
    schema = FeatureSchema((*FeatureSchema.onehot(["C", "N"]).columns, Column("fixed", name="z")))
    numbers = schema.as_numbers()
    assert numbers.names == ("C", "N", "z")
    assert {(c.kind, c.group, c.lo, c.hi) for c in numbers.columns} == {("continuous", -1, -INF, INF)}
    assert json.dumps(numbers.to_dict(), allow_nan=False)


def test_names_and_indices():
    schema = FeatureSchema((Column("binary"), Column("integer", hi=5, name="degree"), Column("fixed")))
    assert schema.names == ("0", "degree", "2")
    assert schema.indices("binary", "fixed") == [0, 2]
    assert FeatureSchema.fixed(3).indices("fixed") == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "colour"}, "'colour' is unknown; use one of onehot"),
        ({"kind": "onehot"}, "exactly the one-hot columns have a group"),
        ({"kind": "binary", "group": 0}, "exactly the one-hot columns have a group"),
        ({"kind": "integer", "lo": 2, "hi": 1, "name": "age"}, "'age': lo=2 is above hi=1"),
        ({"kind": "integer", "lo": math.nan}, "lo=nan is above"),
    ],
)
def test_bad_columns(options, said):
    with pytest.raises(InputError, match=said):
        Column(**options)

"""Results as text, JSON, HTML and pictures."""

import json
import math
import re
from dataclasses import replace

import matplotlib as mpl
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge.draw import ADDED, CHANGED, REMOVED, gallery
from counteredge.results import Calls, Prediction

HOSTILE = ("<script>alert(1)</script>", "a&b", "$x_{$")


def pairs(*edges):
    both = [e for i, j in edges for e in ((i, j), (j, i))]
    return torch.tensor(both, dtype=torch.long).reshape(-1, 2).t().contiguous()


def molecule(**attributes):
    return Data(x=torch.eye(3)[torch.tensor([0, 0, 1, 2, 0])], edge_index=pairs((0, 1), (1, 2), (2, 3)), **attributes)


def result(original=None, edits=None, *, found=True, names=("C", "N", "O"), labels=("no", "yes"), **changes):
    original = molecule() if original is None else original
    swap = ce.FeatureEdit(0, (0, 1), (1.0, 0.0), (0.0, 1.0))
    if edits is None:
        edits = ce.EditSet(added=((0, 4),), removed=((1, 2),), features=(swap,))
    if not found:
        edits = ce.EditSet(directed=edits.directed)
    fields = {
        "index": 3,
        "original": original,
        "data": edits.apply(original) if found else None,
        "edits": edits,
        "before": Prediction(0, 0.9),
        "after": Prediction(1, 0.75) if found else None,
        "found": found,
        "reason": "" if found else "no answer within 12 greedy edits",
        "stage": "greedy-3" if found else "none",
        "minimal": True if found else None,
        "certified_lower_bound": 2,
        "calls": Calls(40, 4, 17 if found else None),
        "seconds": 0.125,
        "relaxation": "exact (dense)",
        "explainer": "xplore",
        "preset": "minimal",
        "seed": 0,
        "parameters": {"width": 8, "features": None},
        "schema": ce.FeatureSchema.onehot(names) if names else None,
        "label_names": labels,
    }
    return ce.Counterfactual(**{**fields, **changes})


def same_tensors(a, b):
    a, b = a.to_dict(), b.to_dict()
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == b[key].dtype, key
            assert value.shape == b[key].shape, key
            assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(b[key])), key
        else:
            assert value == b[key] or (value != value and b[key] != b[key]), key


# -- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [True, False])
def test_round_trip(found):
    cf = result(found=found)
    again = ce.Counterfactual.from_json(cf.to_json())
    assert again == cf
    for name in vars(cf):
        if name not in ("original", "data"):
            assert getattr(again, name) == getattr(cf, name), name
    same_tensors(again.original, cf.original)
    assert (again.data is None) == (not found)
    if found:
        same_tensors(again.data, cf.data)
    assert str(again) == str(cf)


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.bool),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 1, 2), (0, 4)], ids=str)
def test_every_tensor_attribute_comes_back(dtype, shape):
    values = torch.arange(1, 1 + math.prod(shape)).reshape(shape)
    cf = result(molecule(z=(values / 3 if dtype.is_floating_point or dtype.is_complex else values).to(dtype)))
    again = ce.Counterfactual.from_json(cf.to_json())
    same_tensors(again.original, cf.original)
    same_tensors(again.data, cf.data)


def test_extreme_numbers_come_back_bit_by_bit():
    z = torch.tensor([0.1, -0.0, 1e-45, 3.4e38, 1 / 3, float("inf"), -float("inf"), float("nan")])
    big = torch.tensor([2**63 - 1, -(2**63)])
    again = ce.Counterfactual.from_json(result(molecule(z=z, big=big)).to_json())
    assert torch.equal(again.original.z.view(torch.int32)[:7], z.view(torch.int32)[:7])
    assert torch.isnan(again.original.z[7])
    assert torch.equal(again.original.big, big)


def test_missing_labels_as_nan_are_stored_as_standard_json():
    cf = result(molecule(y=torch.tensor([[float("nan"), 1.0]]), score=float("nan")))
    text = cf.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    again = ce.Counterfactual.from_json(text)
    assert again == cf
    assert math.isnan(again.original.score)


def test_odd_attributes():
    tokens = ["C", "ü", "\u2028", '"', "\n"]
    odd = molecule(smiles="CC=O", size=5, ratio=0.5, flag=True, tokens=tokens, extra={"a": [1, None]})
    again = ce.Counterfactual.from_json(result(odd).to_json())
    same_tensors(again.original, odd)
    assert again.original.tokens == tokens
    assert "\n" not in result(odd).to_json()


def test_objects_are_left_out_and_sparse_tensors_refused():
    class Mol:
        pass

    cf = result(molecule(mol=Mol()))
    again = ce.Counterfactual.from_json(cf.to_json())
    assert "mol" not in again.original
    assert again == cf
    with pytest.raises(ce.DataError, match="'s' of the graph"):
        result(molecule(s=torch.eye(2).to_sparse())).to_json()


def test_edge_attributes_and_directed_edits_come_back():
    g = molecule(edge_attr=torch.randn(6, 2), edge_weight=torch.rand(6))
    for directed in (False, True):
        cf = result(g, ce.EditSet(added=((4, 0),) if directed else ((0, 4),), removed=((1, 2),), directed=directed))
        again = ce.Counterfactual.from_json(cf.to_json())
        assert again == cf
        assert again.edits.directed == directed
        same_tensors(again.data, cf.data)


@pytest.mark.parametrize("label", [0, 2.5, (1, 0, 1), float("inf")])
def test_every_kind_of_label(label):
    cf = result(before=Prediction(label, 0.5))
    again = ce.Counterfactual.from_json(cf.to_json())
    assert again.before.label == label
    assert type(again.before.label) is type(label)


def test_infinite_bounds_and_no_schema():
    for schema in (ce.FeatureSchema.onehot(["a", "b", "c"]).as_numbers(), None):
        again = ce.Counterfactual.from_json(result(schema=schema).to_json())
        assert again.schema == schema


def test_without_timings_only_the_time_is_missing():
    cf = result()
    assert cf.to_json(timings=False) == replace(cf, seconds=9.0).to_json(timings=False)
    assert cf.to_dict().keys() - cf.to_dict(timings=False).keys() == {"seconds"}
    assert ce.Counterfactual.from_json(cf.to_json(timings=False)).edits == cf.edits


def test_tuples_among_the_options_do_not_break_the_round_trip():
    cf = result(parameters={"looks": (4, 16), "nested": {"a": ((1, 2),)}})
    assert ce.Counterfactual.from_json(cf.to_json()) == cf


def test_a_difference_is_a_difference():
    assert result() != result(seed=1)
    assert result() != result(molecule(y=torch.tensor([1])))
    assert result() != "something else"


def changed(**values):
    return json.dumps({**result().to_dict(), **values})


def without(key):
    value = result().to_dict()
    del value[key]
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "expected a JSON object, got list"),
        ("{}", "holds no counteredge counterfactual"),
        (changed(format="gretel"), "holds no counteredge counterfactual"),
        (changed(version=5), "version 5 of the format is newer than 4: update counteredge"),
        (changed(version=0), "version 0 is no version"),
        (changed(version="1"), "version '1' is no version"),
        (without("version"), "version None is no version"),
        (without("original"), "damaged: KeyError 'original'"),
        (without("calls"), "damaged: KeyError 'calls'"),
        (changed(edits=3), "damaged: TypeError"),
        (changed(original={"x": {"dtype": "float33", "shape": [1], "values": [1]}}), "dtype 'float33'"),
        (changed(original={"x": {"dtype": "float32", "shape": [7], "values": [1]}}), "damaged"),
        (changed(before={"label": 0, "probability": "much"}), "damaged: ValueError"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ce.DataError, match=message):
        ce.Counterfactual.from_json(text)


def test_files_of_earlier_versions_are_read():
    cf = result()
    value = {k: v for k, v in cf.to_dict().items() if k != "raw"}
    again = ce.Counterfactual.from_dict({**value, "version": 3})
    assert again == cf
    assert again.raw is None


def test_edits_before_shrinking_are_stored_and_printed():
    cf = result(raw=(5, 2))
    again = ce.Counterfactual.from_json(cf.to_json())
    assert again == cf
    assert again.raw == (5, 2)
    assert "  3 edits (7 before shrinking), one-minimal" in str(cf)
    assert "shrinking" not in str(result())


def with_node_edits(**changes):
    """An edge and a node more, a node less, a bond upgrade."""
    g = molecule(edge_attr=torch.eye(2)[torch.zeros(6, dtype=torch.long)])
    upgrade = ce.AttributeEdit((1, 2), "edge_attr", (1.0, 0.0), (0.0, 1.0))
    edits = ce.EditSet(
        added=((0, 5),),
        removed=((2, 3),),
        values=(("edge_attr", ((0.0, 1.0),)),),
        new_nodes=((0.0, 0.0, 1.0),),
        removed_nodes=(3,),
        attributes=(upgrade,),
        nodes=5,
    )
    schema = replace(ce.FeatureSchema.onehot(("C", "N", "O")), edge_names=("single", "double"))
    return result(g, edits, **{"schema": schema, **changes})


def test_edits_of_nodes_and_bonds_are_stored_and_printed():
    cf = with_node_edits()
    again = ce.Counterfactual.from_json(cf.to_json())
    assert again == cf
    assert again.edits == cf.edits
    same_tensors(again.data, cf.data)
    assert str(again) == str(cf)  # with the names of the bonds
    assert str(cf).split("\n")[1:6] == [
        "  +edge (0, 5)",
        "  -edge (2, 3)",
        "  +node 5: O",
        "  -node 3",
        "  edge (1, 2): single -> double",
    ]
    assert cf.edit_ratio == 4 / (5 + 3)


# -- JSONL -----------------------------------------------------------------------------------------------------------


def test_jsonl_appends_and_survives_a_cut_off_last_line(tmp_path):
    file = tmp_path / "out.jsonl"
    results = [result(), result(found=False), result(index=5)]
    ce.write_jsonl(file, results[:2])
    ce.write_jsonl(file, results[2:], append=True)
    assert list(ce.read_jsonl(file)) == results
    text = file.read_text()
    last = text.rstrip("\n").rfind("\n") + 1
    for cut in (last + 1, last + 40, len(text) - 2):
        file.write_text(text[:cut])
        assert list(ce.read_jsonl(file)) == results[:2]
    file.write_text(text.rstrip("\n"))  # complete but for the line feed
    assert list(ce.read_jsonl(file)) == results
    ce.write_jsonl(file, results[:1])
    assert list(ce.read_jsonl(file)) == results[:1]


def test_jsonl_appends_after_a_crash(tmp_path):
    file = tmp_path / "out.jsonl"
    first, second, third = result(), result(index=4), result(index=5)
    for text, kept in (
        (f"{first.to_json()}\n{second.to_json()[:50]}", [first]),
        (f"{first.to_json()}\n{second.to_json()}", [first, second]),
        (second.to_json()[:50], []),
        ("", []),
    ):
        file.write_text(text)
        ce.write_jsonl(file, [third], append=True)
        assert list(ce.read_jsonl(file)) == [*kept, third]


def test_jsonl_does_not_tolerate_more_than_that(tmp_path):
    file = tmp_path / "out.jsonl"
    good = result().to_json()
    for text in (good[:-9] + "\n" + good, good + "\n" + good[:-9] + "\n" + good + "\n", good[:50] + "\n"):
        file.write_text(text)
        with pytest.raises(ce.DataError, match="not JSON"):
            list(ce.read_jsonl(file))
    file.write_text(good + "\n" + changed(version=9))  # whole, but of a later version
    with pytest.raises(ce.DataError, match="newer"):
        list(ce.read_jsonl(file))


def test_empty_jsonl(tmp_path):
    file = tmp_path / "out.jsonl"
    ce.write_jsonl(file, [])
    assert list(ce.read_jsonl(file)) == []


# -- text ------------------------------------------------------------------------------------------------------------


def test_print_shows_only_what_changed():
    assert str(result()).split("\n") == [
        "Counterfactual of graph 3 (xplore, minimal): class 0 no (p=0.90) -> class 1 yes (p=0.75)",
        "  +edge (0, 4)",
        "  -edge (1, 2)",
        "  x[0]: C -> N",
        "  3 edits, one-minimal, no single edge flip suffices (enumerated); 40 oracle calls, 0.12 s",
    ]
    assert repr(result()) == str(result())


def test_print_when_nothing_was_found():
    text = str(result(found=False))
    assert "not found: no answer within 12 greedy edits" in text
    assert "40 oracle calls" in text
    assert "edge (" not in text


def test_print_of_many_edits_is_short():
    n = 60
    g = Data(x=torch.zeros(n, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    text = str(result(g, ce.EditSet(added=tuple((0, k) for k in range(1, n)))))
    assert text.count("+edge") == 40
    assert "... and 19 more" in text


def test_print_names_columns_and_values():
    edits = ce.EditSet(features=(ce.FeatureEdit(2, (1,), (0.5,), (1.25,)),))
    schema = ce.FeatureSchema(tuple(ce.Column("continuous", name=n) for n in ("mass", "charge", "")))
    assert "x[2, charge]: 0.5 -> 1.25" in str(result(edits=edits, schema=schema))
    assert "x[2, 1]: 0.5 -> 1.25" in str(result(edits=edits, schema=None))


@pytest.mark.parametrize(
    ("label", "text"), [(7, "class 7 (p=0.50)"), (2.5, "value 2.5"), ((1, 0), "labels [1, 0] (p=0.50)")]
)
def test_print_of_labels(label, text):
    assert text in str(result(before=Prediction(label, 0.5)))


# -- HTML ------------------------------------------------------------------------------------------------------------


def test_html_escapes_every_name():
    cf = result(
        names=HOSTILE,
        labels=("<img src=x onerror=alert(2)>", "</div><b>"),
        explainer="<i>me</i>",
        preset='"><u>',
    )
    page = cf._repr_html_()
    body = re.sub(r'src="data:image/png;base64,[A-Za-z0-9+/=]+"', "", page)
    assert set(re.findall(r"<\s*/?\s*([a-zA-Z]+)", body)) == {"div", "img", "br"}
    assert body.count("<img") == 1
    assert "onerror=alert(2)>" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "&lt;i&gt;me" in body
    assert body.count("<div") == body.count("</div>")


def test_html_escapes_the_reason():
    page = result(found=False, reason="<script>alert(3)</script>")._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(3)" in page


# -- pictures --------------------------------------------------------------------------------------------------------


def texts(figure):
    return [t.get_text() for axes in figure.axes for t in (*axes.texts, axes.title)]


def colours(figure):
    axes = figure.axes[0]
    found = set()
    for artist in (*axes.collections, *axes.patches):
        found |= {mpl.colors.to_hex(c) for c in artist.get_edgecolor().reshape(-1, 4)} if hasattr(
            artist.get_edgecolor(), "reshape"
        ) else {mpl.colors.to_hex(artist.get_edgecolor())}  # fmt: skip
    return found


def drawn(figure, path):
    """Rendered for real: only then matplotlib lays out text and meets what it cannot read."""
    figure.savefig(path)
    assert path.stat().st_size > 1000
    return figure


def test_a_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(ce.InputError, match="kind of picture 'foo'"):
        result().draw(tmp_path / "a.foo")
    with pytest.raises(ce.InputError, match=r"none/a\.png cannot be written: No such file or directory"):
        result().draw(tmp_path / "none" / "a.png")


def test_atoms_are_drawn_by_symbol(tmp_path):
    figure = drawn(result().draw(), tmp_path / "a.png")
    assert texts(figure)[:5] == ["C→N", "C", "N", "O", "C"]
    assert "graph 3: class 0 no" in texts(figure)[5]
    plain = result(names=None).draw()
    assert texts(plain)[:5] == ["0", "1", "2", "3", "4"]


def test_additions_removals_and_changes_have_their_colours():
    assert {ADDED, REMOVED, CHANGED} <= colours(result().draw())
    none = colours(result(found=False).draw())
    assert not {ADDED, REMOVED, CHANGED} & none
    only = colours(result(edits=ce.EditSet(added=((0, 4),))).draw())
    assert ADDED in only
    assert REMOVED not in only
    assert CHANGED not in only


def test_new_and_removed_nodes_are_drawn(tmp_path):
    cf = with_node_edits()
    figure = drawn(cf.draw(), tmp_path / "a.png")
    assert sorted(texts(figure)[:6]) == sorted("CCNOCO")
    circles = figure.axes[0].collections[-1]
    fills = [mpl.colors.to_hex(c) for c in circles.get_facecolor()]
    borders = [mpl.colors.to_hex(c) for c in circles.get_edgecolor()]
    assert [k for k, c in enumerate(fills) if c == ADDED] == [5]
    assert [k for k, c in enumerate(borders) if c == REMOVED] == [3]
    assert [k for k, (_, dashes) in enumerate(circles.get_linestyle()) if dashes] == [3]
    assert CHANGED in colours(figure)  # the bond
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert {"node added", "node removed", "edge changed"} <= set(legend)
    assert not {"node added", "node removed", "edge changed"} & {
        t.get_text() for t in result().draw().legends[0].get_texts()
    }
    assert cf._repr_html_()
    assert texts(with_node_edits(schema=None).draw())[:6]
    drawn(gallery([cf, result(), result(found=False)]), tmp_path / "b.png")


def test_node_edits_in_the_surroundings_of_a_node(tmp_path):
    cf = with_node_edits(node=0)
    figure = drawn(cf.draw(), tmp_path / "a.png")
    assert {ADDED, REMOVED} <= colours(figure)


def test_nothing_is_drawn_by_numbers_that_are_no_categories():
    g = molecule()
    g.x = g.x * 0.5
    assert texts(result(g, ce.EditSet(added=((0, 4),))).draw())[:5] == ["0", "1", "2", "3", "4"]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", [*HOSTILE, "$", "$$", r"$\frac$", r"\$", "a_b^c{", "%", "日本"])
def test_no_name_is_read_as_mathematics(name, tmp_path):
    cf = result(names=(name, name + "2", "O"), labels=(name, name))
    drawn(cf.draw(), tmp_path / "a.svg")
    drawn(gallery([cf, cf]), tmp_path / "b.png")
    assert cf._repr_html_()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saving(suffix, tmp_path):
    path = tmp_path / f"picture.{suffix}"
    result().draw(path)
    assert path.stat().st_size > 1000


def ring(n, chords=0):
    edges = [(i, (i + 1) % n) for i in range(n)] + [(i, i + n // 2) for i in range(chords)]
    return Data(x=torch.eye(3)[torch.arange(n) % 3], edge_index=pairs(*edges))


def test_directed_graphs_have_arrows(tmp_path):
    g = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    cf = result(g, ce.EditSet(added=((1, 0),), removed=((1, 2),), directed=True))
    figure = drawn(cf.draw(), tmp_path / "a.png")
    arrows = [p for p in figure.axes[0].patches if "Arrow" in type(p).__name__]
    assert len(arrows) == 4  # two kept, one removed, one added
    assert {ADDED, REMOVED} <= colours(figure)


@pytest.mark.parametrize(
    ("graph", "edits"),
    [
        (Data(x=torch.eye(3)[:1], edge_index=torch.zeros(2, 0, dtype=torch.long)), ce.EditSet()),
        (Data(x=torch.eye(3), edge_index=torch.zeros(2, 0, dtype=torch.long)), ce.EditSet(added=((0, 2),))),
        (Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [0, 1]])), ce.EditSet(added=((0, 2),))),
        (Data(x=torch.eye(3)[:2], edge_index=pairs((0, 1))), ce.EditSet(removed=((0, 1),))),
        (ring(150, 20), ce.EditSet(added=((0, 2),), removed=((0, 1),))),
        (Data(x=torch.arange(3), edge_index=pairs((0, 1))), ce.EditSet(added=((1, 2),))),
        (Data(x=torch.zeros(3, 0), edge_index=pairs((0, 1))), ce.EditSet(added=((1, 2),))),
    ],
    ids=["one node", "no edges", "loops only", "becomes empty", "150 nodes", "flat x", "no columns"],
)
@pytest.mark.parametrize("found", [True, False])
def test_graphs_of_every_shape_can_be_drawn(graph, edits, found, tmp_path):
    names = ("C", "N", "O") if graph.x.dim() == 2 and graph.x.shape[1] == 3 else None
    cf = result(graph, edits, found=found, names=names)
    figure = drawn(cf.draw(), tmp_path / "a.png")
    assert ("not found" in texts(figure)[-1]) == (not found)
    assert cf._repr_html_()
    assert 0 <= cf.edit_ratio <= 1


def test_drawing_is_the_same_every_time_and_leaves_no_state():
    import matplotlib.pyplot as plt

    state = torch.get_rng_state()
    positions = [result(ring(70)).draw().axes[0].collections[-1].get_offsets().tolist() for _ in range(2)]
    assert positions[0] == positions[1]
    assert plt.get_fignums() == []
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("count", "most", "panels"), [(0, 12, 0), (1, 12, 1), (5, 12, 5), (20, 12, 12), (20, 30, 20)])
def test_gallery(count, most, panels, tmp_path):
    results = [result(index=k, found=k % 2 == 1) for k in range(count)]
    path = tmp_path / "gallery.png"
    figure = gallery(results, path, most=most)
    assert path.stat().st_size > 1000
    assert len(figure.axes) == panels
    titles = [a.get_title() for a in figure.axes]
    order = ["not found" not in t for t in titles]
    assert order == sorted(order, reverse=True)


# -- the real thing --------------------------------------------------------------------------------------------------


def test_an_explainers_results_can_be_stored_drawn_and_printed(tmp_path):
    class Degrees(nn.Module):
        def forward(self, x, edge_index, batch):
            arcs = torch.bincount(batch[edge_index[0]], minlength=int(batch.max()) + 1).double()
            return torch.stack([torch.full_like(arcs, 7.0), arcs], 1)

    graphs = [molecule(y=torch.tensor([float("nan")])), molecule(y=torch.tensor([1.0]))]
    results = ce.XPlore().explain(Degrees(), graphs, progress=False)
    ce.write_jsonl(tmp_path / "r.jsonl", results)
    again = list(ce.read_jsonl(tmp_path / "r.jsonl"))
    assert again == results
    assert [str(a) for a in again] == [str(r) for r in results]
    gallery(again, tmp_path / "r.png")


def test_json_does_not_depend_on_how_the_graph_was_put_together():
    one = molecule(y=torch.tensor([0]))
    other = Data()
    for key, value in reversed(one.to_dict().items()):
        other[key] = value
    assert list(one.to_dict()) != list(other.to_dict())
    assert result(one).to_json() == result(other).to_json()

"""The HTML page: what it says, that names stay text, that it needs nothing else and is always the same."""

import base64
import hashlib
import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import torch
from frames import DATASETS, GRAPHS, METHODS, collected, graph
from matplotlib.figure import Figure
from torch_geometric.data import Data

import counteredge as ce
from counteredge.bench.collect import Collected, Kept
from counteredge.errors import CapabilityError, InputError
from counteredge.metrics import METRICS, aggregate
from counteredge.report import page, shapes
from counteredge.report.cells import Cell, Column, Row, Table
from counteredge.report.page import write_page
from counteredge.results import Calls, Prediction

DASH = "–"
IMAGE = "<img src=x onerror=window.__hacked=1>"
SCRIPT = "</script><script>window.__hacked=2</script><!--"
QUOTES = "\"'><b onclick='window.__hacked=3'>\u2028\u2029"
# title of the column, name in the instances, how its numbers are written
NUMBERS = (
    ("Validity (%)", "validity", lambda v: f"{100 * v:.1f}"),
    ("Fidelity", "fidelity", "{:.3f}".format),
    ("Edit ratio", "edit_ratio", "{:.3f}".format),
    ("GED", "ged", "{:.2f}".format),
    ("Feature edits", "feature_edits", "{:.2f}".format),
    ("Shrunk edit ratio", "shrunk_edit_ratio", "{:.3f}".format),
    ("CS", "cosine_similarity", "{:.3f}".format),
    ("Forward calls", "calls_forward", "{:.2f}".format),
    ("Runtime (s)", "runtime", None),
)


class Reader(HTMLParser):
    """Tags in order, the rows of tables, texts of the parts whose contents are raw."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.rows, self.raw, self.headings, self.words = [], {}, [], [], []
        self.table = self.cell = self.inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), attrs
        self.tags.append((tag, attributes))
        self.inside = tag
        if tag == "table":
            self.table = self.rows.setdefault(attributes["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.cell = {"text": "", "small": [], "best": False, **attributes}
            self.table[-1].append(self.cell)
        elif tag == "strong" and self.cell:
            self.cell["best"] = True
        elif tag == "small" and self.cell:
            self.cell["small"].append("")
        elif tag in ("script", "style"):
            self.raw.append((tag, attributes, ""))
        elif re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        self.inside = None if tag in ("script", "style", "small") else self.inside
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, text):
        if self.inside in ("script", "style"):
            tag, attributes, before = self.raw[-1]
            self.raw[-1] = (tag, attributes, before + text)
            return
        self.words.append(text)
        if self.cell and self.inside == "small":
            self.cell["small"][-1] += text
        elif self.cell and self.inside != "span":
            self.cell["text"] += text

    @property
    def data(self):
        return next(
            json.loads(text) for _, attributes, text in self.raw if attributes.get("type") == "application/json"
        )

    @property
    def text(self):
        return "".join(self.words)


def read(where):
    return Reader(where.read_text(encoding="utf-8"))


def main_table(reader):
    """Cells by dataset, method and title of the column."""
    head, *rows = reader.rows["main"]
    titles = [c["text"] for c in head]
    return {(r[0]["text"], r[1]["text"]): dict(zip(titles, r, strict=True)) for r in rows}


def renamed(found, names, answers=None):
    """The same results under other names of datasets and methods."""
    tables = [t.replace({"dataset": names, "method": names}) for t in (found.jobs, found.instances)]
    kept = [replace(k, dataset=names.get(k.dataset, k.dataset), method=names.get(k.method, k.method))
            for k in found.answers]  # fmt: skip
    return Collected(*tables, answers or kept)


def answer(original, edits, **changes):
    fields = {
        "index": 0, "original": original, "data": edits.apply(original), "edits": edits, "before": Prediction(0, 0.9),
        "after": Prediction(1, 0.75), "found": True, "reason": "", "stage": "greedy-1", "minimal": True,
        "certified_lower_bound": 2, "calls": Calls(40, 4, 17), "seconds": 0.1, "relaxation": "none",
        "explainer": "xplore", "preset": "minimal", "seed": 0,
    }  # fmt: skip
    return ce.Counterfactual(**{**fields, **changes})


def hostile():
    """Results with markup in every name that there is."""
    found = renamed(collected(), {"BZR": IMAGE, "iRand": SCRIPT, "XPlore": QUOTES, "CF2": f"CF2 {IMAGE}"})
    found.jobs.loc[found.jobs["status"] == "failed", "error"] = f"{IMAGE} {SCRIPT}"
    found.jobs["code"] = QUOTES
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    swap = ce.FeatureEdit(0, (0, 1), (1.0, 0.0), (0.0, 1.0))
    first = Data(x=x, edge_index=graph(3, [(0, 1), (1, 2)]).edge_index)
    named = ce.FeatureSchema.onehot([QUOTES, IMAGE])
    cf = answer(
        first, ce.EditSet(added=((0, 2),), features=(swap,)), schema=named, label_names=(IMAGE, SCRIPT), index=7,
        stage=QUOTES, preset=SCRIPT, explainer=IMAGE,
    )  # fmt: skip
    lost = replace(cf, data=None, edits=ce.EditSet(), found=False, after=None, reason=SCRIPT)
    key = found.jobs["key"].iloc[0]
    found.answers[:0] = [Kept(key, IMAGE, SCRIPT, cf), Kept(key, IMAGE, QUOTES, lost)]
    return found


@pytest.fixture(scope="module")
def found():
    return collected()


@pytest.fixture(scope="module")
def reader(found, tmp_path_factory):
    return read(write_page(found, tmp_path_factory.mktemp("page") / "deep" / "page.html"))


# -- the table -------------------------------------------------------------------------------------------------------


def test_rows_and_figures(found, reader):
    table = main_table(reader)
    names = [m for *_, m in METHODS]
    last = sorted(names, key=lambda m: m.startswith("control"))  # controls stand below the others
    assert list(table) == [(d, m) for d in DATASETS for m in last]
    assert last != names
    for (dataset, method), row in table.items():
        of = found.instances[(found.instances["dataset"] == dataset) & (found.instances["method"] == method)]
        assert row["Graphs"]["text"] == str(len(of)), (dataset, method)
        for title, name, shown in NUMBERS:
            values = of[name].to_numpy(float)
            values = values[~np.isnan(values)]
            cell = row[title]
            if not len(values):
                assert (cell["text"], cell["data-value"]) == (DASH, ""), (dataset, method, title)
                continue
            assert float(cell["data-value"]) == pytest.approx(values.mean(), rel=1e-12)
            if shown is not None:
                assert cell["text"] == shown(values.mean())
            else:
                assert float(cell["text"]) == pytest.approx(values.mean(), rel=5e-3)
        if len(of):
            a = aggregate(torch.tensor(of["validity"].tolist(), dtype=torch.float64))
            assert f"[{100 * a.low:.1f}, {100 * a.high:.1f}]" in row["Validity (%)"]["small"]
    assert table["MUTAG", "CF2"]["Method"]["small"] == ["jobs failed"]


def test_best_of_each_dataset(found, reader):
    table = main_table(reader)
    methods = [m for *_, m in METHODS]
    for dataset in DATASETS:
        for title, name, _ in NUMBERS:
            lower = METRICS[name.removeprefix("shrunk_")].direction == "lower"
            shown = {m: table[dataset, m][title]["text"] for m in methods if not m.startswith("control")}
            values = {m: float(v) for m, v in shown.items() if v != DASH}
            best = (min if lower else max)(values.values())
            expected = {m for m, v in values.items() if v == best}
            marked = {m for m in methods if table[dataset, m][title]["best"]}
            assert marked == expected, (dataset, title)


def test_controls_never_win(found, tmp_path):
    found = Collected(found.jobs, found.instances.copy(), [])
    of_control = found.instances["explainer"] == "empty_graph"
    found.instances.loc[of_control, ["cosine_similarity", "validity"]] = 1.0
    table = main_table(read(write_page(found, tmp_path / "page.html")))
    for dataset in DATASETS:
        assert float(table[dataset, "control: empty graph"]["CS"]["data-value"]) == 1
        assert not any(c["best"] for c in table[dataset, "control: empty graph"].values())
        assert sum(table[dataset, m]["CS"]["best"] for *_, m in METHODS) == 1


def test_the_paper_stands_beside(reader):
    table = main_table(reader)
    # main table, XPlore (freedom) on MUTAG, and what the extended table alone has
    assert "paper 67.5" in table["MUTAG", "XPlore (paper, freedom)"]["Validity (%)"]["small"]
    assert "paper 10.67" in table["Tree-Cycles", "iRand"]["Forward calls"]["small"]
    assert not any("paper" in s for c in table["MUTAG", "control: empty graph"].values() for s in c["small"])


def test_several_seeds_are_one_row(found, tmp_path):
    jobs, instances = (t[t["method"].isin(["iRand", "XPlore"])] for t in (found.jobs, found.instances))
    again = instances.assign(seed=1, ged=instances["ged"] + 10)
    failed = jobs.assign(seed=1, status="failed", error="gone")[jobs["method"] == "iRand"]
    jobs = pd.concat([jobs, jobs.assign(seed=1)[jobs["method"] == "XPlore"], failed])
    both = pd.concat([instances, again[again["method"] == "XPlore"]], ignore_index=True)
    r = read(write_page(Collected(jobs, both), tmp_path / "page.html"))
    table = main_table(r)
    assert len(table) == 2 * len(DATASETS)
    row = table["BZR", "XPlore"]
    ged = both[(both["dataset"] == "BZR") & (both["method"] == "XPlore")]["ged"].mean()
    assert row["Graphs"]["text"] == str(2 * GRAPHS)
    assert float(row["GED"]["data-value"]) == pytest.approx(ged)
    assert table["BZR", "iRand"]["Method"]["small"] == ["jobs failed"]
    assert not any(c["best"] for c in table["BZR", "iRand"].values())  # a part of the graphs wins nothing
    assert "0, 1" in r.text
    assert r.text.count("gone") == 3


def test_the_head_says_what_was_run(reader):
    for text in ("Tree-Cycles (30), MUTAG (30), BZR (30)", "21, of which 1 failed", "0.1.0+0", "heldout",
                 "ModelError: the model broke <b>here</b>", ", ".join(m for *_, m in METHODS)):  # fmt: skip
        assert text in reader.text, text


def test_nothing_but_failures(found, tmp_path):
    jobs = found.jobs.assign(status="failed", error="ValueError: no")
    empty = pd.DataFrame(columns=["key", "dataset", "method", "graph", "found"])
    r = read(write_page(Collected(jobs, empty), tmp_path / "page.html"))
    table = main_table(r)
    assert len(table) == len(DATASETS) * len(METHODS)
    assert {row[title]["text"] for row in table.values() for title, *_ in NUMBERS} == {DASH}
    assert "No counterfactuals were kept." in r.text
    assert r.text.count("ValueError: no") == len(jobs)


def test_further_tables(found, tmp_path):
    cells = (Cell("a <b>", partial=True), Cell(0.5, std=0.25, low=0.4, high=0.6, paper=0.7, mark="best"))
    none = (Cell("c"), Cell(None))
    columns = (Column("name", "Name"), Column("share", "Share", "percent", "higher"))
    table = Table("t", "Title & more", "Caption <i>", columns, (Row(cells), Row(none, control=True)))
    r = read(write_page(found, tmp_path / "page.html", tables=[table]))
    head, first, second = r.rows["table-1"]
    assert [c["text"] for c in head] == ["Name", "Share"]
    assert (first[0]["text"], first[1]["text"], first[1]["best"]) == ("a <b>", "50.0", True)
    assert first[1]["small"] == ["± 25.0", "[40.0, 60.0]", "paper 70.0"]
    assert (second[1]["text"], second[1]["data-value"]) == (DASH, "")
    assert {"Title & more", "Caption <i>"} <= set(r.words)


# -- one safe file ---------------------------------------------------------------------------------------------------


def test_needs_nothing_else(found, tmp_path):
    picture = Figure((1, 1))
    where = write_page(found, tmp_path / "page.html", figures=[("one", picture)])
    r = read(where)
    loading = ("src", "href", "srcset", "action", "formaction", "data", "poster", "ping", "background", "xlink:href")
    for tag, attributes in r.tags:
        assert tag not in ("iframe", "object", "embed", "base", "form", "audio", "video")
        assert not [k for k in attributes if k.startswith("on") or k == "style"], (tag, attributes)
        for k in loading:
            assert re.match("data:(image/png;base64,|,$)|#", attributes.get(k) or "#"), (tag, k)
    styles = [text for tag, _, text in r.raw if tag == "style"]
    assert len(styles) == 1
    assert not re.search(r"url\(|@import|http", styles[0])
    scripts = [text for tag, a, text in r.raw if tag == "script" and a.get("type") != "application/json"]
    assert len(scripts) == 1
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch|XMLHttp|import\(", scripts[0]
    )
    assert list(tmp_path.iterdir()) == [where]


def test_content_security_policy(reader):
    policy = next(a["content"] for t, a in reader.tags if t == "meta" and a.get("http-equiv"))
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag in ("style", "script"):
        text = next(text for t, a, text in reader.raw if t == tag and not a)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_hostile_names_stay_text(tmp_path):
    table = Table("t", IMAGE, SCRIPT, (Column("a", QUOTES), Column("b", IMAGE, "prose")), (Row((Cell(SCRIPT),) * 2),))
    evil = hostile()
    names = {IMAGE: "dataset", SCRIPT: "iRand", QUOTES: "XPlore", f"CF2 {IMAGE}": "CF2"}
    kind = renamed(evil, names)
    kind.jobs["error"], kind.jobs["code"] = "error", "code"
    plain = replace(table, title="t", caption="c", columns=(Column("a", "A"), Column("b", "B", "prose")))
    pages = [
        write_page(evil, tmp_path / "a.html", title=SCRIPT, figures=[(IMAGE, Figure((1, 1)))], tables=[table]),
        write_page(kind, tmp_path / "b.html", title="x", figures=[("x", Figure((1, 1)))], tables=[plain]),
    ]
    bad, good = (read(p) for p in pages)
    shapes_of = [[(t, sorted(a)) for t, a in r.tags] for r in (bad, good)]
    assert shapes_of[0] == shapes_of[1]  # not one tag or attribute more
    source = pages[0].read_text(encoding="utf-8")
    for text in (IMAGE, SCRIPT, QUOTES, "<img src=x", "<script>window", "<b onclick", "window.__hacked=2</script>"):
        assert text not in source, text
    assert {IMAGE, SCRIPT, QUOTES} <= set(bad.words)
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.DOTALL)[1]
    assert not re.search("[<>&'\u2028\u2029]", block)
    first, second = (a for a in bad.data["answers"] if a["title"] == "graph 7")
    assert (first["dataset"], first["method"], second["method"]) == (IMAGE, SCRIPT, QUOTES)
    assert first["before"] == f"class 0 {IMAGE} (p=0.90)"
    assert first["after"] == f"class 1 {SCRIPT} (p=0.75)"
    assert first["edits"] == ["+edge (0, 2)", f"x[0]: {QUOTES} -> {IMAGE}"]
    assert second["reason"] == SCRIPT


def test_half_a_character_is_no_reason_to_fail(found, tmp_path):
    r = read(write_page(found, tmp_path / "page.html", title="a\ud800b\x00"))
    assert "a?b" in r.text


def test_always_the_same(found, tmp_path):
    def figure():
        f = Figure((2, 2))
        f.subplots().plot([1, 2])
        return f

    pages = [write_page(collected(), tmp_path / f"{k}.html", figures=[("f", figure())]) for k in range(2)]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    other = write_page(collected(seed=1), tmp_path / "other.html", figures=[("f", figure())])
    assert other.read_bytes() != pages[0].read_bytes()


def test_structure(reader):
    assert next(a for t, a in reader.tags if t == "html") == {"lang": "en"}
    assert reader.headings.count(1) == 1
    assert reader.headings[0] == 1
    assert all(b - a <= 1 for a, b in zip(reader.headings, reader.headings[1:], strict=False))
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] for t, a in reader.tags if t == "a"]
    assert links[0] == "#results"
    assert all(link[1:] in ids for link in links)
    assert all("alt" in a for t, a in reader.tags if t == "img")
    assert all(a.get("type") == "button" for t, a in reader.tags if t == "button")


# -- figures ---------------------------------------------------------------------------------------------------------


def test_figures(found, tmp_path):
    file = tmp_path / "loss curve.png"
    Figure((2, 1)).savefig(file, dpi=100)
    figures = [("A & b", Figure((3, 1))), ("named", str(file)), file]
    r = read(write_page(found, tmp_path / "page.html", figures=figures))
    images = [a for t, a in r.tags if t == "img" and a.get("src")]
    assert [a["alt"] for a in images] == ["A & b", "named", "loss curve"]
    assert [(a["width"], a["height"]) for a in images] == [("390", "130"), ("200", "100"), ("200", "100")]
    assert base64.b64decode(images[2]["src"].removeprefix("data:image/png;base64,")) == file.read_bytes()
    assert sum(a.get("class") == "enlarge" for _, a in r.tags) == 3


def test_figures_that_are_none(found, tmp_path):
    file = tmp_path / "a.png"
    file.write_text("<svg onload=alert(1)>")
    with pytest.raises(InputError, match=r"'a'.*no PNG file"):
        write_page(found, tmp_path / "page.html", figures=[file])
    with pytest.raises(InputError, match="'b' is a int"):
        write_page(found, tmp_path / "page.html", figures=[("b", 3)])
    assert not (tmp_path / "page.html").exists()


def test_without_jinja(found, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(CapabilityError, match=r"counteredge\[viz\]"):
        write_page(found, tmp_path / "page.html")


# -- the gallery -----------------------------------------------------------------------------------------------------


def test_gallery_has_every_answer(found, reader):
    data = reader.data
    expected = [(d, f"graph {g}", m) for d in DATASETS for g in (0, 1) for *_, m in METHODS]
    expected.remove(("MUTAG", "graph 0", "CF2"))
    expected.remove(("MUTAG", "graph 1", "CF2"))
    assert [(a["dataset"], a["title"], a["method"]) for a in data["answers"]] == expected
    assert [a["data-answer"] for _, a in reader.tags if a.get("class") == "thumb"] == [
        str(k) for k in range(len(expected))
    ]
    kept = {(k.dataset, k.counterfactual.subject, k.method): k.counterfactual for k in found.answers}
    for a in data["answers"]:
        cf = kept[a["dataset"], a["title"], a["method"]]
        assert a["found"] == cf.found
        assert a["edits"] == cf.edits.describe(cf.schema)
        assert a["before"] == cf.before.describe()
        assert dict(a["facts"])["Oracle calls"].startswith(f"{cf.calls.forward} forward, {cf.calls.backward} backward")


def pairs(flat):
    return {tuple(sorted(p)) for p in zip(flat[::2], flat[1::2], strict=True)}


def test_drawings_are_the_graphs(found, reader):
    for k, a in zip(sorted(found.answers, key=lambda k: (DATASETS.index(k.dataset), k.counterfactual.index)),
                    reader.data["answers"], strict=True):  # fmt: skip
        cf, d = k.counterfactual, a["drawing"]
        original = {tuple(sorted(p)) for p in cf.original.edge_index.t().tolist()}
        assert pairs(d["kept"]) | pairs(d["removed"]) == original
        if cf.found:
            edited = {tuple(sorted(p)) for p in cf.data.edge_index.t().tolist()}
            assert pairs(d["kept"]) | pairs(d["added"]) == edited
        xy = np.array(d["xy"]).reshape(-1, 2)
        assert len(xy) == len(cf.original.x)
        assert (xy >= 0).all()
        assert (xy <= d["box"]).all()
        assert np.abs(xy * 10 - np.round(xy * 10)).max() < 1e-9  # one decimal
        apart = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(-1)) + 1e3 * np.eye(len(xy))
        assert apart.min() > d["r"]  # no node hides another


def test_at_most_six_graphs_a_method(found, tmp_path):
    cf = found.answers[0].counterfactual
    key, *_ = found.jobs["key"]
    answers = [Kept(key, "MUTAG", "iRand", replace(cf, index=k)) for k in range(9)]
    answers += [Kept(key, "MUTAG", "iRand", replace(cf, index=2, seed=1))]  # again, by another seed
    answers += [Kept(key, "MUTAG", "XPlore", replace(cf, index=k)) for k in (7, 1)]
    r = read(write_page(Collected(found.jobs, found.instances, answers), tmp_path / "page.html"))
    shown = [(a["title"], a["method"]) for a in r.data["answers"]]
    assert shown == [
        ("graph 0", "iRand"), ("graph 1", "iRand"), ("graph 1", "XPlore"),
        *((f"graph {k}", "iRand") for k in range(2, 6)), ("graph 7", "XPlore"),
    ]  # fmt: skip


def test_what_is_too_large_is_listed(found, tmp_path):
    path = [(i, i + 1) for i in range(150)]
    long = answer(graph(151, path), ce.EditSet(removed=tuple(path[:149])), index=1)
    most = answer(graph(150, path[:149]), ce.EditSet(removed=((3, 4),)), index=2)
    full = [(i, j) for i in range(36) for j in range(i)]
    dense = answer(graph(36, full), ce.EditSet(removed=tuple((j, i) for i, j in full[:250])), index=3)
    key = found.jobs["key"].iloc[0]
    answers = [Kept(key, "MUTAG", "iRand", cf) for cf in (long, most, dense)]
    r = read(write_page(Collected(found.jobs, found.instances, answers), tmp_path / "page.html"))
    a, b, c = r.data["answers"]
    assert a["drawing"] is None
    assert a["size"] == "151 nodes, 150 edges"
    assert (len(a["edits"]), a["more"]) == (149, 0)
    assert len(b["drawing"]["xy"]) == 300
    assert b["drawing"]["before"] == []  # nobody could read them
    assert c["drawing"] is None
    assert (len(c["edits"]), c["more"], c["edits"][-1]) == (200, 50, dense.edits.describe()[199])
    assert len(json.dumps(b)) < 12_000


# -- shapes ----------------------------------------------------------------------------------------------------------


def test_every_kind_of_edit_is_drawn():
    g = graph(5, [(0, 1), (1, 2), (2, 3), (3, 4)])
    g.edge_attr = torch.tensor([[1.0], [2.0], [3.0], [4.0]] * 2)
    edits = ce.EditSet(
        added=((0, 2), (2, 5)), removed=((3, 4),), features=(ce.FeatureEdit(1, (0,), (1.0,), (3.0,)),),
        new_nodes=((1.0,),), removed_nodes=(4,),
        attributes=(ce.edits.AttributeEdit((0, 1), "edge_attr", (1.0,), (9.0,)),),
        nodes=5,
    )  # fmt: skip
    d = shapes.drawing(answer(g, edits))
    assert {k: d[k] for k in ("kept", "changed", "removed", "added", "marked", "gone", "fresh", "targets")} == {
        "kept": [1, 2, 2, 3], "changed": [0, 1], "removed": [3, 4], "added": [0, 2, 2, 5], "marked": [1], "gone": [4],
        "fresh": [5], "targets": [],
    }  # fmt: skip
    assert len(d["xy"]) == 12
    assert d["before"] == list("012345")


def test_labels_before_and_after():
    schema = ce.FeatureSchema.onehot(["C", "N", "O"])
    x = torch.eye(3)[[0, 1, 2, 0]]
    g = Data(x=x, edge_index=graph(4, [(0, 1), (1, 2), (2, 3)]).edge_index)
    swap = ce.FeatureEdit(3, (0, 2), (1.0, 0.0), (0.0, 1.0))
    bare = ce.FeatureEdit(2, (2,), (1.0,), (0.0,))
    edits = ce.EditSet(removed=((0, 1),), features=(bare, swap), removed_nodes=(0,))
    cf = answer(g, edits, schema=schema)
    d = shapes.drawing(cf)
    assert (d["before"], d["after"]) == (list("CNOC"), ["C", "N", "*", "O"])
    long = shapes.drawing(replace(cf, schema=ce.FeatureSchema.onehot(["carbon", "N", "O"])))
    assert long["before"] == list("0123")


def test_directed_and_single():
    two = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    d = shapes.drawing(answer(two, ce.EditSet(added=((2, 1),), removed=((1, 0),), directed=True)))
    assert (d["kept"], d["removed"], d["added"], d["directed"]) == ([0, 1], [1, 0], [2, 1], True)
    one = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    change = ce.EditSet(features=(ce.FeatureEdit(0, (0,), (1.0,), (2.0,)),))
    assert shapes.drawing(answer(one, change))["xy"] == [160, 120]


def test_node_tasks_show_the_surroundings():
    n = 400
    path = [(i, i + 1) for i in range(n - 1)]
    cf = answer(graph(n, path), ce.EditSet(added=((100, 300),), removed=((100, 101),)), node=100)
    d = shapes.drawing(cf)
    assert d["before"] == [str(v) for v in (*range(98, 104), *range(298, 303))]
    assert d["targets"] == [2]
    assert pairs(d["added"]) == {(2, 8)}
    assert pairs(d["removed"]) == {(2, 3)}
    assert len(d["kept"]) // 2 == 8


def test_answers_to_one_graph_look_alike():
    """Without new edges nodes lie where those of the original do."""
    ring = graph(8, [(i, (i + 1) % 8) for i in range(8)])
    places = [shapes.drawing(answer(ring, ce.EditSet(removed=((k, k + 1),))))["xy"] for k in range(3)]
    assert places[0] == places[1] == places[2]
    chord = shapes.drawing(answer(ring, ce.EditSet(added=((0, 4),))))["xy"]
    assert chord != places[0]
    assert math.dist(chord[:2], chord[8:10]) < math.dist(places[0][:2], places[0][8:10])


# -- molecules -------------------------------------------------------------------------------------------------------


def ethanol(**changes):
    schema = ce.FeatureSchema(ce.FeatureSchema.onehot(["C", "O"]).columns, ("single", "double"))
    x = torch.eye(2)[[0, 0, 1]]
    attr = torch.tensor([[1.0, 0.0]] * 4)
    g = Data(x=x, edge_index=graph(3, [(0, 1), (1, 2)]).edge_index, edge_attr=attr)
    return answer(g, ce.EditSet(removed=((1, 2),)), schema=schema, **changes)


def test_molecules(found, tmp_path):
    pytest.importorskip("rdkit")
    key = found.jobs["key"].iloc[0]
    answers = [Kept(key, "MUTAG", m, ethanol()) for m in ("iRand", "XPlore")]
    r = read(write_page(Collected(found.jobs, found.instances, answers), tmp_path / "page.html"))
    first, second = r.data["answers"]
    assert [(m["name"], m["smiles"], m["note"]) for m in first["molecules"]] == [
        ("Original", "CCO", ""), ("Counterfactual", "CC.O", "")
    ]  # fmt: skip
    assert second["molecules"] == first["molecules"]
    assert first["drawing"]["before"] == ["C", "C", "O"]
    assert len(r.data["pictures"]) == 2  # each kept once
    for uri in r.data["pictures"]:
        svg = base64.b64decode(uri.removeprefix("data:image/svg+xml;base64,")).decode()
        assert svg.startswith("<svg ")
        assert "<path" in svg
        assert not re.search("script|href|foreign|<!|rdkit", svg)


def test_molecules_whose_bonds_are_unknown():
    pytest.importorskip("rdkit")
    cf = ethanol()
    del cf.original.edge_attr, cf.data.edge_attr
    bzr = replace(cf, schema=ce.FeatureSchema.onehot(["label=6", "label=8"]))
    schema = shapes.chemical(bzr)
    assert schema.names == ("C", "O")
    original, _ = shapes.molecules(bzr, schema)
    assert original["smiles"] == "CCO"
    assert "no bond orders" in original["note"]
    assert shapes.drawing(bzr, schema)["before"] == ["C", "C", "O"]


def test_no_molecules():
    g = graph(3, [(0, 1), (1, 2)])
    plain = answer(g, ce.EditSet(removed=((0, 1),)))
    assert shapes.chemical(plain) is None
    assert shapes.chemical(replace(plain, schema=ce.FeatureSchema.onehot(["a"]))) is None
    star = Data(x=torch.ones(7, 1), edge_index=graph(7, [(0, i) for i in range(1, 7)]).edge_index)
    carbon = ce.FeatureSchema.onehot(["C"])
    six = answer(star, ce.EditSet(removed=((0, 1),)), schema=carbon)
    assert shapes.chemical(six) is None  # six bonds to one carbon


def test_without_rdkit(found, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    answers = [Kept(found.jobs["key"].iloc[0], "MUTAG", "iRand", ethanol())]
    r = read(write_page(Collected(found.jobs, found.instances, answers), tmp_path / "page.html"))
    assert r.data["answers"][0]["molecules"] == []
    assert r.data["answers"][0]["drawing"]["before"] == ["C", "C", "O"]


def test_foreign_svg_is_cleaned():
    svg = """<?xml version='1.0'?><!-- a --><svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)' width='3px'
    xmlns:xlink='http://www.w3.org/1999/xlink'><script>alert(2)</script><path d='M 0,0 L 1,1' onclick='x()'
    style='fill:url(http://x)'/><path fill='\\75 rl(//x)'/>
    <a xlink:href='javascript:x'><path d='M 1,1'/></a><foreignObject/><text x='1'>N</text>
    <image href='http://x/y.png'/><style>@import 'x'</style></svg>"""
    assert shapes.sanitised(svg) == (
        '<svg width="3px" xmlns="http://www.w3.org/2000/svg"><path d="M 0,0 L 1,1" /><path /><text x="1">N</text></svg>'
    )
    for bad in ("<!DOCTYPE svg [<!ENTITY a 'b'>]>" + svg[40:], "<html/>", "text", "<svg/>"):
        with pytest.raises(ValueError, match=r"SVG"):
            shapes.sanitised(bad)


def test_limits_are_what_the_docstring_says():
    assert (page.GRAPHS, page.LINES, shapes.MOST_NODES, shapes.MOST_EDGES) == (6, 200, 150, 600)
    assert all(str(v) in write_page.__doc__ for v in (6, 200, 150, 600))

"""Bars, looks, and what is written: figures drawn for real, their artists held against means computed here."""

import itertools
import re
import sys
import warnings
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from frames import METHODS, collected
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import counteredge as ce
from counteredge.bench.collect import Collected
from counteredge.metrics import aggregate
from counteredge.report import figures
from counteredge.report.figures import FIGURES, NothingToDraw, styles, write_figures
from counteredge.report.published import paper_value

pytestmark = pytest.mark.filterwarnings("error")

NAMES = [m[3] for m in METHODS]
SLOTS = len(METHODS) + 1.5
MANY = (
    *("Tree-Cycles", "BAShapes", "BZR", "AIDS", "ENZYMES", "Fingerprint", "COLORS-3", "Tree-Grid", "MUTAG", "COX2"),
    *("BBBP", "PROTEINS_full", "COLLAB", "TRIANGLES", "DBLP_v1", "IMDB-BINARY", "TWITTER-Real-Graph-Partial"),
    "MSRC_21",
)


@pytest.fixture(scope="module")
def results():
    return collected()


def named(results, names):
    """The same results under other datasets' names, over and over."""

    def again(frame):
        parts = [
            frame[frame["dataset"] == results.datasets[k % len(results.datasets)]].assign(dataset=name)
            for k, name in enumerate(names)
        ]
        return pd.concat(parts, ignore_index=True)

    answers = [
        replace(kept, dataset=name)
        for k, name in enumerate(names)
        for kept in results.answers
        if kept.dataset == results.datasets[k % len(results.datasets)]
    ]
    return Collected(again(results.jobs), again(results.instances), answers)


def with_methods(results, more):
    """The results of ``XPlore (paper, freedom)`` again as other methods: ``(explainer, preset, features, method)``."""
    tables = []
    for frame in (results.jobs, results.instances):
        base = frame[frame["method"] == "XPlore (paper, freedom)"]
        parts = [
            base.assign(explainer=e, preset=p, features=f, method=m, order=20 + k)
            for k, (e, p, f, m) in enumerate(more)
        ]
        tables.append(pd.concat([frame, *parts], ignore_index=True))
    return Collected(*tables, results.answers)


def of_nodes(results, names=("BAS-node", "MSRC_21-node")):
    out = named(results, names)
    rows = out.instances.assign(node=out.instances["graph"], graph=0)
    return Collected(out.jobs, rows, [])


def bars(axes):
    return [c.patches[0] for c in axes.containers if isinstance(c, BarContainer)]


def whiskers(axes):
    return [c[2][0].get_segments()[0] for c in axes.containers if isinstance(c, ErrorbarContainer)]


def placeholders(axes):
    return [p for p in axes.patches if isinstance(p, Rectangle) and p not in bars(axes)]


def written(axes):
    return [t.get_text() for t in axes.texts]


def slot(x):
    """Which group and which method lie at a place of the axis."""
    group, method = divmod(round(x, 6), SLOTS)
    assert method == int(method)
    return int(group), int(method)


def note(figure):
    return re.sub(r"\s+", " ", figure.get_supxlabel())


# -- bars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["validity", "fidelity"])
def test_bars_are_the_means(results, metric):
    figure = FIGURES[f"{metric}_bars"](results)
    (axes,) = figure.axes
    means = results.instances.groupby(["dataset", "method"])[metric].mean()
    found = {}
    for bar in bars(axes):
        g, m = slot(bar.get_x() + bar.get_width() / 2)
        found[results.datasets[g], NAMES[m]] = bar
    assert set(found) == set(means.index)
    looks = styles(results)
    for key, bar in found.items():
        assert bar.get_y() == 0
        assert bar.get_height() == pytest.approx(means[key], abs=1e-12)
        assert mpl.colors.to_hex(bar.get_facecolor()) == looks[key[1]].colour
        assert (bar.get_hatch() or "") == looks[key[1]].hatch
    # CF2 finds nothing on two datasets: a result, which is written; it failed on the third: none
    assert written(axes).count("0") == sum(v == 0 for v in means)
    assert axes.get_ylabel() == {"validity": "Validity (%)", "fidelity": "Fidelity"}[metric]
    assert [t.get_text() for t in axes.get_xticklabels()] == [f"{d}\nn = 30" for d in results.datasets]


def test_a_missing_result_is_no_zero(results):
    (axes,) = figures.validity_bars(results).axes
    (box,) = placeholders(axes)
    assert slot(box.get_x() + box.get_width() / 2) == (results.datasets.index("MUTAG"), NAMES.index("CF2"))
    assert box.get_hatch()
    red, green, blue, _ = box.get_facecolor()
    assert red == green == blue
    assert box.get_height() > 0.2
    assert written(axes).count("n/a") == 1


def test_whiskers_are_bootstrap_intervals(results):
    (axes,) = figures.validity_bars(results).axes
    wanted = {}
    for (d, m), rows in results.instances.groupby(["dataset", "method"]):
        f = aggregate(torch.tensor(rows["validity"].to_numpy()))
        if f.high > f.low:
            wanted[results.datasets.index(d), NAMES.index(m)] = (f.low, f.high)
    segments = {slot(s[0][0]): (s[0][1], s[1][1]) for s in whiskers(axes)}
    assert segments.keys() == wanted.keys()
    for key, ends in wanted.items():
        assert segments[key] == pytest.approx(ends)
    assert "bootstrap 95 %" in note(axes.figure)


def test_the_papers_figures_are_open_markers(results):
    (axes,) = figures.validity_bars(results).axes
    wanted = set()
    for g, d in enumerate(results.datasets):
        for m, (explainer, preset, features, _) in enumerate(METHODS):
            value = paper_value(explainer, preset, features, d, "validity")
            if value is not None:
                wanted.add((g * SLOTS + m, value))
    assert len(wanted) > 5
    marks = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert {tuple(c.get_offsets()[0]) for c in marks} == wanted
    assert all(mpl.colors.to_hex(c.get_facecolor()[0]) == "#ffffff" for c in marks)
    labels = [t.get_text() for t in axes.figure.legends[0].get_texts()]
    assert labels == [*NAMES, "the paper's figure"]


def test_no_marker_where_the_paper_has_nothing(results):
    other = named(results, ["my own", "yours"])
    (axes,) = figures.validity_bars(other).axes
    assert [t.get_text() for t in axes.figure.legends[0].get_texts()] == NAMES


def test_many_datasets_go_on_in_the_next_row(results):
    many = named(results, MANY)
    figure = figures.validity_bars(many)
    assert len(figure.axes) > 1
    ticks = [t.get_text().replace("\n", " ") for a in figure.axes for t in a.get_xticklabels()]
    assert [t.split(" n =")[0].replace("- ", "-") for t in ticks] == list(MANY)
    assert sum(len(bars(a)) for a in figure.axes) == many.instances.groupby(["dataset", "method"]).ngroups
    assert len({a.get_xlim() for a in figure.axes}) == 1  # bars of one width
    assert len({a.get_ylim() for a in figure.axes}) == 1
    assert figure.get_figwidth() <= 7.3


def test_runtime_is_logarithmic(results):
    (axes,) = figures.runtime_bars(results).axes
    assert axes.get_yscale() == "log"
    rows = results.instances.groupby(["dataset", "method"])["runtime"]
    means, stds = rows.mean().dropna(), rows.std()
    tops = {slot(b.get_x() + b.get_width() / 2): b.get_y() + b.get_height() for b in bars(axes)}
    assert len(tops) == len(means) == len(whiskers(axes))
    bottom = axes.get_ylim()[0]
    reach = {slot(s[0][0]): (s[0][1], s[1][1]) for s in whiskers(axes)}
    for (d, m), mean in means.items():
        key = results.datasets.index(d), NAMES.index(m)
        assert tops[key] == pytest.approx(mean)
        assert reach[key] == pytest.approx((max(mean - stds[d, m], bottom), mean + stds[d, m]))
    assert bottom < means.min()
    assert len(placeholders(axes)) == 3  # of CF2, which found nothing or failed
    assert "machine" in note(axes.figure)
    assert "standard deviation" in note(axes.figure)


def test_datasets_can_be_chosen(results):
    (axes,) = figures.fidelity_bars(results, datasets=["BZR"]).axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["BZR\nn = 30"]
    with pytest.raises(ce.InputError, match="unknown dataset 'BRZ'; did you mean 'BZR'"):
        figures.validity_bars(results, datasets=["BRZ"])


def test_order_of_rows_does_not_matter(results):
    shuffled = Collected(results.jobs, results.instances.sample(frac=1.0, random_state=0), results.answers)
    one, other = (whiskers(figures.validity_bars(r).axes[0]) for r in (results, shuffled))
    assert np.allclose(one, other, atol=0)


def test_nodes(results):
    nodes = of_nodes(results)
    figure = figures.node_bars(nodes)
    assert [a.get_ylabel() for a in figure.axes] == ["Validity (%)", "Fidelity"]
    for axes, metric in zip(figure.axes, ("validity", "fidelity"), strict=True):
        means = nodes.instances.groupby(["dataset", "method"])[metric].mean()
        for bar in bars(axes):
            g, m = slot(bar.get_x() + bar.get_width() / 2)
            assert bar.get_height() == pytest.approx(means[nodes.datasets[g], NAMES[m]], abs=1e-12)
        assert len(bars(axes)) == len(means)
    with pytest.raises(NothingToDraw):
        figures.validity_bars(nodes)
    with pytest.raises(NothingToDraw):
        figures.node_bars(results)


def test_nodes_by_class(results):
    nodes = of_nodes(results)
    label = (nodes.instances["node"] % 11).astype(int).astype(str)
    nodes = Collected(nodes.jobs, nodes.instances.assign(before=label), [])
    figure = figures.node_class_bars(nodes, most=10)
    means = nodes.instances.groupby(["dataset", "before", "method"])["validity"].mean()
    seen, where = 0, None
    for axes in figure.axes:
        where = axes.get_title(loc="left") or where
        groups = [t.get_text().split("\n")[0].removeprefix("class ") for t in axes.get_xticklabels()]
        for bar in bars(axes):
            g, m = slot(bar.get_x() + bar.get_width() / 2)
            assert bar.get_height() == pytest.approx(means[where, groups[g], NAMES[m]], abs=1e-12)
            seen += 1
    kept = means.drop("10", level="before")  # by far not all: 8 and 9 have as few nodes, and come first
    assert seen == len(kept)
    classes = [t.get_text() for a in figure.axes for t in a.get_xticklabels()]
    assert classes[:10] == [f"class {c}\nn = {2 + (c < 8)}" for c in range(10)]
    assert "The 10 classes with the most nodes" in note(figure)


# -- looks -----------------------------------------------------------------------------------------------------------


def test_every_explainer_has_a_look_of_its_own(results):
    from counteredge.explainers import EXPLAINERS

    every = [(name, "paper", "", name) for name in EXPLAINERS if name != "xplore"]
    looks = styles(with_methods(results, every))
    own = [looks[m] for m in looks if m in EXPLAINERS or m.startswith("XPlore")]
    assert len({s.colour for s in own}) == len({str(s.marker) for s in own}) == len(own) == len(EXPLAINERS) + 2
    for control in ("greedy", "nearest", "empty_graph", "complete_graph"):
        c = looks[control].colour
        assert c[1:3] == c[3:5] == c[5:7]
    hue = [mpl.colors.rgb_to_hsv(mpl.colors.to_rgb(looks[m].colour))[0] for m in looks if m.startswith("XPlore")]
    assert max(hue) - min(hue) < 0.06  # one family


def test_a_look_does_not_depend_on_who_else_is_there(results):
    whole = styles(results)
    for m in NAMES:
        alone = Collected(results.jobs[results.jobs["method"] == m], results.instances, [])
        assert styles(alone) == {m: whole[m]}


def test_methods_that_differ_in_options_differ_in_looks(results):
    more = [("xplore", "paper", "freedom", f"XPlore gamma={g}") for g in (0, 0.01, 0.1)]
    more += [("theirs", "paper", "", "Theirs"), ("ours", "paper", "", "Ours"), ("cfgnn", "improved", "", "CF+")]
    looks = styles(with_methods(results, more))
    bar_looks = [(s.colour, s.hatch) for s in looks.values()]
    assert len(set(bar_looks)) == len(bar_looks)


# -- all of them -----------------------------------------------------------------------------------------------------


def calls(results):
    """Every figure with what it can be called with."""
    for name, function in FIGURES.items():
        if name == "projection":
            continue  # has a test of its own
        given = (of_nodes(results),) if name.startswith("node") else (results,)
        if name == "gamma_ablation":
            more = with_methods(results, [("xplore", "paper", "freedom", "XPlore (paper, freedom, gamma=0.01)")])
            more.jobs.loc[more.jobs["method"].str.contains("gamma"), "gamma"] = 0.01
            given = (more,)
        if name == "cases":
            given = (results, results.datasets[0])
        yield name, function, given


def boxes(figure):
    """Where things are that must not lie on one another."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    found = [(f"panel {k}", a.get_tightbbox(renderer)) for k, a in enumerate(figure.axes)]
    found += [("legend", legend.get_window_extent(renderer)) for legend in figure.legends]
    if figure.get_supxlabel():
        found.append(("note", figure._supxlabel.get_window_extent(renderer)))
    return found


def test_every_figure_can_be_read_in_print(results, tmp_path):
    more = [("clear", "paper", "", "CLEAR"), ("rsggce", "paper", "", "RSGG-CE"), ("d4explainer", "paper", "", "D4")]
    more += [("xplore", "paper", "gating", "XPlore (paper, gating)"), ("meg", "paper", "", "MEG")]
    two = [f[f["method"].isin(["CF-GNNExplainer", "XPlore"])] for f in (results.jobs, results.instances)]
    narrow = named(Collected(*two, []), MANY)
    for name in ("validity_bars", "ged_violins"):
        _readable(name, FIGURES[name](narrow), "narrow", tmp_path)
    for tag, given in (("few", results), ("many", named(with_methods(results, more), MANY))):
        for name, function, args in calls(given):
            _readable(name, function(*args), tag, tmp_path)


def _readable(name, figure, tag, folder):
    """Nothing is too small, off the page, or on something else."""
    figure.savefig(folder / f"{name}-{tag}.png", dpi=figure.dpi)
    assert (folder / f"{name}-{tag}.png").stat().st_size > 4000, name
    for text in figure.findobj(Text):
        assert not text.get_text() or text.get_fontsize() >= 7, (name, text)
    found = boxes(figure)
    for k, (what, box) in enumerate(found):
        assert box.x0 > -1.5, (name, tag, what)
        assert box.x1 < figure.bbox.x1 + 1.5, (name, tag, what)
        for other, there in found[:k]:
            wide = min(box.x1, there.x1) - max(box.x0, there.x0)
            high = min(box.y1, there.y1) - max(box.y0, there.y0)
            assert min(wide, high) < 2.5, (name, tag, what, other)
    for axes in figure.axes:
        _ticks_apart(axes, name, tag)


def _ticks_apart(axes, name, tag):
    renderer = axes.figure.canvas.get_renderer()
    spots = [t.get_window_extent(renderer) for t in axes.get_xticklabels() if t.get_text() and t.get_visible()]
    spots = sorted((s for s in spots if s.width > 0), key=lambda s: s.x0)
    for one, other in itertools.pairwise(spots):
        assert other.x0 - one.x1 > -0.5, (name, tag)


def test_hostile_names_are_only_text(results, tmp_path):
    evil = {"Tree-Cycles": "../../$x_{$<script>", "MUTAG": "$", "BZR": "日a"}
    tables = [f.assign(dataset=f["dataset"].map(evil)) for f in (results.jobs, results.instances)]
    for frame in tables:
        frame["method"] = frame["method"].replace({"iRand": r"$\frac$", "XPlore": "a_b^c{$"})
    answers = [replace(k, dataset=evil[k.dataset]) for k in results.answers]
    given = Collected(*tables, answers)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        paths = write_figures(given, tmp_path, formats=["png"])
    assert all(p.parent == tmp_path / "figures" for p in paths)
    assert all(re.fullmatch(r"[a-z0-9_-]+\.png", p.name) for p in paths)
    assert len(set(paths)) == len(paths)


# -- writing ---------------------------------------------------------------------------------------------------------


def test_what_is_written_and_what_is_not(results, tmp_path):
    paths = write_figures(results, tmp_path, formats=["png"])
    names = [p.name for p in paths]
    assert names[:3] == ["validity_bars.png", "fidelity_bars.png", "ged_against_cs.png"]
    assert "embedder_heatmap.png" in names
    assert {"cases-tree-cycles.png", "cases-mutag.png", "embedder_heatmap-bzr.png"} <= set(names)
    assert not any(n.startswith(("node", "gamma", "projection")) for n in names)
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == sorted(names)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)


def test_the_same_data_give_the_same_bytes(results, tmp_path):
    few = ("CF-GNNExplainer", "XPlore (paper, edges only)", "XPlore")
    tables = [f[(f["dataset"] == "BZR") & f["method"].isin(few)] for f in (results.jobs, results.instances)]
    small = Collected(*tables, [k for k in results.answers if k.dataset == "BZR" and k.method in few])
    kinds = ("png", "pdf", "svg")
    one, other = (write_figures(small, tmp_path / name, formats=kinds) for name in ("a", "b"))
    assert len(one) == len(other) >= 3 * 8
    for a, b in zip(one, other, strict=True):
        assert a.name == b.name
        assert a.read_bytes() == b.read_bytes(), a.name
        assert not re.search(rb"CreationDate|Matplotlib v|<dc:date>", a.read_bytes()), a.name
    alone = write_figures(small, tmp_path / "c", formats=["pdf"])
    assert [p.read_bytes() for p in alone] == [p.read_bytes() for p in one if p.suffix == ".pdf"]


def test_no_global_state_is_left(results, tmp_path):
    import matplotlib.pyplot as plt

    before, state = dict(mpl.rcParams), torch.get_rng_state()
    figures.cs_violins(results).savefig(tmp_path / "a.png")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []
    assert torch.equal(torch.get_rng_state(), state)


def test_without_matplotlib_every_figure_says_what_to_install(results, monkeypatch):
    given = [(name, function, args) for name, function, args in calls(results) if name != "projection"]
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for _, function, args in given:
        with pytest.raises(ce.CapabilityError, match=r"drawing needs matplotlib: pip install 'counteredge\[viz\]'"):
            function(*args)


def test_unknown_formats_are_refused(results, tmp_path):
    with pytest.raises(ce.InputError, match="unknown format 'jpg' of figures; known: png, pdf, svg"):
        write_figures(results, tmp_path, formats=["png", "jpg"])
    assert not (tmp_path / "figures").exists()
    (tmp_path / "figures").write_text("in the way")
    with pytest.raises(ce.InputError, match="cannot be made a folder for figures"):
        write_figures(results, tmp_path)


def test_a_sweep_that_failed_has_no_figures(results, tmp_path):
    none = Collected(
        results.jobs.assign(status="failed", found=0, graphs=0),
        pd.DataFrame(columns=["dataset", "method", "graph", "found"]),
        [],
    )
    assert write_figures(none, tmp_path) == []
    for name, function in FIGURES.items():
        given = {"cases": ("BZR",), "projection": ("BZR", [])}.get(name, ())
        with pytest.raises(NothingToDraw):
            function(none, *given)

"""Violins, scatters, heat maps, stages, drawings and maps: their artists against the data."""

import re
import sys
from collections import Counter
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from frames import METHODS, collected, graph, real_answers
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.container import BarContainer
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation

import counteredge as ce
from counteredge.bench.collect import Collected, Kept
from counteredge.draw import ADDED, CHANGED, REMOVED
from counteredge.metrics import METRICS
from counteredge.report import figures
from counteredge.report.figures import NothingToDraw, styles, write_figures

pytestmark = pytest.mark.filterwarnings("error")

NAMES = [m[3] for m in METHODS]
EMBEDDERS = [n for n in METRICS if n.startswith("cs_")]


@pytest.fixture(scope="module")
def results():
    return collected()


def changed(results, **columns):
    return Collected(results.jobs, results.instances.assign(**columns), results.answers)


def means(results, metric):
    return results.instances.groupby(["dataset", "method"])[metric].mean().dropna()


def texts(axes):
    return [t.get_text() for t in axes.texts]


def labels(axes, which="x"):
    ticks = axes.get_xticklabels() if which == "x" else axes.get_yticklabels()
    return [t.get_text() for t in ticks]


def note(figure):
    return re.sub(r"\s+", " ", figure.get_supxlabel())


def drawn(figure, path):
    figure.savefig(path)
    assert path.stat().st_size > 4000
    return figure


# -- GED against CS --------------------------------------------------------------------------------------------------


def test_ged_against_cs(results, tmp_path):
    figure = drawn(figures.ged_against_cs(results), tmp_path / "a.png")
    panels, strips = figure.axes[::2], figure.axes[1::2]
    ged, cs = means(results, "ged"), means(results, "cosine_similarity")
    count = results.instances.groupby(["dataset", "method"])["found"].sum()
    looks = styles(results)
    assert [a.get_title() for a in panels] == results.datasets
    assert len({a.get_ylim() for a in panels}) == 1
    for axes, below, d in zip(panels, strips, results.datasets, strict=True):
        assert axes.get_xscale() == "log"
        found = {}
        for marker in axes.collections:
            (at,) = marker.get_offsets().tolist()
            found[mpl.colors.to_hex(marker.get_facecolor()[0])] = at
        assert found.keys() == {looks[m].colour for m in NAMES if (d, m) in ged}
        for m in NAMES:
            if (d, m) in ged:
                assert found[looks[m].colour] == pytest.approx([ged[d, m], cs[d, m]])
        assert labels(below) == [str(n) if (n := count.get((d, m), 0)) else "–" for m in NAMES]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == NAMES
    assert "mean over 10 embedders" in note(figure)


def test_without_similarities_there_is_no_such_figure(results):
    with pytest.raises(NothingToDraw):
        figures.ged_against_cs(changed(results, cosine_similarity=np.nan))
    some = changed(results)
    some.instances.loc[some.instances["dataset"] == "BZR", "cosine_similarity"] = np.nan
    assert [a.get_title() for a in figures.ged_against_cs(some).axes[::2]] == ["Tree-Cycles", "MUTAG"]


# -- violins ---------------------------------------------------------------------------------------------------------


def bodies(axes):
    return [c for c in axes.collections if isinstance(c, PolyCollection)]


@pytest.mark.parametrize(("name", "metric"), [("cs_violins", "cosine_similarity"), ("ged_violins", "ged")])
def test_violins(results, tmp_path, name, metric):
    figure = drawn(figures.FIGURES[name](results), tmp_path / "a.png")
    looks = styles(results)
    for axes, d in zip(figure.axes, results.datasets, strict=True):
        assert axes.get_title() == d
        assert axes.get_yscale() == ("log" if metric == "ged" else "linear")
        rows = results.instances[results.instances["dataset"] == d]
        values = [rows.loc[rows["method"] == m, metric].dropna().to_numpy() for m in NAMES]
        assert labels(axes) == [str(len(v)) for v in values]
        assert all(len(v) == 0 or len(v) >= 5 for v in values)
        found = {mpl.colors.to_hex(b.get_facecolor()[0]): b.get_paths()[0].vertices for b in bodies(axes)}
        assert found.keys() == {looks[m].colour for m, v in zip(NAMES, values, strict=True) if len(v)}
        medians = [c.get_offsets().tolist()[0] for c in axes.collections if isinstance(c, PathCollection)]
        wanted = [[x, np.median(v)] for x, v in enumerate(values) if len(v)]
        assert np.allclose(medians, wanted)
        for m, v in zip(NAMES, values, strict=True):
            if len(v):  # not beyond the data
                high = found[looks[m].colour][:, 1]
                assert (high.min(), high.max()) == pytest.approx((v.min(), v.max()))
        low, high = axes.get_ylim()
        every = np.concatenate(values)
        assert low < every.min() < every.max() < high
        assert texts(axes) == ["n/a"] * sum(len(v) == 0 for v in values)


def test_few_values_are_points_and_no_distance_is_left_out(results, tmp_path):
    rows = results.instances.copy()
    mine = rows[(rows["method"] == "XPlore") & (rows["dataset"] == "BZR")].index
    rows.loc[mine, "ged"] = [3.0, 5.0, 8.0, 0.0, 0.0, *[np.nan] * 25]
    other = rows[(rows["method"] == "iRand") & (rows["dataset"] == "BZR")].index
    rows.loc[other, "ged"] = [7.0] * 30  # all alike
    axes = drawn(figures.ged_violins(Collected(results.jobs, rows, [])), tmp_path / "a.png").axes[2]
    assert labels(axes)[NAMES.index("XPlore")] == "3"
    gold = styles(results)["XPlore"].colour
    assert gold not in {mpl.colors.to_hex(b.get_facecolor()[0]) for b in bodies(axes)}
    (points,) = (
        c for c in axes.collections
        if isinstance(c, PathCollection) and mpl.colors.to_hex(c.get_facecolor()[0]) == gold
    )  # fmt: skip
    assert points.get_offsets()[:, 1].tolist() == [3, 5, 8]
    assert len(set(points.get_offsets()[:, 0].tolist())) == 3
    assert "left out: 2." in note(axes.figure)
    with pytest.raises(NothingToDraw):
        figures.ged_violins(changed(results, ged=0.0))


# -- ablations -------------------------------------------------------------------------------------------------------


def with_gammas(results, gammas=(0.1, 0.01)):
    tables = []
    for frame in (results.jobs, results.instances):
        base = frame[frame["method"] == "XPlore (paper, freedom)"]
        parts = [base.assign(method=f"XPlore (paper, freedom, gamma={g})", order=20 + k) for k, g in enumerate(gammas)]
        if frame is results.jobs:
            parts = [part.assign(gamma=g) for part, g in zip(parts, gammas, strict=True)]
        tables.append(pd.concat([frame, *parts], ignore_index=True))
    rng = np.random.default_rng(5)
    rows = tables[1]
    mine = rows["method"].str.contains("gamma") & rows["found"]
    rows.loc[mine, "ged"] = rng.uniform(1, 9, mine.sum())
    return Collected(*tables, [])


def test_gamma(results, tmp_path):
    given = with_gammas(results)
    figure = drawn(figures.gamma_ablation(given), tmp_path / "a.png")
    names = ["validity", "fidelity", "edit_ratio", "ged", "cosine_similarity", "oracle_calls", "runtime"]
    # of three the one that has no gamma in its name is the first by size
    methods = [f"XPlore (paper, freedom{g})" for g in ("", ", gamma=0.01", ", gamma=0.1")]
    titles = [re.sub(r"\s", " ", a.get_title()) for a in figure.axes]
    assert titles[0] == "Validity ↑"
    assert titles == [f"{METRICS[n].title} {'↑' if METRICS[n].direction == 'higher' else '↓'}" for n in names]
    for axes, name in zip(figure.axes, names, strict=True):
        wanted = means(given, name)
        heights = [c.patches[0].get_height() for c in axes.containers if isinstance(c, BarContainer)]
        assert heights == pytest.approx([wanted["Tree-Cycles", m] for m in methods])
        assert axes.get_ylim()[0] == 0
    assert [t.get_text() for t in figure.legends[0].get_texts()] == methods
    assert note(figure).startswith("Tree-Cycles.")


def test_gamma_elsewhere_of_others_and_of_none(results):
    figure = figures.gamma_ablation(results, "BZR", methods=["XPlore", "CF-GNNExplainer"], metrics=["ged"])
    (axes,) = figure.axes
    wanted = means(results, "ged")
    heights = [c.patches[0].get_height() for c in axes.containers if isinstance(c, BarContainer)]
    assert heights == pytest.approx([wanted["BZR", "CF-GNNExplainer"], wanted["BZR", "XPlore"]])  # the sweep's order
    (axes,) = figures.gamma_ablation(results, "BZR", methods=["CF2", "XPlore"], metrics=["ged"]).axes
    assert texts(axes) == ["n/a"]
    with pytest.raises(NothingToDraw, match="no two methods differ in gamma alone"):
        figures.gamma_ablation(results)
    with pytest.raises(NothingToDraw, match="no result of CF2 on MUTAG"):
        figures.gamma_ablation(results, "MUTAG", methods=["CF2"])
    with pytest.raises(ce.InputError, match="'gde' is no metric"):
        figures.gamma_ablation(results, methods=["XPlore"], metrics=["gde"])


def test_variants(results, tmp_path):
    rows = results.instances.copy()
    mine = (rows["method"] == "XPlore") & (rows["dataset"] == "BZR")
    rows.loc[mine, "validity"] = 0.0  # so that another one is the best
    results = Collected(results.jobs, rows, [])
    figure = drawn(figures.variant_ablation(results), tmp_path / "a.png")
    axes = figure.axes[0]
    columns = ["XPlore (paper, edges only)", "XPlore (paper, freedom)", "XPlore", "CF-GNNExplainer"]
    assert [t.replace("\n", " ").replace("- ", "-") for t in labels(axes)] == columns
    assert labels(axes, "y") == [f"{d}\nn = 30" for d in results.datasets]
    wanted = means(results, "validity")
    table = np.asarray(axes.images[0].get_array())
    assert table == pytest.approx(np.array([[wanted[d, m] for m in columns] for d in results.datasets]))
    for text in axes.texts:
        j, i = text.get_position()
        d, m = results.datasets[i], columns[j]
        assert text.get_text().split("\n")[0] == f"{100 * wanted[d, m]:.1f}"
        best = wanted[d, m] == max(wanted[d, c] for c in columns)
        assert (text.get_fontweight() == "bold") == best
    mutag = axes.texts[len(columns) + 1].get_text()
    assert mutag.endswith("\n(67.5)")  # the paper's


def test_a_variant_without_results_is_hatched(results):
    kept = ~((results.instances["dataset"] == "BZR") & (results.instances["method"] == "XPlore"))
    axes = figures.variant_ablation(Collected(results.jobs, results.instances[kept], [])).axes[0]
    hatched = [p for p in axes.patches if isinstance(p, Rectangle) and p.get_hatch()]
    assert [(p.get_x(), p.get_y()) for p in hatched] == [(1.5, 1.5)]
    assert texts(axes).count("n/a") == 1
    only = results.jobs["method"].isin(["XPlore", "iRand"])
    with pytest.raises(NothingToDraw):
        figures.variant_ablation(Collected(results.jobs[only], results.instances, []))


@pytest.mark.parametrize("dataset", [None, "MUTAG"])
def test_embedders(results, tmp_path, dataset):
    figure = drawn(figures.embedder_heatmap(results, dataset), tmp_path / "a.png")
    axes = figure.axes[0]
    rows = results.instances if dataset is None else results.instances[results.instances["dataset"] == dataset]
    wanted = rows.groupby("method")[["cosine_similarity", *EMBEDDERS]].mean().dropna()
    methods = [m for m in NAMES if m in wanted.index]
    assert "CF2" not in methods
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(wanted.loc[methods].to_numpy())
    counts = rows.groupby("method")["found"].sum()
    assert labels(axes, "y") == [f"{m}\nn = {counts[m]}" for m in methods]
    assert labels(axes)[:2] == ["mean of all", "FEATHER-G"]
    assert texts(axes)[0] == f"{wanted.loc[methods[0], 'cosine_similarity']:.3f}"


# -- stages ----------------------------------------------------------------------------------------------------------


def test_stages(results, tmp_path):
    rows = results.instances.copy()
    rows.loc[rows["method"] == "iRand", "stage"] = "greedy-1"  # of one stage only
    mine = rows[(rows["method"] == "XPlore") & (rows["dataset"] == "BZR")].index
    stages = ["greedy-1"] * 10 + ["greedy-7"] * 4 + ["greedy-12"] * 2 + ["their own"] * 4 + ["none"] * 10
    rows.loc[mine, "stage"] = stages
    rows.loc[mine, "found"] = [True] * 20 + [False] * 10
    given = Collected(results.jobs, rows, [])
    figure = drawn(figures.stage_bars(given), tmp_path / "a.png")
    shown = [a.get_title().replace("\n", " ") for a in figure.axes]
    assert shown == [m for m in NAMES if m not in ("iRand", "CF2")]
    axes = figure.axes[shown.index("XPlore")]
    legend = figure.legends[0]
    colour = {
        t.get_text(): mpl.colors.to_hex(h.get_facecolor())
        for t, h in zip(legend.get_texts(), legend.legend_handles, strict=True)
        if isinstance(h, Patch)
    }
    assert len(set(colour.values())) == len(colour)
    of = {v: k for k, v in colour.items()}
    for y, d in enumerate(results.datasets):
        found = {
            of[mpl.colors.to_hex(p.get_facecolor())]: p.get_width()
            for c in axes.containers
            for p in c.patches
            if round(p.get_y() + p.get_height() / 2) == y
        }
        part = rows[(rows["method"] == "XPlore") & (rows["dataset"] == d)]
        wanted = Counter(s if f else "not found" for s, f in zip(part["stage"], part["found"], strict=True))
        if d == "BZR":
            wanted = {"greedy-1": 10, "greedy-3 or more": 6, "their own": 4, "not found": 10}
        assert found == pytest.approx({k: v / 30 for k, v in wanted.items()})
    assert texts(axes) == ["30"] * 3
    (hatched,) = [h for h in legend.legend_handles if h.get_hatch()]
    assert of[mpl.colors.to_hex(hatched.get_facecolor())] == "not found"
    only = figures.stage_bars(given, methods=["iRand"])  # asked for
    assert [a.get_title() for a in only.axes] == ["iRand"]
    assert labels(only.axes[0], "y") == results.datasets
    with pytest.raises(NothingToDraw):
        figures.stage_bars(changed(results, stage="descent"))


# -- drawings --------------------------------------------------------------------------------------------------------


def edges(axes, colour):
    """Ends of the edges of a colour."""
    return [
        np.asarray(s)
        for c in axes.collections
        if isinstance(c, LineCollection)
        for s, e in zip(c.get_segments(), np.resize(c.get_edgecolor(), (len(c.get_segments()), 4)), strict=True)
        if mpl.colors.to_hex(e) == colour
    ]


def nodes(axes):
    (circles,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    return circles


def test_cases(results, tmp_path):
    figure = drawn(figures.cases(results, "Tree-Cycles"), tmp_path / "a.png")
    per_graph = len(NAMES) + 1
    assert len(figure.axes) == 2 * per_graph
    assert texts_of(figure.axes[0]) == "original graph 0 class 1"
    assert texts_of(figure.axes[per_graph]) == "original graph 1 class 0"
    kept = {(k.counterfactual.index, k.method): k.counterfactual for k in results.answers if k.dataset == "Tree-Cycles"}
    for g in (0, 1):
        original, *others = figure.axes[g * per_graph : (g + 1) * per_graph]
        place = np.asarray(nodes(original).get_offsets())
        assert not edges(original, ADDED)
        assert not edges(original, REMOVED)
        for axes, m in zip(others, NAMES, strict=True):
            cf = kept[g, m]
            assert np.array_equal(nodes(axes).get_offsets(), place)
            assert (axes.get_xlim(), axes.get_ylim()) == (original.get_xlim(), original.get_ylim())
            for colour, pairs in ((ADDED, cf.edits.added), (REMOVED, cf.edits.removed)):
                got = {frozenset(map(tuple, s.round(9))) for s in edges(axes, colour)}
                assert got == {frozenset(tuple(place[v].round(9)) for v in p) for p in pairs}
            end = "not found" if not cf.found else f"1 edit → class {cf.after.label}"
            assert texts_of(axes) == f"{m} {end}"
    assert {t.get_text() for t in figure.legends[0].get_texts()} >= {"edge added", "edge removed", "node changed"}


def texts_of(axes):
    return axes.get_title().replace("\n", " ")


def test_removed_edges_are_dashed_and_added_ones_wide(results):
    figure = figures.cases(results, "Tree-Cycles", methods=["XPlore"])
    looks = {}
    for axes in figure.axes:
        for c in axes.collections:
            if isinstance(c, LineCollection) and len(c.get_segments()):
                looks[mpl.colors.to_hex(c.get_edgecolor()[0])] = (c.get_linestyle()[0][1], c.get_linewidth()[0])
    (kept,) = looks.keys() - {ADDED, REMOVED}
    assert looks[ADDED][0] is None
    assert looks[REMOVED][0] is not None
    assert looks[ADDED][1] > 1.3 * looks[kept][1]


def answer(edits, g, index=0, found=True, **changes):
    """A counterfactual with given edits."""
    cf = real_answers()[0]
    data = edits.apply(g) if found else None
    return replace(cf, index=index, original=g, data=data, edits=edits, found=found, **changes)


def kept_as(results, answers, dataset="BZR"):
    kept = [Kept("k", dataset, m, cf) for m, cf in answers]
    return Collected(results.jobs, results.instances, kept)


def test_changed_and_new_nodes_are_drawn(results, tmp_path):
    g = graph(6, [(i, i + 1) for i in range(5)])
    change = ce.FeatureEdit(2, (0,), (1.0,), (0.0,))
    one = answer(ce.EditSet(features=(change,)), g)
    two = answer(ce.EditSet(added=((0, 6),), new_nodes=((1.0,),), nodes=6), g)
    far = answer(ce.EditSet(added=tuple((i, j) for i in range(6) for j in range(i + 2, 6))), g)
    given = kept_as(results, [("iRand", one), ("CF-GNNExplainer", two), ("XPlore", far)])
    figure = drawn(figures.cases(given, "BZR"), tmp_path / "a.png")
    original, first, second, third = figure.axes
    rings = [mpl.colors.to_hex(c) for c in nodes(first).get_edgecolor()]
    assert [k for k, c in enumerate(rings) if c == CHANGED] == [2]
    assert CHANGED not in [mpl.colors.to_hex(c) for c in nodes(original).get_edgecolor()]
    assert [len(nodes(a).get_offsets()) for a in figure.axes] == [6, 6, 7, 6]
    place = np.asarray(nodes(original).get_offsets())
    assert np.array_equal(nodes(second).get_offsets()[:6], place)
    assert len(edges(third, ADDED)) == 10
    assert len({(a.get_xlim(), a.get_ylim()) for a in figure.axes}) == 1
    # an answer that fills the graph does not shape the picture: it is still a path
    assert np.linalg.norm(place[0] - place[5]) > 3 * np.linalg.norm(place[2] - place[3])


def test_cases_of_nodes_show_their_surroundings(results, tmp_path):
    g = graph(200, [(i, i + 1) for i in range(199)])
    one = answer(ce.EditSet(removed=((99, 100),)), g, node=100)
    two = answer(ce.EditSet(added=((100, 180),)), g, node=100)
    figure = drawn(figures.cases(kept_as(results, [("iRand", one), ("XPlore", two)]), "BZR"), tmp_path / "a.png")
    assert "node 100" in figure.axes[0].get_title()
    assert len(nodes(figure.axes[0]).get_offsets()) < 20
    assert np.array_equal(nodes(figure.axes[1]).get_offsets(), nodes(figure.axes[2]).get_offsets())
    assert len(edges(figure.axes[2], ADDED)) == 1


def test_cases_that_most_methods_answered_come_first(results):
    g = graph(5, [(i, (i + 1) % 5) for i in range(5)])
    edit = ce.EditSet(removed=((0, 1),))
    answers = [("iRand", answer(edit, g, 7)), ("iRand", answer(edit, g, 3)), ("XPlore", answer(edit, g, 7))]
    answers.append(("XPlore", answer(ce.EditSet(), g, 3, found=False, after=None)))
    figure = figures.cases(kept_as(results, answers), "BZR", 1)
    assert texts_of(figure.axes[0]).startswith("original graph 7")
    assert len(figure.axes) == 3
    with pytest.raises(NothingToDraw):
        figures.cases(kept_as(results, answers[3:]), "BZR")
    with pytest.raises(ce.InputError, match="unknown dataset"):
        figures.cases(results, "bzr2")


# -- maps ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    """Rings and paths of several sizes, with their classes."""
    graphs = []
    for k in range(40):
        n = 5 + k % 20
        ring = [(i, (i + 1) % n) for i in range(n)]
        g = graph(n, ring if k % 2 else ring[:-1])
        g.y = torch.tensor([k % 2])
        graphs.append(g)
    return graphs


@pytest.fixture(scope="module")
def mapped(world):
    """Answers for two of them by three methods, one of which answers a single one."""
    base = collected()
    rows = base.instances.copy()
    rows.loc[(rows["method"] == "XPlore") & (rows["graph"] == 11) & (rows["dataset"] == "BZR"), "class_agreement"] = 0.4
    rows.loc[(rows["method"] == "iRand") & (rows["graph"] == 11) & (rows["dataset"] == "BZR"), "class_agreement"] = (
        np.nan
    )
    cut = [answer(ce.EditSet(removed=((0, 1),)), world[k], k, label_names=("path", "ring")) for k in (11, 21)]
    more = answer(ce.EditSet(removed=((0, 1), (4, 5))), world[11], 11, label_names=("path", "ring"))
    kept = [("iRand", more), ("CF-GNNExplainer", cut[0]), ("XPlore", cut[0]), ("iRand", cut[1]), ("XPlore", cut[1])]
    kept.append(("XPlore", answer(ce.EditSet(removed=((0, 1),)), world[5], 5)))  # by one method only: not shown
    return Collected(base.jobs, rows, [Kept("k", "BZR", m, cf) for m, cf in kept])


def test_projection(mapped, world, tmp_path):
    figure = drawn(figures.projection(mapped, "BZR", world), tmp_path / "a.png")
    panels, strips = figure.axes[::2], figure.axes[1::2]
    assert [a.get_title() for a in panels] == ["graph 11, class 1 ring", "graph 21, class 1 ring"]
    looks = styles(mapped)
    for axes, answered in zip(panels, (["iRand", "CF-GNNExplainer", "XPlore"], ["iRand", "XPlore"]), strict=True):
        sets = [c for c in axes.collections if isinstance(c, PathCollection)]
        clouds, points = [c for c in sets if len(c.get_offsets()) > 1], [c for c in sets if len(c.get_offsets()) == 1]
        assert sum(len(c.get_offsets()) for c in clouds) == 38  # not those whose answers are shown
        assert len(clouds) == 2
        ends = {mpl.colors.to_hex(c.get_facecolor()[0]): c.get_offsets()[0] for c in points}
        assert ends.keys() == {"#ffffff", *(looks[m].colour for m in answered)}
        arrows = [t for t in axes.texts if isinstance(t, Annotation)]
        assert len(arrows) == len(answered)
        for arrow, m in zip(arrows, answered, strict=True):
            assert np.array_equal(arrow.xyann, ends["#ffffff"])
            assert np.array_equal(arrow.xy, ends[looks[m].colour])
        assert np.isfinite(np.concatenate([c.get_offsets() for c in sets])).all()
    assert np.array_equal(panels[0].collections[0].get_offsets(), panels[1].collections[0].get_offsets())  # one map
    rows = mapped.instances[mapped.instances["dataset"] == "BZR"].set_index(["method", "graph"])["class_agreement"]

    def share(m, g):
        return "n/a" if np.isnan(rows[m, g]) else f"{100 * rows[m, g]:.0f}"

    assert labels(strips[0]) == ["n/a", share("CF-GNNExplainer", 11), "40"]
    assert labels(strips[1]) == [share("iRand", 21), "–", share("XPlore", 21)]
    text = note(figure)
    assert "qualitative only" in text
    assert "share (%) of the 15 nearest real graphs" in text
    assert "t-SNE) of 38 graphs" in text
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend == ["class 0 path", "class 1 ring", "original", "iRand", "CF-GNNExplainer", "XPlore"]


def test_equal_answers_lie_together(mapped, world):
    figure = figures.projection(mapped, "BZR", world)
    axes = figure.axes[0]
    sets = [c.get_offsets() for c in axes.collections if isinstance(c, PathCollection)]
    ends = [np.asarray(s[0]) for s in sets if len(s) == 1]
    cut, same = ends[1], ends[2]  # of CF-GNNExplainer and XPlore
    spread = np.ptp(np.concatenate([s for s in sets if len(s) > 1]), axis=0).max()
    assert np.linalg.norm(cut - same) < 0.1 * spread


def test_projection_is_evenly_thinned_and_the_same_every_time(mapped, world):
    def cloud():
        axes = figures.projection(mapped, "BZR", world, most=12).axes[0]
        return np.concatenate([c.get_offsets() for c in axes.collections if len(c.get_offsets()) > 1])

    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global one must not be touched
    one, other = cloud(), cloud()
    assert len(one) == 12
    assert np.array_equal(one, other)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_projection_needs_two_methods_and_some_graphs(mapped, world):
    with pytest.raises(NothingToDraw, match="kept answers of two methods"):
        figures.projection(mapped, "BZR", world, methods=["XPlore"])
    with pytest.raises(NothingToDraw, match="needs more graphs"):
        figures.projection(mapped, "BZR", world[:2])


def test_projection_without_scikit_learn_says_what_to_install(mapped, world, monkeypatch):
    for name in ("sklearn", "sklearn.decomposition", "sklearn.manifold"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ce.CapabilityError, match=r"need scikit-learn: pip install 'counteredge\[bench\]'"):
        figures.projection(mapped, "BZR", world)


def test_projections_are_written_for_the_graphs_given(mapped, world, tmp_path):
    small = Collected(mapped.jobs, mapped.instances, mapped.answers)
    paths = write_figures(small, tmp_path, formats=["png"], graphs={"BZR": world})
    assert [p.name for p in paths if p.name.startswith("projection")] == ["projection-bzr.png"]

"""The paper's figures as package data: what is in the file, which figure stands beside one of ours."""

import csv
from importlib import resources
from pathlib import Path

import pytest

from counteredge.datasets.registry import REGISTRY
from counteredge.errors import InputError
from counteredge.explainers import EXPLAINERS
from counteredge.metrics import METRICS
from counteredge.report.published import contradictions, paper_value, published, published_std

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "paper"
NAMES = {
    "TCR": "Tree-Cycles", "TG": "Tree-Grid", "BAS": "BAShapes", "DBLP": "DBLP_v1", "IMDB": "IMDB-BINARY",
    "MSRC": "MSRC_21", "PROTEINS": "PROTEINS_full", "TWITTER": "TWITTER-Real-Graph-Partial",
    "CF-GNNExplainer": "cfgnn", "CF2": "cf2", "CLEAR": "clear", "D4Explainer": "d4explainer", "RSGG-CE": "rsggce",
    "XPlore": "xplore", "iRand": "irand",
    "validity_percent": "validity", "sparsity": "edit_ratio", "oracle_calls": "calls_forward",
    "XPlore edges only": ("xplore", ""), "XPlore gating": ("xplore", "gating"),
    "XPlore freedom": ("xplore", "freedom"),
}  # fmt: skip


def rows():
    text = resources.files("counteredge.report").joinpath("published.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def test_every_name_is_one_of_ours():
    for row in rows():
        assert row["dataset"] in REGISTRY
        assert row["explainer"] in EXPLAINERS
        assert row["metric"] in METRICS
        assert row["features"] in ("", "gating", "freedom")


def test_every_figure_is_there_once():
    keys = [tuple(row[k] for k in ("table", "dataset", "explainer", "features", "metric")) for row in rows()]
    assert len(set(keys)) == len(keys) == 18 * 7 * 2 + 18 * 7 * 4 + 14 * 4
    for row in rows():
        if row["metric"] in ("validity", "fidelity"):
            assert 0 <= float(row["mean"]) <= 1


@pytest.mark.parametrize("name", ["results", "results_extended"])
def test_the_file_agrees_with_the_papers_tables(name):
    path = FOLDER / f"table_{name}.csv"
    if not path.is_file():
        pytest.skip("the paper's tables are not on this machine")
    table = {"results": "main", "results_extended": "extended"}[name]
    compared = 0
    for row in csv.DictReader(path.open()):
        dataset = NAMES.get(row["dataset"], row["dataset"])
        explainer, metric = NAMES[row["explainer"]], NAMES.get(row["metric"], row["metric"])
        features = "freedom" if explainer == "xplore" else ""
        scale = 100 if metric == "validity" else 1
        for column, read in (("mean", published), ("std", published_std)):
            got = read(dataset, explainer, metric, features, table)
            assert got == (pytest.approx(float(row[column]) / scale) if row[column] else None), row
            compared += 1
    assert compared == 2 * {"main": 252, "extended": 504}[table]


def test_the_file_agrees_with_the_papers_ablation():
    path = FOLDER / "table_ablation.csv"
    if not path.is_file():
        pytest.skip("the paper's tables are not on this machine")
    for row in csv.DictReader(path.open()):
        explainer, features = ("cfgnn", "") if row["variant"] == "CF-GNNExplainer" else NAMES[row["variant"]]
        dataset = NAMES.get(row["dataset"], row["dataset"])
        got = published(dataset, explainer, "validity", features, "ablation")
        assert got == pytest.approx(float(row["validity_percent"]) / 100)


def test_figures_as_printed():
    assert published("MUTAG", "irand", "validity") == 0.0266
    assert published("Tree-Cycles", "xplore", "edit_ratio", "freedom") == 2.708
    assert published_std("Tree-Cycles", "xplore", "edit_ratio", "freedom") == 0.906
    assert published("Tree-Grid", "irand", "calls_forward") == 69.177
    assert published_std("Tree-Cycles", "irand", "validity") == pytest.approx(0.4486)


def test_a_dash_and_what_the_paper_does_not_have_are_none():
    assert published("COLLAB", "rsggce", "edit_ratio") is None  # a dash
    assert published("COLLAB", "rsggce", "validity") == 0
    assert published("MUTAG", "irand", "ged") is None
    assert published("MUTAG", "greedy", "validity") is None
    assert published("no such dataset", "irand", "validity") is None
    assert published_std("Tree-Cycles", "irand", "validity", table="main") is None


def test_the_main_table_comes_first_for_validity_and_fidelity():
    assert published("BAShapes", "d4explainer", "validity") == 0.3516
    assert published("BAShapes", "d4explainer", "validity", table="extended") == 0.4456
    assert published("COLORS-3", "xplore", "fidelity", "freedom") == 0.896
    assert published("COLLAB", "xplore", "validity", "freedom") == 1
    assert published("COLLAB", "xplore", "validity", "freedom", table="ablation") == 0.9338


def test_an_unknown_table_is_refused():
    with pytest.raises(InputError, match="did you mean 'main'"):
        published("MUTAG", "irand", "validity", table="mian")


def test_the_paper_contradicts_itself_four_times():
    assert {(c.dataset, c.explainer, c.metric): (c.main, c.extended) for c in contradictions()} == {
        ("BAShapes", "d4explainer", "validity"): (0.3516, 0.4456),
        ("DBLP_v1", "cfgnn", "validity"): (0.0576, 0.0575),
        ("DBLP_v1", "irand", "fidelity"): (0.06, 0.006),
        ("COLORS-3", "xplore", "fidelity"): (0.896, 0.871),
    }


def test_cfgnn_has_the_same_figures_in_the_ablation_and_the_main_table():
    ablation = {r["dataset"]: r["mean"] for r in rows() if r["table"] == "ablation" and r["explainer"] == "cfgnn"}
    assert len(ablation) == 14
    for dataset, mean in ablation.items():
        assert published(dataset, "cfgnn", "validity", table="main") == pytest.approx(float(mean), abs=6e-5)


def test_xplores_presets_stand_beside_their_own_rows():
    def beside(preset, features, metric="validity"):
        return paper_value("xplore", preset, features, "MUTAG", metric)

    assert beside("paper", "") == 0.45745
    assert beside("paper", "gating") == 0.60106
    assert beside("paper", "freedom") == beside("minimal", "") == 0.6755
    assert beside("paper", "freedom", "fidelity") == beside("minimal", "", "fidelity") == 0.548
    # the ablation has validity alone
    assert beside("paper", "", "fidelity") is None
    assert beside("paper", "gating", "edit_ratio") is None
    assert paper_value("xplore", "paper", "freedom", "MUTAG", "validity", table="ablation") == 0.67553


@pytest.mark.parametrize("explainer", ["greedy", "nearest", "empty_graph", "complete_graph", "combinex"])
def test_methods_that_are_not_in_the_paper_have_no_figure(explainer):
    assert paper_value(explainer, "paper", "", "MUTAG", "validity") is None


def test_legacy_modes_have_no_figure_and_others_do():
    assert paper_value("cfgnn", "legacy_gretel", "", "MUTAG", "validity") is None
    assert paper_value("xplore", "legacy_gretel", "freedom", "MUTAG", "validity") is None
    assert paper_value("cfgnn", "paper", "", "MUTAG", "validity") == 0.1011
    assert paper_value("cfgnn", "improved", "", "MUTAG", "validity") == 0.1011

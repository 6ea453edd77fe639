"""Sweep files: what they stand for, and what they may not say."""

import pytest

import counteredge as ce
from counteredge.bench import Job, RunSpec, parse_sweep, read_sweep
from counteredge.bench.job import title_of

PLAIN = """
title = "Two methods"
datasets = ["TCR", "MUTAG"]
graphs = 10
seeds = [0, 1]

[[method]]
explainer = "irand"

[[method]]
explainer = "xplore"
preset = "paper"
features = "gating"
parts = 2
datasets = ["MUTAG"]
"""


def test_datasets_methods_seeds_and_parts():
    sweep = parse_sweep(PLAIN, "mine")
    assert sweep.name == "mine"
    assert sweep.title == "Two methods"
    told = [(j.spec.dataset, j.method, j.spec.seed, j.part, j.parts, j.order) for j in sweep.jobs]
    irand = [(d, "iRand", s, 0, 1, 0) for d in ("Tree-Cycles", "MUTAG") for s in (0, 1)]
    gating = [("MUTAG", "XPlore (paper, gating)", s, p, 2, 1) for s in (0, 1) for p in (0, 1)]
    assert told == [*irand, *gating]
    assert all(j.graphs == 10 for j in sweep.jobs)
    assert len({j.key for j in sweep.jobs}) == 8


def test_jobs_of_one_dataset_stand_together():
    sweep = parse_sweep(PLAIN.replace('datasets = ["MUTAG"]', ""), "mine")
    datasets = [j.spec.dataset for j in sweep.jobs]
    assert datasets == sorted(datasets, key=["Tree-Cycles", "MUTAG"].index)


def test_parts_of_a_sweep():
    whole = parse_sweep(PLAIN, "mine")
    assert [j.graphs for j in parse_sweep(PLAIN, "mine", graphs=4).jobs] == [4] * 8
    assert [j.graphs for j in parse_sweep(PLAIN, "mine", graphs=40).jobs] == [10] * 8
    some = parse_sweep(PLAIN, "mine", datasets=["mutag"], methods=["xplore"])
    assert {j.method for j in some.jobs} == {"XPlore (paper, gating)"}
    assert {j.key for j in some.jobs} < {j.key for j in whole.jobs}
    assert parse_sweep(PLAIN, "mine", methods=["iRand"]).jobs == [j for j in whole.jobs if j.order == 0]
    # another list of jobs is listed under another name, the same part under the same
    assert some.name != whole.name
    assert some.name == parse_sweep(PLAIN, "mine", datasets=["MUTAG"], methods=["xplore"]).name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("datasets = ['TCR']", r"no \[\[method\]\] table"),
        ("[[method]]\nexplainer = 'irand'", "datasets = "),
        (
            "datasets = ['TCR']\ngraph = 3\n[[method]]\nexplainer = 'irand'",
            "unknown key 'graph'; did you mean 'graphs'",
        ),
        ("datasets = ['TCR']\n[[method]]\nexplaner = 'irand'", "did you mean 'explainer'"),
        ("datasets = ['TRC']\n[[method]]\nexplainer = 'irand'", "did you mean 'TCR'"),
        (
            "datasets = ['TCR']\n[[method]]\nexplainer = 'irnd'",
            "method 1: unknown explainer 'irnd'; did you mean 'irand'",
        ),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\npreset = 'minimal'", "unknown mode of IRand 'minimal'"),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\noptions = { q = 1 }", "unknown option of irand 'q'"),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\nfeatures = 'gating'", "variant of xplore"),
        ("datasets = ['TCR']\n[method]\nexplainer = 'irand'", r"write \[\[method\]\], in double brackets"),
        ("datasets = 'TCR'\n[[method]]\nexplainer = 'irand'", "datasets must be of type list, got 'TCR'"),
        ("datasets = ['TCR']\ngraphs = 2.5\n[[method]]\nexplainer = 'irand'", "graphs must be of type int"),
        ("datasets = ['TCR']\ngraphs = 0\n[[method]]\nexplainer = 'irand'", "graphs must be a whole number >= 1"),
        ("datasets = ['TCR']\ntimeout = 0\n[[method]]\nexplainer = 'irand'", "timeout must be above 0"),
        ("datasets = ['TCR']\nprotocol = 'mine'\n[[method]]\nexplainer = 'irand'", "unknown protocol 'mine'"),
        ("datasets = ['TCR']\n" + "[[method]]\nexplainer = 'irand'\n" * 2, "two methods are called 'iRand'"),
        ("datasets = [", "is no TOML"),
        ("datasets = ['TCR']\n[[method]]\nname = 'irand'", "no explainer: write explainer ="),
        ("datasets = [1]\n[[method]]\nexplainer = 'irand'", "datasets are names, got 1"),
        (
            "datasets = ['TCR']\nseeds = [true]\n[[method]]\nexplainer = 'irand'",
            "seeds must be a list of whole numbers",
        ),
        ("datasets = ['TCR']\nseeds = []\n[[method]]\nexplainer = 'irand'", "seeds must be a list of whole numbers"),
        ("datasets = ['TCR']\nembedders = ['LPD']\n[[method]]\nexplainer = 'irand'", "did you mean 'LDP'"),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\nedits = 'edge'", "edge"),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\nstructural = 'frozn'", "frozn"),
        ("datasets = ['TCR']\n[[method]]\nexplainer = 'irand'\nchemistry = 'valance'", "valance"),
        ("datasets = ['TCR']\ntimeout = inf\n[[method]]\nexplainer = 'irand'", "timeout must be above 0 and below"),
        ("datasets = ['TCR']\nparts = 0\n[[method]]\nexplainer = 'irand'", "parts must be a whole number >= 1"),
        (
            "datasets = ['TCR']\n" + "".join(f"[[method]]\nexplainer = 'irand'\nname = '{n}'\n" for n in "AB"),
            "'A' and 'B' are the same job",
        ),
    ],
)
def test_what_a_sweep_may_not_say(text, told):
    with pytest.raises(ce.InputError, match=told):
        parse_sweep(text, "mine")


def test_unknown_filters_name_what_is_there():
    with pytest.raises(ce.InputError, match=r"unknown dataset of sweep mine 'BZR'.*Tree-Cycles, MUTAG"):
        parse_sweep(PLAIN, "mine", datasets=["BZR"])
    with pytest.raises(ce.InputError, match="did you mean 'iRand'"):
        parse_sweep(PLAIN, "mine", methods=["irnd"])


def test_files_that_are_none(tmp_path):
    with pytest.raises(ce.InputError, match="cannot be read as a sweep file"):
        read_sweep(tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ce.InputError, match="cannot be read as a sweep file"):
        read_sweep(tmp_path / "binary.toml")


def test_the_papers_datasets():
    sweep = parse_sweep("datasets = ['paper']\n[[method]]\nexplainer = 'irand'", "mine")
    assert len(sweep.jobs) == 18
    assert {"MUTAG", "Tree-Cycles", "TWITTER-Real-Graph-Partial", "PROTEINS_full"} < {
        j.spec.dataset for j in sweep.jobs
    }


def test_a_key_is_of_what_results_depend_on():
    job = Job(RunSpec("MUTAG"))
    assert Job(RunSpec("MUTAG"), method="mine", order=3).key == job.key
    others = [
        Job(RunSpec("BZR")), Job(RunSpec("MUTAG", seed=1)), Job(RunSpec("MUTAG", edits="edges")),
        Job(RunSpec("MUTAG"), protocol="paper"), Job(RunSpec("MUTAG"), oracle_seed=1), Job(RunSpec("MUTAG"), graphs=5),
        Job(RunSpec("MUTAG"), parts=2), Job(RunSpec("MUTAG"), part=1, parts=2), Job(RunSpec("MUTAG"), embedders=()),
        Job(RunSpec("MUTAG", options={"iterations": 3})),
    ]  # fmt: skip
    assert len({job.key, *(j.key for j in others)}) == 11
    assert all(Job.from_dict(j.to_dict()) == j and Job.from_dict(j.to_dict()).key == j.key for j in others)


def test_a_key_is_of_the_code(monkeypatch):
    before = Job(RunSpec("MUTAG")).key
    monkeypatch.setattr("counteredge.bench.job.code_version", lambda: "another")
    assert Job(RunSpec("MUTAG")).key != before


def test_titles_say_what_differs():
    assert title_of(RunSpec("MUTAG")) == "XPlore"
    assert title_of(RunSpec("MUTAG", edits="edges")) == "XPlore (edges only)"
    assert title_of(RunSpec("MUTAG", preset="paper")) == "XPlore (paper, edges only)"
    assert title_of(RunSpec("MUTAG", explainer="cfgnn", preset="improved")) == "CF-GNNExplainer (improved)"
    assert title_of(RunSpec("MUTAG", explainer="irand", options={"t": 5})) == "iRand (t=5)"

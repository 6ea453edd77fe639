"""One job: the same whoever runs it and however it is cut, measured as evaluate() does, errors in words."""

import json

import pytest
import torch

import counteredge as ce
from counteredge.bench import Job, RunSpec, run_job
from counteredge.bench import job as module
from counteredge.bench.collect import collect
from counteredge.bench.setting import setting
from counteredge.metrics import METRICS, evaluate

pytestmark = pytest.mark.usefixtures("own_cache")

LDP = ("LDP",)


def lasting(result):
    """What does not depend on the clock."""
    return json.dumps({k: v for k, v in result.items() if k != "timings"})


def joined(results):
    columns = {k: [v for r in results for v in r["columns"][k]] for k in results[0]["columns"]}
    return json.dumps(columns)


@pytest.fixture(scope="module")
def found(own_cache):
    return run_job(Job(RunSpec("Tree-Cycles", preset="paper"), graphs=20, embedders=LDP))


def test_equal_jobs_give_equal_results(found):
    again = run_job(Job(RunSpec("TCR", preset="paper"), graphs=20, embedders=LDP, method="mine"))
    assert json.loads(lasting(found))["columns"] == json.loads(lasting(again))["columns"]
    same = run_job(Job(RunSpec("Tree-Cycles", preset="paper"), graphs=20, embedders=LDP))
    assert lasting(same) == lasting(found)


@pytest.mark.parametrize("explainer", ["xplore", "irand", "nearest"])
def test_parts_make_the_whole(explainer):
    spec = RunSpec("Tree-Cycles", explainer=explainer)
    whole = run_job(Job(spec, graphs=11, embedders=LDP, learn=20))
    parts = [run_job(Job(spec, graphs=11, embedders=LDP, learn=20, part=p, parts=3)) for p in range(3)]
    assert [len(p["columns"]["graph"]) for p in parts] == [3, 4, 4]
    assert joined(parts) == joined([whole])
    assert [a for p in parts for a in p["answers"]] == whole["answers"]


def test_figures_are_those_of_evaluate(found):
    here = setting("Tree-Cycles", "heldout", 0)
    graphs = [here.dataset.graphs[i] for i in found["columns"]["graph"]]
    space = ce.EditSpace(add_edges=True, remove_edges=True, features=False, schema=here.dataset.schema.as_numbers())
    cfs = ce.XPlore("paper").explain(here.oracle.model, graphs, edits=space, progress=False)
    figures = evaluate(cfs, embedders=["LDP"], dataset=here.dataset.graphs[:50], controls=())
    assert [cf.found for cf in cfs] == found["columns"]["found"]
    for name in ("validity", "ged", "edit_ratio", "fidelity", "calls_forward"):
        assert [None if v != v else v for v in figures.values[name].tolist()] == found["columns"][name]
    assert found["columns"]["true_label"] == [int(g.y) for g in graphs]
    assert set(found["columns"]) >= {n for n, m in METRICS.items() if not m.whole and n != "runtime"}
    assert len(found["timings"]["runtime"]) == 20


def test_shrunk_sizes_are_those_of_shrinking(found):
    here = setting("Tree-Cycles", "heldout", 0)
    graphs = [here.dataset.graphs[i] for i in found["columns"]["graph"]]
    space = ce.EditSpace(features=False, schema=here.dataset.schema.as_numbers())
    at_once = ce.XPlore("paper", postprocess="shrink").explain(here.oracle.model, graphs, edits=space, progress=False)
    got = [v for v in found["columns"]["shrunk_ged"] if v is not None]
    assert got == [float(cf.edits.ged) for cf in at_once if cf.found]
    assert sum(got) < sum(v for v in found["columns"]["ged"] if v is not None)
    large = run_job(Job(RunSpec("Tree-Cycles", preset="paper"), graphs=20, embedders=LDP, shrink=0))
    assert set(large["columns"]["shrunk_ged"]) == {None}


def test_drawn_graphs_are_the_same_for_all_and_not_learnt_from():
    here = setting("Tree-Cycles", "heldout", 0)
    drawn = here.drawn(30)
    assert len(set(drawn)) == 30
    assert drawn == sorted(drawn)
    assert drawn == here.drawn(30)
    learnt = here.learnt(30, 100)
    assert len(set(learnt)) == 100
    assert not {g for g, _ in drawn} & set(learnt)
    assert set(learnt) <= {int(i) for i in here.oracle.split["train"]}
    assert here.drawn(None) == [(i, None) for i in range(5000)]
    assert len(here.learnt(None, 100)) == 100  # all graphs are explained: none is left to learn from apart


def test_what_learnt_is_kept_for_other_parts(tmp_path, monkeypatch):
    spec = RunSpec("Tree-Cycles", explainer="rsggce", options={"epochs": 2})
    jobs = [Job(spec, graphs=6, learn=12, embedders=(), part=p, parts=2) for p in range(2)]
    alone = run_job(jobs[1])
    first = run_job(jobs[0], fits=tmp_path)
    monkeypatch.setattr(ce.RSGGCE, "fit", lambda *a, **k: pytest.fail("it has learnt already"))
    second = run_job(jobs[1], fits=tmp_path)
    assert lasting(second) == lasting(alone)
    assert first["fit"] == second["fit"]
    assert first["fit"]["graphs"] == 12
    (weights,) = tmp_path.glob("*.safetensors")
    weights.write_bytes(b"not that")  # damaged: learnt anew
    monkeypatch.undo()
    assert lasting(run_job(jobs[1], fits=tmp_path)) == lasting(alone)


def test_nodes():
    result = run_job(Job(RunSpec("BAS-node", explainer="cfgnn", options={"iterations": 10}), graphs=4, keep=2))
    nodes, graphs = result["columns"]["node"], result["columns"]["graph"]
    here = setting("BAS-node", "heldout", 0)
    truth = [int(here.dataset.graphs[g].y[v]) for g, v in zip(graphs, nodes, strict=True)]
    assert result["columns"]["true_label"] == truth
    assert [a["node"] for a in result["answers"]] == [nodes[0], nodes[-1]]
    assert len(set(nodes)) > 1
    with pytest.raises(ce.InputError, match="graph tasks only"):
        run_job(Job(RunSpec("BAS-node", explainer="rsggce"), graphs=4))


def test_numbers_that_no_answer_may_have(monkeypatch):
    true = module._columns

    def broken(*given):
        columns = true(*given)
        columns["ged"][columns["found"].index(True)] = None
        return columns

    monkeypatch.setattr(module, "_columns", broken)
    with pytest.raises(ValueError, match=r"ged of graph .* is no finite number"):
        run_job(Job(RunSpec("Tree-Cycles"), graphs=4, embedders=()))


def test_pictures_of_the_same_graphs(found):
    other = run_job(Job(RunSpec("Tree-Cycles", explainer="irand"), graphs=20, embedders=LDP))
    assert [a["index"] for a in other["answers"]] == [a["index"] for a in found["answers"]]
    assert len(found["answers"]) == 6


def test_tables_of_results(found):
    ready = {"key": "k", "status": "done", "error": None, "method": "m", "order": 2, **found}
    failed = {**ready, "key": "f", "status": "failed", "error": {"type": "ModelError", "message": "broke"}, "order": 1}
    got = collect([ready, failed])
    assert got.jobs["status"].tolist() == ["failed", "done"]
    assert got.jobs["error"].tolist() == ["ModelError: broke", ""]
    assert got.jobs["found"].tolist() == [0, sum(found["columns"]["found"])]
    assert got.instances["validity"].tolist() == [float(f) for f in found["columns"]["found"]]
    assert got.instances["ged"].isna().tolist() == [not f for f in found["columns"]["found"]]
    assert got.instances["node"].isna().all()
    assert got.jobs["gamma"].tolist() == [0.0, 0.0]
    assert len(got.answers) == 6
    assert {k.method for k in got.answers} == {"m"}
    with pytest.raises(ce.InputError, match="bench run"):
        collect([])


def test_a_job_leaves_the_random_state(found):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    run_job(Job(RunSpec("Tree-Cycles", explainer="irand"), graphs=2, embedders=()))
    assert torch.equal(torch.random.get_rng_state(), before)

"""Sweeps to their end: by every executor the same, whatever dies, fails or hangs on the way."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import counteredge as ce
from counteredge.bench import Job, RunSpec, Store, Where, collect, parse_sweep, run_sweep
from counteredge.bench import work as working
from counteredge.bench.driver import run_jobs, shard_of
from counteredge.report import write_tables

pytestmark = pytest.mark.usefixtures("own_cache")

SWEEP = """
datasets = ["Tree-Cycles"]
graphs = 8
learn = 10
embedders = ["LDP"]

[[method]]
explainer = "irand"

[[method]]
explainer = "xplore"

[[method]]
explainer = "xplore"
preset = "paper"
parts = 2

[[method]]
explainer = "rsggce"
options = { epochs = 2 }

[[method]]
explainer = "empty_graph"
"""
# long enough to be killed in the middle
LONG = SWEEP + "\n".join(
    f'[[method]]\nname = "long {k}"\nexplainer = "cfgnn"\noptions = {{ iterations = {k} }}\n' for k in (80, 81, 82, 83)
)


def sweep(text=SWEEP):
    return parse_sweep(text, "mine")


def lasting(folder):
    """Every result but for its timings, by key."""
    out = {}
    for path in sorted((Path(folder) / "jobs").iterdir()):
        value = json.loads(path.read_text())  # each file is whole
        value.pop("timings")
        out[path.stem] = json.dumps(value)
    return out


def tables(folder, out):
    paths = write_tables(collect(Store(folder).results()), out, timings=False)
    return {p.relative_to(out): p.read_bytes() for p in paths}


@pytest.fixture(scope="module")
def serial(own_cache, tmp_path_factory):
    """What one process makes of the sweep, job by job."""
    folder = tmp_path_factory.mktemp("serial")
    outcome = run_sweep(sweep(), folder, progress=False)
    assert (outcome.jobs, outcome.done, outcome.failed, outcome.kept) == (6, 6, 0, 0)
    return folder


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_every_executor_gives_the_same(serial, kind, tmp_path):
    outcome = run_sweep(sweep(), tmp_path / "s", where=Where(kind, 2), progress=False)
    assert (outcome.done, outcome.failed) == (6, 0)
    assert lasting(tmp_path / "s") == lasting(serial)
    assert tables(tmp_path / "s", tmp_path / "a") == tables(serial, tmp_path / "b")
    threads = {json.loads(p.read_text())["timings"]["pid"] for p in (tmp_path / "s/jobs").iterdir()}
    assert os.getpid() not in threads  # other processes did it


@pytest.mark.parametrize("by", ["address", "scheduler_file"])
def test_a_cluster_that_runs_elsewhere(serial, by, tmp_path):
    """With two threads in its worker, as Dask's workers have unless told otherwise: still one job at a time."""
    with (
        LocalCluster(1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.write_scheduler_file(tmp_path / "scheduler.json")
        said = {"address": cluster.scheduler_address, "scheduler_file": str(tmp_path / "scheduler.json")}[by]
        outcome = run_sweep(sweep(), tmp_path / "s", where=Where("dask", **{by: said}), progress=False)
    assert (outcome.done, outcome.failed) == (6, 0)
    assert lasting(tmp_path / "s") == lasting(serial)


def test_a_scheduler_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("counteredge.bench.executors.WAIT", 1)
    with pytest.raises(ce.InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run_sweep(sweep(), tmp_path, where=Where("dask", address="tcp://127.0.0.1:9"), progress=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
         "--scheduler-file", str(tmp_path / "scheduler.json")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (tmp_path / "scheduler.json").exists():
            assert process.poll() is None
            time.sleep(0.05)
        where = Where("dask", scheduler_file=str(tmp_path / "scheduler.json"))
        with pytest.raises(ce.InputError, match="has no worker after 1 s"):
            run_sweep(sweep(), tmp_path, where=where, progress=False)
    finally:
        process.kill()
        process.wait()


def test_shards_make_the_whole(serial, tmp_path):
    first = run_sweep(sweep(), tmp_path / "s", shard="1/2", progress=False)
    assert (first.jobs, first.done) == (3, 3)
    assert len(Store(tmp_path / "s").status().missing) == 3
    second = run_sweep(sweep(), tmp_path / "s", shard="2/2", progress=False)
    assert (second.jobs, second.done, second.kept) == (3, 3, 0)
    assert lasting(tmp_path / "s") == lasting(serial)
    assert tables(tmp_path / "s", tmp_path / "a") == tables(serial, tmp_path / "b")


def test_nothing_is_done_twice(serial):
    before = {p: p.stat().st_mtime_ns for p in (serial / "jobs").iterdir()}
    outcome = run_sweep(sweep(), serial, progress=False)
    assert (outcome.kept, outcome.done) == (6, 6)
    assert {p: p.stat().st_mtime_ns for p in (serial / "jobs").iterdir()} == before


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2"])
def test_shards_that_are_none(shard):
    with pytest.raises(ce.InputError, match="is not like 1/4"):
        shard_of([], shard)


# -- deaths ----------------------------------------------------------------------------------------------------------


def driver(folder, *words):
    """A driver in a process of its own."""
    file = Path(folder).parent / "mine.toml"
    file.write_text(LONG)
    command = [sys.executable, "-m", "counteredge", "bench", "run", file, "--out", folder, "--quiet", *words]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def at_work(folder, process, *, besides=()):
    """The process that is in the middle of a long job, once there is one."""
    long = {j.key for j in sweep(LONG).jobs if j.method.startswith("long")}
    for _ in range(1200):
        for claim in Store(folder).claimed():
            if claim.key in long and claim.pid not in besides:
                return claim
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("no job was begun within a minute")


@pytest.fixture(scope="module")
def whole(own_cache, tmp_path_factory):
    """The long sweep without a death."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_sweep(sweep(LONG), folder, progress=False).done == 10
    return folder


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_worker_that_is_killed_loses_nothing(whole, kind, tmp_path):
    running = driver(tmp_path / "s", "--executor", kind, "--workers", 2)
    claim = at_work(tmp_path / "s", running)
    os.kill(claim.pid, signal.SIGKILL)
    assert running.wait(timeout=240) == 0, running.stderr.read()
    assert lasting(tmp_path / "s") == lasting(whole)
    assert list((tmp_path / "s/running").iterdir()) == []
    done_by = json.loads(Store(tmp_path / "s").path(claim.key).read_text())["timings"]["pid"]
    assert done_by != claim.pid


def test_a_driver_that_is_killed_goes_on_where_it_was(whole, tmp_path):
    running = driver(tmp_path / "s")
    claim = at_work(tmp_path / "s", running)
    running.kill()
    running.wait()
    there = {p: p.stat().st_mtime_ns for p in (tmp_path / "s/jobs").iterdir()}
    assert 0 < len(there) < 10
    assert Store(tmp_path / "s").path(claim.key) not in there
    outcome = run_sweep(sweep(LONG), tmp_path / "s", progress=False)
    assert (outcome.kept, outcome.done) == (len(there), 10)
    assert {p: p.stat().st_mtime_ns for p in there} == there  # only what was missing ran
    assert lasting(tmp_path / "s") == lasting(whole)


def test_two_drivers_on_one_store(whole, tmp_path):
    first, second = driver(tmp_path / "s"), driver(tmp_path / "s")
    assert (first.wait(timeout=240), second.wait(timeout=240)) == (0, 0), first.stderr.read() + second.stderr.read()
    assert lasting(tmp_path / "s") == lasting(whole)  # ten files, each whole
    pids = {json.loads(p.read_text())["timings"]["pid"] for p in (tmp_path / "s/jobs").iterdir()}
    assert pids == {first.pid, second.pid}  # both took part
    assert list((tmp_path / "s/running").iterdir()) == []


def test_workers_end_with_their_driver(tmp_path):
    running = driver(tmp_path / "s", "--executor", "processes", "--workers", 1)
    claim = at_work(tmp_path / "s", running)
    assert claim.pid != running.pid
    running.kill()
    running.wait()
    for _ in range(200):
        if not any(c.alive for c in Store(tmp_path / "s").claimed(claim.key)):
            return
        time.sleep(0.05)
    raise AssertionError("the worker lives on")


def test_a_job_that_kills_its_worker_becomes_a_row(tmp_path, monkeypatch):
    """Run by processes that end in the middle of one job, always."""
    program = textwrap.dedent(f"""
        import os, signal
        from counteredge.bench import parse_sweep, run_sweep, Where
        from counteredge.bench import executors, work

        true = work.run_job

        def deadly(job, **options):
            if job.spec.explainer == "greedy":
                os.kill(os.getpid(), signal.SIGKILL)
            return true(job, **options)

        def prepared(parent):
            work.become_worker(parent)
            work.run_job = deadly

        if __name__ == "__main__":
            executors.become_worker = prepared
            text = {SWEEP!r}.replace("rsggce", "greedy").replace("options = {{ epochs = 2 }}", "")
            where, folder = Where("processes", 2), {str(tmp_path / "s")!r}
            outcome = run_sweep(parse_sweep(text, "mine"), folder, where=where, progress=False)
            assert (outcome.done, outcome.failed) == (5, 1), outcome
    """)
    (tmp_path / "main.py").write_text(program)
    ran = subprocess.run([sys.executable, tmp_path / "main.py"], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    (failed,) = Store(tmp_path / "s").status().failed
    assert failed[0].spec.explainer == "greedy"
    assert "WorkerDied: the process that ran it died, 3 times" in failed[1]


# -- errors ----------------------------------------------------------------------------------------------------------


def test_errors_are_rows_and_the_sweep_goes_on(tmp_path, monkeypatch):
    true = working.run_job

    def sometimes(job, **options):
        if job.spec.explainer == "irand":
            raise ce.ModelError("the model broke")
        if job.spec.explainer == "empty_graph":
            raise ValueError("ged of graph 3 is no finite number")
        if job.spec.explainer == "rsggce":
            while True:
                time.sleep(0.01)
        return true(job, **options)

    # the oracle is trained here, outside of the time limit
    run_sweep(parse_sweep(SWEEP, "mine", methods=["empty_graph"]), tmp_path / "before", progress=False)
    monkeypatch.setattr(working, "run_job", sometimes)
    outcome = run_sweep(sweep("timeout = 8\n" + SWEEP), tmp_path, progress=False)
    assert (outcome.done, outcome.failed) == (3, 3)
    got = collect(Store(tmp_path).results())
    errors = dict(zip(got.jobs["explainer"], got.jobs["error"], strict=True))
    assert errors["irand"] == "ModelError: the model broke"
    assert errors["empty_graph"] == "ValueError: ged of graph 3 is no finite number"
    assert errors["rsggce"].startswith("JobTimeout: it took longer than the 8 seconds")
    assert errors["xplore"] == ""
    assert set(got.instances["explainer"]) == {"xplore"}
    where = json.loads(next(p for p in (tmp_path / "jobs").iterdir() if "ModelError" in p.read_text()).read_text())
    assert all(not line.startswith("/") for line in where["error"]["where"])  # no paths of this machine
    # errors are results: kept, until another try is asked for
    monkeypatch.undo()
    again = run_sweep(sweep("timeout = 60\n" + SWEEP), tmp_path, progress=False)
    assert (again.kept, again.failed) == (6, 3)
    mended = run_sweep(sweep("timeout = 60\n" + SWEEP), tmp_path, retry_failed=True, progress=False)
    assert (mended.kept, mended.done, mended.failed) == (3, 6, 0)


def test_a_dataset_that_is_not_there_is_a_row(tmp_path):
    text = SWEEP.replace('"Tree-Cycles"', '"Tree-Cycles", "TWITTER"').replace("parts = 2", "")
    only = parse_sweep(text, "mine", methods=["irand"])
    outcome = run_sweep(only, tmp_path, data_root=tmp_path, progress=False)
    assert (outcome.done, outcome.failed) == (1, 1)
    ((name, error),) = outcome.errors.items()
    assert name.startswith("TWITTER")
    assert error.startswith("DataError")


def test_what_does_not_come_back_is_ended_with_its_process(tmp_path):
    """A computation that no signal reaches: the worker writes the row, and ends."""
    program = textwrap.dedent(f"""
        import signal, time
        from counteredge.bench import Job, RunSpec, Store
        from counteredge.bench import work

        def stuck(job, **options):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(600)

        work.run_job, work.GRACE = stuck, 0.5
        job = Job(RunSpec("Tree-Cycles"), graphs=2)
        store = Store({str(tmp_path)!r}).prepare()
        store.record("mine", [job])
        work.execute(job.to_dict(), {str(tmp_path)!r}, timeout=1.0, worker=True)
    """)
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == working.STUCK
    assert time.monotonic() - began < 60
    ((_, error),) = Store(tmp_path).status().failed
    assert error.startswith("JobTimeout")
    assert list((tmp_path / "running").iterdir()) == []


def test_a_disk_that_is_full_ends_the_sweep(tmp_path, monkeypatch):
    def full(self, key, result):
        raise ce.StoreError("results cannot be written to here: No space left on device.")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(ce.StoreError, match="No space left"):
        run_sweep(sweep(), tmp_path, progress=False)
    assert list((tmp_path / "jobs").iterdir()) == []
    assert list((tmp_path / "running").iterdir()) == []


def test_a_worker_with_other_code_is_refused(tmp_path):
    job = Job(RunSpec("Tree-Cycles", explainer="irand"), graphs=2, embedders=())
    Store(tmp_path).prepare()
    with pytest.raises(ce.CapabilityError, match="runs other code"):
        working.execute(job.to_dict(), tmp_path, key="another")
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_folder_that_is_not_shared_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "write", lambda self, key, result: None)  # it goes somewhere else
    with pytest.raises(ce.StoreError, match="a folder that all machines share"):
        run_sweep(parse_sweep(SWEEP, "mine", methods=["irand"]), tmp_path, progress=False)


def test_names_do_not_pool_different_jobs(tmp_path):
    few = parse_sweep(SWEEP, "few", methods=["irand"], graphs=2)
    run_sweep(few, tmp_path, progress=False)
    run_sweep(parse_sweep(SWEEP, "more", methods=["irand"], graphs=3), tmp_path, progress=False)
    with pytest.raises(ce.InputError, match="'iRand' on Tree-Cycles stands for different jobs: graphs 2 and 3"):
        collect(Store(tmp_path).results())


def test_jobs_of_one_process_run_one_at_a_time(serial, tmp_path):
    """Also where a worker has several threads, as Dask's have unless told otherwise."""
    store = Store(tmp_path).prepare()
    jobs = sweep().jobs
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda j: working.execute(j.to_dict(), store.folder), jobs))
    assert outcomes == ["done"] * 6
    assert lasting(tmp_path) == lasting(serial)


def test_a_stuck_job_ends_whatever_happens_to_its_claim(tmp_path):
    """Its claim is gone and the disk is full: the process ends all the same."""
    program = textwrap.dedent(f"""
        import signal, time
        import counteredge as ce
        from counteredge.bench import Job, RunSpec, Store, work

        def stuck(job, **options):
            for claim in Store({str(tmp_path)!r}).claims.iterdir():
                claim.unlink()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(600)

        def full(self, key, result):
            raise ce.StoreError("No space left on device")

        work.run_job, work.GRACE, work.BEAT, Store.write = stuck, 0.5, 0.1, full
        Store({str(tmp_path)!r}).prepare()
        work.execute(Job(RunSpec("Tree-Cycles"), graphs=2).to_dict(), {str(tmp_path)!r}, timeout=0.5, worker=True)
    """)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == working.STUCK


def test_the_time_limit_gives_back_the_signal(tmp_path):
    before = signal.getsignal(signal.SIGALRM)
    job = Job(RunSpec("Tree-Cycles", explainer="irand"), graphs=2, embedders=())
    store = Store(tmp_path).prepare()
    assert working.execute(job.to_dict(), tmp_path, timeout=100.0) == "done"
    assert working.execute(job.to_dict(), tmp_path, timeout=100.0) == "kept"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert run_jobs([job], store, where=Where(), progress=False).kept == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kind": "threads"}, "unknown executor 'threads'"),
        ({"kind": "processes", "workers": 0}, "workers must be"),
        ({"kind": "serial", "workers": 2}, "goes with executor 'processes' or 'dask'"),
        ({"kind": "dask", "scheduler_file": "none.json"}, "none.json is no file"),
        ({"kind": "serial", "address": "tcp://a:1"}, "belongs to executor 'dask'"),
        ({"kind": "dask", "address": "tcp://a:1", "scheduler_file": "f"}, "not both"),
    ],
)
def test_executors_that_are_none(options, told):
    with pytest.raises(ce.InputError, match=told):
        Where(**options)

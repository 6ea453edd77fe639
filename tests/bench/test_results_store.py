"""The store: there or not, never half; who is at work; disks that are full or may not be written to."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

import counteredge as ce
from counteredge.bench import Job, RunSpec, Store
from counteredge.bench.work import failure

JOBS = [Job(RunSpec("Tree-Cycles", explainer=e), graphs=2) for e in ("irand", "xplore", "greedy", "cfgnn")]


def done(job):
    return {**failure(job, ValueError("x"), 0.0), "status": "done", "error": None}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "s").prepare()
    made.record("mine", JOBS)
    return made


def test_results_come_back(store):
    job = JOBS[0]
    assert not store.has(job.key)
    assert store.read(job.key) is None
    store.write(job.key, done(job))
    assert store.has(job.key)
    assert store.read(job.key) == done(job) | {"timings": store.read(job.key)["timings"]}
    (only,) = store.results()
    assert (only["method"], only["order"]) == ("iRand", 0)
    store.forget(job.key)
    assert not store.has(job.key)


def test_status(store):
    store.write(JOBS[0].key, done(JOBS[0]))
    store.write(JOBS[1].key, failure(JOBS[1], ce.ModelError("it broke"), 1.0))
    claim = store.claim(JOBS[2].key)
    status = store.status()
    assert status.done == [JOBS[0]]
    assert status.failed == [(JOBS[1], "ModelError: it broke")]
    assert [j for j, _ in status.running] == [JOBS[2]]
    assert status.running[0][1].pid == os.getpid()
    assert status.missing == [JOBS[3]]
    claim.unlink()
    assert store.status().missing == [JOBS[2], JOBS[3]]


@pytest.mark.parametrize(
    "content",
    [b"", b'{"format": "counteredge.job"}', b'{"format": "counter', b"[]", b"\xff\x00", b'{"format": "other"}'],
)
def test_damaged_files_count_as_missing(store, content):
    store.path(JOBS[0].key).write_bytes(content)
    assert not store.has(JOBS[0].key)
    status = store.status()
    assert status.damaged == [store.path(JOBS[0].key)]
    assert JOBS[0] in status.missing
    assert list(store.results()) == []


def test_a_result_of_another_job_is_none(store):
    store.path(JOBS[0].key).write_text(json.dumps(done(JOBS[1])))
    assert not store.has(JOBS[0].key)


def test_results_of_earlier_versions_have_the_defaults_of_what_they_did_not_know(store):
    job = JOBS[0]
    before = {k: v for k, v in job.to_dict().items() if k != "gamma"}
    listed = [{"key": job.key, "method": job.method, "order": 0, "job": before}]
    (store.sweeps / "mine.json").write_text(json.dumps({"sweep": "mine", "jobs": listed}))
    store.write(job.key, {**done(job), "job": before})
    (only,) = store.results()
    assert only["job"] == job.to_dict()


def test_results_of_later_versions_are_refused(store):
    store.path(JOBS[0].key).write_text(json.dumps({**done(JOBS[0]), "version": 99}))
    with pytest.raises(ce.DataError, match="later version"):
        store.read(JOBS[0].key)


def test_no_store(tmp_path):
    with pytest.raises(ce.DataError, match="holds no sweep"):
        Store(tmp_path).status()
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps/mine.json").write_text("{}")
    with pytest.raises(ce.DataError, match="no list of jobs"):
        Store(tmp_path).status()


def test_claims_of_the_dead_are_no_claims(store):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    path = store.claims / f"{JOBS[0].key}.{socket.gethostname()}.{process.pid}"
    path.write_bytes(b"")
    far = store.claims / f"{JOBS[1].key}.some.other.host.1"
    far.write_bytes(b"")
    assert {c.key: c.alive for c in store.claimed()} == {JOBS[0].key: True, JOBS[1].key: True}
    assert store.claimed(JOBS[1].key)[0].host == "some.other.host"
    process.send_signal(signal.SIGKILL)
    process.wait()
    os.utime(far, (time.time() - 100,) * 2)  # no sign of life for longer than it should take
    assert not any(c.alive for c in store.claimed())
    store.sweep_claims()
    assert store.claimed() == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ce.StoreError, match=r"results cannot be written to .*file/s.*choose another --out"):
        Store(tmp_path / "file/s").prepare()


def test_a_full_disk(tmp_path):
    """A limit on the size of files stands for it: writing fails with an error of the system, half-way."""
    program = textwrap.dedent(f"""
        import resource, signal, sys
        from counteredge.bench import Job, RunSpec, Store
        import counteredge as ce
        job = Job(RunSpec("Tree-Cycles"), graphs=2)
        store = Store({str(tmp_path)!r}).prepare()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            store.write(job.key, {{"long": "x" * 5000}})
        except ce.StoreError as error:
            sys.exit(str(error))
    """)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "File too large. Make room or choose another --out" in ran.stderr
    assert list((tmp_path / "jobs").iterdir()) == []  # nothing half-written stays

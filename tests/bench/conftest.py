"""One cache folder for the tests of runs and sweeps: their oracle is trained once a test process."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """A folder of its own, which processes that tests start use too."""
    before = os.environ.get("COUNTEREDGE_CACHE")
    os.environ["COUNTEREDGE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["COUNTEREDGE_CACHE"]
    else:
        os.environ["COUNTEREDGE_CACHE"] = before

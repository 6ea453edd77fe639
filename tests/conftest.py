"""What several folders of tests share."""

import os

import pytest


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    """Where the oracles of these tests are kept: each is trained once a test process."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def own_cache(cache_folder):
    """The cache folder of the package, for a file of tests and for the processes that they start."""
    before = os.environ.get("COUNTEREDGE_CACHE")
    os.environ["COUNTEREDGE_CACHE"] = str(cache_folder)
    yield
    if before is None:
        del os.environ["COUNTEREDGE_CACHE"]
    else:
        os.environ["COUNTEREDGE_CACHE"] = before

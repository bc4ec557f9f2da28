"""Fixtures of the tests of code mode."""

import ctypes
import os
from collections.abc import Iterator

import pytest
from runtime.backends import MODULE
from runtime.engines import dockerd, wasm_module

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="module", autouse=True)
def _adopt_orphans() -> Iterator[None]:
    """Have processes that outlive their parents become our children, so that a test can see that they do."""
    if not hasattr(os, "pidfd_open"):  # as on Linux alone
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)  # tests of other things want them collected by the system


@pytest.fixture(scope="session")
def needs_docker() -> Iterator[None]:
    """Have an engine with gVisor; skip where it cannot be started, and fail in CI."""
    with dockerd():
        yield


@pytest.fixture(scope="session")
def needs_wasm(request: pytest.FixtureRequest) -> None:
    """Have the module of CPython; skip where it cannot be had, and fail in CI."""
    os.environ[MODULE] = str(wasm_module(request.config.cache.mkdir("wasm")))

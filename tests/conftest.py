"""What every test may ask for."""

import gc
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""The variable by which processes that a test starts know that they are measured too."""


def pytest_collection_finish() -> None:
    """Keep what is here for good out of every later collection of garbage: it is a million objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Do not measure the coverage of what is marked so: that takes twice the time."""
    measured = coverage.Coverage.current() if item.get_closest_marker("untraced") else None
    if measured is None:
        return (yield)
    measured.stop()
    inherited = os.environ.pop(CHILDREN, None)
    try:
        return (yield)
    finally:
        if inherited is not None:
            os.environ[CHILDREN] = inherited
        measured.start()


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of public suites and real tools; skip where it is absent, fail in CI."""
    if not DATA.is_dir():
        reason = f"needs the data sets in {DATA}, which are not part of the repository"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DATA


def bubblewrap_works() -> bool:
    """Return whether bubblewrap is here and may make a wall."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    command = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def needs_bubblewrap() -> None:
    """Skip where bubblewrap is missing or not allowed; fail in CI."""
    if not bubblewrap_works():
        reason = "needs bubblewrap: apt install bubblewrap, and the right to make namespaces"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

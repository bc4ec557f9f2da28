"""What every test of the command may ask for."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from toolcrib.cli.app import app

ROOT = Path(__file__).parent.parent
SERVER = ROOT / "crib" / "server.py"
TALKER = ROOT / "cli" / "talker.py"

Command = Callable[..., Result]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which state is kept, away from the user's; nothing is configured where we are."""
    folder = tmp_path / "home"
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("TOOLCRIB_HOME", str(folder))
    monkeypatch.chdir(here)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def toolcrib() -> Command:
    """Return the command: it takes its arguments, and returns what came of them."""

    def run(*args: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, args, input=stdin, prog_name="toolcrib")

    return run


@pytest.fixture
def little() -> Callable[..., dict[str, Any]]:
    """Return what makes the settings of a little server that behaves as told."""

    def settings(*how: str, **fields: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-S", "-I", str(SERVER), *how], **fields}

    return settings


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., str]:
    """Return what writes a configuration of servers, and returns its path."""

    def write(**servers: dict[str, Any]) -> str:
        path = tmp_path / "servers.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return str(path)

    return write


@pytest.fixture
def talker() -> dict[str, Any]:
    """Return the settings of a server that says what must be shown well."""
    return {"command": sys.executable, "args": ["-S", "-I", str(TALKER)]}

"""The command without arguments: the state of the setup, and the next steps."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib as package

SERVER = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'


def commands(toolcrib: Any) -> list[str]:
    return [step["command"] for step in json.loads(toolcrib("--json").stdout)["next"]]


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user who has no client yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    return folder


@pytest.fixture
def cursor(user: Path) -> Path:
    """Return the file of a client of this user."""
    file = user / ".cursor" / "mcp.json"
    file.parent.mkdir()
    return file


def test_first_screen_for_a_new_user_has_ten_lines(toolcrib: Any) -> None:
    told = toolcrib()
    assert (told.exit_code, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[0] == f"toolcrib {package.__version__}: one endpoint for the tools of all your servers"
    assert len(lines) <= 10
    assert "configuration  none yet" in lines
    assert "clients        no client on this machine has a server" in lines
    assert commands(toolcrib) == [
        "toolcrib add --user clock -- mcp-server-time",
        'toolcrib --demo search "days until friday"',
        "toolcrib --help",
    ]


def test_servers_of_a_client_are_offered_first(toolcrib: Any, cursor: Path) -> None:
    cursor.write_text(SERVER, encoding="utf-8")
    told = toolcrib().stdout
    assert "clients        cursor reaches 1 server without toolcrib\n" in told
    assert "  toolcrib import cursor --user               import its 1 server\n" in told
    assert len(told.splitlines()) <= 10
    assert toolcrib("import", "cursor", "--user").exit_code == 0
    assert commands(toolcrib)[0] == "toolcrib status"


def test_first_screen_counts_servers_and_proposes_a_client(toolcrib: Any) -> None:
    text = '[servers.a]\nurl = "http://127.0.0.1:1/mcp"\n[toolsets.b]\n[toolsets.c]\n'
    Path("toolcrib.toml").write_text(text, encoding="utf-8")
    told = toolcrib().stdout
    assert "toolcrib.toml: 1 server, 2 toolsets\n" in told
    assert "toolcrib install cursor" in told
    assert len(told.splitlines()) <= 10


@pytest.mark.usefixtures("cursor")
def test_a_client_with_toolcrib_needs_no_proposal(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[servers.a]\nurl = "http://127.0.0.1:1/mcp"\n', encoding="utf-8")
    assert toolcrib("install", "cursor").exit_code == 0
    told = toolcrib().stdout
    assert "clients        cursor uses toolcrib\n" in told
    assert "toolcrib install" not in told


def test_a_broken_configuration_is_an_error_that_says_where(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text("servers = 1\n", encoding="utf-8")
    told = toolcrib()
    assert told.exit_code == 2
    assert "/servers" in told.stderr


def test_options_alone_are_not_a_verb(toolcrib: Any) -> None:
    assert toolcrib("--demo").stdout.startswith("toolcrib ")
    assert toolcrib("--unknown").exit_code == 2

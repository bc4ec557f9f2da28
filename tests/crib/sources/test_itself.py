"""A configuration that names its own gateway as a server."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.crib.sources.itself import DEEPEST, DEPTH, is_itself
from toolcrib.errors import BackendUnavailableError, ConfigError
from toolcrib.execution.mcp import ServerConfig

ITSELF = [
    ["toolcrib", "serve"],
    ["/usr/local/bin/toolcrib", "serve", "--http"],
    ["C:\\tools\\toolcrib.exe", "serve"],
    [sys.executable, "-m", "toolcrib.cli", "serve"],
    ["uvx", "toolcrib[cli]", "serve"],
    ["uvx", "--from", "toolcrib[cli]", "toolcrib", "serve"],
    ["uv", "tool", "run", "toolcrib@1.2.0", "serve"],
    ["pipx", "run", "toolcrib", "serve"],
    ["toolcrib", "--config", "mcp.json", "serve"],
    ["toolcrib", "serve", "--config=mcp.json"],
    ["toolcrib", "serve", "--toolset", "a", "--config", "${HERE}/mcp.json"],
]
OTHERS = [
    ["toolcrib", "serve", "--config", "other.toml"],
    ["toolcrib", "serve", "--demo"],
    ["toolcrib", "run", "serve"],
    ["toolcrib", "--toolset", "serve", "list"],
    ["toolcrib", "serve", "--config", "${NO_SUCH_VARIABLE}"],
    ["node", "toolcrib", "serve"],
    ["python", "serve", "toolcrib"],
    ["uvx", "other", "serve"],
    ["mcp-server-time"],
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has a configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mcp.json").write_text("{}")
    return tmp_path


def server(words: list[str], **fields: Any) -> ServerConfig:
    return ServerConfig(command=words[0], args=words[1:], **fields)


@pytest.mark.parametrize("words", ITSELF, ids=" ".join)
def test_a_server_is_itself_where_it_serves_the_same_file(words: list[str], here: Path) -> None:
    environ = {"HERE": str(here)}
    assert is_itself(server(words), str(here / "mcp.json"), environ)
    assert is_itself(server(words, cwd=str(here)), "mcp.json", environ)
    assert not is_itself(server(words), None, environ)


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_a_server_is_another_where_it_serves_another_file_or_none(words: list[str], here: Path) -> None:
    assert not is_itself(server(words), str(here / "mcp.json"), {})


def test_a_server_is_another_where_it_runs_in_another_folder_or_elsewhere(here: Path) -> None:
    (here / "other").mkdir()
    (here / "other" / ".mcp.json").write_text("{}")
    assert not is_itself(server(["toolcrib", "serve"], cwd="other"), str(here / "mcp.json"), {})
    assert not is_itself(ServerConfig(url="http://127.0.0.1:8808/mcp"), str(here / "mcp.json"), {})


@pytest.mark.anyio
async def test_a_gateway_that_names_itself_is_left_out_and_the_others_are_not(
    here: Path, little: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = here / "mcp.json"
    own = {"command": sys.executable, "args": ["-m", "toolcrib.cli", "serve"]}
    config.write_text(json.dumps({"mcpServers": {"toolcrib": own, "text": little()}}))
    async with Crib(config) as crib:
        with anyio.fail_after(PATIENCE):
            assert await crib.namespaces() == ("text",)
            status = (await crib.ready())["toolcrib"]
            assert (status.state, status.starts) == ("disabled", 0)
            assert "this very configuration" in (status.last_error or "")
            with pytest.raises(BackendUnavailableError, match="this very configuration"):
                await crib.run("toolcrib:search_tools")
            assert crib.absent() == ()
            assert len(caplog.messages) == 1
            assert not (await crib.reload(config)).changed
            assert len(caplog.messages) == 1
            config.write_text(json.dumps({"mcpServers": {"toolcrib": own, "again": own, "text": little()}}))
            assert (await crib.reload(config)).added == ()
            assert len(caplog.messages) == 2


@pytest.mark.anyio
async def test_configurations_that_name_each_other_come_to_an_end(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}, environ={DEPTH: str(DEEPEST)}) as crib:
        with anyio.fail_after(PATIENCE):
            pid = (await crib.run("text:get_pid")).structured["result"]
        if os.path.exists("/proc/self/environ"):  # noqa: PTH110, ASYNC240 - it is there or it is not
            told = Path(f"/proc/{pid}/environ").read_bytes()  # noqa: ASYNC240 - it is no file on a disk
            assert f"{DEPTH}={DEEPEST + 1}".encode() in told.split(b"\0")
    with pytest.raises(ConfigError, match="does a configuration name itself"):
        async with Crib(environ={DEPTH: str(DEEPEST + 1)}):
            pass

"""The official inspector finds and runs tools through a gateway, over HTTP and over stdio."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway.support import Place, Served
from servers.launch import npm_tool, tiny

pytestmark = [pytest.mark.untraced, pytest.mark.proof]

EIGHT = {
    "search_tools",
    "list_tools",
    "list_namespaces",
    "describe_tool",
    "list_tool_examples",
    "run_tool",
    "run_chain",
    "execute_code",
}


class Inspector:
    """The inspector on its command line, pointed at a gateway."""

    def __init__(self, folder: Path, *target: str) -> None:
        self._target, self._folder = target, folder
        self._program = npm_tool("@modelcontextprotocol/inspector/clients/launcher/build/index.js")

    def ask(self, method: str, *options: str) -> Any:
        """Return what it says a gateway answers."""
        command = [*self._program, "--cli", *self._target, "--method", method, *options]
        environ = {"HOME": str(self._folder), "PATH": str(Path(self._program[0]).parent)}
        run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
        return json.loads(run.stdout)

    def call(self, tool: str, **arguments: str) -> Any:
        """Return what a tool gives."""
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        answer = self.ask("tools/call", "--tool-name", tool, *pairs)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("gateway"), {"tiny": tiny()})


@pytest.fixture(scope="module", params=["http", "stdio"])
def inspector(
    request: pytest.FixtureRequest, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Inspector]:
    folder = tmp_path_factory.mktemp("inspector")
    if request.param == "http":
        with Served(place) as served:
            yield Inspector(folder, served.url, "--transport", "http")
    else:
        command, *args = place.command("--transport", "stdio")
        server = {"command": command, "args": args, "env": place.environ}
        clients = folder / "mcp.json"
        clients.write_text(json.dumps({"mcpServers": {"toolcrib": server}}))
        yield Inspector(folder, "--config", str(clients), "--server", "toolcrib")


def test_it_lists_the_tools_of_a_gateway(inspector: Inspector) -> None:
    assert {tool["name"] for tool in inspector.ask("tools/list")["tools"]} == EIGHT


def test_it_searches_and_runs_tools_through_a_gateway(inspector: Inspector) -> None:
    found = inspector.call("search_tools", query="echo")
    assert found["tools"][0]["id"] == "tiny:echo"
    given = inspector.call("run_tool", tool_id="tiny:echo", args='{"text": "hello"}')
    assert given["structured"]["got"] == {"text": "hello"}

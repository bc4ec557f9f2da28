"""The official inspector finds and runs tools through a gateway, over HTTP and over stdio."""

from collections.abc import Iterator

import pytest
from gateway.inspector import Inspector
from gateway.support import Place, Served
from servers.launch import command, tiny

pytestmark = pytest.mark.proof

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
        program, *args = [*command(), *place.arguments("--transport", "stdio")]
        yield Inspector.of_command(folder, {"command": program, "args": args, "env": place.environ})


def test_inspector_lists_the_tools_of_a_gateway(inspector: Inspector) -> None:
    assert {tool["name"] for tool in inspector.ask("tools/list")["tools"]} == EIGHT


def test_inspector_searches_and_runs_tools_through_a_gateway(inspector: Inspector) -> None:
    found = inspector.call("search_tools", query="echo")
    assert found["tools"][0]["id"] == "tiny:echo"
    given = inspector.call("run_tool", tool_id="tiny:echo", args='{"text": "hello"}')
    assert given["structured"]["got"] == {"text": "hello"}

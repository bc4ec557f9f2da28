"""Servers that people use behind one gateway: found, explained, run, chained and programmed across each other."""

import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from gateway.support import Place, Served, Stdio, call_failing_tool, call_tool, connected
from mcp import Client
from servers.launch import npm
from waiting import PATIENCE

pytestmark = [pytest.mark.proof, pytest.mark.anyio]

WAYS = list(product(("http", "stdio"), ("stateless", "handshake")))
SIX = {"everything", "files", "memory", "thinking", "time", "git"}
NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


class Desk:
    """A folder that the servers work in, and the gateways over them."""

    def __init__(self, folder: Path) -> None:
        self.files = (folder / "files").resolve()
        self.files.mkdir()
        self.repository = folder / "repository"
        self.repository.mkdir()
        git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-C", str(self.repository)]
        (self.repository / "first.txt").write_text("one\n")
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "The first"]):
            subprocess.run([*git, *command], check=True)
        # Without learning: each question is answered by the catalogue alone, whichever test ran before.
        self.place = Place(folder, self._servers(folder), timeout=PATIENCE, search={"learn": "off"})

    def _servers(self, folder: Path) -> dict[str, Any]:
        module = {"command": sys.executable, "start_timeout": PATIENCE}
        time_args = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
        git_args = ["-m", "mcp_server_git", "--repository", str(self.repository)]
        return {
            "everything": npm("everything"),
            "files": npm("filesystem", str(self.files)),
            "memory": npm("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
            "thinking": npm("sequential-thinking"),
            "time": {**module, "args": time_args},
            "git": {**module, "args": git_args},
        }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
async def served(desk: Desk, anyio_backend: str) -> AsyncIterator[Served]:  # noqa: ARG001 - of the same scope
    """A gateway over HTTP that has listed all six servers, whose tools the catalogue keeps."""
    with Served(desk.place) as served:
        async with connected(served, "stateless") as client:
            for name in sorted(SIX):
                await call_tool(client, "list_tools", namespace=name, limit=1)
        yield served


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
async def client(request: pytest.FixtureRequest, served: Served, anyio_backend: str) -> AsyncIterator[Client]:  # noqa: ARG001 - of the same scope
    """A client of each era over each transport, whose user agrees to everything."""
    transport, era = request.param
    where = served if transport == "http" else Stdio(served.place)
    async with connected(where, era, elicitation_callback=agree) as client:
        yield client


async def agree(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Accept an elicitation, with true in every field of its form."""
    assert isinstance(params, types.ElicitRequestFormParams)
    names = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content=dict.fromkeys(names, True))


async def ran(client: Client, tool_id: str, **args: Any) -> Any:
    """Return the structured result of a tool that is run through the gateway."""
    return (await call_tool(client, "run_tool", tool_id=tool_id, args=args))["structured"]


async def test_all_six_are_in_the_catalogue(client: Client) -> None:
    spaces = (await call_tool(client, "list_namespaces"))["namespaces"]
    assert {each["name"] if isinstance(each, dict) else each for each in spaces} >= SIX


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what time is it in another city", "time:get_current_time"),
        ("show the commit logs of a repository", "git:git_log"),
        ("read the contents of a text file", "files:read_text_file"),
        ("create entities in the knowledge graph", "memory:create_entities"),
        ("think through a problem step by step", "thinking:sequentialthinking"),
        ("add two numbers", "everything:get-sum"),
    ],
)
async def test_a_tool_is_found_by_what_it_does(client: Client, question: str, expected: str) -> None:
    found = await call_tool(client, "search_tools", query=question, limit=3)
    assert expected in [tool["id"] for tool in found["tools"]]


@pytest.mark.parametrize(
    ("question", "expected"),
    [("show the last commits", "git:git_log"), ("what time is it in Tokyo", "time:get_current_time")],
)
async def test_the_first_tool_is_the_one_that_most_likely_does_it(
    client: Client, question: str, expected: str
) -> None:
    found = (await call_tool(client, "search_tools", query=question))["tools"]
    assert found[0]["id"] == expected
    assert found[0]["confidence"] == max(each["confidence"] for each in found)


async def test_a_tool_is_explained_with_its_schemas(client: Client) -> None:
    told = await call_tool(client, "describe_tool", tool_id="time:convert_time", detail_level="schema")
    assert "target_timezone" in str(told)


async def test_a_tool_of_each_server_runs(client: Client, desk: Desk) -> None:
    assert (await ran(client, "time:convert_time", **NOON))["time_difference"] == "+9.0h"
    assert "The first" in str(await ran(client, "git:git_log", repo_path=str(desk.repository)))
    assert await ran(client, "everything:get-sum", a=2, b=40) == "The sum of 2 and 40 is 42."
    path = str(desk.files / "note.txt")
    await ran(client, "files:write_file", path=path, content="é 中文")
    assert await ran(client, "files:read_text_file", path=path) == {"content": "é 中文"}
    thought = {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    assert (await ran(client, "thinking:sequentialthinking", **thought))["thoughtNumber"] == 1


async def test_a_chain_carries_a_time_from_one_server_to_a_file_of_another(
    client: Client, desk: Desk
) -> None:
    path = str(desk.files / "tokyo.txt")
    steps = [
        {"id": "noon", "tool_id": "time:convert_time", "args": NOON},
        {
            "tool_id": "files:write_file",
            "args": {"path": path, "content": {"$ref": "steps.noon/target/datetime"}},
        },
        {"tool_id": "files:read_text_file", "args": {"path": path}},
    ]
    done = await call_tool(client, "run_chain", steps=steps)
    assert done["final"]["content"].endswith("T21:00:00+09:00")
    assert len(done["results"]) == 3


async def test_code_writes_the_time_in_tokyo_into_the_memory(client: Client, desk: Desk) -> None:
    code = f"""
noon = await run_tool("time:convert_time", {NOON!r})
log = await run_tool("git:git_log", {{"repo_path": {str(desk.repository)!r}}})
said = ["noon in London is " + noon["target"]["datetime"], str(log)]
entity = {{"name": "tokyo", "entityType": "city", "observations": said}}
await memory.create_entities(entities=[entity])
found = await memory.search_nodes(query="tokyo")
__out = found["entities"][0]["observations"]
"""
    done = await call_tool(client, "execute_code", code=code, timeout_ms=100_000)
    first, log = done["value"]
    assert first.endswith("T21:00:00+09:00")
    assert "The first" in log
    assert len(done["toolCalls"]) == 4


async def test_refusal_of_a_server_is_reported_in_its_words(client: Client) -> None:
    error = await call_failing_tool(
        client, "run_tool", tool_id="files:read_text_file", args={"path": "/etc/hostname"}
    )
    assert error["code"] == "execution_failed"
    assert "Access denied" in error["message"]


async def test_a_name_that_is_nearly_right_gets_the_right_one(client: Client) -> None:
    error = await call_failing_tool(client, "run_tool", tool_id="git:git_lgo", args={})
    assert error["code"] == "tool_not_found"
    assert "git:git_log" in error["message"]

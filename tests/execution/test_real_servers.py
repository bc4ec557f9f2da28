"""Servers that people use, called as a user calls them: found in an index, run by a runner, nothing faked."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.launch import Config, closed_port, npm
from servers.shop import Shop, opened
from waiting import PATIENCE

from toolcrib.errors import InputValidationError, ToolExecutionError, ToolTimeoutError
from toolcrib.execution import RunResult
from toolcrib.model import DefaultValidator, McpBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PNG = "iVBORw0KGgo"
"""The first bytes of every PNG in base64."""


@asynccontextmanager
async def open_stocked_shop(**configs: Config) -> AsyncIterator[Shop]:
    """Start servers and register their tools."""
    async with opened(**configs) as shop:
        await shop.list(*configs)
        yield shop


def objects(result: RunResult) -> list[Any]:
    """Return the parts of a value that are not text."""
    return [part for part in result.structured if not isinstance(part, str)]


class TestEverything:
    @pytest.fixture(scope="class", params=["stdio", "http"])
    @classmethod
    async def shop(cls, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
        if request.param == "stdio":
            async with open_stocked_shop(everything=npm("everything")) as shop:
                yield shop
        else:
            with served() as config:
                async with open_stocked_shop(everything=config) as shop:
                    yield shop

    async def test_all_its_tools_are_listed_with_their_namespace(self, shop: Shop) -> None:
        tools = await shop.servers.tools("everything")
        assert {"echo", "get-sum", "get-tiny-image"} <= {tool.name for tool in tools}
        assert {tool.namespace for tool in tools} == {"everything"}
        assert {tool.backend for tool in tools} == {McpBackend(server_name="everything")}

    async def test_a_text_comes_back(self, shop: Shop) -> None:
        result = await shop.run("everything:echo", message="é 中文")
        assert result.structured == "Echo: é 中文"
        assert result.mcp_result["content"] == [{"type": "text", "text": "Echo: é 中文"}]
        assert result.backend == McpBackend(server_name="everything")
        assert result.duration > 0

    async def test_two_numbers_are_added(self, shop: Shop) -> None:
        assert (await shop.run("everything:get-sum", a=2, b=40)).structured == "The sum of 2 and 40 is 42."

    async def test_arguments_that_do_not_fit_never_leave(self, shop: Shop) -> None:
        with pytest.raises(InputValidationError) as caught:
            await shop.run("everything:get-sum", a="two")
        assert {problem.path for problem in caught.value.problems} == {"", "/a"}

    async def test_structured_content_fits_its_schema(self, shop: Shop) -> None:
        result = await shop.run("everything:get-structured-content", location="Chicago")
        assert set(result.structured) == {"temperature", "conditions", "humidity"}
        assert result.tool.output_schema is not None
        DefaultValidator().validate(result.tool.output_schema, result.structured)

    async def test_an_image_is_kept_as_content(self, shop: Shop) -> None:
        result = await shop.run("everything:get-tiny-image")
        first, image, last = result.structured
        assert isinstance(first, str)
        assert isinstance(last, str)
        assert image["mimeType"] == "image/png"
        assert image["data"].startswith(PNG)

    async def test_the_annotations_of_a_part_are_kept(self, shop: Shop) -> None:
        args = {"messageType": "error", "includeImage": True}
        result = await shop.run("everything:get-annotated-message", **args)
        text, image = result.structured
        assert text == "Error: Operation failed"
        assert image["type"] == "image"
        assert image["annotations"]["audience"] == ["user"]
        raw = result.mcp_result["content"][0]
        assert raw["annotations"] == {"priority": 1, "audience": ["user", "assistant"]}

    async def test_an_embedded_resource_is_kept(self, shop: Shop) -> None:
        result = await shop.run("everything:get-resource-reference", resourceType="Text", resourceId=1)
        [resource] = [part["resource"] for part in objects(result) if part["type"] == "resource"]
        assert resource["uri"] == "demo://resource/dynamic/text/1"
        assert resource["mimeType"] == "text/plain"

    async def test_links_to_resources_are_kept_in_order(self, shop: Shop) -> None:
        result = await shop.run("everything:get-resource-links", count=3)
        links = [part["uri"] for part in objects(result) if part["type"] == "resource_link"]
        assert [connection.rpartition("/")[2] for connection in links] == ["1", "2", "3"]

    async def test_a_long_operation_tells_of_its_steps(self, shop: Shop) -> None:
        told: list[tuple[float, float | None]] = []
        result = await shop.runner.run(
            "everything:trigger-long-running-operation",
            {"duration": 0.4, "steps": 4},
            timeout=PATIENCE,
            progress=lambda progress, total, _: told.append((progress, total)),
        )
        assert told == [(0, 1), (1, 4), (2, 4), (3, 4), (4, 4), (4, 4)]
        assert "Steps: 4" in result.structured

    async def test_a_long_operation_streams_its_steps_and_ends_in_done(self, shop: Shop) -> None:
        args = {"duration": 0.4, "steps": 4}
        stream = shop.runner.stream("everything:trigger-long-running-operation", args, timeout=PATIENCE)
        events = [event async for event in stream]
        assert [event.kind for event in events] == ["progress"] * 4 + ["done"]
        assert "Steps: 4" in events[-1].data

    async def test_an_operation_that_takes_too_long_meets_its_deadline(self, shop: Shop) -> None:
        with pytest.raises(ToolTimeoutError) as caught:
            await shop.runner.run(
                "everything:trigger-long-running-operation", {"duration": 60, "steps": 1}, timeout=0.5
            )
        assert caught.value.timeout == 0.5
        assert caught.value.backend == "mcp:everything"
        assert (await shop.run("everything:echo", message="still here")).structured == "Echo: still here"

    async def test_many_calls_at_once_get_each_their_own_answer(self, shop: Shop) -> None:
        found: dict[int, Any] = {}

        async def ask(number: int) -> None:
            found[number] = (await shop.run("everything:echo", message=str(number))).structured

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(ask, number)
        assert found == {number: f"Echo: {number}" for number in range(64)}


@contextmanager
def served() -> Iterator[Config]:
    """Serve everything over streamable HTTP, in a process of its own."""
    with closed_port() as port:
        how = npm("everything", "streamableHttp", env={"PORT": str(port)})
        process = subprocess.Popen(
            [how["command"], *how["args"]], env=how["env"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            said = list(takewhile(lambda line: b"listening" not in line, process.stderr))
            assert process.poll() is None, said
            yield {"url": f"http://127.0.0.1:{port}/mcp"}
        finally:
            process.kill()
            process.communicate()


class TestFilesystem:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("files").resolve()

    @pytest.fixture(scope="class")
    @classmethod
    async def shop(cls, folder: Path) -> AsyncIterator[Shop]:
        async with open_stocked_shop(files=npm("filesystem", str(folder))) as shop:
            yield shop

    async def test_written_file_is_read_back(self, shop: Shop, folder: Path) -> None:
        path = folder / "note.txt"
        await shop.run("files:write_file", path=str(path), content="é\n中文\n")
        assert path.read_text(encoding="utf-8") == "é\n中文\n"
        result = await shop.run("files:read_text_file", path=str(path))
        assert result.structured == {"content": "é\n中文\n"}

    async def test_a_folder_is_listed(self, shop: Shop, folder: Path) -> None:
        (folder / "listed").mkdir()
        (folder / "listed" / "a.txt").write_text("a")
        result = await shop.run("files:list_directory", path=str(folder / "listed"))
        assert result.structured == {"content": "[FILE] a.txt"}

    async def test_a_path_outside_is_refused_in_the_words_of_the_server(self, shop: Shop) -> None:
        with pytest.raises(ToolExecutionError, match="Access denied") as caught:
            await shop.run("files:read_text_file", path="/etc/hostname")
        assert caught.value.backend == "mcp:files"
        assert caught.value.result["isError"] is True

    async def test_every_tool_has_an_output_schema_that_is_kept(self, shop: Shop) -> None:
        tools = await shop.servers.tools("files")
        assert len(tools) >= 10
        assert all(tool.output_schema for tool in tools)

    async def test_a_chain_writes_and_reads(self, shop: Shop, folder: Path) -> None:
        path = str(folder / "chain.txt")
        steps = [
            {"toolId": "files:write_file", "args": {"path": path, "content": "chained"}},
            {"toolId": "files:read_text_file", "args": {"path": path}},
        ]
        result = await shop.runner.run_chain(steps)
        assert result.final == {"content": "chained"}


class TestMemory:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Config:
        return npm("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})

    async def test_entities_are_in_the_graph_and_outlive_the_process(self, config: Config) -> None:
        entity = {"name": "press", "entityType": "machine", "observations": ["is out of order"]}
        async with open_stocked_shop(memory=config) as shop:
            made = await shop.run("memory:create_entities", entities=[entity])
            assert made.structured == {"entities": [entity]}
        async with open_stocked_shop(memory=config) as shop:
            graph = await shop.run("memory:read_graph")
            assert graph.structured == {"entities": [entity], "relations": []}
            found = await shop.run("memory:search_nodes", query="out of order")
            assert [node["name"] for node in found.structured["entities"]] == ["press"]

    async def test_arguments_that_lack_a_field_never_leave(self, config: Config) -> None:
        async with open_stocked_shop(memory=config) as shop:
            with pytest.raises(InputValidationError, match="entityType"):
                await shop.run("memory:create_entities", entities=[{"name": "a", "observations": []}])


@pytest.mark.proof
class TestTime:
    @pytest.fixture(scope="class")
    @classmethod
    async def shop(cls) -> AsyncIterator[Shop]:
        args = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
        async with open_stocked_shop(time={"command": sys.executable, "args": args}) as shop:
            yield shop

    async def test_a_time_is_converted(self, shop: Shop) -> None:
        args = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        result = await shop.run("time:convert_time", **args)
        assert result.structured["time_difference"] == "+9.0h"
        assert result.structured["target"]["datetime"].endswith("T21:00:00+09:00")

    async def test_real_server_speaks_the_stateless_protocol(self, shop: Shop) -> None:
        await shop.run("time:get_current_time", timezone="UTC")
        assert shop.servers.status()["time"].protocol_version == "2026-07-28"

    async def test_an_unknown_zone_is_refused_in_the_words_of_the_server(self, shop: Shop) -> None:
        with pytest.raises(ToolExecutionError, match="No time zone found"):
            await shop.run("time:get_current_time", timezone="Mars/Olympus")


@pytest.mark.proof
class TestGit:
    @pytest.fixture(scope="class")
    @classmethod
    def repository(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("repository")
        git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-C", str(folder)]
        (folder / "first.txt").write_text("one\n")
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "The first"]):
            subprocess.run([*git, *command], check=True)
        return folder

    @pytest.fixture(scope="class")
    @classmethod
    async def shop(cls, repository: Path) -> AsyncIterator[Shop]:
        args = ["-m", "mcp_server_git", "--repository", str(repository)]
        async with open_stocked_shop(git={"command": sys.executable, "args": args}) as shop:
            yield shop

    async def test_the_log_names_the_commit(self, shop: Shop, repository: Path) -> None:
        result = await shop.run("git:git_log", repo_path=str(repository), max_count=1)
        assert "The first" in str(result.structured)

    async def test_a_change_shows_in_the_diff(self, shop: Shop, repository: Path) -> None:
        (repository / "first.txt").write_text("two\n")
        result = await shop.run("git:git_diff_unstaged", repo_path=str(repository))
        assert "+two" in str(result.structured)

    async def test_a_tool_without_an_output_schema_gives_its_text(self, shop: Shop, repository: Path) -> None:
        result = await shop.run("git:git_status", repo_path=str(repository))
        assert isinstance(result.structured, str)
        assert result.tool.output_schema is None


async def test_a_tool_is_found_by_what_it_does_and_run() -> None:
    args = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
    async with open_stocked_shop(time={"command": sys.executable, "args": args}) as shop:
        best = shop.index.search("what time is it in another zone").items[0]
        assert best.summary.namespace == "time"
        assert (await shop.run("time:get_current_time", timezone="UTC")).structured["timezone"] == "UTC"

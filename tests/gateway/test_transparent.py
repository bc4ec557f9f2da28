"""Widely used servers, directly and through a gateway that shows the tools themselves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway.passing import ONE_ERA, asked, join, list_items
from mcp import Client, StdioServerParameters
from mcp_types import PromptReference, ResourceTemplateReference
from servers.launch import npm
from waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ONE_ERA)]
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
OURS = "toolcrib://results/{id}"


def servers(folder: Path) -> dict[str, Any]:
    folder = folder.resolve()
    (folder / "files").mkdir(exist_ok=True)
    return {
        "everything": npm("everything"),
        "files": npm("filesystem", str(folder / "files")),
        "memory": npm("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
    }


@asynccontextmanager
async def directly(server: dict[str, Any]) -> AsyncIterator[Client]:
    """Yield a client of a server with all the capabilities of a gateway, so that it lists the same tools."""

    async def answer(*_: Any) -> Any:
        raise NotImplementedError

    found = StdioServerParameters(**server)
    callbacks = {"sampling_callback": answer, "elicitation_callback": answer, "list_roots_callback": answer}
    async with Client(found, mode="legacy", read_timeout_seconds=PATIENCE, **callbacks) as client:  # type: ignore[arg-type]
        yield client


async def everything_of(client: Client) -> dict[str, list[dict[str, Any]]]:
    """Return all that a server or a gateway lists, in an order that does not depend on it."""
    declared = client.server_capabilities
    has = {"tools": declared.tools, "resources": declared.resources, "prompts": declared.prompts}
    found = {}
    for method, key in LISTS.items():
        items = await list_items(client, method, key) if has[method.partition("/")[0]] is not None else []
        items = [each for each in items if each.get("uriTemplate") != OURS]
        found[key] = sorted(items, key=lambda each: str(each.get("name")) + str(each.get("uri")))
    return found


@pytest.mark.parametrize(
    "name", ["everything", *(pytest.param(name, marks=pytest.mark.proof) for name in ("files", "memory"))]
)
async def test_lists_of_a_single_server_are_the_same_through_a_gateway(
    era: str, name: str, tmp_path: Path
) -> None:
    server = servers(tmp_path)[name]
    async with directly(server) as client:
        own = await everything_of(client)
    async with join(era, {name: server}) as client:
        assert await everything_of(client) == own


@pytest.mark.proof
async def test_three_servers_list_the_same_under_names_of_their_own(era: str, tmp_path: Path) -> None:
    wanted: list[dict[str, Any]] = []
    prompts: list[str] = []
    for name, server in servers(tmp_path).items():
        async with directly(server) as client:
            own = await everything_of(client)
        wanted += [each | {"name": f"{name}__{each['name']}"} for each in own["tools"]]
        prompts += [f"{name}__{each['name']}" for each in own["prompts"]]
    async with join(era, servers(tmp_path)) as client:
        found = await everything_of(client)
    assert found["tools"] == sorted(wanted, key=lambda each: str(each["name"]) + "None")
    assert [each["name"] for each in found["prompts"]] == sorted(prompts)


@pytest.mark.proof
async def test_tools_resources_prompts_and_completion_of_three_servers_work(era: str, tmp_path: Path) -> None:
    path = Path(servers(tmp_path)["files"]["args"][-1]) / "note.txt"
    async with join(era, servers(tmp_path)) as client:
        echoed = await client.call_tool("everything__echo", {"message": "hello"})
        image = await client.call_tool("everything__get-tiny-image", {})
        written = await client.call_tool("files__write_file", {"path": str(path), "content": "kept"})
        read = await client.call_tool("files__read_text_file", {"path": str(path)})
        graph = await client.call_tool("memory__read_graph", {})
        document = await client.read_resource("demo://resource/static/document/features.md")
        made = await client.read_resource("demo://resource/dynamic/text/7")
        prompt = await client.get_prompt("everything__args-prompt", {"city": "Oslo"})
        ref = PromptReference(name="everything__completable-prompt")
        departments = await client.complete(ref, {"name": "department", "value": "E"})
        template = ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")
        numbers = await asked(
            client,
            "completion/complete",
            ref=template.model_dump(),
            argument={"name": "resourceId", "value": "7"},
        )
    assert echoed.content[0].text == "Echo: hello"  # type: ignore[union-attr]
    assert "image" in [block.type for block in image.content]
    assert not written.is_error
    assert read.structured_content == {"content": "kept"}
    assert graph.structured_content == {"entities": [], "relations": []}
    assert document.contents[0].text.startswith("# Everything Server")  # type: ignore[union-attr]
    assert "7" in made.contents[0].text  # type: ignore[union-attr]
    assert "Oslo" in prompt.messages[0].content.text  # type: ignore[union-attr]
    assert departments.completion.values == ["Engineering"]
    assert numbers["completion"]["values"] == ["7"]

"""Change notifications for tools: one for each change, after which the list is the new one."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import anyio
import pytest
from gateway.little_face import serving
from mcp import Client
from waiting import PATIENCE, until

from toolcrib.crib import Crib, GatewaySettings
from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.protocols import Indexed
from toolcrib.gateway import Gateway
from toolcrib.gateway.frontends.passthrough import PassthroughTools
from toolcrib.model import LocalBackend, Tool

pytestmark = pytest.mark.anyio
LITTLE = Path(__file__).parent.parent / "servers" / "little.py"


class PausingSearcher(Bm25Searcher):
    """Before it forgets tools and learns none, waits until a client has listed those that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = Event()

    def update(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        if removed and not added:
            self.listed.wait(PATIENCE)
        super().update(added, removed)


@asynccontextmanager
async def listening(url: str, searcher: PausingSearcher) -> AsyncIterator[tuple[Client, list[set[str]]]]:
    """Yield a client of the stateless era, and the names of the tools that it lists at each notification."""
    lists: list[set[str]] = []

    async def follow(client: Client, ready: anyio.Event) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            ready.set()
            async for _ in changes:
                lists.append({tool.name for tool in (await client.list_tools()).tools})
                searcher.listed.set()

    async with Client(url, read_timeout_seconds=PATIENCE) as client, anyio.create_task_group() as tasks:
        ready = anyio.Event()
        tasks.start_soon(follow, client, ready)
        await ready.wait()
        yield client, lists
        tasks.cancel_scope.cancel()


async def test_server_that_adds_a_tool_and_removes_another_is_announced_once(tmp_path: Path) -> None:
    def last() -> int:
        """Come last."""
        return 0

    searcher, gate = PausingSearcher(), tmp_path / "gate"
    server = {"command": sys.executable, "args": ["-S", "-I", str(LITTLE), "gate", str(gate)]}
    config = {"servers": {"text": server | {"start_timeout": PATIENCE}}}
    async with (
        Gateway(config, expose="all", searcher=searcher) as gateway,
        serving(gateway) as url,
        listening(f"{url}/mcp", searcher) as (client, lists),
    ):
        gate.touch()  # the server starts, and is listed for the first time
        await until(lambda: lists and "wait_long" in lists[-1], "its tools are announced")
        searcher.listed.clear()
        await client.call_tool("learn", {})  # it has another tool then, and one less
        await until(lambda: "wait_long" not in lists[-1], "the change is announced")
        gateway.crib.add(last)
        await until(lambda: "last" in lists[-1], "the next change is announced")
    before = lists[0]
    after = before - {"wait_long"} | {"whisper"}
    assert lists == [before, after, after | {"last"}]


def test_list_made_while_changes_are_delivered_has_all_of_them() -> None:
    def described(description: str) -> list[tuple[Tool, LocalBackend]]:
        return [
            (Tool(name=name, description=description, input_schema={}), LocalBackend(name=name))
            for name in ("one", "two")
        ]

    crib, lists = Crib(), list[list[str]]()
    index = crib.discovery.index
    index.register_many(described("old"))
    index.on_change(lambda _: lists.append([tool["description"] for tool in frontend.tools()]))
    frontend = PassthroughTools(crib, GatewaySettings())
    assert [tool["description"] for tool in frontend.tools()] == ["old", "old"]
    index.register_many(described("new"))
    assert lists == [["new", "new"], ["new", "new"]]

"""Changes of resources and prompts that servers tell, and the resources that are watched."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from execution.mcp.calling import call
from execution.mcp.web import serving
from servers.asking import NOTE, Asking, HandshakeOnly
from waiting import until

from toolcrib.errors import RequestRefusedError
from toolcrib.execution.mcp import ContentChange, McpServers
from toolcrib.execution.mcp.change_listener import MAX_WATCHED

pytestmark = pytest.mark.anyio
LISTS = [ContentChange("one", "prompts"), ContentChange("one", "resources")]
UPDATED = ContentChange("one", "updated", NOTE)


class Told:
    """A server of an era, and the changes that it announces."""

    def __init__(self, asking: Asking, servers: McpServers, *, handshake: bool) -> None:
        self.asking, self.servers, self.handshake = asking, servers, handshake
        self.changes: list[ContentChange] = []
        self.stop = servers.on_content(self.changes.append)

    async def change(self, expected: list[ContentChange]) -> None:
        """Change all content, until all expected changes are announced, and no others."""
        self.changes.clear()

        async def told() -> bool:  # a stream may be on its way to be opened
            await call(self.servers, "change")
            return set(self.changes) >= set(expected)

        await until(told)
        assert set(self.changes) == set(expected)


@pytest.fixture(params=[True, False], ids=["handshake", "stateless"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Asking, str, bool]]:
    asking = Asking()
    app: Any = asking.server.streamable_http_app()
    with serving(HandshakeOnly(app) if request.param else app) as url:
        yield asking, f"{url}/mcp", request.param


@pytest.fixture
async def told(running: tuple[Asking, str, bool]) -> AsyncIterator[Told]:
    asking, url, handshake = running
    async with McpServers({"one": {"url": url}}) as servers:
        yield Told(asking, servers, handshake=handshake)


async def test_lists_that_change_are_told_and_a_resource_only_while_it_is_watched(told: Told) -> None:
    stop = await told.servers.watch("one", NOTE)
    await told.change([*LISTS, UPDATED])
    await stop()
    await told.change(LISTS)


async def test_a_server_is_asked_once_however_many_watch(told: Told) -> None:
    first, second = [await told.servers.watch("one", NOTE) for _ in range(2)]
    if told.handshake:
        assert told.asking.subscribed == [NOTE]
    await first()
    await first()  # who stops twice has stopped once
    await told.change([*LISTS, UPDATED])
    await second()
    if told.handshake:
        assert told.asking.subscribed == []


async def test_removed_listener_is_not_notified(told: Told) -> None:
    heard: list[ContentChange] = []
    stop = told.servers.on_content(heard.append)
    stop()
    await told.change(LISTS)
    assert heard == []


async def test_a_callback_that_fails_keeps_no_other_from_hearing(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: ContentChange) -> None:
        raise ValueError("no")

    told.stop()
    told.servers.on_content(fail)
    told.servers.on_content(told.changes.append)
    await told.change(LISTS)
    assert "on_content failed" in caplog.text


async def test_no_more_resources_are_watched_than_a_limit(told: Told) -> None:
    upstream = await told.servers.upstream("one")
    connection = await upstream.connect()
    told.servers._watched["one"].update({f"note://{number}": 1 for number in range(MAX_WATCHED)})
    with pytest.raises(RequestRefusedError, match="1,000 resources are watched already"):
        await upstream.changes.watch(connection, NOTE)


@pytest.mark.parametrize("running", [True], indirect=True, ids=["handshake"])
async def test_a_server_that_does_not_know_a_resource_says_so(told: Told) -> None:
    with pytest.raises(RequestRefusedError, match="no such resource"):
        await told.servers.watch("one", "note://other")
    await told.change(LISTS)


async def test_watched_resources_are_subscribed_again_on_the_next_connection(told: Told) -> None:
    await told.servers.watch("one", NOTE)
    told.servers.replace("one", {"url": f"{told.servers._configs['one'].url}?again"})
    told.changes.clear()
    await told.servers.tools("one")
    await until(lambda: UPDATED in told.changes)
    await told.change([*LISTS, UPDATED])

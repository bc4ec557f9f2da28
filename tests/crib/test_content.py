"""Resources and prompts of servers, through the crib, its views and the crib without await."""

import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from servers.launch import library
from waiting import until

from toolcrib import Crib, SyncCrib
from toolcrib.crib.content import ViewContent
from toolcrib.crib.sources.content import ContentLists
from toolcrib.discovery import Scope
from toolcrib.errors import (
    CribStateError,
    LoginRequiredError,
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ServerUnavailableError,
    ToolcribError,
)
from toolcrib.execution.mcp import ContentChange, Resource
from toolcrib.execution.mcp.freshness import Freshness


def config() -> dict[str, Any]:
    return {
        "mcpServers": {
            "main": library("main"),
            "annex": library("annex"),
            "gone": {"command": "/nowhere/at/all"},
            "off": {"command": "/nowhere", "disabled": True},
        }
    }


@pytest.fixture(scope="module")
def crib() -> Iterator[SyncCrib]:
    with SyncCrib(config()) as opened:
        yield opened


def test_the_resources_of_all_servers_are_listed_with_their_server(crib: SyncCrib) -> None:
    found = crib.resources()
    assert [(each.server, each.uri, each.mime_type) for each in found] == [
        ("main", "library://main/catalogue", "text/plain"),
        ("main", "library://main/cover", "image/png"),
        ("annex", "library://annex/catalogue", "text/plain"),
        ("annex", "library://annex/cover", "image/png"),
    ]
    assert found[0].description == "Every book on the shelf."
    assert [each.uri_template for each in crib.resource_templates()] == [
        "library://main/books/{title}",
        "library://annex/books/{title}",
    ]


def test_a_resource_is_read_on_the_server_that_has_it(crib: SyncCrib) -> None:
    (text,) = crib.read("library://annex/catalogue")
    assert (text.uri, text.text) == ("library://annex/catalogue", "emma\nivanhoe\nwalden")
    (image,) = crib.read("library://main/cover")
    assert base64.b64decode(image.blob or "") == b"\x89PNG"
    (book,) = crib.read("library://annex/books/emma")
    assert book.text == "The text of emma."
    (named,) = crib.read("library://main/catalogue", server="main")
    assert named.text == "emma\nivanhoe\nwalden"


def test_resource_refused_by_its_server_is_an_error_with_the_reason(crib: SyncCrib) -> None:
    with pytest.raises(RequestRefusedError, match="server 'main' refused resources/read: ") as caught:
        crib.read("library://nowhere", server="main")
    assert caught.value.method == "resources/read"
    with pytest.raises(RequestRefusedError, match=r"refused prompts/get: .*; it needs 'title'"):
        crib.prompt("main:review", {})


def test_where_a_server_that_may_have_it_is_down_that_is_said(crib: SyncCrib) -> None:
    for ask in (lambda: crib.read("other://x"), lambda: crib.prompt("nosuch")):
        with pytest.raises(ServerUnavailableError, match="server 'gone' is unavailable"):
            ask()
    with pytest.raises(ServerUnavailableError, match="there is no such server here"):
        crib.read("library://main/cover", server="elsewhere")


def test_a_prompt_is_filled_in_by_its_id_or_its_name(crib: SyncCrib) -> None:
    assert [each.id for each in crib.prompts()] == ["main:review", "main:greet", "annex:review"]
    review = next(each for each in crib.prompts() if each.id == "annex:review")
    assert [(each.name, each.required) for each in review.arguments or ()] == [
        ("title", True),
        ("tone", False),
    ]
    filled = crib.prompt("annex:review", {"title": "emma", "tone": "harsh"})
    assert [(each["role"], each["content"]["text"]) for each in filled.messages] == [
        ("user", "Write a harsh review of emma, of the shelf annex.")
    ]
    assert crib.prompt("greet").messages[0]["content"]["text"] == "Good morning."
    with pytest.raises(PromptNotFoundError, match="several servers have one; did you mean") as caught:
        crib.prompt("review")
    assert caught.value.suggestions == ("main:review", "annex:review")


def test_an_argument_is_completed(crib: SyncCrib) -> None:
    assert crib.complete("main:review", "title", "e").values == ("emma",)
    found = crib.complete("library://annex/books/{title}", "title", "")
    assert (found.values, found.total) == (("emma", "ivanhoe", "walden"), 3)


@pytest.mark.anyio
async def test_a_view_has_the_resources_of_the_namespaces_that_it_names() -> None:
    async with Crib({"mcpServers": {"main": library("main"), "annex": library("annex")}}) as crib:
        view = crib.view(Scope(namespaces=["annex"]))
        assert {each.server for each in await view.resources()} == {"annex"}
        assert [each.id for each in await view.prompts()] == ["annex:review"]
        assert (await view.prompt("review", {"title": "emma"})).messages
        with pytest.raises(ResourceNotFoundError, match="did you mean 'library://annex/catalogue'"):
            await view.read("library://main/catalogue")
        with pytest.raises(ServerUnavailableError, match="no such server here"):
            await view.read("library://main/catalogue", server="main")
        with pytest.raises(PromptNotFoundError):
            await view.prompt("main:greet")
        picked = crib.view(Scope(ids=["main:borrow"]))
        assert (await picked.resources(), await picked.prompts()) == ((), ())


@pytest.mark.anyio
async def test_resources_need_the_servers_to_run() -> None:
    with pytest.raises(CribStateError, match="async with crib"):
        await Crib(config()).resources()


class Counted:
    """Servers with one resource each, which count the requests for their lists."""

    def __init__(self, ttl: float | None = None, *, tells: bool = False) -> None:
        self.asked: list[str] = []
        self.freshness, self.tells = Freshness(ttl), tells
        self.tell: Callable[[ContentChange], object] = print
        self.names: dict[str, str] = {}
        self.owner: str | None = None
        self.fault: ToolcribError | None = None

    async def listed(self, server: str, kind: str) -> tuple[tuple[Any, ...], Freshness]:
        if self.fault is not None:
            raise self.fault
        if kind != "resources":
            return (), self.freshness
        self.asked.append(server)
        uri = f"count://{self.names.get(server, server)}"
        return (Resource(server=server, uri=uri, name="count"),), self.freshness

    def tells_changes(self, _: str, __: str) -> bool:
        return self.tells

    def person_key(self, _: str) -> str | None:
        return self.owner

    def on_change(self, callback: Callable[[ContentChange], object]) -> None:
        self.tell = callback


@asynccontextmanager
async def listing(
    servers: Counted, *names: str
) -> AsyncIterator[tuple[ViewContent, ContentLists, list[float]]]:
    """Yield the content of servers as clients see it, the underlying lists, and their clock."""
    clock = [0.0]
    lists = ContentLists(clock=lambda: clock[0])
    lists.serve(servers, dict.fromkeys(names, "same"), None, {})  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        await tasks.start(lists.run)
        yield ViewContent(servers, names, lists), lists, clock  # type: ignore[arg-type]
        tasks.cancel_scope.cancel()


async def uris(content: ViewContent) -> list[str]:
    """Return the addresses that a client is given."""
    return [each.uri for each in (await content.list_for_client("resources"))[0]]


@pytest.mark.anyio
async def test_server_of_a_resource_is_found_in_what_is_known_and_then_by_asking_all() -> None:
    servers = Counted()
    async with listing(servers, "one", "two") as (content, _, _):
        for _ in range(3):
            assert await content.server_of("count://two") == "two"
        assert servers.asked == ["one", "two"]
        with pytest.raises(ResourceNotFoundError):  # what nobody is known to have is looked for once more
            await content.server_of("count://three")
        assert len(servers.asked) == 4
        await content.resources()  # these do not tell of changes
        assert len(servers.asked) == 6


@pytest.mark.anyio
@pytest.mark.parametrize(("tells", "times"), [(False, 2), (True, 1)], ids=["silent", "tells its changes"])
async def test_list_is_asked_for_again_when_it_is_stale_unless_its_server_tells_changes(
    tells: bool, times: int
) -> None:
    servers = Counted(5.0, tells=tells)
    async with listing(servers, "one") as (content, _, clock):
        fresh = []
        for clock[0] in (0.0, 4.0, 5.0):
            fresh.append((await content.list_for_client("resources"))[1]["ttlMs"])
        assert (fresh, len(servers.asked)) == ([5000, 1000, 0 if tells else 5000], times)
        await content.server_of("count://one")  # for which what is known is good enough
        assert len(servers.asked) == times


@pytest.mark.anyio
async def test_list_of_a_minute_ago_is_given_at_once_and_fetched_in_the_background() -> None:
    servers, told = Counted(), list[ContentChange]()
    async with listing(servers, "one") as (content, lists, clock):
        lists.on_change(told.append)
        assert await uris(content) == ["count://one"]
        servers.names["one"] = "other"
        clock[0] = 59.0
        assert await uris(content) == ["count://one"]
        clock[0] = 60.0
        assert await uris(content) == ["count://one"]
        await until(lambda: told, "that it differs is told")
        assert await uris(content) == ["count://other"]
    assert told == [ContentChange("one", "resources")]


@pytest.mark.anyio
async def test_change_that_a_server_tells_is_fetched_before_anybody_is_told() -> None:
    servers, told = Counted(tells=True), list[tuple[ContentChange, list[str]]]()
    async with listing(servers, "one", "two") as (content, lists, _):
        known = partial(lists.items, ("one", None), "resources")
        lists.on_change(lambda change: told.append((change, [each.uri for each in known() or ()])))
        assert await uris(content) == ["count://one", "count://two"]
        servers.tell(ContentChange("two", "resources"))  # though it lists the same
        servers.names["one"] = "other"
        servers.tell(ContentChange("one", "resources"))
        assert [each.uri for each in await content.resources()] == ["count://other", "count://two"]
        servers.tell(ContentChange("two", "updated", "count://two"))
        await until(lambda: len(told) == 2, "both are told")
    assert told[0] == (ContentChange("one", "resources"), ["count://other"])
    assert told[1][0] == ContentChange("two", "updated", "count://two")


@pytest.mark.anyio
async def test_list_of_a_server_that_fails_is_given_as_it_was_and_that_of_a_lost_login_is_not() -> None:
    servers = Counted()
    async with listing(servers, "one") as (content, _, clock):
        assert await uris(content) == ["count://one"]
        clock[0], servers.fault = 60.0, ServerUnavailableError("one", "it is down")
        assert [each.uri for each in await content.resources()] == ["count://one"]
        servers.fault = LoginRequiredError("one", "log in")
        await content.resources()
        assert await uris(content) == []
        assert (await content.list_for_client("resources"))[1]["ttlMs"] == 0


@pytest.mark.anyio
async def test_list_of_one_person_is_given_to_no_other() -> None:
    servers = Counted()
    async with listing(servers, "one") as (content, lists, _):
        for servers.owner in ("ann", "bob"):
            servers.names["one"] = servers.owner or ""
            assert await uris(content) == [f"count://{servers.owner}"]
        servers.owner = "ann"
        assert await uris(content) == ["count://ann"]
        servers.tell(ContentChange("one", "resources", owner="ann"))
        assert lists.items(("one", "ann"), "resources") is None
        assert lists.items(("one", "bob"), "resources") is not None


@pytest.mark.anyio
async def test_oldest_lists_are_dropped_beyond_the_total_size() -> None:
    large, persons = ("any",) * 10_000, [("one", number) for number in range(11)]

    async def ask() -> tuple[tuple[Any, ...], Freshness]:
        return large, Freshness()

    async with listing(Counted(), "one") as (_, lists, _):
        for person in [*persons, *persons]:  # a list that comes again takes the place of the one before
            await lists.fetch(person, "resources", ask).wait()
        kept = [person for person in persons if lists.items(person, "resources") is not None]
    assert kept == persons[1:]

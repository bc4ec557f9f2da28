"""Resources and prompts of servers, through the crib, its views and the crib without await."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from servers.launch import library

from toolcrib import Crib, SyncCrib
from toolcrib.crib.content import ContentLists, ViewContent
from toolcrib.discovery import Scope
from toolcrib.errors import (
    CribStateError,
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ServerUnavailableError,
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


def test_what_a_server_does_not_give_is_refused_with_its_reason(crib: SyncCrib) -> None:
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
    """Servers with one resource each, which count how often they are asked for their lists."""

    def __init__(self, ttl: float | None = None, *, tells: bool = False) -> None:
        self.asked: list[str] = []
        self.freshness, self.tells = Freshness(ttl), tells

    async def listed(self, server: str, kind: str) -> tuple[tuple[Any, ...], Freshness]:
        if kind != "resources":
            return (), self.freshness
        self.asked.append(server)
        return (Resource(server=server, uri=f"count://{server}", name="count"),), self.freshness

    def tells_changes(self, _: str, __: str) -> bool:
        return self.tells

    def person_key(self, _: str) -> None:
        return None


@pytest.mark.anyio
async def test_servers_are_asked_for_their_lists_once_a_minute_or_when_they_have_changed() -> None:
    clock = [0.0]
    servers, lists = Counted(), ContentLists(clock=lambda: clock[0])
    content = ViewContent(servers, ("one", "two"), lists)  # type: ignore[arg-type]
    for _ in range(3):
        assert await content.server_of("count://two") == "two"
    assert servers.asked == ["one", "two"]
    content.forget(ContentChange("two", "resources"))
    assert await content.server_of("count://two") == "two"
    assert servers.asked == ["one", "two", "two"]
    clock[0] = 60.0
    assert await content.server_of("count://one") == "one"
    assert servers.asked == ["one", "two", "two", "one", "two"]
    with pytest.raises(ResourceNotFoundError):  # what nobody is known to have is looked for once more
        await content.server_of("count://three")
    assert len(servers.asked) == 7
    await content.resources()
    assert len(servers.asked) == 9


@pytest.mark.anyio
@pytest.mark.parametrize(("tells", "times"), [(False, 2), (True, 1)], ids=["silent", "tells its changes"])
async def test_a_list_is_asked_for_again_when_it_is_stale_unless_its_server_tells_changes(
    tells: bool, times: int
) -> None:
    clock = [0.0]
    servers, lists = Counted(5.0, tells=tells), ContentLists(clock=lambda: clock[0])
    content = ViewContent(servers, ("one",), lists)  # type: ignore[arg-type]
    fresh = []
    for clock[0] in (0.0, 4.0, 5.0):
        fresh.append((await content.listed("resources"))[1]["ttlMs"])
    assert (fresh, len(servers.asked)) == ([5000, 1000, 0 if tells else 5000], times)
    await content.server_of("count://one")  # for which a list of a minute ago is good enough
    assert len(servers.asked) == times


def test_lists_are_dropped_when_they_are_too_old_to_be_used() -> None:
    clock, before = [0.0], Freshness(600.0)
    lists = ContentLists(clock=lambda: clock[0])
    for clock[0], server in ((0.0, "one"), (30.0, "two"), (60.0, "three")):
        lists.keep((server, None), "resources", ("any",), before)
    kept = {server: lists.freshness((server, None), "resources").ttl for server in ("one", "two", "three")}
    assert kept == {"one": None, "two": 570.0, "three": 600.0}


def test_of_lists_that_hold_too_much_together_the_oldest_are_dropped() -> None:
    lists, large = ContentLists(clock=lambda: 0.0), ("any",) * 10_000
    persons = [("one", number) for number in range(11)]

    def kept() -> list[tuple[str, int]]:
        return [person for person in persons if lists.known(person, "resources", 60.0) is not None]

    for person in [*persons, *persons]:  # a list that comes again takes the place of the one before
        lists.keep(person, "resources", large, Freshness())
    assert kept() == persons[1:]
    lists.forget(persons[-1], "resources")
    lists.keep(persons[0], "resources", large, Freshness())
    assert kept() == persons[:-1]

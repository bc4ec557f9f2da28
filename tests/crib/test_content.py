"""Resources and prompts of servers, through the crib, its views and the crib without await."""

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Crib, SyncCrib
from toolcrib.discovery import Scope
from toolcrib.errors import (
    CribStateError,
    PromptNotFoundError,
    RequestRefusedError,
    ResourceNotFoundError,
    ServerUnavailableError,
)

LIBRARY = Path(__file__).parent.parent / "servers" / "library.py"


def library(shelf: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(LIBRARY), shelf]}


CONFIG = {
    "mcpServers": {
        "main": library("main"),
        "annex": library("annex"),
        "gone": {"command": "/nowhere/at/all"},
        "off": {"command": "/nowhere", "disabled": True},
    }
}


@pytest.fixture(scope="module")
def crib() -> Iterator[SyncCrib]:
    with SyncCrib(CONFIG) as opened:
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
        await Crib(CONFIG).resources()

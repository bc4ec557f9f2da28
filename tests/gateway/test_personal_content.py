"""Resources, prompts and completion of servers with a login for each person: visible to their owner alone."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import mcp_types
import pytest
from execution.oauth.accounts import accounts
from execution.oauth.library import ASKING, SHARED, Library
from gateway.passing import ONE_ERA, asked
from gateway.test_connect import Browser, client_of, gateway_of, link_to
from mcp import Client, MCPError
from mcp.client.subscriptions import listen
from waiting import until

from toolcrib.execution.oauth.vault import LoginVault

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ONE_ERA)]


@pytest.fixture
def library(era: str) -> Iterator[Library]:
    with accounts(Library, handshake=era == "handshake") as running:
        assert isinstance(running, Library)
        yield running


async def list_content(client: Client) -> dict[str, list[str]]:
    """Return everything that a client can list, without the gateway's own."""
    templates = (await client.list_resource_templates()).resource_templates
    return {
        "resources": [str(each.uri) for each in (await client.list_resources()).resources],
        "templates": [each.uri_template for each in templates if "toolcrib:" not in each.uri_template],
        "prompts": [each.name for each in (await client.list_prompts()).prompts],
    }


def belonging_to(name: str) -> dict[str, list[str]]:
    return {
        "resources": [SHARED, f"notes://{name}/diary"],
        "templates": [f"notes://{name}/pages/{{page}}"],
        "prompts": ["greet", f"greet_{name}"],
    }


async def text_of(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, mcp_types.TextResourceContents)
    return contents.text


async def test_each_person_finds_and_gets_what_is_theirs_on_their_own_connection(
    library: Library, era: str
) -> None:
    names = ("ann", "bob")
    async with gateway_of(library) as (gateway, url), AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(client_of(url, era, name)) for name in names}
        for name in names:
            await Browser(f"account of {name}").log_in(link_to(gateway, name))
        library.requests.clear()

        async def use(name: str) -> None:
            client = clients[name]
            for _ in range(5):
                assert await list_content(client) == belonging_to(name)
                assert await text_of(client, SHARED) == f"{SHARED} of {name}"
                page = f"notes://{name}/pages/1"
                assert await text_of(client, page) == f"{page} of {name}"
                (message,) = (await client.get_prompt("greet")).messages
                assert isinstance(message.content, mcp_types.TextContent)
                assert message.content.text == f"greet of {name}"
                for ref in (
                    mcp_types.PromptReference(name="greet"),
                    mcp_types.ResourceTemplateReference(uri=f"notes://{name}/pages/{{page}}"),
                ):
                    found = await client.complete(ref, {"name": "page", "value": "1"})
                    assert found.completion.values == [f"of {name}"]

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(use, name)
        assert {owner for owner, _ in library.requests} == set(names)  # and never with the operator's login
        if era == "handshake":  # which does not say how long a list is fresh, so it is kept, for each
            assert all(library.requests.count((name, "resources/list")) == 1 for name in names)
        assert await text_of(clients["bob"], "notes://ann/diary") == "notes://ann/diary of bob"


async def test_each_person_of_the_handshake_era_is_asked_on_a_connection_of_their_own(
    library: Library, era: str
) -> None:
    names, texts = ("ann", "bob"), dict[str, str]()

    async def read(url: str, name: str) -> None:
        async def answer(*_: Any) -> mcp_types.ElicitResult:
            return mcp_types.ElicitResult(action="accept", content={"name": name})

        async with client_of(url, "handshake", name, elicitation_callback=answer) as client:
            texts[name] = await text_of(client, f"toolcrib://servers/notes/{ASKING}")

    async with gateway_of(library) as (gateway, url):
        for name in names:
            await Browser(f"account of {name}").log_in(link_to(gateway, name))
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(read, url, name)
    assert texts == {name: f"{name} {ASKING} of {name}" for name in names}, era


async def test_a_person_without_a_login_finds_nothing_and_gets_the_address_of_the_page(
    library: Library, era: str
) -> None:
    async with (
        gateway_of(library) as (gateway, url),
        client_of(url, era, "ann") as ann,
        client_of(url, era, "bob") as bob,
    ):
        await Browser("account of bob").log_in(link_to(gateway, "bob"))
        assert await list_content(bob) == belonging_to("bob")
        library.requests.clear()
        assert await list_content(ann) == {"resources": [], "templates": [], "prompts": []}
        for request in (
            lambda: ann.read_resource(SHARED),
            lambda: ann.read_resource("notes://bob/diary"),
            lambda: ann.read_resource("toolcrib://servers/notes/notes://bob/diary"),
            lambda: ann.get_prompt("greet"),
            lambda: ann.complete(mcp_types.PromptReference(name="greet"), {"name": "n", "value": "1"}),
        ):
            with pytest.raises(MCPError) as refused:
                await request()
            link = refused.value.data["details"]["url"]
            assert link.startswith(f"{url}/connect/notes?ticket=")
            assert link in refused.value.message
            assert refused.value.data["details"]["login"] == "notes"
        assert library.requests == []
        await Browser("account of ann").log_in(link)
        assert await list_content(ann) == belonging_to("ann")
        assert await text_of(ann, SHARED) == f"{SHARED} of ann"
        assert LoginVault().remove("notes", library.url, ("tokens", "ann"))
        with pytest.raises(MCPError, match="it needs a login"):
            await text_of(ann, SHARED)
        assert await text_of(bob, SHARED) == f"{SHARED} of bob"


async def test_a_read_and_a_prompt_without_a_login_have_the_person_log_in_and_go_on(
    library: Library, era: str
) -> None:
    links: list[str] = []

    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        assert isinstance(params, mcp_types.ElicitRequestURLParams)
        links.append(params.url)
        assert "You are logged in" in (await Browser("account of ann").log_in(params.url)).text
        return mcp_types.ElicitResult(action="accept")

    async with (
        gateway_of(library) as (_, url),
        client_of(url, era, "ann", elicitation_callback=answer) as ann,
    ):
        assert await text_of(ann, SHARED) == f"{SHARED} of ann"
        assert LoginVault().remove("notes", library.url, ("tokens", "ann"))
        library.tokens.clear()
        (message,) = (await ann.get_prompt("greet")).messages
        assert isinstance(message.content, mcp_types.TextContent)
        assert message.content.text == "greet of ann"
    assert len(links) == 2
    assert all(each.startswith(f"{url}/connect/notes?ticket=") for each in links)


async def hear_stream(client: Client, heard: list[str], ready: anyio.Event) -> None:
    """Record the change notifications of a client of the stateless era."""
    wanted: dict[str, Any] = {"resources_list_changed": True, "resource_subscriptions": [SHARED]}
    async with listen(client.session, **wanted) as events:
        ready.set()
        async for event in events:
            heard.append(type(event).__name__)  # noqa: PERF401 - as they come


def hearing(heard: list[str], era: str) -> dict[str, Any]:
    """Return the options of a client of the handshake era that records notifications about resources."""

    async def hear(message: Any) -> None:
        if type(message).__name__.startswith("Resource"):  # not of tools, which everybody may be told of
            heard.append(type(message).__name__)

    return {"message_handler": hear} if era == "handshake" else {}


async def test_a_change_of_what_one_person_has_is_told_to_that_person_alone(
    library: Library, era: str
) -> None:
    told: dict[str, list[str]] = {"ann": [], "bob": []}
    async with (
        gateway_of(library) as (gateway, url),
        client_of(url, era, "ann", **hearing(told["ann"], era)) as ann,
        client_of(url, era, "bob", **hearing(told["bob"], era)) as bob,
        anyio.create_task_group() as tasks,
    ):
        clients = {"ann": ann, "bob": bob}
        for name, client in clients.items():
            await Browser(f"account of {name}").log_in(link_to(gateway, name))
            assert await list_content(client) == belonging_to(name)
            if era == "handshake":
                await asked(client, "resources/subscribe", uri=SHARED)
            else:
                ready = anyio.Event()
                tasks.start_soon(hear_stream, client, told[name], ready)
                await ready.wait()
        for name in ("ann", "bob", "ann"):
            heard = told[name]
            wanted = len(heard) + 2
            ran = await clients[name].call_tool("run_tool", {"tool_id": "notes:touch"})
            assert not ran.is_error, ran
            await until(lambda: len(heard) >= wanted, "both changes are told")  # noqa: B023 - it ends here
        tasks.cancel_scope.cancel()
    assert (len(told["ann"]), len(told["bob"])) == (4, 2)
    assert len(set(told["bob"])) == 2
    for_content = {owner for owner, method in library.requests if method != "subscriptions/listen"}
    assert for_content == {"ann", "bob"}  # the operator hears of tools alone

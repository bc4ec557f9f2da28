"""MCP Apps behind a gateway: pages of several servers at the same address, in both eras of the protocol."""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from gateway.passing import ERAS, asked, join, list_items, whole
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.subscriptions import listen
from mcp_types import ResourceTemplateReference
from waiting import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]
UPSTREAM = pytest.mark.parametrize("upstream", ERAS)
SERVERS = Path(__file__).parent.parent / "servers"
EXTENSION = "io.modelcontextprotocol/ui"
SETTINGS = {"mimeTypes": ["text/html;profile=mcp-app"]}
PAGE = "ui://clock/app.html"
UI = {"csp": {"connectDomains": ["https://a.example"]}, "permissions": {"camera": {}}, "prefersBorder": True}


def apps(name: str, era: str = "handshake", *others: str) -> dict[str, Any]:
    """Return how a server with pages is started, in an era; its tools name the other addresses too."""
    args = ["-S", "-I", str(SERVERS / "apps.py"), name, era, *others]
    return {"command": sys.executable, "args": args, "start_timeout": PATIENCE}


def two(era: str = "handshake", *others: str) -> dict[str, Any]:
    """Return two servers with the same addresses; the tools of the second name others too."""
    return {"one": apps("one", era), "two": apps("two", era, *others)}


async def read(client: Client, uri: str) -> str:
    """Return the text of a resource; empty if it cannot be read."""
    try:
        return str((await asked(client, "resources/read", uri=uri))["contents"][0]["text"])
    except MCPError:
        return ""


def page_of(tool: dict[str, Any]) -> str:
    """Return the address of the page that a listed tool names."""
    return str(tool["_meta"]["ui"]["resourceUri"])


@UPSTREAM
@pytest.mark.parametrize("expose", ["meta", "all"])
async def test_extension_is_declared_where_a_server_declares_it(era: str, upstream: str, expose: str) -> None:
    async with join(era, two(upstream), expose=expose) as client:
        declared = client.server_capabilities.extensions or {}
    assert declared[EXTENSION] == SETTINGS


async def test_extension_is_not_declared_where_no_server_declares_it(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        assert EXTENSION not in (client.server_capabilities.extensions or {})


@UPSTREAM
async def test_pages_of_two_servers_at_one_address_are_told_apart(era: str, upstream: str) -> None:
    async with join(era, two(upstream)) as client:
        tools = {tool["name"]: tool for tool in await list_items(client, "tools/list", "tools")}
        resources = await list_items(client, "resources/list", "resources")
        for server in ("one", "two"):
            meta = tools[f"{server}__show"]["_meta"]
            address = f"ui://{server}/clock/app.html"
            assert meta == {
                "ui": {"resourceUri": address, "visibility": ["model", "app"]},
                "ui/resourceUri": address,
                "openai/outputTemplate": address,
                "example.com/own": PAGE,
            }
            answer = await asked(client, "resources/read", uri=address)
            assert [(each["uri"], each["text"]) for each in answer["contents"]] == [
                (address, f"{PAGE} of {server}"),
                (f"ui://{server}/clock/part.js", f"ui://clock/part.js of {server}"),
            ]
            assert answer["contents"][0]["_meta"] == {"ui": UI}
            (entry,) = [each for each in resources if each["uri"] == address]
            assert entry["_meta"] == {"ui": UI}
    assert [each["uri"] for each in resources] == [
        "ui://one/clock/app.html",
        "plain://one",
        "ui://two/clock/app.html",
        "plain://two",
    ]


async def test_pages_of_the_only_server_keep_their_addresses(era: str) -> None:
    async with join(era, {"one": apps("one")}) as client:
        (show,) = [each for each in await list_items(client, "tools/list", "tools") if each["name"] == "show"]
        resources = await list_items(client, "resources/list", "resources")
        linked = await asked(client, "tools/call", name="link")
        assert await read(client, PAGE) == f"{PAGE} of one"
    assert page_of(show) == resources[0]["uri"] == linked["content"][0]["uri"] == PAGE


async def test_address_that_names_no_server_is_not_guessed(era: str) -> None:
    async with join(era, two()) as client:
        for uri in (
            PAGE,
            "UI://clock/app.html",
            "ui://three/clock/app.html",
            "ui:clock",
            "ui://",
            "ui://one",
        ):
            with pytest.raises(MCPError, match="no server has a resource"):
                await asked(client, "resources/read", uri=uri)


FORGED = [
    "ui://one/clock/app.html",
    "UI://one/clock/app.html",
    " ui://one/clock/app.html",
    "u\ti://one/clock/app.html",
    "ui:/one/clock/app.html",
    "ui://../one/clock/app.html",
    "ui://@one/clock/app.html",
    "ui:///one/clock/app.html",
    "toolcrib://servers/one/ui://clock/app.html",
    "toolcrib://servers/one/UI://clock/app.html",
]


def spellings(uri: str) -> list[str]:
    """Return spellings of an address by hosts: as is, without blanks, in lower case, without dot segments."""
    bare = "".join(character for character in uri if character not in "\t\r\n").strip()
    parts = urlsplit(bare)
    segments: list[str] = []
    for segment in parts.path.split("/")[1:]:
        if segment == "..":
            segments = segments[:-1]
        elif segment != ".":
            segments.append(segment)
    plain = f"{parts.scheme}://{parts.netloc.lower()}/{'/'.join(segments)}"
    return list(dict.fromkeys([uri, bare, bare.lower(), plain]))


@pytest.mark.parametrize("forged", FORGED)
async def test_tool_cannot_name_the_page_of_another_server(era: str, forged: str) -> None:
    async with join(era, two("handshake", forged)) as client:
        tools = {tool["name"]: tool for tool in await list_items(client, "tools/list", "tools")}
        linked = await asked(client, "tools/call", name="two__link")
        meta = tools["two__other_0"]["_meta"]
        addresses = [page_of(tools["two__other_0"]), meta["ui/resourceUri"]]
        addresses += [block["uri"] for block in linked["content"] if block.get("name") == "other"]
        texts = [await read(client, each) for uri in addresses for each in spellings(uri)]
    assert len(addresses) == 3
    assert not [text for text in texts if text.endswith("of one")]


@UPSTREAM
async def test_results_and_prompts_link_to_the_pages_of_their_server(era: str, upstream: str) -> None:
    async with join(era, two(upstream)) as client:
        linked = await asked(client, "tools/call", name="two__link")
        got = await asked(client, "prompts/get", name="two__present")
    for link, embedded, plain in (
        linked["content"],
        [message["content"] for message in got["messages"]],
    ):
        assert link["uri"] == embedded["resource"]["uri"] == "ui://two/clock/app.html"
        assert embedded["resource"]["text"] == f"{PAGE} of two"
        assert embedded["resource"]["_meta"] == {"ui": UI}
        assert plain["uri"] == "plain://two"
    assert linked["_meta"]["ui"]["resourceUri"] == "ui://two/clock/app.html"


async def test_meta_tools_give_links_to_the_pages_of_their_server(era: str) -> None:
    async with join(era, two(), expose="meta") as client:
        ran = await asked(client, "tools/call", name="run_tool", arguments={"tool_id": "two:link"})
        steps = [{"tool_id": "one:link"}, {"tool_id": "two:link"}]
        chain = await asked(client, "tools/call", name="run_chain", arguments={"steps": steps})
        address = ran["content"][0]["uri"]
        assert await read(client, address) == f"{PAGE} of two"
    structured = ran["structuredContent"]["structured"]
    assert address == structured[0]["uri"] == structured[1]["resource"]["uri"] == "ui://two/clock/app.html"
    results, final = chain["structuredContent"]["results"], chain["structuredContent"]["final"]
    assert [each["structured"][0]["uri"] for each in results] == [
        "ui://one/clock/app.html",
        "ui://two/clock/app.html",
    ]
    assert final[1]["resource"]["uri"] == "ui://two/clock/app.html"


async def test_templates_of_pages_are_listed_filled_in_and_completed_for_their_server(era: str) -> None:
    async with join(era, two()) as client:
        templates = await list_items(client, "resources/templates/list", "resourceTemplates")
        ref = ResourceTemplateReference(uri="ui://two/clock/{zone}")
        completed = await client.complete(ref, {"name": "zone", "value": ""})
        assert await read(client, "ui://two/clock/utc") == "ui://clock/utc of two"
    assert [each["uriTemplate"] for each in templates[1:]] == [
        "ui://one/clock/{zone}",
        "ui://two/clock/{zone}",
    ]
    assert completed.completion.values == ["ui://clock/{zone} of two"]


async def test_changed_page_is_told_by_its_address_here(era: str) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def follow(client: Client, ready: anyio.Event) -> None:
        async with listen(client.session, resource_subscriptions=["ui://two/clock/app.html"]) as events:
            ready.set()
            async for event in events:
                heard.append(event)  # noqa: PERF401 - as they come

    options = {"message_handler": hear} if era == "handshake" else {}
    async with join(era, two(), **options) as client, anyio.create_task_group() as tasks:
        if era == "handshake":
            await asked(client, "resources/subscribe", uri="ui://two/clock/app.html")
        else:
            ready = anyio.Event()
            tasks.start_soon(follow, client, ready)
            await ready.wait()
        await client.call_tool("one__touch", {})
        await client.call_tool("two__touch", {})

        def told() -> list[str]:
            found = [getattr(each, "params", each) for each in heard]
            return [str(each.uri) for each in found if getattr(each, "uri", None) is not None]

        await until(told, "the change is told")
        tasks.cancel_scope.cancel()
    assert set(told()) == {"ui://two/clock/app.html"}


@UPSTREAM
async def test_servers_are_told_whether_the_client_shows_pages(era: str, upstream: str) -> None:
    own = {"mimeTypes": ["text/html;profile=mcp-app", "text/example"]}
    seen = []
    for extensions in ([advertise(EXTENSION, own)], []):
        async with join(era, {"one": apps("one", upstream)}, extensions=extensions) as client:
            ran = await client.call_tool("declared", {})
            seen.append((ran.structured_content or {})["extensions"])
    # A connection of the handshake era is shared by all clients, and declares what they may have.
    assert [each and each.get(EXTENSION) for each in seen] == (
        [SETTINGS, SETTINGS] if upstream == "handshake" else [own, None]
    )


async def test_toolset_of_single_tools_has_the_pages_that_they_name(era: str) -> None:
    config = {"toolsets": {"picked": {"ids": ["two:show"]}}}
    async with join(era, two(), toolset="picked", config=config) as client:
        (tool,) = await list_items(client, "tools/list", "tools")
        assert await list_items(client, "resources/list", "resources") == []
        assert await read(client, page_of(tool)) == f"{PAGE} of two"
        for hidden in ("ui://one/clock/app.html", "ui://two/clock/utc", "plain://two"):
            assert await read(client, hidden) == ""


async def test_rules_decide_who_reads_a_page(era: str) -> None:
    rules = {
        "policy": [
            {"name": "no", "tools": ["two:ui://*"], "effect": "deny"},
            {"name": "rest", "effect": "allow"},
        ]
    }
    async with join(era, two(), config=rules) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        assert await read(client, "ui://one/clock/app.html") == f"{PAGE} of one"
        assert await read(client, "ui://two/clock/app.html") == ""
    assert uris == ["ui://one/clock/app.html", "plain://one", "plain://two"]


async def test_server_whose_name_no_host_has_keeps_its_pages_apart(era: str) -> None:
    servers = {"My Server": apps("one"), "my server": apps("two"), "my_server": apps("three")}
    async with join(era, servers) as client:
        uris = [each["uri"] for each in await list_items(client, "resources/list", "resources")]
        pages = [uri for uri in uris if uri.startswith("ui://")]
        texts = [await read(client, uri.lower()) for uri in pages]
    assert texts == [f"{PAGE} of one", f"{PAGE} of two", f"{PAGE} of three"]
    assert len(set(pages)) == 3

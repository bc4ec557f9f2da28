"""The surfaces of a gateway: the tools at each address, and the behaviour common to all of them."""

import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from gateway.little_face import LittleFace, serving
from gateway.passing import ERAS
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from waiting import PATIENCE, until

from toolcrib import tool
from toolcrib.crib import Settings
from toolcrib.errors import ConfigError
from toolcrib.gateway import Gateway
from toolcrib.gateway.addresses import EndpointAddress

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)


@tool(namespace="math")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(namespace="text", annotations={"destructiveHint": True})
def wipe() -> str:
    """Wipe the text."""
    return "wiped"


TOOLS = [add, wipe]
DIRECT = ["math__add", "text__wipe"]
META = "search_tools"
SHARED = "of-everybody"
ANNS = "of-ann"


@asynccontextmanager
async def client_at(url: str, era: str, token: str = "", **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[era], **options) as client,
    ):
        yield client


async def names_at(url: str, era: str = "stateless", token: str = "") -> list[str]:
    async with client_at(url, era, token) as client:
        return [each.name for each in (await client.list_tools()).tools]


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/mcp", EndpointAddress()),
        ("/mcp/", EndpointAddress()),
        ("/mcp/all", EndpointAddress(None, "all")),
        ("/mcp/all/", EndpointAddress(None, "all")),
        ("/mcp/meta", EndpointAddress(None, "meta")),
        ("/mcp/office", EndpointAddress("office")),
        ("/mcp/office/", EndpointAddress("office")),
        ("/mcp/office/all", EndpointAddress("office", "all")),
        ("/mcp/all/meta", EndpointAddress("all", "meta")),
        ("/mcp//all", EndpointAddress("", "all")),
        ("/mcp//", EndpointAddress("/")),
        ("/mcp/overall", EndpointAddress("overall")),
        ("/mcpall", None),
        ("/health", None),
    ],
)
async def test_a_path_leads_to_one_address(path: str, address: EndpointAddress | None) -> None:
    assert EndpointAddress.of_path(path) == address


@in_both_eras
async def test_one_gateway_serves_all_surfaces_at_once(era: str) -> None:
    config = {"toolsets": {"sums": {"namespaces": ["math"]}}}
    async with Gateway(config, tools=TOOLS) as gateway, serving(gateway) as url:
        assert META in await names_at(f"{url}/mcp", era)
        assert await names_at(f"{url}/mcp/all", era) == DIRECT
        assert META in await names_at(f"{url}/mcp/meta", era)
        assert META in await names_at(f"{url}/mcp/sums", era)
        assert await names_at(f"{url}/mcp/sums/all", era) == DIRECT[:1]
        async with client_at(f"{url}/mcp/sums/meta", era) as client:
            listed = (await client.call_tool("list_tools", {})).structured_content or {}
        assert [each["id"] for each in listed["tools"]] == ["math:add"]
        async with client_at(f"{url}/mcp/all", era) as client:
            (block,) = (await client.call_tool("math__add", {"a": 1, "b": 2})).content
            assert isinstance(block, mcp_types.TextContent)
            assert block.text == "3"


@pytest.mark.parametrize(
    ("asked", "everything", "toolset", "seen"),
    [
        (None, "meta", None, (False, False)),
        (None, "all", None, (True, True)),
        (None, "meta", "all", (False, True)),
        (None, "all", "meta", (True, False)),
        (None, "meta", "auto", (False, True)),
        ("meta", "all", "all", (False, False)),
        ("all", "meta", "meta", (True, True)),
    ],
)
async def test_a_toolset_has_its_own_setting_which_the_program_overrules(
    asked: Any, everything: str, toolset: str | None, seen: tuple[bool, bool]
) -> None:
    sums = {"namespaces": ["math"]} | ({"expose": toolset} if toolset else {})
    config = {"gateway": {"expose": everything}, "toolsets": {"sums": sums}}
    async with Gateway(config, tools=TOOLS, expose=asked) as gateway:
        found = []
        for name in (None, "sums"):
            async with Client(gateway.endpoint(name)) as client:
                found.append("math__add" in {each.name for each in (await client.list_tools()).tools})
        assert tuple(found) == seen
        async with Client(gateway.endpoint("sums", "meta")) as client:
            assert META in {each.name for each in (await client.list_tools()).tools}


@pytest.mark.parametrize("name", ["all", "meta"])
async def test_a_toolset_cannot_have_the_name_of_a_surface(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the name {name} is taken: /mcp/{name} shows") as caught:
        Settings(toolsets={name: {"namespaces": ["math"]}})
    assert caught.value.problems[0].path == "/toolsets"


async def test_frontends_of_a_program_are_not_got_around_by_a_surface() -> None:
    def face(*parts: Any) -> LittleFace:
        return LittleFace().take(*parts)

    async with (
        Gateway(frontends=face, tools=TOOLS) as gateway,
        serving(gateway) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        for path in ("all", "meta"):
            assert (await http.post(f"{url}/mcp/{path}", json={})).status_code == 404
        assert "math__add" not in await names_at(f"{url}/mcp")
        with pytest.raises(ConfigError):
            gateway.endpoint(None, "all")


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


async def test_a_session_is_bound_to_its_surface() -> None:
    config = {"toolsets": {"sums": {"namespaces": ["math"]}}}
    paths = ("mcp", "mcp/all", "mcp/meta", "mcp/sums", "mcp/sums/all")
    async with (
        Gateway(config, tools=TOOLS) as gateway,
        serving(gateway) as url,
        httpx2.AsyncClient(timeout=PATIENCE, headers=ACCEPT) as http,
    ):
        for own in paths:
            begun = await http.post(f"{url}/{own}", json=HELLO)
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            for path in paths:
                for method, body in (("POST", LIST), ("DELETE", None)):
                    if path == own:
                        continue
                    answer = await http.request(method, f"{url}/{path}", json=body, headers=session)
                    assert answer.status_code == 404, (own, path, method)
            assert (await http.post(f"{url}/{own}", json=LIST, headers=session)).status_code == 200


async def test_an_answer_to_a_question_counts_at_its_own_surface_alone() -> None:
    async def never(*_: Any) -> mcp_types.ElicitResult:
        raise AssertionError

    call = {"tool_id": "text:wipe", "args": {}}
    yes = mcp_types.ElicitResult(action="accept", content={"confirm": True})
    async with Gateway(tools=TOOLS) as gateway, serving(gateway) as url:
        async with client_at(f"{url}/mcp/meta", "stateless", elicitation_callback=never) as client:
            asked = await client.session.call_tool("run_tool", call, allow_input_required=True)
            assert isinstance(asked, mcp_types.InputRequiredResult)
        given: dict[str, Any] = {
            "allow_input_required": True,
            "input_responses": dict.fromkeys(asked.input_requests or {}, yes),
            "request_state": asked.request_state,
        }
        async with client_at(f"{url}/mcp", "stateless", elicitation_callback=never) as client:
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool("run_tool", call, **given)
        async with client_at(f"{url}/mcp/meta", "stateless", elicitation_callback=never) as client:
            ran = await client.session.call_tool("run_tool", call, **given)
        assert (ran.structured_content or {})["structured"] == "wiped"


@in_both_eras
async def test_a_destructive_tool_asks_at_each_surface(era: str) -> None:
    questions: list[str] = []

    async def decline(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action="decline")

    async with Gateway(tools=TOOLS) as gateway, serving(gateway) as url:
        async with client_at(f"{url}/mcp/all", era, elicitation_callback=decline) as client:
            assert (await client.call_tool("text__wipe", {})).is_error
        async with client_at(f"{url}/mcp/meta", era, elicitation_callback=decline) as client:
            assert (await client.call_tool("run_tool", {"tool_id": "text:wipe"})).is_error
    assert len(questions) == 2


async def test_every_surface_asks_for_the_token_and_checks_host_and_origin() -> None:
    config = {"gateway": {"token": SHARED}, "toolsets": {"sums": {"namespaces": ["math"]}}}
    async with (
        Gateway(config, tools=TOOLS) as gateway,
        serving(gateway) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        for path in ("mcp/all", "mcp/meta", "mcp/sums/all", "mcp/sums/meta"):
            at = f"{url}/{path}"
            assert (await http.post(at, json=LIST)).status_code == 401
            assert (await http.post(at, json=LIST, headers={"host": "evil.example"})).status_code == 421
            origin = {"origin": "https://evil.example"}
            assert (await http.post(at, json=LIST, headers=origin)).status_code == 403
            assert await names_at(at, token=SHARED)


async def test_a_token_for_a_toolset_opens_the_surfaces_of_that_alone() -> None:
    digest = f"sha256:{hashlib.sha256(ANNS.encode()).hexdigest()}"
    config = {
        "gateway": {"tokens": {"ann": {"hash": digest, "toolsets": ["sums"]}}},
        "toolsets": {"sums": {"namespaces": ["math"]}, "words": {"namespaces": ["text"]}},
    }
    async with (
        Gateway(config, tools=TOOLS) as gateway,
        serving(gateway) as url,
        httpx2.AsyncClient(timeout=PATIENCE, headers={"authorization": f"Bearer {ANNS}"}) as http,
    ):
        for path in ("mcp", "mcp/all", "mcp/meta", "mcp/words/all"):
            assert (await http.post(f"{url}/{path}", json=LIST)).status_code == 403, path
        assert await names_at(f"{url}/mcp/sums/all", token=ANNS) == DIRECT[:1]
        assert META in await names_at(f"{url}/mcp/sums/meta", token=ANNS)


async def test_each_surface_has_metadata_of_its_own_for_logins() -> None:
    auth = {"issuer": "https://login.example", "audience": "https://crib.example/mcp"}
    config = {"gateway": {"auth": auth}, "toolsets": {"sums": {"namespaces": ["math"]}}}
    async with Gateway(config) as gateway, serving(gateway) as url, httpx2.AsyncClient() as http:
        for name in ("all", "meta", "sums", "sums/all", "sums/meta"):
            path = f"/.well-known/oauth-protected-resource/mcp/{name}"
            refused = await http.post(f"{url}/mcp/{name}", json={})
            assert f'resource_metadata="https://crib.example{path}"' in refused.headers["www-authenticate"]
            told = (await http.get(f"{url}{path}")).json()
            assert told["resource"] == f"https://crib.example/mcp/{name}"
        for name in ("nosuch", "nosuch/all", "sums/other", "all/meta"):
            path = f"/.well-known/oauth-protected-resource/mcp/{name}"
            assert (await http.get(f"{url}{path}")).status_code == 404


@in_both_eras
async def test_surfaces_follow_the_file(tmp_path: Path, era: str) -> None:
    config = tmp_path / "toolcrib.toml"

    def write(expose: str, toolset: str = "sums") -> None:
        config.write_text(f'[toolsets.{toolset}]\nnamespaces = ["math"]\nexpose = "{expose}"\n')

    write("meta")
    async with Gateway(config, tools=TOOLS, watch=False) as gateway, serving(gateway) as url:
        gone = gateway.find(EndpointAddress("sums", "all"))
        assert META in await names_at(f"{url}/mcp/sums", era)
        write("all")
        await gateway.reload()
        assert await names_at(f"{url}/mcp/sums", era) == DIRECT[:1]
        assert META in await names_at(f"{url}/mcp/sums/meta", era)
        assert gateway.find(EndpointAddress("sums", "all")) is gone
        write("all", "others")
        await gateway.reload()
        assert gone is not None
        assert gone.closed.is_set()
        assert gateway.toolsets == ("others",)
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            for name in ("sums", "sums/all", "sums/meta"):
                assert (await http.post(f"{url}/mcp/{name}", json=LIST)).status_code == 404
        assert await names_at(f"{url}/mcp/others/all", era) == DIRECT[:1]


async def test_a_client_of_a_surface_is_told_of_its_tools_and_counted() -> None:
    told = anyio.Event()

    async def note(message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            told.set()

    @tool(namespace="math")
    def double(a: int) -> int:
        """Double a number."""
        return 2 * a

    async with (
        Gateway(tools=TOOLS) as gateway,
        serving(gateway) as url,
        client_at(f"{url}/mcp/all", "handshake", message_handler=note) as client,
    ):
        await client.list_tools()
        await until(lambda: b"toolcrib_sessions 1.0" in gateway.metrics()[0], "the session is counted")
        gateway.crib.add(double)
        with anyio.fail_after(PATIENCE):
            await told.wait()
        assert "math__double" in {each.name for each in (await client.list_tools()).tools}


async def upstream_names(gateway: Gateway, server: str) -> list[str]:
    await gateway.crib.namespaces()
    return [each.name for each in gateway.crib.index.list_all() if each.namespace == server]


@pytest.mark.parametrize("expose", ["meta", "auto", "all"])
@pytest.mark.parametrize("path", ["mcp", "mcp/sums", "mcp/all"])
async def test_a_toolcrib_over_http_has_the_tools_themselves_of_the_one_behind_it(
    path: str, expose: Any
) -> None:
    config = {"toolsets": {"sums": {"namespaces": ["math"]}}}
    async with (
        Gateway(config, tools=TOOLS, expose=expose) as behind,
        serving(behind) as url,
        Gateway({"servers": {"office": {"url": f"{url}/{path}"}}}) as front,
    ):
        assert await upstream_names(front, "office") == (DIRECT[:1] if "sums" in path else DIRECT)
        ran = await front.crib.run("office:math__add", {"a": 1, "b": 2})
        assert ran.structured == 3
        assert META not in front.crib.content.servers.instructions("office")


async def test_a_toolcrib_that_is_told_to_see_the_meta_tools_sees_them() -> None:
    async with Gateway(tools=TOOLS) as behind, serving(behind) as url:
        for server in (
            {"url": f"{url}/mcp/meta"},
            {"url": f"{url}/mcp", "headers": {"Toolcrib-Expose": "meta"}},
        ):
            async with Gateway({"servers": {"office": server}}) as front:
                assert META in await upstream_names(front, "office")


async def test_a_toolcrib_over_stdio_has_the_tools_themselves_of_the_one_behind_it(tmp_path: Path) -> None:
    served = [sys.executable, "-m", "toolcrib.cli", "serve", "--demo"]
    server = {"command": served[0], "args": served[1:], "start_timeout": PATIENCE, "cwd": str(tmp_path)}
    async with Gateway({"servers": {"office": server}}) as front:
        names = await upstream_names(front, "office")
        assert "math__evaluate" in names
        assert META not in names
        ran = await front.crib.run("office:math__evaluate", {"expression": "6 * 7"})
        assert "42" in json.dumps(ran.structured)


async def test_a_gateway_that_is_its_own_server_leaves_it_out_and_says_so() -> None:
    async with Gateway(tools=TOOLS) as gateway, serving(gateway) as url:
        settings = gateway.crib.settings
        await gateway.crib.reload(settings.replace(servers={"me": {"url": f"{url}/mcp"}}))
        await gateway.crib.namespaces()
        status = gateway.crib.status()["me"]
        assert (status.state, status.tools) == ("failed", None)
        assert "it is this very gateway; take it out of the configuration" in (status.last_error or "")
        assert [each.id for each in gateway.crib.index.list_all()] == ["math:add", "text:wipe"]


async def test_gateways_that_serve_each_other_end_the_loop() -> None:
    async with (
        Gateway(tools=[add]) as first,
        serving(first) as first_url,
        Gateway({"servers": {"first": {"url": f"{first_url}/mcp"}}}, tools=[wipe]) as second,
        serving(second) as second_url,
    ):
        assert await upstream_names(second, "first") == ["math__add"]
        settings = first.crib.settings
        await first.crib.reload(settings.replace(servers={"second": {"url": f"{second_url}/mcp"}}))
        await first.crib.namespaces()
        status = first.crib.status()["second"]
        assert status.state == "failed"
        assert "leads back to this gateway through others" in (status.last_error or "")
        assert [each.id for each in first.crib.index.list_all()] == ["math:add"]
        assert await upstream_names(second, "first") == ["math__add"]

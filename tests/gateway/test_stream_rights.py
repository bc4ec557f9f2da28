"""Access to notifications is checked when they are sent, and no stream outlives its authorization."""

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from gateway.identity import forging
from gateway.little_face import serving
from gateway.passing import ERAS, asked, whole
from gateway.support import VERSIONS
from gateway.tasks.raw import RawClient
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import listen
from servers import asking
from waiting import PATIENCE, until

from toolcrib.execution import Principal
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)

SHARED = "whole://shared"
ALLOW: dict[str, Any] = {"name": "staff", "who": ["group:staff"], "effect": "allow"}


def deny(*tools: str) -> dict[str, Any]:
    return {"name": "not for bob", "who": ["bob"], "tools": list(tools), "effect": "deny"}


def config(*rules: dict[str, Any], **tokens: dict[str, Any] | None) -> dict[str, Any]:
    """Return a configuration with rules before the one that allows staff everything, and other tokens."""
    known: dict[str, Any] = {
        name: {"hash": f"sha256:{sha256(f'of-{name}'.encode()).hexdigest()}", "groups": ["staff"]}
        for name in ("ann", "bob")
    }
    known = {name: {**token, **(tokens.get(name) or {})} for name, token in known.items()}
    kept = {name: token for name, token in known.items() if tokens.get(name, {}) is not None}
    servers = {"whole": whole() | {"start_timeout": PATIENCE}}
    return {"servers": servers, "policy": [*rules, ALLOW], "gateway": {"tokens": kept}}


@asynccontextmanager
async def serve(*rules: dict[str, Any]) -> AsyncIterator[tuple[Gateway, str]]:
    async with Gateway(config(*rules), expose="all") as gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            await gateway.crib.namespaces()
        yield gateway, url


@asynccontextmanager
async def client_of(url: str, era: str, name: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer of-{name}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode=ERAS[era],  # type: ignore[arg-type]
            read_timeout_seconds=PATIENCE,
            **options,
        ) as client,
    ):
        yield client


@asynccontextmanager
async def listener(url: str, era: str, name: str, uri: str = SHARED) -> AsyncIterator[list[str]]:
    """Yield the kinds of changes that a client is notified of; it has subscribed to a resource."""
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(
            type(message).__name__.removesuffix("Notification").replace("ListChanged", "sListChanged")
        )

    async def follow(ready: anyio.Event) -> None:
        wanted = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with listen(client.session, **wanted, resource_subscriptions=[uri]) as events:
            ready.set()
            async for event in events:
                heard.append(type(event).__name__)  # noqa: PERF401 - as they come

    options = {"message_handler": hear} if era == "handshake" else {}
    async with client_of(url, era, name, **options) as client, anyio.create_task_group() as tasks:
        if era == "handshake":
            await asked(client, "resources/subscribe", uri=uri)
        else:
            ready = anyio.Event()
            tasks.start_soon(follow, ready)
            with anyio.fail_after(PATIENCE):
                await ready.wait()
        yield heard
        tasks.cancel_scope.cancel()


async def change(gateway: Gateway) -> None:
    """Have the server change a resource and its lists."""
    await gateway.crib.run("whole:change", principal=Principal(subject="program", groups=["staff"]))


def has(heard: list[str], kind: str, times: int = 1) -> Callable[[], bool]:
    return lambda: heard.count(kind) >= times


@in_both_eras
async def test_member_of_a_group_hears_of_what_rules_allow_the_group_alone(era: str) -> None:
    async with serve() as (gateway, url), listener(url, era, "ann") as heard:

        async def told() -> bool:
            await change(gateway)  # again, until the session's stream is open
            return "ResourceUpdated" in heard

        await until(told, "the change of the resource is told")
        await until(lambda: {"ResourcesListChanged", "PromptsListChanged"} <= set(heard), "of the lists too")


@in_both_eras
async def test_right_that_a_reload_takes_away_ends_the_news(era: str) -> None:
    kinds = ("ResourceUpdated", "ResourcesListChanged", "PromptsListChanged")
    async with (
        serve() as (gateway, url),
        listener(url, era, "ann") as ann,
        listener(url, era, "bob") as bob,
    ):

        async def both_told() -> bool:
            await change(gateway)
            return "ResourceUpdated" in ann and "ResourceUpdated" in bob

        await until(both_told)
        await gateway.crib.reload(config(deny("whole:*")))

        async def bob_is_told_no_more() -> bool:
            before, told = len(bob), ann.count("ResourceUpdated")
            await change(gateway)
            await until(has(ann, "ResourceUpdated", told + 1), "ann is told all the same")
            return len(bob) == before

        await until(bob_is_told_no_more, "what was sent before the reload has arrived")
        before = len(bob)
        for _ in range(3):
            told = ann.count("ResourceUpdated")
            await change(gateway)
            await until(has(ann, "ResourceUpdated", told + 1))
        assert bob[before:] == []
        await gateway.crib.reload(config())

        async def bob_is_told_again() -> bool:
            await change(gateway)
            return any(kind in bob[before:] for kind in kinds)

        await until(bob_is_told_again)


async def test_change_of_a_part_that_a_rule_denies_is_not_told() -> None:
    async with (
        serve(deny(f"whole:{SHARED}")) as (gateway, url),
        listener(url, "handshake", "ann", "whole:") as ann,
        listener(url, "handshake", "bob", "whole:") as bob,
    ):

        async def both_told() -> bool:
            await change(gateway)
            return "ResourceUpdated" in ann and "ResourcesListChanged" in bob

        await until(both_told)
        assert "ResourceUpdated" not in bob


@in_both_eras
async def test_tools_that_are_hidden_change_unheard(era: str) -> None:
    async with (
        serve(deny("notes:erase*")) as (gateway, url),
        listener(url, era, "ann") as ann,
        listener(url, era, "bob") as bob,
    ):
        gateway.crib.add(note, namespace="notes", name="read_0")
        await until(
            lambda: "ToolsListChanged" in ann and "ToolsListChanged" in bob, "both hear of a new tool"
        )
        before = bob.count("ToolsListChanged")
        for number in range(3):
            told = ann.count("ToolsListChanged")
            gateway.crib.add(note, namespace="notes", name=f"erase_{number}")
            await until(has(ann, "ToolsListChanged", told + 1), "ann hears of the tool that bob may not find")
        assert bob.count("ToolsListChanged") == before
        gateway.crib.add(note, namespace="notes", name="read_1")
        await until(has(bob, "ToolsListChanged", before + 1))


def note() -> str:
    """Do something with a note."""
    return ""


class Refused(Exception):  # noqa: N818 - it is an answer
    """A token is not taken any more."""


def check(response: httpx2.Response) -> None:
    if response.status_code == 401:
        raise Refused
    assert response.status_code == 200


@asynccontextmanager
async def open_stream(url: str, era: str, authorization: str) -> AsyncIterator[AsyncIterator[str]]:
    """Yield the lines of a stream of changes: of a GET request, or of `subscriptions/listen`.

    Raises:
        Refused: the token does not open it.
    """
    version = VERSIONS[era]
    headers = {
        "authorization": authorization,
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
    }
    client = {"name": "raw", "version": "1"}
    async with httpx2.AsyncClient(timeout=PATIENCE, headers=headers, base_url=url) as http:
        if era == "handshake":
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            begun = await http.post("/mcp", json=hello)
            check(begun)
            http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            request = http.build_request("GET", "/mcp")
        else:
            meta = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": client,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            request = http.build_request(
                "POST", "/mcp", json=body, headers={"mcp-method": "subscriptions/listen"}
            )
        response = await http.send(request, stream=True)
        try:
            check(response)
            yield response.aiter_lines()
        finally:
            await response.aclose()


@in_both_eras
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(None, id="revoked"),
        pytest.param({"expires": "2020-01-01T00:00:00Z"}, id="expired"),
        pytest.param({"groups": []}, id="in no group"),
        pytest.param({"toolsets": []}, id="for other endpoints"),
        pytest.param({"hash": f"sha256:{sha256(b'another').hexdigest()}"}, id="replaced"),
    ],
)
async def test_stream_ends_with_the_token_that_opened_it(era: str, other: dict[str, Any] | None) -> None:
    async with (
        serve() as (gateway, url),
        open_stream(url, era, "Bearer of-ann") as kept,
        open_stream(url, era, "Bearer of-bob") as lines,
    ):
        await gateway.crib.reload(config(bob=other))
        with anyio.fail_after(PATIENCE):
            last = [line async for line in lines if line.startswith("data:")]
        if era == "stateless":
            assert json.loads(last[-1].removeprefix("data:"))["error"]["message"].startswith("the token")
        gateway.crib.add(note, namespace="notes", name="read")
        with anyio.fail_after(PATIENCE):
            async for line in kept:  # those of others go on
                if "tools/list_changed" in line:
                    break
            else:
                pytest.fail("the stream of another token has ended")


@in_both_eras
@pytest.mark.parametrize("kind", ["named", "of the issuer"])
async def test_stream_ends_when_its_token_expires(era: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(forging.KEYS))
    auth = {"issuer": forging.ISSUER, "audience": forging.AUDIENCE, "leeway": 0}
    async with serve() as (gateway, url):
        for lifetime in (2, 10, 50):  # the first within which a stream can be opened on this machine
            expires = int(time.time()) + lifetime
            named = {"expires": datetime.fromtimestamp(expires, UTC).isoformat()}
            settings = config(bob=named if kind == "named" else None)
            settings["gateway"]["auth"] = auth | {"jwks": str(tmp_path / "keys.json")}
            await gateway.crib.reload(settings)
            header = "Bearer of-bob" if kind == "named" else forging.token(exp=expires, groups=["staff"])
            try:
                async with open_stream(url, era, header) as lines:
                    with anyio.fail_after(PATIENCE):
                        async for _ in lines:
                            pass
            except Refused:
                continue
            assert time.time() >= expires
            return
    pytest.fail("no stream could be opened before its token had expired")


async def test_call_ends_with_the_token_that_was_revoked() -> None:
    async with serve() as (gateway, url), anyio.create_task_group() as tasks:
        begun, ended = anyio.Event(), anyio.Event()

        async def wait() -> str:
            """Wait for ever."""
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

        gateway.crib.add(wait, namespace="notes", name="wait")

        async def call() -> None:
            async with client_of(url, "stateless", "bob") as client:
                with pytest.raises((MCPError, httpx2.HTTPError)):
                    await client.call_tool("notes__wait", {})
            tasks.cancel_scope.cancel()

        tasks.start_soon(call)
        with anyio.fail_after(PATIENCE):
            await begun.wait()
            await gateway.crib.reload(config(bob=None))
            await ended.wait()
            await anyio.sleep_forever()


def waiting_calls(gateway: Gateway) -> dict[str, int]:
    """Add a tool that waits, and return how often it was called, and its calls cancelled."""
    counted = {"calls": 0, "cancelled": 0}

    async def tick() -> int:
        """Wait for a long time."""
        counted["calls"] += 1
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            counted["cancelled"] += 1
            raise

    gateway.crib.add(tick, namespace="notes", name="tick")
    return counted


@pytest.mark.parametrize("other", [None, {"expires": "2020-01-01T00:00:00Z"}], ids=["revoked", "expired"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_chain", {"steps": [{"tool_id": "notes:tick"}]}),
        ("execute_code", {"code": "await notes.tick()"}),
    ],
    ids=["chain", "code"],
)
async def test_task_ends_with_the_token_that_was_revoked(
    tool: str, arguments: dict[str, Any], other: dict[str, Any] | None
) -> None:
    async with Gateway(config()) as gateway, serving(gateway) as url:
        counted = waiting_calls(gateway)
        await RawClient(url, who="of-bob").begin(tool, **arguments)
        assert counted == {"calls": 1, "cancelled": 0}
        await gateway.crib.reload(config(bob=other))
        await until(lambda: counted["cancelled"] == 1, "the task ends")


async def test_task_goes_on_by_the_right_of_the_request_that_asked_about_it_last(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(forging.KEYS))

    def with_algorithms(*algorithms: str) -> dict[str, Any]:
        auth = {"issuer": forging.ISSUER, "audience": forging.AUDIENCE, "jwks": str(tmp_path / "keys.json")}
        settings = config()
        settings["gateway"]["auth"] = auth | {"algorithms": list(algorithms)}
        return settings

    former = forging.token(groups=["staff"])
    latest = forging.token(forging.CURVE, kid="curve", alg="ES256", groups=["staff"])
    async with Gateway(with_algorithms("RS256", "ES256")) as gateway, serving(gateway) as url:
        counted = waiting_calls(gateway)
        old, new = (RawClient(url, who=each.removeprefix("Bearer ")) for each in (former, latest))
        tasks = [await old.begin("run_chain", steps=[{"tool_id": "notes:tick"}]) for _ in range(2)]
        assert (await new.get(tasks[0]))["status"] == "working"
        await gateway.crib.reload(with_algorithms("ES256"))
        await until(lambda: counted["cancelled"] == 1, "the task that nobody asked about ends")
        assert [(await new.get(task))["status"] for task in tasks] == ["working", "cancelled"]


async def test_call_that_waits_for_input_ends_with_the_token_that_was_revoked() -> None:
    server = {"command": sys.executable, "args": [asking.__file__, "--handshake"], "start_timeout": PATIENCE}
    before, after = config(), config(bob=None)
    for each in (before, after):
        each["servers"] = {"asking": server}
    async with Gateway(before) as gateway, serving(gateway) as url:
        client = RawClient(url, capabilities={"elicitation": {"form": {}}}, who="of-bob")
        answer = await client.call("run_tool", tool_id="asking:form")
        assert answer["resultType"] == "input_required"
        assert gateway.status()["asking"].in_flight == 1
        await gateway.crib.reload(after)
        await until(lambda: gateway.status()["asking"].in_flight == 0, "the call ends")

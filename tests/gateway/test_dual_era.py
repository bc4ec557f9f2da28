"""Servers of both eras behind a gateway: each call uses the era in which its client can be asked for input."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from execution.mcp.web import serving as serving_app
from gateway.little_face import serving
from gateway.passing import asked
from gateway.support import Place, Stdio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import PromptReference
from servers.asking import Asking, StatelessOnly
from servers.launch import dual, dual_over_http, tiny
from waiting import PATIENCE, until

from toolcrib.execution.mcp import upstream
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
OLD = "2025-11-25"
NEW = "2026-07-28"
WATCHED = "test://watched-resource"
MODES: dict[str, Any] = {OLD: "legacy", NEW: "auto"}


class User:
    """Answers the requests of a server to its client, if it is allowed to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = anyio.Event()
        self.answers.set()
        self.updated: list[str] = []

    def options(self) -> dict[str, Any]:
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.list_roots,
            "message_handler": self.hear,
        }

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append("sampling")
        content = types.TextContent(text=f"re: {params.messages[0].content.text}")  # type: ignore[union-attr]
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def elicit(self, *_: Any) -> types.ElicitResult:
        self.asked.append("elicitation")
        await self.answers.wait()
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def list_roots(self, _: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))


@asynccontextmanager
async def gateway_of(servers: dict[str, Any], expose: Any = "all", **settings: Any) -> AsyncIterator[str]:
    """Serve a gateway over servers that have all listed their tools, and yield its address."""
    config = {"servers": servers, "timeout": PATIENCE, **settings}
    async with Gateway(config, expose=expose) as gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            await gateway.crib.namespaces()
        yield f"{url}/mcp"


@asynccontextmanager
async def client_of(url: str, era: str, user: User | None = None) -> AsyncIterator[Client]:
    """Yield a client of an era; without a user it declares no capabilities."""
    given = {} if user is None else user.options()
    transport = streamable_http_client(url)
    with anyio.fail_after(PATIENCE):
        async with Client(transport, mode=MODES[era], read_timeout_seconds=PATIENCE, **given) as client:
            assert client.protocol_version == era
            yield client


@asynccontextmanager
async def clients_of(
    servers: dict[str, Any], user: User | None = None, expose: Any = "all"
) -> AsyncIterator[tuple[Client, Client]]:
    """Yield two clients of a gateway: one of the stateless era, and one of the handshake era with a user."""
    async with (
        gateway_of(servers, expose) as url,
        client_of(url, NEW) as new,
        client_of(url, OLD, user or User()) as old,
    ):
        yield new, old


async def text_of(client: Client, tool: str, **args: Any) -> str:
    result = await client.call_tool(tool, args)
    assert not result.is_error, result
    return str(result.content[0].text)  # type: ignore[union-attr]


async def call_of(client: Client, prefix: str = "") -> tuple[int, str]:
    """Return the process and the revision that a call comes in."""
    pid, revision = (await text_of(client, f"{prefix}about_call")).split()
    return int(pid), revision


def runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> Any:
    """The settings of a server of both eras, on each transport."""
    if request.param == "stdio":
        yield dual()
    else:
        with dual_over_http() as config:
            yield config


async def test_legacy_client_is_asked_by_tools_prompts_resources_and_completions(server: Any) -> None:
    user = User()
    async with gateway_of({"dual": server}) as url, client_of(url, OLD, user) as client:
        assert await text_of(client, "test_sampling", prompt="hi") == "LLM response: re: hi"
        assert await text_of(client, "greet_user") == "Hello, Ada!"
        assert await text_of(client, "list_folders") == "file:///work"
        prompt = await client.get_prompt("welcome")
        resource = await client.read_resource("test://greeting/Dear")
        completed = await client.complete(PromptReference(name="welcome"), {"name": "name", "value": "?"})
    assert prompt.messages[0].content.text == "Hello, Ada!"  # type: ignore[union-attr]
    assert resource.contents[0].text == "Dear, Hello, Ada!"  # type: ignore[union-attr]
    assert completed.completion.values == ["Ada"]
    assert user.asked == ["sampling", "elicitation", "roots", *["elicitation"] * 3]


async def test_legacy_client_is_asked_by_tools_behind_the_meta_tools(server: Any) -> None:
    code = "__out = await dual.greet_user()"
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("run_tool", {"tool_id": "dual:greet_user"}, "structured"),
        ("run_chain", {"steps": [{"tool_id": "dual:greet_user"}]}, "final"),
        ("execute_code", {"code": code}, "value"),
    ]
    async with gateway_of({"dual": server}, expose="meta") as url, client_of(url, OLD, User()) as client:
        for name, args, key in calls:
            result = await client.call_tool(name, args)
            assert result.structured_content is not None
            assert result.structured_content.get(key) == "Hello, Ada!", (name, result.structured_content)


async def test_legacy_client_of_a_gateway_over_stdio_is_asked(server: Any, tmp_path: Path) -> None:
    place = Place(tmp_path, {"dual": server}, gateway={"expose": "all"})
    with anyio.fail_after(PATIENCE):
        async with Stdio(place).connect("handshake", **User().options()) as client:
            assert await text_of(client, "greet_user") == "Hello, Ada!"


async def test_call_comes_in_the_era_in_which_its_client_can_be_asked(server: Any) -> None:
    async with gateway_of({"dual": server}) as url:
        async with client_of(url, NEW, User()) as client:
            first, revision = await call_of(client)
            assert revision == NEW
        async with client_of(url, OLD) as client:  # nobody to ask, and the server is told so
            assert await call_of(client) == (first, NEW)
        async with client_of(url, OLD, User()) as client:
            second, revision = await call_of(client)
            assert revision == OLD
            assert (second == first) == ("url" in server)
            assert await call_of(client) == (second, OLD)
        async with client_of(url, NEW, User()) as client:
            assert await call_of(client) == (first, NEW)


async def test_calls_without_a_client_stay_on_the_first_connection() -> None:
    async with Gateway({"servers": {"dual": dual()}}) as gateway:
        with anyio.fail_after(PATIENCE):
            ran = await gateway.crib.run("dual:about_call")
    assert ran.structured.endswith(NEW)


async def test_death_of_the_second_connection_leaves_the_first_and_is_followed_by_another() -> None:
    async with clients_of({"dual": dual()}) as (new, old):
        (first, _), (second, _) = await call_of(new), await call_of(old)
        died = await old.call_tool("stop_server", {})
        assert died.is_error
        assert (await call_of(new))[0] == first
        third, revision = await call_of(old)
        assert revision == OLD
        assert third not in {first, second}


async def test_death_of_the_first_connection_leaves_the_second() -> None:
    async with clients_of({"dual": dual()}) as (new, old):
        first, second = await call_of(new), await call_of(old)
        assert (await new.call_tool("stop_server", {})).is_error
        assert await call_of(old) == second
        assert (await call_of(new))[0] not in {first[0], second[0]}


async def test_second_connection_is_closed_when_idle_and_opened_again() -> None:
    async with clients_of({"dual": dual(idle_timeout=0.5)}) as (new, old):
        await asked(old, "resources/subscribe", uri=WATCHED)  # for which the first connection is kept
        (first, _), (second, _) = await call_of(new), await call_of(old)
        await until(lambda: not runs(second))
        third, revision = await call_of(old)
        assert third != second
        assert revision == OLD
        assert await call_of(new) == (first, NEW)


async def test_first_connection_stays_while_the_second_is_used() -> None:
    user = User()
    user.answers = anyio.Event()
    servers = {name: dual(idle_timeout=0.5) for name in ("dual", "other")}
    async with clients_of(servers, user) as (new, old), anyio.create_task_group() as tasks:
        tasks.start_soon(text_of, old, "dual__greet_user")
        await until(lambda: user.asked)
        first, _ = await call_of(new, "dual__")
        other, _ = await call_of(new, "other__")
        await until(lambda: not runs(other))  # it was idle for as long as the first connection
        assert runs(first)
        user.answers.set()


async def test_closing_the_gateway_ends_both_connections() -> None:
    async with clients_of({"dual": dual()}) as (new, old):
        processes = [(await call_of(each))[0] for each in (new, old)]
        assert all(map(runs, processes))
    await until(lambda: not any(map(runs, processes)))


async def test_server_that_was_replaced_or_removed_ends_with_both_connections() -> None:
    def config(**servers: Any) -> dict[str, Any]:
        return {"servers": servers, "gateway": {"expose": "all"}}

    async with (
        Gateway(config(dual=dual())) as gateway,
        serving(gateway) as url,
        client_of(f"{url}/mcp", NEW) as new,
        client_of(f"{url}/mcp", OLD, User()) as old,
    ):
        before = [(await call_of(each))[0] for each in (new, old)]
        await gateway.crib.reload(config(dual={**dual(), "cwd": str(Path(__file__).parent)}))
        after = [(await call_of(each))[0] for each in (new, old)]
        assert not set(before) & set(after)
        await until(lambda: not any(map(runs, before)))
        await gateway.crib.reload(config())
        await until(lambda: not any(map(runs, after)))


async def test_limit_of_calls_at_once_holds_for_both_connections_together(server: Any) -> None:
    user = User()
    user.answers = anyio.Event()
    limited = {"dual": {**server, "max_concurrency": 1}}
    async with clients_of(limited, user, "meta") as (new, old), anyio.create_task_group() as tasks:
        tasks.start_soon(old.call_tool, "run_tool", {"tool_id": "dual:greet_user"})
        await until(lambda: user.asked)
        late = await new.call_tool("run_tool", {"tool_id": "dual:about_call", "timeout_ms": 1000})
        user.answers.set()
    assert late.structured_content is not None
    assert late.structured_content["error"]["code"] == "timeout"


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "not yet open"])
async def test_legacy_client_hears_of_a_resource_that_its_own_calls_change(
    server: Any,
    is_open: bool,
) -> None:
    user = User()
    async with gateway_of({"dual": server}) as url, client_of(url, OLD, user) as client:
        if is_open:
            assert (await call_of(client))[1] == OLD
        await asked(client, "resources/subscribe", uri=WATCHED)

        async def is_told() -> bool:
            await text_of(client, "touch")
            return bool(user.updated)

        await until(is_told)
        await asked(client, "resources/unsubscribe", uri=WATCHED)
        assert await text_of(client, "touch") == ""  # the server knows of no subscription of a session
    assert set(user.updated) == {WATCHED}


async def test_server_that_cannot_run_twice_is_called_over_the_first_connection(tmp_path: Path) -> None:
    server = dual("--lock", str(tmp_path / "lock"))
    async with gateway_of({"dual": server}) as url, client_of(url, OLD, User()) as client:
        first = await call_of(client)
        assert first[1] == NEW
        assert await call_of(client) == first


async def test_server_that_knows_no_handshake_has_no_second_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        upstream, "_FIRST_RETRY_SECONDS", 0.0
    )  # a second connection may be tried again at once
    app = StatelessOnly(Asking().server.streamable_http_app())
    with serving_app(app) as address:
        servers = {"asking": {"url": f"{address}/mcp"}}
        async with gateway_of(servers) as url, client_of(url, OLD, User()) as client:
            for _ in range(3):
                assert await text_of(client, "form") == "accept Ada"
    assert app.handshakes == 1


async def test_server_that_knows_only_the_handshake_has_no_second_connection() -> None:
    async with gateway_of({"tiny": tiny()}) as url, client_of(url, OLD, User()) as client:
        first = await client.call_tool("echo", {})
        async with client_of(url, NEW, User()) as other:
            second = await other.call_tool("echo", {})
    assert first.structured_content is not None
    assert second.structured_content is not None
    assert first.structured_content["pid"] == second.structured_content["pid"]

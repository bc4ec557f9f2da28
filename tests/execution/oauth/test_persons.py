"""Servers with a login for each person: calls use the caller's access, and never another person's."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.calling import tool_of
from execution.oauth.accounts import Accounts, accounts
from execution.oauth.authority import authorities
from execution.oauth.library import SHARED, Library
from mcp.server.lowlevel import Server
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    LoginRequiredError,
    RequestRefusedError,
    ServerUnavailableError,
    ToolLoginRequiredError,
    explain,
)
from toolcrib.execution import Call, CallContext, Principal
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.execution.mcp.personal import PersonalUpstreams
from toolcrib.execution.mcp.server_health import Breaker
from toolcrib.execution.mcp.tool_watcher import ToolListWatcher
from toolcrib.execution.mcp.upstream import Upstream
from toolcrib.execution.oauth.vault import LoginVault, Owner, StoredLogin
from toolcrib.execution.principal import local_user
from toolcrib.model import McpBackend

pytestmark = pytest.mark.anyio
ISSUER = "https://login.example"
ANN = Principal(issuer=ISSUER, subject="ann", client="editor")
BOB = Principal(issuer=ISSUER, subject="bob", client="editor")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLCRIB_HOME": str(tmp_path), "TOOLCRIB_VAULT_KEY": "a key of many characters"}


@pytest.fixture
def authority() -> Iterator[Accounts]:
    with accounts() as running:
        yield running


def keep(authority: Accounts, environ: dict[str, str], owner: Owner | None, account: str) -> None:
    """Store the login of a person in the vault."""
    LoginVault(environ).put(
        StoredLogin(
            server="one",
            url=authority.url,
            owner=owner,
            issuer=authority.issuer,
            token_endpoint=f"{authority.issuer}/token",
            client_id="someone",
            access_token=authority.token_of(account),
        )
    )


def servers_of(authority: Accounts, environ: dict[str, str]) -> McpServers:
    return McpServers({"one": {"url": authority.url, "auth": {"mode": "per_user"}}}, environ=environ)


def call_of(principal: Principal | None, note: str = "hello", tool: str = "whoami", **context: Any) -> Call:
    backend = McpBackend(server_name="one")
    who = CallContext(principal=principal, **context)
    return Call(tool=tool_of(tool), args={"note": note}, backend=backend, context=who, deadline=inf)


async def whoami(servers: McpServers, principal: Principal | None, note: str = "hello") -> Any:
    with anyio.fail_after(PATIENCE):
        return (await servers.call(call_of(principal, note))).structured["result"]


@pytest.mark.parametrize("handshake", [False, True], ids=["stateless", "sessions"])
async def test_two_persons_never_see_each_others_data_over_fifty_interleaved_calls(
    environ: dict[str, str], handshake: bool
) -> None:
    with accounts(handshake=handshake) as authority:
        for name in ("ann", "bob"):
            keep(authority, environ, (ISSUER, name), name)
        answers: list[tuple[str, str]] = []
        async with servers_of(authority, environ) as servers:

            async def one(who: Principal, number: int) -> None:
                answers.append((f"{who.subject}: {number}", await whoami(servers, who, str(number))))

            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(one, (ANN, BOB)[number % 2], number)
        assert len(answers) == 50
        assert all(wanted == got for wanted, got in answers)
        assert bool(authority.sessions) is handshake
        if handshake:
            assert sorted(authority.sessions.values()) == ["ann", "bob"]


async def test_a_person_without_a_login_is_asked_for_one_and_gets_nobody_elses(
    authority: Accounts, environ: dict[str, str]
) -> None:
    keep(authority, environ, None, "operator")
    keep(authority, environ, (ISSUER, "ann"), "ann")
    elsewhere = Principal(issuer="https://other.example", subject="ann")
    async with servers_of(authority, environ) as servers:
        assert await whoami(servers, ANN) == "ann: hello"
        for stranger in (BOB, elsewhere):
            with pytest.raises(ToolLoginRequiredError, match="it needs a login") as refused:
                await whoami(servers, stranger)
            assert (refused.value.server, refused.value.sent) == ("one", False)
            assert explain(refused.value)["retryable"] is False
    assert {authority.accounts.get(each.removeprefix("Bearer ")) for each in authority.seen} == {"ann"}


@pytest.mark.parametrize("who", [None, Principal(), Principal(client="mcp:editor"), Principal(subject="ann")])
async def test_unknown_person_has_no_access(
    authority: Accounts, environ: dict[str, str], who: Principal | None
) -> None:
    keep(authority, environ, None, "operator")
    async with servers_of(authority, environ) as servers:
        with pytest.raises(ToolLoginRequiredError, match="the caller is unknown"):
            await whoami(servers, who)
    assert authority.seen == []


async def test_the_login_of_the_command_lists_the_tools_and_is_that_of_whoever_runs_it(
    authority: Accounts, environ: dict[str, str]
) -> None:
    async with servers_of(authority, environ) as servers:
        with pytest.raises(LoginRequiredError, match="toolcrib login one"):
            await servers.tools("one")
        with pytest.raises(ToolLoginRequiredError, match="toolcrib login one"):
            await whoami(servers, local_user("cli"))
        keep(authority, environ, None, "operator")
        assert [tool.name for tool in await servers.tools("one")] == ["whoami"]
        assert await whoami(servers, local_user("cli")) == "operator: hello"
        with pytest.raises(ToolLoginRequiredError):
            await whoami(servers, Principal(issuer="local", subject="somebody else"))


async def test_a_login_is_taken_up_by_the_very_next_call_however_many_failed(
    authority: Accounts, environ: dict[str, str]
) -> None:
    async with servers_of(authority, environ) as servers:
        for _ in range(8):
            with pytest.raises(ToolLoginRequiredError):
                await whoami(servers, ANN)
        keep(authority, environ, (ISSUER, "ann"), "ann")
        assert await whoami(servers, ANN) == "ann: hello"
        authority.tokens.clear()
        with pytest.raises(ToolLoginRequiredError, match="the login has ended"):
            await whoami(servers, ANN)
        keep(authority, environ, (ISSUER, "ann"), "ann")
        assert await whoami(servers, ANN) == "ann: hello"


async def test_login_to_a_shared_server_is_asked_of_the_operator_alone() -> None:
    with authorities() as authority:
        async with McpServers(
            {"one": {"url": authority.url}}, environ={"TOOLCRIB_HOME": "/nonexistent"}
        ) as servers:
            for who, advice in ((local_user("cli"), "toolcrib login one"), (ANN, "only the operator")):
                with (
                    anyio.fail_after(PATIENCE),
                    pytest.raises(ToolLoginRequiredError, match=f"it needs a login: {advice}") as refused,
                ):
                    await servers.call(call_of(who, tool="echo"))
    assert explain(refused.value)["details"] == {"backend": "mcp:one", "login": "one"}


def crowd(
    environ: dict[str, str], *, most: int
) -> tuple[PersonalUpstreams, Callable[[str], Upstream], list[Upstream]]:
    """Return upstreams limited to `most` persons, a lookup by person, and the list of retired upstreams."""
    config = ServerConfig(url="http://127.0.0.1:1/mcp", auth={"mode": "per_user"})
    retired: list[Upstream] = []

    def make(name: str, person: Any) -> Upstream:
        parts = {"watcher": ToolListWatcher(name, None), "breaker": Breaker(), "watched": person.watched}
        return Upstream(name, config, environ=environ, person=person, **parts)

    persons = PersonalUpstreams(make, retired.append, most=most)
    return (
        persons,
        lambda who: persons.find("one", config, CallContext(principal=Principal(issuer="i", subject=who))),
        retired,
    )


async def test_the_person_who_called_longest_ago_makes_room_for_another(environ: dict[str, str]) -> None:
    persons, find, retired = crowd(environ, most=2)
    assert find("a") is find("a") is not find("b")
    made = {"a": find("a"), "b": find("b")}
    find("a")
    made["c"] = find("c")
    assert retired == [made["b"]]
    with made["a"].in_flight:
        made["d"] = find("d")
        assert retired[1:] == [made["c"]]
        with made["d"].in_flight, pytest.raises(ServerUnavailableError, match="too many people use"):
            find("e")
    assert set(persons.take("one")) == {made["a"], made["d"]}


async def test_resources_watched_by_a_person_outlive_their_connection_which_is_evicted_last(
    environ: dict[str, str],
) -> None:
    persons, find, retired = crowd(environ, most=2)
    watching, idle = find("a"), find("b")
    watching.changes._watched["notes://me"] = 1
    find("c")
    assert retired == [idle]
    assert watching in persons.take("one")
    assert find("a").changes.busy
    assert not find("b").changes.busy


async def test_those_who_watch_keep_their_connections_and_leave_room_for_others(
    environ: dict[str, str],
) -> None:
    persons, find, retired = crowd(environ, most=4)
    for who in "abc":
        persons.admit_watcher(find(who))
        find(who).changes._watched["notes://me"] = 1
    persons.admit_watcher(find("a"))
    idle = find("d")
    with pytest.raises(RequestRefusedError, match="too many people watch"):
        persons.admit_watcher(idle)
    find("e")
    assert retired == [idle]
    with find("e").in_flight, pytest.raises(ServerUnavailableError, match="too many people use"):
        find("f")


@pytest.mark.parametrize("handshake", [False, True], ids=["stateless", "sessions"])
@pytest.mark.parametrize("changed", [{"timeout": 5.0}, {"max_concurrency": 99}], ids=["limit", "connection"])
async def test_who_watches_hears_of_changes_after_other_settings_of_the_server_without_asking(
    environ: dict[str, str], changed: dict[str, Any], handshake: bool
) -> None:
    heard: list[ContentChange] = []

    async def is_heard() -> bool:
        await elsewhere.call(call_of(ANN, tool="touch"))
        return any(each.kind == "updated" for each in heard)

    with accounts(Library, handshake=handshake) as library:
        keep(library, environ, (ISSUER, "ann"), "ann")
        async with servers_of(library, environ) as servers, servers_of(library, environ) as elsewhere:
            servers.on_content(heard.append)
            stop = await ServerContent(servers, CallContext(principal=ANN)).watch("one", SHARED)
            await until(is_heard)
            settings = {"url": library.url, "auth": {"mode": "per_user"}}
            servers.replace("one", settings | changed)
            await anyio.wait_all_tasks_blocked()
            heard.clear()
            await until(is_heard)
            await stop()
    assert {each.owner for each in heard} == {(ISSUER, "ann")}


async def test_content_is_that_of_the_person_and_of_whoever_runs_the_command(environ: dict[str, str]) -> None:
    with accounts(Library) as library:
        keep(library, environ, None, "operator")
        keep(library, environ, (ISSUER, "ann"), "ann")
        async with servers_of(library, environ) as servers:
            await servers.tools("one")
            for who, name in ((ANN, "ann"), (local_user("cli"), "operator")):
                (read,) = await ServerContent(servers, CallContext(principal=who)).read("one", SHARED)
                assert read.text == f"{SHARED} of {name}"
            for stranger in (BOB, None, Principal(), Principal(client="mcp:editor")):
                for ask in (ServerContent.resources, ServerContent.templates, ServerContent.prompts):
                    with pytest.raises(LoginRequiredError):
                        await ask(ServerContent(servers, CallContext(principal=stranger)), "one")


@dataclass
class ToolsAlone(Library):
    """A variant whose MCP server has neither resources nor prompts."""

    def mcp_app(self) -> Any:
        server: Server[Any] = Server("tools", on_list_tools=self._tools)
        return self.guard(server.streamable_http_app())


async def test_nobody_is_asked_for_a_login_to_list_what_a_server_does_not_have(
    environ: dict[str, str],
) -> None:
    with accounts(ToolsAlone) as authority:
        keep(authority, environ, None, "operator")
        async with servers_of(authority, environ) as servers:
            await servers.tools("one")
            for who in (BOB, None):
                for ask in (ServerContent.resources, ServerContent.templates, ServerContent.prompts):
                    assert await ask(ServerContent(servers, CallContext(principal=who)), "one") == ()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, "uses each person's own login"),
        ({"url": "https://me:pw@example.com/mcp"}, "uses each person's own login"),
    ],
)
def test_settings_that_name_another_access_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ServerConfig(**{"url": "https://example.com/mcp", "auth": {"mode": "per_user"}} | settings)


async def test_an_access_that_comes_out_of_a_variable_is_refused_when_it_shows(
    environ: dict[str, str],
) -> None:
    settings = {"url": "http://${WHO}127.0.0.1:1/mcp", "auth": {"mode": "per_user"}}
    async with McpServers({"one": settings}, environ={**environ, "WHO": "me:pw@"}) as servers:
        with pytest.raises(BackendUnavailableError, match="uses each person's own login"):
            await whoami(servers, ANN)


def test_an_entry_of_the_vault_is_opened_for_its_owner_alone(
    authority: Accounts, environ: dict[str, str]
) -> None:
    keep(authority, environ, (ISSUER, "ann"), "ann")
    vault = LoginVault(environ)
    assert vault.get("one", authority.url, (ISSUER, "ann")) is not None
    for other in (None, (ISSUER, "bob"), ("", ISSUER + "ann"), (ISSUER + "ann", "")):
        assert vault.get("one", authority.url, other) is None
    assert not vault.remove("one", authority.url)
    assert vault.remove("one", authority.url, (ISSUER, "ann"))

"""Calls to servers that require OAuth: tokens that expire, are refused or revoked, and the errors."""

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from execution.mcp.calling import call
from execution.mcp.typed_server import app as mcp_app
from execution.mcp.web import serving
from execution.oauth.authority import Authority, authorities, browse
from servers.launch import closed_port

from toolcrib.errors import BackendUnavailableError, LoginRequiredError, ServerUnavailableError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.oauth.bearer import BearerAuth
from toolcrib.execution.oauth.flows import log_in, log_out
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin
from toolcrib.redaction import KnownSecrets

pytestmark = pytest.mark.anyio


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLCRIB_HOME": str(tmp_path), "TOOLCRIB_VAULT_KEY": "a key of many characters"}


@pytest.fixture
def authority() -> Iterator[Authority]:
    with authorities() as running:
        yield running


async def log_in_with_browser(authority: Authority, environ: dict[str, str], **auth: Any) -> StoredLogin:
    """Log in to the server with a browser."""
    config = ServerConfig(url=authority.url, auth=auth or None)
    return await log_in("one", config, show=lambda address, _: browse(address) and None, environ=environ)


def servers_of(authority: Authority, environ: dict[str, str], **auth: Any) -> McpServers:
    settings = {"url": authority.url} | ({"auth": auth} if auth else {})
    return McpServers({"one": settings}, environ=environ)


async def call_echo(servers: McpServers, text: str = "a") -> Any:
    return (await call(servers, "echo", {"text": text})).structured


def grants(authority: Authority) -> list[str]:
    return [form["grant_type"] for form in authority.asked]


async def test_a_server_without_a_login_says_how_to_log_in(
    authority: Authority, environ: dict[str, str]
) -> None:
    async with servers_of(authority, environ) as servers:
        with pytest.raises(
            LoginRequiredError, match="401 Unauthorized; it needs a login: toolcrib login one"
        ):
            await servers.tools("one")
        status = servers.status()["one"]
    assert status.state == "failed"
    assert status.last_error is not None
    assert status.last_error.endswith("it needs a login: toolcrib login one")


async def test_a_login_gives_access_to_this_and_to_every_later_process(
    authority: Authority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(authority, environ)
    assert login.issuer == authority.issuer
    assert login.resource == authority.url
    for _ in range(2):
        async with servers_of(authority, environ) as servers:
            assert await call_echo(servers) == {"result": "a"}
    assert grants(authority) == ["authorization_code"]


async def test_call_with_a_login_is_posted_without_httpx(
    authority: Authority, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_in_with_browser(authority, environ)
    async with servers_of(authority, environ) as servers:
        await call_echo(servers)

        async def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("sent with httpx2")

        monkeypatch.setattr(httpx2.AsyncClient, "send", refuse)
        assert await call_echo(servers, "b") == {"result": "b"}
        monkeypatch.undo()


async def test_a_login_of_another_process_is_taken_up_by_a_gateway_that_runs(
    authority: Authority, environ: dict[str, str]
) -> None:
    async with servers_of(authority, environ) as servers:
        with pytest.raises(LoginRequiredError):
            await servers.tools("one")
        await log_in_with_browser(authority, environ)
        assert await call_echo(servers) == {"result": "a"}


async def test_a_token_near_its_end_is_refreshed_before_a_call_needs_it(
    authority: Authority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(authority, environ)
    LoginVault(environ).put(login.replace(expires_at=time.time() + 30))
    async with servers_of(authority, environ) as servers:
        assert await call_echo(servers) == {"result": "a"}
    assert grants(authority) == ["authorization_code", "refresh_token"]
    assert authority.refused == 1  # the one that the login began with


@pytest.mark.parametrize("rotates", [True, False])
async def test_a_token_that_ends_amid_fifty_calls_is_refreshed_once_and_no_call_fails(
    environ: dict[str, str], rotates: bool
) -> None:
    with authorities(rotates=rotates) as authority:
        login = await log_in_with_browser(authority, environ)
        async with servers_of(authority, environ) as servers:
            await servers.tools("one")
            results: list[Any] = []

            async def one(number: int) -> None:
                results.append(await call_echo(servers, str(number)))

            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    if number == 25:
                        authority.tokens.pop(login.access_token or "")  # before anybody expects it
                    tasks.start_soon(one, number)
        assert sorted(int(each["result"]) for each in results) == list(range(50))
        assert grants(authority).count("refresh_token") == 1


async def test_two_processes_refresh_one_after_the_other_and_not_with_the_same_token(
    authority: Authority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(authority, environ)
    LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
    async with (
        servers_of(authority, environ) as first,
        servers_of(authority, environ) as second,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(call_echo, first)
        tasks.start_soon(call_echo, second)
    assert grants(authority) == ["authorization_code", "refresh_token"]
    assert len(authority.refreshes) == 1


async def test_a_refresh_that_fails_for_a_while_does_not_take_a_token_away_that_is_still_good(
    authority: Authority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(authority, environ)
    LoginVault(environ).put(login.replace(expires_at=time.time() + 30))
    authority.broken = 503, {}
    async with servers_of(authority, environ) as servers:
        assert await call_echo(servers) == {"result": "a"}
        authority.broken = None
    LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
    async with servers_of(authority, environ) as servers:
        assert await call_echo(servers) == {"result": "a"}


async def test_a_refresh_that_fails_when_the_token_has_ended_says_so_and_is_not_repeated_by_each_call(
    authority: Authority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(authority, environ)
    async with servers_of(authority, environ) as servers:
        await servers.tools("one")
        authority.broken = 503, {}
        LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
        failures: list[BackendUnavailableError] = []

        async def one() -> None:
            with pytest.raises(BackendUnavailableError, match="refused it with status 503") as caught:
                await call_echo(servers)
            failures.append(caught.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
    assert not any(each.sent for each in failures)
    assert grants(authority).count("refresh_token") < 5


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_client"])
async def test_a_login_that_was_taken_back_asks_for_another(
    authority: Authority, environ: dict[str, str], code: str
) -> None:
    login = await log_in_with_browser(authority, environ)
    LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
    authority.broken = 400, {"error": code}
    for _ in range(2):
        async with servers_of(authority, environ) as servers:
            with pytest.raises(LoginRequiredError, match="log in again: toolcrib login one"):
                await servers.tools("one")
    assert grants(authority).count("refresh_token") == 1
    authority.broken = None
    await log_in_with_browser(authority, environ)
    async with servers_of(authority, environ) as servers:
        assert await call_echo(servers) == {"result": "a"}


@pytest.mark.parametrize("skew", [120.0, -120.0])
async def test_a_clock_that_is_off_by_two_minutes_costs_a_refresh_and_no_call(
    environ: dict[str, str], skew: float
) -> None:
    with authorities(lifetime=300.0, skew=skew) as authority:
        login = await log_in_with_browser(authority, environ)
        LoginVault(environ).put(login.replace(expires_at=time.time() + 90))
        authority.tokens[login.access_token or ""].ends = time.time() + 90
        async with servers_of(authority, environ) as servers:
            assert await call_echo(servers) == {"result": "a"}
        assert grants(authority).count("refresh_token") == (1 if skew > 0 else 0)


async def test_a_server_that_is_restarted_is_called_with_the_same_login(
    authority: Authority, environ: dict[str, str]
) -> None:
    with closed_port() as port:
        authority.url = f"http://127.0.0.1:{port}/mcp"
        async with servers_of(authority, environ) as servers:
            for run in range(2):
                with serving(authority.guard(mcp_app("json")), port=port):
                    if run == 0:
                        await log_in_with_browser(authority, environ)
                    assert await call_echo(servers) == {"result": "a"}
    assert grants(authority) == ["authorization_code"]


async def test_a_scope_that_is_missing_is_named_and_the_next_login_asks_for_all(
    authority: Authority, environ: dict[str, str]
) -> None:
    await log_in_with_browser(authority, environ, scopes=["read"])
    async with servers_of(authority, environ) as servers:
        await servers.tools("one")
        authority.required_scope = "write"
        with pytest.raises(Exception, match="it requires the scopes 'write': toolcrib login one"):
            await call_echo(servers)
    assert LoginVault(environ).get("one", authority.url).wanted_scopes == ("write",)
    login = await log_in_with_browser(authority, environ, scopes=["read"])
    assert login.scopes == ("read", "write")
    async with servers_of(authority, environ) as servers:
        assert await call_echo(servers) == {"result": "a"}


async def test_a_wrong_vault_key_is_told_and_leaves_other_servers_alone(
    authority: Authority, environ: dict[str, str]
) -> None:
    await log_in_with_browser(authority, environ)
    wrong = {**environ, "TOOLCRIB_VAULT_KEY": "some other long key"}
    with serving(mcp_app("json")) as address:
        both = {"one": {"url": authority.url}, "open": {"url": f"{address}/mcp"}}
        async with McpServers(both, environ=wrong) as servers:
            with pytest.raises(ServerUnavailableError, match="sealed with another key"):
                await servers.tools("one")
            assert await servers.tools("open")


async def test_a_torn_vault_is_kept_aside_and_asks_for_another_login(
    authority: Authority, environ: dict[str, str]
) -> None:
    await log_in_with_browser(authority, environ)
    vault = LoginVault(environ)
    torn = vault.path.read_bytes()[:-40]
    vault.path.write_bytes(torn)
    async with servers_of(authority, environ) as servers:
        with pytest.raises(LoginRequiredError, match="toolcrib login one"):
            await servers.tools("one")
        (aside,) = vault.folder.glob("logins.json.damaged-*")
        assert aside.read_bytes() == torn
        await log_in_with_browser(authority, environ)
        assert await call_echo(servers) == {"result": "a"}


async def test_a_logout_takes_the_tokens_back_and_forgets_them(
    authority: Authority, environ: dict[str, str]
) -> None:
    await log_in_with_browser(authority, environ)
    config = ServerConfig(url=authority.url)
    assert await log_out("one", config, environ=environ) == (True, True)
    assert authority.refreshes == {}
    assert await log_out("one", config, environ=environ) == (False, False)
    async with servers_of(authority, environ) as servers:
        with pytest.raises(LoginRequiredError):
            await servers.tools("one")


async def test_a_token_is_never_sent_to_another_origin(authority: Authority, environ: dict[str, str]) -> None:
    await log_in_with_browser(authority, environ)
    seen: list[dict[str, str]] = []

    async def elsewhere(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body"})

    with serving(elsewhere, lifespan="off") as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}, environ=environ) as servers:
            with pytest.raises(ServerUnavailableError):
                await servers.tools("one")
    assert seen
    assert not any("authorization" in headers for headers in seen)


async def test_no_secret_comes_out_in_logs_or_errors(
    authority: Authority,
    environ: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        authority.answer = {"iss": "https://mixed.example.com"}
        for answer in ({"iss": "https://mixed.example.com"}, {}):
            authority.answer = answer
            try:
                told.append(repr(await log_in_with_browser(authority, environ)))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
                told += [str(error), repr(error)]
        login = LoginVault(environ).get("one", authority.url)
        async with servers_of(authority, environ) as servers:
            await call_echo(servers)
            LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
            await call_echo(servers)
            authority.broken = 400, {"error": "invalid_grant"}
            authority.tokens.clear()
            with pytest.raises(BackendUnavailableError) as caught:
                await call_echo(servers)
            told += [str(caught.value), repr(caught.value), repr(servers.status())]
    output = capfd.readouterr()
    everything = "\n".join([caplog.text, output.out, output.err, *told])
    assert len(authority.secrets) > 6
    assert [secret for secret in authority.secrets if secret in everything] == []


async def test_access_token_is_known_as_secret_once_it_is_sent() -> None:
    class Tokens:
        is_empty = False

        async def current_token(self) -> str | None:
            return "4f8a91c2-first"

        async def refresh_token(self, refused: str) -> str | None:
            return f"{refused}-second"

        async def note_wanted_scopes(self, scopes: list[str]) -> None:
            assert scopes == []

    secrets = KnownSecrets()
    auth = BearerAuth("log in", "http://127.0.0.1/mcp", Tokens(), secrets=secrets)
    flow = auth.async_auth_flow(httpx2.Request("POST", "http://127.0.0.1/mcp"))
    request = await anext(flow)
    assert secrets.hide("got 4f8a91c2-first") == "got [secret]"
    await flow.asend(httpx2.Response(401, request=request))
    assert secrets.hide("got 4f8a91c2-first-second") == "got [secret]"
    await flow.aclose()

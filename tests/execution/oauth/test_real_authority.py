"""Logging in at a real authorization server, npm's certified `oidc-provider`, to an MCP server that checks its tokens."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call
from execution.mcp.web import serving
from execution.oauth.browser import browse
from execution.oauth.real_authority import SECRET, RealAuthority
from servers.launch import closed_port

from toolcrib.errors import LoginRequiredError, ToolcribError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.oauth.flows import log_in, log_out
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

pytestmark = [pytest.mark.anyio, pytest.mark.proof]


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[RealAuthority]:
    """Return an authorization server that is to be started, and the MCP server, which runs."""
    secrets = tmp_path / "secrets"
    with closed_port() as port, serving((found := RealAuthority(port, secrets)).app()) as address:
        found.url = f"{address}/mcp"
        yield found


@pytest.fixture
def server(authority: RealAuthority) -> Iterator[RealAuthority]:
    with authority.running():
        yield authority


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLCRIB_HOME": str(tmp_path), "TOOLCRIB_VAULT_KEY": "a key of many characters"}


async def log_in_with_browser(
    server: RealAuthority, environ: dict[str, str], *, device: bool = False
) -> StoredLogin:
    config = ServerConfig(url=server.url)
    return await log_in("one", config, show=browse, device=device, within=60, environ=environ)


async def call_echo(server: RealAuthority, environ: dict[str, str], **auth: Any) -> Any:
    settings = {"url": server.url} | ({"auth": auth} if auth else {})
    async with McpServers({"one": settings}, environ=environ) as servers:
        return (await call(servers, "echo", {"text": "a"})).structured


@pytest.mark.parametrize("device", [False, True], ids=["browser", "device"])
async def test_login_with_rotated_refresh_token_and_logout(
    server: RealAuthority, environ: dict[str, str], device: bool
) -> None:
    login = await log_in_with_browser(server, environ, device=device)
    assert login.refresh_token is not None
    assert await call_echo(server, environ) == {"result": "a"}
    assert {claims["sub"] for claims in server.seen} == {"ann"}
    assert "tools:read" in server.seen[0]["scope"]

    LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
    assert await call_echo(server, environ) == {"result": "a"}
    fresh = LoginVault(environ).get("one", server.url)
    assert fresh is not None
    assert fresh.access_token != login.access_token

    assert await log_out("one", ServerConfig(url=server.url), environ=environ) == (True, True)
    LoginVault(environ).put(fresh.replace(expires_at=time.time() - 1))  # what somebody may have copied
    with pytest.raises(Exception, match="'invalid_grant'; log in again: toolcrib login one"):
        await call_echo(server, environ)


async def test_a_token_that_has_ended_is_refreshed_once_for_fifty_calls(
    server: RealAuthority, environ: dict[str, str]
) -> None:
    login = await log_in_with_browser(server, environ)
    async with McpServers({"one": {"url": server.url}}, environ=environ) as servers:
        await servers.tools("one")
        before = len(server.secrets["refresh_token"])
        LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(call, servers, "echo", {"text": "a"})
    assert len(server.secrets["refresh_token"]) == before + 1  # a token that is used twice ends the login


async def test_an_authorization_server_that_forgets_its_logins_when_it_restarts_asks_for_another(
    authority: RealAuthority, environ: dict[str, str]
) -> None:
    with authority.running():
        login = await log_in_with_browser(authority, environ)
    assert await call_echo(authority, environ) == {"result": "a"}  # the token holds while nobody answers
    with authority.running():
        LoginVault(environ).put(login.replace(expires_at=time.time() - 1))
        with pytest.raises(ToolcribError, match="log in again: toolcrib login one"):
            await call_echo(authority, environ)
        await log_in_with_browser(authority, environ)
        assert await call_echo(authority, environ) == {"result": "a"}


async def test_a_program_has_access_of_its_own(server: RealAuthority, environ: dict[str, str]) -> None:
    auth = {
        "mode": "client_credentials",
        "client_id": "nightly",
        "client_secret": SECRET,
        "issuer": server.issuer,
    }
    assert await call_echo(server, environ, **auth) == {"result": "a"}
    assert {claims["client_id"] for claims in server.seen} == {"nightly"}


async def test_without_a_login_it_says_how_to_log_in(server: RealAuthority, environ: dict[str, str]) -> None:
    async with McpServers({"one": {"url": server.url}}, environ=environ) as servers:
        with pytest.raises(LoginRequiredError, match="toolcrib login one"):
            await servers.tools("one")

"""Several gateways with one database and a login whose refresh token is valid once."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from execution.oauth.authority import Authority, authorities
from execution.oauth.browser import browse
from servers.postgres import PostgresServer
from waiting import until

from toolcrib import Crib
from toolcrib.discovery import PostgresStore
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.oauth.flows import log_in
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

pytestmark = pytest.mark.anyio


@pytest.fixture
def authority() -> Iterator[Authority]:
    with authorities() as running:
        yield running


def machine(tmp_path: Path, name: str) -> dict[str, str]:
    """Return the environment of a machine with a home of its own, and the key that all have."""
    home = str(tmp_path / name)
    return {**os.environ, "TOOLCRIB_HOME": home, "TOOLCRIB_VAULT_KEY": "a key of many characters"}


async def log_in_with_browser(authority: Authority, environ: dict[str, str]) -> StoredLogin:
    """Log in with a browser at one machine."""
    config = ServerConfig(url=authority.url)
    return await log_in("one", config, show=lambda address, _: browse(address) and None, environ=environ)


@asynccontextmanager
async def gateways(
    database: str, authority: Authority, environs: list[dict[str, str]]
) -> AsyncIterator[list[Crib]]:
    """Open a crib for each machine."""
    config: dict[str, Any] = {
        "store": database,
        "postgres": {"poll": 0.05},
        "servers": {"one": {"url": authority.url}},
        "runs": {"store": "memory"},
    }
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Crib(config, environ=environ, on_demand=True))
            for environ in environs
        ]


def refreshes(authority: Authority) -> int:
    return [form["grant_type"] for form in authority.asked].count("refresh_token")


async def expire(database: str, environ: dict[str, str], login: StoredLogin) -> None:
    """Have the access token of a login end."""

    def put() -> None:
        with PostgresStore(database) as store:
            LoginVault(environ, SharedLogins(store)).put(login.replace(expires_at=time.time() - 1))

    await anyio.to_thread.run_sync(put)


async def test_login_at_one_machine_is_refreshed_once_by_all_that_call_at_the_same_time(
    database: str, authority: Authority, tmp_path: Path
) -> None:
    environs = [machine(tmp_path, name) for name in "abc"]
    login = await log_in_with_browser(authority, environs[0])
    await expire(database, environs[0], login)
    async with gateways(database, authority, environs) as cribs:
        async with anyio.create_task_group() as tasks:
            for crib in cribs:
                for number in range(5):
                    tasks.start_soon(crib.run, "one:echo", {"text": str(number)})
        assert refreshes(authority) == 1
        assert len(authority.refreshes) == 1
        assert (await cribs[2].run("one:echo", {"text": "a"})).structured


async def test_every_refresh_of_a_token_that_ends_again_and_again_is_the_only_one(
    database: str, authority: Authority, tmp_path: Path
) -> None:
    environs = [machine(tmp_path, name) for name in "ab"]
    await log_in_with_browser(authority, environs[0])
    async with gateways(database, authority, environs) as cribs:
        vaults = [LoginVault(environ) for environ in environs]
        for turn in range(1, 6):
            await until(lambda: vaults[0].get("one", authority.url) == vaults[1].get("one", authority.url))
            known = vaults[0].get("one", authority.url)
            assert known is not None
            await expire(database, environs[0], known)
            await until(lambda: all(_has_ended(vault, authority.url) for vault in vaults))
            async with anyio.create_task_group() as tasks:
                for crib in cribs:
                    tasks.start_soon(crib.run, "one:echo", {"text": "a"})
            assert refreshes(authority) == turn


def _has_ended(vault: LoginVault, url: str) -> bool:
    login = vault.get("one", url)
    return login is not None and login.expires_at is not None and login.expires_at < time.time()


async def test_logout_at_one_machine_reaches_the_others(
    database: str, authority: Authority, tmp_path: Path
) -> None:
    environs = [machine(tmp_path, name) for name in "ab"]
    await log_in_with_browser(authority, environs[0])
    async with gateways(database, authority, environs) as cribs:
        other = LoginVault(environs[1])
        assert other.get("one", authority.url) is not None
        vault = LoginVault(environs[0], cribs[0].shared_logins)
        await anyio.to_thread.run_sync(vault.remove, "one", authority.url)
        await until(lambda: other.get("one", authority.url) is None)


async def test_token_is_not_refreshed_while_the_database_is_away(
    postgres: PostgresServer, database: str, authority: Authority, tmp_path: Path
) -> None:
    environ = machine(tmp_path, "a")
    login = await log_in_with_browser(authority, environ)
    async with gateways(database, authority, [environ]) as cribs:
        await cribs[0].run("one:echo", {"text": "a"})
        soon = login.replace(expires_at=time.time() + 30, lifetime=3600.0)
        LoginVault(environ).put(soon)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            assert (await cribs[0].run("one:echo", {"text": "b"})).structured
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert refreshes(authority) == 0

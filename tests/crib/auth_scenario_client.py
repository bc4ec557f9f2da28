"""A program that logs in to the server of a conformance scenario, as `toolcrib login` does, and uses its tools.

The suite starts it with the address of the server; the rest of its input is in the environment.
"""

import json
import os
import sys
import tempfile
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from toolcrib import Crib
from toolcrib.errors import LoginRequiredError, ToolcribError
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.oauth.discovery import discover, oauth_client
from toolcrib.execution.oauth.flows import log_in

DOCUMENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 3
"""Logins that a scenario needs at most, because more scopes are required or the server has moved."""


def show(address: str, _: str | None) -> None:
    """Open a login's address, as the browser of a logged-in user does."""

    def go() -> None:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=30).read()  # noqa: S310 - the suite's own

    threading.Thread(target=go, daemon=True).start()


async def settings(url: str, context: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return how the server is configured in a scenario."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    auth: dict[str, Any] = {name: context[name] for name in ("client_id", "client_secret") if name in context}
    if "basic-cimd" in scenario:
        auth["client_id"] = DOCUMENT
    if "private_key_pem" in context:
        key = folder / "key.pem"
        key.write_text(context["private_key_pem"])
        auth["private_key"] = str(key)
    if "client_secret" in auth:
        async with oauth_client("server", url, None) as client:
            auth["issuer"] = (await discover(client, "server", url)).issuer
    if "client-credentials" in scenario:
        auth["mode"] = "client_credentials"
    return {"url": url} | ({"auth": auth} if auth else {})


async def use(server: dict[str, Any]) -> None:
    """List the tools, and call each."""
    async with Crib({"mcpServers": {"server": server}}) as crib:
        await crib.ready(20)
        status = crib.status()["server"]
        if status.needs_login:
            raise LoginRequiredError("server", status.last_error or "")
        for tool in await crib.tools():
            await crib.run(tool.id, {})


async def main(url: str) -> None:
    """Log in, use the server, and log in again if an error requires it."""
    folder = Path(tempfile.mkdtemp())
    os.environ["TOOLCRIB_HOME"] = str(folder)
    os.environ["TOOLCRIB_VAULT_KEY"] = "a key of many characters"
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    server = await settings(url, context, folder)
    for left in reversed(range(LOGINS)):
        await log_in("server", ServerConfig(**server), show=show, within=30)
        try:
            await use(server)
        except ToolcribError as error:
            if left == 0 or "toolcrib login server" not in str(error):
                raise
        else:
            return


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])

"""Gateways over a server whose definitions and results have every field, and the fields that get through."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import Request
from pydantic import TypeAdapter
from waiting import PATIENCE

from toolcrib.gateway import Gateway

ERAS = {"stateless": "auto", "handshake": "legacy"}
ONE_ERA = ["stateless", pytest.param("handshake", marks=pytest.mark.proof)]
"""Parameters of tests that run in one era, and as proofs in the other too."""
_ANY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_SERVERS = Path(__file__).parent.parent / "servers"


def whole(name: str = "whole") -> dict[str, Any]:
    """Return how the server is started."""
    return {"command": sys.executable, "args": ["-S", "-I", str(_SERVERS / "whole.py"), name]}


@asynccontextmanager
async def join(
    era: str, servers: dict[str, Any], *, toolset: str | None = None, config: dict[str, Any] | None = None,
    expose: Any = "all", gateway: dict[str, Any] | None = None, **options: Any,
) -> AsyncIterator[Client]:  # fmt: skip
    """Yield a client of a gateway over servers that have all answered."""
    shown = Gateway({"servers": servers, **(config or {})}, expose=expose, **(gateway or {}))
    async with shown:
        with anyio.fail_after(PATIENCE):
            await shown.crib.namespaces()
            await shown.crib.resources()
            await shown.crib.resource_templates()
            await shown.crib.prompts()
        async with Client(shown.endpoint(toolset), mode=ERAS[era], **options) as client:  # type: ignore[arg-type]
            yield client


async def asked(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Return the answer to a request as it came over the wire."""
    named = {"prompts/get": "name", "tools/call": "name", "resources/read": "uri"}.get(method)

    class Asked(Request[dict[str, Any], str]):
        name_param = named

    return await client.session.send_request(Asked(method=method, params=params), _ANY)  # type: ignore[call-overload, no-any-return]


async def list_items(client: Client, method: str, key: str) -> list[dict[str, Any]]:
    """Return the items of all pages of a list, as they came over the wire."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await asked(client, method, **({} if cursor is None else {"cursor": cursor}))
        found += page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found

"""A gateway over a little face, and clients that send it bytes of their own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from anyio.abc import SocketStream
from gateway.little_face import LittleFace, serving
from waiting import PATIENCE

from toolcrib.gateway import Gateway

TIMES = (0.2, 2.0, 10.0)
"""Seconds that a request may take, where one must be in time and another late: the least that lets the first."""
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "p", "version": "1"},
    },
}

ERA = "2026-07-28"
ABOUT = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""The `_meta` that a client of the stateless era sends with each request."""


@asynccontextmanager
async def site(
    environ: dict[str, str] | None = None, face: LittleFace | None = None, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a little face, and yield a client of it."""
    shown = face or LittleFace()
    gateway = Gateway({"gateway": settings}, frontends=lambda *_: shown, environ=environ)
    async with (
        gateway,
        serving(gateway) as url,
        httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=PATIENCE) as client,
    ):
        yield client


async def connect(client: httpx.AsyncClient) -> SocketStream:
    """Return a connection to where a client calls."""
    return await anyio.connect_tcp("127.0.0.1", client.base_url.port or 0)


async def everything(stream: SocketStream) -> bytes:
    """Return all that is sent until the other end closes."""
    heard = b""
    with anyio.fail_after(PATIENCE):
        try:
            while True:
                heard += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return heard


def call(name: str, number: Any = 7, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {}, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def stateless(client: httpx.AsyncClient, name: str, **meta: Any) -> dict[str, Any]:
    """Return a call of the stateless era, for which the client sends the headers that it needs."""
    client.headers.update({"mcp-protocol-version": ERA, "mcp-method": "tools/call", "mcp-name": name})
    return call(name, **ABOUT, **meta)


async def open_session(client: httpx.AsyncClient, hello: Any = HELLO, path: str = "/mcp") -> None:
    """Open a session of the handshake era, in which the client goes on."""
    answer = await client.post(path, json=hello)
    client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    await client.post(path, json={"jsonrpc": "2.0", "method": "notifications/initialized"})


@asynccontextmanager
async def stream_messages(
    client: httpx.AsyncClient, message: Any, path: str = "/mcp"
) -> AsyncIterator[AsyncIterator[Any]]:
    """Yield the messages of a streamed response in order; a ping is None."""

    async def told() -> AsyncIterator[Any]:
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                yield None
            elif line.startswith("data:"):
                yield json.loads(line[5:])

    async with client.stream("POST", path, json=message) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        yield told()

"""Helpers of the tests of the transports."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientSession
from waiting import PATIENCE

from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.transport.process import StderrTail
from toolcrib.execution.mcp.transport.stdio import stdio_transport

HERE = Path(__file__).parent
DAEMONISES = (
    "import os, sys\n"
    "reading, writing = os.pipe()\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"
    "    for number in range(3):\n"
    "        os.close(number)\n"
    "    os.write(writing, str(os.getpid()).encode())\n"
    "    os.execv(sys.executable, [sys.executable, '-S', '-c', {other!r}])\n"
    "os.wait()\n"
    "print(os.read(reading, 100).decode(), flush=True)\n"
    "{then}\n"
)
"""A program that starts `other` as a daemon, prints the process id of that, and does something `then`."""


def plain(*options: str, **settings: Any) -> ServerConfig:
    """Return the settings of the server that starts fast."""
    return ServerConfig(
        command=sys.executable, args=["-S", str(HERE / "plain_server.py"), *options], **settings
    )


def typed() -> ServerConfig:
    """Return the settings of the server that is made with the SDK."""
    return ServerConfig(command=sys.executable, args=[str(HERE / "typed_server.py")])


@asynccontextmanager
async def session(streams: TransportStreams, seen: list[Any] | None = None) -> AsyncIterator[ClientSession]:
    """Yield a session over streams, whose exceptions and notifications are recorded."""

    async def note(message: Any) -> None:
        if seen is not None:
            seen.append(message)

    async with ClientSession(*streams, message_handler=note) as found:
        yield found


@asynccontextmanager
async def connect(
    config: ServerConfig, tail: StderrTail | None = None, seen: list[Any] | None = None, **options: Any
) -> AsyncIterator[ClientSession]:
    """Start a server and shake hands with it."""
    tail = tail or StderrTail()
    async with (
        stdio_transport(config, name="plain", stderr=tail, **options) as streams,
        session(streams, seen) as found,
    ):
        with anyio.fail_after(PATIENCE):
            await found.initialize()
            await found.list_tools()  # or the session would ask at the first call
        yield found


async def call(found: ClientSession, name: str, **args: Any) -> str:
    """Return the text that a tool answers with."""
    with anyio.fail_after(PATIENCE):
        result = await found.call_tool(name, args)
    return "".join(getattr(part, "text", "") for part in result.content)

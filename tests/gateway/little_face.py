"""A face with a few tools that the gateway tests need, and ways to serve it."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp import MCPError
from waiting import PATIENCE

from toolcrib.gateway import CallingClient, Confirmation, Gateway


def _tool(name: str) -> mcp_types.Tool:
    return mcp_types.Tool(name=name, description=f"Does {name}.", input_schema={"type": "object"})


class LittleFace:
    """Tools: `echo` gives its arguments, `wipe` asks first, `wait` waits, `count` tells progress."""

    def __init__(self, view: Any = None, settings: Any = None, kept: Any = None) -> None:
        self.view, self.settings, self.kept = view, settings, kept
        self.names = ["echo", "wipe", "wait", "count", "who", "print"]
        self.started, self.cancelled, self.go_on = anyio.Event(), anyio.Event(), anyio.Event()
        self.callers: list[str] = []
        self.done: list[str] = []
        self.looks = 0
        self._callbacks: list[Callable[[], object]] = []

    def take(self, view: Any, settings: Any, kept: Any) -> "LittleFace":
        """Store the view, the settings and the kept results that a gateway passes to its faces."""
        self.view, self.settings, self.kept = view, settings, kept
        return self

    def about(self) -> str:
        return f"It has {len(self.names)} tools."

    def tools(self) -> Sequence[mcp_types.Tool]:
        self.looks += 1
        return [_tool(name) for name in self.names]

    async def call(
        self, name: str, arguments: Mapping[str, Any], client: CallingClient
    ) -> mcp_types.CallToolResult:
        if name not in self.names:
            raise MCPError(mcp_types.INVALID_PARAMS, f"no tool {name}")
        self.callers.append(client.principal.client)
        value: Any = await getattr(self, f"_{name}")(arguments, client)
        text = mcp_types.TextContent(text=str(value))
        return mcp_types.CallToolResult(content=[text], structured_content={"value": value})

    async def _echo(self, arguments: Mapping[str, Any], _: CallingClient) -> Any:
        return dict(arguments)

    async def _print(self, arguments: Mapping[str, Any], _: CallingClient) -> Any:
        print(arguments["text"], flush=True)  # noqa: T201 - as tools do
        os.write(1, b"nor this")
        return sys.stdin.read()

    async def _who(self, _: Mapping[str, Any], client: CallingClient) -> Any:
        return [client.principal.client, client.wants_progress, client.can_ask]

    async def _wipe(self, arguments: Mapping[str, Any], client: CallingClient) -> Any:
        verdicts = [
            str(
                await client.confirm(
                    Confirmation(f"q{number}", f"Wipe disk {number} of {arguments.get('host')}?")
                )
            )
            for number in range(arguments.get("disks", 1))
        ]
        self.done.append("wipe")
        return verdicts

    async def _wait(self, _: Mapping[str, Any], client: CallingClient) -> Any:
        if client.wants_progress:
            await client.progress(0, 1, "begun")
        self.started.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return "waited"

    async def _count(self, _: Mapping[str, Any], client: CallingClient) -> Any:
        for number in range(3):
            await client.progress(number, 3, f"at {number}")
        return 3

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def change(self) -> None:
        self.names = [*self.names, f"echo{len(self.names)}"]
        self.note()

    def note(self) -> None:
        """Announce a change of the tools."""
        for callback in list(self._callbacks):
            callback()


@asynccontextmanager
async def serving(gateway: Gateway, **options: Any) -> AsyncIterator[str]:
    """Serve an open gateway over HTTP at any free port, and yield its address."""
    async with anyio.create_task_group() as tasks:
        ready: list[str] = []
        told = anyio.Event()

        def on_ready(url: str) -> None:
            ready.append(url)
            told.set()

        async def serve() -> None:
            await gateway.serve_http(port=0, on_ready=on_ready, **options)
            told.set()

        tasks.start_soon(serve)
        with anyio.fail_after(PATIENCE):
            await told.wait()
        yield ready[0]
        tasks.cancel_scope.cancel()

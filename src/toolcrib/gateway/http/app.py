"""What is served over HTTP: the endpoints, and how the gateway is doing."""

import logging
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from toolcrib import __version__
from toolcrib.crib import GatewaySettings
from toolcrib.gateway.endpoint import Endpoint
from toolcrib.gateway.http.guard import Receive, Scope, Send, reply
from toolcrib.gateway.http.sessions import Sessions

if TYPE_CHECKING:
    from toolcrib.execution.mcp import ServerStatus

__all__ = ["Served", "Site"]

_LOG = logging.getLogger("toolcrib.gateway")


class Served(Protocol):
    """What a site shows."""

    @property
    def settings(self) -> GatewaySettings:
        """The settings that hold at this moment."""
        ...

    def find(self, toolset: str | None) -> Endpoint | None:
        """Return the endpoint of a toolset, or of everything; None where there is none."""
        ...

    def unready(self) -> dict[str, str]:
        """Return what is not as it must be, by name, and why; nothing where all is well."""
        ...

    def status(self) -> "dict[str, ServerStatus]":
        """Return how the servers are doing."""
        ...

    def metrics(self) -> tuple[bytes, str]:
        """Return what is counted, and what kind of text that is."""
        ...


class _Desk:
    """Where the requests of one endpoint are answered, and how many are."""

    def __init__(self, manager: Sessions) -> None:
        self._manager = manager
        self._busy = 0
        self._quiet = anyio.Event()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a stream that carries news alone does not count as one."""
        if scope["method"] != "POST":
            await self._manager.handle_request(scope, receive, send)
            return
        self._busy += 1
        try:
            await self._manager.handle_request(scope, receive, send)
        finally:
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def quiet(self) -> None:
        """Wait until nothing is being answered."""
        while self._busy:
            self._quiet = anyio.Event()
            await self._quiet.wait()


class Site:
    """Answers requests: `/mcp`, `/mcp/{toolset}`, `/health`, `/ready` and `/metrics`.

    Each endpoint has sessions of its own, which live in the task group until the endpoint is closed.
    """

    def __init__(self, served: Served, tasks: TaskGroup) -> None:
        self._served, self._tasks = served, tasks
        self._desks: dict[Endpoint, _Desk] = {}
        self._opening = anyio.Lock()
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path: str = scope["path"]
        if path == "/mcp" or path.startswith("/mcp/"):
            await self._mcp(path[5:].rstrip("/"), scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await reply(send, 405, "only GET is answered here", [(b"allow", b"GET, HEAD")])
        elif path == "/health":
            await reply(send, 200, {"status": "ok", "version": __version__})
        elif path == "/ready":
            await self._ready(send, known=scope["toolcrib.known"])
        elif path == "/metrics":
            await self._metrics(send)
        else:
            await reply(send, 404, "there are /mcp, /mcp/{toolset}, /health, /ready and /metrics")

    async def drained(self) -> None:
        """Let nothing begin any more, and wait until all is answered, but streams that carry news alone."""
        self._closing = True
        for desk in list(self._desks.values()):
            await desk.quiet()

    async def _mcp(self, toolset: str, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._served.find(toolset or None)
        if endpoint is None:
            await reply(send, 404, f"there is no toolset {toolset[:100]!r} here")
        elif self._closing:
            await reply(send, 503, "the gateway is stopping", [(b"connection", b"close")])
        else:
            desk = self._desks.get(endpoint) or await self._opened(endpoint)
            await desk.answer(scope, receive, send)

    async def _opened(self, endpoint: Endpoint) -> _Desk:
        async with self._opening:
            if endpoint not in self._desks:
                self._desks[endpoint] = await self._tasks.start(self._keep, endpoint)
            return self._desks[endpoint]

    async def _keep(self, endpoint: Endpoint, *, task_status: TaskStatus[_Desk]) -> None:
        """Keep the sessions of an endpoint until it is closed, and a little longer for what still runs."""
        settings = self._served.settings
        manager = Sessions(
            endpoint.server,
            max_request_body_size=settings.request_bytes,
            session_idle_timeout=settings.session_timeout,
            max_sessions=settings.sessions,
        )
        desk = _Desk(manager)
        try:
            async with manager.run():
                task_status.started(desk)
                await endpoint.closed.wait()
                with anyio.move_on_after(settings.shutdown_timeout):
                    await desk.quiet()
        finally:
            self._desks.pop(endpoint, None)

    async def _ready(self, send: Send, *, known: bool) -> None:
        missing = self._served.unready()
        said: dict[str, Any] = {"status": "unready" if missing else "ready"}
        if known:  # whoever has no token is told no names
            states: dict[str, list[str]] = {}
            for name, status in self._served.status().items():
                states.setdefault(status.state, []).append(name)
            said |= {"servers": states} | ({"missing": missing} if missing else {})
        await reply(send, 503 if missing else 200, said)

    async def _metrics(self, send: Send) -> None:
        text, kind = self._served.metrics()
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

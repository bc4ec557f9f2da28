"""The HTTP application: MCP endpoints, health and metrics."""

import math
import sys
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json

from toolcrib import __version__
from toolcrib.concurrency.in_flight import InFlight
from toolcrib.crib import GatewaySettings
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.http.asgi import CLOSE, Receive, Scope, Send, reply, send_bytes
from toolcrib.gateway.http.rules import AccessRules
from toolcrib.gateway.http.sessions import SessionManager

if TYPE_CHECKING:
    from toolcrib.execution.mcp import ServerStatus
    from toolcrib.execution.trace import AuditStatus

__all__ = ["HttpApp", "Served"]

_SESSION = b"mcp-session-id"


class Served(Protocol):
    """What a site shows, and to whom."""

    @property
    def settings(self) -> GatewaySettings:
        """The settings that hold at this moment."""
        ...

    def rules(self) -> AccessRules:
        """Return who may call at this moment."""
        ...

    def find(self, toolset: str | None) -> McpEndpoint | None:
        """Return the endpoint of a toolset, or of everything; None where there is none."""
        ...

    def unready(self) -> dict[str, str]:
        """Return what is not as it must be, by name, and why; nothing where all is well."""
        ...

    def status(self) -> "dict[str, ServerStatus]":
        """Return how the servers are doing."""
        ...

    def audit(self) -> "AuditStatus | None":
        """Return how the audit file is doing; None where no calls are written down."""
        ...

    def metrics(self) -> tuple[bytes, str]:
        """Return what is counted, and what kind of text that is."""
        ...

    def limited(self, limit: str) -> None:
        """Count what a limit refused or ended."""
        ...

    def end_listening(self) -> None:
        """End the streams that carry news alone, and never end by themselves."""
        ...


class _EndpointSessions:
    """Where the requests of one endpoint are answered, and how many are."""

    def __init__(self, sessions: SessionManager) -> None:
        self.sessions = sessions
        self._answering = InFlight()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a stream that carries news alone does not count as one."""
        if scope["method"] != "POST":
            await self.sessions.handle_request(scope, receive, send)
            return
        with self._answering:
            await self.sessions.handle_request(scope, receive, send)

    async def quiet(self, within: float = math.inf) -> None:
        """Wait until nothing is being answered, for at most so many seconds."""
        await self._answering.over(within)


class HttpApp:
    """Answers requests: `/mcp`, `/mcp/{toolset}`, `/health`, `/ready` and `/metrics`.

    Each endpoint has sessions of its own, which live in the task group until the endpoint is closed.
    """

    def __init__(self, served: Served, tasks: TaskGroup) -> None:
        self._served, self._tasks = served, tasks
        self._desks: dict[McpEndpoint, _EndpointSessions] = {}
        self._opening = anyio.Lock()
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path: str = scope["path"]
        if path == "/mcp" or path.startswith("/mcp/"):
            toolset = path[5:-1] if path.endswith("/") and path != "/mcp//" else path[5:]
            await self._mcp(toolset, scope, receive, send)
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

    async def end(self) -> None:
        """End all sessions, with what they are still doing."""
        self._closing = True
        for desk in list(self._desks.values()):
            await desk.sessions.end()

    async def _mcp(self, toolset: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._closing and _begins(scope):
            await reply(send, 503, "the gateway is stopping", CLOSE)
            return
        desk = self._parting(toolset, scope) or await self._opened(toolset)
        if desk is None:
            await reply(send, 404, f"there is no toolset {toolset[:100]!r} here")
        else:
            await desk.answer(scope, receive, send)

    def _parting(self, toolset: str, scope: Scope) -> _EndpointSessions | None:
        """Return where a session goes on whose endpoint is gone, until its calls have ended."""
        parting = [each for each in self._desks if each.closed.is_set() and each.name == toolset]
        session = (
            next((value for name, value in scope["headers"] if name == _SESSION), b"") if parting else b""
        )
        desks = (self._desks[endpoint] for endpoint in parting)
        return next((desk for desk in desks if desk.sessions.has(session.decode("latin-1"))), None)

    async def _opened(self, toolset: str) -> _EndpointSessions | None:
        endpoint = self._served.find(toolset or None)
        if endpoint is None or endpoint in self._desks:
            return None if endpoint is None else self._desks[endpoint]
        async with self._opening:
            if endpoint not in self._desks:
                self._desks[endpoint] = await self._tasks.start(self._keep, endpoint)
            return self._desks[endpoint]

    async def _keep(self, endpoint: McpEndpoint, *, task_status: TaskStatus[_EndpointSessions]) -> None:
        """Keep the sessions of an endpoint until it is closed, and a little longer for what still runs."""
        settings = self._served.settings
        sessions = SessionManager(
            endpoint.server,
            max_request_body_size=sys.maxsize,  # the guard has seen to it
            session_idle_timeout=settings.session_timeout,
            max_sessions=settings.sessions,
        )
        sessions.on_limited = self._served.limited
        desk = _EndpointSessions(sessions)
        try:
            async with sessions.run():
                task_status.started(desk)
                await endpoint.closed.wait()
                await desk.quiet(settings.shutdown_timeout)
                await sessions.end()
        finally:
            self._desks.pop(endpoint, None)

    async def _ready(self, send: Send, *, known: bool) -> None:
        missing = self._served.unready()
        payload: dict[str, Any] = {"status": "unready" if missing else "ready"}
        if self._closing:
            payload["status"] = "stopping"
        if known:  # whoever has no token sees no names
            states: dict[str, list[str]] = {}
            for name, status in self._served.status().items():
                states.setdefault(status.state, []).append(name)
            payload |= {"servers": states} | ({"missing": missing} if missing else {})
            audit = self._served.audit()
            if audit is not None and (audit.lost or audit.fault):
                payload["audit"] = audit.to_json()
        await reply(send, 200 if payload["status"] == "ready" else 503, payload)

    async def _metrics(self, send: Send) -> None:
        text, kind = self._served.metrics()
        await send_bytes(send, 200, text, kind.encode())


def _begins(scope: Scope) -> bool:
    """Return whether a request begins something; what a running call waits for does not, nor does an end."""
    if scope["method"] != "POST":
        return bool(scope["method"] != "DELETE")
    try:
        message = from_json(scope["toolcrib.body"])
    except ValueError:
        return True
    keys = message.keys() if isinstance(message, dict) else ()
    return not ("method" in keys if "id" not in keys else "result" in keys or "error" in keys)

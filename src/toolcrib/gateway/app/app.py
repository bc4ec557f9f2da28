"""The HTTP application: MCP endpoints, health and metrics."""

import math
import sys
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json

from toolcrib import __version__
from toolcrib.concurrency.in_flight import InFlight
from toolcrib.crib import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.app.asgi import CLOSE, Receive, Scope, Send, reply, send_bytes
from toolcrib.gateway.app.connect import CONNECT, LoginPages
from toolcrib.gateway.app.rules import AccessRules
from toolcrib.gateway.app.sessions import SessionManager
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.identity.identities import METADATA

if TYPE_CHECKING:
    from toolcrib.discovery import StoreStatus
    from toolcrib.execution.audit import AuditStatus
    from toolcrib.execution.mcp import ServerStatus

_SESSION = b"mcp-session-id"
_EXPOSE = EXPOSE_HEADER.encode()


class Served(Protocol):
    """What a site shows, and to whom."""

    @property
    def settings(self) -> GatewaySettings:
        """The settings that hold at this moment."""
        ...

    def rules(self) -> AccessRules:
        """Return who may call at this moment."""
        ...

    @property
    def logins(self) -> LoginPages:
        """The pages at which persons log in to servers."""
        ...

    def has(self, address: EndpointAddress) -> bool:
        """Return whether there is an endpoint at an address."""
        ...

    def find(self, address: EndpointAddress) -> McpEndpoint | None:
        """Return the endpoint at an address; None where there is none."""
        ...

    def unready(self) -> dict[str, str]:
        """Return what is not as it must be, by name, and why; nothing where all is well."""
        ...

    def status(self) -> "dict[str, ServerStatus]":
        """Return how the servers are doing."""
        ...

    def visible_to(self, principal: Principal | None) -> frozenset[str] | None:
        """Return the servers whose names a principal may see; None where it may see all names."""
        ...

    def audit(self) -> "AuditStatus | None":
        """Return how the audit file is doing; None where no calls are written down."""
        ...

    def catalogue(self) -> "StoreStatus | None":
        """Return how the file of the catalogue is doing; None where the catalogue is not kept."""
        ...

    def metrics(self, principal: Principal) -> tuple[bytes, str]:
        """Return what is counted, as far as a principal may see it, and what kind of text that is."""
        ...

    def limited(self, limit: str) -> None:
        """Count what a limit refused or ended."""
        ...

    def end_listening(self) -> None:
        """End the subscription streams, which never end by themselves."""
        ...


class _EndpointSessions:
    """Where the requests of one endpoint are answered, and how many are."""

    def __init__(self, sessions: SessionManager) -> None:
        self.sessions = sessions
        self._answering = InFlight()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a subscription stream does not count as one."""
        if scope["method"] != "POST":
            await self.sessions.handle_request(scope, receive, send)
            return
        with self._answering:
            await self.sessions.handle_request(scope, receive, send)

    async def quiet(self, within: float = math.inf) -> None:
        """Wait until nothing is being answered, for at most so many seconds."""
        await self._answering.over(within)


class HttpApp:
    """Answers requests: `/mcp`, `/mcp/{toolset}`, `/connect/{server}`, `/health`, `/ready` and `/metrics`.

    Below `/mcp` and each toolset are `all` and `meta`, which show what their names say. Each endpoint has
    sessions of its own, which live in the task group until the endpoint is closed.
    """

    def __init__(self, served: Served, tasks: TaskGroup) -> None:
        self._served, self._tasks = served, tasks
        self._desks: dict[McpEndpoint, _EndpointSessions] = {}
        self._opening = anyio.Lock()
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path: str = scope["path"]
        address = EndpointAddress.of_path(path)
        if address is not None:
            await self._mcp(self._wanted(address, scope), scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await reply(send, 405, "only GET is answered here", [(b"allow", b"GET, HEAD")])
        elif path.startswith(CONNECT):
            await self._served.logins.answer(scope, send)
        elif path == "/health":
            await reply(send, 200, {"status": "ok", "version": __version__})
        elif path == "/ready":
            await self._ready(scope, send)
        elif path == "/metrics":
            await self._metrics(scope, send)
        elif path.startswith(METADATA):
            await self._metadata(path.removeprefix(METADATA), send)
        else:
            await reply(
                send, 404, "there are /mcp, /mcp/all, /mcp/meta, /mcp/{toolset}, /health, /ready and /metrics"
            )

    async def drained(self) -> None:
        """Let nothing begin any more, and wait until all is answered, but subscription streams."""
        self._closing = True
        for desk in list(self._desks.values()):
            await desk.quiet()

    async def end(self) -> None:
        """End all sessions, with what they are still doing."""
        self._closing = True
        for desk in list(self._desks.values()):
            await desk.sessions.end()

    def _wanted(self, address: EndpointAddress, scope: Scope) -> EndpointAddress:
        """Return the address that a request is for: a toolcrib asks for the tools themselves in a header."""
        if address.surface is None and _header(scope, _EXPOSE) == EXPOSE_ALL:
            direct = EndpointAddress(address.toolset, EXPOSE_ALL)
            return direct if self._served.has(direct) else address
        return address

    async def _mcp(self, address: EndpointAddress, scope: Scope, receive: Receive, send: Send) -> None:
        if self._closing and _begins(scope):
            await reply(send, 503, "the gateway is stopping", CLOSE)
            return
        desk = self._parting(address, scope) or await self._opened(address)
        if desk is None:
            await reply(send, 404, f"there is no toolset {address.name[:100]!r} here")
        else:
            await desk.answer(scope, receive, send)

    def _parting(self, address: EndpointAddress, scope: Scope) -> _EndpointSessions | None:
        """Return where a session goes on whose endpoint is gone, until its calls have ended."""
        parting = [each for each in self._desks if each.closed.is_set() and each.name == address.name]
        session = _header(scope, _SESSION) if parting else ""
        desks = (self._desks[endpoint] for endpoint in parting)
        return next((desk for desk in desks if desk.sessions.has(session)), None)

    async def _opened(self, address: EndpointAddress) -> _EndpointSessions | None:
        endpoint = self._served.find(address)
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
        sessions.on_limited, sessions.connections = self._served.limited, endpoint.connections
        sessions.on_request = endpoint.refresh_principal
        desk = _EndpointSessions(sessions)
        try:
            async with sessions.run():
                task_status.started(desk)
                await endpoint.closed.wait()
                await desk.quiet(settings.shutdown_timeout)
                await sessions.end()
        finally:
            self._desks.pop(endpoint, None)

    async def _ready(self, scope: Scope, send: Send) -> None:
        missing = self._served.unready()
        payload: dict[str, Any] = {"status": "unready" if missing else "ready"}
        if self._closing:
            payload["status"] = "stopping"
        if scope["toolcrib.known"]:  # whoever has no token sees no names
            states: dict[str, list[str]] = {}
            servers, visible = self._served.status(), self._visible(scope)
            hidden = () if visible is None else servers.keys() - visible
            for name, status in servers.items():
                if name not in hidden:
                    states.setdefault(status.state, []).append(name)
            shown = {name: state for name, state in missing.items() if name not in hidden}
            payload |= {"servers": states} | ({"missing": shown} if shown else {})
            audit = self._served.audit()
            if audit is not None and (audit.lost or audit.fault):
                payload["audit"] = audit.to_json()
            catalogue = self._served.catalogue()
            if catalogue is not None and (catalogue.lost or catalogue.fault):
                payload["catalogue"] = catalogue.to_json()
        await reply(send, 200 if payload["status"] == "ready" else 503, payload)

    async def _metadata(self, path: str, send: Send) -> None:
        """Say where clients of an endpoint log in."""
        identities = self._served.rules().identities
        base = urlsplit(identities.resource()).path.rstrip("/")
        below = path.removeprefix(base).strip("/") if path.startswith(base) or not path else None
        address = None if below is None else EndpointAddress.of_path(f"/mcp/{below}")
        known = address is not None and self._served.has(address)
        found = identities.metadata(address) if address is not None and known else None
        if found is None:
            await reply(send, 404, "nobody logs in here")
        else:
            await reply(send, 200, found, [(b"cache-control", b"max-age=300")])

    def _visible(self, scope: Scope) -> frozenset[str] | None:
        return self._served.visible_to(scope.get("toolcrib.principal"))

    async def _metrics(self, scope: Scope, send: Send) -> None:
        text, kind = self._served.metrics(scope.get("toolcrib.principal") or Principal())
        await send_bytes(send, 200, text, kind.encode())


def _header(scope: Scope, wanted: bytes) -> str:
    """Return the value of a header; empty where there is none."""
    found = next((value for name, value in scope["headers"] if name == wanted), b"")
    return str(found.decode("latin-1"))


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

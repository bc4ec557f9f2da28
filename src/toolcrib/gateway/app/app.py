"""The HTTP application: MCP endpoints, health and metrics."""

import sys
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json

from toolcrib import __version__
from toolcrib.crib import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.api.site import ConsoleSite
from toolcrib.gateway.app.asgi import CLOSE, HttpRequest, Receive, Scope, Send, reply, send_bytes
from toolcrib.gateway.app.connect import CONNECT, LoginPages
from toolcrib.gateway.app.guard import AccessRules
from toolcrib.gateway.app.sessions import SessionManager
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.endpoints import Endpoints
from toolcrib.gateway.identity.identities import METADATA

if TYPE_CHECKING:
    from toolcrib.discovery import StoreStatus
    from toolcrib.execution.audit import AuditStatus
    from toolcrib.execution.mcp import ServerStatus

_SESSION = b"mcp-session-id"
_EXPOSE = EXPOSE_HEADER.encode()


class Served(Protocol):
    """What `HttpApp` needs from its gateway, which imports the server when it is first used."""

    logins: LoginPages
    """The pages on which persons log in to servers."""
    endpoints: Endpoints
    """The MCP endpoints."""
    console: ConsoleSite
    """The console and the API."""

    @property
    def settings(self) -> GatewaySettings:
        """The settings that hold now."""
        ...

    def rules(self) -> AccessRules:
        """Return the access rules that hold now."""
        ...

    def unready(self) -> dict[str, str]:
        """Return the required parts that are not ready, with their states."""
        ...

    def status(self) -> "dict[str, ServerStatus]":
        """Return the status of each server."""
        ...

    def visible_to(self, principal: Principal | None) -> frozenset[str] | None:
        """Return the servers whose names a principal may see; None for all."""
        ...

    def audit(self) -> "AuditStatus | None":
        """Return the status of the audit file; None without an audit."""
        ...

    def catalogue(self) -> "StoreStatus | None":
        """Return the status of the catalogue's file; None if it is not stored."""
        ...

    def metrics(self, principal: Principal) -> tuple[bytes, str]:
        """Return the metrics that a principal may see, and their content type."""
        ...

    def limited(self, limit: str) -> None:
        """Count a request that a limit refused, or a session that it ended."""
        ...

    def end_listening(self) -> None:
        """End the subscription streams, which never end by themselves."""
        ...


class HttpApp:
    """Answers requests: `/mcp`, `/mcp/{toolset}`, `/connect/{server}`, `/health`, `/ready`, `/metrics`.

    Below `/mcp` and each toolset are `all` and `meta`, which show the tools themselves and the meta-tools.
    The console and the API are answered by the `ConsoleSite`.
    Each endpoint has a session manager, which runs in the task group until the endpoint is closed.
    """

    def __init__(self, gateway: Served, tasks: TaskGroup) -> None:
        self._gateway, self._tasks = gateway, tasks
        self._managers: dict[EndpointAddress, SessionManager] = {}
        """The session manager of each endpoint that was used; of a closed one, until it is used again."""
        self._running: set[SessionManager] = set()
        """All that run; the sessions of a closed endpoint continue until their calls have ended."""
        self._starting = anyio.Lock()
        self._closing = False

    async def answer_mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to an endpoint."""
        request: HttpRequest = scope["toolcrib.request"]
        address = request.address or EndpointAddress()
        if self._closing and _starts_work(scope):
            await reply(send, 503, "the gateway is stopping", CLOSE)
            return
        if address.surface is None and request.headers.get(_EXPOSE) == EXPOSE_ALL:
            passthrough = EndpointAddress(address.toolset, EXPOSE_ALL)  # another toolcrib wants the tools
            address = passthrough if self._gateway.endpoints.has(passthrough) else address
        manager = self._managers.get(address)
        if manager is None or manager.closed.is_set():
            manager = await self._start_manager(address)
        session = request.headers.get(_SESSION)
        if session is not None and (manager is None or not manager.has(session)):
            others = (each for each in self._running if each.address == address and each.has(session))
            manager = next(others, manager)
        if manager is None:
            await reply(send, 404, f"there is no toolset {address.name[:100]!r} here")
        else:
            await manager.handle_request(scope, receive, send)

    async def answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to any other path."""
        path: str = scope["path"]
        request: HttpRequest = scope["toolcrib.request"]
        if ConsoleSite.serves(path):
            await self._gateway.console.answer(scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await reply(send, 405, "only GET is answered here", [(b"allow", b"GET, HEAD")])
        elif path.startswith(CONNECT):
            await self._gateway.logins.answer(scope, send)
        elif path == "/health":
            await reply(send, 200, {"status": "ok", "version": __version__})
        elif path == "/ready":
            await self._send_readiness(request, scope, send)
        elif path == "/metrics":
            await self._send_metrics(request, send)
        elif path.startswith(METADATA):
            await self._send_metadata(path.removeprefix(METADATA), send)
        else:
            await reply(
                send,
                404,
                "there are /mcp, /mcp/all, /mcp/meta, /mcp/{toolset}, /console/, /health, /ready, /metrics",
            )

    async def wait_answered(self) -> None:
        """Refuse new requests, and wait until all others are answered, except subscription streams."""
        self._closing = True
        for manager in list(self._running):
            await manager.wait_answered()
        await self._gateway.console.wait_answered()

    async def end(self) -> None:
        """End all sessions with their running requests."""
        self._closing = True
        for manager in list(self._running):
            await manager.end()

    async def _start_manager(self, address: EndpointAddress) -> SessionManager | None:
        """Return the session manager of an endpoint, started if needed; None if there is no endpoint."""
        async with self._starting:
            known = self._managers.get(address)
            if known is not None and not known.closed.is_set():
                return known
            endpoint = self._gateway.endpoints.find(address)
            if endpoint is None:
                return None
            manager: SessionManager = await self._tasks.start(self._run_manager, address, endpoint)
            self._managers[address] = manager
            return manager

    async def _run_manager(
        self, address: EndpointAddress, endpoint: McpEndpoint, *, task_status: TaskStatus[SessionManager]
    ) -> None:
        """Run the sessions of an endpoint until it is closed, and until its running requests have ended."""
        settings = self._gateway.settings
        manager = SessionManager(
            endpoint.server,
            address=address,
            closed=endpoint.closed,
            connections=endpoint.connections,
            on_limited=self._gateway.limited,
            on_request=endpoint.refresh_principal,
            max_request_body_size=sys.maxsize,  # the guard has checked it
            session_idle_timeout=settings.session_timeout,
            max_sessions=settings.sessions,
        )
        self._running.add(manager)
        try:
            async with manager.run():
                task_status.started(manager)
                await endpoint.closed.wait()
                await manager.wait_answered(settings.shutdown_timeout)
                await manager.end()
        finally:
            self._running.discard(manager)
            if self._managers.get(address) is manager:
                del self._managers[address]

    async def _send_readiness(self, request: HttpRequest, scope: Scope, send: Send) -> None:
        missing = self._gateway.unready()
        payload: dict[str, Any] = {"status": "unready" if missing else "ready"}
        if self._closing:
            payload["status"] = "stopping"
        if scope["toolcrib.known"]:  # without a token no names are shown
            states: dict[str, list[str]] = {}
            servers, visible = self._gateway.status(), self._gateway.visible_to(request.principal)
            hidden = () if visible is None else servers.keys() - visible
            for name, status in servers.items():
                if name not in hidden:
                    states.setdefault(status.state, []).append(name)
            shown = {name: state for name, state in missing.items() if name not in hidden}
            payload |= {"servers": states} | ({"missing": shown} if shown else {})
            audit = self._gateway.audit()
            if audit is not None and (audit.lost or audit.fault):
                payload["audit"] = audit.to_json()
            catalogue = self._gateway.catalogue()
            if catalogue is not None and (catalogue.lost or catalogue.fault):
                payload["catalogue"] = catalogue.to_json()
        await reply(send, 200 if payload["status"] == "ready" else 503, payload)

    async def _send_metadata(self, path: str, send: Send) -> None:
        """Send the protected resource metadata of an endpoint (RFC 9728)."""
        identities = self._gateway.rules().identities
        found = None
        if identities is not None:
            base = urlsplit(identities.resource()).path.rstrip("/")
            below = path.removeprefix(base).strip("/") if path.startswith(base) or not path else None
            address = None if below is None else EndpointAddress.of_path(f"/mcp/{below}")
            if address is not None and self._gateway.endpoints.has(address):
                found = identities.metadata(address)
        if found is None:
            await reply(send, 404, "nobody logs in here")
        else:
            await reply(send, 200, found, [(b"cache-control", b"max-age=300")])

    async def _send_metrics(self, request: HttpRequest, send: Send) -> None:
        text, kind = self._gateway.metrics(request.principal or Principal())
        await send_bytes(send, 200, text, kind.encode())


def _starts_work(scope: Scope) -> bool:
    """Return whether a request starts work: not the end of a session, nor what a running call waits for."""
    if scope["method"] != "POST":
        return bool(scope["method"] != "DELETE")
    try:
        message = from_json(scope["toolcrib.body"])
    except ValueError:
        return True
    keys = message.keys() if isinstance(message, dict) else ()
    return not ("method" in keys if "id" not in keys else "result" in keys or "error" in keys)

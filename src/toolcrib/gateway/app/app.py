"""The HTTP application: MCP endpoints, health and metrics."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from anyio.abc import TaskGroup
from pydantic_core import from_json

from toolcrib import __version__
from toolcrib.crib import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.api.site import ConsoleSite
from toolcrib.gateway.app.asgi import (
    CLOSE,
    HttpRequest,
    Receive,
    Scope,
    Send,
    reply,
    send_bytes,
)
from toolcrib.gateway.app.connect import CONNECT, LoginPages
from toolcrib.gateway.app.guard import AccessRules
from toolcrib.gateway.app.sealed import SessionSeal
from toolcrib.gateway.app.session_routing import SessionRouter
from toolcrib.gateway.app.sessions import SessionManagers
from toolcrib.gateway.endpoints import Endpoints
from toolcrib.gateway.identity.identities import METADATA
from toolcrib.gateway.metrics import label_by_worker
from toolcrib.gateway.workers.fleet import Fleet
from toolcrib.gateway.workers.links import OWN, Links

if TYPE_CHECKING:
    from toolcrib.discovery import StoreStatus
    from toolcrib.execution.audit import AuditStatus
    from toolcrib.execution.mcp import ServerStatus

_EXPOSE = EXPOSE_HEADER.encode()


class Served(Protocol):
    """What `HttpApp` needs from its gateway, which imports the server when it is first used."""

    logins: LoginPages
    """The pages on which persons log in to servers."""
    endpoints: Endpoints
    """The MCP endpoints."""
    console: ConsoleSite
    """The console and the API."""
    links: Links | None
    """The channel to the other workers; None where this process serves alone."""
    fleet: Fleet
    """Acts on all workers."""
    seal: SessionSeal | None
    """Seals the state of sessions into their ids; None where nobody else could restore them."""

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
    """

    def __init__(self, gateway: Served, tasks: TaskGroup) -> None:
        self._gateway = gateway
        self._links = gateway.links
        self._managers = SessionManagers(gateway.endpoints, lambda: gateway.settings, gateway.limited, tasks)
        self._router: SessionRouter | None = None
        """Where sessions may be held by others: several workers, or gateways on one store."""
        if gateway.seal is not None:
            self._router = SessionRouter(
                self._managers,
                gateway.endpoints,
                gateway.seal,
                gateway.links,
                max_sessions=gateway.settings.sessions,
            )
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
        await (self._router or self._managers).handle_request(address, scope, receive, send)

    async def answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to any other path."""
        path: str = scope["path"]
        request: HttpRequest = scope["toolcrib.request"]
        if ConsoleSite.serves(path):
            answer = partial(self._gateway.console.answer, scope, receive, send)
            await self._answer_at_first_worker(answer, scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await reply(send, 405, "only GET is answered here", [(b"allow", b"GET, HEAD")])
        elif path.startswith(CONNECT):
            answer = partial(self._gateway.logins.answer, scope, send)
            await self._answer_at_first_worker(answer, scope, receive, send)
        elif path == "/health":
            await reply(send, 200, {"status": "ok", "version": __version__})
        elif path == "/ready":
            await self._send_readiness(request, scope, send)
        elif path == "/metrics":
            await self._send_metrics(request, scope, send)
        elif path.startswith(METADATA):
            await self._send_metadata(path.removeprefix(METADATA), send)
        else:
            await reply(
                send,
                404,
                "there are /mcp, /mcp/all, /mcp/meta, /mcp/{toolset}, /console/, /health, /ready, /metrics",
            )

    async def _answer_at_first_worker(
        self, answer: Callable[[], Awaitable[None]], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request to the console, the API or a login page, which the first worker serves for all."""
        if self._router is None or self._links is None or self._links.worker.number == 0:
            await answer()
        elif not await self._router.relay(0, scope, receive, send):
            text = "the worker that serves this page is being started; try again"
            await reply(send, 503, text, [(b"retry-after", b"1"), *CLOSE])

    async def wait_answered(self) -> None:
        """Refuse new requests, and wait until all others are answered, except subscription streams."""
        self._closing = True
        if self._router is not None:
            await self._router.wait_relayed()
        await self._managers.wait_answered()
        await self._gateway.console.wait_answered()

    async def end(self) -> None:
        """End all sessions with their running requests."""
        self._closing = True
        await self._managers.end()

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
        if self._links is not None and not scope.get(OWN):
            payload |= await self._read_others(self._links, scope, payload["status"])
        await reply(send, 200 if payload["status"] == "ready" else 503, payload)

    async def _read_others(self, links: Links, scope: Scope, own: str) -> dict[str, Any]:
        """Return what the workers say together: ready only if each that runs is, with the state of each."""
        answers = {number: from_json(body) for number, (_, body) in (await links.fetch_all(scope)).items()}
        states = {links.worker.number: own} | {number: found["status"] for number, found in answers.items()}
        listed = [states.get(number, "starting") for number in range(links.worker.count)]
        worst = next((each for each in ("stopping", "unready") if each in listed), "ready")
        shown = {"workers": listed} if scope["toolcrib.known"] else {}
        missing = {
            name: state for found in answers.values() for name, state in found.get("missing", {}).items()
        }
        return {"status": worst, **shown} | ({"missing": missing} if missing else {})

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
            await reply(send, 404, "there is no login here")
        else:
            await reply(send, 200, found, [(b"cache-control", b"max-age=300")])

    async def _send_metrics(self, request: HttpRequest, scope: Scope, send: Send) -> None:
        text, kind = self._gateway.metrics(request.principal or Principal())
        if self._links is not None and not scope.get(OWN):
            others = await self._links.fetch_all(scope)
            found = {number: body for number, (status, body) in others.items() if status == HTTPStatus.OK}
            text = label_by_worker({self._links.worker.number: text, **found})
        await send_bytes(send, 200, text, kind.encode())


def _starts_work(scope: Scope) -> bool:
    """Return whether a request starts work: not the end of a session, nor what a running call waits for."""
    if scope["method"] != "POST":
        return bool(scope["method"] != "DELETE")
    try:
        message = from_json(scope["toolcrib.body"])
    except ValueError:
        return True
    if not isinstance(message, dict):
        return True
    is_notification = "method" in message and "id" not in message
    is_response = "id" in message and ("result" in message or "error" in message)
    return not (is_notification or is_response)

"""The HTTP application: MCP endpoints, health and metrics."""

import json
import logging
import math
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp_types import INVALID_REQUEST
from pydantic_core import from_json

from toolcrib import __version__
from toolcrib.concurrency.in_flight import InFlight
from toolcrib.concurrency.lru import LruCache
from toolcrib.crib import GatewaySettings
from toolcrib.errors import StoreError
from toolcrib.execution import Principal
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.api.site import ConsoleSite
from toolcrib.gateway.app.asgi import (
    CLOSE,
    Headers,
    HttpRequest,
    Message,
    Receive,
    Scope,
    Send,
    reply,
    send_bytes,
)
from toolcrib.gateway.app.connect import CONNECT, LoginPages
from toolcrib.gateway.app.guard import AccessRules
from toolcrib.gateway.app.sealed import SealedSession, SessionSeal
from toolcrib.gateway.app.sessions import SessionManager
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.endpoints import Endpoints
from toolcrib.gateway.identity.identities import METADATA
from toolcrib.gateway.identity.principals import account_of
from toolcrib.gateway.metrics import label_by_worker
from toolcrib.gateway.workers.fleet import Fleet
from toolcrib.gateway.workers.links import OWN, Links, WorkerEndedError
from toolcrib.mcp_internals import is_waiting_for

if TYPE_CHECKING:
    from toolcrib.discovery import StoreStatus
    from toolcrib.execution.audit import AuditStatus
    from toolcrib.execution.mcp import ServerStatus

_LOG = logging.getLogger("toolcrib.gateway")
_SESSION = b"mcp-session-id"
_OF_SESSION = frozenset({_SESSION, b"mcp-protocol-version"})
_REPLACED = _OF_SESSION | {b"accept", b"content-type", b"content-length", b"last-event-id"}
"""Headers that a message on behalf of a client has of its own."""
_BAD_REQUEST = 400
_NO_SESSION = "Session not found"
_NOT_ENDED = "the session has not ended: the other gateways cannot be told; try again"
_NOT_ASKED = "this answers no question that was asked here: who asked it has ended, or is another gateway"
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
    Each endpoint has a session manager, which runs in the task group until the endpoint is closed.
    """

    def __init__(self, gateway: Served, tasks: TaskGroup) -> None:
        self._gateway, self._tasks = gateway, tasks
        self._links, self._seal = gateway.links, gateway.seal
        self._relayed = InFlight()
        self._restored: LruCache[str, str] = LruCache(gateway.settings.sessions)
        """The ids here of sessions that were restored, by those that their clients have."""
        self._restoring = anyio.Lock()
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
        if self._seal is None:
            await self._answer_at(address, scope, receive, send)
        elif request.headers.get(_SESSION) is not None:
            await self._answer_sealed(self._seal, address, scope, receive, send)
        elif b'"initialize"' in request.body:
            await self._answer_at(address, scope, receive, _seal_answer(self._seal, address, request, send))
        else:
            await self._answer_at(address, scope, receive, send)
            if request.elsewhere is not None:
                await self._answer_elsewhere(request, scope, receive)

    async def _answer_at(self, address: EndpointAddress, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request at an endpoint of this process."""
        session = scope["toolcrib.request"].headers.get(_SESSION)
        manager = self._managers.get(address)
        if manager is None or manager.closed.is_set() or not (session is None or manager.has(session)):
            manager = await self._find_manager(address, session)
        if manager is None:
            await reply(send, 404, f"there is no toolset {address.name[:100]!r} here")
        else:
            await manager.handle_request(scope, receive, send)

    async def _find_manager(self, address: EndpointAddress, session: str | None) -> SessionManager | None:
        """Return the session manager of an endpoint, or the one that it had when a session began."""
        manager = self._managers.get(address)
        if manager is None or manager.closed.is_set():
            manager = await self._start_manager(address)
        if session is not None and (manager is None or not manager.has(session)):
            others = (each for each in self._running if each.address == address and each.has(session))
            manager = next(others, manager)
        return manager

    async def _answer_sealed(
        self, seal: SessionSeal, address: EndpointAddress, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a session: where it is held, else here, once it is restored."""
        request: HttpRequest = scope["toolcrib.request"]
        name = request.headers[_SESSION]
        known = seal.open(name, address.name, account_of(request.principal))
        if known is None:  # it is unknown, unless its state was too long to be sealed
            await self._answer_at(address, scope, receive, send)
            return
        is_elsewhere = known.holder == seal.holder and known.worker != seal.worker
        if is_elsewhere and await self._relay(known.worker, scope, receive, send):
            return
        session = await self._find_session(address, name, known)
        is_end = scope["method"] == "DELETE"
        if not is_end and (session is None or seal.has_other_holders()) and await seal.has_ended(name):
            await reply(send, 404, _NO_SESSION)  # it may have been ended at another gateway
            return
        asked = _answered_question(request.body) if scope["method"] == "POST" else None
        if is_end:
            if not await self._note_ended(seal, name, is_here=session is not None, send=send):
                return
        elif asked is not None and not self._has_asked(address, session, asked):
            error = {"code": INVALID_REQUEST, "message": _NOT_ASKED}
            await reply(send, 409, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        elif session is None:
            async with self._restoring:
                session = await self._find_session(address, name, known)
                if session is None:
                    session = await self._restore(address, name, known, scope)
        if session is None:
            await reply(send, 404, _NO_SESSION)
        else:
            headers = _replace_session(scope["headers"], session)
            request.headers = {**request.headers, _SESSION: session}
            await self._answer_at(address, {**scope, "headers": headers}, receive, _rename(send, name))

    async def _find_session(self, address: EndpointAddress, name: str, known: SealedSession) -> str | None:
        """Return the id by which a session is known here; None if it is not here."""
        for session in (self._restored.get(name), known.session):
            manager = None if session is None else await self._find_manager(address, session)
            if session is not None and manager is not None and manager.has(session):
                return session
        return None

    def _has_asked(self, address: EndpointAddress, session: str | None, question: Any) -> bool:
        endpoint = None if session is None else self._gateway.endpoints.find(address)
        connection = None if endpoint is None else endpoint.connections.get(session or "")
        return connection is not None and is_waiting_for(connection, question)

    async def _note_ended(self, seal: SessionSeal, name: str, *, is_here: bool, send: Send) -> bool:
        """Note for all gateways that a session has ended; return whether it is still to be ended here.

        Otherwise the request is answered.
        """
        try:
            await seal.note_ended(name)
        except StoreError as error:
            _LOG.warning("a session has not ended: %s", error)
            await reply(send, 503, _NOT_ENDED, [(b"retry-after", b"1")])
            return False
        if not is_here:
            await send_bytes(send, 200, b"", b"application/json")
        return is_here

    async def _restore(
        self, address: EndpointAddress, name: str, known: SealedSession, scope: Scope
    ) -> str | None:
        """Begin a session anew as its client did, and return its id here; None if that is too long ago."""
        if not known.is_restorable:
            return None
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": known.params}
        session = await self._post(address, scope, begin, None)
        if session is not None:
            await self._post(
                address, scope, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session
            )
            self._restored.put(name, session)
        return session

    async def _post(
        self, address: EndpointAddress, scope: Scope, message: dict[str, Any], session: str | None
    ) -> str | None:
        """Handle a message on behalf of a client, and return the session that the response names."""
        named: str | None = None

        async def note(sent: Message) -> None:
            nonlocal named
            if sent["type"] == "http.response.start" and sent["status"] < _BAD_REQUEST:
                named = dict(sent["headers"]).get(_SESSION, b"").decode("latin-1") or None

        opened: HttpRequest = scope["toolcrib.request"]
        given = {} if session is None else {_SESSION: session}
        request = HttpRequest(
            note, {**{k: v for k, v in opened.headers.items() if k not in _OF_SESSION}, **given}
        )
        request.address, request.principal, request.body = (
            address,
            opened.principal,
            json.dumps(message).encode(),
        )
        request.subject_token, request.still_allowed = opened.subject_token, opened.still_allowed
        headers = [each for each in scope["headers"] if each[0] not in _REPLACED]
        headers += [
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
        ]
        headers += [(each, text.encode("latin-1")) for each, text in given.items()]
        more = {
            "method": "POST",
            "headers": headers,
            "toolcrib.request": request,
            "toolcrib.body": request.body,
        }
        await self._answer_at(address, {**scope, **more}, _until_cancelled, request.send)
        return named

    async def _relay(self, worker: int, scope: Scope, receive: Receive, send: Send) -> bool:
        """Have another worker answer a request; return False if it cannot be reached."""
        if self._links is None:
            return False
        request: HttpRequest = scope["toolcrib.request"]
        try:
            with self._relayed if scope["method"] == "POST" else nullcontext():
                return await self._links.relay(worker, scope, request.body, receive, send)
        except WorkerEndedError as error:
            await request.break_off(f"{error}; whether the call has run is not known")
            return True

    async def _answer_elsewhere(self, request: HttpRequest, scope: Scope, receive: Receive) -> None:
        """Have the worker answer a request that holds the call or the task which the request is about."""
        worker, request.elsewhere = request.elsewhere, None
        if worker is None or not await self._relay(worker, scope, receive, request.send):
            await request.break_off(
                "the worker of the gateway that held this call has ended, and so has the call"
            )

    async def answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to any other path."""
        path: str = scope["path"]
        request: HttpRequest = scope["toolcrib.request"]
        if ConsoleSite.serves(path):
            answer = partial(self._gateway.console.answer, scope, receive, send)
            await self._answer_at_first(answer, scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await reply(send, 405, "only GET is answered here", [(b"allow", b"GET, HEAD")])
        elif path.startswith(CONNECT):
            answer = partial(self._gateway.logins.answer, scope, send)
            await self._answer_at_first(answer, scope, receive, send)
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

    async def _answer_at_first(
        self, answer: Callable[[], Awaitable[None]], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request to the console, the API or a login page, which the first worker serves for all."""
        if self._links is None or self._links.worker.number == 0:
            await answer()
        elif not await self._relay(0, scope, receive, send):
            text = "the worker that serves this page is being started; try again"
            await reply(send, 503, text, [(b"retry-after", b"1"), *CLOSE])

    async def wait_answered(self) -> None:
        """Refuse new requests, and wait until all others are answered, except subscription streams."""
        self._closing = True
        await self._relayed.wait_until_none(math.inf)
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
            await reply(send, 404, "nobody logs in here")
        else:
            await reply(send, 200, found, [(b"cache-control", b"max-age=300")])

    async def _send_metrics(self, request: HttpRequest, scope: Scope, send: Send) -> None:
        text, kind = self._gateway.metrics(request.principal or Principal())
        if self._links is not None and not scope.get(OWN):
            others = await self._links.fetch_all(scope)
            found = {number: body for number, (status, body) in others.items() if status == HTTPStatus.OK}
            text = label_by_worker({self._links.worker.number: text, **found})
        await send_bytes(send, 200, text, kind.encode())


def _seal_answer(seal: SessionSeal, address: EndpointAddress, request: HttpRequest, send: Send) -> Send:
    """Return a `send` that seals the state of the session that a response to `initialize` names."""

    async def send_sealed(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < _BAD_REQUEST:
            session = dict(message["headers"]).get(_SESSION)
            params = from_json(request.body).get("params") if session is not None else None
            if session is not None and isinstance(params, dict):
                account = account_of(request.principal)
                name = seal.seal(session.decode("latin-1"), address.name, account, params)
                if name is not None:
                    message = {**message, "headers": _replace_session(message["headers"], name)}
        await send(message)

    return send_sealed


def _rename(send: Send, name: str) -> Send:
    """Return a `send` that names a session as its client does."""

    async def send_renamed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": _replace_session(message.get("headers", ()), name)}
        await send(message)

    return send_renamed


def _replace_session(headers: Iterable[tuple[bytes, bytes]], name: str) -> Headers:
    return [(key, name.encode("latin-1") if key == _SESSION else value) for key, value in headers]


def _answered_question(body: bytes) -> Any:
    """Return the id of the request that a message answers; None if it is no answer."""
    try:
        message = from_json(body)
    except ValueError:
        return None
    is_answer = isinstance(message, dict) and "method" not in message
    return message.get("id") if is_answer and ("result" in message or "error" in message) else None


async def _until_cancelled() -> Message:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


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

"""Requests of sessions that several workers or gateways serve: each goes to the one that holds its session.

A sealed session id says which worker holds the session, and has what is needed to restore it elsewhere. So a
request goes through these steps, the first that applies:

1. Another worker of this gateway holds the session: it answers.
2. The session has ended, which may have been at another gateway: 404. Only a DELETE ends it again.
3. The request answers a question that this process did not ask: 409, since nobody waits for it here.
4. The session is not here: it is restored from its id, and the request is answered in it.

A request without a session may still be about a call or a task that another worker holds, which only the
endpoint that reads it finds out. It then answers nothing, and that worker does (`HttpRequest.elsewhere`).
"""

import json
import logging
import math
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import anyio
from mcp_types import INVALID_REQUEST
from pydantic_core import from_json

from toolcrib.concurrency.in_flight import InFlight
from toolcrib.concurrency.lru import LruCache
from toolcrib.errors import StoreError
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.app.asgi import (
    SESSION_HEADER,
    Headers,
    HttpRequest,
    Message,
    Receive,
    Scope,
    Send,
    reply,
    send_bytes,
)
from toolcrib.gateway.app.sealed import SealedSession, SessionSeal
from toolcrib.gateway.app.sessions import SessionManagers
from toolcrib.gateway.endpoints import Endpoints
from toolcrib.gateway.identity.principals import account_of
from toolcrib.gateway.workers.links import Links, WorkerEndedError
from toolcrib.mcp_internals import is_waiting_for

_LOG = logging.getLogger("toolcrib.gateway")
_OF_SESSION = frozenset({SESSION_HEADER, b"mcp-protocol-version"})
_REPLACED = _OF_SESSION | {b"accept", b"content-type", b"content-length", b"last-event-id"}
"""Headers that a message on behalf of a client has of its own."""
_BAD_REQUEST = 400
_NO_SESSION = "Session not found"
_NOT_ENDED = "the session has not ended: the other gateways cannot be told; try again"
_NOT_ASKED = (
    "no question with this id was asked here: the call that asked it has ended, or is at another gateway"
)


class SessionRouter:
    """Has each request answered where its session is held, and restores sessions whose holder has ended."""

    def __init__(
        self,
        managers: SessionManagers,
        endpoints: Endpoints,
        seal: SessionSeal,
        links: Links | None,
        *,
        max_sessions: int,
    ) -> None:
        self._managers, self._endpoints, self._seal, self._links = managers, endpoints, seal, links
        self._relayed = InFlight()
        self._restored: LruCache[str, str] = LruCache(max_sessions)
        """The ids here of sessions that were restored, by those that their clients have."""
        self._restoring = anyio.Lock()

    async def handle_request(
        self, address: EndpointAddress, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request to an endpoint, here or at the worker that holds what it is about."""
        request: HttpRequest = scope["toolcrib.request"]
        name = request.headers.get(SESSION_HEADER)
        if name is not None:
            await self._handle_session_request(name, address, scope, receive, send)
        else:
            is_initialize = b'"initialize"' in request.body
            send = self._seal_session(address, request, send) if is_initialize else send
            await self._managers.handle_request(address, scope, receive, send)
            if request.elsewhere is not None:
                await self._relay_to_holder(request, scope, receive)

    async def relay(self, worker: int, scope: Scope, receive: Receive, send: Send) -> bool:
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

    async def wait_relayed(self) -> None:
        """Wait until other workers have answered all that was relayed to them."""
        await self._relayed.wait_until_none(math.inf)

    async def _handle_session_request(
        self, name: str, address: EndpointAddress, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a session, by the steps that the module describes."""
        request: HttpRequest = scope["toolcrib.request"]
        known = self._seal.open(name, address.name, account_of(request.principal))
        if known is None:  # it is unknown, unless its state was too long to be sealed
            await self._managers.handle_request(address, scope, receive, send)
            return
        is_at_other_worker = known.holder == self._seal.holder and known.worker != self._seal.worker
        if is_at_other_worker and await self.relay(known.worker, scope, receive, send):
            return
        session = await self._find_session(address, name, known)
        if scope["method"] == "DELETE":
            await self._end_session(name, session, address, scope, receive, send)
            return
        # One that only this process can hold has not ended while it is here.
        may_have_ended = session is None or self._seal.has_other_holders()
        if may_have_ended and await self._seal.has_ended(name):
            await reply(send, 404, _NO_SESSION)
            return
        answered = _id_of_response(request.body) if scope["method"] == "POST" else None
        if answered is not None and not self._is_waiting_for_response(address, session, answered):
            error = {"code": INVALID_REQUEST, "message": _NOT_ASKED}
            await reply(send, 409, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        if session is None:
            session = await self._restore_once(address, name, known, scope)
        if session is None:
            await reply(send, 404, _NO_SESSION)
        else:
            await self._answer_in_session(name, session, address, scope, receive, send)

    async def _end_session(
        self,
        name: str,
        session: str | None,
        address: EndpointAddress,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """End a session for all gateways, and here if it is here; not at all if the others cannot be told."""
        try:
            await self._seal.note_ended(name)
        except StoreError as error:
            _LOG.warning("a session has not ended: %s", error)
            await reply(send, 503, _NOT_ENDED, [(b"retry-after", b"1")])
            return
        if session is None:
            await send_bytes(send, 200, b"", b"application/json")
        else:
            await self._answer_in_session(name, session, address, scope, receive, send)

    async def _answer_in_session(
        self, name: str, session: str, address: EndpointAddress, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request in a session of this process, which its client knows by another name."""
        request: HttpRequest = scope["toolcrib.request"]
        headers = _replace_session(scope["headers"], session)
        request.headers = {**request.headers, SESSION_HEADER: session}
        await self._managers.handle_request(
            address, {**scope, "headers": headers}, receive, _name_session(send, name)
        )

    async def _relay_to_holder(self, request: HttpRequest, scope: Scope, receive: Receive) -> None:
        """Have the worker answer a request that holds the call or the task which the request is about."""
        worker, request.elsewhere = request.elsewhere, None
        if worker is None or not await self.relay(worker, scope, receive, request.send):
            await request.break_off(
                "the worker of the gateway that held this call has ended, and so has the call"
            )

    async def _find_session(self, address: EndpointAddress, name: str, known: SealedSession) -> str | None:
        """Return the id by which a session is known here; None if it is not here."""
        for session in (self._restored.get(name), known.session):
            if session is not None and await self._managers.has_session(address, session):
                return session
        return None

    def _is_waiting_for_response(self, address: EndpointAddress, session: str | None, question: Any) -> bool:
        endpoint = None if session is None else self._endpoints.find(address)
        connection = None if endpoint is None else endpoint.connections.get(session or "")
        return connection is not None and is_waiting_for(connection, question)

    async def _restore_once(
        self, address: EndpointAddress, name: str, known: SealedSession, scope: Scope
    ) -> str | None:
        """Restore a session, unless another request has done so meanwhile; return its id here."""
        async with self._restoring:
            session = await self._find_session(address, name, known)
            return session or await self._restore(address, name, known, scope)

    async def _restore(
        self, address: EndpointAddress, name: str, known: SealedSession, scope: Scope
    ) -> str | None:
        """Begin a session anew as its client did, and return its id here; None if that is too long ago."""
        if not known.is_restorable:
            return None
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": known.params}
        session = await self._send_for_client(address, scope, begin, None)
        if session is not None:
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._send_for_client(address, scope, initialized, session)
            self._restored.put(name, session)
        return session

    async def _send_for_client(
        self, address: EndpointAddress, scope: Scope, message: dict[str, Any], session: str | None
    ) -> str | None:
        """Handle a message on behalf of a client, and return the session that the response names."""
        named: str | None = None

        async def read_session(sent: Message) -> None:
            nonlocal named
            if sent["type"] == "http.response.start" and sent["status"] < _BAD_REQUEST:
                named = dict(sent["headers"]).get(SESSION_HEADER, b"").decode("latin-1") or None

        client: HttpRequest = scope["toolcrib.request"]
        added = {} if session is None else {SESSION_HEADER: session}
        kept = {name: value for name, value in client.headers.items() if name not in _OF_SESSION}
        request = HttpRequest(read_session, {**kept, **added})
        request.address, request.principal = address, client.principal
        request.body = json.dumps(message).encode()
        request.subject_token, request.still_allowed = client.subject_token, client.still_allowed
        headers = [each for each in scope["headers"] if each[0] not in _REPLACED]
        headers += [
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
        ]
        headers += [(name, text.encode("latin-1")) for name, text in added.items()]
        own_scope = {
            **scope,
            "method": "POST",
            "headers": headers,
            "toolcrib.request": request,
            "toolcrib.body": request.body,
        }
        await self._managers.handle_request(address, own_scope, _receive_nothing, request.send)
        return named

    def _seal_session(self, address: EndpointAddress, request: HttpRequest, send: Send) -> Send:
        """Return a `send` that seals the state of the session that a response to `initialize` names."""

        async def send_sealed(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < _BAD_REQUEST:
                session = dict(message["headers"]).get(SESSION_HEADER)
                params = from_json(request.body).get("params") if session is not None else None
                if session is not None and isinstance(params, dict):
                    account = account_of(request.principal)
                    name = self._seal.seal(session.decode("latin-1"), address.name, account, params)
                    if name is not None:
                        message = {**message, "headers": _replace_session(message["headers"], name)}
            await send(message)

        return send_sealed


def _name_session(send: Send, name: str) -> Send:
    """Return a `send` that names a session as its client does."""

    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": _replace_session(message.get("headers", ()), name)}
        await send(message)

    return send_named


def _replace_session(headers: Iterable[tuple[bytes, bytes]], name: str) -> Headers:
    return [(key, name.encode("latin-1") if key == SESSION_HEADER else value) for key, value in headers]


def _id_of_response(body: bytes) -> Any:
    """Return the id of the request that a message is the response to; None if it is no response."""
    try:
        message = from_json(body)
    except ValueError:
        return None
    is_response = isinstance(message, dict) and "method" not in message
    return message.get("id") if is_response and ("result" in message or "error" in message) else None


async def _receive_nothing() -> Message:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")

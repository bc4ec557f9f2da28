"""Requests that are answered in the task that received them, as plain JSON unless there is more to say.

The SDK answers calls of the stateless era with two tasks and a stream each, and those of a session by way of
three tasks and four streams, which costs about as much as all else that is done for a call.
"""

import asyncio  # noqa: TID251 - anyio has no timers, and no tasks that a timer could start
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, modern_error_data
from mcp.server.streamable_http import REQUEST_CANCELLED, check_accept_headers
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import ErrorData, JSONRPCRequest
from pydantic_core import from_json, to_json
from starlette.requests import Request

from toolcrib.gateway.app.asgi import PING, STREAM, Headers, Receive, Send, event, reply, send_bytes

_AT_ONCE = 0.02
"""Seconds within which most calls end; nobody watches over those."""


async def answer_call(server: Server[Any], request: Request, send: Send, patience: float) -> bool:
    """Answer a plain call of a tool, and return whether it was one; if not, nothing was answered.

    One that does not end at once gets a task that watches for the client to leave. All but plain calls is
    left to the SDK.

    Args:
        server: whose tool it is; it has no lifespan of its own.
        request: the request, whose body is in its scope.
        send: takes the answer.
        patience: after how many silent seconds it is answered with a stream, and shows that it lives.
    """
    found = _read(request)
    if found is None or not _agrees(server, found[0], request):
        return False
    call, verdict = found
    answer = _Answer(call, request, send, patience)
    connection = Connection.from_envelope(
        verdict.protocol_version, verdict.client_info, verdict.client_capabilities
    )
    runner = ServerRunner(server, connection, {})
    given: dict[str, Any] | ErrorData | None = None
    try:
        with anyio.CancelScope() as scope:
            given = await answer.run(runner, _AT_ONCE, partial(answer.watch, request.receive, scope))
        if given is not None:  # else the client has left
            await answer.end(given)
    finally:
        await connection.exit_stack.aclose()  # in which there is nothing, but what a frontend put there
    return True


def _agrees(server: Server[Any], call: JSONRPCRequest, request: Request) -> bool:
    """Return whether the headers of a call say what its arguments do, as far as its tool wants them to."""
    params = call.params or {}
    name, args = params.get("name"), params.get("arguments") or {}
    if server.get_tool_input_schema is None or not isinstance(name, str) or not isinstance(args, dict):
        return False
    try:
        schema = server.get_tool_input_schema(name)
    except Exception:  # noqa: BLE001 - frontends are foreign; the SDK says what is wrong, and goes on
        return False
    return schema is None or validate_mcp_param_headers(schema, args, request.headers) is None


def _read(request: Request) -> tuple[JSONRPCRequest, InboundModernRoute] | None:
    """Return the call that a request is, and who makes it; None where it is anything else, or wrong."""
    kind = request.headers.get("content-type", "")
    is_plain = request.method == "POST" and kind.startswith("application/json")
    if not is_plain or not all(check_accept_headers(request)):
        return None
    body, headers = request.scope["toolcrib.body"], _routing(request.scope["headers"])
    if b"tools/call" not in body or find_duplicated_routing_header(headers) is not None:
        return None
    try:
        payload = from_json(body)
        call = JSONRPCRequest.model_validate(payload)
    except ValueError:
        return None
    verdict = classify_inbound_request(payload, headers=dict(headers))
    if call.method != "tools/call" or not isinstance(verdict, InboundModernRoute):
        return None
    return call, verdict


def _routing(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers that say what a request is."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.startswith(b"mcp-")
    ]


class _Answer:
    """What a call is answered with: JSON, or a stream once it has anything to say before that.

    To the server it is the context of the call: a `mcp.shared.dispatcher.DispatchContext`.
    """

    can_send_request = False

    _headers: Headers = []  # noqa: RUF012 - nobody adds to it

    def __init__(self, call: JSONRPCRequest, request: Request, send: Send, patience: float) -> None:
        self.transport = TransportContext(
            kind="streamable-http", can_send_request=False, headers=request.headers
        )
        self.request_id, self._call = call.id, call
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self._progress_token = progress_token_from_params(call.params)
        self._send, self._patience = send, patience
        self._is_stream = False

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """Set when the client has cancelled the call."""
        return anyio.Event()

    async def run(
        self, runner: ServerRunner[Any], moment: float, watch: Callable[[], Coroutine[Any, Any, None]]
    ) -> dict[str, Any] | ErrorData:
        """Return what the server gives, or what is wrong; what takes longer than a moment is watched over."""
        loop, watchers = asyncio.get_running_loop(), []
        # A task group for each call would take longer than all else that is done here.
        timer = loop.call_later(moment, lambda: watchers.append(loop.create_task(watch())))
        try:
            return await runner.on_request(self, self._call.method, self._call.params)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            return modern_error_data(error)
        finally:
            timer.cancel()
            for watcher in watchers:
                watcher.cancel()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002 - the protocol has it
        opts: CallOptions | None = None,  # noqa: ARG002 - the same
    ) -> dict[str, Any]:
        """Refuse: in the stateless era a server asks nothing, nor in the other where it would be in vain."""
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 - the protocol has it
    ) -> None:
        """Tell the client something before the answer."""
        message = {"jsonrpc": "2.0", "method": method}
        await self._tell(event(message if params is None else {**message, "params": dict(params)}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is, if it wants to know."""
        if self._progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        more = {"total": total, "message": message}
        await self.notify("notifications/progress", params | {k: v for k, v in more.items() if v is not None})

    async def _tell(self, news: bytes) -> None:
        """Send something before the answer."""
        if not self._is_stream:
            self._is_stream = True
            headers = [*STREAM, *self._headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": news, "more_body": True})

    async def watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        """End the call when the client leaves; show that it lives meanwhile."""
        while True:
            with anyio.move_on_after(self._patience):
                while (await receive())["type"] != "http.disconnect":
                    pass
                scope.cancel()
                return
            await self._tell(PING)

    async def end(self, given: dict[str, Any] | ErrorData) -> None:
        """Send the answer."""
        if isinstance(given, ErrorData):
            payload = {"error": given.model_dump(mode="json", by_alias=True, exclude_none=True)}
        else:
            payload = {"result": given}
        message = {"jsonrpc": "2.0", "id": self.request_id, **payload}
        if self._is_stream:
            await self._send({"type": "http.response.body", "body": event(message), "more_body": False})
        elif isinstance(given, ErrorData):
            await self._refuse(given, message)
        else:
            body = to_json(message, inf_nan_mode="null")
            await send_bytes(self._send, 200, body, b"application/json", self._headers)

    async def _refuse(self, error: ErrorData, message: dict[str, Any]) -> None:
        await reply(self._send, ERROR_CODE_HTTP_STATUS.get(error.code, 200), message)


class SessionCall(_Answer):
    """A request within a session whose client can be asked nothing; the session may end it."""

    def __init__(
        self, call: JSONRPCRequest, request: Request, send: Send, patience: float, headers: Headers
    ) -> None:
        super().__init__(call, request, send, patience)
        self._headers = headers
        self._scope = anyio.CancelScope()
        self._reason = ErrorData(code=REQUEST_CANCELLED, message="the client has closed the connection")

    def cancel(self, reason: ErrorData) -> None:
        """End it, and answer with a reason."""
        self._reason = reason
        self.cancel_requested.set()
        self._scope.cancel()

    async def answer(self, runner: ServerRunner[Any], receive: Receive) -> None:
        """Run it, and send what comes of it; it ends when its client leaves."""
        given: dict[str, Any] | ErrorData | None = None
        with self._scope:
            given = await self.run(runner, _AT_ONCE, partial(self.watch, receive, self._scope))
        await self.end(self._reason if given is None else given)

    async def _refuse(self, error: ErrorData, message: dict[str, Any]) -> None:  # noqa: ARG002 - of the other era
        """Send an error as an event: a client that cancelled may not listen for it."""
        headers = [*STREAM, *self._headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": event(message), "more_body": False})

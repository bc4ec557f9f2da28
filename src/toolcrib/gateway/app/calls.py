"""Calls that are answered in the task of their request, as plain JSON unless messages come before the result.

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

from toolcrib.gateway.app.asgi import (
    PING,
    STREAM,
    Headers,
    HttpRequest,
    Receive,
    Send,
    encode_event,
    reply,
    send_bytes,
)

_UNWATCHED_SECONDS = 0.02
"""Seconds within which most calls end; only after them is the connection of the client watched."""


async def answer_call(server: Server[Any], request: Request, opened: HttpRequest, patience: float) -> bool:
    """Answer a plain `tools/call` of the stateless era; return False, without an answer, for other requests.

    A call that does not end at once gets a task that watches for the client to close the connection. All
    other requests are left to the SDK.

    Args:
        server: the server of the tool, without a lifespan of its own.
        request: the request.
        opened: the same request, with its body.
        patience: silent seconds after which the response becomes a stream that shows signs of life.
    """
    found = _read_call(request, opened.body)
    if found is None or not _headers_match(server, found[0], request):
        return False
    call, route = found
    answer = _CallResponse(call, request, opened.send, patience)
    connection = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    runner = ServerRunner(server, connection, {})
    given: dict[str, Any] | ErrorData | None = None
    try:
        with anyio.CancelScope() as scope:
            given = await answer.run(runner, partial(answer.watch_client, request.receive, scope))
        if given is not None:  # else the client has left
            await answer.send_result(given)
    finally:
        await connection.exit_stack.aclose()  # usually empty; a frontend may have put cleanup there
    return True


def _headers_match(server: Server[Any], call: JSONRPCRequest, request: Request) -> bool:
    """Return whether the headers of a call have the values of its arguments that its tool wants there."""
    params = call.params or {}
    name, args = params.get("name"), params.get("arguments") or {}
    if server.get_tool_input_schema is None or not isinstance(name, str) or not isinstance(args, dict):
        return False
    try:
        schema = server.get_tool_input_schema(name)
    except Exception:  # noqa: BLE001 - frontends may be code of users; the SDK looks again, and reports the problem
        return False
    return schema is None or validate_mcp_param_headers(schema, args, request.headers) is None


def _read_call(request: Request, body: bytes) -> tuple[JSONRPCRequest, InboundModernRoute] | None:
    """Return the `tools/call` of a request, and its client; None for any other or invalid request."""
    kind = request.headers.get("content-type", "")
    is_plain = request.method == "POST" and kind.startswith("application/json")
    if not is_plain or not all(check_accept_headers(request)):
        return None
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request.scope["headers"]
        if name.startswith(b"mcp-")
    ]
    if b"tools/call" not in body or find_duplicated_routing_header(headers) is not None:
        return None
    try:
        payload = from_json(body)
        call = JSONRPCRequest.model_validate(payload)
    except ValueError:
        return None
    route = classify_inbound_request(payload, headers=dict(headers))
    if call.method != "tools/call" or not isinstance(route, InboundModernRoute):
        return None
    return call, route


class _CallResponse:
    """The response to a call: JSON, or a stream of events once there is a message before the result.

    For the server it is the `mcp.shared.dispatcher.DispatchContext` of the call.
    """

    can_send_request = False

    _headers: Headers = []  # noqa: RUF012 - it is replaced, never changed

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
        self, runner: ServerRunner[Any], watch: Callable[[], Coroutine[Any, Any, None]]
    ) -> dict[str, Any] | ErrorData:
        """Return the result of the server, or its error; `watch` runs beside a call that takes longer."""
        loop, watchers = asyncio.get_running_loop(), []
        # A task group for each call would take longer than all else that is done here.
        timer = loop.call_later(_UNWATCHED_SECONDS, lambda: watchers.append(loop.create_task(watch())))
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
        """Send a notification before the result."""
        message = {"jsonrpc": "2.0", "method": method}
        await self._send_event(
            encode_event(message if params is None else {**message, "params": dict(params)})
        )

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client wants any."""
        if self._progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        more = {"total": total, "message": message}
        await self.notify("notifications/progress", params | {k: v for k, v in more.items() if v is not None})

    async def _send_event(self, data: bytes) -> None:
        """Send an event before the result."""
        if not self._is_stream:
            self._is_stream = True
            headers = [*STREAM, *self._headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def watch_client(self, receive: Receive, scope: anyio.CancelScope) -> None:
        """Cancel the call when its client closes the connection; send signs of life meanwhile."""
        while True:
            with anyio.move_on_after(self._patience):
                while (await receive())["type"] != "http.disconnect":
                    pass
                scope.cancel()
                return
            await self._send_event(PING)

    async def send_result(self, given: dict[str, Any] | ErrorData) -> None:
        """Send the result, or the error."""
        if isinstance(given, ErrorData):
            payload = {"error": given.model_dump(mode="json", by_alias=True, exclude_none=True)}
        else:
            payload = {"result": given}
        message = {"jsonrpc": "2.0", "id": self.request_id, **payload}
        if self._is_stream:
            await self._send(
                {"type": "http.response.body", "body": encode_event(message), "more_body": False}
            )
        elif isinstance(given, ErrorData):
            await self._send_error(given, message)
        else:
            body = to_json(message, inf_nan_mode="null")
            await send_bytes(self._send, 200, body, b"application/json", self._headers)

    async def _send_error(self, error: ErrorData, message: dict[str, Any]) -> None:
        await reply(self._send, ERROR_CODE_HTTP_STATUS.get(error.code, 200), message)


class SessionCall(_CallResponse):
    """A request within a session whose client takes no requests; the session can cancel it."""

    def __init__(
        self, call: JSONRPCRequest, request: Request, send: Send, patience: float, headers: Headers
    ) -> None:
        super().__init__(call, request, send, patience)
        self._headers = headers
        self._scope = anyio.CancelScope()
        self._reason = ErrorData(code=REQUEST_CANCELLED, message="the client has closed the connection")

    def cancel(self, reason: ErrorData) -> None:
        """Cancel it, and answer with a reason."""
        self._reason = reason
        self.cancel_requested.set()
        self._scope.cancel()

    async def answer(self, runner: ServerRunner[Any], receive: Receive) -> None:
        """Run it and send the result; it is cancelled when its client closes the connection."""
        given: dict[str, Any] | ErrorData | None = None
        with self._scope:
            given = await self.run(runner, partial(self.watch_client, receive, self._scope))
        await self.send_result(self._reason if given is None else given)

    async def _send_error(self, error: ErrorData, message: dict[str, Any]) -> None:  # noqa: ARG002 - of the other era
        """Send an error as an event: a client that cancelled may not listen for it."""
        headers = [*STREAM, *self._headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": encode_event(message), "more_body": False})

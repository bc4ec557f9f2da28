"""JSON-RPC over one connection: requests, responses and requests of the server."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Self

import anyio
import anyio.lowlevel
from mcp.shared.dispatcher import CallOptions, OnNotify, OnRequest, ProgressFnT, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.methods import parse_server_notification, parse_server_request
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from opentelemetry import context, trace
from pydantic import ValidationError

from toolcrib.concurrency.loop import in_thread
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.outbox import OnAnswer, Outbox
from toolcrib.model.plain import is_large
from toolcrib.redaction import KnownSecrets

TransportStreams = tuple[Any, Any]
"""The streams of a transport: one to read messages from, and one to write them to."""

OnAsked = Callable[[str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]
"""Answers a request of a server: takes the method and its parameters, and returns the result."""

Post = Callable[[dict[str, Any], dict[str, str]], Awaitable[dict[str, Any] | None]]
"""Posts a request with headers, and returns its result; None if it has to be written to the stream."""
_INPUT_METHODS = frozenset({"elicitation/create", "roots/list", "sampling/createMessage"})
_CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
_CANCEL_SECONDS = 5.0
"""Time limit for the notification that a request was cancelled."""


class _PendingRequest:
    """A request of `send_plain` that waits for its answer, on the stream or from its own HTTP reply."""

    __slots__ = ("_resolved", "is_over", "outcome", "posting")

    def __init__(self) -> None:
        self._resolved: anyio.Event | None = None
        self.posting: anyio.CancelScope | None = None
        """The scope of its post: an answer on the event stream, or the end of the connection, cancels it."""
        self.is_over = False
        self.outcome: dict[str, Any] | ErrorData = _CLOSED

    async def wait(self) -> None:
        while not self.is_over:
            self._resolved = anyio.Event()
            await self._resolved.wait()

    def resolve(self, outcome: dict[str, Any] | ErrorData) -> None:
        self.outcome = outcome
        self.end()

    def end(self) -> None:
        self.is_over = True
        if self._resolved is not None:
            self._resolved.set()
        if self.posting is not None:
            self.posting.cancel()


class Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also knows whether the connection has ended, and why.

    Everything that a server sends passes here, and known secrets are hidden in it.

    `send_plain` sends requests by itself: the SDK makes a span, a pair of streams and a timeout for each one,
    and hands its answer from task to task, which takes as long as all the rest of a call.
    """

    def __init__(
        self,
        read: Any,
        write: Any,
        lost: Callable[[], None],
        dropped: DroppedMessages | None = None,
        on_asked: OnAsked | None = None,
        secrets: KnownSecrets | None = None,
    ) -> None:
        self._secrets = KnownSecrets() if secrets is None else secrets
        self._dropped = dropped or DroppedMessages("")
        self._on_asked = on_asked
        others: Any = _UnclaimedMessages(read, self._resolve_request, self._fail_requests, self._dropped.pace)
        super().__init__(others, write, on_stream_exception=self._note_fault)
        self.gone = False
        self.fault: Exception | None = None
        self.revision = LATEST_HANDSHAKE_VERSION
        """Of the protocol, by which notifications are checked."""
        self._lost = lost
        self._outgoing = write
        self._post: Post | None = getattr(write, "post_plain", None)
        self._numbers = count(1)
        self._own_requests: dict[RequestId, _PendingRequest] = {}
        self._is_open = False
        if isinstance(write, Outbox):
            write.on_answer = self._resolve_request

    async def _note_fault(self, fault: Exception) -> None:
        self.fault = fault

    async def run(self, on_request: OnRequest, on_notify: OnNotify, *args: Any, **options: Any) -> None:
        """Pass messages on until the other side is gone."""
        self._is_open = True
        try:
            await super().run(
                self._relay_input_requests(on_request),
                self._drop_bad_notifications(on_notify),
                *args,
                **options,
            )
        finally:
            self.gone = True
            self._fail_requests()
            self._lost()

    def _drop_bad_notifications(self, on_notify: OnNotify) -> OnNotify:
        """Return a handler that drops malformed notifications: the SDK would log a traceback for each."""

        async def checked(found: Any, method: str, params: Mapping[str, Any] | None) -> None:
            try:
                parse_server_notification(method, self.revision, params)
            except KeyError:
                shown = self._secrets.hide(method)
                self._dropped.note("an unknown notification", shown, level=logging.DEBUG)
            except ValidationError:
                self._dropped.note(f"a malformed {method}")
            else:
                await on_notify(found, method, self._secrets.hide_in(params))

        return checked

    def _relay_input_requests(self, on_request: OnRequest) -> OnRequest:
        """Return a handler that relays requests for input as they came, without the SDK's types."""

        async def answered(found: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            if self._on_asked is None or method not in _INPUT_METHODS:
                return await on_request(found, method, params)
            parse_server_request(method, self.revision, params)
            return await self._on_asked(method, self._secrets.hide_in(params))

        return answered

    async def send_plain(
        self, method: str, params: dict[str, Any], headers: dict[str, str]
    ) -> dict[str, Any]:
        """Send a request without progress notifications, and return its result.

        Raises:
            MCPError: the other side refused it, or is gone.
        """
        if not self._is_open or _is_traced():
            return await self.send_raw_request(method, params, {"headers": headers})
        number = next(self._numbers)
        payload = {"params": params} if params else {}
        await anyio.lowlevel.checkpoint_if_cancelled()
        waiting = self._own_requests[number] = _PendingRequest()
        try:
            if self._post is not None:  # where it gives None, the SDK sends the request, or finds its reply
                message = {"jsonrpc": "2.0", "id": number, "method": method, **payload}
                with anyio.CancelScope() as waiting.posting:
                    if (result := await self._post(message, headers)) is not None:
                        waiting.outcome, waiting.is_over = result, True
                waiting.posting = None
            if not waiting.is_over:
                request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **payload)
                await self._outgoing.send(SessionMessage(request, ClientMessageMetadata(headers=headers)))
                await waiting.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            waiting.outcome = _CLOSED
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
                cancelled = {"requestId": number, "reason": "caller cancelled"}
                await self.notify("notifications/cancelled", cancelled)
            raise
        finally:
            self._own_requests.pop(number, None)
        outcome = waiting.outcome
        if isinstance(outcome, ErrorData):
            error = MCPError.from_error_data(outcome)
            raise self._hide_in_error(error) if self._secrets.has_any else error
        return await self._hide_in_result(outcome) if self._secrets.has_any else outcome

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        """Return the result of a request, numbered like those of `send_plain`."""
        numbered: CallOptions = {"request_id": next(self._numbers), **(opts or {})}
        if not self._secrets.has_any:
            return await super().send_raw_request(method, params, numbered, **related)
        if (report := numbered.get("on_progress")) is not None:
            numbered["on_progress"] = self._report_without_secrets(report)
        try:
            result = await super().send_raw_request(method, params, numbered, **related)
        except MCPError as error:
            raise self._hide_in_error(error) from None
        return await self._hide_in_result(result)

    def _report_without_secrets(self, report: ProgressFnT) -> ProgressFnT:
        async def hide_and_report(progress: float, total: float | None, message: str | None) -> None:
            await report(progress, total, message and self._secrets.hide(message))

        return hide_and_report

    async def _hide_in_result(self, result: dict[str, Any]) -> dict[str, Any]:
        hidden: dict[str, Any]
        if is_large(result):
            hidden = await in_thread(self._secrets.hide_in, result)
        else:
            hidden = self._secrets.hide_in(result)
        return hidden

    def _hide_in_error(self, error: MCPError) -> MCPError:
        """Return a copy of an error without secrets; the original must not be its context: logs show that."""
        hidden = MCPError(error.code, self._secrets.hide(error.message), self._secrets.hide_in(error.data))
        hidden.__cause__ = error.__cause__
        return hidden

    def _resolve_request(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Complete the request that a message answers; return False if it is none of `send_plain`."""
        waiting = None if message.id is None else self._own_requests.pop(coerce_request_id(message.id), None)
        if waiting is not None:
            waiting.resolve(message.result if isinstance(message, JSONRPCResponse) else message.error)
        return waiting is not None

    def _fail_requests(self) -> None:
        """Fail all requests that wait: there will be no answer."""
        self._is_open = False
        for waiting in self._own_requests.values():
            waiting.end()
        self._own_requests.clear()


class _UnclaimedMessages:
    """The stream that the SDK reads from, without the answers to requests of `send_plain`."""

    def __init__(
        self, read: Any, resolve: OnAnswer, on_end: Callable[[], None], pace: Callable[[], Awaitable[None]]
    ) -> None:
        self._read, self._resolve, self._on_end, self._pace = read, resolve, on_end, pace

    @property
    def last_context(self) -> Any:
        """The context variables of who sent the last message, where the stream carries them."""
        return getattr(self._read, "last_context", None)

    async def __aenter__(self) -> Self:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._on_end()
        await self._read.__aexit__(*exception)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await self._pace()
            item: SessionMessage | Exception = await self._read.__anext__()
            message = None if isinstance(item, Exception) else item.message
            if not isinstance(message, JSONRPCResponse | JSONRPCError) or not self._resolve(message):
                return item


def _is_traced() -> bool:
    """Return whether the SDK has a span to make for a request, or to pass on to the server."""
    return bool(context.get_current()) or not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )

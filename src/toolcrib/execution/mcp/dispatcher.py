"""JSON-RPC over one connection: requests, responses, and a bounded queue of outgoing messages."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
from mcp.shared.dispatcher import CallOptions, OnNotify, OnRequest, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher, cancelled_request_id_from_params
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.methods import parse_server_notification
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from opentelemetry import context, trace
from pydantic import ValidationError

from toolcrib.execution.mcp.errors import marked
from toolcrib.execution.mcp.lines import DroppedMessages

__all__ = ["Dispatcher", "OnAnswer", "Outbox", "TransportStreams"]

TransportStreams = tuple[Any, Any]
"""What a transport gives: a stream to read messages from, and one to write them to."""

_MAX_BYTES = 64 * 2**20
_SMALL = 4 * 2**10
"""How many bytes a pipe takes whole, or not at all."""

OnAnswer = Callable[[JSONRPCResponse | JSONRPCError], bool]
"""Sees an answer before anybody else; returns whether nobody else needs it."""
_CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
_COURTESY = 5.0
"""Seconds that it may take to tell the other side that nobody wants its answer any more."""


class Outbox:
    """The stream that a session writes to, and what was written but not yet taken from it.

    Writing never waits, so that calls to a server which does not read can be cancelled at once. A request
    that is cancelled while it waits is dropped, and the server hears neither of it nor of its cancellation.
    What is small does not wait where nothing else does: `at_once` writes it, in the task of its sender.
    """

    def __init__(self, at_once: Callable[[bytes], Awaitable[None]], *, max_bytes: int = _MAX_BYTES) -> None:
        self.on_answer: OnAnswer = lambda _: False
        self._at_once = at_once
        self._is_writing = False
        self._max_bytes = max_bytes
        self._waiting: dict[object, bytes] = {}
        """By request id, or by something unique for what is no request."""
        self._current: object = None
        self._taken = 0
        self._size = 0
        self._unanswered: set[object] = set()
        self._stirred = anyio.Event()
        self._closed = False
        self._broken = False

    async def send(self, item: SessionMessage, /) -> None:
        """Put a message behind those that wait.

        Raises:
            MCPError: the message of a request is no JSON, or there is no room for it.
            anyio.ClosedResourceError, anyio.BrokenResourceError: nothing can be written any more.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._broken:
            raise anyio.BrokenResourceError
        if self._closed:
            raise anyio.ClosedResourceError
        message = item.message
        if self._is_idle_talk(message):
            return
        text = _written(message)
        if text is None:
            return
        key: object = coerce_request_id(message.id) if isinstance(message, JSONRPCRequest) else object()
        if len(text) <= _SMALL and self._is_free:
            await self._write(key, text)
        else:
            self._put(key, text)
            await anyio.lowlevel.cancel_shielded_checkpoint()

    @property
    def _is_free(self) -> bool:
        """Return whether nothing waits, or is being written."""
        return not (self._waiting or self._is_writing) and self._current is None

    async def _write(self, key: object, text: bytes) -> None:
        if isinstance(key, int | str):
            self._unanswered.add(key)
        self._is_writing = True
        try:
            await self._at_once(text)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._put(key, text)  # whoever takes it finds out the same, and why
        finally:
            self._is_writing = False

    def _put(self, key: object, text: bytes) -> None:
        if isinstance(key, int | str) and self._size and self._size + len(text) > self._max_bytes:
            reason = f"it does not read its input, and {self._size:,} bytes wait for it already"
            raise MCPError(CONNECTION_CLOSED, reason, marked(sent=False))
        self._waiting[key] = text
        self._size += len(text)
        self._stirred.set()

    def _is_idle_talk(self, message: JSONRPCMessage) -> bool:
        """Return whether a message cancels what the server has not heard of, or has answered."""
        if not isinstance(message, JSONRPCNotification) or message.method != "notifications/cancelled":
            return False
        number = cancelled_request_id_from_params(message.params)
        key = None if number is None else coerce_request_id(number)
        dropped = self._waiting.pop(key, None)
        if dropped is not None:
            self._size -= len(dropped)
            return True
        heard = key == self._current or key in self._unanswered
        self._unanswered.discard(key)
        return not heard

    async def take(self) -> bytes | None:
        """Return the message that has waited longest, when there is one; None if there will be no more.

        With that the one before counts as written.
        """
        await anyio.lowlevel.checkpoint()
        self._size -= self._taken
        if isinstance(self._current, int | str):
            self._unanswered.add(self._current)
        self._current, self._taken = None, 0
        while not self._waiting:
            if self._closed:
                return None
            self._stirred = anyio.Event()
            await self._stirred.wait()
        self._current = next(iter(self._waiting))
        text = self._waiting.pop(self._current)
        self._taken = len(text)
        return text

    def answered(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Note that a request was answered; return whether its sender has the answer already."""
        if message.id is not None:
            self._unanswered.discard(coerce_request_id(message.id))
        return self.on_answer(message)

    @property
    def neglected(self) -> bool:
        """Return whether a message waits for a server that has nothing else to do."""
        return self._size > 0 and not self._unanswered

    def close(self) -> None:
        """Take no more messages; those that wait can still be taken."""
        self._closed = True
        self._stirred.set()

    def break_off(self) -> None:
        """Take no more messages, and drop those that wait."""
        self._broken = True
        self._waiting.clear()
        self._size = self._taken
        self.close()

    async def aclose(self) -> None:
        """Take no more messages, as `close` does."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()


def _written(message: JSONRPCMessage) -> bytes | None:
    """Return a message as a line; None if it cannot be written, and nobody waits for an answer."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError as error:  # arguments that are no JSON: the fault of one call alone
        if not isinstance(message, JSONRPCRequest):
            return None
        raise MCPError(INVALID_PARAMS, f"the arguments are not JSON: {error}") from error


class _Waiting:
    """Somebody who waits for an answer."""

    __slots__ = ("outcome", "reported")

    def __init__(self) -> None:
        self.reported = anyio.Event()
        self.outcome: dict[str, Any] | ErrorData = _CLOSED

    def tell(self, outcome: dict[str, Any] | ErrorData) -> None:
        self.outcome = outcome
        self.reported.set()


class Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also tells when the other side is gone, and why, if the transport knows.

    What `ask` sends is its own: the SDK makes a span, a pair of streams and a clock for each request, and
    passes its answer from task to task, which takes as long as all else that is done for a call.
    """

    def __init__(
        self, read: Any, write: Any, lost: Callable[[], None], dropped: DroppedMessages | None = None
    ) -> None:
        self._dropped = dropped or DroppedMessages("")
        others: Any = _WithoutAnswers(read, self._answered, self._end, self._dropped.pace)
        super().__init__(others, write, on_stream_exception=self._note)
        self.gone = False
        self.fault: Exception | None = None
        self.revision = LATEST_HANDSHAKE_VERSION
        """Of the protocol, by which notifications are checked."""
        self._lost = lost
        self._outgoing = write
        self._numbers = count(1)
        self._asked: dict[RequestId, _Waiting] = {}
        self._is_open = False
        if isinstance(write, Outbox):
            write.on_answer = self._answered

    async def _note(self, fault: Exception) -> None:
        self.fault = fault

    async def run(self, on_request: OnRequest, on_notify: OnNotify, *args: Any, **options: Any) -> None:
        """Pass messages on until the other side is gone."""
        self._is_open = True
        try:
            await super().run(on_request, self._checked(on_notify), *args, **options)
        finally:
            self.gone = True
            self._end()
            self._lost()

    def _checked(self, on_notify: OnNotify) -> OnNotify:
        """Return what passes notifications on, but for the bad ones: the SDK logs a traceback for each."""

        async def checked(found: Any, method: str, params: Mapping[str, Any] | None) -> None:
            try:
                parse_server_notification(method, self.revision, params)
            except KeyError:
                self._dropped.note("an unknown notification", method, level=logging.DEBUG)
            except ValidationError:
                self._dropped.note(f"a malformed {method}")
            else:
                await on_notify(found, method, params)

        return checked

    async def ask(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Return the result of a request of which nobody wants to know the progress.

        Raises:
            MCPError: the other side refused it, or is gone.
        """
        if not self._is_open or _is_traced():
            return await self.send_raw_request(method, params, {"headers": headers})
        number = next(self._numbers)
        payload = {"params": params} if params else {}
        message = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **payload)
        await anyio.lowlevel.checkpoint_if_cancelled()
        waiting = self._asked[number] = _Waiting()
        try:
            await self._outgoing.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))
            await waiting.reported.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            waiting.outcome = _CLOSED
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_COURTESY, shield=True):
                cancelled = {"requestId": number, "reason": "caller cancelled"}
                await self.notify("notifications/cancelled", cancelled)
            raise
        finally:
            self._asked.pop(number, None)
        if isinstance(waiting.outcome, ErrorData):
            raise MCPError.from_error_data(waiting.outcome)
        return waiting.outcome

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        """Return the result of a request, numbered like those of `ask`."""
        numbered: CallOptions = {"request_id": next(self._numbers), **(opts or {})}
        return await super().send_raw_request(method, params, numbered, **related)

    def _answered(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Tell whoever has asked for an answer; return whether somebody had."""
        waiting = None if message.id is None else self._asked.pop(coerce_request_id(message.id), None)
        if waiting is not None:
            waiting.tell(message.result if isinstance(message, JSONRPCResponse) else message.error)
        return waiting is not None

    def _end(self) -> None:
        """Tell all who wait that there will be no answer."""
        self._is_open = False
        for waiting in self._asked.values():
            waiting.reported.set()
        self._asked.clear()


class _WithoutAnswers:
    """The stream that the SDK reads from, without the answers that somebody else has taken."""

    def __init__(
        self, read: Any, taken: OnAnswer, ended: Callable[[], None], pace: Callable[[], Awaitable[None]]
    ) -> None:
        self._read, self._taken, self._ended, self._pace = read, taken, ended, pace

    @property
    def last_context(self) -> Any:
        """The context variables of who sent the last message, where the stream carries them."""
        return getattr(self._read, "last_context", None)

    async def __aenter__(self) -> Self:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._ended()
        await self._read.__aexit__(*exception)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await self._pace()
            item: SessionMessage | Exception = await self._read.__anext__()
            message = None if isinstance(item, Exception) else item.message
            if not isinstance(message, JSONRPCResponse | JSONRPCError) or not self._taken(message):
                return item


def _is_traced() -> bool:
    """Return whether there is a span to make, or one to tell the other side of."""
    return bool(context.get_current()) or not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )

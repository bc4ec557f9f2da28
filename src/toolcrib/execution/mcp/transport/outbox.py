"""A bounded queue of outgoing messages to a server that may not read them."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from toolcrib.execution.mcp.errors import marked

MAX_ANSWERS = 2**20
"""Bytes of responses to a server's own requests that wait to be read; more are dropped."""
_MAX_BYTES = 64 * 2**20
_SMALL = 4 * 2**10
"""Bytes that a pipe writes atomically."""

OnAnswer = Callable[[JSONRPCResponse | JSONRPCError], bool]
"""Receives a response first; returns whether it is complete, so that the SDK need not get it."""


class _Answer:
    """The queue entry of a response to a request of the server."""


class Outbox:
    """The stream that a session writes to, and what was written but not yet taken from it.

    Writing never waits, so that calls to a server which does not read can be cancelled at once. A request
    that is cancelled while it waits is dropped, and the server hears neither of it nor of its cancellation.
    What is small does not wait where nothing else does: `at_once` writes it, in the task of its sender.
    Answers to a server that asks and does not read are `dropped`, since it could ask for ever.
    """

    def __init__(
        self,
        at_once: Callable[[bytes], Awaitable[None]],
        dropped: Callable[[JSONRPCMessage], None],
        *,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self.on_answer: OnAnswer = lambda _: False
        self._at_once = at_once
        self._dropped = dropped
        self._is_writing = False
        self._max_bytes = max_bytes
        self._waiting: dict[object, bytes] = {}
        """By request id, or by something unique for what is no request."""
        self._current: object = None
        self._taken = 0
        self._size = 0
        self._answers = 0
        """How many of the bytes that wait are answers."""
        self._unanswered: set[object] = set()
        self._wake = anyio.Event()
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
        if self._cancels_nothing(message):
            return
        text = _serialize(message)
        if text is None:
            return
        key: object = object()
        if isinstance(message, JSONRPCRequest):
            key = coerce_request_id(message.id)
        elif isinstance(message, JSONRPCResponse | JSONRPCError):
            key = _Answer()
            if self._answers + len(text) > MAX_ANSWERS:
                self._dropped(message)
                return
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
            reason = f"it does not read its input, and {self._size:,} bytes are already waiting for it"
            raise MCPError(CONNECTION_CLOSED, reason, marked(sent=False))
        self._waiting[key] = text
        self._size += len(text)
        self._answers += len(text) if isinstance(key, _Answer) else 0
        self._wake.set()

    def _cancels_nothing(self, message: JSONRPCMessage) -> bool:
        """Return whether a message cancels a request that is unsent, or already answered."""
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
            self._wake = anyio.Event()
            await self._wake.wait()
        self._current = next(iter(self._waiting))
        text = self._waiting.pop(self._current)
        self._taken = len(text)
        self._answers -= len(text) if isinstance(self._current, _Answer) else 0
        return text

    def note_answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """Note that a request was answered."""
        if message.id is not None:
            self._unanswered.discard(coerce_request_id(message.id))

    @property
    def neglected(self) -> bool:
        """Return whether a message waits for a server that has nothing else to do."""
        return self._size > 0 and not self._unanswered

    def close(self) -> None:
        """Take no more messages; those that wait can still be taken."""
        self._closed = True
        self._wake.set()

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


def _serialize(message: JSONRPCMessage) -> bytes | None:
    """Return a message as a line; None if it cannot be written, and has no pending response."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError as error:  # arguments that are no JSON: the fault of one call alone
        if not isinstance(message, JSONRPCRequest):
            return None
        raise MCPError(INVALID_PARAMS, f"the arguments are not JSON: {error}") from error

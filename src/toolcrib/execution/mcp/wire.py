"""The messages of a connection: who waits for which answer, and that the other side is gone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ClientMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from opentelemetry import context, trace

from toolcrib.execution.mcp.outbox import Outbox

__all__ = ["Wire"]

_CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
_COURTESY = 5.0
"""Seconds that it may take to tell the other side that nobody wants its answer any more."""


class _Waiting:
    """Somebody who waits for an answer."""

    __slots__ = ("outcome", "told")

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.outcome: dict[str, Any] | ErrorData = _CLOSED

    def tell(self, outcome: dict[str, Any] | ErrorData) -> None:
        self.outcome = outcome
        self.told.set()


class Wire(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also tells when the other side is gone, and why, if the transport knows.

    What `ask` sends is its own: the SDK makes a span, a pair of streams and a clock for each request, and
    passes its answer from task to task, which takes as long as all else that is done for a call.
    """

    def __init__(self, read: Any, write: Any, lost: Callable[[], None]) -> None:
        super().__init__(read, write, on_stream_exception=self._note)
        self.gone = False
        self.fault: Exception | None = None
        self._lost = lost
        self._asked: dict[RequestId, _Waiting] = {}
        if isinstance(write, Outbox):
            write.on_answer = self._answered

    async def _note(self, fault: Exception) -> None:
        self.fault = fault

    async def run(self, *args: Any, **options: Any) -> None:
        """Pass messages on until the other side is gone."""
        try:
            await super().run(*args, **options)
        finally:
            self.gone = True
            self._lost()

    async def ask(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Return the result of a request of which nobody wants to know the progress.

        Raises:
            MCPError: the other side refused it, or is gone.
        """
        if not self._running or _is_traced():
            return await self.send_raw_request(method, params, {"headers": headers})
        number = self._allocate_id()
        said = {"params": params} if params else {}
        message = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **said)
        await anyio.lowlevel.checkpoint_if_cancelled()
        waiting = self._asked[number] = _Waiting()
        try:
            await self._write(message, ClientMessageMetadata(headers=headers))
            await waiting.told.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            waiting.outcome = _CLOSED
        except anyio.get_cancelled_exc_class():
            cancel = partial(self._cancel_outbound, number, "caller cancelled", None)
            await self._final_write(cancel, shield=True, timeout=_COURTESY, describe=f"cancelling {number}")
            raise
        finally:
            self._asked.pop(number, None)
        if isinstance(waiting.outcome, ErrorData):
            raise MCPError.from_error_data(waiting.outcome)
        return waiting.outcome

    def _answered(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Tell whoever has asked for an answer; return whether somebody had."""
        outcome = message.result if isinstance(message, JSONRPCResponse) else message.error
        return self._told(message.id, outcome)

    def _resolve_pending(self, request_id: RequestId | None, outcome: dict[str, Any] | ErrorData) -> None:
        if not self._told(request_id, outcome):
            super()._resolve_pending(request_id, outcome)

    def _told(self, number: RequestId | None, outcome: dict[str, Any] | ErrorData) -> bool:
        waiting = None if number is None else self._asked.pop(coerce_request_id(number), None)
        if waiting is not None:
            waiting.tell(outcome)
        return waiting is not None

    def _fan_out_closed(self) -> None:
        super()._fan_out_closed()
        for waiting in self._asked.values():
            waiting.told.set()
        self._asked.clear()


def _is_traced() -> bool:
    """Return whether there is a span to make, or one to tell the other side of."""
    return bool(context.get_current()) or not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )

"""Host side of the protocol between a run and its guest.

The host sends one `job`. The guest then sends `call`s, each with a higher number than the last, may `cancel`
each of them once, and ends with one `done` or `error` when no call is pending. The host sends one `answer` to
each call, in any order. Any other message, or one out of order, is a violation that ends the run.

The untrusted code runs in the same interpreter as the program that sends these messages, so it can forge all
of them: every message is checked, and none is trusted. The memory of the host is limited in three places: the
size of a message (`Channel.set_limits`), the sum of pending calls (`_pending_bytes`), and the answers that
the guest does not read (`Channel.unsent_bytes`). The bridge limits the number of calls, and also counts those
that it refuses.

At the end the order matters. `stop` kills the guest as soon as its result is known, before the host waits for
pending calls: otherwise a guest could keep computing for as long as one of its calls takes to end.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from toolcrib.errors import CodeError, LimitExceededError, ToolcribError, ValidationError
from toolcrib.model.plain import measure
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.call_values import MAX_ARGUMENT_CHARACTERS
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.request import Limits
from toolcrib.runtime.sandboxes.process.frames import Channel, FrameError, encode

MAX_PENDING_CALLS = 1024
"""Each pending call is a task of the host; most of them wait for one of the parallel calls of the bridge."""
MAX_CALL_BYTES = MAX_ARGUMENT_CHARACTERS + (64 << 10)
"""Size limit of every message except the last, which carries the value."""
_VALUE_SPARE = 64 << 10
"""Bytes that a value may be too large by, so that its error can name its size."""
_MAX_PATH = 300
_MEMORY_DIVISOR = 2
"""Pending calls may hold half of the guest's memory limit in the host, and unread answers the other half."""
_WRAPPER = len('{"done":}')
_MAX_REASON = 4_000
_MAX_TRACE = 8_000
_LIMIT_TEXTS = {
    "memory_bytes": "the code used more than {:,} bytes",
    "disk_bytes": "the code wrote more than {:,} bytes",
    "pids": "the code started more than {:,} threads",
    "output_bytes": "the value may take {:,} bytes",
}
"""The limits that a guest may report. A forged report is harmless: it only explains a failure."""
# Control characters could move the cursor, or forge lines, in the terminal or log that shows an error.
_CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\n"), ord("\t")})


class GuestGoneError(Exception):
    """The guest ended without a result."""


class Conversation:
    """The exchange of one run with its guest; `stop` kills the guest."""

    def __init__(
        self, channel: Channel, bridge: Bridge, limits: Limits, *, stop: Callable[[], None] = lambda: None
    ) -> None:
        self._channel = channel
        self._bridge = bridge
        self._limits = limits
        self._stop = stop
        self._last = 0
        self._calls: dict[int, anyio.CancelScope] = {}
        self._cancellable: set[int] = set()
        """Calls that were not cancelled yet; a guest may cancel a call whose answer is already on its way."""
        self._pending_bytes = 0
        self._failure: BaseException | None = None

    async def run(self, job: dict[str, Any]) -> Any:
        """Send the job, answer its calls, and return its value.

        Raises:
            CodeError: the code failed.
            LimitExceededError: the guest reports one, or its value is too large.
            SandboxViolationError: it broke the rules.
            GuestGoneError: it ended without a result.
        """
        self._channel.set_limits(self._limits.output_bytes + _VALUE_SPARE, short=MAX_CALL_BYTES)
        try:
            await self._channel.send(encode({"job": job}, 1 << 30))
        except OSError as error:
            raise GuestGoneError from error
        last: tuple[dict[str, Any], int] | None = None
        async with anyio.create_task_group() as tasks:
            try:
                last = await self._listen(tasks)
            except ToolcribError as error:
                self._fail(error)
            except FrameError as error:
                self._fail(self._bridge.violation(str(error)))
            except BaseException:
                self._stop()
                raise
            if self._failure is not None or last is not None:
                self._stop()
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        if last is None:
            raise GuestGoneError
        return self._read_last(*last)

    async def _listen(self, tasks: TaskGroup) -> tuple[dict[str, Any], int] | None:
        """Receive messages until the last one, and return it; None if the guest is gone."""
        while (received := await self._channel.receive()) is not None:
            message, size = received
            if message.keys() == {"call", "path", "args", "kwargs"}:
                self._begin_call(message, size, tasks)
            elif message.keys() == {"cancel"}:
                self._cancel_call(message["cancel"])
            elif message.keys() in ({"done"}, {"error"}):
                self._check_last()
                return received
            else:
                raise self._bridge.violation(f"it sent an unknown message: {sorted(message)[:5]!r:.200}")
            del message, received  # or the last call would stay in memory until the next message
        return None

    def _begin_call(self, message: dict[str, Any], size: int, tasks: TaskGroup) -> None:
        number, path = message["call"], message["path"]
        args, kwargs = message["args"], message["kwargs"]
        # `type(...) is`, because isinstance(True, int) is true
        if type(number) is not int or number <= self._last:
            raise self._bridge.violation(f"it sent a call whose number is not a higher one: {number!r:.50}")
        if type(path) is not str or type(args) is not list or type(kwargs) is not dict:
            raise self._bridge.violation("it sent a malformed call")
        if len(path) > _MAX_PATH:
            raise self._bridge.violation(f"it called something whose name has {len(path):,} characters")
        if len(self._calls) >= MAX_PENDING_CALLS:
            raise self._bridge.violation(f"it had more than {MAX_PENDING_CALLS} pending calls")
        if self._pending_bytes + size > self._limits.memory_bytes // _MEMORY_DIVISOR:
            text = f"its pending calls hold more than {self._limits.memory_bytes // _MEMORY_DIVISOR:,} bytes"
            raise LimitExceededError("memory_bytes", text)
        self._pending_bytes += size
        self._last = number
        self._calls[number] = anyio.CancelScope()
        self._cancellable.add(number)
        tasks.start_soon(self._answer_call, tasks, number, size, message)

    def _cancel_call(self, number: Any) -> None:
        if type(number) is not int or number not in self._cancellable:
            raise self._bridge.violation(f"it cancelled a call that it never made, or twice: {number!r:.50}")
        self._cancellable.discard(number)
        if number in self._calls:  # otherwise the answer has been sent, and the cancellation came too late
            self._calls[number].cancel()

    def _check_last(self) -> None:
        if self._calls:
            raise self._bridge.violation(f"it reported its end with {len(self._calls)} pending calls")
        if self._channel.count_unread_bytes():
            raise self._bridge.violation("it continued after it had reported its end")

    async def _answer_call(self, tasks: TaskGroup, number: int, size: int, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"answer": number, "error": {"kind": "RuntimeError", "message": "cancelled"}}
        try:
            with self._calls[number]:
                value = await self._bridge.call(message["path"], message["args"], message["kwargs"])
                reply = {"answer": number, "value": value}
                del value
        except GuestError as error:
            reply = {"answer": number, "error": {"kind": error.kind, "message": error.message}}
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._fail(error)
            tasks.cancel_scope.cancel()
            return
        message.clear()  # frees the arguments now: the guest may be slow to read the answer
        self._pending_bytes -= size
        frame = self._encode_reply(number, reply)
        if self._channel.unsent_bytes + len(frame) > self._limits.memory_bytes // _MEMORY_DIVISOR:
            self._fail(self._bridge.violation("it did not take the answers to its calls"))
            tasks.cancel_scope.cancel()
            return
        del reply
        with suppress(OSError):  # the guest is gone, which `_listen` notices
            await self._channel.send(frame)
        del self._calls[number]

    def _encode_reply(self, number: int, reply: dict[str, Any]) -> bytes:
        try:
            return encode(reply, self._limits.memory_bytes // _MEMORY_DIVISOR)
        except FrameError as error:
            payload = {"kind": "RuntimeError", "message": f"the result cannot be passed on: {error}"}
            return encode({"answer": number, "error": payload}, self._limits.memory_bytes)

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure

    def _read_last(self, message: dict[str, Any], size: int) -> Any:
        if "error" in message:
            raise _read_reported_error(message["error"], self._limits) or self._bridge.violation(
                "it sent a malformed error"
            )
        if size - _WRAPPER > self._limits.output_bytes:
            raise _limit_error("output_bytes", f"__out is {size - _WRAPPER:,} bytes of JSON", self._limits)
        try:
            measure(message["done"])
        except ValidationError as error:
            raise CodeError(f"__out is not JSON: {error.problems[0]}") from error
        return message["done"]


def _read_reported_error(value: Any, limits: Limits) -> CodeError | LimitExceededError | None:
    """Return the error that a guest reports; None if the report is malformed."""
    if not isinstance(value, dict) or not isinstance(value.get("reason"), str):
        return None
    reason = _clean(value["reason"][:_MAX_REASON])
    if isinstance(value.get("limit"), str) and value["limit"] in _LIMIT_TEXTS:
        return _limit_error(value["limit"], reason, limits)
    trace = value.get("traceback")
    text = _clean(trace[:_MAX_TRACE]) if isinstance(trace, str) else ""
    return CodeError(reason, _read_position(value.get("line")), _read_position(value.get("column")), text)


def _limit_error(name: str, reason: str, limits: Limits) -> LimitExceededError:
    """Return the error for a limit that a guest reports: the limit, and the reason of the guest."""
    return LimitExceededError(name, f"{_LIMIT_TEXTS[name].format(getattr(limits, name))} ({reason})")


def _clean(text: str) -> str:
    r"""Return a text without control characters and lone surrogates.

    >>> _clean("a\ud800\x1b[31m\tb")
    'a?[31m\tb'
    """
    return text.encode("utf-8", "replace").decode().translate(_CONTROLS)


def _read_position(number: Any) -> int | None:
    return number if type(number) is int and 0 < number < 1 << 31 else None

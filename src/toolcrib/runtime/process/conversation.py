"""The host's side of a run: which messages a guest may send, and when; everything else ends it.

A guest sends `call`s, each with a higher number than the one before, may `cancel` those that are under way,
and says `done` or `error` once, when none is. Its code runs in the same interpreter as the program that
speaks, so that it can say anything: nothing that it says is believed, only checked.
"""

from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from toolcrib.errors import CodeError, LimitExceededError, ToolcribError, ValidationError
from toolcrib.model.plain import measure
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.process.frames import Channel, FrameError, encode
from toolcrib.runtime.records import Limits
from toolcrib.runtime.telling import ToldError

__all__ = ["MAX_IN_FLIGHT", "Conversation", "GuestGoneError", "frame_bytes"]

MAX_IN_FLIGHT = 1024
"""How many calls a guest may have under way, most of them waiting their turn."""
_ARGUMENTS = 4 << 20
_UNREAD = 2
"""Which part of its memory the answers may take that a guest has not read."""
_WRAPPER = len('{"done":}')
_TEXT, _TRACE = 4_000, 8_000
_GUEST_LIMITS = {"memory_bytes", "disk_bytes", "pids", "output_bytes"}
"""The limits that a guest says it has run into: its word is taken, because it only says how it failed."""


class GuestGoneError(Exception):
    """The guest ended without saying how its code did."""


def frame_bytes(limits: Limits) -> int:
    """Return how large one message of a guest may be."""
    return _ARGUMENTS + limits.output_bytes


class Conversation:
    """One run's exchange with its guest."""

    def __init__(self, channel: Channel, bridge: Bridge, limits: Limits) -> None:
        self._channel = channel
        self._bridge = bridge
        self._limits = limits
        self._last = 0
        self._calls: dict[int, anyio.CancelScope] = {}
        self._failure: BaseException | None = None

    async def run(self, job: dict[str, Any]) -> Any:
        """Send the job, answer its calls, and return its value.

        Raises:
            CodeError: the code failed.
            LimitExceededError: it says that it has run into one, or its value is too large.
            SandboxViolationError: it broke the rules.
            GuestGoneError: it ended without an answer.
        """
        self._channel.allow(frame_bytes(self._limits))
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
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        if last is None:
            raise GuestGoneError
        return self._concluded(*last)

    async def _listen(self, tasks: TaskGroup) -> tuple[dict[str, Any], int] | None:
        """Take messages until the last one, and return it; None where the guest is gone."""
        while (received := await self._channel.receive()) is not None:
            message = received[0]
            if message.keys() == {"call", "path", "args", "kwargs"}:
                self._begin(message, tasks)
            elif message.keys() == {"cancel"}:
                self._cancel(message["cancel"])
            elif message.keys() in ({"done"}, {"error"}):
                self._check_last()
                return received
            else:
                raise self._bridge.violation(f"it sent a message that is none: {sorted(message)[:5]!r:.200}")
        return None

    def _begin(self, message: dict[str, Any], tasks: TaskGroup) -> None:
        number, path = message["call"], message["path"]
        args, kwargs = message["args"], message["kwargs"]
        if type(number) is not int or number <= self._last:
            raise self._bridge.violation(f"it sent a call whose number is not a higher one: {number!r:.50}")
        if type(path) is not str or type(args) is not list or type(kwargs) is not dict:
            raise self._bridge.violation("it sent a call that is none")
        if len(self._calls) >= MAX_IN_FLIGHT:
            raise self._bridge.violation(f"it had more than {MAX_IN_FLIGHT} calls under way")
        self._last = number
        self._calls[number] = anyio.CancelScope()
        tasks.start_soon(self._answer, tasks, number, path, args, kwargs)

    def _cancel(self, number: Any) -> None:
        if type(number) is not int or not 0 < number <= self._last:
            raise self._bridge.violation(f"it cancelled a call that it never made: {number!r:.50}")
        if number in self._calls:  # else its answer is on the way
            self._calls[number].cancel()

    def _check_last(self) -> None:
        if self._calls:
            raise self._bridge.violation(f"it said that it was done with {len(self._calls)} calls under way")
        if self._channel.rest():
            raise self._bridge.violation("it went on after it had said that it was done")

    async def _answer(
        self, tasks: TaskGroup, number: int, path: str, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        reply: dict[str, Any] = {"answer": number, "error": {"kind": "RuntimeError", "message": "cancelled"}}
        try:
            with self._calls[number]:
                reply = {"answer": number, "value": await self._bridge.call(path, args, kwargs)}
        except ToldError as told:
            reply = {"answer": number, "error": {"kind": told.kind, "message": told.message}}
        except Exception as error:  # noqa: BLE001 - it is raised where the run is
            self._fail(error)
            tasks.cancel_scope.cancel()
            return
        frame = self._frame(number, reply)
        if self._channel.waiting + len(frame) > self._limits.memory_bytes // _UNREAD:
            self._fail(self._bridge.violation("it did not take the answers to its calls"))
            tasks.cancel_scope.cancel()
            return
        del reply
        with suppress(OSError):  # the guest is gone, which whoever listens notices
            await self._channel.send(frame)
        del self._calls[number]

    def _frame(self, number: int, reply: dict[str, Any]) -> bytes:
        try:
            return encode(reply, self._limits.memory_bytes // _UNREAD)
        except FrameError as error:
            said = {"kind": "RuntimeError", "message": f"the result cannot be passed on: {error}"}
            return encode({"answer": number, "error": said}, self._limits.memory_bytes)

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure

    def _concluded(self, message: dict[str, Any], size: int) -> Any:
        if "error" in message:
            raise _told_error(message["error"]) or self._bridge.violation("it sent an error that is none")
        if size - _WRAPPER > self._limits.output_bytes:
            raise LimitExceededError("output_bytes", f"__out is {size - _WRAPPER:,} bytes of JSON")
        try:
            measure(message["done"])
        except ValidationError as error:
            raise CodeError(f"__out is not JSON: {error.problems[0]}") from error
        return message["done"]


def _told_error(told: Any) -> CodeError | LimitExceededError | None:
    """Return the failure that a guest tells of; None where it is none."""
    if not isinstance(told, dict) or not isinstance(told.get("reason"), str):
        return None
    reason = told["reason"][:_TEXT]
    if isinstance(told.get("limit"), str) and told["limit"] in _GUEST_LIMITS:
        return LimitExceededError(told["limit"], reason)
    trace = told.get("traceback")
    text = trace[:_TRACE] if isinstance(trace, str) else ""
    return CodeError(reason, _place(told.get("line")), _place(told.get("column")), text)


def _place(number: Any) -> int | None:
    return number if type(number) is int and 0 < number < 1 << 31 else None

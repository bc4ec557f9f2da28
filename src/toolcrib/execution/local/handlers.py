"""Tools that are Python functions in this process."""

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.from_thread
import anyio.to_thread
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.errors import (
    NoBackendError,
    ToolCancelledError,
    ToolcribError,
    ToolExecutionError,
    ValidationError,
)
from toolcrib.execution.background import is_being_cancelled
from toolcrib.execution.local.context import RunningCall
from toolcrib.execution.local.handler import Handler
from toolcrib.execution.records import Answer, Call, Update
from toolcrib.execution.scrub import said_by
from toolcrib.model.backend import LocalBackend, ToolBackend
from toolcrib.model.local import LocalTool
from toolcrib.model.plain import measure
from toolcrib.model.suggest import did_you_mean

__all__ = ["LocalHandlers"]

_SCALARS = {str, int, bool, type(None)}


class LocalHandlers:
    """The handlers of local backends by name: functions run in worker threads, coroutines in the loop.

    A generator is a stream: what it yields are chunks, and its value is what it returns, or the list of them.
    A thread cannot be stopped: a function whose caller has given up runs on, keeps its thread, and finds
    `Context.cancelled` true. There are `max_threads` of them.
    """

    def __init__(
        self,
        handlers: Mapping[str, Callable[..., Any]] | Iterable[LocalTool[..., Any]] = (),
        *,
        max_threads: int = 40,
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        self._threads = anyio.CapacityLimiter(max_threads)
        named = handlers.items() if isinstance(handlers, Mapping) else ((str(t.tool.id), t) for t in handlers)
        for name, handler in named:
            self.add(name, handler)

    def add(self, name: str, handler: Callable[..., Any]) -> None:
        """Let a function run what is bound to `LocalBackend(name=name)`, or to the tool's id."""
        made = Handler.of(handler)
        self._handlers[name] = made
        if isinstance(handler, LocalTool):
            self._handlers.setdefault(str(handler.tool.id), made)

    def remove(self, name: str) -> None:
        """Forget a function; one that runs goes on."""
        self._handlers.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._handlers

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run here: no function of its name is known."""
        name = _name(backend)
        if name in self._handlers:
            return None
        return f"no local handler is named {name!r}{did_you_mean(name, self._handlers)}"

    async def call(self, call: Call) -> Answer:
        """Run the function and return its value as JSON."""
        handler = self._handlers.get(_name(call.backend))
        if handler is None:
            raise NoBackendError(tool_id=call.tool_id, reason=self.missing(call.backend) or "")
        in_thread = handler.kind in {"function", "generator"}
        running = RunningCall(call, in_thread=in_thread)
        positional, named = handler.arguments(call.tool, call.args, running)
        ended = False
        try:
            if in_thread:
                value = await self._in_thread(call, handler, running, (positional, named))
                if inspect.isawaitable(value):  # a function that hands on the coroutine of another
                    value = await _awaited(call, value)
            else:
                value = await _in_loop(call, handler, running, (positional, named))
            ended = True
        finally:
            running.end(cancelled=not ended)
        return Answer(structured=_as_json(call, value))

    async def _in_thread(
        self, call: Call, handler: Handler, running: RunningCall, arguments: tuple[list[Any], dict[str, Any]]
    ) -> Any:
        slot = _Slot(self._threads)
        await self._threads.acquire_on_behalf_of(slot)

        def work() -> _Ended:
            try:
                return _Ended(value=_called(call, handler, running, arguments))
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited; futures refuse some
                return _Ended(error=error)
            finally:
                slot.thread_ended()

        try:
            ended = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_unlimited())
        finally:
            slot.caller_left()
        if ended.error is None:
            return ended.value
        raise _typed(call, ended.error) from ended.error


def _unlimited() -> anyio.CapacityLimiter:
    """Return a limiter for one call: the slot, which outlives an abandoned call, is what limits."""
    return anyio.CapacityLimiter(1)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a function in a thread ended."""

    value: Any = None
    error: BaseException | None = None


class _Slot:
    """One thread's place, free again when the thread has ended and its caller has left."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._lock = threading.Lock()
        self._first_is_gone = False

    def _is_last(self) -> bool:
        with self._lock:
            last, self._first_is_gone = self._first_is_gone, True
        return last

    def thread_ended(self) -> None:
        if self._is_last():
            anyio.from_thread.run_sync(self._limiter.release_on_behalf_of, self)

    def caller_left(self) -> None:
        if self._is_last():
            self._limiter.release_on_behalf_of(self)


def _called(
    call: Call, handler: Handler, running: RunningCall, arguments: tuple[list[Any], dict[str, Any]]
) -> Any:
    """Call a plain function, or run a generator to its end, in a thread."""
    positional, named = arguments
    value = handler.function(*positional, **named)
    if handler.kind == "function":
        return value
    chunks: list[Any] = []
    try:
        while not running.cancelled:
            chunk = _as_json(call, next(value))
            chunks.append(chunk)
            running.tell(Update(kind="chunk", data=chunk))
    except StopIteration as stop:
        return chunks if stop.value is None else stop.value
    finally:
        value.close()
    return chunks


async def _in_loop(
    call: Call, handler: Handler, running: RunningCall, arguments: tuple[list[Any], dict[str, Any]]
) -> Any:
    """Await a coroutine, or run an asynchronous generator to its end."""
    positional, named = arguments
    if handler.kind == "coroutine":
        return await _awaited(call, handler.function(*positional, **named))
    return await _awaited(call, _collected(call, handler.function(*positional, **named), running))


async def _awaited(call: Call, value: Awaitable[Any]) -> Any:
    """Return what a handler's coroutine gives, or raise what the caller is to get for what it raises."""
    try:
        return await value
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        raise ToolCancelledError(tool_id=call.tool_id, reason="what it waited for was cancelled") from error
    except (Exception, SystemExit) as error:
        raise _typed(call, error) from error


async def _collected(call: Call, generator: Any, running: RunningCall) -> list[Any]:
    chunks: list[Any] = []
    try:
        async for item in generator:
            chunk = _as_json(call, item)
            chunks.append(chunk)
            await running.tell(Update(kind="chunk", data=chunk))
    finally:
        with anyio.CancelScope(shield=True):
            await generator.aclose()
    return chunks


def _typed(call: Call, error: BaseException) -> BaseException:
    """Return the error that the caller gets for what a handler raised."""
    if isinstance(error, ToolcribError | KeyboardInterrupt | GeneratorExit):
        return error
    return ToolExecutionError(tool_id=call.tool_id, reason=said_by(error, call.args))


def _as_json(call: Call, value: Any) -> Any:
    """Return what a handler gave as JSON."""
    try:
        plain = value if type(value) in _SCALARS else to_jsonable_python(value)
        measure(plain)
    except (PydanticSerializationError, ValidationError, RecursionError) as error:
        reason = f"it returned {type(value).__name__}, which is not JSON: {said_by(error, call.args)}"
        raise ToolExecutionError(tool_id=call.tool_id, reason=reason) from error
    return plain


def _name(backend: ToolBackend) -> str:
    return backend.name if isinstance(backend, LocalBackend) else backend.kind

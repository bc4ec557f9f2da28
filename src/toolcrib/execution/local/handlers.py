"""Tools that are Python functions in this process."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, get_args

import anyio
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.concurrency.background import Loop, is_being_cancelled, result_of, yield_to_cancellation
from toolcrib.concurrency.loop import in_thread
from toolcrib.concurrency.threads import Threads
from toolcrib.errors import (
    NoBackendError,
    ToolCancelledError,
    ToolcribError,
    ToolExecutionError,
    ValidationError,
)
from toolcrib.errors.base import either
from toolcrib.execution.call import NESTED_APPROVAL, Answer, Call, Emit, Update
from toolcrib.execution.local.handler import Handler
from toolcrib.model.backend import LocalBackend, ToolBackend
from toolcrib.model.local import Context, LocalTool, LogLevel
from toolcrib.model.plain import MAX_CHARS, MAX_NODES, copy_json, is_large, measure
from toolcrib.model.suggest import did_you_mean
from toolcrib.redaction import error_text, scrub

_LEVELS: tuple[str, ...] = get_args(LogLevel)
_CLEANING_TIME = 5.0
"""How long a generator may take to clean up after it was left."""
_SCALARS = {str, int, bool, type(None)}


class _Told:
    """An awaitable that has happened already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class RunningCall(Context):
    """The context of one call; what it reports after the call has ended goes nowhere."""

    def __init__(self, call: Call) -> None:
        self.tool_id = call.tool_id
        self.caller = None if call.principal is None else str(call.principal)
        self.nested = call.context.nested()
        """The context for handlers that make calls of their own."""
        self._emit: Emit | None = call.emit
        self._loop = None if call.emit is None else Loop()
        self._cancelled = False
        self._telling: Future[None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._cancelled

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens."""
        return self._emit is not None

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell how far the work has come.

        Raises:
            TypeError: it is no number.
        """
        for number in (progress, total):
            if number is not None and not isinstance(number, int | float):
                raise TypeError(f"progress must be a number, not {number!r}")
        payload = {"progress": progress, "total": total, "message": message}
        return self.tell(
            Update(kind="progress", data={key: value for key, value in payload.items() if value is not None})
        )

    def log(self, message: str, level: LogLevel = "info") -> Awaitable[None]:
        """Tell something to whoever watches the call.

        Raises:
            ValueError: there is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(
                f"there is no level {level!r}; write log(message, level), with {either(_LEVELS)}"
            )
        return self.tell(Update(kind="progress", data={"message": message, "level": level}))

    def tell(self, update: Update) -> Awaitable[None]:
        """Pass an update on: from a thread at once, from a coroutine when it is awaited."""
        if self._emit is None or self._loop is None:
            return _Told()
        if self._loop.is_here:
            return self._pass_on(update)
        future = self._telling = self._loop.start(lambda: self._pass_on(update))
        if future is not None:
            if self._emit is None:  # the call ended before there was anything to cancel
                future.cancel()
            self._loop.wait_for(future)
        return _Told()

    async def _pass_on(self, update: Update) -> None:
        emit = self._emit  # asked in the loop, where the call ends too
        if emit is not None:
            await emit(update)

    def end(self, *, cancelled: bool) -> None:
        """Let nothing more through."""
        self._cancelled = self._cancelled or cancelled
        self._emit = None
        if self._telling is not None:
            self._telling.cancel()


def _is_same(function: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether two callables are one; a bound method is another object each time it is asked for."""
    return function is other or (inspect.isroutine(function) and function == other)


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
        self._threads = Threads(max_threads)
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

    def names_of(self, function: Callable[..., Any]) -> tuple[str, ...]:
        """Return the names under which a function was added, itself or as a tool made of it."""
        if isinstance(function, LocalTool):
            own, function = str(function.tool.id), function.function
            if own in self._handlers and _is_same(self._handlers[own].function, function):
                return (own,)
        handlers = self._handlers.items()
        return tuple(name for name, handler in handlers if _is_same(handler.function, function))

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
        running = RunningCall(call)
        if is_large(call.args):
            arguments = await in_thread(handler.arguments, call.tool, call.args, running)
        else:
            arguments = handler.arguments(call.tool, call.args, running)
        task = _Task(call, handler, running, *arguments)
        ended, token = False, NESTED_APPROVAL.set(running.nested.approval)
        try:
            value = await self._run(task)
            ended = True
        finally:
            NESTED_APPROVAL.reset(token)
            running.end(cancelled=not ended)
        return Answer(structured=value)

    async def _run(self, task: "_Task") -> Any:
        if task.handler.in_loop:
            value = await _awaited(task.call, task.start)
        else:
            value = await self._in_thread(task.in_thread, task.call)
            if not isinstance(value, _Unfinished):
                return value
            unfinished = value.value
            value = await _awaited(task.call, lambda: unfinished)
        if inspect.isasyncgen(value):
            return await _awaited(task.call, lambda: task.collect(value))
        if isinstance(value, Iterator):
            return await self._in_thread(lambda: task.drain(value), task.call)
        if is_large(value):
            return await in_thread(as_json, task.call, value, task.handler)
        return as_json(task.call, value, task.handler)

    async def _in_thread(self, function: Callable[[], Any], call: Call) -> Any:
        def run() -> _Ended:
            try:
                return _Ended(value=function())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited; futures refuse some
                return _Ended(error=error)

        context = copy_context()
        ended = await result_of(self._threads.submit(lambda: context.run(run)))
        if ended.error is None:
            return ended.value
        raise _typed(call, ended.error) from ended.error


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a function in a thread ended."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """What a function gave that is the event loop's to finish: the coroutine or the generator of another."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Task:
    """One call of one handler."""

    call: Call
    handler: Handler
    running: RunningCall
    positional: list[Any]
    named: dict[str, Any]

    def start(self) -> Any:
        """Call the function; one for the loop gives a coroutine, or an asynchronous generator."""
        return self.handler.function(*self.positional, **self.named)

    def in_thread(self) -> Any:
        """Call a function, and finish what it gives: a value, or a generator."""
        value = self.start()
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            return _Unfinished(value)
        if isinstance(value, Iterator):
            return self.drain(value)
        return as_json(self.call, value, self.handler)

    def drain(self, items: Iterator[Any]) -> Any:
        """Run a generator to its end, in a thread."""
        chunks = Chunks(self.call, heard=self.running.is_heard)
        try:
            while not self.running.cancelled:
                chunk = chunks.add(next(items))
                self.running.tell(Update(kind="chunk", data=copy_json(chunk)))
        except StopIteration as stop:
            return chunks.value if stop.value is None else as_json(self.call, stop.value)
        finally:
            if inspect.isgenerator(items):
                items.close()
        return None

    async def collect(self, items: AsyncGenerator[Any, Any]) -> Any:
        """Run an asynchronous generator to its end."""
        chunks = Chunks(self.call, heard=self.running.is_heard)
        try:
            async for item in items:
                chunk = chunks.add(item)
                await self.running.tell(Update(kind="chunk", data=copy_json(chunk)))
        finally:
            with anyio.move_on_after(_CLEANING_TIME, shield=True):
                await items.aclose()
        return chunks.value


async def _awaited(call: Call, start: Callable[[], Any]) -> Any:
    """Return what comes of a handler in the loop, or raise what the caller is to get for what it raises."""
    try:
        value = start()
        return await value if inspect.isawaitable(value) else value
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        raise ToolCancelledError(tool_id=call.tool_id, reason="what it waited for was cancelled") from error
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        await yield_to_cancellation()
        raise _typed(call, error) from error


def _typed(call: Call, error: BaseException) -> BaseException:
    """Return the error that the caller gets for what a handler raised.

    Errors of our own tree are about something else that the handler tried, except the one with which it says
    no itself.
    """
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    if isinstance(error, ToolExecutionError):
        text = scrub(error.reason, call.args)
        return ToolExecutionError(tool_id=call.tool_id, reason=text, result=error.result)
    reason = (
        scrub(str(error), call.args) if isinstance(error, ToolcribError) else error_text(error, call.args)
    )
    return ToolExecutionError(tool_id=call.tool_id, reason=reason)


def _name(backend: ToolBackend) -> str:
    return backend.name if isinstance(backend, LocalBackend) else backend.kind


def as_json(call: Call, value: Any, handler: Handler | None = None) -> Any:
    """Return what a handler gave as JSON of its own, written as its return type says.

    Raises:
        ToolExecutionError: it is not JSON, nor anything that can be written as such.
    """
    try:
        if handler is not None and handler.typed is not None:
            plain = handler.typed.write_result(value)
        else:
            plain = value if type(value) in _SCALARS else to_jsonable_python(value)
        measure(plain)
    except (PydanticSerializationError, ValidationError, RecursionError) as error:
        reason = f"it returned {type(value).__name__}, which is not JSON: {error_text(error, call.args)}"
        raise ToolExecutionError(tool_id=call.tool_id, reason=reason) from error
    return plain


class Chunks:
    """What a stream has given so far.

    A value has a limit, and a stream has none: where somebody listens and no output schema wants to see the
    whole, one that grows beyond the limit is not kept, and its value is None.
    """

    def __init__(self, call: Call, *, heard: bool) -> None:
        self._call = call
        self._may_drop = heard and call.tool.shared("output_schema") is None
        self._kept: list[Any] | None = []
        self._nodes = self._chars = 0

    @property
    def value(self) -> list[Any] | None:
        """All of them together."""
        return self._kept

    def add(self, item: Any) -> Any:
        """Keep an item, and return it as JSON.

        Raises:
            ToolExecutionError: it is not JSON, or all of them together are too much.
        """
        chunk = as_json(self._call, item)
        if self._kept is not None:
            nodes, _, chars, _ = measure(chunk)
            self._nodes, self._chars = self._nodes + nodes, self._chars + chars
            if self._nodes < MAX_NODES and self._chars < MAX_CHARS:
                self._kept.append(chunk)
            elif self._may_drop:
                self._kept = None
            else:
                reason = f"it gave more than a value may hold, {MAX_NODES:,} values; read it as a stream"
                raise ToolExecutionError(tool_id=self._call.tool_id, reason=reason)
        return chunk

"""Backends that are Python functions of this process: sync, async, and generators.

A coroutine function runs in the event loop. Any other function runs in a thread of its own pool, since it may
block, together with the conversion of its result. What a function returns decides how it goes on: a function
in a thread may return a coroutine, which the loop has to await, and a coroutine may return a generator, which
a thread has to run. So each side ends with a value, or with an object that the other side must run.

Any exception of the function is the failure of the tool, and becomes a `ToolExecutionError`. Only
cancellations differ: that of the caller propagates, and that of something the function awaited becomes a
`ToolCancelledError`.
"""

import inspect
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import anyio
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.concurrency.background import Loop, await_future, is_being_cancelled, yield_to_cancellation
from toolcrib.concurrency.loop import in_thread
from toolcrib.concurrency.threads import Threads
from toolcrib.errors import (
    InvalidBackendError,
    NoBackendError,
    ToolCancelledError,
    ToolcribError,
    ToolExecutionError,
    ValidationError,
)
from toolcrib.errors.base import join_options
from toolcrib.execution.call import NESTED_APPROVAL, Answer, Call, CallContext, Update
from toolcrib.model.backend import LocalBackend, ToolBackend
from toolcrib.model.context import Context, LogLevel, is_context
from toolcrib.model.decorator import LocalTool
from toolcrib.model.plain import MAX_CHARS, MAX_NODES, copy_json, is_large, measure
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text, scrub

_LEVELS: tuple[str, ...] = get_args(LogLevel)
_CLEANUP_TIMEOUT = 5.0
"""Seconds that an asynchronous generator has for its cleanup after a cancellation."""
_SCALARS = {str, int, bool, type(None)}
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class LocalHandlers:
    """The handlers of local backends by name: functions run in worker threads, coroutines in the loop.

    A generator is a stream: its yielded values are chunks, and its value is its return value or the list of
    chunks. Threads cannot be stopped: a function whose caller was cancelled runs on in its thread, and sees
    `Context.cancelled`. There are at most `max_threads` threads.
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
        """Add the function for tools bound to `LocalBackend(name=name)`, or to the tool's id."""
        made = Handler.of(handler)
        self._handlers[name] = made
        if isinstance(handler, LocalTool):
            self._handlers.setdefault(str(handler.tool.id), made)

    def remove(self, name: str) -> None:
        """Remove a function; its running calls continue."""
        self._handlers.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._handlers

    def names_of(self, function: Callable[..., Any]) -> tuple[str, ...]:
        """Return the names under which a function was added, by itself or as a tool."""
        if isinstance(function, LocalTool):
            own, function = str(function.tool.id), function.function
            if own in self._handlers and _is_same(self._handlers[own].function, function):
                return (own,)
        handlers = self._handlers.items()
        return tuple(name for name, handler in handlers if _is_same(handler.function, function))

    def missing(self, backend: ToolBackend) -> str | None:
        """Return the reason why a backend cannot run here; None if it can."""
        name = backend.name if isinstance(backend, LocalBackend) else backend.kind
        if name in self._handlers:
            return None
        return f"no local handler is named {name!r}{did_you_mean(name, self._handlers)}"

    async def call(self, call: Call) -> Answer:
        """Run the function and return its value as JSON."""
        name = call.backend.name if isinstance(call.backend, LocalBackend) else call.backend.kind
        handler = self._handlers.get(name)
        if handler is None:
            raise NoBackendError(tool_id=call.tool_id, reason=self.missing(call.backend) or "")
        context = RunningCall(call, None if call.emit is None else Loop())
        if is_large(call.args):
            arguments = await in_thread(handler.read_arguments, call.tool, call.args, context)
        else:
            arguments = handler.read_arguments(call.tool, call.args, context)
        run = _HandlerRun(call, handler, context, *arguments)
        ended, token = False, NESTED_APPROVAL.set(call.context.nested().approval)
        try:
            if handler.in_loop:
                value = await self._finish(run, await run.run_in_loop(run.start))
            else:
                value = await self._run_in_thread(run.run_in_thread)
                if isinstance(value, _Unfinished):
                    rest = value.value
                    value = await self._finish(run, await run.run_in_loop(lambda: rest))
            ended = True
        finally:
            NESTED_APPROVAL.reset(token)
            context.end(cancelled=not ended)
        return Answer(structured=value)

    async def _run_in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the context variables of the caller."""
        return await await_future(self._threads.submit(partial(copy_context().run, function)))

    async def _finish(self, run: "_HandlerRun", value: Any) -> Any:
        """Return the value of a handler in the loop as JSON; run it if it is a generator."""
        if inspect.isasyncgen(value):
            return await run.run_in_loop(lambda: run.collect(value))
        if isinstance(value, Iterator):
            return await self._run_in_thread(lambda: run.drain_in_thread(value))
        if is_large(value):
            return await in_thread(to_json_value, run.call, value, run.handler)
        return to_json_value(run.call, value, run.handler)


def _is_same(function: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether two callables are the same; each access to a bound method makes a new object."""
    return function is other or (inspect.isroutine(function) and function == other)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, the thread or loop where it runs, and its way to take arguments."""

    function: Callable[..., Any]
    in_loop: bool
    """Whether it runs in the event loop: calling it only makes a coroutine or an asynchronous generator."""
    context: str | None
    """The parameter for the running call."""
    whole: str | None
    """The single parameter that may take all arguments as one object."""
    typed: LocalTool[..., Any] | None
    """The tool that converts arguments to the types of its function."""

    @classmethod
    def of(cls, function: Any) -> "Handler":
        """Return the handler for a function.

        Raises:
            InvalidBackendError: it cannot be called.
        """
        if isinstance(function, LocalTool):
            body = function.function
            return cls(body, _runs_in_loop(body), function.context, None, function)
        if not callable(function):
            raise InvalidBackendError(f"a handler must be a function, not {type(function).__name__}")
        context, whole = _find_special_parameters(function)
        return cls(function, _runs_in_loop(function), context, whole, None)

    def read_arguments(
        self, tool: Tool, args: Mapping[str, Any], running: Context
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the named arguments to call the function with.

        A plain function with a single parameter, which is neither a property of the tool nor among the
        arguments, takes all of them in it.
        """
        if self.typed is not None:
            named = self.typed.read_arguments(args)
        elif self.whole is not None and not self._is_named(tool, args):
            return [copy_json(args)], ({} if self.context is None else {self.context: running})
        else:
            named = copy_json(args)
        if self.context is not None:
            named[self.context] = running
        return [], named

    def _is_named(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        return self.whole in args or self.whole in tool.shared("input_schema").get("properties", ())


def _runs_in_loop(function: Callable[..., Any]) -> bool:
    body: Any = function
    while isinstance(body, partial | LocalTool):
        body = body.func if isinstance(body, partial) else body.function
    if not inspect.isroutine(body) and not inspect.isclass(body):
        body = type(body).__call__
    return inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)


def _find_special_parameters(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """Return the parameters for the running call, and for all arguments together."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin without a signature
        return None, None
    hints = _read_hints(function)
    context = next((name for name in signature.parameters if is_context(hints.get(name))), None)
    others = [parameter for name, parameter in signature.parameters.items() if name != context]
    if len(others) != 1 or others[0].kind not in {*_NAMED_KINDS, inspect.Parameter.POSITIONAL_ONLY}:
        return context, None
    return context, others[0].name


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function.func if isinstance(function, partial) else function
    if not inspect.isroutine(target):
        target = target.__init__ if inspect.isclass(target) else type(target).__call__
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001 - annotations in quotes are code, and may raise anything
        # Usually names that are imported only for type checkers: use the annotations without evaluating them.
        return dict(getattr(target, "__annotations__", {}))


class _NothingToAwait:
    """An awaitable that is done: in a thread `await ctx.progress()` works too, and has sent its report."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


@dataclass(slots=True)
class RunningCall(Context):
    """The context of one call; reports after the end of the call are dropped."""

    _call: Call
    _loop: Loop | None
    """The loop in which the listener of the call runs; None without a listener."""
    _is_running: bool = True
    _cancelled: bool = False
    _reporting: "Future[None] | None" = None
    """The report that a thread waits for."""

    @property
    def tool_id(self) -> str:
        """The id of the tool."""
        return self._call.tool_id

    @property
    def caller(self) -> str | None:
        """The caller; None if unknown."""
        principal = self._call.principal
        return None if principal is None else str(principal)

    @property
    def nested(self) -> CallContext:
        """The context for calls that the handler makes itself."""
        return self._call.context.nested()

    @property
    def cancelled(self) -> bool:
        """Whether the caller was cancelled."""
        return self._cancelled

    @property
    def has_listener(self) -> bool:
        """Whether the caller receives updates."""
        return self._is_running and self._call.emit is not None

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report how far the work has come.

        Raises:
            TypeError: it is no number.
        """
        for number in (progress, total):
            if number is not None and not isinstance(number, int | float):
                raise TypeError(f"progress must be a number, not {number!r}")
        payload = {"progress": progress, "total": total, "message": message}
        return self.report(
            Update(kind="progress", data={key: value for key, value in payload.items() if value is not None})
        )

    def log(self, message: str, level: LogLevel = "info") -> Awaitable[None]:
        """Send a log message to the caller.

        Raises:
            ValueError: there is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(
                f"there is no level {level!r}; write log(message, level), with {join_options(_LEVELS)}"
            )
        return self.report(Update(kind="progress", data={"message": message, "level": level}))

    def report(self, update: Update) -> Awaitable[None]:
        """Send an update to the caller: from a thread at once, from a coroutine when it is awaited."""
        if self._loop is None or not self._is_running:
            return _NothingToAwait()
        if self._loop.is_current_thread:
            return self._send(update)
        future = self._reporting = self._loop.start(lambda: self._send(update))
        if future is not None:
            if not self._is_running:  # the call ended before there was anything to cancel
                future.cancel()
            self._loop.wait_for(future)
        return _NothingToAwait()

    async def _send(self, update: Update) -> None:
        # Checked here again: the call may have ended between `report` in a thread and this step in the loop.
        if self._is_running and self._call.emit is not None:
            await self._call.emit(update)

    def end(self, *, cancelled: bool) -> None:
        """Drop all later reports."""
        self._cancelled = self._cancelled or cancelled
        self._is_running = False
        if self._reporting is not None:
            self._reporting.cancel()


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A coroutine or an asynchronous generator that a function in a thread returned: the loop runs it."""

    value: Any


@dataclass(frozen=True, slots=True)
class _HandlerRun:
    """One call of one handler."""

    call: Call
    handler: Handler
    context: RunningCall
    positional: list[Any]
    named: dict[str, Any]

    def start(self) -> Any:
        """Call the function; one for the loop returns a coroutine or an asynchronous generator."""
        return self.handler.function(*self.positional, **self.named)

    def run_in_thread(self) -> Any:
        """Call the function and return its value as JSON, or the coroutine that the loop must run."""
        try:
            value = self.handler.function(*self.positional, **self.named)
            if inspect.isawaitable(value) or inspect.isasyncgen(value):
                return _Unfinished(value)
            if isinstance(value, Iterator):
                return self._drain(value)
            return to_json_value(self.call, value, self.handler)
        except BaseException as error:  # converted here: futures do not accept StopIteration
            raise _convert_error(self.call, error) from error

    async def run_in_loop(self, start: Callable[[], Any]) -> Any:
        """Start something in the loop and return its result."""
        try:
            value = start()
            return await value if inspect.isawaitable(value) else value
        except anyio.get_cancelled_exc_class() as error:
            if is_being_cancelled():
                raise
            reason = "what it waited for was cancelled"
            raise ToolCancelledError(tool_id=self.call.tool_id, reason=reason) from error
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            await yield_to_cancellation()  # the function may have turned our own cancellation into this error
            raise _convert_error(self.call, error) from error

    def drain_in_thread(self, items: Iterator[Any]) -> Any:
        """Run the generator that a coroutine returned, in a thread."""
        try:
            return self._drain(items)
        except BaseException as error:
            raise _convert_error(self.call, error) from error

    def _drain(self, items: Iterator[Any]) -> Any:
        """Run a generator to its end."""
        chunks = Chunks(self.call, has_listener=self.context.has_listener)
        try:
            while not self.context.cancelled:
                chunk = chunks.add(next(items))
                self.context.report(Update(kind="chunk", data=copy_json(chunk)))
        except StopIteration as stop:
            return chunks.value if stop.value is None else to_json_value(self.call, stop.value)
        finally:
            if inspect.isgenerator(items):
                items.close()
        return None

    async def collect(self, items: AsyncGenerator[Any, Any]) -> Any:
        """Run an asynchronous generator to its end."""
        chunks = Chunks(self.call, has_listener=self.context.has_listener)
        try:
            async for item in items:
                chunk = chunks.add(item)
                await self.context.report(Update(kind="chunk", data=copy_json(chunk)))
        finally:
            with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True):
                await items.aclose()
        return chunks.value


def _convert_error(call: Call, error: BaseException) -> BaseException:
    """Return the error that the caller gets for an exception of a handler.

    A `ToolExecutionError` is how a handler reports its own failure. Any other `ToolcribError` concerns
    another call that the handler made, so only its text is used.
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


def to_json_value(call: Call, value: Any, handler: Handler | None = None) -> Any:
    """Return the value of a handler as JSON, serialized by the return type of its function.

    Raises:
        ToolExecutionError: it is not JSON and cannot be serialized.
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
    """The chunks of a stream so far.

    A value has a size limit, a stream has none. So the chunks of a longer stream are dropped, and its value
    is None, if the caller receives the chunks and no output schema needs the whole value.
    """

    def __init__(self, call: Call, *, has_listener: bool) -> None:
        self._call = call
        self._may_drop = has_listener and call.tool.shared("output_schema") is None
        self._kept: list[Any] | None = []
        self._nodes = self._chars = 0

    @property
    def value(self) -> list[Any] | None:
        """All chunks; None if they are not kept."""
        return self._kept

    def add(self, item: Any) -> Any:
        """Keep an item, and return it as JSON.

        Raises:
            ToolExecutionError: it is not JSON, or all of them together are too much.
        """
        chunk = to_json_value(self._call, item)
        if self._kept is not None:
            nodes, _, chars, _ = measure(chunk)
            self._nodes, self._chars = self._nodes + nodes, self._chars + chars
            if self._nodes < MAX_NODES and self._chars < MAX_CHARS:
                self._kept.append(chunk)
            elif self._may_drop:
                self._kept = None
            else:
                reason = f"it returned more than the {MAX_NODES:,} values allowed; read it as a stream"
                raise ToolExecutionError(tool_id=self._call.tool_id, reason=reason)
        return chunk

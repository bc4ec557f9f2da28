"""Tools that are Python functions in this process."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import anyio

from toolcrib.errors import NoBackendError, ToolCancelledError, ToolcribError, ToolExecutionError
from toolcrib.execution.background import is_being_cancelled, result_of, yield_to_cancellation
from toolcrib.execution.local.context import RunningCall
from toolcrib.execution.local.handler import Handler
from toolcrib.execution.local.threads import Threads
from toolcrib.execution.local.values import Chunks, as_json
from toolcrib.execution.records import Answer, Call, Update
from toolcrib.execution.scrub import said_by, scrub
from toolcrib.model.backend import LocalBackend, ToolBackend
from toolcrib.model.local import LocalTool
from toolcrib.model.plain import copy_json
from toolcrib.model.suggest import did_you_mean

__all__ = ["LocalHandlers"]

_CLEANING_TIME = 5.0
"""How long a generator may take to clean up after it was left."""


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
        task = _Task(call, handler, running, *handler.arguments(call.tool, call.args, running))
        ended = False
        try:
            value = await self._run(task)
            ended = True
        finally:
            running.end(cancelled=not ended)
        return Answer(structured=value)

    async def _run(self, task: "_Task") -> Any:
        if task.handler.in_loop:
            value = await _awaited(task.call, task.in_loop())
        else:
            value = await self._in_thread(task.in_thread, task.call)
            if not isinstance(value, _Unfinished):
                return value
            value = await _awaited(task.call, value.finish())
        if inspect.isasyncgen(value):
            return await _awaited(task.call, task.collect(value))
        if isinstance(value, Iterator):
            return await self._in_thread(lambda: task.drain(value), task.call)
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

    async def finish(self) -> Any:
        return await self.value if inspect.isawaitable(self.value) else self.value


@dataclass(frozen=True, slots=True)
class _Task:
    """One call of one handler."""

    call: Call
    handler: Handler
    running: RunningCall
    positional: list[Any]
    named: dict[str, Any]

    def start(self) -> Any:
        return self.handler.function(*self.positional, **self.named)

    async def in_loop(self) -> Any:
        """Call a coroutine function, and return what it gives: a value, or an asynchronous generator."""
        value = self.start()
        return await value if inspect.isawaitable(value) else value

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


async def _awaited(call: Call, value: Awaitable[Any]) -> Any:
    """Return what a handler's coroutine gives, or raise what the caller is to get for what it raises."""
    try:
        return await value
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
        said = scrub(error.reason, call.args)
        return ToolExecutionError(tool_id=call.tool_id, reason=said, result=error.result)
    reason = scrub(str(error), call.args) if isinstance(error, ToolcribError) else said_by(error, call.args)
    return ToolExecutionError(tool_id=call.tool_id, reason=reason)


def _name(backend: ToolBackend) -> str:
    return backend.name if isinstance(backend, LocalBackend) else backend.kind

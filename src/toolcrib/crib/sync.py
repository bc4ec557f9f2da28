"""The same crib for programs without an event loop."""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolcrib.crib.crib import Crib
from toolcrib.crib.files import Config
from toolcrib.crib.settings import Settings
from toolcrib.discovery import DetailLevel, Discovery, Page, Result, Summary
from toolcrib.discovery.facade import ListOptions, SearchOptions
from toolcrib.errors import CribStateError
from toolcrib.execution import RunResult, StreamEvent
from toolcrib.execution.chain import Steps
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.progress import Progress
from toolcrib.model import Tool, ToolDoc, ToolExample, ToolId

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion

__all__ = ["SyncCrib"]

T = TypeVar("T")
_BUFFER = 16
"""How many events of a stream may wait for the reader."""


class SyncCrib:
    """A `Crib` whose every verb returns when it is done; its event loop runs in a thread of its own.

    >>> crib = SyncCrib()
    >>> @crib.add
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> crib.run("add", {"a": 1, "b": 2}).structured
    3

    Servers and APIs need `with crib:`. It may be used from many threads, but not from within an event loop.
    Interrupting a call, as with Ctrl-C, cancels the tool.
    """

    def __init__(self, config: Config = None, **doors: Any) -> None:
        """Read a configuration; nothing is started. What is taken is what `Crib` takes."""
        self._crib = Crib(config, **doors)
        self._portal: BlockingPortal | None = None
        self._stack = ExitStack()

    def __repr__(self) -> str:
        return f"<Sync{repr(self._crib)[1:]}"

    @property
    def settings(self) -> Settings:
        """The configuration."""
        return self._crib.settings

    @property
    def discovery(self) -> Discovery:
        """The catalogue and its documentation."""
        return self._crib.discovery

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            stack.callback(portal.call, portal.stop, True)  # noqa: FBT003 - cancels what nobody waits for
            self._call(partial(self._crib.__aenter__), portal)
            stack.callback(portal.call, self._crib.__aexit__, None, None, None)
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._portal = None
        self._stack.close()

    def add(
        self,
        function: Any = None,
        /,
        *,
        namespace: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
    ) -> Any:
        """Add a typed function or a tool, as `Crib.add` does; a coroutine runs in the loop of the crib."""
        return self._crib.add(function, namespace=namespace, version=version, tags=tags)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Page[Result]:
        """Return the tools that fit a question, best first."""
        return self._call(partial(self._crib.search, query, **options))

    def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids."""
        return self._call(partial(self._crib.tools, **options))

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order."""
        return self._call(self._crib.namespaces)

    def describe(self, tool_id: str | ToolId, level: DetailLevel | str = "schema") -> ToolDoc:
        """Return what is known about a tool."""
        return self._call(partial(self._crib.describe, tool_id, level))

    def examples(self, tool_id: str | ToolId, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - as in the catalogue
        """Return the examples of a tool."""
        return self._call(partial(self._crib.examples, tool_id, max))

    def run(
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        caller: str | None = None,
    ) -> RunResult:
        """Run a tool and return what it gave; `progress` is called in the thread of the crib."""
        asked = partial(self._crib.run, timeout=timeout, progress=progress, caller=caller)
        return self._call(partial(asked, tool_id, args))

    def stream(
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,
        caller: str | None = None,
    ) -> Generator[StreamEvent]:
        """Yield what a tool tells while it runs; leaving the stream cancels the tool."""
        if self._portal is not None:
            yield from self._streamed(self._portal, tool_id, args, timeout=timeout, caller=caller)
            return
        with start_blocking_portal() as portal:
            yield from self._streamed(portal, tool_id, args, timeout=timeout, caller=caller)

    def run_chain(self, steps: Steps, **options: Any) -> Any:
        """Run tools one after another and return what each gave."""
        return self._call(partial(self._crib.run_chain, steps, **options))

    def execute(self, code: str, **options: Any) -> Any:
        """Run code that calls tools, in a sandbox."""
        return self._call(partial(self._crib.execute, code, **options))

    def convert(
        self, target: str, *, tools: Iterable[str | ToolId | Tool] | None = None, **options: Any
    ) -> "list[Conversion]":
        """Return tools in the format of a provider."""
        return self._crib.convert(target, tools=tools, **options)

    def ready(self, timeout: float | None = None) -> dict[str, ServerStatus]:
        """Wait until all servers have listed their tools or failed."""
        return self._call(partial(self._crib.ready, timeout))

    def status(self) -> Mapping[str, ServerStatus]:
        """Return how the servers are doing."""
        return self._crib.status() if self._portal is None else self._portal.call(self._crib.status)

    def _call(self, ask: Callable[[], Awaitable[T]], portal: BlockingPortal | None = None) -> T:
        """Return what an asynchronous verb gives; whatever interrupts the waiting cancels it."""
        portal = portal or self._portal
        if portal is None:
            return anyio.run(ask)
        return _Question(ask).asked(portal)

    def _streamed(
        self, portal: BlockingPortal, tool_id: str | ToolId, args: Any, **options: Any
    ) -> Generator[StreamEvent]:
        """Yield events that one task reads, since a stream is read by the task that began it."""
        send, receive = anyio.create_memory_object_stream[StreamEvent](_BUFFER)

        async def read() -> None:
            async with send:
                async for event in self._crib.stream(tool_id, args, **options):
                    await send.send(event)

        reading = portal.start_task_soon(read)
        try:
            while True:
                try:
                    yield _Question(receive.receive).asked(portal)
                except anyio.EndOfStream:
                    break
            reading.result()
        finally:
            reading.cancel()
            portal.call(receive.aclose)


class _Question(Generic[T]):
    """Something asked of an event loop by a thread, which may be interrupted at any moment of its waiting."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._scope: anyio.CancelScope | None = None
        self._is_given_up = False

    def asked(self, portal: BlockingPortal) -> T:
        """Return the answer; whatever interrupts the waiting for it takes the question back."""
        try:
            return portal.start_task_soon(self._answer).result()
        except BaseException:
            with suppress(RuntimeError):  # the loop has ended, and the question with it
                portal.start_task_soon(self._give_up)
            raise

    async def _answer(self) -> T:
        self._scope = anyio.CancelScope()
        with self._scope:
            if self._is_given_up:
                self._scope.cancel()
            return await self._ask()
        raise CribStateError("nobody waits for the answer")

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._scope is not None:
            self._scope.cancel()

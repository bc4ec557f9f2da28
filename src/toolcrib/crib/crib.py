"""One object that keeps tools, finds them and runs them."""

import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack, overload

from anyio import to_thread

from toolcrib.crib.code import CodeMode, Named
from toolcrib.crib.convert import convert
from toolcrib.crib.engine import Doors, Engine
from toolcrib.crib.files import Config, load
from toolcrib.crib.reach import Ref, id_of
from toolcrib.crib.settings import Settings
from toolcrib.crib.waiting import Waiting
from toolcrib.discovery import DetailLevel, Discovery, Page, Result, Summary
from toolcrib.discovery.facade import ListOptions, SearchOptions
from toolcrib.errors import CribStateError, InvalidToolError, Problem
from toolcrib.execution import Middleware, Observer, Policy, RunResult, StreamEvent
from toolcrib.execution.chain import Around, ChainLimits, ChainProgress, ChainResult, Plan, Steps
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.progress import Progress
from toolcrib.model import LocalBackend, LocalTool, Tool, ToolDoc, ToolExample, ToolId, tool
from toolcrib.runtime.records import ExecuteResult, Limits, SecurityProfile

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion

__all__ = ["Crib"]

_LARGE = 10_000
"""From how many tools on a search goes to a worker thread: it takes a millisecond or more, a thread 0.1."""


class Crib:
    """Keeps tools, finds them and runs them: Python functions, MCP servers and HTTP APIs alike.

    >>> import anyio
    >>> crib = Crib()
    >>> @crib.add
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> async def main() -> int:
    ...     found = await crib.search("sum of two numbers")
    ...     return (await crib.run(found.items[0].summary.id, {"a": 1, "b": 2})).structured
    >>> anyio.run(main)
    3

    Servers and APIs need `async with crib:`. What was kept of an earlier run is served at once, and all are
    asked for their tools in the background; a call that needs one of which nothing is known yet waits for its
    first answer. Everything is safe to use from many tasks of one event loop.
    """

    _way_in: ClassVar[str] = "async with crib:"

    def __init__(
        self,
        config: Config = None,
        *,
        policy: Policy | None = None,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Read a configuration; nothing is started.

        Args:
            config: a file, a dict with `mcpServers`, `Settings`, or None for nothing at all.
            policy: says whether a call may run.
            middleware: stands around each call, within what the configuration asks for.
            observers: watch each call.
            environ: where variables in the configuration are looked up, instead of the process's environment.

        Raises:
            ConfigError: with every problem found.
        """
        doors = Doors(policy, tuple(middleware), tuple(observers), environ)
        self._engine = Engine(load(config), doors, self._way_in)
        self._code = CodeMode(self, self._engine)
        self._state: Literal["fresh", "open", "closed"] = "fresh"

    def __repr__(self) -> str:
        source = self.settings.source or "no file"
        return f"<Crib {source}, {self._state}, {len(self._engine.discovery.index)} tools>"

    @property
    def settings(self) -> Settings:
        """The configuration."""
        return self._engine.settings

    @property
    def discovery(self) -> Discovery:
        """The catalogue and its documentation; entering replaces it where the catalogue is kept in a file."""
        return self._engine.discovery

    async def __aenter__(self) -> Self:
        if self._state != "fresh":
            raise CribStateError(f"this crib is {self._state} already; make another")
        self._state = "open"
        try:
            await self._engine.open()
        except BaseException:
            self._state = "closed"
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._state = "closed"
        try:
            await self._code.close()
        finally:
            await self._engine.close()

    @overload
    def add(
        self,
        function: Tool,
        /,
        *,
        namespace: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
    ) -> Tool: ...

    @overload
    def add(
        self,
        function: Callable[..., Any],
        /,
        *,
        namespace: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
    ) -> LocalTool[..., Any]: ...

    @overload
    def add(
        self,
        function: None = None,
        /,
        *,
        namespace: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
    ) -> Callable[[Callable[..., Any]], LocalTool[..., Any]]: ...

    def add(
        self,
        function: Tool | Callable[..., Any] | None = None,
        /,
        *,
        namespace: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
    ) -> Any:
        """Add a typed function, or a tool made of one, and return the tool; also as a decorator.

        A `Tool` without a function is added where its `backend` says what runs it. What is given here stands
        instead of what the tool says of itself.

        Raises:
            InvalidToolError: it cannot be made a tool.
            InvalidSchemaError: a schema of the tool cannot be used.
        """
        labels: Any = tags
        if isinstance(labels, Iterable) and not isinstance(labels, str):
            labels = tuple(labels)  # it may give them once only, and a decorator be used again
        said = {"namespace": namespace, "version": version, "tags": labels}
        changes = {name: value for name, value in said.items() if value}
        if function is None:
            return lambda decorated: self.add(decorated, **changes)
        self._check_open()
        if isinstance(function, Tool):
            return self._add_record(function.replace(**changes) if changes else function)
        made = copy.copy(function) if isinstance(function, LocalTool) else tool(function)
        if changes:
            made.tool = made.tool.replace(**changes)
        backend = LocalBackend(name=str(made.tool.id))
        self._engine.register(made.tool, backend)
        self._engine.handlers.add(backend.name, made)
        return made

    def _add_record(self, record: Tool) -> Tool:
        if record.backend is None:
            reason = (
                "says nothing of what runs it; add a function, LocalTool(function, tool), or set its backend"
            )
            raise InvalidToolError((Problem("/backend", "missing", reason),), record.name)
        self._engine.register(record, record.backend)
        return record

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Page[Result]:
        """Return the tools that fit a question, best first, as `Index.search` does.

        A server that does not answer is left out, and never makes it fail.
        """
        await self._waiting.for_listing(options)
        options.setdefault("min_confidence", self.settings.search.min_confidence)
        index = self.discovery.index
        if len(index) < _LARGE and self.settings.search.model is None:
            return index.search(query, **options)
        return await to_thread.run_sync(lambda: index.search(query, **options))

    async def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids, as `Index.tools` does."""
        await self._waiting.for_listing(options)
        return self.discovery.tools(**options)

    async def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        await self._waiting.for_listing({})
        return self.discovery.index.namespaces()

    async def describe(self, tool_id: Ref, level: DetailLevel | str = "schema") -> ToolDoc:
        """Return what is known about a tool: `summary`, `schema` or `full`.

        Raises:
            ToolNotFoundError: there is no such tool, with suggestions.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
        """
        tool_id = id_of(tool_id)
        await self._waiting.for_tool(tool_id)
        return self.discovery.describe(tool_id, level)

    async def examples(self, tool_id: Ref, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - as in the catalogue
        """Return the examples of a tool."""
        tool_id = id_of(tool_id)
        await self._waiting.for_tool(tool_id)
        return self.discovery.examples(tool_id, max)

    async def run(
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the tool's, told apart from the caller's
        progress: Progress | None = None,
        caller: str | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return what it gave, as `Runner.run` does.

        Waiting for its server counts towards `timeout`. `defaults` fills in what the input schema declares
        for arguments that are missing.

        Raises:
            ToolNotFoundError: no tool answers to the reference.
            ToolError: one of its leaves says what went wrong, on which backend, doing what.
        """
        tool_id = id_of(tool_id)
        self._waiting.check(tool_id)
        return await self._engine.runner.run(
            tool_id, args, timeout=timeout, progress=progress, caller=caller, defaults=defaults
        )

    async def stream(
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        caller: str | None = None,
        defaults: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield what a tool tells while it runs; the last event is one `done` or one `error`."""
        tool_id = id_of(tool_id)
        self._waiting.check(tool_id)
        events = self._engine.runner.stream(tool_id, args, timeout=timeout, caller=caller, defaults=defaults)
        async with aclosing(events) as told:
            async for event in told:
                yield event

    @overload
    async def run_chain(
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - for all steps together
        progress: ChainProgress | None = None,
        dry_run: Literal[False] = False,
        caller: str | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult: ...

    @overload
    async def run_chain(
        self, steps: Steps, *, dry_run: Literal[True], limits: ChainLimits | None = None
    ) -> Plan: ...

    async def run_chain(  # noqa: PLR0913 - as for the runner
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - for all steps together
        progress: ChainProgress | None = None,
        dry_run: bool = False,
        caller: str | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult | Plan:
        """Run steps one after another and return what each gave, as `Runner.run_chain` does.

        Raises:
            InvalidChainError: they cannot work; nothing was run.
            ChainError: a step failed; what the steps before it gave is in it.
            ToolTimeoutError: the server of a step did not list its tools in time; nothing was run.
        """
        self._check_open()
        if dry_run:
            return await self._engine.runner.run_chain(steps, dry_run=True, limits=limits)
        return await self._engine.runner.run_chain(
            steps, timeout=timeout, progress=progress, caller=caller, limits=limits, around=around
        )

    async def execute(
        self,
        code: str,
        *,
        backend: str | None = None,
        profile: SecurityProfile | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the code's, told apart from the caller's
        limits: Limits | Mapping[str, Any] | None = None,
        language_fallback: bool | None = None,
    ) -> ExecuteResult:
        """Run code that calls tools, in a sandbox, as `Runtime.execute` does.

        In the code each namespace is a name: `await github.create_issue(title="...")`. What it leaves in
        `__out` is the value. What is not said here, each of the limits too, is as the configuration says
        under `code`.

        Raises:
            ValidationError: what is asked makes no sense.
            CodeError: the code is wrong, or raised.
            LimitExceededError: it used more than it was given, or took longer.
            SandboxViolationError: it tried to break the rules.
            RuntimeUnavailableError: the sandbox cannot run here, with what to install.
        """
        self._check_open()
        said = {"backend": backend, "profile": profile, "timeout": timeout, "limits": limits}
        said["language_fallback"] = language_fallback
        request = self.settings.code.request(code, said)
        return await self._code.execute(request, keep=self._state == "open")

    async def stubs(
        self, tools: Iterable[Named] | None = None, *, namespace: str | None = None, budget: int | None = None
    ) -> str:
        """Return tools as Python signatures, under the names by which code reaches them in `execute`.

        Of those named, or of what a search found; else of a namespace, or of all. `budget` is how many
        tokens the text may take, as for `Runtime.stubs`. `toolcrib.runtime.GUIDE` says the rest to a model.
        """
        await self._waiting.for_listing({"namespace": namespace})
        return self._code.stubs(tools, namespace, budget)

    def convert(
        self, target: str, *, tools: Iterable[str | ToolId | Tool] | None = None, **options: Any
    ) -> "list[Conversion]":
        """Return tools in the format of a provider, each under a name of its own: all, or those named.

        The options are those of the format, such as `strict=True`. A model's call is read back with the
        `decode_call` of its tool.

        Raises:
            ConversionError: there is no such format, or a tool cannot be written in it.
            ToolNotFoundError: a named tool is not there.
        """
        self._check_open()
        return convert(self.discovery.index, target, tools, **options)

    async def ready(self, timeout: float | None = None) -> dict[str, ServerStatus]:  # noqa: ASYNC109 - optional servers may be late
        """Wait until all servers and APIs have listed their tools or failed, and return how they are doing.

        After `timeout` seconds, those that are not required may still be missing.

        Raises:
            ServerUnavailableError: one that is required has failed, or is not there in time.
        """
        await self._waiting.for_all(timeout)
        return self.status()

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing, by name, without asking them anything."""
        return self._engine.status()

    @property
    def _waiting(self) -> Waiting:
        """What a verb waits with, unless the crib is closed."""
        self._check_open()
        return self._engine.waiting

    def _check_open(self) -> None:
        if self._state == "closed":
            raise CribStateError("this crib is closed; make another")

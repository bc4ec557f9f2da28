"""SyncCrib: a crib for programs without an event loop.

The crib lives in an event loop in its own thread (`LoopThread`), which starts with the first call that needs
servers. Each method submits one asynchronous call and waits; an interrupt of the wait cancels the call. The
wrapper holds no reference from the loop's thread to itself, so that a forgotten crib is collected and its
finalizer stops the loop; that is why `_close` is a function and takes the parts that it closes.

Errors leave as if the caller's line had raised them: a decorator of the class removes toolcrib's own frames
from tracebacks, which otherwise have thirty lines of threads and task groups.
"""

import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from anyio import to_thread

from toolcrib.concurrency.loop import LoopEndedError, LoopThread
from toolcrib.crib.code import Named
from toolcrib.crib.config.files import Config
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.crib import Crib
from toolcrib.crib.reload import Reload
from toolcrib.crib.session import SyncToolSession
from toolcrib.crib.visible import UNKNOWN, Ref
from toolcrib.discovery import (
    DetailLevel,
    DetailName,
    Discovery,
    Embedder,
    Page,
    Result,
    Searcher,
    Store,
    Summary,
)
from toolcrib.discovery.facade import ListOptions, SearchOptions
from toolcrib.discovery.learned import LearnedQuestion
from toolcrib.errors import CribStateError, ToolcribError
from toolcrib.execution import Middleware, Observer, Policy, RunResult, StreamEvent
from toolcrib.execution.call import CallContext
from toolcrib.execution.chains import Around, ChainLimits, ChainProgress, ChainResult, Plan, Steps
from toolcrib.execution.mcp import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ServerStatus,
)
from toolcrib.execution.mcp.config import OnInput
from toolcrib.execution.policy.rules import Approver
from toolcrib.execution.principal import Principal
from toolcrib.execution.progress import Progress
from toolcrib.model import LocalTool, SchemaValidator, Tool, ToolDoc, ToolExample, ToolOptions
from toolcrib.runs import RunDetails, RunRecord, RunStore
from toolcrib.runtime import ExecuteResult, Limits, ProfileName, Sandbox, SandboxKind, SecurityProfile

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter, Conversion, ConversionOptions, SessionTarget, Target

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
_DEADLOCK_MESSAGE = (
    "this is the event loop of the crib, which would wait for itself; use Crib and await, or a thread"
)
_HIDDEN_PACKAGES = frozenset({"toolcrib", "anyio", "asyncio", "concurrent", "contextlib", "threading"})
"""Packages whose frames are removed: they only carry a call to its tool, and the error back."""
_WRAPPED_METHODS = frozenset({"__init__", "__enter__", "__getitem__", "_run_started"})
"""Methods whose errors are shortened, beside the public ones."""
_ENDED_MESSAGES = {
    "closed": "this crib is closed already; make another",
    "closed meanwhile": "this crib was closed before the answer arrived",
    "forked": "this crib was opened by the process that this one was forked from; make another",
    "stopped": "the event loop of this crib was ended by what it ran; make another",
}


def _skip_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without its leading frames of `_HIDDEN_PACKAGES`; None if it has no others."""
    while (
        trace is not None
        and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _HIDDEN_PACKAGES
    ):
        trace = trace.tb_next
    return trace


def _hide_own_frames(error: ToolcribError) -> None:
    """Remove toolcrib's own frames from the tracebacks of an error and of its causes.

    What a handler or a hook of the program raised keeps the frames of the program. An exception that is not
    one of toolcrib's and has no other frames than its own is a defect of toolcrib, and keeps all.
    """
    pending: BaseException | None = error
    seen: set[int] = set()
    while pending is not None and id(pending) not in seen:
        seen.add(id(pending))
        kept = _skip_own_frames(pending.__traceback__)
        if kept is not None or isinstance(pending, ToolcribError):
            pending.__traceback__ = kept
        pending = pending.__cause__ or (None if pending.__suppress_context__ else pending.__context__)


def _raise_in_callers(cls: type[C]) -> type[C]:
    """Make the methods of a class raise toolcrib's errors as if the calling line had raised them."""

    def shortening(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(*args, **kwargs)
            except ToolcribError as error:
                _hide_own_frames(error)
                raise  # alone: `raise error` would put this frame into the traceback again

        return call

    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and (not name.startswith("_") or name in _WRAPPED_METHODS):
            setattr(cls, name, shortening(method))
    return cls


def _add_docs_of_crib(cls: type[C]) -> type[C]:
    """Add the docstrings of `Crib` to those of the same methods, for `help`."""
    for name, method in vars(cls).items():
        details = inspect.getdoc(getattr(Crib, name, None))
        if isinstance(method, FunctionType) and not name.startswith("_") and details:
            method.__doc__ = f"{inspect.getdoc(method)}\n\n`Crib.{name}`: {details}"
    return cls


@_raise_in_callers
@_add_docs_of_crib
class SyncCrib:
    """A `Crib` whose methods block until they are done; its event loop runs in its own thread.

    >>> crib = SyncCrib()
    >>> @crib.add
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> crib.run("add", {"a": 1, "b": 2}).structured
    3

    `with crib:` starts servers and APIs, and stops them at the end of the block. Without it, the first call
    starts them; they stop on `close`, when the crib is garbage-collected, or when the program ends. It may be
    used from many threads, and in notebooks, whose event loop is blocked during a call. Interrupting a call,
    as with Ctrl-C, cancels the tool. For a view of some of the tools, use `Crib.view`.
    """

    def __init__(  # noqa: PLR0913 - as for a crib
        self,
        config: Config = None,
        *,
        policy: Policy | None = None,
        approve: Approver | None = None,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        environ: Mapping[str, str] | None = None,
        on_input: OnInput | None = None,
        validator: SchemaValidator | None = None,
        searcher: Searcher | None = None,
        embedder: Embedder | None = None,
        store: Store | None = None,
        run_store: RunStore | None = None,
        sandboxes: Sequence[Sandbox] = (),
        adapters: "Sequence[Adapter]" = (),
        on_demand: bool = False,
    ) -> None:
        """Read a configuration; nothing is started. The arguments are those of `Crib`."""
        self._crib = Crib(
            config,
            policy=policy,
            approve=approve,
            middleware=middleware,
            observers=observers,
            environ=environ,
            on_input=on_input,
            validator=validator,
            searcher=searcher,
            embedder=embedder,
            store=store,
            run_store=run_store,
            sandboxes=sandboxes,
            adapters=adapters,
            on_demand=on_demand,
        )
        self._loop = LoopThread()
        self._is_open = False
        self._opening = threading.Lock()
        self._end: weakref.finalize[..., SyncCrib] | None = None
        """Closes a crib that a call has started; None where nothing was, or `with` will."""

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
        with self._opening:
            if (
                self._end is not None and self._end.detach()
            ):  # a call has started it: from here on, `with` ends it
                self._end = None
            else:
                self._open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open(self) -> None:
        try:
            self._run_in_loop(self._crib.__aenter__)
        except CribStateError:  # it is open, and stays so, or closed
            raise
        except BaseException:
            self._loop.close()
            raise
        self._is_open = True
        self._loop.bind()

    def close(self) -> None:
        """Stop everything, as leaving `with` does."""
        self._is_open = False
        if self._end is not None:
            self._end.detach()
        _close(self._crib, self._loop)

    def __contains__(self, tool_id: object) -> bool:
        """Return whether `crib[id]` finds a tool."""
        try:
            self[tool_id]  # type: ignore[index]
        except UNKNOWN:
            return False
        return True

    def __getitem__(self, tool_id: Ref) -> Tool:
        """Return the tool for an id or a function, once its server has listed its tools.

        An id without a version means the highest one, as for `run`.

        Raises the same errors as `Crib.describe`.
        """
        self.describe(tool_id, "summary")  # which waits for the server
        return self._crib[tool_id]

    __iter__ = None
    """As for `Crib`."""

    @overload
    def add(self, function: Tool, /, **options: Unpack[ToolOptions]) -> Tool: ...

    @overload
    def add(self, function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> LocalTool[P, R]: ...

    @overload
    def add(
        self, function: None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[P, R]], LocalTool[P, R]]: ...

    def add(self, function: Any = None, /, **options: Any) -> Any:
        """Add a typed function or a tool, as `Crib.add` does; a coroutine runs in the loop of the crib."""
        return self._crib.add(function, **options)

    def search(
        self, query: str, *, context: CallContext | None = None, **options: Unpack[SearchOptions]
    ) -> Page[Result]:
        """Return the tools that fit a question, best first."""
        return self._run_started(partial(self._crib.search, query, context=context, **options))

    def learned(self, tool_id: str | None = None) -> tuple[LearnedQuestion, ...]:
        """Return the questions learned from use: for a tool, without its version, or for all."""
        return self._run_started(partial(self._crib.learned, tool_id))

    def forget_learned(self, tool_id: str | None = None, question: str | None = None) -> int:
        """Delete the questions that `learned` returns, or one of them; return the number deleted."""
        return self._run_started(partial(self._crib.forget_learned, tool_id, question))

    def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids."""
        return self._run_started(partial(self._crib.tools, **options))

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order."""
        return self._run_started(self._crib.namespaces)

    def describe(
        self,
        tool_id: Ref,
        level: DetailLevel | DetailName = "schema",
        *,
        context: CallContext | None = None,
    ) -> ToolDoc:
        """Return the documentation of a tool."""
        return self._run_started(partial(self._crib.describe, tool_id, level, context=context))

    def examples(self, tool_id: Ref, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - as in the catalogue
        """Return the examples of a tool."""
        return self._run_started(partial(self._crib.examples, tool_id, max))

    def run(  # noqa: PLR0913 - as for a crib
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        frame_progress: bool = True,
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return its result; `progress` is called in the thread of the crib."""
        asked = partial(
            self._crib.run,
            timeout=timeout,
            progress=progress,
            frame_progress=frame_progress,
            principal=principal,
            context=context,
            defaults=defaults,
        )
        return self._run_started(partial(asked, tool_id, args))

    def stream(
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> Generator[StreamEvent]:
        """Yield the updates of a running tool; leaving the stream cancels the tool."""
        asked = partial(self._crib.stream, timeout=timeout, principal=principal, context=context)
        events = asked(tool_id, args, defaults=defaults)
        try:
            while (event := self._run_started(partial(anext, events, None))) is not None:
                yield event
        finally:
            with suppress(RuntimeError):  # an interrupt closes it already, or the loop has ended
                self._run_started(events.aclose)

    @overload
    def run_chain(
        self,
        steps: Steps,
        *,
        timeout: float | None = None,
        progress: ChainProgress | None = None,
        dry_run: Literal[False] = False,
        principal: Principal | None = None,
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
        durable: bool = False,
    ) -> ChainResult: ...

    @overload
    def run_chain(
        self, steps: Steps, *, dry_run: Literal[True], limits: ChainLimits | None = None
    ) -> Plan: ...

    def run_chain(  # noqa: PLR0913 - as for a crib
        self,
        steps: Steps,
        *,
        timeout: float | None = None,
        progress: ChainProgress | None = None,
        dry_run: bool = False,
        principal: Principal | None = None,
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
        durable: bool = False,
    ) -> ChainResult | Plan:
        """Run steps one after another and return their results, as `Crib.run_chain` does."""
        if dry_run:
            return self._run_started(partial(self._crib.run_chain, steps, dry_run=True, limits=limits))
        run = partial(self._crib.run_chain, timeout=timeout, progress=progress, limits=limits)
        who = partial(run, principal=principal, context=context)
        return self._run_started(partial(who, steps, around=around, durable=durable))

    def stubs(
        self, tools: Iterable[Named] | None = None, *, namespace: str | None = None, budget: int | None = None
    ) -> str:
        """Return tools as Python signatures, as `Crib.stubs` does."""
        return self._run_started(partial(self._crib.stubs, tools, namespace=namespace, budget=budget))

    def execute(  # noqa: PLR0913 - as for a crib
        self,
        code: str,
        *,
        backend: SandboxKind | str | None = None,
        profile: SecurityProfile | ProfileName | None = None,
        timeout: float | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        language_fallback: bool | None = None,
        principal: Principal | None = None,
        context: CallContext | None = None,
        durable: bool = False,
    ) -> ExecuteResult:
        """Run code that calls tools, in a sandbox, as `Crib.execute` does."""
        run = partial(self._crib.execute, backend=backend, profile=profile, timeout=timeout, limits=limits)
        more = partial(run, language_fallback=language_fallback, principal=principal, context=context)
        return self._run_started(partial(more, code, durable=durable))

    def save_as_tool(
        self,
        result: ExecuteResult | ChainResult,
        *,
        name: str,
        version: str = "1.0.0",
        namespace: str | None = None,
        description: str = "",
        parameters: Collection[str] | Mapping[str, str] | None = None,
    ) -> Tool:
        """Make a tool from a successful run, as `Crib.save_as_tool` does."""
        return self._crib.save_as_tool(
            result,
            name=name,
            version=version,
            namespace=namespace,
            description=description,
            parameters=parameters,
        )

    def saved_tools(self) -> tuple[Tool, ...]:
        """Return the tools that were made with `save_as_tool`."""
        return self._crib.saved_tools()

    def delete_saved_tool(self, tool_id: str) -> None:
        """Delete a saved tool, as `Crib.delete_saved_tool` does."""
        self._crib.delete_saved_tool(tool_id)

    def runs(self, *, principal: Principal | None = None) -> tuple[RunRecord, ...]:
        """Return the durable runs, the latest first."""
        return self._run_started(partial(self._crib.runs, principal=principal))

    def describe_run(self, run_id: str, *, principal: Principal | None = None) -> RunDetails:
        """Return a durable run with its code or steps, and its calls or its result."""
        return self._run_started(partial(self._crib.describe_run, run_id, principal=principal))

    def cancel_run(self, run_id: str, *, principal: Principal | None = None) -> None:
        """Cancel a durable run, as `Crib.cancel_run` does."""
        self._run_started(partial(self._crib.cancel_run, run_id, principal=principal))

    def resume(
        self,
        run_id: str,
        *,
        repeat: bool = False,
        answers: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
        context: CallContext | None = None,
    ) -> ExecuteResult | ChainResult:
        """Resume a durable run, as `Crib.resume` does."""
        resume = partial(self._crib.resume, repeat=repeat, answers=answers)
        return self._run_started(partial(resume, run_id, principal=principal, context=context))

    @overload
    def convert(
        self,
        target: "Target",
        *,
        tools: Iterable[Named] | None = None,
        **options: "Unpack[ConversionOptions]",
    ) -> "list[Conversion]": ...

    @overload
    def convert(
        self, target: str, *, tools: Iterable[Named] | None = None, **options: Any
    ) -> "list[Conversion]": ...

    def convert(
        self, target: str, *, tools: Iterable[Named] | None = None, **options: Any
    ) -> "list[Conversion]":
        """Return tools in the format of a provider, once the servers and APIs have listed theirs."""
        self.namespaces()
        return self._crib.convert(target, tools=tools, **options)

    def resources(self) -> tuple[Resource, ...]:
        """Return the resources of the servers."""
        return self._run_started(self._crib.resources)

    def resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return the resource templates of the servers."""
        return self._run_started(self._crib.resource_templates)

    def read(self, uri: str, *, server: str | None = None) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource, as `Crib.read` does."""
        return self._run_started(partial(self._crib.read, uri, server=server))

    def prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts of the servers."""
        return self._run_started(self._crib.prompts)

    def prompt(self, name: str, args: Mapping[str, str] | None = None) -> PromptResult:
        """Return the messages of a prompt, filled in, as `Crib.prompt` does."""
        return self._run_started(partial(self._crib.prompt, name, args))

    def complete(
        self, ref: str, argument: str, value: str = "", *, args: Mapping[str, str] | None = None
    ) -> Completion:
        """Return values for an argument, as `Crib.complete` does."""
        return self._run_started(partial(self._crib.complete, ref, argument, value, args=args))

    def session(
        self,
        target: "SessionTarget",
        *,
        tools: Iterable[Named] | None = None,
        search: bool = False,
        timeout: float | None = None,
        principal: Principal | None = None,
        **options: "Unpack[ConversionOptions]",
    ) -> SyncToolSession:
        """Return tools for a conversation with a model, as `Crib.session` does."""
        session = partial(
            self._crib.session, tools=tools, search=search, timeout=timeout, principal=principal
        )
        return SyncToolSession(self._run_started(partial(session, target, **options)), self._run_started)

    def call_in_loop(self, ask: Callable[[Crib], Awaitable[T]]) -> T:
        """Run an asynchronous function with the `Crib` in its event loop, such as one that uses a view of it.

        Raises:
            CribStateError: the crib is closed, or is closed during the call.
        """
        return self._run_started(lambda: ask(self._crib))

    async def await_in_loop(self, ask: Callable[[Crib], Awaitable[T]]) -> T:
        """Like `call_in_loop`, but awaited in another event loop; cancelling the caller cancels the function.

        Raises:
            CribStateError: as for `call_in_loop`.
        """
        if self._crib.needs_start:
            await to_thread.run_sync(lambda: self._run_started(_nothing))
        try:
            return await self._loop.await_call(lambda: ask(self._crib))
        except LoopEndedError as error:
            raise CribStateError(_ENDED_MESSAGES[error.reason]) from error

    def ready(self, timeout: float | None = None) -> dict[str, ServerStatus]:
        """Wait until all servers and APIs have listed their tools or failed."""
        return self._run_started(partial(self._crib.ready, timeout))

    def stop_server(self, name: str) -> None:
        """Stop an MCP server, as `Crib.stop_server` does."""

        async def stop() -> None:
            self._crib.stop_server(name)

        self._run_started(stop)

    def start_server(self, name: str) -> None:
        """Start an MCP server, as `Crib.start_server` does."""
        self._run_started(lambda: self._crib.start_server(name))

    def reload(self, config: Config, *, on_switched: Callable[[], object] | None = None) -> Reload:
        """Apply another configuration without dropping calls, and return the differences."""
        return self._run_started(partial(self._crib.reload, config, on_switched=on_switched))

    def status(self) -> dict[str, ServerStatus]:
        """Return the status of the servers and APIs."""

        async def status() -> dict[str, ServerStatus]:
            return self._crib.status()

        return self._run_started(status) if self._is_open else self._crib.status()

    def _run_started(self, question: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function in the loop of the crib, and start the servers if necessary.

        Raises:
            CribStateError: the crib is closed, or is closed meanwhile; or this thread runs its loop.
        """
        if not self._is_open:
            with self._opening:  # of several threads one opens the crib, and the others wait for it
                if self._crib.needs_start:
                    self._open()
                    self._end = weakref.finalize(self, _close, self._crib, self._loop)
        return self._run_in_loop(question)

    def _run_in_loop(self, question: Callable[[], Awaitable[T]]) -> T:
        return _run_in_loop(self._loop, question)


async def _nothing() -> None:
    """Do nothing, in a crib that is started for it."""


def _run_in_loop(loop: LoopThread, question: Callable[[], Awaitable[T]]) -> T:
    if loop.is_this_thread():
        raise CribStateError(_DEADLOCK_MESSAGE)
    try:
        return loop.call(question)
    except LoopEndedError as error:
        raise CribStateError(_ENDED_MESSAGES[error.reason]) from error


def _close(crib: Crib, loop: LoopThread) -> None:
    """Close a crib, then its loop; a function, as the finalizer must not refer to the `SyncCrib`."""
    if loop.is_this_thread():  # garbage collection can run the finalizer in any thread, also in this one
        threading.Thread(target=_close, args=(crib, loop), daemon=True).start()
        return
    try:
        with suppress(CribStateError):  # already closed
            _run_in_loop(loop, partial(crib.__aexit__, None, None, None))
    finally:
        loop.close()

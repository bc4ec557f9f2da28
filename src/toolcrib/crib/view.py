"""The verbs of a crib, over all its tools or a part of them."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from anyio import to_thread

from toolcrib.crib.availability import UNKNOWN, Ref, id_of
from toolcrib.crib.code import CodeMode, Named, Sandboxes
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.content import ViewContent
from toolcrib.crib.content_verbs import ContentVerbs
from toolcrib.crib.durable import DurableRuns, RunVerbs
from toolcrib.crib.engine import Engine
from toolcrib.crib.formats import convert, make_formats
from toolcrib.crib.scoped import EnginePart, ScopedEngine
from toolcrib.crib.session import ToolSession
from toolcrib.crib.sources.origins import Absence
from toolcrib.crib.sources.waiting import Waiting
from toolcrib.discovery import DetailLevel, DetailName, Index, IndexView, Page, Result, Scope, Summary
from toolcrib.discovery.facade import ListOptions, SearchOptions
from toolcrib.errors import CribStateError, ToolNotFoundError
from toolcrib.errors.base import counted
from toolcrib.execution import RunResult, StreamEvent
from toolcrib.execution.chain import Around, ChainLimits, ChainProgress, ChainResult, Plan, Steps
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.execution.mcp.server_health import ServerTable
from toolcrib.execution.policy import Rules
from toolcrib.execution.principal import Principal
from toolcrib.execution.progress import Progress
from toolcrib.model import SchemaValidator, Tool, ToolDoc, ToolExample, ToolId
from toolcrib.runs.journal import RunJournal
from toolcrib.runtime.records import (
    ExecuteRequest,
    ExecuteResult,
    Limits,
    ProfileName,
    SandboxKind,
    SecurityProfile,
)

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion, ConversionOptions, SessionTarget, Target

_SEEN = 64
"""Of how many principals the views are kept."""
_LARGE = 10_000
"""From how many tools on a search by words goes to a worker thread, as one by meaning always does: it takes a
millisecond or more, a thread 0.1."""


@dataclass(slots=True)
class SharedState:
    """What a crib and its views have together."""

    engine: Engine
    sandboxes: Sandboxes = field(default_factory=Sandboxes)
    durable: DurableRuns = field(init=False)
    state: Literal["fresh", "open", "closed"] = "fresh"

    def __post_init__(self) -> None:
        self.durable = DurableRuns(lambda: self.engine.settings, self.engine.hooks)


class View(ContentVerbs, RunVerbs):
    """The tools of a crib that a scope admits; there are no others here, whatever is asked.

    Searches and lists, descriptions, calls, chains, code and conversions all reach these tools alone, and
    no answer reveals another. Nobody waits for a server that has none of them. It lives as long
    as its crib, and is as safe to use.
    """

    def __init__(
        self, shared: SharedState, scope: Scope | None = None, principal: Principal | None = None
    ) -> None:
        """See what a scope admits, or everything, for somebody; `Crib.view` and `seen_by` do this."""
        self._shared, self._scope, self._principal = shared, scope, principal
        self._part: EnginePart = shared.engine
        if scope is not None or principal is not None:
            self._part = ScopedEngine(shared.engine, scope or Scope(), principal)
        self._seen: OrderedDict[Principal | None, View] = OrderedDict()
        self._code = CodeMode(self, self._part.waiting, shared.sandboxes)

    def __repr__(self) -> str:
        return f"<View of {counted(len(self.index), 'tool')}, {self._shared.state}>"

    def seen_by(self, principal: Principal | None) -> "View":
        """Return what somebody may find and run here, by the rules of the configuration; calls are theirs."""
        if principal is None or principal == self._principal:
            return self
        seen = self._seen.pop(principal, None) or View(self._shared, self._scope, principal)
        self._seen[principal] = seen
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return seen

    @property
    def settings(self) -> Settings:
        """The configuration of the crib."""
        return self._shared.engine.settings

    @property
    def validator(self) -> SchemaValidator:
        """The validator of the crib."""
        return self._shared.engine.validator

    @property
    def rules(self) -> Rules | None:
        """Who may find and run what, by the configuration; None where everybody may everything."""
        return self._shared.engine.rules

    @property
    def index(self) -> Index | IndexView:
        """The catalogue; entering a crib replaces it where it is kept in a file."""
        return self._part.index

    def __contains__(self, tool_id: object) -> bool:
        """Return whether a tool is known already by this id, as `crib[id]` finds it."""
        try:
            self[tool_id]  # type: ignore[index]
        except UNKNOWN:
            return False
        return True

    def __getitem__(self, tool_id: Ref) -> Tool:
        """Return the tool that an id or a function means, if it is known already: nobody is waited for.

        An id without a version means the highest one, as for `run`.

        Raises:
            ToolNotFoundError: there is no such tool, with suggestions.
            InvalidToolIdError: it is no id.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
        """
        self._check_open()
        return self._part.resolver.resolve(self._id_of(tool_id))

    __iter__ = None
    """Ids are no numbers: without this, Python would ask for the tools 0, 1, 2, ..."""

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Page[Result]:
        """Return the tools that fit a question, best first, as `Index.search` does.

        A server that does not answer is left out, and never makes it fail.
        """
        await self._waiting.for_listing(options)
        options.setdefault("min_confidence", self.settings.search.min_confidence)
        index = self.index
        by_words = self.settings.search.searcher == "bm25"
        if by_words and len(self._shared.engine.index) < _LARGE:
            return index.search(query, **options)
        return await to_thread.run_sync(lambda: index.search(query, **options))

    async def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids, as `Index.tools` does."""
        await self._waiting.for_listing(options)
        return self.index.tools(**options)

    async def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        await self._waiting.for_listing({})
        return self.index.namespaces()

    async def describe(self, tool_id: Ref, level: DetailLevel | DetailName = "schema") -> ToolDoc:
        """Return what is known about a tool: `summary`, `schema` or `full`.

        Raises:
            ToolNotFoundError: there is no such tool, with suggestions.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
        """
        tool_id = self._id_of(tool_id)
        await self._waiting.for_tool(tool_id)
        return self.known(tool_id, level)

    async def examples(self, tool_id: Ref, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - as in the catalogue
        """Return the examples of a tool."""
        tool_id = self._id_of(tool_id)
        await self._waiting.for_tool(tool_id)
        return self._part.docs_for(tool_id).examples(tool_id, max)

    def known(self, tool_id: str | ToolId, level: DetailLevel | DetailName = "schema") -> ToolDoc:
        """Return what `describe` does, of what is known already: nobody is waited for.

        Raises:
            ToolNotFoundError: there is no such tool, with suggestions.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
            ValidationError: there is no such level.
        """
        return self._part.docs_for(tool_id).describe(tool_id, level)

    async def run(  # noqa: PLR0913 - each is another wish of the caller
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the tool's, distinct from the caller's
        progress: Progress | None = None,
        frame_progress: bool = True,
        principal: Principal | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return what it gave, as `Runner.run` does.

        Waiting for its server counts towards `timeout`. Without `frame_progress` the callback gets only the
        progress that the tool reports, without `started` and `completed`. `defaults` fills in what the input
        schema declares for arguments that are missing.

        Raises:
            ToolNotFoundError: no tool answers to the reference.
            ToolError: one of its leaves says what went wrong, on which backend, doing what.
        """
        tool_id = self._id_of(tool_id)
        self._check_open()
        self._part.waiting.check(tool_id)
        who = self._whose(principal)
        return await self._part_of(who).runner.run(
            tool_id,
            args,
            timeout=timeout,
            progress=progress,
            frame_progress=frame_progress,
            principal=who,
            defaults=defaults,
        )

    async def stream(
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        principal: Principal | None = None,
        defaults: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield what a tool tells while it runs; the last event is one `done` or one `error`."""
        tool_id = self._id_of(tool_id)
        self._check_open()
        self._part.waiting.check(tool_id)
        who = self._whose(principal)
        runner = self._part_of(who).runner
        events = runner.stream(tool_id, args, timeout=timeout, principal=who, defaults=defaults)
        async with aclosing(events):
            async for event in events:
                yield event

    @overload
    async def run_chain(
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - for all steps together
        progress: ChainProgress | None = None,
        dry_run: Literal[False] = False,
        principal: Principal | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
        durable: bool = False,
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
        principal: Principal | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
        durable: bool = False,
    ) -> ChainResult | Plan:
        """Run steps one after another and return what each gave, as `Runner.run_chain` does.

        A durable chain writes down each call, and can be taken up by `resume`.

        Raises:
            InvalidChainError: they cannot work; nothing was run.
            ChainError: a step failed; what the steps before it gave is in it.
            BackendUnavailableError: the server of a step did not list its tools in time; nothing was run.
        """
        self._check_open()
        if dry_run:
            return await self._part.runner.run_chain(steps, dry_run=True, limits=limits)
        run = self._run_steps if not durable else self._run_steps_durably
        more = {} if durable else {"around": around}
        options: dict[str, Any] = {"timeout": timeout, "progress": progress, "limits": limits, **more}
        return await run(steps, principal=self._whose(principal), **options)

    async def execute(  # noqa: PLR0913 - as for the runtime
        self,
        code: str,
        *,
        backend: SandboxKind | str | None = None,
        profile: SecurityProfile | ProfileName | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the code's, distinct from the caller's
        limits: Limits | Mapping[str, Any] | None = None,
        language_fallback: bool | None = None,
        principal: Principal | None = None,
        durable: bool = False,
    ) -> ExecuteResult:
        """Run code that calls tools, in a sandbox, as `Runtime.execute` does.

        In the code each namespace is a name: `await github.create_issue(title="...")`. What it leaves in
        `__out` is the value. What is not given here, each of the limits too, is as the configuration says
        under `code`. A durable run is written down before and after each call, and can be taken up by
        `resume`, in another process too.

        Raises:
            ValidationError: what is asked makes no sense.
            CodeError: the code is wrong, or raised.
            LimitExceededError: it used more than it was given, or took longer.
            SandboxViolationError: it tried to break the rules.
            RuntimeUnavailableError: the sandbox cannot run here, with what to install; or it is busy with the
                code of this caller and others, with when to try again.
        """
        self._check_open()
        options = {"backend": backend, "profile": profile, "timeout": timeout, "limits": limits}
        options["language_fallback"] = language_fallback
        request = self.settings.code.request(code, options)
        return await (self._execute_durably if durable else self._execute)(request, self._whose(principal))

    async def _execute(
        self, request: ExecuteRequest, principal: Principal | None, journal: RunJournal | None = None
    ) -> ExecuteResult:
        code = self.seen_by(principal)._code  # noqa: SLF001 - another view of the same
        return await code.execute(request, keep=self._keeps, principal=principal, journal=journal)

    async def _run_steps(self, steps: Steps, principal: Principal | None, **options: Any) -> ChainResult:
        return await self._part_of(principal).runner.run_chain(steps, principal=principal, **options)

    def _whose(self, principal: Principal | None) -> Principal | None:
        return principal or self._principal

    def _part_of(self, principal: Principal | None) -> EnginePart:
        """Return the tools that a principal may find here; a view without a scope runs whatever there is.

        Principals that the same rules are about share a view.
        """
        rules = self.rules
        if rules is None or self._part is self._shared.engine:
            return self._part
        is_alike = rules.grants(principal).key == rules.grants(self._principal).key
        return self._part if is_alike else self.seen_by(principal)._part  # noqa: SLF001 - another view of the same

    @property
    def _durable(self) -> DurableRuns:
        self._check_open()
        return self._shared.durable

    @property
    def _keeps(self) -> bool:
        return self._shared.state == "open"

    async def stubs(
        self, tools: Iterable[Named] | None = None, *, namespace: str | None = None, budget: int | None = None
    ) -> str:
        """Return tools as Python signatures, under the names by which code reaches them in `execute`.

        Of those named, or of what a search found; else of a namespace, or of all. `budget` is how many
        tokens the text may take, as for `Runtime.stubs`. `toolcrib.runtime.GUIDE` says the rest to a model.
        Tools that are not there are left out.

        Raises:
            InvalidToolIdError: one is named by what is no id.
        """
        named = None if tools is None else [self._id_of(tool) for tool in tools]
        await self._wait_for_named(named, namespace)
        for tool_id in named or ():
            with suppress(ToolNotFoundError):
                self.index.resolve(tool_id)
        return self._code.stubs(named, namespace, budget)

    async def _wait_for_named(self, tools: list[str | ToolId] | None, namespace: str | None = None) -> None:
        """Wait for the servers of tools that are named; where none are, of a namespace or all."""
        waiting = self._waiting
        if tools is None:
            await waiting.for_listing({"namespace": namespace})
        for tool_id in tools or ():
            await waiting.for_tool(tool_id)

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
        """Return tools in the format of a provider, each under a name of its own: all, or those named.

        The options are those of the format, such as `strict=True`. A model's call is read back with the
        `decode_call` of its tool. A `Tool` is converted as it is given.

        Raises:
            ConversionError: there is no such format, or a tool cannot be written in it.
            ToolNotFoundError: a named tool is not there.
        """
        self._check_open()
        formats = make_formats(self._shared.engine.hooks.adapters)
        named = None if tools is None else [self._given(tool) for tool in tools]
        return convert(formats, self.index, target, named, **options)

    @property
    def content(self) -> ViewContent:
        """The resources and prompts of the servers, for those who pass them on."""
        self._check_open()
        engine = self._shared.engine
        if engine.servers is None:
            raise CribStateError(f"the servers are not running: use them inside '{self._waiting.way_in}'")
        grants = None if engine.rules is None else engine.rules.grants(self._principal)
        servers, names = ServerContent(engine.servers, self._principal), self._part.content_servers()
        return ViewContent(servers, names, engine.lists, grants, engine.listing)

    async def session(
        self,
        target: "SessionTarget",
        *,
        tools: Iterable[Named] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of each call, as for run
        principal: Principal | None = None,
        **options: "Unpack[ConversionOptions]",
    ) -> ToolSession:
        """Return tools for talks with a model of `openai`, `anthropic` or `gemini`: all, or those named.

        Send its `tools` with each request, and append what its `run` makes of each response, until that is
        nothing. The options are those of `convert`; the model's calls run as `run` runs them.

        Raises:
            ConversionError: there is no such format, or a tool cannot be written in it.
            ToolNotFoundError: a named tool is not there.
        """
        named = None if tools is None else [self._id_of(tool) for tool in tools]
        await self._wait_for_named(named)
        run = partial(self.run, timeout=timeout, principal=principal)
        return ToolSession(self.convert(target, tools=named, **options), run, target, {**options})

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing, by name, without asking them anything."""
        return ServerTable(self._part.status())

    def absent(self) -> tuple[Absence, ...]:
        """Return the servers and APIs whose tools may be missing from lists and searches at this moment.

        These are those that failed, that have not answered yet, and that did not in an earlier run either;
        not those that are switched off.
        """
        return self._part.absent()

    def _id_of(self, tool: Named) -> str | ToolId:
        """Return the id of what stands for a tool."""
        summary = tool.summary if isinstance(tool, Result) else tool
        named = summary.id if isinstance(summary, Summary) else summary
        return id_of(named, self._shared.engine.handlers)

    def _given(self, tool: Named) -> str | ToolId | Tool:
        return tool if isinstance(tool, Tool) else self._id_of(tool)

    @property
    def _waiting(self) -> Waiting:
        """What a verb waits with, unless the crib is closed."""
        self._check_open()
        return self._part.waiting

    def _check_open(self) -> None:
        if self._shared.state == "closed":
            raise CribStateError("this crib is closed; make another")

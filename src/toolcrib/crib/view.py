"""The operations of a crib, on all its tools or a part of them."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import anyio
from anyio import to_thread

from toolcrib.concurrency.background import Background
from toolcrib.crib.code import CODE, Named, Sandboxes
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.content import ViewContent
from toolcrib.crib.durable import DurableRuns, is_final, journal_calls
from toolcrib.crib.engine import Engine
from toolcrib.crib.formats import check_request, convert, make_formats
from toolcrib.crib.learning import Asked, owner_of
from toolcrib.crib.pieces import PieceJournal, WantedCall
from toolcrib.crib.session import SEARCH_TOOL, SearchOnDemand, ToolSession
from toolcrib.crib.shaped import ShapedScope
from toolcrib.crib.sources.origins import Absence
from toolcrib.crib.visible import UNKNOWN, CodeNames, Ref, VisibleTools, scope_of
from toolcrib.discovery import DetailLevel, DetailName, Index, IndexView, Page, Result, Scope, Summary
from toolcrib.discovery.facade import ListOptions, SearchOptions
from toolcrib.discovery.learned import MAX_QUESTIONS, LearnedQuestion, Lift
from toolcrib.errors import (
    CallUncertainError,
    ChainError,
    CribStateError,
    InvalidToolIdError,
    LimitExceededError,
    RunStateError,
    SnapshotError,
    StoreError,
    ToolcribError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.errors.base import count_noun, join_options
from toolcrib.errors.text import truncate
from toolcrib.execution import CallContext, Request, RunResult, StreamEvent
from toolcrib.execution.arguments import check_value
from toolcrib.execution.call import NESTED_APPROVAL
from toolcrib.execution.chains import (
    Around,
    ChainLimits,
    ChainProgress,
    ChainResult,
    Plan,
    StepResult,
    Steps,
)
from toolcrib.execution.chains.advance import ChainAdvance, ChainCall, advance_chain
from toolcrib.execution.chains.parse import invalid_chain_error, read_chain
from toolcrib.execution.chains.run import name_event
from toolcrib.execution.kept import mark_handles, may_have_handles, unmark_handles
from toolcrib.execution.mcp import (
    Completion,
    OnContent,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ServerStatus,
)
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.execution.mcp.server_health import ServerTable
from toolcrib.execution.policy.rules import Rules
from toolcrib.execution.principal import Principal, slot_owner
from toolcrib.execution.progress import Progress, notify
from toolcrib.model import LocalTool, SchemaValidator, Tool, ToolDoc, ToolExample, ToolId
from toolcrib.model.backend import McpBackend
from toolcrib.model.protocols import Journal
from toolcrib.model.shape import ShapedTool
from toolcrib.model.toolid import without_version
from toolcrib.runs import RunDetails, RunRecord
from toolcrib.runs.journal import RunJournal, parse_error, serialize_error
from toolcrib.runs.keeper import HeldRun, RunKeeper
from toolcrib.runs.pieces import CallNotMadeError, NextCall, Piece, PieceReply, RunTask
from toolcrib.runs.run_record import RunKind
from toolcrib.runtime.registry import DEFAULT as DEFAULT_SANDBOX
from toolcrib.runtime.request import (
    ExecuteRequest,
    ExecuteResult,
    Limits,
    ProfileName,
    SandboxKind,
    SecurityProfile,
)

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion, ConversionOptions, SessionTarget, Target

_Page = TypeVar("_Page", Page[Result], Page[Summary])
_PROGRESS_INTERVAL = 0.25
"""Seconds between looks at the journal of a chain whose caller wants to know its progress."""
_LEAST_TIMEOUT = 0.001
"""Seconds that code has left at least: its timeout must be positive."""
_SHOWN = 500
"""Characters of an output schema that an error shows for an answer that does not fit it."""
_LARGE = 10_000
"""Tools from which on a search by words runs in a worker thread, as one by meaning always does: it takes a
millisecond or more, the thread 0.1."""


@dataclass(slots=True)
class SharedState:
    """The state that a crib and its views share."""

    engine: Engine
    sandboxes: Sandboxes = field(default_factory=Sandboxes)
    durable: DurableRuns = field(init=False)
    state: Literal["fresh", "open", "closed"] = "fresh"

    def __post_init__(self) -> None:
        self.durable = DurableRuns(lambda: self.engine.settings, self.engine.hooks)


class View:
    """The tools of a crib that a scope admits.

    Searches, lists, descriptions, calls, chains, code and conversions reach these tools only, and no result
    reveals another. No operation waits for a server that has none of them. A view lives as long as its crib,
    costs nothing to create, and is safe to use from many tasks at once.
    """

    def __init__(
        self,
        shared: SharedState,
        scope: Scope | None = None,
        principal: Principal | None = None,
        toolset: str | None = None,
    ) -> None:
        """Create a view of a scope, or of everything, for a principal; use `Crib.view` and `seen_by`.

        `toolset` is the name of the scope in the settings; None if it has none there.
        """
        self._shared, self._scope, self._principal, self._toolset = shared, scope, principal, toolset

    def __repr__(self) -> str:
        return f"<View of {count_noun(len(self.index), 'tool')}, {self._shared.state}>"

    def seen_by(self, principal: Principal | None) -> "View":
        """Return the view of a principal: the tools that the rules let it see; calls run in its name."""
        if principal is None or principal == self._principal:
            return self
        return View(self._shared, self._scope, principal, self._toolset)

    @property
    def _tools(self) -> VisibleTools:
        """The tools of this view; raises if the crib is closed."""
        self._check_open()
        return self._shared.engine.visible(self._scope, self._principal)

    def _context(self, principal: Principal | None, context: CallContext | None) -> CallContext:
        """Return the context of a call that enters here, with its principal and its reachable tools.

        A whole crib leaves the tools open: it runs any tool that the rules allow, and the runner authorizes
        each call. A view narrows them, so that hidden tools are not found.
        """
        self._check_open()
        given = context or CallContext(principal=principal or self._principal, approval=NESTED_APPROVAL.get())
        if given.principal is None and self._principal is not None:
            given = replace(given, principal=self._principal)
        if self._scope is None and self._principal is None:
            return given
        engine = self._shared.engine
        # Without rules all callers see the same, and each would get a `VisibleTools` of its own by its name.
        who = self._principal if engine.rules is None else given.principal
        return replace(given, tools=engine.visible(self._scope, who))

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
        """The rules of the configuration about who may find and run which tools; None without rules."""
        return self._shared.engine.rules

    @property
    def index(self) -> Index | IndexView:
        """The catalogue; entering a crib replaces it if it is stored in a file."""
        return self._shared.engine.visible(self._scope, self._principal).index

    def __contains__(self, tool_id: object) -> bool:
        """Return whether `crib[id]` finds a tool."""
        try:
            self[tool_id]  # type: ignore[index]
        except UNKNOWN:
            return False
        return True

    def __getitem__(self, tool_id: Ref) -> Tool:
        """Return the tool for an id or a function, if it is known; does not wait for servers.

        An id without a version means the highest one, as for `run`.

        Raises:
            ToolNotFoundError: there is no such tool; the error has suggestions.
            InvalidToolIdError: the id is invalid.
            BackendUnavailableError: its server has not listed its tools.
        """
        return self._tools.look_up(self._id_of(tool_id))

    __iter__ = None
    """Not iterable: because of `__getitem__`, Python would try the ids 0, 1, 2, ..."""

    async def search(
        self, query: str, *, context: CallContext | None = None, **options: Unpack[SearchOptions]
    ) -> Page[Result]:
        """Return the tools that fit a question, best first, as `Index.search` does.

        A server that does not answer is left out, and never makes the search fail. Questions that were
        followed by runs of a tool rank that tool higher, depending on the setting `search.learn`. With
        `explain=True`, each result has the reasons for its score (`Result.why`). `context` is for programs
        that relay the searches of others.
        """
        await self._tools.wait_for_listing(options)
        search = self.settings.search
        options.setdefault("min_confidence", search.min_confidence)
        index, learning = self.index, self._shared.engine.learning
        who = self._principal if context is None else context.principal or self._principal
        learned = search.learn != "off" and learning.questions.count > 0
        find: Callable[[], Page[Result]] = lambda: index.search(  # noqa: E731 - maybe for a thread
            query, lifts=self._find_lifts(query, who) if learned else None, **options
        )
        if search.searcher == "bm25" and len(self._shared.engine.index) < _LARGE:
            page = find()
        else:
            page = await to_thread.run_sync(find)
        if search.learn != "off" and page.items:
            client = None if context is None else context.client
            session = None if client is None else client.session
            is_later_page = bool(options.get("cursor"))
            learning.events.append(Asked(monotonic(), who, session, query, page, self._scope, is_later_page))
        if options.get("explain") and isinstance(self._scope, ShapedScope):
            page = page.model_copy(update={"items": tuple(map(self._hide_learned, page.items))})
        return self._note_unanswered(page, options.get("namespace"))

    def _note_unanswered(self, page: _Page, namespace: str | None) -> _Page:
        """Return a page with the names of the servers whose tools may be missing from it."""
        if not self._shared.engine.names:
            return page
        names = tuple(each.name for each in self.absent() if not each.kept and namespace in {None, each.name})
        return page.model_copy(update={"unanswered": names}) if names else page

    def _hide_learned(self, result: Result) -> Result:
        """Return a result without the learned questions that contain words that its shape hides."""
        tool = self.index.get(result.id)
        if not isinstance(tool, ShapedTool):
            return result
        why = (
            each.model_copy(update={"text": ""})
            if each.kind == "learned" and tool.hides_word_in(each.text)
            else each
            for each in result.why
        )
        return result.model_copy(update={"why": tuple(why)})

    def _find_lifts(self, query: str, who: Principal | None) -> dict[str, Lift]:
        """Return how far learned questions raise the tools of this view."""
        engine = self._shared.engine
        lifts = engine.learning.questions.lifts(query, self._owner_of_learned(who))
        scope = self._scope
        return (
            {scope.seen(one): lift for one, lift in lifts.items()}
            if isinstance(scope, ShapedScope)
            else lifts
        )

    def _owner_of_learned(self, who: Principal | None) -> str | None:
        """Return the owner of the questions that a principal may see; None for those of all."""
        return None if self.settings.search.learn == "shared" else owner_of(who)

    async def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids, as `Index.tools` does."""
        await self._tools.wait_for_listing(options)
        return self._note_unanswered(self.index.tools(**options), options.get("namespace"))

    async def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without a namespace."""
        await self._tools.wait_for_listing({})
        return self.index.namespaces()

    async def learned(self, tool_id: str | None = None) -> tuple[LearnedQuestion, ...]:
        """Return the questions learned from use: for a tool, without its version, or for all.

        A view returns those of its principal, or else of the program and its user, for the tools in the view,
        by their ids there. A crib returns those of all principals.
        """
        self._check_open()
        learning = self._shared.engine.learning
        await to_thread.run_sync(learning.flush)
        if self._own_learned is None:
            return learning.questions.listed(tool_id)
        return tuple(
            each.replace(tool_id=self._seen_id(each.tool_id))
            for each in learning.questions.listed(owner=self._own_learned)
            if self._shows(each.tool_id, tool_id)
        )

    async def forget_learned(self, tool_id: str | None = None, question: str | None = None) -> int:
        """Delete the questions that `learned` returns, or one of them; return the number deleted.

        Raises:
            StoreError: they cannot be deleted.
        """
        self._check_open()
        learning = self._shared.engine.learning
        await to_thread.run_sync(learning.flush)
        owner = self._own_learned
        if owner is None:
            return await to_thread.run_sync(learning.questions.forget, tool_id, question)
        shows = partial(self._shows, asked=tool_id)
        return await to_thread.run_sync(learning.questions.forget, None, question, owner, shows)

    @property
    def _own_learned(self) -> str | None:
        """The owner whose questions are listed and deleted here; None for everybody's."""
        is_whole = self._scope is None and self._principal is None
        return None if is_whole else owner_of(self._principal)

    def _shows(self, own_id: str, asked: str | None) -> bool:
        """Return whether this view shows a tool, and by the requested id, if there is one."""
        seen = self._seen_id(own_id)
        return asked in {None, seen} and bool(self.index.versions(seen))

    def _seen_id(self, own_id: str) -> str:
        return self._scope.seen(own_id) if isinstance(self._scope, ShapedScope) else own_id

    async def describe(
        self,
        tool_id: Ref,
        level: DetailLevel | DetailName = "schema",
        *,
        context: CallContext | None = None,
    ) -> ToolDoc:
        """Return the documentation of a tool at a level of detail: `summary`, `schema` or `full`.

        `full` includes the text written by `toolcrib enrich`, and the questions that the caller (of
        `context`, if given) asked before it ran the tool.

        Raises:
            ToolNotFoundError: there is no such tool; the error has suggestions.
            BackendUnavailableError: the tool may belong to a server that has not listed its tools.
        """
        tool_id = self._id_of(tool_id)
        await self._tools.wait_for(tool_id)
        doc = self.known(tool_id, level)
        who = self._principal if context is None else context.principal or self._principal
        if doc.tool is None or level != DetailLevel.FULL:
            return doc
        tool = doc.tool
        doc = self._describe_enriched(doc, tool)
        if self.settings.search.learn == "off":
            return doc
        learned = self._describe_learned(tool, self._owner_of_learned(who))
        return doc.replace(learned=learned) if learned else doc

    def _describe_enriched(self, doc: ToolDoc, tool: Tool) -> ToolDoc:
        """Add the text of a language model about a tool, without words hidden by its shape."""
        written = self._shared.engine.discovery.enriched.find(tool)
        if written is None:
            return doc
        hidden = tool.hides_word_in if isinstance(tool, ShapedTool) else lambda _: False
        return doc.replace(
            when_to_use=None if hidden(written.when_to_use) else written.when_to_use or None,
            questions=tuple(text for text in written.questions if not hidden(text)),
        )

    def _describe_learned(self, tool: Tool, owner: str | None) -> tuple[str, ...]:
        """Return the questions learned for a tool, without those that contain words hidden by its shape."""
        own = tool.origin if isinstance(tool, ShapedTool) else tool
        rows = self._shared.engine.learning.questions.listed(without_version(str(own.id)), owner)
        told = dict.fromkeys(row.question for row in rows if row.uses > row.misses)
        return tuple(
            text for text in told if not (isinstance(tool, ShapedTool) and tool.hides_word_in(text))
        )[:MAX_QUESTIONS]

    def warnings(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return a sentence for each of the given known tools that has findings of the scan."""
        engine = self._shared.engine
        found = (engine.scans.warning(self.index.get(each)) for each in ids)
        return tuple(each for each in found if each is not None)

    async def examples(self, tool_id: Ref, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - as in the catalogue
        """Return the examples of a tool."""
        tool_id = self._id_of(tool_id)
        await self._tools.wait_for(tool_id)
        return self._tools.docs_for(tool_id).examples(tool_id, max)

    def known(self, tool_id: str | ToolId, level: DetailLevel | DetailName = "schema") -> ToolDoc:
        """Return the documentation of a known tool, as `describe` does, but without waiting for servers.

        Raises:
            ToolNotFoundError: there is no such tool; the error has suggestions.
            BackendUnavailableError: its server has not listed its tools.
            ValidationError: there is no such level.
        """
        doc = self._tools.docs_for(tool_id).describe(tool_id, level)
        warning = self._shared.engine.scans.warning(self._tools.look_up(tool_id))
        return doc if warning is None else doc.replace(warnings=(warning,))

    async def run(  # noqa: PLR0913 - each is another wish of the caller
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the tool's, distinct from the caller's
        progress: Progress | None = None,
        frame_progress: bool = True,
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return its result, as `Runner.run` does.

        Waiting for its server counts towards `timeout`. Without `frame_progress` the callback gets only the
        progress that the tool reports, without `started` and `completed`. `defaults` fills in missing
        arguments from the input schema. `context` is for programs that relay calls of others: it describes
        the whole call, and replaces `principal`.

        Raises:
            ToolNotFoundError: no tool matches the reference.
            ToolError: the call failed; a subclass, with the reason, the backend and the stage.
        """
        return await self._shared.engine.runner.run(
            self._id_of(tool_id),
            args,
            timeout=timeout,
            progress=progress,
            frame_progress=frame_progress,
            context=self._context(principal, context),
            defaults=defaults,
        )

    async def stream(
        self,
        tool_id: Ref,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the updates of a running tool; the last event is one `done` or one `error`."""
        tool_id, context = self._id_of(tool_id), self._context(principal, context)
        runner = self._shared.engine.runner
        events = runner.stream(tool_id, args, timeout=timeout, context=context, defaults=defaults)
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
        context: CallContext | None = None,
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
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
        durable: bool = False,
    ) -> ChainResult | Plan:
        """Run steps one after another and return their results, as `Runner.run_chain` does.

        A durable chain records each call, and can be continued by `resume`.

        Raises:
            InvalidChainError: the steps are invalid; nothing was run.
            ChainError: a step failed; the error has the results of the steps before it.
            BackendUnavailableError: the server of a step did not list its tools in time; nothing was run.
        """
        context = self._context(principal, context)
        runner = self._shared.engine.runner
        if dry_run:
            return await runner.run_chain(steps, dry_run=True, context=context, limits=limits)
        if durable:
            options: dict[str, Any] = {"timeout": timeout, "progress": progress, "limits": limits}
            return await self._run_chain_durably(steps, context, **options)
        return await runner.run_chain(
            steps, timeout=timeout, progress=progress, context=context, limits=limits, around=around
        )

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
        context: CallContext | None = None,
        durable: bool = False,
    ) -> ExecuteResult:
        """Run code that calls tools, in a sandbox, as `Runtime.execute` does.

        In the code, each namespace is an object: `await github.create_issue(title="...")`. The value of the
        run is that of `__out`. Options that are not given, including each limit, come from the section `code`
        of the configuration. A durable run is recorded before and after each call, and can be continued by
        `resume`, even in another process.

        Raises:
            ValidationError: the options are invalid.
            CodeError: the code is invalid, or raised an error.
            LimitExceededError: the code exceeded a limit or its timeout.
            SandboxViolationError: the code tried something that the sandbox forbids.
            RuntimeUnavailableError: the sandbox cannot run here, and the error has the remedy; or it is busy
                with the code of this caller and others, and the error has the time to wait.
        """
        context = self._context(principal, context)
        options = {"backend": backend, "profile": profile, "timeout": timeout, "limits": limits}
        options["language_fallback"] = language_fallback
        request = self.settings.code.request(code, options)
        return await (self._execute_durably if durable else self._execute)(request, context)

    async def _execute(
        self, request: ExecuteRequest, context: CallContext, journal: Journal | None = None
    ) -> ExecuteResult:
        view = self.seen_by(context.principal)
        return await self._shared.sandboxes.execute(
            request,
            CodeGateway(view, context),
            view.code_names,
            allow_unsafe=self.settings.code.allow_unsafe,
            caller=slot_owner(context.principal),
            keep=self._is_entered,
            journal=journal,
        )

    @property
    def code_names(self) -> CodeNames:
        """The tools that code may name, for programs that run it in their own `Runtime`."""
        self._check_open()
        return CodeNames(lambda: self._shared.engine.visible(self._scope, self._principal))

    @property
    def _durable(self) -> DurableRuns:
        self._check_open()
        return self._shared.durable

    @property
    def _is_entered(self) -> bool:
        return self._shared.state == "open"

    async def stubs(
        self, tools: Iterable[Named] | None = None, *, namespace: str | None = None, budget: int | None = None
    ) -> str:
        """Return tools as Python signatures, under the names that code uses for them in `execute`.

        The tools are those named or those that a search found; otherwise those of a namespace, or all.
        `budget` limits the tokens of the text, as for `Runtime.stubs`. `toolcrib.runtime.GUIDE` explains the
        rest to a model. Unknown tools are left out.

        Raises:
            InvalidToolIdError: a name is not a valid tool id.
        """
        named = None if tools is None else [self._id_of(tool) for tool in tools]
        await self._wait_for_named(named, namespace)
        if named is not None:
            named = [self._tools.seen_ref(each) for each in named]
            for tool_id in named:
                with suppress(ToolNotFoundError):
                    self.index.resolve(tool_id)
        return self.code_names.stubs(named, namespace, budget)

    async def _wait_for_named(self, tools: list[str | ToolId] | None, namespace: str | None = None) -> None:
        """Wait for the servers of named tools; without names, for those of a namespace or all."""
        if tools is None:
            await self._tools.wait_for_listing({"namespace": namespace})
        for tool_id in tools or ():
            await self._tools.wait_for(tool_id)

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
        """Return tools in the format of a provider, each under a unique name: all, or those named.

        The options are those of the format, such as `strict=True`. Decode a model's call with the
        `decode_call` of its tool. A `Tool` is converted as is.

        Raises:
            ConversionError: there is no such format, or a tool cannot be written in it.
            ToolNotFoundError: a named tool does not exist.
        """
        self._check_open()
        check_request(tools, options, ["tools"], target)
        formats = make_formats(self._shared.engine.hooks.adapters)
        named = None if tools is None else [self._tool_or_id(tool) for tool in tools]
        return convert(formats, self.index, target, named, self._tools.look_up, **options)

    @property
    def content(self) -> ViewContent:
        """The resources and prompts of the servers, for programs that pass them on."""
        return self.content_for(CallContext(principal=self._principal))

    def content_for(self, context: CallContext) -> ViewContent:
        """Return the resources and prompts of the servers, as requested on behalf of a caller."""
        if context.principal is None:
            context = replace(context, principal=self._principal)
        engine, tools = self._shared.engine, self._tools
        if engine.servers is None:
            raise CribStateError(f"the servers are not running: use them inside '{engine.way_in}'")
        grants = None if engine.rules is None else engine.rules.grants(context.principal)
        servers, names = ServerContent(engine.servers, context), tools.content_servers()
        return ViewContent(servers, names, engine.lists, grants, engine.listing, engine.gate)

    async def resources(self) -> tuple[Resource, ...]:
        """Return the resources of the servers, without those of servers that are not known yet; see `absent`.

        Resources stored by an earlier run are returned at once. If a server has no stored ones, this waits
        for its answer, and leaves the server out if there is none; a server that does not announce changes
        is asked again.
        """
        return await self.content.resources()

    async def resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return the resource templates of the servers, as `resources` does."""
        return await self.content.templates()

    async def read(self, uri: str, *, server: str | None = None) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource; `server` selects one if several have the URI.

        Raises:
            ResourceNotFoundError: no server lists it or has a template for it.
            RequestRefusedError: the server refuses to return it.
            ServerUnavailableError: the server that has it, or may have it, does not answer.
        """
        return await self.content.read(uri, server)

    async def prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts of the servers, as `resources` does."""
        return await self.content.prompts()

    async def prompt(self, name: str, args: Mapping[str, str] | None = None) -> PromptResult:
        """Return the messages of a prompt, filled in; the name is `server:name`, or `name` if it is unique.

        Raises:
            PromptNotFoundError: no server has it, or several do.
            RequestRefusedError: the server refuses to return it, for example because an argument is missing.
            ServerUnavailableError: the server that has it, or may have it, does not answer.
        """
        return await self.content.prompt(name, args or {})

    async def complete(
        self, ref: str, argument: str, value: str = "", *, args: Mapping[str, str] | None = None
    ) -> Completion:
        """Return completions of a value, for an argument of a prompt or of a resource template.

        `args` are the arguments given already. Raises the same errors as `prompt` and `read`.
        """
        return await self.content.complete(ref, argument, value, args or {})

    async def watch(self, uri: str, *, server: str | None = None) -> Callable[[], Awaitable[None]]:
        """Subscribe `on_content_change` to a resource; return the function that ends this subscription."""
        return await self.content.watch(uri, server)

    def on_content_change(self, callback: OnContent) -> Callable[[], None]:
        """Register a callback for changes of resources and prompts; return the function that removes it."""
        return self.content.on_change(callback)

    async def session(
        self,
        target: "SessionTarget",
        *,
        tools: Iterable[Named] | None = None,
        search: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - of each call, as for run
        principal: Principal | None = None,
        **options: "Unpack[ConversionOptions]",
    ) -> ToolSession:
        """Return all tools, or those named, for conversations with `openai`, `anthropic` or `gemini` models.

        Send its `tools` with each request, and append the messages that its `run` returns for each response,
        until there are none. The options are those of `convert`; the model's calls run as `run` runs them.

        With `search`, the model has `search_tools` in addition to those named, and the tools that it finds
        are in the `tools` of the next request. Such a session is for one conversation.

        Raises:
            ConversionError: there is no such format, or a tool cannot be written in it.
            ToolNotFoundError: a named tool does not exist.
        """
        check_request(tools, options, ["tools", "search", "timeout", "principal"], target)
        named = None if tools is None else [self._id_of(tool) for tool in tools]
        await self._wait_for_named(named)
        run = partial(self.run, timeout=timeout, principal=principal)
        if search:
            on_demand = self._search_on_demand(target, named or [], principal, {**options})
            return ToolSession(on_demand.convert(), run, target, {**options}, on_demand)
        return ToolSession(self.convert(target, tools=named, **options), run, target, {**options})

    def _search_on_demand(
        self,
        target: str,
        named: "Sequence[str | ToolId]",
        principal: Principal | None,
        options: dict[str, Any],
    ) -> SearchOnDemand:
        """Return the search of a session, which has the named tools from the beginning."""
        formats = make_formats(self._shared.engine.hooks.adapters)
        for tool_id in named:
            self.seen_by(principal)[tool_id]  # a name that is wrong is told at once

        def convert(found: Sequence[str]) -> "list[Conversion]":
            view = self.seen_by(principal)
            tools: dict[str, Tool] = {}
            for tool_id in (*named, *found):
                with suppress(ToolcribError):  # it has gone since it was named or found
                    tool = view[tool_id]
                    tools.setdefault(str(tool.id), tool)
            return formats.convert_many(
                [SEARCH_TOOL, *tools.values()], source="mcp", target=target, **options
            )

        async def search(query: str, limit: int) -> Page[Result]:
            return await self.seen_by(principal).search(query, limit=limit)

        return SearchOnDemand(search, convert)

    async def _is_repeatable(self, tool_id: str) -> bool:
        """Return whether running a tool twice has the same effect as running it once."""
        await self._tools.wait_for(tool_id)
        try:
            return Request(tool=self._tools.look_up(tool_id), args={}).repeatable
        except ToolcribError:  # it is gone
            return False

    async def _check_answer(self, key: str, tool_id: str, answer: Any) -> None:
        """Reject an answer that does not fit the output schema, before the code continues with it."""
        await self._tools.wait_for(tool_id)
        tool = self._tools.look_up(tool_id)
        try:
            check_value(self.validator.validate_output, tool, answer, "validate_output")
        except ValidationError as error:
            schema = json.dumps(tool.output_schema, ensure_ascii=False)
            reason = f"the answer to call {key} of {tool_id!r} does not fit its output schema"
            text = f"{reason}, and was not recorded: {error}; the schema: {truncate(schema, _SHOWN)}"
            raise ValidationError(error.problems, text) from error

    async def runs(self, *, principal: Principal | None = None) -> tuple[RunRecord, ...]:
        """Return the durable runs, the latest first: those of a principal, or of the program itself."""
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            found = await keeper.runs(principal or self._principal)
        ended = await self._durable.find_ended(found)
        return tuple(_without_ended(run, ended) for run in found)

    async def describe_run(self, run_id: str, *, principal: Principal | None = None) -> RunDetails:
        """Return a durable run with its code or steps, and its calls or its result.

        Raises:
            RunNotFoundError: there is none, or it belongs to another principal.
            SnapshotError: the stored run was modified, or signed with another key.
        """
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            details = await keeper.read(run_id, principal or self._principal)
        ended = await self._durable.find_ended([details.run])
        return details.replace(run=_without_ended(details.run, ended)) if ended else details

    async def cancel_run(self, run_id: str, *, principal: Principal | None = None) -> None:
        """Cancel a durable run of this process, or one that Temporal executes; it can be resumed.

        Raises:
            RunNotFoundError: there is none, or it belongs to another principal.
            RunStateError: it is not running, or another process runs it.
            EngineUnavailableError: Temporal executes it, and cannot be reached.
        """
        found = await self.describe_run(run_id, principal=principal)
        if found.run.state != "running":
            raise RunStateError(run_id, f"it is {found.run.state}, not running")
        if found.run.workflow is not None:
            await self._durable.cancel_workflow(found.run.workflow)
        elif not self._durable.cancel(run_id):
            raise RunStateError(run_id, "another process runs it, and only that process can cancel it")

    async def resume(
        self,
        run_id: str,
        *,
        repeat: bool = False,
        answers: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
        context: CallContext | None = None,
    ) -> ExecuteResult | ChainResult:
        """Continue a durable run and return its result; return the stored one if it is done.

        It continues in the toolset that it was started in, as currently configured.

        Answered calls are not repeated. Calls that were started but have no known answer are repeated if the
        tool is annotated as read-only or idempotent.

        Args:
            run_id: the run, as `runs` lists it.
            repeat: also repeat other calls that may have run.
            answers: the results of such calls, by key, which are then not repeated.
            principal: the owner of the run.
            context: as for `run`.

        Raises:
            RunNotFoundError: there is none, or it belongs to another principal.
            RunStateError: it is running, or it has failed; or it is done, and answers were given; or this
                view has a different toolset than the run.
            ConfigError: its toolset is no longer in the settings.
            ToolNotFoundError: an answer is for a tool that does not exist; the run is unchanged.
            ValidationError: an answer does not fit the output schema of its tool; the run is unchanged.
            SnapshotError: the stored run was modified, was signed with another key, or is too old.
            CallUncertainError: calls may have run, and repeating them may do harm.
            EngineUnavailableError: Temporal executes it, and cannot be reached.
        """
        given, context = context, self._context(principal, context)
        who = context.principal
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            listed = (await keeper.read(run_id, who)).run
            view = self._view_of_run(listed)
            if view is not self:
                return await view.resume(
                    run_id, repeat=repeat, answers=answers, principal=principal, context=given
                )
            ended = await self._durable.find_ended([listed])
            workflow = await self._durable.new_workflow()
            run = await keeper.resume(
                run_id,
                who,
                is_repeatable=self._is_repeatable,
                check_answer=self._check_answer,
                repeat=repeat,
                answers=answers,
                workflow=workflow,
                ended=next(iter(ended), None),
            )
            kind = ExecuteResult if run.kind == "code" else ChainResult
            if run.journal is None:
                return kind.from_json(run.result)
            if workflow is not None:
                begun = _BegunRun(keeper, run_id, run.kind, run.request, workflow)
                return kind.from_json(await self._run_workflow(begun, context))
            if run.kind == "code":
                return await self._run_journaled_code(keeper, run.journal, run.request, context)
            return await self._run_journaled_chain(keeper, run.journal, run.request, context)

    @property
    def _toolset_key(self) -> str:
        """The toolset of this view, as the record of a run names it."""
        if self._scope is None:
            return ""
        if self._toolset:
            return self._toolset
        scope = self._scope
        key = scope.key if isinstance(scope, ShapedScope) else json.dumps(scope.to_json(), sort_keys=True)
        return f"#{sha256(key.encode()).hexdigest()[:16]}"

    def _view_of_run(self, run: RunRecord) -> "View":
        return self._view_of_toolset(run.id, run.toolset)

    def _view_of_toolset(self, run_id: str, toolset: str | None) -> "View":
        """Return the view in which a run continues: this one, or that of its toolset if this is the crib.

        Raises:
            RunStateError: it was begun in other tools than those of this view.
            ConfigError: its toolset is no longer in the settings.
        """
        if toolset is None or toolset == self._toolset_key:
            return self
        if self._scope is None and not toolset.startswith("#"):
            return View(self._shared, scope_of(toolset, self.settings), self._principal, toolset)
        if not toolset:
            reason = "it was begun without a toolset; resume it without one"
        elif toolset.startswith("#"):
            reason = "it was begun in a toolset without a name; resume it with `Crib.view` of the same"
        else:
            reason = f"it was begun in the toolset {toolset!r}; resume it there, or without a toolset"
        raise RunStateError(run_id, reason)

    async def _execute_durably(self, request: ExecuteRequest, context: CallContext) -> ExecuteResult:
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            asked = request.model_dump(mode="json")
            workflow = await self._durable.new_workflow()
            journal = await keeper.begin("code", asked, context.principal, self._toolset_key, workflow)
            if workflow is not None:
                begun = _BegunRun(keeper, journal.run_id, "code", asked, workflow)
                return ExecuteResult.from_json(await self._run_workflow(begun, context))
            return await self._run_journaled_code(keeper, journal, asked, context)

    async def _run_journaled_code(
        self, keeper: RunKeeper, journal: RunJournal, asked: dict[str, Any], context: CallContext
    ) -> ExecuteResult:
        run = partial(self._execute, ExecuteRequest(**asked), context, journal)
        return await self._durable.run_to_end(keeper, journal, run)

    async def _run_chain_durably(
        self,
        steps: Steps,
        context: CallContext,
        *,
        timeout: float | None,  # noqa: ASYNC109 - the chain's
        progress: ChainProgress | None,
        limits: ChainLimits | None,
    ) -> ChainResult:
        chain, problems = read_chain(steps, limits)
        if problems:
            raise invalid_chain_error(problems)
        asked = {
            "steps": [node.step.to_json() for node in chain.nodes],
            "timeout": timeout,
            "limits": None if limits is None else asdict(limits),
        }
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            workflow = await self._durable.new_workflow()
            journal = await keeper.begin("chain", asked, context.principal, self._toolset_key, workflow)
            if workflow is not None:
                begun = _BegunRun(keeper, journal.run_id, "chain", asked, workflow)
                return ChainResult.from_json(await self._run_workflow(begun, context, progress))
            return await self._run_journaled_chain(keeper, journal, asked, context, progress)

    async def _run_journaled_chain(
        self,
        keeper: RunKeeper,
        journal: RunJournal,
        asked: dict[str, Any],
        context: CallContext,
        progress: ChainProgress | None = None,
    ) -> ChainResult:
        limits = None if asked["limits"] is None else ChainLimits(**asked["limits"])

        async def run() -> ChainResult:
            result = await self._shared.engine.runner.run_chain(
                asked["steps"],
                timeout=asked["timeout"],
                progress=progress,
                context=context,
                limits=limits,
                around=journal_calls(journal),
            )
            return result.replace(run_id=journal.run_id)

        return await self._durable.run_to_end(keeper, journal, run)

    async def _run_workflow(
        self, run: "_BegunRun", context: CallContext, progress: ChainProgress | None = None
    ) -> Any:
        """Have Temporal do a run, and return its result as JSON, or raise its error."""
        engine = self._durable.engine
        queue = engine.queue
        if run.kind == "code":
            queue = f"{queue}-{run.request['backend'] or DEFAULT_SANDBOX}"
        sealed = run.keeper.seal_principal(run.id, context.principal)
        task = RunTask(run.id, sealed, queue, engine.heartbeat, run.request["timeout"])
        reported = None if progress is None else _Reported(progress, len(run.request["steps"]))
        async with AsyncExitStack() as stack:
            if reported is not None:
                reporting = Background(partial(self._follow_progress, run, context, reported))
                stack.push_async_callback(reporting.stop)
            ended = await self._durable.run_workflow(run.keeper, task, run.workflow)
        return await self._read_end(run, ended, context, reported)

    async def _read_end(
        self, run: "_BegunRun", ended: PieceReply, context: CallContext, reported: "_Reported | None"
    ) -> Any:
        """Return the result of a run whose workflow has ended, as JSON, or raise its error."""
        match ended.end:
            case "done" | "failed":
                try:
                    result = await run.keeper.read_end(run.id)
                except ChainError as error:
                    if reported is not None:
                        await reported.finish(error.results)
                    raise
                if reported is not None:
                    await reported.finish(ChainResult.from_json(result).results)
                return result
            case "stopped":
                raise parse_error(json.loads(ended.error))
            case "timeout" if run.kind == "code":
                raise LimitExceededError("timeout", _describe_timeout(run.request["timeout"]))
            case "timeout":
                journal = await run.keeper.read_journal(run.id)
                advanced = await self._advance_chain(run.request, journal, context, expired=True)
                raise advanced.error or RunStateError(run.id, "it timed out; it can be resumed")
        uncertain = (await run.keeper.read(run.id, context.principal)).run.uncertain
        unsafe = {key: tool for key, tool in uncertain.items() if not await self._is_repeatable(tool)}
        if unsafe:
            raise CallUncertainError(run.id, unsafe)
        reason = "its workers failed repeatedly, as their logs show; it can be resumed"
        raise RunStateError(run.id, reason)

    async def _follow_progress(self, run: "_BegunRun", context: CallContext, reported: "_Reported") -> None:
        """Report the progress of a chain that workers run, as its journal shows it."""
        while True:
            with suppress(ToolcribError):  # it has ended, or the store is away for a moment
                journal = await run.keeper.read_journal(run.id)
                advanced = await self._advance_chain(run.request, journal, context)
                await reported.report(advanced.events)
            await anyio.sleep(_PROGRESS_INTERVAL)

    async def _advance_chain(
        self, asked: dict[str, Any], journal: RunJournal, context: CallContext, *, expired: bool = False
    ) -> ChainAdvance:
        """Return how far a chain comes with the answers in its journal."""
        limits = None if asked["limits"] is None else ChainLimits(**asked["limits"])
        runner = self._shared.engine.runner
        chain = await runner.check_chain(asked["steps"], context=context, limits=limits)

        def find_result(call: ChainCall) -> RunResult | None:
            answer = journal.find_answer(call.key, call.tool_id, unmark_handles(call.args))
            return None if answer is None else answer.replay()

        advance = partial(advance_chain, chain, find_result, limits=limits)
        return await to_thread.run_sync(partial(advance, expired=asked["timeout"] if expired else None))

    async def _do_piece(self, piece: Piece) -> PieceReply:
        """Do a piece of a durable run for Temporal: make a call, or find the next calls, or both.

        Raises:
            CallNotMadeError: the call was certainly not made.
            RunStateError: the workflow does not hold the run any more.
        """
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            try:
                return await self._do_held_piece(keeper, piece)
            except RunStateError:
                end = await keeper.find_end(piece.run_id)
                if not end:
                    raise
                return PieceReply(end=end)  # by an earlier attempt, whose worker died before it could say so

    async def _do_held_piece(self, keeper: RunKeeper, piece: Piece) -> PieceReply:
        if piece.key is not None:
            await self._make_held_call(keeper, piece, piece.key)
        if not piece.advances:
            return PieceReply(advanced=False)
        try:
            return await self._advance_held_run(keeper, piece)
        except ToolcribError:
            if piece.key is None:
                raise
            return PieceReply(advanced=False)  # the call was made: only the advance is tried again

    async def _make_held_call(self, keeper: RunKeeper, piece: Piece, key: str) -> None:
        """Make a call that was begun, and record its answer."""
        try:
            run = await keeper.read_held(piece.run_id, piece.workflow)
            view, principal = self._place_of(keeper, run, piece)
        except RunStateError:
            raise
        except ToolcribError as error:
            raise CallNotMadeError(str(error)) from error
        call = run.journal.open_call(key)
        if call is None:  # an earlier attempt has recorded its answer
            return
        if principal is None and run.kind == "code":
            principal = CODE
        tool_id, args = call
        make = partial(view.run, tool_id, args, timeout=piece.within, principal=principal)
        await run.journal.make_begun_call(key, make)

    async def _advance_held_run(self, keeper: RunKeeper, piece: Piece) -> PieceReply:
        """Advance a run in its toolset; one that no worker like this one can read is stopped."""
        try:
            run = await keeper.take(piece.run_id, piece.workflow)
        except SnapshotError as error:
            return _stop_with(error)
        try:
            view, principal = self._place_of(keeper, run, piece)
        except ToolcribError as error:
            return _stop_with(error)
        return await view._advance_run(run, piece, principal)  # noqa: SLF001 - of its own kind

    async def _advance_run(self, run: HeldRun, piece: Piece, principal: Principal | None) -> PieceReply:
        """Find and begin the next calls of a run, or end it."""
        journal, context = run.journal, self._context(principal, None)
        if any(journal.open_call(key) for key in piece.lost):
            return PieceReply(end="uncertain")
        try:
            if run.kind == "chain":
                wanted, result = await self._find_chain_calls(run.request, journal, context)
            else:
                wanted, result = await self._find_code_calls(run.request, journal, context, piece.elapsed)
        except (SnapshotError, StoreError):
            raise  # tried again by Temporal
        except ToolcribError as error:
            if getattr(error, "retry_after", None) is not None:  # the sandbox is busy
                raise
            if piece.running:  # what other workers do is not cut off
                return PieceReply()
            if not is_final(error, journal):
                return _stop_with(error)
            await journal.end("failed", {"message": str(error), "error": serialize_error(error)})
            return PieceReply(end="failed")
        if result is not None:
            await journal.end("done", result)
            return PieceReply(end="done")
        return PieceReply(calls=await self._begin_calls(journal, wanted, piece.running))

    async def _begin_calls(
        self, journal: RunJournal, wanted: Iterable[WantedCall], running: Collection[str]
    ) -> tuple[NextCall, ...]:
        """Record calls before workers make them; those of `running` are being made."""
        calls = []
        for call in wanted:
            if call.key not in running:
                await journal.begin_call(call.key, call.tool_id, call.args)
                queue = await self._queue_for(call.tool_id)
                repeatable = await self._is_repeatable(call.tool_id)
                calls.append(NextCall(call.key, call.tool_id, queue, repeatable, call.within))
        return tuple(calls)

    async def _find_chain_calls(
        self, asked: dict[str, Any], journal: RunJournal, context: CallContext
    ) -> tuple[Iterable[WantedCall], Any]:
        """Return the calls that a chain makes next, and its result as JSON if it has ended."""
        advanced = await self._advance_chain(asked, journal, context)
        if advanced.error is not None:
            raise advanced.error
        if advanced.result is not None:
            result = advanced.result.replace(run_id=journal.run_id)
            return (), result.model_dump(mode="json", by_alias=True)
        wanted = [
            WantedCall(call.key, call.tool_id, unmark_handles(call.args), call.timeout)
            for call in advanced.calls
        ]
        return wanted, None

    async def _find_code_calls(
        self, asked: dict[str, Any], journal: RunJournal, context: CallContext, elapsed: float
    ) -> tuple[Iterable[WantedCall], Any]:
        """Run code from its state to its next calls; return these, and its result as JSON if it has ended."""
        left = max(_LEAST_TIMEOUT, asked["timeout"] - elapsed)
        request = ExecuteRequest(**{**asked, "timeout": left})
        piece = PieceJournal(journal)
        ended: list[ExecuteResult | ToolcribError] = []

        async def run() -> None:
            try:
                ended.append(await self._execute(request, context, piece))
            except ToolcribError as error:
                ended.append(error)
            piece.ready.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await piece.ready.wait()
            tasks.cancel_scope.cancel()
        if not ended:
            return piece.wanted.values(), None
        [end] = ended
        if isinstance(end, LimitExceededError) and end.limit == "timeout":
            end.reason = _describe_timeout(asked["timeout"])
        if isinstance(end, ToolcribError):
            raise end
        return (), end.replace(duration=end.duration + elapsed).model_dump(mode="json", by_alias=True)

    def _place_of(self, keeper: RunKeeper, run: HeldRun, piece: Piece) -> tuple["View", Principal | None]:
        """Return the view in which a run makes its calls, and its principal."""
        return self._view_of_toolset(piece.run_id, run.toolset), keeper.open_principal(
            piece.run_id, piece.principal
        )

    async def _queue_for(self, tool_id: str) -> str:
        """Return the task queue of the workers that can make a call: those with Docker, for its wall."""
        queue = self._durable.engine.queue
        try:
            await self._tools.wait_for(tool_id)
            backends = self._tools.find(tool_id).backends
        except ToolcribError:  # the call itself then fails with this error
            return queue
        servers = self.settings.servers
        names = {each.server_name for each in backends if isinstance(each, McpBackend)}
        walls = {servers[name].sandbox for name in names if name in servers}
        return f"{queue}-docker" if walls == {"docker"} else queue

    async def _release_piece(self, piece: Piece) -> None:
        """Release a run that its workflow gives up."""
        async with self._durable.keeper(keep=self._is_entered) as keeper:
            await keeper.release_workflow(piece.run_id, piece.workflow)

    def status(self) -> dict[str, ServerStatus]:
        """Return the status of the servers and APIs, by name, without sending them requests."""
        return ServerTable(self._shared.engine.visible(self._scope, self._principal).status())

    def absent(self) -> tuple[Absence, ...]:
        """Return the servers and APIs whose tools may be missing from lists and searches at this moment.

        These are the ones that failed, and those that have not answered yet and have no tools stored by an
        earlier run; disabled ones are not included.
        """
        return self._shared.engine.visible(self._scope, self._principal).absent()

    def _id_of(self, ref: Named) -> str | ToolId:
        """Return the id of a reference to a tool.

        Raises:
            ToolNotFoundError: a function that was not added.
            InvalidToolIdError: a function that was added as several tools.
        """
        if isinstance(ref, str | ToolId):
            return ref
        if isinstance(ref, Result | Summary):
            return (ref.summary if isinstance(ref, Result) else ref).id
        if isinstance(ref, Tool):
            return ref.id
        if not callable(ref):
            return ref  # refused where it is resolved
        names = self._shared.engine.handlers.names_of(ref)
        if isinstance(ref, LocalTool) and not names:
            return ref.tool.id
        called = str(getattr(ref, "__qualname__", type(ref).__qualname__))
        if not names:
            raise ToolNotFoundError(
                called, reason="this function was not added; add it first: crib.add(function)"
            )
        if len(names) > 1:
            raise InvalidToolIdError(
                called, f"this function was added as {join_options(names)}; name one of them"
            )
        return names[0]

    def _tool_or_id(self, tool: Named) -> str | ToolId | Tool:
        return tool if isinstance(tool, Tool) else self._id_of(tool)

    def _check_open(self) -> None:
        if self._shared.state == "closed":
            raise CribStateError("this crib is closed; make another")


@dataclass(frozen=True, slots=True)
class _BegunRun:
    """A run that a workflow of Temporal holds."""

    keeper: RunKeeper
    id: str
    kind: RunKind
    request: dict[str, Any]
    workflow: str


@dataclass(slots=True)
class _Reported:
    """What a caller knows of the progress of a chain."""

    progress: ChainProgress
    total: int
    events: int = 0

    async def report(self, events: Sequence[tuple[int, int, str]]) -> None:
        """Report those of all events so far that the caller does not know."""
        for done, total, event in events[self.events :]:
            self.events += 1
            await notify(self.progress, done, total, event, work_done=done > 0)

    async def finish(self, results: Sequence[StepResult]) -> None:
        """Report the rest of a chain that has ended with these results."""
        ended = [(place, self.total, name_event(each)) for place, each in enumerate(results, start=1)]
        await self.report([(0, self.total, "started"), *ended])


def _stop_with(error: ToolcribError) -> PieceReply:
    """Return the reply for an error that stops a run, which can be resumed."""
    return PieceReply(end="stopped", error=json.dumps(serialize_error(error)))


def _describe_timeout(limit: float) -> str:
    return f"the code did not end within {limit:g} s"


def _without_ended(run: RunRecord, ended: Collection[str]) -> RunRecord:
    """Return the record of a run; one whose workflow has ended without a word can be resumed."""
    return run.replace(state="suspended", workflow=None) if run.workflow in ended else run


class CodeGateway:
    """The tools of a view for code in a sandbox; calls are made in the context of the run."""

    def __init__(self, view: View, context: CallContext) -> None:
        self._view = view
        self._context = context if context.principal is not None else replace(context, principal=CODE)

    async def search(self, query: str, *, limit: int = 10) -> Any:
        """Return the tools that fit a question."""
        return await self._view.search(query, limit=limit, context=self._context)

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        """Return what is known about a tool."""
        return await self._view.describe(tool_id, DetailLevel(level), context=self._context)

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        """Run a tool."""
        context = self._context
        if context.read_kept is not None:
            if may_have_handles(args):
                args = mark_handles(args)
            else:
                context = replace(context, read_kept=None)
        return await self._view.run(tool_id, args, context=context)

    async def run_chain(self, steps: Sequence[Any], **options: Any) -> Any:
        """Run tools one after another."""
        return await self._view.run_chain(steps, context=self._context, **options)

"""The meta-tools: eight tools that find, explain and run all others."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import finalize, ref

import mcp_types
from pydantic import ValidationError

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.crib.config.settings import CodeSettings
from toolcrib.discovery import Change, Index, IndexView
from toolcrib.errors import RuntimeUnavailableError, ToolExecutionError
from toolcrib.execution import Principal
from toolcrib.gateway.frontends.meta.arguments import Arguments
from toolcrib.gateway.frontends.meta.catalog_summary import CatalogSnapshot, CatalogSummary
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS, Definition
from toolcrib.gateway.frontends.meta.finding import FindHandlers
from toolcrib.gateway.frontends.meta.reply import MetaCall, Reply, ResultLimiter
from toolcrib.gateway.frontends.meta.running import RunHandlers
from toolcrib.gateway.frontends.meta.token_usage import TokenUsage, measure_usage
from toolcrib.gateway.frontends.shared.failures import describe_error, no_such_tool
from toolcrib.gateway.frontends.shared.frontend import CallingClient, InputNeeded
from toolcrib.gateway.results import KeptResults, encoded, sendable
from toolcrib.model import RunResult
from toolcrib.model.tokens import estimate_tokens
from toolcrib.runtime import GUIDE
from toolcrib.runtime.registry import UNSAFE, check_profile, make_sandbox

_NAMED = 40
"""Namespaces that the instructions name, at most."""
_Handler = Callable[[MetaCall], Awaitable[Reply]]
_BLOCKS: Mapping[str, type[mcp_types.ContentBlock]] = {
    "text": mcp_types.TextContent,
    "image": mcp_types.ImageContent,
    "audio": mcp_types.AudioContent,
    "resource_link": mcp_types.ResourceLink,
    "resource": mcp_types.EmbeddedResource,
}
_EMPTY = (
    "The catalogue is empty at the moment: servers may be starting, or it has nothing that you may use. "
    "Search again later."
)
_WHEN = (
    "Use it whenever a task may need a tool, and before saying that you cannot do something or have no tool "
    "for it."
)
_GUIDE_PARTS = 2
"""Paragraphs of the guide that a model needs before it writes code; errors tell the rest."""


class MetaTools:
    """A `Frontend` over a view that shows eight tools in place of all that it has.

    A person is asked about destructive tools where the client can ask.
    """

    has_own_tasks = True
    """Whether `run_chain` and `execute_code` may go on as tasks."""

    def __init__(
        self,
        view: View,
        settings: GatewaySettings,
        *,
        kept: KeptResults | None = None,
        sandbox: bool | None = None,
    ) -> None:
        """Show a view to clients.

        Args:
            view: what they see; the crib behind it is open already where its catalogue is in a file.
            settings: how results, code and confirmation are dealt with.
            kept: where results go that are too large to send.
            sandbox: whether code can run; None looks whether the sandbox of the configuration can.
        """
        self.kept = KeptResults() if kept is None else kept
        """The results that were too large to send."""
        self._catalog = CatalogSummary(view.index)
        self._follow_index(view.index)
        no_code = why_no_code(settings, view.settings.code, sandbox=sandbox)
        limiter = ResultLimiter(self.kept, settings.result_bytes)
        self._running = RunHandlers(view, settings, self._catalog, limiter, no_code, self.kept)
        self._handlers = _handlers(FindHandlers(view, self._catalog, limiter), self._running)
        self._arguments = Arguments()
        self._names = [name for name in DEFINITIONS if name != "execute_code" or not no_code]
        self._listed: tuple[CatalogSnapshot, tuple[mcp_types.Tool, ...]] | None = None

    def tools(self) -> Sequence[mcp_types.Tool]:
        """Return the definitions, in the same order each time."""
        snapshot = self._catalog.snapshot()
        if self._listed is None or self._listed[0] is not snapshot:
            tools = tuple(publish(DEFINITIONS[name], snapshot) for name in self._names)
            known = self._listed
            self._listed = snapshot, known[1] if known is not None and known[1] == tools else tools
        return self._listed[1]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str | None, client: CallingClient
    ) -> mcp_types.CallToolResult:
        """Call one of the tools; what fails is a result that says so, also where code cannot run.

        Raises:
            MCPError: there is no such tool.
            InputNeeded: the client has to make the request again, with an answer.
        """
        definition = DEFINITIONS.get(name)
        if definition is None:
            raise no_such_tool(name, self._names)
        notes: list[str] = []
        try:
            args, notes = self._arguments.read(definition, arguments)
            reply = await self._handlers[name](MetaCall(args, client, notes))
        except InputNeeded:
            raise
        except Exception as error:  # noqa: BLE001 - the last door: a client gets an answer whatever happens
            told = {"notes": notes} if notes else {}
            explained = describe_error(error, client.principal, ran=definition.runs)
            reply = Reply({"error": explained, **told}, is_error=True)
        return make_result(reply)

    def finished(
        self,
        name: str,  # noqa: ARG002 - it is `run_tool`
        finish: Callable[[], RunResult],
        principal: Principal,
    ) -> mcp_types.CallToolResult:
        """Return the result of a server's task as the result of `run_tool`."""
        try:
            reply = self._running.make_reply(finish(), principal)
        except ToolExecutionError as error:
            reply = Reply({"error": describe_error(error, principal, ran=True)}, is_error=True)
        return make_result(reply)

    def about(self) -> str:
        """Return what a model should know before it uses the tools."""
        namespaces = [name for name in self._catalog.index.namespaces() if name]
        named = ", ".join(namespaces[:_NAMED]) + (", ..." if len(namespaces) > _NAMED else "")
        reach = f"This server gives access to the tools of: {named}. " if named else ""
        several = "run_chain and execute_code do" if "execute_code" in self._names else "run_chain does"
        return (
            f"{reach}Say what you want to do to search_tools, read the arguments of what it finds with "
            f"describe_tool, and call it with run_tool; {several} several steps at once."
        )

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back, in the thread that made the change, when `tools` may return something else."""
        return self._catalog.index.on_change(lambda _: callback())

    def measure_tokens(self) -> TokenUsage:
        """Return what the tools cost in tokens, and what these eight cost in their place."""
        return measure_usage(self._catalog.index, count_tokens(self.tools()))

    def _follow_index(self, index: Index | IndexView) -> None:
        """Follow the changes of the catalogue for as long as this frontend is in use."""
        catalog = ref(self._catalog)

        def note(change: Change) -> None:
            known = catalog()
            if known is not None:
                known.note(change)

        finalize(self, index.on_change(note))


def _handlers(finding: FindHandlers, running: RunHandlers) -> Mapping[str, _Handler]:
    return {
        "search_tools": finding.search_tools,
        "list_tools": finding.list_tools,
        "list_namespaces": finding.list_namespaces,
        "describe_tool": finding.describe_tool,
        "list_tool_examples": finding.list_tool_examples,
        "run_tool": running.run_tool,
        "run_chain": running.run_chain,
        "execute_code": running.execute_code,
    }


def why_no_code(settings: GatewaySettings, code: CodeSettings, *, sandbox: bool | None = None) -> str:
    """Return why code cannot run, or nothing where it can; `sandbox` says so without looking.

    >>> why_no_code(GatewaySettings(code=False), CodeSettings())
    'it is switched off here; use run_tool or run_chain'
    """
    if not settings.code:
        return "it is switched off here; use run_tool or run_chain"
    if sandbox is not None:
        return "" if sandbox else "there is no sandbox here; use run_tool or run_chain"
    if code.backend == UNSAFE and not code.allow_unsafe:
        return "the sandbox 'unsafe' is not allowed here; use run_tool or run_chain"
    try:
        check_profile(make_sandbox(code.backend).info(), code.profile)
    except RuntimeUnavailableError as error:
        return f"{error}; use run_tool or run_chain"
    return ""


def publish(definition: Definition, snapshot: CatalogSnapshot) -> mcp_types.Tool:
    """Return a definition as it is listed, over what the catalogue contains."""
    name = definition.tool.name
    return mcp_types.Tool(
        name=name,
        title=definition.title,
        description=describe(name, snapshot),
        input_schema=definition.tool.input_schema,
        output_schema=definition.tool.output_schema,
        annotations=_make_annotations(definition, snapshot),
    )


def count_tokens(tools: Iterable[mcp_types.Tool]) -> int:
    """Return about how many tokens definitions take, as they are listed."""
    listed = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    return sum(estimate_tokens(encoded(tool)) for tool in listed)


def _make_annotations(definition: Definition, snapshot: CatalogSnapshot) -> mcp_types.ToolAnnotations:
    """Return what a tool says of itself: one that runs others is as harmless as the worst of them."""
    if not definition.runs:
        return mcp_types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    if snapshot.read_only:
        return mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
    return mcp_types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


def make_result(reply: Reply) -> mcp_types.CallToolResult:
    """Return a reply as the result of a call."""
    structured, text = reply.structured, reply.text
    if text is None and not reply.content:
        try:
            text = encoded(structured)
        except ValueError:  # such as the name of a file that is no Unicode, in the error of a tool
            structured = sendable(structured)
            text = encoded(structured)
    content = [_read_block(block) for block in reply.content] or [mcp_types.TextContent(text=text or "")]
    # Everything in it is made here: to check megabytes of JSON again would take longer than the call.
    return mcp_types.CallToolResult.model_construct(
        content=content,
        structured_content=structured,
        is_error=reply.is_error,
        result_type="complete",
    )


def _read_block(block: Mapping[str, Any]) -> mcp_types.ContentBlock:
    """Return a block of content as a model of the SDK; one of an unknown or invalid kind as text."""
    kind = _BLOCKS.get(str(block.get("type")))
    if kind is not None:
        try:
            return kind.model_validate(block)
        except ValidationError:  # a server's own idea of it, which a client must not stumble over
            pass
    return mcp_types.TextContent(text=encoded(block))


def describe(name: str, snapshot: CatalogSnapshot) -> str:
    """Return the description of a meta-tool."""
    text = DEFINITIONS[name].description
    if name == "search_tools":
        return f"{text} {_WHEN} {snapshot.text or _EMPTY}"
    if name == "execute_code":
        guide = " ".join(GUIDE.split("\n\n")[:_GUIDE_PARTS])
        return f"{text} {guide}"
    if snapshot.read_only and DEFINITIONS[name].runs:
        return f"{text} All tools here are read-only."
    return text

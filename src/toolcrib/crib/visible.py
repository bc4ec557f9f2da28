"""The tools that a caller can see: resolving them, waiting for them, and errors for missing ones.

A caller sees the tools in its scope (a toolset) that its rules allow. `VisibleTools` is that part
of an engine: a view of the index with documentation of its own. Calls carry it as `CallContext.tools`, so
that one runner serves all callers.

A hidden tool must look like one that does not exist. So suggestions come from the visible part of the index,
shapes of results are learnt for each part by itself, and a failing server is named only to callers who may
see one of its tools (`_may_reveal`). An id that the rules deny is refused with the rule, whether or not there
is such a tool.

Servers list their tools late, or never. A reference that is missing is therefore waited for, but only if it
can mean a tool of a server in this part: a caller never waits for a server that it may not see. After that,
`VisibleTools` distinguishes an unknown tool from a tool whose server is unavailable.

`Engine.visible` keeps one `VisibleTools` for each scope and set of rules, not for each principal; other rules
after a reload make another one. All else is read from the engine at each use, since entering a crib replaces
the index, and a reload replaces the servers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.shaped import ShapedScope, ShapedTools
from toolcrib.crib.shapes import ShapeLearning
from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.origins import Absence
from toolcrib.discovery import Discovery, DocStore, Index, IndexView, Scope
from toolcrib.discovery.index.filters import Admission, hints_among, read_filter, tags_of, tool_facets
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    CribStateError,
    InvalidConstraintError,
    InvalidToolIdError,
    LoginRequiredError,
    Problem,
    ServerUnavailableError,
    ToolcribError,
    ToolLoginRequiredError,
    ToolNotFoundError,
    ToolWithheldError,
)
from toolcrib.execution import Principal
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.policy.rules import Grants, Rules
from toolcrib.model import Tool, ToolBackend, ToolId
from toolcrib.model.protocols import ResolvedTool
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.toolid import without_version
from toolcrib.redaction import hide_secrets
from toolcrib.runtime.stubs import identifier, render
from toolcrib.runtime.surface import find_mentions, tools_by_path

if TYPE_CHECKING:
    from toolcrib.trust import Withheld

Ref = str | ToolId | Tool | Callable[..., Any]
"""A reference to a tool: its id, the tool, or the function passed to or returned by `add`."""
UNKNOWN = (InvalidToolIdError, InvalidConstraintError, ToolNotFoundError, BackendUnavailableError)
"""Errors for references that match no known tool."""
_FOREIGN = frozenset({"backend=mcp", "backend=provider"})
"""Facets of tools whose tags were not written by the program, and so are not trusted."""
_MAX_FOUND = 4_096
"""References whose tools a snapshot keeps; by their constraints, many can mean one tool."""
_SHAPE_FAULT = (
    "its shape in this toolset does not fit it; its operator can find out why with 'toolcrib doctor'"
)
_NO_FILE = "settings"
"""Name in errors for settings that were not read from a file."""


class ToolState(Protocol):
    """The state of an engine that `VisibleTools` reads, anew with each use."""

    discovery: Discovery
    """All tools and their documentation."""
    rules: Rules | None
    """The rules about who may find and run which tools; None without rules."""
    names: frozenset[str]
    """The namespaces whose tools come from servers and APIs."""

    @property
    def gate(self) -> object | None:
        """The gate that checks tools before use; None if no trust is required."""
        ...

    listing: ToolLister | None
    """Lists the tools of servers and APIs; None until they are started."""
    way_in: str
    """The code that a user writes to start them, for errors."""

    def shaped(self, scope: ShapedScope) -> ShapedTools:
        """Return the index of the tools of a scope in their shapes."""
        ...

    def status(self) -> dict[str, ServerStatus]:
        """Return the status of the servers and APIs, by name."""
        ...

    def absent(self) -> tuple[Absence, ...]:
        """Return the servers and APIs whose tools may be incomplete."""
        ...

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers, which may have resources and prompts."""
        ...

    def approved_ids(self, name: str) -> tuple[str, ...]:
        """Return the ids, without versions, of tools of a name that the lock has."""
        ...

    def withheld(self, ref: str) -> "Withheld | None":
        """Return the tool that a reference means if it may not be used, and why."""
        ...

    def is_current(self, name: str) -> bool:
        """Return whether the tools of a server or an API are known as it lists them now, or none need be."""
        ...

    async def confirm(self, name: str) -> None:
        """Have a server or an API list its tools again; raises `ServerUnavailableError`."""
        ...

    def why_absent(self, namespace: str) -> tuple[str, ServerUnavailableError] | None:
        """Return the backend of a namespace that has not listed its tools, and the failure; else None."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of one index that callers can see."""

    whole: Index
    """The index that it is a part of."""
    index: IndexView
    docs: DocStore
    shapes: ShapeLearning
    shaped: ShapedTools | None = None
    """The tools in their shapes; None if the scope gives them none."""


@dataclass(slots=True)
class _Snapshot:
    """Lookups in one version of the index, kept until it changes."""

    index: Index | IndexView
    version: int
    found: dict[str, ResolvedTool] = field(default_factory=dict)
    """Tools by the references that calls have used."""
    namespaces: tuple[str, ...] | None = None
    """Namespaces in order, once they were needed."""
    names: dict[str, tuple[tuple[str, ...], frozenset[str]]] = field(default_factory=dict)
    """Names of tools by namespace, in order and as a set."""


class VisibleTools:
    """The tools that a scope and the rules let a principal reach; without either, all tools of an engine.

    It is the `ToolSource` of calls: it resolves their references, and waits for the servers that they need.
    """

    def __init__(
        self, engine: ToolState, scope: Scope | None = None, principal: Principal | None = None
    ) -> None:
        self._engine = engine
        self._scope = scope or Scope()
        self._shapes = scope if isinstance(scope, ShapedScope) else None
        self._is_whole = scope is None and principal is None
        self._grants: Grants | None = None
        if not self._is_whole and engine.rules is not None:
            self._grants = engine.rules.grants(principal)
        self._admission = None if self._grants is None else _admission(self._grants)
        self._cached_part: _Part | None = None
        self._outside: tuple[IndexView, int, frozenset[str]] | None = None
        self._cached_snapshot: _Snapshot | None = None

    @property
    def _part(self) -> _Part:
        """The part of the engine's present index; entering a crib may replace that index."""
        whole = self._engine.discovery.index
        if self._cached_part is None or self._cached_part.whole is not whole:
            docs = self._engine.discovery.docs.with_own_observations(DocumentedTools(self))
            if self._shapes is None:
                shaped, index = None, whole.view(self._scope, self._admission)
            else:
                shaped = self._engine.shaped(self._shapes)
                admission = None if self._grants is None else _admission(self._grants, shaped.original_id)
                index = shaped.index.view(Scope(), admission)
            self._cached_part = _Part(whole, index, docs, ShapeLearning(docs), shaped)
        if self._cached_part.shaped is not None:
            self._cached_part.shaped.refresh()
        return self._cached_part

    @property
    def _snapshot(self) -> _Snapshot:
        """The lookups in the index as it is now."""
        index = self.index  # another one once the crib is entered
        cached, version = self._cached_snapshot, index.version
        if cached is None or cached.index is not index or cached.version != version:
            cached = self._cached_snapshot = _Snapshot(index, version)
        return cached

    @property
    def index(self) -> Index | IndexView:
        """The index of the tools."""
        return self._engine.discovery.index if self._is_whole else self._part.index

    @property
    def docs(self) -> DocStore:
        """Their documentation."""
        return self._engine.discovery.docs if self._is_whole else self._part.docs

    @property
    def shapes(self) -> ShapeLearning | None:
        """Learns the results of these callers' calls; None for the whole, where the engine learns."""
        return None if self._is_whole else self._part.shapes

    def docs_for(self, tool_id: str | ToolId) -> DocStore:
        """Return the documentation, after a check that a tool is visible.

        Raises:
            ToolNotFoundError: it is not, even if it has documentation.
        """
        if not self._is_whole:
            self.look_up(tool_id)
        return self.docs

    def find(self, ref: str | ToolId) -> ResolvedTool:
        """Return the tool of a reference in a call.

        An id that the rules deny is refused whether or not such a tool exists. A tool that is hidden for its
        tags or annotations is not found, like an unknown id.

        Raises:
            PolicyDeniedError: the rules deny every tool of this id.
            ToolWithheldError: it is not what was approved.
            ToolNotFoundError: there is no visible tool; with suggestions among the visible ones.
            BackendUnavailableError: its server has not listed its tools.
        """
        snapshot = self._snapshot
        found = snapshot.found.get(ref) if isinstance(ref, str) else None
        if found is None:
            found = self._resolve(ref, snapshot)
        if self._engine.gate is not None:
            self._check_current(found)
        return found

    def find_known(self, ref: str | ToolId) -> ResolvedTool:
        """Return the same, whether or not its server has listed it in this run; raises what `find` does."""
        return self._resolve(ref, self._snapshot)

    def _check_current(self, found: ResolvedTool) -> None:
        """Raise an error if a tool may have changed since its server listed it."""
        name = found.tool.namespace
        if name is not None and not self._engine.is_current(name) and _is_foreign(found):
            reason = "it has not listed its tools again, so they cannot be compared with what was approved"
            raise BackendUnavailableError(tool_id=found.id, op="resolve", reason=reason, sent=False)

    def _resolve(self, ref: str | ToolId, snapshot: "_Snapshot") -> ResolvedTool:
        try:
            tool, backends = self._find_in(snapshot.index, ref)
        except ToolNotFoundError as error:
            self._raise_if_withheld(error, str(ref))
            self._raise_if_unavailable(ref)
            refusal = None if self._grants is None else self._grants.refusal(self._own_ref(ref))
            if refusal is None:
                raise
            refusal.tool_id = str(ref)
            if refusal.rule is None and error.suggestions:
                refusal.reason += f"; did you mean {error.suggestions[0]!r}?"
            raise refusal from None
        found = ResolvedTool(str(tool.id), tool, backends)
        if isinstance(ref, str) and len(snapshot.found) < _MAX_FOUND:
            snapshot.found[ref] = found
        return found

    def _find_in(self, index: Index | IndexView, ref: str | ToolId) -> tuple[Tool, tuple[ToolBackend, ...]]:
        """Return the tool of a reference, and its backends; a tool with another name has its own one too.

        Raises:
            ToolNotFoundError: there is none, or its shape does not fit it.
        """
        if self._shapes is None:
            return index.find(ref)
        shaped = self._part.shaped
        try:
            tool, backends = index.find(ref)
        except ToolNotFoundError as error:
            seen = self._shapes.seen(str(ref))
            if seen == str(ref):
                raise self._explain_missing(error, shaped) from None
            try:
                tool, backends = index.find(seen)
            except ToolNotFoundError as missing:
                raise self._explain_missing(missing, shaped) from None
        return tool if shaped is None else shaped.current(tool), backends

    def _explain_missing(self, error: ToolNotFoundError, shaped: ShapedTools | None) -> ToolNotFoundError:
        """Return the error for a missing tool; the reason does not tell what the shape or the rules hide."""
        if shaped is None or shaped.fault_of(error.ref) is None:
            return error
        told = shaped.collision_of(error.ref) if self._grants is None else None
        return ToolNotFoundError(error.ref, error.suggestions, told or _SHAPE_FAULT)

    def _own_ref(self, ref: str | ToolId) -> str:
        """Return a reference as one by the id that the tool itself has, which scopes and rules name."""
        return str(ref) if self._shapes is None else self._shapes.original(str(ref))

    def seen_ref(self, ref: str | ToolId) -> str | ToolId:
        """Return a reference by the own id of a tool as one by the id that it has here."""
        return ref if self._shapes is None else self._shapes.seen(str(ref))

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool of a reference in a call, as `find` does."""
        return self.find(ref).tool

    def look_up(self, ref: str | ToolId) -> Tool:
        """Return the tool of a reference; a denied id is not found, like an unknown one.

        Raises:
            ToolNotFoundError: there is none; with suggestions.
            ToolWithheldError: it is not what was approved.
            BackendUnavailableError: its server has not listed its tools.
        """
        try:
            return self._find_in(self.index, ref)[0]
        except ToolNotFoundError as error:
            self._raise_if_withheld(error, str(ref))
            self._raise_if_unavailable(ref)
            raise

    def _raise_if_withheld(self, missing: ToolNotFoundError, ref: str) -> None:
        """Raise if a tool is missing because it may not be used, and would be visible if it might."""
        withheld = self._engine.withheld(ref)
        if withheld is None:
            return
        tool_id = ref if withheld.tool is None else str(withheld.tool.id)
        if ":" not in ref:  # a name alone, which rather means a visible tool
            if any(without_version(each).rpartition(":")[2] == ref for each in missing.suggestions):
                return
            ref = tool_id
        if self._would_show(ref, withheld.tool):
            raise ToolWithheldError(tool_id=tool_id, reason=withheld.reason, level=withheld.level)

    def _would_show(self, ref: str, tool: Tool | None) -> bool:
        """Return whether a tool of a server would be visible if it were in the catalogue."""
        if self._is_whole:
            return True
        facets = () if tool is None else tool_facets(tool)
        conditions = read_filter(
            {"tags": self._scope.tags, "annotations": self._scope.shared("annotations") or None}
        )
        if not self._scope.may_admit(ref) or any(each.isdisjoint(facets) for each in conditions):
            return False
        if self._grants is None:
            return True
        tool_id = ref if tool is None else str(tool.id)
        return self._grants.may_find(tool_id, tags_of(facets), hints_among(facets), vouched=False)

    def _raise_if_unavailable(self, ref: str | ToolId) -> None:
        """Raise if a tool is missing because its server has not listed its tools.

        The output of the server is only in the cause, since a model may read this error.
        """
        absent = self._engine.why_absent(namespace_of(ref)) if self._may_be_told(str(ref)) else None
        if absent is not None:
            raise _unavailable(ref, *absent) from absent[1]

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        """Return the backends of a tool."""
        return self.index.backends(tool_id)

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        snapshot = self._snapshot
        if snapshot.namespaces is None:
            snapshot.namespaces = snapshot.index.namespaces()
        return snapshot.namespaces

    def names(self, namespace: str) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the names of the tools in a namespace, each once for all versions: in order, as a set."""
        snapshot = self._snapshot
        if namespace not in snapshot.names:
            if namespace not in self.namespaces():  # code can make up any number of them
                return (), frozenset()
            summaries = snapshot.index.list_all(namespace=namespace)
            listed = tuple(dict.fromkeys(summary.name for summary in summaries))
            snapshot.names[namespace] = listed, frozenset(listed)
        return snapshot.names[namespace]

    # Which servers may have more tools

    @property
    def server_names(self) -> frozenset[str]:
        """The namespaces of servers and APIs that may have a visible tool."""
        names = self._engine.names
        return names if self._is_whole else frozenset(filter(self._may_reveal, names))

    def status(self) -> dict[str, ServerStatus]:
        """Return the status of those servers and APIs."""
        return {name: status for name, status in self._engine.status().items() if self._may_reveal(name)}

    def absent(self) -> tuple[Absence, ...]:
        """Return the visible servers and APIs whose tools may be incomplete."""
        return tuple(absence for absence in self._engine.absent() if self._may_reveal(absence.name))

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers whose resources and prompts are visible.

        These are the servers of namespaces that the scope includes as a whole. A scope that selects single
        tools, by id, tag or annotation, includes no resources and prompts.
        """
        scope = self._scope
        if scope.ids is not None or scope.tags is not None or scope.annotations:
            return ()
        servers = self._engine.content_servers()
        return tuple(name for name in servers if scope.spaces is None or name in scope.spaces)

    def _may_hold_tool(self, namespace: str) -> bool:
        """Return whether a namespace may have a tool of the scope.

        A scope without namespaces excludes only those whose tools are known and all outside of it.
        """
        spaces = self._scope.spaces
        return namespace in spaces if spaces is not None else namespace not in self._namespaces_outside()

    def _may_reveal(self, namespace: str) -> bool:
        """Return whether the caller may learn the name of a namespace: it may have a visible tool."""
        if self._is_whole:
            return True
        if self._grants is None or not self._may_hold_tool(namespace) or namespace in self.index.namespaces():
            return self._may_hold_tool(namespace)
        return namespace not in self._namespaces_outside() and self._grants.may_find_in(namespace)

    def _namespaces_outside(self) -> frozenset[str]:
        """Return the namespaces that have tools, but no visible one."""
        whole, index = self._engine.discovery.index, self.index
        version = whole.version
        if self._outside is None or self._outside[:2] != (index, version):
            names = frozenset(whole.namespaces()).difference(index.namespaces())
            self._outside = index, version, names  # type: ignore[assignment]  # a part has a view
        return self._outside[2]  # type: ignore[index]

    def _may_have(self, ref: str) -> bool:
        """Return whether a reference may mean a visible tool of a server or an API."""
        namespace = namespace_of(ref)
        if namespace not in self._engine.names:
            return False
        return self._is_whole or (self._scope.may_admit(self._own_ref(ref)) and self._may_reveal(namespace))

    def _may_be_told(self, ref: str) -> bool:
        """Return whether the caller may learn that the server of a reference is unavailable.

        If some of its tools are known, a hidden tool of it must look like an unknown one.
        """
        if self._is_whole:
            return True
        is_known = namespace_of(ref) in self._engine.discovery.index.namespaces()
        may_admit = self._scope.may_admit(self._own_ref(ref))
        return not is_known and may_admit and self._may_reveal(namespace_of(ref))

    # Waiting for them

    async def wait_for(self, ref: str | ToolId) -> None:
        """Wait until it is known whether a tool exists.

        The stored catalogue of an earlier run proves that a tool exists, never that it does not: the server
        may have added it since. So a mistyped name starts its server, once; after the first answer of the
        server, it fails at once.

        Raises:
            BackendUnavailableError: a lock governs its server, which does not list its tools again.
            CribStateError: it could only be a tool of a server, and the servers are not started.
        """
        for each in self._approved_as(ref) or (ref,):
            await self._wait_until_current(each)
        known = None
        while self._is_absent(ref):
            namespace, listing = namespace_of(ref), self._started_lister()
            origin = listing.origins.get(namespace)
            if origin is known:  # it was waited for, and a reload has not replaced it
                return
            known = origin
            await listing.wait([namespace], first=True)
            if self._is_absent(ref):
                await listing.wait_again(namespace)

    def _approved_as(self, ref: str | ToolId) -> tuple[str, ...]:
        """Return the ids that a name alone has in the lock, if no known tool has it.

        A withheld tool is not in the stored catalogue, so that only its server can tell why it is missing.
        """
        if ":" in str(ref):
            return ()
        try:
            self._find_in(self.index, ref)
        except ToolcribError:
            return self._engine.approved_ids(str(ref))
        return ()

    async def _wait_until_current(self, ref: str | ToolId) -> None:
        """Wait until a server that a lock governs has listed its tools as they are now.

        Raises:
            BackendUnavailableError: it does not.
        """
        namespace = namespace_of(ref)
        if self._engine.is_current(namespace) or not self._may_have(str(ref)):
            return
        try:
            await self._engine.confirm(namespace)
        except ServerUnavailableError as error:
            raise _unavailable(ref, f"mcp:{namespace}", error) from error

    async def wait_for_listing(self, options: Mapping[str, Any]) -> None:
        """Wait for the servers that a list or a search needs; further pages need none."""
        if not self._engine.names:
            return
        namespace = options.get("namespace")
        needed = [name for name in self.server_names if namespace is None or name == namespace]
        if needed and options.get("cursor") is None:
            await self._started_lister().wait(sorted(needed), first=namespace is not None)

    async def wait_for_code(self, code: str) -> None:
        """Wait for the servers and APIs whose names the code mentions."""
        words = find_mentions(code)
        for name in sorted(name for name in self.server_names if identifier(name) in words):
            await self.wait_for_listing({"namespace": name})

    async def wait_for_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - optional servers may be late
        """Wait until all visible servers and APIs have listed their tools or failed."""
        if self.server_names:
            await self._started_lister().wait_all(timeout)

    def _is_absent(self, ref: str | ToolId) -> bool:
        """Return whether a tool is unknown that a server or an API may still list."""
        if not self._may_have(str(ref)):
            return False
        try:
            self._find_in(self.index, ref)
        except ToolcribError:
            return True
        return False

    def _started_lister(self) -> ToolLister:
        listing = self._engine.listing
        if listing is None:
            names = ", ".join(sorted(self.server_names))
            way_in = self._engine.way_in
            raise CribStateError(f"its servers are not started ({names}); use it within `{way_in}`")
        return listing


def _is_foreign(found: ResolvedTool) -> bool:
    """Return whether a tool is of a server or an API, and not of the program."""
    return all(backend.kind != "local" for backend in found.backends)


def _unavailable(ref: str | ToolId, backend: str, failure: ServerUnavailableError) -> BackendUnavailableError:
    """Return the error for a tool whose server has not listed it."""
    reason = hide_secrets(failure.reason)
    if isinstance(failure, LoginRequiredError):
        return ToolLoginRequiredError(
            tool_id=str(ref), op="resolve", backend=backend, reason=reason, server=failure.server
        )
    advice = hide_secrets(failure.advice)
    return BackendUnavailableError(
        tool_id=str(ref), op="resolve", backend=backend, reason=reason, sent=False, advice=advice
    )


class DocumentedTools:
    """Resolver for the documentation of visible tools."""

    def __init__(self, tools: VisibleTools) -> None:
        self.resolve, self.backends = tools.look_up, tools.backends


class CodeNames:
    """The visible tools by the names that code uses, as of each use."""

    def __init__(self, tools: Callable[[], VisibleTools]) -> None:
        """Tell of the tools that are visible at each moment: a reload may bring other rules."""
        self._tools = tools

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        tools = self._tools()
        return tuple(dict.fromkeys([*tools.namespaces(), *sorted(tools.server_names)]))

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        return self._tools().names(namespace)[0]

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools of references; unknown ones are left out.

        A tool without an output schema gets the one learnt from its results, if any.
        """
        found, tools = {}, self._tools()
        for ref in refs:
            if not _may_mean_tool(tools, ref):
                continue
            try:
                found[ref] = _add_learnt_output(tools, tools.find_known(ref).tool)
            except ToolcribError:  # it is not there, or its name is none: code may mention anything
                continue
        return found

    def stubs(self, tools: Iterable[str | ToolId] | None, namespace: str | None, budget: int | None) -> str:
        """Return the signatures of the named tools, of a namespace, or of all tools."""
        spaces = self.namespaces() if namespace is None else (namespace,)
        refs = (
            [f"{space}:{name}" if space else name for space in spaces for name in self.names(space)]
            if tools is None
            else [str(tool_id) for tool_id in tools]
        )
        found = tools_by_path(self, refs)
        return render(
            {path: tool for path, tool in found.items() if namespace in {None, tool.namespace or ""}},
            budget=budget,
        )

    async def wait_for_code(self, code: str) -> None:
        """Wait for the servers and APIs whose names stand in the code."""
        await self._tools().wait_for_code(code)


def _may_mean_tool(tools: VisibleTools, ref: str) -> bool:
    """Return whether a reference may name a tool: computing suggestions for it is slow."""
    namespace, _, name = ref.rpartition(":")
    if ":" in namespace:  # with a version, which nobody asks for by the thousand
        return True
    return name in tools.names(namespace)[1]


def _add_learnt_output(tools: VisibleTools, tool: Tool) -> Tool:
    """Return a tool with the output schema that it declares, or else that was learnt of its results."""
    if tool.output_schema is not None:
        return tool
    learnt = tools.docs.describe(tool.id, "schema").observed_output
    return tool if learnt is None else tool.replace(output_schema=_allow_more(learnt.json_schema))


def _allow_more(schema: Any) -> Any:
    """Return a learnt schema that allows further properties, since later results may have more."""
    if isinstance(schema, list):
        return [_allow_more(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {name: _allow_more(member) for name, member in schema.items()}
    return {"additionalProperties": True, **opened} if "properties" in opened else opened


def _admission(grants: Grants, original_id: Callable[[str], str] = str) -> Admission:
    """Return the admission by rules, which name tools by the ids that `original_id` returns."""

    def admits(tool_id: str, facets: Collection[str]) -> bool:
        vouched = _FOREIGN.isdisjoint(facets)
        own_id, tags, hints = original_id(tool_id), tags_of(facets), hints_among(facets)
        return grants.may_find(own_id, tags, hints, vouched=vouched)

    return Admission(grants.key, admits)


def scope_of(toolset: str | ToolsetSettings | Scope, settings: Settings) -> Scope:
    """Return the scope of a toolset.

    Raises:
        ConfigError: there is no toolset of this name.
    """
    if isinstance(toolset, Scope):
        return toolset
    if isinstance(toolset, ToolsetSettings):
        return _scope_of_settings(toolset)
    source = settings.source or _NO_FILE
    found = settings.toolsets.get(toolset)
    if found is None:
        names = ", ".join(sorted(settings.toolsets)) or "none"
        hint = did_you_mean(toolset, settings.toolsets) or f"; there are {names}"
        raise ConfigError(str(source), (Problem(f"/toolsets/{toolset}", "name", f"is not a toolset{hint}"),))
    return _scope_of_settings(found)


def _scope_of_settings(toolset: ToolsetSettings) -> Scope:
    conditions = {name: getattr(toolset, name) for name in Scope.model_fields if name != "annotations"}
    annotations = {str(hint): value for hint, value in toolset.annotations.items()}
    shapes = {key: shape for key, shape in toolset.tools.items() if shape.changes_tool}
    if not shapes:
        return Scope(**conditions, annotations=annotations)
    return ShapedScope(**conditions, annotations=annotations, shapes=shapes)

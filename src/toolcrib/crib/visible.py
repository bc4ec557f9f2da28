"""The tools that a caller can see: looked up, waited for, and explained where they are missing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.shapes import ShapeLearning
from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.origins import Absence
from toolcrib.discovery import Discovery, DocStore, Index, IndexView, Scope
from toolcrib.discovery.index.filters import Admission, hints_among, tags_of
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
)
from toolcrib.errors.base import either
from toolcrib.execution import LocalHandlers, Principal
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.policy import Grants, Rules
from toolcrib.model import LocalTool, Tool, ToolBackend, ToolId
from toolcrib.model.suggest import did_you_mean
from toolcrib.redaction import hide_secrets
from toolcrib.runtime.stubs import identifier, render
from toolcrib.runtime.surface import mentioned, named_tools

Ref = str | ToolId | Tool | Callable[..., Any]
"""What a verb takes for a tool: its id, the tool, or the function that `add` was given or has returned."""
UNKNOWN = (InvalidToolIdError, InvalidConstraintError, ToolNotFoundError, BackendUnavailableError)
"""Errors by which no tool is known here by a reference."""
_FOREIGN = frozenset({"backend=mcp", "backend=provider"})
"""The facets of tools whose tags are somebody else's words."""
_NO_FILE = "settings"
"""What stands for the file where there is none."""


class AvailabilityResolver:
    """A resolver over an index that tells a tool nobody has from one whose server is not there."""

    def __init__(
        self,
        index: Index | IndexView,
        why_absent: Callable[[str], tuple[str, ServerUnavailableError] | None],
        may_be_told: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Look tools up in an index.

        Args:
            index: has the tools that are known.
            why_absent: says of a namespace which server or API does not answer, and why.
            may_be_told: whether a caller may learn that the server of a reference is not there.
        """
        self.index = index
        self._why_absent, self._may_be_told = why_absent, may_be_told
        self.backends = index.backends
        """Returns where a tool can run."""

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means.

        Raises:
            ToolNotFoundError: there is none, with the nearest ids.
            BackendUnavailableError: it may be one of a server that has not listed its tools. What the server
                has written is in its cause alone: a model may see this one.
        """
        try:
            return self.index.resolve(ref)
        except ToolNotFoundError:
            absent = self._why_absent(namespace_of(ref)) if self._may_be_told(str(ref)) else None
            if absent is None:
                raise
            backend, failure = absent
            reason = hide_secrets(failure.reason)
            if isinstance(failure, LoginRequiredError):
                raise ToolLoginRequiredError(
                    tool_id=str(ref), op="resolve", backend=backend, reason=reason, server=failure.server
                ) from failure
            raise BackendUnavailableError(
                tool_id=str(ref), op="resolve", backend=backend, reason=reason, sent=False
            ) from failure


class ToolState(Protocol):
    """The state of an engine that visible tools are read from, at each moment anew."""

    discovery: Discovery
    """All tools and their documentation."""
    resolver: AvailabilityResolver
    """Looks up all tools."""
    rules: Rules | None
    """Who may find and run what; None where everybody may everything."""
    names: frozenset[str]
    """The namespaces whose tools come from servers and APIs."""
    listing: ToolLister | None
    """Asks them for their tools; None while they are not started."""
    way_in: str
    """What a user writes to start them."""

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing."""
        ...

    def absent(self) -> tuple[Absence, ...]:
        """Return which of them may be missing some of their tools."""
        ...

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers, which may have resources and prompts."""
        ...

    def why_absent(self, namespace: str) -> tuple[str, ServerUnavailableError] | None:
        """Return which server or API does not give the tools of a namespace, and why; None where it does."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of one index that callers can see."""

    whole: Index
    """The index that it is a part of."""
    resolver: AvailabilityResolver
    docs: DocStore
    shapes: ShapeLearning


class VisibleTools:
    """The tools that a scope and the rules let a principal reach; without either, all of an engine.

    It is the `ToolSource` of calls: it resolves their references, and lets each of them wait for the first
    answers of the servers whose tools it needs, and for nobody else. The engine has one for each scope and
    set of rules that callers have in common; another set of rules means another one.
    """

    def __init__(
        self, engine: ToolState, scope: Scope | None = None, principal: Principal | None = None
    ) -> None:
        self._engine = engine
        self._scope = scope or Scope()
        self._is_whole = scope is None and principal is None
        self._grants: Grants | None = None
        if not self._is_whole and engine.rules is not None:
            self._grants = engine.rules.grants(principal)
        self._admission = None if self._grants is None else _admission(self._grants)
        self._cached_part: _Part | None = None
        self._outside: tuple[IndexView, int, frozenset[str]] | None = None
        self.code_names = CodeNames(self)
        """The names by which code reaches the tools."""

    @property
    def _part(self) -> _Part:
        """The part of the engine's present index; entering a crib may replace that index."""
        whole = self._engine.discovery.index
        if self._cached_part is None or self._cached_part.whole is not whole:
            view = whole.view(self._scope, self._admission)
            resolver = AvailabilityResolver(view, self._engine.why_absent, self._may_be_told)
            docs = self._engine.discovery.docs.apart(resolver)
            self._cached_part = _Part(whole, resolver, docs, ShapeLearning(docs))
        return self._cached_part

    @property
    def resolver(self) -> AvailabilityResolver:
        """Looks tools up without a word of what the rules deny."""
        return self._engine.resolver if self._is_whole else self._part.resolver

    @property
    def index(self) -> Index | IndexView:
        """The index of the tools."""
        return self._engine.discovery.index if self._is_whole else self._part.resolver.index

    @property
    def docs(self) -> DocStore:
        """Their documentation."""
        return self._engine.discovery.docs if self._is_whole else self._part.docs

    @property
    def shapes(self) -> ShapeLearning | None:
        """What learns the results of calls for these callers alone; None where the engine learns for all."""
        return None if self._is_whole else self._part.shapes

    def docs_for(self, tool_id: str | ToolId) -> DocStore:
        """Return the documentation, if it may be asked about a tool.

        Raises:
            ToolNotFoundError: the tool is none of these, be it documented or not.
        """
        if not self._is_whole:
            self.resolver.resolve(tool_id)
        return self.docs

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a call means.

        An id that the rules deny is refused whether or not there is a tool of that id. A tool that its tags
        or annotations hide is not found, as an id that no tool has.

        Raises:
            PolicyDeniedError: the rules deny every tool of this id.
            ToolNotFoundError: there is none that may be found, with the nearest ids of those that may.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
        """
        try:
            return self.resolver.resolve(ref)
        except ToolNotFoundError as error:
            refusal = None if self._grants is None else self._grants.refusal(str(ref))
            if refusal is None:
                raise
            if refusal.rule is None and error.suggestions:
                refusal.reason += f"; did you mean {error.suggestions[0]!r}?"
            raise refusal from None

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        """Return where a tool can run."""
        return self.index.backends(tool_id)

    # Which servers may have more tools

    @property
    def server_names(self) -> frozenset[str]:
        """The namespaces of servers and APIs that may have a tool for the caller."""
        names = self._engine.names
        return names if self._is_whole else frozenset(filter(self._may_reveal, names))

    def status(self) -> dict[str, ServerStatus]:
        """Return how those servers and APIs are doing."""
        return {name: status for name, status in self._engine.status().items() if self._may_reveal(name)}

    def absent(self) -> tuple[Absence, ...]:
        """Return which of them may be missing some of their tools."""
        return tuple(absence for absence in self._engine.absent() if self._may_reveal(absence.name))

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers whose resources and prompts belong here.

        These are the servers of the namespaces that the scope names as a whole. A scope that picks single
        tools, by id, tag or annotation, has no resources and prompts.
        """
        scope = self._scope
        if scope.ids is not None or scope.tags is not None or scope.annotations:
            return ()
        servers = self._engine.content_servers()
        return tuple(name for name in servers if scope.spaces is None or name in scope.spaces)

    def _may_hold_tool(self, namespace: str) -> bool:
        """Return whether a namespace may have a tool of the scope.

        Where the scope does not name any, those whose tools are known and none of them is inside have not.
        """
        spaces = self._scope.spaces
        return namespace in spaces if spaces is not None else namespace not in self._namespaces_outside()

    def _may_reveal(self, namespace: str) -> bool:
        """Return whether the caller may find something in a namespace, so that its name is no secret."""
        if self._is_whole:
            return True
        if self._grants is None or not self._may_hold_tool(namespace) or namespace in self.index.namespaces():
            return self._may_hold_tool(namespace)
        return namespace not in self._namespaces_outside() and self._grants.may_find_in(namespace)

    def _namespaces_outside(self) -> frozenset[str]:
        """Return the namespaces that have tools, but none for the caller."""
        whole, index = self._engine.discovery.index, self.index
        version = whole.version
        if self._outside is None or self._outside[:2] != (index, version):
            names = frozenset(whole.namespaces()).difference(index.namespaces())
            self._outside = index, version, names  # type: ignore[assignment]  # a part has a view
        return self._outside[2]  # type: ignore[index]

    def _may_have(self, ref: str) -> bool:
        """Return whether a reference may mean a tool of a server or an API for the caller."""
        namespace = namespace_of(ref)
        if namespace not in self._engine.names:
            return False
        return self._is_whole or (self._scope.may_admit(ref) and self._may_reveal(namespace))

    def _may_be_told(self, ref: str) -> bool:
        """Return whether the caller may learn that the server of a reference is not there.

        Where some of its tools are known, one that is outside must look like one that nobody has.
        """
        is_known = namespace_of(ref) in self._engine.discovery.index.namespaces()
        return not is_known and self._scope.may_admit(ref) and self._may_reveal(namespace_of(ref))

    # Waiting for them

    async def wait_for(self, ref: str | ToolId) -> None:
        """Wait until it is known whether there is a tool.

        What was kept of an earlier run says that a tool is there, and not that one is missing: a server may
        have learnt it since, and in a process that runs one tool and ends nobody else would ask. So a name
        that is mistyped costs a start of its server, once; after its first answer it is refused at once.

        Raises:
            CribStateError: the tool can only be one of a server, and none is started.
        """
        known = None
        while self._is_absent(ref):
            namespace, listing = namespace_of(ref), self._started_lister()
            origin = listing.origins.get(namespace)
            if origin is known:  # it was waited for, and no other has come in its place
                return
            known = origin
            await listing.wait([namespace], first=True)
            if self._is_absent(ref):
                await listing.wait_again(namespace)

    async def wait_for_listing(self, options: Mapping[str, Any]) -> None:
        """Wait for what a list or a search needs; a page that is not the first needs nobody."""
        if not self._engine.names:
            return
        namespace = options.get("namespace")
        needed = [name for name in self.server_names if namespace is None or name == namespace]
        if needed and options.get("cursor") is None:
            await self._started_lister().wait(sorted(needed), first=namespace is not None)

    async def wait_for_code(self, code: str) -> None:
        """Wait for the servers and APIs whose names stand in the code, as it spells them."""
        words = mentioned(code)
        for name in sorted(name for name in self.server_names if identifier(name) in words):
            await self.wait_for_listing({"namespace": name})

    async def wait_for_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - optional servers may be late
        """Wait until everything configured has answered or failed."""
        if self.server_names:
            await self._started_lister().wait_all(timeout)

    def _is_absent(self, ref: str | ToolId) -> bool:
        """Return whether a tool is not there that a server or an API may still have."""
        if not self._may_have(str(ref)):
            return False
        try:
            self.index.resolve(ref)
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


class CodeNames:
    """The tools that code may name: all that a caller can see when they are asked for."""

    def __init__(self, tools: VisibleTools) -> None:
        self._tools = tools
        self._state: tuple[object, int] | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, frozenset[str]] = {}

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        return tuple(dict.fromkeys([*self._tools.index.namespaces(), *sorted(self._tools.server_names)]))

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        index = self._tools.index  # another one once the crib is entered
        state = index, index.version
        if self._state != state:
            self._state, self._names, self._known = state, {}, {}
        if namespace not in self._names:
            listed = dict.fromkeys(summary.name for summary in index.every(namespace=namespace))
            if not listed:  # code can make up any number of namespaces
                return ()
            self._names[namespace], self._known[namespace] = tuple(listed), frozenset(listed)
        return self._names[namespace]

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools that references mean, without those that are not there.

        A tool that declares no output schema has the one that was learnt of its results, if there is one.
        """
        found = {}
        for ref in refs:
            if not self._may_mean_tool(ref):
                continue
            try:
                found[ref] = self._add_learnt_output(self._tools.index.resolve(ref))
            except ToolcribError:  # it is not there, or its name is none: code may mention anything
                continue
        return found

    def stubs(self, tools: Iterable[str | ToolId] | None, namespace: str | None, budget: int | None) -> str:
        """Return the signatures of tools: those named, those of a namespace, or all."""
        spaces = self.namespaces() if namespace is None else (namespace,)
        refs = (
            [f"{space}:{name}" if space else name for space in spaces for name in self.names(space)]
            if tools is None
            else [str(tool_id) for tool_id in tools]
        )
        found = named_tools(self, refs)
        return render(
            {path: tool for path, tool in found.items() if namespace in {None, tool.namespace or ""}},
            budget=budget,
        )

    async def wait_for_code(self, code: str) -> None:
        """Wait for the servers and APIs whose names stand in the code."""
        await self._tools.wait_for_code(code)

    def _may_mean_tool(self, ref: str) -> bool:
        """Return whether a reference may mean a tool: to look for what is nearest to it takes its time."""
        namespace, _, name = ref.rpartition(":")
        if ":" in namespace:  # with a version, which nobody asks for by the thousand
            return True
        return bool(self.names(namespace)) and name in self._known[namespace]

    def _add_learnt_output(self, tool: Tool) -> Tool:
        if tool.output_schema is not None:
            return tool
        learnt = self._tools.docs.describe(tool.id, "schema").observed_output
        return tool if learnt is None else tool.replace(output_schema=_allow_more(learnt.json_schema))


def _allow_more(schema: Any) -> Any:
    """Return what was learnt of results as something that further results may go beyond."""
    if isinstance(schema, list):
        return [_allow_more(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {name: _allow_more(member) for name, member in schema.items()}
    return {"additionalProperties": True, **opened} if "properties" in opened else opened


def _admission(grants: Grants) -> Admission:
    def admits(tool_id: str, facets: Collection[str]) -> bool:
        vouched = _FOREIGN.isdisjoint(facets)
        return grants.may_find(tool_id, tags_of(facets), hints_among(facets), vouched=vouched)

    return Admission(grants.key, admits)


def id_of(ref: Ref, handlers: LocalHandlers) -> str | ToolId:
    """Return the id of what stands for a tool; functions are those that have handlers.

    Raises:
        ToolNotFoundError: it is a function that was not added.
        InvalidToolIdError: it is a function that was added as several tools.
    """
    if isinstance(ref, Tool):
        return ref.id
    if isinstance(ref, str | ToolId) or not callable(ref):
        return ref
    names = handlers.names_of(ref)
    if isinstance(ref, LocalTool) and not names:
        return ref.tool.id
    called = str(getattr(ref, "__qualname__", type(ref).__qualname__))
    if not names:
        raise ToolNotFoundError(
            called, reason="this function was not added; add it first: crib.add(function)"
        )
    if len(names) > 1:
        raise InvalidToolIdError(called, f"this function was added as {either(names)}; name one of them")
    return names[0]


def scope_of(toolset: str | ToolsetSettings | Scope, settings: Settings) -> Scope:
    """Return what a toolset admits.

    Raises:
        ConfigError: no toolset is called that.
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
    annotations = {str(hint): value for hint, value in toolset.annotations.items()}
    return Scope(
        **toolset.model_dump(exclude={"description", "annotations", "expose"}), annotations=annotations
    )

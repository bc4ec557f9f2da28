"""The part of an engine that a scope admits: its catalogue, its runner, and whom it waits for."""

from collections.abc import Callable, Collection
from typing import Protocol

from toolcrib.crib.availability import AvailabilityResolver
from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.engine import Engine
from toolcrib.crib.learning import ShapeLearning
from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.origins import Absence
from toolcrib.crib.sources.waiting import Waiting
from toolcrib.discovery import DocStore, Index, IndexView, Scope
from toolcrib.discovery.index.filters import Admission, hints_among, tags_of
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import ConfigError, Problem, ToolNotFoundError
from toolcrib.execution import Principal, Runner
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.policy import Grants, Rules
from toolcrib.model import Resolver, Tool, ToolId
from toolcrib.model.suggest import did_you_mean

_FOREIGN = frozenset({"backend=mcp", "backend=provider"})
"""The facets of tools whose tags are somebody else's words."""
_NO_FILE = "settings"
"""What stands for the file where there is none."""


class EnginePart(Protocol):
    """What a view asks: an engine about all its tools, or a scoped one about those that a scope admits."""

    @property
    def index(self) -> Index | IndexView:
        """The catalogue."""
        ...

    @property
    def resolver(self) -> Resolver:
        """The catalogue as a resolver that knows which servers are not there."""
        ...

    @property
    def runner(self) -> Runner:
        """Runs what is in the catalogue."""
        ...

    @property
    def waiting(self) -> Waiting:
        """Waits for the servers and APIs that may have tools of the catalogue."""
        ...

    def docs_for(self, tool_id: str | ToolId) -> DocStore:
        """Return the documentation, if it may be asked about a tool."""
        ...

    def status(self) -> dict[str, ServerStatus]:
        """Return how those servers and APIs are doing."""
        ...

    def absent(self) -> tuple[Absence, ...]:
        """Return which of them may be missing some of their tools."""
        ...

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers whose resources and prompts belong here."""
        ...


class ScopedEngine:
    """The part of an engine that a scope admits; its objects are made again when the engine's are others."""

    def __init__(self, engine: Engine, scope: Scope, principal: Principal | None = None) -> None:
        self._engine = engine
        self._scope = scope
        self._principal = principal
        self._ruled: tuple[Rules | None, Admission | None] = None, None
        self._made: tuple[Index, Admission | None, IndexView, AvailabilityResolver, DocStore] | None = None
        self._runs: tuple[Runner, AvailabilityResolver, Runner] | None = None
        self._known: tuple[IndexView, int, frozenset[str]] | None = None
        self.waiting = Waiting(self, engine.waiting.way_in)
        """Waits for the servers that may have a tool of the scope."""

    @property
    def names(self) -> frozenset[str]:
        """The namespaces of servers and APIs that may have a tool for the principal."""
        return frozenset(filter(self._shows, self._engine.names))

    @property
    def listing(self) -> ToolLister | None:
        """Asks all servers and APIs for their tools; None while they are not started."""
        return self._engine.listing

    @property
    def index(self) -> IndexView:
        """The catalogue."""
        return self._catalogue()[2]

    @property
    def resolver(self) -> AvailabilityResolver:
        """The catalogue as a resolver that knows which servers are not there."""
        return self._catalogue()[3]

    def _catalogue(self) -> tuple[Index, Admission | None, IndexView, AvailabilityResolver, DocStore]:
        whole, admission = self._engine.discovery.index, self._admission()
        if self._made is None or self._made[0] is not whole or self._made[1] is not admission:
            index = whole.view(self._scope, admission)
            resolver = AvailabilityResolver(index, self._engine.why_absent, self._is_unknown)
            self._made = whole, admission, index, resolver, self._engine.discovery.docs.apart(resolver)
        return self._made

    def _admission(self) -> Admission | None:
        """Return what the rules of this moment let the principal find; None where they let everybody."""
        rules = self._engine.rules
        if rules is not self._ruled[0]:
            self._ruled = rules, None if rules is None else _admission(rules.grants(self._principal))
        return self._ruled[1]

    @property
    def runner(self) -> Runner:
        """Runs what is in the catalogue."""
        resolver, whole = self.resolver, self._engine.runner
        if self._runs is None or self._runs[0] is not whole or self._runs[1] is not resolver:
            shapes = ShapeLearning(self._catalogue()[4])
            refusing = _RefusingResolver(resolver, self._grants)
            self._runs = whole, resolver, self._engine.runner_for(refusing, self.waiting, (shapes,))
        return self._runs[2]

    def docs_for(self, tool_id: str | ToolId) -> DocStore:
        """Return documentation of the tools here.

        Raises:
            ToolNotFoundError: the tool that it is asked for is none of them, be it documented or not.
        """
        self.resolver.resolve(tool_id)
        return self._catalogue()[4]

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers that may have a tool of the scope are doing."""
        return {name: status for name, status in self._engine.status().items() if self._shows(name)}

    def absent(self) -> tuple[Absence, ...]:
        """Return which of these servers may be missing some of their tools."""
        return tuple(absence for absence in self._engine.absent() if self._shows(absence.name))

    def content_servers(self) -> tuple[str, ...]:
        """Return the servers of the namespaces that the scope names as a whole.

        A scope that picks single tools, by id, tag or annotation, has no resources and prompts.
        """
        scope = self._scope
        if scope.ids is not None or scope.tags is not None or scope.annotations:
            return ()
        servers = self._engine.content_servers()
        return tuple(name for name in servers if scope.spaces is None or name in scope.spaces)

    def _has(self, namespace: str) -> bool:
        """Return whether a namespace may have a tool of the scope.

        Where the scope does not name any, those whose tools are known and none of them is inside have not.
        """
        spaces = self._scope.spaces
        if spaces is not None:
            return namespace in spaces
        return namespace not in self._without()

    def _grants(self) -> Grants | None:
        """Return what the rules of this moment say about the principal; None where there are no rules."""
        rules = self._engine.rules
        return None if rules is None else rules.grants(self._principal)

    def _shows(self, namespace: str) -> bool:
        """Return whether the principal may find something in a namespace, so that its name is no secret."""
        grants = self._grants()
        if grants is None or not self._has(namespace) or namespace in self.index.namespaces():
            return self._has(namespace)
        return namespace not in self._without() and grants.may_find_in(namespace)

    def _without(self) -> frozenset[str]:
        """Return the namespaces that have tools, but none inside."""
        whole, index = self._engine.discovery.index, self.index
        version = whole.version
        if self._known is None or self._known[:2] != (index, version):
            without = frozenset(whole.namespaces()).difference(index.namespaces())
            self._known = index, version, without
        return self._known[2]

    def may_have(self, ref: str | ToolId) -> bool:
        """Return whether a reference may mean a tool of a server or an API that the scope admits."""
        return self._engine.may_have(ref) and self._may_admit(str(ref))

    def _may_admit(self, ref: str) -> bool:
        return self._scope.may_admit(ref) and self._shows(namespace_of(ref))

    def _is_unknown(self, ref: str) -> bool:
        """Return whether a reference may mean a tool of a server of which no tool is known.

        Where some are, one that is outside must look like one that nobody has.
        """
        return self._may_admit(ref) and namespace_of(ref) not in self._engine.discovery.index.namespaces()


class _RefusingResolver:
    """Resolves the tools that a principal may find, and refuses ids that the rules deny.

    Whether there is a tool of a refused id makes no difference: the rules decide on the id alone. A tool that
    its tags or annotations hide is not found, as an id that no tool has.
    """

    def __init__(self, visible: AvailabilityResolver, grants: Callable[[], Grants | None]) -> None:
        self._visible, self._grants = visible, grants
        self.backends = visible.backends
        """Returns where a tool can run."""

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means.

        Raises:
            PolicyDeniedError: the rules deny every tool of this id.
            ToolNotFoundError: there is none that may be found, with the nearest ids of those that may.
            BackendUnavailableError: it may be one of a server that has not listed its tools.
        """
        try:
            return self._visible.resolve(ref)
        except ToolNotFoundError as error:
            grants = self._grants()
            refusal = None if grants is None else grants.refusal(str(ref))
            if refusal is None:
                raise
            if refusal.rule is None and error.suggestions:
                refusal.reason += f"; did you mean {error.suggestions[0]!r}?"
            raise refusal from None


def _admission(grants: Grants) -> Admission:
    def admits(tool_id: str, facets: Collection[str]) -> bool:
        vouched = _FOREIGN.isdisjoint(facets)
        return grants.may_find(tool_id, tags_of(facets), hints_among(facets), vouched=vouched)

    return Admission(grants.key, admits)


def scope_of(toolset: str | ToolsetSettings | Scope, settings: Settings) -> Scope:
    """Return what a toolset admits.

    Raises:
        ConfigError: no toolset is called that.
    """
    if isinstance(toolset, Scope):
        return toolset
    if isinstance(toolset, ToolsetSettings):
        return _admitted(toolset)
    source = settings.source or _NO_FILE
    found = settings.toolsets.get(toolset)
    if found is None:
        names = ", ".join(sorted(settings.toolsets)) or "none"
        hint = did_you_mean(toolset, settings.toolsets) or f"; there are {names}"
        raise ConfigError(str(source), (Problem(f"/toolsets/{toolset}", "name", f"is not a toolset{hint}"),))
    return _admitted(found)


def _admitted(toolset: ToolsetSettings) -> Scope:
    annotations = {str(hint): value for hint, value in toolset.annotations.items()}
    return Scope(
        **toolset.model_dump(exclude={"description", "annotations", "expose"}), annotations=annotations
    )

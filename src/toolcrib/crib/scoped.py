"""The part of an engine that a scope admits: its catalogue, its runner, and whom it waits for."""

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
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution import Runner
from toolcrib.execution.mcp import ServerStatus
from toolcrib.model import ToolId
from toolcrib.model.suggest import did_you_mean

__all__ = ["EnginePart", "ScopedEngine", "scope_of"]

_NO_FILE = "settings"
"""What stands for the file where there is none."""


class EnginePart(Protocol):
    """What a view asks: an engine about all its tools, or a scoped one about those that a scope admits."""

    @property
    def index(self) -> Index | IndexView:
        """The catalogue."""
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

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope
        self._made: tuple[Index, IndexView, AvailabilityResolver, DocStore] | None = None
        self._runs: tuple[Runner, AvailabilityResolver, Runner] | None = None
        self._known: tuple[Index, int, frozenset[str]] | None = None
        self.waiting = Waiting(self, engine.waiting.way_in)
        """Waits for the servers that may have a tool of the scope."""

    @property
    def names(self) -> frozenset[str]:
        """The namespaces of servers and APIs that may have a tool of the scope."""
        return frozenset(filter(self._has, self._engine.names))

    @property
    def listing(self) -> ToolLister | None:
        """Asks all servers and APIs for their tools; None while they are not started."""
        return self._engine.listing

    @property
    def index(self) -> IndexView:
        """The catalogue."""
        return self._catalogue()[1]

    @property
    def resolver(self) -> AvailabilityResolver:
        """The catalogue as a resolver that knows which servers are not there."""
        return self._catalogue()[2]

    def _catalogue(self) -> tuple[Index, IndexView, AvailabilityResolver, DocStore]:
        whole = self._engine.discovery.index
        if self._made is None or self._made[0] is not whole:
            index = whole.view(self._scope)
            resolver = AvailabilityResolver(index, self._engine.why_absent, self._is_unknown)
            self._made = whole, index, resolver, self._engine.discovery.docs.apart(resolver)
        return self._made

    @property
    def runner(self) -> Runner:
        """Runs what is in the catalogue."""
        resolver, whole = self.resolver, self._engine.runner
        if self._runs is None or self._runs[0] is not whole or self._runs[1] is not resolver:
            shapes = ShapeLearning(self._catalogue()[3])
            self._runs = whole, resolver, self._engine.runner_for(resolver, self.waiting, (shapes,))
        return self._runs[2]

    def docs_for(self, tool_id: str | ToolId) -> DocStore:
        """Return documentation of the tools here.

        Raises:
            ToolNotFoundError: the tool that it is asked for is none of them, be it documented or not.
        """
        self.resolver.resolve(tool_id)
        return self._catalogue()[3]

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers that may have a tool of the scope are doing."""
        return {name: status for name, status in self._engine.status().items() if self._has(name)}

    def absent(self) -> tuple[Absence, ...]:
        """Return which of these servers may be missing some of their tools."""
        return tuple(absence for absence in self._engine.absent() if self._has(absence.name))

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

    def _without(self) -> frozenset[str]:
        """Return the namespaces that have tools, but none inside."""
        whole = self._engine.discovery.index
        version = whole.version
        if self._known is None or self._known[:2] != (whole, version):
            without = frozenset(whole.namespaces()).difference(self.index.namespaces())
            self._known = whole, version, without
        return self._known[2]

    def may_have(self, ref: str | ToolId) -> bool:
        """Return whether a reference may mean a tool of a server or an API that the scope admits."""
        return self._engine.may_have(ref) and self._may_admit(str(ref))

    def _may_admit(self, ref: str) -> bool:
        return self._scope.may_admit(ref) and self._has(namespace_of(ref))

    def _is_unknown(self, ref: str) -> bool:
        """Return whether a reference may mean a tool of a server of which no tool is known.

        Where some are, one that is outside must look like one that nobody has.
        """
        return self._may_admit(ref) and namespace_of(ref) not in self._engine.discovery.index.namespaces()


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
    return Scope(**toolset.model_dump(exclude={"description", "annotations"}), annotations=annotations)

"""The part of an engine that a scope admits: its catalogue, its runner, and whom it waits for."""

from toolcrib.crib.availability import AvailabilityResolver
from toolcrib.crib.engine import Engine
from toolcrib.crib.sources.origins import Absence
from toolcrib.discovery import DocStore, Index, IndexView, Scope
from toolcrib.discovery.keys import namespace_of
from toolcrib.execution import Runner
from toolcrib.execution.mcp import ServerStatus
from toolcrib.model import ToolId

__all__ = ["ScopedEngine"]


class ScopedEngine:
    """What a view has instead of what the engine has for all; made again when the engine's is another."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope
        self._made: tuple[Index, IndexView, AvailabilityResolver] | None = None
        self._runs: tuple[Runner, AvailabilityResolver, Runner] | None = None
        self._known: tuple[Index, int, frozenset[str]] | None = None
        self.waiting = engine.waiting.within(self)
        """Waits for the servers that may have a tool of the scope."""

    @property
    def index(self) -> IndexView:
        """The catalogue."""
        return self._catalogue()[1]

    @property
    def resolver(self) -> AvailabilityResolver:
        """The catalogue as a resolver that knows which servers are not there."""
        return self._catalogue()[2]

    def _catalogue(self) -> tuple[Index, IndexView, AvailabilityResolver]:
        whole = self._engine.discovery.index
        if self._made is None or self._made[0] is not whole:
            index = whole.view(self._scope)
            self._made = whole, index, AvailabilityResolver(index, self._engine.why_absent, self._is_unknown)
        return self._made

    @property
    def runner(self) -> Runner:
        """Runs what is in the catalogue."""
        resolver, whole = self.resolver, self._engine.runner
        if self._runs is None or self._runs[0] is not whole or self._runs[1] is not resolver:
            self._runs = whole, resolver, self._engine.runner_for(resolver, self.waiting)
        return self._runs[2]

    def docs(self, docs: DocStore, tool_id: str | ToolId) -> DocStore:
        """Return documentation of the tools here.

        Raises:
            ToolNotFoundError: the tool that it is asked for is none of them, be it documented or not.
        """
        self.resolver.resolve(tool_id)
        return docs.through(self.resolver)

    def only(self, statuses: dict[str, ServerStatus]) -> dict[str, ServerStatus]:
        """Return what is told of the servers that may have a tool of the scope."""
        return {name: status for name, status in statuses.items() if self.has(name)}

    def absent(self) -> tuple[Absence, ...]:
        """Return which of these servers may be missing some of their tools."""
        return tuple(absence for absence in self._engine.absent() if self.has(absence.name))

    def has(self, namespace: str) -> bool:
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

    def may_have(self, ref: str) -> bool:
        """Return whether a reference may mean a tool of the scope."""
        return self._scope.may_admit(ref) and self.has(namespace_of(ref))

    def _is_unknown(self, ref: str) -> bool:
        """Return whether a reference may mean a tool of a server of which no tool is known.

        Where some are, one that is outside must be told as one that nobody has.
        """
        return self.may_have(ref) and namespace_of(ref) not in self._engine.discovery.index.namespaces()

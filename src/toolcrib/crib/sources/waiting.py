"""Which servers and APIs a call waits for, and for how long."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.crib.sources.listing import ToolLister
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import CribStateError, ToolcribError
from toolcrib.model import Resolver, ToolId
from toolcrib.runtime.stubs import identifier
from toolcrib.runtime.surface import mentioned

if TYPE_CHECKING:
    from toolcrib.crib.engine import Engine

__all__ = ["Scoped", "Waiting"]


class Scoped(Protocol):
    """A part of an engine, as far as waiting goes."""

    @property
    def index(self) -> Resolver:
        """The tools that are in it."""
        ...

    def has(self, namespace: str) -> bool:
        """Return whether a namespace may have a tool in it."""
        ...

    def may_have(self, ref: str) -> bool:
        """Return whether a reference may mean a tool in it."""
        ...


class Waiting:
    """Lets each call wait for the first answers of those whose tools it needs, and for nobody else."""

    def __init__(self, engine: "Engine", way_in: str, scoped: Scoped | None = None) -> None:
        """Wait for the servers of an engine; `way_in` is what a user writes to start them.

        Where a part of the engine is given, nobody waits for what cannot be in it.
        """
        self._engine = engine
        self._way_in = way_in
        self._scoped = scoped

    def within(self, scoped: Scoped) -> "Waiting":
        """Return what waits for a part of the engine alone."""
        return Waiting(self._engine, self._way_in, scoped)

    @property
    def names(self) -> frozenset[str]:
        """The namespaces whose tools come from servers and APIs."""
        names = self._engine.names
        return names if self._scoped is None else frozenset(filter(self._scoped.has, names))

    def check(self, tool_id: str | ToolId) -> None:
        """Refuse a tool that can only be one of a server while none is started.

        Raises:
            CribStateError: the crib is not entered.
        """
        if self._engine.listing is None and self._is_absent(tool_id):
            raise self._not_started()

    async def for_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - optional servers may be late
        """Wait until everything configured has answered or failed."""
        if self._engine.names:
            await self._listing.wait_all(timeout)

    async def for_listing(self, options: Mapping[str, Any]) -> None:
        """Wait for what a list or a search needs; a page that is not the first needs nobody."""
        namespace = options.get("namespace")
        needed = [name for name in self.names if namespace is None or name == namespace]
        if needed and options.get("cursor") is None:
            await self._listing.wait(sorted(needed), first=namespace is not None)

    async def for_code(self, code: str) -> None:
        """Wait for those whose names stand in the code, as it spells them."""
        words = mentioned(code)
        for name in sorted(name for name in self.names if identifier(name) in words):
            await self.for_listing({"namespace": name})

    async def for_tool(self, tool_id: str | ToolId) -> None:
        """Wait until it is known whether there is a tool.

        What was kept of an earlier run says that a tool is there, and not that one is missing: a server may
        have learnt it since, and in a process that runs one tool and ends nobody else would ask. So a name
        that is mistyped costs a start of its server, once; after its first answer it is told at once.
        """
        namespace, known = namespace_of(tool_id), None
        while self._is_absent(tool_id):
            origin = self._listing.origins.get(namespace)
            if origin is known:  # it was waited for, and no other has come in its place
                return
            known = origin
            await self._listing.wait([namespace], first=True)
            if self._is_absent(tool_id):
                await self._listing.wait_again(namespace)

    def _is_absent(self, tool_id: str | ToolId) -> bool:
        """Return whether a tool is not there that a server or an API may still have."""
        namespace = namespace_of(tool_id)
        if namespace not in self._engine.names:
            return False
        scoped = self._scoped
        if scoped is not None and not scoped.may_have(str(tool_id)):
            return False
        index = self._engine.discovery.index if scoped is None else scoped.index
        try:
            index.resolve(tool_id)
        except ToolcribError:
            return True
        return False

    @property
    def _listing(self) -> ToolLister:
        listing = self._engine.listing
        if listing is None:
            raise self._not_started()
        return listing

    def _not_started(self) -> CribStateError:
        names = ", ".join(sorted(self.names))
        return CribStateError(f"its servers are not started ({names}); use it within `{self._way_in}`")

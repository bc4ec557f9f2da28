"""Which servers and APIs a call waits for, and for how long."""

from collections.abc import Mapping
from typing import Any, Protocol

from toolcrib.crib.sources.listing import ToolLister
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import CribStateError, ToolcribError
from toolcrib.model import Resolver, ToolId
from toolcrib.runtime.stubs import identifier
from toolcrib.runtime.surface import mentioned


class Sources(Protocol):
    """The servers and APIs that calls may wait for: all of an engine, or those of a part of it."""

    @property
    def names(self) -> frozenset[str]:
        """The namespaces whose tools come from them."""
        ...

    @property
    def listing(self) -> ToolLister | None:
        """Asks them for their tools; None while they are not started."""
        ...

    @property
    def index(self) -> Resolver:
        """The tools that are known."""
        ...

    def may_have(self, ref: str | ToolId) -> bool:
        """Return whether a reference may mean a tool of theirs."""
        ...


class Waiting:
    """Lets each call wait for the first answers of those whose tools it needs, and for nobody else."""

    def __init__(self, sources: Sources, way_in: str) -> None:
        """Wait for servers and APIs; `way_in` is what a user writes to start them."""
        self._sources = sources
        self.way_in = way_in

    @property
    def names(self) -> frozenset[str]:
        """The namespaces whose tools come from servers and APIs."""
        return self._sources.names

    def check(self, tool_id: str | ToolId) -> None:
        """Refuse a tool that can only be one of a server while none is started.

        Raises:
            CribStateError: the crib is not entered.
        """
        if self._sources.listing is None and self._is_absent(tool_id):
            raise self._not_started()

    async def for_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - optional servers may be late
        """Wait until everything configured has answered or failed."""
        if self.names:
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
        that is mistyped costs a start of its server, once; after its first answer it is refused at once.
        """
        known = None
        while self._is_absent(tool_id):
            namespace = namespace_of(tool_id)
            origin = self._listing.origins.get(namespace)
            if origin is known:  # it was waited for, and no other has come in its place
                return
            known = origin
            await self._listing.wait([namespace], first=True)
            if self._is_absent(tool_id):
                await self._listing.wait_again(namespace)

    def _is_absent(self, tool_id: str | ToolId) -> bool:
        """Return whether a tool is not there that a server or an API may still have."""
        if not self._sources.may_have(tool_id):
            return False
        try:
            self._sources.index.resolve(tool_id)
        except ToolcribError:
            return True
        return False

    @property
    def _listing(self) -> ToolLister:
        listing = self._sources.listing
        if listing is None:
            raise self._not_started()
        return listing

    def _not_started(self) -> CribStateError:
        names = ", ".join(sorted(self.names))
        return CribStateError(f"its servers are not started ({names}); use it within `{self.way_in}`")

"""Which servers and APIs a call waits for, and for how long."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.crib.reach import namespace_of
from toolcrib.crib.sources.listing import Listing
from toolcrib.errors import CribStateError, ToolcribError
from toolcrib.model import ToolId
from toolcrib.runtime.stubs import identifier
from toolcrib.runtime.surface import mentioned

if TYPE_CHECKING:
    from toolcrib.crib.engine import Engine

__all__ = ["Waiting"]


class Waiting:
    """Lets each call wait for the first answers of those whose tools it needs, and for nobody else."""

    def __init__(
        self, engine: "Engine", way_in: str, concerns: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Wait for the servers of an engine; `way_in` is what a user writes to start them.

        `concerns` says of a namespace whether anybody waits for it, or hears of it.
        """
        self._engine = engine
        self._way_in = way_in
        self._concerns = concerns

    def within(self, concerns: Callable[[str], bool]) -> "Waiting":
        """Return what waits for some namespaces alone."""
        return Waiting(self._engine, self._way_in, concerns)

    @property
    def names(self) -> frozenset[str]:
        """The namespaces whose tools come from servers and APIs."""
        return frozenset(filter(self._concerns, self._engine.names))

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
            origins = self._listing.origins
            named = [name for name in sorted(needed) if namespace or not origins[name].missed]
            await self._listing.wait(named, first=namespace is not None)

    async def for_code(self, code: str) -> None:
        """Wait for those whose names stand in the code, as it spells them."""
        words = mentioned(code)
        for name in sorted(name for name in self.names if identifier(name) in words):
            await self.for_listing({"namespace": name})

    async def for_tool(self, tool_id: str | ToolId) -> None:
        """Wait until it is known whether there is a tool."""
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
        if namespace not in self._engine.names or not self._concerns(namespace):
            return False
        try:
            self._engine.discovery.index.resolve(tool_id)
        except ToolcribError:
            return True
        return False

    @property
    def _listing(self) -> Listing:
        listing = self._engine.listing
        if listing is None:
            raise self._not_started()
        return listing

    def _not_started(self) -> CribStateError:
        names = ", ".join(sorted(self.names))
        return CribStateError(f"its servers are not started ({names}); use it within `{self._way_in}`")

"""The state of a gateway, without requests to servers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from toolcrib.crib import Crib, View
from toolcrib.discovery import StoreStatus
from toolcrib.execution import Principal
from toolcrib.execution.audit import AuditStatus
from toolcrib.execution.mcp import ServerStatus

_WELL = frozenset({"stopped", "starting", "ready", "disabled"})
"""States of a server that can serve its next call, or is switched off."""


class Health:
    """The state of a crib and its endpoints."""

    def __init__(self, crib: Callable[[], Crib], sessions: Callable[[], int]) -> None:
        """Read the state from a crib and a number of sessions, both when they are needed."""
        self._crib, self._sessions = crib, sessions

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing."""
        return self._crib().status()

    def visible_to(self, principal: Principal | None) -> frozenset[str] | None:
        """Return the servers and APIs whose names a principal may see; None where it may see all names."""
        crib = self._crib()
        if crib.rules is None:
            return None
        return frozenset(crib.seen_by(principal or Principal()).status())

    def audit(self) -> AuditStatus | None:
        """Return the status of the audit file; None if calls are not recorded."""
        return self._crib().audit_status

    def catalogue(self) -> StoreStatus | None:
        """Return the status of the catalogue's file; None if the catalogue is not persisted."""
        return self._crib().catalogue_status

    def unready(self) -> dict[str, str]:
        """Return the required parts that are not ready, with their states."""
        return self._unready_servers() | self._unready_audit()

    def _unready_audit(self) -> dict[str, str]:
        settings, status = self._crib().settings.audit, self.audit()
        if settings is None or not settings.required or status is None or status.fault is None:
            return {}
        return {"audit": status.fault}

    def _unready_servers(self) -> dict[str, str]:
        settings = self._crib().settings
        required = {name for name, server in settings.servers.items() if server.required}
        required |= {name for name, api in settings.openapi.items() if api.required}
        return {
            name: status.state
            for name, status in self.status().items()
            if name in required and status.state not in _WELL
        }

    def gauges(self, principal: Principal | None = None) -> Iterator[tuple[str, str, float]]:
        """Yield numbers: their name, what they are, and how much; of tools, those that a principal may find.

        How often the catalogue has changed would tell of tools that rules hide from a principal.
        """
        seen = self._view_of(principal)
        yield "tools", "Tools in the catalogue", len(seen.index)
        if principal is None or seen.rules is None:
            yield "index_version", "How often the catalogue has changed", seen.index.version
        audit = self.audit()
        if audit is not None:
            yield "audit_lost", "Records of calls that could not be written", audit.lost
            yield "audit_waiting", "Records of calls that are waiting to be written", audit.waiting
        catalogue = self.catalogue()
        if catalogue is not None:
            yield "catalogue_lost", "Changes to the catalogue that were discarded", catalogue.lost
            yield (
                "catalogue_waiting",
                "Changes to the catalogue that are waiting to be written",
                catalogue.waiting,
            )
        yield "sessions", "Sessions of clients of the older protocol", self._sessions()

    def states(self, principal: Principal | None = None) -> Mapping[str, int]:
        """Return how many servers are in each state, of those whose names a principal may see."""
        return Counter(status.state for status in self._view_of(principal).status().values())

    def _view_of(self, principal: Principal | None) -> View:
        """Return what a principal may find; everything without one, or without rules."""
        crib = self._crib()
        return crib if crib.rules is None else crib.seen_by(principal)

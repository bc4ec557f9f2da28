"""Chains and code that take long: they go on as tasks of the gateway itself."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.runner import modern_error_data

from toolcrib.execution import Principal
from toolcrib.gateway.passing import wire
from toolcrib.gateway.request.held import HeldCall
from toolcrib.gateway.tasks.table import new_id

_LIFETIME = 60 * 60.0
"""For how many seconds a task can be asked about, at least."""
_AFTERWARDS = 15 * 60.0
"""For how many of them after its end."""
_POLL_MS = 1000
"""After how many milliseconds a client should ask again."""


class OwnTask:
    """A call of a tool that goes on without a request; once it has ended, only its outcome is kept."""

    def __init__(
        self, owner: Principal, held: HeldCall, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take over a call that runs."""
        self.id, self.owner = new_id(), owner
        self._held: HeldCall | None = held
        self._clock, self._before = clock, held.on_end
        self._began, self._began_at = clock(), datetime.now(UTC)
        self._ended: float | None = None
        self._status, self._changed = "working", self._began
        self._outcome: dict[str, Any] = {}
        held.on_end = self._end

    def _end(self) -> None:
        """Keep what became of the call."""
        held, self._held = self._held, None
        if held is None:
            return
        if held.scope.cancelled_caught:
            self._status = "cancelled"
        elif isinstance(held.failure, Exception):
            self._status, self._outcome = "failed", {"error": wire(modern_error_data(held.failure))}
        else:
            self._status, self._outcome = "completed", {"result": wire(held.result())}
        self._ended = self._changed = self._clock()
        self._before()

    def is_expired(self, now: float) -> bool:
        """Return whether its time is over: it is kept for as long as it runs, and a while after."""
        return self._ended is not None and now > self._until(now)

    def handle(self) -> dict[str, Any]:
        """Return what its client is told when it begins."""
        return {"resultType": "task", **self._summary()}

    def details(self) -> dict[str, Any]:
        """Return how it is: what it asks, or what became of it."""
        asked = {} if self._held is None else {key: wire(each) for key, each in self._held.asked.items()}
        status = "input_required" if asked else "working"
        if self._held is not None and status != self._status:
            self._status, self._changed = status, self._clock()
        return self._summary() | ({"inputRequests": asked} if asked else {}) | self._outcome

    def update(self, responses: Mapping[str, Any]) -> None:
        """Take answers to what it asks; those that fit nothing are asked for again."""
        if self._held is not None:
            self._held.take_responses(responses)

    def follow(self, context: ServerRequestContext[Any, Any]) -> None:
        """Go on by the right of this request, which its owner has made."""
        if self._held is not None:
            self._held.follow_request(context)

    def cancel(self) -> None:
        """Stop it; nothing happens where it has ended."""
        if self._held is not None:
            self._held.scope.cancel()

    def _summary(self) -> dict[str, Any]:
        changed = self._began_at + timedelta(seconds=self._changed - self._began)
        return {
            "taskId": self.id,
            "status": self._status,
            "createdAt": _written(self._began_at),
            "lastUpdatedAt": _written(changed),
            "ttlMs": round((self._until(self._clock()) - self._began) * 1000),
            "pollIntervalMs": _POLL_MS,
        }

    def _until(self, now: float) -> float:
        """Return until when it is kept, as far as that is known."""
        return max(self._began + _LIFETIME, (self._ended or now) + _AFTERWARDS)


def _written(moment: datetime) -> str:
    """Return a time in the format of the protocol."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

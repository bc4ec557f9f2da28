"""Tasks of the gateway itself: chains and code that take long."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp.server.runner import modern_error_data

from toolcrib.execution import Principal
from toolcrib.gateway.app.asgi import HttpRequest
from toolcrib.gateway.passing import wire
from toolcrib.gateway.request.held import HeldCall

_LIFETIME = 60 * 60.0
"""Least seconds for which a client can ask about a task."""
_AFTERWARDS = 15 * 60.0
"""Least seconds of them after its end."""
_POLL_MS = 1000
"""Milliseconds after which a client should ask again."""


class OwnTask:
    """A call that continues after its request was answered; once it has ended, only its outcome is kept."""

    def __init__(
        self, owner: Principal, held: HeldCall, task_id: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Wrap a running call."""
        self.id, self.owner = task_id, owner
        self._held: HeldCall | None = held
        self._clock, self._before = clock, held.on_end
        self._began, self._began_at = clock(), datetime.now(UTC)
        self._ended: float | None = None
        self._status, self._changed = "working", self._began
        self._outcome: dict[str, Any] = {}
        held.on_end = self._record_outcome

    def _record_outcome(self) -> None:
        """Store the result or the error of the call."""
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
        """Return whether it ended long enough ago to be forgotten."""
        return self._ended is not None and now > self._until(now)

    def handle(self) -> dict[str, Any]:
        """Return the answer to the request that started it."""
        return {"resultType": "task", **self._summary()}

    def details(self) -> dict[str, Any]:
        """Return its state, with its questions or its outcome."""
        asked = {} if self._held is None else {key: wire(each) for key, each in self._held.asked.items()}
        status = "input_required" if asked else "working"
        if self._held is not None and status != self._status:
            self._status, self._changed = status, self._clock()
        return self._summary() | ({"inputRequests": asked} if asked else {}) | self._outcome

    def update(self, responses: Mapping[str, Any]) -> None:
        """Take responses to its questions; a question without a fitting response stays open."""
        if self._held is not None:
            self._held.take_responses(responses)

    def follow_request(self, request: HttpRequest | None) -> None:
        """Run under the token of a request of its owner, from now on."""
        if self._held is not None:
            self._held.follow_request(request)

    def cancel(self) -> None:
        """Cancel it, unless it has ended."""
        if self._held is not None:
            self._held.scope.cancel()

    def _summary(self) -> dict[str, Any]:
        changed = self._began_at + timedelta(seconds=self._changed - self._began)
        return {
            "taskId": self.id,
            "status": self._status,
            "createdAt": _timestamp(self._began_at),
            "lastUpdatedAt": _timestamp(changed),
            "ttlMs": round((self._until(self._clock()) - self._began) * 1000),
            "pollIntervalMs": _POLL_MS,
        }

    def _until(self, now: float) -> float:
        """Return the earliest time at which it is forgotten."""
        return max(self._began + _LIFETIME, (self._ended or now) + _AFTERWARDS)


def _timestamp(moment: datetime) -> str:
    """Return a time in the format of the protocol."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Change events of the catalogue, and their listeners."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from toolcrib.errors import Problem, ValidationError
from toolcrib.model import ToolBackend

ChangeKind = Literal["registered", "updated", "backend_added", "backend_removed", "removed"]

_LOG = logging.getLogger("toolcrib.discovery")


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one tool in the catalogue."""

    kind: ChangeKind
    """The kind of change."""
    tool_id: str
    """The id of the tool."""
    version: int
    """The version of the index after the change."""
    backend: ToolBackend | None = None
    """The backend that was added or removed."""
    fields: tuple[str, ...] = ()
    """The JSON names of the changed fields of the definition."""


class Listeners:
    """Change callbacks, called in the order of subscription; one that raises is logged and skipped.

    Changes are delivered one at a time, in the order in which they were queued. A change that is queued
    during a delivery, by a callback or by another thread, is delivered after it by the thread that delivers.
    """

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[Change], object]] = {}
        self._lock = Lock()
        self._waiting: deque[Change] = deque()
        self._delivering = Lock()

    def add(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Subscribe a callback, and return an idempotent function that unsubscribes it.

        Raises:
            ValidationError: the callback is not callable.
        """
        if not callable(callback):
            message = f"must be a function of a change, not {type(callback).__name__}"
            raise ValidationError((Problem("/callback", "type", message),))
        ticket = object()
        with self._lock:
            self._callbacks[ticket] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(ticket, None)

        return unsubscribe

    def queue(self, changes: Iterable[Change]) -> None:
        """Queue changes for delivery."""
        self._waiting.extend(changes)

    def deliver_queued(self) -> None:
        """Deliver all queued changes to all callbacks, unless another thread is delivering."""
        # The outer loop repeats the test after the release: a change queued just before it would be stuck.
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    self._deliver(self._waiting.popleft())
            finally:
                self._delivering.release()

    def _deliver(self, change: Change) -> None:
        with self._lock:
            tickets = tuple(self._callbacks)
        for ticket in tickets:
            callback = self._callbacks.get(ticket)
            if callback is None:  # unsubscribed by an earlier callback
                continue
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - a callback of the program must not stop the others
                _LOG.exception("a listener failed on %s", change)

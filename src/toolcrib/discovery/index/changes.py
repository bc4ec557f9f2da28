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
    """One thing that happened to one tool."""

    kind: ChangeKind
    """What happened."""
    tool_id: str
    """The id of the tool."""
    version: int
    """The version of the index from which on it is so."""
    backend: ToolBackend | None = None
    """The backend that came or went."""
    fields: tuple[str, ...] = ()
    """What is different in the definition, by its JSON names."""


class Listeners:
    """Callbacks, called in the order they subscribed; one that fails is logged, and the others still hear.

    Everybody hears of changes one at a time, in the order in which they were noted. One that is noted while
    another is delivered, by a callback or by another thread, is delivered after it, by whoever is delivering.
    """

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[Change], object]] = {}
        self._lock = Lock()
        self._waiting: deque[Change] = deque()
        self._telling = Lock()

    def add(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Subscribe a callback, and return what takes it off again; a second time does nothing.

        Raises:
            ValidationError: it cannot be called.
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

    def note(self, changes: Iterable[Change]) -> None:
        """Remember changes that are to be delivered."""
        self._waiting.extend(changes)

    def tell(self) -> None:
        """Tell every callback of every change that was noted."""
        while self._waiting and self._telling.acquire(blocking=False):
            try:
                while self._waiting:
                    self._tell(self._waiting.popleft())
            finally:
                self._telling.release()

    def _tell(self, change: Change) -> None:
        with self._lock:
            tickets = tuple(self._callbacks)
        for ticket in tickets:
            callback = self._callbacks.get(ticket)
            if callback is None:  # it was taken off meanwhile
                continue
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - anybody's code: what it raises is its own, and the others still hear
                _LOG.exception("a listener failed on %s", change)

"""What happened to the catalogue, and who wants to know."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from toolcrib.model import ToolBackend

__all__ = ["Change", "ChangeKind", "Listeners"]

ChangeKind = Literal["registered", "updated", "backend_added", "backend_removed", "removed"]

_LOG = logging.getLogger("toolcrib.discovery")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to one tool."""

    kind: ChangeKind
    tool_id: str
    version: int
    """The version of the index from which on it is so."""
    backend: ToolBackend | None = None
    """The backend that came or went."""
    fields: tuple[str, ...] = ()
    """What is different in the definition, by its JSON names."""


class Listeners:
    """Callbacks, called in the order they subscribed; one that fails is logged, and the others still hear."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[Change], object]] = {}
        self._lock = Lock()

    def add(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Subscribe a callback, and return what takes it off again; a second time does nothing."""
        ticket = object()
        with self._lock:
            self._callbacks[ticket] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(ticket, None)

        return unsubscribe

    def tell(self, changes: Iterable[Change]) -> None:
        """Tell every callback of every change."""
        with self._lock:
            callbacks = tuple(self._callbacks.values())
        if not callbacks:
            return
        for change in changes:
            for callback in callbacks:
                try:
                    callback(change)
                except Exception:  # noqa: BLE001 - anybody's code: what it raises is its own, and the others still hear
                    _LOG.exception("a listener failed on %s", change)

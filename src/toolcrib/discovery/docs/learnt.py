"""The observed shapes of many tools, kept up to date and written down when there is something to write."""

from dataclasses import dataclass
from threading import Lock
from typing import Any

from toolcrib.discovery.docs.observed import ObservedShape
from toolcrib.discovery.kept import Kept, Texts
from toolcrib.model.docs import ObservedOutput
from toolcrib.model.plain import copy_json

__all__ = ["Learnt"]


@dataclass(frozen=True, slots=True)
class _Seen:
    shape: ObservedShape
    schema: dict[str, Any]
    saved: int
    """How many results the written form speaks of."""


class Learnt:
    """What tools have been seen to give back, by key. Every method may be called from any thread.

    A shape is written when its schema changes or the number of results has doubled, so that a busy tool does
    not write on every call; `flush` writes the rest.
    """

    def __init__(self, texts: Texts | None) -> None:
        self._kept = Kept(texts, "observed")
        self._lock = Lock()
        read = self._kept.load(ObservedShape.from_json)
        self._seen = {key: _Seen(shape, shape.json_schema(), shape.observed) for key, shape in read.items()}

    def add(self, key: str, shape: ObservedShape) -> None:
        """Learn from one more result."""
        with self._lock:
            before = self._seen.get(key) or _Seen(ObservedShape(), {}, 0)
            merged = before.shape.merge(shape)
            schema = merged.json_schema()
            is_due = schema != before.schema or merged.observed >= 2 * before.saved
            if is_due:
                self._kept.put(key, merged.to_json())
            self._seen[key] = _Seen(merged, schema, merged.observed if is_due else before.saved)

    def of(self, key: str) -> ObservedOutput | None:
        """Return what was learnt, if anything was."""
        seen = self._seen.get(key)
        if seen is None:
            return None
        return ObservedOutput.of_checked(observed=seen.shape.observed, json_schema=copy_json(seen.schema))

    def forget(self, key: str) -> None:
        """Unlearn a tool."""
        with self._lock:
            if key in self._seen:
                self._kept.delete(key)
                del self._seen[key]

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            for key, seen in self._seen.items():
                if seen.saved != seen.shape.observed:
                    self._kept.put(key, seen.shape.to_json())
                    self._seen[key] = _Seen(seen.shape, seen.schema, seen.shape.observed)

"""Arguments as a key, and answers as bytes: what a cache may compare and keep.

Answers are kept as JSON text, so that no two callers ever share a list or an object, and the size that is
counted is the size that is kept.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic_core import from_json, to_json

from toolcrib.errors import ValidationError
from toolcrib.execution.records import Answer
from toolcrib.model.plain import measure

__all__ = ["FrozenAnswer", "digest", "freeze"]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(args: Any) -> bytes | None:
    """Return what equal arguments have in common, or None if they are not plain JSON.

    The order of keys makes no difference; the types of numbers do.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), digest({"a": 1}) == digest({"a": 1.0})
    (True, False)
    """
    if not _is_json(args):
        return None
    return blake2b(_CANONICAL.encode(args).encode(), digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class FrozenAnswer:
    """An answer that nobody can change."""

    structured: bytes
    mcp_result: bytes | None
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Return how many bytes are kept."""
        return len(self.structured) + len(self.mcp_result or b"")

    def thaw(self, note: str) -> Answer:
        """Return the answer anew, with a note on where it comes from."""
        return Answer(
            structured=from_json(self.structured),
            mcp_result=None if self.mcp_result is None else from_json(self.mcp_result),
            notes=(*self.notes, note),
        )


def freeze(answer: Answer) -> FrozenAnswer | None:
    """Return an answer as it can be kept, or None if it holds more than plain JSON."""
    if not _is_json(answer.structured) or not _is_json(answer.mcp_result):
        return None
    raw = None if answer.mcp_result is None else to_json(answer.mcp_result)
    return FrozenAnswer(to_json(answer.structured), raw, answer.notes)


def _is_json(value: Any) -> bool:
    """Return whether a value is plain JSON, and not too large or deep to be handled."""
    try:
        measure(value)
    except ValidationError:
        return False
    return True

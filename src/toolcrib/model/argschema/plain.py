"""JSON as Python holds it: a schema copied within limits, and arguments looked over for what is not JSON."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.argschema.findings import Findings
from toolcrib.model.argschema.wording import Place

MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_VALUES = 500_000

_ATOMS = frozenset({str, int, bool, type(None)})


def atom_flaw(value: object) -> str | None:
    """Return why a value that is not a list or a dict is not JSON, or None when it is.

    >>> atom_flaw(float("nan")), atom_flaw((1, 2)), atom_flaw("text")
    ('must not be NaN or Infinity', 'must be a JSON value, not tuple', None)
    """
    kind = type(value)
    if kind in _ATOMS:
        return None
    if kind is float:
        return None if math.isfinite(value) else "must not be NaN or Infinity"  # type: ignore[arg-type]  # a float
    return f"must be a JSON value, not {kind.__name__[:40]}"


def copy_schema(schema: dict[Any, Any], findings: Findings) -> Any:
    """Return a schema as a tree of new dicts and lists, having noted everything in it that is not JSON.

    Raises:
        SchemaTooComplexError: it is deeper or larger than any honest one, or contains itself.
    """
    return _Copy(findings).of(schema, ())


class _Copy:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._left = MAX_SCHEMA_VALUES

    def of(self, container: Any, at: Place) -> Any:
        if len(at) >= MAX_SCHEMA_DEPTH:
            reason = f"the argument schema is nested more than {MAX_SCHEMA_DEPTH} levels deep"
            raise SchemaTooComplexError(reason)
        self._left -= len(container)
        if self._left < 0:
            raise SchemaTooComplexError(f"the argument schema holds more than {MAX_SCHEMA_VALUES} values")
        if type(container) is dict:
            return dict(self._sound(container.items(), at, keyed=True))
        return [item for _, item in self._sound(enumerate(container), at, keyed=False)]

    def _sound(
        self, pairs: Iterable[tuple[Any, Any]], at: Place, *, keyed: bool
    ) -> Iterator[tuple[Any, Any]]:
        """Yield copies of what is JSON; note, and leave out, what is not."""
        for key, item in pairs:
            if keyed and type(key) is not str:
                self._findings.refuse(at, "json", f"keys must be strings, not {type(key).__name__[:40]}")
            elif type(item) in _ATOMS:
                yield key, item
            elif type(item) is dict or type(item) is list:
                yield key, self.of(item, (*at, key))
            elif flaw := atom_flaw(item):
                self._findings.refuse((*at, key), "json", flaw)
            else:
                yield key, item


class JsonScan:
    """Looks through values for what JSON cannot hold, visiting a shared container once."""

    def __init__(self) -> None:
        self._sound: set[int] = set()
        self._open: set[int] = set()

    def flaw(self, value: Any) -> tuple[Place, str] | None:
        """Return where inside a value the first flaw is, and what it is."""
        if type(value) not in (dict, list):
            reason = atom_flaw(value)
            return ((), reason) if reason else None
        self._open = set()
        frames: list[_Frame] = []
        self._enter(frames, "", value)
        while frames:
            stop = self._next_stop(frames[-1])
            if stop is None:
                self._sound.add(id(frames.pop().value))
                continue
            key, child, reason = stop
            if reason:
                return (*(frame.key for frame in frames[1:]), key), reason
            self._enter(frames, key, child)
        return None

    def _enter(self, frames: list["_Frame"], key: str | int, value: Any) -> None:
        self._open.add(id(value))
        frames.append(_Frame(key, value))

    def _next_stop(self, frame: "_Frame") -> tuple[str | int, Any, str | None] | None:
        keyed = type(frame.value) is dict
        for key, child in frame.walk:
            if keyed and type(key) is not str:
                return "", child, f"must have only string keys, not {type(key).__name__[:40]}"
            kind = type(child)
            if kind in _ATOMS or id(child) in self._sound:
                continue
            if kind is not list and kind is not dict:
                if reason := atom_flaw(child):
                    return key, child, reason
            elif id(child) in self._open:
                return key, child, "must not contain itself"
            else:
                return key, child, None
        return None


class _Frame:
    __slots__ = ("key", "value", "walk")

    def __init__(self, key: str | int, value: Any) -> None:
        self.key = key
        self.value = value
        self.walk: Iterator[tuple[Any, Any]] = iter(
            value.items() if type(value) is dict else enumerate(value)
        )

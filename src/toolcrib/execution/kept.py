"""Kept results as arguments: a handle stands for the value, which never passes the model.

A handle is `{"$kept": ID}`, with `"path": "/json/pointer"` for a part. Code that takes arguments from a
client marks the handles in them (`mark_handles`), and the runner replaces the marked ones (`fill_handles`),
before the rules decide and the arguments are validated. The audit records the arguments with their handles.
Only marked handles are replaced: a result of a tool that looks like one, and is passed on by a chain, is not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import InputValidationError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.model.plain import parse_json, pointer, walk
from toolcrib.model.schema.references import lookup, parse_pointer
from toolcrib.model.tool import Tool

KEPT: Final = "$kept"
"""The key of a handle."""
LITERAL: Final = "$literal"
"""The key of an object that stands for a plain one which looks like a handle."""
ReadKept = Callable[[str], Awaitable[tuple[str | bytes, str] | None]]
"""Returns the data and media type of a kept result of the caller; None if there is none, or it expired."""
_MAX_HANDLES = 32
_MAX_BYTES = 8 * 2**20
"""The maximum size of all values that the arguments of one call stand for."""
_LARGE = 2**18
"""Bytes from which on a value is parsed in a worker thread."""
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class KeptHandle:
    """A handle in arguments, marked as such."""

    written: dict[str, Any]
    """The handle as it was written."""


def looks_like_handle(value: dict[str, Any]) -> bool:
    """Return whether an object is written as a handle.

    >>> looks_like_handle({"$kept": "x", "path": "/a"}), looks_like_handle({"$kept": "x", "b": 1})
    (True, False)
    """
    return KEPT in value and value.keys() <= {KEPT, "path"}


def may_have_handles(value: Any) -> bool:
    """Return whether a JSON value may have handles, or objects that look like them."""
    try:
        return KEPT in repr(value)  # faster than a walk, and nearly always false
    except RecursionError:  # too deep to be valid
        return False


def mark_handles(args: Any) -> Any:
    """Return arguments with their handles marked.

    An object that only looks like a handle is written `{"$literal": {"$kept": ...}}`.
    """
    if isinstance(args, list):
        return list(map(mark_handles, args))
    if not isinstance(args, dict):
        return args
    if looks_like_handle(args):
        return KeptHandle(args)
    inner = args.get(LITERAL)
    if args.keys() == {LITERAL} and isinstance(inner, dict) and KEPT in inner:
        return inner
    return {key: mark_handles(each) for key, each in args.items()}


def unmark_handles(value: Any) -> Any:
    """Return a value with its handles as they were written."""
    if isinstance(value, KeptHandle):
        return value.written
    if isinstance(value, list):
        return list(map(unmark_handles, value))
    return {key: unmark_handles(each) for key, each in value.items()} if isinstance(value, dict) else value


async def nothing_kept(_: str) -> None:
    """Return that nothing is kept, for callers without kept results."""


async def fill_handles(args: dict[str, Any], tool: Tool, read: ReadKept) -> dict[str, Any]:
    """Return arguments with the values of kept results in place of marked handles.

    A tool whose own schema has a property `$kept` gets the handles as they are.

    Raises:
        InputValidationError: a result is not there, is of another caller, or has nothing at the path; the
            error is the same for the first two. Or all values together are too large.
    """
    nodes = (node for node in walk(tool.shared("input_schema")) if isinstance(node, dict))
    if any(isinstance(node.get("properties"), dict) and KEPT in node["properties"] for node in nodes):
        plain: dict[str, Any] = unmark_handles(args)
        return plain
    filling = _Filling(read)
    filled: dict[str, Any] = await filling.fill(args, "")
    if filling.problems:
        raise InputValidationError(tuple(filling.problems[:MAX_PROBLEMS]), tool_id=str(tool.id))
    return filled


class _Filling:
    """Replaces the handles of one call."""

    def __init__(self, read: ReadKept) -> None:
        self.problems: list[Problem] = []
        self._read = read
        self._count = self._bytes = 0

    async def fill(self, value: Any, path: str) -> Any:
        """Return a value with the values of kept results in place of marked handles."""
        if isinstance(value, KeptHandle):
            return await self._value_of(value, path)
        if isinstance(value, list):
            return [await self.fill(each, f"{path}/{at}") for at, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: await self.fill(each, path + pointer([key])) for key, each in value.items()}
        return value

    async def _value_of(self, handle: KeptHandle, path: str) -> Any:
        name, place = handle.written[KEPT], handle.written.get("path", "")
        reason = "a handle is {'$kept': ID}, with a JSON Pointer as its 'path' if any"
        if isinstance(name, str) and isinstance(place, str) and place[:1] in {"", "/"}:
            try:
                value = await self._read_value(name)
            except _RefusedError as error:
                reason = str(error)
            else:
                part = lookup(value, parse_pointer(place), _MISSING) if place else value
                if part is not _MISSING:
                    return part
                reason = f"the kept result {short_repr(name)} has nothing at {short_repr(place)}"
        self.problems.append(Problem(path, KEPT, reason))
        return None

    async def _read_value(self, name: str) -> Any:
        """Return the value of a kept result.

        Raises:
            _RefusedError: it is not there, or is too large.
        """
        self._count += 1
        if self._count > _MAX_HANDLES:
            raise _RefusedError(f"a call has at most {_MAX_HANDLES} kept results as arguments")
        found = await self._read(name)
        if found is None:
            raise _RefusedError(
                f"nothing is kept as {short_repr(name)}, or it has expired; call its tool again"
            )
        data, kind = found
        self._bytes += len(data)
        if self._bytes > _MAX_BYTES:
            raise _RefusedError(f"the kept results of one call have at most {_MAX_BYTES:,} bytes together")
        if isinstance(data, bytes):
            raise _RefusedError(f"the kept result {short_repr(name)} is {kind}, neither text nor JSON")
        if kind != "application/json":
            return data
        return await in_thread(parse_json, data) if len(data) > _LARGE else parse_json(data)


class _RefusedError(Exception):
    """A handle without a value; the message gives the reason."""

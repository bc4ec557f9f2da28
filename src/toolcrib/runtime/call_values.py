"""Arguments and results of a guest's calls: JSON of limited size."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.errors import ValidationError
from toolcrib.model.plain import MAX_DEPTH, measure
from toolcrib.model.record import Record
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.request import Limits

MAX_ARGUMENT_CHARACTERS = 1 << 20
"""Characters in the arguments of one call, keys included."""
_MAX_ARGUMENT_VALUES = 50_000
VALUE_BYTES = 64
"""Memory of one value in CPython, at least: an object header and its place in a container."""
_MAX_RESULT_DIVISOR = 4
"""A result may take a quarter of the guest's memory: as JSON text and as parsed values it exists twice."""


def bind_arguments(
    path: str, args: Sequence[Any], kwargs: Mapping[str, Any], parameters: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a call by name; `parameters` is the order of positional ones.

    Raises:
        GuestError: they are not JSON, too large, too many without a name, or one is given twice.
    """
    named: dict[str, Any] = read_arguments(kwargs)
    if not args:
        return named
    given: list[Any] = read_arguments(args)
    if len(given) > len(parameters):
        message = f"takes at most {len(parameters)} arguments without names, not {len(given)}"
        raise GuestError("TypeError", f"{path} {message}; pass them by name")
    placed = dict(zip(parameters, given, strict=False))
    if twice := sorted(placed.keys() & named.keys()):
        raise GuestError("TypeError", f"{path} got {', '.join(map(repr, twice))} twice")
    return placed | named


def read_arguments(given: Any) -> Any:
    """Return a copy of the arguments as plain JSON; tuples become arrays.

    Raises:
        GuestError: they are not JSON, or too large.
    """
    value = _ContainerCopier().copy(given)
    try:
        _, _, chars, _ = measure(value)
    except ValidationError as error:
        raise GuestError("TypeError", f"arguments must be JSON: {error.problems[0]}") from error
    if chars > MAX_ARGUMENT_CHARACTERS:
        raise GuestError(
            "ValueError",
            f"arguments hold {chars:,} characters; at most {MAX_ARGUMENT_CHARACTERS:,} are allowed",
        )
    return value


class _ContainerCopier:
    """Copies containers up to a number of values; `measure` checks the values themselves afterwards.

    The number is counted while copying, since a value that shares its parts, such as a list that holds
    another list a million times, is small until it is copied.
    """

    def __init__(self) -> None:
        self._left = _MAX_ARGUMENT_VALUES

    def copy(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0:
            raise GuestError(
                "ValueError", f"arguments hold more than {_MAX_ARGUMENT_VALUES:,} values; pass fewer"
            )
        if depth > MAX_DEPTH:
            raise GuestError("ValueError", f"arguments are nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, tuple | list):
            return [self.copy(member, depth + 1) for member in value]
        if isinstance(value, Mapping):
            return {name: self.copy(member, depth + 1) for name, member in value.items()}
        return value


def to_plain(value: Any) -> Any:
    """Return a result of a gateway as JSON, records in their JSON form."""
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [to_plain(member) for member in value]
    return value


def list_found_tools(page: Any) -> Any:
    """Return the tools that a search found, each with its score, as the guest's `FoundTool` has them."""
    items = getattr(page, "items", page)
    if isinstance(page, Mapping) or not isinstance(items, Sequence):
        return to_plain(page)
    return [_flatten_found(item) for item in items]


def _flatten_found(item: Any) -> Any:
    value = to_plain(item)
    if isinstance(value, dict) and isinstance(value.get("summary"), dict):
        return {**value.pop("summary"), **value}
    return value


def check_room(value: Any, limits: Limits) -> Any:
    """Return a result, if it fits into the memory of a guest with these limits.

    Raises:
        GuestError: it does not fit, or is not JSON.
    """
    try:
        nodes, _, chars, _ = measure(value, max_depth=256)
    except ValidationError as error:
        message = f"the call was made, but its result cannot be passed on: {error.problems[0]}"
        raise GuestError("RuntimeError", message) from error
    size = chars + nodes * VALUE_BYTES
    if size * _MAX_RESULT_DIVISOR > limits.memory_bytes:
        message = f"the call was made, but there is no room here for its result of about {size >> 20:,} MB"
        raise GuestError("RuntimeError", f"{message}; ask the tool for less next time")
    return value

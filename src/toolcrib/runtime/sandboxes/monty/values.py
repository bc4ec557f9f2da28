"""Values that leave the guest: `__out`, which the guest writes as JSON, and the arguments of its calls.

The value leaves as text, whose size is known before it is parsed: a value that is small in the guest, such as
a list with another list in it a thousand times, could take all memory when the engine copies it to the host.
No value of the guest is trusted to have the expected form.
"""

import json
import re
from secrets import token_hex
from typing import Any

from toolcrib.errors import CodeError, LimitExceededError, ValidationError
from toolcrib.model.plain import MAX_DEPTH, measure
from toolcrib.runtime.call_values import MAX_ARGUMENT_CHARACTERS
from toolcrib.runtime.guest_errors import GuestError

RETURN_OUTSIDE_FUNCTION = "`return` outside of a function; leave the value in `__out`"
_MAX_MESSAGE = 1000
_MAX_VALUES = MAX_ARGUMENT_CHARACTERS // 4
"""More values would not fit into the allowed characters: each takes some as JSON."""
_OPAQUE_VALUE = re.compile(r"<(function|coroutine|module|bound method)\b.*>", re.DOTALL)
"""The text by which the engine replaces values that cannot leave it."""
_CYCLES = {"[...]": "[", "(...)": "[", "{...}": "{", "...": "."}
"""The text by which it replaces a value that contains itself, and the kind of container that it must be
in."""

MARK = token_hex(8)
"""Marks the result of the code below; without it the guest code has returned something itself."""
_DUMPS_OPTIONS = ", allow_nan=False, ensure_ascii=False)"
_TAIL = f"""

import json as __json
("{MARK}", __json.dumps(__out{_DUMPS_OPTIONS})
"""
EXPLAIN_VALUE_CODE = f"""
import json as __json, dataclasses as __dataclasses, datetime as __datetime, decimal as __decimal
import pathlib as __pathlib
def __plain(value, path):
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(str(value))
        return value
    if len(path) > {MAX_DEPTH}:
        raise ValueError("deeper than {MAX_DEPTH} levels, or contained in itself")
    if isinstance(value, dict):
        plain = {{}}
        for key, member in value.items():
            if not (key is None or isinstance(key, (bool, int, float, str))):
                raise ValueError("under a key of type " + type(key).__name__)
            path.append(repr(key)[:60])
            plain[key] = __plain(member, path)
            path.pop()
        return plain
    if isinstance(value, (list, tuple, set, frozenset)):
        plain = []
        for member in value:
            path.append(str(len(plain)))
            plain.append(__plain(member, path))
            path.pop()
        return plain
    if isinstance(value, (__datetime.date, __datetime.time)):
        return value.isoformat()
    if isinstance(value, (__decimal.Decimal, __pathlib.Path)):
        return str(value)
    if __dataclasses.is_dataclass(value) and type(value).__name__ != "type":
        plain = {{}}
        for field in type(value).__dataclass_fields__:
            path.append(repr(field))
            plain[field] = __plain(getattr(value, field), path)
            path.pop()
        return plain
    raise ValueError("of type " + type(value).__name__)
__path = []
try:
    __result = ("{MARK}", __json.dumps(__plain(__out, __path){_DUMPS_OPTIONS})
except ValueError as error:
    __result = ("{MARK}", "__out" + "".join(["[" + step + "]" for step in __path[:8]]), str(error)[:200])
__result
"""
"""Writes values that `json` alone cannot, or finds the place and the type of a value that is not JSON.

It runs only if `json.dumps` has failed, because it is much slower.
"""


def with_value(code: str) -> str:
    """Return code with an end that returns `__out` as JSON.

    The empty line is for code whose last line ends with a backslash, which would continue on our line.
    """
    return code + _TAIL


def read_value(value: object, limit: int) -> Any:
    """Return the value that the guest wrote as JSON, or raise its report of a value that is not JSON.

    Raises:
        LimitExceededError: it is too large.
        CodeError: a part of it is not JSON, it is too deep, or it was not written by our code.
    """
    if type(value) is not tuple or value[:1] != (MARK,):
        raise CodeError(RETURN_OUTSIDE_FUNCTION)
    match value[1:]:
        case (str(place), str(reason)):
            raise CodeError(_explain_not_json(place, reason))
        case (str(text),):
            size = len(text)
        case _:
            raise CodeError("__out is not JSON")
    if size <= limit and not text.isascii():
        size = len(text.encode(errors="replace"))
    if size > limit:
        raise LimitExceededError(
            "output_bytes", f"__out is {size:,} bytes of JSON, where {limit:,} are allowed"
        )
    try:
        parsed = json.loads(text)
        measure(parsed)
    except RecursionError:
        raise CodeError(f"__out is not JSON: it is nested more than {MAX_DEPTH} levels deep") from None
    except (ValidationError, ValueError, MemoryError) as error:
        raise CodeError(f"__out is not JSON: {error}"[:_MAX_MESSAGE]) from error
    return parsed


def _explain_not_json(place: str, reason: str) -> str:
    if reason.startswith("Exceeds the limit"):
        reason = "or holds an integer of more than 4,300 digits"
    hint = "; a call must be awaited" if "coroutine" in reason else ""
    return f"__out is not JSON: {place[:_MAX_MESSAGE]} is {reason[:_MAX_MESSAGE]}{hint}"


def read_call(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, limited in size; dataclasses become objects.

    Raises:
        GuestError: they are too large, or one of them cannot leave the guest.
    """
    copier = _ArgumentCopier()
    return copier.copy(list(args)), copier.copy(dict(kwargs))


class _ArgumentCopier:
    """Copies arguments, and counts values while copying: one list may occur in them a million times."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self._room = MAX_ARGUMENT_CHARACTERS

    def copy(self, value: Any, depth: int = 0, within: str = "") -> Any:
        self._left -= 1
        if self._left < 0:
            raise GuestError("ValueError", f"arguments hold more than {_MAX_VALUES:,} values")
        if isinstance(value, str):
            return self._check_text(value, within)
        if depth > MAX_DEPTH + 1:
            raise GuestError("ValueError", f"arguments are deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            inner = within if depth == 0 else within + "{"
            return {
                self._check_key(name): self.copy(member, depth + 1, inner) for name, member in value.items()
            }
        if isinstance(value, list | tuple):
            inner = within if depth == 0 else within + "["
            return [self.copy(member, depth + 1, inner) for member in value]
        if getattr(value, "is_dataclass", False) is True:
            return self.copy(value.attributes, depth, within + ".")
        return value

    def _check_key(self, name: Any) -> Any:
        return self._check_text(name) if isinstance(name, str) else name

    def _check_text(self, value: str, within: str = "") -> str:
        self._room -= len(value)
        if self._room < 0:
            raise GuestError("ValueError", f"arguments hold more than {MAX_ARGUMENT_CHARACTERS:,} characters")
        if _CYCLES.get(value, "?") in within:
            message = (
                f"what contains itself is not, nor is the text {value!r} here, which the engine writes for it"
            )
            raise GuestError("TypeError", f"arguments must be JSON: {message}")
        odd = _OPAQUE_VALUE.fullmatch(value) if value.startswith("<") else None
        if odd is None:
            return value
        hint = "; a call must be awaited" if odd[1] == "coroutine" else ""
        raise GuestError("TypeError", f"arguments must be JSON: a {odd[1]} is not{hint}")

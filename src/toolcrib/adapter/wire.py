"""Protocol of providers' formats for calls and results."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from toolcrib.adapter.results import ToolOutput
from toolcrib.model.plain import parse_json

_LARGEST_ID: Final = 1 << 64
_JSON_NAMES: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
}


class PayloadError(ValueError):
    """A malformed call or result; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call in the provider's format."""

    name: str | None
    """The converted name of the tool; None if the call does not name it."""
    args: Any
    """The arguments, encoded for the converted schema."""
    call_id: str | None
    """The provider's id of the call."""


class CallFormat(Protocol):
    """Reader and writer of one provider's calls and results; a malformed payload raises `PayloadError`."""

    def read_call(self, payload: Any) -> WireCall:
        """Parse a call in this format."""
        ...

    def write_call(self, call: WireCall) -> Any:
        """Write a call in this format."""
        ...

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> Any:
        """Write the result of a call in this format."""
        ...

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Combine definitions into the value of `tools` in a request."""
        ...


def read_arguments(value: Any) -> dict[str, Any]:
    """Read the arguments of a call, given as an object or as its JSON text.

    Raises:
        PayloadError: they are neither.
    """
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            reason = f"the arguments are not JSON: {error}; send one JSON object"
            raise PayloadError(reason) from error
    if not isinstance(value, dict):
        kind = _JSON_NAMES.get(type(value), "a Python object")
        raise PayloadError(f"the arguments are {kind}; send one JSON object")
    return value


def read_id(value: Any) -> str | None:
    """Read the id of a call as text."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int and abs(value) < _LARGEST_ID:
        return str(value)
    raise PayloadError("the id of a call is text, or a number")


def require_id(call_id: str | None) -> str:
    """Return the id of a call; raise if there is none, for formats that require one."""
    if not call_id or not isinstance(call_id, str):
        raise PayloadError("this format needs the id of the call; pass call_id=")
    return call_id

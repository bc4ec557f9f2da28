"""How providers write calls and results: what every format answers to."""

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
    """A call or a result that is not in its format; the text says what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call as the provider's format has it."""

    name: str | None
    """The tool, by its converted name; None where the format need not say it."""
    args: Any
    """The arguments, in the terms of the converted schema."""
    call_id: str | None
    """What the provider calls this call."""


class CallFormat(Protocol):
    """How one provider writes calls and results. A payload that is none raises a `PayloadError`."""

    def read_call(self, payload: Any) -> WireCall:
        """Return what a call of this format says."""
        ...

    def write_call(self, call: WireCall) -> Any:
        """Return a call in this format."""
        ...

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> Any:
        """Return the result of a call in this format."""
        ...

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Return what stands for many definitions in one request."""
        ...


def read_arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of a call, which come as an object, or as its JSON text.

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
        kind = _JSON_NAMES.get(type(value), "a value of Python's own")
        raise PayloadError(f"the arguments are {kind}; send one JSON object")
    return value


def read_id(value: Any) -> str | None:
    """Return what a provider calls a call, as text."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int and abs(value) < _LARGEST_ID:
        return str(value)
    raise PayloadError("the id of a call is text, or a number")


def need_id(call_id: str | None) -> str:
    """Return the id of a call, which some formats cannot do without."""
    if not call_id or not isinstance(call_id, str):
        raise PayloadError("this format needs the id of the call; pass call_id=")
    return call_id

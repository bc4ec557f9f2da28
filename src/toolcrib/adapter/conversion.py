"""Converted definitions, which also decode the model's calls and encode results."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcrib.adapter.loss import FeatureLossWarning, Losses
from toolcrib.adapter.results import ResultError, read_outcome
from toolcrib.adapter.rewrite import Codec, decode, encode
from toolcrib.adapter.wire import CallFormat, PayloadError, WireCall
from toolcrib.errors import ConversionError
from toolcrib.model.plain import copy_json, measure


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call by a model, with arguments of the original schema."""

    tool_id: str
    """The id of the tool."""
    args: Any
    """The arguments; an object, unless the original schema is of another type."""
    call_id: str | None = None
    """The provider's id of the call, which its result must repeat."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """One tool in a provider's format."""

    payload: Any
    """The definition, as plain JSON."""
    adapter: str
    """The adapter that made it."""
    tool_id: str
    """The id of the tool."""
    name: str
    """The name of the tool in the provider's format."""
    calls: CallFormat = field(repr=False)
    """Reads calls and writes results in the provider's format."""
    codec: Codec | None = field(default=None, repr=False)
    """Translates arguments between the two schemas; None if they are the same."""
    losses: Losses = field(default_factory=lambda: Losses("adapter"), repr=False)
    """The losses of the conversion, from which `warnings` is made."""

    @cached_property
    def warnings(self) -> tuple[FeatureLossWarning, ...]:
        """Everything that was lost or rewritten, in a fixed order."""
        return self.losses.warnings()

    @property
    def lossless(self) -> bool:
        """Whether nothing was lost, so that converting the payload back gives an equal definition."""
        return not self.losses

    def encode_args(self, args: Any) -> Any:
        """Encode arguments of the original schema for the converted one.

        Raises:
            ConversionError: they are not JSON, or fit none of the alternatives of the original schema.
        """
        return self._translate(encode, args, "encode_args")

    def decode_call(self, payload: Any) -> ToolCall:
        """Decode a model's call to arguments of the original schema.

        The arguments are not validated against that schema; running the tool does so.

        Raises:
            ConversionError: it is not a call of this format, it calls another tool, or its arguments cannot
                be read; the message can be sent to the model.
        """
        call = self._read(payload)
        if call.name is not None and call.name != self.name:
            reason = (
                f"the call is for {call.name[:200]!r}; put the tools into a Bundle, which finds the right one"
            )
            raise self._error(reason, "decode_call")
        return ToolCall(self.tool_id, self._translate(decode, call.args, "decode_call"), call.call_id)

    def encode_call(self, args: Any, call_id: str | None = None) -> Any:
        """Encode a call as the model would make it, to replay a conversation.

        Raises:
            ConversionError: the arguments cannot be encoded, or the format requires a call id.
        """
        encoded = self.encode_args(args)
        try:
            return self.calls.write_call(WireCall(self.name, encoded, call_id))
        except PayloadError as error:
            raise self._error(str(error), "encode_call") from error

    def encode_result(self, result: Any, call_id: str | None = None) -> Any:
        """Encode the result of a run in the provider's format.

        `result` is a `RunResult`, an MCP result, an exception, or any JSON value.

        Raises:
            ConversionError: it is none of these, or the format requires a call id.
        """
        try:
            return self.calls.write_result(self.name, read_outcome(result), call_id)
        except (PayloadError, ResultError) as error:
            raise self._error(str(error), "encode_result") from error

    def _read(self, payload: Any) -> WireCall:
        try:
            return self.calls.read_call(plain_payload(payload))
        except PayloadError as error:
            raise self._error(str(error), "decode_call") from error

    def _translate(self, way: Any, value: Any, direction: str) -> Any:
        try:
            measure(value)
            return copy_json(way(self.codec, value))
        except ValueError as error:  # from a codec, or because the value is not JSON or too large
            raise self._error(str(error), direction) from error

    def _error(self, reason: str, direction: str) -> ConversionError:
        return ConversionError(f"{self.name}: {reason}", self.adapter, direction)


def plain_payload(payload: Any) -> Any:
    """Return a payload as JSON if it is a pydantic model of an SDK; otherwise unchanged."""
    if hasattr(payload, "model_dump") and not isinstance(payload, type):
        return payload.model_dump(mode="json", by_alias=True, exclude_none=True)
    return payload

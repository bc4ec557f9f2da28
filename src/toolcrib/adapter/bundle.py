"""Bundle of converted tools for one provider: the `tools` of a request, and decoding of calls."""

from collections.abc import Iterable
from typing import Any

from toolcrib.adapter.conversion import Conversion, ToolCall, plain_payload
from toolcrib.adapter.loss import FeatureLossWarning
from toolcrib.adapter.results import read_outcome
from toolcrib.adapter.wire import PayloadError, WireCall
from toolcrib.errors import ConversionError
from toolcrib.model.plain import copy_json
from toolcrib.model.suggest import choose


class Bundle:
    """The conversions of one call of `convert_many`."""

    def __init__(self, conversions: Iterable[Conversion]) -> None:
        """Bundle conversions that were made together, so that their names are unique.

        Raises:
            ConversionError: they are for different providers or APIs, or two have the same name.
        """
        self.conversions = tuple(conversions)
        self._by_name = {conversion.name: conversion for conversion in self.conversions}
        self._by_id = {conversion.tool_id: conversion for conversion in self.conversions}
        if len({(one.adapter, type(one.calls)) for one in self.conversions}) > 1:
            raise self._error(
                "the tools are for different providers or APIs; make a bundle for each", "bundle"
            )
        if len(self._by_name) < len(self.conversions):
            raise self._error("two of the tools share a name; convert them with convert_many", "bundle")

    @property
    def tools(self) -> list[Any]:
        """The value of `tools` in a request; a copy, which may be modified."""
        if not self.conversions:
            return []
        payloads = (copy_json(conversion.payload) for conversion in self.conversions)
        return self.conversions[0].calls.bundle(payloads)

    @property
    def warnings(self) -> tuple[tuple[str, FeatureLossWarning], ...]:
        """All warnings, each with the id of its tool."""
        return tuple((one.tool_id, warning) for one in self.conversions for warning in one.warnings)

    def find(self, payload: Any) -> Conversion:
        """Return the conversion of the tool that a call names.

        Raises:
            ConversionError: it is not a call, or names none of the tools; the error suggests the most similar
                name.
        """
        name = self._read(payload).name
        if name is None and len(self.conversions) == 1:
            return self.conversions[0]
        if name is None:
            reason = "the call does not say which tool it is for; name it (A2A: in metadata.skillId)"
            raise self._error(reason, "decode_call")
        if name not in self._by_name:
            reason = f"no tool is called {name[:200]!r}{choose(name, self._by_name)}"
            raise self._error(reason, "decode_call")
        return self._by_name[name]

    def decode_call(self, payload: Any) -> ToolCall:
        """Decode a call of any of the tools."""
        return self.find(payload).decode_call(payload)

    def encode_result(self, call: ToolCall, result: Any) -> Any:
        """Encode the result of a call in the provider's format."""
        conversion = self._by_id.get(call.tool_id)
        if conversion is None:
            raise self._error(f"no tool of this bundle has the id {call.tool_id[:200]!r}", "encode_result")
        return conversion.encode_result(result, call.call_id)

    def encode_failure(self, payload: Any, error: BaseException) -> Any:
        """Encode an error as the result of a call, even of an unknown tool.

        Raises:
            ConversionError: it is not a call, or the format requires a call id and it has none.
        """
        call = self._read(payload)
        try:
            calls = self.conversions[0].calls
            return calls.write_result(call.name or "", read_outcome(error), call.call_id)
        except PayloadError as problem:
            raise self._error(str(problem), "encode_failure") from problem

    def _read(self, payload: Any) -> WireCall:
        if not self.conversions:
            raise self._error("there are no tools in this bundle", "decode_call")
        try:
            return self.conversions[0].calls.read_call(plain_payload(payload))
        except PayloadError as error:
            raise self._error(str(error), "decode_call") from error

    def _error(self, reason: str, direction: str) -> ConversionError:
        return ConversionError(
            reason, self.conversions[0].adapter if self.conversions else "bundle", direction
        )

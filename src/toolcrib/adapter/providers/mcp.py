"""MCP: adapter of the format that the canonical form preserves completely."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.definitions import (
    convert_schema,
    make_canonical,
    note_lost,
    read_definition,
    read_feature,
    read_options,
)
from toolcrib.adapter.loss import Losses
from toolcrib.adapter.names import NameRule, id_text
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.results import ToolOutput
from toolcrib.adapter.rewrite import Codec
from toolcrib.adapter.rules import MCP
from toolcrib.adapter.wire import PayloadError, WireCall, read_arguments, read_id
from toolcrib.errors import ConversionError, ValidationError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.decorator import LocalTool
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.tool import Tool

_OUTER: Final = frozenset({"name", "inputSchema", "outputSchema"})
_OUTER_FIELDS: Final = frozenset({"name", "input_schema", "output_schema"})
_IN_META: Final[Mapping[str, str]] = {
    "summary": "summary",
    "category": "category",
    "input_modes": "inputModes",
    "output_modes": "outputModes",
    "examples": "examples",
    "deterministic": "deterministic",
    "streaming": "streaming",
    "security_schemes": "securitySchemes",
    "security_requirements": "securityRequirements",
    "ui_hints": "uiHints",
    "timeout": "timeout",
    "required_scopes": "requiredScopes",
}
"""The fields of the canonical form that are written into `_meta`."""
_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "summary": str,
    "category": str,
    "deterministic": bool,
    "streaming": bool,
    "security_schemes": dict,
    "ui_hints": dict,
    "timeout": (int, float),
}
_TEXTS: Final = {
    "description": "description",
    "title": "display_name",
    "namespace": "namespace",
    "version": "version",
}
"""The text fields, by their names in JSON."""
_OTHERS: Final = frozenset({"tags", "annotations", "_meta"})
"""The other keys from which fields are read."""
_CARRIED: Final = (
    "namespace",
    "version",
    "title",
    "tags",
    "annotations",
    "outputSchema",
    "idempotent",
    *_IN_META.values(),
)


@dataclass(frozen=True, slots=True)
class McpOptions:
    """MCP has no options."""


class McpAdapter:
    """Adapter for MCP tools (protocols 2025-11-25 and 2026-07-28), with toolcrib's own fields in addition."""

    name: Final = "mcp"
    names: ClassVar[NameRule] = NameRule(re.compile(r"[\x00-\x1f]+"), 128)

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert an MCP tool, a `Tool` or a `LocalTool` to the canonical form."""
        raw = raw.tool if isinstance(raw, LocalTool) else raw
        data = raw.to_json() if isinstance(raw, Tool) else read_definition(raw, self.name, "tool definition")
        if not isinstance(data.get("inputSchema"), dict):
            raise ConversionError("the tool has no inputSchema that is an object", self.name, "to_canonical")
        rest = {key: value for key, value in data.items() if key not in _OUTER}
        return make_canonical(
            self.name,
            name=data.get("name"),
            input_schema=data["inputSchema"],
            output_schema=data.get("outputSchema"),
            source_meta=rest,
            **_fields(rest),
        )

    def borrow(self, raw: Any) -> CanonicalTool:
        """Convert like `to_canonical`, but share the schemas with the argument instead of copying them.

        This takes a third of the time. The argument must not be modified while the result is in use.
        """
        if type(raw) is dict and _is_sound(raw):
            rest = raw.copy()
            name, schema = rest.pop("name"), rest.pop("inputSchema")
            return self._make_borrowed(name, schema, rest.pop("outputSchema", None), rest)
        raw = raw.tool if isinstance(raw, LocalTool) else raw
        if isinstance(raw, Tool):
            rest = raw.to_json(without=_OUTER_FIELDS)
            return self._make_borrowed(
                raw.name, raw.shared("input_schema"), raw.shared("output_schema"), rest
            )
        return self.to_canonical(raw)

    def _make_borrowed(self, name: str, schema: Any, output: Any, rest: dict[str, Any]) -> CanonicalTool:
        return CanonicalTool.from_valid(
            name=name,
            input_schema=schema,
            output_schema=output,
            source_meta=rest,
            source_format=self.name,
            **_fields(rest),
        )

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> dict[str, Any]:
        """Convert a canonical tool to an MCP tool."""
        payload: dict[str, Any] = self.translate(tool, **options).payload
        return payload

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool to an MCP tool, with losses and codec."""
        read_options(McpOptions, options, self.name)
        losses = Losses(self.name)
        is_own = tool.source_format == self.name
        payload: dict[str, Any] = {"name": name or tool.name, **_rest(tool, is_own=is_own)}
        if payload["name"] != tool.name:
            losses.note("name", "/name", f"becomes {payload['name']!r}, to be unique")
        if payload.pop("backend", None) is not None:
            losses.note("backend", "/backend", "is never sent to a client")
        if not is_own:
            note_lost(tool.replace(source_meta=tool.source_meta), losses, frozenset(_CARRIED))
        payload["inputSchema"], codec = self._input(tool, losses)
        if tool.output_schema is not None:
            payload["outputSchema"] = copy_json(tool.output_schema)
        return Conversion(payload, self.name, id_text(tool), payload["name"], McpCalls(), codec, losses)

    def _input(self, tool: CanonicalTool, losses: Losses) -> tuple[dict[str, Any], Codec | None]:
        """Convert the input schema, which must be an object in MCP."""
        if tool.input_schema.get("type") == "object":
            return copy_json(tool.input_schema), None
        rewritten = convert_schema(tool.input_schema, MCP, losses)
        return copy_json(rewritten.schema), rewritten.codec

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return True, because MCP supports all of JSON Schema."""
        read_options(McpOptions, options, self.name)
        read_feature(feature, self.name)
        return True


def _is_sound(raw: dict[str, Any]) -> bool:
    """Return whether a definition is JSON, and has the required fields."""
    try:
        measure(raw, max_depth=256)
    except ValidationError:
        return False
    name, output = raw.get("name"), raw.get("outputSchema")
    return (
        type(name) is str
        and bool(name)
        and type(raw.get("inputSchema")) is dict
        and (output is None or type(output) is dict)
    )


def _fields(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canonical fields of a definition without its schemas."""
    payload: dict[str, Any] = {}
    for key, value in rest.items():
        if key in _TEXTS and isinstance(value, str):
            payload[_TEXTS[key]] = value
    if _OTHERS.isdisjoint(rest):
        return payload
    if "tags" in rest and (tags := _texts(rest["tags"])) is not None:
        payload["tags"] = tags
    annotations, meta = rest.get("annotations"), rest.get("_meta")
    if isinstance(annotations, dict):
        payload["annotations"] = annotations
        if not payload.get("display_name") and isinstance(annotations.get("title"), str):
            payload["display_name"] = annotations["title"]
        if isinstance(annotations.get("idempotentHint"), bool):
            payload["idempotent"] = annotations["idempotentHint"]
    if isinstance(meta, dict):
        found = {field: _in_meta(field, meta[key]) for field, key in _IN_META.items() if key in meta}
        payload |= {field: value for field, value in found.items() if value is not None}
    return payload


def _in_meta(field: str, value: Any) -> Any:
    """Return the value of a field in `_meta`; None if it has the wrong type."""
    if field in _KINDS:
        return value if isinstance(value, _KINDS[field]) else None
    if field == "security_requirements":
        return tuple(value) if _are_requirements(value) else None
    return _texts(value)


def _are_requirements(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(need, dict) and all(_texts(scopes) is not None for scopes in need.values())
        for need in value
    )


def _texts(value: Any) -> tuple[str, ...] | None:
    """Return a list of texts as a tuple; None if it is malformed."""
    return tuple(value) if isinstance(value, list) and all(isinstance(text, str) for text in value) else None


def _rest(tool: CanonicalTool, *, is_own: bool) -> dict[str, Any]:
    """Return the definition without its name and schemas: that of the source, with the tool's changes."""
    rest: dict[str, Any] = copy_json(tool.source_meta) if is_own else {}
    restored = CanonicalTool(name=tool.name, input_schema={}, **_fields(rest))
    for field, key in {"namespace": "namespace", "version": "version", "description": "description"}.items():
        if getattr(tool, field) != getattr(restored, field):
            rest[key] = getattr(tool, field)
    if tool.tags != restored.tags:
        rest["tags"] = list(tool.tags)
    if tool.display_name != restored.display_name:
        rest["title"] = tool.display_name
    if tool.description is None and not is_own and (tool.summary or tool.display_name):
        rest["description"] = tool.summary or tool.display_name
    _add_annotations(rest, tool, restored)
    _add_meta(rest, tool, restored)
    return {key: value for key, value in rest.items() if value is not None or key in tool.source_meta}


def _add_annotations(rest: dict[str, Any], tool: CanonicalTool, restored: CanonicalTool) -> None:
    if tool.annotations != restored.annotations:
        rest["annotations"] = copy_json(tool.annotations)
    if tool.idempotent != restored.idempotent and tool.idempotent is not None:
        rest["annotations"] = {**rest.get("annotations", {}), "idempotentHint": tool.idempotent}


def _add_meta(rest: dict[str, Any], tool: CanonicalTool, restored: CanonicalTool) -> None:
    ours, theirs = tool.to_json(), restored.to_json()
    changed = {key: ours.get(key) for key in _IN_META.values() if ours.get(key) != theirs.get(key)}
    if changed:
        given = rest.get("_meta")
        meta = {**(given if isinstance(given, dict) else {}), **changed}
        rest["_meta"] = {key: value for key, value in meta.items() if value is not None or key not in changed}


class McpCalls:
    """`tools/call` requests and their results."""

    def read_call(self, payload: Any) -> WireCall:
        """Read a request, or its parameters alone."""
        if not isinstance(payload, dict):
            raise PayloadError("a call is an object with 'name' and 'arguments'")
        params = payload.get("params", payload)
        if not isinstance(params, dict) or not isinstance(params.get("name"), str):
            raise PayloadError("a call is an object with 'name', a string, and 'arguments'")
        args = read_arguments(params.get("arguments"))
        return WireCall(params["name"], args, read_id(payload.get("id")))

    def write_call(self, call: WireCall) -> dict[str, Any]:
        """Write the parameters of `tools/call`."""
        return {"name": call.name, "arguments": call.args}

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        """Write a tool result; the id of the call belongs to the message around it."""
        if outcome.mcp is not None:
            return outcome.mcp
        result: dict[str, Any] = {"content": list(outcome.blocks)}
        if outcome.is_error:
            return {**result, "isError": True}
        value = outcome.value
        return {**result, "structuredContent": value if isinstance(value, dict) else {"result": value}}

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Return the tools of a `tools/list` result."""
        return list(payloads)

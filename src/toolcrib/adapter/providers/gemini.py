"""Gemini: adapter of function declarations, with JSON Schema or the older subset of OpenAPI."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.definitions import (
    check_choice,
    check_flags,
    convert_schema,
    make_canonical,
    note_lost,
    read_definition,
    read_feature,
    read_options,
    refuse_foreign,
    write_head,
)
from toolcrib.adapter.loss import Losses
from toolcrib.adapter.names import NameRule, id_text
from toolcrib.adapter.protocol import SchemaFeature
from toolcrib.adapter.results import ToolOutput
from toolcrib.adapter.rules import GEMINI_JSON_SCHEMA, GEMINI_OPENAPI
from toolcrib.adapter.wire import PayloadError, WireCall, read_arguments, read_id
from toolcrib.errors import ConversionError
from toolcrib.model.canonical import CanonicalTool

_KEYS: Final = {
    "json-schema": ("parametersJsonSchema", "responseJsonSchema"),
    "openapi": ("parameters", "response"),
}
_RULES: Final = {"json-schema": GEMINI_JSON_SCHEMA, "openapi": GEMINI_OPENAPI}
_TOOL: Final = ("functionDeclarations", "function_declarations")
_OUTER: Final = frozenset({"name", "description", *(key for keys in _KEYS.values() for key in keys)})
_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


@dataclass(frozen=True, slots=True)
class GeminiOptions:
    """Options of a function declaration."""

    style: Literal["json-schema", "openapi"] = "json-schema"
    """`json-schema` (`parametersJsonSchema`) or `openapi` (`parameters`)."""
    output_schema: bool = False
    """Whether the output schema is sent too."""

    def __post_init__(self) -> None:
        check_choice("style", self.style, tuple(_KEYS))
        check_flags(self, "output_schema")


class GeminiAdapter:
    """Adapter for Gemini's function declarations, each in a tool of its own."""

    name: Final = "gemini"
    names: ClassVar[NameRule] = NameRule(re.compile(r"[^A-Za-z0-9_.-]+"), 64, re.compile(r"[A-Za-z_]"))

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert a function declaration, or a tool with exactly one, to the canonical form."""
        data = read_definition(raw, self.name, "function declaration")
        declarations = data.get("functionDeclarations", data.get("function_declarations"))
        if declarations is not None:
            if (
                not isinstance(declarations, list)
                or len(declarations) != 1
                or not isinstance(declarations[0], dict)
            ):
                raise ConversionError(
                    "a tool must have exactly one function declaration; convert several one by one",
                    self.name,
                    "to_canonical",
                )
            beside = {key: kept for key, kept in data.items() if key not in _TOOL}
            data = {**beside, **declarations[0]}
        data = {_camel(key): value for key, value in data.items()}
        refuse_foreign(data, self.name, "parameters", "parametersJsonSchema")
        return make_canonical(
            self.name,
            name=data.get("name"),
            description=data.get("description"),
            input_schema=_schema(data, "parameters") or {"type": "object", "properties": {}},
            output_schema=_schema(data, "response"),
            source_meta={key: value for key, value in data.items() if key not in _OUTER},
        )

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> dict[str, Any]:
        """Convert a canonical tool to a tool with one function declaration."""
        payload: dict[str, Any] = self.translate(tool, **options).payload
        return payload

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool to a tool with one function declaration, with losses and codec."""
        wanted = read_options(GeminiOptions, options, self.name)
        losses = Losses(self.name)
        rules = _RULES[wanted.style]
        called = name or self.names.fit(tool.name)
        declaration = write_head(tool, called, losses)
        parameters, response = _KEYS[wanted.style]
        rewritten = convert_schema(tool.input_schema, rules, losses)
        declaration[parameters] = rewritten.schema
        kept = set()
        if wanted.output_schema and tool.output_schema is not None:
            declaration[response] = convert_schema(tool.output_schema, rules, losses, "output").schema
            kept.add("outputSchema")
        if tool.source_format == self.name and "behavior" in tool.source_meta:
            declaration["behavior"] = tool.source_meta["behavior"]
            kept.add("behavior")
        note_lost(tool, losses, frozenset(kept))
        payload = {"functionDeclarations": [declaration]}
        return Conversion(payload, self.name, id_text(tool), called, _Calls(), rewritten.codec, losses)

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return whether a schema in one of Gemini's two styles can contain a keyword."""
        wanted = read_options(GeminiOptions, options, self.name)
        return _RULES[wanted.style].takes(read_feature(feature, self.name))


def _camel(key: str) -> str:
    head, *tail = key.split("_")
    return head + "".join(part.title() for part in tail)


def _schema(data: dict[str, Any], key: str) -> Any:
    """Return a schema of a declaration, converted to JSON Schema."""
    schema = data.get(f"{key}JsonSchema")
    return schema if schema is not None else _plain(data.get(key))


def _plain(schema: Any) -> Any:
    """Convert a schema of the OpenAPI subset to JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "type" and isinstance(value, str) and value.upper() in _TYPES:
            plain["type"] = value.lower()
        elif word == "items":
            plain["items"] = _plain(value)
        elif word == "anyOf" and isinstance(value, list):
            plain["anyOf"] = [_plain(member) for member in value]
        elif word == "properties" and isinstance(value, dict):
            plain["properties"] = {name: _plain(member) for name, member in value.items()}
        elif word not in {"nullable", "propertyOrdering"}:
            plain[word] = value
    return _with_null(plain) if schema.get("nullable") is True else plain


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Make a schema nullable, as in JSON Schema."""
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema and isinstance(schema["enum"], list):
        schema = {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]} if isinstance(schema.get("type"), str) else schema


def _media(block: dict[str, Any]) -> dict[str, Any]:
    """Convert an image or audio block of MCP to Gemini's form."""
    return {"inlineData": {"mimeType": block.get("mimeType"), "data": block.get("data")}}


class _Calls:
    """`functionCall` parts, and the `functionResponse` parts that answer them."""

    def read_call(self, payload: Any) -> WireCall:
        call = (
            payload.get("functionCall", payload.get("function_call", payload))
            if isinstance(payload, dict)
            else None
        )
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise PayloadError("a call is an object with 'name' and 'args'")
        return WireCall(call["name"], read_arguments(call.get("args")), read_id(call.get("id")))

    def write_call(self, call: WireCall) -> dict[str, Any]:
        named = {"id": call.call_id} if call.call_id else {}
        return {"functionCall": {**named, "name": call.name, "args": call.args}}

    def write_result(self, name: str, outcome: ToolOutput, call_id: str | None) -> dict[str, Any]:
        named = {"id": call_id} if call_id else {}
        response = {"error": outcome.text} if outcome.is_error else {"output": outcome.value}
        media = [_media(block) for block in outcome.blocks if block["type"] in {"image", "audio"}]
        parts = {"parts": media} if media else {}
        return {"functionResponse": {**named, "name": name, "response": response, **parts}}

    def bundle(self, payloads: Iterable[Any]) -> list[Any]:
        """Return one tool with all declarations."""
        return [
            {"functionDeclarations": [one for payload in payloads for one in payload["functionDeclarations"]]}
        ]

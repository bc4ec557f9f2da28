"""Helpers of the conversion tests: every target, conversion there and back, and the judges."""

import json
from typing import Any

import jsonschema
from adapter import oracles

from toolcrib.adapter import Conversion, default_registry
from toolcrib.adapter.portability import TARGETS
from toolcrib.adapter.rules import RULES, violations
from toolcrib.errors import Problem, SchemaTooComplexError
from toolcrib.model import DefaultValidator

REGISTRY = default_registry()
STRUCTURED = ("openai-strict", "anthropic-strict", "gemini-openapi")
"""The targets that want every value spelt out."""
CALL_ID = "call_1"
_SCHEMA_KEYS = ("inputSchema", "parameters", "input_schema", "parametersJsonSchema")
_VALIDATOR = DefaultValidator()


def obj(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object; `required` and other keywords are added with `|`."""
    return {"type": "object", "properties": properties}


def convert_tool(raw: Any, target: str, **options: Any) -> Conversion:
    adapter, given = TARGETS[target]
    return REGISTRY.convert(raw, source="mcp", target=adapter, **given, **options)


def convert(schema: dict[str, Any], target: str, **options: Any) -> Conversion:
    return convert_tool({"name": "t", "inputSchema": schema}, target, **options)


def schema_of(conversion: Conversion) -> dict[str, Any] | None:
    """Return the input schema of a payload; None for A2A, which has none."""
    payload = conversion.payload
    if "functionDeclarations" in payload:
        payload = payload["functionDeclarations"][0]
    payload = payload.get("function", payload)
    return next((payload[key] for key in _SCHEMA_KEYS if key in payload), None)


def properties_of(conversion: Conversion) -> dict[str, Any]:
    schema = schema_of(conversion)
    assert schema is not None
    return schema["properties"]


def is_fallback(conversion: Conversion) -> bool:
    """Return whether a strict target was requested and not reached."""
    return any(warning.feature == "strict" for warning in conversion.warnings)


def faults(conversion: Conversion, target: str) -> tuple[Problem, ...]:
    """Return the violations of the provider's rules in a converted schema."""
    rules = target.removesuffix("-strict") if is_fallback(conversion) else target
    schema = schema_of(conversion)
    return () if schema is None else violations(schema, RULES[rules])


def in_json_schema(schema: Any) -> Any:
    """Return a schema of Gemini's OpenAPI subset with `nullable` expressed in JSON Schema."""
    if isinstance(schema, list):
        return [in_json_schema(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    read = {
        word: {name: in_json_schema(member) for name, member in value.items()}
        if word == "properties"
        else in_json_schema(value)
        if word in {"items", "anyOf"}
        else value
        for word, value in schema.items()
        if word != "nullable"
    }
    return {"anyOf": [read, {"type": "null"}]} if schema.get("nullable") is True else read


def assert_fits(conversion: Conversion, target: str, encoded: Any) -> None:
    """Check converted arguments against the converted schema."""
    schema = schema_of(conversion)
    if schema is None:
        return
    schema = in_json_schema(schema) if target == "gemini-openapi" else schema
    try:
        _VALIDATOR.validate(schema, encoded)
    except SchemaTooComplexError:  # references written out may be more than ours looks at
        jsonschema.validate(encoded, schema)


def assert_comes_back(conversion: Conversion, target: str, args: Any) -> Any:
    """Check the decode law for one value, and return the call that was made on the way."""
    encoded = conversion.encode_args(args)
    assert_fits(conversion, target, encoded)
    call = conversion.encode_call(args, CALL_ID)
    back = conversion.decode_call(call).args
    for name in vanished_nulls(args, back):
        suffix = f"/properties/{name.replace('~', '~0').replace('/', '~1')}"
        told = [warning for warning in conversion.warnings if warning.path.endswith(suffix)]
        assert any("null" in warning.message for warning in told), (
            f"{name!r} lost its null, and nobody said so"
        )
    return call


def vanished_nulls(args: Any, back: Any) -> list[str]:
    """Return the properties whose null came back absent; anything else that differs is an error."""
    if isinstance(args, dict) and isinstance(back, dict):
        gone = [name for name in args if name not in back]
        assert all(args[name] is None for name in gone), f"{gone} did not come back"
        assert back.keys() <= args.keys(), f"{back.keys() - args.keys()} came from nowhere"
        return gone + [name for key in back for name in vanished_nulls(args[key], back[key])]
    if isinstance(args, list) and isinstance(back, list) and len(args) == len(back):
        return [name for one, other in zip(args, back, strict=True) for name in vanished_nulls(one, other)]
    assert json.dumps(args) == json.dumps(back) or (args == back and type(args) is not bool), (args, back)
    return []


def accept_call(target: str, call: Any) -> None:
    """Let the vendor's own type judge a call."""
    if target == "mcp":
        for era in ("2026-07-28", "2025-11-25"):
            oracles.mcp_call(call, era=era)
    elif target.startswith("openai"):
        (oracles.openai_chat_call if "function" in call else oracles.openai_responses_call)(call)
    elif target.startswith("anthropic"):
        oracles.anthropic_call(call)
    elif target.startswith("gemini"):
        oracles.gemini_call(call["functionCall"])
    else:
        oracles.a2a_message(call)

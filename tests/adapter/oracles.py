"""Oracles made of the vendors' own types: each accepts a plain JSON object, or refuses it.

The SDKs' types are generous: they ignore unknown keys, take `"true"` for a boolean, look at no item of an
`Iterable` and accept Python's name of a field for JSON's. A judge is not: it is rebuilt from the type's core
schema with every such door closed. Only what a type declares open, such as a JSON Schema or `_meta`, stays open.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

Json = dict[str, Any]
Era = Literal["2026-07-28", "2025-11-25"]
P = ParamSpec("P")

OPAQUE = {"default", "metadata", "serialization"}
"""The keys of a core schema below which nothing validates."""

GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
GEMINI_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}

MCP_WIRE = {"2026-07-28": "mcp_types._v2026_07_28", "2025-11-25": "mcp_types._v2025_11_25"}
MCP_SESSION = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""Keys that a session of 2026-07-28 adds to the `_meta` of every request."""


class RefusedError(AssertionError):
    """The vendor's type does not accept the payload."""


def oracle(judge: Callable[Concatenate[Json, P], None]) -> Callable[Concatenate[Json, P], None]:
    """Make a judge refuse values that are not plain JSON before any other check."""

    @wraps(judge)
    def judged(payload: Json, /, *args: P.args, **kwargs: P.kwargs) -> None:
        refuse_unless(is_plain(payload), f"not a plain JSON object: {payload!r}")
        judge(payload, *args, **kwargs)

    return judged


def refuse_unless(fact: object, reason: str) -> None:
    if not fact:
        raise RefusedError(reason)


def is_plain(payload: object) -> bool:
    """Tell whether a value is an object of JSON: text as keys, lists and no tuples, finite numbers."""
    try:
        return isinstance(payload, dict) and json.loads(json.dumps(payload, allow_nan=False)) == payload
    except (TypeError, ValueError):
        return False


def sealed(node: Any) -> Any:
    """Copy a core schema so that it forbids unknown keys, requires JSON's names and checks every item."""
    if isinstance(node, list | tuple):
        return type(node)(map(sealed, node))
    if not isinstance(node, Mapping):
        return node
    kind = node.get("type")
    # Without a kind it is a map of fields, and a field may have any name.
    opaque = OPAQUE if isinstance(kind, str) else set()
    copy = {key: value if key in opaque else sealed(value) for key, value in node.items()}
    match kind:
        case "generator":
            copy["type"] = "list"
        case "bytes":
            return {"type": "str", "pattern": "^[A-Za-z0-9+/_-]*={0,2}$"}
        case "typed-dict" if copy.get("extra_behavior") != "allow":
            copy["extra_behavior"] = "forbid"
        case "model":
            config = copy.get("config", {})
            extra = "allow" if config.get("extra_fields_behavior") == "allow" else "forbid"
            names = {"validate_by_alias": True, "validate_by_name": False}
            copy["config"] = config | names | {"extra_fields_behavior": extra}
    return copy


@cache
def judge_of(module: str, name: str) -> SchemaValidator:
    adapter = TypeAdapter(getattr(import_module(module), name))
    adapter.rebuild()
    # A prebuilt validator is the class's own, which is not sealed.
    return SchemaValidator(sealed(adapter.core_schema), _use_prebuilt=False)


def accept(module: str, name: str, payload: Any) -> None:
    """Return if a type of an SDK takes a payload without a word; a warning is a refusal, and so is a crash."""
    judge = judge_of(module, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            judge.validate_json(json.dumps(payload), strict=True)
        except (ValidationError, AttributeError) as error:  # Gemini's enums ask a list for `upper`
            raise RefusedError(str(error)) from error
    refuse_unless(not caught, "; ".join(str(warning.message) for warning in caught))


@oracle
def mcp_tool(payload: Json, *, era: Era = "2026-07-28") -> None:
    accept("mcp_types", "Tool", payload)
    accept(MCP_WIRE[era], "Tool", payload)


@oracle
def mcp_call(payload: Json, *, era: Era = "2026-07-28") -> None:
    """Judge the `params` of `tools/call`, to which the session adds its own `_meta`."""
    accept("mcp_types", "CallToolRequestParams", payload)
    session = {"_meta": MCP_SESSION | (payload.get("_meta") or {})} if era == "2026-07-28" else {}
    accept(MCP_WIRE[era], "CallToolRequestParams", payload | session)


@oracle
def mcp_result(payload: Json, *, era: Era = "2026-07-28") -> None:
    """Judge a result: `resultType` must be there in 2026-07-28, and must not before."""
    accept("mcp_types", "CallToolResult", payload)
    accept(MCP_WIRE[era], "CallToolResult", payload)


@oracle
def openai_chat_tool(payload: Json) -> None:
    accept(
        "openai.types.chat.chat_completion_function_tool_param", "ChatCompletionFunctionToolParam", payload
    )


@oracle
def openai_chat_call(payload: Json) -> None:
    module = "openai.types.chat.chat_completion_message_function_tool_call_param"
    accept(module, "ChatCompletionMessageFunctionToolCallParam", payload)


@oracle
def openai_chat_result(payload: Json) -> None:
    accept("openai.types.chat.chat_completion_tool_message_param", "ChatCompletionToolMessageParam", payload)


@oracle
def openai_responses_tool(payload: Json) -> None:
    accept("openai.types.responses.function_tool_param", "FunctionToolParam", payload)


@oracle
def openai_responses_namespace(payload: Json) -> None:
    accept("openai.types.responses.namespace_tool_param", "NamespaceToolParam", payload)


@oracle
def openai_responses_call(payload: Json) -> None:
    module = "openai.types.responses.response_function_tool_call_param"
    accept(module, "ResponseFunctionToolCallParam", payload)


@oracle
def openai_responses_result(payload: Json) -> None:
    accept("openai.types.responses.response_input_item_param", "FunctionCallOutput", payload)


@oracle
def anthropic_tool(payload: Json) -> None:
    """Judge a tool, and its schema by the typed half of a union that admits any object."""
    accept("anthropic.types.tool_param", "ToolParam", payload)
    accept("anthropic.types.tool_param", "InputSchemaTyped", payload["input_schema"])


@oracle
def anthropic_call(payload: Json) -> None:
    accept("anthropic.types.tool_use_block_param", "ToolUseBlockParam", payload)


@oracle
def anthropic_result(payload: Json) -> None:
    accept("anthropic.types.tool_result_block_param", "ToolResultBlockParam", payload)


@oracle
def gemini_tool(payload: Json) -> None:
    """Judge a tool by the SDK and by the rules it leaves to the server: names, types, exclusive schemas."""
    accept("google.genai.types", "Tool", payload)
    refuse_unless(payload.get("functionDeclarations"), "no function is declared")
    for function in payload["functionDeclarations"]:
        refuse_unless_gemini_name(function)
        for key in ("parameters", "response"):
            refuse_unless(not {key, f"{key}JsonSchema"} <= function.keys(), f"{key} stands there twice")
            refuse_unless_gemini_schema(function.get(key))


@oracle
def gemini_call(payload: Json) -> None:
    accept("google.genai.types", "FunctionCall", payload)
    refuse_unless_gemini_name(payload)


@oracle
def gemini_result(payload: Json) -> None:
    accept("google.genai.types", "FunctionResponse", payload)
    refuse_unless_gemini_name(payload)
    refuse_unless(isinstance(payload.get("response"), dict), "response must be an object")


def refuse_unless_gemini_name(named: Json) -> None:
    refuse_unless(GEMINI_NAME.fullmatch(named.get("name") or ""), f"not a name: {named.get('name')!r}")


def refuse_unless_gemini_schema(schema: Json | None) -> None:
    """Refuse a type that is none, and look into `additionalProperties`, which the SDK does not."""
    if schema is None:
        return
    kind = schema.get("type")
    refuse_unless(kind is None or kind.upper() in GEMINI_TYPES, f"not a type: {kind!r}")
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        accept("google.genai.types", "Schema", more)
    else:
        refuse_unless(isinstance(more, bool | None), f"not additionalProperties: {more!r}")
        more = None
    lists = [schema.get("anyOf"), *(list((schema.get(key) or {}).values()) for key in ("properties", "defs"))]
    for inner in (more, schema.get("items"), *(inner for found in lists for inner in found or [])):
        refuse_unless_gemini_schema(inner)


@oracle
def a2a_skill(payload: Json) -> None:
    parse_proto("AgentSkill", payload)


@oracle
def a2a_card(payload: Json) -> None:
    parse_proto("AgentCard", payload)


@oracle
def a2a_message(payload: Json) -> None:
    parse_proto("Message", payload)


@oracle
def a2a_artifact(payload: Json) -> None:
    parse_proto("Artifact", payload)


@oracle
def a2a_task(payload: Json) -> None:
    parse_proto("Task", payload)


def parse_proto(name: str, payload: Json) -> None:
    """Parse a message of A2A 1.x, with the required fields and the names that protobuf does not insist on."""
    json_format = import_module("google.protobuf.json_format")
    kind = getattr(import_module("a2a.types.a2a_pb2"), name)
    errors = import_module("a2a.utils.errors")
    try:
        message = json_format.ParseDict(payload, kind(), ignore_unknown_fields=False)
        import_module("a2a.utils.proto_utils").validate_proto_required_fields(message)
    except json_format.ParseError as error:
        raise RefusedError(str(error)) from error
    except errors.InvalidParamsError as error:
        raise RefusedError(f"{error}: {error.data}") from error
    refuse_unless_proto_json(kind.DESCRIPTOR, payload)


def refuse_unless_proto_json(descriptor: Any, value: Json) -> None:
    """Refuse Python's names of fields, and a choice that was not made; protobuf refuses one made twice."""
    if descriptor.full_name.startswith("google.protobuf."):
        return
    fields = {field.json_name: field for field in descriptor.fields}
    refuse_unless(value.keys() <= fields.keys(), f"not fields of {descriptor.name}: {value.keys() - fields}")
    for choice in descriptor.oneofs:
        names = {field.json_name for field in choice.fields}
        # A field that is marked optional makes a oneof of its own, whose name begins with an underscore.
        refuse_unless(choice.name.startswith("_") or names & value.keys(), f"one of {names} is missing")
    for key, inner in value.items():
        for kind, message in messages_in(fields[key].message_type, inner):
            refuse_unless_proto_json(kind, message)


def messages_in(kind: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the messages of a field, which holds one, a list or a map of them, or none."""
    if kind is None or value is None:
        return
    if kind.GetOptions().map_entry:
        kind, value = kind.fields_by_name["value"].message_type, list(value.values())
    if kind is not None:
        yield from ((kind, message) for message in (value if isinstance(value, list) else [value]))


def load_real_tools(data: Path) -> list[Json]:
    """Read the tools of real MCP servers, without the two keys that name their origin."""
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    return [{key: value for key, value in row.items() if key not in {"source", "server"}} for row in rows]

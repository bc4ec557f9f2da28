"""The judges can refuse: each accepts its good payloads, and none of them with one thing put wrong."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adapter import oracles
from adapter.oracles import RefusedError, load_real_tools

GONE: Any = object()
"""In the place of a value: take the key away."""

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"q": {"type": "string", "x-any": [{"thing": None}]}},
    "required": ["q"],
    "additionalProperties": False,
}
SECURITY = [{"schemes": {"oauth": {"list": ["read"]}, "key": {}}}]
SKILL = {"id": "s", "name": "S", "description": "d", "tags": ["t"], "securityRequirements": SECURITY}
PARTS = [
    {"text": "hi", "metadata": {"any": [1, {"thing": None}]}},
    {"data": None, "mediaType": "application/json"},
    {"url": "https://x.test/a.png", "filename": "a.png", "mediaType": "image/png"},
    {"raw": "AAEC"},
]

GOOD: dict[str, dict[str, Any]] = {
    "mcp_tool": {
        "name": "t",
        "title": "T",
        "description": "d",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "array", "items": {"type": "string"}},
        "icons": [
            {"src": "https://x.test/i.png", "mimeType": "image/png", "sizes": ["any"], "theme": "dark"}
        ],
        "annotations": {"title": "T", "readOnlyHint": True},
        "_meta": {"x.test/any": {"thing": [1]}},
    },
    "mcp_call": {"name": "t", "arguments": {"q": {"any": 1}}, "_meta": {"progressToken": 1, "x.test/a": 1}},
    "mcp_result": {
        "content": [
            {"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 1}},
            {"type": "resource_link", "name": "r", "uri": "https://x.test/r"},
            {"type": "resource", "resource": {"uri": "https://x.test/r", "text": "hi"}},
        ],
        "structuredContent": [1, {"any": None}],
        "isError": False,
        "resultType": "complete",
    },
    "openai_chat_tool": {
        "type": "function",
        "function": {"name": "t", "description": "d", "parameters": SCHEMA, "strict": True},
    },
    "openai_chat_call": {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}},
    "openai_chat_result": {
        "role": "tool",
        "tool_call_id": "c",
        "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "ho"}],
    },
    "openai_responses_tool": {
        "type": "function",
        "name": "t",
        "parameters": SCHEMA,
        "strict": None,
        "description": "d",
        "output_schema": SCHEMA,
        "defer_loading": True,
        "allowed_callers": ["direct", "programmatic"],
        "async": False,
    },
    "openai_responses_namespace": {
        "type": "namespace",
        "name": "crm",
        "description": "d",
        "tools": [
            {"type": "function", "name": "t", "parameters": SCHEMA, "output_schema": SCHEMA},
            {"type": "custom", "name": "c", "format": {"type": "text"}},
        ],
    },
    "openai_responses_call": {
        "type": "function_call",
        "call_id": "c",
        "name": "t",
        "arguments": "{}",
        "namespace": "crm",
        "caller": {"type": "program", "caller_id": "p"},
    },
    "openai_responses_result": {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_text", "text": "hi"},
            {"type": "input_image", "image_url": "https://x.test/i.png"},
        ],
    },
    "anthropic_tool": {
        "name": "t",
        "description": "d",
        "input_schema": SCHEMA,
        "type": "custom",
        "strict": True,
        "defer_loading": True,
        "input_examples": [{"q": "drill"}],
        "allowed_callers": ["direct"],
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    },
    "anthropic_call": {
        "type": "tool_use",
        "id": "c",
        "name": "t",
        "input": {"q": {"any": 1}},
        "caller": {"type": "direct"},
    },
    "anthropic_result": {
        "type": "tool_result",
        "tool_use_id": "c",
        "is_error": True,
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "image", "source": {"type": "url", "url": "https://x.test/i.png"}},
        ],
    },
    "gemini_tool": {
        "functionDeclarations": [
            {
                "name": "_a.b:c-d",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "q": {"type": "STRING", "enum": ["a"], "maxLength": 3, "nullable": True},
                        "n": {"anyOf": [{"type": "Integer", "minimum": 1}, {"type": "NULL"}]},
                        "l": {"type": "ARRAY", "items": {"type": "NUMBER"}},
                        "m": {"type": "OBJECT", "additionalProperties": {"type": "STRING"}},
                    },
                    "required": ["q"],
                    "propertyOrdering": ["q", "n", "l", "m"],
                },
                "responseJsonSchema": SCHEMA,
            },
            {"name": "f", "parametersJsonSchema": SCHEMA, "response": {"type": "OBJECT"}},
        ]
    },
    "gemini_call": {"id": "c", "name": "t", "args": {"q": {"any": 1}}},
    "gemini_result": {
        "id": "c",
        "name": "t",
        "response": {"output": [1, {"any": None}]},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAEC"}}],
    },
    "a2a_skill": SKILL | {"examples": ["e"], "inputModes": ["text/plain"], "outputModes": ["text/plain"]},
    "a2a_card": {
        "name": "a",
        "description": "d",
        "version": "1.0.0",
        "supportedInterfaces": [
            {"url": "https://x.test", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "provider": {"organization": "o", "url": "https://x.test"},
        "capabilities": {"extensions": [{"uri": "https://x.test/e", "params": {"any": [1]}}]},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [SKILL],
        "securityRequirements": SECURITY,
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "http": {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}},
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://x.test/o"}},
            "mtls": {"mtlsSecurityScheme": {}},
            "oauth": {
                "oauth2SecurityScheme": {
                    "flows": {
                        "clientCredentials": {"tokenUrl": "https://x.test/t", "scopes": {"read": "to read"}}
                    }
                }
            },
        },
    },
    "a2a_message": {"messageId": "m", "role": "ROLE_USER", "parts": PARTS, "metadata": {"any": [1]}},
    "a2a_artifact": {"artifactId": "a", "name": "A", "parts": PARTS, "metadata": {"any": [1]}},
    "a2a_task": {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-15T00:00:00Z"},
        "artifacts": [{"artifactId": "a", "parts": PARTS}],
        "history": [{"messageId": "m", "role": "ROLE_AGENT", "parts": PARTS}],
    },
}
"""A payload for each judge that uses all allowed fields."""

MINIMAL: list[tuple[str, dict[str, Any]]] = [
    ("mcp_tool", {"name": "t", "inputSchema": {"type": "object"}}),
    ("mcp_call", {"name": "t"}),
    ("mcp_result", {"content": [], "resultType": "complete"}),
    ("openai_chat_tool", {"type": "function", "function": {"name": "t"}}),
    ("openai_chat_call", {"id": "", "type": "function", "function": {"name": "t", "arguments": ""}}),
    ("openai_chat_result", {"role": "tool", "tool_call_id": "c", "content": ""}),
    ("openai_responses_tool", {"type": "function", "name": "t", "parameters": None, "strict": None}),
    ("openai_responses_namespace", {"type": "namespace", "name": "n", "description": "", "tools": []}),
    ("openai_responses_call", {"type": "function_call", "call_id": "c", "name": "t", "arguments": ""}),
    ("openai_responses_result", {"type": "function_call_output", "output": ""}),
    ("anthropic_tool", {"name": "t", "input_schema": {"type": "object"}}),
    ("anthropic_call", {"type": "tool_use", "id": "c", "name": "t", "input": {}}),
    ("anthropic_result", {"type": "tool_result", "tool_use_id": "c"}),
    ("gemini_tool", {"functionDeclarations": [{"name": "t"}]}),
    ("gemini_call", {"name": "t"}),
    ("gemini_result", {"name": "t", "response": {}}),
    ("a2a_skill", {"id": "s", "name": "S", "description": "d", "tags": ["t"]}),
    (
        "a2a_card",
        {
            "name": "a",
            "description": "d",
            "version": "1",
            "supportedInterfaces": [{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
        },
    ),
    ("a2a_message", {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}),
    ("a2a_artifact", {"artifactId": "a", "parts": [{"data": {}}]}),
    ("a2a_task", {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}),
]

REQUIRED: dict[str, list[str]] = {
    "mcp_tool": ["name", "inputSchema", "inputSchema/type", "icons/0/src"],
    "mcp_call": ["name"],
    "mcp_result": ["content", "resultType", "content/0/type", "content/0/text", "content/1/uri"],
    "openai_chat_tool": ["type", "function", "function/name"],
    "openai_chat_call": ["id", "type", "function", "function/name", "function/arguments"],
    "openai_chat_result": ["role", "tool_call_id", "content", "content/1/text", "content/1/type"],
    "openai_responses_tool": ["type", "name", "parameters", "strict"],
    "openai_responses_namespace": ["type", "name", "description", "tools", "tools/0/name", "tools/0/type"],
    "openai_responses_call": ["type", "call_id", "name", "arguments", "caller/type", "caller/caller_id"],
    "openai_responses_result": ["type", "output", "output/0/text"],
    "anthropic_tool": ["name", "input_schema", "input_schema/type", "cache_control/type"],
    "anthropic_call": ["type", "id", "name", "input", "caller/type"],
    "anthropic_result": ["type", "tool_use_id", "content/0/text", "content/1/source/url"],
    "gemini_tool": ["functionDeclarations", "functionDeclarations/0/name"],
    "gemini_call": ["name"],
    "gemini_result": ["name", "response"],
    "a2a_skill": ["id", "name", "description", "tags"],
    "a2a_card": [
        *("name", "description", "version", "supportedInterfaces", "capabilities", "skills"),
        *("defaultInputModes", "defaultOutputModes", "skills/0/id", "provider/url"),
        *("supportedInterfaces/0/protocolVersion", "securitySchemes/key/apiKeySecurityScheme"),
        *("securitySchemes/oauth/oauth2SecurityScheme/flows/clientCredentials/scopes",),
    ],
    "a2a_message": ["messageId", "role", "parts", "parts/0/text"],
    "a2a_artifact": ["artifactId", "parts", "parts/0/text"],
    "a2a_task": ["id", "status", "status/state", "artifacts/0/artifactId", "history/0/parts/1/data"],
}
"""The places of keys that must not be missing."""

CLOSED: dict[str, list[str]] = {
    "mcp_tool": ["", "annotations", "icons/0"],
    "mcp_call": [""],
    "mcp_result": ["", "content/0", "content/0/annotations", "content/1", "content/2/resource"],
    "openai_chat_tool": ["", "function"],
    "openai_chat_call": ["", "function"],
    "openai_chat_result": ["", "content/0", "content/1"],
    "openai_responses_tool": [""],
    "openai_responses_namespace": ["", "tools/0", "tools/1", "tools/1/format"],
    "openai_responses_call": ["", "caller"],
    "openai_responses_result": ["", "output/0", "output/1"],
    "anthropic_tool": ["", "cache_control"],
    "anthropic_call": ["", "caller"],
    "anthropic_result": ["", "content/0", "content/1", "content/1/source"],
    "gemini_tool": [
        *("", "functionDeclarations/0", "functionDeclarations/1"),
        *("functionDeclarations/1/response", "functionDeclarations/0/parameters"),
        *(
            f"functionDeclarations/0/parameters/properties/{place}"
            for place in ("q", "n/anyOf/0", "l/items", "m/additionalProperties")
        ),
    ],
    "gemini_call": [""],
    "gemini_result": ["", "parts/0", "parts/0/inlineData"],
    "a2a_skill": ["", "securityRequirements/0", "securityRequirements/0/schemes/oauth"],
    "a2a_card": [
        *("", "supportedInterfaces/0", "provider", "capabilities", "capabilities/extensions/0", "skills/0"),
        *("securitySchemes/key", "securitySchemes/key/apiKeySecurityScheme", "securityRequirements/0"),
        *("securitySchemes/oauth/oauth2SecurityScheme/flows/clientCredentials",),
    ],
    "a2a_message": ["", "parts/0", "parts/1"],
    "a2a_artifact": ["", "parts/0"],
    "a2a_task": ["", "status", "artifacts/0", "artifacts/0/parts/0", "history/0"],
}
"""The places of objects that take no key they do not know."""

WRONG: list[tuple[str, str, Any]] = [
    ("mcp_tool", "name", 5),
    ("mcp_tool", "inputSchema", True),
    ("mcp_tool", "inputSchema/type", "string"),
    ("mcp_tool", "annotations/readOnlyHint", "true"),
    ("mcp_tool", "annotations/read_only_hint", True),
    ("mcp_tool", "icons/0/theme", "blue"),
    ("mcp_tool", "execution", {"taskSupport": "optional"}),
    ("mcp_tool", "namespace", "shop"),
    ("mcp_call", "arguments", "{}"),
    ("mcp_call", "arguments", [1]),
    ("mcp_call", "_meta", []),
    ("mcp_call", "task", {}),
    ("mcp_result", "content", "hi"),
    ("mcp_result", "content/0/type", "txt"),
    ("mcp_result", "isError", 0),
    ("mcp_result", "is_error", True),
    ("openai_chat_tool", "type", "custom"),
    ("openai_chat_tool", "function/name", None),
    ("openai_chat_tool", "function/parameters", True),
    ("openai_chat_tool", "function/parameters", None),
    ("openai_chat_tool", "function/strict", "true"),
    ("openai_chat_tool", "function/description", None),
    ("openai_chat_call", "function/arguments", {}),
    ("openai_chat_call", "id", None),
    ("openai_chat_result", "content", {"any": 1}),
    ("openai_chat_result", "content", None),
    ("openai_chat_result", "content/1/type", "image_url"),
    ("openai_chat_result", "role", "function"),
    ("openai_responses_tool", "parameters", []),
    ("openai_responses_tool", "strict", 1),
    ("openai_responses_tool", "allowed_callers", ["anyone"]),
    ("openai_responses_tool", "defer_loading", None),
    ("openai_responses_tool", "function", {"name": "t"}),
    ("openai_responses_namespace", "description", None),
    ("openai_responses_namespace", "tools", {}),
    ("openai_responses_namespace", "tools/0/strict", "yes"),
    ("openai_responses_namespace", "tools/0/type", "namespace"),
    ("openai_responses_call", "arguments", {}),
    ("openai_responses_call", "status", "done"),
    ("openai_responses_call", "namespace", None),
    ("openai_responses_result", "output", {"any": 1}),
    ("openai_responses_result", "output/0/type", "text"),
    ("anthropic_tool", "input_schema/type", ["object"]),
    ("anthropic_tool", "input_schema/required", "q"),
    ("anthropic_tool", "input_schema/properties", []),
    ("anthropic_tool", "description", None),
    ("anthropic_tool", "input_examples", [1]),
    ("anthropic_tool", "cache_control/ttl", "2h"),
    ("anthropic_tool", "inputSchema", SCHEMA),
    ("anthropic_call", "input", "{}"),
    ("anthropic_call", "caller/type", "anyone"),
    ("anthropic_result", "content", {"any": 1}),
    ("anthropic_result", "content/1/source/type", "path"),
    ("anthropic_result", "is_error", None),
    ("gemini_tool", "function_declarations", []),
    ("gemini_tool", "functionDeclarations", {}),
    ("gemini_tool", "functionDeclarations/0/name", "1st"),
    ("gemini_tool", "functionDeclarations/0/name", "a b"),
    ("gemini_tool", "functionDeclarations/0/name", "a" * 129),
    ("gemini_tool", "functionDeclarations/0/parametersJsonSchema", SCHEMA),
    ("gemini_tool", "functionDeclarations/0/response", {"type": "OBJECT"}),
    ("gemini_tool", "functionDeclarations/1/parameters", {"type": "OBJECT"}),
    ("gemini_tool", "functionDeclarations/0/parameters_json_schema", SCHEMA),
    ("gemini_tool", "functionDeclarations/0/behavior", "SLOW"),
    ("gemini_tool", "functionDeclarations/0/parameters/type", "dict"),
    ("gemini_tool", "functionDeclarations/0/parameters/type", ["object", "null"]),
    ("gemini_tool", "functionDeclarations/0/parameters/type", "TYPE_UNSPECIFIED"),
    ("gemini_tool", "functionDeclarations/0/parameters/additionalProperties", "no"),
    ("gemini_tool", "functionDeclarations/0/parameters/$defs", {}),
    ("gemini_tool", "functionDeclarations/0/parameters/any_of", []),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/q/type", "TYPE_UNSPECIFIED"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/q/type", "any"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/q/enum", [1]),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/q/maxLength", "3"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/q/const", "a"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/n/anyOf/1/type", "TYPE_UNSPECIFIED"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/l/items", True),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/l/items/type", "TYPE_UNSPECIFIED"),
    ("gemini_tool", "functionDeclarations/0/parameters/properties/m/additionalProperties/type", "float"),
    ("gemini_tool", "functionDeclarations/0/parameters/defs", {"a": {"type": "TYPE_UNSPECIFIED"}}),
    ("gemini_call", "args", "{}"),
    ("gemini_call", "name", "a b"),
    ("gemini_call", "will_continue", True),
    ("gemini_result", "response", "hi"),
    ("gemini_result", "response", [1]),
    ("gemini_result", "response", None),
    ("gemini_result", "parts/0/inlineData/data", 5),
    ("gemini_result", "parts/0/inlineData/data", "not base64"),
    ("a2a_skill", "tags", []),
    ("a2a_skill", "tags", "t"),
    ("a2a_skill", "name", 5),
    ("a2a_skill", "input_modes", ["text/plain"]),
    ("a2a_skill", "security", [{"oauth": ["read"]}]),
    ("a2a_skill", "securityRequirements", [{"oauth": ["read"]}]),
    ("a2a_skill", "securityRequirements", [{"schemes": {"oauth": ["read"]}}]),
    ("a2a_card", "url", "https://x.test"),
    ("a2a_card", "skills", []),
    ("a2a_card", "capabilities", None),
    ("a2a_card", "capabilities/streaming", "yes"),
    ("a2a_card", "securitySchemes/key", {"type": "apiKey", "in": "header", "name": "X-Key"}),
    ("a2a_card", "securitySchemes/mtls/httpAuthSecurityScheme", {"scheme": "bearer"}),
    ("a2a_card", "securitySchemes/oauth/oauth2SecurityScheme/flows", {}),
    ("a2a_card", "securitySchemes/oauth/oauth2SecurityScheme/flows/implicit", {}),
    ("a2a_message", "role", "user"),
    ("a2a_message", "role", "ROLE_UNSPECIFIED"),
    ("a2a_message", "message_id", "m"),
    ("a2a_message", "kind", "message"),
    ("a2a_message", "parts/0/kind", "text"),
    ("a2a_message", "parts/0/data", {}),
    ("a2a_message", "parts/3/raw", 5),
    ("a2a_message", "metadata", [1]),
    ("a2a_artifact", "parts", []),
    ("a2a_artifact", "parts", [{}]),
    ("a2a_artifact", "parts/0/media_type", "text/plain"),
    ("a2a_task", "status/state", "completed"),
    ("a2a_task", "status/timestamp", "yesterday"),
    ("a2a_task", "history/0/parts/0/media_type", "text/plain"),
]
"""Values that a judge must refuse in a place of the good payload."""

UNKNOWN = [(name, f"{place}/unheardOf".lstrip("/"), 1) for name, places in CLOSED.items() for place in places]
MISSING = [(name, place, GONE) for name, places in REQUIRED.items() for place in places]


def judge(name: str) -> Callable[..., None]:
    found: Callable[..., None] = getattr(oracles, name)
    return found


def changed(payload: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Copy a payload with another value in a place, or with none."""
    payload = copy.deepcopy(payload)
    *parents, last = place.split("/")
    target: Any = payload
    for key in parents:
        target = target[int(key) if isinstance(target, list) else key]
    if value is GONE:
        del target[last]
    else:
        target[last] = value
    return payload


def label(value: Any) -> str:
    return "-" if value is GONE else str(value)[:40]


def test_every_judge_is_judged() -> None:
    prefixes = ("mcp_", "openai_", "anthropic_", "gemini_", "a2a_")
    names = {name for name in vars(oracles) if name.startswith(prefixes)}
    assert names == GOOD.keys() == dict(MINIMAL).keys() == REQUIRED.keys() == CLOSED.keys()
    assert names == {name for name, _, _ in WRONG}


@pytest.mark.parametrize("name", GOOD)
def test_a_full_payload_is_accepted_and_left_alone(name: str) -> None:
    payload = copy.deepcopy(GOOD[name])
    judge(name)(payload)
    assert payload == GOOD[name]


@pytest.mark.parametrize(("name", "payload"), MINIMAL, ids=[name for name, _ in MINIMAL])
def test_a_minimal_payload_is_accepted(name: str, payload: dict[str, Any]) -> None:
    judge(name)(payload)


@pytest.mark.parametrize(("name", "place", "value"), UNKNOWN, ids=label)
def test_an_unknown_key_is_refused_at_every_depth(name: str, place: str, value: Any) -> None:
    with pytest.raises(RefusedError):
        judge(name)(changed(GOOD[name], place, value))


@pytest.mark.parametrize(("name", "place", "value"), MISSING, ids=label)
def test_a_missing_key_is_refused(name: str, place: str, value: Any) -> None:
    with pytest.raises(RefusedError):
        judge(name)(changed(GOOD[name], place, value))


@pytest.mark.parametrize(("name", "place", "value"), WRONG, ids=label)
def test_a_wrong_value_is_refused(name: str, place: str, value: Any) -> None:
    with pytest.raises(RefusedError):
        judge(name)(changed(GOOD[name], place, value))


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("payload", [{}, [], None, "{}"], ids=str)
def test_malformed_payload_is_refused(name: str, payload: Any) -> None:
    with pytest.raises(RefusedError):
        judge(name)(payload)


@pytest.mark.parametrize("odd", [("a",), {1: "a"}, float("nan"), {"a"}, b"a"], ids=str)
def test_non_json_values_are_refused_even_where_any_value_fits(odd: Any) -> None:
    with pytest.raises(RefusedError):
        oracles.mcp_tool(changed(GOOD["mcp_tool"], "inputSchema/default", odd))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("mcp_tool", "execution", {"taskSupport": "optional"}),
        ("mcp_call", "task", {"ttl": 60}),
        ("mcp_result", "resultType", GONE),
    ],
    ids=label,
)
def test_removals_of_2026_07_28_are_accepted_in_2025_11_25_alone(name: str, place: str, value: Any) -> None:
    objects = {
        "mcp_tool": ("outputSchema", {"type": "object"}),
        "mcp_result": ("structuredContent", {"any": 1}),
    }
    payload = changed(GOOD[name], *objects[name]) if name in objects else GOOD[name]
    judge(name)(payload)
    payload = changed(payload, place, value)
    judge(name)(payload, era="2025-11-25")
    with pytest.raises(RefusedError):
        judge(name)(payload, era="2026-07-28")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("mcp_tool", "outputSchema", {"type": "array"}),
        ("mcp_result", "structuredContent", [1]),
        ("mcp_call", "requestState", "s"),
    ],
    ids=label,
)
def test_additions_of_2026_07_28_are_refused_in_2025_11_25(name: str, place: str, value: Any) -> None:
    payload = changed(dict(MINIMAL)[name], place, value)
    judge(name)(payload)
    payload.pop("resultType", None)
    with pytest.raises(RefusedError):
        judge(name)(payload, era="2025-11-25")


def test_every_real_tool_is_one_of_2025_11_25_but_for_two_annotations(data: Path) -> None:
    tools = load_real_tools(data)
    assert len(tools) == {"tests": 39, "shared": 1163}[data.parent.name]
    assert not any({"source", "server"} & tool.keys() for tool in tools)
    unknown = {"category", "conditions"}
    odd = [tool for tool in tools if unknown & tool.get("annotations", {}).keys()]
    assert len(odd) == {"tests": 3, "shared": 32}[data.parent.name]
    for tool in odd:
        with pytest.raises(RefusedError, match=r"annotations\.category"):
            oracles.mcp_tool(tool, era="2025-11-25")
        tool["annotations"] = {key: tool["annotations"][key] for key in tool["annotations"].keys() - unknown}
    for tool in tools:
        oracles.mcp_tool(tool, era="2025-11-25")


def test_no_sdk_is_imported_before_it_is_asked() -> None:
    folder = Path(oracles.__file__).parent.parent
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import adapter.oracles;"
        "print(*{'mcp_types', 'openai', 'anthropic', 'google.genai', 'google.protobuf', 'a2a'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ""

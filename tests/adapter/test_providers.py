"""Features of single providers: native fields, other shapes of a definition, and conversion back from them."""

from typing import Any

import pytest
from adapter import oracles
from adapter.support import REGISTRY, convert, obj

from toolcrib.adapter import Bundle, CanonicalTool, Conversion
from toolcrib.errors import ConversionError
from toolcrib.model import Tool, ToolExample, tool

TEXT = {"type": "string"}
SCHEMA = obj(q=TEXT, labels={"type": "object", "additionalProperties": TEXT}) | {"required": ["q"]}
OUTPUT = obj(found={"type": ["integer", "null"]}) | {"required": ["found"]}
RAW = {
    "name": "find",
    "namespace": "shop.eu",
    "description": "Find things.",
    "inputSchema": SCHEMA,
    "outputSchema": OUTPUT,
}


def to(target: str, raw: Any = RAW, **options: Any) -> Conversion:
    return REGISTRY.convert(raw, source="mcp", target=target, **options)


def lost(conversion: Conversion) -> set[str]:
    return {warning.feature for warning in conversion.warnings if warning.part == "definition"}


def test_the_responses_api_gets_its_native_fields() -> None:
    conversion = to("openai", api="responses", strict=True, defer_loading=True, output_schema=True)
    oracles.openai_responses_tool(conversion.payload)
    assert conversion.payload["defer_loading"] is True
    assert conversion.payload["strict"] is True
    assert conversion.payload["output_schema"]["required"] == ["found"]
    assert lost(conversion) == {"namespace"}


def test_tools_of_one_namespace_stand_together() -> None:
    raws = [RAW, {**RAW, "name": "sell"}, {"name": "alone", "inputSchema": obj()}]
    made = REGISTRY.convert_many(raws, source="mcp", target="openai", api="responses", namespace=True)
    bundle = Bundle(made)
    spaces = [each for each in bundle.tools if each["type"] == "namespace"]
    assert [(each["name"], [one["name"] for one in each["tools"]]) for each in spaces] == [
        ("shop_eu", ["find", "sell"])
    ]
    assert bundle.tools[1]["name"] == "alone"
    for each in spaces:
        oracles.openai_responses_namespace(each)
    call = made[1].encode_call({"q": "x"}, "c1")
    oracles.openai_responses_call(call)
    assert call["namespace"] == "shop_eu"
    assert bundle.decode_call(call).tool_id == "shop.eu:sell"
    assert ("namespace", "/namespace") in {(each.feature, each.path) for each in made[0].warnings}


def test_a_namespace_of_one_function_is_read() -> None:
    payload = to("openai", api="responses", namespace=True).payload
    back = REGISTRY.convert(payload, source="openai", target="mcp").payload
    assert (back["name"], back["namespace"], back["inputSchema"]["required"]) == ("find", "shop_eu", ["q"])
    with pytest.raises(ConversionError, match="one by one"):
        REGISTRY.convert({**payload, "tools": []}, source="openai", target="mcp")


@pytest.mark.parametrize(
    ("source", "raw", "match"),
    [
        ("openai", {"type": "web_search"}, "only tools of type 'function'"),
        ("openai", {"type": "function", "function": 5}, "'function' must be an object"),
        ("anthropic", {"type": "bash_20250124", "name": "bash"}, "only custom tools"),
        ("anthropic", {"name": "t", "input_schema": 5}, "no input_schema"),
        ("gemini", {"functionDeclarations": []}, "one by one"),
        ("mcp", {"name": "t"}, "no inputSchema"),
        ("mcp", {"inputSchema": {"type": "object"}}, "no name"),
        ("mcp", "{", "is not JSON"),
        ("mcp", 5, "is a JSON object, not int"),
        ("mcp", {"name": "t", "inputSchema": {"type": "object", "x": {1}}}, "not plain JSON"),
    ],
)
def test_malformed_function_is_refused_with_the_right_form(source: str, raw: Any, match: str) -> None:
    with pytest.raises(ConversionError, match=match):
        REGISTRY.convert(raw, source=source, target="mcp")


def test_fields_of_openai_alone_round_trip() -> None:
    raw = {
        "type": "function",
        "name": "t",
        "parameters": obj(a=TEXT),
        "strict": False,
        "defer_loading": True,
        "allowed_callers": ["direct"],
    }
    conversion = REGISTRY.convert(raw, source="openai", target="openai", api="responses")
    assert conversion.payload == raw
    assert conversion.lossless
    assert lost(REGISTRY.convert(raw, source="openai", target="mcp")) == {
        "strict",
        "defer_loading",
        "allowed_callers",
    }


def test_a_strict_function_stays_strict() -> None:
    raw = to("openai", strict=True).payload
    assert REGISTRY.convert(raw, source="openai", target="openai").payload == raw
    plain = {"type": "function", "function": {"name": "t", "parameters": obj(), "strict": False}}
    assert REGISTRY.convert(plain, source="openai", target="openai").payload == plain


def test_anthropic_gets_its_native_fields() -> None:
    fits = ToolExample(args={"q": "x", "labels": {"k": "v"}})
    wrong = {"args": {"question": 5}}
    conversion = to(
        "anthropic",
        strict=True,
        defer_loading=True,
        cache_control={"type": "ephemeral", "ttl": "1h"},
        examples=[fits, wrong],
    )
    oracles.anthropic_tool(conversion.payload)
    assert conversion.payload["defer_loading"] is True
    assert conversion.payload["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert conversion.payload["input_examples"] == [{"q": "x", "labels": [{"key": "k", "value": "v"}]}]
    assert [each.feature for each in conversion.warnings if "does not fit" in each.message] == ["examples"]


def test_fields_of_anthropic_alone_round_trip() -> None:
    raw = {
        "type": "custom",
        "name": "t",
        "input_schema": obj(a=TEXT),
        "cache_control": {"type": "ephemeral"},
        "input_examples": [{"a": "x"}],
        "strict": False,
    }
    assert REGISTRY.convert(raw, source="anthropic", target="anthropic").payload == raw
    back = REGISTRY.convert(raw, source="anthropic", target="mcp").payload
    assert back["_meta"]["examples"] == ['{"a":"x"}']


@pytest.mark.parametrize(("style", "key"), [("json-schema", "responseJsonSchema"), ("openapi", "response")])
def test_gemini_gets_the_output_schema_when_asked(style: str, key: str) -> None:
    conversion = to("gemini", style=style, output_schema=True)
    oracles.gemini_tool(conversion.payload)
    assert conversion.payload["functionDeclarations"][0][key]["required"] == ["found"]
    assert "outputSchema" not in lost(conversion)
    assert "outputSchema" in lost(to("gemini", style=style))


def test_a_declaration_of_gemini_is_read_in_either_style_and_spelling() -> None:
    parameters = {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "STRING", "nullable": True},
            "b": {
                "type": "ARRAY",
                "items": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}], "nullable": True},
            },
            "c": {"type": "STRING", "enum": ["x"], "nullable": True},
        },
        "propertyOrdering": ["a", "b", "c"],
    }
    raw = {"function_declarations": [{"name": "t", "parameters": parameters}], "googleSearch": {}}
    conversion = REGISTRY.convert(raw, source="gemini", target="mcp")
    assert conversion.payload["inputSchema"] == {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {
                "type": "array",
                "items": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
            },
            "c": {"type": ["string", "null"], "enum": ["x", None]},
        },
    }
    assert "googleSearch" in lost(conversion)
    snake = {"name": "t", "parameters_json_schema": obj(a=TEXT), "behavior": "BLOCKING"}
    kept = REGISTRY.convert(snake, source="gemini", target="gemini").payload["functionDeclarations"][0]
    assert (kept["parametersJsonSchema"], kept["behavior"]) == (obj(a=TEXT), "BLOCKING")


def test_changes_in_the_canonical_form_are_written_to_mcp() -> None:
    raw = {
        **RAW,
        "title": "Find",
        "tags": ["a"],
        "annotations": {"idempotentHint": True},
        "_meta": {"summary": "s"},
    }
    read = REGISTRY.get("mcp").to_canonical(raw)
    changed = read.replace(
        display_name="Look",
        tags=("b",),
        idempotent=False,
        summary="t",
        description="Other.",
        annotations={"x": 1},
    )
    written = REGISTRY.get("mcp").from_canonical(changed)
    assert (written["title"], written["tags"], written["description"]) == ("Look", ["b"], "Other.")
    assert written["annotations"] == {"x": 1, "idempotentHint": False}
    assert written["_meta"] == {"summary": "t"}


def test_a_local_tool_and_a_tool_are_read_like_their_definition() -> None:
    @tool(namespace="shop")
    def total(prices: list[float]) -> float:
        """Add up."""
        return sum(prices)

    for target in ("openai", "anthropic", "mcp"):
        of_record = to(target, total.tool).payload
        assert to(target, total).payload == of_record
        assert to(target, total.tool.to_json()).payload == of_record
    assert Tool.from_json(to("mcp", total).payload).id == total.tool.id


@pytest.mark.requirement("adapter.mcp.canonical")
def test_canonical_form_has_all_fields_of_mcp() -> None:
    meta = {
        "summary": "s",
        "category": "c",
        "inputModes": ["text"],
        "outputModes": ["json"],
        "examples": ["e"],
        "deterministic": True,
        "streaming": False,
        "securitySchemes": {"key": {"type": "apiKey"}},
        "securityRequirements": [{"key": []}],
        "uiHints": {"x": 1},
    }
    raw = {**RAW, "title": "Find", "annotations": {"idempotentHint": True}, "_meta": meta}
    read = REGISTRY.get("mcp").to_canonical(raw)
    expected = {"displayName": "Find", "idempotent": True, "sourceFormat": "mcp", **meta}
    assert read.to_json().items() >= expected.items()
    assert REGISTRY.get("mcp").from_canonical(read) == raw


@pytest.mark.requirement("adapter.description")
@pytest.mark.parametrize("target", REGISTRY.names())
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"description": "X.", "summary": "Y.", "display_name": "Z"}, "X."),
        ({"summary": "Y.", "display_name": "Z"}, "Y."),
        ({"display_name": "Z"}, "Z"),
    ],
    ids=["description", "summary", "title"],
)
def test_a_tool_without_a_description_is_described_by_its_summary_or_its_title(
    target: str, words: dict[str, str], expected: str
) -> None:
    written = REGISTRY.get(target).from_canonical(
        CanonicalTool(name="t", input_schema={"type": "object"}, **words)
    )
    written = written.get("function") or written.get("functionDeclarations", [written])[0]
    assert written["description"] == expected


@pytest.mark.requirement("adapter.backend-unsent")
@pytest.mark.parametrize("target", REGISTRY.names())
def test_backend_is_not_sent_to_providers(target: str) -> None:
    record = Tool.from_json(RAW | {"backend": {"kind": "mcp", "serverName": "hidden"}})
    for raw in (record, record.to_json()):
        conversion = to(target, raw)
        assert "hidden" not in repr(conversion.payload)
        assert "backend" in lost(conversion)


def test_a_value_that_fits_no_alternative_is_passed_on_for_the_validator() -> None:
    kinds = [obj(k={"const": kind}, m={}) | {"required": ["k", "m"]} for kind in ("a", "b")]
    conversion = convert(obj(u={"anyOf": kinds}) | {"required": ["u"]}, "anthropic-strict")
    call = {"id": "c", "name": "t", "input": {"u": {"k": "z", "m": "1"}}}
    assert conversion.decode_call(call).args == {"u": {"k": "z", "m": 1}}
    with pytest.raises(ConversionError, match="/u/m: must be JSON text"):
        conversion.decode_call({**call, "input": {"u": {"k": "a", "m": "oops"}}})
    with pytest.raises(ConversionError, match="fits none of the alternatives"):
        conversion.encode_args({"u": {"k": "z"}})
    assert conversion.decode_call({**call, "input": {"u": 5}}).args == {"u": 5}

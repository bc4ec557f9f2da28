"""Laws of every schema, every definition and every value, however odd."""

import json
from contextlib import suppress
from typing import Any

import pytest
from adapter.instances import valid_arguments
from adapter.support import CALL_ID, REGISTRY, assert_comes_back, convert, convert_tool, faults
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import law

from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError, ToolcribError

NAMES = [
    "a",
    "b",
    "c",
    "type",
    "properties",
    "filter[id]",
    "$top",
    "items",
    "a/b~c",
    "ключ",
    "additional_properties",
]
DEFS = ["node", "leaf", "a"]
TEXTS = ["", "a", "1", "null", '"q"', "[]", "{}", "ß"]

REWRITING = ("openai-strict", "anthropic-strict", "gemini-openapi")
WAYS = [
    target if target in REWRITING else pytest.param(target, marks=pytest.mark.proof) for target in TARGETS
]
"""Every target: `make test` searches those that rewrite most."""

names = st.sampled_from(NAMES)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([0.5, 1.0, 2**60])
    | st.sampled_from(TEXTS)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        "description": st.sampled_from(["", "What it is.", "☃"]),
        "title": st.just("Title"),
        "default": json_values,
        "examples": st.lists(json_values, max_size=2),
        "x-own": json_values,
        "$comment": st.just("why"),
        "deprecated": st.booleans(),
    },
)
constraints = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(4, 9),
        "exclusiveMinimum": st.just(-4),
        "multipleOf": st.just(1),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(20, 60),
        "format": st.sampled_from(["date", "uri", "int32", "own"]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(3, 5),
        "uniqueItems": st.just(False),
        "minProperties": st.just(0),
    },
)
kinds = st.sampled_from(["string", "integer", "number", "boolean", "null"])
all_kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])


@st.composite
def plain(draw: st.DrawFn) -> Any:
    """Return a subschema with no other in it."""
    form = draw(
        st.sampled_from(["kind", "kinds", "enum", "const", "typed enum", "anything", "bool", "ref", "bare"])
    )
    if form == "bool":
        return draw(st.booleans())
    if form == "ref":
        return {"$ref": f"#/$defs/{draw(st.sampled_from(DEFS))}"}
    rest = {
        "kind": lambda: {"type": draw(kinds), **draw(constraints)},
        "kinds": lambda: {"type": draw(st.lists(all_kinds, min_size=1, max_size=3, unique=True))},
        "enum": lambda: {"enum": draw(st.lists(json_values, min_size=1, max_size=4))},
        "const": lambda: {"const": draw(json_values)},
        "typed enum": lambda: {
            "type": "string",
            "enum": draw(st.lists(st.sampled_from(TEXTS), min_size=1, unique=True)),
        },
        "anything": dict,
        "bare": lambda: {"type": draw(st.sampled_from(["object", "array"])), **draw(constraints)},
    }[form]()
    return rest | draw(annotations)


@st.composite
def larger(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:  # noqa: C901, PLR0912 - one branch a form
    """Return a subschema with others in it."""
    form = draw(
        st.sampled_from(
            [
                "object",
                "object",
                "map",
                "array",
                "tuple",
                "old tuple",
                "union",
                "union",
                "nullable",
                "all",
                "mixed",
                "both",
                "all of two",
                "beside",
            ]
        )
    )
    if form in {"object", "mixed"}:
        properties = draw(st.dictionaries(names, inner, max_size=4))
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        schema["required"] = [name for name in properties if draw(st.booleans())]
        more = draw(st.sampled_from([None, False, True, {}, "schema"]))
        if more is not None:
            schema["additionalProperties"] = draw(inner) if more == "schema" else more
        if form == "mixed":
            schema["anyOf"] = [{"required": [name]} for name in properties] or [{}]
    elif form == "map":
        schema = {"type": "object", "additionalProperties": draw(inner)}
        schema |= {"propertyNames": {"enum": ["k1", "k 2"]}} if draw(st.booleans()) else {}
    elif form == "array":
        schema = {"type": "array", "items": draw(inner)}
    elif form == "tuple":
        schema = {"type": "array", "prefixItems": draw(st.lists(inner, min_size=1, max_size=3))}
        schema |= draw(
            st.sampled_from([{}, {"items": False}, {"minItems": 1}, {"items": {"type": "string"}}])
        )
    elif form == "old tuple":
        schema = {
            "type": "array",
            "items": draw(st.lists(inner, min_size=1, max_size=2)),
            "additionalItems": False,
        }
    elif form == "nullable":
        schema = {"anyOf": [draw(inner), {"type": "null"}]}
    elif form == "all":
        schema = {"allOf": [draw(inner.filter(lambda one: isinstance(one, dict)))]}
    elif form == "all of two":
        schema = {"allOf": draw(st.lists(inner, min_size=2, max_size=2))}
    elif form == "beside":
        schema = {"properties": draw(st.dictionaries(names, inner, min_size=1, max_size=2))}
        schema[draw(st.sampled_from(["anyOf", "oneOf"]))] = draw(st.lists(inner, min_size=1, max_size=3))
    elif form == "both":
        schema = {"type": "object", "properties": {"a": draw(inner)}}
        schema["allOf"] = [{"type": "object", "properties": {"b": draw(inner)}}]
    else:
        schema = {draw(st.sampled_from(["anyOf", "oneOf"])): draw(st.lists(inner, min_size=1, max_size=3))}
    return schema | draw(annotations)


subschemas = st.recursive(plain(), larger, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Return a schema with definitions, which may refer to one another and to themselves."""
    root = draw(
        st.dictionaries(names, subschemas, max_size=4).map(
            lambda found: {"type": "object", "properties": found}
        )
        | subschemas.filter(lambda one: isinstance(one, dict))
    )
    if "properties" in root and draw(st.booleans()):
        root = {**root, "required": [name for name in root["properties"] if draw(st.booleans())]}
    definitions = {name: draw(subschemas.filter(lambda one: isinstance(one, dict))) for name in DEFS}
    schema = {**root, "$defs": definitions}
    is_new = "prefixItems" in json.dumps(schema)  # which draft-07 does not know
    old = (
        {}
        if is_new
        else draw(st.sampled_from([{}, {}, {"$schema": "http://json-schema.org/draft-07/schema#"}]))
    )
    return {**old, **schema}


def arguments_of(schema: dict[str, Any]) -> list[Any]:
    """Return valid arguments of a schema; none if no value can be valid.

    The arguments of a tool are an object, unless its schema plainly says something else.
    """
    try:
        found, known = valid_arguments(schema, count=3, tries=12), declares(schema, schema)
    except (ToolcribError, RecursionError, TypeError, IndexError, KeyError, AttributeError):
        return []
    is_other = isinstance(schema.get("type"), str) and schema["type"] != "object"
    return found if is_other else [args for args in found if isinstance(args, dict) and (known or not args)]


def declares(schema: Any, root: dict[str, Any]) -> bool:
    """Return whether a root schema describes its arguments."""
    if not isinstance(schema, dict):
        return False
    if not {"properties", "additionalProperties", "anyOf", "oneOf"}.isdisjoint(schema):
        return True
    target = root["$defs"].get(str(schema.get("$ref")).rpartition("/")[2]) if "$defs" in root else None
    return any(declares(member, root) for member in (target, *schema.get("allOf", ())))


def try_converting(raw: Any, target: str) -> Any:
    try:
        return convert_tool(raw, target)
    except ConversionError:
        return None


@pytest.mark.parametrize("target", WAYS)
@law(4)
@given(schema=schemas())
def test_valid_arguments_come_back_and_fit_the_converted_schema(target: str, schema: dict[str, Any]) -> None:
    args = arguments_of(schema)
    assume(args)
    conversion = convert(schema, target)
    for one in args:
        assert_comes_back(conversion, target, one)


@pytest.mark.parametrize("target", WAYS)
@law(4)
@given(schema=schemas())
def test_a_converted_schema_keeps_the_rules_of_its_provider(target: str, schema: dict[str, Any]) -> None:
    conversion = try_converting({"name": "t", "inputSchema": schema}, target)
    assume(conversion is not None and arguments_of(schema))
    assert faults(conversion, target) == ()


@pytest.mark.proof
@law(150)
@given(schema=schemas())
def test_a_search_of_minutes_finds_no_counterexample_for_any_target(schema: dict[str, Any]) -> None:
    args = arguments_of(schema)
    assume(args)
    for target in TARGETS:
        conversion = convert(schema, target)
        for one in args:
            assert_comes_back(conversion, target, one)
        assert faults(conversion, target) == ()


anything = st.recursive(
    scalars | st.sampled_from(["object", "#", "#/$defs/a", "array"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            names
            | st.sampled_from(
                [
                    "$ref",
                    "$defs",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "enum",
                    "const",
                    "required",
                    "additionalProperties",
                    "not",
                    "if",
                    "prefixItems",
                    "patternProperties",
                    "propertyNames",
                    "dependencies",
                    "default",
                    "minItems",
                    "pattern",
                    "$schema",
                    "$id",
                    "$anchor",
                    "$dynamicRef",
                    "definitions",
                    "description",
                    "format",
                    "nullable",
                    "then",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("target", WAYS)
@law(4)
@given(
    schema=st.dictionaries(
        st.sampled_from(["type", "properties", "items", "$defs", "allOf", "$ref"]), anything
    )
    | anything
)
def test_any_json_as_schema_is_converted_or_refused(target: str, schema: Any) -> None:
    before = json.dumps(schema)
    conversion = try_converting({"name": "t", "inputSchema": schema}, target)
    assert json.dumps(schema) == before
    if conversion is not None:
        json.dumps(conversion.payload)


@pytest.mark.parametrize("target", WAYS)
@law(5)
@given(
    schema=st.fixed_dictionaries(
        {"type": st.just("object")}, optional={"properties": anything, "$defs": anything}
    ),
    value=json_values,
)
def test_any_value_is_decoded_or_refused(target: str, schema: Any, value: Any) -> None:
    conversion = try_converting({"name": "t", "inputSchema": schema}, target)
    assume(conversion is not None)
    for way in (
        lambda: conversion.encode_args({"a": value}),
        lambda: decoded(conversion, target, {"a": value}),
    ):
        with suppress(ConversionError):
            way()


def decoded(conversion: Any, target: str, args: Any) -> Any:
    call = {
        "mcp": {"name": "t", "arguments": args},
        "openai": {"id": "1", "type": "function", "function": {"name": "t", "arguments": json.dumps(args)}},
        "anthropic": {"type": "tool_use", "id": "1", "name": "t", "input": args},
        "gemini": {"functionCall": {"name": "t", "args": args}},
        "a2a": {"messageId": "1", "role": "ROLE_USER", "parts": [{"data": args}]},
    }[TARGETS[target][0]]
    return conversion.decode_call(call)


fields = st.sampled_from(
    [
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "_meta",
        "icons",
        "tags",
        "namespace",
        "version",
        "parameters",
        "function",
        "type",
        "input_schema",
        "functionDeclarations",
        "id",
        "strict",
        "parametersJsonSchema",
        "backend",
        "input_examples",
        "output_schema",
        "tools",
        "securityRequirements",
        "behavior",
    ]
)


@pytest.mark.parametrize("source", REGISTRY.names())
@law(5)
@given(raw=st.dictionaries(fields, anything, max_size=6) | anything)
def test_any_json_as_definition_is_read_or_refused(source: str, raw: Any) -> None:
    before = json.dumps(raw)
    for target, options in TARGETS.values():
        with suppress(ConversionError):
            REGISTRY.convert(raw, source=source, target=target, **options)
    assert json.dumps(raw) == before


definitions = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["t", "get_issue", "get issue", "9lives", "naïve", "a.b", "x" * 70]),
        "inputSchema": schemas(),
    },
    optional={
        "description": st.sampled_from(["", "What it does.", "x" * 1100]),
        "title": st.sampled_from(["", "Title"]),
        "outputSchema": schemas(),
        "annotations": st.fixed_dictionaries(
            {}, optional={"title": st.just("T"), "idempotentHint": st.booleans()}
        ),
        "_meta": st.dictionaries(
            st.sampled_from(["x.test/a", "summary", "timeout"]), json_values, max_size=2
        ),
        "icons": st.just([{"src": "https://x.test/i.png"}]),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "namespace": st.sampled_from(["ns", ""]),
        "version": st.sampled_from(["1.0.0", "v1.0.0"]),
    },
)


@pytest.mark.parametrize("target", WAYS)
@law(5)
@given(raw=definitions)
def test_a_conversion_without_warnings_can_be_reversed_to_an_equal_definition(
    target: str, raw: dict[str, Any]
) -> None:
    conversion = try_converting(raw, target)
    assume(conversion is not None)
    assert conversion.lossless == (conversion.warnings == ())
    if conversion.lossless:
        back = REGISTRY.convert(conversion.payload, source=conversion.adapter, target="mcp").payload
        assert back == raw


@pytest.mark.parametrize("target", ["openai", "anthropic", "gemini"])
@law(4)
@given(
    raw=st.fixed_dictionaries(
        {
            "name": st.sampled_from(["t", "u"]),
            "inputSchema": st.dictionaries(names, plain().filter(bool)).map(
                lambda found: {"type": "object", "properties": found}
            ),
        },
        optional={"description": st.sampled_from(["", "d"])},
    )
)
def test_a_plain_definition_without_warnings_can_be_reversed(target: str, raw: dict[str, Any]) -> None:
    conversion = try_converting(raw, target)
    assume(conversion is not None and conversion.lossless)
    assert REGISTRY.convert(conversion.payload, source=target, target="mcp").payload == raw


@law(5)
@given(raw=definitions)
def test_an_mcp_definition_is_the_same_in_mcp(raw: dict[str, Any]) -> None:
    assume(raw["inputSchema"].get("type") == "object")
    conversion = convert_tool(raw, "mcp")
    assert conversion.payload == raw
    assert conversion.warnings == ()


@pytest.mark.parametrize("target", WAYS)
@law(4)
@given(raw=definitions)
def test_a_conversion_is_the_same_each_time_and_its_warnings_stand_in_order(
    target: str, raw: dict[str, Any]
) -> None:
    before = json.dumps(raw)
    one, other = try_converting(raw, target), try_converting(json.loads(before), target)
    assert json.dumps(raw) == before
    assume(one is not None)
    assert json.dumps(one.payload) == json.dumps(other.payload)
    assert one.warnings == other.warnings
    keys = [
        (("definition", "input", "output").index(each.part), each.path, each.feature, each.message)
        for each in one.warnings
    ]
    assert keys == sorted(set(keys))
    assert all(each.path == "" or each.path.startswith("/") for each in one.warnings)
    assert {each.adapter for each in one.warnings} <= {one.adapter}


@pytest.mark.parametrize("target", WAYS)
@law(4)
@given(raw=definitions)
def test_a_payload_shares_nothing_that_can_be_changed_with_its_source(
    target: str, raw: dict[str, Any]
) -> None:
    conversion = try_converting(raw, target)
    assume(conversion is not None)
    assert not containers(conversion.payload) & containers(raw)


def containers(value: Any) -> set[int]:
    """Return the identities of all containers in a value."""
    if isinstance(value, dict):
        return {id(value)}.union(*map(containers, value.values()))
    return {id(value)}.union(*map(containers, value)) if isinstance(value, list) else set()


@law(4)
@given(schema=schemas())
def test_calls_of_both_openai_apis_come_back_alike(schema: dict[str, Any]) -> None:
    args = arguments_of(schema)
    assume(args)
    chat, responses = (convert(schema, "openai-strict", api=api) for api in ("chat", "responses"))
    for one in args:
        found = [each.decode_call(each.encode_call(one, CALL_ID)) for each in (chat, responses)]
        assert found[0] == found[1]

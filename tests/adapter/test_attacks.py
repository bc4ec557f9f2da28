"""Hostile definitions and calls are answered, or refused with a sentence, in bounded time."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from adapter.support import CALL_ID, REGISTRY, STRUCTURED, convert, convert_tool, faults, obj, schema_of
from effort import at_most

from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError

pytestmark = pytest.mark.attack
SECONDS = 2.0

BAD_CALLS: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "text": "t",
    "a number": 5,
    "an empty object": {},
    "a name that is a number": {"name": 5, "function": {"name": 5}},
    "a null name": {"name": None, "function": None, "functionCall": None, "params": None, "parts": None},
    "lists all over": {
        "function": [],
        "functionCall": [],
        "params": [],
        "parts": [[]],
        "message": [],
        "name": [],
    },
    "a set, which is no JSON": {"name": {1}, "function": {1}, "params": {1}, "parts": {1}},
}


def within(work: Callable[[], Any]) -> Any:
    """Return the result of a function, or None if it refuses; both in bounded time."""
    message = ""
    with at_most(SECONDS):
        try:
            found = work()
        except ConversionError as error:
            found, message = None, str(error)
    assert len(message) < 2_000
    return found


def bomb(levels: int) -> dict[str, Any]:
    """Return a schema that doubles with every reference."""
    definitions: dict[str, Any] = {
        f"d{level}": obj(a={"$ref": f"#/$defs/d{level + 1}"}, b={"$ref": f"#/$defs/d{level + 1}"})
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {**obj(x={"$ref": "#/$defs/d0"}), "$defs": definitions}


def nested(levels: int, key: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {
            "object": obj(a=schema),
            "array": {"type": "array", "items": schema},
            "anyOf": {"anyOf": [schema, {"type": "null"}]},
        }[key]
    return obj(x=schema)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("word", ["properties", "allOf", "anyOf", "additionalProperties"])
def test_references_that_expand_to_two_to_the_thirtieth_are_never_expanded(target: str, word: str) -> None:
    schema = bomb(30)
    if word != "properties":
        for level in range(30):
            refs = [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}", "description": "b"}]
            schema["$defs"][f"d{level}"] = {word: refs if word != "additionalProperties" else {"anyOf": refs}}
    conversion = within(lambda: convert(schema, target))
    if conversion is not None:
        within(lambda: len(conversion.warnings))
        assert len(json.dumps(conversion.payload)) < 200_000


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", ["object", "array", "anyOf"])
def test_a_schema_nested_deep_is_converted_or_refused(target: str, key: str) -> None:
    within(lambda: convert(nested(250, key), target))


@pytest.mark.parametrize("target", TARGETS)
def test_five_thousand_properties_are_converted_or_refused(target: str) -> None:
    schema = obj(**{f"p{index}": {"type": "string", "minLength": 1} for index in range(5_000)})
    conversion = within(lambda: convert(schema, target))
    assert conversion is not None
    assert faults(conversion, target) == ()
    within(lambda: len(conversion.warnings))
    within(lambda: conversion.decode_call(conversion.encode_call({"p1": "x"}, CALL_ID)))


@pytest.mark.parametrize("target", TARGETS)
def test_five_thousand_names_that_no_provider_takes_get_names_of_their_own(target: str) -> None:
    schema = obj(**{chr(0x4E00 + index): {"type": "string"} for index in range(5_000)})
    conversion = within(lambda: convert(schema, target))
    assert conversion is not None
    assert faults(conversion, target) == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", ["9", "a"])
def test_long_names_that_begin_alike_stay_within_the_length(target: str, start: str) -> None:
    schema = obj(**{f"{start}{'x' * 70}{index}": {"type": "string"} for index in range(1_200)})
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()


@pytest.mark.parametrize("target", TARGETS)
def test_a_description_of_a_megabyte_is_kept(target: str) -> None:
    text = "x" * 1_000_000
    raw = {
        "name": "t",
        "description": text,
        "inputSchema": obj(a={"type": "string", "description": text, "minLength": 1}),
    }
    conversion = within(lambda: convert_tool(raw, target))
    assert text in json.dumps(conversion.payload)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name",
    [
        "\x00",
        "😀",
        "\u202eevil",
        "\ud800",
        "x" * 10_000,
        " ",
        "a\nb",
        "../../etc",
        "a:b:c",
        "9",
        "-",
        ".",
        "☃" * 300,
    ],
    ids=[
        "nul",
        "emoji",
        "right to left",
        "surrogate",
        "long",
        "space",
        "line",
        "path",
        "id",
        "digit",
        "dash",
        "dot",
        "snow",
    ],
)
def test_hostile_names_of_tools_and_properties_are_carried(target: str, name: str) -> None:
    def work() -> None:
        raw = {"name": name, "inputSchema": obj(**{name: {"type": "string"}}) | {"required": [name]}}
        conversion = convert_tool(raw, target)
        assert conversion.tool_id == name
        assert faults(conversion, target) == ()
        assert conversion.decode_call(conversion.encode_call({name: "x"}, CALL_ID)).args == {name: "x"}
        json.dumps(conversion.payload)

    within(work)


LOOPS: dict[str, dict[str, Any]] = {
    "to itself": {"a": {"$ref": "#/$defs/a"}},
    "to one another": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    "through allOf": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}},
    "through two allOf": {
        "a": {"allOf": [{"$ref": "#/$defs/b"}, obj(x={})]},
        "b": {"allOf": [{"$ref": "#/$defs/a"}]},
    },
    "through anyOf": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}},
    "through oneOf and back": {
        "a": {"oneOf": [{"$ref": "#/$defs/b"}]},
        "b": {"anyOf": [{"$ref": "#/$defs/a"}]},
    },
    "beside other keywords": {"a": {"$ref": "#/$defs/a", "type": "object", "minProperties": 1}},
    "through not": {"a": {"not": {"$ref": "#/$defs/a"}}},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", LOOPS)
def test_references_that_go_nowhere_but_round_end(target: str, loop: str) -> None:
    schema = obj(a={"$ref": "#/$defs/a"}) | {"$defs": LOOPS[loop]}
    conversion = within(lambda: convert(schema, target))
    if conversion is not None:
        for value in ("s", {"x": 1}, None, [{}]):
            within(lambda value=value: conversion.decode_call(raw_call(target, {"a": value})))
            within(lambda value=value: conversion.encode_args({"a": value}))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "reference",
    [
        "#/properties",
        "#/required/0",
        "#/nowhere",
        "https://x.test/s.json",
        "",
        "#",
        "#/",
        "#/$defs/a/enum/0",
        "#a",
        "other",
        "#/$defs/%61",
        "#/$defs/a~2",
        "#/properties/x/$ref",
        "#/" + "a/" * 5000,
        "#/$defs/" + "9" * 5000,
        "#/required/" + "9" * 5000,
    ],
)
def test_a_reference_to_what_is_no_schema_is_told_or_refused(target: str, reference: str) -> None:
    schema = {**obj(x={"$ref": reference}), "required": ["x"], "$defs": {"a": {"enum": ["b"]}}}
    conversion = within(lambda: convert(schema, target))
    if conversion is not None:
        json.dumps(conversion.payload)
        within(lambda: conversion.decode_call(raw_call(target, {"x": "b"})))


@pytest.mark.parametrize(
    "word", ["$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id", "$schema", "$defs", "type", "enum"]
)
@pytest.mark.parametrize(
    "value", [None, 5, [], {}, "", True], ids=["null", "number", "list", "object", "text", "true"]
)
@pytest.mark.parametrize("target", TARGETS)
def test_a_keyword_that_holds_what_it_must_not_never_crashes(target: str, word: str, value: Any) -> None:
    for schema in (
        obj(a={word: value}),
        obj(a={"type": "object", "properties": {}, word: value}),
        obj() | {word: value},
    ):
        within(lambda schema=schema: convert(schema, target))


@pytest.mark.parametrize("target", TARGETS)
def test_an_enum_of_a_hundred_thousand_values_is_converted(target: str) -> None:
    conversion = within(
        lambda: convert(obj(a={"enum": [f"value {index}" for index in range(100_000)]}), target)
    )
    assert conversion is not None
    within(lambda: conversion.decode_call(conversion.encode_call({"a": "value 99999"}, CALL_ID)))


def raw_call(target: str, args: Any, name: str = "t") -> Any:
    """Return a call in a target's format, with arguments of any kind."""
    return {
        "mcp": {"name": name, "arguments": args},
        "openai": {
            "id": "1",
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        },
        "anthropic": {"type": "tool_use", "id": "1", "name": name, "input": args},
        "gemini": {"functionCall": {"name": name, "args": args}},
        "a2a": {
            "messageId": "1",
            "role": "ROLE_USER",
            "parts": [{"data": args}],
            "metadata": {"skillId": name},
        },
    }[TARGETS[target][0]]


@pytest.mark.parametrize("target", STRUCTURED)
def test_an_ambiguous_value_deep_in_a_recursive_union_is_read_in_time(target: str) -> None:
    one = obj(next={"$ref": "#/$defs/n"}, v={"type": "object", "additionalProperties": {"type": "string"}})
    other = obj(next={"$ref": "#/$defs/n"}, v={"type": "object", "additionalProperties": {"type": "integer"}})
    schema = obj(n={"$ref": "#/$defs/n"}) | {"$defs": {"n": {"anyOf": [one, other, {"type": "null"}]}}}
    conversion = within(lambda: convert(schema, target))
    value: Any = None
    for _ in range(40):
        value = {"next": value, "v": [{"key": "k", "value": True}]}
    within(lambda: conversion.decode_call(raw_call(target, {"n": value})))


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "mcp"])
def test_a_recursive_value_deep_in_a_recursive_schema_never_overflows(target: str) -> None:
    schema = obj(n={"$ref": "#/$defs/n"}) | {"$defs": {"n": obj(next={"$ref": "#/$defs/n"})}}
    conversion = convert(schema, target)
    value: Any = {}
    for _ in range(5_000):
        value = {"next": value}
    call = raw_call(target, {})
    holder = call if "input" in call else call.get("functionCall") or call.get("function") or call["parts"][0]
    key = next(key for key in ("input", "args", "arguments", "data") if key in holder)
    holder[key] = {"n": value}
    within(lambda: conversion.decode_call(call))
    within(lambda: conversion.encode_args({"n": value}))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100000,
        '{"a":' * 100000,
        "nope",
        "NaN",
        '{"a": NaN}',
        '{"a": Infinity}',
        "[1]",
        '"s"',
        "null",
        "\x00",
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\\ud800"}',
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.parametrize("target", ["openai", "openai-strict"])
def test_json_text_that_is_no_object_is_refused_with_a_sentence(target: str, text: str) -> None:
    conversion = convert(obj(a={}), target)
    if (
        text.startswith('{"a": ')
        and text.endswith(("}",))
        and "NaN" not in text
        and "Infinity" not in text
        and "1e999" not in text
    ):
        within(lambda: conversion.decode_call(raw_call(target, text)))
    else:
        with at_most(SECONDS), pytest.raises(ConversionError, match=r"arguments|not a JSON number"):
            conversion.decode_call(raw_call(target, text))


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, "text", "NaN", "[NaN]", "", "\x00", "'a'"], ids=lambda text: repr(text[:12])
)
@pytest.mark.parametrize("target", STRUCTURED)
def test_json_text_inside_of_arguments_that_cannot_be_read_is_refused_with_its_place(
    target: str, text: str
) -> None:
    conversion = convert(obj(a={}) | {"required": ["a"]}, target)
    with pytest.raises(ConversionError, match="/a: must be JSON text"):
        conversion.decode_call(raw_call(target, {"a": text}))


@pytest.mark.parametrize("target", STRUCTURED)
def test_a_key_that_a_list_of_pairs_gives_twice_is_refused(target: str) -> None:
    conversion = convert(obj(a={"type": "object", "additionalProperties": {"type": "string"}}), target)
    pairs = [{"key": "k", "value": "1"}, {"key": "k", "value": "2"}]
    with pytest.raises(ConversionError, match="/a/1: the key 'k' is given twice"):
        conversion.decode_call(raw_call(target, {"a": pairs}))


@pytest.mark.parametrize(
    "pairs", [[1], [{}], [{"key": 1, "value": "x"}], [{"key": "k"}], [{"key": "k", "value": "x", "more": 1}]]
)
@pytest.mark.parametrize("target", STRUCTURED)
def test_a_pair_that_is_none_is_refused(target: str, pairs: Any) -> None:
    conversion = convert(obj(a={"type": "object", "additionalProperties": {"type": "string"}}), target)
    with pytest.raises(ConversionError, match="/a/0: must be an object with just"):
        conversion.decode_call(raw_call(target, {"a": pairs}))


@pytest.mark.parametrize("args", [[1], "text", 5, True, None], ids=["list", "text", "number", "true", "null"])
@pytest.mark.parametrize("target", TARGETS)
def test_arguments_that_are_no_object_are_refused_or_empty(target: str, args: Any) -> None:
    conversion = convert(obj(a={"type": "string"}), target)
    try:
        found = conversion.decode_call(raw_call(target, args)).args
    except ConversionError as error:
        found, args = {}, None if "object" in str(error) else args
    assert args is None
    assert found == {}


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_of_another_tool_is_refused(target: str) -> None:
    with pytest.raises(ConversionError, match="the call is for 'other'; put the tools into a Bundle"):
        convert(obj(), target).decode_call(raw_call(target, {}, "other"))


@pytest.mark.parametrize("payload", BAD_CALLS.values(), ids=BAD_CALLS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_payload_that_is_no_call_is_refused(target: str, payload: Any) -> None:
    for options in ({}, {"api": "responses"}) if target == "openai" else ({},):
        conversion = convert(obj(a={"type": "string"}), target, **options)
        with pytest.raises(ConversionError):
            conversion.decode_call(payload)


@pytest.mark.parametrize("known", [5, ["x"], {"a": 1}, True], ids=["number", "list", "object", "true"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_id_of_a_call_is_text_or_nothing(target: str, known: Any) -> None:
    call = raw_call(target, {})
    for holder in (call, call.get("functionCall", {})):
        for key in ("id", "call_id", "messageId"):
            if key in holder or key == "id":
                holder[key] = known
    try:
        found = convert(obj(), target).decode_call(call).call_id
    except ConversionError:
        return
    assert found is None or isinstance(found, str)


def test_many_references_to_many_unions_take_time_in_proportion() -> None:
    members = [obj(kind={"const": f"k{index}"}, v={}) | {"required": ["kind"]} for index in range(300)]
    schema = obj(**{f"p{index}": {"anyOf": members} for index in range(5)})
    with at_most(SECONDS):
        conversion = REGISTRY.convert(
            {"name": "t", "inputSchema": schema}, source="mcp", target="openai", strict=True
        )
    assert schema_of(conversion) is not None

"""No chain that could work is refused."""

from typing import Any

import pytest
from execution.chains.bench import shelf
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import InvalidChainError, InvalidSchemaError, ValidationError
from toolcrib.execution.chains import check_chain
from toolcrib.model import DefaultValidator, Tool

NAMES = st.sampled_from(["a", "b", "c", "0"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
VALIDATOR = DefaultValidator()


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of a few keywords each, so that many combine."""
    branches = st.lists(inner, min_size=1, max_size=2)
    members = st.dictionaries(NAMES, inner, max_size=2)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "properties": members,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.just(False) | inner,
        "patternProperties": st.dictionaries(st.just("^[ab]"), inner, max_size=1),
        "items": inner,
        "prefixItems": branches,
        "maxItems": st.integers(0, 2),
        "minimum": st.just(1),
        "allOf": branches,
        "anyOf": branches,
        "oneOf": branches,
        "not": inner,
        "if": inner,
        "then": inner,
        "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y", "#", "#/properties/a"]),
        "minProperties": st.just(1),
        "dependentRequired": st.just({"a": ["b"]}),
    }
    return st.lists(st.sampled_from(sorted(choices)), max_size=3, unique=True).flatmap(
        lambda words: st.fixed_dictionaries({word: choices[word] for word in words})
    )


SUBSCHEMAS = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=6)
DIALECTS = st.sampled_from([{}, {}, {"$schema": "http://json-schema.org/draft-07/schema#"}])


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema = draw(keywords(SUBSCHEMAS))
    return {**draw(DIALECTS), **schema, "$defs": {"x": draw(SUBSCHEMAS), "y": draw(SUBSCHEMAS)}}


def fits(schema: Any, value: Any) -> bool:
    try:
        VALIDATOR.validate(schema, value)
    except ValidationError:
        return False
    return True


def pick(draw: st.DrawFn, value: Any) -> tuple[str, Any]:
    """Return a place in a value, as a pointer, and what is there."""
    path = ""
    while isinstance(value, dict | list) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        path, value = f"{path}/{key}", value[key]
    return path, value


@st.composite
def fillings(draw: st.DrawFn, value: Any) -> tuple[Any, Any]:
    """Return arguments with references into a value, and what they come to."""
    kind = draw(st.sampled_from(["reference", "plain", "object", "array"]))
    if kind == "reference":
        path, found = pick(draw, value)
        return {"$ref": f"previous{path}"}, found
    if kind == "plain":
        plain = draw(VALUES)
        return {"$literal": plain}, plain
    if kind == "array":
        pairs = draw(st.lists(fillings(value), max_size=2))
        return [template for template, _ in pairs], [filled for _, filled in pairs]
    members = draw(st.dictionaries(NAMES, fillings(value), max_size=3))
    return {name: pair[0] for name, pair in members.items()}, {
        name: pair[1] for name, pair in members.items()
    }


def works(output: Any, given_value: Any, taken: Any, args: Any) -> bool:
    try:
        return fits(output, given_value) and fits(taken, args)
    except InvalidSchemaError:
        return False


def refused(steps: list[Any], output: Any, taken: Any) -> str:
    make = Tool(name="make", input_schema={"type": "object"}, output_schema=output)
    try:
        check_chain(steps, shelf(make, Tool(name="use", input_schema=taken)), VALIDATOR)
    except InvalidChainError as error:
        return str(error)
    return ""


LAW = law(20)


@LAW
@given(schemas(), schemas(), VALUES, st.data())
def test_a_chain_that_works_for_some_result_is_never_refused(
    output: Any, taken: Any, value: Any, data: st.DataObject
) -> None:
    members = data.draw(st.dictionaries(NAMES, fillings(value), max_size=3))
    template = {name: pair[0] for name, pair in members.items()}
    args = {name: pair[1] for name, pair in members.items()}
    assume(works(output, value, taken, args))
    assert refused([{"toolId": "make"}, {"toolId": "use", "args": template}], output, taken) == ""


SIMPLE: list[Any] = [
    *({"type": kind} for kind in ("null", "boolean", "integer", "number", "string", "array", "object")),
    {"type": ["integer", "null"]},
    {"enum": ["a", 1]},
    {"const": 1.0},
    {"type": "string", "minLength": 1},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "properties": {"b": {"type": "number"}}, "additionalProperties": False},
    {"type": "array", "items": {"type": "number"}, "maxItems": 1},
    {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]},
    {"not": {"type": "string"}},
]
SAMPLES: list[Any] = [
    None, True, 0, 1, 1.0, 2.5, "", "a", "b", [], [1], ["a"], [2.5, 1],
    {}, {"a": 1}, {"a": 2.5}, {"b": 1}, {"a": 1, "b": 2.5}, {"b": "a"},
]  # fmt: skip
PLACES: dict[str, tuple[Any, Any]] = {
    "the value itself": (lambda schema: schema, lambda value: value),
    "one of several": (lambda schema: {"oneOf": [{"const": "never"}, schema]}, lambda value: value),
    "all of several": (
        lambda schema: {"allOf": [{}, {"$ref": "#/$defs/s"}], "$defs": {"s": schema}},
        lambda value: value,
    ),
    "a member": (
        lambda schema: {
            "type": "object",
            "properties": {"m": schema},
            "required": ["m"],
            "additionalProperties": False,
        },
        lambda value: {"m": value},
    ),
    "items": (lambda schema: {"type": "array", "items": schema}, lambda value: [value]),
}


@pytest.mark.parametrize(
    "place",
    ["the value itself", *(pytest.param(place, marks=pytest.mark.proof) for place in [*PLACES][1:])],
)
def test_result_admitted_by_two_simple_schemas_is_never_refused(place: str) -> None:
    put, put_value = PLACES[place]
    for output in SIMPLE:
        for member in SIMPLE:
            taken = {"type": "object", "properties": {"x": put(member)}, "required": ["x"]}
            taken["$defs"] = taken["properties"]["x"].pop("$defs", {})
            steps = [{"toolId": "make"}, {"toolId": "use", "args": {"x": {"$ref": "previous"}}}]
            values = [put_value(value) for value in SAMPLES]
            if any(works(put(output), value, taken, {"x": value}) for value in values):
                assert refused(steps, put(output), taken) == ""
            elif place == "the value itself" and "not" not in {*output, *member}:
                assert refused(steps, output, taken), (output, member)


@pytest.mark.parametrize("reference", ["previous/0", "item"])
def test_item_admitted_by_two_simple_schemas_is_never_refused(reference: str) -> None:
    for output in SIMPLE:
        for member in SIMPLE:
            listed = {"type": "array", "items": output}
            taken = {"type": "object", "properties": {"x": member}}
            step = {"toolId": "use", "args": {"x": {"$ref": reference}}}
            if reference == "item":
                step["forEach"] = {"$ref": "previous"}
            if any(works(listed, [value], taken, {"x": value}) for value in SAMPLES):
                assert refused([{"toolId": "make"}, step], listed, taken) == ""

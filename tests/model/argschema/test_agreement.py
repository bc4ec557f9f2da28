"""The JSON Schema translation accepts what `validate_args` accepts, and nothing else.

JSON itself leaves one thing open, and it is left out here: whether a float beyond 2^53 is the integer it
holds or the shorter number it prints as. So whole floats are generated only up to 2^53.
"""

from typing import Any

import jsonschema_rs
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import ValidationError
from toolcrib.model.argschema import parse_arg_schema, validate_args

EXACT = 2**53
NAMES = ("a", "b", "c/~d")
TYPES = ("string", "integer", "float", "number", "boolean", "enum", "array", "object", "strng")

integers = st.integers(-3, 6) | st.integers(-EXACT, EXACT) | st.integers(min_value=10**15, max_value=10**25)
floats = st.floats(-10, 10, allow_nan=False).map(lambda value: value + 0.0) | st.integers(-3, 6).map(float)
texts = st.sampled_from(
    ["", "1", "1.0", "0.5", "true", "null", "[]", "[1]", '{"a":1}', "a", "é😀"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
atoms = st.none() | st.booleans() | integers | floats | texts
values = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2), max_leaves=4
)


def ordered(low: str, high: str, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    both = st.tuples(numbers, numbers).map(sorted).map(lambda pair: {low: pair[0], high: pair[1]})
    return st.just({}) | both | numbers.map(lambda number: {low: number}) | numbers.map(lambda n: {high: n})


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def undecided(field: dict[str, Any]) -> dict[str, Any]:
    """Leave out a default, which would have to fit."""
    return {key: value for key, value in field.items() if key != "default"}


bounds = merged(
    ordered("minLength", "maxLength", st.integers(0, 4)),
    ordered("minimum", "maximum", integers | floats),
    optional(enum=st.lists(values, min_size=1, max_size=4), type=st.sampled_from(TYPES)),
)
properties = merged(
    bounds,
    optional(required=st.booleans(), isArray=st.booleans(), items=bounds, description=texts, default=values),
)
EXTENDED = merged(
    properties,
    ordered("minItems", "maxItems", st.integers(0, 3)),
    optional(
        pattern=st.sampled_from(["a", "^[0-9]+$", "^.?$"]),
        properties=st.dictionaries(st.sampled_from(NAMES), properties.map(undecided), max_size=2),
    ),
).map(undecided)


def usable(field: dict[str, Any]) -> dict[str, Any]:
    """Give a field of type enum the enum it needs."""
    kinds = {field.get("type"), field.get("items", {}).get("type")}
    lacking = "enum" in kinds and "enum" not in field
    inner = {name: usable(member) for name, member in field.get("properties", {}).items()}
    return field | ({"properties": inner} if inner else {}) | ({"enum": ["a", 1, None]} if lacking else {})


def schemas(field: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    maps = st.dictionaries(st.sampled_from(NAMES), field.map(usable), max_size=3)
    required = st.lists(st.sampled_from((*NAMES, "ghost")), max_size=2)
    nested = st.builds(lambda props, names: {"properties": props, "required": names}, maps, required)
    return maps | nested


def accepts(schema: Any, args: Any) -> bool:
    try:
        validate_args(schema, args)
    except ValidationError:
        return False
    return True


def agree(raw: dict[str, Any], args: dict[str, Any], **options: Any) -> None:
    schema = parse_arg_schema(raw, **options)
    compiled = schema.to_json_schema()
    jsonschema_rs.meta.validate(compiled)
    validator = jsonschema_rs.Draft202012Validator(compiled, offline=True, validate_formats=False)
    assert accepts(schema, args) is validator.is_valid(args), compiled


arguments = st.dictionaries(
    st.sampled_from((*NAMES, "ghost")), values | st.lists(atoms, max_size=3), max_size=3
)


@law(40)
@given(schemas(properties), arguments, st.booleans())
@example({"a": {"type": "integer", "enum": ["1"]}}, {"a": 1.0}, False)
@example({"a": {"type": "enum", "enum": [{"k": 1}]}}, {"a": '{"k":1}'}, False)
@example({"a": {"type": "enum", "enum": ["-0"]}}, {"a": 0}, False)
@example({"a": {"type": "integer", "maximum": 10**25}}, {"a": 10**25 + 1}, True)
def test_the_json_schema_agrees(raw: dict[str, Any], args: dict[str, Any], strict: bool) -> None:
    agree(raw, args, strict=strict and "strng" not in str(raw))


@law(40)
@given(properties.map(usable), values | st.lists(values, max_size=3), st.booleans())
def test_the_json_schema_agrees_on_one_argument(field: dict[str, Any], value: Any, strict: bool) -> None:
    agree({"a": field}, {"a": value}, strict=strict and "strng" not in str(field))


@law(40)
@given(st.lists(values, min_size=1, max_size=3), st.sampled_from((None, *TYPES[:-1])), st.data())
def test_the_json_schema_agrees_on_enums(choices: list[Any], kind: str | None, data: st.DataObject) -> None:
    related = st.sampled_from([form for choice in choices for form in (choice, str(choice), [choice])])
    field = {"enum": choices} | ({"type": kind} if kind else {})
    agree({"a": field}, {"a": data.draw(related | values)})


@law(40)
@given(schemas(EXTENDED), arguments, st.booleans())
def test_the_json_schema_agrees_on_the_extension(
    raw: dict[str, Any], args: dict[str, Any], strict: bool
) -> None:
    agree(raw, args, strict=strict and "strng" not in str(raw), extended=True)

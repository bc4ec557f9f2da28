"""Schemas built by hand: plain dicts that the meta-schema accepts."""

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model import DefaultValidator, Tool
from toolcrib.model import schemas as s

Schema = dict[str, Any]
TEXT = st.text(max_size=8)
COUNT = st.integers(0, 100)
REAL = st.integers(-1000, 1000) | st.floats(-1e6, 1e6)
COMMON = {
    "title": TEXT,
    "description": TEXT,
    "default": st.none() | st.booleans() | st.integers() | TEXT,
    "examples": st.lists(TEXT, max_size=3),
    "deprecated": st.booleans(),
    "read_only": st.booleans(),
    "write_only": st.booleans(),
    "nullable": st.booleans(),
}
ENUM = st.lists(st.none() | st.integers() | TEXT, min_size=1, max_size=4, unique_by=repr)


def leaves() -> st.SearchStrategy[Schema]:
    bounds = dict.fromkeys(("minimum", "maximum", "exclusive_minimum", "exclusive_maximum"), REAL)
    return st.one_of(
        _calls(s.string, {"min_length": COUNT, "max_length": COUNT, "enum": ENUM, "format": TEXT}),
        _calls(s.number, bounds | {"multiple_of": st.integers(1, 9)}),
        _calls(s.integer, bounds),
        _calls(s.boolean, {"enum": ENUM}),
        st.builds(lambda values, kw: s.enum(*values, **kw), ENUM, _options({})),
        st.just(s.no_parameters()),
    )


def nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(TEXT, inner, max_size=3)
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda kw, items: s.array(items, **kw), _options({"min_items": COUNT}), inner),
        st.builds(
            lambda kw, found: s.object_(found, required=list(found)[:1], **kw), _options({}), properties
        ),
        st.builds(lambda kw, found: s.one_of(*found, **kw), _options({}), several),
        st.builds(lambda kw, found: s.any_of(found, **kw), _options({}), several),
    )


def _options(own: Schema) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=COMMON | own)


def _calls(builder: Callable[..., Schema], own: Schema) -> st.SearchStrategy[Schema]:
    return _options(own).map(lambda keywords: builder(**keywords))


@given(st.recursive(leaves(), nested, max_leaves=6))
def test_whatever_is_built_is_a_schema_of_2020_12(schema: Schema) -> None:
    assert type(schema) is dict
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (s.string(enum=["a", "b"]), ["a"], ["c", 1, None]),
        (s.string(min_length=1, nullable=True), ["a", None], ["", 1]),
        (s.string(enum=["a"], nullable=True), ["a", None], ["b"]),
        (s.number(minimum=0, exclusive_maximum=1), [0, 0.5], [1, -1, "0"]),
        (s.integer(multiple_of=5), [10, 5.0], [3, 2.5]),
        (s.boolean(), [True], [1, "true"]),
        (s.array(s.integer(), min_items=1, unique_items=True), [[1, 2]], [[], [1, 1], ["a"]]),
        (s.array(), [[], [1, "a"]], [{}]),
        (s.enum("open", 1, nullable=True), ["open", 1, None], ["shut"]),
        (s.enum(["open", "shut"]), ["open"], [["open", "shut"]]),
        (s.one_of(s.integer(), s.number()), [0.5], [1, "a"]),
        (s.any_of([s.integer(), s.string()]), [1, "a"], [None]),
        (s.any_of(s.integer(), nullable=True), [1, None], ["a"]),
        (
            s.object_({"q": s.string(), "n": s.integer()}, required=["q"]),
            [{"q": "x"}, {"q": "x", "o": 1}],
            [{}],
        ),
        (s.object_({"q": s.string()}, additional_properties=False), [{}], [{"o": 1}]),
        (s.object_(additional_properties=s.integer()), [{"a": 1}], [{"a": "b"}]),
        (s.no_parameters(), [{}], [{"a": 1}, []]),
    ],
)
def test_a_built_schema_accepts_and_refuses_what_it_says(
    schema: Schema, good: list[Any], bad: list[Any]
) -> None:
    validator = DefaultValidator()
    for value in good:
        validator.validate(schema, value)
    for value in bad:
        with pytest.raises(ValidationError):
            validator.validate(schema, value)


def test_a_built_schema_shares_nothing_with_its_parts() -> None:
    inner = s.string()
    outer = s.object_({"q": inner})
    outer["properties"]["q"]["title"] = "Question"
    assert inner == {"type": "string"}


def test_a_tool_takes_a_built_schema() -> None:
    tool = Tool(name="search", input_schema=s.object_({"q": s.string()}, required=["q"]))
    DefaultValidator().validate_input(tool, {"q": "x"})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: s.string(min_lenght=1),  # type: ignore[call-arg]
            "/min_lenght: is not a keyword of this builder; did you mean 'min_length'?",
        ),
        (lambda: s.string(min_length=-1), "/minLength"),
        (lambda: s.string(pattern=7), "/pattern"),  # type: ignore[arg-type]
        (
            lambda: s.object_({"title": s.string()}, required=["titel"]),
            "'titel' is not a property; did you mean",
        ),
        (lambda: s.object_(["title"]), "/properties: must map names to schemas, not be list"),  # type: ignore[arg-type]
        (lambda: s.object_(required=None), "/required: must be a list of names"),  # type: ignore[arg-type]
        (lambda: s.object_({}, required=[{}]), "/required: must be a list of names"),  # type: ignore[list-item]
        (lambda: s.array("string"), "/items"),  # type: ignore[arg-type]
        (s.one_of, "/oneOf"),
        (lambda: s.string(default=object()), "/default"),
        (lambda: s.integer(const=1, nullable=True), "use enum(value, None)"),
    ],
)
def test_a_mistake_is_named_when_the_schema_is_built(build: Callable[[], Schema], message: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        build()
    assert message in str(caught.value)

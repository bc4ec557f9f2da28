"""The texts of refusals, which are part of the contract."""

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError, Problem, ValidationError
from toolcrib.model.argschema import apply_defaults, parse_arg_schema, validate_args

LIMITS = {"type": "integer", "minimum": 1, "maximum": 100.0}


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("tags", {"type": "array"}, "a", "argument 'tags' must be an array"),
        ("tags", {"type": "string", "isArray": True}, {}, "argument 'tags' must be an array"),
        ("q", {"type": "string", "minLength": 3}, "ab", "argument 'q' string length must be >= 3"),
        ("q", {"type": "string", "maxLength": 3}, "abcd", "argument 'q' string length must be <= 3"),
        ("limit", LIMITS, 500, "argument 'limit' value must be <= 100"),
        ("limit", LIMITS, 0, "argument 'limit' value must be >= 1"),
        ("limit", {"maximum": 0.5}, 0.6, "argument 'limit' value must be <= 0.5"),
        ("mode", {"type": "enum", "enum": ["a"]}, "b", "argument 'mode' must be one of the enum values"),
        ("limit", LIMITS, "5", "argument 'limit' must be an integer"),
        ("q", {"type": "string"}, 5, "argument 'q' must be a string"),
        ("x", {"type": "float"}, "5", "argument 'x' must be a number"),
        ("x", {"type": "number"}, None, "argument 'x' must be a number"),
        ("x", {"type": "boolean"}, 1, "argument 'x' must be a boolean"),
        ("x", {"type": "object"}, [], "argument 'x' must be an object"),
        ("tags", {"type": "string", "isArray": True}, ["a", 1], "argument 'tags[1]' must be a string"),
        ("tags", {"type": "array", "maxLength": 1}, ["ab"], "argument 'tags[0]' string length must be <= 1"),
    ],
)
def test_a_refusal_names_the_argument_and_the_rule(
    name: str, field: dict[str, Any], value: Any, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_args({name: field}, {name: value})
    assert str(caught.value) == message
    assert caught.value.problems[0].message == message


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (float("nan"), "/x", "argument 'x' is nan, which is not a JSON number"),
        ([{"a": float("inf")}], "/x/0/a", "argument 'x[0].a' is inf, which is not a JSON number"),
        ("\ud800", "/x", "argument 'x' holds a lone surrogate, which no JSON text can carry"),
        ({"a/b": b""}, "/x/a~1b", "argument 'x.a/b' is a Python bytes, which is not plain JSON"),
        (
            {"a": (1,)},
            "/x/a",
            "argument 'x.a' is a Python tuple, which is not plain JSON: convert it with list()",
        ),
        (
            {"a": {1: 2}},
            "/x/a",
            "argument 'x.a' has a key that is a Python int, and JSON keys are plain strings",
        ),
    ],
    ids=["nan", "infinity", "surrogate", "bytes", "tuple", "key"],
)
@pytest.mark.parametrize("check", [validate_args, apply_defaults])
def test_an_argument_that_is_not_json_is_named_and_is_the_only_problem(
    value: Any, path: str, message: str, check: Any
) -> None:
    with pytest.raises(ValidationError) as caught:
        check({"x": {"type": "string"}, "q": {"required": True}}, {"x": value})
    assert str(caught.value) == message
    assert caught.value.problems == (Problem(path, "json", message),)


def test_arguments_that_are_not_json_as_a_whole_say_so() -> None:
    with pytest.raises(
        ValidationError, match=r"^the object of arguments has a key that is a Python int, and JSON keys are"
    ):
        validate_args({}, {1: 2})
    with pytest.raises(ValidationError, match=r"^the object of arguments holds more than 500,000 values"):
        validate_args({}, {"x": [0] * 500_000})


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(ValidationError, match=r"^missing required argument 'q'$") as caught:
        validate_args({"q": {"required": True}}, {})
    assert (caught.value.problems[0].path, caught.value.problems[0].keyword) == ("/q", "required")


def test_an_unknown_argument_is_named_with_the_nearest_known_one() -> None:
    schema = {"query": {"type": "string"}, "limit": {"type": "integer"}}
    with pytest.raises(ValidationError, match=r"^unknown argument 'qurey'; did you mean 'query'\?$"):
        validate_args(schema, {"qurey": "x"}, strict=True)


def test_a_path_is_an_escaped_json_pointer() -> None:
    with pytest.raises(ValidationError) as caught:
        validate_args({"a/b~c": {"type": "string", "isArray": True}}, {"a/b~c": [1]})
    assert caught.value.problems[0].path == "/a~1b~0c/0"


def test_at_most_32_problems_are_reported() -> None:
    with pytest.raises(ValidationError) as caught:
        validate_args({"n": {"type": "integer", "isArray": True}}, {"n": ["x"] * 100})
    assert len(caught.value.problems) == 32


def test_every_problem_of_a_schema_is_listed_with_its_place() -> None:
    schema = {"a": {"minLength": -1}, "b": "string", "c": {"type": "enum"}, "d": {"isArray": "yes"}}
    with pytest.raises(InvalidSchemaError) as caught:
        parse_arg_schema(schema)
    assert [problem.path for problem in caught.value.problems] == [
        "/a/minLength",
        "/b",
        "/c/enum",
        "/d/isArray",
    ]
    assert "such as {'type': 'string'}" in str(caught.value)


def test_a_schema_with_very_many_problems_says_how_many_more_there_are() -> None:
    with pytest.raises(InvalidSchemaError, match="68 more") as caught:
        parse_arg_schema({f"a{number}": None for number in range(100)})
    assert len(caught.value.problems) == 32


@pytest.mark.parametrize(
    "name", ["n" * 10_000, "\U000e0001" * 5_000, "\n\x1b[31m" * 1_000], ids=["long", "tags", "control"]
)
def test_a_message_is_short_and_prints_whatever_the_name(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_args({name: {"type": "string"}, "q": {"required": True}}, {name: 1})
    for problem in caught.value.problems:
        assert len(problem.message) <= 500
        assert problem.message.isprintable()
        assert str(problem).encode()


def test_a_huge_bound_does_not_fill_the_message() -> None:
    for bound in (10**300, 10**4000):
        with pytest.raises(ValidationError) as caught:
            validate_args({"n": {"maximum": bound}}, {"n": bound + 1})
        assert len(str(caught.value)) < 150

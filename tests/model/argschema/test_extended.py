"""Keywords beyond the basic ones, enabled by `extended`."""

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.argschema import apply_defaults, parse_arg_schema, validate_args

ADDRESS = {
    "address": {
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 2}, "zip": {"type": "string", "default": "0"}},
        "required": ["city"],
    }
}
PEOPLE = {
    "people": {"type": "array", "items": {"type": "object", "properties": {"age": {"type": "integer"}}}}
}


def texts(schema: Any, args: Any, **options: Any) -> list[str]:
    try:
        validate_args(schema, args, extended=True, **options)
    except ValidationError as error:
        return [problem.message for problem in error.problems]
    return []


def test_a_pattern_is_searched_in_strings_and_in_elements() -> None:
    schema = {"q": {"type": "string", "pattern": "^[a-z]+$"}}
    assert texts(schema, {"q": "abc"}) == []
    assert texts(schema, {"q": "a1"}) == ["argument 'q' must match the pattern '^[a-z]+$'"]
    both = {"q": {"type": "array", "pattern": "a", "items": {"pattern": "b"}}}
    assert texts(both, {"q": ["ab", "b", 5]}) == ["argument 'q[1]' must match the pattern 'a'"]


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)b", "a{1000}{1000}{1000}", "a" * 9000, 5])
def test_a_pattern_that_cannot_be_matched_in_bounded_time_is_refused(pattern: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="pattern must be"):
        parse_arg_schema({"q": {"pattern": pattern}}, extended=True)
    assert parse_arg_schema({"q": {"pattern": pattern}}).warnings != ()


def test_a_schema_has_only_so_many_patterns() -> None:
    many = {f"a{number}": {"pattern": f"^a{number}$"} for number in range(4_097)}
    with pytest.raises(InvalidSchemaError, match="too many"):
        parse_arg_schema(many, extended=True)
    parse_arg_schema({name: {"pattern": "^a$"} for name in many}, extended=True)
    large = {f"a{number}": {"pattern": f"^.{{{number},3000}}$"} for number in range(8)}
    parse_arg_schema(large, extended=True)
    with pytest.raises(InvalidSchemaError, match="too large ones"):
        parse_arg_schema({**large, "a8": {"pattern": "^.{8,3000}$"}}, extended=True)


def test_the_number_of_elements_can_be_bounded() -> None:
    schema = {"q": {"type": "array", "minItems": 1, "maxItems": 2}}
    assert texts(schema, {"q": [1]}) == []
    assert texts(schema, {"q": []}) == ["argument 'q' must have >= 1 items"]
    assert texts(schema, {"q": [1, 2, 3]}) == ["argument 'q' must have <= 2 items"]
    with pytest.raises(InvalidSchemaError, match="minItems 2 is greater than maxItems 1"):
        parse_arg_schema({"q": {"minItems": 2, "maxItems": 1}}, extended=True)


def test_a_deprecated_argument_gives_a_warning_and_no_error() -> None:
    schema = parse_arg_schema({"q": {"deprecated": True}, "r": {"deprecated": False}}, extended=True)
    assert schema.warnings == ("argument 'q' is deprecated",)
    validate_args(schema, {"q": 1})


def test_the_members_of_a_nested_object_are_checked() -> None:
    assert texts(ADDRESS, {"address": {"city": "Bern"}}) == []
    assert texts(ADDRESS, {"address": {}}) == ["missing required argument 'address.city'"]
    assert texts(ADDRESS, {"address": {"city": "B"}}) == [
        "argument 'address.city' string length must be >= 2"
    ]
    assert texts(ADDRESS, {"address": {"city": "Bern", "x": 1}}) == []
    assert texts(ADDRESS, {"address": {"city": "Bern", "zp": 1}}, strict=True) == [
        "unknown argument 'address.zp'; did you mean 'zip'?"
    ]


def test_the_objects_of_an_array_are_checked() -> None:
    assert texts(PEOPLE, {"people": [{"age": 1}, {"age": "x"}]}) == [
        "argument 'people[1].age' must be an integer"
    ]


def test_the_members_of_an_object_are_described_in_one_place() -> None:
    schema = {"p": {"type": "array", "properties": {}, "items": {"properties": {}}}}
    with pytest.raises(InvalidSchemaError, match="either to the argument or to its items"):
        parse_arg_schema(schema, extended=True)
    with pytest.raises(InvalidSchemaError, match="/p/properties: properties must be an object"):
        parse_arg_schema({"p": {"properties": []}}, extended=True)


def test_a_schema_parsed_without_the_extension_is_not_used_with_it() -> None:
    schema = parse_arg_schema(ADDRESS)
    with pytest.raises(InvalidSchemaError, match="extended=True"):
        validate_args(schema, {}, extended=True)
    with pytest.raises(InvalidSchemaError, match="extended=True"):
        apply_defaults(schema, {})


def test_defaults_fill_in_what_is_absent_and_leave_the_input_alone() -> None:
    schema = {"tags": {"type": "array", "default": []}, "n": {"default": None}, **ADDRESS}
    args: dict[str, Any] = {"address": {"city": "Bern"}, "other": 1}
    filled = apply_defaults(schema, args)
    assert filled == {"address": {"city": "Bern", "zip": "0"}, "other": 1, "tags": [], "n": None}
    assert args == {"address": {"city": "Bern"}, "other": 1}
    parsed = parse_arg_schema(schema, extended=True)
    apply_defaults(parsed, {})["tags"].append(1)
    assert apply_defaults(parsed, None) == {"tags": [], "n": None}


def test_defaults_reach_the_objects_of_an_array_and_leave_misfits_alone() -> None:
    schema = {"p": {"type": "object", "isArray": True, "properties": {"a": {"default": 1}}}}
    assert apply_defaults(schema, {"p": [{}, {"a": 2}, 3]}) == {"p": [{"a": 1}, {"a": 2}, 3]}
    assert apply_defaults(schema, {"p": "x"}) == {"p": "x"}
    assert apply_defaults(ADDRESS, {"address": 5}) == {"address": 5}


@pytest.mark.parametrize("args", [[], "x", {1: 2}], ids=repr)
def test_defaults_need_arguments_with_names(args: Any) -> None:
    with pytest.raises(ValidationError):
        apply_defaults(ADDRESS, args)


def test_a_default_must_fit_its_own_property() -> None:
    with pytest.raises(
        InvalidSchemaError, match="/n/default: the default does not fit: argument 'n' value must be"
    ):
        parse_arg_schema({"n": {"type": "integer", "minimum": 1, "default": 0}}, extended=True)
    parse_arg_schema({"n": {"type": "integer", "minimum": 1, "default": 0}})


def test_the_extension_is_carried_into_json_schema() -> None:
    fields = {"type": "string", "pattern": "a", "deprecated": True, "default": "a", "description": "An a."}
    schema = parse_arg_schema({"q": fields, **ADDRESS}, extended=True).to_json_schema()
    assert schema["properties"]["q"] == fields
    assert schema["properties"]["address"]["required"] == ["city"]

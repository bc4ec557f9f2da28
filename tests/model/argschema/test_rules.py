"""The rule for each ambiguous case, by its number."""

import json
from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.argschema import SCHEMA_VERSION, parse_arg_schema, validate_args


def problems(schema: Any, args: Any, **options: Any) -> list[str]:
    try:
        validate_args(schema, args, **options)
    except ValidationError as error:
        return [problem.message for problem in error.problems]
    return []


def accepts(field: dict[str, Any], value: Any, **options: Any) -> bool:
    return not problems({"x": field}, {"x": value}, **options)


def refuses_schema(schema: Any, **options: Any) -> str:
    with pytest.raises(InvalidSchemaError) as caught:
        parse_arg_schema(schema, **options)
    return str(caught.value)


def test_rule_01_a_boolean_is_no_number() -> None:
    for kind in ("integer", "float", "number"):
        assert not accepts({"type": kind}, True)


def test_rule_02_a_fraction_is_an_integer_unless_strict() -> None:
    assert accepts({"type": "integer"}, 3.5)
    assert accepts({"type": "integer"}, 3.0, strict=True)
    assert not accepts({"type": "integer"}, 3.5, strict=True)


def test_rule_03_an_integer_is_a_float_and_a_number() -> None:
    assert accepts({"type": "float"}, 3)
    assert accepts({"type": "number"}, 3)


def test_rule_04_a_numeric_string_is_no_integer() -> None:
    assert not accepts({"type": "integer"}, "3")


@pytest.mark.parametrize(
    ("choice", "value", "same"),
    [
        (True, "true", True),
        ("true", True, True),
        ("True", True, False),
        (None, "null", True),
        ("1", 1, True),
        ("1", 1.0, True),
        (1.0, "1", True),
        ("1.0", 1.0, False),
        (0.5, "0.5", True),
        ({"b": [1.0], "a": None}, {"a": None, "b": [1]}, True),
        ('{"a":1}', {"a": 1}, True),
        ('{"a": 1}', {"a": 1}, False),
        ([1], ["1"], False),
        (10**300, 10**300, True),
        (10**300, 10**300 + 1, False),
        ([10**300], [10**300], True),
        (10**300, 10**4000, False),
        ("1", ["x" * 5000], False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rule_05_enum_values_compare_by_a_string_form_of_their_own(
    choice: Any, value: Any, same: bool
) -> None:
    assert accepts({"type": "enum", "enum": [choice]}, value) is same


def test_rule_06_the_type_is_checked_before_the_enum_and_type_enum_has_no_type_check() -> None:
    assert not accepts({"type": "string", "enum": ["1"]}, 1)
    assert accepts({"type": "enum", "enum": ["1"]}, 1)
    assert problems({"x": {"type": "string", "enum": ["1"]}}, {"x": 1}) == ["argument 'x' must be a string"]


@pytest.mark.parametrize("field", [{"type": "enum"}, {"type": "enum", "enum": []}], ids=["without", "empty"])
def test_rule_07_a_type_enum_needs_enum_values(field: dict[str, Any]) -> None:
    assert "/x/enum: " in refuses_schema({"x": field})


def test_rule_08_a_field_is_required_by_itself_even_when_the_list_leaves_it_out() -> None:
    schema = {"properties": {"a": {"required": True}, "b": {}}, "required": ["b"]}
    assert parse_arg_schema(schema).required == ("a", "b")


def test_rule_09_the_list_wins_over_a_field_that_says_it_is_not_required() -> None:
    schema = parse_arg_schema({"properties": {"a": {"required": False}}, "required": ["a"]})
    assert schema.properties["a"].required
    assert len(schema.warnings) == 1


def test_rule_10_a_list_under_a_fields_required_is_ignored_with_a_warning() -> None:
    schema = parse_arg_schema({"a": {"type": "object", "required": ["b"]}})
    assert not schema.properties["a"].required
    assert len(schema.warnings) == 1
    validate_args(schema, {"a": {}})


def test_rule_11_a_required_name_without_a_property_is_still_required() -> None:
    schema = {"properties": {}, "required": ["ghost"]}
    assert problems(schema, {}) == ["missing required argument 'ghost'"]
    assert problems(schema, {"ghost": 1}, strict=True) == []


@pytest.mark.parametrize("kind", ["string", "integer", "float", "number", "boolean", "array", "object"])
def test_rule_12_null_is_present_and_has_no_type(kind: str) -> None:
    assert not accepts({"type": kind}, None)


def test_rule_13_unknown_arguments_pass_unless_strict() -> None:
    assert problems({"q": {}}, {"z": 1}) == []
    assert problems({"q": {}}, {"z": 1}, strict=True) == ["unknown argument 'z'"]


def test_rule_14_a_bare_array_still_has_the_propertys_element_bounds() -> None:
    field = {"type": "array", "minLength": 2, "maximum": 5}
    assert accepts(field, ["ab", 5, None])
    assert not accepts(field, ["a"])
    assert not accepts(field, [6])


def test_rule_15_is_array_with_type_array_is_one_array() -> None:
    assert accepts({"type": "array", "isArray": True}, ["a"])
    assert accepts({"type": "array", "isArray": True, "items": {"type": "integer"}}, [1])
    assert not accepts({"type": "array", "isArray": True, "items": {"type": "integer"}}, [[1]])


def test_rule_16_type_array_wins_over_is_array_false() -> None:
    schema = parse_arg_schema({"a": {"type": "array", "isArray": False}})
    assert schema.properties["a"].is_array
    assert len(schema.warnings) == 1


def test_rule_17_items_of_something_else_than_an_array_are_ignored_with_a_warning() -> None:
    schema = parse_arg_schema({"a": {"type": "string", "items": {"maxLength": 1}}})
    validate_args(schema, {"a": "long"})
    assert len(schema.warnings) == 1


def test_rule_18_bounds_of_the_property_and_of_its_items_both_apply() -> None:
    field = {
        "type": "string",
        "isArray": True,
        "minLength": 2,
        "maxLength": 9,
        "enum": ["aaa", "bbb"],
        "items": {"minLength": 3, "maxLength": 10, "enum": ["bbb", "cc"]},
    }
    assert accepts(field, ["bbb"])
    assert not accepts(field, ["aaa"])
    assert not accepts(field, ["cc"])
    prop = parse_arg_schema({"a": field}).properties["a"]
    assert (prop.min_length, prop.max_length, prop.enum) == (3, 9, ("bbb",))


def test_rule_19_the_enum_of_an_array_is_about_each_element() -> None:
    assert accepts({"type": "string", "isArray": True, "enum": ["a", "b"]}, ["b", "a", "a"])
    assert not accepts({"type": "string", "isArray": True, "enum": ["a", "b"]}, ["c"])


def test_rule_20_the_min_length_of_an_array_is_the_length_of_its_elements() -> None:
    assert accepts({"type": "array", "minLength": 2}, ["ab"])
    assert accepts({"type": "array", "minLength": 2}, [])


def test_rule_21_length_counts_code_points() -> None:
    assert accepts({"type": "string", "maxLength": 2}, "é😀")
    assert not accepts({"type": "string", "minLength": 2}, "😀")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_rule_22_numbers_that_are_not_finite_are_refused_anywhere(value: float) -> None:
    assert not accepts({"type": "number"}, value)
    assert not accepts({}, value)
    assert not accepts({}, [{"deep": [value]}])
    assert not accepts({"type": "object"}, {"a": value})
    assert problems({}, {"unknown": value})
    assert "/x/minimum" in refuses_schema({"x": {"minimum": value}})


def test_rule_23_huge_integers_are_compared_exactly() -> None:
    bound = 2**53
    assert accepts({"type": "integer", "maximum": bound}, bound)
    assert not accepts({"type": "integer", "maximum": bound}, bound + 1)
    assert accepts({"type": "integer", "minimum": 10**400}, 10**400)
    assert not accepts({"type": "integer", "maximum": float(bound)}, bound + 1)


def test_rule_24_bounds_that_cannot_apply_are_ignored() -> None:
    assert accepts({"type": "number", "minLength": 5}, 1)
    assert accepts({"type": "string", "minimum": 5}, "a")
    assert accepts({"type": "boolean", "minimum": 5, "maxLength": 0}, True)


@pytest.mark.parametrize(
    "field",
    [
        {"minimum": 2, "maximum": 1},
        {"minLength": 2, "maxLength": 1},
        {"minLength": -1},
        {"maxLength": 1.5},
        {"maxLength": True},
        {"minimum": "1"},
        {"maximum": None},
        {"type": "array", "items": {"minimum": 2, "maximum": 1}},
    ],
    ids=json.dumps,
)
def test_rule_25_bounds_that_can_never_hold_make_a_bad_schema(field: dict[str, Any]) -> None:
    refuses_schema({"x": field})


def test_rule_26_an_unknown_type_takes_any_value_with_a_warning_and_strict_refuses_it() -> None:
    schema = parse_arg_schema({"x": {"type": "strng"}, "y": {}})
    validate_args(schema, {"x": 1, "y": None})
    assert len(schema.warnings) == 1
    assert "did you mean 'string'?" in refuses_schema({"x": {"type": "strng"}}, strict=True)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("int", "integer"),
        ("str", "string"),
        ("bool", "boolean"),
        ("dict", "object"),
        ("map", "object"),
        ("list", "array"),
        ("double", "float"),
    ],
)
def test_rule_27_an_alias_is_an_unknown_type_with_a_hint(alias: str, name: str) -> None:
    assert accepts({"type": alias}, "anything")
    assert f"did you mean '{name}'?" in refuses_schema({"x": {"type": alias}}, strict=True)


def test_rule_27_an_object_is_any_mapping_unchecked_inside() -> None:
    assert accepts({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": 1})
    assert not accepts({"type": "object"}, [])
    assert parse_arg_schema({"x": {"type": "object"}}, strict=True).warnings == ()


def test_rule_28_an_argument_may_be_named_properties() -> None:
    schema = parse_arg_schema({"properties": {"type": "object", "required": True}})
    assert schema.properties["properties"].required
    schema = parse_arg_schema({"properties": {"description": "of the node"}, "q": {"type": "string"}})
    assert list(schema.properties) == ["properties", "q"]
    schema = parse_arg_schema({"properties": {"properties": {"type": "string"}}, "type": "object"})
    assert list(schema.properties) == ["properties"]


def test_rule_29_an_argument_may_be_named_required_or_type() -> None:
    schema = parse_arg_schema({"type": {"type": "string"}, "required": {"type": "boolean"}})
    assert list(schema.properties) == ["type", "required"]
    schema = parse_arg_schema({"type": {"type": "string"}, "properties": {"description": "a map"}})
    assert list(schema.properties) == ["type", "properties"]


def test_rule_30_a_schema_version_is_a_date_or_an_argument() -> None:
    assert parse_arg_schema({}).version == SCHEMA_VERSION
    assert parse_arg_schema({"schemaVersion": " 2025-01-01 "}).version == "2025-01-01"
    assert parse_arg_schema({"schemaVersion": " 2025-01-01 "}, strict=True).warnings == ()
    assert list(parse_arg_schema({"schemaVersion": {"type": "string"}}).properties) == ["schemaVersion"]
    assert len(parse_arg_schema({"schemaVersion": "2026-01-01"}).warnings) == 1
    assert "later" in refuses_schema({"schemaVersion": "2026-01-01"}, strict=True)
    assert "a date" in refuses_schema({"schemaVersion": 3})


def test_rule_31_an_empty_schema_accepts_any_object() -> None:
    schemas: tuple[dict[str, Any], ...] = ({}, {"properties": {}}, {"type": "object"})
    for schema in schemas:
        validate_args(schema, {"anything": [1]})


def test_rule_32_no_arguments_are_an_empty_object_and_anything_else_is_refused() -> None:
    validate_args({}, None)
    assert problems({"q": {"required": True}}, None) == ["missing required argument 'q'"]
    assert problems({}, [1]) == ["arguments must be an object, not list"]


def test_rule_33_defaults_are_never_applied_and_the_input_stays_as_it_is() -> None:
    schema = {"q": {"type": "string", "default": "x"}, "r": {"required": True, "default": 1}}
    args: dict[str, Any] = {"r": 2}
    validate_args(schema, args)
    assert args == {"r": 2}
    assert schema == {"q": {"type": "string", "default": "x"}, "r": {"required": True, "default": 1}}
    assert problems(schema, {}) == ["missing required argument 'r'"]


def test_rule_34_all_problems_come_in_schema_order_and_the_text_is_the_first() -> None:
    schema = {
        "a": {"required": True},
        "b": {"type": "string", "minLength": 3, "enum": ["abc"]},
        "c": {"maximum": 1},
    }
    with pytest.raises(ValidationError) as caught:
        validate_args(schema, {"c": 2, "b": "x"})
    assert str(caught.value) == "missing required argument 'a'"
    assert [problem.keyword for problem in caught.value.problems] == [
        "required",
        "minLength",
        "enum",
        "maximum",
    ]


def test_rule_35_an_element_is_named_by_its_index() -> None:
    with pytest.raises(ValidationError) as caught:
        validate_args({"tags": {"type": "string", "isArray": True}}, {"tags": ["a", "b", 3]})
    assert str(caught.value) == "argument 'tags[2]' must be a string"
    assert caught.value.problems[0].path == "/tags/2"


class _Text(str):
    __slots__ = ()


class _Map(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("kind", "value"),
    [("array", (1,)), ("array", {1}), ("object", _Map()), ("string", _Text("a")), ("string", b"a")],
    ids=["tuple", "set", "dict subclass", "str subclass", "bytes"],
)
def test_rule_36_only_the_json_types_themselves_count(kind: str, value: Any) -> None:
    assert not accepts({"type": kind}, value)
    assert not accepts({}, value)
    assert not accepts({}, [value])


def test_rule_36_arguments_must_be_a_dict_itself() -> None:
    assert problems({}, _Map()) == ["arguments must be an object, not _Map"]


@pytest.mark.parametrize("field", ["pattern", "format", "anyOf", "oneOf", "allOf", "minItems", "deprecated"])
def test_rule_37_what_is_not_enforced_is_ignored_with_a_warning(field: str) -> None:
    schema = parse_arg_schema({"x": {"type": "string", field: [{"type": "integer"}]}})
    validate_args(schema, {"x": "anything"})
    assert schema.warnings == (f"argument 'x': '{field}' is not enforced",)

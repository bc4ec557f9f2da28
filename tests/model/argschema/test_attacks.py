"""Hostile arguments and schemas, answered within about a second of CPU time."""

import random
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from effort import at_most

from toolcrib.errors import InvalidSchemaError, SchemaTooComplexError, ValidationError
from toolcrib.model.argschema import apply_defaults, parse_arg_schema, validate_args

pytestmark = pytest.mark.attack
SECONDS = 10.0  # one is the aim


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    with at_most(SECONDS):
        yield


class _Colliding:
    """Has the hash of an argument's name, and comparing it fails."""

    def __hash__(self) -> int:
        return hash("q")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def shared(levels: int) -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value] * 10
    return value


class _Unreadable(UserDict[str, Any]):
    """A mapping whose members cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)


def test_a_schema_that_holds_itself_many_times_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema |= {"a": schema, "b": schema}
    with pytest.raises(SchemaTooComplexError, match="send a smaller one"):
        parse_arg_schema(schema)


def test_a_mapping_that_cannot_be_read_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidSchemaError, match=r"a mapping in it cannot be read \(RuntimeError: q\)"):
        parse_arg_schema({"a": _Unreadable(q={"type": "string"})})


FIELDS: list[dict[str, Any]] = [
    {},
    {"type": "array"},
    {"type": "object"},
    {"type": "array", "items": {"type": "array"}},
    {"type": "enum", "enum": ["a", [1], "[[[[]]]]", {"a": "x" * 4000}]},
    {"type": "string", "isArray": True, "enum": ["a"], "minLength": 3},
]


HOSTILE: dict[str, Callable[[], Any]] = {
    "deep": lambda: deep(20_000),
    "looped": looped,
    "shared": lambda: shared(40),
    "long": lambda: [1] * 600_000,
    "huge": lambda: 10**20_000,
    "lone": lambda: "\ud800",
    "keys": lambda: {1: 2},
    "colliding": lambda: {_Colliding(): 1},
    "many": lambda: [{"x": 1.5}] * 10**5,
}


def verdict(schema: Any, args: Any) -> str:
    try:
        validate_args(schema, args)
    except ValidationError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize("field", FIELDS, ids=str)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_arguments_get_a_verdict(field: dict[str, Any], kind: str) -> None:
    assert 0 < len(verdict({"q": field}, {"q": HOSTILE[kind]()})) <= 500


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("deep", "is nested more than 64 levels deep"),
        ("looped", "is nested more than 64 levels deep"),
        ("shared", "holds more than 500,000 values"),
        ("long", "holds more than 500,000 values"),
    ],
)
def test_an_argument_without_measure_is_refused(kind: str, reason: str) -> None:
    with pytest.raises(
        ValidationError, match=f"the object of arguments {reason}; send a smaller one"
    ) as caught:
        validate_args({}, {"q": HOSTILE[kind]()})
    assert caught.value.problems[0].keyword == "size"


@pytest.mark.parametrize("strict", [True, False])
def test_a_name_that_compares_badly_is_refused(strict: bool) -> None:
    schema = {"q": {"type": "string", "required": True}}
    with pytest.raises(ValidationError, match="JSON keys are plain strings"):
        validate_args(schema, {_Colliding(): "x"}, strict=strict)
    with pytest.raises(ValidationError, match="JSON keys are plain strings"):
        apply_defaults(schema, {_Colliding(): "x"})


def test_as_many_good_elements_as_fit_are_accepted() -> None:
    validate_args({"n": {"type": "integer", "isArray": True, "minimum": 0}}, {"n": list(range(499_000))})


@pytest.mark.proof
def test_a_giant_enum_meets_a_giant_array() -> None:
    names = [f"name{number}" for number in range(19_000)]
    schema = parse_arg_schema({"q": {"type": "string", "isArray": True, "enum": names}})
    validate_args(schema, {"q": names * 25})
    assert len(schema.to_json_schema()["properties"]["q"]["items"]["enum"]) == 19_000


@pytest.mark.parametrize("value", [10**300, 1.5, 7, "1", True, ["x"]], ids=lambda value: repr(value)[:5])
def test_an_enum_is_quick_for_many_values(value: Any) -> None:
    validate_args({"q": {"type": "array", "enum": [value]}}, {"q": [value] * 100_000})


def test_the_enums_of_nested_objects_are_quick() -> None:
    schema: dict[str, Any] = {"enum": [{"a": 1}]}
    value: Any = ["x"] * 400_000
    for _ in range(25):
        schema = {"enum": [{"a": 1}], "properties": {"a": schema}}
        value = {"a": value}
    with pytest.raises(ValidationError, match="enum values"):
        validate_args({"q": schema}, {"q": value}, extended=True)


@pytest.mark.proof
def test_many_objects_with_many_possible_members_are_refused_in_time() -> None:
    members: dict[str, Any] = {f"a{number}": {} for number in range(10_000)}
    schema = {"q": {"type": "object", "isArray": True, "properties": members}}
    with pytest.raises(ValidationError, match="too many objects to check"):
        validate_args(schema, {"q": [{}] * 400_000}, extended=True)
    with pytest.raises(ValidationError, match="too many objects to fill in"):
        apply_defaults(schema, {"q": [{}] * 400_000})


@pytest.mark.proof
def test_a_large_default_is_copied_only_so_often() -> None:
    member = {"a": {"default": [0] * 10_000}}
    with pytest.raises(ValidationError, match="too many objects to fill in"):
        apply_defaults({"q": {"isArray": True, "properties": member}}, {"q": [{}] * 400_000})


def test_very_many_unknown_arguments_get_32_problems() -> None:
    names: dict[str, Any] = {f"argument{number}": {} for number in range(9_000)}
    with pytest.raises(ValidationError) as caught:
        validate_args(names, {f"argumnet{number}": 1 for number in range(400_000)}, strict=True)
    assert len(caught.value.problems) == 32


PATTERNS = [
    "(a+)+$",
    "(a|aa)*b$",
    "(x+x+)+y",
    "^(.*a){20}$",
    "[^c]{900}d?$",
    "a[ab]{2000}[cd]",
    "(a[ab]{40}){40}c",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("size", [40, 10_000, 1_000_000])
def test_a_pattern_never_hangs(pattern: str, size: int) -> None:
    schema = parse_arg_schema({"q": {"pattern": pattern}}, extended=True)
    mixed = "".join(random.Random(1).choices("ab", k=size))  # noqa: S311  # any text will do
    for text in ("a" * size, mixed):
        assert any(part in verdict(schema, {"q": text}) for part in ("accepted", "must match", "too long"))


def test_many_ordinary_texts_match_an_ordinary_pattern() -> None:
    pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
    ids = ["01234567-89ab-cdef-0123-456789abcdef"] * 20_000
    schema = parse_arg_schema({"q": {"type": "string", "isArray": True, "pattern": pattern}}, extended=True)
    validate_args(schema, {"q": ids})
    with pytest.raises(ValidationError, match="too long to be matched with the pattern"):
        validate_args(schema, {"q": ids * 20})


@pytest.mark.proof
def test_a_schema_of_very_many_patterns_is_refused_in_time() -> None:
    schema = {f"a{number}": {"pattern": rf"^\p{{L}}{{40}}{number}$"} for number in range(6_000)}
    with pytest.raises(InvalidSchemaError, match="too many"):
        parse_arg_schema(schema, extended=True)


@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.parametrize(
    "make",
    [lambda: {"q": {"default": deep(20_000)}}, lambda: {"q": {"enum": looped()}}, lambda: {"q": shared(40)}],
    ids=["deep", "looped", "shared"],
)
def test_a_schema_without_an_end_is_refused(make: Callable[[], Any], extended: bool) -> None:
    with pytest.raises(SchemaTooComplexError):
        parse_arg_schema(make(), extended=extended)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_a_deeply_nested_object_is_read_or_refused() -> None:
    schema = parse_arg_schema({"q": nested(20)}, extended=True)
    assert schema.to_json_schema()["type"] == "object"
    with pytest.raises(SchemaTooComplexError):
        parse_arg_schema({"q": nested(5000)}, extended=True)


def test_the_defaults_of_nested_objects_are_checked_in_time() -> None:
    schema: dict[str, Any] = {"type": "string", "isArray": True, "default": ["x"] * 10_000}
    for _ in range(25):
        schema = {"type": "object", "properties": {"a": schema}, "default": {}}
    parse_arg_schema({"q": schema}, extended=True)


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "schema",
    [
        {_Colliding(): {}},
        {"q": {1: 2}},
        {_Text("q"): {}},
        {"q": {"type": _Text("string")}},
        {"q": {"minLength": float("nan")}},
        {"q": {"enum": [float("inf")]}},
        {"q": {"enum": [object()]}},
    ],
    ids=["colliding", "keys", "name", "type", "bound", "enum", "object"],
)
def test_a_schema_that_is_not_json_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_arg_schema(schema)


def test_a_schema_with_very_many_arguments_is_read_in_time() -> None:
    schema = parse_arg_schema({f"a{number}": {"type": "strin", "format": "x"} for number in range(6_000)})
    assert len(schema.warnings) == 12_000

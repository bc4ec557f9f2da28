"""Hostile schemas and values: each is answered within a second of CPU time, rightly or with a typed error."""

import resource
import threading
from collections.abc import Callable
from typing import Any

import pytest
from effort import at_most

from toolcrib.errors import (
    ExternalRefError,
    InvalidSchemaError,
    SchemaTooComplexError,
    ToolcribError,
    UnsupportedDialectError,
    ValidationError,
)
from toolcrib.model import DefaultValidator

pytestmark = pytest.mark.attack

MAX_CPU = 4.0
"""Seconds; one is the aim."""

Verdict = bool | type[ToolcribError]


def judge(schema: Any, value: Any) -> tuple[Verdict, ToolcribError | None]:
    """Return the verdict, having checked that it took no more than its time."""
    validator = DefaultValidator()
    error: ToolcribError | None = None
    with at_most(MAX_CPU):
        try:
            validator.validate(schema, value)
            verdict: Verdict = True
        except ValidationError as refusal:
            verdict, error = False, refusal
        except ToolcribError as refusal:
            verdict, error = type(refusal), refusal
    return verdict, error


def diamond(
    reference: Callable[[int], dict[str, Any]], mark: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    """Return 2**40 ways through 40 definitions, each used twice by the one before."""
    definitions = {f"d{i}": {**mark(i), "allOf": [reference(i + 1), reference(i + 1)]} for i in range(40)}
    return {"$defs": {**definitions, "d40": {**mark(40), "type": "string"}}, "allOf": [reference(0)]}


def nested(depth: int, key: str = "a") -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {key: value}
    return value


TREE = {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"a": {"$ref": "#/$defs/tree"}}}}}
BRANCHING = {
    "$ref": "#/$defs/expr",
    "$defs": {
        "expr": {
            "anyOf": [
                {"type": "string"},
                {"properties": {"a": {"$ref": "#/$defs/expr"}}, "required": ["a", "x"], "type": "object"},
                {"properties": {"a": {"$ref": "#/$defs/expr"}}, "required": ["a", "y"], "type": "object"},
            ]
        }
    },
}


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "^(a|a)*$", "^(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x", r"(x+x+)+y"]
)
def test_a_pattern_that_backtracks_elsewhere_is_matched_in_linear_time(pattern: str) -> None:
    assert judge({"pattern": pattern}, "a" * 100_000 + "!")[0] is False
    assert judge({"patternProperties": {pattern: False}}, {"a" * 100_000 + "!": 1})[0] is True


@pytest.mark.parametrize(
    ("pattern", "text", "refusal"),
    [
        ("(?=(a+)+b)a", "a" * 100_000, SchemaTooComplexError),
        ("(?=(a+)+b)a", "a" * 900, None),
        (r"^(a+)+\1$(?!b)", "a" * 40 + "!", None),
        (r"(.*)(.*)(.*)(.*)(.*)\5x", "a" * 900, SchemaTooComplexError),
        ("(?:(?=a*b)a)*c", "a" * 900, SchemaTooComplexError),
        ("(?=(?=a*)*b)", "a" * 900, SchemaTooComplexError),
        ("(?=a)" * 200, "a", SchemaTooComplexError),
        (r"(a)(?(1)b|c)", "ab", InvalidSchemaError),
    ],
)
def test_look_around_and_back_references_are_bounded(
    pattern: str, text: str, refusal: type[ToolcribError] | None
) -> None:
    assert judge({"pattern": pattern}, text)[0] is (refusal or False)
    assert judge({"not": {"pattern": pattern}}, text)[0] is (refusal or True)
    assert judge({"patternProperties": {pattern: False}}, {text: 1})[0] is (refusal or True)


def test_a_pattern_that_gives_up_is_never_taken_for_a_match_or_a_miss() -> None:
    pattern = r"^(([a-z])+.)+[A-Z]([a-z])+$(?!x)"
    for schema in (
        {"pattern": pattern},
        {"not": {"pattern": pattern}},
        {"anyOf": [{"pattern": pattern}, True]},
    ):
        assert judge(schema, "a" * 50)[0] is SchemaTooComplexError


def test_a_long_text_beside_one_with_look_around_is_no_hindrance() -> None:
    schema = {"properties": {"name": {"pattern": "^(?!root$)"}, "body": {"type": "string"}}}
    assert judge(schema, {"name": "me", "body": "x" * 1_000_000})[0] is True
    assert judge(schema, {"name": "root", "body": "x" * 1_000_000})[0] is False


@pytest.mark.parametrize(
    "pattern", ["((a{1,100}){1,100}){1,100}", "a{1,999999999}", "(" * 5000 + ")" * 5000, "x" * 10_000]
)
def test_a_pattern_that_grows_too_large_is_refused(pattern: str) -> None:
    assert judge({"pattern": pattern}, "a")[0] is SchemaTooComplexError


@pytest.mark.proof
def test_a_thousand_large_patterns_do_not_fill_the_memory() -> None:
    patterns = {f"p{i}": {"pattern": rf"^\p{{L}}{{1,100}}{i}$"} for i in range(1000)}
    assert judge({"properties": patterns}, {"p1": "a"})[0] is SchemaTooComplexError
    assert judge({"$defs": patterns}, {"p1": "a"})[0] in {True, SchemaTooComplexError}


def test_a_wide_pattern_over_a_long_text_is_refused_in_time() -> None:
    assert judge({"pattern": "a[ab]{4000}[^ab]"}, "ab" * 100_000)[0] is SchemaTooComplexError
    assert judge({"pattern": "a[ab]{4000}[^ab]"}, "ab" * 100)[0] is False


@pytest.mark.parametrize(
    ("reference", "mark"),
    [
        (lambda i: {"$ref": f"#/$defs/d{i}"}, lambda _: {}),
        (lambda i: {"$ref": f"#a{i}"}, lambda i: {"$anchor": f"a{i}"}),
        (lambda i: {"$dynamicRef": f"#a{i}"}, lambda i: {"$dynamicAnchor": f"a{i}"}),
        (lambda i: {"$ref": f"#a{i}"}, lambda i: {"$dynamicAnchor": f"a{i}"}),
        (lambda i: {"$ref": f"d{i}.json"}, lambda i: {"$id": f"d{i}.json"}),
        (lambda i: {"$ref": f"http://x.test/d{i}.json#"}, lambda i: {"$id": f"http://x.test/d{i}.json"}),
        (lambda i: {"$ref": f"#/%24defs/%64{i}"}, lambda _: {}),
    ],
    ids=["ref", "anchor", "dynamic", "dynamic anchor by ref", "relative id", "absolute id", "percent"],
)
def test_a_diamond_of_references_is_refused_however_it_is_written(reference: Any, mark: Any) -> None:
    schema = {"$id": "http://x.test/root.json", **diamond(reference, mark)}
    assert judge(schema, "x")[0] is SchemaTooComplexError


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_diamond_of_alternatives_is_refused(word: str) -> None:
    definitions = {f"d{i}": {word: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    assert (
        judge({"$defs": {**definitions, "d40": False}, "$ref": "#/$defs/d0"}, 1)[0] is SchemaTooComplexError
    )


def test_a_diamond_that_opens_a_level_at_a_time_is_refused_only_for_deep_values() -> None:
    definitions = {
        f"d{i}": {"properties": {"a": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}}} for i in range(40)
    }
    schema = {"$defs": {**definitions, "d40": {"type": "integer"}}, "$ref": "#/$defs/d0"}
    assert judge(schema, nested(40))[0] is SchemaTooComplexError
    assert judge(schema, nested(10))[0] is True


def test_a_diamond_in_a_draft_07_schema_is_refused() -> None:
    schema = diamond(lambda i: {"$ref": f"#d{i}"}, lambda i: {"$id": f"#d{i}"})
    schema["definitions"] = schema.pop("$defs")
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    assert judge(schema, "x")[0] is SchemaTooComplexError


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}] * 5},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {
            "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{j}"} for j in range(10)]} for i in range(10)},
            "$ref": "#/$defs/d0",
        },
    ],
    ids=["self", "self in allOf", "mutual", "everyone to everyone"],
)
def test_a_schema_that_refers_to_itself_at_the_same_value_is_refused(schema: Any) -> None:
    assert judge(schema, 1)[0] is SchemaTooComplexError


def test_a_very_deep_value_is_refused_and_the_process_lives() -> None:
    for schema in (TREE, BRANCHING, {}, True):
        assert judge(schema, nested(100_000))[0] is False


def test_the_deepest_values_allowed_fit_a_thread_with_a_small_stack() -> None:
    shapes = [
        TREE,
        {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "unevaluatedProperties": False},
        {
            "$defs": {
                "n": {
                    "anyOf": [{"allOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}]}],
                    "unevaluatedProperties": False,
                }
            },
            "$ref": "#/$defs/n",
        },
        {
            "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(300)}
            | {"d300": {"properties": {"a": {"$ref": "#/$defs/d0"}}}},
            "$ref": "#/$defs/d0",
        },
    ]
    verdicts: list[Any] = []
    old = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(
            target=lambda: verdicts.extend(judge(shape, nested(45))[0] for shape in shapes)
        )
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert verdicts == [True, True, True, SchemaTooComplexError]


def test_long_chains_of_references_are_refused_before_they_fill_the_stack() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
    assert judge({"$defs": {**chain, "d5000": {}}, "$ref": "#/$defs/d0"}, 1)[0] is SchemaTooComplexError


def test_two_hundred_thousand_errors_are_not_all_written() -> None:
    verdict, error = judge({"items": {"type": "string"}}, [1] * 200_000)
    assert verdict is False
    assert isinstance(error, ValidationError)
    assert 1 <= len(error.problems) <= 32


def test_a_recursive_choice_lists_its_errors_while_small_and_gives_a_verdict_when_large() -> None:
    verdict, error = judge(BRANCHING, nested(4))
    assert verdict is False
    assert isinstance(error, ValidationError)
    assert "alternatives" in error.problems[0].message
    for depth in (8, 12, 14, 18, 40):
        assert judge(BRANCHING, nested(depth))[0] is False


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_json_are_refused_wherever_they_stand(value: float) -> None:
    for schema in ({}, {"type": "null"}, {"type": "number"}, {"minimum": 0}):
        assert judge(schema, value)[0] is False
        assert judge({"items": schema}, [value])[0] is False
        assert judge({"properties": {"a": schema}}, {"a": {"b": value}})[0] is False
    assert judge({"minimum": value}, 1)[0] is InvalidSchemaError


def test_integers_of_any_size_are_compared_exactly_or_refused() -> None:
    assert judge({"type": "integer", "minimum": 10**400}, 10**400)[0] is True
    assert judge({"type": "integer", "exclusiveMinimum": 10**400}, 10**400)[0] is False
    assert judge({"enum": [2**53 + 1]}, 2**53)[0] is False
    assert judge({"type": "integer"}, 10**5000)[0] is False
    assert judge({"multipleOf": 10**300}, 10**4000)[0] is True
    assert judge({"const": 10**5000}, 1)[0] is InvalidSchemaError


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, {"a": ["\udfff"]}, [{"b": {"x\ud800": None}}]])
def test_lone_surrogates_are_refused(value: Any) -> None:
    assert judge({"items": {"type": ["string", "object"]}}, value)[0] is False
    assert judge({"const": value}, 1)[0] is InvalidSchemaError


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        {1: 2},
        {None: 1},
        {Text("a"): 1},
        {b"a": 1},
        {"a": (1,)},
        {"a": {1}},
        [b"x"],
        Text("a"),
        {"a": object()},
    ],
)
def test_values_that_are_not_json_are_refused(value: Any) -> None:
    for schema in (True, {}, {"type": "object"}, {"additionalProperties": False}):
        assert judge(schema, value)[0] is False
    assert judge({"default": value}, 1)[0] is InvalidSchemaError


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "http://127.0.0.1:9/x.json",
        "https://x.test/y#/z",
        "other.json",
        "/etc/passwd",
        "urn:x:y",
    ],
)
def test_references_out_of_the_schema_are_refused_in_used_and_unused_branches(uri: str) -> None:
    for schema in (
        {"$ref": uri},
        {"properties": {"never": {"$ref": uri}}},
        {"$defs": {"unused": {"$ref": uri}}},
        {"if": False, "then": {"$ref": uri}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": uri}}},
    ):
        assert judge(schema, {})[0] is ExternalRefError


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value += [value, value]
    assert judge({}, value)[0] is False
    schema: dict[str, Any] = {}
    schema["not"] = schema
    assert judge(schema, 1)[0] is SchemaTooComplexError


def test_a_value_that_multiplies_by_sharing_is_refused() -> None:
    value: Any = "laugh"
    for _ in range(40):
        value = [value] * 10
    assert judge({}, value)[0] is False
    assert judge({"enum": value}, 1)[0] is SchemaTooComplexError


def test_wide_integers_under_unique_items_are_refused_when_there_are_many() -> None:
    assert judge({"uniqueItems": True}, [2**70 + i for i in range(5000)])[0] is SchemaTooComplexError
    assert judge({"uniqueItems": True}, [[2**70 + i] for i in range(5000)])[0] is SchemaTooComplexError
    assert judge({"uniqueItems": True}, [2**70 + i for i in range(50)])[0] is True
    assert judge({"uniqueItems": True}, list(range(50_000)))[0] is True


def test_a_long_enum_of_objects_or_fractions_over_a_long_array_is_refused() -> None:
    for options in ([{"a": i} for i in range(5000)], [i + 0.5 for i in range(5000)]):
        assert judge({"items": {"enum": options}}, [options[-1]] * 10_000)[0] is SchemaTooComplexError
        assert judge({"items": {"enum": options}}, [options[-1]] * 10)[0] is True
    names = [f"n{i}" for i in range(5000)]
    assert judge({"items": {"enum": names}}, names)[0] is True


@pytest.mark.proof
def test_a_large_schema_times_a_large_value_is_refused_in_time() -> None:
    assert judge({"items": {"allOf": [{"minimum": i} for i in range(5000)]}}, list(range(100_000)))[0] is (
        SchemaTooComplexError
    )
    assert (
        judge({"allOf": [{"maxLength": i} for i in range(5000)]}, "é" * 1_000_000)[0] is SchemaTooComplexError
    )


def test_a_schema_too_large_or_too_deep_is_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"not": deep}
    assert judge(deep, 1)[0] is SchemaTooComplexError
    assert judge({"enum": list(range(30_000))}, 1)[0] is SchemaTooComplexError
    assert judge("[" * 100_000, 1)[0] is InvalidSchemaError


def test_a_message_stays_short_however_long_the_value_is() -> None:
    long = "x" * 1_000_000
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"enum": [long, long + "y"]}, "c": {"pattern": "^y"}},
        "additionalProperties": False,
        "propertyNames": {"maxLength": 1},
    }
    for value in ({"a": long}, {"b": long[1:]}, {"c": "x" * 9000}, {long: 1}, {"a": {long: long}}):
        verdict, error = judge(schema, value)
        assert verdict is False
        assert isinstance(error, ValidationError)
        assert all(len(problem.message) <= 500 for problem in error.problems)


def test_a_fault_beside_a_value_that_multiplies_is_found_in_time() -> None:
    shared: Any = "laugh"
    for _ in range(12):
        shared = [shared, shared]
    verdict, error = judge({}, {"a": shared, "b": {"c": float("nan")}})
    assert verdict is False
    assert isinstance(error, ValidationError)
    assert error.problems[0].path == "/b/c"


def test_a_long_text_that_is_repeated_is_refused_in_time() -> None:
    assert judge({}, ["é" * 1_000_000] * 400_000)[0] is False


def test_ordinary_long_patterns_are_allowed() -> None:
    schema = {"properties": {f"p{i}": {"pattern": "^.{0,100}$"} for i in range(50)}}
    assert judge(schema, {"p1": "x" * 100})[0] is True
    assert judge({"pattern": "^[A-Za-z0-9_]{1,1000}$"}, "x" * 1000)[0] is True
    assert judge({"pattern": r"^\p{L}{1,100}$"}, "é" * 100)[0] is True


def test_a_tower_of_unevaluated_properties_is_refused_before_it_multiplies() -> None:
    for word, value in (("unevaluatedProperties", {"a": 1}), ("unevaluatedItems", [1])):
        tower: Any = {"properties": {"a": {}}, "prefixItems": [{}]}
        for _ in range(25):
            tower = {"anyOf": [tower], word: False}
        assert judge(tower, value)[0] is SchemaTooComplexError
    small = {"anyOf": [{"anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}]}
    assert judge(small, {"a": 1})[0] is True


def test_another_dialect_inside_the_schema_is_refused() -> None:
    value: Any = 1
    for _ in range(30):
        value = [value]
    inner = {
        "$id": "http://x/a",
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "items": {"allOf": [{"$recursiveRef": "#"}, {"$recursiveRef": "#"}]},
    }
    assert judge({"$ref": "http://x/a", "$defs": {"a": inner}}, value)[0] is UnsupportedDialectError


@pytest.mark.parametrize(
    "value", ["x" * (60 << 20), {str(i): i for i in range(100_000)}], ids=["long text", "many keys"]
)
def test_errors_that_would_each_copy_a_large_value_are_not_written(value: Any) -> None:
    for word in ("allOf", "anyOf"):
        assert judge({word: [{"type": "integer", "title": str(i)} for i in range(100)]}, value)[0] is False


def test_paths_through_huge_keys_are_cut() -> None:
    for size in (1 << 20, 20 << 20):
        verdict, error = judge(
            {"additionalProperties": {"items": {"type": "string"}}}, {"k" * size: [1] * 20}
        )
        assert verdict is False
        assert len(str(error)) < 50_000


@pytest.mark.proof
def test_looking_for_what_was_meant_takes_no_time() -> None:
    def word(number: int) -> str:
        return "".join(chr(97 + (number * 7 + i * i) % 26) for i in range(38))

    words = [word(i) + str(i) for i in range(2000)]
    given = [word(i + 5) + f"x{i}" for i in range(40)]
    assert judge({"items": {"enum": words}}, given)[0] is False
    assert judge({"required": given}, dict.fromkeys(words, 1))[0] is False
    assert judge({"anyOf": [{"required": given}] * 10}, dict.fromkeys(words, 1))[0] is False
    properties = {f"p{i}": {} for i in range(9000)}
    unknown = {f"q{i}": 1 for i in range(9000)}
    assert judge({"properties": properties, "additionalProperties": False}, unknown)[0] is False


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"allOf": [{"multipleOf": 0.1}] * 4}}, [10**3999] * 10_000),
        ({"items": {"minimum": 0.5}}, [10**3999] * 20_000),
        ({"items": {"multipleOf": 0.1}}, [1e300] * 400_000),
        ({"items": {"multipleOf": 1e-300}}, [1e300] * 400_000),
    ],
    ids=["wide multiples", "wide minimum", "large fractions", "tiny fractions"],
)
def test_arithmetic_that_would_take_long_is_refused(schema: Any, value: Any) -> None:
    assert judge(schema, value)[0] is SchemaTooComplexError
    assert judge(schema, value[:5])[0] is True


def test_unique_items_compared_to_their_last_level_are_counted() -> None:
    long = list(range(150_000))
    schema = {"allOf": [{"uniqueItems": True, "title": str(i)} for i in range(400)]}
    assert judge(schema, [long, [*long[:-1], -1]])[0] is SchemaTooComplexError


def test_a_schema_of_wide_integers_is_refused_before_it_is_checked() -> None:
    assert judge({"required": [2**64 + i for i in range(6000)]}, 1)[0] is SchemaTooComplexError


@pytest.mark.proof
def test_patterns_too_large_for_the_engine_are_refused_at_the_first() -> None:
    many = {f"p{i}": {"pattern": rf"\p{{L}}{{{3000 + i}}}"} for i in range(100)}
    assert judge({"properties": many}, {})[0] is SchemaTooComplexError
    assert judge({"pattern": r"^[\p{L}\p{N} ]{1,255}$"}, "é" * 255)[0] is True


def test_a_reference_spelt_in_many_ways_is_not_copied_each_time() -> None:
    spellings = {
        f"#/$defs/{''.join(f'%{ord(c):02x}' if i >> k & 1 else c for k, c in enumerate('abcdefgh'))}"
        for i in range(200)
    }
    big = {"properties": {f"p{i}": {"type": "string"} for i in range(4000)}}
    schema = {"$defs": {"abcdefgh": big}, "allOf": [{"$ref": spelling} for spelling in sorted(spellings)]}
    assert judge(schema, {})[0] is SchemaTooComplexError


def test_a_long_constant_is_priced() -> None:
    text = "a" * (3 << 20)
    schema = {"$defs": {"c": {"const": text}}, "allOf": [{"$ref": "#/$defs/c"}] * 6000}
    assert judge(schema, text[:-1] + "a")[0] is SchemaTooComplexError


def test_a_schema_text_too_long_to_read_is_refused_unread() -> None:
    assert judge("[" + "{}," * 20_000_000 + "1]", 1)[0] is InvalidSchemaError


def test_many_long_keys_are_refused_in_time() -> None:
    assert judge({}, [{"é" * 1_000_000: 1}] * 400_000)[0] is False


def test_the_meter_does_not_run_out_of_stack() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/m"}],
        "$defs": {"m": {"allOf": [{"$ref": "#/$defs/k"}] * 2}, "k": {"additionalProperties": {"$ref": "#"}}},
    }

    def from_deep_down(frames: int) -> Verdict:
        return judge(schema, nested(56))[0] if frames == 0 else from_deep_down(frames - 1)

    assert from_deep_down(500) in {True, SchemaTooComplexError}


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_a_recursive_union_told_apart_by_a_constant_is_judged_at_any_depth(word: str) -> None:
    operations = [
        {
            "type": "object",
            "properties": {
                "op": {"const": f"op{i}"},
                "args": {"type": "array", "items": {"$ref": "#/$defs/e"}},
            },
            "required": ["op", "args"],
        }
        for i in range(8)
    ]
    schema = {"$ref": "#/$defs/e", "$defs": {"e": {word: [{"type": "number"}, *operations]}}}
    value: Any = 1
    for _ in range(30):
        value = {"op": "op7", "args": [value, 1]}
    assert judge(schema, value)[0] is True
    value["args"][0]["args"][0]["op"] = "nope"
    assert judge(schema, value)[0] is False


def test_documents_are_held_to_the_rules_of_schemas() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for documents in ({"http://x/a": {"const": float("nan")}}, {"http://x/a": loop}, {1: {}}):
        with pytest.raises(InvalidSchemaError):
            DefaultValidator(documents)


@pytest.mark.proof
def test_a_schema_cache_keeps_no_more_than_it_may() -> None:
    validator = DefaultValidator()
    for number in range(200):
        validator.validate({"description": str(number) + "x" * (3 << 20)}, {})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20  # KiB


@pytest.mark.parametrize(
    "dialect", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_a_diamond_with_loops_beside_it_is_no_less_a_diamond(dialect: str) -> None:
    for loop in (0, 1):
        definitions: dict[str, Any] = {
            f"D{i}": {
                "properties": {
                    "a": {"allOf": [{"$ref": f"#/definitions/D{i + 1}"}] * 2},
                    "s": {"$ref": f"#/definitions/D{max(0, i - loop)}"},
                }
            }
            for i in range(40)
        }
        schema = {
            "$schema": dialect,
            "definitions": {**definitions, "D40": {}},
            "allOf": [{"$ref": "#/definitions/D0"}],
        }
        assert judge(schema, nested(40))[0] is SchemaTooComplexError


@pytest.mark.proof
def test_a_value_that_python_shares_is_counted_in_each_of_its_places() -> None:
    schema = {"items": {"items": {"$ref": "#/items"}, "allOf": [{"minimum": -i} for i in range(3000)]}}
    for member in (1, []):
        assert judge(schema, [member] * 100_000)[0] is SchemaTooComplexError


def test_recursive_blocks_that_share_their_children_are_judged_at_any_depth() -> None:
    kinds = [
        {
            "properties": {"type": {"const": f"k{i}"}, "children": {"$ref": "#/$defs/children"}},
            "required": ["type"],
        }
        for i in range(25)
    ]
    schema = {
        "$defs": {
            "block": {"anyOf": kinds},
            "children": {"type": "array", "items": {"$ref": "#/$defs/block"}},
        },
        "$ref": "#/$defs/block",
    }
    block: Any = {"type": "k24"}
    for _ in range(20):
        block = {"type": "k7", "children": [block]}
    assert judge(schema, block)[0] is True


def test_word_boundaries_that_make_the_engine_give_up_are_never_a_verdict() -> None:
    assert judge({"pattern": r"(\b.?){60}$"}, "a b" * 3000)[0] is SchemaTooComplexError
    assert judge({"pattern": r"^\bword\b$"}, "word")[0] is True
    assert judge({"pattern": r"^\bword\b$"}, "words")[0] is False


class Liar(type):
    @property
    def __name__(cls) -> str:
        raise KeyError("no name")


class Nameless(metaclass=Liar):
    pass


def test_a_class_that_will_not_say_its_name_is_refused_all_the_same() -> None:
    for make in (Nameless, lambda: [Nameless()], lambda: {"a": Nameless()}):
        verdicts = [judge({}, make())[0], judge({"const": make()}, 1)[0]]
        assert [verdict is False or verdict is InvalidSchemaError for verdict in verdicts] == [True, True]


def test_honest_lists_of_numbers_are_not_refused() -> None:
    assert judge({"items": {"enum": [1, 2, 3, 5, 8]}}, [1, 2, 3, 5, 8] * 20_000)[0] is True
    assert judge({"items": {"multipleOf": 0.01}}, [0.25] * 50_000)[0] is True

"""How much a definition has changed, as a person would say it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from trust.made import Maker, make_tool, objects

from toolcrib.errors import InvalidSchemaError
from toolcrib.model import DefaultValidator, Icon, Tool
from toolcrib.trust import compare_tools
from toolcrib.trust.drift import LEVELS, MAX_CHANGES

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
BASE = objects(
    {"repo": TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30}}, "repo"
)


def level(before: Tool, after: Tool) -> tuple[str, set[str]]:
    drift = compare_tools(before, after)
    return drift.level, {change.kind for change in drift.changes}


def changed(schema: Any) -> tuple[str, set[str]]:
    return level(make_tool(schema=BASE), make_tool(schema=schema))


def with_limit(**words: Any) -> dict[str, Any]:
    return objects({"repo": TEXT, "limit": BASE["properties"]["limit"] | words}, "repo")


@pytest.mark.parametrize(
    ("after", "expected", "kind"),
    [
        (BASE, "none", None),
        ({word: BASE[word] for word in reversed(BASE)}, "none", None),
        (with_limit(minimum=1.0), "none", None),
        (with_limit(description="How many."), "patch", "words"),
        (BASE | {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "patch", "written"),
        (with_limit(type=["integer"]), "patch", "written"),
        (
            objects({"repo": {"anyOf": [TEXT]}, "limit": BASE["properties"]["limit"]}, "repo"),
            "patch",
            "written",
        ),
        (objects(BASE["properties"] | {"page": WHOLE}, "repo"), "minor", "argument-added"),
        (with_limit(maximum=200), "minor", "input-widened"),
        (with_limit(type=["integer", "null"]), "minor", "input-widened"),
        (objects(BASE["properties"]), "minor", "input-widened"),
        (
            objects(BASE["properties"] | {"repo": TEXT | {"default": "main"}}, "repo"),
            "minor",
            "default-added",
        ),
        (objects(BASE["properties"] | {"page": WHOLE}, "repo", "page"), "major", "argument-required"),
        (objects(BASE["properties"], "repo", "limit"), "major", "argument-required"),
        (objects({"repo": TEXT}, "repo"), "major", "argument-removed"),
        (objects({"repository": TEXT, "limit": WHOLE}, "repository"), "major", "argument-removed"),
        (with_limit(maximum=50), "major", "input-narrowed"),
        (with_limit(type="string"), "major", "input-narrowed"),
        (with_limit(default=10), "major", "default-changed"),
        (with_limit(enum=[10, 30]), "major", "input-narrowed"),
        (BASE | {"additionalProperties": False}, "major", "input-closed"),
        (objects(BASE["properties"] | {"repo": TEXT | {"format": "uri"}}, "repo"), "major", "input-unclear"),
        (BASE | {"$ref": "https://example.com/x"}, "major", "input-unclear"),
    ],
    ids=str,
)
def test_a_change_of_arguments_has_the_level_of_what_it_breaks(
    after: Any, expected: str, kind: str | None
) -> None:
    found, kinds = changed(after)
    assert found == expected
    assert kind is None or kind in kinds


@pytest.mark.parametrize(
    ("before", "after", "expected", "kind"),
    [
        (None, objects({"id": WHOLE}), "minor", "output-narrowed"),
        (objects({"id": WHOLE}), None, "major", "output-widened"),
        (objects({"id": WHOLE}), objects({"id": WHOLE, "url": TEXT}), "minor", "output-added"),
        (objects({"id": WHOLE}), objects({"id": WHOLE}, "id"), "minor", "output-narrowed"),
        (objects({"id": {"type": "number"}}), objects({"id": WHOLE}), "minor", "output-narrowed"),
        (objects({"id": WHOLE}), objects({"id": {"type": "number"}}), "major", "output-widened"),
        (objects({"id": WHOLE}, "id"), objects({"id": WHOLE}), "major", "output-widened"),
        (objects({"id": WHOLE, "url": TEXT}), objects({"id": WHOLE}), "major", "output-removed"),
        (objects({"id": WHOLE}), objects({"id": WHOLE | {"title": "Id"}}), "patch", "words"),
    ],
    ids=str,
)
def test_a_change_of_results_has_the_level_of_what_it_breaks(
    before: Any, after: Any, expected: str, kind: str
) -> None:
    found, kinds = level(make_tool(output_schema=before), make_tool(output_schema=after))
    assert (found, kind in kinds) == (expected, True)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {}, "none"),
        (
            None,
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
            "none",
        ),
        ({"readOnlyHint": True}, {"readOnlyHint": True, "destructiveHint": True}, "none"),
        ({"readOnlyHint": True}, None, "major"),
        ({"readOnlyHint": True}, {"readOnlyHint": False}, "major"),
        ({"destructiveHint": False}, {"destructiveHint": True}, "major"),
        ({"destructiveHint": False}, {}, "major"),
        ({"idempotentHint": True}, {}, "major"),
        ({"openWorldHint": False}, {}, "major"),
        ({"readOnlyHint": True, "destructiveHint": False}, {"readOnlyHint": True}, "patch"),
        ({"title": "List"}, {"title": "Lists"}, "patch"),
        (None, {"readOnlyHint": True}, "minor"),
        ({"destructiveHint": True}, {"destructiveHint": False}, "minor"),
        (None, {"idempotentHint": True, "openWorldHint": False}, "minor"),
        (None, {"secretHint": True}, "minor"),
    ],
    ids=str,
)
def test_a_hint_that_promises_less_is_major(before: Any, after: Any, expected: str) -> None:
    assert level(make_tool(hints=before), make_tool(hints=after))[0] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"description": "Lists issues."}, "patch"),
        ({"title": "Issues"}, "patch"),
        ({"icons": (Icon(src="https://example.com/i.png"),)}, "patch"),
        ({"tags": ("git",)}, "patch"),
        ({"execution": {"taskSupport": "forbidden"}}, "patch"),
        ({"execution": {"taskSupport": "optional"}}, "minor"),
        ({"version": "1.2.1"}, "patch"),
        ({"version": "1.3.0"}, "minor"),
        ({"version": "2.0.0"}, "major"),
        ({"meta": {"ui": {"resourceUri": "ui://x"}}}, "minor"),
        ({"name": "show"}, "major"),
        ({"namespace": "other"}, "major"),
    ],
    ids=str,
)
def test_other_fields_count_by_what_they_may_do(fields: dict[str, Any], expected: str) -> None:
    before = make_tool(version="1.2.0")
    assert compare_tools(before, before.replace(**fields)).level == expected


def test_a_change_says_where_it_is_and_shows_a_value() -> None:
    drift = compare_tools(make_tool(schema=BASE), make_tool(schema=with_limit(maximum=50)))
    change = drift.changes[0]
    assert change.path == "/inputSchema/properties/limit"
    assert "100" in change.message or "51" in change.message
    assert change.level == "major"


def test_a_change_within_a_definition_is_found_through_its_references() -> None:
    def schema(state: Any) -> dict[str, Any]:
        return objects({"filter": {"$ref": "#/$defs/filter"}}) | {
            "$defs": {"filter": objects({"state": state})}
        }

    old, new = schema({"enum": ["open", "closed"]}), schema({"enum": ["open"]})
    drift = compare_tools(make_tool(schema=old), make_tool(schema=new))
    assert (drift.level, drift.changes[0].path) == (
        "major",
        "/inputSchema/properties/filter/properties/state",
    )
    assert '"closed"' in drift.changes[0].message
    assert compare_tools(make_tool(schema=new), make_tool(schema=old)).level == "minor"


def test_what_cannot_be_seen_is_shown_as_an_escape() -> None:
    drift = compare_tools(make_tool(description="Lists."), make_tool(description="Lists.\u202eevil"))
    assert "\\u202e" in drift.changes[0].message


def test_the_most_important_of_many_changes_come_first() -> None:
    before = objects({f"a{n}": TEXT for n in range(200)})
    after = objects({f"a{n}": TEXT | {"description": "x"} for n in range(199)})
    drift = compare_tools(make_tool(schema=before), make_tool(schema=after))
    assert len(drift.changes) == MAX_CHANGES
    assert drift.changes[0].kind == "argument-removed"


SEEDS = st.integers(0, 2**32)


@law(400)
@given(SEEDS)
def test_no_declared_argument_that_fitted_is_refused_below_major(seed: int) -> None:
    maker = Maker(seed)
    before, after = maker.pair()
    try:
        fits_before, fits_after = (DefaultValidator().compile(each).is_valid for each in (before, after))
    except InvalidSchemaError:
        return
    if (
        "properties" in before
        and compare_tools(make_tool(schema=before), make_tool(schema=after)).level != "major"
    ):
        # A member that only the later schema declares is taken not to be there.
        declared = [*map(maker.value, [0] * 30)]
        values = [each for each in declared if not isinstance(each, dict) or not has_undeclared(before, each)]
        assert [each for each in values if fits_before(each) and not fits_after(each)] == []


def has_undeclared(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    return (
        any(isinstance(each, dict) for each in value.values())
        or not value.keys() <= schema["properties"].keys()
    )


@law(200)
@given(SEEDS)
def test_the_same_change_of_a_result_is_judged_the_other_way_round(seed: int) -> None:
    maker = Maker(seed)
    before, after = maker.pair()
    try:
        fits_before, fits_after = (DefaultValidator().compile(each).is_valid for each in (before, after))
    except InvalidSchemaError:
        return
    if level(make_tool(output_schema=before), make_tool(output_schema=after))[0] != "major":
        values = [maker.value() for _ in range(30)]
        assert [each for each in values if fits_after(each) and not fits_before(each)] == []


def test_every_level_has_a_rank() -> None:
    assert LEVELS == ("none", "patch", "minor", "major")

"""Changes of the kinds that released servers make, in definitions of our own, with the class a person gives."""

from typing import Any

import pytest
from trust.made import make_tool, objects

from toolcrib.model import Tool
from toolcrib.trust import Lock, compare_tools

TEXT = {"type": "string"}
COUNT = {"type": "integer", "exclusiveMinimum": 0}
LARGEST = 2**53 - 1
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
POT = objects({"plant": TEXT, "litres": COUNT}, "plant")
BEDS = objects({"beds": {"type": "array", "items": POT}}, "beds")
PHOTO = objects({"kind": {"enum": ["leaf", "root", "other"]}, "data": TEXT}, "kind", "data")
CLOSED: dict[str, Any] = {"additionalProperties": False}


def made(schema: Any = POT, hints: Any = None, **fields: Any) -> Tool:
    return make_tool("water", schema, hints, **fields)


def results(item: Any) -> dict[str, Any]:
    return objects({"photos": {"type": "array", "items": item}}, "photos")


def found(before: Tool, after: Tool) -> tuple[str, list[tuple[str, str]]]:
    """Return the class of a change, and what gives it: each kind, and where."""
    drift = compare_tools(before, after)
    return drift.level, [(each.kind, each.path) for each in drift.changes if each.level == drift.level]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (made(), made(POT | CLOSED), ("major", [("input-closed", "/inputSchema")])),
        (
            made(BEDS),
            made(objects({"beds": {"type": "array", "items": POT | CLOSED}}, "beds", **CLOSED)),
            (
                "major",
                [
                    ("input-closed", "/inputSchema"),
                    ("input-closed", "/inputSchema/properties/beds/items"),
                ],
            ),
        ),
        (made({"type": "object"}), made(objects({}) | CLOSED), ("major", [("input-closed", "/inputSchema")])),
        (made(POT | CLOSED), made(POT), ("minor", [("input-opened", "/inputSchema")])),
        (
            made(POT | CLOSED),
            made(objects(POT["properties"] | {"bed": TEXT}, "plant")),
            (
                "minor",
                [
                    ("input-opened", "/inputSchema"),
                    ("argument-added", "/inputSchema/properties/bed"),
                ],
            ),
        ),
        (
            made(),
            made(objects({"plant": TEXT, "litres": COUNT | {"maximum": LARGEST}}, "plant")),
            ("patch", [("written", "/inputSchema")]),
        ),
        (
            made(),
            made(objects({"plant": TEXT, "litres": COUNT | {"maximum": LARGEST // 2}}, "plant")),
            ("major", [("input-narrowed", "/inputSchema/properties/litres")]),
        ),
        (
            made(objects({"days": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 400}})),
            made(objects({"days": {"type": "integer", "minimum": 1, "maximum": 399}})),
            ("patch", [("written", "/inputSchema")]),
        ),
        (
            made(objects({"plants": {"type": "array", "items": TEXT}}, "plants")),
            made(objects({"plants": {"type": "array", "items": TEXT, "minItems": 1}}, "plants")),
            ("major", [("input-narrowed", "/inputSchema/properties/plants")]),
        ),
        (
            made(objects({"soon": {"type": "boolean"}})),
            made(objects({"soon": {"type": ["boolean", "string"]}})),
            ("minor", [("input-widened", "/inputSchema/properties/soon")]),
        ),
        (
            made(),
            made(
                objects(
                    POT["properties"] | {"since": {"anyOf": [TEXT, {"type": "null"}], "default": None}},
                    "plant",
                )
            ),
            ("minor", [("argument-added", "/inputSchema/properties/since")]),
        ),
        (
            made(objects({"form": TEXT | {"default": "can"}})),
            made(objects({"form": TEXT | {"default": "can"}}, "form")),
            ("major", [("argument-required", "/inputSchema/properties/form")]),
        ),
        (
            made(POT | CLOSED | {"$schema": DRAFT_7}),
            made(POT | CLOSED | {"$schema": DRAFT_2020}),
            ("patch", [("written", "/inputSchema")]),
        ),
        (made(), made(execution={"taskSupport": "forbidden"}), ("patch", [("written", "/execution")])),
        (made(execution={"taskSupport": "forbidden"}), made(), ("patch", [("written", "/execution")])),
        (made(), made(execution={"taskSupport": "required"}), ("minor", [("meta", "/execution")])),
        (made(execution={}), made(), ("minor", [("meta", "/execution")])),
        (
            made(hints={"destructiveHint": False}),
            made(hints={"destructiveHint": True, "openWorldHint": False}),
            ("major", [("hint-loosened", "/annotations/destructiveHint")]),
        ),
        (
            made(hints={"readOnlyHint": True, "destructiveHint": False}),
            made(hints={"readOnlyHint": False, "destructiveHint": True}),
            (
                "major",
                [
                    ("hint-loosened", "/annotations/destructiveHint"),
                    ("hint-loosened", "/annotations/readOnlyHint"),
                ],
            ),
        ),
        (
            made(),
            made(hints={"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}),
            (
                "minor",
                [
                    ("hint-tightened", "/annotations/openWorldHint"),
                    ("hint-tightened", "/annotations/readOnlyHint"),
                ],
            ),
        ),
        (made(), made(output_schema=results(PHOTO)), ("minor", [("output-narrowed", "/outputSchema")])),
        (
            made(output_schema=results(PHOTO | CLOSED)),
            made(
                output_schema=results(
                    {
                        "anyOf": [
                            PHOTO | CLOSED,
                            objects({"kind": {"const": "file"}, "path": TEXT}, "kind", "path"),
                        ]
                    }
                )
            ),
            ("major", [("output-widened", "/outputSchema/properties/photos/items")]),
        ),
        (
            made(objects({"zone": TEXT | {"description": "Where, else 'north'."}})),
            made(objects({"zone": TEXT | {"description": "Where, else 'garden/north'."}})),
            ("patch", [("words", "/inputSchema/properties/zone/description")]),
        ),
    ],
)
def test_a_change_that_servers_make_has_the_class_a_person_gives(
    before: Tool, after: Tool, expected: tuple[str, list[tuple[str, str]]]
) -> None:
    assert found(before, after) == expected


def test_a_server_that_spells_its_tools_otherwise_has_renamed_them() -> None:
    old = [make_tool(name, POT, description=name[:5]) for name in ("water-bed", "prune-tree")]
    new = [make_tool(each.name.replace("-", "_"), POT, description=each.description) for each in old]
    drifts = {drift.tool_id: (drift.level, drift.changes[0].kind) for drift in Lock.of(old).compare(new)}
    assert drifts == {
        "water-bed": ("major", "renamed"),
        "prune-tree": ("major", "renamed"),
        "water_bed": ("minor", "added"),
        "prune_tree": ("minor", "added"),
    }


def test_a_server_with_a_tool_more_and_one_less_has_lost_one() -> None:
    water, prune, weed = (
        make_tool(name, schema) for name, schema in [("water", POT), ("prune", BEDS), ("weed", PHOTO)]
    )
    drifts = {
        each.tool_id: (each.level, each.changes[0].kind)
        for each in Lock.of([water, prune]).compare([water, weed])
    }
    assert drifts == {"prune": ("major", "removed"), "weed": ("minor", "added")}


def test_closing_an_object_says_so_beside_what_else_is_refused() -> None:
    narrower = objects({"plant": TEXT | {"maxLength": 3}, "litres": COUNT}, "plant", "litres", **CLOSED)
    assert found(made(), made(narrower)) == (
        "major",
        [
            ("input-closed", "/inputSchema"),
            ("argument-required", "/inputSchema/properties/litres"),
            ("input-narrowed", "/inputSchema/properties/plant"),
        ],
    )
    assert "not declared" in compare_tools(made(), made(POT | CLOSED)).changes[0].message

"""Schemas that a search has found to break a law of conversions, each with arguments: the laws hold for them now."""

from typing import Any

import pytest
from adapter.support import assert_comes_back, convert, faults, obj

from toolcrib.adapter.portability import TARGETS
from toolcrib.model import DefaultValidator

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}
NULL = {"type": "null"}
LEAF = {"$ref": "#/$defs/leaf"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
TUPLE_OF_DRAFT_7: dict[str, Any] = {"type": "array", "items": [{}], "additionalItems": False}
OBJECT_AND_MAP = {"allOf": [obj(x=WHOLE), {"type": "object", "additionalProperties": NUMBER}]}

FOUND: dict[str, tuple[dict[str, Any], Any]] = {
    "a null that means absence in one alternative alone": (
        obj(
            a={
                "anyOf": [
                    {"properties": {"A": NULL, "a": WHOLE}, "additionalProperties": {}},
                    {"properties": {"a": NULL, "b": NUMBER}},
                ]
            }
        ),
        {"a": {"a": None}},
    ),
    "a root that is one of some constants": ({"anyOf": [{"const": {"a": 0}}, {"const": {}}]}, {"a": 0}),
    "a root that is one of some values": ({"oneOf": [{"enum": [{"a": 0}, 1]}]}, {"a": 0}),
    "a root of which one alternative is anything": ({"anyOf": [{}, {"const": {}}]}, {"a": 0}),
    "a text or an object, beside properties": (
        obj(a={"properties": {"x": WHOLE}, "anyOf": [TEXT, obj(y=WHOLE)]}),
        {"a": "s"},
    ),
    "a constant or an object, beside properties": (
        obj(a={"properties": {"x": WHOLE}, "anyOf": [{"const": 1.0}, {"required": ["x"]}]}),
        {"a": 1.0},
    ),
    "a reference to a text, beside properties": (
        obj(a={"properties": {"x": WHOLE}, "anyOf": [{"$ref": "#/$defs/s"}]}) | {"$defs": {"s": TEXT}},
        {"a": "s"},
    ),
    "an object constant, beside other properties": (
        obj(a={"properties": {"x": {}}, "oneOf": [{"enum": [{"y": True}]}]}),
        {"a": {"y": True}},
    ),
    "all of a nullable object that is closed and of another one": (
        obj(
            a={
                "allOf": [
                    {"type": ["object", "null"], "properties": {"x": WHOLE}, "additionalProperties": False},
                    {"type": ["object", "null"], "properties": {"y": WHOLE}},
                ]
            }
        )
        | {"required": ["a"]},
        {"a": None},
    ),
    "all of an object and a map": (obj(a=OBJECT_AND_MAP), {"a": {"x": 1, "k": 1.5}}),
    "a root that is all of an object and a map": (OBJECT_AND_MAP, {"x": 1, "k": 1.5}),
    "an object beside all of a map": (
        obj(a=obj(x=WHOLE) | {"allOf": [{"additionalProperties": NUMBER}]}),
        {"a": {"k": 1.5}},
    ),
    "all of two maps": (
        obj(a={"allOf": [{"additionalProperties": NUMBER}, {"additionalProperties": WHOLE}]}),
        {"a": {"k": 1}},
    ),
    "all of a map and of properties by pattern": (
        obj(
            a={
                "type": "object",
                "allOf": [
                    {"patternProperties": {"^x": NUMBER}},
                    {"properties": {"y": NUMBER}, "patternProperties": {"^x": WHOLE}},
                ],
            }
        ),
        {"a": {"x1": 1, "y": 2}},
    ),
    "any value beside a map of implied objects": (
        {"properties": {"x": {}}, "anyOf": [{"additionalProperties": {"properties": {"c": {}}}}]},
        {"x": True},
    ),
    "a text that is a number": (obj(a={"allOf": [TEXT, {"const": 3}]}), {}),
    "a text that is an object": (obj(a={"allOf": [TEXT, {"const": {}}]}), {}),
    "a text or null that is a number": (obj(a={"allOf": [{"type": ["string", "null"]}, {"const": 1}]}), {}),
    "a number that is null": (obj(a={"allOf": [NUMBER, {"const": None}]}), {}),
    "a text or null that is null": (
        obj(a={"type": ["string", "null"], "const": None}) | {"required": ["a"]},
        {"a": None},
    ),
    "a constant that an open object takes too": (
        {"anyOf": [{"properties": {"b": {}}}, {"const": {"c": True}}]},
        {"c": True},
    ),
    "a number where an object is implied or anything": (
        obj(a={"anyOf": [{"properties": {"x": {}}}, {}]}),
        {"a": 7},
    ),
    "a list where a map is implied or that very list": (
        obj(a={"additionalProperties": {"default": -7}, "anyOf": [{}, {"enum": [["ß"]]}]}),
        {"a": ["ß"]},
    ),
    "an object that only the alternative that is anything can pass": (
        obj(a={"anyOf": [{"properties": {"x": {}}, "oneOf": [True]}, {}]}),
        {"a": {"y": [1], "z": None}},
    ),
    "a text that an implied object does not forbid": (
        obj(
            a={
                "anyOf": [
                    {"properties": {"x": {}}, "anyOf": [False, {}]},
                    {"oneOf": [{"const": {}}, {"type": "string"}]},
                ]
            }
        ),
        {"a": "s"},
    ),
    "a root that is one of one of anything": ({"anyOf": [{"oneOf": [True]}]}, {"y": [1]}),
    "a tuple of draft-07 beside properties": (
        obj(a={"properties": {}, "oneOf": [TUPLE_OF_DRAFT_7, {"type": "object"}]}) | DRAFT_7,
        {"a": [True]},
    ),
    "a tuple of draft-07 or a text": (
        obj(a={**TUPLE_OF_DRAFT_7, "type": ["array", "string"]}) | DRAFT_7,
        {"a": [True]},
    ),
    "one of anything and of lists that are always empty": (
        obj(a={"oneOf": [{}, {"items": False}]}),
        {"a": [1]},
    ),
    "one of two tuples of draft-07": (
        obj(a={"oneOf": [TUPLE_OF_DRAFT_7, {"items": [{}, {}]}]}) | DRAFT_7,
        {"a": [True, 1.5]},
    ),
    "one of anything and of what nothing fits": (
        obj(a={"oneOf": [{}, {"$ref": "#/$defs/none"}]}) | {"$defs": {"none": {"allOf": [NUMBER, TEXT]}}},
        {"a": True},
    ),
    "an object constant with a property that another alternative declares": (
        {
            "properties": {"x": {}},
            "anyOf": [{"properties": {"b": {"type": "boolean"}}}, {"enum": [{"b": {}}]}],
        },
        {"b": {}},
    ),
    "one of anything and of a reference to what nothing fits, beside a choice of types": (
        obj(a={"oneOf": [{}, {"$ref": "#/$defs/none"}], "anyOf": [TEXT, {"type": "boolean"}]})
        | {"$defs": {"none": {"allOf": [NUMBER, TEXT]}}},
        {"a": True},
    ),
    "a list constant with what only texts may be bound by": (
        obj(a={"type": "array", "const": [1, 2], "maxLength": 3, "pattern": "x"}),
        {"a": [1, 2]},
    ),
    "a map with what only lists may be bound by": (
        obj(a={"type": "object", "additionalProperties": WHOLE, "minItems": 1, "maxItems": 1}),
        {"a": {"x": 1, "y": 2}},
    ),
    "a list or null that is a constant, with what only texts may be bound by": (
        obj(a={"type": ["array", "null"], "enum": [[1, 2], None], "maxLength": 3}),
        {"a": [1, 2]},
    ),
    "one of anything and of what nothing fits, beside a choice of types": (
        obj(a={"anyOf": [TEXT, {"type": "boolean"}], "oneOf": [{}, {"allOf": [NUMBER, TEXT]}]}),
        {"a": True},
    ),
    "an object that holds itself or null, and must be an object": (
        obj(x=LEAF) | {"$defs": {"leaf": obj(b={"allOf": [{"type": "object"}, {"anyOf": [LEAF, NULL]}]})}},
        {"x": {"b": {"b": {}}}},
    ),
    "an object that holds itself as a text, with other annotations than the text has": (
        obj(x=LEAF)
        | {"$defs": {"leaf": obj(b={"allOf": [TEXT | {"x-a": 1}, {"anyOf": [LEAF, NULL]}], "x-a": 2})}},
        {"x": {}},
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("schema", "args"), FOUND.values(), ids=FOUND)
def test_a_counterexample_of_an_earlier_search_holds(target: str, schema: dict[str, Any], args: Any) -> None:
    DefaultValidator().validate(schema, args)
    conversion = convert(schema, target)
    assert_comes_back(conversion, target, args)
    assert faults(conversion, target) == ()

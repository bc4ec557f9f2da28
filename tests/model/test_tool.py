"""The tool record: its fields, its identity, and all problems of an invalid one in one error."""

import copy
import json
import pickle
import re
from collections import ChainMap
from dataclasses import dataclass
from typing import Any

import mcp_types
import pytest
from pydantic import BaseModel

from toolcrib.errors import InvalidToolError
from toolcrib.model import DefaultValidator, Icon, McpBackend, Tool, ToolAnnotations, ToolId, parse_arg_schema

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
ONLY = "may contain only letters, digits, '_', '.' and '-', not"


class Issue(BaseModel):
    title: str


@dataclass
class Point:
    x: int


class _Colliding:
    """Has the hash of a keyword, and comparing it fails."""

    def __hash__(self) -> int:
        return hash("type")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


class _Unreadable(dict[str, Any]):
    """Cannot be iterated over."""

    def items(self) -> Any:
        raise RuntimeError


def make(**fields: Any) -> Tool:
    return Tool(**{"name": "create_issue", "input_schema": SCHEMA, **fields})


def problems_of(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidToolError) as caught:
        make(**fields)
    return [(problem.path, problem.message) for problem in caught.value.problems]


def test_a_tool_has_every_field_of_the_contract() -> None:
    tool = make(
        title="Create issue",
        description="Open an issue.",
        output_schema={"type": "object"},
        annotations=ToolAnnotations(title="T", read_only_hint=False),
        icons=(Icon(src="https://x.test/i.png"),),
        meta={"x.test/a": 1},
        namespace="github",
        version="1.2.0",
        tags=("Issues",),
        backend=McpBackend(server_name="github"),
    )
    assert tool.name == "create_issue"
    assert tool.title == "Create issue"
    assert tool.description == "Open an issue."
    assert tool.input_schema == SCHEMA
    assert tool.output_schema == {"type": "object"}
    assert tool.annotations == ToolAnnotations(title="T", read_only_hint=False)
    assert tool.icons == (Icon(src="https://x.test/i.png"),)
    assert tool.meta == {"x.test/a": 1}
    assert tool.namespace == "github"
    assert tool.version == "1.2.0"
    assert tool.tags == ("issues",)
    assert tool.backend == McpBackend(server_name="github")
    assert str(tool.id) == "github:create_issue:1.2.0"


def test_only_a_name_and_an_input_schema_are_needed() -> None:
    tool = make()
    optional = (tool.title, tool.description, tool.output_schema, tool.annotations, tool.icons, tool.meta)
    assert set(optional) == {None}
    assert (tool.namespace, tool.version, tool.backend, tool.tags) == (None, None, None, ())
    assert tool.id == ToolId(None, "create_issue")


def test_a_tool_of_nothing_misses_both() -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool()  # type: ignore[call-arg]  # that is the point
    assert str(caught.value) == "invalid tool: /name: is required; /inputSchema: is required"


@pytest.mark.parametrize("field", ["name", "namespace"])
@pytest.mark.parametrize("value", ["a", "A-z_0.9", "x" * 128, ".", "1.0.0"], ids=lambda value: value[:8])
def test_a_name_may_have_1_to_128_plain_characters(field: str, value: str) -> None:
    assert getattr(make(**{field: value}), field) == value


@pytest.mark.parametrize("field", ["name", "namespace"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "'' must not be empty"),
        ("x" * 129, f"{'x' * 129!r} must have at most 128 characters, not 129"),
        ("create issue", f"'create issue' {ONLY} ' '"),
        ("créer", f"'créer' {ONLY} 'é'"),
        ("a:b", f"'a:b' {ONLY} ':'"),
        ("a/b/c:", f"'a/b/c:' {ONLY} '/', ':'"),
        ("a\n", f"'a\\n' {ONLY} '\\n'"),
        ("١", f"'١' {ONLY} '١'"),
        (5, "must be a string"),
        (True, "must be a string"),
        (["a"], "must be a string"),
    ],
    ids=lambda value: str(value)[:12] or "empty",
)
def test_any_other_name_is_refused(field: str, value: Any, message: str) -> None:
    assert problems_of(**{field: value}) == [(f"/{field}", message)]


@pytest.mark.parametrize("version", ["1.2.3", "v1.2.3", "1.2.3-rc.1+b5"])
def test_a_version_is_kept_as_written(version: str) -> None:
    assert make(version=version).version == version
    assert make(version=version).to_json()["version"] == version


def test_a_version_with_and_without_its_v_is_the_same_id() -> None:
    one, other = make(namespace="g", version="v1.2.3"), make(namespace="g", version="1.2.3")
    assert one.id == other.id
    assert str(one.id) == str(other.id) == "g:create_issue:1.2.3"
    assert hash(one) == hash(other)
    assert one != other


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1", "invalid version '1': it is partial; write '1.0.0'"),
        ("", "invalid version '': it is empty; write a version such as '1.2.3'"),
        ("01.2.3", "invalid version '01.2.3': '01' has a leading zero; write '1'"),
        (" 1.2.3", "invalid version ' 1.2.3': remove the spaces or line breaks around it"),
        (1, "must be a string"),
    ],
    ids=repr,
)
def test_malformed_version_is_refused(version: Any, message: str) -> None:
    assert problems_of(version=version) == [("/version", message)]


@pytest.mark.parametrize(
    "tags", [["B a", "c"], ("B a", "c"), iter(["B a", "c"])], ids=["list", "tuple", "iter"]
)
def test_tags_are_normalised(tags: Any) -> None:
    assert make(tags=tags).tags == ("b-a", "c")


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("abc", ("/tags", "must be an array")),
        ({"a": 1}, ("/tags", "must be an array")),
        (5, ("/tags", "must be an array")),
        (["a", 5], ("/tags/1", "must be a string")),
        (["a", None], ("/tags/1", "must be a string")),
    ],
    ids=["text", "dict", "number", "number in", "null in"],
)
def test_tags_of_the_wrong_type_are_refused(tags: Any, problem: tuple[str, str]) -> None:
    assert problems_of(tags=tags) == [problem]


@pytest.mark.parametrize("hint", ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
@pytest.mark.parametrize("value", [True, False])
def test_a_hint_is_true_or_false_and_false_is_said(hint: str, value: bool) -> None:
    tool = make(annotations={hint: value})
    assert tool.to_json()["annotations"] == {hint: value}


@pytest.mark.parametrize("hint", ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
@pytest.mark.parametrize("value", ["yes", 1, 0, "true", []], ids=repr)
def test_a_hint_of_another_type_is_refused_where_it_stands(hint: str, value: Any) -> None:
    assert problems_of(annotations={hint: value}) == [(f"/annotations/{hint}", "must be a boolean")]


def test_annotations_have_a_title_and_snake_case_names_in_python() -> None:
    annotations = ToolAnnotations(
        title="T", read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    assert annotations.to_json() == {
        "title": "T",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert ToolAnnotations.from_json(annotations.to_json()) == annotations
    assert problems_of(annotations={"title": 5}) == [("/annotations/title", "must be a string")]
    assert problems_of(annotations=[]) == [("/annotations", "must be an object")]


def test_icons_are_read_and_written_with_all_their_fields() -> None:
    icon = {"src": "data:,", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
    tool = make(icons=[icon, {"src": "x"}])
    assert tool.icons == (
        Icon(src="data:,", mime_type="image/png", sizes=("48x48", "any"), theme="dark"),
        Icon(src="x"),
    )
    assert tool.to_json()["icons"] == [icon, {"src": "x"}]


@pytest.mark.parametrize(
    ("icons", "problem"),
    [
        ([{"src": "a"}, {}], ("/icons/1/src", "is required")),
        ([{"src": 5}], ("/icons/0/src", "must be a string")),
        ([{"src": "a", "sizes": "48x48"}], ("/icons/0/sizes", "must be an array")),
        ([{"src": "a", "sizes": [48]}], ("/icons/0/sizes/0", "must be a string")),
        (["a"], ("/icons/0", "must be an object")),
        ({}, ("/icons", "must be an array")),
    ],
    ids=["no src", "src", "sizes", "size", "text", "object"],
)
def test_a_bad_icon_is_refused_where_it_stands(icons: Any, problem: tuple[str, str]) -> None:
    assert problems_of(icons=icons) == [problem]


@pytest.mark.parametrize("field", ["input_schema", "output_schema", "meta"])
@pytest.mark.parametrize("value", [True, [], "[]", 5, b"7"], ids=repr)
def test_a_schema_and_meta_are_objects(field: str, value: Any) -> None:
    (path, message), *others = problems_of(**{field: value})
    assert path == f"/{field}"
    assert message.startswith(("must be an object", "the value is a Python bytes")), message
    assert not others


@pytest.mark.parametrize("text", [json.dumps(SCHEMA), json.dumps(SCHEMA).encode()], ids=["text", "bytes"])
def test_a_schema_may_be_given_as_json_text(text: Any) -> None:
    tool = make(input_schema=text, output_schema=text)
    assert tool.input_schema == tool.output_schema == SCHEMA


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "the schema is not JSON: "),
        (bytearray(b"{}"), "must be an object, JSON text or bytes, not bytearray; use bytes(...)"),
        (ChainMap({}), "must be an object, JSON text or bytes, not ChainMap; use dict(...)"),
        ({1: {"type": "string"}}, "the value has a key that is a Python int"),
        ({_Colliding(): {"type": "string"}}, "the value has a key that is a Python _Colliding"),
        (_Unreadable(type="object"), "the value is a Python _Unreadable, which is not plain JSON"),
    ],
    ids=["malformed", "bytearray", "mapping", "key of another type", "key that compares badly", "unreadable"],
)
def test_a_schema_that_is_no_json_is_refused_with_the_reason(value: Any, message: str) -> None:
    [(path, found)] = problems_of(input_schema=value)
    assert path == "/input_schema"
    assert found.startswith(message)


def test_text_for_a_schema_that_came_over_the_wire_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="/inputSchema: must be an object"):
        Tool.from_json({"name": "add", "inputSchema": "{}"})


ARGUMENT_MAPS: list[dict[str, Any]] = [
    {"q": {"type": "string", "required": True}},
    {"title": {"type": "string"}, "items": {"type": "array"}},
    {"schemaVersion": "2025-10-09", "q": {"type": "string"}},
]
NO_ARGUMENT_MAPS: list[dict[str, Any]] = [
    {},
    {"items": {"type": "string"}},
    {"not": {"type": "string"}, "title": "Anything but text"},
    {"x-vendor": {"type": "string"}},
    {"properties": {"q": {"type": "string"}}},
    {"$defs": {"q": {"type": "string"}}, "$ref": "#/$defs/q"},
    {"anything": 1},
]


@pytest.mark.parametrize("schema", ARGUMENT_MAPS, ids=str)
def test_a_map_of_arguments_is_refused_as_a_json_schema(schema: dict[str, Any]) -> None:
    [(path, message)] = problems_of(input_schema=schema)
    assert path == "/input_schema"
    assert "ArgSchema" in message
    assert "parse_arg_schema" in message
    assert problems_of(input_schema=json.dumps(schema)) == [(path, message)]
    assert make(input_schema=parse_arg_schema(schema)).input_schema["properties"]


@pytest.mark.parametrize("schema", NO_ARGUMENT_MAPS, ids=str)
def test_a_schema_without_a_type_is_no_map_of_arguments(schema: dict[str, Any]) -> None:
    assert make(input_schema=schema).input_schema == schema


@pytest.mark.parametrize("schema", ARGUMENT_MAPS, ids=str)
def test_a_map_of_arguments_from_the_wire_is_kept_when_other_fields_are_replaced(
    schema: dict[str, Any],
) -> None:
    tool = Tool.from_json({"name": "add", "inputSchema": schema})
    assert tool.replace(namespace="math").input_schema == schema
    with pytest.raises(InvalidToolError, match="ArgSchema"):
        tool.replace(input_schema=schema)


def test_a_tool_is_read_from_the_object_of_the_mcp_sdk() -> None:
    theirs = mcp_types.Tool(
        name="add",
        input_schema={"type": "object", "default": None},
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
        _meta={"x": None},
    )
    tool = Tool.from_json(theirs)
    assert tool.to_json() == {
        "name": "add",
        "inputSchema": {"type": "object", "default": None},
        "annotations": {"readOnlyHint": True},
        "_meta": {"x": None},
    }
    assert Tool.from_json(tool) is tool


@pytest.mark.parametrize("kind", [Issue, Point, dict[str, int], Issue | None, list[Issue]], ids=str)
def test_a_schema_may_be_given_as_a_python_type(kind: Any) -> None:
    tool = make(input_schema=kind, output_schema=kind)
    assert isinstance(tool.input_schema, dict)
    assert tool.input_schema == tool.output_schema


def test_a_pydantic_model_gives_the_schema_of_its_fields() -> None:
    assert make(input_schema=Issue).input_schema["properties"] == {
        "title": {"title": "Title", "type": "string"}
    }
    assert make(input_schema=Issue).input_schema["required"] == ["title"]


def test_a_schema_may_be_given_as_a_light_argument_schema() -> None:
    light = parse_arg_schema({"q": {"type": "string", "required": True}})
    assert make(input_schema=light).input_schema == light.to_json_schema()


def test_a_type_without_a_schema_is_refused_together_with_the_rest() -> None:
    (name, schema) = problems_of(name="a b", input_schema=type(lambda: 1))
    assert name[0] == "/name"
    assert schema == (
        "/input_schema",
        "<class 'function'> has no JSON Schema: Unable to generate pydantic-core schema for <class 'function'>",
    )


def test_every_problem_is_reported_at_once_with_its_place() -> None:
    bad = {
        "name": "a b",
        "namespace": ":",
        "version": "1",
        "title": 5,
        "description": [],
        "outputSchema": {"default": float("nan")},
        "tags": [1],
        "annotations": {"readOnlyHint": "x", "title": 4},
        "icons": [{"src": "a"}, {}],
        "_meta": {"a/b": {"~": [0, {1}]}},
        "backend": {"kind": "mcp"},
        "unknown": {"deep": (1,)},
    }
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json(bad)
    assert {problem.path for problem in caught.value.problems} == {
        "/name",
        "/namespace",
        "/version",
        "/title",
        "/description",
        "/inputSchema",
        "/outputSchema/default",
        "/tags/0",
        "/annotations/readOnlyHint",
        "/annotations/title",
        "/icons/1/src",
        "/_meta/a~1b/~0/1",
        "/backend/serverName",
        "/unknown/deep",
    }
    assert caught.value.name == "a b"
    assert str(caught.value).startswith("invalid tool 'a b': /name: 'a b' may contain only")


def test_a_flood_of_problems_is_cut_to_32() -> None:
    assert len(problems_of(icons=[{}] * 10_000)) == 32


@pytest.mark.parametrize("field", ["name", "description", "tags", "input_schema", "unknown"])
def test_a_tool_does_not_change(field: str) -> None:
    tool = make(unknown=1)
    with pytest.raises(ValueError, match="frozen"):
        setattr(tool, field, "x")
    with pytest.raises(ValueError, match="frozen"):
        delattr(tool, field)
    rich = make(input_schema={"required": ["a"]}, meta={"a": {"b": [1]}}, unknown={"c": [2]})
    before = rich.to_json()
    rich.input_schema["required"].append("b")
    rich.input_schema.clear()
    rich.meta["a"]["b"].append(2)  # type: ignore[index]
    rich.model_extra["unknown"]["c"].clear()  # type: ignore[index]
    rich.model_extra["more"] = 1  # type: ignore[index]
    rich.unknown["c"].append(3)  # type: ignore[attr-defined]
    for name, value in rich:
        if name in {"input_schema", "meta", "unknown"}:
            value.clear()
    dict(rich)["meta"]["a"]["b"].append(4)
    given = {"type": "object"}
    changed = rich.model_copy(update={"input_schema": given})
    given["required"] = []  # type: ignore[assignment]
    assert changed.input_schema == {"type": "object"}
    assert rich.to_json() == before


def test_shared_json_is_the_json_form_without_copies() -> None:
    plain = make()
    rich = make(
        input_schema={"required": ["a"]},
        meta={"a": {"b": [1]}},
        unknown={"c": [2]},
        tags=["t"],
        icons=[{"src": "x"}],
    )
    assert (plain.shared_json(), rich.shared_json()) == (plain.to_json(), rich.to_json())
    assert rich.shared_json()["inputSchema"] is rich.shared("input_schema")
    assert rich.to_json()["inputSchema"] is not rich.shared("input_schema")


def test_tools_are_equal_when_every_field_is() -> None:
    assert make() == make()
    assert make(tags=["A"]) == make(tags=["a"])
    others: list[dict[str, Any]] = [
        {"description": "x"},
        {"tags": ["a"]},
        {"unknown": 1},
        {"annotations": {}},
        {"version": "1.0.0"},
    ]
    assert all(make() != make(**other) for other in others)


def test_a_tool_hashes_by_its_id() -> None:
    assert hash(make(description="a")) == hash(make(description="b"))
    assert len({make(), make(), make(description="b"), make(version="1.0.0")}) == 3


@pytest.mark.parametrize(
    "travel", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],  # noqa: S301 - ours
    ids=["copy", "deepcopy", "pickle"],
)  # fmt: skip
def test_a_tool_survives_a_journey(travel: Any) -> None:
    tool = make(unknown={"a": [1]}, annotations={"x": None}, backend=McpBackend(server_name="s"))
    assert travel(tool) == tool
    assert travel(tool).to_json() == tool.to_json()


def test_a_replaced_field_is_checked_like_a_new_one() -> None:
    first = Tool(name="add", input_schema={"type": "object"}, tags=["Math"], **{"x-cost": 3})
    second = first.replace(version="1.1.0", namespace="math")
    assert str(second.id) == "math:add:1.1.0"
    assert (second.tags, second.model_extra) == (("math",), {"x-cost": 3})
    assert first.version is None
    with pytest.raises(InvalidToolError, match="/name"):
        first.replace(name="not a name")


def test_a_field_given_under_both_its_names_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="/input_schema: is given under both its names"):
        Tool(name="add", input_schema={}, inputSchema={"x": 1})  # type: ignore[call-arg]


LIGHT = [
    ({"properties": {"tags": {"type": "string", "isArray": True}}}, "/properties/tags/isArray"),
    ({"type": "object", "properties": {"q": {"type": "string", "required": True}}}, "/properties/q/required"),
    ({"type": "object", "properties": {"q": {"required": False}}, "required": []}, "/properties/q/required"),
    ({"type": "object", "properties": {"price": {"type": "float"}}}, "/properties/price/type"),
    ({"properties": {"state": {"type": "enum", "enum": ["open"]}}}, "/properties/state/type"),
    (
        {"properties": {"prices": {"type": "array", "items": {"type": "float"}}}},
        "/properties/prices/items/type",
    ),
    ({"properties": {"o": {"properties": {"a": {"isArray": False}}}}}, "/properties/o/properties/a/isArray"),
    ({"type": "string", "isArray": True}, "/isArray"),
]
LIGHT_BELOW_KEYWORDS: list[tuple[dict[str, Any], str]] = [
    ({"$defs": {"a": {"isArray": True}}}, "/$defs/a/isArray"),
    ({"anyOf": [{"type": "object"}, {"type": "float"}]}, "/anyOf/1/type"),
    ({"properties": {"a": {"type": ["float", "null"]}}}, "/properties/a/type"),
    ({"additionalProperties": {"type": "float"}}, "/additionalProperties/type"),
    ({"patternProperties": {"^a": {"required": True}}}, "/patternProperties/^a/required"),
    *(
        ({word: {"properties": {"q": {"type": "float"}}}}, f"/{word}/properties/q/type")
        for word in (
            "additionalItems", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
            "unevaluatedItems", "unevaluatedProperties",
        )
    ),
    *(
        ({word: [{}, {"required": False}]}, f"/{word}/1/required")
        for word in ("allOf", "oneOf", "prefixItems", "items")
    ),
    *(
        ({word: {"a": {"isArray": True}}}, f"/{word}/a/isArray")
        for word in ("definitions", "dependencies", "dependentSchemas")
    ),
]  # fmt: skip
"""These are no argument schemas either."""
NOT_LIGHT: list[dict[str, Any]] = [
    {
        "properties": {"isArray": {"type": "boolean"}, "required": {"type": "boolean"}},
        "required": ["isArray"],
    },
    {"properties": {"q": {"default": {"isArray": True, "required": True, "type": "float"}}}},
    {"properties": {"q": {"enum": [{"type": "float"}], "examples": [{"required": True}]}}},
    {"properties": {"q": {"type": ["number", "null"], "x-required": True}}},
    {"type": "dict", "properties": {"price": {"type": "float"}}},
    {"$defs": {"float": {"type": "number"}}, "properties": {"q": {"$ref": "#/$defs/float"}}},
    {"dependencies": {"q": ["required", "float"]}, "dependentRequired": {"q": ["isArray"]}},
]


@pytest.mark.parametrize(("schema", "place"), [*LIGHT, *LIGHT_BELOW_KEYWORDS])
@pytest.mark.parametrize("field", ["input_schema", "output_schema"])
def test_a_light_schema_in_the_json_like_shape_is_refused(
    schema: dict[str, Any], place: str, field: str
) -> None:
    for given in (schema, json.dumps(schema)):
        with pytest.raises(
            InvalidToolError, match=rf"at {re.escape(place)}: pass parse_arg_schema\("
        ) as caught:
            make(**{field: given})
        assert "ArgSchema" in str(caught.value)
    with pytest.raises(InvalidToolError, match="ArgSchema"):
        make().replace(**{field: schema})


@pytest.mark.parametrize(("schema", "_place"), LIGHT[:-1], ids=[place for _, place in LIGHT[:-1]])
def test_a_light_schema_is_taken_as_an_argument_schema_and_kept_from_the_wire(
    schema: dict[str, Any], _place: str
) -> None:
    DefaultValidator().validate_input(make(input_schema=parse_arg_schema(schema)), {"q": "a", "price": 1.5})
    listed = Tool.from_json({"name": "a", "inputSchema": schema})
    assert listed.to_json()["inputSchema"] == schema
    assert listed.replace(version="1.0.0").input_schema == schema


@pytest.mark.parametrize("schema", NOT_LIGHT, ids=str)
def test_a_json_schema_that_only_resembles_a_light_one_is_taken(schema: dict[str, Any]) -> None:
    assert make(input_schema=schema).input_schema == schema

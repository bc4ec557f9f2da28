"""A tool as JSON: the round trip, refused documents, and no shared state."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidToolError
from toolcrib.model import Tool, ToolAnnotations

FULL = {
    "name": "create_issue",
    "title": "Create issue",
    "description": "Open an issue.",
    "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"title": "T", "readOnlyHint": False, "x-risk": {"level": None}},
    "icons": [{"src": "https://x.test/i.png", "mimeType": "image/png", "sizes": ["48x48"], "x-alt": None}],
    "_meta": {"x.test/a": [1, None, {"b": 2.5}]},
    "namespace": "github",
    "version": "v1.2.0",
    "tags": ["issues"],
    "backend": {"kind": "mcp", "serverName": "github"},
    "execution": {"taskSupport": "optional"},
    "x-null": None,
}

names = st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=3)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


annotations = st.fixed_dictionaries(
    {},
    optional={"title": st.text(), "readOnlyHint": st.booleans(), "openWorldHint": maybe(st.booleans())},
) | st.dictionaries(st.text().map("x-{}".format), values, max_size=2)
icons = st.fixed_dictionaries({"src": st.text()}, optional={"sizes": maybe(st.lists(st.text())), "x": values})
backends = st.builds(lambda name: {"kind": "mcp", "serverName": name}, names) | st.builds(
    lambda name: {"kind": "provider", "providerId": name, "toolId": name}, names
)
tools = st.fixed_dictionaries(
    {"name": names, "inputSchema": objects},
    optional={
        "title": maybe(st.text()),
        "description": maybe(st.text()),
        "outputSchema": maybe(objects),
        "annotations": maybe(annotations),
        "icons": maybe(st.lists(icons, max_size=2)),
        "_meta": maybe(objects),
        "namespace": maybe(names),
        "version": maybe(st.sampled_from(["1.2.3", "v1.2.3", "0.1.0-rc.1+b"])),
        "tags": maybe(st.lists(st.text(), max_size=3)),
        "backend": maybe(backends),
        "x-unknown": values,
        "meta": values,
        "input_schema": values,
    },
)


def test_a_full_tool_comes_back_as_it_went() -> None:
    assert Tool.from_json(FULL).to_json() == FULL


@pytest.mark.parametrize(
    "form", [json.dumps, lambda data: json.dumps(data).encode(), deepcopy], ids=["str", "bytes", "dict"]
)
def test_json_may_come_as_text_as_bytes_or_as_a_dict(form: Any) -> None:
    assert Tool.from_json(form(FULL)) == Tool.from_json(FULL)


def test_bytes_may_be_a_bytearray_and_text_may_be_any_language() -> None:
    text = json.dumps({"name": "a", "inputSchema": {}, "description": "Öffne ein 🎫"}, ensure_ascii=False)
    assert Tool.from_json(bytearray(text.encode())).description == "Öffne ein 🎫"


@given(tools)
def test_reading_what_was_written_gives_the_same_tool(data: dict[str, Any]) -> None:
    tool = Tool.from_json(data)
    assert Tool.from_json(tool.to_json()) == tool
    assert Tool.from_json(json.dumps(tool.to_json())) == tool
    assert Tool.from_json(json.dumps(tool.to_json()).encode()).to_json() == tool.to_json()


def test_every_real_tool_but_two_with_a_space_in_the_name_loads_and_comes_back(data: Path) -> None:
    refused = []
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        row = json.loads(line)
        del row["source"], row["server"]
        try:
            assert Tool.from_json(row).to_json() == row
        except InvalidToolError as error:
            refused.append((row["name"], [problem.path for problem in error.problems]))
    assert len(lines) == {"tests": 39, "shared": 1_163}[data.parent.name]
    assert len(refused) == 2
    assert all(" " in name and paths == ["/name"] for name, paths in refused)


def test_absent_fields_are_left_out() -> None:
    assert Tool(name="a", input_schema={}).to_json() == {"name": "a", "inputSchema": {}}


def test_known_fields_that_are_null_count_as_absent() -> None:
    nothing = dict.fromkeys(FULL.keys() - {"name", "inputSchema", "execution", "x-null"})
    annotated = {"annotations": {"title": None, "readOnlyHint": None}, "icons": [{"src": "a", "sizes": None}]}
    assert Tool.from_json({"name": "a", "inputSchema": {}, **nothing}) == Tool(name="a", input_schema={})
    assert Tool.from_json({"name": "a", "inputSchema": {}, **annotated}).to_json() == {
        "name": "a",
        "inputSchema": {},
        "annotations": {},
        "icons": [{"src": "a"}],
    }


@pytest.mark.parametrize("field", ["name", "inputSchema"])
def test_a_required_field_that_is_null_is_refused(field: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json({"name": "a", "inputSchema": {}, field: None})
    assert [problem.path for problem in caught.value.problems] == [f"/{field}"]


@pytest.mark.parametrize(
    "unknown",
    [
        {"meta": {"a": 1}},
        {"meta": "text"},
        {"input_schema": {"a": 1}},
        {"output_schema": None},
        {"id": "x", "to_json": 1, "model_extra": 2, "model_fields": 3, "self": 4, "copy": None},
        {"__class__": 1, "__dict__": {}, "_private": [], "": 0, "a/b": 1},
    ],
    ids=["meta", "meta text", "input_schema", "null", "attributes", "dunders"],
)
def test_unknown_fields_survive_and_become_nothing_else(unknown: dict[str, Any]) -> None:
    tool = Tool.from_json({"name": "a", "inputSchema": {"b": 1}, **unknown})
    assert tool.to_json() == {"name": "a", "inputSchema": {"b": 1}, **unknown}
    assert tool.meta is None
    assert tool.output_schema is None
    assert tool.input_schema == {"b": 1}
    assert str(tool.id) == "a"


def test_a_name_of_python_in_json_does_not_fill_the_field() -> None:
    with pytest.raises(InvalidToolError, match="/inputSchema: is required"):
        Tool.from_json({"name": "a", "input_schema": {}})
    tool = Tool.from_json({"name": "a", "inputSchema": {}, "annotations": {"read_only_hint": True}})
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is None
    assert tool.to_json()["annotations"] == {"read_only_hint": True}


def test_a_dict_that_changes_afterwards_does_not_change_the_tool() -> None:
    for make in (Tool.from_json, lambda data: Tool(**data)):
        data = deepcopy(FULL)
        tool = make(data)
        spoil(data)
        assert tool.to_json() == FULL


def test_json_that_changes_afterwards_does_not_change_the_tool() -> None:
    tool = Tool.from_json(FULL)
    spoil(tool.to_json())
    assert tool.to_json() == FULL


def test_annotations_that_were_made_first_share_nothing_either() -> None:
    risks = [1]
    annotations = ToolAnnotations(**{"x-risks": risks})
    tool = Tool(name="a", input_schema={}, annotations=annotations)
    risks.append(2)
    assert tool.to_json()["annotations"] == {"x-risks": [1]}


def spoil(value: Any) -> None:
    """Change every container inside a JSON value."""
    for member in list(value.values() if isinstance(value, dict) else value):
        if isinstance(member, dict | list):
            spoil(member)
    if isinstance(value, dict):
        value["spoilt"] = True
    else:
        value.append("spoilt")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "it is not JSON: Expecting value"),
        ("{", "it is not JSON: Expecting property name"),
        ('{"name": "a"} x', "it is not JSON: Extra data"),
        (b"\xff\xfe\xfa", "it is not JSON: "),
        (b"\xc3\x28", "it is not JSON: "),
        ('{"name": "a", "inputSchema": {"default": NaN}}', "it is not JSON: NaN is not a JSON number"),
        ('{"name": "a", "inputSchema": {"default": -Infinity}}', "it is not JSON: -Infinity is not a JSON number"),
        ('{"name": "a", "inputSchema": {"default": 1' + "0" * 5_000 + "}}", "it is not JSON: "),
        ("[" * 100_000 + "]" * 100_000, "it is not JSON: it is nested too deep"),
        ('{"inputSchema":' * 100_000 + "{}" + "}" * 100_000, "it is not JSON: it is nested too deep"),
        ("[]", "it must be a JSON object, not list"),
        ('"a"', "it must be a JSON object, not str"),
        ("null", "it must be a JSON object, not NoneType"),
        (None, "it must be a JSON object, not NoneType"),
        (5, "it must be a JSON object, not int"),
        ([("name", "a")], "it must be a JSON object, not list"),
    ],
    ids=[
        "empty", "cut", "more", "utf-16", "utf-8", "NaN", "infinity", "long", "deep array", "deep object", "array",
        "string", "null", "None", "int", "pairs",
    ],
)  # fmt: skip
def test_from_json_refuses_anything_but_an_object(source: Any, message: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json(source)
    (problem,) = caught.value.problems
    assert problem.path == ""
    assert problem.message.startswith(message)
    assert len(str(caught.value)) < 700


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def ring() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


def twins() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["left"] = value["right"] = value
    return value


PLACES = {
    "inputSchema": "/inputSchema",
    "outputSchema": "/outputSchema",
    "_meta": "/_meta",
    "x-unknown": "/x-unknown",
    "annotations": "/annotations/x",
    "icons": "/icons/0/x",
}


def at(place: str, value: Any) -> dict[str, Any]:
    held = {"annotations": {"x": value}, "icons": [{"src": "a", "x": value}]}.get(place, value)
    return {"name": "a", "inputSchema": {}, place: held}


@pytest.mark.attack
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("hostile", "inside", "message"),
    [
        (lambda: nested(100_000), "", "the value is nested more than 256 levels deep; send a smaller one"),
        (ring, "", "the value is nested more than 256 levels deep; send a smaller one"),
        (twins, "", "the value holds more than 500,000 values; send a smaller one"),
        (lambda: {"a": [0, float("nan")]}, "/a/1", "the value is nan, which is not a JSON number"),
        (lambda: {"a": {"b": {1}}}, "/a/b", "the value is a Python set, which is not plain JSON"),
        (lambda: {"a": b"x"}, "/a", "the value is a Python bytes, which is not plain JSON"),
        (
            lambda: {"a": {1: 2}},
            "/a",
            "the value has a key that is a Python int, and JSON keys are plain strings",
        ),
        (lambda: {"a": "\ud800"}, "/a", "the value holds a lone surrogate, which no JSON text can carry"),
    ],
    ids=["deep", "ring", "twins", "nan", "set", "bytes", "key", "surrogate"],
)
def test_non_json_value_is_refused_at_any_place(place: str, hostile: Any, inside: str, message: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json(at(place, hostile()))
    (problem,) = caught.value.problems
    assert (problem.path, problem.message) == (PLACES[place] + inside, message)


@pytest.mark.parametrize(
    "field", ["name", "title", "description", "namespace", "version", "tags", "icons", "backend"]
)
@pytest.mark.parametrize(
    "hostile", [lambda: nested(100_000), ring, lambda: [ring()]], ids=["deep", "ring", "list"]
)
def test_a_hostile_value_in_a_plain_field_is_refused(field: str, hostile: Any) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool.from_json({"name": "a", "inputSchema": {}, field: hostile()})
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("field", ["title", "description"])
def test_text_that_no_json_can_carry_is_refused(field: str) -> None:
    with pytest.raises(InvalidToolError, match=f"/{field}: the value holds a lone surrogate"):
        Tool.from_json(f'{{"name": "a", "inputSchema": {{}}, "{field}": "\\ud800"}}')


@pytest.mark.parametrize("key", [1, None, ("a",)], ids=repr)
def test_a_key_that_is_no_string_is_refused(key: Any) -> None:
    with pytest.raises(InvalidToolError, match="has a key that is not a string"):
        Tool.from_json({"name": "a", "inputSchema": {}, key: 1})


def test_the_deepest_tool_can_still_be_compared_printed_and_written() -> None:
    deepest = at("_meta", nested(256))
    tool = Tool.from_json(json.dumps(deepest))
    assert tool == Tool.from_json(deepest)
    assert tool.to_json() == deepest
    assert json.loads(json.dumps(tool.to_json())) == deepest
    assert deepcopy(tool) == tool
    assert repr(tool) == "<Tool a>"

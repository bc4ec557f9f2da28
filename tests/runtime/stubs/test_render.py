"""Schemas rendered as Python types."""

import ast
import gc
from typing import Any
from weakref import ref

import pytest

from toolcrib.model import Tool, ToolAnnotations
from toolcrib.model.tokens import estimate_tokens
from toolcrib.runtime.stubs import GUEST, StubCache, render


def tool(
    properties: dict[str, Any] | None = None, output: Any = None, /, name: str = "go", **more: Any
) -> Tool:
    schema = {"type": "object", "properties": properties or {}, **more.pop("schema", {})}
    return Tool(name=name, input_schema=schema, output_schema=output, **more)


def kind(schema: Any, **more: Any) -> str:
    """Return the type that an argument of a schema has, from the stub."""
    text = render([Tool(name="go", input_schema={"properties": {"x": schema}, "required": ["x"], **more})])
    function = next(node for node in ast.parse(text).body if isinstance(node, ast.AsyncFunctionDef))
    assert function.args.args[0].annotation is not None
    return ast.unparse(function.args.args[0].annotation)


KINDS: list[tuple[Any, str]] = [
    (True, "Any"),
    (False, "Any"),
    ({}, "Any"),
    ({"type": "string"}, "str"),
    ({"type": "integer"}, "int"),
    ({"type": "number"}, "float"),
    ({"type": "boolean"}, "bool"),
    ({"type": "null"}, "None"),
    ({"type": "mystery"}, "Any"),
    ({"type": 5}, "Any"),
    ({"type": ["string", "null"]}, "str | None"),
    ({"type": ["null", "integer", "string"]}, "int | str | None"),
    ({"type": "string", "nullable": True}, "str | None"),
    ({"type": "array"}, "list[Any]"),
    ({"type": "array", "items": {"type": "string"}}, "list[str]"),
    ({"items": {"type": "integer"}}, "list[int]"),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list[str | int]"),
    ({"type": "array", "items": []}, "list[Any]"),
    ({"type": "object"}, "dict[str, Any]"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
    ({"type": "object", "patternProperties": {"^x": {}}}, "dict[str, Any]"),
    ({"required": ["a"]}, "dict[str, Any]"),
    ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
    ({"enum": [1, True, None]}, "Literal[1, True] | None"),
    ({"enum": [None]}, "None"),
    ({"enum": [1.5, 2.5]}, "float"),
    ({"enum": ["a", [1]]}, "Any"),
    ({"enum": []}, "Any"),
    ({"enum": [str(n) for n in range(100)]}, "str"),
    ({"enum": ["x" * 200]}, "str"),
    ({"const": "a"}, "Literal['a']"),
    ({"const": {"a": 1}}, "Any"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
    ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "str | list[str]"),
    ({"anyOf": [{"type": "string"}, {}]}, "Any"),
    ({"anyOf": [{"type": "integer"}] * 30}, "Any"),
    ({"type": "string", "anyOf": [{"format": "date"}, {"minLength": 3}]}, "str"),
    ({"allOf": [{"type": "string"}]}, "str"),
    ({"allOf": [{"minLength": 1}, {"type": "string"}]}, "str"),
    ({"allOf": [{"minLength": 1}, {"maxLength": 3}]}, "Any"),
    ({"$ref": "#/$defs/none"}, "Any"),
    ({"$ref": "https://example.org/x"}, "Any"),
    ({"$ref": "#/properties/x"}, "Any"),
    ({"not": {"type": "string"}}, "Any"),
]


@pytest.mark.parametrize(("schema", "expected"), KINDS, ids=[str(schema)[:60] for schema, _ in KINDS])
def test_schema_is_rendered_as_a_type(schema: Any, expected: str) -> None:
    assert kind(schema) == expected


def test_objects_become_typed_dicts() -> None:
    issue = {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "minimum": 1},
            "title": {"type": "string", "description": "What it is about"},
        },
        "required": ["number"],
    }
    assert render(
        [
            tool(
                {"limit": {"type": "integer", "default": 10}},
                {"type": "array", "items": issue},
                name="list",
                namespace="github",
            )
        ]
    ) == (
        "from typing import NotRequired, TypedDict\n\n"
        "class ListResult(TypedDict):\n"
        "    number: int  # >= 1\n"
        "    title: NotRequired[str]  # What it is about\n\n"
        "class _Github:\n"
        "    async def list(self, limit: int = 10) -> _list[ListResult]: ...\n\n"
        "github: _Github\n\n"
        "_list = list\n"
    )


def test_recursive_types_have_a_name() -> None:
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    }
    text = render([tool({}, {"$ref": "#/$defs/Node", "$defs": {"Node": node}})])
    assert "class Node(TypedDict, total=False):\n    children: list[Node]\n" in text
    assert "-> Node: ..." in text


def test_all_of_is_merged_into_one_object() -> None:
    both = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"$ref": "#/$defs/B"},
        ]
    }
    text = render(
        [tool({}, {**both, "$defs": {"B": {"type": "object", "properties": {"b": {"type": "integer"}}}}})]
    )
    assert "class GoResult(TypedDict):\n    a: str\n    b: NotRequired[int]\n" in text


def test_keys_that_are_no_identifiers_are_strings() -> None:
    odd = {
        "type": "object",
        "properties": {"If-Match": {"type": "string"}, "list": {"type": "integer"}},
        "additionalProperties": True,
    }
    assert (
        'GoResult = TypedDict("GoResult", {  # Other keys may be there.\n    "If-Match": str,\n    "list": int,\n}, total=False)'
        in render([tool({}, odd)])
    )


def test_arguments_that_are_no_identifiers_are_in_the_docstring() -> None:
    text = render(
        [
            tool(
                {"a": {"type": "string"}, "x-y": {"type": "integer"}, "self": {}, "others": {}},
                schema={"required": ["x-y"]},
            )
        ]
    )
    assert "async def go(a: str = ..., others: Any = ..., **others_: Any) -> Any:\n" in text
    assert "others: 'x-y' (int, required), 'self' (Any)" in text


def test_tool_without_a_schema_takes_anything() -> None:
    assert "async def go(**others: Any) -> Any: ..." in render(
        [Tool(name="go", input_schema={"type": "object"})]
    )
    assert "async def go() -> Any: ..." in render([tool({})])


def test_defaults_are_shown_if_they_have_the_type() -> None:
    properties = {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "integer", "default": "3"},
        "c": {"enum": ["p", "q"], "default": "q"},
        "d": {"type": "array", "default": [1, 2]},
        "e": {"type": ["string", "null"], "default": None},
        "f": {"type": "number", "default": 1},
        "g": {"default": True},
    }
    text = render([tool(properties)])
    assert (
        'a: str = "x", b: int = ..., c: Literal["p", "q"] = "q", d: list[Any] = ..., e: str | None = None, f: float = 1, g: Any = True'
        in text
    )
    assert "d: default [1, 2]" in text


def test_docstring_has_description_arguments_and_hints() -> None:
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    properties = {
        "n": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many"},
        "s": {
            "type": "string",
            "minLength": 2,
            "maxLength": 4,
            "pattern": "^a",
            "format": "date",
            "deprecated": True,
        },
        "l": {"type": "array", "maxItems": 3},
    }
    text = render(
        [
            tool(
                properties,
                description="Find\nthings.\n\nAnd more.",
                annotations=hints,
                meta={"deprecated": True},
            )
        ]
    )
    assert text.splitlines()[3:] == [
        '    """Find things.',
        "    n: How many; 1..5",
        "    s: date; 2..4 characters; matches ^a; deprecated",
        "    l: <= 3 items",
        "    read-only, idempotent, deprecated",
        '    """',
    ]


def test_equal_objects_are_declared_once() -> None:
    user = {
        "type": "object",
        "properties": {"user": {"type": "object", "properties": {"login": {"type": "string"}}}},
    }
    text = render([tool({}, user, name="a"), tool({}, user, name="b")])
    assert text.count("class User(") == 1


def test_different_objects_with_one_name_get_numbers() -> None:
    first, second = (
        {"type": "object", "properties": {"user": {"type": "object", "properties": {key: {}}}}}
        for key in "ab"
    )
    text = render([tool({}, first, name="p"), tool({}, second, name="q"), tool({}, first, name="r")])
    assert "class User(" in text
    assert "class QResultUser(" in text


def test_given_paths_and_empty_namespaces_are_rendered() -> None:
    text = render({"x.y": tool({})}, names=["x", "z"])
    assert "    async def y(self) -> Any: ..." in text
    assert "x: _X\n" in text
    assert "z: Any\n" in text


def test_no_tools_render_no_text() -> None:
    assert render([]) == "\n"


def test_smaller_budget_omits_more_and_names_it() -> None:
    nested = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b": {"type": "string", "description": "deep"}}}
        },
    }
    tools = [
        tool(
            {"x": {"type": "string", "description": "An argument that is described"}},
            nested,
            name=f"tool_{n}",
            namespace="many",
            description="Does something that takes a few words to say.",
        )
        for n in range(20)
    ]
    seen = []
    for budget in range(estimate_tokens(render(tools), sampled=False), 0, -5):
        text = render(tools, budget=budget)
        ast.parse(text)
        assert estimate_tokens(text, sampled=False) <= max(budget, 13)
        last = text.splitlines()[-1]
        if last not in seen:
            seen.append(last)
    assert seen == [
        "many: _Many",
        "# left out: what arguments and fields mean",
        "# left out: what arguments mean and what objects hold",
        "# left out: descriptions, and what objects hold",
        "# left out: signatures",
    ]
    assert render(tools, budget=30).startswith("# tools: many.tool_0, many.tool_1")
    assert render(tools, budget=30).splitlines()[0].endswith(" more")
    assert render(tools, budget=0) == "# tools: 20 more\n# left out: signatures\n"


def test_stubs_do_not_depend_on_the_order_of_tools() -> None:
    tools = [
        tool({}, {"type": "object", "properties": {"x": {"type": n}}}, name=f"t{i}")
        for i, n in enumerate(["string", "integer", "null"])
    ]
    assert render(tools) == render(tools[::-1])


def test_stub_of_the_guest_functions_is_python() -> None:
    names = {node.name for node in ast.parse(GUEST).body if isinstance(node, ast.AsyncFunctionDef)}
    assert names == {"search_tools", "describe_tool", "run_tool", "run_chain"}


def test_object_with_many_keys_is_abbreviated() -> None:
    many = {"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(3_000)}}
    text = render([Tool(name="t", input_schema={"type": "object", "properties": {"x": many}})])
    assert "x: dict[str, Any] = ..." in text
    assert "x: has 3,000 keys" in text


def test_many_arguments_are_listed_in_part_and_counted() -> None:
    text = render([tool({f"k{n}": {} for n in range(3_000)})])
    assert "'k119' (Any), and 2,880 more" in text


def test_referenced_object_of_several_tools_is_declared_once() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    given = {"type": "object", "properties": {"at": {"$ref": "#/$defs/P"}}, "$defs": {"P": point}}
    other = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {**point, "title": "Q"}},
    }
    text = render(
        [
            Tool(name=name, input_schema=schema)
            for name, schema in zip("abc", (given, given, other), strict=True)
        ]
    )
    assert text.count("(TypedDict") == 2


def tool_of(*names: str) -> Tool:
    return Tool(name="add", namespace="math", input_schema={"properties": {name: {} for name in names}})


@pytest.mark.anyio
async def test_stub_cache_renders_again_when_a_tool_is_replaced() -> None:
    cache = StubCache()
    first = await cache.render({"math.add": tool_of("a", "b")}, ["math"])
    assert "a: Any = ..., b: Any = ..." in first
    # equal as JSON, with another order of positional arguments
    assert "b: Any = ..., a: Any = ..." in await cache.render({"math.add": tool_of("b", "a")}, ["math"])


@pytest.mark.anyio
async def test_stub_cache_keeps_the_stubs_of_the_same_tools() -> None:
    cache, tool = StubCache(), tool_of("a")
    first = await cache.render({"math.add": tool}, ["math"])
    assert await cache.render({"math.add": tool}, ["math"]) is first
    assert await cache.render({"math.add": tool}, ["math", "other"]) != first


@pytest.mark.anyio
async def test_stub_cache_does_not_keep_removed_tools_alive() -> None:
    cache, tool = StubCache(), tool_of("a")
    await cache.render({"math.add": tool}, ["math"])
    removed = ref(tool)
    del tool
    gc.collect()
    assert removed() is None

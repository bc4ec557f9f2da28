"""The stub is valid and short Python for every schema and description."""

import ast
from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.model import Tool
from toolcrib.runtime.stubs import render

TEXTS = [
    '"""',
    "'''",
    '"',
    "\\",
    '\\"""',
    'x"""\nimport os\n"""',
    "# x\ny = 1",
    "a\x00b\x1b[31m",
    "\u202e\u2028",
    "x" * 100_000,
    '"' * 50,
    "\\" * 51,
    "\r\nx = 1",
]

KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "$ref",
        "$defs",
        "required",
        "default",
        "additionalProperties",
        "prefixItems",
        "description",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "nullable",
        "patternProperties",
        "x",
    ]
)
SCHEMAS: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["string", "object", "array", "#", "#/$defs/x", "#/properties/x", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.parametrize("text", TEXTS, ids=[repr(text[:12]) for text in TEXTS])
def test_hostile_text_stays_in_its_docstring_or_literal(text: str) -> None:
    field = {
        "type": "string",
        "description": text,
        "format": text,
        "pattern": text,
        "default": text,
        "enum": [text, "other"],
    }
    schema = {
        "type": "object",
        "properties": {"a": field, text: field, "b": {"type": "array", "default": [text]}},
        "required": [text],
        "additionalProperties": True,
    }
    body = ast.parse(
        render(
            [
                Tool(
                    name="go",
                    namespace="ns",
                    description=text,
                    title=text,
                    input_schema=schema,
                    output_schema=schema,
                )
            ]
        )
    ).body
    assert {type(node) for node in body} <= {ast.ImportFrom, ast.ClassDef, ast.AnnAssign, ast.Assign}
    assert all(
        node.value.func.id == "TypedDict"
        for node in body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    )
    space = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == "_Ns")
    assert [type(node) for node in space.body] == [ast.AsyncFunctionDef]


@given(SCHEMAS, SCHEMAS, st.text(max_size=30))
def test_any_schema_renders_valid_python(given_in: Any, given_out: Any, text: str) -> None:
    schema = given_in if isinstance(given_in, dict) else {"properties": given_in}
    output = given_out if isinstance(given_out, dict) else None
    tool = Tool.from_valid(
        name="go", description=text, input_schema=schema, output_schema=output, namespace="list"
    )
    for budget in (None, 60, 20):
        ast.parse(render([tool], budget=budget))


def _bombs() -> dict[str, Any]:
    doubling = {
        f"d{n}": {
            "anyOf": [
                {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}},
                {"$ref": f"#/$defs/d{n + 1}"},
            ]
        }
        for n in range(60)
    }
    objects = {
        f"o{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/o{n + 1}"} for k in "abcdefgh"}}
        for n in range(300)
    }
    merged = {f"m{n}": {"allOf": [{"$ref": f"#/$defs/m{n + 1}"}] * 20} for n in range(60)}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"x": {"type": "array", "items": deep}}}
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    return {
        "doubling references": {"$ref": "#/$defs/d0", "$defs": doubling},
        "objects of objects": {"$ref": "#/$defs/o0", "$defs": objects},
        "parts of parts": {"$ref": "#/$defs/m0", "$defs": merged},
        "a deep one": deep,
        "references in a circle": {"$ref": "#/$defs/a", "$defs": loop},
        "itself": {
            "type": "object",
            "properties": {"x": {"$ref": "#"}, "y": {"type": "array", "items": {"$ref": "#"}}},
        },
        "many properties": {
            "type": "object",
            "properties": {f"p{n}": {"type": "object", "properties": {"x": {}}} for n in range(20_000)},
            "required": [f"p{n}" for n in range(20_000)],
        },
        "many values": {"enum": [f"v{n}" for n in range(50_000)]},
        "many alternatives": {
            "anyOf": [{"type": "object", "properties": {f"k{n}": {}}} for n in range(5_000)]
        },
        "long names": {"type": "object", "properties": {"x" * 50_000: {"type": "string"}}},
        "long reference": {"$ref": "#/" + "a/" * 50_000},
    }


@pytest.mark.attack
@pytest.mark.parametrize("name", _bombs())
def test_exponential_schema_is_rendered_in_limited_work(name: str) -> None:
    schema = _bombs()[name]
    inner = {
        "type": "object",
        "properties": {"arg": schema},
        **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
    }
    tools = [
        Tool(name="in", input_schema=inner),
        Tool(name="top", input_schema=schema),
        Tool(name="out", input_schema={}, output_schema=schema),
    ]
    with at_most(3.0):
        text = render(tools)
    assert len(text) < 250_000
    ast.parse(text)

"""Renders the Python signature of a tool: its parameters in order, its result, and a docstring."""

from collections.abc import Collection
from keyword import iskeyword
from typing import Any
from unicodedata import normalize

from toolcrib.model import Tool
from toolcrib.model.schema.references import LocalReferences
from toolcrib.runtime.stubs.naming import camel
from toolcrib.runtime.stubs.schema import Fields, fields_of
from toolcrib.runtime.stubs.text import docstring, literal, one_line, paragraph
from toolcrib.runtime.stubs.types import TypeReader, Types, describe_facts

_MAX_PARAMETERS = 100
_MAX_NAME = 64
_MAX_SUMMARY = 400
_MAX_NOTE = 120
_MAX_OTHERS = 20
_HINTS = (
    ("read_only_hint", "read-only"),
    ("destructive_hint", "destructive"),
    ("idempotent_hint", "idempotent"),
    ("open_world_hint", "open world"),
)


def parameters(tool: Tool) -> tuple[str, ...]:
    """Return the arguments of a tool in the order of positional arguments.

    >>> schema = {"properties": {"body": {}, "title": {}, "x-y": {}}, "required": ["title"]}
    >>> parameters(Tool(name="t", input_schema=schema))
    ('title', 'body')
    """
    schema = tool.shared("input_schema")
    return _order_parameters(fields_of(schema, LocalReferences(schema)))


def _order_parameters(fields: Fields) -> tuple[str, ...]:
    required = set(fields.required)
    first = [name for name in fields.properties if name in required]
    later = [name for name in fields.properties if name not in required]
    named = dict.fromkeys([*first, *fields.required, *later])
    return tuple(name for name in named if _can_be_named(name))[:_MAX_PARAMETERS]


def _can_be_named(name: str) -> bool:
    """Return whether a name can be a parameter: `self` is taken, and `__x` would be mangled."""
    if len(name) > _MAX_NAME or not name.isidentifier() or iskeyword(name):
        return False
    return name != "self" and not name.startswith("__") and normalize("NFKC", name) == name


def render_signature(path: str, tool: Tool, types: Types, *, shadowed: Collection[str] = ()) -> str:
    """Render a tool as a function, or as a method if its path has a dot; adds its types to `types`."""
    space, _, name = path.rpartition(".")
    schema = tool.shared("input_schema")
    fields = fields_of(schema, LocalReferences(schema))
    reader = TypeReader(types, schema, camel(name), shadowed=shadowed)
    order = _order_parameters(fields)
    written = ["self"] * bool(space) + [_render_parameter(key, fields, reader) for key in order]
    others = [key for key in dict.fromkeys([*fields.properties, *fields.required]) if key not in set(order)]
    if others or fields.open or not fields.known:
        written.append(f"**{_name_rest(order)}: {reader.builtin('Any')}")
    result = _render_result(tool, types, name, shadowed)
    indent = "    " * bool(space)
    docs = _list_doc_lines(tool, fields, order, others, reader)
    reader.render_objects()
    head = f"{indent}async def {name}({', '.join(written)}) -> {result}:"
    doc = docstring(docs, f"{indent}    ")
    return f"{head}\n{doc}" if doc else f"{head} ..."


def _name_rest(order: tuple[str, ...]) -> str:
    name = "others"
    while name in order:
        name += "_"
    return name


def _render_parameter(key: str, fields: Fields, reader: TypeReader) -> str:
    schema = fields.properties.get(key, True)
    kind = reader.read_type(schema, camel(key))
    if key in fields.required:
        return f"{key}: {kind}"
    return f"{key}: {kind} = {_render_default(schema, kind, reader)}"


def _render_default(schema: Any, kind: str, reader: TypeReader) -> str:
    """Render the default of an argument; `...` if it is not a literal of the argument's type."""
    if not isinstance(schema, dict) or "default" not in schema:
        return "..."
    value = schema["default"]
    written = literal(value)
    fits = {str: ("str",), bool: ("bool",), int: ("int", "float"), float: ("float",), type(None): ("None",)}
    words = [reader.builtin(name) for name in (*fits.get(type(value), ()), "Any")]
    if written is None or written in {"inf", "-inf", "nan"}:
        return "..."
    listed = schema.get("enum")
    if any(word in kind.split(" | ") for word in words) or (isinstance(listed, list) and value in listed):
        return written
    return "..."


def _render_result(tool: Tool, types: Types, name: str, shadowed: Collection[str]) -> str:
    schema = tool.shared("output_schema")
    reader = TypeReader(types, schema, f"{camel(name)}Result", shadowed=shadowed)
    if schema is None:
        return reader.builtin("Any")
    kind = reader.read_type(schema, f"{camel(name)}Result")
    reader.render_objects()
    return kind


def _list_doc_lines(
    tool: Tool, fields: Fields, order: tuple[str, ...], others: list[str], reader: TypeReader
) -> list[str]:
    detail = reader.detail
    parts = [paragraph(tool.description or tool.title, _MAX_SUMMARY)] if detail.summary else []
    if detail.docs:
        parts += [_describe_argument(key, fields.properties.get(key)) for key in order]
    if others:
        more = [f"and {len(others) - _MAX_OTHERS:,} more"] * (len(others) > _MAX_OTHERS)
        listed = [_describe_other(key, fields, reader) for key in others[:_MAX_OTHERS]]
        parts.append("others: " + ", ".join(listed + more))
    if detail.docs:
        parts.append(", ".join(_list_hints(tool)))
    return parts


def _describe_argument(key: str, schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    default = schema.get("default")
    shown = f"default {one_line(repr(default), 40)}" if isinstance(default, list | dict) and default else ""
    parts = [one_line(schema.get("description"), _MAX_NOTE), *describe_facts(schema), shown]
    text = "; ".join(part for part in parts if part)
    return f"{key}: {text}" if text else ""


def _describe_other(key: str, fields: Fields, reader: TypeReader) -> str:
    kind = reader.read_type(fields.properties.get(key, True), camel(key))
    needed = ", required" if key in fields.required else ""
    return f"{one_line(repr(key), _MAX_NAME)} ({kind}{needed})"


def _list_hints(tool: Tool) -> list[str]:
    annotations = tool.annotations
    parts = [word for hint, word in _HINTS if annotations is not None and getattr(annotations, hint) is True]
    places = (tool.meta or {}, tool.model_extra or {}, annotations.model_extra or {} if annotations else {})
    return parts + ["deprecated"] * any(place.get("deprecated") is True for place in places)

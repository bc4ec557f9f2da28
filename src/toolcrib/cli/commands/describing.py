"""The verb that explains a tool: `describe`."""

import json
import shlex
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.completing import tool_ids
from toolcrib.cli.naming import resolve_ids
from toolcrib.cli.screen import clean, heading, note, show_json, show_table, waiting
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.discovery import DetailName
    from toolcrib.model import Tool, ToolDoc

_HINTS = {
    "read_only_hint": ("only reads", "changes something"),
    "destructive_hint": ("may destroy something", "destroys nothing"),
    "idempotent_hint": ("repeating it has no further effect", "repeating it repeats its effects"),
    "open_world_hint": ("accesses the outside world", "stays within its own data"),
}
"""The meaning of each hint."""
_MAX_DEPTH = 3
_MAX_ROWS = 40
"""So many rows of the parameters are shown, and as many levels as `_MAX_DEPTH`."""
_INDENT = "  "


@click.command()
@click.argument("tool_id", metavar="ID", shell_complete=tool_ids)
@click.option(
    "--level",
    type=click.Choice(["summary", "schema", "full"]),
    default="full",
    show_default=True,
    help="The level of detail: the tool's purpose, how to call it, or everything.",
)
@shared
@click.pass_obj
def describe(state: State, tool_id: str, level: "DetailName") -> None:
    """Show the documentation of a tool.

    ID is namespace:name or namespace:name:version, whose version may be a range, such as ^1.2; the name
    alone is enough if only one tool has it.

    Example: toolcrib describe github:create_issue
    """

    async def work() -> None:
        async with state.visible_view() as view:
            with waiting("asking the servers"):
                (meant_id,) = await resolve_ids(view, [tool_id])
                doc = await view.describe(meant_id, level)
            if state.json:
                show_json(doc.to_json())
            else:
                _show(meant_id, doc)

    wait_for(work)


def _show(tool_id: str, doc: "ToolDoc") -> None:
    tool = doc.tool
    heading(str(tool.id) if tool else tool_id)
    for warning in doc.warnings:
        note(clean(warning))
    click.echo(clean((tool.description if tool else None) or doc.summary))
    if tool is not None:
        click.echo(f"\n{_signature(tool)}")
        _show_parameters(tool)
    _show_hints(doc)
    if doc.notes:
        heading("Notes", before=1)
        click.echo(clean(doc.notes))
    _show_examples(str(tool.id) if tool else tool_id, doc)
    if doc.when_to_use:
        heading("When to use it", before=1)
        click.echo(f"{_INDENT}{clean(doc.when_to_use)}")
    if doc.questions:
        heading("Questions", before=1)
        for question in doc.questions:
            click.echo(f"{_INDENT}{clean(question)}")
    if doc.learned:
        heading("Learned from use", before=1)
        for question in doc.learned:
            click.echo(f"{_INDENT}{clean(question)}")
    for reference in doc.external_refs:
        click.echo(f"see {clean(reference)}")


def _signature(tool: "Tool") -> str:
    """Return the signature of a tool."""
    required = _list(tool.input_schema, "required")
    names = [name if name in required else f"{name}?" for name in _properties(tool.input_schema)]
    gives = "" if tool.output_schema is None else f" -> {_type(tool.output_schema)}"
    return clean(f"{tool.name}({', '.join(names)}){gives}")


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _list(schema: dict[str, Any], word: str) -> list[Any]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _type(schema: Any) -> str:
    """Return the type of a schema in a word or two.

    >>> _type({"type": "array", "items": {"type": "string"}}), _type({"enum": ["a", "b"]}), _type({})
    ('array of string', '"a" | "b"', 'any')
    """
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"][:8])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return " | ".join(dict.fromkeys(map(_type, schema[word])))
    kind = schema.get("type", str(schema.get("$ref", "any")).rpartition("/")[2])
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_type(schema['items'])}"
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _show_parameters(tool: "Tool") -> None:
    rows = list(islice(_property_rows(schema := tool.input_schema, schema), _MAX_ROWS + 1))
    if not rows:
        return
    heading("Parameters", before=1)
    headers = ("name", "type", "default", "description")
    show_table(headers, rows[:_MAX_ROWS], styles=("cyan", "magenta", "yellow"))
    if len(rows) > _MAX_ROWS:
        note("there are more; --json has the whole schema")


def _property_rows(
    schema: dict[str, Any], root: dict[str, Any], depth: int = 0
) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each property of a schema; those of an object follow it."""
    required = _list(schema, "required")
    for name, phrase in _properties(schema).items():
        inner = _resolve_ref(phrase, root)
        default = json.dumps(inner["default"], ensure_ascii=False) if "default" in inner else ""
        needed = "required" if name in required else default
        yield f"{_INDENT * depth}{name}", _type(phrase), needed, str(inner.get("description", ""))
        if depth < _MAX_DEPTH:
            yield from _property_rows(_object_part(inner, root), root, depth + 1)


def _object_part(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the object that a property is, or a list of which it is; nothing where it is neither."""
    items = _resolve_ref(schema.get("items"), root)
    options = [_resolve_ref(each, root) for word in ("anyOf", "oneOf") for each in _list(schema, word)]
    found = [each for each in (schema, items, *options) if _properties(each)]
    return found[0] if found else {}


def _resolve_ref(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema merged with the definition that its `$ref` names."""
    if not isinstance(schema, dict):
        return {}
    place, _, name = str(schema.get("$ref", "")).rpartition("/")
    known = root.get(place.removeprefix("#/"))
    inner = known.get(name) if isinstance(known, dict) else None
    return {**inner, **schema} if isinstance(inner, dict) else schema


def _show_hints(doc: "ToolDoc") -> None:
    hints = doc.annotations
    if hints is None and doc.tool is not None:
        hints = doc.tool.annotations
    parts = [
        words[0 if value else 1]
        for name, words in _HINTS.items()
        if hints is not None and (value := getattr(hints, name)) is not None
    ]
    if parts:
        click.echo(f"\nHints: {'; '.join(parts)}.")
    if doc.security_summary:
        click.echo(f"Security: {clean(doc.security_summary)}")


def _show_examples(tool_id: str, doc: "ToolDoc") -> None:
    if doc.examples:
        heading("Examples", before=1)
    for example in doc.examples:
        args = shlex.quote(json.dumps(example.args, ensure_ascii=False))
        message = " ".join(text for text in (example.title, example.description) if text)
        click.echo(clean(f"# {message}" if message else f"# {example.id or 'for example'}"))
        click.echo(clean(f"toolcrib run {shlex.quote(tool_id)} --args {args}"))
        if example.result_hint:
            click.echo(clean(f"#=> {example.result_hint}"))

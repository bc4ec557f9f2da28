"""Catalogues of labelled sets: conversion of their tools to valid ones, with a mapping between the ids."""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model import DefaultValidator, Tool
from toolcrib.model.record import JsonObject, Record, Text
from toolcrib.model.toolid import MAX_NAME_LENGTH, name_fault

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGEST = 8
_NAMELESS = "tool"
_TYPES = {
    "dict": "object",
    "map": "object",
    "hashmap": "object",
    "struct": "object",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "arraylist": "array",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "long": "integer",
    "int": "integer",
    "short": "integer",
    "bool": "boolean",
    "str": "string",
    "char": "string",
    "text": "string",
    "date": "string",
    "datetime": "string",
    "none": "null",
}
"""Names of types in other languages, and the JSON type of each."""
_JSON_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords with schemas by name."""
_DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords with data, which may only look like schemas."""
_MAX_DEPTH = 16


class ToolLine(Record):
    """A tool in a file of a labelled set: any name is allowed, and unknown fields are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    id: Text = Field(min_length=1)
    """The id of the tool in the labels."""
    name: Text = Field(min_length=1)
    """The name of the tool."""
    namespace: Text | None = None
    """Its namespace."""
    description: Text | None = None
    """Its description."""
    input_schema: JsonObject | None = None
    """The JSON Schema of its arguments; by default any object."""
    tags: tuple[Text, ...] = ()
    """Its tags."""
    category: Text | None = None
    """Its category."""


@dataclass(frozen=True, slots=True)
class EvaluationCatalogue:
    """The tools of a labelled set, with their ids in the labels."""

    tools: tuple[Tool, ...]
    """The tools."""
    labels: Mapping[str, str] = field(repr=False)
    """The id in the labels of each tool, by its tool id."""
    repaired: int = 0
    """The number of schemas that were changed so that they compile."""
    ids: Mapping[str, str] = field(init=False, repr=False)
    """The tool id of each tool, by its id in the labels."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", {label: ours for ours, label in self.labels.items()})

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "EvaluationCatalogue":
        """Return a catalogue of tools that have the same ids in the labels."""
        held = tuple(tools)
        return cls(held, {str(tool.id): str(tool.id) for tool in held})

    @classmethod
    def of_lines(cls, lines: Iterable[ToolLine], *, lenient: bool = False) -> "EvaluationCatalogue":
        """Convert the tools of a labelled set to valid ones, with admissible names.

        With `lenient`, schemas that do not compile are repaired as far as possible, and counted.
        """
        given = list(lines)
        places = _unique_names(given)
        validator = DefaultValidator()
        tools, repaired = [], 0
        for line, (namespace, name) in zip(given, places, strict=True):
            schema = {"type": "object"} if line.input_schema is None else line.input_schema
            usable = repair_schema(schema, validator) if lenient else schema
            repaired += usable is not schema
            tools.append(_make_tool(line, usable, namespace, name))
        labels = {str(tool.id): line.id for tool, line in zip(tools, given, strict=True)}
        return cls(tuple(tools), labels, repaired)


def _unique_names(lines: list[ToolLine]) -> list[tuple[str | None, str]]:
    """Return a unique pair of namespace and name for each tool."""
    names = admissible_names(line.name for line in lines)
    namespaces = admissible_names(line.namespace for line in lines if line.namespace)
    taken: set[tuple[str | None, str]] = set()
    places = []
    for line in lines:
        namespace, name = namespaces[line.namespace] if line.namespace else None, names[line.name]
        if (namespace, name) in taken:
            name = distinct(name, line.id, {other for space, other in taken if space == namespace})
        taken.add((namespace, name))
        places.append((namespace, name))
    return places


def _make_tool(line: ToolLine, schema: dict[str, Any], namespace: str | None, name: str) -> Tool:
    tool = {
        "name": name,
        "namespace": namespace,
        "title": line.name if loses_words(line.name) else None,
        "description": line.description,
        "inputSchema": schema,
        "tags": line.tags,
        "_meta": None if line.category is None else {"category": line.category},
    }
    return Tool.from_json(tool)


def admissible_names(names: Iterable[str]) -> dict[str, str]:
    """Return an admissible tool name for each name; different names stay different.

    An admissible name is kept. In others, invalid characters become `_`, so that words stay separate; names
    that would become equal get a digest of the original. The order does not matter.

    >>> admissible_names(["nasa/apod", "PDF&URLTool", "add"])
    {'nasa/apod': 'nasa_apod', 'PDF&URLTool': 'PDF_URLTool', 'add': 'add'}
    >>> admissible_names(["a b", "a/b", "a_b"])
    {'a b': 'a_b-7faae47c', 'a/b': 'a_b-82badf67', 'a_b': 'a_b'}
    """
    wanted = {name: _make_admissible(name) for name in names}
    often = Counter(wanted.values())
    taken = set(wanted.values())
    changed = {}
    for name in sorted(name for name, plain in wanted.items() if plain != name and often[plain] > 1):
        changed[name] = distinct(wanted[name], name, taken)
        taken.add(changed[name])
    return wanted | changed


def distinct(name: str, original: str, taken: Container[str]) -> str:
    """Return a name that ends with a digest of the original, and is not taken."""
    attempt = 0
    while (found := _shorten_id(name, f"{attempt or ''}{original}")) in taken:
        attempt += 1
    return found


def loses_words(original: str) -> bool:
    """Return whether a name has letters or digits that an admissible name cannot have."""
    return any(char.isalnum() and not char.isascii() for char in _without_accents(original))


def _shorten_id(name: str, original: str) -> str:
    digest = blake2b(original.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - _DIGEST - 1]}-{digest}"


def _make_admissible(name: str) -> str:
    if not name_fault(name):
        return name
    plain = _FOREIGN.sub("_", _without_accents(name))[:MAX_NAME_LENGTH]
    return plain.strip("_") or _NAMELESS


def _without_accents(text: str) -> str:
    """Return a text without accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


def compiles(schema: Mapping[str, Any], validator: DefaultValidator) -> bool:
    """Return whether a schema compiles, so that arguments can be validated."""
    try:
        validator.validate(schema, {})
    except InvalidSchemaError:
        return False
    except ValidationError:
        return True
    return True


def repair_schema(schema: dict[str, Any], validator: DefaultValidator) -> dict[str, Any]:
    """Return a similar schema that compiles: with translated types, or else only names and descriptions.

    >>> repair_schema({"type": "dict", "properties": {"x": {"type": "float"}}}, DefaultValidator())
    {'type': 'object', 'properties': {'x': {'type': 'number'}}}
    >>> repair_schema({"properties": {"x": {"description": "Width.", "minimum": "low"}}}, DefaultValidator())
    {'type': 'object', 'properties': {'x': {'description': 'Width.'}}}
    """
    if compiles(schema, validator):
        return schema
    retyped: dict[str, Any] = _retype(schema)
    if compiles(retyped, validator):
        return retyped
    reduced = {"type": "object"} | _reduce(schema, _MAX_DEPTH)
    return reduced if compiles(reduced, validator) else {"type": "object"}


def _retype(schema: Any) -> Any:
    """Translate the types in a schema to JSON's; unknown types are removed."""
    if isinstance(schema, list):
        return [_retype(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            changed[key] = {name: _retype(member) for name, member in value.items()}
        elif key == "type":
            changed |= _translate_type(value)
        else:
            changed[key] = value if key in _DATA_KEYWORDS else _retype(value)
    return changed


def _translate_type(value: Any) -> dict[str, Any]:
    """Translate the value of `type` to JSON's types; return an empty dict if that is not possible."""
    words = value if isinstance(value, list) else [value]
    known = [_TYPES.get(word.lower(), word.lower()) for word in words if isinstance(word, str)]
    if len(known) < len(words) or not _JSON_TYPES.issuperset(known):
        return {}
    unique = list(dict.fromkeys(known))
    return {"type": unique if isinstance(value, list) else unique[0]} if unique else {}


def _reduce(schema: Any, depth: int) -> dict[str, Any]:
    """Reduce a schema to properties, descriptions and enums."""
    if not isinstance(schema, dict) or not depth:
        return {}
    kept: dict[str, Any] = {}
    if isinstance(schema.get("description"), str):
        kept["description"] = schema["description"]
    if isinstance(schema.get("enum"), list):
        kept["enum"] = schema["enum"]
    if isinstance(schema.get("properties"), dict):
        kept["properties"] = {name: _reduce(value, depth - 1) for name, value in schema["properties"].items()}
    if items := _reduce(schema.get("items"), depth - 1):
        kept["items"] = items
    return kept

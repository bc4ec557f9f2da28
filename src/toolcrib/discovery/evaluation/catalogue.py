"""The tools that labels speak of, as tools that an index takes, and the way back from one to the other."""

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
"""What other languages call the types of JSON."""
_JSON_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose value holds schemas by name."""
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose value only looks like a schema."""
_MAX_DEPTH = 16


class ToolLine(Record):
    """A tool as a file of labels writes it: any name will do, and other fields are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    id: Text = Field(min_length=1)
    """What questions call the tool."""
    name: Text = Field(min_length=1)
    """The name of the tool."""
    namespace: Text | None = None
    """Its namespace."""
    description: Text | None = None
    """What it does."""
    input_schema: JsonObject | None = None
    """The JSON Schema of its arguments; an object of anything where there is none."""
    tags: tuple[Text, ...] = ()
    """Its tags."""
    category: Text | None = None
    """The category that it is filed under."""


@dataclass(frozen=True, slots=True)
class EvaluationCatalogue:
    """Tools to search, and what the labels call them."""

    tools: tuple[Tool, ...]
    """The tools."""
    labels: Mapping[str, str] = field(repr=False)
    """The labels' id of each tool, by ours."""
    repaired: int = 0
    """How many schemas were changed so that they compile."""
    ids: Mapping[str, str] = field(init=False, repr=False)
    """Our id of each tool, by the labels'."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", {label: ours for ours, label in self.labels.items()})

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "EvaluationCatalogue":
        """Return a catalogue of tools which the labels call by their own ids."""
        held = tuple(tools)
        return cls(held, {str(tool.id): str(tool.id) for tool in held})

    @classmethod
    def of_lines(cls, lines: Iterable[ToolLine], *, lenient: bool = False) -> "EvaluationCatalogue":
        """Return a catalogue of tools as labels write them, under names that tools may have.

        With `lenient`, schemas that do not compile are repaired as far as they can be, and counted.
        """
        given = list(lines)
        places = _places(given)
        validator = DefaultValidator()
        tools, repaired = [], 0
        for line, (namespace, name) in zip(given, places, strict=True):
            schema = {"type": "object"} if line.input_schema is None else line.input_schema
            usable = repair_schema(schema, validator) if lenient else schema
            repaired += usable is not schema
            tools.append(_tool(line, usable, namespace, name))
        labels = {str(tool.id): line.id for tool, line in zip(tools, given, strict=True)}
        return cls(tuple(tools), labels, repaired)


def _places(lines: list[ToolLine]) -> list[tuple[str | None, str]]:
    """Return a namespace and a name for each tool, no two the same."""
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


def _tool(line: ToolLine, schema: dict[str, Any], namespace: str | None, name: str) -> Tool:
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
    """Return a name that a tool may have for each of these; different names stay different.

    A name that is admissible stays as it is. In the others, what does not belong becomes `_`, so that words
    stay apart; two that would then be the same get a digest of what they were. The order does not matter.

    >>> admissible_names(["nasa/apod", "PDF&URLTool", "add"])
    {'nasa/apod': 'nasa_apod', 'PDF&URLTool': 'PDF_URLTool', 'add': 'add'}
    >>> admissible_names(["a b", "a/b", "a_b"])
    {'a b': 'a_b-7faae47c', 'a/b': 'a_b-82badf67', 'a_b': 'a_b'}
    """
    wanted = {name: _plain(name) for name in names}
    often = Counter(wanted.values())
    taken = set(wanted.values())
    changed = {}
    for name in sorted(name for name, plain in wanted.items() if plain != name and often[plain] > 1):
        changed[name] = distinct(wanted[name], name, taken)
        taken.add(changed[name])
    return wanted | changed


def distinct(name: str, original: str, taken: Container[str]) -> str:
    """Return a name with a digest of what it stands for, which is not among those taken."""
    attempt = 0
    while (found := _shorten_id(name, f"{attempt or ''}{original}")) in taken:
        attempt += 1
    return found


def loses_words(original: str) -> bool:
    """Return whether letters or digits of a name have no place in an admissible one."""
    return any(char.isalnum() and not char.isascii() for char in _without_accents(original))


def _shorten_id(name: str, original: str) -> str:
    digest = blake2b(original.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - _DIGEST - 1]}-{digest}"


def _plain(name: str) -> str:
    if not name_fault(name):
        return name
    plain = _FOREIGN.sub("_", _without_accents(name))[:MAX_NAME_LENGTH]
    return plain.strip("_") or _NAMELESS


def _without_accents(text: str) -> str:
    """Return text with letters in their plain form, where they have one."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


def compiles(schema: Mapping[str, Any], validator: DefaultValidator) -> bool:
    """Return whether arguments can be checked against a schema."""
    try:
        validator.validate(schema, {})
    except InvalidSchemaError:
        return False
    except ValidationError:
        return True
    return True


def repair_schema(schema: dict[str, Any], validator: DefaultValidator) -> dict[str, Any]:
    """Return the nearest schema that compiles: with JSON's words for types, or else just names and texts.

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
    """Return a schema with JSON's words for types; what stands for any type is left out."""
    if isinstance(schema, list):
        return [_retype(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            changed[key] = {name: _retype(member) for name, member in value.items()}
        elif key == "type":
            changed |= _type(value)
        else:
            changed[key] = value if key in _DATA else _retype(value)
    return changed


def _type(value: Any) -> dict[str, Any]:
    """Return the `type` keyword that a word, or a list of words, stands for, if any."""
    words = value if isinstance(value, list) else [value]
    known = [_TYPES.get(word.lower(), word.lower()) for word in words if isinstance(word, str)]
    if len(known) < len(words) or not _JSON_TYPES.issuperset(known):
        return {}
    unique = list(dict.fromkeys(known))
    return {"type": unique if isinstance(value, list) else unique[0]} if unique else {}


def _reduce(schema: Any, depth: int) -> dict[str, Any]:
    """Return the properties, descriptions and values that a schema names, and nothing else."""
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

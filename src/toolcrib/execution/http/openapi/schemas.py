"""Converts the schemas of a document to JSON Schema 2020-12, each with the definitions that it needs.

OpenAPI 3.0 has its own keywords (`nullable`, boolean `exclusiveMinimum`, `example`); 3.1 is JSON Schema with
a few more annotations. A referenced schema becomes an entry of `$defs`, never a copy, so that recursive
schemas stay finite. The same schema is converted for inputs and for outputs apart, since `readOnly` and
`writeOnly` properties occur in one of them alone.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.errors import InvalidSchemaError, SchemaTooComplexError, UnsupportedDialectError
from toolcrib.execution.http.openapi.references import find_target, follow

Direction = Literal["input", "output"]

_SCHEMA_KEYWORDS = ("additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems")  # fmt: skip
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
_DROPPED_KEYWORDS = frozenset(
    {"discriminator", "xml", "externalDocs", "example", "nullable", "$schema", "$id", "$anchor", "$comment",
     "$dynamicAnchor", "$defs", "definitions"}
)  # fmt: skip
_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://spec.openapis.org/oas/3.1/dialect/base")
_EXCLUDING_KEYWORD: dict[Direction, str] = {"input": "readOnly", "output": "writeOnly"}
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_TOOL_NODES = 20_000
"""The maximum number of values in the schema of one tool: the limit of the validator."""
_MAX_DOCUMENT_NODES = 4_000_000
"""The most values in the schemas of all tools: each tool repeats the definitions that it needs."""


@dataclass(slots=True)
class _ConvertedSchema:
    """A converted schema, with its size and its references."""

    schema: Any
    nodes: int
    references: dict[str, None]


class Schemas:
    """Converts the schemas of one document; shared schemas are converted once for each direction."""

    def __init__(self, document: dict[str, Any], *, is_3_0: bool) -> None:
        self._document = document
        self._is_3_0 = is_3_0
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._converted: dict[tuple[Direction, int], tuple[Any, _ConvertedSchema]] = {}
        self._shared: dict[tuple[Direction, str], _ConvertedSchema] = {}
        self._left = _MAX_DOCUMENT_NODES

    def write(self, schema: Any, direction: Direction) -> Any:
        """Return a converted schema with references to `#/$defs/...`, which `definitions` returns.

        Raises:
            InvalidSchemaError: the target of a reference does not exist, or the dialect is unknown.
        """
        self.charge(1)
        key = (direction, id(schema))
        if key not in self._converted:  # stored with its source, so that the id of that stays unique
            self._converted[key] = schema, self._convert(schema, direction)
        _, converted = self._converted[key]
        self.charge(converted.nodes)
        return converted.schema

    def definitions(self, schema: Any, direction: Direction) -> dict[str, Any]:
        """Return all definitions that a converted schema needs, by name.

        Raises:
            SchemaTooComplexError: they are too large, alone or together with those of all other tools.
        """
        root = _ConvertedSchema(schema, _count_values(schema), _find_references(schema))
        pending, found, nodes = [root], dict[str, Any](), 0
        while pending:
            converted = pending.pop()
            nodes += converted.nodes
            self.charge(converted.nodes)
            if nodes > MAX_TOOL_NODES:
                raise SchemaTooComplexError(f"its schema holds more than {MAX_TOOL_NODES:,} values")
            for name in converted.references:
                if name in self._references and name not in found:
                    shared = self._convert_definition(name, direction)
                    found[name] = shared.schema
                    pending.append(shared)
        return dict(sorted(found.items()))

    def is_excluded(self, schema: Any, direction: Direction) -> bool:
        """Return whether a property is left out: `readOnly` in inputs, `writeOnly` in outputs."""
        word = _EXCLUDING_KEYWORD[direction]
        if not isinstance(schema, dict):
            return False
        if schema.get(word) is True and not (self._is_3_0 and "$ref" in schema):
            return True
        resolved = follow(self._document, schema)
        return isinstance(resolved, dict) and resolved.get(word) is True

    def charge(self, nodes: int) -> None:
        """Count converted or visited values.

        Raises:
            SchemaTooComplexError: there are too many in the whole document.
        """
        self._left -= nodes
        if self._left < 0:
            raise SchemaTooComplexError("the schemas of the document are too large together")

    def _convert_definition(self, name: str, direction: Direction) -> _ConvertedSchema:
        reference = self._references[name]
        key = (direction, reference)
        if key not in self._shared:
            self._shared[key] = self._convert(find_target(self._document, reference), direction)
        return self._shared[key]

    def _convert(self, schema: Any, direction: Direction) -> _ConvertedSchema:
        converted = self._convert_schema(schema, direction)
        return _ConvertedSchema(converted, _count_values(converted), _find_references(converted))

    def _convert_schema(self, schema: Any, direction: Direction) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"a schema must be an object, not {type(schema).__name__}")
        _check_dialect(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str) and self._is_3_0:
            return {"$ref": f"#/$defs/{self._name_definition(reference)}"}
        made = {
            word: self._convert_keyword(word, value, direction)
            for word, value in schema.items()
            if _is_kept(word)
        }
        self._remove_excluded(schema, made, direction)
        if "example" in schema and "examples" not in made:
            made["examples"] = [schema["example"]]
        return _modernize(schema, made) if self._is_3_0 else made

    def _convert_keyword(self, word: str, value: Any, direction: Direction) -> Any:
        if word == "$ref" and isinstance(value, str):
            return f"#/$defs/{self._name_definition(value)}"
        if word in _SCHEMA_KEYWORDS and isinstance(value, dict | bool):
            return self._convert_schema(value, direction)
        if word in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            return [self._convert_schema(member, direction) for member in value]
        if word in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            return {name: self._convert_schema(member, direction) for name, member in value.items()}
        return value

    def _remove_excluded(self, schema: dict[str, Any], made: dict[str, Any], direction: Direction) -> None:
        """Remove the excluded properties of this direction."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return
        excluded = {name for name, member in properties.items() if self.is_excluded(member, direction)}
        if excluded:
            made["properties"] = {
                name: member for name, member in made["properties"].items() if name not in excluded
            }
            if isinstance(made.get("required"), list):
                made["required"] = [
                    name for name in made["required"] if not (isinstance(name, str) and name in excluded)
                ]

    def _name_definition(self, reference: str) -> str:
        """Return the name of a referenced schema in `$defs`, the same for equal references."""
        if reference not in self._names:
            find_target(self._document, reference)
            base = _INVALID_NAME_CHARACTERS.sub("_", reference.rpartition("/")[2])[:64].strip("_") or "schema"
            name = base
            while name in self._references:
                self._numbers[base] = self._numbers.get(base, 1) + 1
                name = f"{base}_{self._numbers[base]}"
            self._names[reference], self._references[name] = name, reference
        return self._names[reference]


def _is_kept(word: str) -> bool:
    return word not in _DROPPED_KEYWORDS and not word.startswith("x-")


def _check_dialect(schema: dict[str, Any]) -> None:
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.rstrip("#") not in _DIALECTS:
        raise UnsupportedDialectError(f"a schema is of the dialect {dialect[:200]!r}, which is not known")
    if "$dynamicRef" in schema or "$recursiveRef" in schema:
        raise InvalidSchemaError("a schema uses '$dynamicRef', which is not supported")


def _modernize(schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of OpenAPI 3.0 with the keywords of JSON Schema 2020-12."""
    for word, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(word), bool) and made.pop(word) and plain in made:
            made[word] = made.pop(plain)
    if schema.get("nullable") is not True:
        return made
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
        return made
    return {"anyOf": [made, {"type": "null"}]} if made else made


def _count_values(value: Any) -> int:
    """Return the number of values in a schema."""
    nodes, pending = 1, [value]
    while pending:
        member = pending.pop()
        if isinstance(member, dict | list):
            nodes += len(member)
            pending += member.values() if isinstance(member, dict) else member
    return nodes


def _find_references(schema: Any) -> dict[str, None]:
    """Return the names of the definitions that a converted schema references, in order."""
    found: dict[str, None] = {}
    pending = [schema]
    while pending:
        member = pending.pop()
        if isinstance(member, dict):
            reference = member.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                found[reference.removeprefix("#/$defs/")] = None
            pending += reversed(list(member.values()))
        elif isinstance(member, list):
            pending += reversed(member)
    return found

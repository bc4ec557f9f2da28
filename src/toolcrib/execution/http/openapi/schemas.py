"""The schemas of a document as JSON Schema 2020-12, each with the definitions that it needs.

OpenAPI 3.0 has its own words for some things (`nullable`, boolean `exclusiveMinimum`, `example`); 3.1 is JSON
Schema with annotations of its own. What is shared in the document becomes `$defs`, so that recursive schemas
stay what they are.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.errors import InvalidSchemaError, SchemaTooComplexError, UnsupportedDialectError
from toolcrib.execution.http.openapi.references import follow, target

Direction = Literal["input", "output"]

_ONE = ("additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems")  # fmt: skip
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_DROPPED = frozenset(
    {"discriminator", "xml", "externalDocs", "example", "nullable", "$schema", "$id", "$anchor", "$comment",
     "$dynamicAnchor", "$defs", "definitions"}
)  # fmt: skip
_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://spec.openapis.org/oas/3.1/dialect/base")
_UNWANTED: dict[Direction, str] = {"input": "readOnly", "output": "writeOnly"}
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_TOOL_NODES = 20_000
"""How many values the schema of one tool may hold: what a validator takes."""
_MAX_WRITTEN = 4_000_000
"""How many values the schemas of all tools may hold together."""


@dataclass(slots=True)
class _Written:
    """A converted schema, how large it is, and what it refers to."""

    schema: Any
    nodes: int
    references: dict[str, None]


class Schemas:
    """Converts the schemas of one document; what is shared is converted once for each direction."""

    def __init__(self, document: dict[str, Any], *, is_3_0: bool) -> None:
        self._document = document
        self._is_3_0 = is_3_0
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._written: dict[tuple[Direction, int], tuple[Any, _Written]] = {}
        self._shared: dict[tuple[Direction, str], _Written] = {}
        self._left = _MAX_WRITTEN

    def write(self, schema: Any, direction: Direction) -> Any:
        """Return a schema with references to `#/$defs/...`; `definitions` gives what they need.

        Raises:
            InvalidSchemaError: it holds a reference that leads nowhere, or a dialect that is not known.
        """
        self.charge(1)
        key = (direction, id(schema))
        if key not in self._written:  # with what it was made of, so that its id stays its own
            self._written[key] = schema, self._convert(schema, direction)
        _, written = self._written[key]
        self.charge(written.nodes)
        return written.schema

    def definitions(self, schema: Any, direction: Direction) -> dict[str, Any]:
        """Return every definition that a converted schema needs, by name.

        Raises:
            SchemaTooComplexError: they are too large, alone or with those of all other tools.
        """
        root = _Written(schema, _count(schema), _references(schema))
        pending, found, nodes = [root], dict[str, Any](), 0
        while pending:
            written = pending.pop()
            nodes += written.nodes
            self.charge(written.nodes)
            if nodes > MAX_TOOL_NODES:
                raise SchemaTooComplexError(f"its schema holds more than {MAX_TOOL_NODES:,} values")
            for name in written.references:
                if name in self._references and name not in found:
                    shared = self._definition(name, direction)
                    found[name] = shared.schema
                    pending.append(shared)
        return dict(sorted(found.items()))

    def is_unwanted(self, schema: Any, direction: Direction) -> bool:
        """Return whether a property has no place here: `readOnly` in inputs, `writeOnly` in outputs."""
        word = _UNWANTED[direction]
        if not isinstance(schema, dict):
            return False
        if schema.get(word) is True and not (self._is_3_0 and "$ref" in schema):
            return True
        resolved = follow(self._document, schema)
        return isinstance(resolved, dict) and resolved.get(word) is True

    def charge(self, nodes: int) -> None:
        """Count values that were written or looked at.

        Raises:
            SchemaTooComplexError: there were too many, with those of all other tools.
        """
        self._left -= nodes
        if self._left < 0:
            raise SchemaTooComplexError("the schemas of the document are too large together")

    def _definition(self, name: str, direction: Direction) -> _Written:
        reference = self._references[name]
        key = (direction, reference)
        if key not in self._shared:
            self._shared[key] = self._convert(target(self._document, reference), direction)
        return self._shared[key]

    def _convert(self, schema: Any, direction: Direction) -> _Written:
        converted = self._schema(schema, direction)
        return _Written(converted, _count(converted), _references(converted))

    def _schema(self, schema: Any, direction: Direction) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"a schema must be an object, not {type(schema).__name__}")
        _check_dialect(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str) and self._is_3_0:
            return {"$ref": f"#/$defs/{self._name(reference)}"}
        made = {word: self._word(word, value, direction) for word, value in schema.items() if _is_kept(word)}
        self._leave_out(schema, made, direction)
        if "example" in schema and "examples" not in made:
            made["examples"] = [schema["example"]]
        return _modern(schema, made) if self._is_3_0 else made

    def _word(self, word: str, value: Any, direction: Direction) -> Any:
        if word == "$ref" and isinstance(value, str):
            return f"#/$defs/{self._name(value)}"
        if word in _ONE and isinstance(value, dict | bool):
            return self._schema(value, direction)
        if word in _MANY and isinstance(value, list):
            return [self._schema(member, direction) for member in value]
        if word in _MAPS and isinstance(value, dict):
            return {name: self._schema(member, direction) for name, member in value.items()}
        return value

    def _leave_out(self, schema: dict[str, Any], made: dict[str, Any], direction: Direction) -> None:
        """Drop the properties that this direction has no place for."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return
        unwanted = {name for name, member in properties.items() if self.is_unwanted(member, direction)}
        if unwanted:
            made["properties"] = {
                name: member for name, member in made["properties"].items() if name not in unwanted
            }
            if isinstance(made.get("required"), list):
                made["required"] = [
                    name for name in made["required"] if not (isinstance(name, str) and name in unwanted)
                ]

    def _name(self, reference: str) -> str:
        """Return what a shared schema is called among the definitions; one name for each reference."""
        if reference not in self._names:
            target(self._document, reference)
            base = _FOREIGN.sub("_", reference.rpartition("/")[2])[:64].strip("_") or "schema"
            name = base
            while name in self._references:
                self._numbers[base] = self._numbers.get(base, 1) + 1
                name = f"{base}_{self._numbers[base]}"
            self._names[reference], self._references[name] = name, reference
        return self._names[reference]


def _is_kept(word: str) -> bool:
    return word not in _DROPPED and not word.startswith("x-")


def _check_dialect(schema: dict[str, Any]) -> None:
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.rstrip("#") not in _DIALECTS:
        raise UnsupportedDialectError(f"a schema is of the dialect {dialect[:200]!r}, which is not known")
    if "$dynamicRef" in schema or "$recursiveRef" in schema:
        raise InvalidSchemaError("a schema uses '$dynamicRef', which is not read here")


def _modern(schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of OpenAPI 3.0 in the words of 2020-12."""
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


def _count(value: Any) -> int:
    """Return how many values a schema holds."""
    nodes, pending = 1, [value]
    while pending:
        member = pending.pop()
        if isinstance(member, dict | list):
            nodes += len(member)
            pending += member.values() if isinstance(member, dict) else member
    return nodes


def _references(schema: Any) -> dict[str, None]:
    """Return the names of the definitions that a converted schema refers to, in order."""
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

"""Reading of source schemas: drafts, references, and the types of keyword values."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from toolcrib.adapter.loss import step
from toolcrib.errors.base import short_repr
from toolcrib.model.schema.references import LocalReferences

ONE_SCHEMA: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"}
)
MANY_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
MAP_OF_SCHEMAS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
OBJECT_WORDS: Final = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
    | {"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"}
)
ARRAY_WORDS: Final = frozenset(
    {"items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems"}
    | {"uniqueItems", "unevaluatedItems"}
)
ONLY_FOR: Final[Mapping[str, frozenset[str]]] = {
    "object": OBJECT_WORDS,
    "array": ARRAY_WORDS,
    "string": frozenset(
        {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
    ),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
"""The keywords that apply to one JSON type only."""
TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
"""Keywords that do not constrain values."""
DEFINITIONS: Final = ("$defs", "definitions")
_BESIDE_REF: Final = ANNOTATIONS | {"$ref"}
_NEWER: Final = frozenset(
    {"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains"}
    | {"unevaluatedItems", "unevaluatedProperties", "$dynamicRef"}
)
"""Keywords that draft-07 does not have."""
_OLDER: Final = frozenset({"dependencies", "$dynamicRef"})
_OLDER_OR_NEWER: Final = _OLDER | _NEWER | {"$ref"}
_NUMBERS: Final = frozenset({int, float})
_STR: Final = frozenset({str})
_TYPE_NAMES: Final = frozenset(TYPES)
_Shape = tuple[frozenset[type] | None, Callable[[Any], bool] | None]
_ANY: Final[_Shape] = (None, None)
_USUAL_TYPES: Final[Mapping[str, type]] = {
    "description": str,
    "title": str,
    "format": str,
    "pattern": str,
    "$ref": str,
    "properties": dict,
    "items": dict,
    "additionalProperties": bool,
    "enum": list,
    "minimum": int,
    "maximum": int,
}
"""The usual type of the commonest keywords: a value of it needs no further check (fast path)."""


def type_of(value: Any) -> str:
    """Return the JSON type of a value; a whole number is an integer.

    >>> type_of(True), type_of(2.0), type_of(None)
    ('boolean', 'integer', 'null')
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    names = {dict: "object", list: "array", str: "string", int: "integer", type(None): "null"}
    return names[type(value)]


def is_of_type(kind: str, kinds: list[str]) -> bool:
    """Return whether a JSON type is one of the declared types; an integer is also a number."""
    return kind in kinds if kind != "integer" else "integer" in kinds or "number" in kinds


def kinds_of(node: dict[str, Any]) -> list[str]:
    """Return the JSON types of a subschema, declared or implied; none if it admits any type."""
    kinds = node.get("type")
    if kinds is not None:
        return [kinds] if type(kinds) is str else list(dict.fromkeys(kinds))
    if "const" in node:
        return [type_of(node["const"])]
    if "enum" in node:
        return list(dict.fromkeys(map(type_of, node["enum"])))
    is_object, is_array = not OBJECT_WORDS.isdisjoint(node), not ARRAY_WORDS.isdisjoint(node)
    if is_object != is_array:
        return ["object"] if is_object else ["array"]
    return []


def canonical_text(value: Any) -> str:
    """Return a text that is equal for two JSON values if and only if they are equal in JSON Schema.

    >>> canonical_text(1.0) == canonical_text(1), canonical_text([True]) == canonical_text([1])
    (True, False)
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is str else f"\0{json.dumps(value, sort_keys=True)}"


def _is_count(value: float) -> bool:
    return value >= 0 and value == int(value)


def _is_type(value: str | list[Any]) -> bool:
    if type(value) is str:
        return value in _TYPE_NAMES
    return bool(value) and all(type(name) is str and name in _TYPE_NAMES for name in value)


def _is_schema(value: Any) -> bool:
    return type(value) is dict or type(value) is bool


def _is_names(value: Any) -> bool:
    return type(value) is list and _STR.issuperset(map(type, value))


_KEYWORD_SHAPES: Final[Mapping[str, _Shape]] = (
    dict.fromkeys(ONE_SCHEMA, (frozenset({dict, bool}), None))
    | dict.fromkeys(MANY_SCHEMAS, (frozenset({list}), bool))
    | dict.fromkeys(MAP_OF_SCHEMAS, (frozenset({dict}), None))
    | dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_NUMBERS, None))
    | dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_NUMBERS, _is_count))
    | dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), (_NUMBERS, _is_count))
    | dict.fromkeys(("title", "description", "pattern", "format", "$ref"), (frozenset({str}), None))
    | dict.fromkeys(("$schema", "$id", "$dynamicRef", "$anchor"), (frozenset({str}), None))
    | dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), (frozenset({bool}), None))
    | dict.fromkeys(("enum", "examples"), (frozenset({list}), None))
    | {
        "type": (frozenset({str, list}), _is_type),
        "required": (frozenset({list}), _is_names),
        "multipleOf": (_NUMBERS, None),
        "nullable": (frozenset({bool}), None),
    }
)
"""The allowed types of the value of each keyword, with a further check; others may be anything."""


class Source:
    """The schema to convert, with its references. It is never modified."""

    changed = False
    """Whether any keyword was replaced by one that the schema's own draft does not have."""

    def __init__(self, root: dict[str, Any], *, modern: bool = True) -> None:
        """Read a whole schema; `modern` translates older keywords to 2020-12."""
        self.root = root
        self._modern = modern
        self._is_draft_7 = "$schema" in root and "draft-07" in str(root["$schema"])
        self._foreign_words = _OLDER_OR_NEWER if self._is_draft_7 else _OLDER
        self._found: dict[str, Any] = {}
        self._references = LocalReferences(root)
        self._anchors: dict[str, tuple[str, Any]] | None = None

    def read(
        self, schema: dict[str, Any], note: Callable[[str, str, str], None], path: str
    ) -> dict[str, Any]:
        """Return a subschema with keywords of 2020-12, if wanted, and without malformed ones.

        Changes are noted. The result may be the subschema itself, so it must not be modified.
        """
        if self._modern and not self._foreign_words.isdisjoint(schema):
            schema = self._modernise(schema, note, path)
        read = schema  # copied only if a keyword must be removed, which is rare
        for word, value in schema.items():
            if type(value) is _USUAL_TYPES.get(word) or (word == "type" and value in TYPES):
                continue
            kinds, fits = _KEYWORD_SHAPES.get(word, _ANY)
            if kinds is None or (type(value) in kinds and (fits is None or fits(value))):
                continue
            if word != "items" or type(value) is not list or not value:
                read = {key: kept for key, kept in read.items() if key != word}
                note(word, path, f"is {short_repr(value)}, which is not allowed, and is left out")
            elif self._modern:
                note(word, path, "is a list of items, and becomes prefixItems")
                read = _modernise_tuple(read)
                self.changed = True
        return read

    def to_own_draft(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a subschema that was read in a form that can be read again, in the schema's own draft."""
        if not self._is_draft_7 or "prefixItems" not in schema:
            return schema
        kept = {word: value for word, value in schema.items() if word not in {"prefixItems", "items"}}
        rest = {"additionalItems": schema["items"]} if "items" in schema else {}
        return {**kept, "items": schema["prefixItems"], **rest}

    def _modernise(
        self, schema: dict[str, Any], note: Callable[[str, str, str], None], path: str
    ) -> dict[str, Any]:
        """Return a subschema with its older keywords translated to 2020-12."""
        if self._is_draft_7 and not _NEWER.isdisjoint(schema):
            for word in _NEWER & schema.keys():
                note(word, path, "means nothing in draft-07, and is left out")
            schema = {key: kept for key, kept in schema.items() if key not in _NEWER}
        if "$dynamicRef" in schema and "$ref" not in schema:
            note("$dynamicRef", path, "becomes $ref")
            schema = {"$ref" if key == "$dynamicRef" else key: kept for key, kept in schema.items()}
        if "dependencies" in schema:
            note("dependencies", path, "become dependentRequired and dependentSchemas")
            schema = _modernise_dependencies(schema)
            self.changed = True
        if self._is_draft_7 and "$ref" in schema and not schema.keys() <= _BESIDE_REF:
            for word in schema.keys() - _BESIDE_REF:
                note(word, path, "means nothing beside $ref in draft-07, and is left out")
            schema = {key: kept for key, kept in schema.items() if key in _BESIDE_REF}
        return schema

    def pointer_to(self, reference: str) -> str:
        """Return the JSON Pointer of the target of a reference."""
        if reference[1:2] in {"", "/"}:
            return unquote(reference[1:])
        return self._find_anchor(reference[1:])[0]

    def find(self, reference: str) -> Any:
        """Return the target of a reference; None if there is none within the schema."""
        if reference not in self._found:
            self._found[reference] = self._find(reference)
        return self._found[reference]

    def _find(self, reference: str) -> Any:
        value = self._references.find(reference) if reference.startswith("#") else None
        return value if _is_schema(value) else None

    def _find_anchor(self, name: str) -> tuple[str, Any]:
        """Return the JSON Pointer of the subschema with an anchor, and the subschema."""
        if self._anchors is None:
            self._anchors = {
                member[word]: (path, member)
                for path, member in _walk_objects(self.root)
                for word in ("$anchor", "$dynamicAnchor")
                if type(member.get(word)) is str
            }
        return self._anchors.get(name, ("", None))


def _walk_objects(root: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object in a schema with its JSON Pointer."""
    pending = [("", root)]
    for path, value in pending:
        if type(value) is dict:
            yield path, value
            pending += [(step(path, key), member) for key, member in value.items()]
        elif type(value) is list:
            pending += [(step(path, index), member) for index, member in enumerate(value)]


def _modernise_tuple(schema: dict[str, Any]) -> dict[str, Any]:
    """Translate an array schema whose `items` is a list to 2020-12."""
    read = {key: kept for key, kept in schema.items() if key not in {"items", "additionalItems"}}
    read["prefixItems"] = schema["items"]
    if "additionalItems" in schema:
        read["items"] = schema["additionalItems"]
    return read


def _modernise_dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    """Split `dependencies` into the two keywords of 2020-12."""
    read = {key: kept for key, kept in schema.items() if key != "dependencies"}
    given = schema["dependencies"]
    if type(given) is dict:
        names = {key: kept for key, kept in given.items() if _is_names(kept)}
        schemas = {key: kept for key, kept in given.items() if _is_schema(kept)}
        read |= {"dependentRequired": names} if names else {}
        read |= {"dependentSchemas": schemas} if schemas else {}
    return read

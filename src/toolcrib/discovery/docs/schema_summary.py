"""Summary of an input schema: required properties, their types and defaults, and a phrase for each.

A phrase such as `integer | "auto" | null` is built from *atoms*: JSON types, literal values and array types.
`None` instead of atoms means "anything", an empty tuple "nothing". Every subschema is read once, and its
atoms are cached by identity, so that shared definitions do not make the time exponential. A schema that is
reached again while it is being read (a recursion) has the marker `_RECURSION`, which adds nothing to a union
or an intersection.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.docs import SchemaInfo
from toolcrib.model.plain import copy_json, count_size, measure
from toolcrib.model.schema.references import LocalReferences

_MAX_DEPTH = 256
_MAX_HOPS = 16
_MAX_PLACES = 16
"""The maximum number of subschemas read for one property."""
_MAX_DEFAULTS = 20_000
"""The maximum size of all defaults together, in values and characters."""
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONAL = ("then", "else")
_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_IMPLIED_TYPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "minimum": "number",
    "maximum": "number",
}
"""The type that a keyword implies if the schema has no `type`.

JSON Schema does not say so, but whoever writes `minLength` alone means a string.
"""
_MAX_ATOMS = 8
_MAX_PHRASE = 160
_MAX_LITERAL = 40
_MAX_ARRAY = 80
_MAX_ENUM_READ = 1_000
"""The maximum number of values read of an enumeration."""
_MAX_LEVELS = 32
_MAX_SCHEMAS = 20_000
"""The maximum number of subschemas read; further ones count as admitting anything."""
_NOTHING = "never"
_FORMAT = re.compile(r"[a-z][a-z0-9-]{0,23}")
Atoms = tuple[str, ...] | None
"""The values that a schema admits, without duplicates; empty for none, None for any."""
_RECURSION: Final = ("a loop",)
"""Marker of a schema that is being read; compared by identity."""
_MAX_COMPARED_NAMES = 200_000
"""The maximum number of names compared; after these no more properties are listed as required."""
Names = dict[str, None] | None
"""Names in order of appearance; None for a schema that admits no object, and for a recursion."""


def schema_info(schema: Any) -> SchemaInfo:
    """Summarize an object schema, in time linear in its size.

    References within the schema are followed, `allOf` is merged, and the properties of alternatives are
    collected; a property is required if every alternative requires it. A property that may be anything has
    no types, and the phrase `any`.

    >>> count = {"type": ["integer", "null"], "default": 1}
    >>> info = schema_info({"properties": {"count": count}, "required": ["count"]})
    >>> info.required, info.types, info.defaults
    (('count',), {'count': ('integer', 'null')}, {'count': 1})
    >>> info.phrases
    {'count': 'integer | null'}

    Raises:
        InvalidSchemaError: the schema is neither a JSON object nor a boolean.
    """
    if isinstance(schema, bool):
        return SchemaInfo()
    if not isinstance(schema, dict):
        raise InvalidSchemaError(f"a schema is a JSON object or a boolean, not {type(schema).__name__}")
    try:
        measure(schema, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        raise InvalidSchemaError("the schema is not plain JSON", error.problems) from error
    return _SchemaReader(schema).info()


class _SchemaReader:
    """Reads the properties of one schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._references = LocalReferences(root)
        self._unconditional: dict[str, list[Any]] = {}
        """The subschemas of each property that always apply."""
        self._in_branches: dict[str, list[Any]] = {}
        """The subschemas of each property that apply in some alternatives only."""

    def info(self) -> SchemaInfo:
        self._collect_properties()
        names = [
            *self._unconditional,
            *(name for name in self._in_branches if name not in self._unconditional),
        ]
        phrases = Phrases(self._references)
        admitted = {name: phrases.of_all(self._unconditional.get(name, ())) for name in names}
        for name, places in self._in_branches.items():
            if admitted[name] is None:
                admitted[name] = phrases.of_any(places)
        types = {
            name: tuple(dict.fromkeys(map(_type_of_atom, atoms))) for name, atoms in admitted.items() if atoms
        }
        return SchemaInfo.from_valid(
            required=Required(self._references).of(self._root),
            defaults=self._defaults(names),
            types=types,
            phrases={name: _phrase(atoms) or "any" for name, atoms in admitted.items()},
        )

    def _collect_properties(self) -> None:
        """Collect the subschemas of each property, in breadth-first order."""
        seen: set[tuple[int, bool]] = set()
        pending: list[tuple[Any, bool]] = [(self._root, True)]
        for schema, is_sure in pending:
            key = (id(schema), is_sure)
            if not isinstance(schema, dict) or key in seen:
                continue
            seen.add(key)
            if self._references.reads_siblings(schema):
                self._collect(schema, self._unconditional if is_sure else self._in_branches)
                pending += [(branch, False) for branch in _branches(schema)]
            pending += [(member, is_sure) for member in self._references.all_of(schema)]

    def _collect(self, schema: dict[str, Any], collected: dict[str, list[Any]]) -> None:
        properties = schema.get("properties")
        for name, described in properties.items() if isinstance(properties, dict) else ():
            places = collected.setdefault(name, [])
            if len(places) < _MAX_PLACES:
                places.append(described)

    def _defaults(self, names: list[str]) -> dict[str, Any]:
        """Return the defaults, up to a total size."""
        defaults: dict[str, Any] = {}
        left = _MAX_DEFAULTS
        for name in names:
            places = [*self._unconditional.get(name, ()), *self._in_branches.get(name, ())]
            found = next((holder for place in places if (holder := self._find_default(place))), None)
            if found is not None and left > 0:
                left -= sum(count_size(found["default"]))
                if left > 0:
                    defaults[name] = copy_json(found["default"])
        return defaults

    def _find_default(self, schema: Any) -> dict[str, Any] | None:
        """Return the subschema with the default: this one, or one that it refers to."""
        pending = [schema]
        for member in pending:
            if not isinstance(member, dict) or len(pending) > _MAX_HOPS:
                continue
            if "default" in member and self._references.reads_siblings(member):
                return member
            pending += self._references.all_of(member)
        return None


def _branches(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to some values of a schema only."""
    for word in _BRANCHES:
        if isinstance(members := schema.get(word), list):
            yield from members
    for word in _CONDITIONAL:
        yield schema.get(word)
    if isinstance(members := schema.get("dependentSchemas"), dict):
        yield from members.values()


class Phrases:
    """The atoms of the subschemas of one schema; each is read once, however often it is referred to."""

    def __init__(self, references: LocalReferences) -> None:
        self._references = references
        self._read: dict[int, Atoms] = {}

    def of_all(self, schemas: Iterable[Any]) -> Atoms:
        """Return the atoms that all of some schemas admit."""
        found = (self._atoms(schema, 0) for schema in schemas)
        return reduce(_intersect, (None if atoms is _RECURSION else atoms for atoms in found), None)

    def of_any(self, schemas: Iterable[Any]) -> Atoms:
        """Return the atoms that any of some schemas admits."""
        found = self._union_atoms(schemas, 0)
        return None if found is _RECURSION else found

    def _atoms(self, schema: Any, level: int) -> Atoms:
        if schema is False:
            return ()
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return None
        key = id(schema)
        if key not in self._read:
            if len(self._read) >= _MAX_SCHEMAS:
                return None
            self._read[key] = _RECURSION
            self._read[key] = self._of(schema, level + 1)
        return self._read[key]

    def _of(self, schema: dict[str, Any], level: int) -> Atoms:
        """Return the atoms of a schema, with its references and combinations."""
        parts = [self._own_atoms(schema, level)] if self._references.reads_siblings(schema) else []
        parts += (self._atoms(member, level) for member in self._references.all_of(schema))
        for word in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(word), list) and members:
                parts.append(self._union_atoms(members, level))
        found = reduce(_intersect, (None if atoms is _RECURSION else atoms for atoms in parts), None)
        if found is None and any(atoms is _RECURSION for atoms in parts):
            return _RECURSION
        return _summarize_atoms((*found, "null")) if found and schema.get("nullable") is True else found

    def _union_atoms(self, schemas: Iterable[Any], level: int) -> Atoms:
        """Return the atoms that any of some schemas admits; recursions add nothing."""
        atoms: tuple[str, ...] = _RECURSION
        are_many = False
        for schema in schemas:
            found = self._atoms(schema, level)
            if found is None:
                return None
            if found is not _RECURSION:
                added = map(_type_of_atom, found) if are_many else found
                together = tuple(dict.fromkeys(added if atoms is _RECURSION else (*atoms, *added)))
                atoms = _summarize_atoms(together)
                are_many |= len(atoms) < len(together)
        return atoms

    def _own_atoms(self, schema: dict[str, Any], level: int) -> Atoms:
        """Return the atoms of a schema's own keywords, without references and combinations."""
        if "const" in schema:
            return (_format_literal(schema["const"]),)
        if isinstance(values := schema.get("enum"), list):
            return _summarize_atoms(_format_literal(value) for value in values[:_MAX_ENUM_READ])
        types = schema.get("type")
        names = [types] if isinstance(types, str) else types
        if not isinstance(names, list):
            names = [name for word, name in _IMPLIED_TYPES.items() if word in schema][:1]
        known = [name for name in _TYPES if name in names]
        return tuple(self._describe_type(name, schema, level) for name in known) or None

    def _describe_type(self, name: str, schema: dict[str, Any], level: int) -> str:
        """Return a type, with the format of a string or the items of an array."""
        if name == "array":
            return self._describe_array(schema, level)
        form = schema.get("format")
        has_format = name == "string" and isinstance(form, str) and _FORMAT.fullmatch(form)
        return f"string ({form})" if has_format else name

    def _describe_array(self, schema: dict[str, Any], level: int) -> str:
        members = [
            member
            for word in ("prefixItems", "items")
            if word in schema
            for member in (schema[word] if isinstance(schema[word], list) else [schema[word]])
        ]
        phrase = _phrase(self._union_atoms(members, level)) if members else ""
        if not phrase or phrase == _NOTHING or len(phrase) > _MAX_ARRAY:
            return "array"
        return f"array of ({phrase})" if " | " in phrase else f"array of {phrase}"


def _phrase(atoms: Atoms) -> str:
    if atoms is None or atoms is _RECURSION:
        return ""
    return " | ".join(atoms) or _NOTHING


def _format_literal(value: Any) -> str:
    """Return a value as JSON, or its type if that would be too long."""
    text = "" if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
    return text if 0 < len(text) <= _MAX_LITERAL else _type_of(value)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _summarize_atoms(atoms: Iterable[str]) -> tuple[str, ...]:
    """Return atoms without duplicates, or their types if they are too many or too long."""
    distinct = tuple(dict.fromkeys(atoms))
    if len(distinct) <= _MAX_ATOMS and sum(map(len, distinct)) <= _MAX_PHRASE:
        return distinct
    return tuple(dict.fromkeys(map(_type_of_atom, distinct)))


def _type_of_atom(atom: str) -> str:
    """Return the JSON type of an atom."""
    first = atom.partition(" ")[0]
    return first if first in _TYPES else _type_of(json.loads(atom))


def _intersect(one: Atoms, other: Atoms) -> Atoms:
    """Return approximately the intersection of two schemas: the narrower atoms of either."""
    if one is None or other is None:
        return other if one is None else one
    kept = [atom for atom in other if any(_is_narrower(atom, wider) for wider in one)]
    return tuple(kept or [atom for atom in one if any(_is_narrower(atom, wider) for wider in other)] or one)


def _is_narrower(atom: str, wider: str) -> bool:
    """Return whether an atom is equal to another one or a special case of it."""
    if atom == wider:
        return True
    base = _type_of_atom(atom)
    return base == wider or (base == "integer" and wider == "number")


class Required:
    """The required properties of the subschemas of one schema; each is read once."""

    def __init__(self, references: LocalReferences) -> None:
        self._references = references
        self._read: dict[int, Names] = {}
        self._left = _MAX_COMPARED_NAMES

    def of(self, schema: Any) -> tuple[str, ...]:
        """Return the names of the required properties."""
        return tuple(self._names(schema, 0) or ())

    def _names(self, schema: Any, level: int) -> Names:
        if schema is False:
            return None
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return {}
        key = id(schema)
        if key not in self._read:
            self._read[key] = None
            self._read[key] = self._of(schema, level + 1)
        return self._read[key]

    def _of(self, schema: dict[str, Any], level: int) -> Names:
        items: list[Names] = []
        if self._references.reads_siblings(schema):
            if not _may_be_object(schema):
                return None
            required = schema.get("required")
            own = required if isinstance(required, list) else ()
            items.append(dict.fromkeys(name for name in own if isinstance(name, str)))
        items += [self._names(member, level) for member in self._references.all_of(schema)]
        if self._references.reads_siblings(schema):
            items += [self._intersection(members, level) for members in _alternatives(schema)]
        return self._union(items)

    def _union(self, items: list[Names]) -> Names:
        """Return the union of some lists of names."""
        found = [names for names in items if names]
        if len(found) <= 1:
            return found[0] if found else None if None in items else {}
        together: dict[str, None] = {}
        for names in found:
            if self._spend(len(names)):
                together.update(names)
        return together

    def _intersection(self, schemas: Iterable[Any], level: int) -> Names:
        """Return the names that every alternative requires; alternatives that admit no object are ignored."""
        common: Names = None
        for schema in schemas:
            names = self._names(schema, level)
            if names is None or names is common:
                continue
            if common is None:
                common = names
            elif self._spend(len(common)):
                common = {name: None for name in common if name in names}
            else:
                return {}
            if not common:
                break
        return common

    def _spend(self, work: int) -> bool:
        self._left -= work
        return self._left >= 0


def _alternatives(schema: dict[str, Any]) -> Iterable[list[Any]]:
    """Yield groups of subschemas; an object of the schema fits at least one of each group."""
    for word in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(word), list) and members:
            yield members
    if "then" in schema and "else" in schema and "if" in schema:
        yield [schema["then"], schema["else"]]


def _may_be_object(schema: dict[str, Any]) -> bool:
    types = schema.get("type", "object")
    return types == "object" or not isinstance(types, str | list) or "object" in types

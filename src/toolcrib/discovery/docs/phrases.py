"""What a schema admits, in a phrase: `string | null`, `array of integer`, `"open" | "closed"`."""

import json
import re
from collections.abc import Iterable
from functools import reduce
from typing import Any, Final

from toolcrib.discovery.docs.references import References

__all__ = ["Phrases"]

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_IMPLIED: Final = {
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
"""What somebody who wrote this keyword, and no type, had in mind."""
_MAX_ATOMS = 8
_MAX_LENGTH = 160
_MAX_LITERAL = 40
_MAX_ARRAY = 80
_MAX_READ = 1_000
"""How many values of an enumeration are looked at."""
_MAX_LEVELS = 32
_MAX_SCHEMAS = 20_000
"""How many subschemas are looked into; the others admit anything."""
_NOTHING = "never"
_FORMAT = re.compile(r"[a-z][a-z0-9-]{0,23}")

Atoms = tuple[str, ...] | None
"""What a schema admits, each kind once; nothing at all where empty, anything where None."""
_LOOP: Final = ("a loop",)
"""Stands for a schema that is being read, to be told by its identity."""


class Phrases:
    """The phrases of the subschemas of one schema; each is read once, however often it is referred to."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._read: dict[int, Atoms] = {}

    def both(self, schemas: Iterable[Any]) -> str:
        """Return what all of some schemas admit; empty where that is anything."""
        found = (self._atoms(schema, 0) for schema in schemas)
        return _phrase(reduce(_both, (None if atoms is _LOOP else atoms for atoms in found), None))

    def either(self, schemas: Iterable[Any]) -> str:
        """Return what any of some schemas admits; empty where that is anything."""
        return _phrase(self._either(schemas, 0))

    def _atoms(self, schema: Any, level: int) -> Atoms:
        if schema is False:
            return ()
        if not isinstance(schema, dict) or level > _MAX_LEVELS:
            return None
        key = id(schema)
        if key not in self._read:
            if len(self._read) >= _MAX_SCHEMAS:
                return None
            self._read[key] = _LOOP
            self._read[key] = self._of(schema, level + 1)
        return self._read[key]

    def _of(self, schema: dict[str, Any], level: int) -> Atoms:
        """Return what a schema admits."""
        said = [self._own(schema, level)] if self._references.counts(schema) else []
        said += (self._atoms(member, level) for member in self._references.all_of(schema))
        for word in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(word), list) and members:
                said.append(self._either(members, level))
        found = reduce(_both, (None if atoms is _LOOP else atoms for atoms in said), None)
        if found is None and any(atoms is _LOOP for atoms in said):
            return _LOOP
        return _few((*found, "null")) if found and schema.get("nullable") is True else found

    def _either(self, schemas: Iterable[Any], level: int) -> Atoms:
        """Return what any of some schemas admits; what leads back to where one came from adds nothing."""
        atoms: tuple[str, ...] = _LOOP
        are_many = False
        for schema in schemas:
            found = self._atoms(schema, level)
            if found is None:
                return None
            if found is not _LOOP:
                added = map(_base, found) if are_many else found
                together = tuple(dict.fromkeys(added if atoms is _LOOP else (*atoms, *added)))
                atoms = _few(together)
                are_many |= len(atoms) < len(together)
        return atoms

    def _own(self, schema: dict[str, Any], level: int) -> Atoms:
        """Return what a schema itself says that it admits, references and combinations aside."""
        if "const" in schema:
            return (_literal(schema["const"]),)
        if isinstance(values := schema.get("enum"), list):
            return _few(_literal(value) for value in values[:_MAX_READ])
        types = schema.get("type")
        names = [types] if isinstance(types, str) else types
        if not isinstance(names, list):
            names = [name for word, name in _IMPLIED.items() if word in schema][:1]
        known = [name for name in _TYPES if name in names]
        return tuple(self._typed(name, schema, level) for name in known) or None

    def _typed(self, name: str, schema: dict[str, Any], level: int) -> str:
        """Return a type with what is worth saying about it."""
        if name == "array":
            return self._array(schema, level)
        form = schema.get("format")
        is_told = name == "string" and isinstance(form, str) and _FORMAT.fullmatch(form)
        return f"string ({form})" if is_told else name

    def _array(self, schema: dict[str, Any], level: int) -> str:
        members = [
            member
            for word in ("prefixItems", "items")
            if word in schema
            for member in (schema[word] if isinstance(schema[word], list) else [schema[word]])
        ]
        phrase = _phrase(self._either(members, level)) if members else ""
        if not phrase or phrase == _NOTHING or len(phrase) > _MAX_ARRAY:
            return "array"
        return f"array of ({phrase})" if " | " in phrase else f"array of {phrase}"


def _phrase(atoms: Atoms) -> str:
    if atoms is None or atoms is _LOOP:
        return ""
    return " | ".join(atoms) or _NOTHING


def _literal(value: Any) -> str:
    """Return a value as JSON, or its type where that would be too long."""
    text = "" if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
    return text if 0 < len(text) <= _MAX_LITERAL else _type_of(value)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _few(atoms: Iterable[str]) -> tuple[str, ...]:
    """Return atoms, each once; where they are too many to be read, their types."""
    distinct = tuple(dict.fromkeys(atoms))
    if len(distinct) <= _MAX_ATOMS and sum(map(len, distinct)) <= _MAX_LENGTH:
        return distinct
    return tuple(dict.fromkeys(map(_base, distinct)))


def _base(atom: str) -> str:
    """Return the type that an atom is of."""
    first = atom.partition(" ")[0]
    return first if first in _TYPES else _type_of(json.loads(atom))


def _both(one: Atoms, other: Atoms) -> Atoms:
    """Return what two schemas both admit, as far as phrases tell: the more exact of them."""
    if one is None or other is None:
        return other if one is None else one
    kept = [atom for atom in other if any(_refines(atom, wider) for wider in one)]
    return tuple(kept or [atom for atom in one if any(_refines(atom, wider) for wider in other)] or one)


def _refines(atom: str, wider: str) -> bool:
    """Return whether an atom is another one, or says more of it."""
    if atom == wider:
        return True
    base = _base(atom)
    return base == wider or (base == "integer" and wider == "number")

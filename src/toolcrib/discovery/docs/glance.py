"""An input schema at a glance: what is required, what is of which type, what is assumed when left out."""

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
"""How many of the places where one property is described are looked at."""
_MAX_DEFAULTS = 20_000
"""How many values and characters all defaults together may hold."""
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONAL = ("then", "else")
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
"""Stands for a schema that is being read, recognised by its identity."""
_MAX_WORK = 200_000
"""How many names are compared before no more is listed as required."""
Names = dict[str, None] | None
"""The names in the order in which they are met; None for what no object fits, or what loops."""


def schema_info(schema: Any) -> SchemaInfo:
    """Return an object schema at a glance, in time linear in its size.

    References within the schema are followed, `allOf` is merged, and the properties of alternatives are
    gathered; what each alternative requires is required. A property that may be anything has no types, and
    the phrase `any`.

    >>> count = {"type": ["integer", "null"], "default": 1}
    >>> info = schema_info({"properties": {"count": count}, "required": ["count"]})
    >>> info.required, info.types, info.defaults
    (('count',), {'count': ('integer', 'null')}, {'count': 1})
    >>> info.phrases
    {'count': 'integer | null'}

    Raises:
        InvalidSchemaError: it is neither a JSON object nor a boolean.
    """
    if isinstance(schema, bool):
        return SchemaInfo()
    if not isinstance(schema, dict):
        raise InvalidSchemaError(f"a schema is a JSON object or a boolean, not {type(schema).__name__}")
    try:
        measure(schema, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        raise InvalidSchemaError("the schema is not plain JSON", error.problems) from error
    return _Glance(schema).info()


class _Glance:
    """One look at a schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._references = LocalReferences(root)
        self._sure: dict[str, list[Any]] = {}
        """The subschemas of each property, wherever they stand."""
        self._perhaps: dict[str, list[Any]] = {}
        """The subschemas of each property in alternatives."""

    def info(self) -> SchemaInfo:
        self._gather()
        names = [*self._sure, *(name for name in self._perhaps if name not in self._sure)]
        phrases = Phrases(self._references)
        admitted = {name: phrases.both(self._sure.get(name, ())) for name in names}
        for name, places in self._perhaps.items():
            if admitted[name] is None:
                admitted[name] = phrases.either(places)
        types = {name: tuple(dict.fromkeys(map(_base, atoms))) for name, atoms in admitted.items() if atoms}
        return SchemaInfo.of_checked(
            required=Required(self._references).of(self._root),
            defaults=self._defaults(names),
            types=types,
            phrases={name: _phrase(atoms) or "any" for name, atoms in admitted.items()},
        )

    def _gather(self) -> None:
        """Find the subschemas of each property, in the order in which a reader comes across it."""
        seen: set[tuple[int, bool]] = set()
        pending: list[tuple[Any, bool]] = [(self._root, True)]
        for schema, is_sure in pending:
            key = (id(schema), is_sure)
            if not isinstance(schema, dict) or key in seen:
                continue
            seen.add(key)
            if self._references.counts(schema):
                self._note(schema, self._sure if is_sure else self._perhaps)
                pending += [(branch, False) for branch in _branches(schema)]
            pending += [(member, is_sure) for member in self._references.all_of(schema)]

    def _note(self, schema: dict[str, Any], collected: dict[str, list[Any]]) -> None:
        properties = schema.get("properties")
        for name, described in properties.items() if isinstance(properties, dict) else ():
            places = collected.setdefault(name, [])
            if len(places) < _MAX_PLACES:
                places.append(described)

    def _defaults(self, names: list[str]) -> dict[str, Any]:
        """Return the defaults, but for those that would make this longer than a glance."""
        defaults: dict[str, Any] = {}
        left = _MAX_DEFAULTS
        for name in names:
            places = [*self._sure.get(name, ()), *self._perhaps.get(name, ())]
            found = next((holder for place in places if (holder := self._holder(place))), None)
            if found is not None and left > 0:
                left -= sum(count_size(found["default"]))
                if left > 0:
                    defaults[name] = copy_json(found["default"])
        return defaults

    def _holder(self, schema: Any) -> dict[str, Any] | None:
        """Return the subschema that says the default: this one, or one that it refers to."""
        pending = [schema]
        for member in pending:
            if not isinstance(member, dict) or len(pending) > _MAX_HOPS:
                continue
            if "default" in member and self._references.counts(member):
                return member
            pending += self._references.all_of(member)
        return None


def _branches(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas that only some of what fits a schema must fit."""
    for word in _BRANCHES:
        if isinstance(members := schema.get(word), list):
            yield from members
    for word in _CONDITIONAL:
        yield schema.get(word)
    if isinstance(members := schema.get("dependentSchemas"), dict):
        yield from members.values()


class Phrases:
    """The phrases of the subschemas of one schema; each is read once, however often it is referred to."""

    def __init__(self, references: LocalReferences) -> None:
        self._references = references
        self._read: dict[int, Atoms] = {}

    def both(self, schemas: Iterable[Any]) -> Atoms:
        """Return what all of some schemas admit."""
        found = (self._atoms(schema, 0) for schema in schemas)
        return reduce(_both, (None if atoms is _LOOP else atoms for atoms in found), None)

    def either(self, schemas: Iterable[Any]) -> Atoms:
        """Return what any of some schemas admits."""
        found = self._either(schemas, 0)
        return None if found is _LOOP else found

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
        parts = [self._own(schema, level)] if self._references.counts(schema) else []
        parts += (self._atoms(member, level) for member in self._references.all_of(schema))
        for word in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(word), list) and members:
                parts.append(self._either(members, level))
        found = reduce(_both, (None if atoms is _LOOP else atoms for atoms in parts), None)
        if found is None and any(atoms is _LOOP for atoms in parts):
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
        has_format = name == "string" and isinstance(form, str) and _FORMAT.fullmatch(form)
        return f"string ({form})" if has_format else name

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


class Required:
    """Reads each subschema of one schema once."""

    def __init__(self, references: LocalReferences) -> None:
        self._references = references
        self._read: dict[int, Names] = {}
        self._left = _MAX_WORK

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
        if self._references.counts(schema):
            if not _may_be_object(schema):
                return None
            required = schema.get("required")
            own = required if isinstance(required, list) else ()
            items.append(dict.fromkeys(name for name in own if isinstance(name, str)))
        items += [self._names(member, level) for member in self._references.all_of(schema)]
        if self._references.counts(schema):
            items += [self._common(members, level) for members in _alternatives(schema)]
        return self._together(items)

    def _together(self, items: list[Names]) -> Names:
        """Return the names that are in any of some lists."""
        found = [names for names in items if names]
        if len(found) <= 1:
            return found[0] if found else None if None in items else {}
        together: dict[str, None] = {}
        for names in found:
            if self._spend(len(names)):
                together.update(names)
        return together

    def _common(self, schemas: Iterable[Any], level: int) -> Names:
        """Return the names that each alternative requires; one that no object fits is none."""
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
    """Yield lists of schemas of which whatever fits a schema fits at least one."""
    for word in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(word), list) and members:
            yield members
    if "then" in schema and "else" in schema and "if" in schema:
        yield [schema["then"], schema["else"]]


def _may_be_object(schema: dict[str, Any]) -> bool:
    types = schema.get("type", "object")
    return types == "object" or not isinstance(types, str | list) or "object" in types

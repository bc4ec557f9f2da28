"""Certain statements about the values that a schema admits.

Everything here errs on one side: types and members that a schema might admit are never denied, and keywords
that are not understood, or references that cannot be followed, say nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from toolcrib.model.plain import walk
from toolcrib.model.schema.references import LocalReferences

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""The types of JSON values, where a number is an integer or has a fraction."""
_NAMED = {"number": frozenset({"integer", "fraction"})} | {name: frozenset({name}) for name in ALL_TYPES}
_2020 = "json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "json-schema.org/draft-07/schema"
_ELSEWHERE = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_DEFINITIONS = ("$defs", "definitions")
_MAX_FOLLOWED = 32


class SpentError(Exception):
    """A schema asks for more looks than any honest one."""


class Budget:
    """How many subschemas may still be looked at."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def look(self) -> None:
        """Take one look.

        Raises:
            SpentError: there are none left.
        """
        self._left -= 1
        if self._left < 0:
            raise SpentError


class Schema:
    """A whole schema, as far as its parts are known."""

    def __init__(self, schema: Any, budget: Budget) -> None:
        self.schema = schema
        self.budget = budget
        self.known: dict[int, list[SchemaPart]] = {}
        """What `SchemaPart.all` found, by the id of the subschema."""
        named = schema.get("$schema", _2020) if isinstance(schema, dict) else _2020
        bare = named.removesuffix("#").partition("//")[2] or named if isinstance(named, str) else ""
        self.is_draft_7 = bare == _DRAFT_7
        self.is_known = bare in {_2020, _DRAFT_7}

    @property
    def root(self) -> "SchemaPart":
        """Return the schema as the place that it is."""
        return SchemaPart(self.schema if self.is_known else True, self)

    @cached_property
    def _references(self) -> LocalReferences:
        return LocalReferences(self.schema)

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [each for each in walk(self.schema) if type(each) is dict]

    @cached_property
    def _is_one_document(self) -> bool:
        """Return whether pointers are all that references can be."""
        below = (each for each in self._objects if each is not self.schema)
        return not any(isinstance(each.get(word), str) for each in below for word in _ELSEWHERE) and not any(
            word in self.schema for word in _ELSEWHERE[1:] if type(self.schema) is dict
        )

    @cached_property
    def _can_be_cut(self) -> bool:
        """Return whether parts mean the same beside the definitions alone."""
        references = (each.get("$ref") for each in self._objects)
        starts = tuple(f"#/{word}/" for word in _DEFINITIONS)
        return (
            self._is_one_document
            and "$id" not in self.schema
            and all(text.startswith(starts) for text in references if isinstance(text, str))
        )

    def part(self, schema: Any) -> dict[str, Any] | None:
        """Return a subschema as a schema of its own; None where that might mean something else."""
        if type(self.schema) is not dict or not self._can_be_cut:
            return None
        kept = {word: self.schema[word] for word in ("$schema", *_DEFINITIONS) if word in self.schema}
        return {**kept, "allOf": [schema]}

    def follow(self, reference: Any) -> Any:
        """Return what a reference within the schema leads to; None where it is unknown."""
        if not isinstance(reference, str) or not self._is_one_document:
            return None
        return self._references.find(reference)


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """A subschema, and the schema that it is a part of."""

    schema: Any
    whole: Schema

    def under(self, word: str) -> Any:
        """Return what a keyword says; None where the schema does not have it."""
        return self.schema.get(word) if type(self.schema) is dict else None

    def at(self, schema: Any) -> "SchemaPart":
        """Return another part of the same schema."""
        return SchemaPart(schema, self.whole)

    def all(self) -> list["SchemaPart"]:
        """Return all subschemas that a value must fit to fit this one: itself, its reference, its `allOf`."""
        self.whole.budget.look()
        known = self.whole.known.get(id(self.schema))
        if known is None:
            known = self.whole.known[id(self.schema)] = self._followed()
        return known

    def _followed(self) -> list["SchemaPart"]:
        found: list[SchemaPart] = []
        seen: set[int] = set()
        pending = [self]
        while pending and len(seen) < _MAX_FOLLOWED:
            place = pending.pop()
            if id(place.schema) in seen or not isinstance(place.schema, dict | bool):
                continue
            seen.add(id(place.schema))
            reference = place.under("$ref")
            if reference is not None:
                pending.append(place.at(self.whole.follow(reference)))
                if self.whole.is_draft_7:  # what stands beside a reference is not read
                    continue
            found.append(place)
            pending += [place.at(each) for each in _list(place.under("allOf"))]
        return found

    def refuses(self, name: str) -> bool:
        """Return whether no object with such a member fits this subschema, by what it says itself."""
        declared = self.under("properties")
        others = None if self.under("patternProperties") else self.under("additionalProperties")
        return others is False and not (isinstance(declared, dict) and name in declared)

    def choices(self) -> Iterator[list["SchemaPart"]]:
        """Yield the branches of `anyOf` and of `oneOf`: of each a value must fit one."""
        for word in ("anyOf", "oneOf"):
            branches = _list(self.under(word))
            if branches:
                yield [self.at(each) for each in branches]


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def type_of(value: Any) -> str:
    """Return the type of a JSON value.

    >>> type_of(2.0), type_of(2.5), type_of(True)
    ('integer', 'fraction', 'boolean')
    """
    if value is None:
        return "null"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    kinds: dict[type, str] = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return kinds[type(value)]


def types(places: Iterable[SchemaPart]) -> frozenset[str]:
    """Return the types that a value may have which fits all of these."""
    admitted = ALL_TYPES
    for place in (each for start in places for each in start.all()):
        if place.schema is False:
            return frozenset()
        admitted &= _own_types(place)
        for branches in place.choices():
            admitted &= frozenset().union(*(types([branch]) for branch in branches))
    return admitted


def _own_types(place: SchemaPart) -> frozenset[str]:
    admitted, named = ALL_TYPES, place.under("type")
    if named is not None:
        names = named if type(named) is list else [named]
        admitted = frozenset().union(
            *(_NAMED.get(name, ALL_TYPES) for name in names if isinstance(name, str))
        )
    values = _own_values(place)
    return admitted if values is None else admitted & {type_of(value) for value in values}


def finite(places: Iterable[SchemaPart]) -> list[Any] | None:
    """Return values among which is every one that fits all of these; None where nothing lists them."""
    listed = [values for start in places for each in start.all() if (values := _own_values(each)) is not None]
    return min(listed, key=len, default=None)


def _own_values(place: SchemaPart) -> list[Any] | None:
    if type(place.schema) is dict and "const" in place.schema:
        return [place.schema["const"]]
    listed = place.under("enum")
    return listed if type(listed) is list else None

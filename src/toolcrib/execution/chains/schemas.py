"""Conservative facts about the values that a schema allows: their types, lists of values, properties.

Everything here errs on one side, because `check.py` refuses chains by it: a type or property that a schema
might allow is never denied. Unknown keywords, dialects and references count as allowing everything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from toolcrib.model.plain import walk
from toolcrib.model.schema.references import LocalReferences

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""The types of JSON values, with numbers divided into integers and those with a fraction."""
_TYPES_OF_NAME = {"number": frozenset({"integer", "fraction"})} | {
    name: frozenset({name}) for name in ALL_TYPES
}
_2020 = "json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "json-schema.org/draft-07/schema"
_RESOLUTION_KEYWORDS = (
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
)
_DEFINITIONS = ("$defs", "definitions")
_MAX_CONJUNCTS = 32


class BudgetSpentError(Exception):
    """The check of a chain would take too long."""


class Budget:
    """Limits the visited subschemas: a small schema may have exponentially many branches."""

    def __init__(self, visits: int) -> None:
        self._left = visits

    def visit(self) -> None:
        """Count one visit.

        Raises:
            BudgetSpentError: none is left.
        """
        self._left -= 1
        if self._left < 0:
            raise BudgetSpentError


class Schema:
    """A whole schema, with a cache of facts about its parts."""

    def __init__(self, schema: Any, budget: Budget) -> None:
        self.schema = schema
        self.budget = budget
        self.known: dict[int, list[SchemaPart]] = {}
        """Results of `SchemaPart.conjuncts`, by the id of the subschema."""
        named = schema.get("$schema", _2020) if isinstance(schema, dict) else _2020
        bare = named.removesuffix("#").partition("//")[2] or named if isinstance(named, str) else ""
        self.is_draft_7 = bare == _DRAFT_7
        self.is_known = bare in {_2020, _DRAFT_7}

    @property
    def root(self) -> "SchemaPart":
        """The schema as a part of itself; of an unknown dialect, a schema that allows everything."""
        return SchemaPart(self.schema if self.is_known else True, self)

    @cached_property
    def _references(self) -> LocalReferences:
        return LocalReferences(self.schema)

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [each for each in walk(self.schema) if type(each) is dict]

    @cached_property
    def _is_one_document(self) -> bool:
        """Whether all references are JSON Pointers from the root: no keyword changes base or names."""
        below = (each for each in self._objects if each is not self.schema)
        return not any(
            isinstance(each.get(word), str) for each in below for word in _RESOLUTION_KEYWORDS
        ) and not any(word in self.schema for word in _RESOLUTION_KEYWORDS[1:] if type(self.schema) is dict)

    @cached_property
    def _parts_can_stand_alone(self) -> bool:
        """Whether a part means the same in a schema with nothing else but the definitions."""
        references = (each.get("$ref") for each in self._objects)
        starts = tuple(f"#/{word}/" for word in _DEFINITIONS)
        return (
            self._is_one_document
            and "$id" not in self.schema
            and all(text.startswith(starts) for text in references if isinstance(text, str))
        )

    def extract(self, schema: Any) -> dict[str, Any] | None:
        """Return a subschema as a schema by itself; None if that might mean something else."""
        if type(self.schema) is not dict or not self._parts_can_stand_alone:
            return None
        kept = {word: self.schema[word] for word in ("$schema", *_DEFINITIONS) if word in self.schema}
        return {**kept, "allOf": [schema]}  # allOf, since the subschema may have definitions of its own

    def follow(self, reference: Any) -> Any:
        """Return the target of a reference within the schema; None if it is unknown."""
        if not isinstance(reference, str) or not self._is_one_document:
            return None
        return self._references.find(reference)


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """A subschema with the schema that it is a part of."""

    schema: Any
    whole: Schema

    def keyword(self, word: str) -> Any:
        """Return the value of a keyword; None if the subschema does not have it."""
        return self.schema.get(word) if type(self.schema) is dict else None

    def make_part(self, schema: Any) -> "SchemaPart":
        """Return another part of the same schema."""
        return SchemaPart(schema, self.whole)

    def conjuncts(self) -> list["SchemaPart"]:
        """Return the subschemas that a valid value must all satisfy: itself, its reference, its `allOf`."""
        self.whole.budget.visit()
        known = self.whole.known.get(id(self.schema))
        if known is None:
            known = self.whole.known[id(self.schema)] = self._find_conjuncts()
        return known

    def _find_conjuncts(self) -> list["SchemaPart"]:
        found: list[SchemaPart] = []
        seen: set[int] = set()
        pending = [self]
        while pending and len(seen) < _MAX_CONJUNCTS:
            part = pending.pop()
            if id(part.schema) in seen or not isinstance(part.schema, dict | bool):
                continue
            seen.add(id(part.schema))
            reference = part.keyword("$ref")
            if reference is not None:
                pending.append(part.make_part(self.whole.follow(reference)))
                if self.whole.is_draft_7:  # which ignores the keywords beside a reference
                    continue
            found.append(part)
            pending += [part.make_part(each) for each in _as_list(part.keyword("allOf"))]
        return found

    def forbids_property(self, name: str) -> bool:
        """Return whether this subschema itself, without its conjuncts, forbids a property."""
        declared = self.keyword("properties")
        others = None if self.keyword("patternProperties") else self.keyword("additionalProperties")
        return others is False and not (isinstance(declared, dict) and name in declared)

    def alternatives(self) -> Iterator[list["SchemaPart"]]:
        """Yield the branches of `anyOf` and of `oneOf`; a valid value satisfies one of each list."""
        for word in ("anyOf", "oneOf"):
            branches = _as_list(self.keyword(word))
            if branches:
                yield [self.make_part(each) for each in branches]


def _as_list(value: Any) -> list[Any]:
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


def possible_types(parts: Iterable[SchemaPart]) -> frozenset[str]:
    """Return the possible types of a value that satisfies all parts."""
    admitted = ALL_TYPES
    for part in (each for start in parts for each in start.conjuncts()):
        if part.schema is False:
            return frozenset()
        admitted &= _own_types(part)
        for branches in part.alternatives():
            admitted &= frozenset().union(*(possible_types([branch]) for branch in branches))
    return admitted


def _own_types(part: SchemaPart) -> frozenset[str]:
    admitted, named = ALL_TYPES, part.keyword("type")
    if named is not None:
        names = named if type(named) is list else [named]
        admitted = frozenset().union(
            *(_TYPES_OF_NAME.get(name, ALL_TYPES) for name in names if isinstance(name, str))
        )
    values = _own_values(part)
    return admitted if values is None else admitted & {type_of(value) for value in values}


def listed_values(parts: Iterable[SchemaPart]) -> list[Any] | None:
    """Return values that include every one that satisfies all parts; None without an `enum` or `const`."""
    listed = [
        values for start in parts for each in start.conjuncts() if (values := _own_values(each)) is not None
    ]
    return min(listed, key=len, default=None)


def _own_values(part: SchemaPart) -> list[Any] | None:
    if type(part.schema) is dict and "const" in part.schema:
        return [part.schema["const"]]
    listed = part.keyword("enum")
    return listed if type(listed) is list else None

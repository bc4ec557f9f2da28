"""Finds the reason why the result of one step can never be a valid argument of another."""

from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.errors.base import short_repr
from toolcrib.execution.chains.schemas import SchemaPart, listed_values, possible_types
from toolcrib.execution.chains.shapes import (
    ArrayShape,
    NoValue,
    NullShape,
    SchemaShape,
    Shape,
    TupleShape,
    member_shape,
    name_types,
)

_MAX_DEPTH = 8
_MAX_COMPARED = 100

Accepts = Callable[[SchemaPart, Any], bool]
"""Returns whether a value may satisfy a schema: False only if it certainly does not."""


class Conflicts:
    """Compares the shape of a result with the schema of an argument.

    Each method returns the reason of a conflict, or an empty text if the value may be valid. A reason is the
    end of a sentence whose subject is the result.
    """

    def __init__(self, accepts: Accepts) -> None:
        self._accepts = accepts
        self._compared: dict[tuple[int, ...], str] = {}

    def find_conflict(self, given: Shape | NoValue, wanted: SchemaPart, depth: int = 0) -> str:
        """Return the reason why no value of a shape can satisfy a schema."""
        if not isinstance(given, SchemaShape):
            return self._find_in_known_shape(given, wanted)
        if not given.parts or depth > _MAX_DEPTH:
            return ""
        compared = (wanted, *given.parts)
        # Schemas may share and repeat their parts; without the cache the work would grow exponentially with
        # depth.
        key = depth, *(id(item) for part in compared for item in (part.whole, part.schema))
        if key not in self._compared:
            self._compared[key] = self._find_in_schemas(given, wanted, depth)
        return self._compared[key]

    def _find_in_schemas(self, given: SchemaShape, wanted: SchemaPart, depth: int) -> str:
        came, taken = possible_types(given.parts), possible_types([wanted])
        if not came:  # no result is valid: the step that gives it fails, and not this one
            return ""
        if not came & taken:
            return f"is {name_types(came)}, and must be {name_types(taken)}"
        return self._find_in_values(given, wanted) or self._find_inside(given, wanted, came & taken, depth)

    def _find_in_known_shape(
        self, given: ArrayShape | TupleShape | NullShape | NoValue, wanted: SchemaPart
    ) -> str:
        if isinstance(given, NoValue):
            return given.reason
        if isinstance(given, NullShape):
            return "" if self._accepts(wanted, None) else "is null, which does not fit here"
        kinds = possible_types([wanted])
        return "" if "array" in kinds else f"is an array, and must be {name_types(kinds)}"

    def _find_in_values(self, given: SchemaShape, wanted: SchemaPart) -> str:
        """Compare the values that one of the schemas lists in `enum` or `const`."""
        come = listed_values(given.parts)
        if come and len(come) <= _MAX_COMPARED and not any(self._accepts(wanted, value) for value in come):
            return f"is {_join_values(come)}, which does not fit here"
        taken = listed_values([wanted])
        if not taken or len(taken) > _MAX_COMPARED:
            return ""
        if any(all(self._accepts(part, value) for part in given.parts) for value in taken):
            return ""
        return f"is never {_join_values(taken)}"

    def _find_inside(self, given: SchemaShape, wanted: SchemaPart, kinds: frozenset[str], depth: int) -> str:
        """Compare the alternatives of both schemas, and then their properties."""
        reasons = self._list_in_alternatives(given, wanted, depth)
        found = next(reasons, "")
        if not found and kinds == {"object"}:
            found = next(self._list_in_properties(given, wanted, depth), "")
        return found

    def _list_in_alternatives(self, given: SchemaShape, wanted: SchemaPart, depth: int) -> Iterator[str]:
        for part in wanted.conjuncts():
            for branches in part.alternatives():
                against = [self.find_conflict(given, branch, depth + 1) for branch in branches]
                if all(against):
                    yield against[0]
        for part in (each for start in given.parts for each in start.conjuncts()):
            for branches in part.alternatives():
                against = [
                    self.find_conflict(SchemaShape((branch,)), wanted, depth + 1) for branch in branches
                ]
                if all(against):
                    yield against[0]

    def _list_in_properties(self, given: SchemaShape, wanted: SchemaPart, depth: int) -> Iterator[str]:
        """Yield conflicts about properties that an object must have, or must not have."""
        for part in wanted.conjuncts():
            declared = _declared_properties(part)
            for name in _required_names(part):
                inner = member_shape(given, name)
                if isinstance(inner, NoValue):
                    yield f"{inner.reason}, which is required"
                elif name in declared:
                    reason = self.find_conflict(inner, part.make_part(declared[name]), depth + 1)
                    if reason:
                        yield f"has {short_repr(name)}, which {reason}"
            if part.keyword("additionalProperties") is False and not part.keyword("patternProperties"):
                sent = (
                    name
                    for start in given.parts
                    for each in start.conjuncts()
                    for name in _required_names(each)
                )
                yield from (
                    f"has {short_repr(name)}, which is not allowed" for name in sent if name not in declared
                )


def _required_names(part: SchemaPart) -> list[str]:
    names = part.keyword("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _declared_properties(part: SchemaPart) -> dict[str, Any]:
    declared = part.keyword("properties")
    return declared if isinstance(declared, dict) else {}


def _join_values(values: list[Any]) -> str:
    return " or ".join(map(_show_value, values[:4])) + (" or …" if len(values) > 4 else "")  # noqa: PLR2004 - enough to see


def _show_value(value: Any) -> str:
    return (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else short_repr(value)
    )

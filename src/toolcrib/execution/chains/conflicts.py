"""Why what one step gives can never be what the next one takes."""

from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.errors.base import shown
from toolcrib.execution.chains.schemas import SchemaPart, finite, types
from toolcrib.execution.chains.shapes import Each, Fits, ListOf, NoValue, Null, Shape, a, member_of

_MAX_DEPTH = 8
_MAX_COMPARED = 100

Accepts = Callable[[SchemaPart, Any], bool]
"""Returns whether a value may fit a schema: False only where it certainly does not."""


class Conflicts:
    """Compares what comes with what is wanted; each method returns a reason, or nothing where it may fit.

    Reasons are the ends of sentences whose subject is what comes.
    """

    def __init__(self, accepts: Accepts) -> None:
        self._accepts = accepts
        self._compared: dict[tuple[int, ...], str] = {}

    def between(self, given: Shape | NoValue, wanted: SchemaPart, depth: int = 0) -> str:
        """Return why a value of this shape can never fit this schema."""
        if not isinstance(given, Fits):
            return self._of_known(given, wanted)
        if not given.places or depth > _MAX_DEPTH:
            return ""
        compared = (wanted, *given.places)
        key = depth, *(id(part) for place in compared for part in (place.whole, place.schema))
        if key not in self._compared:
            self._compared[key] = self._of_schemas(given, wanted, depth)
        return self._compared[key]

    def _of_schemas(self, given: Fits, wanted: SchemaPart, depth: int) -> str:
        came, taken = types(given.places), types([wanted])
        if not came:  # nothing can come at all, so the step before fails, and not this one
            return ""
        if not came & taken:
            return f"is {a(came)}, and must be {a(taken)}"
        return self._values(given, wanted) or self._inside(given, wanted, came & taken, depth)

    def _of_known(self, given: Each | ListOf | Null | NoValue, wanted: SchemaPart) -> str:
        if isinstance(given, NoValue):
            return given.reason
        if isinstance(given, Null):
            return "" if self._accepts(wanted, None) else "is null, which does not fit here"
        kinds = types([wanted])
        return "" if "array" in kinds else f"is an array, and must be {a(kinds)}"

    def _values(self, given: Fits, wanted: SchemaPart) -> str:
        """Compare the values that either side lists."""
        come = finite(given.places)
        if come and len(come) <= _MAX_COMPARED and not any(self._accepts(wanted, value) for value in come):
            return f"is {_list(come)}, which does not fit here"
        taken = finite([wanted])
        if not taken or len(taken) > _MAX_COMPARED:
            return ""
        if any(all(self._accepts(place, value) for place in given.places) for value in taken):
            return ""
        return f"is never {_list(taken)}"

    def _inside(self, given: Fits, wanted: SchemaPart, kinds: frozenset[str], depth: int) -> str:
        """Compare the members, and the alternatives, of both sides."""
        reasons = self._alternatives(given, wanted, depth)
        found = next(reasons, "")
        if not found and kinds == {"object"}:
            found = next(self._members(given, wanted, depth), "")
        return found

    def _alternatives(self, given: Fits, wanted: SchemaPart, depth: int) -> Iterator[str]:
        for place in wanted.all():
            for branches in place.choices():
                against = [self.between(given, branch, depth + 1) for branch in branches]
                if all(against):
                    yield against[0]
        for place in (each for start in given.places for each in start.all()):
            for branches in place.choices():
                against = [self.between(Fits((branch,)), wanted, depth + 1) for branch in branches]
                if all(against):
                    yield against[0]

    def _members(self, given: Fits, wanted: SchemaPart, depth: int) -> Iterator[str]:
        """Yield what is wrong with properties that every fitting object must have."""
        for place in wanted.all():
            declared = _properties(place)
            for name in _required(place):
                inner = member_of(given, name)
                if isinstance(inner, NoValue):
                    yield f"{inner.reason}, which is required"
                elif name in declared:
                    reason = self.between(inner, place.at(declared[name]), depth + 1)
                    if reason:
                        yield f"has {shown(name)}, which {reason}"
            if place.under("additionalProperties") is False and not place.under("patternProperties"):
                sent = (name for start in given.places for each in start.all() for name in _required(each))
                yield from (
                    f"has {shown(name)}, which is not allowed" for name in sent if name not in declared
                )


def _required(place: SchemaPart) -> list[str]:
    names = place.under("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _properties(place: SchemaPart) -> dict[str, Any]:
    declared = place.under("properties")
    return declared if isinstance(declared, dict) else {}


def _list(values: list[Any]) -> str:
    return " or ".join(map(_show, values[:4])) + (" or …" if len(values) > 4 else "")  # noqa: PLR2004 - enough to see


def _show(value: Any) -> str:
    return (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else shown(value)
    )

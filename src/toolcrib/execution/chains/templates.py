"""Values with references in them, read once and filled for every call."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import Problem
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution.chains.references import Reference, ReferenceScope, StepNames
from toolcrib.model.plain import pointer


@dataclass(frozen=True, slots=True)
class ObjectTemplate:
    """An object, some of whose members hold references."""

    base: dict[str, Any]
    """All members, with null in the places of those that hold references."""
    members: dict[str, Any]
    """Those."""


@dataclass(frozen=True, slots=True)
class ArrayTemplate:
    """An array, some of whose members hold references."""

    base: list[Any]
    members: dict[int, Any]


Template = Any
"""Plain JSON, a `Reference`, or one of the two above."""
_CONTAINERS = frozenset({dict, list})
_WITH_REFERENCES = frozenset({Reference, ObjectTemplate, ArrayTemplate})


def fill(template: Template, scope: ReferenceScope) -> Any:
    """Return the value of a template; parts without references, and what those lead to, are shared.

    Raises:
        LeadsNowhereError: a reference does.
    """
    if type(template) not in _WITH_REFERENCES:
        return template
    if isinstance(template, Reference):
        return template.resolve(scope)
    value: Any = template.base.copy()
    for key, member in template.members.items():
        value[key] = fill(member, scope)
    return value


def made_by(template: Template) -> int:
    """Return how many values `fill` makes anew: those of the objects and arrays that hold references.

    >>> made_by(ObjectTemplate({"a": None, "b": [1, 2]}, {"a": Reference("item", "item", None, (), "/a")}))
    3
    """
    if not isinstance(template, ObjectTemplate | ArrayTemplate):
        return 0
    return 1 + len(template.base) + sum(map(made_by, template.members.values()))


def references_in(template: Template) -> Iterator[Reference]:
    """Yield the references of a template, in its order."""
    if isinstance(template, Reference):
        yield template
    elif isinstance(template, ObjectTemplate | ArrayTemplate):
        for member in template.members.values():
            yield from references_in(member)


def read_template(value: Any, names: StepNames, path: str, problems: list[Problem]) -> Template:
    """Return the template that a JSON value is; `path` is where it stands in the chain.

    A reference that is none is a problem, and is null in the template.
    """
    return _Reader(names, path, problems).read(value, "")


class _Reader:
    """One walk over a value."""

    def __init__(self, names: StepNames, path: str, problems: list[Problem]) -> None:
        self._names = names
        self._path = path
        self._problems = problems

    def read(self, value: Any, at: str) -> Template:
        if type(value) is list:
            return self._array(value, at)
        if type(value) is not dict:
            return value
        if "$ref" in value:
            if len(self._problems) >= MAX_PROBLEMS:
                return None  # an error shows no more, and each costs a search for the nearest name
            return self._reference(value, at)
        return self._literal(value, at) if "$literal" in value else self._object(value, at)

    def _object(self, value: dict[str, Any], at: str) -> Template:
        base = value.copy()
        members = self._members(base, value.items(), at)
        return ObjectTemplate(base, members) if members else base

    def _array(self, value: list[Any], at: str) -> Template:
        base = value.copy()
        members = self._members(base, enumerate(value), at)
        return ArrayTemplate(base, members) if members else base

    def _members(self, base: Any, items: Iterable[tuple[Any, Any]], at: str) -> dict[Any, Template]:
        """Read the members of a container into a copy of it; return those that hold references."""
        held = {}
        for key, member in items:
            if type(member) in _CONTAINERS:
                base[key] = read = self.read(member, f"{at}{pointer([key])}")
                if type(read) in _WITH_REFERENCES:
                    base[key], held[key] = None, read
        return held

    def _reference(self, value: dict[str, Any], at: str) -> Template:
        if len(value) > 1:
            return self._refuse(
                at,
                "$ref",
                "a reference has no other members; write {'$literal': {...}} around a plain object",
            )
        read = self._names.read(value["$ref"], at)
        return read if isinstance(read, Reference) else self._refuse(at, "$ref", read)

    def _literal(self, value: dict[str, Any], at: str) -> Any:
        if len(value) > 1:
            return self._refuse(
                at, "$literal", "'$literal' stands alone in its object; put the whole value into it"
            )
        return value["$literal"]

    def _refuse(self, at: str, keyword: str, message: str) -> None:
        self._problems.append(Problem(self._path + at, keyword, message[:500]))

"""Templates: JSON values with references, parsed once and filled for every call."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import Problem
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution.chains.references import Reference, ReferenceScope, StepNames
from toolcrib.execution.kept import KeptHandle, looks_like_handle
from toolcrib.model.plain import pointer


@dataclass(frozen=True, slots=True)
class ObjectTemplate:
    """An object with references in some of its members."""

    base: dict[str, Any]
    """All members; those with references are null."""
    members: dict[str, Any]
    """The members with references."""


@dataclass(frozen=True, slots=True)
class ArrayTemplate:
    """An array with references in some of its items."""

    base: list[Any]
    members: dict[int, Any]


Template = Any
"""Plain JSON, a `Reference`, a `KeptHandle`, or one of the two above."""
_CONTAINERS = frozenset({dict, list})
_WITH_REFERENCES = frozenset({Reference, ObjectTemplate, ArrayTemplate, KeptHandle})


def fill_template(template: Template, scope: ReferenceScope) -> Any:
    """Return the value of a template.

    Parts without references are shared with the template, referenced values with the results: copying them
    would make the cost of a chain quadratic. So the value must not be changed.

    Raises:
        NoReferencedValueError: a referenced value does not exist.
    """
    if type(template) not in _WITH_REFERENCES:
        return template
    if isinstance(template, Reference):
        return template.resolve(scope)
    if isinstance(template, KeptHandle):
        return template
    value: Any = template.base.copy()
    for key, member in template.members.items():
        value[key] = fill_template(member, scope)
    return value


def count_new_values(template: Template) -> int:
    """Return the number of values that `fill_template` makes: those of containers with references.

    >>> item = Reference("item", "item", None, (), "/a")
    >>> count_new_values(ObjectTemplate({"a": None, "b": [1, 2]}, {"a": item}))
    3
    """
    if not isinstance(template, ObjectTemplate | ArrayTemplate):
        return 0
    return 1 + len(template.base) + sum(map(count_new_values, template.members.values()))


def references_in(template: Template) -> Iterator[Reference]:
    """Yield the references of a template, in order."""
    if isinstance(template, Reference):
        yield template
    elif isinstance(template, ObjectTemplate | ArrayTemplate):
        for member in template.members.values():
            yield from references_in(member)


def read_template(value: Any, names: StepNames, path: str, problems: list[Problem]) -> Template:
    """Return the template for a JSON value; `path` is its JSON Pointer in the chain.

    An invalid reference is added to the problems, and is null in the template.
    """
    return _Reader(names, path, problems).read(value, "")


class _Reader:
    """Reads one value."""

    def __init__(self, names: StepNames, path: str, problems: list[Problem]) -> None:
        self._names = names
        self._path = path
        self._problems = problems

    def read(self, value: Any, at: str) -> Template:
        if type(value) is list:
            return self._read_array(value, at)
        if type(value) is not dict:
            return value
        if "$ref" in value:
            if len(self._problems) >= MAX_PROBLEMS:
                return None  # the error shows no more problems, and each costs a search for similar names
            return self._read_reference(value, at)
        if looks_like_handle(value):
            return KeptHandle(value)
        return self._read_literal(value, at) if "$literal" in value else self._read_object(value, at)

    def _read_object(self, value: dict[str, Any], at: str) -> Template:
        base = value.copy()
        members = self._read_members(base, value.items(), at)
        return ObjectTemplate(base, members) if members else base

    def _read_array(self, value: list[Any], at: str) -> Template:
        base = value.copy()
        members = self._read_members(base, enumerate(value), at)
        return ArrayTemplate(base, members) if members else base

    def _read_members(self, base: Any, items: Iterable[tuple[Any, Any]], at: str) -> dict[Any, Template]:
        """Read the members of a container into its copy; return the templates of those with references."""
        with_references = {}
        for key, member in items:
            if type(member) in _CONTAINERS:
                base[key] = read = self.read(member, f"{at}{pointer([key])}")
                if type(read) in _WITH_REFERENCES:
                    base[key], with_references[key] = None, read
        return with_references

    def _read_reference(self, value: dict[str, Any], at: str) -> Template:
        if len(value) > 1:
            return self._add_problem(
                at,
                "$ref",
                "a reference has no other members; write {'$literal': {...}} around a plain object",
            )
        read = self._names.parse(value["$ref"], at)
        return read if isinstance(read, Reference) else self._add_problem(at, "$ref", read)

    def _read_literal(self, value: dict[str, Any], at: str) -> Any:
        if len(value) > 1:
            return self._add_problem(
                at, "$literal", "'$literal' stands alone in its object; put the whole value into it"
            )
        return value["$literal"]

    def _add_problem(self, at: str, keyword: str, message: str) -> None:
        self._problems.append(Problem(self._path + at, keyword, message[:500]))

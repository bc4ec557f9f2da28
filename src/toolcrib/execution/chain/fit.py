"""Whether a value with references in it can fit a schema; only what never can is told."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolcrib.errors import InvalidSchemaError, Problem, ValidationError
from toolcrib.errors.base import shown
from toolcrib.execution.chain.conflicts import Conflicts
from toolcrib.execution.chain.references import Reference
from toolcrib.execution.chain.schemas import Place, types
from toolcrib.execution.chain.shapes import Nothing, Shape, a
from toolcrib.execution.chain.templates import ArrayTemplate, ObjectTemplate, Template
from toolcrib.model.plain import pointer
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.suggest import did_you_mean

__all__ = ["Fitting", "Literals", "Sources"]

Sources = Callable[[Reference], Sequence[Shape | Nothing]]
"""Returns what a reference may lead to, one of these."""


class Literals:
    """What a validator has against plain values, asked once for each."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._validator = validator
        self._asked: dict[tuple[int, int, type, Any], tuple[Problem, ...]] = {}

    def problems(self, value: Any, place: Place) -> tuple[Problem, ...]:
        """Return why a value does not fit a part of a schema, with paths into the value."""
        if isinstance(value, dict | list):
            return self._ask(value, place)
        key = id(place.whole), id(place.schema), type(value), value
        if key not in self._asked:
            self._asked[key] = self._ask(value, place)
        return self._asked[key]

    def accepts(self, place: Place, value: Any) -> bool:
        """Return whether a value may fit a part of a schema."""
        return not self.problems(value, place)

    def _ask(self, value: Any, place: Place) -> tuple[Problem, ...]:
        part = place.whole.part(place.schema)
        if part is None:
            return ()
        try:
            self._validator.validate(part, value)
        except ValidationError as error:
            return error.problems
        except InvalidSchemaError:
            pass  # what cannot be checked is left to the call
        return ()


class Fitting:
    """Fits the templates of one step into schemas."""

    def __init__(self, literals: Literals, conflicts: Conflicts, sources: Sources) -> None:
        self._literals = literals
        self._conflicts = conflicts
        self._sources = sources

    def misfits(self, template: Template, place: Place, path: str) -> Iterator[Problem]:
        """Yield why a template can never be filled so that it fits a schema; `path` is where it stands."""
        if isinstance(template, Reference):
            if reason := self.reason(template, place):
                yield Problem(path, "$ref", f"{shown(template.text)} {reason}"[:500])
        elif not isinstance(template, ObjectTemplate | ArrayTemplate):
            for each in self._literals.problems(template, place):
                yield Problem(path + each.path, each.keyword, each.message)
        else:
            yield from self._container(template, place, path)

    def reason(self, reference: Reference, place: Place) -> str:
        """Return why what a reference leads to can never fit a schema; nothing where it may."""
        against = [self._conflicts.between(shape, place) for shape in self._sources(reference)]
        return against[0] if against and all(against) else ""

    def _container(
        self, template: ObjectTemplate | ArrayTemplate, place: Place, path: str
    ) -> Iterator[Problem]:
        kind = "object" if isinstance(template, ObjectTemplate) else "array"
        kinds = types([place])
        if kind not in kinds:
            yield Problem(path, "type", f"must be {a(kinds)}, not an {kind}")
            return
        for each in place.all():
            if isinstance(template, ObjectTemplate):
                yield from self._object(template, each, path)
            else:
                yield from self._array(template, each, path)
            for branches in each.choices():
                against = [list(self.misfits(template, branch, path)) for branch in branches]
                if all(against):
                    yield min(against, key=len)[0]

    def _object(self, template: ObjectTemplate, place: Place, path: str) -> Iterator[Problem]:
        required, declared = place.under("required"), place.under("properties")
        declared = declared if isinstance(declared, dict) else {}
        for name in required if isinstance(required, list) else ():
            if name not in template.base:
                yield Problem(path, "required", f"required property {shown(name)} is missing")
        others = None if place.under("patternProperties") else place.under("additionalProperties")
        for name, value in template.base.items():
            at, member = path + pointer([name]), template.members.get(name, value)
            if name in declared:
                yield from self.misfits(member, place.at(declared[name]), at)
            elif place.refuses(name):
                hint = did_you_mean(name, declared) or "; remove it"
                yield Problem(path, "additionalProperties", f"unexpected property {shown(name)}{hint}")
            elif others is not None:
                yield from self.misfits(member, place.at(others), at)

    def _array(self, template: ArrayTemplate, place: Place, path: str) -> Iterator[Problem]:
        items = place.under("items")
        if place.under("prefixItems") or not isinstance(items, dict | bool):
            return
        for index, value in enumerate(template.base):
            member = template.members.get(index, value)
            yield from self.misfits(member, place.at(items), f"{path}/{index}")

"""Whether a step runs: a small closed form, not a language.

A reference is met where what it leads to is neither null, false, 0 nor empty. `{"equals": [a, b]}` compares
two values, each of which may be or hold a reference; `{"exists": reference}` asks whether it leads anywhere.
`{"not": c}`, `{"all": [...]}` and `{"any": [...]}` combine, and `true` and `false` are themselves. Here, a
reference that leads nowhere is null. One condition compares so many values, and no more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import LimitExceededError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, either, shown
from toolcrib.execution.chains.references import LeadsNowhereError, Reference, ReferenceScope, StepNames
from toolcrib.execution.chains.templates import Template, fill, read_template, references_in
from toolcrib.model.suggest import did_you_mean

_WORDS = ("$ref", "all", "any", "equals", "exists", "not")
_MAX_DEPTH = 32
_PAIR = 2
_MAX_COMPARED = 50_000
"""How many values one condition compares; the event loop waits for it."""
_TEXT = 10_000
"""How many characters of two texts count as a value."""

Test = Callable[[ReferenceScope], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, read."""

    holds: Test
    references: tuple[Reference, ...]

    def test(self, scope: ReferenceScope) -> bool:
        """Return whether it is met.

        Raises:
            LimitExceededError: it compares more than a condition may.
        """
        scope.compared = 0
        return self.holds(scope)

    @property
    def of_item(self) -> bool:
        """Return whether it asks about the item that a step runs for."""
        return any(reference.of_item for reference in self.references)


def read_condition(value: Any, names: StepNames, path: str, problems: list[Problem]) -> Condition:
    """Return the condition that JSON describes; `path` is where it stands in the chain."""
    reader = _Reader(names, problems)
    test = reader.read(value, path, 0)
    return Condition(test, tuple(reader.references))


class _Reader:
    """One walk over a condition."""

    def __init__(self, names: StepNames, problems: list[Problem]) -> None:
        self._names = names
        self._problems = problems
        self.references: list[Reference] = []

    def read(self, value: Any, path: str, depth: int) -> Test:
        if isinstance(value, bool):
            return lambda _scope: value
        if len(self._problems) >= MAX_PROBLEMS:
            return lambda _scope: (
                False
            )  # an error shows no more, and each costs a search for the nearest name
        if type(value) is not dict or len(value) != 1 or depth > _MAX_DEPTH:
            return self._refuse(path, _fault(value, depth))
        [(word, inner)] = value.items()
        if word in {"all", "any", "not"}:
            return self._combined(word, inner, f"{path}/{word}", depth)
        if word == "equals":
            return self._equals(inner, f"{path}/equals")
        return self._reference(word, value, path)

    def _combined(self, word: str, inner: Any, path: str, depth: int) -> Test:
        if word == "not":
            denied = self.read(inner, path, depth + 1)
            return lambda scope: not denied(scope)
        if type(inner) is not list:
            return self._refuse(path, "must be an array of conditions")
        tests = [self.read(each, f"{path}/{place}", depth + 1) for place, each in enumerate(inner)]
        combine = all if word == "all" else any
        return lambda scope: combine(test(scope) for test in tests)

    def _equals(self, inner: Any, path: str) -> Test:
        if type(inner) is not list or len(inner) != _PAIR:
            return self._refuse(path, "must be an array of the two values to compare")
        one, other = (self._value(each, f"{path}/{place}") for place, each in enumerate(inner))
        return lambda scope: _same(_known(one, scope), _known(other, scope), scope)

    def _reference(self, word: str, value: dict[str, Any], path: str) -> Test:
        if word == "$ref":
            asked = self._value(value, path)
            return lambda scope: bool(_known(asked, scope))
        inner = value[word]
        if word != "exists":
            return self._refuse(
                path, f"there is no condition {shown(word)}{did_you_mean(word, _WORDS)}; {_OFFER}"
            )
        if type(inner) is not dict or "$ref" not in inner:
            return self._refuse(f"{path}/exists", "must be a reference, such as {'$ref': 'steps.find/items'}")
        sought = self._value(inner, f"{path}/exists")
        return lambda scope: _leads_somewhere(sought, scope)

    def _value(self, value: Any, path: str) -> Template:
        template = read_template(value, self._names, path, self._problems)
        self.references += references_in(template)
        return template

    def _refuse(self, path: str, message: str) -> Test:
        self._problems.append(Problem(path, "when", message[:500]))
        return lambda _scope: False


_OFFER = f"a condition is a boolean, or an object with one of {either(_WORDS)}"


def _fault(value: Any, depth: int) -> str:
    if depth > _MAX_DEPTH:
        return f"conditions are nested more than {_MAX_DEPTH} deep"
    return f"{_OFFER}, not {shown(value)}"


def _known(template: Template, scope: ReferenceScope) -> Any:
    try:
        return fill(template, scope)
    except LeadsNowhereError:
        return None


def _leads_somewhere(template: Template, scope: ReferenceScope) -> bool:
    try:
        fill(template, scope)
    except LeadsNowhereError:
        return False
    return True


def _same(one: Any, other: Any, scope: ReferenceScope) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if left is right:
            continue
        _count(scope, 1)
        if type(left) is dict and type(right) is dict:
            _count(scope, len(left))
            if left.keys() != right.keys():
                return False
            pending += [(left[key], right[key]) for key in left]
        elif type(left) is list and type(right) is list:
            if len(left) != len(right):
                return False
            _count(scope, len(left))
            pending += zip(left, right, strict=True)
        elif isinstance(left, bool) is not isinstance(right, bool):
            return False
        else:
            if type(left) is str:
                _count(scope, len(left) // _TEXT)
            if left != right:
                return False
    return True


def _count(scope: ReferenceScope, values: int) -> None:
    scope.compared += values
    if scope.compared > _MAX_COMPARED:
        reason = f"a condition compares at most {_MAX_COMPARED:,} values; compare a part of them"
        raise LimitExceededError("condition", reason)

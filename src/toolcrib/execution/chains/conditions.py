"""Conditions of steps: a small fixed set of JSON forms, not an expression language.

A reference is true if its value is not null, false, 0 or empty. `{"equals": [a, b]}` compares two values,
each of which may be or contain a reference; `{"exists": reference}` tests whether the referenced value
exists. `{"not": c}`, `{"all": [...]}` and `{"any": [...]}` combine conditions, and `true` and `false` are
constants. In a condition, a reference without a value is null. The number of compared values is limited,
since conditions are tested in the event loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import LimitExceededError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, join_options, short_repr
from toolcrib.execution.chains.references import NoReferencedValueError, Reference, ReferenceScope, StepNames
from toolcrib.execution.chains.templates import Template, fill_template, read_template, references_in
from toolcrib.model.suggest import did_you_mean

_KEYWORDS = ("$ref", "all", "any", "equals", "exists", "not")
_MAX_DEPTH = 32
_MAX_COMPARED = 50_000
"""Compared values of one condition: some milliseconds of the event loop."""
_CHARACTERS_PER_VALUE = 10_000
"""Long texts count as several values."""

Test = Callable[[ReferenceScope], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    holds: Test
    references: tuple[Reference, ...]

    def test(self, scope: ReferenceScope) -> bool:
        """Return whether the condition is true.

        Raises:
            LimitExceededError: it compares too many values.
        """
        scope.compared = 0
        return self.holds(scope)

    @property
    def uses_item(self) -> bool:
        """Whether it refers to the item or index of `for_each`."""
        return any(reference.uses_item for reference in self.references)


def read_condition(value: Any, names: StepNames, path: str, problems: list[Problem]) -> Condition:
    """Return the condition for its JSON; `path` is its JSON Pointer in the chain."""
    reader = _Reader(names, problems)
    test = reader.read(value, path, 0)
    return Condition(test, tuple(reader.references))


class _Reader:
    """Reads one condition."""

    def __init__(self, names: StepNames, problems: list[Problem]) -> None:
        self._names = names
        self._problems = problems
        self.references: list[Reference] = []

    def read(self, value: Any, path: str, depth: int) -> Test:
        if isinstance(value, bool):
            return lambda _scope: value
        if len(self._problems) >= MAX_PROBLEMS:
            # the error shows no more problems, and each costs a search for similar names
            return lambda _scope: False
        if type(value) is not dict or len(value) != 1 or depth > _MAX_DEPTH:
            return self._add_problem(path, _describe_fault(value, depth))
        [(word, inner)] = value.items()
        if word in {"all", "any", "not"}:
            return self._read_combination(word, inner, f"{path}/{word}", depth)
        if word == "equals":
            return self._read_equals(inner, f"{path}/equals")
        return self._read_reference(word, value, path)

    def _read_combination(self, word: str, inner: Any, path: str, depth: int) -> Test:
        if word == "not":
            denied = self.read(inner, path, depth + 1)
            return lambda scope: not denied(scope)
        if type(inner) is not list:
            return self._add_problem(path, "must be an array of conditions")
        tests = [self.read(each, f"{path}/{place}", depth + 1) for place, each in enumerate(inner)]
        combine = all if word == "all" else any
        return lambda scope: combine(test(scope) for test in tests)

    def _read_equals(self, inner: Any, path: str) -> Test:
        if type(inner) is not list or len(inner) != 2:  # noqa: PLR2004 - the two values
            return self._add_problem(path, "must be an array of the two values to compare")
        one, other = (self._read_value(each, f"{path}/{place}") for place, each in enumerate(inner))
        return lambda scope: _are_equal(_fill_or_null(one, scope), _fill_or_null(other, scope), scope)

    def _read_reference(self, word: str, value: dict[str, Any], path: str) -> Test:
        if word == "$ref":
            asked = self._read_value(value, path)
            return lambda scope: bool(_fill_or_null(asked, scope))
        inner = value[word]
        if word != "exists":
            return self._add_problem(
                path, f"there is no condition {short_repr(word)}{did_you_mean(word, _KEYWORDS)}; {_OFFER}"
            )
        if type(inner) is not dict or "$ref" not in inner:
            return self._add_problem(
                f"{path}/exists", "must be a reference, such as {'$ref': 'steps.find/items'}"
            )
        sought = self._read_value(inner, f"{path}/exists")
        return lambda scope: _has_value(sought, scope)

    def _read_value(self, value: Any, path: str) -> Template:
        template = read_template(value, self._names, path, self._problems)
        self.references += references_in(template)
        return template

    def _add_problem(self, path: str, message: str) -> Test:
        self._problems.append(Problem(path, "when", message[:500]))
        return lambda _scope: False


_OFFER = f"a condition is a boolean, or an object with one of {join_options(_KEYWORDS)}"


def _describe_fault(value: Any, depth: int) -> str:
    if depth > _MAX_DEPTH:
        return f"conditions are nested more than {_MAX_DEPTH} deep"
    return f"{_OFFER}, not {short_repr(value)}"


def _fill_or_null(template: Template, scope: ReferenceScope) -> Any:
    try:
        return fill_template(template, scope)
    except NoReferencedValueError:
        return None


def _has_value(template: Template, scope: ReferenceScope) -> bool:
    try:
        fill_template(template, scope)
    except NoReferencedValueError:
        return False
    return True


def _are_equal(one: Any, other: Any, scope: ReferenceScope) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if left is right:
            continue
        _count_comparisons(scope, 1)
        if type(left) is dict and type(right) is dict:
            _count_comparisons(scope, len(left))
            if left.keys() != right.keys():
                return False
            pending += [(left[key], right[key]) for key in left]
        elif type(left) is list and type(right) is list:
            if len(left) != len(right):
                return False
            _count_comparisons(scope, len(left))
            pending += zip(left, right, strict=True)
        elif isinstance(left, bool) is not isinstance(right, bool):
            return False
        else:
            if type(left) is str:
                _count_comparisons(scope, len(left) // _CHARACTERS_PER_VALUE)
            if left != right:
                return False
    return True


def _count_comparisons(scope: ReferenceScope, values: int) -> None:
    scope.compared += values
    if scope.compared > _MAX_COMPARED:
        reason = f"a condition compares at most {_MAX_COMPARED:,} values; compare a part of them"
        raise LimitExceededError("condition", reason)

"""Version constraints in npm's range grammar.

A text is parsed to alternatives of terms (`~1.2`, `1.x`, `1 - 2`). These are *desugared*, as npm's
documentation calls it, to comparators (`>=1.2.0 <1.3.0-0`) with the operators `<`, `<=`, `>`, `>=` and `=`
alone, and only those are compared with a version. The results must equal those of npm's `semver` package,
also in its odd cases.
"""

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from toolcrib.errors import InvalidConstraintError, InvalidVersionError
from toolcrib.version.semver import (
    BUILD,
    NUMBER,
    PRERELEASE,
    Version,
    as_version,
    number_fault,
    quote,
    version_fault,
)

MAX_CONSTRAINT_LENGTH: Final = 1024
"""The maximum length of a constraint, in characters."""
# White space as JavaScript defines it, and therefore npm; it is not the same as Python's.
_SPACES = re.compile(r"[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_XR = rf"(?:{NUMBER}|[xX*])"
_PARTIAL = rf"v?({_XR})(?:\.({_XR})(?:\.({_XR})(?:-({PRERELEASE}))?)?)?(?:\+{BUILD})?"
_OPERATOR = r"(?>~>?|\^|[<>]=?|=)"
_SIMPLE = re.compile(rf"({_OPERATOR})? ?{_PARTIAL}(?= |\Z)")
_HYPHEN = re.compile(rf"{_PARTIAL} - {_PARTIAL}")
_PIECE = re.compile(rf"(?:{_OPERATOR} )?[^ ]+")
_FAULTS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"==", "has one '=' too many; write a single '='"),
        (r"!", "excludes a version, which npm ranges cannot; write '<1.2.3 || >1.2.3'"),
        (r"=[<>]", "has its operator backwards; write '>=' or '<='"),
        (rf"{_OPERATOR} ?[~^<>=]", "has two operators; write one, as in '>=1.2.3' or '~1.2'"),
        (r".*,", "has a ','; a space means AND"),
        (r".*&", "has a '&'; a space means AND"),
        (r".*\|", "has a single '|'; write '||' for OR"),
        (r"-", "is half a hyphen range; write '1.2.3 - 2.3.4', alone or between '||'"),
        (rf"{_OPERATOR}\Z", "has no version after it; write one, as in '>=1.2.3'"),
        (r"[~^<>= v]*[0-9xX*]+(\.[0-9xX*]+)?-", "has a prerelease, which needs three numbers before it"),
        (r"[~^<>= v]*[0-9]+\.[0-9]+\.[0-9]+[A-Za-z]", "lacks a '-' before its prerelease"),
        (r"[~^<>= v]*([0-9xX*]+\.){3}", "has more than three numbers"),
    )
)
_FULL_VERSION = re.compile(r"[~^<>= ]*(v?[0-9]+\.[0-9]+\.[0-9]+[-+].*)")
_COMPARISONS: Final = MappingProxyType(
    {"": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)


class Partial(NamedTuple):
    """A version whose last numbers may be missing or wildcards: `1.2.3-rc.1`, `1.2`, `1.x`, `*`."""

    major: int | None = None
    minor: int | None = None
    patch: int | None = None
    prerelease: str = ""


class Simple(NamedTuple):
    """An operator, which may be empty, and the partial version that it applies to."""

    operator: str
    partial: Partial


class Hyphen(NamedTuple):
    """An inclusive range, `1.2 - 2.3.4`."""

    low: Partial
    high: Partial


Term = Simple | Hyphen


def parse_terms(text: str) -> Iterator[tuple[Term, ...]]:
    """Parse a constraint; yield the terms of each alternative, which are separated by `||`.

    Raises:
        InvalidConstraintError: the text is not in the grammar; with the remedy.
    """
    if not isinstance(text, str):
        reason = f"a constraint is text such as '^1.2', not {type(text).__name__}"
        raise InvalidConstraintError(text, reason)
    if len(text) > MAX_CONSTRAINT_LENGTH:
        reason = f"it has {len(text)} characters; at most {MAX_CONSTRAINT_LENGTH} are allowed"
        raise InvalidConstraintError(text, reason)
    for alternative in _SPACES.sub(" ", text).split("||"):
        terms = alternative.strip(" ")
        if match := _HYPHEN.fullmatch(terms):
            yield (Hyphen(_make_partial(*match.groups()[:4]), _make_partial(*match.groups()[4:])),)
        else:
            yield tuple(_simple_terms(text, terms))


def _simple_terms(text: str, terms: str) -> Iterator[Simple]:
    position = 0
    while position < len(terms):
        match = _SIMPLE.match(terms, position)
        if match is None:
            raise InvalidConstraintError(text, _explain_fault(terms[position:]))
        operator, *numbers, prerelease = match.groups()
        if operator not in {"~", "~>", "^"} and _has_number_after_wildcard(numbers):
            reason = f"{quote(match[0])} has a number after a wildcard; end there, as in '1.x'"
            raise InvalidConstraintError(text, reason)
        yield Simple(operator or "", _make_partial(*numbers, prerelease))
        position = match.end() + 1


def _make_partial(*groups: str | None) -> Partial:
    """Make a partial of the numbers before the first wildcard, with the prerelease if all are given."""
    numbers = [int(text) for text in takewhile(_is_number, groups[:3]) if text]
    major, minor, patch = [*numbers, None, None, None][:3]
    return Partial(major, minor, patch, "" if patch is None else groups[3] or "")


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdigit()


def _has_number_after_wildcard(numbers: list[str | None]) -> bool:
    given = [number.isdigit() for number in numbers if number is not None]
    return given != sorted(given, reverse=True)


def _explain_fault(rest: str) -> str:
    """Return the reason why a text does not begin with a term, and the remedy."""
    match = _PIECE.match(rest)
    piece = match[0] if match else rest
    for pattern, reason in _FAULTS:
        if pattern.match(piece):
            return f"{quote(piece)} {reason}"
    if (full := _FULL_VERSION.fullmatch(piece)) and (fault := version_fault(full[1])):
        return f"in {quote(piece)}, {fault}"
    for number in piece.lstrip("~^<>= v").split("."):
        if number.isdigit() == bool(number) and (fault := number_fault(number)):
            return f"in {quote(piece)}, {fault}"
    return f"{quote(piece)} is neither a version nor a range; write one such as '^1.2', or '*' for any"


class Comparator(NamedTuple):
    """A bound on versions; without an operator, exactly this version."""

    operator: str
    version: Version

    def __str__(self) -> str:
        return f"{self.operator}{self.version}"

    def admits(self, version: Version) -> bool:
        """Return whether a version is within this bound, by precedence alone."""
        return bool(_COMPARISONS[self.operator](version, self.version))


Comparators = tuple[Comparator, ...]
"""Bounds that must all hold; an empty tuple admits every version."""

_NOTHING: Final = Comparator("<", Version(0, 0, 0, "0"))


def desugar(alternatives: Iterable[Iterable[Term]], *, include_prerelease: bool) -> tuple[Comparators, ...]:
    """Return the comparators of each alternative, without redundant ones.

    With `include_prerelease`, a missing lower bound starts at the first prerelease, `-0`.
    """
    floor = "0" if include_prerelease else ""
    everything = Comparator(">=", Version(0, 0, 0, floor))
    found = [_conjoin(terms, floor, everything) for terms in alternatives]
    possible = [comparators for comparators in found if comparators != (_NOTHING,)]
    if not possible:
        return (found[0],)
    return ((),) if () in possible else tuple(possible)


def _conjoin(terms: Iterable[Term], floor: str, everything: Comparator) -> Comparators:
    comparators = [comparator for term in terms for comparator in _bounds_of(term, floor)]
    if _NOTHING in comparators:
        return (_NOTHING,)
    return tuple(dict.fromkeys(item for item in comparators if item != everything))


def _bounds_of(term: Term, floor: str) -> Iterator[Comparator]:
    if isinstance(term, Hyphen):
        return _hyphen_bounds(term, floor)
    if term.partial.major is None:
        return iter([_NOTHING] if term.operator in {"<", ">"} else [])
    if term.operator in {"~", "~>"}:
        return _range_from(term.partial, floor, _end_of_tilde(term.partial))
    if term.operator == "^":
        return _range_from(term.partial, floor, _end_of_caret(term.partial))
    return _primitive_bounds(term, floor)


def _hyphen_bounds(term: Hyphen, floor: str) -> Iterator[Comparator]:
    low, high = term
    if low.major is not None:
        yield Comparator(">=", _lowest(low._replace(prerelease=low.prerelease or floor), floor))
    if high.major is None:
        return
    if high.patch is None or (floor and not high.prerelease):
        yield Comparator("<", _first_after(high))
    else:
        yield Comparator("<=", _lowest(high, floor))


def _primitive_bounds(term: Simple, floor: str) -> Iterator[Comparator]:
    """Yield the bounds of a term with `>`, `>=`, `<`, `<=`, `=` or no operator."""
    sign, partial = term
    if partial.patch is not None:
        yield Comparator("" if sign == "=" else sign, _lowest(partial, floor))
    elif sign in {"", "="}:
        yield from _range_from(partial, floor, _first_after(partial))
    elif sign == ">":
        yield Comparator(">=", _first_after(partial, floor))
    elif sign == ">=":
        yield Comparator(">=", _lowest(partial, floor))
    else:
        yield Comparator("<", _first_after(partial) if sign == "<=" else _lowest(partial, "0"))


def _range_from(partial: Partial, floor: str, end: Version) -> Iterator[Comparator]:
    yield Comparator(">=", _lowest(partial, floor))
    yield Comparator("<", end)


def _lowest(partial: Partial, floor: str) -> Version:
    """Return the lowest version that a partial includes."""
    prerelease = floor if partial.patch is None else partial.prerelease
    return Version(partial.major or 0, partial.minor or 0, partial.patch or 0, prerelease)


def _first_after(partial: Partial, prerelease: str = "0") -> Version:
    """Return the first version after all that a partial includes."""
    major, minor, patch, _ = partial
    if minor is None:
        return Version((major or 0) + 1, 0, 0, prerelease)
    if patch is None:
        return Version(major or 0, minor + 1, 0, prerelease)
    return Version(major or 0, minor, patch + 1, prerelease)


def _end_of_tilde(partial: Partial) -> Version:
    """Return the end of a `~` range: the next minor version, or the next major if no minor is given."""
    return _first_after(Partial(partial.major, partial.minor))


def _end_of_caret(partial: Partial) -> Version:
    """Return the end of a `^` range: the next version that changes the leftmost non-zero number."""
    major, minor, patch, _ = partial
    if major or minor is None:
        return _first_after(Partial(major))
    return _first_after(Partial(major, minor) if minor or patch is None else partial)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A version constraint, written as an npm range; equal if the canonical forms are equal.

    >>> constraint = Constraint.parse("^1.2 || 3.x")
    >>> "1.9.0" in constraint, "2.0.0" in constraint
    (True, False)
    >>> str(constraint)
    '>=1.2.0 <2.0.0-0||>=3.0.0 <4.0.0-0'

    Raises:
        InvalidConstraintError: the text is not a range; the error has the remedy.
    """

    text: str = field(compare=False)
    """The constraint as it was written."""
    _canonical: str = field(init=False, repr=False)
    _alternatives: tuple[Comparators, ...] = field(init=False, repr=False, compare=False)
    _with_prereleases: tuple[Comparators, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        terms = list(parse_terms(self.text))
        try:
            alternatives = desugar(terms, include_prerelease=False)
            with_prereleases = desugar(terms, include_prerelease=True)
        except InvalidVersionError as error:
            raise InvalidConstraintError(self.text, f"a version in it is too long: {error.reason}") from error
        canonical = "||".join(" ".join(map(str, comparators)) for comparators in alternatives) or "*"
        if len(canonical) > MAX_CONSTRAINT_LENGTH:
            reason = (
                f"its canonical form is longer than {MAX_CONSTRAINT_LENGTH} characters; write fewer ranges"
            )
            raise InvalidConstraintError(self.text, reason)
        object.__setattr__(self, "_canonical", canonical)
        object.__setattr__(self, "_alternatives", alternatives)
        object.__setattr__(self, "_with_prereleases", with_prereleases)

    def __str__(self) -> str:
        return self._canonical

    def __contains__(self, version: Version | str) -> bool:
        return self.check(version)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a constraint; an empty string means any version.

        >>> str(Constraint.parse("~1.2.3")), str(Constraint.parse(""))
        ('>=1.2.3 <1.3.0-0', '*')

        Raises:
            InvalidConstraintError: the text is not an npm range; the error has the remedy.
        """
        return cls(text)

    def check(self, version: Version | str, include_prerelease: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Return whether a version satisfies the constraint.

        A prerelease satisfies it only if the constraint names a prerelease of the same major.minor.patch:
        `^1.2.3-rc.1` opts in to the prereleases of 1.2.3, not to those of 1.3.0. With `include_prerelease`
        they count like any other version.

        >>> constraint = Constraint.parse("^1.2.3-rc.1")
        >>> constraint.check("1.2.3-rc.2"), constraint.check("1.3.0-rc.1")
        (True, False)
        >>> constraint.check("1.3.0-rc.1", include_prerelease=True)
        True

        Raises:
            InvalidVersionError: the text is not a version.
        """
        version = as_version(version)
        alternatives = self._with_prereleases if include_prerelease else self._alternatives
        opted_in = include_prerelease or not version.prerelease
        return any(
            all(comparator.admits(version) for comparator in comparators)
            and (opted_in or _opts_in_to_prerelease(version, comparators))
            for comparators in alternatives
        )


def _opts_in_to_prerelease(version: Version, comparators: Comparators) -> bool:
    release = (version.major, version.minor, version.patch)
    return any(
        bound.prerelease and (bound.major, bound.minor, bound.patch) == release for _, bound in comparators
    )

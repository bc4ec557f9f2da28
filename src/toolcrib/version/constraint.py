"""A constraint: which versions will do, in npm's range grammar."""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from toolcrib.errors import InvalidConstraintError, InvalidVersionError
from toolcrib.version.grammar import MAX_CONSTRAINT_LENGTH, Hyphen, Partial, Simple, Term, parse_terms
from toolcrib.version.semver import Version, as_version

_TESTS: Final = MappingProxyType(
    {"": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)


class Comparator(NamedTuple):
    """One bound on a version; no operator means exactly this version."""

    operator: str
    version: Version

    def __str__(self) -> str:
        return f"{self.operator}{self.version}"

    def admits(self, version: Version) -> bool:
        """Tell whether the version is on the right side of this bound, by precedence alone."""
        return bool(_TESTS[self.operator](version, self.version))


Comparators = tuple[Comparator, ...]
"""Bounds that must all hold; none of them admits everything."""

_NOTHING: Final = Comparator("<", Version(0, 0, 0, "0"))


def desugar(alternatives: Iterable[Iterable[Term]], *, include_prerelease: bool) -> tuple[Comparators, ...]:
    """Return the comparators of each alternative, without those that say nothing.

    With `include_prerelease` a bound that was left open starts at the first prerelease, `-0`.
    """
    floor = "0" if include_prerelease else ""
    everything = Comparator(">=", Version(0, 0, 0, floor))
    found = [_join(terms, floor, everything) for terms in alternatives]
    possible = [comparators for comparators in found if comparators != (_NOTHING,)]
    if not possible:
        return (found[0],)
    return ((),) if () in possible else tuple(possible)


def _join(terms: Iterable[Term], floor: str, everything: Comparator) -> Comparators:
    comparators = [comparator for term in terms for comparator in _bounds(term, floor)]
    if _NOTHING in comparators:
        return (_NOTHING,)
    return tuple(dict.fromkeys(item for item in comparators if item != everything))


def _bounds(term: Term, floor: str) -> Iterator[Comparator]:
    if isinstance(term, Hyphen):
        return _hyphen(term, floor)
    if term.partial.major is None:
        return iter([_NOTHING] if term.operator in {"<", ">"} else [])
    if term.operator in {"~", "~>"}:
        return _between(term.partial, floor, _next_tilde(term.partial))
    if term.operator == "^":
        return _between(term.partial, floor, _next_caret(term.partial))
    return _primitive(term, floor)


def _hyphen(term: Hyphen, floor: str) -> Iterator[Comparator]:
    low, high = term
    if low.major is not None:
        yield Comparator(">=", _lowest(low._replace(prerelease=low.prerelease or floor), floor))
    if high.major is None:
        return
    if high.patch is None or (floor and not high.prerelease):
        yield Comparator("<", _next(high))
    else:
        yield Comparator("<=", _lowest(high, floor))


def _primitive(term: Simple, floor: str) -> Iterator[Comparator]:
    """Yield the bounds of `>`, `>=`, `<`, `<=`, `=` or no operator at all."""
    sign, partial = term
    if partial.patch is not None:
        yield Comparator("" if sign == "=" else sign, _lowest(partial, floor))
    elif sign in {"", "="}:
        yield from _between(partial, floor, _next(partial))
    elif sign == ">":
        yield Comparator(">=", _next(partial, floor))
    elif sign == ">=":
        yield Comparator(">=", _lowest(partial, floor))
    else:
        yield Comparator("<", _next(partial) if sign == "<=" else _lowest(partial, "0"))


def _between(partial: Partial, floor: str, end: Version) -> Iterator[Comparator]:
    yield Comparator(">=", _lowest(partial, floor))
    yield Comparator("<", end)


def _lowest(partial: Partial, floor: str) -> Version:
    """Return the lowest version that a partial stands for; a full one stands for itself."""
    prerelease = floor if partial.patch is None else partial.prerelease
    return Version(partial.major or 0, partial.minor or 0, partial.patch or 0, prerelease)


def _next(partial: Partial, prerelease: str = "0") -> Version:
    """Return the first version after all that a partial stands for."""
    major, minor, patch, _ = partial
    if minor is None:
        return Version((major or 0) + 1, 0, 0, prerelease)
    if patch is None:
        return Version(major or 0, minor + 1, 0, prerelease)
    return Version(major or 0, minor, patch + 1, prerelease)


def _next_tilde(partial: Partial) -> Version:
    """Return where `~` ends: before the next minor, or the next major where no minor is given."""
    return _next(Partial(partial.major, partial.minor))


def _next_caret(partial: Partial) -> Version:
    """Return where `^` ends: before the leftmost number that is not zero would change."""
    major, minor, patch, _ = partial
    if major or minor is None:
        return _next(Partial(major))
    return _next(Partial(major, minor) if minor or patch is None else partial)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A set of versions, written as an npm range; equal when the canonical forms are.

    >>> constraint = Constraint.parse("^1.2 || 3.x")
    >>> "1.9.0" in constraint, "2.0.0" in constraint
    (True, False)
    >>> str(constraint)
    '>=1.2.0 <2.0.0-0||>=3.0.0 <4.0.0-0'

    Raises:
        InvalidConstraintError: When the text is not a range, saying what to change.
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
        """Return the constraint that a text spells; nothing at all means any version.

        >>> str(Constraint.parse("~1.2.3")), str(Constraint.parse(""))
        ('>=1.2.3 <1.3.0-0', '*')

        Raises:
            InvalidConstraintError: When the text is not an npm range, saying what to change.
        """
        return cls(text)

    def check(self, version: Version | str, include_prerelease: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Tell whether a version satisfies the constraint.

        A prerelease satisfies it only where the constraint names a prerelease of the same
        major.minor.patch: whoever asks for `^1.2.3-rc.1` has opted in to 1.2.3's, not to 1.3.0's.
        With `include_prerelease` prereleases count like any other version.

        >>> constraint = Constraint.parse("^1.2.3-rc.1")
        >>> constraint.check("1.2.3-rc.2"), constraint.check("1.3.0-rc.1")
        (True, False)
        >>> constraint.check("1.3.0-rc.1", include_prerelease=True)
        True

        Raises:
            InvalidVersionError: When a text is not a version.
        """
        version = as_version(version)
        alternatives = self._with_prereleases if include_prerelease else self._alternatives
        opted_in = include_prerelease or not version.prerelease
        return any(
            all(comparator.admits(version) for comparator in comparators)
            and (opted_in or _names_a_prerelease_of(version, comparators))
            for comparators in alternatives
        )


def _names_a_prerelease_of(version: Version, comparators: Comparators) -> bool:
    release = (version.major, version.minor, version.patch)
    return any(
        bound.prerelease and (bound.major, bound.minor, bound.patch) == release for _, bound in comparators
    )

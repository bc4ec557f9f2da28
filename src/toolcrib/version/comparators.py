"""What npm ranges mean: terms become comparators, `>=1.2.0` and the like, that a version must pass."""

import operator
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from toolcrib.version.grammar import Hyphen, Partial, Simple, Term
from toolcrib.version.semver import Version

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

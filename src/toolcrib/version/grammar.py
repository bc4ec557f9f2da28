"""The grammar of npm ranges: from text to terms, before any of them is given a meaning."""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from toolcrib.errors import InvalidConstraintError
from toolcrib.version.semver import BUILD, NUMBER, PRERELEASE, number_fault, shown, version_fault

MAX_CONSTRAINT_LENGTH: Final = 1024
"""The longest constraint that is read, in characters."""


class Partial(NamedTuple):
    """A version of which the last numbers may be left open: `1.2.3-rc.1`, `1.2`, `1.x`, `*`."""

    major: int | None = None
    minor: int | None = None
    patch: int | None = None
    prerelease: str = ""


class Simple(NamedTuple):
    """One operator and what it applies to; no operator is the empty text."""

    operator: str
    partial: Partial


class Hyphen(NamedTuple):
    """An inclusive range, `1.2 - 2.3.4`."""

    low: Partial
    high: Partial


Term = Simple | Hyphen

# What JavaScript calls white space.
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
_FULL = re.compile(r"[~^<>= ]*(v?[0-9]+\.[0-9]+\.[0-9]+[-+].*)")


def parse_terms(text: str) -> Iterator[tuple[Term, ...]]:
    """Yield the terms of each alternative: what stands between `||`.

    Raises:
        InvalidConstraintError: When the text is outside the grammar, saying what to change.
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
            yield (Hyphen(_partial(*match.groups()[:4]), _partial(*match.groups()[4:])),)
        else:
            yield tuple(_simple_terms(text, terms))


def _simple_terms(text: str, terms: str) -> Iterator[Simple]:
    position = 0
    while position < len(terms):
        match = _SIMPLE.match(terms, position)
        if match is None:
            raise InvalidConstraintError(text, _fault(terms[position:]))
        operator, *numbers, prerelease = match.groups()
        if operator not in {"~", "~>", "^"} and _names_a_number_after_a_wildcard(numbers):
            reason = f"{shown(match[0])} has a number after a wildcard; end there, as in '1.x'"
            raise InvalidConstraintError(text, reason)
        yield Simple(operator or "", _partial(*numbers, prerelease))
        position = match.end() + 1


def _partial(*groups: str | None) -> Partial:
    """Return the numbers before the first wildcard, and the prerelease of a full version."""
    numbers = [int(text) for text in takewhile(_is_number, groups[:3]) if text]
    major, minor, patch = [*numbers, None, None, None][:3]
    return Partial(major, minor, patch, "" if patch is None else groups[3] or "")


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdigit()


def _names_a_number_after_a_wildcard(numbers: list[str | None]) -> bool:
    given = [number.isdigit() for number in numbers if number is not None]
    return given != sorted(given, reverse=True)


def _fault(rest: str) -> str:
    """Say what is wrong with the first term of a text that is not one, and what to do."""
    match = _PIECE.match(rest)
    piece = match[0] if match else rest
    for pattern, reason in _FAULTS:
        if pattern.match(piece):
            return f"{shown(piece)} {reason}"
    if (full := _FULL.fullmatch(piece)) and (fault := version_fault(full[1])):
        return f"in {shown(piece)}, {fault}"
    for number in piece.lstrip("~^<>= v").split("."):
        if number.isdigit() == bool(number) and (fault := number_fault(number)):
            return f"in {shown(piece)}, {fault}"
    return f"{shown(piece)} is neither a version nor a range; write one such as '^1.2', or '*' for any"

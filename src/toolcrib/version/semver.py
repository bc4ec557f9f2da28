"""Versions by SemVer 2.0.0 (strict), ordered by precedence."""

import re
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from toolcrib.errors import InvalidVersionError
from toolcrib.errors.text import truncate

MAX_VERSION_LENGTH: Final = 256
"""The maximum length of a version, in characters."""

NUMBER: Final = r"(?:0|[1-9][0-9]*)"
"""The pattern of a number without leading zeros."""
_PRERELEASE_PART = rf"(?:{NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
PRERELEASE: Final = rf"{_PRERELEASE_PART}(?:\.{_PRERELEASE_PART})*"
"""The pattern of the prerelease, after `-`."""
BUILD: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
"""The pattern of the build metadata, after `+`."""

_VERSION = re.compile(rf"v?({NUMBER})\.({NUMBER})\.({NUMBER})(?:-({PRERELEASE}))?(?:\+({BUILD}))?")
_PART = re.compile(r"[0-9A-Za-z-]+")
_DIGITS = re.compile(r"[0-9]+")
_MISSING_DASH = re.compile(r"(v?[0-9]+\.[0-9]+\.[0-9]+)([A-Za-z][0-9A-Za-z.-]*)")
_NUMBER_LIMIT = 10**MAX_VERSION_LENGTH
_MAX_SHOWN = 40

_Rank = tuple[int, int, str]
_Key = tuple[int, int, int, bool, tuple[_Rank, ...]]


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A SemVer 2.0.0 version; build metadata is ignored by comparisons, `==` and hashing.

    >>> Version.parse("1.0.0-rc.2") < Version.parse("1.0.0-rc.10") < Version.parse("1.0.0")
    True

    Raises:
        InvalidVersionError: a number is negative or not an int, or a string is not valid SemVer.
    """

    major: int = field(compare=False)
    """Increased by incompatible changes."""
    minor: int = field(compare=False)
    """Increased by compatible additions."""
    patch: int = field(compare=False)
    """Increased by compatible fixes."""
    prerelease: str = field(default="", compare=False)
    """Dot-separated identifiers such as `rc.1`; empty for a release."""
    build: str = field(default="", compare=False)
    """Dot-separated identifiers such as `linux.5`; empty for none."""
    _key: _Key = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("major", "minor", "patch"):
            _check_number(name, getattr(self, name))
        _check_identifiers("prerelease", self.prerelease)
        _check_identifiers("build", self.build)
        if len(str(self)) > MAX_VERSION_LENGTH:
            raise InvalidVersionError(str(self), _length_fault(len(str(self))))
        identifiers = tuple(map(_sort_key, self.prerelease.split("."))) if self.prerelease else ()
        key = (self.major, self.minor, self.patch, not self.prerelease, identifiers)
        object.__setattr__(self, "_key", key)

    def __str__(self) -> str:
        prerelease = f"-{self.prerelease}" if self.prerelease else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a version, with or without a leading `v`.

        >>> str(Version.parse("v1.2.3-rc.1+b5"))
        '1.2.3-rc.1+b5'

        Raises:
            InvalidVersionError: the text is not strict SemVer 2.0.0; the error has the remedy.
        """
        if not isinstance(text, str):
            raise InvalidVersionError(text, f"a version is text such as '1.2.3', not {type(text).__name__}")
        match = _VERSION.fullmatch(text) if len(text) <= MAX_VERSION_LENGTH else None
        if match is None:
            raise InvalidVersionError(text, version_fault(text))
        major, minor, patch, prerelease, build = match.groups(default="")
        return cls(int(major), int(minor), int(patch), prerelease, build)

    def compatible_with(self, other: "Version | str") -> bool:
        """Return whether this version can replace another: it has the same major, and is not older.

        With major 0, every minor version may be incompatible, so the minor must be the same too.

        >>> Version.parse("1.4.0").compatible_with("1.2.3")
        True
        >>> Version.parse("0.4.0").compatible_with("0.2.3")
        False
        """
        other = as_version(other)
        same_line = self.major == other.major and (self.major > 0 or self.minor == other.minor)
        return same_line and self >= other


def compare(a: Version | str, b: Version | str) -> Literal[-1, 0, 1]:
    """Return -1, 0 or 1 if `a` is older than, equal to or newer than `b`.

    >>> compare("1.0.0-alpha.9", "1.0.0-alpha.10")
    -1
    """
    a, b = as_version(a), as_version(b)
    if a == b:
        return 0
    return -1 if a < b else 1


def as_version(version: Version | str) -> Version:
    """Return a version unchanged, or parse a text."""
    return version if isinstance(version, Version) else Version.parse(version)


def version_fault(text: str) -> str:
    """Return the reason why a text is not a version, and the remedy; empty if it is one."""
    rest, plus, build = text.removeprefix("v").partition("+")
    core, dash, prerelease = rest.partition("-")
    return (
        _outer_fault(text)
        or _core_fault(core)
        or (_identifiers_fault("prerelease", prerelease) if dash else "")
        or (_identifiers_fault("build", build) if plus else "")
    )


def _outer_fault(text: str) -> str:
    """Return the fault in a text as a whole, such as surrounding spaces; empty if there is none."""
    if not text:
        return "it is empty; write a version such as '1.2.3'"
    if len(text) > MAX_VERSION_LENGTH:
        return _length_fault(len(text))
    if text != text.strip():
        return "remove the spaces or line breaks around it"
    if text.startswith("V"):
        return "write the prefix as a lower-case 'v', or leave it out"
    if text[0] in "=<>^~":
        return "a version has no operator; write the version alone, or parse a Constraint"
    run_on = _MISSING_DASH.fullmatch(text)
    return f"it lacks a '-' before its prerelease; write {quote('-'.join(run_on.groups()))}" if run_on else ""


def number_fault(text: str) -> str:
    """Return the fault in a text that should be a number; empty if there is none."""
    if not _DIGITS.fullmatch(text):
        return f"{quote(text)} is not a number" if text else "a number is missing"
    if text.startswith("0") and text != "0":
        return f"{quote(text)} has a leading zero; write {quote(text.lstrip('0') or '0')}"
    return ""


def quote(text: str) -> str:
    """Return the repr of a text, cut to a length that fits a sentence."""
    return repr(truncate(text, _MAX_SHOWN))


def _sort_key(identifier: str) -> _Rank:
    """Return the sort key of a prerelease identifier: numbers first, by value, then text by ASCII."""
    return (0, int(identifier), "") if identifier.isdigit() else (1, 0, identifier)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidVersionError(value, f"{name} must be an int, not {type(value).__name__}")
    if abs(value) >= _NUMBER_LIMIT:  # hex, because Python refuses to print very large integers in decimal
        raise InvalidVersionError(hex(value), f"{name} has more than {MAX_VERSION_LENGTH} digits")
    if value < 0:
        raise InvalidVersionError(value, f"{name} must be zero or more")


def _check_identifiers(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidVersionError(value, f"the {name} must be text, not {type(value).__name__}")
    if value and (fault := _identifiers_fault(name, value)):
        raise InvalidVersionError(value, fault)


def _core_fault(core: str) -> str:
    """Return the fault in `major.minor.patch`; empty if there is none."""
    numbers = core.split(".")
    if fault := next(filter(None, map(number_fault, numbers)), ""):
        return fault if "write" in fault else f"{fault}; a version is MAJOR.MINOR.PATCH"
    if len(numbers) > 3:  # noqa: PLR2004 - MAJOR.MINOR.PATCH
        return f"it has {len(numbers)} numbers where SemVer has three; write {quote('.'.join(numbers[:3]))}"
    if len(numbers) < 3:  # noqa: PLR2004
        return f"it is partial; write {quote('.'.join([*numbers, '0', '0'][:3]))}"
    return ""


def _identifiers_fault(name: str, text: str) -> str:
    """Return the fault in a prerelease or in build metadata; empty if there is none."""
    for part in text.split("."):
        if not part:
            return f"the {name} has an empty identifier; remove the extra '.', '-' or '+'"
        if not _PART.fullmatch(part):
            return f"the {name} identifier {quote(part)} may contain only ASCII letters, digits and '-'"
        if name == "prerelease" and _DIGITS.fullmatch(part) and number_fault(part):
            return f"the {name} identifier {number_fault(part)}"
    return ""


def _length_fault(length: int) -> str:
    return f"it has {length} characters; at most {MAX_VERSION_LENGTH} are allowed"

"""Compatibility matrix: windows of acceptable versions for each component."""

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Self

from toolcrib.errors import InvalidConstraintError, NoCompatibleVersionError
from toolcrib.version.semver import Version, as_version


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of checking a version; true if the version is acceptable."""

    ok: bool
    """Whether the version is acceptable."""
    deprecated: bool = False
    """Whether it is acceptable but deprecated."""
    message: str = ""
    """The reason for the refusal, or a note on the version; may be empty."""

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, slots=True)
class _Window:
    minimum: Version
    maximum: Version | None
    deprecated: bool
    message: str

    def __contains__(self, version: Version) -> bool:
        return self.minimum <= version and (self.maximum is None or version <= self.maximum)

    def __str__(self) -> str:
        return f">={self.minimum}" if self.maximum is None else f">={self.minimum} <={self.maximum}"


class Matrix:
    """Windows of acceptable versions for each component; thread-safe.

    A version is acceptable if any window of its component contains it. Versions are compared by precedence
    alone, prereleases included. For a component without windows, any version is acceptable.

    >>> matrix = Matrix().add("api", "1.0.0", "1.9.9", deprecated=True).add("api", "3.0.0")
    >>> matrix.check("api", "3.1.0")
    Verdict(ok=True, deprecated=False, message='')
    >>> print(matrix.check("api", "2.0.0").message)
    api 2.0.0 is not supported; use >=1.0.0 <=1.9.9 or >=3.0.0
    """

    def __init__(self) -> None:
        self._windows: dict[str, tuple[_Window, ...]] = {}
        self._lock = Lock()

    def add(
        self,
        component: str,
        minimum: Version | str,
        maximum: Version | str | None = None,
        *,
        deprecated: bool = False,
        message: str = "",
    ) -> Self:
        """Accept the versions from `minimum` to `maximum`, inclusive; return the matrix.

        The message is part of the verdict on every version in this window.

        Raises:
            InvalidVersionError: a string is not a version.
            InvalidConstraintError: the minimum is above the maximum.
        """
        low = as_version(minimum)
        high = None if maximum is None else as_version(maximum)
        if high is not None and low > high:
            raise InvalidConstraintError(f"{low} - {high}", "the minimum is above the maximum; swap them")
        window = _Window(low, high, deprecated, message)
        with self._lock:
            self._windows[component] = (*self._windows.get(component, ()), window)
        return self

    def check(self, component: str, version: Version | str) -> Verdict:
        """Check a version of a component.

        Raises:
            InvalidVersionError: the text is not a version.
        """
        return _check_windows(component, as_version(version), self._windows.get(component, ()))

    def negotiate(self, component: str, available: Iterable[Version | str]) -> Version:
        """Return the highest acceptable version available; a deprecated one only if there is no other.

        >>> matrix = Matrix().add("api", "1.0.0").add("db", "2.0.0", "2.9.9")
        >>> str(matrix.negotiate("db", ["1.4.0", "2.3.0", "2.10.0"]))
        '2.3.0'

        Raises:
            InvalidVersionError: a string is not a version.
            NoCompatibleVersionError: no version is acceptable, or none is available.
        """
        windows = self._windows.get(component, ())
        offered = [as_version(version) for version in available]
        judged = [(_check_windows(component, version, windows), version) for version in offered]
        acceptable = [(not verdict.deprecated, version) for verdict, version in judged if verdict.ok]
        if not acceptable:
            raise NoCompatibleVersionError(component, tuple(map(str, offered)), _describe_windows(windows))
        return max(acceptable)[1]


def _check_windows(component: str, version: Version, windows: tuple[_Window, ...]) -> Verdict:
    if not windows:
        return Verdict(ok=True)
    matching = [window for window in windows if version in window]
    if not matching:
        return Verdict(
            ok=False, message=f"{component} {version} is not supported; use {_describe_windows(windows)}"
        )
    window = min(matching, key=lambda window: window.deprecated)
    if not window.deprecated:
        return Verdict(ok=True, message=window.message)
    message = window.message or f"{component} {version} is deprecated; {_suggest_replacement(windows)}"
    return Verdict(ok=True, deprecated=True, message=message)


def _suggest_replacement(windows: tuple[_Window, ...]) -> str:
    current = tuple(window for window in windows if not window.deprecated)
    return f"use {_describe_windows(current)}" if current else "plan to replace it"


def _describe_windows(windows: tuple[_Window, ...]) -> str:
    return " or ".join(map(str, windows)) if windows else "any version"

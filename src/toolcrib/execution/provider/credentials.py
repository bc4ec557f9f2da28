"""Secrets put where a security scheme wants them, and taken out of whatever is told to anyone."""

import base64
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

__all__ = ["Credentials", "Scheme", "Secret", "hide", "reveal"]

Secret = str | tuple[str, str] | Callable[[], str | Awaitable[str]]
"""A key or token; a user and a password; or what gives either when a call needs it, such as a fresh token."""
_SHORTEST_HIDDEN = 6
"""Shorter secrets are not taken out of answers, where they would be found by chance."""
_HIDDEN = "[secret]"
_CARRIED = re.compile(r"[^\x00-\x1f\x7f]+")
_IN_HEADER = re.compile(r"[\x20-\x7e\xa0-\xff]+")
_IN_COOKIE = re.compile(r"[!#-+\x2d-:<-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Scheme:
    """Where a secret goes."""

    kind: Literal["key", "basic", "bearer"]
    place: Literal["header", "query", "cookie"] = "header"
    name: str = "Authorization"


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a call carries beside its arguments."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    """Texts that must not be shown."""

    @classmethod
    def of(cls, secrets: Iterable[tuple[Scheme, str]]) -> "Credentials":
        """Return what these secrets, as text, add to a request.

        Raises:
            ValueError: one of them cannot be carried where it goes.
        """
        made = cls()
        hidden: list[str] = []
        for scheme, text in secrets:
            value = text
            if scheme.kind == "basic":
                value = f"Basic {base64.b64encode(text.encode()).decode()}"
                hidden += [value.removeprefix("Basic "), text.partition(":")[2]]
            elif scheme.kind == "bearer":
                value = f"Bearer {text.removeprefix('Bearer ')}"
            fits = {"header": _IN_HEADER, "cookie": _IN_COOKIE, "query": _CARRIED}[scheme.place]
            if not fits.fullmatch(value):
                raise ValueError(f"it holds what a {scheme.place} cannot carry")
            hidden += [text, quote(text, safe="")]
            places = {"header": made.headers, "query": made.query, "cookie": made.cookies}
            places[scheme.place][scheme.name] = value
        return cls(made.headers, made.query, made.cookies, tuple(dict.fromkeys(hidden)))


async def reveal(secret: Secret) -> str:
    """Return a secret as text, asking for it where that is how it was given.

    Raises:
        ValueError: it is not text that a header can carry.
    """
    value: Any = secret() if callable(secret) else secret
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, tuple):
        value = ":".join(value)
    if not isinstance(value, str) or not value.strip() or not _CARRIED.fullmatch(value.strip()):
        raise ValueError("it must be printable text of one line")
    return value.strip()


def hide(value: Any, hidden: Iterable[str]) -> Any:
    """Return a value with the secrets in its texts replaced.

    >>> hide({"echo": ["key s3cret-key"]}, ["s3cret-key"])
    {'echo': ['key [secret]']}
    """
    secrets = sorted((text for text in hidden if len(text) >= _SHORTEST_HIDDEN), key=len, reverse=True)
    return _hide(value, secrets) if secrets else value


def _hide(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, _HIDDEN)
        return value
    if isinstance(value, list):
        return [_hide(member, secrets) for member in value]
    if isinstance(value, Mapping):
        return {_hide(key, secrets): _hide(member, secrets) for key, member in value.items()}
    return value

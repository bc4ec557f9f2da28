"""Secrets put where a security scheme wants them, and removed from everything that is shown."""

import base64
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.redaction import secret_forms

Secret = str | tuple[str, str] | Callable[[], str | Awaitable[str]]
"""A key or token; a user and a password; or what gives either when a call needs it, such as a fresh token."""
_SHORTEST_HIDDEN = 6
"""Shorter secrets are not taken out of answers, where they would be found by chance."""
_HIDDEN = "[secret]"
_CARRIED = re.compile(r"[^\x00-\x1f\x7f]+")
_IN_NUMBER = re.compile(r"[-+.0-9eE]+")
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
            hidden += sorted(secret_forms(text))
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


class Veil:
    """Takes secrets out of a text that comes in pieces, however it is cut, and out of whole values.

    >>> veil = Veil(["s3cret-key"])
    >>> veil.feed("the key is s3cret-") + veil.feed("key, as you know") + veil.finish()
    'the key is [secret], as you know'
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        self._sought = sorted(
            (text for text in hidden if len(text) >= _SHORTEST_HIDDEN), key=len, reverse=True
        )
        self._longest = len(self._sought[0]) if self._sought else 1
        self._texts = _any_of(self._sought)
        self._numbers = _any_of(text for text in self._sought if _IN_NUMBER.fullmatch(text))
        self._held = ""

    def feed(self, text: str) -> str:
        """Return as much of a text as can be shown: what may be the beginning of a secret is held back."""
        text = self._held + text
        # A secret that begins before this is here to its end.
        safe = len(text) - self._longest + 1
        shown, done = [], 0
        while self._texts and done < safe and (found := self._texts.search(text, done)):
            if found.start() >= safe:
                break
            shown += [text[done : found.start()], _HIDDEN]
            done = found.end()
        rest = max(done, safe)
        self._held = text[rest:]
        return "".join([*shown, text[done:rest]])

    def finish(self) -> str:
        """Return what was held back."""
        text, self._held = self._held, ""
        return self._texts.sub(_HIDDEN, text) if self._texts else text

    def over_bytes(self, content: bytes) -> bytes:
        """Return bytes with the secrets in them replaced."""
        for text in self._sought:
            for charset in ("utf-8", "latin-1"):
                content = content.replace(text.encode(charset, "backslashreplace"), _HIDDEN.encode())
        return content

    def over(self, value: Any) -> Any:
        """Return a value with the secrets in its texts and numbers replaced, however deep it is."""
        if not self._texts:
            return value
        holder: list[Any] = [value]
        pending: list[Any] = [holder]
        while pending:
            container = pending.pop()
            members = container.items() if isinstance(container, dict) else enumerate(container)
            for key, member in list(members):
                copied = container[key] = self._copy(member)
                if isinstance(copied, dict | list):
                    pending.append(copied)
        return holder[0]

    def _copy(self, value: Any) -> Any:
        """Return a text or number without secrets, or a container whose members are yet to be looked at."""
        if isinstance(value, str):
            return self._texts.sub(_HIDDEN, value) if self._texts else value
        if isinstance(value, list):
            return list(value)
        if isinstance(value, Mapping):
            return {self._copy(key): member for key, member in value.items()}
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return _HIDDEN if self._numbers and is_number and self._numbers.search(repr(value)) else value


def hide(value: Any, hidden: Iterable[str]) -> Any:
    """Return a value with the secrets in its texts and numbers replaced.

    >>> hide({"echo": ["key s3cret-key"]}, ["s3cret-key"])
    {'echo': ['key [secret]']}
    """
    return Veil(hidden).over(value)


def _any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds any of these texts, the first of them first; None where there are none."""
    found = "|".join(map(re.escape, texts))
    return re.compile(found) if found else None

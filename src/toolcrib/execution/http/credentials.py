"""Puts secrets into requests by their security schemes, and filters them out of everything that is shown."""

import base64
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.redaction import secret_forms

Secret = str | tuple[str, str] | Callable[[], str | Awaitable[str]]
"""A key or token; a user and a password; or a function that returns one, such as a fresh token."""
_MIN_FILTERED_CHARACTERS = 6
"""Shorter secrets are not filtered: they would match other text by chance."""
_REPLACEMENT = "[secret]"
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")
_NUMBER_TEXT = re.compile(r"[-+.0-9eE]+")
_HEADER_TEXT = re.compile(r"[\x20-\x7e\xa0-\xff]+")
_COOKIE_TEXT = re.compile(r"[!#-+\x2d-:<-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Scheme:
    """The kind of a secret, and its place in a request."""

    kind: Literal["key", "basic", "bearer"]
    place: Literal["header", "query", "cookie"] = "header"
    name: str = "Authorization"


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The credentials of one request."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    """Texts to filter: the secrets in all their encodings."""

    @classmethod
    def of(cls, secrets: Iterable[tuple[Scheme, str]]) -> "Credentials":
        """Return the headers, query parameters and cookies for these secrets.

        Raises:
            ValueError: one of them has characters that its place does not allow.
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
            fits = {"header": _HEADER_TEXT, "cookie": _COOKIE_TEXT, "query": _PRINTABLE}[scheme.place]
            if not fits.fullmatch(value):
                raise ValueError(f"it has characters that a {scheme.place} cannot carry")
            hidden += sorted(secret_forms(text))
            places = {"header": made.headers, "query": made.query, "cookie": made.cookies}
            places[scheme.place][scheme.name] = value
        return cls(made.headers, made.query, made.cookies, tuple(dict.fromkeys(hidden)))


async def read_secret(secret: Secret) -> str:
    """Return a secret as text; call it if it is a function.

    Raises:
        ValueError: it is not printable text of one line.
    """
    value: Any = secret() if callable(secret) else secret
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, tuple):
        value = ":".join(value)
    if not isinstance(value, str) or not value.strip() or not _PRINTABLE.fullmatch(value.strip()):
        raise ValueError("it must be printable text on one line")
    return value.strip()


class SecretFilter:
    """Replaces secrets in a stream of text, also where chunks split them, and in whole values.

    >>> secrets = SecretFilter(["s3cret-key"])
    >>> secrets.feed("the key is s3cret-") + secrets.feed("key, as you know") + secrets.finish()
    'the key is [secret], as you know'
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        # longest first: a regular expression takes the first alternative that matches, not the longest
        self._secrets = sorted(
            (text for text in hidden if len(text) >= _MIN_FILTERED_CHARACTERS), key=len, reverse=True
        )
        self._longest = len(self._secrets[0]) if self._secrets else 1
        self._pattern = _compile_alternatives(self._secrets)
        self._number_pattern = _compile_alternatives(
            text for text in self._secrets if _NUMBER_TEXT.fullmatch(text)
        )
        self._held_back = ""

    def feed(self, text: str) -> str:
        """Return the filtered text so far; an end that may be the beginning of a secret is held back."""
        text = self._held_back + text
        # A secret that begins before this position is complete.
        safe = len(text) - self._longest + 1
        shown, done = [], 0
        while self._pattern and done < safe and (found := self._pattern.search(text, done)):
            if found.start() >= safe:
                break
            shown += [text[done : found.start()], _REPLACEMENT]
            done = found.end()
        rest = max(done, safe)
        self._held_back = text[rest:]
        return "".join([*shown, text[done:rest]])

    def finish(self) -> str:
        """Return the text that was held back."""
        text, self._held_back = self._held_back, ""
        return self._pattern.sub(_REPLACEMENT, text) if self._pattern else text

    def replace_in_bytes(self, content: bytes) -> bytes:
        """Return bytes with their secrets replaced."""
        for text in self._secrets:
            for charset in ("utf-8", "latin-1"):
                content = content.replace(text.encode(charset, "backslashreplace"), _REPLACEMENT.encode())
        return content

    def replace_in(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its texts and numbers replaced.

        Without recursion, since the server decides how deep the value is.
        """
        if not self._pattern:
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
        """Return a text or number without secrets, or a copy of a container with its members unchanged."""
        if isinstance(value, str):
            return self._pattern.sub(_REPLACEMENT, value) if self._pattern else value
        if isinstance(value, list):
            return list(value)
        if isinstance(value, Mapping):
            return {self._copy(key): member for key, member in value.items()}
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return (
            _REPLACEMENT
            if self._number_pattern and is_number and self._number_pattern.search(repr(value))
            else value
        )


def replace_secrets(value: Any, hidden: Iterable[str]) -> Any:
    """Return a value with the secrets in its texts and numbers replaced.

    >>> replace_secrets({"echo": ["key s3cret-key"]}, ["s3cret-key"])
    {'echo': ['key [secret]']}
    """
    return SecretFilter(hidden).replace_in(value)


def _compile_alternatives(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any of these texts, earlier ones first; None without texts."""
    found = "|".join(map(re.escape, texts))
    return re.compile(found) if found else None

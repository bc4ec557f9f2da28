"""Which values of a configuration are most likely secret, and its text without them."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolcrib.places import HOME
from toolcrib.redaction import hide_secrets, is_public

__all__ = ["secrets_in", "without_secrets"]

_TABLES = frozenset({"env", "environment", "headers", "http_headers", "secrets"})
"""Tables of which every value counts."""
_LISTS = frozenset({"args", "command"})
_KEY = re.compile(r"token|secret|passw(?:or)?d|api[_-]?key|authorization|credential", re.IGNORECASE)
_VARIABLE = re.compile(r"_vars?$", re.IGNORECASE)
_FLAG = re.compile(
    r"--?[\w-]*(?:token|secret|passw(?:or)?d|pwd|key|auth|bearer|credential|header)[\w-]*", re.IGNORECASE
)
_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*+"' + r"|'[^'\n]*+'")
_PLAIN = 6
"""From how many characters on a value is found outside of quotes too."""
_MAX_DEPTH = 100


def secrets_in(document: Any, depth: int = 0) -> Iterator[str]:
    """Yield the values of a document that are most likely secret and not in the environment.

    >>> list(secrets_in({"a": {"env": {"K": "s3cret", "V": "${V}"}, "args": ["--api-key", "abc", "-v"]}}))
    ['s3cret', 'abc']
    """
    if depth > _MAX_DEPTH:
        return
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in _TABLES and isinstance(value, Mapping):
                yield from _literals(each for name, each in value.items() if name != HOME)
            elif key in _LISTS and isinstance(value, list):
                yield from _after_flags(value)
            elif _KEY.search(str(key)) and not _VARIABLE.search(str(key)):
                yield from _literals([value])
            if isinstance(value, Mapping | list):
                yield from secrets_in(value, depth + 1)
    elif isinstance(document, list):
        for value in document:
            yield from secrets_in(value, depth + 1)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which each secret has a number for its value, and those of known forms have none.

    >>> without_secrets('{"K": "s3cret", "L": "other"}', ["s3cret", "other"])
    '{"K": "[secret] 1", "L": "[secret] 2"}'
    """
    numbers: dict[str, str] = {}
    for secret in secrets:
        numbers.setdefault(secret, f"[secret] {len(numbers) + 1}")  # a form that is left alone below
    clean = _TEXT.sub(lambda found: _masked(found[0], numbers), text) if numbers else text
    long = [each for each in numbers if len(each) >= _PLAIN]
    forms = {form: numbers[each] for each in long for form in _written(each)}
    if forms:
        pattern = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
        clean = re.sub(pattern, lambda found: forms[found[0]], clean)
    return hide_secrets(clean)


def _masked(quoted: str, numbers: Mapping[str, str]) -> str:
    value = _unquoted(quoted)
    if value in numbers:
        return f"{quoted[0]}{numbers[value]}{quoted[0]}"
    flag, sign, rest = value.partition("=")
    return f"{quoted[0]}{flag}={numbers[rest]}{quoted[0]}" if sign and rest in numbers else quoted


def _unquoted(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return str(tomllib.loads(f"x = {quoted}")["x"])
    except ValueError:  # escapes that only JSON has
        return _of_json(quoted)


def _of_json(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted[1:-1]


def _written(secret: str) -> Iterator[str]:
    """Yield how a secret may stand in a text without quotes, or in many lines of it."""
    for line in secret.splitlines():
        if len(line) >= _PLAIN:
            yield line
            yield json.dumps(line, ensure_ascii=False)[1:-1]


def _literals(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            if text and not is_public(text):
                yield text


def _after_flags(words: list[Any]) -> Iterator[str]:
    for place, word in enumerate(words):
        flag, sign, value = str(word).partition("=")
        if not _FLAG.fullmatch(flag):
            continue
        if sign:
            yield from _literals([value])
        elif place + 1 < len(words) and not str(words[place + 1]).startswith("-"):
            yield from _literals([words[place + 1]])

"""Which values of a configuration are most likely secret, and its text without them."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolcrib.places import HOME
from toolcrib.redaction import hide_secrets, is_public

__all__ = ["named_secrets", "secrets_in", "without_secrets"]

_TABLES = frozenset({"env", "environment", "headers", "http_headers"})
"""Tables of which every value counts that is not plainly a setting."""
_SECRETS = "secrets"
"""The table of which every value counts."""
_LISTS = frozenset({"args", "command"})
_KEY = re.compile(r"token|secret|passw(?:or)?d|api[_-]?key|authorization|credential", re.IGNORECASE)
_VARIABLE = re.compile(r"_vars?$", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|bearer|cookie|session|signature|private|dsn"
    r"|auth(?!or(?!i[sz]))|api[_-]?key|(?:^|[_-])(?:key|pass|pat|pin|salt)s?(?:$|[_-])|(?<=[a-z])Key$",
    re.IGNORECASE,
)
"""Names of variables and headers whose values are secret, however plain they look."""
_PATH = re.compile(r"(?:~|\.{0,2}[/\\]|[A-Za-z]:[/\\])[^\n]*")
_LONGEST_WORD, _LONGEST_NUMBER, _LONGEST_MIXED = 20, 8, 3
"""How many letters, digits, or letters and digits together, stand in the parts of a plain value."""
_FLAG = re.compile(
    r"--?[\w-]*(?:token|secret|passw(?:or)?d|pwd|key|auth|bearer|credential|header)[\w-]*", re.IGNORECASE
)
_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*+"' + r"|'[^'\n]*+'")
_PLAIN = 6
"""From how many characters on a value is found outside of quotes too."""
_MAX_DEPTH = 100


def secrets_in(document: Any) -> Iterator[str]:
    """Yield the values of a document that are most likely secret and not in the environment.

    >>> list(secrets_in({"a": {"env": {"K": "s3cret", "V": "${V}"}, "args": ["--api-key", "abc", "-v"]}}))
    ['s3cret', 'abc']
    """
    return (value for _, value in named_secrets(document))


def named_secrets(document: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the same, each with the key or the flag that it is the value of.

    >>> list(named_secrets({"env": {"DB_PASS": "sesame", "REGION": "eu-west-1", "DATA": "/srv/data"}}))
    [('DB_PASS', 'sesame')]
    """
    if depth > _MAX_DEPTH:
        return
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _secrets_under(str(key), value)
    members = document.values() if isinstance(document, Mapping) else document
    for value in members:
        if isinstance(value, Mapping | list):
            yield from named_secrets(value, depth + 1)


def _secrets_under(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the secrets that are known by the key they stand under."""
    if key == _SECRETS and isinstance(value, Mapping):
        yield from _literals(value.items())
    elif key in _TABLES and isinstance(value, Mapping):
        found = _literals((name, each) for name, each in value.items() if name != HOME)
        yield from ((name, text) for name, text in found if not _is_setting(name, text))
    elif key in _LISTS and isinstance(value, list):
        yield from _after_flags(value)
    elif _KEY.search(key) and not _VARIABLE.search(key):
        yield from _literals([(key, value)])


def _is_setting(name: str, value: str) -> bool:
    """Return whether a variable or a header is plainly no secret, by its name and by its value.

    >>> [_is_setting("X", each) for each in ("eu-central-1", "~/data2", "hunter2", "postgres://me:pw@db/x")]
    [True, True, False, False]
    >>> _is_setting("AUTHOR", "Anna"), _is_setting("AUTH", "Anna")
    (True, False)
    """
    if _SECRET_NAME.search(name) or hide_secrets(value) != value:
        return False
    if _PATH.fullmatch(value):
        return True
    is_address = "://" in value
    if "\n" in value or (is_address and not {"@", "?"}.isdisjoint(value)):
        return False
    parts = re.findall(r"[^\W_]+", value)
    return all(_is_plain(part) for part in parts) and (len(parts) > 1 or not value.isdecimal())


def _is_plain(part: str) -> bool:
    if part.isdecimal():
        return len(part) <= _LONGEST_NUMBER
    return len(part) <= (_LONGEST_WORD if part.isalpha() else _LONGEST_MIXED)


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


def _literals(values: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            if text and not is_public(text):
                yield str(name), text


def _after_flags(words: list[Any]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        flag, sign, value = str(word).partition("=")
        if not _FLAG.fullmatch(flag):
            continue
        if sign:
            yield from _literals([(flag, value)])
        elif place + 1 < len(words) and not str(words[place + 1]).startswith("-"):
            yield from _literals([(flag, words[place + 1])])

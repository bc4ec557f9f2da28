"""Masks the secrets in the text of a configuration."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping

from toolcrib.redaction import hide_secrets

_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*+"' + r"|'[^'\n]*+'")
_PLAIN = 6
"""From how many characters on a value is found outside of quotes too."""


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which each secret has a number for its value, and those of known forms have none.

    >>> without_secrets('{"K": "s3cret", "L": "other"}', ["s3cret", "other"])
    '{"K": "[secret] 1", "L": "[secret] 2"}'
    """
    numbers: dict[str, str] = {}
    for secret in secrets:
        numbers.setdefault(secret, f"[secret] {len(numbers) + 1}")  # a form that is left alone below
    clean = _TEXT.sub(lambda found: _mask(found[0], numbers), text) if numbers else text
    long = [each for each in numbers if len(each) >= _PLAIN]
    forms = {form: numbers[each] for each in long for form in _written_forms(each)}
    if forms:
        pattern = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
        clean = re.sub(pattern, lambda found: forms[found[0]], clean)
    return hide_secrets(clean)


def _mask(quoted: str, numbers: Mapping[str, str]) -> str:
    value = _unquote(quoted)
    if value in numbers:
        return f"{quoted[0]}{numbers[value]}{quoted[0]}"
    flag, sign, rest = value.partition("=")
    return f"{quoted[0]}{flag}={numbers[rest]}{quoted[0]}" if sign and rest in numbers else quoted


def _unquote(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return str(tomllib.loads(f"x = {quoted}")["x"])
    except ValueError:  # escapes that only JSON has
        return _unquote_json(quoted)


def _unquote_json(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted[1:-1]


def _written_forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in a text without quotes, or over several lines."""
    for line in secret.splitlines():
        if len(line) >= _PLAIN:
            yield line
            yield json.dumps(line, ensure_ascii=False)[1:-1]

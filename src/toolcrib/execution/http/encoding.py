"""Values as text in paths, queries, headers and cookies, in each style that OpenAPI has.

What a style has no way to carry is refused rather than sent as something else: a dot segment in a path, a
line break in a header, a separator inside a value that the receiver could not tell from one.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from toolcrib.execution.http.plan import Parameter, Style
from toolcrib.model.json_text import strict_json

_SEPARATORS: dict[Style, str] = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
_RESERVED_KEPT = "/:?@!$'()*,;"
"""The reserved signs that a query can hold without ending a value."""
_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_HEADER = re.compile(r"(?:[\x21-\x7e\xa0-\xff](?:[\t\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa0-\xff])?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SLASHES = re.compile(r"[/\\]")


class UnfitError(Exception):
    """A value that cannot be written where it belongs; it is turned into a problem of the arguments."""


def plain_text(value: Any) -> str:
    """Return a value as text: a string as it is, anything else as JSON writes it.

    >>> [plain_text(value) for value in ("a b", 3, True, None, [1])]
    ['a b', '3', 'true', 'null', '[1]']
    """
    return value if isinstance(value, str) else strict_json(value)


def path_text(parameter: Parameter, value: Any) -> str:
    """Return what stands in the path for a value, percent-encoded.

    >>> path_text(Parameter(argument="id", name="id", place="path"), "a/b c")
    'a%2Fb%20c'

    Raises:
        UnfitError: the path would lead elsewhere, or the value is empty.
    """
    if parameter.as_json:
        return _path_part(strict_json(value))
    pairs = [(_path_part(key), _path_part(text)) for key, text in _pairs(value)]
    if not pairs:
        raise UnfitError("must not be empty, because it is a part of the path")
    return _PATH_STYLES.get(parameter.style, _simple)(parameter, value, pairs)


def _simple(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    return ",".join(_flat(pairs, is_object=isinstance(value, dict), explode=parameter.explode))


def _label(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    separator = "." if parameter.explode else ","
    return "." + separator.join(_flat(pairs, is_object=isinstance(value, dict), explode=parameter.explode))


def _matrix(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    name = quote(parameter.name, safe="")
    if not parameter.explode:
        return f";{name}={_simple(parameter, value, pairs)}"
    return "".join(f";{key if isinstance(value, dict) else name}={text}" for key, text in pairs)


_PATH_STYLES = {"simple": _simple, "label": _label, "matrix": _matrix}


def _path_part(text: str) -> str:
    if not text:
        raise UnfitError("must not be empty, because it is a part of the path")
    if any(segment in {".", ".."} for segment in _SLASHES.split(text)):
        raise UnfitError("must not hold the path segments '.' or '..'")
    if _CONTROL.search(text):
        raise UnfitError("must not hold control characters, because it is a part of the path")
    return quote(text, safe="")


def query_pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Return the names and values that a value adds to the query, percent-encoded.

    >>> query_pairs(Parameter(argument="ids", name="id", place="query", style="form", explode=True), [1, 2])
    [('id', '1'), ('id', '2')]

    Raises:
        UnfitError: a value holds the sign that separates values.
    """
    safe = _RESERVED_KEPT if parameter.keep_reserved else ""
    name = quote(parameter.name, safe="")
    if parameter.as_json or not isinstance(value, dict | list):
        text = strict_json(value) if parameter.as_json else plain_text(value)
        return [(name, quote(text, safe=safe))]
    if parameter.style == "deepObject" and isinstance(value, dict):
        return [(quote(key, safe=""), quote(text, safe=safe)) for key, text in _deep(parameter.name, value)]
    pairs = _pairs(value)
    if parameter.explode or parameter.style == "deepObject":
        names = (key if isinstance(value, dict) else parameter.name for key, _ in pairs)
        return [
            (quote(key, safe=""), quote(text, safe=safe)) for key, (_, text) in zip(names, pairs, strict=True)
        ]
    return [(name, _separated(parameter.style, value, pairs))] if pairs else []


def _separated(style: Style, value: Any, pairs: list[tuple[str, str]]) -> str:
    """Return members in one text; a comma is escaped by its encoding, the other separators are not."""
    separator = _SEPARATORS.get(style, ",")
    texts = _flat(pairs, is_object=isinstance(value, dict), explode=False)
    if separator != ",":
        _refuse_separator(separator, texts)
    return ("," if separator == "," else quote(separator)).join(quote(text, safe="") for text in texts)


def _deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _deep(f"{name}[{key}]", member)
    elif isinstance(value, list):
        for member in value:
            yield name, plain_text(member)
    else:
        yield name, plain_text(value)


def header_text(parameter: Parameter, value: Any) -> str:
    """Return the value of a header.

    Raises:
        UnfitError: a header cannot carry it, such as a line break.
    """
    if parameter.as_json:
        text = json.dumps(value, allow_nan=False)
    elif isinstance(value, dict | list):
        members = _flat(_pairs(value), is_object=isinstance(value, dict), explode=parameter.explode)
        _refuse_separator(",", members)
        text = ",".join(members)
    else:
        text = plain_text(value)
    if not _HEADER.fullmatch(text):
        raise UnfitError(
            "must be printable Latin-1 text of one line, with no space at either end, because it is a header"
        )
    return text


def cookie_text(parameter: Parameter, value: Any) -> list[str]:
    """Return the `name=value` texts of a cookie; what cookies cannot hold is percent-encoded.

    Raises:
        UnfitError: a name that a cookie cannot have.
    """
    if parameter.as_json or not isinstance(value, dict | list):
        text = strict_json(value) if parameter.as_json else plain_text(value)
        return [_cookie(parameter.name, text)]
    pairs = _pairs(value)
    if parameter.explode:
        return [_cookie(key if isinstance(value, dict) else parameter.name, text) for key, text in pairs]
    members = _flat(pairs, is_object=isinstance(value, dict), explode=False)
    joined = "%2C".join(quote(member, safe=_COOKIE_SAFE) for member in members)
    return [f"{_cookie(parameter.name, '')}{joined}"] if members else []


def _cookie(name: str, text: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise UnfitError(f"has the member {name!r:.80}, which cannot be the name of a cookie")
    return f"{name}={quote(text, safe=_COOKIE_SAFE)}"


def _pairs(value: Any) -> list[tuple[str, str]]:
    """Return the members of a value with their keys, as text; a scalar has one, without a key."""
    if isinstance(value, dict):
        return [(key, plain_text(member)) for key, member in value.items()]
    return [("0", plain_text(member)) for member in (value if isinstance(value, list) else [value])]


def _flat(pairs: Iterable[tuple[str, str]], *, is_object: bool, explode: bool) -> list[str]:
    """Return `k=v` texts, keys and values in turn, or the values alone."""
    if not is_object:
        return [text for _, text in pairs]
    return [f"{key}={text}" for key, text in pairs] if explode else [part for pair in pairs for part in pair]


def _refuse_separator(separator: str, texts: Iterable[str]) -> None:
    if any(separator in text for text in texts):
        raise UnfitError(f"must not hold {separator!r} in a member, because that separates the members")

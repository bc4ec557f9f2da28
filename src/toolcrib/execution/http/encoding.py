"""Encodes values for paths, queries, headers and cookies, in each style of OpenAPI.

A value that a style cannot express is refused, never sent in another form: a dot segment in a path, a line
break in a header, or a separator inside an item that the receiver would take for the end of the item.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from toolcrib.execution.http.plan import Parameter, Style
from toolcrib.model.json_text import strict_json

_SEPARATORS: dict[Style, str] = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
_RESERVED_IN_QUERY = "/:?@!$'()*,;"
"""Reserved characters that do not end a value in a query."""
_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_HEADER = re.compile(r"(?:[\x21-\x7e\xa0-\xff](?:[\t\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa0-\xff])?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SLASHES = re.compile(r"[/\\]")


class EncodingError(Exception):
    """A value cannot be written in its place; converted to a problem of the arguments."""


def plain_text(value: Any) -> str:
    """Return a value as text: a string unchanged, anything else as JSON.

    >>> [plain_text(value) for value in ("a b", 3, True, None, [1])]
    ['a b', '3', 'true', 'null', '[1]']
    """
    return value if isinstance(value, str) else strict_json(value)


def encode_path(parameter: Parameter, value: Any) -> str:
    """Return the percent-encoded part of the path for a value.

    >>> encode_path(Parameter(argument="id", name="id", place="path"), "a/b c")
    'a%2Fb%20c'

    Raises:
        EncodingError: the path would change its meaning, or the value is empty.
    """
    if parameter.as_json:
        return _encode_segment(strict_json(value))
    pairs = [(_encode_segment(key), _encode_segment(text)) for key, text in _list_pairs(value)]
    if not pairs:
        raise EncodingError("must not be empty, because it is a part of the path")
    return _PATH_STYLES.get(parameter.style, _encode_simple)(parameter, value, pairs)


def _encode_simple(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    return ",".join(_flatten_pairs(pairs, is_object=isinstance(value, dict), explode=parameter.explode))


def _encode_label(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    separator = "." if parameter.explode else ","
    return "." + separator.join(
        _flatten_pairs(pairs, is_object=isinstance(value, dict), explode=parameter.explode)
    )


def _encode_matrix(parameter: Parameter, value: Any, pairs: list[tuple[str, str]]) -> str:
    name = quote(parameter.name, safe="")
    if not parameter.explode:
        return f";{name}={_encode_simple(parameter, value, pairs)}"
    return "".join(f";{key if isinstance(value, dict) else name}={text}" for key, text in pairs)


_PATH_STYLES = {"simple": _encode_simple, "label": _encode_label, "matrix": _encode_matrix}


def _encode_segment(text: str) -> str:
    if not text:
        raise EncodingError("must not be empty, because it is a part of the path")
    if any(segment in {".", ".."} for segment in _SLASHES.split(text)):
        raise EncodingError("must not contain the path segments '.' or '..'")
    if _CONTROL.search(text):
        raise EncodingError("must not contain control characters, because it is a part of the path")
    return quote(text, safe="")


def encode_query(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Return the percent-encoded names and values of a parameter in the query.

    >>> encode_query(Parameter(argument="ids", name="id", place="query", style="form", explode=True), [1, 2])
    [('id', '1'), ('id', '2')]

    Raises:
        EncodingError: an item contains the separator of items.
    """
    safe = _RESERVED_IN_QUERY if parameter.keep_reserved else ""
    name = quote(parameter.name, safe="")
    if parameter.as_json or not isinstance(value, dict | list):
        text = strict_json(value) if parameter.as_json else plain_text(value)
        return [(name, quote(text, safe=safe))]
    if parameter.style == "deepObject" and isinstance(value, dict):
        return [
            (quote(key, safe=""), quote(text, safe=safe))
            for key, text in _list_deep_pairs(parameter.name, value)
        ]
    pairs = _list_pairs(value)
    if parameter.explode or parameter.style == "deepObject":
        names = (key if isinstance(value, dict) else parameter.name for key, _ in pairs)
        return [
            (quote(key, safe=""), quote(text, safe=safe)) for key, (_, text) in zip(names, pairs, strict=True)
        ]
    return [(name, _join_items(parameter.style, value, pairs))] if pairs else []


def _join_items(style: Style, value: Any, pairs: list[tuple[str, str]]) -> str:
    """Return the items in one text.

    Items with a comma are unambiguous, since their commas are percent-encoded and the separators are not. The
    other separators must themselves be encoded, so an item cannot contain them.
    """
    separator = _SEPARATORS.get(style, ",")
    texts = _flatten_pairs(pairs, is_object=isinstance(value, dict), explode=False)
    if separator != ",":
        _refuse_separator(separator, texts)
    return ("," if separator == "," else quote(separator)).join(quote(text, safe="") for text in texts)


def _list_deep_pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _list_deep_pairs(f"{name}[{key}]", member)
    elif isinstance(value, list):
        for member in value:
            yield name, plain_text(member)
    else:
        yield name, plain_text(value)


def encode_header(parameter: Parameter, value: Any) -> str:
    """Return the value of a header.

    Raises:
        EncodingError: it has characters that a header does not allow, such as a line break.
    """
    if parameter.as_json:
        text = json.dumps(value, allow_nan=False)
    elif isinstance(value, dict | list):
        members = _flatten_pairs(
            _list_pairs(value), is_object=isinstance(value, dict), explode=parameter.explode
        )
        _refuse_separator(",", members)
        text = ",".join(members)
    else:
        text = plain_text(value)
    if not _HEADER.fullmatch(text):
        raise EncodingError(
            "must be printable Latin-1 text on one line, with no space at either end, because it is a header"
        )
    return text


def encode_cookies(parameter: Parameter, value: Any) -> list[str]:
    """Return the `name=value` texts of a parameter; characters not allowed in cookies are percent-encoded.

    Raises:
        EncodingError: a name is not allowed for cookies.
    """
    if parameter.as_json or not isinstance(value, dict | list):
        text = strict_json(value) if parameter.as_json else plain_text(value)
        return [_encode_cookie(parameter.name, text)]
    pairs = _list_pairs(value)
    if parameter.explode:
        return [
            _encode_cookie(key if isinstance(value, dict) else parameter.name, text) for key, text in pairs
        ]
    members = _flatten_pairs(pairs, is_object=isinstance(value, dict), explode=False)
    joined = "%2C".join(quote(member, safe=_COOKIE_SAFE) for member in members)
    return [f"{_encode_cookie(parameter.name, '')}{joined}"] if members else []


def _encode_cookie(name: str, text: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise EncodingError(f"has the member {name!r:.80}, which cannot be the name of a cookie")
    return f"{name}={quote(text, safe=_COOKIE_SAFE)}"


def _list_pairs(value: Any) -> list[tuple[str, str]]:
    """Return the items or members of a value as text, with their keys; a scalar is one item."""
    if isinstance(value, dict):
        return [(key, plain_text(member)) for key, member in value.items()]
    return [("0", plain_text(member)) for member in (value if isinstance(value, list) else [value])]


def _flatten_pairs(pairs: Iterable[tuple[str, str]], *, is_object: bool, explode: bool) -> list[str]:
    """Return the items of an array; of an object `k=v` texts, or keys and values in turn."""
    if not is_object:
        return [text for _, text in pairs]
    return [f"{key}={text}" for key, text in pairs] if explode else [part for pair in pairs for part in pair]


def _refuse_separator(separator: str, texts: Iterable[str]) -> None:
    if any(separator in text for text in texts):
        raise EncodingError(f"must not contain {separator!r} in a member, because that separates the members")

"""Arguments as the body of a request: JSON, forms, multipart, text and bytes."""

import base64
import binascii
import secrets
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus

from toolcrib.execution.provider.encoding import UnfitError, plain_text, query_pairs, to_json
from toolcrib.execution.provider.plan import Body, Parameter, Part

__all__ = ["write_body"]

_FILE_TYPE = "application/octet-stream"
_PLAIN = Part()


def write_body(body: Body, value: Any) -> tuple[bytes, str]:
    """Return the bytes of a body and their content type.

    Raises:
        UnfitError: the value cannot be written so, such as one that is not base64.
    """
    if body.kind == "json":
        return to_json(value).encode(), body.media_type
    if body.kind == "text":
        media_type = body.media_type if "charset" in body.media_type else f"{body.media_type}; charset=utf-8"
        return plain_text(value).encode(), media_type
    if body.kind == "bytes":
        return _bytes(value), body.media_type
    if not isinstance(value, dict):
        raise UnfitError("must be an object, because it is sent as a form")
    if body.kind == "form":
        return _form(value, body.parts), body.media_type
    boundary = secrets.token_hex(16)
    return _multipart(value, body.parts, boundary), f"{body.media_type}; boundary={boundary}"


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise UnfitError("must be base64 text of the bytes to send") from None


def _file(name: str, value: Any) -> bytes:
    try:
        return _bytes(value)
    except UnfitError as error:
        raise UnfitError(f"{name!r:.80} {error}") from None


def _form(value: Mapping[str, Any], parts: Mapping[str, Part]) -> bytes:
    """Return a form: spaces are plus signs, and names repeat for arrays."""
    pairs: list[str] = []
    for name, member in value.items():
        part = parts.get(name, _PLAIN)
        if member is None:
            continue
        if part.media_type and "json" in part.media_type:
            pairs.append(f"{quote_plus(name)}={quote_plus(to_json(member))}")
        else:
            parameter = Parameter(
                argument=name, name=name, place="query", style=part.style, explode=part.explode
            )
            pairs += [f"{key}={text.replace('%20', '+')}" for key, text in query_pairs(parameter, member)]
    return "&".join(pairs).encode("ascii")


def _multipart(value: Mapping[str, Any], parts: Mapping[str, Part], boundary: str) -> bytes:
    pieces: list[bytes] = []
    for name, member in value.items():
        if member is not None:
            for header, content in _fields(name, member, parts.get(name, _PLAIN)):
                pieces.append(f"--{boundary}\r\n{header}\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


def _fields(name: str, value: Any, part: Part) -> Iterator[tuple[str, bytes]]:
    """Yield the headers and the content of each field that a property becomes: one for each array member."""
    shown = name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
    disposition = f'Content-Disposition: form-data; name="{shown}"'
    for member in value if isinstance(value, list) else [value]:
        if part.is_file:
            media_type = part.media_type or _FILE_TYPE
            yield f'{disposition}; filename="{shown}"\r\nContent-Type: {media_type}', _file(name, member)
        elif isinstance(member, dict | list):
            yield (
                f"{disposition}\r\nContent-Type: {part.media_type or 'application/json'}",
                to_json(member).encode(),
            )
        elif part.media_type:
            yield f"{disposition}\r\nContent-Type: {part.media_type}", plain_text(member).encode()
        else:
            yield disposition, plain_text(member).encode()

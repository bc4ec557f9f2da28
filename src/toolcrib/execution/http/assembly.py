"""Builds a request from its plan, the arguments of a call and the credentials."""

import base64
import binascii
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.execution.http.credentials import Credentials
from toolcrib.execution.http.encoding import (
    EncodingError,
    encode_cookies,
    encode_header,
    encode_path,
    encode_query,
    plain_text,
)
from toolcrib.execution.http.plan import Body, Parameter, Part, RequestPlan
from toolcrib.model.json_text import strict_json
from toolcrib.model.plain import pointer

FORBIDDEN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that no argument may set: they decide where a request goes, who sends it, and where it ends."""
_MAX_URL_CHARACTERS = 65_536
_NOT_JSON_REASON = "holds what is not JSON, such as a lone surrogate or NaN, and cannot be sent"
_TEMPLATE = re.compile(r"\{([^{}/]*)\}")
_FILE_TYPE = "application/octet-stream"
_PLAIN = Part()


@dataclass(frozen=True, slots=True, repr=False)
class Outgoing:
    """A request to send; it has no `repr`, because it holds secrets."""

    method: str
    url: str
    headers: list[tuple[bytes, bytes]]
    content: bytes | None
    hidden: tuple[str, ...] = ()


def is_token(name: str) -> bool:
    """Return whether a text is a token of HTTP, as names of headers must be."""
    return re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) is not None


def assemble(plan: RequestPlan, args: Mapping[str, Any], credentials: Credentials) -> Outgoing:
    """Return the request of a call.

    Raises:
        ValidationError: with every argument that cannot be sent in its place.
    """
    return _Assembly(plan, args, credentials).build()


class _Assembly:
    """Collects the parts of one request, argument by argument."""

    def __init__(self, plan: RequestPlan, args: Mapping[str, Any], credentials: Credentials) -> None:
        self._plan, self._args, self._credentials = plan, args, credentials
        self._segments: dict[str, str] = {}
        self._query: list[str] = [plan.query] if plan.query else []
        self._fixed = [name for name, _ in parse_qsl(plan.query, keep_blank_values=True)]
        self._headers: list[tuple[str, str]] = list(plan.headers)
        self._cookies: list[str] = []
        self._problems: list[Problem] = []

    def build(self) -> Outgoing:
        for parameter in self._plan.parameters:
            value = self._args.get(parameter.argument)
            if value is not None or (parameter.as_json and parameter.argument in self._args):
                self._add_parameter(parameter, value)
        content = self._build_body()
        path = self._build_path()
        if self._problems:
            raise ValidationError(tuple(self._problems[:MAX_PROBLEMS]))
        self._add_credentials()  # last: no argument can replace one
        query = f"?{'&'.join(self._query)}" if self._query else ""
        url = f"{self._plan.base}{path}{query}"
        if len(url) > _MAX_URL_CHARACTERS:
            raise ValidationError(
                (Problem("", "size", f"the arguments make a URL of {len(url):,} characters"),)
            )
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in self._headers]
        return Outgoing(self._plan.method, url, headers, content, self._credentials.hidden)

    def _add_parameter(self, parameter: Parameter, value: Any) -> None:
        try:
            self._encode_parameter(parameter, value)
        except EncodingError as error:
            self._add_problem(parameter.argument, str(error))
        except (TypeError, ValueError, RecursionError):
            self._add_problem(parameter.argument, _NOT_JSON_REASON)

    def _encode_parameter(self, parameter: Parameter, value: Any) -> None:
        if parameter.place == "path":
            self._segments[parameter.name] = encode_path(parameter, value)
        elif parameter.place == "query":
            pairs = encode_query(parameter, value)
            self._check_names(parameter, [unquote(name) for name, _ in pairs], self._credentials.query)
            self._query += [f"{name}={text}" for name, text in pairs]
        elif parameter.place == "header":
            self._headers.append((parameter.name, encode_header(parameter, value)))
        else:
            cookies = encode_cookies(parameter, value)
            names = [cookie.partition("=")[0] for cookie in cookies]
            self._check_names(parameter, names, self._credentials.cookies)
            self._cookies += cookies

    def _check_names(self, parameter: Parameter, names: list[str], secrets: Mapping[str, str]) -> None:
        """Refuse names of members that are also names of other parameters or secrets.

        An object may add any names to the query. Servers differ in which of two values with one name they
        use, and in whether case and a final `[...]` belong to the name, so those are ignored in the
        comparison.
        """
        taken = {other.name for other in self._plan.parameters if other.place == parameter.place}
        taken |= {*secrets, *(self._fixed if parameter.place == "query" else ())}
        folded = {_normalize_name(other) for other in taken} - {_normalize_name(parameter.name)}
        for name in names:
            if name in secrets:
                raise EncodingError(f"must not set {name!r:.80}, which is where a secret goes")
            if name != parameter.name and folded & {
                _normalize_name(name),
                _normalize_name(name.partition("[")[0]),
            }:
                raise EncodingError(f"must not set {name!r:.80}, which is not a member of it")

    def _build_path(self) -> str:
        for name in _TEMPLATE.findall(self._plan.path):
            if name not in self._segments:
                argument = next((p.argument for p in self._plan.parameters if p.name == name), name)
                if not any(problem.path == pointer([argument]) for problem in self._problems):
                    self._add_problem(argument, "is required, because it is a part of the path")
        return _TEMPLATE.sub(lambda found: self._segments.get(found[1], ""), self._plan.path)

    def _build_body(self) -> bytes | None:
        body = self._plan.body
        if body is None:
            return None
        if body.argument is not None:
            if body.argument not in self._args:
                return None
            value = self._args[body.argument]
        else:
            taken = {parameter.argument for parameter in self._plan.parameters}
            value = {name: member for name, member in self._args.items() if name not in taken}
            if not value and not body.required:
                return None
        try:
            content, media_type = write_body(body, value)
        except EncodingError as error:
            self._add_problem(body.argument or "", str(error))
        except (TypeError, ValueError, RecursionError):
            self._add_problem(body.argument or "", _NOT_JSON_REASON)
        else:
            self._headers.append(("Content-Type", media_type))
            return content
        return None

    def _add_credentials(self) -> None:
        credentials = self._credentials
        named = {name.lower() for name in credentials.headers}
        self._headers = [(name, value) for name, value in self._headers if name.lower() not in named]
        self._headers += credentials.headers.items()
        self._query += [
            f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in credentials.query.items()
        ]
        cookies = [*self._cookies, *(f"{name}={text}" for name, text in credentials.cookies.items())]
        if cookies:
            self._headers.append(("Cookie", "; ".join(cookies)))

    def _add_problem(self, argument: str, reason: str) -> None:
        path = pointer([argument]) if argument else ""
        self._problems.append(Problem(path, "encoding", reason))


def _normalize_name(name: str) -> str:
    return name.strip().casefold()


def write_body(body: Body, value: Any) -> tuple[bytes, str]:
    """Return the bytes of a body and its content type.

    Raises:
        EncodingError: the value cannot be written in this form, such as one that is not base64.
    """
    if body.kind == "json":
        return strict_json(value).encode(), body.media_type
    if body.kind == "text":
        media_type = body.media_type if "charset" in body.media_type else f"{body.media_type}; charset=utf-8"
        return plain_text(value).encode(), media_type
    if body.kind == "bytes":
        return _decode_base64(value), body.media_type
    if not isinstance(value, dict):
        raise EncodingError("must be an object, because it is sent as a form")
    if body.kind == "form":
        return _encode_form(value, body.parts), body.media_type
    boundary = secrets.token_hex(16)
    return _encode_multipart(value, body.parts, boundary), f"{body.media_type}; boundary={boundary}"


def _decode_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise EncodingError("must be base64 text of the bytes to send") from None


def _decode_file(name: str, value: Any) -> bytes:
    try:
        return _decode_base64(value)
    except EncodingError as error:
        raise EncodingError(f"{name!r:.80} {error}") from None


def _encode_form(value: Mapping[str, Any], parts: Mapping[str, Part]) -> bytes:
    """Return an URL-encoded form: a space is `+`, and the name is repeated for each item of an array."""
    pairs: list[str] = []
    for name, member in value.items():
        part = parts.get(name, _PLAIN)
        if member is None:
            continue
        if part.media_type and "json" in part.media_type:
            pairs.append(f"{quote_plus(name)}={quote_plus(strict_json(member))}")
        else:
            parameter = Parameter(
                argument=name, name=name, place="query", style=part.style, explode=part.explode
            )
            pairs += [f"{key}={text.replace('%20', '+')}" for key, text in encode_query(parameter, member)]
    return "&".join(pairs).encode("ascii")


def _encode_multipart(value: Mapping[str, Any], parts: Mapping[str, Part], boundary: str) -> bytes:
    pieces: list[bytes] = []
    for name, member in value.items():
        if member is not None:
            for header, content in _list_fields(name, member, parts.get(name, _PLAIN)):
                pieces.append(f"--{boundary}\r\n{header}\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


def _list_fields(name: str, value: Any, part: Part) -> Iterator[tuple[str, bytes]]:
    """Yield the headers and the content of the fields of a property: one for each item of an array."""
    # the escapes of browsers; a quote or line break in a name would end the header
    escaped = name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
    disposition = f'Content-Disposition: form-data; name="{escaped}"'
    for member in value if isinstance(value, list) else [value]:
        if part.is_file:
            media_type = part.media_type or _FILE_TYPE
            yield (
                f'{disposition}; filename="{escaped}"\r\nContent-Type: {media_type}',
                _decode_file(name, member),
            )
        elif isinstance(member, dict | list):
            yield (
                f"{disposition}\r\nContent-Type: {part.media_type or 'application/json'}",
                strict_json(member).encode(),
            )
        elif part.media_type:
            yield f"{disposition}\r\nContent-Type: {part.media_type}", plain_text(member).encode()
        else:
            yield disposition, plain_text(member).encode()

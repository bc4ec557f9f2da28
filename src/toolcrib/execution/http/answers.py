"""Reads HTTP responses: the value of a tool call, or the facts of its error.

Every body goes through `_read_body`, which decompresses it and limits its size. Secrets are replaced in all
that leaves this module, since servers echo requests in their responses.
"""

import base64
import codecs
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from email.message import Message
from typing import Any, Protocol

from toolcrib.concurrency.turns import split_dense_chunks
from toolcrib.errors.text import truncate
from toolcrib.execution.call import Emit, Update
from toolcrib.execution.http.credentials import SecretFilter
from toolcrib.execution.http.events import StreamDecoder, TextDecoder, choose_decoder, parse_json_value
from toolcrib.execution.http.inflate import Inflater, UnreadableError

_MAX_FAILURE_BYTES = 64 * 1024
_MAX_REASON_CHARACTERS = 500
_NO_CONTENT = frozenset({204, 205})
_PUBLIC_HEADERS = (
    "content-type", "date", "etag", "last-modified", "link", "location", "retry-after", "server",
    "www-authenticate", "x-request-id",
)  # fmt: skip
_TEXT_TYPE = re.compile(
    r"text/.*|.*[/+](xml|yaml|x-yaml|javascript|x-javascript|x-www-form-urlencoded|graphql|csv|toml)"
)
_CHARSET = re.compile(r"(utf|iso|cp|latin|ascii|koi8|shift|euc|gb|hz|big5|mac|windows)[\w-]*")
"""The codecs of Python that are charsets; others, such as `zip` or `unicode_escape`, are not for bodies."""
_JSON_TYPE = re.compile(r"(application|text)/(json|[^;]+\+json)|text/x-json")


class Response(Protocol):
    """The part of `httpx.Response` that is read here, declared because httpx is an extra."""

    status_code: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, with names in any case."""
        ...

    @property
    def reason_phrase(self) -> str:
        """The text of its status."""
        ...

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield the bytes of its body, still compressed."""
        ...


async def read_value(
    response: Response, *, max_bytes: int, emit: Emit | None, hidden: tuple[str, ...] = ()
) -> Any:
    """Return the value of a successful response; the parts of a stream are emitted as they arrive.

    Raises:
        UnreadableError: it is too large, or does not match its headers.
    """
    media_type, charset = _read_content_type(response)
    if response.status_code in _NO_CONTENT:
        return None
    body = _read_body(response, max_bytes)
    chunked = emit is not None and "chunked" in response.headers.get("transfer-encoding", "").lower()
    decoder = choose_decoder(media_type, charset, chunked=chunked)
    if decoder is not None:
        return await _read_stream(body, decoder, emit, hidden)
    content = b"".join([chunk async for chunk in body])
    return _decode_without_secrets(content, media_type, charset, SecretFilter(hidden))


async def _read_stream(
    body: AsyncIterator[bytes], decoder: StreamDecoder, emit: Emit | None, hidden: tuple[str, ...]
) -> Any:
    parts: list[Any] = []
    secrets = SecretFilter(hidden)
    is_text = isinstance(decoder, TextDecoder)  # a secret may be split between two parts of a text

    async def add(part: Any) -> None:
        if is_text and not part:
            return
        parts.append(part)
        if emit is not None:
            await emit(Update(kind="chunk", data=part))

    async for chunk in split_dense_chunks(body):
        for part in decoder.feed(chunk):
            await add(secrets.feed(part) if is_text else secrets.replace_in(part))
    for part in decoder.finish():
        await add(secrets.feed(part) if is_text else secrets.replace_in(part))
    if is_text:
        await add(secrets.finish())
    return decoder.join(parts)


async def read_failure(response: Response, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the facts of an unsuccessful response: status, some headers, and the beginning of its body."""
    media_type, charset = _read_content_type(response)
    content, secrets, is_whole = b"", SecretFilter(hidden), False
    try:
        async for chunk in _read_body(response, _MAX_FAILURE_BYTES):
            content += chunk
        is_whole = True
        body = _decode_without_secrets(content, media_type, charset, secrets) if content else None
    except UnreadableError:
        text = content.decode(charset, "replace")
        # `feed` holds back the end of a cut body, which may be the first half of a secret
        body = (secrets.replace_in(text) if is_whole else secrets.feed(text)) or None
    return {
        "status": response.status_code,
        "reason": secrets.replace_in(response.reason_phrase),
        "headers": secrets.replace_in(public_headers(response)),
        "body": body,
    }


def explain_failure(failure: Mapping[str, Any]) -> str:
    """Return a failure as a sentence: the status, and the message in the body.

    >>> explain_failure({"status": 404, "reason": "Not Found", "body": {"detail": "no such pet"}})
    'HTTP 404 Not Found: no such pet'
    """
    message = _find_message(failure["body"])
    text = f"HTTP {failure['status']} {failure['reason']}".rstrip() + (f": {message}" if message else "")
    return truncate(text, _MAX_REASON_CHARACTERS)


def _find_message(body: Any, depth: int = 3) -> str:
    """Return the message in an error body, in one of the places that APIs commonly use."""
    if isinstance(body, str):
        return " ".join(body[: 4 * _MAX_REASON_CHARACTERS].split())
    if isinstance(body, dict) and depth:
        for key in ("detail", "message", "error_description", "error", "title", "errors"):
            if key in body and (found := _find_message(body[key], depth - 1)):
                return found
    if isinstance(body, list) and depth:
        return "; ".join(found for member in body[:3] if (found := _find_message(member, depth - 1)))
    if isinstance(body, dict) and "msg" in body:
        places = body.get("loc")
        where = ".".join(map(str, places)) if isinstance(places, list) else ""
        return f"{where}: {body['msg']}" if where else str(body["msg"])
    return ""


def public_headers(response: Response) -> dict[str, str]:
    """Return the headers of a response that are useful to callers."""
    return {name: response.headers[name] for name in _PUBLIC_HEADERS if name in response.headers}


async def _read_body(response: Response, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the decompressed body in chunks; compressed and decompressed bytes are limited separately.

    Raises:
        UnreadableError: it is larger than the limit, or does not match its headers.
    """
    inflater = Inflater(response.headers.get("content-encoding", ""))
    length = response.headers.get("content-length", "")
    too_large = UnreadableError(f"the answer is larger than {max_bytes:,} bytes; ask for less of it")
    if length.isdigit() and len(length) < 20 and int(length) > max_bytes:  # noqa: PLR2004 - the digits of 64 bits
        raise too_large  # before any of it is read
    packed, total = 0, 0
    async for raw in response.aiter_raw():
        packed += len(raw)
        if packed > max_bytes:
            raise too_large
        for chunk in inflater.feed(raw):
            total += len(chunk)
            if total > max_bytes:
                raise too_large
            yield chunk
    for chunk in inflater.finish():
        yield chunk


def _read_content_type(response: Response) -> tuple[str, str]:
    """Return the media type in lower case, and a charset that Python can decode."""
    message = Message()
    message["content-type"] = response.headers.get("content-type", "")
    charset = message.get_content_charset("utf-8")
    try:
        known = _CHARSET.fullmatch(codecs.lookup(charset).name) is not None
    except (LookupError, ValueError):
        known = False
    written = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return written, charset if known else "utf-8"


def _decode_without_secrets(content: bytes, media_type: str, charset: str, secrets: SecretFilter) -> Any:
    """Return the value of a body with its secrets replaced."""
    value = _decode(content, media_type, charset)
    if isinstance(value, bytes):
        shown = base64.b64encode(secrets.replace_in_bytes(value)).decode()
        return {"contentType": (media_type or "application/octet-stream")[:200], "base64": shown}
    return secrets.replace_in(value)


def _decode(content: bytes, media_type: str, charset: str) -> Any:
    """Return a body as JSON or text, or as bytes if it is neither."""
    if not content and not _TEXT_TYPE.fullmatch(media_type):
        return None
    if _JSON_TYPE.fullmatch(media_type):
        try:
            return parse_json_value(content if charset == "utf-8" else content.decode(charset))
        except ValueError as error:
            raise UnreadableError(
                f"the answer says that it is JSON, but it is not: {str(error)[:200]}"
            ) from error
    if _TEXT_TYPE.fullmatch(media_type):
        return content.decode(charset, "replace")
    if not media_type:
        with suppress(UnicodeDecodeError):
            return content.decode()
    return content

"""Reads HTTP responses as the value of a tool or as its error."""

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
from toolcrib.execution.http.credentials import Veil
from toolcrib.execution.http.events import StreamDecoder, TextParts, parse_json_value, parts_of
from toolcrib.execution.http.inflate import Inflater, UnreadableError

_MAX_FAILURE_BYTES = 64 * 1024
_MAX_REASON = 500
_NO_CONTENT = frozenset({204, 205})
_TOLD = (
    "content-type", "date", "etag", "last-modified", "link", "location", "retry-after", "server",
    "www-authenticate", "x-request-id",
)  # fmt: skip
_TEXT = re.compile(
    r"text/.*|.*[/+](xml|yaml|x-yaml|javascript|x-javascript|x-www-form-urlencoded|graphql|csv|toml)"
)
_CHARSET = re.compile(r"(utf|iso|cp|latin|ascii|koi8|shift|euc|gb|hz|big5|mac|windows)[\w-]*")
"""The codecs of Python that are charsets; there are others, which compress or escape."""
_JSON = re.compile(r"(application|text)/(json|[^;]+\+json)|text/x-json")


class Response(Protocol):
    """As much of an HTTP answer as is read here; an `httpx.Response` is one."""

    status_code: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, by names in any case."""
        ...

    @property
    def reason_phrase(self) -> str:
        """What the status is called."""
        ...

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield the bytes of its body as they came."""
        ...


async def read_value(
    response: Response, *, max_bytes: int, emit: Emit | None, hidden: tuple[str, ...] = ()
) -> Any:
    """Return the value of a successful answer; the parts of a stream are emitted as they come.

    Raises:
        UnreadableError: it is too large, or not what its headers say.
    """
    media_type, charset = _content_type(response)
    if response.status_code in _NO_CONTENT:
        return None
    body = _body(response, max_bytes, "answer")
    chunked = emit is not None and "chunked" in response.headers.get("transfer-encoding", "").lower()
    parts = parts_of(media_type, charset, chunked=chunked)
    if parts is not None:
        return await _stream(body, parts, emit, hidden)
    content = b"".join([piece async for piece in body])
    return _shown(content, media_type, charset, Veil(hidden))


async def _stream(
    body: AsyncIterator[bytes], parts: StreamDecoder, emit: Emit | None, hidden: tuple[str, ...]
) -> Any:
    found: list[Any] = []
    veil = Veil(hidden)
    is_text = isinstance(parts, TextParts)  # where a secret may be cut in two

    async def take(shown: Any) -> None:
        if is_text and not shown:
            return
        found.append(shown)
        if emit is not None:
            await emit(Update(kind="chunk", data=shown))

    async for piece in split_dense_chunks(body):
        for part in parts.feed(piece):
            await take(veil.feed(part) if is_text else veil.over(part))
    for part in parts.finish():
        await take(veil.feed(part) if is_text else veil.over(part))
    if is_text:
        await take(veil.finish())
    return parts.whole(found)


async def read_failure(response: Response, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what an answer that is no success says: status, some headers, and the beginning of its body."""
    media_type, charset = _content_type(response)
    content, veil, is_whole = b"", Veil(hidden), False
    try:
        async for piece in _body(response, _MAX_FAILURE_BYTES, "answer"):
            content += piece
        is_whole = True
        body = _shown(content, media_type, charset, veil) if content else None
    except UnreadableError:
        text = content.decode(charset, "replace")
        body = (veil.over(text) if is_whole else veil.feed(text)) or None  # its end may be half a secret
    return {
        "status": response.status_code,
        "reason": veil.over(response.reason_phrase),
        "headers": veil.over(public_headers(response)),
        "body": body,
    }


def reason_of(failure: Mapping[str, Any]) -> str:
    """Return a failure as a sentence: the status, and what the body says of it.

    >>> reason_of({"status": 404, "reason": "Not Found", "body": {"detail": "no such pet"}})
    'HTTP 404 Not Found: no such pet'
    """
    message = _message(failure["body"])
    text = f"HTTP {failure['status']} {failure['reason']}".rstrip() + (f": {message}" if message else "")
    return truncate(text, _MAX_REASON)


def _message(body: Any, depth: int = 3) -> str:
    """Return the sentence in an error body, wherever APIs put it."""
    if isinstance(body, str):
        return " ".join(body[: 4 * _MAX_REASON].split())
    if isinstance(body, dict) and depth:
        for key in ("detail", "message", "error_description", "error", "title", "errors"):
            if key in body and (found := _message(body[key], depth - 1)):
                return found
    if isinstance(body, list) and depth:
        return "; ".join(found for member in body[:3] if (found := _message(member, depth - 1)))
    if isinstance(body, dict) and "msg" in body:
        places = body.get("loc")
        where = ".".join(map(str, places)) if isinstance(places, list) else ""
        return f"{where}: {body['msg']}" if where else str(body["msg"])
    return ""


def public_headers(response: Response) -> dict[str, str]:
    """Return the headers of an answer that say something to whoever called."""
    return {name: response.headers[name] for name in _TOLD if name in response.headers}


async def _body(response: Response, max_bytes: int, what: str) -> AsyncIterator[bytes]:
    """Yield the body unpacked, up to a limit that counts both the packed and the unpacked bytes."""
    inflater = Inflater(response.headers.get("content-encoding", ""))
    length = response.headers.get("content-length", "")
    too_large = UnreadableError(f"the {what} is larger than {max_bytes:,} bytes; ask for less of it")
    if length.isdigit() and len(length) < 20 and int(length) > max_bytes:  # noqa: PLR2004 - the digits of 64 bits
        raise too_large
    packed, total = 0, 0
    async for raw in response.aiter_raw():
        packed += len(raw)
        if packed > max_bytes:
            raise too_large
        for piece in inflater.feed(raw):
            total += len(piece)
            if total > max_bytes:
                raise too_large
            yield piece
    for piece in inflater.finish():
        yield piece


def _content_type(response: Response) -> tuple[str, str]:
    """Return the media type in lower case, and a charset that Python knows."""
    message = Message()
    message["content-type"] = response.headers.get("content-type", "")
    charset = message.get_content_charset("utf-8")
    try:
        known = _CHARSET.fullmatch(codecs.lookup(charset).name) is not None
    except (LookupError, ValueError):
        known = False
    written = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return written, charset if known else "utf-8"


def _shown(content: bytes, media_type: str, charset: str, veil: Veil) -> Any:
    """Return the value of a body, without the secrets in it."""
    value = _decode(content, media_type, charset)
    if isinstance(value, bytes):
        shown = base64.b64encode(veil.over_bytes(value)).decode()
        return {"contentType": (media_type or "application/octet-stream")[:200], "base64": shown}
    return veil.over(value)


def _decode(content: bytes, media_type: str, charset: str) -> Any:
    """Return a body as JSON or text; as the bytes that it is, where it is neither."""
    if not content and not _TEXT.fullmatch(media_type):
        return None
    if _JSON.fullmatch(media_type):
        try:
            return parse_json_value(content if charset == "utf-8" else content.decode(charset))
        except ValueError as error:
            raise UnreadableError(
                f"the answer says that it is JSON, and is not: {str(error)[:200]}"
            ) from error
    if _TEXT.fullmatch(media_type):
        return content.decode(charset, "replace")
    if not media_type:
        with suppress(UnicodeDecodeError):
            return content.decode()
    return content

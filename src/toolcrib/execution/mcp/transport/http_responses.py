"""Responses to messages: an answer, a failure of the server, or one on the way."""

import json
import re
from typing import Any

import anyio
import httpx2
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JSONRPCError,
    JSONRPCResponse,
)

from toolcrib.execution.mcp.errors import marked, place, reason_of_status, reason_of_type, refusal_facts
from toolcrib.execution.mcp.transport.event_streams import ShallowEvents
from toolcrib.execution.mcp.transport.lines import answered_id, read_line, with_shallow_tools

ID = "toolcrib.id"
"""Extension of a request: the id of the message that waits for an answer."""
LISTS = "toolcrib.lists"
"""Extension of a request: whether its message asks for tools."""
SESSION = "mcp-session-id"
ACCEPTED = 202
_NOT_FOUND = 404
_BAD_REQUEST = 400
_REDIRECTS = 300
_UNAVAILABLE = frozenset({408, 429, 502, 503, 504})
_ID_SEARCH_BYTES = 500
_UNKNOWN_SESSION = re.compile(
    r"\bsession (id )?(not found|terminated|has been terminated|expired|unknown|does not exist)"
    r"|\b(no valid|invalid|unknown|missing|expired) session\b|mcp-session-id",
    re.IGNORECASE,
)
"""Texts by which servers report an unknown session other than by the status."""
_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


async def normalize_response(response: httpx2.Response, max_bytes: int) -> httpx2.Response:
    """Return a response that the SDK accepts, with JSON content already read."""
    status, kind = response.status_code, response.headers.get("content-type", "").lower()
    if status == ACCEPTED or _REDIRECTS <= status < _BAD_REQUEST:
        return response
    lists = response.request.extensions.get(LISTS, False)
    if status < _BAD_REQUEST and kind.startswith("text/event-stream"):
        if lists:
            response.stream = ShallowEvents(response.stream, max_bytes)
        return response
    try:
        body = await _read_body(response, max_bytes) if kind.startswith("application/json") else None
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    if body is not None and lists:
        body = with_shallow_tools(body)
    error = None if body is None or status < _BAD_REQUEST else _parse_error(body)
    if status >= _BAD_REQUEST and SESSION in response.request.headers and _is_lost(status, error):
        return error_response(response.request, INVALID_REQUEST, "Session terminated", marked(lost=True))
    if body is None or (status >= _BAD_REQUEST and error is None):
        return _refusal(response, kind)
    if status < _BAD_REQUEST and ID in response.request.extensions:
        return _select_answer(response, body, response.request.extensions[ID])
    return _with_content(response, status, body)


def _select_answer(response: httpx2.Response, body: bytes, number: int | str) -> httpx2.Response:
    """Return a response with the answer to its request, or an error where the body is something else."""
    answered = answered_id(body[:_ID_SEARCH_BYTES].decode(errors="replace"))
    if str(answered) == str(number) and b'"method"' not in body:
        return _with_content(response, response.status_code, body)
    messages = read_line(body)
    answers = [each for each in messages if isinstance(each, JSONRPCResponse | JSONRPCError)]
    own = next((each for each in answers if str(each.id) == str(number)), None)
    if own is not None:
        content = own.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return _with_content(response, response.status_code, content)
    if len(answers) == len(messages) == 1 and answers[0].id is None:
        return _with_content(response, _BAD_REQUEST, body)  # the SDK then fills in which message it answers
    if not messages:
        return _with_content(response, response.status_code, body)  # the SDK says what is wrong with it
    reason = f"{place(response.request.url)} answered with something other than the answer to the request"
    return error_response(response.request, INTERNAL_ERROR, reason, marked(sent=True))


def _with_content(response: httpx2.Response, status: int, content: bytes) -> httpx2.Response:
    """Return a response with a status and a content: the same object, if both are unchanged."""
    if status == response.status_code and _content_if_read(response) is content:
        return response
    headers = [
        (name, value) for name, value in response.headers.multi_items() if name not in _TRANSFER_HEADERS
    ]
    return httpx2.Response(status, headers=headers, content=content, request=response.request)


def _content_if_read(response: httpx2.Response) -> bytes | None:
    """Return the content of a response, if it was read in one piece."""
    try:
        return response.content
    except httpx2.ResponseNotRead:
        return None


async def _read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= max_bytes and "content-encoding" not in response.headers:
        return await response.aread()
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > max_bytes:
            raise httpx2.DecodingError(f"a message of more than {max_bytes} bytes", request=response.request)
        pieces.append(piece)
    return b"".join(pieces)


def _parse_error(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error in a body, which is more precise than the status."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    is_error = isinstance(payload, dict) and isinstance(payload.get("error"), dict) and "jsonrpc" in payload
    return payload if is_error else None


def _is_lost(status: int, payload: dict[str, Any] | None) -> bool:
    """Return whether a refusal means that the server lost the session; it has then run nothing.

    That is what 404 says. Many servers say it with 400 and in words; what answers no request in particular
    cannot be the answer of a tool.
    """
    error = {} if payload is None else payload["error"]
    if status == _NOT_FOUND:
        return error.get("code") != METHOD_NOT_FOUND
    refused = status == _BAD_REQUEST and payload is not None and payload.get("id") is None
    return refused and _UNKNOWN_SESSION.search(str(error.get("message"))) is not None


def _refusal(response: httpx2.Response, kind: str) -> httpx2.Response:
    request, status = response.request, response.status_code
    if status < _BAD_REQUEST:
        return error_response(request, INTERNAL_ERROR, reason_of_type(kind, request.url), marked(sent=True))
    code = CONNECTION_CLOSED if status in _UNAVAILABLE else INTERNAL_ERROR
    code = METHOD_NOT_FOUND if status == _NOT_FOUND else code
    return error_response(request, code, reason_of_status(response), refusal_facts(response))


def error_response(
    request: httpx2.Request, code: int, message: str, data: dict[str, Any] | None = None
) -> httpx2.Response:
    """Return a response that carries an error; the SDK fills in which message it answers."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)

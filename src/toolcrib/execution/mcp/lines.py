"""JSON-RPC messages, one to a line, out of the bytes that a server writes."""

import json
from collections.abc import Iterator
from typing import Any

from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

__all__ = ["LineTooLongError", "Lines", "read_line"]

_SHOWN = 200


class LineTooLongError(ValueError):
    """A line that is longer than a message may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it sent a message of more than {limit} bytes")


class Lines:
    r"""Puts lines together from pieces, in time that grows with their length and not with its square.

    >>> lines = Lines(max_bytes=100)
    >>> [*lines.feed(b"on"), *lines.feed(b"e\ntwo\nthr"), *lines.feed(b"ee\n")]
    [b'one', b'two', b'three']
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that a piece completes.

        Raises:
            LineTooLongError: a line is longer than the limit, whether complete or not.
        """
        *ends, rest = piece.split(b"\n")
        for end in ends:
            self._add(end)
            line = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            yield line
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            self._pieces = []
            raise LineTooLongError(self._max_bytes)
        if piece:
            self._pieces.append(piece)


def read_line(line: bytes) -> tuple[JSONRPCMessage, ...]:
    """Return the messages of a line: one, those of a batch, or none if it is something else.

    Bytes that are no UTF-8 and halves of surrogate pairs become a replacement character, since a call whose
    answer was thrown away would wait for ever. An answer that is none becomes an error, for the same reason.

    >>> read_line(b"Listening on stdio ...")
    ()
    >>> read_line(b'{"jsonrpc": "2.0", "id": 1, "result": null}')[0].error.message
    'it gave an answer that is not JSON-RPC: {"jsonrpc": "2.0", "id": 1, "result": null}'
    """
    try:
        return (jsonrpc_message_adapter.validate_json(line, by_name=False),)
    except ValidationError:
        return tuple(_mended(line))


def _mended(line: bytes) -> Iterator[JSONRPCMessage]:
    """Yield what can be saved of a line that is not simply a message."""
    text = line.decode("utf-8-sig", errors="replace").strip()
    if not text.startswith(("{", "[")):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    for member in value if isinstance(value, list) else [value]:
        message = _message(member)
        if message is not None:
            yield message


def _message(value: Any) -> JSONRPCMessage | None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        return jsonrpc_message_adapter.validate_json(text.encode(errors="replace"), by_name=False)
    except ValidationError:
        pass
    number = value.get("id") if isinstance(value, dict) and "method" not in value else None
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int | str) or isinstance(number, bool):
        return None
    reason = f"it gave an answer that is not JSON-RPC: {text[:_SHOWN]}"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=INTERNAL_ERROR, message=reason))

"""Frames between host and guest: four bytes of length, big-endian, then that many bytes of JSON."""

import json
import socket
from typing import Any, NoReturn

import anyio
import anyio.lowlevel

from toolcrib.model.json_text import strict_json

_HEADER = 4
_CHUNK = 1 << 18
_LAST = b'{"done":'
_MAX_PARTS = 100_100
"""How many brackets and commas a message may have outside of its texts: parsed, each takes much more room."""


class FrameError(Exception):
    """A malformed frame, or one that is larger than allowed."""


def encode(message: dict[str, Any], limit: int) -> bytes:
    r"""Return a message as a frame.

    >>> encode({"answer": 1}, 100)
    b'\x00\x00\x00\x0c{"answer":1}'

    Raises:
        FrameError: it is not JSON, or larger than the limit.
    """
    try:
        data = strict_json(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"it is not JSON: {error}") from error
    if len(data) > limit:
        raise FrameError(f"{len(data):,} bytes are more than the {limit:,} that pass at once")
    return len(data).to_bytes(_HEADER, "big") + data


class Decoder:
    r"""Incremental decoder of frames; it buffers at most one frame of the limit and one chunk.

    `limit` is for the message that carries the value, which comes once; every other is held to `short`.

    >>> decoder = Decoder(100)
    >>> decoder.add(b'\x00\x00\x00\x0a{"call":')
    >>> decoder.take()
    >>> decoder.add(b"1}")
    >>> decoder.take()
    ({'call': 1}, 10)
    """

    def __init__(self, limit: int, *, short: int | None = None) -> None:
        self._limit = limit
        self._short = limit if short is None else short
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """The number of bytes that are buffered."""
        return len(self._buffer)

    def add(self, data: bytes) -> None:
        """Buffer received bytes."""
        self._buffer += data

    def take(self) -> tuple[dict[str, Any], int] | None:
        """Return the next message and its size; None if it is not complete.

        Raises:
            FrameError: it is not JSON, or too large.
        """
        if len(self._buffer) < _HEADER:
            return None
        size = int.from_bytes(self._buffer[:_HEADER], "big")
        end = _HEADER + size
        limit = self._limit if _LAST.startswith(self._buffer[_HEADER : _HEADER + len(_LAST)]) else self._short
        if size > limit:
            raise FrameError(f"it announced a frame of {size:,} bytes, where {limit:,} are allowed")
        if len(self._buffer) < end:
            return None
        data = self._buffer[_HEADER:end]
        del self._buffer[:end]
        if not data.startswith(_LAST) and _count_parts(data) > _MAX_PARTS:
            raise FrameError(f"it sent a frame of more than {_MAX_PARTS:,} parts")
        return _parse_message(data), size


def _count_parts(data: bytearray) -> int:
    """Return the number of brackets and commas; those inside strings are left out if it decides."""
    found = sum(map(data.count, (b"[", b"{", b",")))
    if found <= _MAX_PARTS:
        return found
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    return sum(part.count(mark) for part in bare for mark in (b"[", b"{", b","))


def _parse_message(data: bytearray) -> dict[str, Any]:
    try:
        message = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError("it sent a frame that is not JSON") from error
    if not isinstance(message, dict):
        raise FrameError("it sent a frame that is not an object")
    return message


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


class Channel:
    """Sends and receives messages over a socket whose other end a guest holds."""

    def __init__(self, line: socket.socket, *, limit: int) -> None:
        line.setblocking(False)  # noqa: FBT003 - the method has no other form
        self._line = line
        self._decoder = Decoder(limit)
        self._turn = anyio.Lock(fast_acquire=True)
        self._waiting = 0

    def allow(self, limit: int, *, short: int) -> None:
        """Set the size limits of received messages; no part of one may have been received yet."""
        self._decoder = Decoder(limit, short=short)

    @property
    def waiting(self) -> int:
        """The number of bytes still to be sent, because the guest reads slowly or not at all."""
        return self._waiting

    async def send(self, frame: bytes) -> None:
        """Send one frame; frames of other tasks wait.

        Raises:
            OSError: the guest is gone.
        """
        self._waiting += len(frame)
        try:
            await self._write_frame(frame)
        finally:
            self._waiting -= len(frame)

    async def _write_frame(self, frame: bytes) -> None:
        async with self._turn:
            rest = memoryview(frame)
            while rest:
                try:
                    rest = rest[self._line.send(rest[:_CHUNK], socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._line)

    async def receive(self) -> tuple[dict[str, Any], int] | None:
        """Receive the next message and its size; None if the guest is gone.

        Raises:
            FrameError: the received bytes are no frame.
        """
        while (message := self._decoder.take()) is None:
            await anyio.wait_readable(self._line)
            data = self._receive_bytes()
            if data == b"":  # in the middle of a frame, too: who is killed does not end it
                return None
            self._decoder.add(data or b"")
        await anyio.lowlevel.checkpoint()  # what came before is dealt with first, and others have their turn
        return message

    def is_open(self) -> bool:
        """Return whether the guest still holds its end, and has sent nothing unread."""
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def rest(self) -> int:
        """Return the number of bytes that were sent after the last received message."""
        return self._decoder.pending + len(self._receive_bytes() or b"")

    def _receive_bytes(self) -> bytes | None:
        """Return the available bytes: empty if the guest is gone, None if there are none yet."""
        try:
            return self._line.recv(_CHUNK)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close our end."""
        self._line.close()

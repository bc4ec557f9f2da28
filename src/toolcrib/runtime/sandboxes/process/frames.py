"""Frames between host and guest: a length of four bytes, big-endian, then JSON of that length."""

import json
import socket
from typing import Any, NoReturn

import anyio
import anyio.lowlevel

from toolcrib.model.json_text import strict_json

_HEADER_BYTES = 4
_CHUNK = 1 << 18
_RESULT_PREFIX = b'{"done":'
_MAX_PARTS = 100_100
"""The most brackets and commas outside of strings: parsed, each takes far more memory than its one byte."""


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
        raise FrameError(f"{len(data):,} bytes are more than the {limit:,} that can be sent at once")
    return len(data).to_bytes(_HEADER_BYTES, "big") + data


class Decoder:
    r"""Incremental decoder of frames; it buffers at most one frame and one chunk.

    `limit` is the size limit of the message with the value, which comes once; `short` is that of all others.

    >>> decoder = Decoder(100)
    >>> decoder.feed(b'\x00\x00\x00\x0a{"call":')
    >>> decoder.take_message()
    >>> decoder.feed(b"1}")
    >>> decoder.take_message()
    ({'call': 1}, 10)
    """

    def __init__(self, limit: int, *, short: int | None = None) -> None:
        self._limit = limit
        self._short = limit if short is None else short
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Buffer received bytes."""
        self._buffer += data

    def take_message(self) -> tuple[dict[str, Any], int] | None:
        """Return the next message and its size; None if it is not complete.

        Raises:
            FrameError: it is not JSON, or too large.
        """
        if len(self._buffer) < _HEADER_BYTES:
            return None
        size = int.from_bytes(self._buffer[:_HEADER_BYTES], "big")
        end = _HEADER_BYTES + size
        # The kind of message is read before its end has come: the guest must not make the host buffer more.
        limit = (
            self._limit
            if _RESULT_PREFIX.startswith(self._buffer[_HEADER_BYTES : _HEADER_BYTES + len(_RESULT_PREFIX)])
            else self._short
        )
        if size > limit:
            raise FrameError(f"it announced a frame of {size:,} bytes, where {limit:,} are allowed")
        if len(self._buffer) < end:
            return None
        data = self._buffer[_HEADER_BYTES:end]
        del self._buffer[:end]
        if not data.startswith(_RESULT_PREFIX) and _count_parts(data) > _MAX_PARTS:
            raise FrameError(f"it sent a frame of more than {_MAX_PARTS:,} parts")
        return _parse_message(data), size


def _count_parts(data: bytearray) -> int:
    """Return the number of brackets and commas; those in strings count only if there are few."""
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
        self._send_lock = anyio.Lock(fast_acquire=True)
        self._unsent_bytes = 0

    def set_limits(self, limit: int, *, short: int) -> None:
        """Set the size limits of received messages; no part of one may have been received yet."""
        self._decoder = Decoder(limit, short=short)

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes still to be sent, because the guest reads slowly or not at all."""
        return self._unsent_bytes

    async def send(self, frame: bytes) -> None:
        """Send one frame; frames of other tasks wait for it.

        Raises:
            OSError: the guest is gone.
        """
        self._unsent_bytes += len(frame)
        try:
            await self._write_frame(frame)
        finally:
            self._unsent_bytes -= len(frame)

    async def _write_frame(self, frame: bytes) -> None:
        async with self._send_lock:  # a frame may take several writes, which must not mix
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
        while (message := self._decoder.take_message()) is None:
            await anyio.wait_readable(self._line)
            data = self._receive_bytes()
            if data == b"":  # also in the middle of a frame, where a killed guest stops
                return None
            self._decoder.feed(data or b"")
        await anyio.lowlevel.checkpoint()  # lets the calls before it begin, and other tasks run
        return message

    def is_open(self) -> bool:
        """Return whether the guest is connected and has sent nothing unread, as an idle guest must."""
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def count_unread_bytes(self) -> int:
        """Return the number of bytes that follow the last received message."""
        return self._decoder.buffered_bytes + len(self._receive_bytes() or b"")

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

"""Frames between host and guest: four bytes of length, big-endian, then that many bytes of JSON."""

import json
import socket
from collections import deque
from typing import Any, NoReturn

import anyio
import anyio.lowlevel

__all__ = ["Channel", "Decoder", "FrameError", "encode"]

_HEADER = 4
_CHUNK = 1 << 18


class FrameError(Exception):
    """Bytes that are no frame, or one that is larger than allowed."""


def encode(message: dict[str, Any], limit: int) -> bytes:
    r"""Return a message as a frame.

    >>> encode({"answer": 1}, 100)
    b'\x00\x00\x00\x0c{"answer":1}'

    Raises:
        FrameError: it is not JSON, or larger than the limit.
    """
    try:
        data = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"it is not JSON: {error}") from error
    if len(data) > limit:
        raise FrameError(f"{len(data):,} bytes are more than the {limit:,} that pass at once")
    return len(data).to_bytes(_HEADER, "big") + data


class Decoder:
    r"""Cuts a stream of bytes into messages, and never holds more than one frame of the limit and a chunk.

    >>> decoder = Decoder(100)
    >>> decoder.feed(b'\x00\x00\x00\x0a{"call":')
    []
    >>> decoder.feed(b"1}")
    [({'call': 1}, 10)]
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame there are."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], int]]:
        """Return the messages that these bytes complete, each with the bytes that it takes.

        Raises:
            FrameError: they are none, or one is too large.
        """
        self._buffer += data
        messages = []
        while len(self._buffer) >= _HEADER:
            size = int.from_bytes(self._buffer[:_HEADER], "big")
            if size > self._limit:
                raise FrameError(f"it announced a frame of {size:,} bytes, where {self._limit:,} are allowed")
            end = _HEADER + size
            if len(self._buffer) < end:
                break
            messages.append((_message(self._buffer[_HEADER:end]), size))
            del self._buffer[:end]
        return messages


def _message(data: bytearray) -> dict[str, Any]:
    try:
        message = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError("it sent a frame that is not JSON") from error
    if not isinstance(message, dict):
        raise FrameError("it sent a frame that is not an object")
    return message


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


class Channel:
    """Messages over a socket, whose other end a guest holds."""

    def __init__(self, line: socket.socket, *, limit: int) -> None:
        line.setblocking(False)  # noqa: FBT003 - the method has no other form
        self._line = line
        self._decoder = Decoder(limit)
        self._ready: deque[tuple[dict[str, Any], int]] = deque()
        self._turn = anyio.Lock(fast_acquire=True)
        self._waiting = 0

    def allow(self, limit: int) -> None:
        """Change how large a message of the guest may be; nothing of one may have come yet."""
        self._decoder = Decoder(limit)

    @property
    def waiting(self) -> int:
        """How many bytes are still to be sent, because the guest takes them slowly or not at all."""
        return self._waiting

    async def send(self, frame: bytes) -> None:
        """Send one frame; those of other tasks wait.

        Raises:
            OSError: the guest is gone.
        """
        self._waiting += len(frame)
        try:
            await self._send(frame)
        finally:
            self._waiting -= len(frame)

    async def _send(self, frame: bytes) -> None:
        async with self._turn:
            rest = memoryview(frame)
            while rest:
                try:
                    rest = rest[self._line.send(rest[:_CHUNK], socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._line)

    async def receive(self) -> tuple[dict[str, Any], int] | None:
        """Return the next message and its size; None where the guest is gone.

        Raises:
            FrameError: what came is no frame.
        """
        while not self._ready:
            await anyio.wait_readable(self._line)
            data = self._read()
            if data == b"":
                if self._decoder.pending:
                    raise FrameError("it ended in the middle of a frame")
                return None
            self._ready += self._decoder.feed(data or b"")
        return self._ready.popleft()

    def is_open(self) -> bool:
        """Return whether the guest still holds its end, and has said nothing that was not received."""
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def rest(self) -> int:
        """Return how many bytes, or messages, have come beyond those received."""
        return len(self._ready) + self._decoder.pending + len(self._read() or b"")

    def _read(self) -> bytes | None:
        """Return what is there, nothing where the guest is gone, and None where nothing came yet."""
        try:
            return self._line.recv(_CHUNK)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close our end."""
        self._line.close()

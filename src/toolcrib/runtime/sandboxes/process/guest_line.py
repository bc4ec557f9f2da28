"""The line between guest and host, which is the first part of the text that an interpreter is given."""

import builtins
import json
from os import _exit, read, write
from typing import Any

globals()["__builtins__"] = dict(vars(builtins))
"""Ours: the code may put anything in the place of a builtin or of a part of a module, and meets it alone."""
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_from_json = json.JSONDecoder().decode
_HEADER = 4


class _Line:
    """The frames that go to the host and come from it: four bytes of length, then JSON."""

    def __init__(self, descriptor: int, out: int | None = None, mark: bytes = b"") -> None:
        self.descriptor = descriptor
        self._out = descriptor if out is None else out
        self._mark = mark  # distinguishes a frame from what is printed to the same descriptor
        self._buffer = bytearray()
        self.most = 1 << 20

    def send(self, message: dict[str, Any]) -> None:
        data = _to_json(message).encode()
        if len(data) > self.most and "call" in message:
            raise ValueError(f"{len(data):,} bytes of JSON are more than the {self.most:,} that pass at once")
        rest = memoryview(self._mark + len(data).to_bytes(_HEADER, "big") + data)
        while rest:
            rest = rest[write(self._out, rest) :]

    def received(self) -> list[dict[str, Any]]:
        """Return the messages that one read completes."""
        data = read(self.descriptor, 1 << 18)
        if not data:
            _exit(0)  # the host is gone
        self._buffer += data
        messages = []
        while len(self._buffer) >= _HEADER:
            end = _HEADER + int.from_bytes(self._buffer[:_HEADER], "big")
            if len(self._buffer) < end:
                break
            messages.append(_from_json(self._buffer[_HEADER:end].decode()))
            del self._buffer[:end]
        return messages

    def wait(self) -> dict[str, Any]:
        """Return the one message that is due."""
        while not (messages := self.received()):
            pass
        return messages[0]

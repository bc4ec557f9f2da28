"""Connection of a guest to the host: the first part of the program text of a guest."""

import builtins
import json
from os import _exit, read, write
from typing import Any

globals()["__builtins__"] = dict(vars(builtins))
"""A copy, so that builtins which the code replaces are not used here. The next lines keep functions
likewise."""
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_from_json = json.JSONDecoder().decode
_HEADER_BYTES = 4


class _Line:
    """Sends and receives frames: four bytes of length, then JSON."""

    def __init__(self, descriptor: int, out: int | None = None, mark: bytes = b"") -> None:
        self.descriptor = descriptor
        self._out = descriptor if out is None else out
        self._mark = mark  # distinguishes a frame from what is printed to the same descriptor
        self._buffer = bytearray()
        self.max_call_bytes = 1 << 20

    def send(self, message: dict[str, Any]) -> None:
        data = _to_json(message).encode()
        # refused here with an error that the code can handle; the host would end the run
        if len(data) > self.max_call_bytes and "call" in message:
            raise ValueError(
                f"{len(data):,} bytes of JSON are more than the {self.max_call_bytes:,} that pass at once"
            )
        rest = memoryview(self._mark + len(data).to_bytes(_HEADER_BYTES, "big") + data)
        while rest:
            rest = rest[write(self._out, rest) :]

    def receive_messages(self) -> list[dict[str, Any]]:
        """Read once, and return the messages that are complete."""
        data = read(self.descriptor, 1 << 18)
        if not data:
            _exit(0)  # the host is gone
        self._buffer += data
        messages = []
        while len(self._buffer) >= _HEADER_BYTES:
            end = _HEADER_BYTES + int.from_bytes(self._buffer[:_HEADER_BYTES], "big")
            if len(self._buffer) < end:
                break
            messages.append(_from_json(self._buffer[_HEADER_BYTES:end].decode()))
            del self._buffer[:end]
        return messages

    def receive_message(self) -> dict[str, Any]:
        """Wait for one message; used only when the host sends exactly one."""
        while not (messages := self.receive_messages()):
            pass
        return messages[0]

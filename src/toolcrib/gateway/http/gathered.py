"""A transport that sends the head of a response together with what follows it."""

from typing import Any

__all__ = ["Gathered"]

_SMALL = 16 * 1024
"""How many bytes are worth copying to be sent together."""


class Gathered:
    """Holds what is written until more is, or until the event loop has its next turn.

    A server writes the head of a response and then its body. Sent apart they wake a client twice, and on a
    busy machine the one that waits for the head is let run before the body is on its way. The protocol of the
    server says everything by `write`.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        """Return all else as the transport has it."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this with what was held; hold it, where nothing was."""
        held, self._held = self._held, b""
        if len(data) > _SMALL:
            self._transport.write(held)
            self._transport.write(data)
        elif held:
            self._transport.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close the transport, once it has sent what it has."""
        self._flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not been taken."""
        size: int = self._transport.get_write_buffer_size()
        return size + len(self._held)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

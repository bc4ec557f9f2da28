"""Output streams of remote processes, and the redirection of a command's output to them."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from toolcrib.cli.resident.terminal import REMOTE


class RemoteStream(io.TextIOBase):
    """An output of a process that asks."""

    errors = "backslashreplace"

    def __init__(
        self, send: Callable[[str], None], known: Mapping[str, Any], send_bytes: Callable[[bytes], None]
    ) -> None:
        """Take the functions that send text and bytes, and the known properties of the output."""
        super().__init__()
        self._send = send
        self.buffer = _RemoteBuffer(send_bytes)
        """Takes bytes, as the one of `sys.stdout` does."""
        self._is_terminal = bool(known["terminal"])
        self._encoding = str(known["encoding"] or "utf-8")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the remote output."""
        return self._encoding

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return whether it is a terminal there."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Send text to be written there."""
        if not isinstance(text, str):
            raise TypeError(f"text is written here, not {type(text).__name__}")
        self._send(text)
        return len(text)


class _RemoteBuffer(io.RawIOBase):
    """The bytes of an output of a process that asks."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Send bytes to be written there."""
        self._send(bytes(data))
        return len(data)


class _RoutedStream:
    """Standard output or error of the gateway, which within a command is that of its terminal."""

    def __init__(self, name: str, usual: TextIO) -> None:
        self._name, self._usual = name, usual

    def __getattr__(self, name: str) -> Any:
        terminal = REMOTE.get()
        return getattr(self._usual if terminal is None else getattr(terminal, self._name), name)


@contextmanager
def route_output() -> Iterator[None]:
    """Route the output of commands to their terminals."""
    before = sys.stdout, sys.stderr
    route_output: Any = [
        _RoutedStream(name, usual) for name, usual in zip(("out", "err"), before, strict=True)
    ]
    sys.stdout, sys.stderr = route_output
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before

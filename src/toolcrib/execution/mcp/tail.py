"""The last words of a server: what it wrote to standard error, as far as it is worth keeping."""

import re

__all__ = ["StderrTail"]

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""What terminals act upon: colours, cursor movements, titles."""
_CONTROLS = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")


class StderrTail:
    r"""Keeps the end of what a server writes, within a limit of lines and of bytes.

    >>> tail = StderrTail(max_lines=2)
    >>> tail.feed(b"starting\n\x1b[31mno tok")
    >>> tail.feed(b"en\x1b[0m\nbye\n")
    >>> tail.text()
    'no token\nbye'
    """

    def __init__(self, *, max_lines: int = 100, max_bytes: int = 16 * 1024) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._stray = 0
        self.pid: int | None = None
        """The process that writes, once there is one."""

    @property
    def stray_lines(self) -> int:
        """Return how many lines on its standard output were no messages."""
        return self._stray

    def feed(self, chunk: bytes) -> None:
        """Keep what it wrote to standard error."""
        self._kept += chunk
        del self._kept[: -self._max_bytes]

    def stray(self, line: bytes) -> None:
        """Keep the beginning of a line on standard output that is no message, as servers print by mistake."""
        self._stray += 1
        if self._kept and not self._kept.endswith(b"\n"):
            self._kept += b"\n"
        self.feed(b"[stdout] " + line[:200].rstrip() + b"\n")

    def text(self) -> str:
        """Return what was kept as text that is safe to print: no control characters, whole lines."""
        text = _ESCAPES.sub("", self._kept.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
        lines = _CONTROLS.sub("", text).split("\n")
        if len(self._kept) == self._max_bytes and len(lines) > 1:
            del lines[0]  # it was cut
        return "\n".join([line.rstrip() for line in lines if line.strip()][-self._max_lines :])

"""What a program prints in place of messages before it has sent any: a greeting, or all that it ever says."""

from toolcrib.execution.scrub import hide_secrets

__all__ = ["Chatter"]

_SAME = 20
"""How many equal lines in a row are not the log of a start."""
_LINES = 100
"""How many lines of any kind are not."""
_READ, _SHOWN = 200, 60


class Chatter:
    """Tells servers that log to standard output until they speak from programs that do not speak MCP at all.

    >>> chatter = Chatter()
    >>> {chatter.verdict(b"garbage") for _ in range(19)}
    {None}
    >>> chatter.verdict(b"garbage")
    "it writes text to standard output that is not MCP, such as 'garbage'"
    """

    def __init__(self) -> None:
        self._lines = 0
        self._same = 0
        self._last = b""
        self._spoke = False

    def spoke(self) -> None:
        """Note that it has sent a message, after which it may print what it likes."""
        self._spoke = True

    def verdict(self, line: bytes) -> str | None:
        """Return what is wrong with the program after one more such line; None while it may be a server."""
        if self._spoke:
            return None
        self._same = self._same + 1 if line == self._last else 1
        self._last = line
        self._lines += 1
        if self._same < _SAME and self._lines < _LINES:
            return None
        text = hide_secrets(line[:_READ].decode(errors="replace").strip())
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        return f"it writes text to standard output that is not MCP, such as {shown!r}"

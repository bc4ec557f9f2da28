"""What calls are counted by: the name of their backend, or anything else a caller chooses."""

from collections.abc import Callable, Hashable

from toolcrib.execution.records import Call
from toolcrib.execution.selection import label

__all__ = ["Key", "by_backend"]

Key = Callable[[Call], Hashable]
"""Says which calls share a limit."""


def by_backend(call: Call) -> str:
    """Return the name of the backend that a call goes to, such as `mcp:github`."""
    return label(call.backend)

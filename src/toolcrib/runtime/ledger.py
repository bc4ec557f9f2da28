"""The host's own account of the tools that a guest called."""

from typing import Any

from toolcrib.errors import LimitExceededError, ToolcribError, ToolError, explain
from toolcrib.execution.scrub import said_by
from toolcrib.model import ToolCallRecord
from toolcrib.model.plain import measure
from toolcrib.runtime.plain import VALUE_BYTES
from toolcrib.runtime.records import Limits

__all__ = ["Entry", "Ledger"]


class Entry:
    """One call, from when it was asked for."""

    def __init__(self, tool_id: str, args: dict[str, Any]) -> None:
        self._tool_id = tool_id
        self._args = args
        self.record = self._made(0.0, error="it had not begun when the code ended")

    def begin(self) -> None:
        """Note that it is under way."""
        self.record = self._made(0.0, error="it had not ended when the code did")

    def succeed(self, result: Any, duration: float) -> None:
        """Note that it went well."""
        tool = getattr(result, "tool", None)
        if tool is not None:
            self._tool_id = str(tool.id)
        backend = getattr(result, "backend", None)
        self.record = self._made(duration, backend_kind=getattr(backend, "kind", None))

    def fail(self, error: BaseException, duration: float) -> None:
        """Note how it failed."""
        if not isinstance(error, Exception):
            self.record = self._made(duration, error="it was cancelled")
            return
        said = explain(error)["message"] if isinstance(error, ToolcribError) else said_by(error)
        op = error.op if isinstance(error, ToolError) else None
        kind = (getattr(error, "backend", None) or "").partition(":")[0] or None
        self.record = self._made(duration, error=said, error_op=op, backend_kind=kind)

    def _made(self, duration: float, **facts: Any) -> ToolCallRecord:
        return ToolCallRecord.of_checked(tool_id=self._tool_id, args=self._args, duration=duration, **facts)


class Ledger:
    """Counts calls before they begin, and keeps a record of each; nothing is ever taken back."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries: list[Entry] = []
        self._room = limits.memory_bytes

    @property
    def used(self) -> int:
        """How many calls there were."""
        return len(self._entries)

    @property
    def left(self) -> int:
        """How many more calls there may be."""
        return self._limits.max_tool_calls - self.used

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """Every call, in the order they were asked for."""
        return tuple(entry.record for entry in self._entries)

    def ask(self, tool_id: str, args: dict[str, Any]) -> Entry:
        """Count a call and return where it is noted.

        Raises:
            LimitExceededError: there are no more, or their arguments together are more than the guest may
                hold.
        """
        if self.left < 1:
            most = self._limits.max_tool_calls
            raise LimitExceededError("max_tool_calls", f"the code called tools more than {most} times")
        nodes, _, chars, _ = measure(args, max_depth=256)
        self._room -= chars + nodes * VALUE_BYTES
        if self._room < 0:
            held = f"{self._limits.memory_bytes >> 20:,} MB"
            raise LimitExceededError("memory_bytes", f"the arguments of its calls hold more than {held}")
        entry = Entry(tool_id, args)
        self._entries.append(entry)
        return entry

"""The host's own account of the tools that a guest called."""

from collections.abc import Sequence
from typing import Any

from toolcrib.errors import LimitExceededError, ToolcribError, ToolError, explain
from toolcrib.execution.scrub import said_by
from toolcrib.model import ToolCallRecord

__all__ = ["Entry", "Ledger"]


class Entry:
    """One call, from its beginning."""

    def __init__(self, tool_id: str, args: dict[str, Any]) -> None:
        self._tool_id = tool_id
        self._args = args
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
        if not isinstance(error, Exception):  # cancelled with the run
            self.record = self._made(duration, error="it was cancelled when the code ended")
            return
        said = explain(error)["message"] if isinstance(error, ToolcribError) else said_by(error)
        op = error.op if isinstance(error, ToolError) else None
        kind = (getattr(error, "backend", None) or "").partition(":")[0] or None
        self.record = self._made(duration, error=said, error_op=op, backend_kind=kind)

    def _made(self, duration: float, **facts: Any) -> ToolCallRecord:
        return ToolCallRecord.of_checked(tool_id=self._tool_id, args=self._args, duration=duration, **facts)


class Ledger:
    """Counts calls before they begin, and keeps a record of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[Entry | Sequence[ToolCallRecord]] = []
        self.used = 0

    @property
    def left(self) -> int:
        """How many more calls there may be."""
        return self._most - self.used

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """Every call, in the order they began."""
        rows = [[row.record] if isinstance(row, Entry) else row for row in self._rows]
        return tuple(record for row in rows for record in row)

    def begin(self, tool_id: str, args: dict[str, Any]) -> Entry:
        """Count one call and return where it is noted.

        Raises:
            LimitExceededError: there are no more.
        """
        self.reserve(1)
        entry = Entry(tool_id, args)
        self._rows.append(entry)
        return entry

    def reserve(self, count: int) -> None:
        """Count calls that are about to begin.

        Raises:
            LimitExceededError: so many are not left.
        """
        if count > self.left:
            raise LimitExceededError("max_tool_calls", f"the code called tools more than {self._most} times")
        self.used += count

    def settle(self, reserved: int, records: Sequence[ToolCallRecord]) -> None:
        """Note the calls of a chain, of which some may not have begun, or more where steps repeat."""
        self._rows.append(records)
        self.used += len(records) - reserved

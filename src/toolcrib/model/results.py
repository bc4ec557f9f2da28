"""Results of running tools."""

from typing import Any

from toolcrib.errors import Op
from toolcrib.model.backend import AnyBackend, BackendKind
from toolcrib.model.display import MAX_JSON, brief, brief_json, table
from toolcrib.model.record import Record
from toolcrib.model.tool import Tool


class RunResult(Record):
    """One successful run of one tool."""

    tool: Tool
    """The tool that ran."""
    backend: AnyBackend
    """Where it ran."""
    structured: Any = None
    """The value: a handler's return value as JSON, or an MCP result's structured content; never wrapped."""
    mcp_result: Any | None = None
    """The raw result, where the tool ran on an MCP server."""
    duration: float
    """Seconds."""
    notes: tuple[str, ...] = ()
    """What else happened on the way, such as arguments read from text or an answer from the cache."""

    def __repr__(self) -> str:
        return f"<RunResult {self.tool.id}: {brief(self.structured)}, {self.duration * 1000:.1f} ms>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the value, and how it came about, as a table of a notebook."""
        rows = [("value", brief_json(self.structured)), *(("note", note) for note in self.notes)]
        return table(f"{self.tool.id}, {self.duration * 1000:.1f} ms", ("", ""), rows, MAX_JSON)


class ToolCallRecord(Record):
    """One call that code in a sandbox made, as the host saw it."""

    tool_id: str
    """The id of the tool, or what the code called it."""
    args: dict[str, Any]
    """The arguments."""
    backend_kind: BackendKind | None = None
    """What ran it, once that was known."""
    error: str | None = None
    """Why it failed; absent where it did not."""
    error_op: Op | None = None
    """What was being done when it failed."""
    duration: float
    """Seconds."""

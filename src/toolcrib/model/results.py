"""Results of running tools."""

from typing import Any

from toolcrib.errors import Op
from toolcrib.model.backend import AnyBackend, BackendKind
from toolcrib.model.display import MAX_JSON, brief, brief_json, table
from toolcrib.model.findings import ResultFinding
from toolcrib.model.record import Record
from toolcrib.model.tool import Tool


class RunResult(Record):
    """The result of a successful tool call."""

    tool: Tool
    """The tool that ran."""
    backend: AnyBackend
    """The backend that ran it."""
    structured: Any = None
    """The value: a handler's return value as JSON, or the structured content of an MCP result."""
    mcp_result: Any | None = None
    """The raw result, if the tool ran on an MCP server."""
    duration: float
    """The duration of the call, in seconds."""
    notes: tuple[str, ...] = ()
    """Remarks on the call, such as arguments parsed from text or a result from the cache."""
    findings: tuple[ResultFinding, ...] = ()
    """Findings of the result check, with the actions taken; see the setting `results`."""

    def __repr__(self) -> str:
        return f"<RunResult {self.tool.id}: {brief(self.structured)}, {self.duration * 1000:.1f} ms>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the value and the notes as an HTML table, for notebooks."""
        rows = [("value", brief_json(self.structured)), *(("note", note) for note in self.notes)]
        return table(f"{self.tool.id}, {self.duration * 1000:.1f} ms", ("", ""), rows, MAX_JSON)


class ToolCallRecord(Record):
    """A tool call made by code in a sandbox, recorded by the host."""

    tool_id: str
    """The id of the tool, or the name that the code used if it is unknown."""
    args: dict[str, Any]
    """The arguments."""
    backend_kind: BackendKind | None = None
    """The kind of backend; None if none was selected."""
    error: str | None = None
    """The error message; None if the call succeeded."""
    error_op: Op | None = None
    """The step that failed."""
    duration: float
    """The duration of the call, in seconds."""
    findings: tuple[ResultFinding, ...] = ()
    """Findings of the result check in the tool's output."""

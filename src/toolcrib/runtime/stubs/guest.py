"""The stub of what every guest has beside its tools."""

__all__ = ["FUNCTIONS", "GUEST"]

FUNCTIONS = ("search_tools", "describe_tool", "run_tool", "run_chain")
"""What every guest has beside its tools."""

GUEST = '''\
from typing import Any, Literal, NotRequired, TypedDict

class FoundTool(TypedDict):
    id: str
    name: str
    namespace: NotRequired[str]
    shortDescription: str
    summary: str
    category: NotRequired[str]
    inputModes: NotRequired[list[str]]
    outputModes: NotRequired[list[str]]
    securitySummary: NotRequired[str]
    tags: NotRequired[list[str]]
    score: float
    scoreType: Literal["bm25", "embedding", "hybrid"]
    confidence: float

class StepOutcome(TypedDict):
    index: int
    toolId: NotRequired[str]
    id: NotRequired[str]
    args: NotRequired[dict[str, Any]]
    structured: NotRequired[Any]
    backend: NotRequired[dict[str, Any]]
    error: NotRequired[dict[str, Any]]
    duration: float
    skipped: NotRequired[bool]
    notes: NotRequired[list[str]]
    parts: NotRequired[list[Any]]

class ChainOutcome(TypedDict):
    final: Any
    results: list[StepOutcome]

async def search_tools(query: str, limit: int = 10) -> list[FoundTool]:
    """Find tools by what they do."""
async def describe_tool(
    tool_id: str, level: Literal["summary", "schema", "full"] = "schema"
) -> dict[str, Any]:
    """Tell what a tool takes and gives."""
async def run_tool(tool_id: str, args: dict[str, Any] | None = None) -> Any:
    """Call a tool by its id, such as "github:create_issue"."""
async def run_chain(steps: list[dict[str, Any]]) -> ChainOutcome:
    """Call tools one after the other: [{"tool_id": ..., "args": {...}, "use_previous": True}, ...]."""

__out: Any  # what the code gives back
'''
"""Signatures of the guest's own functions, and of the variable that holds its value."""

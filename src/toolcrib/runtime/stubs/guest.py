"""The stub of the functions that every guest has beside its tools."""

FUNCTIONS = ("search_tools", "describe_tool", "run_tool", "run_chain")
"""The functions that every guest has beside its tools."""

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


GUIDE = """\
Write Python. `await` is allowed at the top level, and what you leave in `__out` is your answer: JSON, so \
lists, dicts, strings, numbers, booleans and None. What you print is shown as well. You see nothing else: \
keep intermediate results in variables, and put only what is needed into `__out`.

Tools are asynchronous functions: `result = await namespace.tool(name=value)`. Call tools that do not \
depend on each other together: `a, b = await asyncio.gather(first.tool(), second.tool())`.
- `await search_tools("what you need", limit=5)` gives tools as dicts with `id`, `shortDescription`, \
`confidence`.
- `await describe_tool("namespace:tool")` gives a dict whose `tool` has the `inputSchema`.
- `await run_tool("namespace:tool", {"name": value})` calls a tool by its id.
- `await run_chain([{"tool_id": "namespace:tool", "args": {...}}])` calls tools one after the other.

A tool that fails raises: LookupError (no such tool), ValueError (wrong arguments), PermissionError (not \
allowed), TimeoutError, OSError (its server is away), RuntimeError (the tool's own message). Catch \
them where you can go on.

There is no network, no file of the machine and no installed package. Do without `yield`, inheritance, \
`del`, `async with`, decorators on methods, and modules other than asyncio, json, re, math, datetime, \
collections, itertools, functools, random, decimal, dataclasses, typing, base64, hashlib and time; code \
that needs more runs more slowly, or is refused before it calls anything.
"""
"""Instructions for the prompt of a model, to be put before `stubs`."""

"""A small catalogue, and scripted executors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from toolcrib.discovery import Index
from toolcrib.execution import Answer, Call, Runner
from toolcrib.model import LocalBackend, LocalTool, McpBackend, Tool, ToolAnnotations, ToolBackend, tool


def record(name: str = "echo", **fields: Any) -> Tool:
    return Tool(name=name, **{"input_schema": {"type": "object"}, **fields})


def index_of(*tools: LocalTool[..., Any] | tuple[Tool, ToolBackend]) -> Index:
    index = Index()
    for entry in tools:
        index.register(*entry) if isinstance(entry, tuple) else index.register(entry)
    return index


def runner_of(*tools: LocalTool[..., Any], **options: Any) -> Runner:
    return Runner(index_of(*tools), local=tools, **options)


def bare(function: Callable[..., Any], tool_record: Tool | None = None, **options: Any) -> Runner:
    """Return a runner for a plain function that is bound to a record of the name `echo`."""
    index = index_of((tool_record or record(), LocalBackend(name="handler")))
    return Runner(index, local={"handler": function}, **options)


class Scripted:
    """An executor that returns the results of a function, and records its calls."""

    def __init__(self, *answers: Callable[[Call], Awaitable[Answer]] | Answer | Exception) -> None:
        self.calls: list[Call] = []
        self._answers: Sequence[Any] = answers

    def missing(self, backend: ToolBackend) -> str | None:
        known = isinstance(backend, McpBackend) and backend.server_name != "unknown"
        return None if known else "no server is named 'unknown'"

    async def call(self, call: Call) -> Answer:
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.calls.append(call)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answer) else await answer(call)


def hints(**given: bool) -> ToolAnnotations:
    return ToolAnnotations(**given)


def schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

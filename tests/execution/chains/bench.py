"""A runner over a few tools, and what chains of them come to."""

from collections.abc import Callable
from typing import Any

from toolcrib.discovery import Index
from toolcrib.errors import InvalidChainError
from toolcrib.execution import ChainResult, Runner
from toolcrib.execution.chains import Chain, check_chain, run_chain
from toolcrib.model import DefaultValidator, LocalBackend, RunResult, Tool

ANY = {"type": "object"}


class Bench:
    """Tools made of functions that take all arguments in one parameter, run by a real runner."""

    def __init__(self, **tools: Callable[[dict[str, Any]], Any]) -> None:
        self.index = Index()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for name in tools:
            self.index.register(Tool(name=name, input_schema=ANY), LocalBackend(name=name))
        self.runner = Runner(self.index, local=tools)

    async def run_tool(
        self,
        tool_id: str,
        args: dict[str, Any],
        timeout: float | None,  # noqa: ASYNC109 - what a chain calls
        step: str,  # noqa: ARG002 - the same
    ) -> RunResult:
        self.calls.append((tool_id, args))
        return await self.runner.run(tool_id, args, timeout=timeout)

    async def run(self, *steps: Any, **options: Any) -> ChainResult:
        """Check a chain, then run it."""
        return await run_chain(check_chain(steps, self.index, DefaultValidator()), self.run_tool, **options)


def tool_of(name: str, takes: Any = None, gives: Any = None, **fields: Any) -> Tool:
    """Return a tool with these properties to take, all required, and this to give."""
    schema = ANY
    if takes is not None:
        schema = {"type": "object", "properties": takes, "required": list(takes)}
    return Tool(name=name, input_schema=schema, output_schema=gives, **fields)


def shelf(*tools: Tool) -> Index:
    index = Index()
    for each in tools:
        index.register(each)
    return index


def faults(steps: Any, *tools: Tool) -> list[str]:
    """Return what is wrong with a chain of these tools, or only with its steps where there are none."""
    try:
        if tools:
            check_chain(steps, shelf(*tools), DefaultValidator())
        else:
            Chain.parse(steps)
    except InvalidChainError as error:
        return [str(problem) for problem in error.problems]
    return []

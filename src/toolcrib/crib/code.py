"""Code that calls the tools of a crib: what it may name, and the way its calls take."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from toolcrib.discovery import Discovery
from toolcrib.errors import InvalidCursorError, ToolcribError
from toolcrib.model import Tool
from toolcrib.runtime import ExecuteRequest, ExecuteResult, Prepare, Runtime

if TYPE_CHECKING:
    from toolcrib.crib.crib import Crib

__all__ = ["CALLER", "CodeGateway", "CodeMode", "CribCatalogue"]

CALLER = "code"
"""Who calls, in the records of calls that code makes."""
_PAGE = 1000


class CribCatalogue:
    """The tools that code may name: all that are in the catalogue when they are asked for."""

    def __init__(self, crib: "Crib") -> None:
        self._crib = crib
        self._version = -1
        self._names: dict[str, tuple[str, ...]] = {}

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        return self._discovery.index.namespaces()

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        index = self._discovery.index
        if self._version != index.version:
            self._version, self._names = index.version, {}
        if namespace not in self._names:
            self._names[namespace] = self._listed(namespace)
        return self._names[namespace]

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools that references mean, without those that are not there.

        A tool that declares no output schema has the one that was learnt of its results, if there is one.
        """
        found = {}
        for ref in refs:
            try:
                tool = self._discovery.index.resolve(ref)
                found[ref] = self._with_output(tool)
            except ToolcribError:  # it is not there, or its name is none: code may mention anything
                continue
        return found

    @property
    def _discovery(self) -> Discovery:
        return self._crib.discovery  # another one once the crib is entered

    def _with_output(self, tool: Tool) -> Tool:
        if tool.output_schema is not None:
            return tool
        learnt = self._discovery.describe(tool.id, "schema").observed_output
        return tool if learnt is None else tool.replace(output_schema=learnt.json_schema)

    def _listed(self, namespace: str) -> tuple[str, ...]:
        names: dict[str, None] = {}
        cursor: str | None = None
        while True:
            try:
                page = self._discovery.index.tools(namespace=namespace, limit=_PAGE, cursor=cursor)
            except InvalidCursorError:  # the catalogue has changed meanwhile, and is asked again next time
                self._version = -1
                return tuple(names)
            names |= dict.fromkeys(summary.name for summary in page.items)
            cursor = page.next_cursor
            if cursor is None:
                return tuple(names)


class CodeGateway:
    """The crib as code in a sandbox reaches it; calls are recorded as those of code."""

    def __init__(self, crib: "Crib") -> None:
        self._crib = crib

    async def search(self, query: str, *, limit: int = 10) -> Any:
        """Return the tools that fit a question."""
        return await self._crib.search(query, limit=limit)

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        """Return what is known about a tool."""
        return await self._crib.describe(tool_id, level)

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        """Run a tool."""
        return await self._crib.run(tool_id, args, caller=CALLER)

    async def run_chain(self, steps: Sequence[Any], **options: Any) -> Any:
        """Run tools one after another."""
        return await self._crib.run_chain(steps, caller=CALLER, **options)


class CodeMode:
    """Runs code for a crib; its sandboxes are kept warm while the crib is open."""

    def __init__(self, crib: "Crib", wait: Prepare) -> None:
        """Run the code of a crib; `wait` is awaited with each before it is looked at."""
        self._crib = crib
        self._wait = wait
        self._runtime: Runtime | None = None
        self._starting = anyio.Lock()

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        """Run code, once the servers that it mentions have listed their tools."""
        runtime = await self._started()
        return await runtime.execute(request)

    async def close(self) -> None:
        """End every sandbox."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(None, None, None)

    async def _started(self) -> Runtime:
        async with self._starting:
            if self._runtime is None:
                runtime = Runtime(
                    CodeGateway(self._crib),
                    CribCatalogue(self._crib),
                    allow_unsafe=self._crib.settings.code.allow_unsafe,
                    prepare=self._wait,
                )
                self._runtime = await runtime.__aenter__()
        return self._runtime

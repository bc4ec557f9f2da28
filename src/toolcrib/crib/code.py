"""Code that calls the tools of a crib: what it may name, and the way its calls take."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from toolcrib.crib.reach import Ref, id_of
from toolcrib.discovery import Discovery, Result, Summary
from toolcrib.errors import InvalidCursorError, ToolcribError
from toolcrib.model import Tool
from toolcrib.runtime import ExecuteRequest, ExecuteResult, Runtime
from toolcrib.runtime.stubs import render
from toolcrib.runtime.surface import named_tools

if TYPE_CHECKING:
    from toolcrib.crib.crib import Crib
    from toolcrib.crib.engine import Engine

__all__ = ["CALLER", "CodeGateway", "CodeMode", "CribCatalogue", "Named"]

CALLER = "code"
"""Who calls, in the records of calls that code makes."""
_PAGE = 1000
Named = Ref | Summary | Result
"""What a tool may be named by: its id, itself, or what a list or a search gives."""


class CribCatalogue:
    """The tools that code may name: all that are in the catalogue when they are asked for."""

    def __init__(self, crib: "Crib", servers: Collection[str] = ()) -> None:
        """Tell of the tools of a crib; `servers` are namespaces also while they have no tools."""
        self._crib = crib
        self._servers = servers
        self._version = -1
        self._names: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, frozenset[str]] = {}

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        return tuple(dict.fromkeys([*self._discovery.index.namespaces(), *sorted(self._servers)]))

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        index = self._discovery.index
        if self._version != index.version:
            self._version, self._names, self._known = index.version, {}, {}
        if namespace not in self._names:
            self._names[namespace] = self._listed(namespace)
            self._known[namespace] = frozenset(self._names[namespace])
        return self._names[namespace]

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools that references mean, without those that are not there.

        A tool that declares no output schema has the one that was learnt of its results, if there is one.
        """
        found = {}
        for ref in refs:
            if not self._may_be(ref):
                continue
            try:
                tool = self._discovery.index.resolve(ref)
                found[ref] = self._with_output(tool)
            except ToolcribError:  # it is not there, or its name is none: code may mention anything
                continue
        return found

    def _may_be(self, ref: str) -> bool:
        """Return whether a reference may mean a tool: to look for what is nearest to it takes its time."""
        namespace, _, name = ref.rpartition(":")
        if ":" in namespace:  # with a version, which nobody asks for by the thousand
            return True
        self.names(namespace)
        return name in self._known[namespace]

    @property
    def _discovery(self) -> Discovery:
        return self._crib.discovery  # another one once the crib is entered

    def _with_output(self, tool: Tool) -> Tool:
        if tool.output_schema is not None:
            return tool
        learnt = self._discovery.describe(tool.id, "schema").observed_output
        return tool if learnt is None else tool.replace(output_schema=_opened(learnt.json_schema))

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

    def __init__(self, crib: "Crib", engine: "Engine") -> None:
        self._crib = crib
        self._engine = engine
        self._catalogue = CribCatalogue(crib, engine.names)
        self._runtime: Runtime | None = None
        self._starting = anyio.Lock()

    async def execute(self, request: ExecuteRequest, *, keep: bool) -> ExecuteResult:
        """Run code, once the servers that it mentions have listed their tools.

        `keep` says whether the sandboxes are kept for the next run; somebody has to close them then.
        """
        if keep:
            return await (await self._started()).execute(request)
        async with self._made() as runtime:
            return await runtime.execute(request)

    def stubs(self, tools: "Iterable[Named] | None", namespace: str | None, budget: int | None) -> str:
        """Return the signatures of tools: those named, those of a namespace, or all."""
        spaces = self._catalogue.namespaces() if namespace is None else (namespace,)
        refs = (
            [
                f"{space}:{name}" if space else name
                for space in spaces
                for name in self._catalogue.names(space)
            ]
            if tools is None
            else [str(id_of(_named(tool))) for tool in tools]
        )
        found = named_tools(self._catalogue, refs)
        return render(
            {path: tool for path, tool in found.items() if namespace in {None, tool.namespace or ""}},
            budget=budget,
        )

    async def close(self) -> None:
        """End every sandbox."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(None, None, None)

    async def _started(self) -> Runtime:
        async with self._starting:
            if self._runtime is None:
                self._runtime = await self._made().__aenter__()
        return self._runtime

    def _made(self) -> Runtime:
        return Runtime(
            CodeGateway(self._crib),
            self._catalogue,
            allow_unsafe=self._crib.settings.code.allow_unsafe,
            prepare=self._engine.waiting.for_code,
        )


def _opened(schema: Any) -> Any:
    """Return what was learnt of results as something that further results may go beyond."""
    if isinstance(schema, list):
        return [_opened(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {name: _opened(member) for name, member in schema.items()}
    return {"additionalProperties": True, **opened} if "properties" in opened else opened


def _named(tool: "Named") -> Ref:
    """Return what stands for a tool, of what a search found too."""
    summary = tool.summary if isinstance(tool, Result) else tool
    return summary.id if isinstance(summary, Summary) else summary

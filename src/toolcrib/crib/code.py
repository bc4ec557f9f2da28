"""Code that calls the tools of a crib: what it may name, and the way its calls take."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from toolcrib.crib.availability import Ref
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.sources.waiting import Waiting
from toolcrib.discovery import Index, IndexView, Result, Summary
from toolcrib.errors import ToolcribError
from toolcrib.execution import Principal
from toolcrib.execution.principal import slot_owner
from toolcrib.model import Tool, ToolDoc, ToolId
from toolcrib.model.protocols import Journal
from toolcrib.runtime import ExecuteRequest, ExecuteResult, Runtime, Sandbox
from toolcrib.runtime.stubs import render
from toolcrib.runtime.surface import named_tools

CODE = Principal(client="code")
"""Who calls where code does, and nobody says who runs it."""
Named = Ref | Summary | Result
"""What a tool may be named by: its id, itself, or what a list or a search gives."""


class CodeTools(Protocol):
    """The tools that code may use: a `View`, as far as code goes."""

    @property
    def settings(self) -> Settings:
        """The configuration."""
        ...

    @property
    def index(self) -> Index | IndexView:
        """The catalogue."""
        ...

    def known(self, tool_id: str | ToolId) -> ToolDoc:
        """Return what is known about a tool already."""
        ...

    @property
    def search(self) -> Callable[..., Awaitable[Any]]:
        """Finds tools."""
        ...

    @property
    def describe(self) -> Callable[..., Awaitable[Any]]:
        """Tells about a tool."""
        ...

    @property
    def run(self) -> Callable[..., Awaitable[Any]]:
        """Runs a tool."""
        ...

    @property
    def run_chain(self) -> Callable[..., Awaitable[Any]]:
        """Runs tools one after another."""
        ...


class CribCatalogue:
    """The tools that code may name: all that are in the catalogue when they are asked for."""

    def __init__(self, view: CodeTools, servers: Callable[[], Collection[str]] = tuple) -> None:
        """Tell of the tools of a view; `servers` are namespaces also while they have no tools."""
        self._view = view
        self._servers = servers
        self._state: tuple[object, int] | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, frozenset[str]] = {}

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        return tuple(dict.fromkeys([*self._view.index.namespaces(), *sorted(self._servers())]))

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        index = self._view.index  # another one once the crib is entered
        state = index, index.version
        if self._state != state:
            self._state, self._names, self._known = state, {}, {}
        if namespace not in self._names:
            listed = dict.fromkeys(summary.name for summary in index.every(namespace=namespace))
            if not listed:  # code can make up any number of namespaces
                return ()
            self._names[namespace], self._known[namespace] = tuple(listed), frozenset(listed)
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
                found[ref] = self._with_output(self._view.index.resolve(ref))
            except ToolcribError:  # it is not there, or its name is none: code may mention anything
                continue
        return found

    def _may_be(self, ref: str) -> bool:
        """Return whether a reference may mean a tool: to look for what is nearest to it takes its time."""
        namespace, _, name = ref.rpartition(":")
        if ":" in namespace:  # with a version, which nobody asks for by the thousand
            return True
        return bool(self.names(namespace)) and name in self._known[namespace]

    def _with_output(self, tool: Tool) -> Tool:
        if tool.output_schema is not None:
            return tool
        learnt = self._view.known(tool.id).observed_output
        return tool if learnt is None else tool.replace(output_schema=_opened(learnt.json_schema))


class CodeGateway:
    """A view as code in a sandbox reaches it; calls are those of whoever runs the code."""

    def __init__(self, view: CodeTools, principal: Principal | None = None) -> None:
        self._view = view
        self._principal = principal or CODE

    async def search(self, query: str, *, limit: int = 10) -> Any:
        """Return the tools that fit a question."""
        return await self._view.search(query, limit=limit)

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        """Return what is known about a tool."""
        return await self._view.describe(tool_id, level)

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        """Run a tool."""
        return await self._view.run(tool_id, args, principal=self._principal)

    async def run_chain(self, steps: Sequence[Any], **options: Any) -> Any:
        """Run tools one after another."""
        return await self._view.run_chain(steps, principal=self._principal, **options)


class Sandboxes:
    """The sandboxes of a crib and of all its views, kept warm from their first use until they are closed."""

    def __init__(self, given: Sequence[Sandbox] = ()) -> None:
        """Have the built-in sandboxes, and the given ones in place of those of their kinds."""
        self._given = given
        self._runtime: Runtime | None = None
        self._starting = anyio.Lock()

    def new_runtime(self, gateway: CodeGateway) -> Runtime:
        """Return a runtime of its own, for whoever enters and leaves it."""
        return Runtime(gateway, sandboxes=self._given)

    async def runtime(self, gateway: CodeGateway) -> Runtime:
        """Return the runtime that has them; the first gateway that it is asked for with is its own."""
        async with self._starting:
            if self._runtime is None:
                self._runtime = await self.new_runtime(gateway).__aenter__()
        return self._runtime

    async def close(self) -> None:
        """End every sandbox."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(None, None, None)


class CodeMode:
    """Runs code that calls the tools of a view, and of nothing else."""

    def __init__(self, view: CodeTools, waiting: Waiting, sandboxes: Sandboxes) -> None:
        self._view = view
        self._waiting = waiting
        self._sandboxes = sandboxes
        self._catalogue = CribCatalogue(view, lambda: waiting.names)

    async def execute(
        self,
        request: ExecuteRequest,
        *,
        keep: bool,
        principal: Principal | None = None,
        journal: Journal | None = None,
    ) -> ExecuteResult:
        """Run code, once the servers that it mentions have listed their tools.

        `keep` says whether the sandboxes are kept for the next run; somebody has to close them then. A run
        with a journal is durable.
        """
        gateway = CodeGateway(self._view, principal)
        if keep:
            shared = await self._sandboxes.runtime(gateway)
            return await self._serving(shared, gateway).execute(
                request, caller=slot_owner(principal), journal=journal
            )
        async with self._sandboxes.new_runtime(gateway) as runtime:
            return await self._serving(runtime, gateway).execute(request, journal=journal)

    def stubs(self, tools: Iterable[str | ToolId] | None, namespace: str | None, budget: int | None) -> str:
        """Return the signatures of tools: those named, those of a namespace, or all."""
        spaces = self._catalogue.namespaces() if namespace is None else (namespace,)
        refs = (
            [
                f"{space}:{name}" if space else name
                for space in spaces
                for name in self._catalogue.names(space)
            ]
            if tools is None
            else [str(tool_id) for tool_id in tools]
        )
        found = named_tools(self._catalogue, refs)
        return render(
            {path: tool for path, tool in found.items() if namespace in {None, tool.namespace or ""}},
            budget=budget,
        )

    def _serving(self, runtime: Runtime, gateway: CodeGateway) -> Runtime:
        return runtime.serving(
            gateway,
            self._catalogue,
            allow_unsafe=self._view.settings.code.allow_unsafe,
            prepare=self._waiting.for_code,
        )


def _opened(schema: Any) -> Any:
    """Return what was learnt of results as something that further results may go beyond."""
    if isinstance(schema, list):
        return [_opened(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {name: _opened(member) for name, member in schema.items()}
    return {"additionalProperties": True, **opened} if "properties" in opened else opened

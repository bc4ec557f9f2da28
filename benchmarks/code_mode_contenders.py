"""Everything that runs code which calls tools: our sandboxes, the bare engine, the code modes of others.

What is not installed is missed when it is opened.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from toolcrib import Crib
from toolcrib.crib.view import CodeGateway
from toolcrib.execution import CallContext
from toolcrib.runs import SqliteRunStore
from toolcrib.runtime.protocols import Sandbox
from toolcrib.runtime.registry import make_sandbox
from toolcrib.runtime.request import ExecuteRequest
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.stubs import render
from toolcrib.runtime.surface import Surface

PAUSE = 0.1
"""Seconds that a slow tool takes."""
LANES = 4
"""Concurrent runs in the measurement of throughput."""

Run = Callable[[str], Awaitable[Any]]
Opened = AbstractAsyncContextManager[Run]


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of code, in which the calls of tools stand in braces."""

    code: str
    gives: Any

    def spelt(self, calls: Mapping[str, str]) -> str:
        """Return the code, with the calls in a contender's syntax."""
        text = self.code
        for name, call in calls.items():
            text = text.replace(f"{{{name}}}", call)
        return text


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run code."""

    name: str
    open: Callable[[], Opened]
    """Starts the state kept between runs, and yields the function that makes one."""
    calls: Mapping[str, str]
    """The syntax of each tool's call."""
    last: str = "\n__out"
    """The last line, which returns the value."""

    async def once(self, run: Run, task: Task) -> Any:
        """Run a task and check its result."""
        value = await run(task.spelt(self.calls) + self.last)
        if isinstance(value, dict) and value.keys() == {"result"}:
            value = value["result"]
        if task.gives is not None and value != task.gives:
            raise SystemExit(f"{self.name}: expected {task.gives!r}, got {value!r}")
        return value


ARRIVED: list[float] = []
"""Arrival times of calls of `add`."""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    ARRIVED.append(time.perf_counter())
    return a + b


async def wait(i: int) -> int:
    """Take a while."""
    await anyio.sleep(PAUSE)
    return i


async def look() -> dict[str, int]:
    """Tell how much memory the processes have taken that run below this one."""
    return {str(pid): peak(pid) for pid in below(os.getpid())}


def peak(pid: int) -> int:
    """Return how many KiB of memory a process has taken at most."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def below(pid: int) -> Iterator[int]:
    """Yield the processes that one has started, and those that they have."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text(encoding="utf-8").split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from below(child)


TOOLS = (add, wait, look)
NAMED = {"add": "add(a=i, b=1)", "wait": "wait(i=i)", "look": "look()"}
SPACED = {name: f"kit.{call}" for name, call in NAMED.items()}
LISTED = {
    "add": "call_tool('add', {'a': i, 'b': 1})",
    "wait": "call_tool('wait', {'i': i})",
    "look": "call_tool('look', {})",
}


def make_crib(config: Any = None, **hooks: Any) -> Crib:
    """Return our tools, with and without a namespace."""
    crib = Crib(config, **hooks)
    for function in TOOLS:
        crib.add(function)
        crib.add(function, namespace="kit")
    return crib


@dataclass(frozen=True, slots=True)
class Ours:
    """Runs code in one of our sandboxes."""

    runtime: Runtime
    sandbox: Sandbox

    async def __call__(self, code: str) -> Any:
        """Run it and return its value."""
        return (await self.runtime.execute(ExecuteRequest(code=code, backend=self.sandbox.kind))).value

    async def warm(self) -> None:
        """Wait until those are started that are kept for later runs, where that is so."""
        if hasattr(self.sandbox, "warm"):
            await self.sandbox.warm()


def ours(crib: Crib, backend: str, **options: Any) -> Callable[[], Opened]:
    """Return a contender that runs code in one of our sandboxes, with options for an unusual one."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        from toolcrib.runtime.sandboxes.monty import MontySandbox  # noqa: PLC0415

        sandbox = MontySandbox(**options) if options else make_sandbox(backend)
        async with Runtime(CodeGateway(crib, CallContext()), crib.code_names, sandboxes=[sandbox]) as runtime:
            yield Ours(runtime, sandbox)

    return opened


def recorded_contender(first: str, *, durable: bool) -> Callable[[], Opened]:
    """Return a contender that runs code through a crib, durably or not, with a line before it."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        settings = {"mcpServers": {}, "runs": {"key": token_hex(32)}}
        with TemporaryDirectory() as folder, closing(SqliteRunStore(Path(folder) / "runs.db")) as store:
            async with make_crib(settings, run_store=store) as crib:

                async def run(code: str) -> Any:
                    return (await crib.execute(first + code, durable=durable)).value

                yield run

    return opened


def bare(stubs: Callable[[str], str] | None) -> Callable[[], Opened]:
    """Return a contender that runs code in the engine itself, a session for each run."""
    limits: Any = {"max_memory": 256 << 20, "max_feed_duration_secs": 10.0}
    lookup = {function.__name__: function for function in TOOLS}

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        import pydantic_monty  # noqa: PLC0415

        async with pydantic_monty.AsyncMonty() as pool:

            async def run(code: str) -> Any:
                checked: Any = {} if stubs is None else {"type_check": True, "type_check_stubs": stubs(code)}
                async with pool.checkout(limits=limits, **checked) as session:
                    return await session.feed_run(code, external_lookup=lookup)

            yield run

    return opened


@asynccontextmanager
async def fastmcp_client() -> AsyncIterator[Run]:
    """Start fastmcp's code mode, called as its users do: the tool `execute`, through a client in memory."""
    import fastmcp  # noqa: PLC0415
    from fastmcp.experimental.transforms.code_mode import CodeMode  # noqa: PLC0415

    server: Any = fastmcp.FastMCP("tools", transforms=[CodeMode(max_tool_calls=None)])
    for function in TOOLS:
        server.tool()(function)
    async with fastmcp.Client(server) as client:

        async def run(code: str) -> Any:
            result = await client.call_tool("execute", {"code": code})
            return result.structured_content or int(result.content[0].text)

        yield run


@asynccontextmanager
async def fastmcp_provider() -> AsyncIterator[Run]:
    """Start fastmcp's sandbox alone; the tools are functions, without any server."""
    from fastmcp.experimental.transforms.code_mode import MontySandboxProvider  # noqa: PLC0415

    provider = MontySandboxProvider()
    functions = {function.__name__: function for function in TOOLS}

    async def call_tool(name: str, params: dict[str, Any]) -> Any:
        return await functions[name](**params)

    async def run(code: str) -> Any:
        return await provider.run(code, external_functions={"call_tool": call_tool})

    yield run


def harness(*, restart: bool) -> Callable[[], Opened]:
    """Return a contender that calls pydantic-ai-harness's `run_code`, without an agent or a model."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        async with AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(harness_lane(restart=restart)) for _ in range(LANES)]

            async def run(code: str) -> Any:
                lane = idle.pop()  # a toolset has one session
                try:
                    return await lane(code)
                finally:
                    idle.append(lane)

            yield run

    return opened


@asynccontextmanager
async def harness_lane(*, restart: bool) -> AsyncIterator[Run]:
    """Enter one toolset; nothing is started until it is first called."""
    from pydantic_ai import FunctionToolset, RunContext  # noqa: PLC0415
    from pydantic_ai.models.test import TestModel  # noqa: PLC0415
    from pydantic_ai.tool_manager import ToolManager  # noqa: PLC0415
    from pydantic_ai.usage import RunUsage  # noqa: PLC0415
    from pydantic_ai_harness.code_mode import CodeModeToolset  # noqa: PLC0415

    limits: Any = {"max_duration_secs": 30.0, "max_memory": 256 << 20, "max_suspensions": 1_000_000}
    toolset = CodeModeToolset(FunctionToolset(list(TOOLS)), resource_limits=limits)
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    async with toolset:
        context = replace(context, tool_manager=ToolManager(toolset=toolset))
        tool = (await toolset.get_tools(context))["run_code"]

        async def run(code: str) -> Any:
            asked = {"code": code, "restart": restart}
            return (await toolset.call_tool("run_code", asked, context, tool)).return_value

        yield run


MONTY = "toolcrib, `monty`"
PLAIN_MONTY = "toolcrib, `monty` without bubblewrap"
PROCESS = "toolcrib, `process`"
OURS = (MONTY, PLAIN_MONTY, PROCESS)
DOCKER = "toolcrib, `docker`"
GVISOR = "toolcrib, `gvisor`"
WASM = "toolcrib, `wasm`"


def contenders(crib: Crib) -> list[Contender]:
    """Return all contenders, first the engine under our own sandbox."""
    return [
        Contender("engine, checked", bare(lambda code: stubs_of(crib, code)), NAMED),
        Contender("engine, not checked", bare(None), NAMED),
        Contender(MONTY, ours(crib, "monty"), NAMED, last=""),
        Contender(f"{MONTY}, tools in a namespace", ours(crib, "monty"), SPACED, last=""),
        Contender(PLAIN_MONTY, ours(crib, "monty", bubblewrap=False), NAMED, last=""),
        Contender(PROCESS, ours(crib, "process"), NAMED, last=""),
        Contender(DOCKER, ours(crib, "docker"), NAMED, last=""),
        Contender(GVISOR, ours(crib, "gvisor"), NAMED, last=""),
        Contender(WASM, ours(crib, "wasm"), NAMED, last=""),
        Contender("fastmcp, client", fastmcp_client, LISTED),
        Contender("fastmcp, provider", fastmcp_provider, LISTED),
        Contender("harness, restarted", harness(restart=True), NAMED),
        Contender("harness, same session", harness(restart=False), NAMED),
    ]


DURABLE = "durable"
DUMPED = "durable, dumped at each call"


def durable_contenders() -> list[Contender]:
    """Return ways to run the same code so that it survives its process, first the one that does not."""
    return [
        Contender("not durable", recorded_contender("", durable=False), NAMED, last=""),
        Contender(DURABLE, recorded_contender("", durable=True), NAMED, last=""),
        Contender(DUMPED, recorded_contender("import time\n", durable=True), NAMED, last=""),
    ]


def stubs_of(crib: Crib, code: str) -> str:
    """Return the stubs against which we check a piece of code."""
    return render(Surface(code, crib.code_names).tools)

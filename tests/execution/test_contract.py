"""Every executor against real tools: functions here, servers of both eras on each transport, and web APIs."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest
from contracts.executor import ExecutorContract, Listener, Subject, WebContract
from servers.launch import Config, HttpServer, faulty
from servers.webapi import WebApi, served
from waiting import PATIENCE

from toolcrib.execution import Call, LocalHandlers
from toolcrib.execution.http import Endpoint, HttpProvider, OpenApiProvider
from toolcrib.execution.mcp import McpServers
from toolcrib.model import Context, LocalBackend, McpBackend, ProviderBackend, Tool, ToolBackend

NAMES = ("add", "keep", "fail", "hang", "meet", "progress")


class Functions:
    """The tools of the contract as coroutines."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.told: set[str] = set()
        self.inside = 0
        self.met = anyio.Event()

    async def add(self, a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    async def keep(self, value: Any) -> dict[str, Any]:
        return {"value": value}

    async def fail(self, text: str) -> None:
        raise RuntimeError(text)

    async def hang(self, key: str) -> None:
        self.begun.add(key)
        try:
            await anyio.sleep_forever()
        finally:
            self.told.add(key)

    async def meet(self, count: int) -> dict[str, int]:
        self.inside += 1
        if self.inside == count:
            self.met.set()
        await self.met.wait()
        return {"met": count}

    async def progress(self, steps: int, context: Context) -> dict[str, int]:
        for step in range(steps):
            await context.progress(step + 1, steps)
        return {"steps": steps}


def declared(name: str) -> Tool:
    """Return a definition with the parameters of the function."""
    properties = {"add": "ab", "keep": ["value"], "fail": ["text"], "hang": ["key"], "meet": ["count"]}
    schema = {"type": "object", "properties": {each: {} for each in properties.get(name, ["steps"])}}
    return Tool(name=name, namespace="contract", input_schema=schema)


def subject_here(
    noted: Any, executor: Any, backend: Callable[[str], ToolBackend], tools: list[Tool]
) -> Subject:
    """Return a subject whose tools record their calls in this process."""

    async def begun(key: str) -> bool:
        return key in noted.begun

    async def told(key: str) -> bool:
        return key in noted.told

    return Subject(executor, backend, begun, told, {tool.name: tool for tool in tools})


def local_subject(functions: Any) -> Subject:
    handlers = LocalHandlers({name: getattr(functions, name) for name in NAMES})
    tools = [declared(name) for name in NAMES]
    return subject_here(functions, handlers, lambda name: LocalBackend(name=name), tools)


class TestCoroutines(ExecutorContract):
    unknown = LocalBackend(name="nobody")

    @pytest.fixture
    def subject(self) -> Subject:
        return local_subject(Functions())


class Threaded(Functions):
    """The same as plain functions, which run in threads and look whether they are to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.barriers: dict[int, threading.Barrier] = {}
        self.lock = threading.Lock()

    def add(self, a: int, b: int) -> dict[str, int]:  # type: ignore[override]
        return {"sum": a + b}

    def keep(self, value: Any) -> dict[str, Any]:  # type: ignore[override]
        return {"value": value}

    def fail(self, text: str) -> None:  # type: ignore[override]
        raise RuntimeError(text)

    def hang(self, key: str, context: Context) -> None:  # type: ignore[override]
        self.begun.add(key)
        while not context.cancelled:
            time.sleep(0.005)
        self.told.add(key)

    def meet(self, count: int) -> dict[str, int]:  # type: ignore[override]
        with self.lock:
            barrier = self.barriers.setdefault(count, threading.Barrier(count))
        barrier.wait(PATIENCE)
        return {"met": count}

    def progress(self, steps: int, context: Context) -> dict[str, int]:  # type: ignore[override]
        for step in range(steps):
            context.progress(step + 1, steps)
        return {"steps": steps}


class TestThreads(ExecutorContract):
    unknown = LocalBackend(name="nobody")

    @pytest.fixture
    def subject(self) -> Subject:
        return local_subject(Threaded())


def mcp_subject(servers: McpServers) -> Subject:
    backend = McpBackend(server_name="faulty")

    async def seen(what: str, key: str) -> bool:
        tool = Tool(name="seen", input_schema={"type": "object"})
        answer = await servers.call(Call(tool=tool, args={}, backend=backend))
        return key in answer.structured[what]

    return Subject(
        executor=servers,
        backend=lambda _: backend,
        begun=lambda key: seen("begun", key),
        told=lambda key: seen("cancelled", key),
    )


class McpContract(ExecutorContract):
    """The same on a server that is kept running from test to test."""

    unknown = McpBackend(server_name="nobody")

    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Config:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    async def subject(cls, anyio_backend: str, config: Config) -> AsyncIterator[Subject]:  # noqa: ARG003 - of the same scope
        async with McpServers({"faulty": config | {"start_timeout": PATIENCE}}) as servers:
            yield mcp_subject(servers)

    @pytest.mark.anyio
    async def test_a_log_message_is_told_while_the_tool_runs(self, subject: Subject) -> None:
        listener = Listener()
        await subject.call("log", listener, message="mind the gap")
        [told] = listener.heard
        assert told.kind == "progress"
        assert told.data == {"message": "mind the gap", "level": "warning"}


class TestStdio(McpContract):
    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Config:
        return faulty()


class TestStdioWithHandshake(McpContract):
    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Config:
        return faulty("--handshake")


class TestHttp(McpContract):
    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Iterator[Config]:
        with HttpServer() as server:
            yield server.config


class TestHttpWithHandshake(McpContract):
    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Iterator[Config]:
        with HttpServer("--handshake") as server:
            yield server.config


class TestSse(McpContract):
    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Iterator[Config]:
        with HttpServer(transport="sse") as server:
            yield server.config


class ProviderContract(WebContract):
    """The same on a web API in this process."""

    @pytest.fixture(scope="class")
    @classmethod
    def api(cls) -> WebApi:
        return WebApi()

    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, api: WebApi) -> Iterator[str]:
        with served(api.app) as url:
            yield url

    @staticmethod
    def provider(api: WebApi, url: str) -> HttpProvider | OpenApiProvider:
        raise NotImplementedError

    @pytest.fixture
    async def subject(self, api: WebApi, url: str) -> AsyncIterator[Subject]:
        async with self.provider(api, url) as provider:
            yield subject_here(
                api,
                provider,
                lambda name: ProviderBackend(provider_id="web", tool_id=name),
                list(provider.tools()),
            )


class TestOpenApi(ProviderContract):
    @staticmethod
    def provider(api: WebApi, url: str) -> OpenApiProvider:
        return OpenApiProvider.from_document(api.app.openapi(), id="web", base_url=url, allow_private=True)


class TestEndpoints(ProviderContract):
    @staticmethod
    def provider(api: WebApi, url: str) -> HttpProvider:  # noqa: ARG004 - endpoints need no description
        endpoints = [Endpoint(name=name, url=f"{url}/{name}", method="POST") for name in NAMES]
        return HttpProvider("web", endpoints, allow_private=True)

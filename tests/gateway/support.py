"""A gateway as people have it, in a process of its own, and clients that talk to it in both eras."""

import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from servers.launch import TOOLCRIB, closed_port, command, forker
from servers.warm import COMMANDS, Forked
from waiting import PATIENCE, wait_until

ERAS = {"stateless": "auto", "handshake": "legacy"}
"""The mode of the SDK's client for each era of the protocol."""
VERSIONS = {"stateless": "2026-07-28", "handshake": "2025-11-25"}


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class Place:
    """A folder with a configuration and the files that gateways keep there."""

    def __init__(self, folder: Path, servers: Mapping[str, Any], **settings: Any) -> None:
        """Write the configuration; the settings are those beside the servers."""
        self.home = folder / "home"
        self.config = folder / "toolcrib.toml"
        self.configure(servers, **settings)

    def configure(self, servers: Mapping[str, Any], **settings: Any) -> None:
        """Write the configuration anew."""
        parts = {"servers": servers, **settings}
        text = "".join(f"{name} = {toml(value)}\n" for name, value in parts.items())
        self.config.write_text(text, encoding="utf-8")

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables of a gateway."""
        return {**os.environ, "TOOLCRIB_HOME": str(self.home), "PYTHONWARNINGS": "ignore"}

    def arguments(self, *more: str) -> list[str]:
        """Return the arguments that start a gateway on this configuration."""
        return ["serve", "--config", str(self.config), *more]


class Served:
    """A gateway over HTTP in a process of its own, on a port that stays reserved while it is down."""

    def __init__(self, place: Place, *options: str) -> None:
        self.place, self._options = place, options
        self.port = 0
        self._held = closed_port()
        self._process: Forked | None = None

    @property
    def url(self) -> str:
        """The address of its MCP endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.place.config.with_name("gateway.log")

    def start(self) -> float:
        """Start it, and return after how many seconds it could be reached."""
        command = self.place.arguments("--transport", "http", "--port", str(self.port), *self._options)
        started = time.monotonic()
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            streams = (nothing.fileno(), log.fileno(), log.fileno())
            forking = forker(COMMANDS)
            self._process = Forked(forking, *TOOLCRIB, *command, streams=streams, environ=self.place.environ)
        wait_until(lambda: self.get("/health") or not self._runs(), "it serves")
        if not self._runs():
            pytest.fail(f"{command} does not serve: {self.log.read_text(errors='replace')[-2000:]}")
        return time.monotonic() - started

    def _runs(self) -> bool:
        return self._process is not None and self._process.runs

    def get(self, path: str) -> str | None:
        """Return the body at a path; None if nothing responds."""
        with suppress(OSError):
            connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                text = answer.read().decode()
            finally:
                connection.close()
            return text if answer.status == 200 else None
        return None

    def kill(self) -> None:
        """Kill it, as a crash or an administrator would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code once it has."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        return process.kill(how)

    def connect(self, era: str, **options: Any) -> Any:
        """Return a client of an era, to be entered; it takes answers of any size."""
        transport = streamable_http_client(self.url, max_sse_event_size=None)
        return Client(transport, mode=ERAS[era], read_timeout_seconds=PATIENCE, **options)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self.port = self._held.__enter__()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._held.__exit__(None, None, None)


class Stdio:
    """A gateway over stdio, one process for each client."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def connect(self, era: str, **options: Any) -> Any:
        """Return a client of an era, to be entered."""
        program, *args = [*command(), *self.place.arguments()]
        server = StdioServerParameters(command=program, args=args, env=self.place.environ)
        return Client(server, mode=ERAS[era], read_timeout_seconds=PATIENCE, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def connected(where: Served | Stdio, era: str, **options: Any) -> AsyncIterator[Client]:
    """Yield a client that talks to a gateway in an era."""
    client: Client
    async with where.connect(era, **options) as client:
        assert client.protocol_version == VERSIONS[era]
        yield client


async def call_tool(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the structured content of a successful tool call."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def call_failing_tool(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the error that a tool gives, which must be one."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    assert result.structured_content is not None
    error: dict[str, Any] = result.structured_content["error"]
    return error

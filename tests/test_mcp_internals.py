"""The insides of the MCP SDK that toolcrib uses: each is tried by itself, and a gateway runs without it.

A gateway without one runs on a copy of the SDK in which it has another name or signature, as in a release
to come; every call must work, by the public way.
"""

import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
import mcp_types as types
import pytest
from gateway.support import ERAS, Place, Served, call_tool, connected
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from mcp_types.version import LATEST_MODERN_VERSION
from servers import asking
from servers.launch import TOOLCRIB, closed_port
from waiting import PATIENCE, wait_until

from toolcrib.errors import UnsupportedPackageError
from toolcrib.gateway.resources.handlers import ContentHandlers
from toolcrib.gateway.resources.subscriptions import ChangeBus, Subscriptions
from toolcrib.mcp_internals import (
    check_version,
    connection_of,
    is_waiting_for,
    number_requests_from,
)

Edit = tuple[str, str]
"""A pattern in the sources of the SDK, and its replacement."""


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("version", ["2.3.0", "2.3.17", "2.3.1rc1", "2.4rc1", "2.30.0"])
def test_a_version_with_the_public_api_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["1.28.0", "2.2.9", "3.0.0", "3.0.0a1", "10.1.0"])
def test_another_version_is_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(UnsupportedPackageError) as caught:
        check_version(version)
    assert str(caught.value) == (
        f"MCP needs mcp>=2.3,<3, and {version} is installed: pip install 'toolcrib[mcp]'"
    )


@pytest.mark.parametrize(
    "use",
    [
        "from toolcrib.gateway import Gateway",
        "from toolcrib.execution.mcp.pool import _load_sdk; _load_sdk()",
    ],
    ids=["the gateway", "a call of a server"],
)
@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("'3.0.0'", "UnsupportedPackageError MCP needs mcp>=2.3,<3, and 3.0.0 is installed"),
        pytest.param("missing()", "MissingExtraError", marks=pytest.mark.proof),
    ],
    ids=["another version", "no version"],
)
def test_the_version_is_looked_at_before_anything_of_the_sdk_is_used(
    use: str, version: str, told: str
) -> None:
    code = f"""
import importlib.metadata, sys
from toolcrib.errors import MissingExtraError
def missing(): raise importlib.metadata.PackageNotFoundError("mcp")
known = importlib.metadata.version
importlib.metadata.version = lambda name: {version} if name == "mcp" else known(name)
try:
    {use}
except MissingExtraError as error:
    print(type(error).__name__, error, "mcp" in sys.modules)
"""
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.startswith(told)
    assert shown.endswith(" False\n")


def test_the_session_of_a_request_has_a_connection() -> None:
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None)
    session: Any = ServerSession(None, connection)  # type: ignore[arg-type] # no request is made
    assert connection_of(session) is connection


def test_a_session_that_hides_its_connection_has_a_stand_in_that_can_be_told_nothing() -> None:
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {"roots": {}})
    session: Any = ServerSession(None, connection)  # type: ignore[arg-type] # no request is made
    session.__class__ = type("Hiding", (ServerSession,), {"_connection": connection})
    del session.__dict__["_connection"]
    stand_in = connection_of(session)
    assert stand_in.client_capabilities == connection.client_capabilities
    assert (stand_in.has_standalone_channel, stand_in.initialize_accepted) == (False, False)


@pytest.mark.anyio
async def test_a_connection_that_can_be_told_nothing_cannot_subscribe() -> None:
    subscriptions = Subscriptions(ContentHandlers(), ChangeBus())
    connection = Connection.from_envelope("2025-11-25", None, None)
    with pytest.raises(MCPError, match="no channel for notifications"):
        await subscriptions.subscribe(connection, "note://one", None)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_session_has_an_idle_scope_and_knows_how_many_of_its_requests_are_in_flight() -> None:
    transport = StreamableHTTPServerTransport("any", idle_timeout=60)
    async with transport.connect():
        assert transport.idle_scope is not None
        assert transport._requests_in_flight == 0
        await transport.terminate()


def test_admit_session_puts_the_transport_of_a_new_session_among_the_server_instances() -> None:
    assert parameters(StreamableHTTPSessionManager._admit_session) == ["self", "requestor"]
    manager = StreamableHTTPSessionManager(Server("any"), max_sessions=1)
    admitted = manager._admit_session(None)
    assert admitted is not None
    assert manager._server_instances == {admitted.mcp_session_id: admitted}
    assert manager._admit_session(None) is None


@pytest.mark.anyio
async def test_the_manager_finds_a_session_among_its_server_instances() -> None:
    class Session(StreamableHTTPServerTransport):
        async def handle_request(self, *_: Any) -> None:
            asked.append(self.mcp_session_id)

    asked: list[str | None] = []
    manager = StreamableHTTPSessionManager(Server("any"))
    manager._server_instances["one"] = Session("one")
    async with manager.run():
        await manager.handle_request(scope("one"), receive, print)  # type: ignore[arg-type] # it says nothing
    assert asked == ["one"]


@pytest.mark.anyio
async def test_handle_post_request_is_what_answers_a_post() -> None:
    class Session(StreamableHTTPServerTransport):
        async def _handle_post_request(self, *given: Any) -> None:
            asked.append(given)

    asked: list[tuple[Any, ...]] = []
    wanted, session = scope("one"), Session("one")
    await session.handle_request(wanted, receive, print)  # type: ignore[arg-type] # it says nothing
    (given,) = asked
    assert parameters(StreamableHTTPServerTransport._handle_post_request) == [
        "self",
        "scope",
        "request",
        "receive",
        "send",
    ]
    assert (given[0], given[1].method, given[2:]) == (wanted, "POST", (receive, print))


@pytest.mark.anyio
async def test_message_to_read_stream_writer_reaches_the_server() -> None:
    session = StreamableHTTPServerTransport("one")
    assert session._read_stream_writer is None
    call = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call"))
    with anyio.fail_after(20):
        async with session.connect() as (read, _), anyio.create_task_group() as tasks:
            tasks.start_soon(session._read_stream_writer.send, call)
            assert await read.receive() is call


@pytest.mark.anyio
async def test_response_goes_into_the_request_stream_of_its_request() -> None:
    session = StreamableHTTPServerTransport("one")
    answer = JSONRPCResponse(jsonrpc="2.0", id=7, result={})
    with anyio.fail_after(20):
        async with session.connect() as (_, write):
            streams = anyio.create_memory_object_stream[EventMessage](1)
            session._request_streams["7"] = streams
            await write.send(SessionMessage(answer))
            assert (await streams[1].receive()).message is answer
            await session.terminate()
            with pytest.raises(anyio.ClosedResourceError):
                await streams[1].receive()


@pytest.mark.anyio
async def test_a_connection_numbers_its_requests_by_next_id_and_keeps_those_without_an_answer_pending() -> (
    None
):
    incoming, outgoing = (anyio.create_memory_object_stream[SessionMessage | Exception](1) for _ in range(2))
    dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(incoming[1], outgoing[0])  # type: ignore[arg-type]
    connection = Connection.for_loop(dispatcher)
    assert dispatcher._next_id == 0
    assert dispatcher._pending == {}
    assert not is_waiting_for(connection, 1_001)
    number_requests_from(connection, 1_000)
    with anyio.fail_after(PATIENCE):
        async with incoming[0], incoming[1], outgoing[0], outgoing[1], anyio.create_task_group() as tasks:
            await tasks.start(dispatcher.run, None, None)
            tasks.start_soon(connection.send_raw_request, "ping", None)
            sent: Any = await outgoing[1].receive()
            assert sent.message.id == 1_001
            assert is_waiting_for(connection, 1_001)
            tasks.cancel_scope.cancel()


def renamed(name: str) -> Edit:
    """Give a private name of the SDK another one."""
    return rf"\b{name}\b", f"{name}_of_old"


def altered(folder: Path, *edits: Edit) -> Path:
    """Return a folder with a copy of the SDK whose server side is edited."""
    shutil.copytree(Path(mcp.__file__).parent, folder / "mcp", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (folder / "mcp" / "server").rglob("*.py"):
        text = file.read_text()
        for pattern, replacement in edits:
            text = re.sub(pattern, replacement, text)
        file.write_text(text)
    return folder


async def answer_form(*_: Any) -> types.ElicitResult:
    """Answer a question of a server."""
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@contextmanager
def gateway_on(sdk: Path, folder: Path) -> Iterator[Served]:
    """Yield a gateway that runs on another SDK, and end it as an administrator does."""
    server = {"command": sys.executable, "args": [asking.__file__, "--handshake"], "start_timeout": PATIENCE}
    place = Place(folder, {"asking": server})
    gateway = Served(place)
    with closed_port() as gateway.port, gateway.log.open("wb") as log:
        command = [
            sys.executable,
            *TOOLCRIB,
            *place.arguments("--transport", "http"),
            "--port",
            str(gateway.port),
        ]
        environ = {**place.environ, "PYTHONPATH": str(sdk)}
        with subprocess.Popen(command, env=environ, stdout=log, stderr=log) as process:
            try:
                wait_until(lambda: gateway.get("/health") or process.poll() is not None, "it serves")
                assert process.poll() is None, gateway.log.read_text()
                yield gateway
                process.terminate()
                assert process.wait(PATIENCE) == 0, gateway.log.read_text()
            finally:
                process.kill()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("_admit_session", [renamed("_admit_session")]),
        ("_handle_post_request", [renamed("_handle_post_request")]),
        ("_server_instances", [renamed("_server_instances")]),
        pytest.param("_read_stream_writer", [renamed("_read_stream_writer")], marks=pytest.mark.proof),
        pytest.param("_request_streams", [renamed("_request_streams")], marks=pytest.mark.proof),
        pytest.param("_requests_in_flight", [renamed("_requests_in_flight")], marks=pytest.mark.proof),
        pytest.param(
            "_admit_session",
            [
                (r"self\._admit_session\(requestor\)", "self._admit_session(requestor, 0)"),
                (r"(def _admit_session\(self, requestor[^)]*)\)", r"\1, more: int)"),
            ],
            marks=pytest.mark.proof,
        ),
        pytest.param("", [renamed("_connection")], marks=pytest.mark.proof),
        pytest.param(
            "",
            [
                (r"self\._connection = connection", "self._hidden = (connection,)"),
                (r"self\._connection\b", "self._hidden[0]"),
            ],
            marks=pytest.mark.proof,
        ),
    ],
)
async def test_a_gateway_serves_both_eras_without_an_inside_of_the_sdk(
    tmp_path: Path, name: str, edits: list[Edit]
) -> None:
    with anyio.fail_after(3 * PATIENCE), gateway_on(altered(tmp_path / "sdk", *edits), tmp_path) as gateway:
        for era in ERAS:
            async with connected(gateway, era) as client:
                found = await call_tool(client, "run_tool", tool_id="asking:count", args={})
                assert found["structured"] == "done"
            async with connected(gateway, era, elicitation_callback=answer_form) as client:
                found = await call_tool(client, "run_tool", tool_id="asking:form", args={})
                assert "Ada" in found["structured"]
        assert (f"has no {name} as toolcrib knows it" in gateway.log.read_text()) is bool(name)
    assert "Traceback" not in gateway.log.read_text()


def scope(session_id: str) -> dict[str, Any]:
    """Return the ASGI scope of a POST to a session."""
    headers = [(b"mcp-session-id", session_id.encode()), (b"content-type", b"application/json")]
    return {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b""}


async def receive() -> dict[str, Any]:
    """Return the body of a request."""
    return {"type": "http.request", "body": b"{}", "more_body": False}

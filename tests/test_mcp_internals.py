"""The insides of the MCP SDK that toolcrib uses: each test fails when one is gone, or is another thing."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared import _httpx_utils
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from mcp_types.version import LATEST_MODERN_VERSION

from toolcrib.errors import UnsupportedPackageError
from toolcrib.mcp_internals import check_version, connection_of

FAR = httpx2.URL("https://far.example/")
HERE = "http://here.example/mcp"


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def web(request: httpx2.Request) -> httpx2.Response:
    """Answer what `/mcp` redirects to within the origin, and nothing beyond."""
    if request.url.path == "/mcp":
        return httpx2.Response(307, headers={"location": "/there"})
    if request.url.path == "/away":
        return httpx2.Response(307, headers={"location": str(FAR)})
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, content=b"event: endpoint\ndata: /post\n\n")


@pytest.mark.parametrize("version", ["2.3.0", "2.3.17", "2.3.1rc1"])
def test_a_version_whose_insides_are_known_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["1.28.0", "2.2.9", "2.4.0", "2.30.0", "3.0.0"])
def test_another_version_is_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(UnsupportedPackageError) as caught:
        check_version(version)
    assert str(caught.value) == (
        f"MCP needs mcp>=2.3,<2.4, and {version} is installed: pip install 'toolcrib[mcp]'"
    )


@pytest.mark.untraced
@pytest.mark.parametrize(
    "use",
    [
        "from toolcrib.gateway import Gateway",
        "from toolcrib.execution.mcp.servers import _load; _load()",
    ],
    ids=["the gateway", "a call of a server"],
)
@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("'2.4.0'", "UnsupportedPackageError MCP needs mcp>=2.3,<2.4, and 2.4.0 is installed"),
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


def test_next_request_within_origin_is_what_a_redirect_leads_to_on_the_same_server() -> None:
    def redirect(location: str) -> httpx2.Response:
        with httpx2.Client(transport=httpx2.MockTransport(lambda _: answer)) as client:
            answer = httpx2.Response(307, headers={"location": location})
            return client.post(HERE, follow_redirects=False)

    following = _httpx_utils.next_request_within_origin(redirect("/there"))
    assert following is not None
    assert (following.method, str(following.url)) == ("POST", "http://here.example/there")
    assert _httpx_utils.next_request_within_origin(redirect(str(FAR))) is None


@pytest.mark.anyio
async def test_request_within_origin_follows_redirects_on_the_same_server_alone() -> None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(web)) as client:
        answer = await _httpx_utils.request_within_origin(client, "POST", HERE, content="{}", headers={})
        away = await _httpx_utils.request_within_origin(client, "POST", "http://here.example/away")
    assert (answer.status_code, answer.url.path) == (200, "/there")
    assert (away.status_code, away.url.host) == (307, "here.example")


@pytest.mark.anyio
async def test_sse_within_origin_gives_the_events_of_what_a_redirect_leads_to() -> None:
    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(web)) as client,
        _httpx_utils.sse_within_origin(client, HERE, max_event_size=1000) as source,
    ):
        events = [(event.event, event.data) async for event in source]
    assert source.response.url.path == "/there"
    assert events == [("endpoint", "/post")]


def test_the_session_of_a_request_has_a_connection() -> None:
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None)
    session: Any = ServerSession(None, connection)  # type: ignore[arg-type] # no request is made
    assert session._connection is connection
    assert connection_of(session) is connection


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
async def test_what_goes_into_read_stream_writer_comes_to_the_server() -> None:
    session = StreamableHTTPServerTransport("one")
    assert session._read_stream_writer is None
    call = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call"))
    with anyio.fail_after(20):
        async with session.connect() as (read, _), anyio.create_task_group() as tasks:
            tasks.start_soon(session._read_stream_writer.send, call)
            assert await read.receive() is call


@pytest.mark.anyio
async def test_what_the_server_answers_goes_into_the_request_streams_of_the_request() -> None:
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


def scope(session_id: str) -> dict[str, Any]:
    """Return what says that a session is posted to."""
    headers = [(b"mcp-session-id", session_id.encode()), (b"content-type", b"application/json")]
    return {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b""}


async def receive() -> dict[str, Any]:
    """Return the body of a request."""
    return {"type": "http.request", "body": b"{}", "more_body": False}

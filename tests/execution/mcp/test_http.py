import base64
import json
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest
from execution.mcp.support import call, session
from execution.mcp.typed_server import app
from execution.mcp.web import serving
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, RootsListChangedNotification
from servers.launch import closed_port
from waiting import PATIENCE, until

from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.errors import never_sent, transport_facts
from toolcrib.execution.mcp.transport.http import http_transport, reason_of, sse_transport
from toolcrib.execution.mcp.transport.http_client import AnsweringClient, client_settings
from toolcrib.execution.mcp.transport.quiet_client import tls_context

pytestmark = pytest.mark.anyio

Transport = Callable[..., AbstractAsyncContextManager[Any]]
Negotiate = Callable[[ClientSession], Awaitable[Any]]
TEN_MEGABYTES = 10_000_000
SECRET = "s3cret"  # noqa: S105 - that is what must not be seen


def transport_of(kind: str) -> Transport:
    return sse_transport if kind == "sse" else http_transport


@asynccontextmanager
async def connect(config: ServerConfig, kind: str = "http", **options: Any) -> AsyncIterator[ClientSession]:
    """Yield a session with a server, before any message was sent."""
    async with transport_of(kind)(config, **options) as streams, session(streams) as found:
        yield found


def at(address: str, kind: str = "http", **settings: Any) -> ServerConfig:
    return ServerConfig(url=f"{address}/{'sse' if kind == 'sse' else 'mcp'}", **settings)


class Page:
    """An application that answers every request with the same thing."""

    tidy = True

    def __init__(self, status: int, kind: str = "text/html", body: bytes = b"<html>", **headers: str) -> None:
        self.status = status
        self.body = body
        self.headers = [(b"content-type", kind.encode())]
        self.headers += [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            await send({"type": "http.response.body", "body": self.body})


async def failure(config: ServerConfig, transport: Transport) -> str:
    """Return in one line why a server cannot be used."""
    with pytest.raises((ExceptionGroup, httpx2.HTTPError)) as caught, anyio.fail_after(PATIENCE):
        async with transport(config) as streams, session(streams) as found:
            await negotiate_auto(found)
    assert SECRET not in str(caught.value)
    return reason_of(caught.value)


@pytest.mark.parametrize(
    "kind", ["http", *(pytest.param(kind, marks=pytest.mark.proof) for kind in ("json", "sse"))]
)
@pytest.mark.parametrize(
    ("negotiate", "version"), [(negotiate_auto, "2026-07-28"), (ClientSession.initialize, "2025-11-25")]
)
async def test_large_results_arrive_in_both_eras(kind: str, negotiate: Negotiate, version: str) -> None:
    with serving(app(kind)) as address, anyio.fail_after(PATIENCE):
        async with transport_of(kind)(at(address, kind)) as streams, session(streams) as found:
            await negotiate(found)
            assert found.protocol_version == version
            assert await call(found, "echo", text="héllo \u2028") == "héllo \u2028"
            assert await call(found, "big", size=TEN_MEGABYTES) == "x" * TEN_MEGABYTES
            async with anyio.create_task_group() as tasks:
                for number in range(64):
                    tasks.start_soon(lambda number=number: call(found, "echo", text=str(number)))


@pytest.mark.parametrize("kind", ["http", "json", "sse"])
async def test_a_call_that_fails_leaves_the_others_alone(kind: str) -> None:
    with serving(app(kind)) as address:
        async with connect(at(address, kind), kind, max_message_bytes=100_000) as found:
            await found.initialize()
            with pytest.raises(MCPError, match="the arguments are not JSON"):
                await call(found, "echo", text="\ud800")
            assert await call(found, "echo", text="on") == "on"
            if kind == "http":
                with pytest.raises(MCPError, match="exceeded the 100000 byte limit"):
                    await call(found, "big", size=200_000)
                assert await call(found, "echo", text="on") == "on"


@pytest.mark.parametrize("kind", ["http", "json", "sse"])
async def test_headers_reach_the_server(kind: str) -> None:
    inner, seen = app(kind), []

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization"))
        await inner(scope, receive, send)

    with serving(outer) as address:
        config = at(address, kind, headers={"Authorization": f"Bearer {SECRET}"})
        async with transport_of(kind)(config) as streams, session(streams) as found:
            await negotiate_auto(found)
    assert set(seen) == {f"Bearer {SECRET}".encode()}


@pytest.mark.parametrize("transport", [http_transport, sse_transport])
@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(401), "answered 401 Unauthorized; set an Authorization header"),
        (
            Page(401, "application/json", b'{"error": "denied"}'),
            "answered 401 Unauthorized; set an Authorization header",
        ),
        (
            Page(401, **{"www-authenticate": 'Bearer resource_metadata="https://x/.well-known/y"'}),
            "answered 401 Unauthorized; it requires a login: set an Authorization header with its access token",
        ),
        (
            Page(401, **{"www-authenticate": "Basic"}),
            "answered 401 Unauthorized; set an Authorization header",
        ),
        (Page(403), "answered 403 Forbidden; set an Authorization header that gives access"),
        (Page(404), "answered 404 Not Found; check the path of its url"),
        (
            Page(405),
            "answered 405 Method Not Allowed; check the path of its url, and whether its transport is 'sse'",
        ),
        (Page(500, "application/json", b"{oops"), "answered 500 Internal Server Error"),
        (Page(503), "answered 503 Service Unavailable"),
        (Page(599), "answered 599"),
        (Page(200), "answered with a web page, not with MCP; check the path of its url"),
    ],
)
async def test_a_refusal_says_what_it_was(page: Page, reason: str, transport: Transport) -> None:
    with serving(page) as address:
        config = ServerConfig(url=f"{address}/mcp?key={SECRET}")
        assert await failure(config, transport) == f"{address}/mcp {reason}"


@pytest.mark.parametrize("transport", [http_transport, sse_transport])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_header_that_was_not_accepted_is_not_asked_for_again(
    status: int, transport: Transport
) -> None:
    with serving(Page(status)) as address:
        config = at(address, headers={"Authorization": SECRET})
        assert (await failure(config, transport)).endswith("; its Authorization header was not accepted")


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(200, "application/json", b"{}"), "it gave an answer that is not JSON-RPC"),
        (Page(200, "application/json", b"oops"), "it gave an answer that is not JSON-RPC"),
        (Page(200, "text/event-stream", b": hello\n\n"), "it ended the event stream without an answer"),
        (Page(204, ""), "{address}/mcp answered with nothing, not with MCP; check the path of its url"),
        (
            Page(307, location="http://elsewhere.invalid/x"),
            "Redirect to http://elsewhere.invalid/x not followed; use that URL as the endpoint if it is the intended server",
        ),
        (
            Page(
                400,
                "application/json",
                b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "bad, bad"}}',
            ),
            "bad, bad",
        ),
    ],
)
async def test_failures_of_streamable_http(page: Page, reason: str) -> None:
    with serving(page) as address:
        assert await failure(at(address), http_transport) == reason.replace("{address}", address)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (
            Page(200, "application/json", b"{}"),
            "{address}/mcp answered with 'application/json', not with MCP; check the path of its url",
        ),
        (
            Page(200, "text/event-stream", b": hello\n\n"),
            "{address}/mcp ended the event stream before it named the address to post to",
        ),
        (
            Page(200, "text/event-stream", b"event: endpoint\ndata: http://elsewhere.invalid/x?a=b\n\n"),
            "{address}/mcp wants messages to be sent to another server, http://elsewhere.invalid/x",
        ),
    ],
)
async def test_failures_of_event_streams(page: Page, reason: str) -> None:
    with serving(page) as address:
        assert await failure(at(address), sse_transport) == reason.replace("{address}", address)


@pytest.mark.parametrize("transport", [http_transport, sse_transport])
async def test_a_server_that_is_not_there_is_named(transport: Transport) -> None:
    with closed_port() as port:
        nobody = f"http://127.0.0.1:{port}/mcp"
        assert await failure(ServerConfig(url=nobody), transport) == f"nothing listens at {nobody}"
    reason = await failure(ServerConfig(url=f"http://me:{SECRET}@nobody.invalid/mcp"), transport)
    assert reason.startswith("the host of http://nobody.invalid/mcp could not be found: ")


@pytest.mark.parametrize("transport", [http_transport, sse_transport])
async def test_a_certificate_that_is_not_trusted_is_refused_and_said(
    transport: Transport, certificate: Path
) -> None:
    files = {"ssl_keyfile": certificate / "key.pem", "ssl_certfile": certificate / "cert.pem"}
    with serving(Page(200), **files) as address:
        reason = await failure(at(address), transport)
    assert reason.startswith(
        f"the certificate of {address}/mcp is not trusted: self-signed certificate; SSL_CERT_FILE"
    )


@pytest.mark.proof
async def test_a_certificate_that_is_trusted_is_accepted(certificate: Path) -> None:
    files = {"ssl_keyfile": certificate / "key.pem", "ssl_certfile": certificate / "cert.pem"}
    program = (
        "import sys, anyio\n"
        "from mcp.client.session import ClientSession\n"
        "from toolcrib.execution.mcp.config import ServerConfig\n"
        "from toolcrib.execution.mcp.transport.http import http_transport\n"
        "async def main():\n"
        "    async with http_transport(ServerConfig(url=sys.argv[1])) as streams, ClientSession(*streams) as found:\n"
        "        print((await found.initialize()).server_info.name)\n"
        "anyio.run(main)\n"
    )
    with serving(app("http"), **files) as address:
        command = [sys.executable, "-c", program, f"{address}/mcp"]
        done = await anyio.run_process(command, env={"SSL_CERT_FILE": str(certificate / "cert.pem")})
    assert done.stdout == b"typed\n"


@pytest.mark.parametrize("transport", [http_transport, sse_transport])
async def test_a_server_without_tls_is_told_from_one_with_a_bad_one(transport: Transport) -> None:
    with serving(Page(200)) as address:
        secure = address.replace("http:", "https:")
        reason = await failure(at(secure), transport)
        assert reason == f"{secure}/mcp does not speak TLS; perhaps its url begins with http://"


@asynccontextmanager
async def dispatcher(*answers: bytes, hold: bool = False) -> AsyncIterator[str]:
    """Answer each request with bytes, one after the other, and hang up; with `hold` only when the block ends."""
    left = list(answers)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(left.pop(0) if left else b"")
            if hold:
                await anyio.sleep_forever()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of a socket
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


def head(kind: str, *, length: int | None = None, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close"]
    lines += [] if length is None else [f"content-length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "broke off the connection"),
        (b"nonsense\r\n\r\n", "broke off the connection"),
        (head("application/json", length=100) + b'{"json', "broke off the connection"),
        (head("application/json", length=100, status="500 Oops"), "broke off the connection"),
    ],
)
async def test_a_connection_that_breaks_off_fails_its_request_alone(answer: bytes, reason: str) -> None:
    async with dispatcher(answer, answer) as address, connect(at(address)) as found:
        for _ in range(2):
            with pytest.raises(MCPError) as caught, anyio.fail_after(PATIENCE):
                await found.send_discover("2026-07-28")
            assert (caught.value.code, transport_facts(caught.value.error.data)) == (-32000, {"sent": True})
            assert reason_of(caught.value) == f"{address}/mcp {reason}"


async def test_an_event_stream_that_breaks_off_fails_its_request_alone() -> None:
    answer = head("text/event-stream", length=100) + b": comment\n\n"
    async with dispatcher(answer, answer) as address, connect(at(address)) as found:
        for _ in range(2):
            with pytest.raises(MCPError) as caught, anyio.fail_after(PATIENCE):
                await found.send_discover("2026-07-28")
            assert reason_of(caught.value) == "it ended the event stream without an answer"


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    answer = head("application/json", length=10**12) + b" " * 200_000
    async with (
        dispatcher(answer, hold=True) as address,
        connect(at(address), max_message_bytes=100_000) as found,
    ):
        with pytest.raises(MCPError, match="more than 100000 bytes"), anyio.fail_after(PATIENCE):
            await found.send_discover("2026-07-28")


async def test_a_server_that_never_answers_blocks_no_cancellation() -> None:
    async with dispatcher(b"", b"", b"", hold=True) as address, connect(at(address)) as found:
        for _ in range(2):
            with anyio.fail_after(PATIENCE), anyio.move_on_after(0.05) as scope:
                await found.send_discover("2026-07-28")
            assert scope.cancelled_caught


async def test_a_server_that_does_not_answer_the_farewell_is_left_all_the_same() -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": hello}).encode()
    answer = head("application/json", length=len(body), mcp_session_id="abc") + body
    accepted = head("text/plain", length=0, status="202 Accepted")
    with anyio.fail_after(PATIENCE):
        async with dispatcher(answer, accepted, hold=True) as address, connect(at(address)) as found:
            await found.initialize()


class Restarted:
    """An application that can drop its sessions."""

    def __init__(self) -> None:
        self.inner = app("http")
        self.forgetful = False
        self.connections: set[Any] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.connections.add(scope["client"])
        if self.forgetful and b"mcp-session-id" in dict(scope.get("headers", ())):
            await Page(404)(scope, receive, send)
        else:
            await self.inner(scope, receive, send)


async def test_a_session_that_the_server_has_forgotten_is_told_as_such() -> None:
    restarted = Restarted()
    with serving(restarted) as address:
        async with http_transport(at(address)) as streams, session(streams) as found:
            await found.initialize()
            restarted.forgetful = True
            with pytest.raises(MCPError, match="Session terminated"):
                await call(found, "echo", text="?")


async def test_connections_are_kept_between_calls() -> None:
    counted = Restarted()
    with serving(counted) as address:
        async with http_transport(at(address)) as streams, session(streams) as found:
            await negotiate_auto(found)
            for _ in range(20):
                await call(found, "echo", text="again")
    assert len(counted.connections) <= 10  # on a busy machine one may be idle for too long


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_goes_away_is_told_and_one_that_is_back_is_reached(kind: str) -> None:
    with closed_port() as port:
        await goes_away_and_comes_back(port, kind)


async def goes_away_and_comes_back(port: int, kind: str) -> None:
    seen: list[Any] = []
    config = at(f"http://127.0.0.1:{port}", kind)
    with serving(app(kind), port=port) as address:
        stack = AsyncExitStack()
        streams = await stack.enter_async_context(transport_of(kind)(config))
        found = await stack.enter_async_context(session(streams, seen))
        await negotiate_auto(found)
    async with stack:
        with pytest.raises(MCPError) as caught:
            await call(found, "echo", text="?")
        assert caught.value.code == -32000
        if kind == "sse":
            await until(lambda: bool(seen))
            assert reason_of(seen[0]) in {
                "the server ended the event stream",
                f"{config.url} broke off the connection",
            }
            return
        assert reason_of(caught.value) == f"nothing listens at {address}/mcp"
        assert transport_facts(caught.value.error.data) == {"sent": False}
        assert never_sent(caught.value)
        with serving(app(kind), port=port):
            assert await call(found, "echo", text="back") == "back"


async def test_a_post_that_fails_fails_its_request_alone() -> None:
    inner, broken = app("sse"), False

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if broken and scope.get("method") == "POST":
            await Page(500)(scope, receive, send)
        else:
            await inner(scope, receive, send)

    with serving(outer) as address:
        async with sse_transport(at(address, "sse")) as streams, session(streams) as found:
            await found.initialize()
            broken = True
            with pytest.raises(MCPError, match="answered 500 Internal Server Error"):
                await call(found, "echo", text="?")
            await found.send_notification(RootsListChangedNotification())
            broken = False
            assert await call(found, "echo", text="on") == "on"


async def test_garbage_in_an_event_stream_is_skipped() -> None:
    inner = app("sse")

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        async def chatty(message: Any) -> None:
            if message.get("body", b"").startswith(b"event: message"):
                await send(
                    message | {"body": b"event: message\ndata: oops\n\nevent: other\ndata: {}\n\ndata:\n\n"}
                )
            await send(message)

        await inner(scope, receive, chatty)

    with serving(outer) as address:
        async with sse_transport(at(address, "sse")) as streams, session(streams) as found:
            await found.initialize()
            assert await call(found, "echo", text="on") == "on"


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_the_exceptions_of_the_block_come_out_as_they_are(kind: str) -> None:
    with serving(app(kind)) as address, pytest.raises(KeyError, match="mine"):
        async with transport_of(kind)(at(address, kind)):
            raise KeyError("mine")


async def test_a_session_that_does_not_listen_can_be_left() -> None:
    with serving(app("sse")) as address, anyio.fail_after(PATIENCE):
        async with sse_transport(at(address, "sse")) as (read, write):
            await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
            await read.aclose()
        async with sse_transport(at(address, "sse")) as (read, write):
            await write.send(
                SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping", params={"a": "\ud800"}))
            )
            await read.aclose()
            await anyio.wait_all_tasks_blocked()


async def test_there_is_one_tls_context_and_only_where_it_may_be_needed() -> None:
    verify = [
        (await client_settings(ServerConfig(url=url)))["verify"]
        for url in ("https://a", "https://b:1", "http://c")
    ]
    assert all(context is tls_context() for context in verify)
    plain = (await client_settings(ServerConfig(url="http://127.0.0.1:8000/mcp")))["verify"]
    assert plain is not tls_context()
    assert plain.verify_mode is ssl.CERT_REQUIRED
    assert plain.cert_store_stats()["x509_ca"] == 0


async def test_an_event_stream_that_breaks_off_is_told_and_ends() -> None:
    hello = head("text/event-stream", length=1000) + b"data: early\n\nevent: endpoint\ndata: /post\n\n"
    seen: list[Any] = []
    async with dispatcher(hello) as address, sse_transport(at(address)) as streams, session(streams, seen):
        await until(lambda: bool(seen))
    assert reason_of(seen[0]) == f"{address}/mcp broke off the connection"


async def test_an_event_stream_that_the_server_ends_is_told_and_ends() -> None:
    seen: list[Any] = []
    with serving(Page(200, "text/event-stream", b"event: endpoint\ndata: /post\n\n")) as address:
        async with sse_transport(at(address)) as streams, session(streams, seen):
            await until(lambda: bool(seen))
    assert reason_of(seen[0]) == "the server ended the event stream"


async def test_the_client_leaves_other_requests_alone() -> None:
    with serving(Page(404)) as address:
        async with AnsweringClient(**await client_settings(at(address))) as client:
            response = await client.get(address)
    assert (response.status_code, response.content) == (404, b"<html>")


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_secrets_in_an_address_reach_the_server_and_are_not_logged(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    inner, seen = app(kind), []

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append((dict(scope["headers"]).get(b"authorization"), scope["query_string"]))
        await inner(scope, receive, send)

    with serving(outer) as address, caplog.at_level(logging.DEBUG):
        where = at(address.replace("//", f"//me:{SECRET}@"), kind).url
        config = ServerConfig(url=f"{where}?key={SECRET}")
        async with transport_of(kind)(config) as streams, session(streams) as found:
            await found.initialize()
            assert await call(found, "echo", text="on") == "on"
    assert seen[0] == (b"Basic " + base64.b64encode(f"me:{SECRET}".encode()), f"key={SECRET}".encode())
    told = [
        record.getMessage() for record in caplog.records if record.name.startswith(("httpx2", "mcp.client"))
    ]
    assert any(message.startswith(f"HTTP Request: POST {address}") for message in told)
    assert SECRET not in "".join(told)
    if kind == "http":
        assert "Received session ID: ..." in told


async def test_the_requests_of_others_are_logged_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Page(200)) as address, caplog.at_level(logging.INFO):
        async with httpx2.AsyncClient() as client:
            await client.get(f"{address}/x?key=mine")
    assert "key=mine" in caplog.text

"""`PostClient`: connections are kept, used again, and closed when they cannot be trusted any more."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from toolcrib.execution.mcp.transport.post_client import PostClient

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n"
)


class Scripted:
    """A server that answers each request with the same bytes, in two pieces."""

    def __init__(self, answer: bytes, *, closes: bool) -> None:
        self.pieces = [answer[: len(answer) // 2], answer[len(answer) // 2 :]]
        self.closes = closes
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, stream: ByteStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while True:
                    self.requests.append(await stream.receive())
                    for piece in self.pieces:
                        await stream.send(piece)
                    if self.closes:
                        return
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return


@asynccontextmanager
async def posting(
    answer: bytes,
    *,
    closes: bool = False,
    connections: int = 2,
    max_bytes: int = 100,
    certificate: Path | None = None,
    trusted: Path | None = None,
) -> AsyncIterator[tuple[PostClient, Scripted]]:
    server = Scripted(answer, closes=closes)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tls = (
            None
            if certificate is None
            else ssl.create_default_context(cafile=trusted and trusted / "cert.pem")
        )
        if certificate is None:
            tasks.start_soon(listener.serve, server.serve)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            secure = TLSListener(listener, context, standard_compatible=False)
            tasks.start_soon(secure.serve, server.serve)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not of Django
        plain = PostClient(
            httpx2.URL(f"{'https' if tls else 'http'}://127.0.0.1:{port}/mcp?x=1"),
            {"user-agent": "a test", "Accept-Encoding": "gzip"},
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=60.0),
            timeout=httpx2.Timeout(30.0, pool=0.05),
            max_bytes=max_bytes,
            tls=tls,
        )
        try:
            yield plain, server
        finally:
            await plain.aclose()
            tasks.cancel_scope.cancel()


async def test_a_connection_is_used_again_once_its_reply_was_read() -> None:
    async with posting(OK) as (plain, server):
        bodies = [bytes((await plain.post(b"[1]", {"mcp-name": "add"})).data) for _ in range(3)]
    assert (bodies, server.connections, len(server.requests)) == ([b"{}"] * 3, 1, 3)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    assert (first, body) == (b"POST /mcp?x=1 HTTP/1.1", b"[1]")
    assert {b"user-agent: a test", b"mcp-name: add", b"content-length: 3"} < set(lines)
    assert not [line for line in lines if b"encoding" in line.lower()]


async def test_tls_connection_is_used_again_once_its_reply_was_read(certificate: Path) -> None:
    async with posting(OK, certificate=certificate, trusted=certificate) as (client, server):
        bodies = [bytes((await client.post(b"[1]", {})).data) for _ in range(3)]
    assert (bodies, server.connections) == ([b"{}"] * 3, 1)


async def test_server_whose_certificate_is_not_trusted_is_sent_nothing(certificate: Path) -> None:
    async with posting(OK, certificate=certificate) as (client, server):
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await client.post(b"{}", {})
    assert server.requests == []


async def test_tls_connection_with_a_second_reply_in_another_record_is_not_used_again(
    certificate: Path,
) -> None:
    async with posting(OK, certificate=certificate, trusted=certificate) as (client, server):
        server.pieces = [OK, OK]
        for _ in range(2):
            assert (await client.post(b"{}", {})).data == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK.replace(b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nx: 1\r\n\r\n"), b"{}"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
    ],
    ids=["chunks and a trailer", "an interim reply"],
)  # fmt: skip
async def test_every_kind_of_body_is_read_to_its_end(answer: bytes, body: bytes) -> None:
    async with posting(answer) as (plain, server):
        replies = [await plain.post(b"{}", {}) for _ in range(2)]
    assert [bytes(each.data) for each in replies] == [body, body]
    assert server.connections == 1
    assert b"x" not in dict(replies[0].headers)


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[1]"
    async with posting(answer, closes=True) as (plain, server):
        bodies = [bytes((await plain.post(b"{}", {})).data) for _ in range(2)]
    assert (bodies, server.connections) == ([b"[1]"] * 2, 2)


async def test_response_that_is_not_json_is_streamed() -> None:
    async with posting(EVENTS) as (plain, server):
        reply = await plain.post(b"{}", {})
        response = reply.to_httpx(httpx2.Request("POST", plain.url))
        pieces = response.aiter_raw()
        first = await anext(pieces)
        await response.aclose()
        await plain.post(b"{}", {})
    assert (reply.is_json, first, response.headers["content-type"]) == (False, b"ok", "text/event-stream")
    assert server.connections == 2  # the first is still in the middle of its reply


@pytest.mark.parametrize("header", [b"set-cookie: a=b", b"content-encoding: gzip"])
async def test_response_that_needs_inspection_is_passed_to_httpx(header: bytes) -> None:
    async with posting(OK.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n\r\n")) as (plain, _):
        reply = await plain.post(b"{}", {})
    assert not reply.is_json


@pytest.mark.parametrize(
    "answer",
    [OK + OK, OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")],
    ids=["a reply that nobody asked for", "connection: close"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_used_again(answer: bytes) -> None:
    async with posting(answer) as (plain, server):
        for _ in range(2):
            assert (await plain.post(b"{}", {})).data == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [OK.replace(b": 2", b": 9"), b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: y"],
    ids=["a short body", "something else", "half a head"],
)
async def test_a_broken_reply_is_an_error_of_the_server(answer: bytes) -> None:
    async with posting(answer, closes=True) as (plain, _):
        with pytest.raises(httpx2.RemoteProtocolError):
            await plain.post(b"{}", {})


@pytest.mark.parametrize("length", [b"content-length: 101", b"transfer-encoding: chunked"])
async def test_a_reply_that_is_too_long_is_not_read(length: bytes) -> None:
    body = b"x" * 101 if b": 101" in length else b"65\r\n" + b"x" * 101 + b"\r\n"
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + length + b"\r\n\r\n" + body
    async with posting(answer) as (plain, _):
        with pytest.raises(httpx2.DecodingError, match="more than 100 bytes"):
            await plain.post(b"{}", {})


async def test_headers_without_an_end_are_an_error_of_the_server() -> None:
    async with posting(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000) as (plain, _):
        with pytest.raises(httpx2.RemoteProtocolError):
            await plain.post(b"{}", {})


async def test_no_more_connections_are_opened_than_there_may_be() -> None:
    async with posting(EVENTS, connections=1) as (plain, server):
        for _ in range(2):
            reply = await plain.post(b"{}", {})
            with pytest.raises(httpx2.PoolTimeout):
                await plain.post(b"{}", {})
            await reply.aclose()
    assert server.connections == 2


async def test_a_server_that_is_not_there_is_one_that_was_sent_nothing() -> None:
    async with posting(OK) as (plain, _):
        pass
    with pytest.raises(httpx2.ConnectError):
        await plain.post(b"{}", {})


@pytest.mark.parametrize("value", ["a\r\n\r\nGET / HTTP/1.1", "a\nb: c", "é"])
async def test_a_header_cannot_carry_another_request(value: str) -> None:
    async with posting(OK) as (plain, server):
        with pytest.raises(ValueError, match=r"header|ascii"):
            await plain.post(b"{}", {"x": value})
    assert server.requests == []


async def test_a_post_that_is_cancelled_takes_its_connection_with_it() -> None:
    async with posting(OK.replace(b": 2", b": 9"), connections=1) as (plain, server):
        for _ in range(2):
            with anyio.move_on_after(0.05):
                await plain.post(b"{}", {})
    assert server.connections == 2

"""The proxy of a server: named hosts pass, others are refused and logged, and no input ends it."""

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketListener, SocketStream
from waiting import PATIENCE

from toolcrib.execution.mcp.walls.hosts import parse_host
from toolcrib.execution.mcp.walls.proxy import HostProxy

pytestmark = pytest.mark.anyio

NAMES = {
    "named.example": ["127.0.0.1"],
    "public.example": ["93.184.215.14"],
    "inner.example": ["10.0.0.7"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["10.0.0.7", "127.0.0.1"],
    "loop.example": ["127.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.7"],
}


async def look_up(host: str, port: int) -> Sequence[str]:
    assert port
    if host not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "not known")
    return NAMES[host]


class Upstream:
    """A server that echoes its input, after the head of the request or 5 bytes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: list[bytes] = []

    async def handle(self, stream: SocketStream) -> None:
        async with stream:
            received = b""
            while not (received.startswith(b"hello") or b"\r\n\r\n" in received):
                received += await stream.receive()
            self.heard.append(received)
            await stream.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" if b"HTTP" in received else received
            )
            await stream.send_eof()
            async for more in stream:
                self.heard.append(more)


@asynccontextmanager
async def run_proxy(*hosts: str, trusts_names: bool = False) -> AsyncIterator[tuple[int, Upstream]]:
    """Give the port of a proxy for hosts, and a server; `PORT` in a host is that of the server."""
    ends = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    port, upstream = ends[0].getsockname()[1], Upstream(ends[1].getsockname()[1])
    allowed = [parse_host(host.replace("PORT", str(upstream.port))) for host in hosts]
    proxy = HostProxy("it", allowed, trusts_names=trusts_names, lookup=look_up)
    async with await SocketListener.from_socket(ends[1]) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(proxy.serve, await SocketListener.from_socket(ends[0]))
        tasks.start_soon(listener.serve, upstream.handle)
        yield port, upstream
        tasks.cancel_scope.cancel()


async def ask(port: int, request: bytes) -> bytes:
    """Return the response until the connection is closed."""
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request)
            await stream.send_eof()
            return b"".join([part async for part in stream])


async def test_a_named_address_is_connected_to_and_all_is_passed_on_both_ways() -> None:
    async with run_proxy("127.0.0.1:PORT") as (port, upstream):
        answer = await ask(
            port, f"CONNECT 127.0.0.1:{upstream.port} HTTP/1.1\r\nHost: x\r\n\r\nhello there".encode()
        )
        assert answer == b"HTTP/1.1 200 OK\r\n\r\nhello there"
        assert b"".join(upstream.heard) == b"hello there"


async def test_a_plain_request_is_passed_on_without_what_is_for_proxies() -> None:
    async with run_proxy("127.0.0.1") as (port, upstream):
        lines = [
            f"GET http://127.0.0.1:{upstream.port}/a/b?c=d HTTP/1.1",
            f"Host: 127.0.0.1:{upstream.port}",
            "Proxy-Authorization: Basic eDp5",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive",
            "X-Own: 1",
        ]
        answer = await ask(port, "\r\n".join([*lines, "", ""]).encode())
        assert answer.endswith(b"\r\n\r\nhi")
        (heard,) = upstream.heard
        assert heard.decode().split("\r\n")[:-2] == [
            "GET /a/b?c=d HTTP/1.1",
            f"Host: 127.0.0.1:{upstream.port}",
            "X-Own: 1",
            "Connection: close",
        ]


async def test_a_trusted_name_may_have_a_private_address() -> None:
    async with run_proxy("loop.example", trusts_names=True) as (port, upstream):
        assert b"200 OK" in await ask(
            port, f"CONNECT loop.example:{upstream.port} HTTP/1.1\r\n\r\nhello".encode()
        )


async def test_a_name_with_a_private_address_that_is_named_too_passes() -> None:
    async with run_proxy("mixed.example", "127.0.0.1") as (port, upstream):
        assert b"200 OK" in await ask(
            port, f"CONNECT mixed.example:{upstream.port} HTTP/1.1\r\n\r\nhello".encode()
        )


@pytest.mark.parametrize(
    ("target", "status", "reason"),
    [
        ("CONNECT other.example:443", 403, "is not among the hosts"),
        ("CONNECT named.example:8080", 403, "is not among the hosts"),
        ("CONNECT 127.0.0.1:443", 403, "is not among the hosts"),
        ("CONNECT 0x7f.1:443", 403, "is not among the hosts"),
        ("CONNECT [::1]:443", 403, "is not among the hosts"),
        ("CONNECT sub.named.example:443", 403, "is not among the hosts"),
        ("CONNECT named.example:443", 403, "loopback"),
        ("CONNECT named.example.:443", 403, "loopback"),
        ("CONNECT inner.example:443", 403, "private"),
        ("CONNECT mapped.example:443", 403, "private"),
        ("CONNECT metadata.example:80", 403, "link-local"),
        ("GET http://metadata.example/latest/meta-data", 403, "link-local"),
        ("GET http://other.example/", 403, "is not among the hosts"),
        ("CONNECT gone.example:443", 502, "cannot be looked up"),
        ("CONNECT named.example", 400, "needs a port"),
        ("CONNECT named.example:99999", 400, "the request names no valid host"),
        ("CONNECT :443", 400, "name the host"),
        ("GET /", 400, "name the host"),
        ("GET https://named.example/", 400, "use CONNECT"),
        ("GET ftp://named.example/", 400, "use CONNECT"),
        ("nonsense", 400, "name the host"),
    ],
)
async def test_refused_request_gets_a_response(target: str, status: int, reason: str) -> None:
    hosts = ("named.example:443", "inner.example", "mapped.example", "metadata.example", "gone.example")
    async with run_proxy(*hosts) as (port, upstream):
        answer = (await ask(port, f"{target} HTTP/1.1\r\nHost: named.example\r\n\r\n".encode())).decode()
        assert answer.startswith(f"HTTP/1.1 {status} ")
        assert reason in answer
        assert upstream.heard == []


async def test_a_refused_host_is_logged_once_with_what_to_add(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with run_proxy("named.example") as (port, _):
        for target in (
            "one.example:443",
            "one.example:80",
            "two.example:8443",
            "one.example:443",
            "named.example:443",
        ):
            await ask(port, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert [record.message for record in caplog.records] == [
        "server 'it' was refused 'one.example': it may not be reached; add 'one.example' to its `network`",
        "server 'it' was refused 'two.example:8443': it may not be reached; add 'two.example:8443' to its `network`",
        "server 'it' was refused 'named.example': '127.0.0.1' is a loopback address; add it to its `network` if that is intended",
    ]


async def test_many_refused_hosts_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with run_proxy("named.example") as (port, _):
        for number in range(130):
            await ask(port, f"CONNECT h{number}.example:443 HTTP/1.1\r\n\r\n".encode())
    assert len(caplog.records) == 100


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"\r\n\r\n",
        b"\x00\xff" * 100,
        b"CONNECT " + b"a" * 100_000,
        b"CONNECT a.example:443 HTTP/1.1\r\n" + b"X: " + b"y" * 100_000,
        b"CONNECT [::1:443 HTTP/1.1\r\n\r\n",
        b"CONNECT \xe9\xe9:443 HTTP/1.1\r\n\r\n",
        b"CONNECT a.example:\xc2\xb2 HTTP/1.1\r\n\r\n",
        b"GET http://[x HTTP/1.1\r\n\r\n",
        b"GET http://a.example:x/ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_no_input_ends_the_proxy(noise: bytes) -> None:
    async with run_proxy("127.0.0.1:PORT") as (port, upstream):
        await ask(port, noise)
        assert b"200 OK" in await ask(
            port, f"CONNECT 127.0.0.1:{upstream.port} HTTP/1.1\r\n\r\nhello".encode()
        )


async def test_a_host_that_does_not_answer_is_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{closed.getsockname()[1]}"
        async with run_proxy("127.0.0.1") as (port, _):
            assert b"does not answer on port" in await ask(
                port, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()
            )


async def test_connections_do_not_wait_for_each_other() -> None:
    async with run_proxy("127.0.0.1") as (port, upstream):
        request = f"CONNECT 127.0.0.1:{upstream.port} HTTP/1.1\r\n\r\nhello".encode()
        async with await anyio.connect_tcp("127.0.0.1", port) as idle, anyio.create_task_group() as tasks:
            await idle.send(b"CONNECT ")
            for _ in range(50):
                tasks.start_soon(ask, port, request)
        assert len(upstream.heard) == 50

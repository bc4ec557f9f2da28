"""Bytes as they may come and go: in any pieces, too many, too slowly, or never taken."""

import asyncio  # noqa: TID251 - the handler of errors is its
import errno
import hashlib
import json
import re
import resource
import select
import socket
import subprocess
import sys
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream
from gateway.app.raw import TIMES, connect, everything, site
from gateway.little_face import LittleFace
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio
CHILD = Path(__file__).parent.parent / "child.py"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


def call(name: str, arguments: dict[str, Any] | None = None) -> bytes:
    """Return a call of a tool as a stateless client sends it."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": arguments or {}, "_meta": about}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        b"MCP-Method: tools/call\r\nMCP-Name: %b\r\nContent-Length: %d\r\n\r\n%b"
    ) % (name.encode(), len(body), body)


async def in_pieces(client: httpx.AsyncClient, stream: SocketStream, pieces: list[bytes]) -> None:
    """Send pieces, each of which is read before the next one comes."""
    with suppress(anyio.BrokenResourceError):
        for piece in pieces:
            await stream.send(piece)
            await client.get("/health")


async def send_request(client: httpx.AsyncClient, *pieces: bytes) -> bytes:
    """Send a request in pieces, and return the whole response."""
    async with await connect(client) as stream:
        await in_pieces(client, stream, list(pieces))
        return await everything(stream)


def statuses(heard: bytes) -> list[int]:
    """Return the statuses of responses, in order."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


def cut(data: bytes, size: int) -> list[bytes]:
    """Return data in pieces."""
    return [data[start : start + size] for start in range(0, len(data), size)]


async def test_headers_may_come_in_one_piece_or_many_up_to_a_length() -> None:
    fine = LAST[:-2] + b"X-Long: " + b"x" * 31_000 + b"\r\n\r\n"
    many = LAST[:-2] + b"".join(b"X-%d: %b\r\n" % (each, b"x" * 30) for each in range(800)) + b"\r\n"
    long = LAST[:-2] + b"X-Long: " + b"x" * 34_000 + b"\r\n\r\n"
    async with site() as client:
        for size in (100_000, 9_000, 4_500):
            assert statuses(await send_request(client, *cut(fine, size))) == [200]
            assert statuses(await send_request(client, *cut(many, size))) == [200]
            assert statuses(await send_request(client, *cut(long, size))) == [431]
        assert statuses(await send_request(client, *cut(LAST, 7))) == [200]


async def test_headers_that_do_not_end_are_cut_off() -> None:
    async with site() as client:
        heard = await send_request(client, LAST[:-2] + b"X: y\r\n" * 10_000)
        assert statuses(heard) == [431]
        assert heard.endswith(b'{"error":"the headers of a request may have at most 32,768 bytes"}')
        assert statuses(await send_request(client, *[b"GET /" + b"x" * 20_000, b"x" * 20_000])) == [431]
        assert statuses(await send_request(client, HEALTH[:-2] + b"X: ", *[b"y" * 20_000] * 2)) == [431]


async def test_the_end_of_headers_may_be_split_anywhere() -> None:
    async with site() as client:
        for at in range(1, 5):
            assert statuses(await send_request(client, LAST[:-at], LAST[-at:])) == [200]


async def test_requests_in_one_piece_are_answered_in_order() -> None:
    async with site() as client:
        other = HEALTH.replace(b"/health", b"/nothing")
        assert statuses(await send_request(client, HEALTH + other + LAST)) == [200, 404, 200]
        body = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde"
        whole = HEALTH + body + LAST
        for size in (10, 50):
            assert statuses(await send_request(client, *cut(whole, size))) == [200, 405, 200]


async def test_a_client_that_asks_far_ahead_of_the_answers_is_cut_off() -> None:
    async with site() as client:
        assert len(statuses(await send_request(client, HEALTH * 90 + LAST))) == 91
        assert len(statuses(await send_request(client, HEALTH * 1000 + LAST))) < 1000


@pytest.mark.parametrize("late", [HEALTH[:20], CHUNKED + b"\r\n"], ids=["headers", "a body"])
async def test_a_call_is_not_cut_off_by_what_comes_late_after_it(late: bytes) -> None:
    for seconds in TIMES:
        face = LittleFace()
        async with (
            site(face=face, request_timeout=seconds) as client,
            await connect(client) as stream,
            await connect(client) as other,
        ):
            await stream.send(call("wait") + late)
            silent = await everything(other)  # which has had as long as the one that is kept waiting
            face.go_on.set()
            heard = await everything(stream)
        if face.started.is_set():
            break
    assert b" 408 " in silent
    assert statuses(heard) == [200, 408]
    assert b'"waited"' in heard


async def test_nonsense_after_a_call_gives_no_answer_to_it() -> None:
    face = LittleFace()
    async with site(face=face) as client, await connect(client) as stream:
        await stream.send(call("wait"))
        await face.started.wait()
        await stream.send(b"\x00nonsense\r\n\r\n")
        assert await everything(stream) == b""
        await face.cancelled.wait()


async def test_trailers_are_no_headers() -> None:
    async with site(token="t") as client:  # noqa: S106 - a test's
        secret = b"Authorization: Bearer t\r\n"
        bare = await send_request(client, CHUNKED + b"\r\n0\r\n" + secret + b"\r\n")
        nameless = CHUNKED.replace(b"Host: localhost\r\n", secret) + b"\r\n0\r\nHost: localhost\r\n\r\n"
        unnamed = await send_request(client, nameless)
        fine = b"POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        kept = await send_request(client, fine + b"2\r\nab\r\n0\r\nX: y\r\n\r\n" + LAST)
    assert statuses(bare) == [401]
    assert statuses(unnamed) == [421]
    assert statuses(kept) == [405, 200]


@pytest.mark.parametrize("piece", [b"X-Trailer: y\r\n" * 1000, b"x" * 10_000], ids=["lines", "line"])
async def test_trailers_that_do_not_end_are_cut_off(piece: bytes) -> None:
    async with site(request_bytes=1024) as client, await connect(client) as stream:
        await stream.send(CHUNKED + b"\r\n0\r\nX: ")
        await in_pieces(client, stream, [piece] * 20)
        assert statuses(await everything(stream)) in ([413], [])


async def test_refused_request_is_answered_without_waiting_for_its_body() -> None:
    post = b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Length: 1000000\r\n\r\n"
    async with site(token="t") as client:  # noqa: S106 - a test's
        for name, status in ((b"localhost", 401), (b"evil", 421)):
            heard = await send_request(client, post % name)
            assert statuses(heard) == [status]
            assert b"connection: close" in heard
        bare = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert statuses(await send_request(client, bare + LAST)) == [401, 200]


@pytest.mark.parametrize("drip", [b"", b"\r\n", b"GET /hea"], ids=["nothing", "lines", "a part"])
async def test_a_connection_is_not_held_by_what_is_no_request(drip: bytes) -> None:
    async with site(request_timeout=TIMES[0]) as client:
        assert statuses(await send_request(client, drip)) == [408]
    for pieces in [[HEALTH, drip]] * bool(drip) + [[HEALTH + drip]] * bool(drip.strip()):
        for seconds in TIMES:
            async with site(request_timeout=seconds) as client:
                found = statuses(await send_request(client, *pieces))
            if found != [408]:
                break
        assert found == [200, 408]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://evil/health", 421),
        (b"http://evil@localhost/health", 421),
        (b"http://localhost/health", 200),
        (b"http://127.0.0.1/health", 421),
        (b"/health?a=http://evil/", 200),
        (b"/mcp//", 404),
        (b"/mcp/a/b", 404),
        (b"/mcp/everything", 404),
        (b"*", 404),
        (b"http://evil", 400),
    ],
)
async def test_a_target_says_by_which_name_it_calls(target: bytes, status: int) -> None:
    async with site() as client:
        assert statuses(await send_request(client, LAST.replace(b"/health", target, 1))) == [status]


async def gone(stream: SocketStream) -> None:
    """Wait until the peer has closed the connection, without reading its data."""
    poll = select.poll()
    poll.register(stream.extra(SocketAttribute.raw_socket), 0)  # noqa: S610 - no database
    await until(lambda: poll.poll(0), "the other end is gone")


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    large = call("echo", {"a": "x" * 4_000_000})
    for last in (b"", b"Connection: close\r\n"):
        for seconds in TIMES:
            face = LittleFace()
            async with site(face=face, request_timeout=seconds) as client, await connect(client) as stream:
                with suppress(anyio.BrokenResourceError):
                    await stream.send(large.replace(b"Host", last + b"Host", 1))
                await gone(stream)
                heard = await everything(stream)
            if face.callers:
                break
        assert face.callers
        assert len(heard) < 8_000_000


async def test_a_client_that_takes_its_time_is_not() -> None:
    large = call("echo", {"a": "x" * 4_000_000}).replace(b"Host", b"Connection: close\r\nHost")
    for seconds in TIMES:
        heard = b""
        async with site(request_timeout=seconds) as client, await connect(client) as stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.send(large)
                while True:
                    heard += await stream.receive(60_000)
                    await anyio.sleep(seconds / 40)  # a hundred times and more
        if heard.endswith(b"}"):
            break
    assert heard.count(b"x") > 8_000_000
    assert heard.endswith(b"}")


async def open_used_connection(client: httpx.AsyncClient) -> SocketStream:
    """Return a connection on which a request was answered."""
    stream = await connect(client)
    await stream.send(HEALTH)
    await stream.receive()
    return stream


async def test_connections_beyond_the_limit_are_told_or_cut_off() -> None:
    async with site(sessions=1) as client:
        async with AsyncExitStack() as idle:
            for _ in range(202):
                await idle.enter_async_context(await open_used_connection(client))
            told = await send_last_request(client)
            for _ in range(70):
                await idle.enter_async_context(await connect(client))
            async with await connect(client) as stream:
                assert await everything(stream) == b""

        async def is_served() -> bool:
            return statuses(await send_last_request(client)) == [200]

        await until(is_served)
    assert statuses(told) == [503]


@pytest.mark.parametrize("said", [b"", HEALTH[:20]], ids=["nothing", "half a header"])
async def test_connections_that_say_nothing_keep_nobody_out(said: bytes) -> None:
    async with site(sessions=1) as client, AsyncExitStack() as idle:
        known = await idle.enter_async_context(await open_used_connection(client))
        silent = []
        for _ in range(300):
            silent.append(await idle.enter_async_context(await connect(client)))
            await silent[-1].send(said)
        assert statuses(await send_last_request(client)) == [200]
        assert await everything(silent[0]) == b"", "the oldest is closed"
        await known.send(LAST)
        assert statuses(await everything(known)) == [200]


async def test_a_token_makes_a_connection_known_and_a_wrong_one_does_not() -> None:
    tokens = {"ann": {"hash": f"sha256:{hashlib.sha256(b'secret').hexdigest()}"}}
    async with site(tokens=tokens, sessions=1) as client, AsyncExitStack() as idle:
        for token in (b"secret", b"wrong"):
            stream = await idle.enter_async_context(await connect(client))
            await stream.send(HEALTH[:-2] + b"Authorization: Bearer " + token + b"\r\n\r\n")
            assert statuses(await stream.receive()) == [200]
            for _ in range(150):
                await idle.enter_async_context(await connect(client))
            await client.get("/health")
            with suppress(anyio.BrokenResourceError):
                await stream.send(LAST)
            assert statuses(await everything(stream)) == ([200] if token == b"secret" else [])


async def test_connections_that_cannot_be_accepted_are_logged_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as client:
        await client.get("/health")
        loop = asyncio.get_running_loop()
        error = OSError(errno.EMFILE, "Too many open files")
        for _ in range(100):
            loop.call_exception_handler(
                {"message": "socket.accept() out of system resource", "exception": error}
            )
    assert [(each.name, each.exc_info) for each in caplog.records] == [("toolcrib.gateway", None)]
    assert "Too many open files; raise the limit" in caplog.text


async def send_last_request(client: httpx.AsyncClient) -> bytes:
    async with await connect(client) as stream:
        await stream.send(LAST)
        return await everything(stream)


@pytest.mark.proof
def test_there_are_fewer_connections_than_descriptors() -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 500))

    command = [sys.executable, str(CHILD), "http"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, preexec_fn=few) as child:  # noqa: PLW1509 - no threads
        assert child.stdout is not None
        url = httpx.URL(child.stdout.readline().decode().strip())
        with ExitStack() as idle:
            for _ in range(200):
                idle.enter_context(socket.create_connection(("127.0.0.1", url.port or 0)))
            with socket.create_connection(("127.0.0.1", url.port or 0)) as one:
                one.sendall(LAST)
                answer = one.recv(100)
        child.terminate()
        _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0
    assert statuses(answer) == [200]
    assert b"accept" not in errors
    assert b"Traceback" not in errors

"""Requests that are not as they should be, against a real server."""

import socket
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest
from gateway.app.raw import HELLO, TIMES, connect, everything, site
from gateway.little_face import LittleFace, serving
from mcp import Client
from waiting import PATIENCE

from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.errors import ConfigError
from toolcrib.gateway import Gateway
from toolcrib.gateway.app.asgi import Receive, Scope, Send, reply
from toolcrib.gateway.app.guard import AccessRules, Guard
from toolcrib.gateway.limits import LARGE_REQUEST

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/mcp", "/health", "/ready", "/metrics", "/nothing"])
async def test_a_wrong_name_or_origin_is_refused_everywhere(path: str) -> None:
    async with site() as client:
        host = await client.post(path, json=HELLO, headers={"host": "evil.example.com"})
        origin = await client.post(path, json=HELLO, headers={"origin": "http://evil.example.com"})
        both = {"host": "evil.example.com", "origin": "http://evil.example.com"}
        rebound = await client.post(path, json=HELLO, headers=both)
    assert (host.status_code, origin.status_code, rebound.status_code) == (421, 403, 403)
    assert "allowed_hosts" in host.json()["error"]
    assert "allowed_origins" in origin.json()["error"]
    assert "access-control-allow-origin" not in origin.headers


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8", "crib.test", "crib.test:1"]
)
async def test_names_of_this_machine_and_of_the_settings_are_right(name: str) -> None:
    async with site(allowed_hosts=["crib.test"]) as client:
        answer = await client.post("/mcp", json=HELLO, headers={"host": name})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "name",
    ["localhost.evil.com", "evil.com:80@localhost", "127.0.0.1.evil.com", "localhost:1:2", "[::1", "-"],
)
async def test_names_that_only_look_right_are_wrong(name: str) -> None:
    async with site() as client:
        answer = await client.post("/mcp", json=HELLO, headers={"host": name})
    assert answer.status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://app.test", 200),
        ("https://app.test:444", 403),
        ("http://app.test", 403),
        ("null", 403),
        ("file://", 403),
        ("http://localhost.evil.com", 403),
        ("http://evil.com/localhost", 403),
    ],
)
async def test_web_pages_of_this_machine_and_of_the_settings_may_call(origin: str, status: int) -> None:
    async with site(allowed_origins=["https://app.test/"]) as client:
        answer = await client.post("/mcp", json=HELLO, headers={"origin": origin})
        ask = {"origin": origin, "access-control-request-method": "POST"}
        before = await client.options("/mcp", headers=ask)
    assert answer.status_code == status
    assert before.status_code == (204 if status == 200 else 403)
    allowed = origin if status == 200 else None
    assert answer.headers.get("access-control-allow-origin") == allowed
    assert before.headers.get("access-control-allow-origin") == allowed
    assert ("mcp-session-id" in before.headers.get("access-control-allow-headers", "")) is (status == 200)


async def test_any_web_page_may_call_where_the_settings_say_so() -> None:
    async with site(allowed_origins=["*"]) as client:
        answer = await client.post("/mcp", json=HELLO, headers={"origin": "https://any.test"})
    assert answer.headers["access-control-allow-origin"] == "https://any.test"


async def test_the_token_is_asked_for_but_not_by_probes() -> None:
    async with site(token="${CRIB_TOKEN}-1", environ={"CRIB_TOKEN": "secret"}) as client:  # noqa: S106 - a test's
        bare = {
            path: await client.get(path) for path in ("/mcp", "/metrics", "/health", "/ready", "/nothing")
        }
        for wrong in ("Bearer secret", "Basic secret-1", "secret-1", "Bearer sécret-1", "Bearer"):
            answer = await client.get("/metrics", headers={"authorization": wrong.encode("latin-1")})
            assert answer.status_code == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        client.headers["authorization"] = "Bearer secret-1"
        known = {path: await client.get(path) for path in ("/metrics", "/ready")}
        opened = await client.post("/mcp", json=HELLO)
    assert {path: answer.status_code for path, answer in bare.items()} == {
        "/mcp": 401,
        "/metrics": 401,
        "/health": 200,
        "/ready": 200,
        "/nothing": 401,
    }
    assert bare["/mcp"].headers["www-authenticate"] == 'Bearer realm="toolcrib"'
    assert bare["/ready"].json() == {"status": "ready"}
    assert known["/ready"].json() == {"status": "ready", "servers": {}}
    assert known["/metrics"].status_code == opened.status_code == 200
    assert "secret" not in str(bare)


async def test_a_token_that_cannot_be_made_out_is_told_at_once() -> None:
    for token, said in (
        ("${NOBODY}", "NOBODY"),
        (" spaced ", "without spaces"),
        ("spaced out", "without spaces"),
        ("${EMPTY:-}", "printable"),
    ):
        gateway = Gateway({"gateway": {"token": token}}, environ={}, frontends=lambda *_: LittleFace())
        with pytest.raises(ConfigError, match=said):
            await gateway.__aenter__()


async def test_remote_clients_need_a_token() -> None:
    async with Gateway(frontends=lambda *_: LittleFace()) as gateway:
        for host in ("0.0.0.0", "::", "192.0.2.1", "crib.test"):  # noqa: S104 - it has a token, or is refused
            with pytest.raises(ConfigError, match=r"needs a token: set gateway\.token"):
                await gateway.serve_http(host=host, port=0)


async def test_a_port_or_host_that_cannot_be_had_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with Gateway({"gateway": {"token": "t"}}, frontends=lambda *_: LittleFace()) as gateway:
            with pytest.raises(
                ConfigError,
                match=r"is in use; stop the process that listens there, or choose another with --port or gateway\.port",
            ):
                await gateway.serve_http(port=taken.getsockname()[1])
            with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
                await gateway.serve_http(host="192.0.2.1", port=0)
            with pytest.raises(ConfigError, match="'no such host'"):
                await gateway.serve_http(host="no such host", port=0)


async def test_the_other_loopback_and_all_addresses_are_served() -> None:
    async with Gateway({"gateway": {"token": "t"}}, frontends=lambda *_: LittleFace()) as gateway:
        async with serving(gateway, host="::1") as url, httpx.AsyncClient() as client:
            assert url.startswith("http://[::1]:")
            assert (await client.get(f"{url}/health")).status_code == 200
        async with serving(gateway, host="0.0.0.0") as url, httpx.AsyncClient() as client:  # noqa: S104 - it has a token, or is refused
            assert "0.0.0.0" not in url  # noqa: S104 - which no other machine can call
            assert (await client.get(f"{url}/health")).status_code == 200
            here = f"http://127.0.0.1:{url.rpartition(':')[2]}"
            assert (await client.get(f"{here}/health")).status_code == 200
            names = {socket.gethostname(): 200, "0.0.0.0": 421, "evil.example": 421, "198.51.100.7": 421}  # noqa: S104 - as above
            for name, status in names.items():
                assert (await client.get(f"{here}/health", headers={"host": name})).status_code == status


async def test_large_bodies_are_refused_before_they_are_read() -> None:
    async with site() as client:
        async with await connect(client) as stream:
            length = b"Content-Length: 20971520"
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n\r\n{")
            told = await stream.receive()
        async with await connect(client) as stream:
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
            with suppress(anyio.BrokenResourceError):
                for _ in range(320):  # 20 MB, unless it is told before
                    await stream.send(piece)
            streamed = await everything(stream)
        assert (await client.post("/mcp", json=HELLO)).status_code == 200
    assert told.startswith(b"HTTP/1.1 413")
    assert b"4,194,304 bytes" in told
    assert not streamed or streamed.startswith(b"HTTP/1.1 413")


async def test_invalid_message_gets_an_error_and_harms_nothing() -> None:
    async with site() as client:
        modern = {"mcp-protocol-version": "2026-07-28"}
        for content in (
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff",
            b'{"jsonrpc":"2.0"}',
            b"[" * 100_000,
            b'{"id":' + b"9" * 5000 + b"}",
        ):
            for headers in ({}, modern, {"mcp-protocol-version": "1999-01-01"}, {"mcp-session-id": "nobody"}):
                answer = await client.post("/mcp", content=content, headers=headers)
                assert 400 <= answer.status_code < 500, (content[:20], headers, answer.status_code)
                assert "Traceback" not in answer.text
        for headers in (
            {"accept": "text/html"},
            {"content-type": "text/plain"},
            {**modern, "mcp-method": "x"},
        ):
            assert 400 <= (await client.post("/mcp", json=HELLO, headers=headers)).status_code < 500
        for method in ("PUT", "PATCH", "GET", "DELETE", "OPTIONS", "PURGE"):
            assert 400 <= (await client.request(method, "/mcp")).status_code < 500
            assert (await client.request(method, "/health")).status_code == (200 if method == "GET" else 405)
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.get("/mcp/nobody")).status_code == 404
        async with Client(f"{client.base_url}/mcp", mode="legacy") as sound:
            assert (await sound.call_tool("echo", {})).structured_content == {"value": {}}


async def test_slow_senders_are_cut_off() -> None:
    for seconds in TIMES:
        async with site(request_timeout=seconds) as client:
            silent, headless, bodiless, second = [await connect(client) for _ in range(4)]
            async with silent, headless, bodiless, second:
                with suppress(anyio.BrokenResourceError):
                    await headless.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ")
                    await bodiless.send(
                        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
                    )
                    await second.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                first = await second.receive()
                with suppress(anyio.BrokenResourceError):
                    await second.send(b"GET /health HTT")
                assert b"408" in await everything(silent)
                assert b"408" in await everything(headless)
                late = await everything(bodiless)
                last = await everything(second)
        if b" 200 " in first and late:
            break
    assert b" 200 " in first
    assert b"408" in last
    assert late.startswith(b"HTTP/1.1 408")
    assert b"gateway.request_timeout" in late


async def test_bytes_that_are_no_http_and_headers_without_end_are_refused() -> None:
    async with site() as client:
        for sent in (b"\x16\x03\x01\x00garbage\r\n\r\n", b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 20_000):
            async with await connect(client) as stream:
                with anyio.fail_after(PATIENCE):
                    try:
                        await stream.send(sent)
                    except anyio.BrokenResourceError:
                        continue
                heard = await everything(stream)
                assert not heard or heard.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")), heard[:100]
        async with await connect(client) as stream:
            twice = b"GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.com\r\n\r\n"
            await stream.send(twice)
            assert b" 403 " in await stream.receive()
        async with await connect(client) as stream:
            await stream.send(b"GET /health HTTP/1.0\r\n\r\n")
            assert b" 421 " in await stream.receive()
        assert (await client.get("/health")).status_code == 200


async def test_nonsense_after_an_early_answer_only_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as client:
        async with await connect(client) as stream:
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: evil\r\nTransfer-Encoding: chunked\r\n\r\n")
            heard = await stream.receive()
            with suppress(anyio.BrokenResourceError):
                await stream.send(b"nonsense\r\n\r\n")
            await everything(stream)
        assert (await client.get("/health")).status_code == 200
    assert b" 421 " in heard
    assert "Traceback" not in caplog.text


async def test_a_client_that_leaves_while_it_sends_is_forgotten() -> None:
    async with site() as client:
        async with await connect(client) as stream:
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        assert (await client.get("/health")).status_code == 200


async def test_short_bodies_in_chunks_leave_room_for_others() -> None:
    """Until it has been read, a body in chunks is taken to be as long as the limit; then it gives the rest back."""
    statuses: set[int] = set()

    async def page(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an ASGI app
        await reply(send, 200, "")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * LARGE_REQUEST, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.add(message["status"])

    rules = AccessRules.of(GatewaySettings(), None)
    guard = Guard(page, page, lambda: rules)
    headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
    for _ in range(5_000):  # 320 MB in all, and 256 may be in memory at once
        await guard({"type": "http", "method": "GET", "path": "/health", "headers": headers}, receive, send)
    assert statuses == {200}

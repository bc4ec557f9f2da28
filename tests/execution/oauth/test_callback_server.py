"""The address that a browser comes back to: one request is right, and nothing else does any harm."""

from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.abc import SocketStream
from waiting import PATIENCE, until

from toolcrib.execution.oauth.callback_server import Callback, listen_for_callback

pytestmark = pytest.mark.anyio

STATE = "the-right-state"


async def send(callback: Callback, request: str) -> str:
    with anyio.fail_after(PATIENCE):
        stream: SocketStream = await anyio.connect_tcp("127.0.0.1", callback.port)
        async with stream:
            await stream.send(request.encode("latin-1"))
            answer = b""
            try:
                while True:
                    answer += await stream.receive()
            except anyio.EndOfStream:
                return answer.decode()


def get(callback: Callback, target: str, *, host: str = "", method: str = "GET") -> str:
    return f"{method} {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{callback.port}'}\r\n\r\n"


ATTACKS = {
    "wrong state": ("/callback?code=evil&state=guessed", "400"),
    "no state": ("/callback?code=evil", "400"),
    "empty state": ("/callback?code=evil&state=", "400"),
    "state twice": (f"/callback?code=evil&state={STATE}&state=x", "400"),
    "code twice": (f"/callback?code=evil&code=good&state={STATE}", "400"),
    "other path": (f"/callback/?code=evil&state={STATE}", "404"),
    "path that climbs": (f"/x/../callback?code=evil&state={STATE}", "404"),
    "encoded path": (f"/%63allback?code=evil&state={STATE}", "404"),
    "whole address": (f"http://evil.example.com/callback?code=evil&state={STATE}", "404"),
    "root": ("/", "404"),
    "icon": ("/favicon.ico", "404"),
    "many parameters": (f"/callback?{'a&' * 60}code=evil&state={STATE}", "400"),
    "letters that are none": ("/callback?code=evil&state=%ff%fe\xff", "400"),
}


@pytest.mark.parametrize(("target", "status"), ATTACKS.values(), ids=ATTACKS)
async def test_callback_of_another_login_is_refused_and_the_right_one_still_succeeds(
    target: str, status: str
) -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        answer = await send(callback, get(callback, target))
        assert answer.startswith(f"HTTP/1.1 {status} ")
        assert "evil" not in answer
        assert "location:" not in answer.lower()
        await send(
            callback, get(callback, f"/callback?code=good&state={STATE}&iss=https%3A%2F%2Fas.example.com")
        )
        with anyio.fail_after(PATIENCE):
            found = await callback.wait()
    assert (found.code, found.state, found.iss, found.error) == ("good", STATE, "https://as.example.com", "")


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "get", ""])
async def test_another_method_is_refused(method: str) -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        answer = await send(callback, get(callback, f"/callback?code=c&state={STATE}", method=method))
    assert answer.startswith("HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1", "evil.example.com:{port}", "127.0.0.1:{port}\r\nHost: x"]
)
async def test_a_request_for_another_host_is_refused(host: str) -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        request = get(callback, f"/callback?code=c&state={STATE}", host=host.format(port=callback.port))
        assert (await send(callback, request)).startswith("HTTP/1.1 421 ")


async def test_a_login_is_good_for_one_use() -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        first = await send(callback, get(callback, f"/callback?code=first&state={STATE}"))
        second = await send(callback, get(callback, f"/callback?code=second&state={STATE}"))
        assert (await callback.wait()).code == "first"
    assert first.startswith("HTTP/1.1 200 ")
    assert second.startswith("HTTP/1.1 400 ")
    with pytest.raises(OSError, match=r"attempts|refused|failed"):
        await anyio.connect_tcp("127.0.0.1", callback.port)


async def test_before_a_login_has_begun_no_state_is_right() -> None:
    async with listen_for_callback(None) as callback:
        for state in ("", "None", STATE):
            answer = await send(callback, get(callback, f"/callback?code=c&state={state}"))
            assert answer.startswith("HTTP/1.1 400 ")


async def test_a_page_can_run_nothing_and_says_nothing_of_the_request() -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        query = f"state={STATE}&error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E"
        answer = await send(callback, get(callback, f"/callback?{query}"))
        found = await callback.wait()
    assert found.error == "access_denied"
    assert "script" not in answer
    assert "access_denied" not in answer
    assert "default-src 'none'" in answer
    assert "referrer-policy: no-referrer" in answer


async def test_a_request_without_an_end_holds_nobody_up() -> None:
    async with listen_for_callback(None) as callback:
        callback.expect(STATE)
        async with await anyio.connect_tcp("127.0.0.1", callback.port) as silent:
            await silent.send(b"GET /callback")
            await send(callback, get(callback, f"/callback?code=good&state={STATE}"))
            with anyio.fail_after(PATIENCE):
                assert (await callback.wait()).code == "good"


async def test_connections_without_a_request_are_held_up_to_a_number_and_let_a_login_through() -> None:
    async with listen_for_callback(None) as callback, AsyncExitStack() as stack:
        callback.expect(STATE)
        for _ in range(100):
            await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", callback.port))
        await until(lambda: callback.connections == 32)
        await send(callback, get(callback, f"/callback?code=good&state={STATE}"))
        with anyio.fail_after(PATIENCE):
            assert (await callback.wait()).code == "good"

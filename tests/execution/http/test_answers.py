"""Responses of a server, as values or as errors."""

from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from execution.http.server import app
from execution.http.support import LOCAL, run

from toolcrib.errors import BackendUnavailableError, ToolExecutionError
from toolcrib.execution.http import Endpoint, HttpProvider, OpenApiProvider

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(url: str) -> AsyncIterator[OpenApiProvider]:
    made = OpenApiProvider.from_document(app.openapi(), id="shop", base_url=url, allow_private=LOCAL)
    async with made as provider:
        yield provider


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("text", "grüße"),
        ("oddly", "text"),
        ("hex", "text"),
        ("xml", "<a/>"),
        ("bytes", {"contentType": "image/png", "base64": "AAE="}),
        ("untyped", "plain"),
        ("odd", {"contentType": "application/octet-stream", "base64": "//79"}),
        ("empty", None),
        ("problem", {"a": 1}),
        ("latin", "grüße"),
        ("packed", {"packed": True}),
        ("twice", {"a": 1}),
        ("zlib", [1]),
        ("raw", [2]),
        ("packed nothing", ""),
        ("raw long", "x" * 65_537),
        ("pair", "\U0001f600"),
        ("wide", {"a": 1}),
    ],
)
async def test_an_answer_is_read_as_what_it_is(api: OpenApiProvider, what: str, value: Any) -> None:
    assert await run(api, "say", what=what) == value


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("lie", "says that it is JSON, but it is not"),
        ("nan", "NaN is not a JSON number"),
        ("deep", "nested too deep"),
        ("badly", "not compressed as its headers say"),
        ("cut", "compressed, and ends prematurely"),
        ("infinite", "1e999 is too large for a JSON number"),
        ("surrogate", "lone surrogate"),
        ("surrogate key", "lone surrogate"),
        ("raw surrogate", "says that it is JSON, but it is not"),
        ("brotli", "compressed with 'br', which was not offered"),
        ("bomb", "larger than 16,777,216 bytes"),
        ("endless", "larger than 16,777,216 bytes"),
        ("redirect", "it points to 'http://169.254.169.254/latest', and redirects are not followed"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    api: OpenApiProvider, what: str, reason: str
) -> None:
    with pytest.raises(ToolExecutionError, match=reason):
        await run(api, "say", what=what)
    assert await run(api, "say", what="xml") == "<a/>"


async def test_the_limit_is_the_one_that_was_given(url: str) -> None:
    endpoint = Endpoint(name="say", url=f"{url}/say/{{what}}")
    async with HttpProvider("t", [endpoint], allow_private=LOCAL, max_response_bytes=1000) as api:
        with pytest.raises(ToolExecutionError, match="larger than 1,000 bytes"):
            await run(api, "say", what="large")
        assert await run(api, "say", what="xml") == "<a/>"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("detail", "HTTP 400 Bad Request: it says no"),
        ("nested", "HTTP 400 Bad Request: deep down"),
        ("list", "HTTP 400 Bad Request: body.age: too small; odd"),
        ("text", "HTTP 400 Bad Request: plain no"),
        ("silent", "HTTP 400 Bad Request"),
        ("odd places", "HTTP 400 Bad Request: x; y"),
    ],
)
async def test_a_refusal_is_an_execution_error_in_the_words_of_the_server(
    api: OpenApiProvider, kind: str, reason: str
) -> None:
    with pytest.raises(ToolExecutionError) as caught:
        await run(api, "status", code=400, kind=kind)
    assert caught.value.reason == reason
    assert caught.value.backend == "provider:shop"
    assert caught.value.result["status"] == 400
    assert "content-type" in caught.value.result["headers"]


async def test_a_long_refusal_is_cut(api: OpenApiProvider) -> None:
    with pytest.raises(ToolExecutionError) as caught:
        await run(api, "status", code=500, kind="long")
    assert len(caught.value.reason) == 501
    assert len(caught.value.result["body"]["message"]) == 5_000
    with pytest.raises(ToolExecutionError) as caught:
        await run(api, "status", code=500, kind="huge")
    assert len(caught.value.result["body"] or "") <= 64 * 1024


@pytest.mark.parametrize(
    ("method", "code", "wait", "sent"),
    [
        ("GET", 429, "3", False),
        ("POST", 429, None, False),
        ("GET", 503, "3", False),
        ("POST", 503, "3", True),
        ("GET", 503, None, True),
        ("GET", 502, "1", True),
        ("GET", 504, None, True),
    ],
)
async def test_a_server_that_is_busy_is_unavailable_and_did_not_run_the_tool_where_that_is_certain(
    url: str, method: Literal["GET", "POST"], code: int, wait: str | None, sent: bool
) -> None:
    asked = f"{url}/status/{code}" + (f"?wait={wait}" if wait else "")
    async with HttpProvider("t", [Endpoint(name="op", url=asked, method=method)], allow_private=LOCAL) as api:
        with pytest.raises(BackendUnavailableError, match=f"HTTP {code}") as caught:
            await run(api, "op")
    assert caught.value.sent is sent
    assert ("it asks to wait" in caught.value.reason) is (wait is not None)


async def test_a_head_request_gives_the_headers(url: str) -> None:
    async with HttpProvider(
        "t", [Endpoint(name="head", url=f"{url}/echo/x", method="HEAD")], allow_private=LOCAL
    ) as api:
        answer = await run(api, "head")
    assert answer["status"] == 200
    assert answer["headers"]["etag"] == "w1"

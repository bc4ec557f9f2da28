"""Security schemes and the secrets that fill them."""

import gzip
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from execution.http.server import Talk, talking
from execution.http.support import LOCAL, document_of, run

from toolcrib.errors import ConfigError, InputValidationError, NoBackendError, ToolExecutionError
from toolcrib.execution.http import Endpoint, HttpProvider, OpenApiProvider

pytestmark = pytest.mark.anyio

SCHEMES = {
    "Key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "Query": {"type": "apiKey", "in": "query", "name": "api key"},
    "Cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "Basic": {"type": "http", "scheme": "Basic"},
    "Bearer": {"$ref": "#/components/securitySchemes/Token"},
    "Token": {"type": "http", "scheme": "bearer"},
    "OAuth": {"type": "oauth2", "flows": {}},
    "OpenId": {"type": "openIdConnect", "openIdConnectUrl": "https://x.example"},
    "Tls": {"type": "mutualTLS"},
    "Digest": {"type": "http", "scheme": "digest"},
    "Nameless": {"type": "apiKey", "in": "header"},
    "Odd": {"type": "apiKey", "in": "header", "name": "a\r\nb"},
    "Lost": {"$ref": "#/nowhere"},
    "Nothing": 7,
}


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Any]:
    made: list[OpenApiProvider] = []

    def open_one(security: Any, secrets: Any = None, *, top: Any = None, **operation: Any) -> OpenApiProvider:
        said = {} if security is None else {"security": security}
        document = document_of({**said, **operation}, components={"securitySchemes": SCHEMES})
        if top is not None:
            document["security"] = top
        made.append(
            OpenApiProvider.from_document(
                document, id="t", base_url=url, secrets=secrets, allow_private=LOCAL
            )
        )
        return made[-1]

    yield open_one
    for one in made:
        await one.aclose()


@pytest.mark.parametrize(
    ("scheme", "secret", "header", "value"),
    [
        ("Key", "k-123456", "x-key", "[secret]"),
        ("Basic", "ann:pässword", "authorization", "Basic [secret]"),
        ("Basic", ("ann", "p"), "authorization", "Basic [secret]"),
        ("Bearer", "t-123456", "authorization", "Bearer [secret]"),
        ("OAuth", "t-123456", "authorization", "Bearer [secret]"),
        ("OpenId", "t-123456", "authorization", "Bearer [secret]"),
        ("Cookie", "c-123456", "cookie", "sid=[secret]"),
        ("Key", "short", "x-key", "short"),
    ],
)
async def test_each_scheme_puts_its_secret_where_it_belongs(
    opened: Any, scheme: str, secret: Any, header: str, value: str
) -> None:
    seen = await run(opened([{scheme: []}], {scheme: secret}), "op")
    assert seen["headers"][header] == value


async def test_a_key_in_the_query_is_encoded(opened: Any) -> None:
    seen = await run(opened([{"Query": []}], {"Query": "a&b=c+d"}), "op")
    assert seen["query"] == [["api key", "[secret]"]]
    assert seen["raw_query"] == "api%20key=[secret]"


@pytest.mark.parametrize(
    ("security", "top", "secrets", "sent"),
    [
        ([{"Key": []}, {"Cookie": []}], None, {"Cookie": "c-123456"}, {"cookie"}),
        ([{"Key": []}, {"Cookie": []}], None, {"Key": "k-123456", "Cookie": "c-123456"}, {"x-key"}),
        ([{"Key": [], "Cookie": []}], None, {"Key": "k-123456", "Cookie": "c-123456"}, {"x-key", "cookie"}),
        ([{}, {"Key": []}], None, {"Key": "k-123456"}, {"x-key"}),
        ([{}, {"Key": []}], None, {}, set()),
        ([], [{"Key": []}], {"Key": "k-123456"}, set()),
        (None, [{"Key": []}], {"Key": "k-123456"}, {"x-key"}),
        (None, None, {"Key": "k-123456"}, set()),
        ([{"Tls": []}, {"Key": []}], None, {"Key": "k-123456"}, {"x-key"}),
    ],
)
async def test_alternatives_are_taken_as_the_secrets_allow(
    opened: Any, security: Any, top: Any, secrets: Any, sent: set[str]
) -> None:
    seen = await run(opened(security, secrets, top=top), "op")
    assert {"x-key", "cookie"} & set(seen["headers"]) == sent


@pytest.mark.parametrize(
    ("security", "reason"),
    [
        ([{"Key": []}], "it needs the secret 'Key'; give it in secrets"),
        ([{"Key": [], "Cookie": []}], "it needs the secret 'Key'; give it in secrets"),
        ([{"Key": []}, {"Bearer": []}], "it needs the secret 'Key' or 'Bearer'"),
        ([{"Tls": []}], "it needs 'Tls', which no secret can fill"),
        ([{"Tls": []}, {"Key": []}], "it needs the secret 'Key'; give it in secrets"),
    ],
)
async def test_a_secret_that_is_missing_is_named(opened: Any, security: Any, reason: str) -> None:
    with pytest.raises(NoBackendError) as caught:
        await run(opened(security, {"Cookie": "c-123456"}), "op")
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["key", "Tls", "Digest", "Nameless", "Odd", "Lost", "Nothing", "Nobody"])
async def test_a_secret_for_no_scheme_is_refused_at_once(opened: Any, name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"the document has no scheme '{name}' that a secret fills"
    ) as caught:
        opened([], {name: "s-123456"})
    assert "s-123456" not in str(caught.value)


def _fails() -> str:
    raise OSError("the vault says s-123456")


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        ("Key", "a\r\nHost: b"),
        ("Key", "  "),
        ("Key", _fails),
        ("Key", lambda: None),
        ("Key", "日本"),
        ("Cookie", "a;b=c"),
    ],
)
async def test_a_secret_that_cannot_be_sent_or_had_is_an_error_that_does_not_show_it(
    opened: Any, scheme: str, secret: Any
) -> None:
    with pytest.raises(NoBackendError, match="secret") as caught:
        await run(opened([{scheme: []}], {scheme: secret}), "op")
    assert caught.value.__cause__ is None
    assert "s-123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "scheme", "name"), [("query", "Query", "api key"), ("cookie", "Cookie", "sid")]
)
async def test_no_argument_can_stand_in_for_a_secret(opened: Any, place: str, scheme: str, name: str) -> None:
    parameters = [{"name": "p", "in": place, "explode": True, "schema": {"type": "object"}}]
    api = opened([{scheme: []}], {scheme: "k-123456"}, parameters=parameters)
    with pytest.raises(InputValidationError):
        await run(api, "op", p={name: "mine"})
    assert await run(api, "op", p={"other": "x"})


def _answers(body: bytes, media_type: str) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    return talk


@pytest.mark.parametrize(
    ("body", "media_type", "value"),
    [
        (b"\xff123456789\x00", "image/png", {"contentType": "image/png", "base64": "/1tzZWNyZXRdAA=="}),
        (b"\xff123456789", "", {"contentType": "application/octet-stream", "base64": "/1tzZWNyZXRd"}),
        (b'{"a": [123456789, 1234, 0.123456789, true]}', "application/json",
         {"a": ["[secret]", 1234, "[secret]", True]}),
        (b'{"123456789": null}', "application/json", {"[secret]": None}),
    ],
)  # fmt: skip
async def test_a_secret_is_found_in_bytes_and_in_numbers(body: bytes, media_type: str, value: Any) -> None:
    with talking(_answers(body, media_type)) as url:
        async with HttpProvider(
            "t", [Endpoint(name="op", url=url)], allow_private=LOCAL, headers={"X-Key": "123456789"}
        ) as api:
            assert await run(api, "op") == value


async def test_a_deep_answer_is_searched_for_secrets_too() -> None:
    body = b"[" * 900 + b'"s3cret-key"' + b"]" * 900
    with talking(_answers(body, "application/json")) as url:
        async with HttpProvider(
            "t", [Endpoint(name="op", url=url)], allow_private=LOCAL, headers={"X-Key": "s3cret-key"}
        ) as api:
            value = await run(api, "op")
    for _ in range(899):
        (value,) = value
    assert value == ["[secret]"]


async def test_a_secret_is_not_told_in_part_where_a_refusal_is_cut() -> None:
    text = b"your key: ".ljust(65_530, b"x") + b"s3cret-key" + b"x" * 1000  # read to the middle of the secret
    body = gzip.compress(text)
    head = f"HTTP/1.1 400 No\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(f"{head}Content-Encoding: gzip\r\n\r\n".encode() + body)

    with talking(talk) as url:
        async with HttpProvider(
            "t", [Endpoint(name="op", url=url)], allow_private=LOCAL, headers={"X-Key": "s3cret-key"}
        ) as api:
            with pytest.raises(ToolExecutionError, match="HTTP 400 No: your key") as caught:
                await run(api, "op")
    assert "s3cret" not in str(caught.value.result)
    assert len(caught.value.result["body"]) > 65_000

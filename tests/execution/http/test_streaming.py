"""Answers that come in parts, and calls that are given up."""

import json
import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio
import pytest
from execution.http.server import app, came, gone, talking
from execution.http.support import LOCAL, call_of, run
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE, until

from toolcrib.execution import Update
from toolcrib.execution.http import Endpoint, HttpProvider, OpenApiProvider
from toolcrib.execution.http.credentials import SecretFilter, replace_secrets
from toolcrib.execution.http.events import EventDecoder, JsonLinesDecoder, StreamDecoder

EVENTS = [{"n": 1}, {"event": "delta", "data": "line one\nline two"}, "grüne"]


@pytest.fixture
async def api(url: str) -> AsyncIterator[OpenApiProvider]:
    made = OpenApiProvider.from_document(app.openapi(), id="shop", base_url=url, allow_private=LOCAL)
    async with made as provider:
        yield provider


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "value"),
    [("sse", EVENTS), ("lines", [{"a": 1}, {"a": 2}, "no json", 3]), ("text", "one € two")],
)
async def test_a_stream_is_told_in_parts_and_is_the_same_value_unheard(
    api: OpenApiProvider, kind: str, value: Any
) -> None:
    heard: list[Any] = []

    async def emit(update: Update) -> None:
        assert update.kind == "chunk"
        heard.append(update.data)

    answer = await api.call(call_of(api, "stream", {"kind": kind}, emit))
    assert answer.structured == value == await run(api, "stream", kind=kind)
    assert heard == value if kind != "text" else "".join(heard) == value and len(heard) > 1


@pytest.mark.anyio
async def test_a_part_is_told_before_the_next_one_comes_and_cancelling_closes_the_connection(
    api: OpenApiProvider,
) -> None:
    gone.clear()
    heard: list[Any] = []
    with anyio.CancelScope() as scope:

        async def emit(update: Update) -> None:
            heard.append(update.data)
            scope.cancel()

        await api.call(call_of(api, "stream", {"kind": "slow"}, emit))
    assert scope.cancelled_caught
    assert heard == [1]
    await until(gone.is_set, "the server hears that it is gone")
    assert await run(api, "get_pet", pet_id=1)


@pytest.mark.anyio
async def test_a_call_that_is_given_up_is_given_up_on_the_server(api: OpenApiProvider) -> None:
    came.clear()
    gone.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, api, "slow")
        await until(came.is_set, "the call has begun")
        tasks.cancel_scope.cancel()
    await until(gone.is_set, "the server hears that it is gone")


@pytest.mark.anyio
async def test_error_of_the_listener_ends_its_call_alone(api: OpenApiProvider) -> None:
    async def emit(_: Update) -> None:
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        await api.call(call_of(api, "stream", {"kind": "sse"}, emit))
    assert await run(api, "stream", kind="sse") == EVENTS


@pytest.mark.anyio
async def test_many_calls_at_once_share_the_connections(api: OpenApiProvider) -> None:
    found: dict[int, Any] = {}

    async def one(number: int) -> None:
        found[number] = (await run(api, "get_pet", pet_id=number))["name"]

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
    assert found == {number: f"pet {number}" for number in range(100)}


def _parts(reader: StreamDecoder, pieces: list[bytes]) -> list[Any]:
    found = [part for piece in pieces for part in reader.feed(piece)]
    return reader.join([*found, *reader.finish()])


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).filter(bool), min_size=1
    ),
    st.lists(st.integers(0, 10_000)),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_events_are_the_same_wherever_they_are_cut(texts: list[str], places: list[int], end: str) -> None:
    data = "".join(f"event: e{end}data: {text}{end}{end}" for text in texts).encode()
    whole = _parts(EventDecoder(), [data])
    assert len(whole) == len(texts)
    assert [part["data"] for part in whole if isinstance(part["data"], str)] == [
        text for text, part in zip(texts, whole, strict=True) if isinstance(part["data"], str)
    ]
    assert _parts(EventDecoder(), _cut(data, places)) == whole


@given(
    st.lists(st.integers() | st.text(st.characters(codec="ascii", categories=["L"]))),
    st.lists(st.integers(0, 99)),
)
def test_lines_are_the_same_wherever_they_are_cut(values: list[Any], places: list[int]) -> None:
    data = "\r\n".join(map(json.dumps, values)).encode()
    assert _parts(JsonLinesDecoder(), _cut(data, places)) == values


def test_events_with_a_mark_of_order_comments_and_fields_without_a_colon() -> None:
    data = b"\xef\xbb\xbf:hello\ndata\ndata:x\nfoo: bar\n\nevent: message\ndata: 1\n\n\n\ndata: y\n"
    assert _parts(EventDecoder(), [data]) == ["\nx", 1]


SECRETS = ["s3cret-key-12345", "s3cret", "key-12345 and more"]


@given(
    st.lists(st.sampled_from(["s3cret", "-key", "-12345", " and more", "s3", "key", "x", " "]), max_size=12),
    st.lists(st.integers(0, 200)),
)
def test_a_secret_is_hidden_wherever_a_text_is_cut(words: list[str], places: list[int]) -> None:
    text = "".join(words)
    veil = SecretFilter(SECRETS)
    shown = "".join(veil.feed(piece.decode()) for piece in _cut(text.encode(), places)) + veil.finish()
    assert shown == replace_secrets(text, SECRETS)
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.anyio
async def test_a_secret_that_comes_in_two_parts_is_not_told() -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + b"a\r\nhi s3cret-\r\n")
        connection.sendall(b"b\r\nkey-12345 x\r\n0\r\n\r\n")

    heard: list[Any] = []

    async def emit(update: Update) -> None:
        heard.append(update.data)

    with talking(talk) as url:
        endpoint = Endpoint(name="op", url=url)
        async with HttpProvider(
            "t", [endpoint], allow_private=LOCAL, headers={"X-Key": "s3cret-key-12345"}
        ) as api:
            answer = await api.call(call_of(api, "op", {}, emit))
    assert answer.structured == "".join(heard) == "hi [secret] x"

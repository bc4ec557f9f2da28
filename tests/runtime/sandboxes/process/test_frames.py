"""The codec of frames, and messages over a socket."""

import socket
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE, until

from toolcrib.runtime.sandboxes.process.frames import Channel, Decoder, FrameError, encode

LIMIT = 1 << 20
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda members: st.lists(members, max_size=4) | st.dictionaries(st.text(), members, max_size=4),
    max_leaves=12,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=4)


def fed(decoder: Decoder, data: bytes) -> list[tuple[dict[str, Any], int]]:
    """Return the messages that these bytes complete, each with its size."""
    decoder.feed(data)
    return list(iter(decoder.take_message, None))


@given(MESSAGES, st.lists(st.integers(1, 40), min_size=1))
def test_messages_are_decoded_from_any_chunks(messages: list[dict[str, Any]], cuts: list[int]) -> None:
    data = b"".join(encode(message, LIMIT) for message in messages)
    decoder, seen, at = Decoder(LIMIT), [], 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        seen += fed(decoder, data[at : at + size])
        at += size
    assert [message for message, _ in seen] == messages
    assert decoder.buffered_bytes == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_frame_error(data: bytes) -> None:
    decoder = Decoder(100)
    try:
        messages = fed(decoder, data)
    except FrameError:
        return
    assert sum(size + 4 for _, size in messages) + decoder.buffered_bytes == len(data)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=["nothing", "an array", "a number", "half", "nan", "infinity", "no text", "deep", "many digits"],
)
def test_frame_that_is_no_json_object_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="it sent a frame"):
        fed(Decoder(LIMIT), len(payload).to_bytes(4, "big") + payload)


def test_large_frame_is_refused_by_its_first_bytes() -> None:
    with pytest.raises(FrameError, match="announced a frame of 101 bytes, where 100"):
        fed(Decoder(100), (101).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "begun", [b'{"call":', b'{"error"', b' {"done":'], ids=["a call", "an error", "a disguise"]
)
def test_only_the_message_with_the_value_may_be_large(begun: bytes) -> None:
    header = (500).to_bytes(4, "big")
    assert fed(Decoder(1000, short=100), header + b'{"done":') == []
    with pytest.raises(FrameError, match="announced a frame of 500 bytes, where 100"):
        fed(Decoder(1000, short=100), header + begun)


@pytest.mark.parametrize("part", ["[],", "{},", "0,", '"\\"",'])
def test_message_with_too_many_parts_is_refused_before_parsing(part: str) -> None:
    data = f'{{"args":[{part * 101_000}0]}}'.encode()
    with pytest.raises(FrameError, match="parts"):
        fed(Decoder(LIMIT), len(data).to_bytes(4, "big") + data)


@pytest.mark.parametrize("text", ["a,[{", '\\",', "\\\\,"])
def test_brackets_in_strings_are_not_counted(text: str) -> None:
    message = {"args": [text * 150_000]}
    assert fed(Decoder(LIMIT), encode(message, LIMIT)) == [(message, len(encode(message, LIMIT)) - 4)]


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, "\ud800"])
def test_encode_refuses_values_that_are_not_json(value: object) -> None:
    with pytest.raises(FrameError, match="not JSON"):
        encode({"value": value}, LIMIT)


def test_encode_refuses_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(FrameError, match="not JSON"):
        encode({"value": loop}, LIMIT)


def test_encode_refuses_a_message_over_the_limit() -> None:
    with pytest.raises(FrameError, match="16 bytes are more than the 14"):
        encode({"value": "1234"}, 14)


@pytest.fixture
def line() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, limit=LIMIT)
    with theirs:
        yield channel, theirs
    channel.close()


@pytest.mark.anyio
async def test_two_messages_in_one_packet_are_received_one_by_one(
    line: tuple[Channel, socket.socket],
) -> None:
    channel, guest = line
    guest.send(encode({"n": 1}, LIMIT) + encode({"n": 2}, LIMIT))
    assert await channel.receive() == ({"n": 1}, 7)
    assert channel.count_unread_bytes() == 11
    assert await channel.receive() == ({"n": 2}, 7)
    assert channel.count_unread_bytes() == 0


@pytest.mark.anyio
async def test_receive_returns_none_when_the_guest_exits(line: tuple[Channel, socket.socket]) -> None:
    channel, guest = line
    guest.close()
    assert await channel.receive() is None


@pytest.mark.anyio
async def test_receive_returns_none_after_a_connection_reset(line: tuple[Channel, socket.socket]) -> None:
    channel, guest = line
    await channel.send(encode({"n": 1}, LIMIT))
    guest.close()
    assert await channel.receive() is None
    with pytest.raises(OSError, match="pipe"):
        await channel.send(encode({"n": 2}, LIMIT))


@pytest.mark.anyio
async def test_receive_returns_none_when_the_guest_exits_within_a_frame(
    line: tuple[Channel, socket.socket],
) -> None:
    channel, guest = line
    guest.send(encode({"n": 1}, LIMIT)[:-1])
    guest.close()
    assert await channel.receive() is None


@pytest.mark.anyio
async def test_receive_yields_to_other_tasks_between_messages(
    line: tuple[Channel, socket.socket],
) -> None:
    channel, guest = line
    guest.send(encode({}, LIMIT) * 1000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        for _ in range(1000):
            assert await channel.receive() == ({}, 2)
        assert turns > 10
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_unread_bytes_are_counted(line: tuple[Channel, socket.socket]) -> None:
    channel, guest = line
    guest.send(b"\x00\x00")
    assert channel.count_unread_bytes() == 2


@pytest.mark.anyio
async def test_large_messages_are_sent_whole_to_a_slow_guest(line: tuple[Channel, socket.socket]) -> None:
    channel, guest = line
    guest.setblocking(False)
    frames = [encode({"n": number, "text": "x" * 300_000}, LIMIT) for number in range(4)]
    decoder, seen = Decoder(LIMIT), []
    async with anyio.create_task_group() as tasks:
        for frame in frames:
            tasks.start_soon(channel.send, frame)
        with anyio.fail_after(PATIENCE):
            while len(seen) < len(frames):
                await anyio.wait_readable(guest)
                assert channel.unsent_bytes >= 0
                seen += fed(decoder, guest.recv(50_000))
    assert [message["n"] for message, _ in seen] == [0, 1, 2, 3]
    assert channel.unsent_bytes == 0


@pytest.mark.anyio
async def test_unsent_bytes_are_counted(line: tuple[Channel, socket.socket]) -> None:
    channel, _ = line
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.send, b"x" * 10_000_000)
        await until(lambda: channel.unsent_bytes)
        assert channel.unsent_bytes == 10_000_000
        tasks.cancel_scope.cancel()
    assert channel.unsent_bytes == 0

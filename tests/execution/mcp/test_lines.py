import json

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolcrib.execution.mcp.transport.lines import Lines, LineTooLongError, read_line

ANSWER = b'{"jsonrpc": "2.0", "id": 1, "result": {"text": %s}}'


@given(st.lists(st.binary()))
def test_lines_do_not_depend_on_how_they_arrive(pieces: list[bytes]) -> None:
    lines = Lines(max_bytes=10_000)
    assert [line for piece in pieces for line in lines.feed(piece)] == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    assert list(Lines(max_bytes=4).feed(b"1234\n1234\n")) == [b"1234", b"1234"]
    with pytest.raises(LineTooLongError, match="a message of more than 4 bytes"):
        list(Lines(max_bytes=4).feed(b"12345\n"))


def test_a_line_that_never_ends_is_refused_before_it_ends() -> None:
    lines = Lines(max_bytes=100)
    with pytest.raises(LineTooLongError):
        assert [line for _ in range(1000) for line in lines.feed(b"x" * 10)] == []


def test_a_line_that_is_too_long_is_skipped_once_and_the_next_one_is_read() -> None:
    lines = Lines(max_bytes=4)
    pieces = [b"12345", b"6789", b"0\n", b"next\n123456\n\nla", b"st\n"]
    assert [[*lines.feed_skipping(piece)] for piece in pieces] == [
        [None],
        [],
        [],
        [b"next", None, b""],
        [b"last"],
    ]


def test_time_grows_with_the_length_of_a_line_and_not_with_its_square() -> None:
    lines = Lines(max_bytes=2**30)
    with at_most(5):  # the square takes minutes
        for _ in range(100_000):
            list(lines.feed(b"x" * 640))
        assert len(next(lines.feed(b"\n"))) == 64_000_000


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', JSONRPCRequest),
        (b'{"jsonrpc": "2.0", "method": "notifications/x"}', JSONRPCNotification),
        (b' {"jsonrpc": "2.0", "id": "a", "result": {}} \r', JSONRPCResponse),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}, "error": null}', JSONRPCResponse),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}', JSONRPCError),
        (b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "result": {}}', JSONRPCResponse),
    ],
)
def test_a_line_is_one_message(line: bytes, kind: type) -> None:
    (message,) = read_line(line)
    assert type(message) is kind


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Welcome!",
        b"42",
        b"null",
        b'"text"',
        b"[]",
        b"[1, 2]",
        b"{not json",
        b'{"level": "info"}',
        b'{"id": null}',
        b'{"id": 1.5, "result": {}}',
        b'{"id": 1, "method": "x", "jsonrpc": "1"}',
        b'{"id": true, "result": {}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"jsonrpc": "2.0", "result": {"content": [{"id": 5}',
        b'{"jsonrpc": "2.0", "id": 5, "method": "x", "params": {"a": [',
        b'{"id": 5, "method": "x", "params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_invalid_line_gives_no_message(line: bytes) -> None:
    assert read_line(line) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'"a\xffb"', "a\ufffdb"),
        (b'"a\\ud83db"', "a?b"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\udc00"', "?"),
    ],
)
def test_a_text_that_is_not_unicode_does_not_cost_the_answer(text: bytes, expected: str) -> None:
    (message,) = read_line(ANSWER % text)
    assert isinstance(message, JSONRPCResponse)
    assert message.result["text"] == expected


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "result": null}', 7),
        (b'{"jsonrpc": "2.0", "id": 7.0, "result": {}}', 7),
        (b'{"id": "x", "result": {}}', "x"),
        (ANSWER % (b"[" * 300 + b"]" * 300), 1),
        (ANSWER % (b"[" * 980 + b"]" * 980), 1),
        (ANSWER % (b"[" * 100_000 + b"]" * 100_000), 1),
        (ANSWER % (b"1" * 5_000), 1),
        (b'{"result": ' + b"[" * 100_000 + b"]" * 100_000 + b', "jsonrpc": "2.0", "id": "z"}', "z"),
        (b'{"id":9,"jsonrpc":"2.0","error":{"code":1,"mess', 9),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "x", "result": {}}', 3),
    ],
)
def test_an_answer_that_is_none_becomes_an_error_for_the_one_who_waits(
    line: bytes, number: int | str
) -> None:
    (message,) = read_line(line)
    assert isinstance(message, JSONRPCError)
    assert message.id == number
    assert message.error.message.startswith("it gave an answer that is not JSON-RPC: {")


def test_a_batch_is_several_messages() -> None:
    batch = [{"jsonrpc": "2.0", "id": number, "result": {}} for number in range(3)]
    assert [getattr(message, "id", None) for message in read_line(json.dumps([*batch, 5]).encode())] == [
        0,
        1,
        2,
    ]


def test_a_request_that_speaks_of_a_result_is_a_request() -> None:
    (message,) = read_line(b'{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {"result": 1}}')
    assert isinstance(message, JSONRPCRequest)

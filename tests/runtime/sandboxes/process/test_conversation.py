"""The host's handling of guest messages: the guest here is the test, on the other end of a socket."""

import json
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib.errors import (
    CodeError,
    LimitExceededError,
    SandboxViolationError,
    ToolcribError,
    ToolNotFoundError,
)
from toolcrib.runtime import Bridge, Limits
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.sandboxes.process.conversation import MAX_PENDING_CALLS, Conversation, GuestGoneError
from toolcrib.runtime.sandboxes.process.frames import Channel, Decoder, encode

SIZE = 1 << 26


class Gateway:
    """Tools with the behaviour that their names describe."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def search(self, query: str, *, limit: int = 10) -> Any:
        return [query] * limit

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        return [tool_id, level]

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        self.begun.append(tool_id)
        try:
            if tool_id == "t:hang":
                await anyio.sleep_forever()
            if tool_id == "t:missing":
                raise ToolNotFoundError(tool_id)
            if tool_id == "t:broken":
                raise ZeroDivisionError
            if tool_id in {"t:big", "t:odd"}:
                return ("x" if tool_id == "t:big" else "\x01") * args["size"]
        finally:
            self.ended.append(tool_id)
        return args

    async def run_chain(self, steps: Any) -> Any:
        return steps


class Names:
    """Everything in the namespace `t` is a tool."""

    def resolve(self, path: str) -> str:
        if not path.startswith("t."):
            raise GuestError("NameError", f"no {path}")
        return path.replace(".", ":")

    def parameters(self, path: str) -> tuple[str, ...]:
        return (path,)


class Guest:
    """The other end of the line."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self.line = line
        self._decoder = Decoder(SIZE)
        self._seen: list[dict[str, Any]] = []

    async def say(self, *messages: dict[str, Any]) -> None:
        await self.write(b"".join(encode(message, SIZE) for message in messages))

    async def write(self, data: bytes) -> None:
        while data:
            await anyio.wait_writable(self.line)
            data = data[self.line.send(data) :]

    async def hear(self) -> dict[str, Any]:
        while not self._seen:
            await anyio.wait_readable(self.line)
            self._decoder.feed(self.line.recv(1 << 16))
            self._seen += [message for message, _ in iter(self._decoder.take_message, None)]
        return self._seen.pop(0)


class Talk:
    """A conversation under way, and how it ended."""

    def __init__(self, guest: Guest, gateway: Gateway) -> None:
        self.guest, self.gateway = guest, gateway
        self.value: Any = None
        self.error: BaseException | None = None
        self.stopped: list[list[str]] = []
        """What had ended when the guest was stopped."""
        self.scope = anyio.CancelScope()

    def stop(self) -> None:
        self.stopped.append(list(self.gateway.ended))


@asynccontextmanager
async def talk(**limits: Any) -> AsyncIterator[Talk]:
    """Hold a conversation; its result is available after the block."""
    ours, theirs = socket.socketpair()
    bounds, gateway = Limits(**limits), Gateway()
    channel, guest = Channel(ours, limit=1 << 10), Guest(theirs)
    held = Talk(guest, gateway)

    async def host() -> None:
        with held.scope as scope:
            bridge = Bridge(gateway, Names(), bounds, end=scope.cancel)
            try:
                conversation = Conversation(channel, bridge, bounds, stop=held.stop)
                held.value = await conversation.run({"code": "1"})
            except Exception as error:  # noqa: BLE001 - looked at by the test
                held.error = error
        held.error = bridge.failure or held.error
        held.value = None if held.error else held.value

    try:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host)
                assert await guest.hear() == {"job": {"code": "1"}}
                yield held
    finally:
        channel.close()
        theirs.close()


def call(number: Any, path: Any = "t.echo", /, **kwargs: Any) -> dict[str, Any]:
    return {"call": number, "path": path, "args": [], "kwargs": kwargs}


@pytest.mark.anyio
async def test_done_message_ends_the_run_with_its_value() -> None:
    async with talk() as held:
        await held.guest.say({"done": {"a": [1, None]}})
    assert held.value == {"a": [1, None]}
    assert held.error is None


@pytest.mark.anyio
async def test_answers_have_the_numbers_of_their_calls() -> None:
    async with talk() as held:
        await held.guest.say(call(1, "t.hang"), call(5, a=1), call(6, "t.missing"), call(9, "nothing"))
        answers = [await held.guest.hear() for _ in range(3)]
        await held.guest.say({"cancel": 1})
        answers.append(await held.guest.hear())
        await held.guest.say({"done": None})
    by_number = {answer["answer"]: answer for answer in answers}
    assert by_number[5]["value"] == {"a": 1}
    assert by_number[6]["error"]["kind"] == "LookupError"
    assert by_number[9]["error"] == {"kind": "NameError", "message": "no nothing"}
    assert by_number[1]["error"]["message"] == "cancelled"
    assert held.gateway.ended.count("t:hang") == 1
    assert held.error is None


@pytest.mark.anyio
async def test_cancel_of_an_answered_call_has_no_effect() -> None:
    async with talk() as held:
        await held.guest.say(call(1))
        await held.guest.hear()
        await held.guest.say({"cancel": 1}, {"done": 1})
    assert held.value == 1


VIOLATIONS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "done with a call under way": (
        [call(1, "t.hang"), {"done": 1}],
        "it reported its end with 1 pending calls",
    ),
    "an error with a call under way": (
        [call(1, "t.hang"), {"error": {"reason": "x"}}],
        "it reported its end with 1 pending calls",
    ),
    "two values": ([{"done": 1}, {"done": 2}], "it continued after it had reported its end"),
    "a call after the end": ([{"done": 1}, call(1)], "it continued after it had reported its end"),
    "an answer": ([{"answer": 1, "value": 2}], "it sent an unknown message: ['answer', 'value']"),
    "a job": ([{"job": {}}], "it sent an unknown message: ['job']"),
    "nothing": ([{}], "it sent an unknown message: []"),
    "a value and an error": ([{"done": 1, "error": {}}], "it sent an unknown message: ['done', 'error']"),
    "a call with more": (
        [call(1) | {"more": 1}],
        "it sent an unknown message: ['args', 'call', 'kwargs', 'more', 'path']",
    ),
    "a call with less": ([{"call": 1, "path": "t.echo"}], "it sent an unknown message: ['call', 'path']"),
    "the same number twice": (
        [call(1, "t.hang"), call(1, "t.hang")],
        "it sent a call whose number is not a higher one: 1",
    ),
    "a lower number": (
        [call(2, "t.hang"), call(1, "t.hang")],
        "it sent a call whose number is not a higher one: 1",
    ),
    "the number nought": ([call(0)], "it sent a call whose number is not a higher one: 0"),
    "a number that is true": ([call(True)], "it sent a call whose number is not a higher one: True"),
    "a number that is text": ([call("1")], "it sent a call whose number is not a higher one: '1'"),
    "a path that is none": ([call(1, 1)], "it sent a malformed call"),
    "arguments that are none": (
        [{"call": 1, "path": "t.echo", "args": {}, "kwargs": {}}],
        "it sent a malformed call",
    ),
    "names that are none": (
        [{"call": 1, "path": "t.echo", "args": [], "kwargs": []}],
        "it sent a malformed call",
    ),
    "giving up what never was": ([{"cancel": 1}], "it cancelled a call that it never made, or twice: 1"),
    "giving up what is no number": (
        [{"cancel": "1"}],
        "it cancelled a call that it never made, or twice: '1'",
    ),
    "giving up what is between": (
        [call(1, "t.hang"), call(5, "t.hang"), {"cancel": 3}],
        "it cancelled a call that it never made, or twice: 3",
    ),
    "giving up twice": (
        [call(1, "t.hang"), {"cancel": 1}, {"cancel": 1}],
        "it cancelled a call that it never made, or twice: 1",
    ),
    "a long path": ([call(1, "t." + "x" * 300)], "it called something whose name has 302 characters"),
    "an error that is text": ([{"error": "x"}], "it sent a malformed error"),
    "an error without a reason": ([{"error": {"line": 1}}], "it sent a malformed error"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", VIOLATIONS)
async def test_invalid_message_ends_the_run(name: str) -> None:
    messages, reason = VIOLATIONS[name]
    async with talk() as held:
        await held.guest.say(*messages)
    assert isinstance(held.error, SandboxViolationError)
    assert held.error.reason == reason
    assert held.gateway.begun == held.gateway.ended


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xff\xff\xff", "it announced a frame of 4,294,967,295 bytes, where 1,114,112 are allowed"),
        (b"\x00\x00\x00\x02[]", "it sent a frame that is not an object"),
        (b"\x00\x00\x00\x05hello", "it sent a frame that is not JSON"),
    ],
    ids=["an enormous frame", "an array", "no JSON"],
)
async def test_bytes_that_are_no_message_end_the_run(data: bytes, said: str) -> None:
    async with talk() as held:
        await held.guest.write(data)
    assert isinstance(held.error, SandboxViolationError)
    assert held.error.reason == said


@pytest.mark.anyio
async def test_partial_frame_after_the_last_message_is_a_violation() -> None:
    async with talk() as held:
        await held.guest.write(encode({"done": 1}, SIZE) + b"\x00")
    assert isinstance(held.error, SandboxViolationError)
    assert "continued after" in held.error.reason


@pytest.mark.anyio
async def test_guest_that_exits_within_a_frame_is_gone() -> None:
    async with talk() as held:
        await held.guest.write(b"\x00\x00\x00\x09{")
        held.guest.line.shutdown(socket.SHUT_WR)
    assert isinstance(held.error, GuestGoneError)


@pytest.mark.anyio
async def test_guest_that_exits_without_a_result_is_gone() -> None:
    async with talk() as held:
        await held.guest.say(call(1, "t.hang"))
        held.guest.line.shutdown(socket.SHUT_RDWR)
    assert isinstance(held.error, GuestGoneError)
    assert held.gateway.begun == held.gateway.ended


@pytest.mark.anyio
async def test_guest_that_exits_before_its_job_is_gone() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    channel = Channel(ours, limit=1 << 10)
    bridge = Bridge(Gateway(), Names(), Limits(), end=lambda: None)
    with pytest.raises(GuestGoneError):
        await Conversation(channel, bridge, Limits()).run({"code": "x" * (1 << 20)})
    channel.close()


@pytest.mark.anyio
async def test_answer_to_a_dead_guest_is_dropped() -> None:
    async with talk() as held:
        await held.guest.say(call(1, "t.big", size=5_000_000), call(2, "t.big", size=5_000_000))
        await until(lambda: len(held.gateway.ended) == 2)
        held.guest.line.close()
    assert isinstance(held.error, GuestGoneError)


@pytest.mark.anyio
async def test_unread_answers_are_limited() -> None:
    async with talk(memory_bytes=16 << 20) as held:
        await held.guest.say(*[call(number, "t.big", size=3_000_000) for number in range(1, 9)])
        await until(lambda: held.error)
    assert isinstance(held.error, SandboxViolationError)
    assert "did not take the answers" in held.error.reason


@pytest.mark.anyio
async def test_result_that_cannot_be_encoded_is_an_error_for_the_guest() -> None:
    async with talk(memory_bytes=16 << 20) as held:
        await held.guest.say(call(1, "t.odd", size=2_000_000))
        answer = await held.guest.hear()
        await held.guest.say({"done": None})
    assert "12,000,023 bytes are more than" in answer["error"]["message"]
    assert held.error is None


@pytest.mark.anyio
async def test_any_gateway_exception_is_an_error_for_the_guest() -> None:
    async with talk() as held:
        await held.guest.say(call(1, "t.broken"))
        answer = await held.guest.hear()
        await held.guest.say({"done": 1})
    assert (answer["answer"], "error" in answer, held.value) == (1, True, 1)
    assert held.gateway.begun == held.gateway.ended


@pytest.mark.anyio
async def test_call_over_the_limit_ends_the_run() -> None:
    async with talk(max_tool_calls=3) as held:
        await held.guest.say(*[call(number) for number in range(1, 6)])
    assert isinstance(held.error, LimitExceededError)
    assert held.error.limit == "max_tool_calls"


ENDS: dict[str, tuple[dict[str, Any], type[ToolcribError], Callable[[Any], bool]]] = {
    "an exception": (
        {"error": {"reason": "ValueError: no", "line": 3, "column": 4, "traceback": "frames"}},
        CodeError,
        lambda error: (
            (error.reason, error.line, error.column, error.traceback) == ("ValueError: no", 3, 4, "frames")
        ),
    ),
    "an exception that lies about its place": (
        {"error": {"reason": "x", "line": -3, "column": "4", "traceback": 5}},
        CodeError,
        lambda error: (error.line, error.column, error.traceback) == (None, None, ""),
    ),
    "a long exception": (
        {"error": {"reason": "x" * 100_000, "line": None, "traceback": "y" * 100_000}},
        CodeError,
        lambda error: len(error.reason) < 5_000 and len(error.traceback) < 9_000,
    ),
    "a limit": (
        {"error": {"reason": "x", "limit": "memory_bytes"}},
        LimitExceededError,
        lambda e: e.limit == "memory_bytes",
    ),
    "memory": (
        {"error": {"reason": "MemoryError", "limit": "memory_bytes"}},
        LimitExceededError,
        lambda e: e.reason == "the code used more than 268,435,456 bytes (MemoryError)",
    ),
    "a disk that is full": (
        {"error": {"reason": "OSError: [Errno 27] File too large", "limit": "disk_bytes"}},
        LimitExceededError,
        lambda e: "more than 16,777,216 bytes (OSError: [Errno 27]" in e.reason,
    ),
    "an exception that cannot be printed": (
        {"error": {"reason": "a\x1b[31m\x00\x9b\tb\n", "traceback": "c\x7fd\n"}},
        CodeError,
        lambda e: (e.reason, e.traceback) == ("a[31m\tb\n", "cd\n"),
    ),
    "a limit that is none": (
        {"error": {"reason": "x", "limit": "max_tool_calls"}},
        CodeError,
        lambda e: e.reason == "x",
    ),
    "a limit that is no text": (
        {"error": {"reason": "x", "limit": ["pids"]}},
        CodeError,
        lambda e: e.reason == "x",
    ),
    "a large value": ({"done": "x" * 1_060_000}, LimitExceededError, lambda e: e.limit == "output_bytes"),
    "a deep value": (
        {"done": json.loads("[" * 500 + "]" * 500)},
        CodeError,
        lambda e: "__out is not JSON" in e.reason,
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ENDS)
async def test_reported_error_is_validated(name: str) -> None:
    message, kind, fits = ENDS[name]
    async with talk() as held:
        await held.guest.say(message)
    assert type(held.error) is kind
    assert fits(held.error)


@pytest.mark.anyio
async def test_value_with_a_lone_surrogate_is_refused() -> None:
    async with talk() as held:
        data = b'{"done":"\\ud800"}'
        await held.guest.write(len(data).to_bytes(4, "big") + data)
    assert isinstance(held.error, CodeError)
    assert "lone surrogate" in held.error.reason


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["reason", "traceback"])
async def test_reported_error_with_a_lone_surrogate_can_be_written(key: str) -> None:
    async with talk() as held:
        data = json.dumps({"error": {"reason": "x"} | {key: "a\ud800b"}}).encode()
        await held.guest.write(len(data).to_bytes(4, "big") + data)
    assert isinstance(held.error, CodeError)
    assert getattr(held.error, key).encode() == b"a?b"


@pytest.mark.anyio
async def test_too_many_pending_calls_end_the_run() -> None:
    async with talk(max_tool_calls=5_000) as held:
        await held.guest.say(*[call(number, "t.hang") for number in range(1, MAX_PENDING_CALLS + 2)])
        await until(lambda: held.error)
    assert isinstance(held.error, SandboxViolationError)
    assert "pending calls" in held.error.reason


@pytest.mark.anyio
async def test_size_of_pending_calls_is_limited() -> None:
    async with talk(memory_bytes=16 << 20) as held:

        async def flood() -> None:
            for number in range(1, 20):
                await held.guest.say(call(number, "t.hang", text="x" * 1_000_000))
                await until(lambda at=number: len(held.gateway.begun) == at)

        async with anyio.create_task_group() as calling:
            calling.start_soon(flood)
            await until(lambda: held.error)
            calling.cancel_scope.cancel()
    assert isinstance(held.error, LimitExceededError)
    assert held.error.limit == "memory_bytes"
    assert len(held.gateway.begun) <= 8


@pytest.mark.anyio
async def test_arguments_are_freed_while_their_answer_waits() -> None:
    tracemalloc.start()
    try:
        async with talk() as held:
            await held.guest.say(call(1, "t.big", size=5_000_000))
            for number in range(2, 30):
                await held.guest.say(call(number, "nothing", text="x" * 1_000_000))
            await until(lambda: held.gateway.ended)
            await until(lambda: tracemalloc.get_traced_memory()[0] < 20_000_000)
            held.guest.line.close()
    finally:
        tracemalloc.stop()
    assert isinstance(held.error, GuestGoneError)


@pytest.mark.anyio
async def test_second_cancel_of_a_call_is_a_violation() -> None:
    async with talk() as held:
        await held.guest.say(call(1))
        await held.guest.hear()
        await held.guest.say({"cancel": 1}, {"cancel": 1})
    assert isinstance(held.error, SandboxViolationError)
    assert "or twice" in held.error.reason


@pytest.mark.anyio
async def test_invalid_calls_are_limited() -> None:
    async with talk() as held:
        for number in range(1, 202):
            await held.guest.say(call(number, "nothing"))
            if number < 201:
                await held.guest.hear()
    assert isinstance(held.error, LimitExceededError)
    assert held.error.limit == "lookups"


@pytest.mark.anyio
async def test_guest_is_killed_before_its_pending_calls_are_awaited() -> None:
    async with talk() as held:
        await held.guest.say(call(1, "t.hang"))
        await until(lambda: held.gateway.begun)
        held.scope.cancel()
    assert held.stopped == [[]]
    assert held.gateway.ended == ["t:hang"]


@pytest.mark.anyio
async def test_guest_is_killed_after_its_last_message() -> None:
    async with talk() as held:
        await held.guest.say({"done": 1})
    assert held.stopped == [[]]

"""The result guard applied to errors."""

from collections.abc import Callable
from dataclasses import replace
from threading import current_thread, main_thread
from typing import Any, NoReturn

import pytest

from toolcrib.errors import ResultBlockedError, ToolExecutionError
from toolcrib.execution import Call
from toolcrib.execution.call import Answer, Update
from toolcrib.execution.middleware import ResultGuard
from toolcrib.model.findings import CheckedResult
from toolcrib.trust import ResultScan

pytestmark = pytest.mark.anyio
KEY = "AKIAIOSFODNN7EXAMPLQ"


class _Failing:
    """A tool that fails with a message."""

    def __init__(self, reason: str, result: Any, cause: str = "") -> None:
        self._reason, self._result, self._cause = reason, result, cause

    async def __call__(self, call: Call) -> NoReturn:
        error = ToolExecutionError(
            tool_id=call.tool_id, backend="mcp:shop", reason=self._reason, result=self._result
        )
        raise error from OSError(self._cause)


async def test_blocking_finding_outside_the_result_of_an_error_counts(make_call: Callable[..., Call]) -> None:
    guard = ResultGuard({}, ResultScan(personal="log", secrets="block"))
    failing = _Failing("it failed", {"text": "ask anna@acme.io"}, cause=f"the key is {KEY}")
    with pytest.raises(ResultBlockedError) as caught:
        await guard(make_call(), failing)
    assert [(each.kind, each.path) for each in caught.value.findings] == [
        ("personal", "/text"),
        ("secret", "/cause/0"),
    ]


async def test_finding_repeated_in_the_reason_is_counted_once(make_call: Callable[..., Call]) -> None:
    guard = ResultGuard({}, ResultScan(personal="redact"))
    said = "ask anna@acme.io"
    with pytest.raises(ToolExecutionError) as caught:
        await guard(make_call(), _Failing(said, {"text": said}))
    assert [each.path for each in caught.value.findings] == ["/text"]
    assert caught.value.reason == "ask [e-mail address]"


class _ThreadNotingScan:
    """A check that notes whether it runs in the thread of the event loop."""

    may_remove = True

    def __init__(self) -> None:
        self.in_loop: list[bool] = []
        self._scan = ResultScan(secrets="redact")

    def __call__(self, value: Any, /) -> CheckedResult:
        self.in_loop.append(current_thread() is main_thread())
        return self._scan(value)


@pytest.mark.parametrize("kind", ["message", "answer", "progress"])
async def test_large_message_is_checked_in_a_thread(make_call: Callable[..., Call], kind: str) -> None:
    scan, passed = _ThreadNotingScan(), list[Any]()

    async def emit(update: Update) -> None:
        passed.append(update.data)

    async def talk(call: Call) -> Answer:
        assert call.check is not None
        assert call.emit is not None
        for text in (f"short {KEY}", f"{'long ' * 250_000}{KEY}"):
            data = {"level": "info", "message": text}
            if kind == "progress":
                await call.emit(Update(kind="progress", data=data))
            else:
                check = call.check.check_message if kind == "message" else call.check.check_answer
                passed.append(await check(data))
        return Answer(structured="done")

    await ResultGuard({}, scan)(replace(make_call(), emit=emit), talk)
    assert [each["message"][-8:] for each in passed] == ["[secret]", "[secret]"]
    large = scan.in_loop.index(False)
    assert set(scan.in_loop[:large]) == {True}
    assert set(scan.in_loop[large:-1]) == {False}  # the last is the answer itself


async def test_a_key_in_pieces_is_taken_out_of_the_structured_value_too(
    make_call: Callable[..., Call],
) -> None:
    rest = {"rest": KEY[8:]}
    result = {"content": [{"type": "text", "text": KEY[:8]}], "structuredContent": rest}

    async def answer(_: Call) -> Answer:
        return Answer(structured=rest, mcp_result=result)

    answered = await ResultGuard({}, ResultScan(secrets="redact"))(make_call(), answer)
    assert answered.structured == {"rest": ""}
    assert answered.mcp_result["content"][0]["text"] == "[secret]"

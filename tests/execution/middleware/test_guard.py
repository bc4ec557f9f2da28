"""The guard of results, for what stands in errors."""

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from toolcrib.errors import ResultBlockedError, ToolExecutionError
from toolcrib.execution import Call
from toolcrib.execution.call import Answer
from toolcrib.execution.middleware import ResultGuard
from toolcrib.trust import ResultScan

pytestmark = pytest.mark.anyio
KEY = "AKIAIOSFODNN7EXAMPLQ"


class _Failing:
    """A tool that fails, and says why."""

    def __init__(self, reason: str, result: Any, cause: str = "") -> None:
        self._reason, self._result, self._cause = reason, result, cause

    async def __call__(self, call: Call) -> NoReturn:
        error = ToolExecutionError(
            tool_id=call.tool_id, backend="mcp:shop", reason=self._reason, result=self._result
        )
        raise error from OSError(self._cause)


async def test_what_blocks_outside_of_the_result_of_an_error_counts(make_call: Callable[..., Call]) -> None:
    guard = ResultGuard({}, ResultScan(personal="log", secrets="block"))
    failing = _Failing("it failed", {"text": "ask anna@acme.io"}, cause=f"the key is {KEY}")
    with pytest.raises(ResultBlockedError) as caught:
        await guard(make_call(), failing)
    assert [(each.kind, each.path) for each in caught.value.findings] == [
        ("personal", "/text"),
        ("secret", "/cause/0"),
    ]


async def test_what_a_reason_repeats_of_the_result_is_one_thing(make_call: Callable[..., Call]) -> None:
    guard = ResultGuard({}, ResultScan(personal="redact"))
    said = "ask anna@acme.io"
    with pytest.raises(ToolExecutionError) as caught:
        await guard(make_call(), _Failing(said, {"text": said}))
    assert [each.path for each in caught.value.findings] == ["/text"]
    assert caught.value.reason == "ask [e-mail address]"


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

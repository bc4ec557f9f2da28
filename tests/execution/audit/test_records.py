"""One record for each call."""

import math
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from toolcrib.discovery import Index
from toolcrib.errors import (
    ConfigError,
    OutputValidationError,
    Problem,
    ToolcribError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Answer, Outcome, Principal, Request, Runner
from toolcrib.execution.audit import Audit, AuditRecord
from toolcrib.execution.middleware import FROM_CACHE, Cache
from toolcrib.model import ToolAnnotations, tool


def record_of(outcome: Outcome, **options: Any) -> AuditRecord:
    records: list[AuditRecord] = []
    Audit(records.append, **{"clock": lambda: 1767225599.9994, **options}).begin("github:star", "ann")(
        outcome
    )
    (record,) = records
    return record


def test_a_record_says_who_what_where_how_and_how_much(outcome: Callable[..., Outcome]) -> None:
    assert record_of(outcome()).to_json() == {
        "time": "2025-12-31T23:59:59.999Z",
        "gen_ai.operation.name": "execute_tool",
        "user.id": "ann",
        "gen_ai.tool.name": "github:star",
        "toolcrib.policy.effect": "allow",
        "toolcrib.backend": "mcp:github",
        "toolcrib.transport": "ok",
        "toolcrib.protocol": "ok",
        "toolcrib.tool": "ok",
        "toolcrib.cached": False,
        "toolcrib.duration": 0.25,
        "toolcrib.arguments.bytes": len('{"repo":"secret"}'),
        "toolcrib.arguments.sha256": sha256(b'{"repo":"secret"}').hexdigest(),
        "toolcrib.result.bytes": len('{"stars":1}'),
    }


def test_a_failed_call_has_a_code_and_no_message(outcome: Callable[..., Outcome]) -> None:
    error = ToolExecutionError(tool_id="github:star", reason="secret", result={"isError": True})
    record = record_of(outcome(error=error))
    assert (record.error, record.op, record.tool) == ("execution_failed", "execute", "error")
    assert record.result_bytes == len('{"isError":true}')
    assert "secret" not in str(record.to_json())


def test_a_tool_that_nobody_knows_is_recorded_by_what_it_was_called(outcome: Callable[..., Outcome]) -> None:
    record = record_of(outcome(request=None, backend=None, error=ToolNotFoundError("github:star", ())))
    assert (record.tool_id, record.backend, record.error) == ("github:star", None, "tool_not_found")
    assert (record.op, record.args_bytes) == ("resolve", 17)


def test_the_interruption_of_the_caller_is_recorded(outcome: Callable[..., Outcome]) -> None:
    record = record_of(outcome(error=KeyboardInterrupt()))
    assert (record.error, record.op, record.transport) == ("cancelled", None, "cancelled")


def test_a_result_that_does_not_fit_is_measured_all_the_same(outcome: Callable[..., Outcome]) -> None:
    problems = (Problem("", "type", "must be an object"),)
    error = OutputValidationError(problems, tool_id="github:star", result=[1, 2])
    assert record_of(outcome(error=error)).result_bytes == 5


def test_a_raw_result_is_measured_where_there_is_no_value(outcome: Callable[..., Outcome]) -> None:
    assert record_of(outcome(answer=Answer(mcp_result={"content": []}))).result_bytes == 14
    assert record_of(outcome(answer=Answer())).result_bytes is None


def test_cached_answer_is_marked(outcome: Callable[..., Outcome]) -> None:
    assert record_of(outcome(answer=Answer(notes=(FROM_CACHE,)))).cached is True


@pytest.mark.parametrize("args", [{"a": object()}, {"a": "\ud800"}, [[]] * 0 + [(lambda: 0)]])
def test_value_that_is_not_json_has_no_size(outcome: Callable[..., Outcome], args: Any) -> None:
    assert record_of(outcome(args=args)).args_bytes is None


def test_cyclic_value_has_no_size(outcome: Callable[..., Outcome]) -> None:
    args: dict[str, Any] = {}
    args["self"] = args
    assert record_of(outcome(args=args)).args_bytes is None


def test_sizes_can_be_left_out(outcome: Callable[..., Outcome]) -> None:
    record = record_of(outcome(), sizes=False)
    assert (record.args_bytes, record.result_bytes) == (None, None)


def test_arguments_are_recorded_only_when_asked_for_and_as_a_copy(outcome: Callable[..., Outcome]) -> None:
    ended = outcome()
    assert record_of(ended).args is None
    record = record_of(ended, include_args=True)
    assert record.args == {"repo": "secret"}
    assert record.args is not ended.raw_args


def test_recorded_arguments_can_be_redacted(outcome: Callable[..., Outcome]) -> None:
    ended = outcome()

    def redact(tool_id: str, args: Any) -> Any:
        args["repo"] = f"hidden from {tool_id}"
        return args

    assert record_of(ended, include_args=True, redact=redact).args == {"repo": "hidden from github:star"}
    assert ended.raw_args == {"repo": "secret"}


def fail(_tool_id: str, _args: Any) -> Any:
    raise RuntimeError("secret")


def give_nan(_tool_id: str, _args: Any) -> Any:
    return math.nan


def test_arguments_that_cannot_be_redacted_are_left_out(outcome: Callable[..., Outcome]) -> None:
    assert record_of(outcome(), include_args=True, redact=fail).args == "(redaction failed)"
    assert record_of(outcome(), include_args=True, redact=give_nan).args is None
    assert record_of(outcome(args={"a": object()}), include_args=True).args is None


@pytest.mark.anyio
async def test_every_call_of_a_runner_leaves_one_record() -> None:
    @tool(namespace="math", annotations=ToolAnnotations(read_only_hint=True))
    async def half(number: int) -> float:
        if number % 2:
            raise ValueError("odd")
        return number / 2

    index = Index()
    index.register(half)
    records: list[AuditRecord] = []
    runner = Runner(index, local=[half], middleware=[Cache()], observers=[Audit(records.append)])
    calls = [("math:half", {"number": 2}), ("math:half", {"number": 2}), ("math:half", {"number": 1})]
    calls += [("math:half", {"number": "x"}), ("math:none", {})]
    for ref, args in calls:
        try:
            await runner.run(ref, args, principal=Principal(subject="ann"))
        except ToolcribError:
            continue
    assert [(each.transport, each.protocol, each.tool, each.error) for each in records] == [
        ("ok", "ok", "ok", None),
        ("none", "none", "ok", None),
        ("ok", "ok", "error", "execution_failed"),
        ("none", "invalid", "none", "validation_input"),
        ("none", "refused", "none", "tool_not_found"),
    ]
    assert {each.subject for each in records} == {"ann"}
    assert records[0].backend == "local:math:half"


@pytest.mark.anyio
async def test_a_call_that_ends_before_the_policy_decides_was_not_allowed() -> None:
    @tool(namespace="math")
    async def double(number: int) -> int:
        return 2 * number

    async def ask_somebody(_: Request) -> bool:
        await anyio.sleep_forever()
        return True

    index = Index()
    index.register(double)
    records: list[AuditRecord] = []
    runner = Runner(index, local=[double], policy=ask_somebody, observers=[Audit(records.append)])
    with pytest.raises(ToolTimeoutError):
        await runner.run("math:double", {"number": 2}, timeout=0.05)
    with anyio.move_on_after(0.05):
        await runner.run("math:double", {"number": 2})
    assert [(each.effect, each.tool) for each in records] == [(None, "none"), (None, "none")]
    assert records[0].error == "timeout"


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("a.jsonl", "Audit: /sink: must be a function that takes a record; did you mean JsonLines('a.jsonl')?"),
        (Path("a.jsonl"), "Audit: /sink: must be a function that takes a record; did you mean JsonLines('a.jsonl')?"),
        ([], "Audit: /sink: must be a function that takes a record, not a list; give its append"),
        (None, "Audit: /sink: must be a function that takes a record, not a NoneType"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_sink_that_takes_nothing_is_refused_at_once(sink: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Audit(sink)
    assert str(caught.value) == said

"""An error after the work was done never invites a retry."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import Asking, call_refused, call_tool, crib_of_tools, face_of, given
from waiting import PATIENCE

from toolcrib import Context, Crib, tool
from toolcrib.errors import BackendUnavailableError

pytestmark = pytest.mark.anyio
REPLIES = {"command": sys.executable, "args": [str(Path(__file__).with_name("replies.py"))]}


def working_crib(done: list[str], **options: Any) -> Crib:
    """Return a crib whose tools do their work and then give results that cannot be sent."""

    async def losing(call: Any, go_on: Any) -> Any:
        answer = await go_on(call)
        if call.tool_id == "gone":
            raise BackendUnavailableError(tool_id="gone", reason="it went")
        return answer

    crib = Crib(**{"middleware": [losing]} | options)

    @crib.add
    def many(count: int, call: Context) -> list[int]:
        """Give many values."""
        done.append("many")
        call.progress(1, 2)
        return [0] * count

    @crib.add
    async def gone() -> None:
        """Be gone."""
        done.append("gone")

    @tool
    def lies() -> str:
        """Return a value that contradicts the output schema."""
        done.append("lies")
        return "paid 5 EUR"

    lies.tool = lies.tool.replace(output_schema={"type": "object", "required": ["n"]})
    crib.add(lies)
    return crib


@pytest.mark.proof
async def test_a_chain_of_many_values_is_kept() -> None:
    done: list[str] = []
    face = face_of(working_crib(done), code=False)
    step = {"tool_id": "many", "args": {"count": 2_600}, "forEach": [0] * 200}
    ran = await given(face, "run_chain", {"steps": [step]})
    assert len(done) == 200
    whole = face.kept.read(ran["truncated"]["uri"])
    assert whole is not None
    assert json.loads(whole.data)["final"] == [[0] * 2_600] * 200
    result = await working_crib(done).run_chain([step])
    assert result.to_json()["final"] == result.to_json()["results"][0]["structured"] == result.final


@pytest.mark.parametrize(
    ("steps", "retryable"),
    [
        ([{"tool_id": "gone"}], True),
        ([{"tool_id": "many", "args": {"count": 1}, "when": False}, {"tool_id": "gone"}], True),
        ([{"tool_id": "many", "args": {"count": 1}}, {"tool_id": "gone"}], False),
        ([{"tool_id": "gone", "onError": "continue"}, {"tool_id": "gone"}], False),
        ([{"parallel": [{"tool_id": "many", "args": {"count": 1}}, {"tool_id": "gone"}]}], False),
    ],
    ids=["nothing", "skipped", "a step", "a failed step", "a part"],
)
async def test_a_chain_may_be_tried_again_only_where_nothing_of_it_ran(steps: Any, retryable: bool) -> None:
    face = face_of(working_crib([]), code=False)
    error = await call_refused(face, "run_chain", {"steps": steps})
    assert (error["code"], error["retryable"]) == ("chain_step_failed", retryable)


@pytest.mark.parametrize("name", ["run_tool", "run_chain"])
async def test_a_failure_of_our_own_after_the_work_does_not_ask_for_it_again(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(call: Any, go_on: Any) -> Any:
        await go_on(call)
        raise KeyError("bug")

    done: list[str] = []
    face = face_of(working_crib(done, middleware=[breaks]), code=False)
    args: dict[str, Any] = {"tool_id": "many", "args": {"count": 1}}
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        error = await call_refused(face, name, {"steps": [args]} if name == "run_chain" else args)
    assert done == ["many"]
    assert (error["code"], error["retryable"]) == ("internal", False)
    assert "may have run" in error["message"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\ud800", "a\\ud800"),
        (["ok", {"\ud800": "b"}], ["ok", {"\\ud800": "b"}]),
        (lambda: json.loads("[" * 300 + "]" * 300), lambda value: "[[[[" in json.dumps(value)),
    ],
    ids=["text", "key", "deep"],
)
@pytest.mark.parametrize("name", ["run_tool", "run_chain"])
async def test_a_value_that_json_cannot_carry_is_sent_as_well_as_can_be(
    name: str, value: Any, shown: Any
) -> None:
    async def instead(call: Any, go_on: Any) -> Any:
        answer = await go_on(call)
        return type(answer)(structured=value() if callable(value) else value)

    face = face_of(working_crib([], middleware=[instead]), code=False)
    args: dict[str, Any] = {"tool_id": "many", "args": {"count": 1}}
    result = await face.call(name, {"steps": [args]} if name == "run_chain" else args, Asking(can_ask=False))
    assert not result.is_error
    json.loads(result.model_dump_json())
    content: Any = result.structured_content
    found = content["final"] if name == "run_chain" else content["structured"]
    assert shown(found) if callable(shown) else found == shown


async def test_an_error_that_json_cannot_carry_is_told() -> None:
    crib = Crib()

    @crib.add
    def fails() -> None:
        """Fail."""
        raise ValueError("caf\udce9")

    result = await face_of(crib, code=False).call("run_tool", {"tool_id": "fails"}, Asking(can_ask=False))
    assert "caf" in result.model_dump_json()


async def test_a_result_that_breaks_the_promise_of_its_tool_is_shown() -> None:
    error = await call_refused(face_of(working_crib([]), code=False), "run_tool", {"tool_id": "lies"})
    assert (error["code"], error["retryable"]) == ("validation_output", False)
    assert "did run" in error["message"]
    assert error["details"]["result"] == '"paid 5 EUR"'


async def test_a_text_of_a_server_that_is_json_which_cannot_be_written_stays_a_text() -> None:
    async with Crib({"mcpServers": {"far": REPLIES}, "store": "memory"}) as crib:
        face = face_of(crib, code=False)
        for text in ('"\\ud800"', "[" * 300 + "]" * 300):
            args = {"result": {"content": [{"type": "text", "text": text}]}}
            with anyio.fail_after(PATIENCE):
                ran = await given(face, "run_tool", {"tool_id": "far:reply", "args": args})
            assert ran["structured"] == text


@pytest.mark.parametrize("name", ["run_tool", "run_chain"])
async def test_a_client_that_takes_no_progress_gets_the_answer(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Deaf(Asking):
        async def progress(self, progress: float, total: float | None, message: str | None) -> None:
            await super().progress(progress, total, message)
            if progress:
                raise anyio.BrokenResourceError

    done: list[str] = []
    face = face_of(working_crib(done), code=False)
    args: dict[str, Any] = {"tool_id": "many", "args": {"count": 1}}
    steps = {"steps": [args, args]}
    client = Deaf(can_ask=False, wants_progress=True)
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        ran = await given(face, name, steps if name == "run_chain" else args, client)
    assert client.told
    assert ran["final" if name == "run_chain" else "structured"] == [0]
    assert len(done) == (2 if name == "run_chain" else 1)


@pytest.mark.parametrize(
    "end",
    ["__out = 'x' * 2_000_000", "__out = await many(count=1)", "raise ValueError('late')"],
    ids=["too large", "too many calls", "raised"],
)
async def test_code_that_fails_after_its_calls_says_which_there_were(end: str) -> None:
    face = face_of(working_crib([]))
    code = f"await many(count=3)\nprint('half')\n{end}"
    error = await call_refused(face, "execute_code", {"code": code, "max_tool_calls": 1})
    assert error["retryable"] is False
    assert "1 call" in error["message"]
    assert "do not simply run it again" in error["message"]
    assert error["details"]["tool_calls"] == 1
    assert error["details"]["calls"] == [{"toolId": "many", "args": {"count": 3}}]


async def test_result_too_large_to_keep_does_not_invite_a_retry() -> None:
    crib = crib_of_tools()

    @crib.add
    def text() -> str:
        """Write."""
        return "x" * 70_000_000

    result = await call_tool(face_of(crib, code=False), "run_tool", {"tool_id": "text"})
    assert "it ran" in result.content[0].text
    assert result.structured_content["truncated"]["uri"] == ""

"""Laws of every call through a gateway, whether clients see the meta-tools or the tools themselves."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from gateway.passing import ERAS, whole
from mcp import Client
from waiting import until

from toolcrib.execution import Request
from toolcrib.execution.protocols import Allowed
from toolcrib.gateway import Gateway

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("era", ERAS),
    pytest.mark.parametrize("expose", ["meta", "all", "auto"]),
]


class Face:
    """A client of a gateway over one server, which calls its tools by the surface that it sees."""

    def __init__(self, gateway: Gateway, client: Client, expose: str) -> None:
        self.gateway, self._client, self._expose = gateway, client, expose

    async def run(self, tool: str, **args: Any) -> mcp_types.CallToolResult:
        """Return the result of a call."""
        if self._expose == "meta":
            return await self._client.call_tool("run_tool", {"tool_id": f"whole:{tool}", "args": args})
        return await self._client.call_tool(tool, args)

    async def code(self, tool: str, **args: Any) -> str:
        """Return the code of the error that a call ends with."""
        result = await self.run(tool, **args)
        assert result.is_error, result
        if self._expose == "meta":
            return str((result.structured_content or {})["error"]["code"])
        return str((result.meta or {})["toolcrib/error"]["code"])


@asynccontextmanager
async def open_face(
    era: str, expose: Any, *, config: dict[str, Any] | None = None, policy: Any = None, **options: Any
) -> AsyncIterator[Face]:
    settings = {"servers": {"whole": whole()}, **(config or {})}
    async with Gateway(settings, expose=expose, policy=policy) as gateway:
        await gateway.crib.namespaces()
        async with Client(gateway.endpoint(), mode=ERAS[era], **options) as client:  # type: ignore[arg-type]
            yield Face(gateway, client, expose)


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_destructive_tool_runs_only_when_the_user_agrees(era: str, expose: str, agrees: bool) -> None:
    questions: list[str] = []

    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"confirm": agrees})

    async with open_face(era, expose, elicitation_callback=answer) as face:
        if agrees:
            assert not (await face.run("erase")).is_error
        else:
            assert await face.code("erase") == "denied"
        await face.run("repeat", word="harmless")
    assert len(questions) == 1
    assert "whole:erase" in questions[0]


async def test_a_question_that_a_client_dismisses_is_told_from_a_no(
    era: str, expose: str, tmp_path: Path
) -> None:
    path = tmp_path / "audit.jsonl"

    async def dismiss(*_: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="cancel")

    config = {"audit": {"path": str(path)}}
    async with open_face(era, expose, config=config, elicitation_callback=dismiss) as face:
        refused = await face.run("erase")
        await until(lambda: path.exists() and path.read_text().count("\n") >= 1, "the refusal is written")
    assert refused.is_error
    text = str(refused)
    assert "declined" not in text
    assert "dismissed without an answer" in text
    assert "gateway.confirm = false" in text
    line = json.loads(path.read_text().splitlines()[0])
    assert (line["toolcrib.policy.effect"], line["toolcrib.policy.answer"]) == ("deny", "dismissed")


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        ({"tools": ["whole:erase"]}, 0),
        ({"annotations": {"destructiveHint": True}}, 0),
        ({"tools": ["whole:*"]}, 0),
        ({"tools": ["*"]}, 1),
        ({}, 1),
    ],
    ids=["its id", "the hint", "a pattern", "a star", "everything"],
)
async def test_rule_that_names_a_destructive_tool_is_consent(
    era: str, expose: str, rule: dict[str, Any], asks: int
) -> None:
    questions: list[str] = []

    async def agree(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"confirm": True})

    config = {"policy": [{"name": "allowed", "effect": "allow", **rule}]}
    async with open_face(era, expose, config=config, elicitation_callback=agree) as face:
        assert not (await face.run("erase")).is_error
    assert len(questions) == asks


async def test_a_policy_refuses_calls(era: str, expose: str) -> None:
    def policy(request: Request) -> str | None:
        return "not on Sundays" if request.tool.name == "repeat" else None

    async with open_face(era, expose, policy=policy) as face:
        assert await face.code("repeat") == "denied"


async def test_a_deadline_ends_calls(era: str, expose: str) -> None:
    async with open_face(era, expose, config={"timeout": 0.5}) as face:
        assert await face.code("wait") == "timeout"


async def test_a_call_is_written_down_and_counted(era: str, expose: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with open_face(era, expose, config={"audit": {"path": str(path)}}) as face:
        await face.run("repeat", word="hello")
        await until(lambda: path.exists() and path.read_text().count("\n") >= 1, "the call is written")
        text, _ = face.gateway.metrics()
    line = json.loads(path.read_text().splitlines()[0])
    assert "whole:repeat" in str(line)
    assert 'toolcrib_calls_total{namespace="whole",outcome="ok"} 1.0' in text.decode()


async def test_the_audit_names_the_rule_of_a_policy_that_the_program_gives(
    era: str, expose: str, tmp_path: Path
) -> None:
    path = tmp_path / "audit.jsonl"
    async with open_face(
        era, expose, policy=lambda _: Allowed("everybody"), config={"audit": {"path": str(path)}}
    ) as face:
        await face.run("repeat", word="hello")
        await until(lambda: path.exists() and path.read_text().count("\n") >= 1, "the call is written")
    assert json.loads(path.read_text().splitlines()[0])["toolcrib.policy.rule"] == "everybody"


async def test_result_carries_no_meta_of_its_own(era: str, expose: str) -> None:
    async with open_face(era, expose) as face:
        meta = (await face.run("repeat", word="hello")).meta or {}
    assert not [key for key in meta if key.startswith("toolcrib/")]

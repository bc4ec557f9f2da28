"""Results that are too large to send."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import call_tool, crib_of_tools, face_of, texts
from servers.launch import python

from toolcrib.crib import GatewaySettings
from toolcrib.execution import ChainLimits, Principal
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.results import PREFIX, KeptResults, encoded, encoded_in_turns

pytestmark = pytest.mark.anyio


def test_results_are_kept_up_to_so_many_bytes() -> None:
    kept = KeptResults(max_bytes=100)
    first, second = kept.keep("a" * 60, "text/plain"), kept.keep(b"b" * 30, "image/png")
    assert first is not None
    assert second is not None
    assert first.startswith(PREFIX)
    assert len({first, second}) == 2
    third = kept.keep("c" * 60, "text/plain")
    assert kept.read(first) is None
    assert third is not None
    found = kept.read(second)
    assert found is not None
    assert (found.data, found.mime_type, found.size) == (b"b" * 30, "image/png", 30)
    assert kept.keep("d" * 101, "text/plain") is None
    assert len(kept) == 2
    assert kept.read("toolcrib://results/guess") is None


def test_no_principal_loses_a_kept_result_to_another_that_keeps_more() -> None:
    kept = KeptResults(max_bytes=100)

    def keep(subject: str, size: int, client: str = "") -> str | None:
        principal = Principal(issuer="tokens", subject=subject, client=client)
        uri = kept.keep("a" * size, "text/plain", principal)
        return uri if uri is not None and kept.read(uri, principal) is not None else None

    ann = keep("ann", 30)
    greedy = [keep("bob", 10, f"client {number}") for number in range(50)]
    assert all(greedy)
    assert ann is not None
    assert kept.read(ann, Principal(issuer="tokens", subject="ann")) is not None
    assert kept.read(ann, Principal(issuer="tokens", subject="bob")) is None
    assert len(kept) == 8
    assert keep("bob", 90) is None
    assert keep("eve", 40) is not None


def test_results_are_kept_for_so_long() -> None:
    clock = [0.0]
    kept = KeptResults(max_age=10, clock=lambda: clock[0])
    uri = kept.keep("a", "text/plain") or ""
    clock[0] = 10
    assert kept.read(uri) is not None
    clock[0] = 10.5
    assert kept.read(uri) is None
    assert len(kept) == 0


async def test_a_large_result_is_shown_in_part_and_kept_whole() -> None:
    crib = crib_of_tools()

    @crib.add
    def numbers(count: int) -> list[int]:
        """Count."""
        return list(range(count))

    @crib.add
    def text(size: int) -> str:
        """Write."""
        return "ä" * size

    face = face_of(crib, result_bytes=4096)
    small = await call_tool(face, "run_tool", {"tool_id": "numbers", "args": {"count": 10}})
    assert "truncated" not in small.structured_content
    large = await call_tool(face, "run_tool", {"tool_id": "numbers", "args": {"count": 5000}})
    said = large.structured_content
    assert said["structured"] is None
    assert said["toolId"] == "numbers"
    kept = face.kept.read(said["truncated"]["uri"])
    assert kept is not None
    assert json.loads(kept.data) == list(range(5000))
    assert kept.mime_type == "application/json"
    assert said["truncated"]["bytes"] == len(kept.data)
    assert said["truncated"]["preview"].startswith("[0,1,2")
    assert [block.type for block in large.content] == ["text", "resource_link"]
    assert large.content[1].uri == said["truncated"]["uri"]
    assert f"read the whole at {said['truncated']['uri']}" in texts(large)[0]
    written = (
        await call_tool(face, "run_tool", {"tool_id": "text", "args": {"size": 3000}})
    ).structured_content
    assert written["truncated"]["bytes"] == 6000
    whole = face.kept.read(written["truncated"]["uri"])
    assert whole is not None
    assert (whole.data, whole.mime_type) == ("ä" * 3000, "text/plain")


async def test_chains_and_code_are_cut_too() -> None:
    crib = crib_of_tools()

    @crib.add
    def text(size: int) -> str:
        """Write."""
        return "x" * size

    @crib.add
    def stops() -> None:
        """Stop."""
        raise RuntimeError("stopped")

    face = face_of(crib, result_bytes=4096)
    step = {"tool_id": "text", "args": {"size": 5000}}
    chain = (await call_tool(face, "run_chain", {"steps": [step]})).structured_content
    assert chain["final"] is None
    assert chain["results"][0]["toolId"] == "text"
    assert chain["results"][0]["structured"] is None
    whole = face.kept.read(chain["truncated"]["uri"])
    assert whole is not None
    assert json.loads(whole.data)["final"] == "x" * 5000
    broken = (await call_tool(face, "run_chain", {"steps": [step, {"tool_id": "stops"}]})).structured_content
    assert broken["error"]["code"] == "chain_step_failed"
    assert broken["results"][0]["structured"] is None
    assert broken["truncated"]["uri"]
    many = (await call_tool(face, "run_chain", {"steps": [step] * 100})).structured_content
    assert many["results"] == []
    assert many["truncated"]["uri"]
    code = (await call_tool(face, "execute_code", {"code": "__out = 'x' * 5000"})).structured_content
    assert code["value"] is None
    assert code["truncated"]["bytes"] > 5000


async def test_result_that_cannot_be_kept_is_still_summarized() -> None:
    crib = crib_of_tools()

    @crib.add
    def text() -> str:
        """Write."""
        return "x" * 5000

    face = MetaTools(crib, GatewaySettings(result_bytes=1024), kept=KeptResults(max_bytes=1000))
    result = await call_tool(face, "run_tool", {"tool_id": "text"})
    assert result.structured_content["truncated"]["uri"] == ""
    assert [block.type for block in result.content] == ["text"]
    assert "ask for less" in texts(result)[0]


@pytest.mark.proof
@pytest.mark.parametrize(
    "kind",
    ["text", "values", "fallback", "arguments"],
)
async def test_one_small_chain_does_not_take_all_memory(kind: str) -> None:
    program = Path(__file__).with_name("chain_memory.py")
    paths = os.pathsep.join([*sys.path, str(program.parents[3])])
    env = {**os.environ, "PYTHONPATH": paths}
    ended = await anyio.run_process(python(str(program), kind, "1500"), env=env, stderr=None)
    told = json.loads(ended.stdout)
    assert told["grown"] < 16 * ChainLimits().max_bytes  # 1,500 items took 2 GB and more
    error = told["reply"]["error"]
    assert error["details"]["cause"]["code"] == "limit_exceeded"
    assert error["retryable"] is False
    assert told["reply"]["results"][0]["toolId"] == "echo"


async def test_results_of_a_failed_step_are_reported_within_the_limit() -> None:
    crib = crib_of_tools()

    @crib.add
    def half(number: int, size: int) -> str:
        """Fail in the end."""
        if number == 3:
            raise ValueError("enough")
        return "x" * size

    def chain(size: int) -> dict[str, Any]:
        args = {"number": {"$ref": "item"}, "size": size}
        step = {"tool_id": "half", "args": args, "forEach": [0, 1, 2, 3], "maxConcurrency": 1}
        return {"steps": [{"tool_id": "shop:order", "args": {"number": 7}}, step]}

    face = face_of(crib, result_bytes=4096)
    small = (await call_tool(face, "run_chain", chain(10))).structured_content["results"]
    assert [part.get("structured") for part in small[1]["parts"]] == ["x" * 10] * 3 + [None]
    large = (await call_tool(face, "run_chain", chain(5_000))).structured_content
    assert large["results"][0]["structured"] == {"number": 7, "total": 5.0}
    assert ["error" in part for part in large["results"][1]["parts"]] == [False, False, False, True]
    kept = face.kept.read(large["truncated"]["uri"])
    assert kept is not None
    assert json.loads(kept.data)["results"][1]["parts"][2]["structured"] == "x" * 5_000


async def test_large_json_is_written_in_turns_with_other_work() -> None:
    value = {
        "results": [{"structured": ["x" * 10_000] * 500, "a/b": {}}],
        "final": None,
        "none": [],
        "n": 1.5,
    }
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        text = await encoded_in_turns(value)
        group.cancel_scope.cancel()
    assert text == encoded(value)
    assert turns > 10

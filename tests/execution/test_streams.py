"""Streams: events as they happen, one end, back-pressure, and streams that are abandoned."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from contracts.executor import DEADLINES
from execution.toolbox import add, bare, index_of, record, runner_of
from waiting import PATIENCE

from toolcrib.errors import (
    OutputValidationError,
    StreamNotSupportedError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Answer, Call, Runner, StreamEvent
from toolcrib.model import Context, ProviderBackend, tool

pytestmark = pytest.mark.anyio


async def events(runner: Runner, tool_id: str, args: Any = None, **options: Any) -> list[StreamEvent]:
    return [event async for event in runner.stream(tool_id, args, **options)]


async def test_a_tool_that_tells_nothing_is_one_done() -> None:
    (done,) = await events(runner_of(add), "add", {"a": 1})
    assert (done.kind, done.tool_id, done.data) == ("done", "add", 2)
    assert done.to_json() == {
        "kind": "done",
        "toolId": "add",
        "data": 2,
        "backend": {"kind": "local", "name": "add"},
    }


@pytest.mark.parametrize(("asked", "ref"), [("shop:count:1.2.0", None), ("shop:count", "shop:count")])
async def test_every_event_names_the_tool_by_its_id_and_what_was_asked_for(
    asked: str, ref: str | None
) -> None:
    @tool(namespace="shop", version="1.2.0")
    async def count(context: Context) -> int:
        await context.progress(1, 2)
        return 2

    found = await events(runner_of(count), asked, {})
    assert [(event.kind, event.tool_id, event.ref) for event in found] == [
        ("progress", "shop:count:1.2.0", ref),
        ("done", "shop:count:1.2.0", ref),
    ]


async def test_a_null_result_is_in_the_json_of_its_event() -> None:
    @tool
    def nothing() -> None:
        return None

    (done,) = await events(runner_of(nothing), "nothing", {})
    assert done.to_json()["data"] is None
    assert (await runner_of(nothing).run("nothing", {})).to_json()["structured"] is None


class Batch:
    """A provider that answers when all is done."""

    streams = False

    async def call(self, call: Call) -> Answer:
        return Answer(structured=call.streamed)


async def test_a_provider_that_cannot_stream_is_run_and_not_streamed() -> None:
    index = index_of((record(), ProviderBackend(provider_id="shop", tool_id="x")))
    runner = Runner(index, providers={"shop": Batch()})
    (refused,) = await events(runner, "echo", {})
    assert isinstance(refused.error, StreamNotSupportedError)
    assert refused.data["message"] == "echo cannot stream on provider:shop; run it instead"
    assert (refused.kind, refused.data["code"]) == ("error", "stream_not_supported")
    assert (await runner.run("echo", {}, progress=lambda *_: None)).structured is False


@tool
def letters(word: str) -> Iterator[str]:
    yield from word


@tool
async def slowly(word: str) -> AsyncIterator[str]:
    for letter in word:
        await anyio.lowlevel.checkpoint()
        yield letter


@pytest.mark.parametrize("speller", [letters, slowly])
async def test_generator_yields_chunks_and_the_value_is_their_list(speller: Any) -> None:
    runner = runner_of(speller)
    told = await events(runner, speller.tool.name, {"word": "abc"})
    assert [(event.kind, event.data) for event in told] == [
        ("chunk", "a"),
        ("chunk", "b"),
        ("chunk", "c"),
        ("done", ["a", "b", "c"]),
    ]
    assert (await runner.run(speller.tool.name, {"word": "ab"})).structured == ["a", "b"]


async def test_a_generator_may_return_its_value() -> None:
    def count() -> Any:
        yield 1
        yield 2
        return {"sum": 3}

    assert (await events(bare(count), "echo"))[-1].data == {"sum": 3}


async def test_progress_and_logs_are_events() -> None:
    @tool
    async def work(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.log("look", "warning")
        return "ok"

    told = await events(runner_of(work), "work")
    assert [(event.kind, event.data) for event in told] == [
        ("progress", {"progress": 1, "total": 2, "message": "half"}),
        ("progress", {"message": "look", "level": "warning"}),
        ("done", "ok"),
    ]


async def test_a_failure_is_one_error_event_at_the_end_with_the_exception() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise OSError("disk full")

    told = await events(bare(fail), "echo")
    assert [event.kind for event in told] == ["chunk", "error"]
    assert told[-1].data["code"] == "execution_failed"
    assert "disk full" in str(told[-1].error)
    assert "error" not in told[-1].to_json()


async def test_an_unknown_tool_is_an_error_event_too() -> None:
    (told,) = await events(runner_of(add), "nothing")
    assert isinstance(told.error, ToolNotFoundError)
    assert told.data["code"] == "tool_not_found"


async def test_the_whole_value_is_checked_at_the_end() -> None:
    strict = record(output_schema={"type": "array", "maxItems": 1})

    def two() -> Iterator[int]:
        yield from (1, 2)

    told = await events(bare(two, strict), "echo")
    assert [event.kind for event in told] == ["chunk", "chunk", "error"]
    assert isinstance(told[-1].error, OutputValidationError)


async def test_a_deadline_ends_a_stream_with_an_error() -> None:
    async def endless() -> AsyncIterator[int]:
        yield 1
        await anyio.sleep_forever()

    for seconds in DEADLINES:
        told = await events(bare(endless), "echo", timeout=seconds)
        if len(told) > 1:
            break
    assert [event.kind for event in told] == ["chunk", "error"]
    assert isinstance(told[-1].error, ToolTimeoutError)


async def test_a_tool_waits_for_a_reader_that_is_slow() -> None:
    made: list[int] = []

    async def count() -> AsyncIterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    async with aclosing(bare(count).stream("echo")) as stream:
        await anext(stream)
        await anyio.wait_all_tasks_blocked()
        assert len(made) < 50


async def test_leaving_a_stream_cancels_the_tool() -> None:
    ended = anyio.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    async for _ in bare(endless).stream("echo"):
        break
    gc.collect()
    with anyio.fail_after(PATIENCE):
        await ended.wait()
        with anyio.move_on_after(0.01):  # the scopes of this task are whole
            await anyio.sleep_forever()


async def test_a_reader_that_is_cancelled_cancels_the_tool() -> None:
    running, ended = anyio.Event(), anyio.Event()

    async def hang() -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events, bare(hang), "echo")
        await running.wait()
        tasks.cancel_scope.cancel()
    assert ended.is_set()


async def test_a_stream_that_is_never_read_runs_nothing() -> None:
    ran: list[int] = []
    stream = bare(lambda: ran.append(1)).stream("echo")
    await stream.aclose()  # type: ignore[attr-defined]  # a generator is what it is
    assert ran == []


async def test_many_streams_run_side_by_side() -> None:
    runner = runner_of(slowly)
    seen: list[str] = []

    async def read(word: str) -> None:
        seen.append(
            "".join([e.data async for e in runner.stream("slowly", {"word": word}) if e.kind == "chunk"])
        )

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(read, f"word{number}")
    assert sorted(seen) == sorted(f"word{number}" for number in range(50))


async def test_a_mistake_of_ours_is_raised_and_not_dressed_as_an_event() -> None:
    class Broken:
        def resolve(self, ref: Any) -> Any:
            raise RuntimeError(ref)

        def backends(self, tool_id: Any) -> Any:
            raise AssertionError(tool_id)

    with pytest.raises(RuntimeError, match="echo"):
        await events(Runner(Broken()), "echo")

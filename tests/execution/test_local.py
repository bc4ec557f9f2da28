"""Python functions as tools: every kind, their arguments, and the errors that they raise."""

import functools
import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from execution.toolbox import bare, index_of, record, runner_of, schema
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from waiting import PATIENCE

from toolcrib.errors import (
    BackendUnavailableError,
    InputValidationError,
    InvalidBackendError,
    InvalidToolError,
    NoBackendError,
    ToolCancelledError,
    ToolExecutionError,
    ToolTimeoutError,
)
from toolcrib.execution import LocalHandlers, Principal, Runner
from toolcrib.execution.middleware import Retry
from toolcrib.model import Context, LocalBackend, tool

pytestmark = pytest.mark.anyio


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Item(BaseModel):
    name: str
    price: float = Field(alias="unitPrice")


@dataclass
class Order:
    items: list[Item]
    on: date


async def test_arguments_become_the_types_that_the_function_declares() -> None:
    @tool
    def order(
        items: list[Item], on: date, size: Size = Size.SMALL, tags: frozenset[str] = frozenset()
    ) -> Order:
        assert isinstance(items[0], Item)
        assert isinstance(on, date)
        assert size is Size.LARGE
        assert tags == {"a"}
        return Order(items, on)

    args = {"items": [{"name": "x", "unitPrice": 2}], "on": "2026-01-02", "size": "large", "tags": ["a"]}
    result = await runner_of(order).run("order", args)
    assert result.structured == {"items": [{"name": "x", "unitPrice": 2.0}], "on": "2026-01-02"}


async def test_constraint_outside_the_schema_is_still_an_input_error() -> None:
    @tool
    def when(at: datetime) -> str:
        return at.isoformat()

    with pytest.raises(InputValidationError) as refused:
        await runner_of(when).run("when", {"at": "yesterday"})
    assert refused.value.problems[0].path == "/at"
    assert refused.value.backend == "local:when"


async def test_a_plain_function_gets_its_arguments_by_name() -> None:
    assert (await bare(lambda a, b=2: [a, b]).run("echo", {"a": 1})).structured == [1, 2]


@pytest.mark.parametrize(
    "handler",
    [lambda args: args, lambda args, /: args, lambda everything: everything],
    ids=["one", "position", "any"],
)
async def test_a_single_parameter_that_is_no_property_takes_all_arguments(handler: Any) -> None:
    declared = record(input_schema=schema({"from-date": {"type": "string"}}))
    assert (await bare(handler, declared).run("echo", {"from-date": "x"})).structured == {"from-date": "x"}


async def test_a_single_parameter_that_is_a_property_takes_that() -> None:
    declared = record(input_schema=schema({"args": {"type": "integer"}}))
    assert (await bare(lambda args: args, declared).run("echo", {"args": 3})).structured == 3


async def test_the_running_call_is_given_to_who_asks_for_it_by_type() -> None:
    async def late(args: dict[str, Any], ctx: Context) -> list[Any]:
        return [args, ctx.tool_id, ctx.caller, ctx.cancelled]

    result = await bare(late).run("echo", {"x": 1}, principal=Principal(subject="anna"))
    assert result.structured == [{"x": 1}, "echo", "anna", False]

    class Callable_:  # noqa: N801 - it stands for any object that can be called
        def __call__(self, x: int, ctx: Context | None = None) -> list[Any]:
            assert ctx is not None
            return [x, ctx.tool_id]

    assert (await bare(Callable_()).run("echo", {"x": 1})).structured == [1, "echo"]


async def test_a_context_is_in_no_schema() -> None:
    @tool
    async def work(n: int, ctx: Context) -> int:
        assert not ctx.cancelled
        return n

    assert set(work.tool.input_schema["properties"]) == {"n"}
    assert (await runner_of(work).run("work", {"n": 1})).structured == 1


async def test_a_function_in_a_thread_tells_its_progress_too() -> None:
    def work(ctx: Context) -> str:
        ctx.progress(0.5)
        ctx.log("done soon")
        return "ok"

    told = [event.data async for event in bare(work).stream("echo")]
    assert told == [{"progress": 0.5}, {"message": "done soon", "level": "info"}, "ok"]


async def test_update_without_a_listener_is_dropped() -> None:
    async def work(ctx: Context) -> str:
        await ctx.progress(1)
        return "ok"

    assert (await bare(work).run("echo")).structured == "ok"


async def test_update_after_the_end_is_dropped() -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> None:
        kept.append(ctx)

    told = [event.kind async for event in bare(work).stream("echo")]
    await kept[0].progress(1)
    assert told == ["done"]


async def test_functions_run_in_threads_and_coroutines_in_the_loop() -> None:
    here = threading.get_ident()
    assert (await bare(threading.get_ident).run("echo")).structured != here

    async def ident() -> int:
        return threading.get_ident()

    assert (await bare(ident).run("echo")).structured == here
    assert (await bare(functools.partial(ident)).run("echo")).structured == here


async def test_a_function_that_hands_on_a_coroutine_is_awaited() -> None:
    async def inner() -> str:
        return "inner"

    assert (await bare(lambda: inner()).run("echo")).structured == "inner"  # noqa: PLW0108 - that is the point


class RudeError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError(), "KeyError"),
        (StopIteration(), "StopIteration"),
        (SystemExit(2), "SystemExit: 2"),
        (RudeError(), "RudeError"),
        (OSError(2, "gone", "/home/anna/x.txt"), "'<path>'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_exception_of_a_handler_is_an_error_of_the_tool(
    error: BaseException, said: str, asynchronous: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_late() -> None:
        raise error

    if asynchronous and isinstance(error, StopIteration):
        said = "RuntimeError: coroutine raised StopIteration"
    with pytest.raises(ToolExecutionError, match=said) as told:
        await bare(fail_late if asynchronous else fail).run("echo")
    assert told.value.op == "execute"
    assert told.value.__cause__ is not None
    assert "/home" not in str(told.value)


async def test_a_handler_may_raise_the_error_itself() -> None:
    def fail() -> None:
        raise ToolExecutionError(tool_id="echo", reason="sold out", result={"left": 0})

    with pytest.raises(ToolExecutionError, match="sold out") as told:
        await bare(fail).run("echo")
    assert told.value.result == {"left": 0}


async def test_a_handler_whose_work_was_cancelled_by_another_is_told_apart() -> None:
    async def fail() -> None:
        raise anyio.get_cancelled_exc_class()

    with pytest.raises(ToolCancelledError, match="what it waited for was cancelled"):
        await bare(fail).run("echo")


async def test_annotations_that_only_type_checkers_know_do_not_matter() -> None:
    def work(x: "Unknown") -> "Unknown":  # type: ignore[name-defined]  # noqa: F821 - that is the point
        return x

    assert (await bare(work).run("echo", {"x": 1})).structured == 1


def test_one_context_is_enough() -> None:
    with pytest.raises(InvalidToolError, match="a second Context"):

        @tool
        def work(one: Context, two: Context) -> bool:
            return one is two


@pytest.mark.parametrize("value", [object(), float("nan"), {1, float("inf")}, "\ud800", {"x": object()}])
async def test_a_value_that_is_not_json_is_the_tools_failure(value: Any) -> None:
    with pytest.raises(ToolExecutionError, match="not JSON"):
        await bare(lambda: value).run("echo")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ((1, 2), [1, 2]),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (Item(name="x", unitPrice=1), {"name": "x", "unitPrice": 1.0}),
        ({"deep": [Size.SMALL]}, {"deep": ["small"]}),
        (10**30, 10**30),
    ],
)
async def test_a_value_comes_back_as_json(value: Any, expected: Any) -> None:
    assert (await bare(lambda: value).run("echo")).structured == expected


async def test_a_value_is_a_copy_of_what_the_handler_keeps() -> None:
    kept: dict[str, list[int]] = {"x": []}
    result = await bare(lambda: kept).run("echo")
    kept["x"].append(1)
    assert result.structured == {"x": []}


async def test_a_function_whose_caller_gave_up_is_told_and_keeps_its_thread_until_it_ends() -> None:
    running, release = threading.Event(), threading.Event()
    seen: list[bool] = []

    def hang(ctx: Context) -> None:
        running.set()
        release.wait(PATIENCE)
        seen.append(ctx.cancelled)

    handlers = LocalHandlers({"hang": hang, "quick": lambda: 1}, max_threads=1)
    index = index_of(
        (record("hang"), LocalBackend(name="hang")), (record("quick"), LocalBackend(name="quick"))
    )
    runner = Runner(index, local=handlers)
    with anyio.move_on_after(PATIENCE) as scope:
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await runner.run("hang")

            group.start_soon(call)
            await anyio.to_thread.run_sync(running.wait, PATIENCE)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    with anyio.move_on_after(0.05) as waiting:
        await runner.run("quick")
    assert waiting.cancelled_caught
    release.set()
    with anyio.fail_after(PATIENCE):
        assert (await runner.run("quick")).structured == 1
    assert seen == [True]


async def test_a_generator_whose_reader_left_is_closed() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async for _ in bare(endless).stream("echo"):
        break
    assert await anyio.to_thread.run_sync(closed.wait, PATIENCE)


def test_handlers_are_found_by_name_and_tools_by_their_id() -> None:
    @tool(namespace="shop", version="1.0.0")
    def buy(item: Annotated[str, "what"]) -> str:
        return item

    handlers = LocalHandlers({"mine": buy})
    assert "mine" in handlers
    assert "shop:buy:1.0.0" in handlers
    handlers.remove("mine")
    handlers.remove("mine")
    assert "mine" not in handlers


def test_handler_must_be_callable() -> None:
    with pytest.raises(InvalidBackendError, match="must be a function, not int"):
        LocalHandlers({"x": 3})  # type: ignore[dict-item]  # that is the point


async def test_a_name_that_is_nearly_right_is_suggested() -> None:
    index = index_of((record(), LocalBackend(name="serch")))
    with pytest.raises(NoBackendError, match="did you mean 'search'"):
        await Runner(index, local={"search": int}).run("echo")


async def test_many_calls_run_at_once() -> None:
    barrier = threading.Barrier(20, timeout=PATIENCE)
    runner = bare(lambda: barrier.wait() >= 0)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(runner.run, "echo")


async def test_an_interrupt_is_not_swallowed() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await bare(interrupt).run("echo")


async def test_a_builtin_without_a_signature_gets_its_arguments_by_name() -> None:
    assert (await bare(dict).run("echo", {"a": 1})).structured == {"a": 1}
    assert sys.version_info >= (3, 11)


async def test_a_function_that_is_given_up_before_it_begins_takes_no_thread() -> None:
    handlers = LocalHandlers({"quick": lambda: 1}, max_threads=2)
    runner = Runner(index_of((record("quick"), LocalBackend(name="quick"))), local=handlers)
    for ticks in range(1, 9):
        for _ in range(5):
            async with anyio.create_task_group() as group:
                group.start_soon(runner.run, "quick")
                for _ in range(ticks):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(runner.run, "quick")


@pytest.mark.proof
def test_a_program_ends_although_a_stream_was_left() -> None:
    program = """
import anyio
from toolcrib import Crib, Context
crib = Crib()
@crib.add
def count():
    for number in range(100_000):
        yield number
@crib.add
def work(call: Context) -> int:
    for number in range(100_000):
        call.progress(number)
    return 1
async def main():
    async for event in crib.stream("count"):
        break
    try:
        await crib.run("work", timeout=0.05, progress=lambda *told: None)
    except TimeoutError:
        print("late")
anyio.run(main)
"""
    for _ in range(10):
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "late\n", "")


def test_a_program_ends_although_a_function_hangs() -> None:
    program = """
import anyio, threading
from toolcrib import Crib
crib = Crib()
@crib.add
def hang():
    threading.Event().wait()
async def main():
    try:
        await crib.run("hang", timeout=0.05)
    except TimeoutError:
        print("late")
anyio.run(main)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "late\n", "")


def test_a_forked_process_has_threads_of_its_own() -> None:
    runner = bare(lambda: 1)

    async def run() -> int:
        return int((await runner.run("echo", timeout=PATIENCE)).structured)

    assert anyio.run(run) == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if anyio.run(run) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_end_with_whoever_has_them() -> None:
    before = set(threading.enumerate())
    runner = bare(lambda: 1)
    anyio.run(runner.run, "echo")
    started = set(threading.enumerate()) - before
    assert len(started) == 1
    del runner
    gc.collect()
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_threads_are_free_again_in_the_next_event_loop() -> None:
    release = threading.Event()
    handlers = LocalHandlers({"hang": lambda: release.wait(PATIENCE)}, max_threads=1)
    runner = Runner(index_of((record("hang"), LocalBackend(name="hang"))), local=handlers)

    async def give_up() -> None:
        with pytest.raises(ToolTimeoutError):
            await runner.run("hang", timeout=0.05)

    async def again() -> bool:
        release.set()
        return bool((await runner.run("hang", timeout=PATIENCE)).structured)

    anyio.run(give_up)
    assert anyio.run(again)


async def test_an_error_of_another_call_is_not_taken_for_the_state_of_this_one() -> None:
    ran: list[int] = []

    async def pay() -> None:
        ran.append(1)
        raise BackendUnavailableError(tool_id="inner", backend="mcp:x", reason="down", sent=False)

    with pytest.raises(ToolExecutionError, match="inner: mcp:x is unavailable: down") as told:
        await bare(pay, middleware=[Retry(first_delay=0)]).run("echo")
    assert ran == [1]
    assert isinstance(told.value.__cause__, BackendUnavailableError)
    assert told.value.tool_id == "echo"


async def test_message_of_a_handlers_own_error_is_redacted_and_keeps_its_cause() -> None:
    async def refuse() -> None:
        raise ToolExecutionError(tool_id="other", reason="no /home/anna/key", result=[1]) from KeyError("x")

    with pytest.raises(ToolExecutionError) as told:
        await bare(refuse).run("echo")
    assert (told.value.reason, told.value.result, told.value.tool_id) == ("no <path>", [1], "echo")
    assert told.value.__cause__ is not told.value
    assert isinstance(told.value.__cause__, ToolExecutionError)
    assert isinstance(told.value.__cause__.__cause__, KeyError)


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


async def test_wrapped_function_is_treated_by_its_result() -> None:
    @wrapped
    def letters(word: str) -> Iterator[str]:
        yield from word

    @wrapped
    async def later(word: str) -> AsyncIterator[str]:
        for letter in word:
            yield letter

    @wrapped
    async def once(word: str, ctx: Context) -> str:
        await ctx.progress(1)
        return word

    async def iterator(word: str) -> Iterator[str]:
        return iter(word)

    for handler in (letters, later, iterator):
        told = [event.data async for event in bare(handler).stream("echo", {"word": "ab"})]
        assert told == ["a", "b", ["a", "b"]]
    assert [event.data async for event in bare(once).stream("echo", {"word": "ab"})] == [
        {"progress": 1},
        "ab",
    ]


async def test_a_generator_that_is_returned_does_not_hold_up_the_loop() -> None:
    with pytest.raises(ToolTimeoutError):
        await bare(lambda: itertools.count()).run("echo", timeout=0.1)  # noqa: PLW0108 - that is the point


async def test_cleaning_up_has_a_limit() -> None:
    cleaned = anyio.Event()

    async def slow() -> AsyncIterator[Any]:
        try:
            yield object()
        finally:
            await cleaned.wait()

    with anyio.fail_after(PATIENCE), pytest.raises(ToolExecutionError):
        await bare(slow).run("echo")


async def test_a_deadline_that_a_handler_turns_into_an_error_is_still_a_deadline() -> None:
    async def convert() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            raise ValueError("cleanup failed") from error

    with pytest.raises(ToolTimeoutError):
        await bare(convert).run("echo", timeout=0.05)
    with anyio.move_on_after(0.05) as scope:
        await bare(convert).run("echo")
    assert scope.cancelled_caught


async def test_nothing_is_told_after_the_end() -> None:
    def work(ctx: Context) -> None:
        for number in range(1000):
            ctx.progress(number)

    told: list[Any] = []
    with pytest.raises(ToolTimeoutError):
        await bare(work).run("echo", timeout=0.02, progress=lambda *event: told.append(event[2]))
    await anyio.wait_all_tasks_blocked()
    assert told[-1] == "error"


async def test_a_handler_cannot_change_what_its_caller_passed() -> None:
    args = {"x": {"deep": [1]}}

    async def meddle(x: dict[str, list[int]]) -> None:
        x["deep"].append(2)

    await bare(meddle).run("echo", args)
    await runner_of(tool(meddle)).run("meddle", args)
    assert args == {"x": {"deep": [1]}}


class Base(BaseModel):
    a: int


class Derived(Base):
    secret: int = 42


async def test_a_value_is_written_as_the_return_type_says() -> None:
    @tool
    def hidden() -> Base:
        return Derived(a=1)

    @tool
    def formatted() -> Annotated[int, PlainSerializer(lambda value: f"n{value}", return_type=str)]:
        return 3

    assert (await runner_of(hidden).run("hidden")).structured == {"a": 1}
    assert (await runner_of(formatted).run("formatted")).structured == "n3"


async def test_strict_types_take_what_json_has_for_them() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        when: datetime
        ids: set[int]

    @tool
    def read(s: Strict) -> list[int]:
        return sorted(s.ids)

    args = {"s": {"when": "2020-01-01T00:00:00Z", "ids": [2, 1]}}
    assert (await runner_of(read).run("read", args)).structured == [1, 2]


async def test_chunks_are_not_shared_with_the_value() -> None:
    def give() -> Iterator[dict[str, int]]:
        yield {"a": 1}

    async for event in bare(give).stream("echo"):
        if event.kind == "chunk":
            event.data["evil"] = 1
    assert event.data == [{"a": 1}]


async def test_a_long_stream_is_read_to_its_end_and_a_long_value_is_refused() -> None:
    def long() -> Iterator[list[int]]:
        for _ in range(600):
            yield [0] * 1000

    kinds = [event.kind async for event in bare(long).stream("echo")]
    assert kinds == ["chunk"] * 600 + ["done"]
    with pytest.raises(ToolExecutionError, match="more than the 500,000 values allowed"):
        await bare(long).run("echo")


async def test_arguments_that_a_coroutine_does_not_take_are_its_failure() -> None:
    async def one(x: int) -> int:
        return x

    with pytest.raises(ToolExecutionError, match="unexpected keyword argument 'y'"):
        await bare(one).run("echo", {"x": 1, "y": 2})


async def test_an_annotation_that_raises_does_not_matter() -> None:
    def work(x: "1 / 0") -> int:  # type: ignore[valid-type]
        return x

    assert (await bare(work).run("echo", {"x": 1})).structured == 1


async def test_progress_with_swapped_arguments_is_refused_with_a_message() -> None:
    async def swapped(ctx: Context) -> None:
        await ctx.log("info", "starting")  # type: ignore[arg-type]  # that is the point

    async def worded(ctx: Context) -> None:
        await ctx.progress("half")  # type: ignore[arg-type]  # the same

    with pytest.raises(ToolExecutionError, match=r"no level 'starting'; write log\(message, level\)"):
        await bare(swapped).run("echo")
    with pytest.raises(ToolExecutionError, match="must be a number, not 'half'"):
        await bare(worded).run("echo")

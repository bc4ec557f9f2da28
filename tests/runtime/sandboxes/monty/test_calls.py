"""The guest's calls: none outlives the run, and none that ends it can be caught."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from runtime.sandboxes.monty.guests import Guests, Names, Tools, echo, job_of
from waiting import PATIENCE

from toolcrib.errors import CodeError, LimitExceededError
from toolcrib.runtime import Bridge, GuestError, Job, Limits, Output, SecurityProfile
from toolcrib.runtime.sandboxes.monty.calls import Calls

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("__out = await box.echo('a')", "a"),
        ("__out = await box.echo(value={'a': (1,)})", {"a": [1]}),
        ("f = box.echo\n__out = await f('b')", "b"),
        ("fs = [box.echo, box . other]\n__out = await fs[0]('c')", "c"),
        ("__out = hasattr(box, 'computed' + '')", False),
        (
            "import asyncio\n__out = await asyncio.gather(box.echo(1), run_tool('box:echo', {'value': 2}))",
            [1, 2],
        ),
        ("__out = await run_tool('box:echo')", None),
        ("__out = await search_tools('a')", [{"id": "box:echo", "query": "a"}]),
        ("__out = await describe_tool('box:echo')", {"id": "box:echo", "level": "schema"}),
        (
            "__out = await describe_tool(tool_id='box:echo', level='full')",
            {"id": "box:echo", "level": "full"},
        ),
    ],
)
async def test_names_in_code_call_tools(bare: Guests, code: str, value: Any) -> None:
    assert await bare.run(code) == value


async def test_tool_failure_is_a_builtin_exception_that_code_can_catch(bare: Guests) -> None:
    code = "try:\n    await box.nothing()\nexcept AttributeError as error:\n    __out = str(error)"
    assert await bare.run(code) == "there is no tool 'box.nothing'"


@pytest.mark.parametrize("kind", ["Unheard", "print", "SystemExit", "RuntimeError"])
async def test_failure_with_an_unknown_kind_is_a_runtime_error(bare: Guests, kind: str) -> None:
    async def fail() -> None:
        raise GuestError(kind, "it failed")

    guests = Guests(bare.sandbox, fail=fail)
    assert (
        await guests.run("try:\n    await box.fail()\nexcept RuntimeError as e:\n    __out = str(e)")
        == "it failed"
    )


async def test_code_cannot_catch_the_end_of_its_run(bare: Guests) -> None:
    code = "await box.echo()\ntry:\n    await box.echo()\nexcept BaseException:\n    print('went on')\nprint('and on')"
    with pytest.raises(LimitExceededError) as caught:
        await bare.run(code, max_tool_calls=1)
    assert caught.value.limit == "max_tool_calls"
    assert bare.output.text("stdout") == ""
    assert bare.bridge is not None
    assert len(bare.bridge.records) == 1


class Broken(Bridge):
    async def call(self, *_: Any) -> Any:
        raise ZeroDivisionError("of the host")


async def test_host_exception_ends_the_run_and_propagates(bare: Guests) -> None:
    code = "import asyncio\ntry:\n    await asyncio.gather(box.a(), box.b())\nexcept BaseException:\n    print('went on')"
    job = job_of(code)
    with pytest.raises(ZeroDivisionError, match="of the host"):
        await bare.sandbox.run(job, Broken(Tools(), Names(), job.limits, end=print))
    assert job.output.text("stdout") == ""
    assert await bare.run("__out = 1") == 1


async def test_tool_that_ignores_cancellation_is_abandoned_and_its_guest_ends(
    bare: Guests, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended, enough = anyio.Event(), anyio.Event(), anyio.Event()

    async def stubborn() -> None:
        begun.set()
        with anyio.CancelScope(shield=True):
            await enough.wait()
        ended.set()

    guests = Guests(bare.sandbox, stubborn=stubborn)
    with anyio.fail_after(PATIENCE):
        with pytest.raises(LimitExceededError):
            await guests.run("await box.stubborn()", timeout=0, since=begun.is_set)
        assert not ended.is_set()
        assert "1 calls of tools continue after their run" in caplog.text
        assert await guests.run("__out = 1") == 1
        enough.set()
        await ended.wait()


async def test_call_without_await_is_not_made(bare: Guests) -> None:
    made: list[int] = []

    async def pay(number: int) -> int:
        made.append(number)
        return number

    guests = Guests(bare.sandbox, pay=pay)
    code = "calls = [box.pay(number=n) for n in range(3)]\n__out = [await calls[1], await box.echo(5)]"
    assert await guests.run(code) == [1, 5]
    assert made == [1]


async def test_call_continues_after_another_fails_and_ends_with_the_code(bare: Guests) -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("linger")

    async def fail() -> None:
        raise RuntimeError("no")

    guests = Guests(bare.sandbox, linger=linger, fail=fail)
    with pytest.raises(CodeError, match="no"):
        await guests.run("import asyncio\nawait asyncio.gather(box.linger(), box.fail())")
    assert ended == ["linger"]


async def test_cancelled_run_cancels_its_calls_and_waits_for_them(bare: Guests) -> None:
    begun = anyio.Event()
    ended: list[str] = []

    async def slow() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            ended.append("slow")

    guests = Guests(bare.sandbox, slow=slow)
    with pytest.raises(LimitExceededError):
        await guests.run("print('before')\nawait box.slow()", timeout=0, since=begun.is_set)
    assert ended == ["slow"]
    assert guests.output.text("stdout") == "before\n"


def calls_of(code: str, **tools: Any) -> tuple[Calls, Job]:
    limits = Limits()
    bridge = Bridge(Tools(**tools), Names(), limits, end=print)
    job = Job(
        code,
        limits,
        1.0,
        SecurityProfile.DEV,
        ("box", "other"),
        ("run_tool", "search_tools"),
        Output(limit=1),
    )
    return Calls(bridge, end=print), job


async def test_prelude_defines_only_names_in_the_code() -> None:
    calls, job = calls_of("f = box.one\nawait box.two()\nrun_tool")
    prelude = calls.prelude(job)
    assert "box.one = " in prelude
    assert "box.two = " in prelude
    assert "run_tool = " in prelude
    assert "other" not in prelude
    assert "search_tools" not in prelude
    nothing, job = calls_of("__out = 1")
    assert nothing.prelude(job) == ""


async def test_arguments_are_read_at_the_call_and_refused_at_the_await() -> None:
    calls, _ = calls_of("await box.echo()", echo=echo)
    (call,) = calls.functions.values()
    assert await call("box.echo", (), {"value": 1}) == 1
    refused = call("box.echo", ("<function 'f' at 0x1>",), {})
    with pytest.raises(TypeError, match="a function is not"):
        await refused


async def test_call_after_the_end_of_the_run_is_not_made() -> None:
    made: list[int] = []

    async def make() -> None:
        made.append(1)

    calls, _ = calls_of("run_tool", make=make)
    (call,) = calls.functions.values()
    coroutine = call("run_tool", ("box:make",), {})
    await calls.close()
    assert await coroutine is None
    assert not made


async def test_arguments_pass_to_a_tool_without_parameters(bare: Guests) -> None:
    with pytest.raises(CodeError, match="takes at most 0 arguments"):
        await bare.run("await box.hang(1)")

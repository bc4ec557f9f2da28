"""The contract of every executor, whatever runs the tools; subclass it and provide `subject`."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from waiting import PATIENCE, until

from toolcrib.errors import ToolError, ToolExecutionError
from toolcrib.execution import Answer, Call, Executor, ProviderExecutor, Update
from toolcrib.model import Tool, ToolBackend

DEADLINES = (0.2, 2.0, 20.0, 100.0)
"""Seconds to try in turn, as a call must begin within one of them: the first is enough on a quiet machine."""
MANY = 40
AT_ONCE = 16
STEPS = 5
VALUES: dict[str, Any] = {
    "text": "é 中文 \U0001f600 \"'\\ \n\t",
    "empty": ["", [], {}, None],
    "numbers": [0, -1, 1.5, 2**53 - 1, 1e300],
    "flags": [True, False],
    "deep": {"a": [{"b": [{"c": [[[1]]]}]}]},
}


@dataclass
class Subject:
    """An executor, and the tools that it offers to the contract.

    `add(a, b)` gives `{"sum": a + b}`; `keep(value)` gives `{"value": value}`; `fail(text)` says no in these
    words; `hang(key)` waits for ever; `meet(count)` gives `{"met": count}` once so many calls are in it at
    the same time; `progress(steps)` tells of so many steps and gives `{"steps": steps}`.
    """

    executor: Executor | ProviderExecutor
    backend: Callable[[str], ToolBackend]
    """Returns the backend of the tool with this name."""
    begun: Callable[[str], Awaitable[bool]]
    """Returns whether `hang` has begun under this key."""
    told: Callable[[str], Awaitable[bool]]
    """Returns whether `hang` was cancelled under this key."""
    tools: dict[str, Tool] = field(default_factory=dict)
    """The definitions, where the executor looks at more than their names."""

    async def call(
        self, name: str, emit: Callable[[Update], Awaitable[None]] | None = None, **args: Any
    ) -> Answer:
        """Call one of the tools."""
        tool = self.tools.get(name) or Tool(name=name, namespace="contract", input_schema={"type": "object"})
        call = Call(tool=tool, args=args, backend=self.backend(name), emit=emit)
        with anyio.fail_after(PATIENCE):
            return await self.executor.call(call)


@dataclass
class Listener:
    """Takes updates, and notes those that come too late."""

    delay: float = 0.0
    heard: list[Update] = field(default_factory=list)
    ended: bool = False
    late: list[Update] = field(default_factory=list)

    async def __call__(self, update: Update) -> None:
        (self.late if self.ended else self.heard).append(update)
        await anyio.sleep(self.delay)


class CallContract:
    """The contract of `Executor.call`, which holds for the executors of providers too."""

    @pytest.fixture
    def subject(self) -> Subject:
        raise NotImplementedError

    @pytest.mark.anyio
    async def test_a_call_is_answered_with_its_value(self, subject: Subject) -> None:
        answer = await subject.call("add", a=2, b=3)
        assert isinstance(answer, Answer)
        assert answer.structured == {"sum": 5}

    @pytest.mark.anyio
    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    async def test_any_json_comes_back_as_it_went(self, subject: Subject, value: Any) -> None:
        assert (await subject.call("keep", value=value)).structured == {"value": value}

    @pytest.mark.anyio
    async def test_the_arguments_are_left_alone(self, subject: Subject) -> None:
        args = {"value": {"list": [1, {"b": None}], "text": "a"}}
        before = deepcopy(args)
        await subject.call("keep", **args)
        assert args == before

    @pytest.mark.anyio
    async def test_a_tool_that_says_no_raises_an_execution_error_in_its_words(self, subject: Subject) -> None:
        with pytest.raises(ToolExecutionError, match="out of order") as caught:
            await subject.call("fail", text="the press is out of order")
        assert caught.value.tool_id == str(self.tool_id(subject, "fail"))
        assert caught.value.op == "execute"
        assert caught.value.backend is None or caught.value.backend.startswith(subject.backend("fail").kind)

    @pytest.mark.anyio
    async def test_a_tool_that_is_not_there_is_an_error_of_that_tool(self, subject: Subject) -> None:
        with pytest.raises(ToolError) as caught:
            await subject.call("nobody_knows_me")
        assert "nobody_knows_me" in caught.value.tool_id
        assert (await subject.call("add", a=1, b=1)).structured == {"sum": 2}

    @pytest.mark.anyio
    async def test_a_failing_call_harms_no_later_one(self, subject: Subject) -> None:
        for _ in range(3):
            with pytest.raises(ToolExecutionError):
                await subject.call("fail", text="no")
            assert (await subject.call("add", a=1, b=1)).structured == {"sum": 2}

    @pytest.mark.anyio
    async def test_many_calls_get_each_their_own_answer(self, subject: Subject) -> None:
        sums: dict[int, Any] = {}

        async def ask(number: int) -> None:
            sums[number] = (await subject.call("add", a=number, b=1)).structured

        async with anyio.create_task_group() as tasks:
            for number in range(MANY):
                tasks.start_soon(ask, number)
        assert sums == {number: {"sum": number + 1} for number in range(MANY)}

    @pytest.mark.anyio
    async def test_many_calls_run_at_the_same_time(self, subject: Subject) -> None:
        answers: list[Any] = []

        async def meet() -> None:
            answers.append((await subject.call("meet", count=AT_ONCE)).structured)

        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(meet)
        assert answers == [{"met": AT_ONCE}] * AT_ONCE

    @pytest.mark.anyio
    async def test_calls_that_fail_or_are_cancelled_harm_none_beside_them(self, subject: Subject) -> None:
        sums: list[Any] = []

        async def fail() -> None:
            with pytest.raises(ToolExecutionError):
                await subject.call("fail", text="no")

        async def hang(number: int) -> None:
            with anyio.move_on_after(0.05 * number):
                await subject.call("hang", key=f"beside {number}")

        async def ask(number: int) -> None:
            sums.append((await subject.call("add", a=number, b=0)).structured["sum"])

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(hang, number)
                tasks.start_soon(fail)
                tasks.start_soon(ask, number)
        assert sorted(sums) == list(range(8))

    @pytest.mark.anyio
    async def test_a_cancelled_call_ends_and_the_tool_is_told(self, subject: Subject) -> None:
        key = "told"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: subject.call("hang", key=key))
            await until(lambda: subject.begun(key))
            assert not await subject.told(key)
            tasks.cancel_scope.cancel()
        await until(lambda: subject.told(key))
        assert (await subject.call("add", a=1, b=1)).structured == {"sum": 2}

    @pytest.mark.anyio
    async def test_a_deadline_reaches_the_tool_as_well(self, subject: Subject) -> None:
        key = ""
        for seconds in DEADLINES:
            key = f"deadline of {seconds:g} s"
            with anyio.move_on_after(seconds) as scope:
                await subject.call("hang", key=key)
            assert scope.cancelled_caught
            if await subject.begun(key):
                break
        await until(lambda: subject.told(key))

    @pytest.mark.anyio
    async def test_a_call_that_is_cancelled_before_it_begins_is_not_made(self, subject: Subject) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await subject.call("hang", key="never")
        assert scope.cancelled_caught
        assert (await subject.call("add", a=1, b=1)).structured == {"sum": 2}
        if await subject.begun("never"):
            await until(lambda: subject.told("never"))

    @pytest.mark.anyio
    @pytest.mark.parametrize("delay", [0.0, 0.02], ids=["quick", "slow"])
    async def test_updates_come_in_order_while_it_runs_and_never_after(
        self, subject: Subject, delay: float
    ) -> None:
        listener = Listener(delay)
        answer = await subject.call("progress", listener, steps=STEPS)
        listener.ended = True
        assert answer.structured == {"steps": STEPS}
        await subject.call("add", a=1, b=1)
        assert listener.late == []
        assert [self.step(update) for update in listener.heard] == list(range(1, STEPS + 1))

    @pytest.mark.anyio
    async def test_updates_that_nobody_listens_to_are_no_error(self, subject: Subject) -> None:
        assert (await subject.call("progress", steps=STEPS)).structured == {"steps": STEPS}

    @pytest.mark.anyio
    async def test_each_call_hears_its_own_updates(self, subject: Subject) -> None:
        listeners = [Listener() for _ in range(4)]

        async def ask(steps: int, listener: Listener) -> None:
            await subject.call("progress", listener, steps=steps)

        async with anyio.create_task_group() as tasks:
            for number, listener in enumerate(listeners):
                tasks.start_soon(ask, number + 1, listener)
        assert [len(listener.heard) for listener in listeners] == [1, 2, 3, 4]

    @staticmethod
    def step(update: Update) -> float:
        """Return which step an update tells of."""
        assert update.kind == "progress"
        return float(update.data["progress"])

    @staticmethod
    def tool_id(subject: Subject, name: str) -> str:
        """Return the id that a tool is called under."""
        tool = subject.tools.get(name)
        return str(tool.id) if tool else f"contract:{name}"


class ExecutorContract(CallContract):
    """The contract of `Executor`."""

    unknown: ToolBackend
    """A backend of the right kind that does not exist."""

    def test_it_satisfies_the_protocol(self, subject: Subject) -> None:
        assert isinstance(subject.executor, Executor)

    def test_a_backend_that_it_has_is_not_missing(self, subject: Subject) -> None:
        assert isinstance(subject.executor, Executor)
        assert subject.executor.missing(subject.backend("add")) is None

    def test_a_backend_that_nobody_knows_is_missing_and_the_reason_names_it(self, subject: Subject) -> None:
        assert isinstance(subject.executor, Executor)
        reason = subject.executor.missing(self.unknown)
        assert reason is not None
        assert "nobody" in reason


class WebContract(CallContract):
    """The same for web APIs, which tell no progress: their stream is the result itself, part by part."""

    @pytest.mark.anyio
    @pytest.mark.parametrize("delay", [0.0, 0.02], ids=["quick", "slow"])
    async def test_updates_come_in_order_while_it_runs_and_never_after(
        self, subject: Subject, delay: float
    ) -> None:
        listener = Listener(delay)
        answer = await subject.call("progress", listener, steps=STEPS)
        listener.ended = True
        await subject.call("add", a=1, b=1)
        assert listener.late == []
        assert [self.step(update) for update in listener.heard] == list(range(1, STEPS + 1))
        assert answer.structured == [update.data for update in listener.heard]

    @pytest.mark.anyio
    async def test_updates_that_nobody_listens_to_are_no_error(self, subject: Subject) -> None:
        assert len((await subject.call("progress", steps=STEPS)).structured) == STEPS

    @staticmethod
    def step(update: Update) -> float:
        assert update.kind == "chunk"
        return float(update.data["progress"])

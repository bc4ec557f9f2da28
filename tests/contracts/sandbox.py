"""The contract of every sandbox, whatever its wall; subclass each of the two classes and provide `make`."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from runtime.workbench import Bench, descendants, descriptors
from waiting import PATIENCE, until

from toolcrib.errors import CodeError, LimitExceededError, ToolcribError
from toolcrib.runtime import BackendInfo, Limits, LimitsEnforced, Sandbox

VALUES: dict[str, tuple[str, Any]] = {
    "nothing": ("x = 1", None),
    "none": ("__out = None", None),
    "scalars": ("__out = [1, 1.5, True, None, 'é\\u2028😀', '', -0.5, 10**30]", [1, 1.5, True, None, "é\u2028😀", "", -0.5, 10**30]),
    "nested": ("__out = {'a': {'b': [{'c': []}]}}", {"a": {"b": [{"c": []}]}}),
    "tuples": ("__out = ((1, 2), ('a',))", [[1, 2], ["a"]]),
    "sets": ("__out = [{7}, frozenset([8]), set()]", [[7], [8], []]),
    "dates": ("import datetime as d\n__out = [d.date(2024, 2, 29), d.datetime(2024, 2, 29, 12, 30)]", ["2024-02-29", "2024-02-29T12:30:00"]),
    "keys": ("__out = {1: 'a', 2.5: 'b', True and 3: 'c', None: 'd', False: 'e'}", {"1": "a", "2.5": "b", "3": "c", "null": "d", "false": "e"}),
    "decimals": ("from decimal import Decimal\n__out = Decimal('1.10')", "1.10"),
    "paths": ("from pathlib import Path\n__out = [Path('/a/b')]", ["/a/b"]),
    "dataclasses": ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: tuple\n__out = [P(1, (2, 3))]", [{"x": 1, "y": [2, 3]}]),
    "as deep as may be": ("x = []\nfor _ in range(60):\n    x = [x]\n__out = x", None),
    "last assignment": ("__out = 1\n__out = 2", 2),
    "in a branch": ("if True:\n    __out = 'yes'", "yes"),
    "augmented": ("__out = 1\n__out += 2", 3),
}  # fmt: skip
NOT_JSON: dict[str, str] = {
    "a function": "__out = {'a': [len]}",
    "a lambda": "__out = lambda: 1",
    "a module": "import json\n__out = json",
    "a class": "class A:\n    pass\n__out = [A]",
    "bytes": "__out = {'a': b'x'}",
    "not a number": "__out = [float('nan')]",
    "infinity": "__out = float('inf')",
    "a cycle": "x = []\nx.append(x)\n__out = x",
    "a cycle of objects": "x = {}\nx['a'] = {'b': x}\n__out = x",
    "too deep": "x = []\nfor _ in range(500):\n    x = [x]\n__out = x",
    "much too deep": "x = []\nfor _ in range(100000):\n    x = [x]\n__out = x",
    "a lone surrogate": "__out = chr(0xD800)",
    "a key that is no text": "__out = {(1, 2): 'a'}",
    "a namespace": "__out = calc",
    "a tool": "__out = calc.add",
    "a call that was not awaited": "__out = calc.add(a=1, b=2)",
    "an exception": "__out = ValueError('x')",
}
KINDS = {
    "LookupError": "await run_tool('calc:ad', {})",
    "ValueError": "await calc.add(a='one', b=2)",
    "RuntimeError": "await odd.fail(text='no luck')",
    "PermissionError": "await odd.secret()",
    "TimeoutError": "await odd.late()",
    "AttributeError": "await calc.ad(a=1)",
    "TypeError": "await run_tool()",
}
FAILURES = {
    "a syntax error": "def :",
    "an exception": "1 / 0",
    "a value that is not JSON": "__out = len",
    "too much computing": "while True:\n    pass",
    "too much memory": "x = []\nwhile True:\n    x.append('y' * 1000000 + str(len(x)))",
    "too many calls": "while True:\n    await calc.add(a=1, b=1)",
    "too much of a value": "__out = 'x' * 3000000",
}
HANGING = """
import sys, json, os
sys.path[:0] = {paths!r}
import anyio
from runtime.workbench import Bench, descendants
from waiting import until
from {module} import {name}

async def main():
    async with {name}().make() as sandbox:
        bench = Bench(sandbox)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, {code!r})
            await until(lambda: bench.shelf.begun)
            print(json.dumps({guests}), flush=True)

anyio.run(main)
"""


def alive(pid: int) -> bool:
    """Return whether a process runs; one that is dead and not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Made:
    """A sandbox to test."""

    def make(self) -> Sandbox:
        """Return a sandbox that was not entered."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    async def bench(self) -> AsyncIterator[Bench]:
        async with self.make() as sandbox:
            yield Bench(sandbox)


class SandboxContract(Made):
    """The contract of `Sandbox`: abilities of the code in it, and the results and errors of its runs."""

    profiles: ClassVar[set[str]]
    """Those that it serves."""
    lacks: ClassVar[set[str]] = set()
    """The values that code there cannot make."""

    def test_it_satisfies_the_protocol(self) -> None:
        sandbox = self.make()
        assert isinstance(sandbox, Sandbox)
        assert sandbox.kind

    def test_it_tells_what_it_is(self) -> None:
        sandbox = self.make()
        info = sandbox.info()
        assert isinstance(info, BackendInfo)
        assert info.kind == sandbox.kind
        assert info.readiness in {"prod", "beta", "stub"}
        assert info.details["available"] is True
        assert not info.details.get("remedy")
        assert set(info.details["profiles"]) == self.profiles
        assert all(isinstance(wall, str) and wall for wall in info.details["isolation"])
        assert json.loads(json.dumps(info.details)) == info.details

    def test_it_tells_which_limits_it_keeps(self) -> None:
        enforced = self.make().enforces(Limits())
        assert isinstance(enforced, LimitsEnforced)
        assert enforced.timeout
        assert enforced.tool_calls
        assert enforced.chain_steps
        assert enforced.output

    @pytest.mark.anyio
    @pytest.mark.parametrize("name", VALUES)
    async def test_the_value_is_what_was_left_as_json(self, bench: Bench, name: str) -> None:
        code, expected = VALUES[name]
        if name in self.lacks:
            with pytest.raises(CodeError):
                await bench.run(code)
            return
        if name == "as deep as may be":
            expected = json.loads("[" * 61 + "]" * 61)
        value = (await bench.run(code)).value
        assert json.dumps(value) == json.dumps(expected)

    @pytest.mark.anyio
    @pytest.mark.attack
    @pytest.mark.parametrize("name", NOT_JSON)
    async def test_a_value_that_is_not_json_is_the_codes_mistake(self, bench: Bench, name: str) -> None:
        with pytest.raises(CodeError) as caught:
            await bench.run(NOT_JSON[name])
        if name not in self.lacks:
            assert "__out" in caught.value.reason
        assert len(str(caught.value)) < 10_000

    @pytest.mark.anyio
    async def test_a_value_that_is_too_large_is_over_the_limit(self, bench: Bench) -> None:
        assert len((await bench.run("__out = 'x' * 900", output_bytes=1000)).value) == 900
        for code in ("__out = 'x' * 1100", "__out = ['é' * 10] * 60", "__out = [1] * 600"):
            with pytest.raises(LimitExceededError) as caught:
                await bench.run(code, output_bytes=1000)
            assert caught.value.limit == "output_bytes"

    @pytest.mark.anyio
    async def test_output_of_a_run_is_kept_in_order(self, bench: Bench) -> None:
        ran = await bench.run("print('a', 1)\nprint('é', end='')\nprint()\nprint('b', 'c', sep='-')")
        assert (ran.stdout, ran.stderr) == ("a 1\né\nb-c\n", "")

    @pytest.mark.anyio
    async def test_standard_error_is_kept_apart(self, bench: Bench) -> None:
        ran = await bench.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n__out = 1")
        assert (ran.stdout, ran.stderr) == ("out\n", "err\n")

    @pytest.mark.anyio
    async def test_output_before_a_failure_is_kept(self, bench: Bench) -> None:
        with pytest.raises(CodeError) as failed:
            await bench.run("print('before')\n1 / 0")
        assert failed.value.result.stdout == "before\n"
        with pytest.raises(LimitExceededError) as stopped:
            await bench.run(
                "print('before')\nawait odd.hang(key='printed')",
                timeout=0.1,
                since=lambda _: "printed" in bench.shelf.begun,
            )
        assert stopped.value.result.stdout == "before\n"

    @pytest.mark.anyio
    async def test_output_is_available_while_code_runs(self, bench: Bench) -> None:
        with pytest.raises(LimitExceededError) as caught:
            await bench.run(
                "print('seen')\nwhile True:\n    pass",
                timeout=0.1,
                since=lambda output: output.text("stdout"),
            )
        assert caught.value.result.stdout == "seen\n"

    @pytest.mark.anyio
    async def test_too_much_output_is_cut_and_no_error(self, bench: Bench) -> None:
        code = "for _ in range(300):\n    print('x' * 9999)\n__out = 'done'"
        ran = await bench.run(code, output_bytes=5000)
        assert ran.value == "done"
        assert ran.stdout.startswith("x" * 5000)
        assert ran.stdout.endswith("[2,995,000 more bytes were printed]")

    @pytest.mark.anyio
    async def test_code_calls_tools_by_their_names(self, bench: Bench) -> None:
        code = (
            "a = await calc.add(a=1, b=2)\nb = await run_tool('calc:add', {'a': a, 'b': 4})\n__out = [a, b]"
        )
        ran = await bench.run(code)
        assert ran.value == [3, 7]
        assert [call.tool_id for call in ran.tool_calls] == ["calc:add", "calc:add"]
        assert [call.args for call in ran.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
        assert all(call.error is None for call in ran.tool_calls)

    @pytest.mark.anyio
    async def test_values_pass_through_a_tool_unchanged(self, bench: Bench) -> None:
        value = {
            "text": "é\u2028\x00\n😀",
            "numbers": [0, -1, 1.5, 2**53 + 1, 10**25],
            "deep": [[[{}]]],
            "no": None,
        }
        ran = await bench.run(f"__out = await odd.keep(value={value!r})")
        assert ran.value == value
        assert ran.tool_calls[0].args == {"value": value}

    @pytest.mark.anyio
    async def test_code_searches_describes_and_chains(self, bench: Bench) -> None:
        code = (
            "found = await search_tools('price of an article')\n"
            "doc = await describe_tool('shop:price')\n"
            "chain = await run_chain([{'tool_id': 'calc:add', 'args': {'a': 1, 'b': 1}}])\n"
            "__out = [found[0]['id'], doc['tool']['name'], chain['final']]"
        )
        ran = await bench.run(code)
        assert ran.value == ["shop:price", "price", 2]
        assert [call.tool_id for call in ran.tool_calls] == ["calc:add"]

    @pytest.mark.anyio
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_failed_call_raises_a_builtin_that_code_can_catch(self, bench: Bench, kind: str) -> None:
        code = f"try:\n    {KINDS[kind]}\nexcept {kind} as error:\n    __out = [type(error).__name__, str(error)]"
        name, said = (await bench.run(code)).value
        assert name == kind
        assert said

    @pytest.mark.anyio
    async def test_a_failed_call_that_nobody_catches_is_told_with_its_line(self, bench: Bench) -> None:
        with pytest.raises(CodeError) as caught:
            await bench.run("x = 1\nawait odd.fail(text='no luck')")
        assert caught.value.reason.startswith("RuntimeError: ")
        assert "no luck" in caught.value.reason
        assert caught.value.line == 2
        assert len(caught.value.result.tool_calls) == 1

    @pytest.mark.anyio
    async def test_gathered_calls_run_at_the_same_time(self, bench: Bench) -> None:
        code = (
            "import asyncio\n__out = await asyncio.gather(*[odd.meet(key='{}', count=20) for _ in range(20)])"
        )
        assert (await bench.run(code.replace("{}", type(self).__name__))).value == [20] * 20

    @pytest.mark.anyio
    async def test_an_exception_is_told_with_its_line_and_frames(self, bench: Bench) -> None:
        code = "def outer():\n    return inner()\n\ndef inner():\n    return 1 / 0\n\nx = 1\nouter()\n"
        with pytest.raises(CodeError) as caught:
            await bench.run(code)
        error = caught.value
        assert error.reason == "ZeroDivisionError: division by zero"
        assert error.line == 5
        assert [line for line in (8, 2, 5) if f"line {line}" not in error.traceback] == []
        assert "<code>" in error.traceback
        assert "site-packages" not in error.traceback
        assert "toolcrib" not in error.traceback

    @pytest.mark.anyio
    async def test_a_syntax_error_is_told_with_its_place(self, bench: Bench) -> None:
        with pytest.raises(CodeError) as caught:
            await bench.run("x = 1\ny = 2 +\nz = 3\n")
        assert caught.value.line == 2
        assert "SyntaxError" in caught.value.reason

    @pytest.mark.anyio
    async def test_a_huge_exception_is_cut(self, bench: Bench) -> None:
        with pytest.raises((CodeError, LimitExceededError)) as caught:
            await bench.run("raise ValueError('x' * 5000000)")
        assert len(str(caught.value)) < 20_000
        assert len(getattr(caught.value, "traceback", "")) < 40_000

    @pytest.mark.anyio
    async def test_the_calls_are_limited(self, bench: Bench) -> None:
        with pytest.raises(LimitExceededError) as caught:
            await bench.run("while True:\n    await calc.add(a=1, b=1)", max_tool_calls=5)
        assert caught.value.limit == "max_tool_calls"
        assert len(caught.value.result.tool_calls) == 5

    @pytest.mark.anyio
    async def test_waiting_for_tools_is_not_computing(self, bench: Bench) -> None:
        for cpu in (0.2, 2.0, 10.0):  # where computing is measured by a clock, a pause of the machine is some
            bench.shelf.begun.clear()
            with pytest.raises(LimitExceededError) as caught:
                await bench.run(
                    "await odd.hang(key='waits')",
                    cpu=cpu,
                    timeout=3 * cpu,
                    since=lambda _: bench.shelf.begun,
                )
            if caught.value.limit == "timeout":
                return
        pytest.fail("each time it ended for computing")

    @pytest.mark.anyio
    async def test_runs_share_nothing(self, bench: Bench) -> None:
        await bench.run(
            "import json\nleft = 'behind'\ntry:\n    json.left = 'behind'\nexcept AttributeError:\n    pass"
        )
        for code in ("__out = left", "import json\n__out = json.left"):
            with pytest.raises(CodeError, match=r"NameError|AttributeError"):
                await bench.run(code)

    @pytest.mark.anyio
    async def test_many_runs_at_once_keep_apart(self, bench: Bench) -> None:
        seen: dict[int, Any] = {}

        async def one(number: int) -> None:
            code = f"x = {number}\nprint(x)\ny = await calc.add(a=x, b=1)\n__out = [x, y]"
            ran = await bench.run(code)
            seen[number] = [ran.value, ran.stdout, len(ran.tool_calls)]

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        assert seen == {number: [[number, number + 1], f"{number}\n", 1] for number in range(20)}

    @pytest.mark.anyio
    async def test_a_run_that_computes_does_not_hold_up_the_others(self, bench: Bench) -> None:
        async def compute() -> None:
            await bench.run("await odd.meet(key='computes', count=1)\nwhile True:\n    pass")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compute)
            await until(lambda: "computes" in bench.shelf.meetings)
            for _ in range(3):
                assert (await bench.run("__out = await calc.add(a=1, b=1)")).value == 2
            tasks.cancel_scope.cancel()


class SandboxEndingContract(Made):
    """The rest of it, which takes longer: how runs are stopped, and that nothing of them stays."""

    guests: ClassVar[str] = "list(descendants())"
    """An expression for the guests of a host, evaluated in its own process."""

    def alive(self, guest: Any) -> bool:
        """Return whether one of them runs."""
        return alive(guest)

    @pytest.mark.anyio
    async def test_computing_is_limited_where_it_says_so(self, bench: Bench) -> None:
        with pytest.raises(LimitExceededError) as caught:
            await bench.run("while True:\n    pass", cpu=0.5)
        assert caught.value.limit in ({"cpu"} if bench.sandbox.enforces(Limits()).cpu else {"cpu", "timeout"})

    @pytest.mark.anyio
    @pytest.mark.parametrize("name", FAILURES)
    async def test_after_a_failure_the_next_run_works(self, bench: Bench, name: str) -> None:
        with pytest.raises(ToolcribError):
            await bench.run(FAILURES[name], cpu=0.5)
        assert (await bench.run("__out = await calc.add(a=40, b=2)")).value == 42

    @pytest.mark.anyio
    async def test_a_cancelled_run_cancels_its_calls_and_leaves_nothing(self, bench: Bench) -> None:
        await bench.run("__out = 1")
        await self.settled(bench)
        before = len(descendants())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, "await odd.hang(key='cancelled')")
            await until(lambda: "cancelled" in bench.shelf.begun)
            tasks.cancel_scope.cancel()
        assert "cancelled" in bench.shelf.cancelled
        await until(lambda: len(descendants()) <= before)
        assert (await bench.run("__out = 1")).value == 1

    @pytest.mark.anyio
    async def test_a_run_may_be_cancelled_at_any_time(self, bench: Bench) -> None:
        await bench.run("__out = 1")
        await self.settled(bench)
        before = len(descendants())
        code = "import asyncio\nfor n in range(100):\n    await asyncio.gather(calc.add(a=1, b=n), calc.add(a=2, b=n))\n"
        for after in (0.0, 0.001, 0.003, 0.005, 0.02, 0.1):
            with anyio.move_on_after(after):
                await bench.run(code, max_tool_calls=1000)
            assert (await bench.run("__out = 1")).value == 1
        await until(lambda: len(descendants()) <= before)

    @pytest.mark.anyio
    async def test_one_that_is_cancelled_while_it_starts_leaves_nothing(self, bench: Bench) -> None:
        await bench.run("__out = 1")  # what a host has once for all is there then
        await self.settled(bench)
        before, files = len(descendants()), descriptors()
        for after in range(0, 45, 3):
            async with self.make() as sandbox:
                with anyio.move_on_after(after / 1000):
                    await Bench(sandbox).run("await odd.hang(key='started')")
        await until(lambda: len(descendants()) <= before and descriptors() <= files)

    @pytest.mark.anyio
    async def test_runs_leave_no_process_and_no_descriptor_behind(self, bench: Bench) -> None:
        for _ in range(3):
            await bench.run("__out = 1")
        await self.settled(bench)
        before, files = len(descendants()), descriptors()
        for number in range(8):
            failing = number % 4 == 3
            if failing:
                with pytest.raises(CodeError):
                    await bench.run("1 / 0")
            else:
                assert (await bench.run(f"print(1)\n__out = await calc.add(a={number}, b=0)")).value == number
        await until(lambda: len(descendants()) <= before and descriptors() <= files)

    @pytest.mark.anyio
    async def test_leaving_ends_every_process(self, bench: Bench) -> None:
        await bench.run("__out = 1")  # what a host has once for all is there then
        await self.settled(bench)
        before, files = len(descendants()), descriptors()
        async with self.make() as sandbox:
            other = Bench(sandbox)
            assert (await other.run("__out = 1")).value == 1
            with pytest.raises(CodeError):
                await other.run("1 / 0")
        await until(lambda: len(descendants()) <= before and descriptors() <= files)

    @pytest.mark.anyio
    async def test_one_that_is_entered_and_left_starts_nothing_that_stays(self, bench: Bench) -> None:
        await bench.run("__out = 1")  # what a host has once for all is there then
        await self.settled(bench)
        before, files = len(descendants()), descriptors()
        async with self.make():
            pass
        await until(lambda: len(descendants()) <= before and descriptors() <= files)

    @pytest.mark.anyio
    async def test_guests_die_with_a_host_that_is_killed(self) -> None:
        code = "while True:\n    await odd.hang(key='killed')"
        module = f"runtime.{Path(sys.modules[type(self).__module__].__file__ or '').stem}"
        folder = str(Path(__file__).parent.parent)
        script = HANGING.format(
            paths=[folder], module=module, name=type(self).__name__, code=code, guests=self.guests
        )
        command = [sys.executable, "-W", "ignore", "-c", script]
        async with await anyio.open_process(command, stdin=None, stderr=None) as host:
            assert host.stdout is not None
            with anyio.fail_after(PATIENCE):
                guests = json.loads(await host.stdout.receive())
            host.kill()
        assert guests
        await until(lambda: not any(map(self.alive, guests)))

    async def settled(self, bench: Bench) -> None:
        """Wait until no process begins any more, and those that end have ended: some are kept warm."""
        if warm := getattr(bench.sandbox, "warm", None):
            await warm()
        last: tuple[int, int] | None = None
        same = 0

        def is_still() -> bool:
            nonlocal last, same
            seen = (len(descendants()), descriptors())
            same = same + 1 if seen == last else 0
            last = seen
            return same == 10

        await until(is_still, "nothing begins or ends")

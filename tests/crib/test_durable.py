"""Durable runs: they survive the death of their process, and completed calls are not repeated."""

import json
import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.launch import children, python
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.crib import ToolsetSettings
from toolcrib.errors import (
    CallUncertainError,
    ChainError,
    CodeError,
    ConfigError,
    LimitExceededError,
    PolicyDeniedError,
    RunNotFoundError,
    RunStateError,
    RuntimeUnavailableError,
    SandboxViolationError,
    SnapshotError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.execution import Principal, Request
from toolcrib.runs import SqliteRunStore
from toolcrib.runs.signing import Signer
from toolcrib.runtime import ExecuteResult

pytestmark = pytest.mark.anyio
WORKER = Path(__file__).with_name("durable_worker.py")
ANN = Principal(issuer="local", subject="ann")
BOB = Principal(issuer="local", subject="bob")
CHAINS = ["chain", "items"]
KILLED = 128 + signal.SIGKILL


def work(ledger: Path, kind: str, **options: Any) -> tuple[int, Any]:
    """Run the worker to its end, and return its exit code and its output."""
    command = python(str(WORKER), json.dumps({"ledger": str(ledger), "kind": kind, **options}))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode in {0, KILLED}, ended.stderr
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else None


def read_ledger(ledger: Path) -> list[int]:
    """Return the numbers that the tool wrote down, in order."""
    return [int(line.split()[0]) for line in ledger.read_text(encoding="utf-8").splitlines()]


def call_numbers(result: Any) -> list[int]:
    """Return the numbers of the calls in the trace of code, or in the steps of a chain."""
    if "toolCalls" in result:
        return sorted(call["args"]["n"] for call in result["toolCalls"])
    steps = [part for step in result["results"] for part in step.get("parts", [step])]
    return sorted(step["args"]["n"] for step in steps)


@pytest.mark.parametrize(
    "kind", ["loop", *(pytest.param(kind, marks=pytest.mark.proof) for kind in ("clock", *CHAINS))]
)
@pytest.mark.parametrize("point", ["intent", "call", "result"])
def test_a_run_whose_process_is_killed_is_finished_by_another_with_six_calls_none_twice(
    tmp_path: Path, kind: str, point: str
) -> None:
    ledger = tmp_path / "ledger"
    assert work(ledger, kind, point=point, idempotent=True)[0] == KILLED
    assert read_ledger(ledger) == [1, 2, 3]
    _, result = work(ledger, kind, resume={"repeat": False}, idempotent=True)
    assert read_ledger(ledger) == [1, 2, 3, 4, 5, 6]
    assert call_numbers(result) == [1, 2, 3, 4, 5, 6]
    assert result.get("value", 21) == 21
    if kind == "clock":
        notes = {float(line.split()[1]) - int(line.split()[0]) for line in ledger.read_text().splitlines()}
        assert max(notes) - min(notes) < 1e-3, "the clock was read again"
        assert result["stdout"] == "1\n2\n3\n4\n5\n6\n"


@pytest.mark.parametrize("point", ["intent", "call", "answer", "result"])
def test_calls_that_are_made_at_once_go_on_where_they_were(tmp_path: Path, point: str) -> None:
    ledger = tmp_path / "ledger"
    assert work(ledger, "gather", point=point, idempotent=True)[0] == KILLED
    _, result = work(ledger, "gather", resume={"repeat": False}, idempotent=True)
    assert (result["value"], call_numbers(result)) == (21, [1, 2, 3, 4, 5, 6])
    assert set(read_ledger(ledger)) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("kind", ["loop", "clock", *CHAINS])
def test_a_call_that_may_have_run_is_not_repeated_unless_somebody_says_so(tmp_path: Path, kind: str) -> None:
    ledger = tmp_path / "ledger"
    work(ledger, kind, point="answer")
    assert read_ledger(ledger) == [1, 2, 3, 4]
    _, refused = work(ledger, kind, resume={"repeat": False})
    assert refused["error"] == "CallUncertainError"
    [(key, tool)] = refused["calls"].items()
    assert tool == "ledger:add"
    assert "may have run" in refused["message"]
    assert read_ledger(ledger) == [1, 2, 3, 4]
    _, result = work(ledger, kind, resume={"answers": {key: 4}})
    assert read_ledger(ledger) == [1, 2, 3, 4, 5, 6]
    assert call_numbers(result) == [1, 2, 3, 4, 5, 6]
    assert result.get("value", 21) == 21


@pytest.mark.parametrize("kind", ["loop", "chain"])
def test_a_call_that_did_not_run_is_made_when_somebody_says_so(tmp_path: Path, kind: str) -> None:
    ledger = tmp_path / "ledger"
    work(ledger, kind, point="intent")
    _, refused = work(ledger, kind, resume={"repeat": False})
    assert refused["error"] == "CallUncertainError"
    _, result = work(ledger, kind, resume={"repeat": True})
    assert (read_ledger(ledger), call_numbers(result)) == ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])


class Desk:
    """A crib whose tool waits until it is released."""

    def __init__(self, config: Any = None, **hooks: Any) -> None:
        self.crib = Crib({"mcpServers": {}, **config} if config else None, **hooks)
        self.asked: list[int] = []
        self.go = anyio.Event()
        self.crib.add(self.look, namespace="desk", annotations={"readOnlyHint": True})
        self.crib.add(self.send, namespace="desk")

    async def look(self, n: int) -> int:
        """Return a number."""
        self.asked.append(n)
        if n == 2:
            await self.go.wait()
        return n

    async def send(self, n: int) -> int:
        """Send a number away."""
        self.asked.append(n)
        await self.go.wait()
        return n

    async def suspended(self, code: str, *, step: int = 1, **options: Any) -> str:
        """Break a run off while its second call waits, and return its id."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: self.crib.execute(code, durable=True, **options))
            await until(lambda: 2 in self.asked)
            tasks.cancel_scope.cancel()
        self.go.set()
        [run] = await self.crib.runs(principal=options.get("principal"))
        assert (run.kind, run.state, run.step) == ("code", "suspended", step)
        return run.id


LOOKING = "a = await desk.look(n=1)\nb = await desk.look(n=2)\n__out = [a, b, await desk.look(n=3)]"
SENDING = "a = await desk.look(n=1)\n__out = [a, await desk.send(n=2)]"


async def test_a_run_that_is_cancelled_is_suspended_and_resumed_in_the_same_process() -> None:
    desk = Desk()
    async with desk.crib:
        run_id = await desk.suspended(LOOKING)
        result = await desk.crib.resume(run_id)
        assert isinstance(result, ExecuteResult)
        assert (result.value, result.run_id) == ([1, 2, 3], run_id)
        assert desk.asked == [1, 2, 2, 3]
        assert [run.state for run in await desk.crib.runs()] == ["done"]
        assert await desk.crib.resume(run_id) == result
        assert desk.asked == [1, 2, 2, 3]


async def test_the_uncertain_call_is_listed_and_its_answer_can_be_given() -> None:
    desk = Desk()
    run_id = await desk.suspended(SENDING)
    [run] = await desk.crib.runs()
    assert run.uncertain == {"1": "desk:send"}
    with pytest.raises(CallUncertainError) as caught:
        await desk.crib.resume(run_id)
    assert caught.value.calls == {"1": "desk:send"}
    with pytest.raises(RunStateError, match="'7' is not one that may have run"):
        await desk.crib.resume(run_id, answers={"7": 1})
    result = await desk.crib.resume(run_id, answers={"1": 20})
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 20]
    assert desk.asked == [1, 2]


async def test_an_answer_that_does_not_fit_the_output_schema_is_refused_and_the_run_can_be_resumed() -> None:
    desk = Desk()
    run_id = await desk.suspended(SENDING)
    with pytest.raises(ValidationError) as caught:
        await desk.crib.resume(run_id, answers={"1": "twenty"})
    assert str(caught.value) == (
        "the answer to call 1 of 'desk:send' does not fit its output schema, and was not recorded:"
        ' must be an integer, not \'twenty\'; the schema: {"type": "integer"}'
    )
    [run] = await desk.crib.runs()
    assert (run.state, run.step, run.uncertain) == ("suspended", 1, {"1": "desk:send"})
    result = await desk.crib.resume(run_id, answers={"1": 20})
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 20]


async def test_an_answer_to_a_tool_that_is_not_there_is_refused_until_it_is_again() -> None:
    desk = Desk()
    run_id = await desk.suspended(SENDING)
    desk.crib.index.unregister("desk:send")
    with pytest.raises(ToolNotFoundError):
        await desk.crib.resume(run_id, answers={"1": 20})
    assert [run.state for run in await desk.crib.runs()] == ["suspended"]
    result = await Desk().crib.resume(run_id, answers={"1": 20})
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 20]


async def test_a_run_that_is_done_takes_no_answers() -> None:
    desk = Desk()
    run_id = await desk.suspended(SENDING)
    done = await desk.crib.resume(run_id, answers={"1": 20})
    with pytest.raises(RunStateError, match="it is done and takes no answers; resume it without any"):
        await desk.crib.resume(run_id, answers={"1": 21})
    assert await desk.crib.resume(run_id) == done


async def test_the_run_of_one_principal_does_not_exist_for_another() -> None:
    desk = Desk()
    run_id = await desk.suspended(LOOKING, principal=ANN)
    for other in (BOB, None):
        assert await desk.crib.runs(principal=other) == ()
        with pytest.raises(RunNotFoundError):
            await desk.crib.resume(run_id, principal=other)
    [run] = await desk.crib.seen_by(ANN).runs()
    assert run.principal == "ann"
    result = await desk.crib.seen_by(ANN).resume(run_id)
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 2, 3]


async def test_a_resumed_run_is_checked_against_the_policy_of_now() -> None:
    desk = Desk()
    run_id = await desk.suspended(LOOKING)
    seen: list[Any] = []

    def refuse(request: Request) -> str | None:
        seen.append(request.args["n"])
        return "not any more" if request.args["n"] == 3 else None

    later = Desk(policy=refuse)
    later.go.set()
    with pytest.raises(CodeError, match="not any more"):
        await later.crib.resume(run_id)
    assert seen == [2, 3]
    with pytest.raises(RunStateError, match="it has failed"):
        await later.crib.resume(run_id)


TEAM = {"namespaces": ["desk"], "tools": {"desk:look": {"name": "peek", "fix": {"n": 2}}}}
PLAIN = {"namespaces": ["desk"]}
TEAMS = {"runs": {"store": "memory"}, "toolsets": {"team": TEAM, "plain": PLAIN}}
PEEKING: list[dict[str, Any]] = [
    {"toolId": "desk:peek"},
    {"toolId": "desk:look", "args": {}},
]


@pytest.mark.parametrize("kind", ["chain", "code"])
@pytest.mark.parametrize("named", [True, False], ids=["named toolset", "toolset without a name"])
async def test_run_continues_in_the_toolset_that_it_was_begun_in(kind: str, named: bool) -> None:
    desk = Desk(TEAMS)

    def team() -> Any:
        return desk.crib.view("team" if named else ToolsetSettings(**TEAM))

    async with desk.crib:
        async with anyio.create_task_group() as tasks:
            begin = (
                (lambda: team().run_chain(PEEKING, durable=True))
                if kind == "chain"
                else (lambda: team().execute("__out = await desk.peek()", durable=True))
            )
            tasks.start_soon(begin)
            await until(lambda: 2 in desk.asked)
            tasks.cancel_scope.cancel()
        desk.go.set()
        [run] = await desk.crib.runs()
        assert run.toolset == "team" if named else str(run.toolset).startswith("#")
        others = [desk.crib.view("plain"), desk.crib.view(ToolsetSettings(**PLAIN))]
        others += [] if named else [desk.crib]
        for other in others:
            with pytest.raises(RunStateError, match=r"it was begun in .* toolset"):
                await other.resume(run.id)
        result = await (desk.crib if named else team()).resume(run.id)
        assert set(desk.asked) == {2}, "the fixed value was sent each time"
        assert (result.value if isinstance(result, ExecuteResult) else result.final) == 2
        with pytest.raises(RunStateError, match=r"it was begun in .* toolset"):
            await desk.crib.view("plain").resume(run.id)


async def test_run_begun_without_a_toolset_does_not_continue_in_one() -> None:
    desk = Desk(TEAMS)
    run_id = await desk.suspended(LOOKING)
    with pytest.raises(RunStateError, match="it was begun without a toolset"):
        await desk.crib.view("team").resume(run_id)
    result = await desk.crib.resume(run_id)
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 2, 3]


async def test_run_that_an_earlier_version_began_still_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    def seal(signer: Signer, run_id: str, part: str, content: bytes) -> bytes:
        if part == "head":
            content = json.dumps({k: v for k, v in json.loads(content).items() if k != "toolset"}).encode()
        return sealed(signer, run_id, part, content)

    sealed = Signer.seal
    monkeypatch.setattr(Signer, "seal", seal)
    desk = Desk(TEAMS)
    run_id = await desk.suspended(LOOKING)
    result = await desk.crib.view("plain").resume(run_id)
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 2, 3]


async def test_a_run_that_goes_on_is_not_taken_up_a_second_time() -> None:
    desk = Desk()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: desk.crib.execute(LOOKING, durable=True))
        await until(lambda: 2 in desk.asked)
        [run] = await desk.crib.runs()
        assert run.state == "running"
        with pytest.raises(RunStateError, match="a process is already running it"):
            await desk.crib.resume(run.id)
        desk.go.set()
    assert desk.asked == [1, 2, 3]


@pytest.mark.parametrize("part", ["head", "state", "intent", "outcome"])
async def test_tampered_run_in_the_store_is_refused(home: Path, part: str) -> None:
    desk = Desk()
    code = LOOKING.replace("a =", "import time\na =")
    run_id = await desk.suspended(code)
    [path] = (home / "runs").glob("*.db")
    store = SqliteRunStore(path)
    table = {"head": "runs", "state": "states"}.get(part, "calls")
    with store._transaction() as connection:
        changed = f"CAST(substr({part}, 1, length({part}) - 4) || x'00000000' AS BLOB)"
        sql = f"UPDATE {table} SET {part} = {changed} WHERE {part} IS NOT NULL"  # noqa: S608 - names of ours
        assert connection.execute(sql).rowcount
    store.close()
    with pytest.raises(SnapshotError, match="changed"):
        await desk.crib.resume(run_id)
    assert desk.asked == [1, 2]


async def test_a_run_that_was_signed_with_another_key_or_is_too_old_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_KEY", "k" * 40)
    own = {"runs": {"key": "${RUN_KEY}"}}
    run_id = await Desk(own).suspended(LOOKING)
    assert not (home / "runs.key").exists()
    with pytest.raises(SnapshotError, match="another key"):
        await Desk().crib.resume(run_id)
    with pytest.raises(SnapshotError, match="too old"):
        await Desk({"runs": {"key": "${RUN_KEY}", "max_age": 1e-6}}).crib.resume(run_id)
    monkeypatch.setenv("RUN_KEY", "short")
    with pytest.raises(ConfigError, match="at least 32 characters"):
        await Desk(own).crib.resume(run_id)
    monkeypatch.delenv("RUN_KEY")
    with pytest.raises(ConfigError, match="RUN_KEY"):
        await Desk(own).crib.runs()


async def test_runs_that_have_ended_make_room_and_those_that_have_not_are_not_lost() -> None:
    desk = Desk({"runs": {"max_runs": 2, "store": "memory"}})
    async with desk.crib:
        ended = [(await desk.crib.execute("__out = 1", durable=True)).run_id for _ in range(3)]
        assert [run.id for run in await desk.crib.runs()] == [ended[2], ended[1]]
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                desk.asked.clear()
                tasks.start_soon(lambda: desk.crib.execute(SENDING, durable=True))
                await until(lambda: 2 in desk.asked)
                tasks.cancel_scope.cancel()
        assert [run.state for run in await desk.crib.runs()] == ["suspended", "suspended"]
        with pytest.raises(LimitExceededError, match="2 runs that have not ended"):
            await desk.crib.execute("__out = 1", durable=True)


async def test_a_run_whose_time_is_over_goes_on_with_as_much_time_again() -> None:
    desk = Desk()
    with pytest.raises(LimitExceededError) as caught:
        await desk.crib.execute(LOOKING, durable=True, timeout=1.0)
    assert caught.value.limit == "timeout"
    run_id = caught.value.result.run_id
    desk.go.set()
    result = await desk.crib.resume(run_id)
    assert isinstance(result, ExecuteResult)
    assert result.value == [1, 2, 3]


async def test_errors_that_code_caught_are_the_same_when_it_goes_on() -> None:
    desk = Desk()

    @desk.crib.add(namespace="desk")
    async def fail(text: str) -> int:
        """Fail."""
        raise LookupError(text)

    code = """
seen = []
for text in ("no such thing", 5):
    try:
        await desk.fail(text=text)
    except Exception as error:
        seen.append(type(error).__name__ + ": " + str(error))
seen.append(await desk.look(n=2))
__out = seen
"""
    desk.go.set()
    expected = await desk.crib.execute(code)
    desk.asked.clear()
    desk.go = anyio.Event()
    result = await desk.crib.resume(await desk.suspended(code, step=2))
    assert isinstance(result, ExecuteResult)
    assert result.value == expected.value
    assert [(call.error, call.error_op) for call in result.tool_calls] == [
        (call.error, call.error_op) for call in expected.tool_calls
    ]


async def test_a_chain_whose_step_fails_is_over() -> None:
    desk = Desk(policy=lambda request: "no" if request.args["n"] == 3 else None)
    steps = [{"toolId": "desk:look", "args": {"n": n}} for n in (1, 3)]
    with pytest.raises(ChainError, match="no"):
        await desk.crib.run_chain(steps, durable=True)
    [run] = await desk.crib.runs()
    assert (run.kind, run.state, run.step) == ("chain", "failed", 2)


async def test_only_a_sandbox_that_can_suspend_code_runs_it_durably() -> None:
    desk = Desk()
    with pytest.raises(RuntimeUnavailableError, match=r"not available for durable runs: .*'monty' can"):
        await desk.crib.execute("__out = 1", durable=True, backend="process")
    assert [run.state for run in await desk.crib.runs()] == ["failed"], "no run that can never go on"


async def test_code_that_sleeps_and_reads_the_clock_does_so_durably_too() -> None:
    code = """
import asyncio, time
began = time.monotonic()
time.sleep(0.01)
first, slept, second = await asyncio.gather(desk.look(n=1), asyncio.sleep(0.01), desk.look(n=3))
await asyncio.sleep(0.01)
__out = [first, slept, second, time.monotonic() - began >= 0.03]
"""
    result = await Desk().crib.execute(code, durable=True)
    assert result.value == [1, None, 3, True]


async def test_a_worker_of_the_sandbox_that_is_killed_leaves_a_run_that_can_be_resumed() -> None:
    desk = Desk()

    async def run() -> None:
        with pytest.raises(SandboxViolationError, match="its worker died"):
            await desk.crib.execute(f"import time\n{LOOKING}", durable=True)

    async with desk.crib:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: 2 in desk.asked)
            for pid in await until(workers):
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not workers())
            desk.go.set()
        [suspended] = await desk.crib.runs()
        assert suspended.state == "suspended"
        result = await desk.crib.resume(suspended.id)
        assert isinstance(result, ExecuteResult)
        assert result.value == [1, 2, 3]


def workers() -> list[int]:
    """Return the workers of the sandbox that this process has started, and that have not ended."""
    found = []
    for pid in children():
        with suppress(OSError):  # it has ended meanwhile
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
            if re.search(r"\((?:monty|bwrap|worker|sh)\) [^ZX]", state):
                found.append(pid)
    return found


async def test_a_denied_call_is_recorded_like_any_other() -> None:
    desk = Desk(policy=lambda request: "no" if request.args["n"] == 1 else None)
    code = (
        f"try:\n    await desk.look(n=1)\nexcept PermissionError:\n    pass\n{LOOKING.replace('n=1', 'n=4')}"
    )
    result = await desk.crib.resume(await desk.suspended(code, step=2))
    assert isinstance(result, ExecuteResult)
    assert [call.error_op for call in result.tool_calls] == ["policy", None, None, None]
    with pytest.raises(PolicyDeniedError):
        await desk.crib.run("desk:look", {"n": 1})


async def test_calls_of_others_are_answered_while_durable_runs_wait_for_a_locked_store(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteRunStore(path, timeout=PATIENCE)) as store, closing(sqlite3.connect(path)) as other:
        async with Crib(run_store=store) as crib:
            crib.add(look)
            runs: list[Any] = []

            async def run() -> None:
                runs.append(await crib.run_chain([{"toolId": "look", "args": {}}], durable=True))

            async with anyio.create_task_group() as tasks:
                other.execute("BEGIN IMMEDIATE")
                for _ in range(8):
                    tasks.start_soon(run)
                await until(store._lock.locked)
                assert (await crib.run("look")).structured == 1
                assert runs == []
                other.rollback()
        assert [result.final for result in runs] == [1] * 8


def look() -> int:
    """Look."""
    return 1

"""A check never harms: it is bounded, keeps nothing, and leaves nothing behind."""

import logging
import sys
from contextlib import suppress
from functools import partial

import anyio
import pytest
from runtime.typecheck.workshop import STUBS
from runtime.workbench import descendants
from waiting import PATIENCE, until

from toolcrib.errors import CodeError
from toolcrib.runtime.stubs import render
from toolcrib.runtime.typecheck import Checker

pytestmark = pytest.mark.anyio

HOSTILE = {
    "nested brackets": "x = " + "[" * 50_000 + "]" * 50_000,
    "a long sum": "x = 1" + "+1" * 60_000,
    "a long chain of attributes": "x = 1" + ".a" * 50_000,
    "a long word": "x = '" + "a" * 190_000 + "'",
    "many words": "x = '" + "except for as " * 13_000 + "'",
    "many lines that are wrong": "\n".join(f"u{n}" for n in range(20_000)),
    "a lone surrogate": "x = '\udc80'",
    "a null byte": "x = '\0'",
    "much code": "x = 1\n" * 100_000,
}


HARD = "x = (1,)\n" + "x = (*x, *x)\n" * 40
"""Code whose types double in size with each line."""
GROWS = "x = (1,)\n" + "x = (*x, *x)\n" * 23


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_code_gets_a_result_and_the_next_check_works(name: str) -> None:
    async with Checker(deadline=PATIENCE) as checker:
        with anyio.fail_after(PATIENCE):
            with suppress(CodeError):
                await checker.check(HOSTILE[name], STUBS, engine="monty")
            with pytest.raises(CodeError):
                await checker.check("await add(1)", STUBS, engine="monty")


async def test_code_with_a_slow_check_runs_unchecked(caplog: pytest.LogCaptureFixture) -> None:
    slow = "x=1\nif x==0: pass\n" + "".join(f"elif x=={n}: y={n}\n" for n in range(8_000))
    with caplog.at_level(logging.WARNING, "toolcrib.runtime"):
        async with Checker(deadline=0.1) as checker:
            with anyio.fail_after(PATIENCE):
                note = await checker.check(slow, STUBS, engine="monty")
    assert note == "the code was not checked before it ran: it takes too long"
    assert note in caplog.text


async def test_long_code_runs_unchecked(caplog: pytest.LogCaptureFixture) -> None:
    async with Checker() as checker:
        note = await checker.check("x = 1\n" * 40_000, STUBS, engine="monty")
    assert note is not None
    assert note.endswith("it has 240,000 characters, more than 200,000")
    assert note in caplog.text


@pytest.mark.proof
@pytest.mark.attack
async def test_slow_check_does_not_block_others() -> None:
    notes: list[str | None] = []

    async def hard() -> None:
        notes.append(await checker.check(HARD, STUBS, engine="monty"))

    async with Checker(deadline=3, patience=0.05) as checker:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for _ in range(12):
                    group.start_soon(hard)
                await anyio.wait_all_tasks_blocked()
                note = await checker.check("await add(1)", STUBS, engine="monty")
        assert note is not None
        assert note.endswith("too much else is being checked")
        assert len([note for note in notes if note]) == len(notes) == 12

        async def is_checked() -> bool:
            try:
                return await checker.check("await add(1)", STUBS, engine="monty") is None
            except CodeError:
                return True

        await until(is_checked)  # as soon as those who were given up have ended


@pytest.mark.proof
async def test_code_whose_check_needs_much_memory_runs_unchecked() -> None:
    async with Checker(deadline=PATIENCE) as checker:
        with anyio.fail_after(PATIENCE):
            note = await checker.check(HARD, STUBS, engine="monty")
    assert note is not None
    assert "the type checker ended" in note


@pytest.mark.proof
async def test_large_worker_is_replaced() -> None:
    before = set(descendants())
    async with Checker(deadline=PATIENCE) as checker:
        await checker.check("x = 1", STUBS, engine="monty")
        first = set(descendants()) - before
        assert first
        await checker.check(GROWS, STUBS, engine="monty")
        assert await checker.check("x = 1", STUBS, engine="monty") is None
        assert first.isdisjoint(set(descendants()))


async def test_cancelled_check_leaves_the_checker_usable() -> None:
    async with Checker(deadline=PATIENCE) as checker:
        await checker.check("x = 1", STUBS, engine="monty")
        slow = "x=1\nif x==0: pass\n" + "".join(f"elif x=={n}: y={n}\n" for n in range(1_000))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(checker.check, slow, STUBS, engine="monty"))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE), pytest.raises(CodeError):
            await checker.check("await add(1)", STUBS, engine="monty")


async def test_exit_ends_all_processes_and_threads() -> None:
    before = set(descendants())
    async with Checker(deadline=PATIENCE) as checker:
        assert set(descendants()) <= before
        await checker.check("x = 1", STUBS, engine="monty")
        await checker.check("x = 1", STUBS, engine="python")
        assert set(descendants()) - before
    await until(lambda: not set(descendants()) - before)


async def test_unused_checker_starts_nothing() -> None:
    before = set(descendants())
    async with Checker():
        pass
    assert set(descendants()) <= before


async def test_checks_share_no_names() -> None:
    async with Checker(deadline=PATIENCE) as checker:
        with pytest.raises(CodeError):
            await checker.check("kept = 1\ndef helper(): return 1\nawait add(1)", STUBS, engine="monty")
        with pytest.raises(CodeError, match="'kept' is not defined"):
            await checker.check("print(kept)", STUBS, engine="monty")
        await checker.check("kept = 'text'\nkept.upper()", STUBS, engine="monty")
        with pytest.raises(CodeError, match="'github' is not defined"):
            await checker.check("await github.close(1)", "", engine="monty")


async def test_parallel_checks_with_different_stubs_do_not_mix() -> None:
    told: dict[int, str] = {}

    async def one(number: int) -> None:
        stubs = f"class _N{number}:\n    async def go(self, a{number}: int) -> int: ...\nspace: _N{number}\n"
        with pytest.raises(CodeError) as caught:
            await checker.check("await space.go()", stubs, engine="monty")
        told[number] = caught.value.reason

    async with Checker(deadline=PATIENCE, patience=PATIENCE) as checker, anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert told == {number: f"space.go needs 'a{number}'" for number in range(100)}


async def test_session_is_replaced_after_many_checks() -> None:
    async with Checker(deadline=PATIENCE) as checker:
        for _ in range(210):
            await checker.check("x = 1", STUBS, engine="monty")
        with pytest.raises(CodeError):
            await checker.check("await add(1)", STUBS, engine="monty")


async def test_check_does_not_run_the_code(capfd: pytest.CaptureFixture[str]) -> None:
    async with Checker(deadline=PATIENCE) as checker:
        await checker.check("print('ran')\nraise SystemExit", render([]), engine="monty")
    assert "ran" not in capfd.readouterr().out


async def test_check_passes_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)  # as it is where the extra is not installed
    async with Checker() as checker:
        note = await checker.check("await add(", STUBS, engine="monty")
    assert note is not None
    assert "there is no type checker here" in note


@pytest.mark.proof
async def test_process_exits_cleanly_right_after_a_check() -> None:
    code = (
        "import anyio\nfrom toolcrib.runtime.typecheck import Checker\n"
        "async def main():\n    async with Checker(deadline=120) as c:\n        await c.check('x = 1', '', engine='monty')\n"
        "anyio.run(main)\n"
    )
    for _ in range(2):
        done = await anyio.run_process([sys.executable, "-c", code], check=False)
        assert (done.returncode, done.stderr) == (0, b"")


async def test_many_checks_for_both_engines_wait_for_slots(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def check(number: int) -> None:
        try:
            await checker.check(
                f"await add({number}, c=1)", STUBS, engine="monty" if number % 2 else "python"
            )
        except CodeError as error:
            told.append(str(error))

    with anyio.fail_after(PATIENCE):
        async with (
            Checker(deadline=PATIENCE, patience=PATIENCE) as checker,
            anyio.create_task_group() as tasks,
        ):
            for number in range(16):
                tasks.start_soon(check, number)
    assert len(told) == 16
    assert caplog.records == []

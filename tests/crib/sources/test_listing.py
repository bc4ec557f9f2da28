"""Order of listings: some servers at a time, unknown ones first, and immediately if a caller waits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event, Timer
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib import Tool
from toolcrib.crib.sources import Absence, Origin, ToolLister
from toolcrib.crib.sources.priority import PriorityLimiter
from toolcrib.errors import ServerUnavailableError

pytestmark = pytest.mark.anyio


class Asked:
    """Makes origins that respond when they are released, and records the requests."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.may_answer = anyio.Event()

    def origin(self, name: str, **fields: Any) -> Origin:
        async def list_tools() -> tuple[Tool, ...]:
            self.names.append(name)
            await self.may_answer.wait()
            return ()

        return Origin(
            **{"name": name, "key": f"mcp:{name}", "identity": name, "list_tools": list_tools} | fields
        )


@asynccontextmanager
async def running(listing: ToolLister) -> AsyncIterator[None]:
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listing.run)
            await anyio.wait_all_tasks_blocked()
            yield
            tasks.cancel_scope.cancel()


async def test_one_who_is_hastened_before_it_comes_does_not_wait_either() -> None:
    turns = PriorityLimiter(1)
    turns.join("busy")
    turns.hasten("late")
    assert turns.join("late").is_set()
    turns.leave("late")
    assert not turns.join("late").is_set()


async def test_so_many_are_busy_at_once_and_the_next_follow_in_their_order() -> None:
    turns = PriorityLimiter(2)
    events = {name: turns.join(name) for name in "abcd"}
    assert [name for name, event in events.items() if event.is_set()] == ["a", "b"]
    turns.leave("c")
    turns.leave("a")
    turns.leave("a")
    assert events["d"].is_set()
    assert not events["c"].is_set()
    late = turns.join("e")
    turns.hasten("e")
    turns.hasten("e")
    assert late.is_set()
    turns.leave("e")
    assert not turns.join("f").is_set()
    turns.widen(1)
    assert not turns.join("g").is_set()


async def test_only_some_are_asked_at_once_and_one_that_is_needed_before_its_turn() -> None:
    asked = Asked()
    listing = ToolLister([asked.origin(f"s{number:02}") for number in range(20)], lambda *_: None)
    async with running(listing), anyio.create_task_group() as waiters:
        assert asked.names == [f"s{number:02}" for number in range(8)]
        waiters.start_soon(lambda: listing.wait(["s15"], first=True))
        await anyio.wait_all_tasks_blocked()
        assert asked.names[8:] == ["s15"]
        asked.may_answer.set()
        await listing.wait_all(None)
        assert len(asked.names) == 20


async def test_those_that_are_known_are_asked_later_unless_they_are_needed() -> None:
    asked = Asked()
    asked.may_answer.set()
    known = [asked.origin(f"s{number}", kept=True) for number in range(3)]
    listing = ToolLister([*known, asked.origin("unknown")], lambda *_: None)
    async with running(listing):
        await listing.wait(["s0", "s1", "unknown"])
        assert asked.names == ["unknown"]
        await listing.wait_again("s2")
        assert asked.names == ["unknown", "s2"]
        listing.note("s1", ())
        await listing.origins["s1"].taken.wait()
        await listing.wait_all(None)
        assert asked.names == ["unknown", "s2", "s0"]
        await listing.wait_all(None)


async def test_those_that_are_known_are_asked_in_the_end() -> None:
    asked = Asked()
    known = [asked.origin(f"s{number}", kept=True) for number in range(5)]
    listing = ToolLister(known, lambda *_: None)
    async with running(listing):
        await until(lambda: len(asked.names) == 2, "the first two are asked")
        asked.may_answer.set()
        await until(lambda: len(asked.names) == 5, "the others are asked")


async def test_lister_on_demand_asks_those_alone_that_somebody_waits_for() -> None:
    asked = Asked()
    asked.may_answer.set()
    origins = [asked.origin(name) for name in "abcd"]
    listing = ToolLister([*origins, asked.origin("kept", kept=True)], lambda *_: None, on_demand=True)
    async with running(listing):
        assert asked.names == []
        await listing.wait(["b"], first=True)
        await listing.wait_again("kept")
        assert asked.names == ["b", "kept"]
        await listing.swap(["b"], [asked.origin("b", identity="other")]).wait()
        await listing.wait(["b"], first=True)
        assert asked.names == ["b", "kept", "b"]
        await listing.wait_all(None)
        assert asked.names == ["b", "kept", "b", "a", "c", "d"]


async def test_lister_on_demand_asks_all_that_are_waited_for_at_once() -> None:
    asked = Asked()
    listing = ToolLister([asked.origin(name) for name in "abc"], lambda *_: None, on_demand=True)
    async with running(listing), anyio.create_task_group() as waiters:
        waiters.start_soon(listing.wait, ["a", "b"])
        await anyio.wait_all_tasks_blocked()
        assert asked.names == ["a", "b"]
        asked.may_answer.set()


async def test_lister_on_demand_asks_one_that_was_waited_for_before_it_ran() -> None:
    asked = Asked()
    asked.may_answer.set()
    listing = ToolLister([asked.origin("a"), asked.origin("b")], lambda *_: None, on_demand=True)
    async with anyio.create_task_group() as waiters:
        waiters.start_soon(listing.wait, ["b"])
        await anyio.wait_all_tasks_blocked()
        async with running(listing):
            await until(lambda: asked.names == ["b"])


async def test_nobody_waits_for_one_that_is_gone() -> None:
    asked = Asked()
    listing = ToolLister([asked.origin("a"), asked.origin("b", kept=True)], lambda *_: None)
    async with running(listing):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(listing.wait, ["a"])
            waiters.start_soon(listing.wait_again, "b")
            waiters.start_soon(listing.wait_all, None)
            await anyio.wait_all_tasks_blocked()
            await listing.swap(["a", "b"], []).wait()
        await listing.wait(["a"])
        await listing.wait_again("a")
        assert listing.swap([], []).is_set()


async def test_tools_of_a_removed_origin_leave_unless_the_same_joins() -> None:
    asked, dropped = Asked(), list[str]()
    asked.may_answer.set()
    listing = ToolLister(
        [asked.origin("a"), asked.origin("b"), asked.origin("c")],
        lambda *_: None,
        drop=lambda origin: dropped.append(origin.name),
    )
    async with running(listing):
        await listing.wait_all(None)
        await listing.swap("abc", [asked.origin("a"), asked.origin("b", identity="other")]).wait()
        assert dropped == ["b", "c"]
        assert [listing.origins[name].kept for name in "ab"] == [True, False]


async def test_that_tools_are_gone_may_fail_to_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    def full(_: Origin) -> None:
        raise ServerUnavailableError("a", "the disk is full")

    listing = ToolLister([Asked().origin("a")], lambda *_: None, drop=full)
    async with running(listing):
        await listing.swap(["a"], []).wait()
    assert "it could not be stored that 'a' is gone" in caplog.text


async def test_nobody_waits_for_a_listing_that_has_ended() -> None:
    asked = Asked()
    listing = ToolLister([asked.origin(f"s{number:02}") for number in range(9)], lambda *_: None)
    async with anyio.create_task_group() as waiters, running(listing):
        waiters.start_soon(listing.wait, ["s00", "s08"])
        await anyio.wait_all_tasks_blocked()
    assert "closing" in str(listing.failure(listing.origins["s08"]))


async def test_one_that_hangs_is_waited_for_only_a_little_once_another_is_there() -> None:
    quick, never = Asked(), Asked()
    missed: list[str] = []
    listing = ToolLister(
        [never.origin("a", patience=10 * PATIENCE), quick.origin("b")],
        lambda *_: None,
        miss=lambda origin: missed.append(origin.name),
        courtesy=0.05,
    )
    async with running(listing):
        with anyio.move_on_after(0.2) as wait:
            await listing.wait(["a", "b"])
        assert wait.cancelled_caught
        assert [absence.state for absence in listing.absent()] == ["starting", "starting"]
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(listing.wait, ["a", "b"])
            await anyio.wait_all_tasks_blocked()
            quick.may_answer.set()
        assert missed == ["a"]
        await listing.wait(["b", "a"])
        assert listing.absent() == (Absence(name="a", state="starting"),)
        for names, first in ((["a"], True), (["a", "b"], True), (["a"], False)):
            with anyio.move_on_after(0.2) as wait:
                await listing.wait(names, first=first)
            assert wait.cancelled_caught


async def test_one_that_hangs_is_waited_for_only_a_little_where_others_are_kept() -> None:
    never = Asked()
    origins = [never.origin("a", patience=10 * PATIENCE), never.origin("b", kept=True)]
    listing = ToolLister(origins, lambda *_: None, courtesy=0.05)
    async with running(listing):
        await listing.wait(["a", "b"])
        assert listing.absent() == (Absence(name="a", state="starting"),)


async def test_one_that_did_not_answer_in_an_earlier_run_is_given_a_moment_to_be_well_again() -> None:
    well, never = Asked(), Asked()
    well.may_answer.set()
    origins = [well.origin("a", missed=True), never.origin("b", missed=True, patience=10 * PATIENCE)]
    listing = ToolLister(origins, lambda *_: None, courtesy=10 * PATIENCE)
    async with running(listing):
        await listing.wait(["a", "b"])
        await until(lambda: listing.absent() == (Absence(name="b", state="missed"),))


async def test_one_that_does_not_answer_makes_room() -> None:
    asked, never = Asked(), Asked()
    asked.may_answer.set()
    stuck = [never.origin(f"s{number}") for number in range(8)]
    listing = ToolLister([*stuck, asked.origin("next")], lambda *_: None)
    async with running(listing):
        assert asked.names == []
        await listing.wait(["next"])
        assert asked.names == ["next"]


async def test_nobody_waits_for_an_answer_that_is_not_taken_because_the_crib_closes() -> None:
    began, may_end = Event(), Event()

    def take(*_: Any) -> None:
        began.set()
        may_end.wait(PATIENCE)

    asked = Asked()
    listing = ToolLister([asked.origin("one"), asked.origin("two")], take=take)
    async with running(listing):
        listing.note("one", ())
        listing.note("two", ())
        await until(began.is_set)
        Timer(0.1, may_end.set).start()  # by then it is cancelled, and waits for the thread
    with anyio.fail_after(PATIENCE):
        await listing.wait_taken("two")

"""Slots that owners share."""

import anyio
import pytest

from toolcrib.concurrency.fair_slots import FairSlots, Member, share_of_one

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("total", "most"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6), (64, 48)])
def test_owner_leaves_a_quarter_and_at_least_one_of_several(total: int, most: int) -> None:
    assert share_of_one(total) == most


async def test_members_share_what_an_owner_may_have_and_none_of_them_takes_it_all() -> None:
    slots = FairSlots(8)
    for _ in range(5):
        await slots.acquire(Member("g", "a"))
    assert not slots.has_room(Member("g", "a"))
    await slots.acquire(Member("g", "b"))
    assert not slots.has_room(Member("g", "c"))
    assert slots.has_room("d")
    slots.release(Member("g", "a"))
    assert slots.has_room(Member("g", "c"))


async def test_slot_is_given_to_the_owner_that_has_fewest() -> None:
    slots, order = FairSlots(4), list[str]()

    async def take(owner: str, name: str) -> None:
        await slots.acquire(owner)
        order.append(name)

    async with anyio.create_task_group() as tasks:
        for name in ("a0", "a1", "a2", "a3", "b0", "b1"):
            tasks.start_soon(take, name[0], name)
            await anyio.wait_all_tasks_blocked()
        assert order == ["a0", "a1", "a2", "b0"]
        assert slots.waiting() == {"a": 1, "b": 1}
        for _ in range(2):
            slots.release("a")
            await anyio.wait_all_tasks_blocked()
    assert order[4:] == ["b1", "a3"]


async def test_program_itself_may_take_all_slots_and_gives_them_back() -> None:
    slots = FairSlots(2)
    async with slots.hold(None), slots.hold(None):
        assert not slots.has_room("a")
    assert slots.has_room("a")

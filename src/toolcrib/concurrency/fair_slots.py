"""A concurrency limit that several owners share fairly: none of them gets all slots."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

_RESERVE_DIVISOR = 4
"""A quarter of the slots, and at least one of several, stays free for the other owners."""


@dataclass(frozen=True, slots=True)
class Member:
    """An owner that shares the limit of one owner with others, such as a client that names itself."""

    group: Hashable
    name: Hashable


def share_of_one(total: int) -> int:
    """Return the number of slots, of a total, that one owner may have.

    >>> [share_of_one(total) for total in (1, 2, 4, 64)]
    [1, 1, 3, 48]
    """
    return max(1, total - max(1, total // _RESERVE_DIVISOR))


def group_of(owner: Hashable | None) -> Hashable | None:
    """Return the group of an owner; one that is no `Member` is a group by itself."""
    return owner.group if isinstance(owner, Member) else owner


class FairSlots:
    """Lets `total` tasks run at once; a free slot goes to the owner with the fewest running tasks.

    Among equal owners it goes to the one that was served longest ago. An owner or a group cannot take all
    slots, and a member cannot take the whole share of its group. The owner None is the program itself: its
    tasks wait as others do, but may take all slots.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._most_of_group = share_of_one(total)
        self._most_of_member = share_of_one(self._most_of_group)
        self._running: Counter[Hashable | None] = Counter()
        self._of_group: Counter[Hashable | None] = Counter()
        """How many slots each group has; an owner by itself is a group of its own."""
        self._waiting: dict[Hashable | None, deque[anyio.Event]] = {}
        self._served: dict[Hashable | None, int] = {}
        """For each present owner, the value of `_given` when it got its last slot: a clock without time."""
        self._given = 0

    def waiting(self) -> dict[Hashable | None, int]:
        """Return the number of waiting tasks by owner."""
        return {owner: len(tasks) for owner, tasks in self._waiting.items()}

    def has_room(self, owner: Hashable | None) -> bool:
        """Return whether a task of an owner would get a slot at once; never while another of it waits."""
        if self._running.total() >= self.total:
            return False
        if isinstance(owner, Member) and self._running[owner] >= self._most_of_member:
            return False
        return owner is None or self._of_group[group_of(owner)] < self._most_of_group

    @asynccontextmanager
    async def hold(self, owner: Hashable | None) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the length of the block."""
        await self.acquire(owner)
        try:
            yield
        finally:
            self.release(owner)

    async def acquire(self, owner: Hashable | None) -> None:
        """Wait for a slot, which `release` gives back."""
        if self.has_room(owner):
            self._grant_slot(owner)
            return
        admitted = anyio.Event()
        self._waiting.setdefault(owner, deque()).append(admitted)
        try:
            await admitted.wait()
        except BaseException:
            if admitted.is_set():  # admitted and cancelled at the same time: the slot is ours to return
                self.release(owner)
            else:
                self._remove_waiter(owner, admitted)
            raise

    def _grant_slot(self, owner: Hashable | None) -> None:
        self._running[owner] += 1
        self._of_group[group_of(owner)] += 1
        self._given += 1
        self._served[owner] = self._given

    def release(self, owner: Hashable | None) -> None:
        """Return a slot of an owner, and grant it to the next waiter."""
        self._running[owner] -= 1
        self._of_group[group_of(owner)] -= 1
        # Usually one waiter gets the slot that was returned. The loop is for a release that lifts an owner
        # below its share while other slots are free.
        while ready := [each for each in self._waiting if self.has_room(each)]:
            chosen = min(ready, key=self._priority_of)
            first = self._waiting[chosen][0]
            # granted here and not by the woken task, or a task that comes in between would take the slot
            self._grant_slot(chosen)
            self._remove_waiter(chosen, first)
            first.set()
        self._forget_idle(owner)

    def _priority_of(self, owner: Hashable | None) -> tuple[int, int, int]:
        """Return the sort key of a waiting owner; the smallest is next."""
        return self._of_group[group_of(owner)], self._running[owner], self._served.get(owner, 0)

    def _remove_waiter(self, owner: Hashable | None, admitted: anyio.Event) -> None:
        tasks = self._waiting[owner]
        tasks.remove(admitted)
        if not tasks:
            del self._waiting[owner]
        self._forget_idle(owner)

    def _forget_idle(self, owner: Hashable | None) -> None:
        """Drop the entries of an owner with no running and no waiting tasks."""
        if not self._running[owner] and owner not in self._waiting:
            del self._running[owner]
            self._served.pop(owner, None)
        if not self._of_group[group_of(owner)]:
            del self._of_group[group_of(owner)]

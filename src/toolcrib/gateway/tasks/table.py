"""Table of tasks, which only their owners can find, limited in number and time."""

import time
from collections import Counter
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Generic, Protocol, TypeVar

from toolcrib.execution import Principal
from toolcrib.gateway.identity.principals import Account, account_of
from toolcrib.gateway.limits import share_of

_PAUSE = 1.0
"""Seconds for which expired tasks may stay, so that not every request searches all tasks."""


class KeptTask(Protocol):
    """A task in the table."""

    @property
    def id(self) -> str:
        """The id that its client knows."""
        ...

    @property
    def owner(self) -> Principal:
        """The principal that started it, and the only one that can find it."""
        ...

    def is_expired(self, now: float) -> bool:
        """Return whether it can be dropped."""
        ...


T = TypeVar("T", bound=KeptTask)


def new_id() -> str:
    """Return a random id."""
    return token_urlsafe(24)


class TaskTable(Generic[T]):
    """Stores tasks until they expire; `has_room` returns whether an account may have another.

    All clients without an account, which choose their names themselves, share one limit. No task is dropped
    for another: a client may rely on the promised time.
    """

    def __init__(
        self, max_of_account: int, max_in_all: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_of_account, self._max_in_all, self._clock = max_of_account, max_in_all, clock
        self._tasks: dict[str, T] = {}
        self._counts: Counter[Account | None] = Counter()
        self._looked = clock()

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._tasks)

    def has_room(self, owner: Principal) -> bool:
        """Return whether another task of an owner can be stored."""
        self._forget_expired()
        account = account_of(owner)
        most = share_of(self._max_in_all, None) if account is None else self._max_of_account
        return len(self._tasks) < self._max_in_all and self._counts[account] < most

    def add(self, task: T) -> None:
        """Store a task for which there was room when its call began."""
        self._tasks[task.id] = task
        self._counts[account_of(task.owner)] += 1

    def find(self, task_id: str, owner: Principal) -> T | None:
        """Return a task of an owner by its id; None if there is none, or it has expired."""
        task = self._tasks.get(task_id)
        if task is None or task.owner != owner:
            return None
        if task.is_expired(self._clock()):
            self.drop(task)
            return None
        return task

    def drop(self, task: T) -> None:
        """Forget a task."""
        if self._tasks.pop(task.id, None) is not None:
            self._counts[account_of(task.owner)] -= 1
            self._counts = +self._counts  # without those who have none any more

    def _forget_expired(self) -> None:
        now = self._clock()
        if now - self._looked < _PAUSE:
            return
        self._looked = now
        for task in [task for task in self._tasks.values() if task.is_expired(now)]:
            self.drop(task)

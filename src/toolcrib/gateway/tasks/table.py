"""The tasks of clients, each found by its owner alone, and bounded in number and time."""

import time
from collections import Counter
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Generic, Protocol, TypeVar

from toolcrib.execution import Principal
from toolcrib.gateway.identity.principals import Account, account_of
from toolcrib.gateway.limits import share_of

_PAUSE = 1.0
"""For how many seconds expired tasks may stay, so that not every request looks through all."""


class KeptTask(Protocol):
    """What is kept of a task."""

    @property
    def id(self) -> str:
        """The id that its client knows."""
        ...

    @property
    def owner(self) -> Principal:
        """Who has begun it; for nobody else there is such a task."""
        ...

    def is_expired(self, now: float) -> bool:
        """Return whether it need not be kept any longer."""
        ...


T = TypeVar("T", bound=KeptTask)


def new_id() -> str:
    """Return an id that cannot be guessed, and tells nothing of the task."""
    return token_urlsafe(24)


class TaskTable(Generic[T]):
    """Keeps tasks until they expire; `has_room` says whether there may be more, of an account and in all.

    An account is a subject that somebody vouches for, through any client. All others, who choose their names
    themselves, have a share together. None is dropped to make room for another: a client may rely on the time
    that it was promised.
    """

    def __init__(
        self, max_of_account: int, max_in_all: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_of_account, self._max_in_all, self._clock = max_of_account, max_in_all, clock
        self._tasks: dict[str, T] = {}
        self._counts: Counter[Account | None] = Counter()
        self._looked = clock()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._tasks)

    def has_room(self, owner: Principal) -> bool:
        """Return whether another task of an owner can be kept."""
        self._forget_expired()
        account = account_of(owner)
        most = share_of(self._max_in_all, None) if account is None else self._max_of_account
        return len(self._tasks) < self._max_in_all and self._counts[account] < most

    def add(self, task: T) -> None:
        """Keep a task that has begun, for which there was room when it was asked for."""
        self._tasks[task.id] = task
        self._counts[account_of(task.owner)] += 1

    def find(self, task_id: str, owner: Principal) -> T | None:
        """Return a task of an owner; None where it has none of this id, or not any more."""
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

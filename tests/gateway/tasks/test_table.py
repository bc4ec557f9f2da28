"""Tasks are found by their owners alone, and bounded in number and time."""

from dataclasses import dataclass, field

from toolcrib.execution import Principal
from toolcrib.gateway.tasks.table import TaskTable, new_id

ANN = Principal(issuer="tokens", subject="ann")
BOB = Principal(issuer="tokens", subject="bob")


@dataclass(eq=False)
class Task:
    owner: Principal
    until: float
    id: str = field(default_factory=new_id)

    def is_expired(self, now: float) -> bool:
        return now > self.until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_task_is_found_by_its_owner_alone() -> None:
    table: TaskTable[Task] = TaskTable(10, 10)
    task = Task(ANN, 1e9)
    table.add(task)
    assert table.find(task.id, ANN) is task
    assert table.find(task.id, BOB) is None
    assert table.find("another", ANN) is None


def test_an_owner_has_so_many_and_the_others_still_have_room() -> None:
    table: TaskTable[Task] = TaskTable(2, 3)
    table.add(Task(ANN, 1e9))
    assert table.has_room(ANN)
    table.add(Task(ANN, 1e9))
    assert not table.has_room(ANN)
    assert table.has_room(BOB)
    table.add(Task(BOB, 1e9))
    assert not table.has_room(BOB)


def test_clients_that_choose_their_names_have_a_share_together() -> None:
    table: TaskTable[Task] = TaskTable(2, 8)
    for number in range(6):
        assert table.has_room(Principal(client=f"mcp:{number}"))
        table.add(Task(Principal(client=f"mcp:{number}"), 1e9))
    assert not table.has_room(Principal(client="mcp:another"))
    assert table.has_room(ANN)


def test_account_has_so_many_tasks_through_all_its_clients() -> None:
    table: TaskTable[Task] = TaskTable(2, 8)
    for client in ("editor", "shell"):
        table.add(Task(Principal(issuer="tokens", subject="ann", client=client), 1e9))
    assert not table.has_room(ANN)
    assert table.has_room(BOB)


def test_expired_tasks_are_gone_and_make_room() -> None:
    clock = Clock()
    table: TaskTable[Task] = TaskTable(1, 1, clock=clock)
    task = Task(ANN, 10.0)
    table.add(task)
    clock.now = 9.0
    assert not table.has_room(ANN)
    assert table.find(task.id, ANN) is task
    clock.now = 11.0
    assert table.find(task.id, ANN) is None
    assert table.has_room(ANN)
    assert len(table) == 0
    table.add(Task(ANN, 20.0))
    clock.now = 21.0
    assert table.has_room(BOB)
    assert len(table) == 0

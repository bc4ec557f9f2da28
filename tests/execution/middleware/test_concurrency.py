"""At most so many calls to one backend at a time."""

from collections.abc import Callable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from waiting import PATIENCE

from toolcrib.errors import ConfigError, ToolExecutionError
from toolcrib.execution import Answer, Call, Principal
from toolcrib.execution.middleware import ConcurrencyLimit

MakeCall = Callable[..., Call]


class Door:
    """A backend that answers when it is opened, and counts who is in."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.inside: list[str] = []
        self.entered: list[str] = []
        self.most = 0

    async def __call__(self, call: Call) -> Answer:
        name = call.args["name"]
        self.inside.append(name)
        self.entered.append(name)
        self.most = max(self.most, len(self.inside))
        try:
            await self.open.wait()
            await anyio.lowlevel.checkpoint()
        finally:
            self.inside.remove(name)
        return Answer(structured=name)


@pytest.mark.anyio
async def test_no_more_than_the_limit_run_and_the_others_follow_in_order(make_call: MakeCall) -> None:
    limit, door = ConcurrencyLimit(2), Door()
    names = [f"c{number}" for number in range(6)]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(limit, make_call(args={"name": name}), door)
            await anyio.wait_all_tasks_blocked()
            assert door.inside == names[:2]
            door.open.set()
    assert (door.most, door.entered) == (2, names)


@pytest.mark.anyio
async def test_principal_leaves_a_place_for_another(make_call: MakeCall) -> None:
    limit, door = ConcurrencyLimit(4), Door()
    ann, bob = (Principal(issuer="tokens", subject=name) for name in ("ann", "bob"))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for number, who in enumerate([ann] * 5 + [bob]):
                call = make_call(args={"name": f"{who.subject}{number}"}, principal=who)
                tasks.start_soon(limit, call, door)
            await anyio.wait_all_tasks_blocked()
            assert door.inside == ["ann0", "ann1", "ann2", "bob5"]
            door.open.set()


@pytest.mark.anyio
async def test_backends_do_not_wait_for_each_other(make_call: MakeCall) -> None:
    limit, door = ConcurrencyLimit(1), Door()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for server in ("a", "b", "a"):
                tasks.start_soon(limit, make_call(server=server, args={"name": server}), door)
            await anyio.wait_all_tasks_blocked()
            assert sorted(door.inside) == ["a", "b"]
            assert len(limit) == 2
            door.open.set()
    assert len(limit) == 0


@pytest.mark.anyio
async def test_the_key_says_who_shares_the_places(make_call: MakeCall) -> None:
    limit, door = ConcurrencyLimit(1, key=lambda call: call.principal), Door()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for caller in ("ann", "bob", "ann"):
                tasks.start_soon(
                    limit, make_call(principal=Principal(subject=caller), args={"name": caller}), door
                )
            await anyio.wait_all_tasks_blocked()
            assert sorted(door.inside) == ["ann", "bob"]
            door.open.set()


@pytest.mark.anyio
async def test_who_gives_up_waiting_leaves_no_trace(make_call: MakeCall) -> None:
    limit, door = ConcurrencyLimit(1), Door()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limit, make_call(args={"name": "first"}), door)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(limit, make_call(args={"name": "second"}), door)
                await anyio.wait_all_tasks_blocked()
                waiting.cancel_scope.cancel()
            tasks.start_soon(limit, make_call(args={"name": "third"}), door)
            await anyio.wait_all_tasks_blocked()
            door.open.set()
    assert door.entered == ["first", "third"]
    assert len(limit) == 0


@pytest.mark.anyio
async def test_a_call_that_fails_gives_its_place_back(make_call: MakeCall) -> None:
    limit = ConcurrencyLimit(1)

    async def go(_call: Call) -> Answer:
        raise ToolExecutionError(tool_id="shop:look", reason="no")

    with anyio.fail_after(PATIENCE):
        for _ in range(3):
            with pytest.raises(ToolExecutionError):
                await limit(make_call(), go)
    assert len(limit) == 0


@law(20)
@given(limit=st.integers(1, 4), fates=st.lists(st.sampled_from(["run", "give up"]), max_size=12))
def test_cancelled_calls_leave_the_others_in_order_within_the_limit(
    make_call: MakeCall, limit: int, fates: list[str]
) -> None:
    async def main() -> None:
        layer, door = ConcurrencyLimit(limit), Door()
        scopes: list[anyio.CancelScope] = []

        async def one(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                await layer(make_call(args={"name": name}), door)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number in range(len(fates)):
                    scopes.append(anyio.CancelScope())
                    tasks.start_soon(one, f"{number:02}", scopes[-1])
                await anyio.wait_all_tasks_blocked()
                for scope, fate in zip(scopes, fates, strict=True):
                    if fate == "give up":
                        scope.cancel()
                await anyio.wait_all_tasks_blocked()
                assert len(door.inside) == min(limit, fates.count("run"))
                door.open.set()
        assert door.entered == sorted(door.entered)
        assert {f"{number:02}" for number, fate in enumerate(fates) if fate == "run"} <= set(door.entered)
        assert door.most <= limit
        assert len(layer) == 0

    anyio.run(main)


def test_a_limit_of_none_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be a whole number, at least 1, not 0"):
        ConcurrencyLimit(0)

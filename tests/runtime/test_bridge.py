"""Requests of a guest to the host, and their handling."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.errors import LimitExceededError, SandboxViolationError
from toolcrib.model import RunResult
from toolcrib.runtime import Bridge, GuestError, Limits


class Named:
    """Tools of one namespace, `shop`, and functions, under their own names."""

    def resolve(self, path: str) -> str:
        known = {"shop.add", "shop.fail", "shop.slow", "shop.leak", "shop.big", "shop.meet"}
        if path not in known:
            raise GuestError("AttributeError" if "." in path else "NameError", f"there is no {path}")
        return path.replace(".", ":")

    def parameters(self, path: str) -> Sequence[str]:
        return ("a", "b") if path == "shop.add" else ()


class Shop:
    """A crib with tools that count their concurrent calls."""

    def __init__(self) -> None:
        self.crib = Crib()
        self.running = self.most = 0
        self.expected = 1
        self.met = anyio.Event()
        self.hanging = 0
        self.crib.add(self.add, namespace="shop")
        self.crib.add(self.fail, namespace="shop")
        self.crib.add(self.leak, namespace="shop")
        self.crib.add(self.big, namespace="shop")
        self.crib.add(self.meet, namespace="shop")
        self.crib.add(self.slow, namespace="shop")

    def add(self, a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    async def fail(self) -> None:
        """Fail."""
        raise RuntimeError("no more screws")

    async def leak(self) -> None:
        """Fail and tell too much."""
        raise RuntimeError(
            'File "/srv/shop/secrets.py", line 3: password="hunter2hunter2" in /home/anna/.netrc'
        )

    async def big(self, size: int) -> list[str]:
        """Give a lot."""
        return ["x" * 1000] * size

    async def meet(self) -> int:
        """Count who else is here, once all are who are expected."""
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running >= self.expected:
            self.met.set()
        await self.met.wait()
        for _ in range(10):  # for more than are expected to come, if they may
            await anyio.lowlevel.checkpoint()
        self.running -= 1
        return self.most

    async def slow(self) -> None:
        """Never end."""
        self.hanging += 1
        await anyio.sleep_forever()


def bridge_to(crib: Crib, limits: Limits | None = None, end: Callable[[], None] = lambda: None) -> Bridge:
    return Bridge(crib, Named(), limits or Limits(), end=end)


async def called(bridge: Bridge, path: str, *args: Any, **kwargs: Any) -> Any:
    return await bridge.call(path, args, kwargs)


async def refused(bridge: Bridge, path: str, *args: Any, **kwargs: Any) -> GuestError:
    with pytest.raises(GuestError) as caught:
        await bridge.call(path, args, kwargs)
    return caught.value


@pytest.mark.anyio
async def test_call_binds_arguments_by_name_and_by_position() -> None:
    bridge = bridge_to(Shop().crib)
    assert await called(bridge, "shop.add", a=1, b=2) == 3
    assert await called(bridge, "shop.add", 1, 2) == 3
    assert await called(bridge, "shop.add", 1, b=4) == 5


@pytest.mark.anyio
async def test_records_are_in_the_order_of_the_calls() -> None:
    bridge = bridge_to(Shop().crib)
    await called(bridge, "shop.add", a=1)
    await refused(bridge, "shop.fail")
    await called(bridge, "run_tool", "shop:add", {"a": 2})
    first, second, third = bridge.records
    assert (first.tool_id, first.args, first.backend_kind, first.error) == (
        "shop:add",
        {"a": 1},
        "local",
        None,
    )
    assert (second.tool_id, second.error_op) == ("shop:fail", "execute")
    assert "no more screws" in (second.error or "")
    assert third.args == {"a": 2}
    assert first.duration > 0


@pytest.mark.anyio
async def test_wrong_arguments_are_reported_and_recorded() -> None:
    bridge = bridge_to(Shop().crib)
    told = await refused(bridge, "shop.add", a="one")
    assert told.kind == "ValueError"
    assert "/a" in told.message
    assert bridge.records[0].error_op == "validate_input"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "args", "kwargs", "kind", "words"),
    [
        ("shop.nothing", (), {}, "AttributeError", "there is no shop.nothing"),
        ("nothing", (), {}, "NameError", "there is no nothing"),
        ("shop.add", (1, 2, 3), {}, "TypeError", "at most 2 arguments without names, not 3"),
        ("shop.add", (1,), {"a": 1}, "TypeError", "got 'a' twice"),
        ("shop.add", (), {"a": {1, 2}}, "TypeError", "must be JSON"),
        ("shop.add", (), {"a": float("nan")}, "TypeError", "must be JSON"),
        ("shop.add", (), {"a": "x" * 2_000_000}, "ValueError", "2,000,001 characters"),
        ("run_tool", (), {}, "TypeError", "needs 'tool_id'"),
        ("run_tool", ("shop:add", [1]), {}, "TypeError", "'args' must be an object"),
        ("run_tool", ("shop:ad", {}), {}, "LookupError", "did you mean"),
        ("run_tool", (), {"tool": "shop:add"}, "TypeError", "has no argument 'tool'"),
        ("search_tools", (3,), {}, "TypeError", "'query' must be a string"),
        ("search_tools", ("x",), {"limit": -1}, "ValueError", "at least 1"),
        ("describe_tool", ("shop:add", "deep"), {}, "ValueError", "deep"),
        ("run_chain", ("shop:add",), {}, "TypeError", "'steps' must be an array"),
        ("run_chain", ([{"tool": "shop:add"}],), {}, "ValueError", "tool"),
        ("run_tool", ("shop:add", {"a": [[]] * 60_000}), {}, "ValueError", "more than 50,000 values"),
    ],
)
async def test_invalid_call_is_reported_and_runs_no_tool(
    path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: str, words: str
) -> None:
    bridge = bridge_to(Shop().crib)
    with pytest.raises(GuestError) as caught:
        await bridge.call(path, args, kwargs)
    assert (caught.value.kind, words in caught.value.message) == (kind, True), caught.value
    assert bridge.failure is None


@pytest.mark.anyio
async def test_tuple_arguments_become_arrays() -> None:
    bridge = bridge_to(Shop().crib)
    outcome = await called(bridge, "run_chain", ({"tool_id": "shop:add", "args": {"a": 1, "b": 4}},))
    assert outcome["final"] == 5
    assert [record.args for record in bridge.records] == [{"a": 1, "b": 4}]


@pytest.mark.anyio
async def test_guest_error_has_no_paths_secrets_and_tracebacks() -> None:
    bridge = bridge_to(Shop().crib)
    told = await refused(bridge, "shop.leak")
    assert told.kind == "RuntimeError"
    for secret in ("/srv", "/home", "hunter2", "line 3"):
        assert secret not in told.message


@pytest.mark.anyio
async def test_call_over_the_limit_ends_the_run() -> None:
    ended: list[bool] = []
    bridge = bridge_to(Shop().crib, Limits(max_tool_calls=2), end=lambda: ended.append(True))
    await called(bridge, "shop.add", a=1)
    await called(bridge, "shop.add", a=2)
    with pytest.raises(LimitExceededError, match="more than 2 times") as caught:
        await called(bridge, "shop.add", a=3)
    assert caught.value.limit == "max_tool_calls"
    assert bridge.failure is caught.value
    assert ended == [True]
    assert len(bridge.records) == 2
    with pytest.raises(SandboxViolationError):
        await called(bridge, "shop.add", a=4)
    assert ended == [True]


@pytest.mark.anyio
async def test_too_many_searches_end_the_run() -> None:
    bridge = bridge_to(Shop().crib)
    for _ in range(200):
        await called(bridge, "search_tools", "add numbers")
    with pytest.raises(LimitExceededError) as caught:
        await called(bridge, "describe_tool", "shop:add")
    assert caught.value.limit == "lookups"


@pytest.mark.anyio
async def test_guest_can_search_and_describe_tools() -> None:
    bridge = bridge_to(Shop().crib)
    found = await called(bridge, "search_tools", "add", limit=2)
    assert found[0]["id"] == "shop:add"
    assert 0 <= found[0]["confidence"] <= 1
    doc = await called(bridge, "describe_tool", found[0]["id"])
    assert "a" in doc["tool"]["inputSchema"]["properties"]
    assert bridge.records == ()
    assert not bridge.has_run


@pytest.mark.anyio
async def test_result_over_the_memory_limit_is_reported_and_recorded_as_run() -> None:
    bridge = bridge_to(Shop().crib, Limits(memory_bytes=16 << 20))
    told = await refused(bridge, "shop.big", size=5000)
    assert "ask the tool for less" in told.message
    assert bridge.records[0].error is None
    assert len(await called(bridge, "shop.big", size=5)) == 5


@pytest.mark.anyio
async def test_parallel_calls_are_capped() -> None:
    shop = Shop()
    shop.expected = 64
    bridge = bridge_to(shop.crib)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(90):
                tasks.start_soon(called, bridge, "shop.meet")
    assert shop.most == 64
    assert len(bridge.records) == 90


@pytest.mark.anyio
async def test_chain_steps_are_recorded_as_calls() -> None:
    bridge = bridge_to(Shop().crib, Limits(max_tool_calls=5))
    steps = [
        {"tool_id": "shop:add", "args": {"a": 1}},
        {"parallel": [{"tool_id": "shop:add", "args": {"a": 2}}, {"toolId": "shop:add", "args": {"a": 3}}]},
    ]
    outcome = await called(bridge, "run_chain", steps)
    assert outcome["final"] == [3, 4]
    assert [record.args for record in bridge.records] == [{"a": 1}, {"a": 2}, {"a": 3}]
    with pytest.raises(LimitExceededError, match="more than 5 times"):
        await called(bridge, "run_chain", steps)


@pytest.mark.anyio
async def test_repeated_chain_step_stops_at_the_call_limit() -> None:
    bridge = bridge_to(Shop().crib, Limits(max_tool_calls=5))
    step = {"tool_id": "shop:add", "args": {"a": {"$ref": "item"}}, "for_each": [1, 2, 3]}
    assert (await called(bridge, "run_chain", [step]))["final"] == [2, 3, 4]
    assert len(bridge.records) == 3
    with pytest.raises(LimitExceededError, match="more than 5 times"):
        await called(bridge, "run_chain", [step])
    assert len(bridge.records) == 5


@pytest.mark.anyio
async def test_failed_chain_is_recorded_up_to_its_failure() -> None:
    bridge = bridge_to(Shop().crib, Limits(max_tool_calls=4))
    steps = [
        {"tool_id": name, "args": {"a": 1} if name == "shop:add" else {}}
        for name in ("shop:add", "shop:fail", "shop:add")
    ]
    told = await refused(bridge, "run_chain", steps)
    assert "no more screws" in told.message
    assert [record.tool_id for record in bridge.records] == ["shop:add", "shop:fail"]
    await called(bridge, "shop.add", a=1)
    await called(bridge, "shop.add", a=1)


@pytest.mark.anyio
async def test_chain_over_the_step_limit_ends_the_run() -> None:
    bridge = bridge_to(Shop().crib, Limits(max_chain_steps=2))
    with pytest.raises(LimitExceededError) as caught:
        await called(bridge, "run_chain", [{"tool_id": "shop:add", "args": {"a": 1}}] * 3)
    assert caught.value.limit == "max_chain_steps"
    assert bridge.records == ()


@pytest.mark.anyio
async def test_cancelled_calls_are_recorded_as_cancelled() -> None:
    shop = Shop()
    bridge = bridge_to(shop.crib)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(called, bridge, "shop.slow")
        tasks.start_soon(called, bridge, "run_chain", [{"tool_id": "shop:slow"}])
        await until(lambda: shop.hanging == 2)
        tasks.cancel_scope.cancel()
    assert [record.tool_id for record in bridge.records] == ["shop:slow", "shop:slow"]
    assert all(record.error for record in bridge.records)


def test_violation_ends_the_run_once() -> None:
    ended: list[bool] = []
    bridge = bridge_to(Crib(), end=lambda: ended.append(True))
    first, second = bridge.violation("one"), bridge.violation("two")
    assert bridge.failure is first
    assert str(second) == "the code was stopped: two"
    assert ended == [True]


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "args"), [("shop.nothing", ()), ("shop.add", (1, 2, 3)), ("run_tool", ())])
async def test_too_many_invalid_calls_end_the_run(path: str, args: tuple[Any, ...]) -> None:
    bridge = bridge_to(Shop().crib)
    for _ in range(200):
        await refused(bridge, path, *args)
    with pytest.raises(LimitExceededError) as caught:
        await called(bridge, path, *args)
    assert caught.value.limit == "lookups"
    assert bridge.failure is caught.value


@pytest.mark.anyio
async def test_calls_of_a_cancelled_chain_are_counted_and_recorded() -> None:
    shop = Shop()
    bridge = bridge_to(shop.crib, Limits(max_tool_calls=12))
    steps = [
        {"tool_id": "shop:add", "args": {"a": {"$ref": "item"}}, "for_each": [1, 2, 3, 4, 5]},
        {"tool_id": "shop:slow"},
    ]
    for times in (1, 2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(called, bridge, "run_chain", steps)
            await until(lambda times=times: shop.hanging == times)
            tasks.cancel_scope.cancel()
    assert len(bridge.records) == 12
    assert [record.args for record in bridge.records[:5]] == [{"a": n} for n in (1, 2, 3, 4, 5)]
    assert bridge.records[5].error == "it was cancelled"
    with pytest.raises(LimitExceededError):
        await called(bridge, "shop.add", a=1)


@pytest.mark.anyio
async def test_parallel_calls_of_a_failed_step_are_counted_and_recorded() -> None:
    bridge = bridge_to(Shop().crib)
    await refused(
        bridge,
        "run_chain",
        [{"tool_id": "shop:meet", "args": {"$ref": "item"}, "for_each": [{}, {}, {"x": 1}]}],
    )
    assert len(bridge.records) == 3
    assert [record.error_op for record in bridge.records].count("validate_input") == 1


@pytest.mark.anyio
async def test_chain_that_ignores_errors_stops_at_the_call_limit() -> None:
    ended: list[bool] = []
    bridge = bridge_to(Shop().crib, Limits(max_tool_calls=2), end=lambda: ended.append(True))
    step = {"tool_id": "shop:add", "args": {"a": 1}, "on_error": "continue"}
    await called(bridge, "run_chain", [step] * 5)
    assert isinstance(bridge.failure, LimitExceededError)
    assert ended == [True]
    assert len(bridge.records) == 2


@pytest.mark.anyio
async def test_chains_without_calls_count_as_lookups() -> None:
    bridge = bridge_to(Shop().crib)
    for _ in range(200):
        await called(bridge, "run_chain", [])
    with pytest.raises(LimitExceededError) as caught:
        await called(bridge, "run_chain", [])
    assert caught.value.limit == "lookups"


@pytest.mark.anyio
async def test_arguments_of_all_calls_together_are_limited() -> None:
    bridge = bridge_to(Shop().crib, Limits(memory_bytes=16 << 20))
    for _ in range(18):
        await refused(bridge, "shop.add", a="x" * 900_000)
    with pytest.raises(LimitExceededError, match="arguments of its calls") as caught:
        await called(bridge, "shop.add", a="x" * 900_000)
    assert caught.value.limit == "memory_bytes"
    assert len(bridge.records) == 18


@pytest.mark.anyio
async def test_tool_that_ignores_cancellation_is_abandoned() -> None:
    crib = Crib()
    going, may_stop, stopped = anyio.Event(), anyio.Event(), anyio.Event()

    @crib.add(namespace="shop")
    async def slow() -> None:
        """Never stop."""
        going.set()
        with anyio.CancelScope(shield=True):
            await may_stop.wait()
        stopped.set()

    bridge = bridge_to(crib)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(called, bridge, "shop.slow")
            await going.wait()
            tasks.cancel_scope.cancel()
        assert not stopped.is_set()
        assert bridge.records[0].error == "it was cancelled"
        may_stop.set()
        await stopped.wait()


class Plain:
    """A third-party gateway: it does not support following chains, and raises arbitrary errors."""

    async def search(self, query: str, *, limit: int = 10) -> Any:
        return [{"id": query, "limit": limit}]

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        return {"id": tool_id, "level": level}

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        if tool_id == "shop:fail":
            raise KeyError("/srv/secret")
        return {"tool": tool_id, "args": args}

    async def run_chain(self, steps: Sequence[Any]) -> Any:  # noqa: ARG002 - the protocol's signature
        raise AssertionError("its calls could not be followed")


@pytest.mark.anyio
async def test_bridge_accepts_any_gateway() -> None:
    bridge = Bridge(Plain(), Named(), Limits(), end=lambda: None)
    assert await called(bridge, "shop.add", 1) == {"tool": "shop:add", "args": {"a": 1}}
    assert await called(bridge, "search_tools", "x") == [{"id": "x", "limit": 10}]
    assert await called(bridge, "describe_tool", "x") == {"id": "x", "level": "schema"}
    told = await refused(bridge, "shop.fail")
    assert (told.kind, "/srv" in told.message) == ("RuntimeError", False)
    assert bridge.records[1].error is not None


def test_chain_is_run_by_the_host_for_a_gateway_without_around() -> None:
    async def main() -> None:
        bridge = Bridge(Plain(), Named(), Limits(), end=lambda: None)
        with pytest.raises(GuestError, match="tool"):
            await called(bridge, "run_chain", [{"tool": "x"}])
        result = RunResult.from_valid(tool=None, backend=None, structured=5, duration=0.0)
        gateway = Plain()
        gateway.run = AsyncRun(result)  # type: ignore[method-assign]
        bridge = Bridge(gateway, Named(), Limits(), end=lambda: None)
        assert (await called(bridge, "run_chain", [{"tool_id": "shop:add"}]))["final"] == 5
        assert [record.tool_id for record in bridge.records] == ["shop:add"]

    anyio.run(main)


class AsyncRun:
    """Returns the same result for every run."""

    def __init__(self, result: Any) -> None:
        self._result = result

    async def __call__(self, tool_id: str, args: dict[str, Any]) -> Any:  # noqa: ARG002 - the protocol's signature
        return self._result

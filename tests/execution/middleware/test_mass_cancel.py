"""Hundreds of calls, cancelled wherever they happen to be: afterwards nothing is held, and the next one goes."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest
from waiting import PATIENCE

from toolcrib.execution import Answer, Call
from toolcrib.execution.middleware import Cache, ConcurrencyLimit, RateLimit

MakeCall = Callable[..., Call]
Layer = Callable[[Call, Callable[[Call], Awaitable[Answer]]], Awaitable[Answer]]
TASKS = 400
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(1, 5))]


class Storm:
    """Many calls through one layer, some cancelled before, in and after the backend, some failing there."""

    def __init__(self, layer: Layer, make_call: MakeCall, seed: int) -> None:
        self.layer, self.make_call, self.chance = layer, make_call, random.Random(seed)  # noqa: S311 - to be the same each time
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.fates: Counter[str] = Counter()

    async def run(self) -> None:
        """Start all, and cancel most of them at some turn of the loop."""
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number in range(TASKS):
                    tasks.start_soon(self._one, number)
                    if self.chance.random() < 0.1:
                        await anyio.lowlevel.checkpoint()

    async def _one(self, number: int) -> None:
        server = f"s{number % 3}"
        call = self.make_call(server=server, args={"q": number % 5})
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                if self.chance.random() < 0.8:
                    tasks.start_soon(self._cancel, scope, self.chance.randrange(60))
                try:
                    await self.layer(call, self._backend)
                    self.fates["answered"] += 1
                except LookupError:
                    self.fates["failed"] += 1
                tasks.cancel_scope.cancel()
        self.fates["cancelled"] += scope.cancelled_caught

    async def _cancel(self, scope: anyio.CancelScope, turns: int) -> None:
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async def _backend(self, call: Call) -> Answer:
        server = call.tool.namespace or ""
        self.inside[server] += 1
        self.most[server] = max(self.most[server], self.inside[server])
        self.fates["entered"] += 1
        try:
            for _ in range(self.chance.randrange(8)):
                await anyio.lowlevel.checkpoint()
            if self.chance.random() < 0.2:
                raise LookupError("no")
        finally:
            self.inside[server] -= 1
        return Answer(structured=call.args)

    def was_one(self) -> bool:
        """Return whether there were calls of every fate, and enough of them to prove something."""
        ends = {"answered", "failed", "cancelled"}
        return all(self.fates[fate] >= 5 for fate in ends) and not any(self.inside.values())


async def goes(layer: Layer, make_call: MakeCall, count: int) -> None:
    """Check that as many calls as there is room for go through to the backend at the same time."""
    arrived, together = 0, anyio.Event()

    async def meet(_call: Call) -> Answer:
        nonlocal arrived
        arrived += 1
        if arrived == count:
            together.set()
        await together.wait()
        return Answer()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(layer, make_call(server="s0", args={"fresh": number}), meet)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.anyio
async def test_every_place_of_a_concurrency_limit_is_given_back(make_call: MakeCall, seed: int) -> None:
    limit = ConcurrencyLimit(4)
    storm = Storm(limit, make_call, seed)
    await storm.run()
    assert storm.was_one()
    assert set(storm.most.values()) == {4}
    assert len(limit) == 0
    await goes(limit, make_call, 4)
    await storm.run()
    assert set(storm.most.values()) == {4}  # no place was given back twice either


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.anyio
async def test_nobody_who_gave_up_holds_a_turn_of_a_rate_limit(make_call: MakeCall, seed: int) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        await anyio.lowlevel.checkpoint()
        now += seconds

    limit = RateLimit(3, 1.0, clock=lambda: now, sleep=sleep)
    storm = Storm(limit, make_call, seed)
    await storm.run()
    assert storm.was_one()
    per_server = 3 + 3 * now
    assert storm.fates["entered"] <= 3 * per_server + 1e-6
    now += 1000.0
    await goes(limit, make_call, 3)
    assert len(limit) == 1, "those that nobody waits for are forgotten"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.anyio
async def test_no_call_under_way_is_waited_for_after_it_was_broken_off(
    make_call: MakeCall, seed: int
) -> None:
    cache = Cache(max_entries=0)
    storm = Storm(cache, make_call, seed)
    await storm.run()
    assert storm.was_one()
    entered = storm.fates["entered"]
    assert entered < TASKS, "some shared an answer"
    asked = 0

    async def count(_call: Call) -> Answer:
        nonlocal asked
        asked += 1
        return Answer()

    with anyio.fail_after(PATIENCE):
        for number in range(15):
            await cache(make_call(server=f"s{number % 3}", args={"q": number % 5}), count)
    assert asked == 15


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.anyio
async def test_one_inside_the_other_they_hold_nothing_either(make_call: MakeCall, seed: int) -> None:
    cache, rate, places = Cache(max_entries=0), RateLimit(10_000, 0.001), ConcurrencyLimit(4)

    async def all_of_them(call: Call, go: Callable[[Call], Awaitable[Answer]]) -> Answer:
        return await cache(call, lambda one: rate(one, lambda two: places(two, go)))

    storm = Storm(all_of_them, make_call, seed)
    await storm.run()
    assert storm.was_one()
    assert len(places) == 0
    await goes(all_of_them, make_call, 4)

"""At most so many calls in a given time."""

from collections.abc import Callable, Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from waiting import PATIENCE

from toolcrib.errors import BackendUnavailableError, ConfigError
from toolcrib.execution import Answer, Call
from toolcrib.execution.middleware import RateLimit
from toolcrib.execution.middleware.rate import Bucket

MakeCall = Callable[..., Call]


class Clock:
    """A clock that only sleepers move, and a backend that notes the time of each call."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.calls: list[tuple[str, float]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        self.now += seconds

    async def go(self, call: Call) -> Answer:
        self.calls.append((call.args.get("name", ""), self.now))
        return Answer()

    @property
    def times(self) -> list[float]:
        return [round(time - 1000.0, 6) for _, time in self.calls]


def keeps_the_law(times: Sequence[float], burst: int, rate: float) -> bool:
    """Return whether in each stretch from one call to another no more went than may."""
    return all(
        later - first + 1 <= burst + rate * (times[later] - times[first]) + 1e-6
        for first in range(len(times))
        for later in range(first, len(times))
    )


@pytest.mark.anyio
async def test_after_the_burst_calls_go_at_the_rate(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(2, 1.0, burst=3, clock=clock, sleep=clock.sleep)
    for _ in range(6):
        await limit(make_call(), clock.go)
    assert clock.times == [0, 0, 0, 0.5, 1.0, 1.5]


@pytest.mark.anyio
async def test_the_burst_is_the_number_of_calls_unless_told_otherwise(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(2, 10.0, clock=clock, sleep=clock.sleep)
    for _ in range(3):
        await limit(make_call(), clock.go)
    assert clock.times == [0, 0, 5]


@pytest.mark.anyio
async def test_callers_go_in_the_order_they_came(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(1, 1.0, clock=clock, sleep=clock.sleep)
    names = [f"c{number}" for number in range(10)]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(limit, make_call(args={"name": name}), clock.go)
    assert [name for name, _ in clock.calls] == names
    assert clock.times == list(range(10))


@pytest.mark.anyio
async def test_a_wait_past_the_deadline_is_refused_at_once(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(1, 3600.0, clock=clock, sleep=clock.sleep)
    await limit(make_call(), clock.go)
    with anyio.fail_after(PATIENCE), pytest.raises(BackendUnavailableError) as caught:
        await limit(make_call(), clock.go)
    assert caught.value.sent is False
    assert str(caught.value) == (
        "shop:look: mcp:shop is unavailable: at 1 calls in 3600 s, its turn comes in 3.6e+03 s, "
        "after the deadline; call it less often"
    )
    assert len(clock.calls) == 1


@pytest.mark.parametrize("before", [0, 1], ids=["its turn is at once", "its turn is later"])
@pytest.mark.anyio
async def test_who_is_cancelled_already_is_not_refused_besides(make_call: MakeCall, before: int) -> None:
    async def go(_call: Call) -> Answer:
        await anyio.lowlevel.checkpoint()
        return Answer()

    limit = RateLimit(1, 3600.0)
    for _ in range(before):
        await limit(make_call(), go)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await limit(make_call(), go)
    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_those_who_wait_already_count_for_the_refusal(make_call: MakeCall) -> None:
    clock = Clock()
    blocked = anyio.Event()

    async def sleep(_seconds: float) -> None:
        blocked.set()
        await anyio.sleep_forever()

    limit = RateLimit(1, 0.6 * PATIENCE, clock=clock, sleep=sleep)
    with anyio.fail_after(PATIENCE):
        await limit(make_call(), clock.go)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limit, make_call(), clock.go)
            await blocked.wait()
            with pytest.raises(BackendUnavailableError):
                await limit(make_call(), clock.go)
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_who_gives_up_takes_no_turn_from_those_behind(make_call: MakeCall) -> None:
    clock = Clock()
    blocked, go_on = anyio.Event(), anyio.Event()

    async def sleep(seconds: float) -> None:
        blocked.set()
        await go_on.wait()
        clock.now += seconds

    limit = RateLimit(1, 1.0, clock=clock, sleep=sleep)
    with anyio.fail_after(PATIENCE):
        await limit(make_call(args={"name": "first"}), clock.go)
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as given_up:
                given_up.start_soon(limit, make_call(args={"name": "second"}), clock.go)
                await blocked.wait()
                tasks.start_soon(limit, make_call(args={"name": "third"}), clock.go)
                await anyio.wait_all_tasks_blocked()
                given_up.cancel_scope.cancel()
            go_on.set()
    assert clock.calls == [("first", 1000.0), ("third", 1001.0)]


@pytest.mark.anyio
async def test_backends_have_rates_of_their_own_and_rested_ones_are_forgotten(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(1, 1.0, clock=clock, sleep=clock.sleep)
    for number in range(100):
        await limit(make_call(server=f"s{number}"), clock.go)
    assert clock.times == [0] * 100
    assert len(limit) == 100
    clock.now += 1.0
    await limit(make_call(server="s7"), clock.go)
    assert len(limit) == 1


@pytest.mark.anyio
async def test_by_default_it_uses_the_clock_of_the_machine(make_call: MakeCall) -> None:
    clock = Clock()
    limit = RateLimit(1, 0.001)
    with anyio.fail_after(PATIENCE):
        for _ in range(3):
            await limit(make_call(), clock.go)
    assert len(clock.calls) == 3


@law(12)
@given(
    calls=st.integers(1, 5),
    per=st.floats(0.1, 10),
    burst=st.integers(1, 6),
    rests=st.lists(st.floats(0, 5), max_size=15),
    together=st.integers(1, 3),
)
def test_no_stretch_of_time_ever_sees_more_than_the_burst_and_the_rate(
    make_call: MakeCall, calls: int, per: float, burst: int, rests: list[float], together: int
) -> None:
    clock = Clock()

    async def main() -> None:
        limit = RateLimit(calls, per, burst=burst, clock=clock, sleep=clock.sleep)
        for rest in rests:
            async with anyio.create_task_group() as tasks:
                for _ in range(together):
                    tasks.start_soon(limit, make_call(), clock.go)
            clock.now += rest

    anyio.run(main)
    assert len(clock.calls) == together * len(rests)
    assert keeps_the_law([time for _, time in clock.calls], burst, calls / per)


@given(
    burst=st.integers(1, 5),
    interval=st.floats(0.001, 100),
    steps=st.lists(st.floats(-10, 100), max_size=40),
)
def test_a_bucket_keeps_its_law_even_if_the_clock_goes_backwards(
    burst: int, interval: float, steps: list[float]
) -> None:
    now = latest = 0.0
    bucket = Bucket(burst=burst, interval=interval, now=now)
    taken: list[float] = []
    for step in steps:
        now += step
        latest = max(latest, now)
        if bucket.take(now):
            taken.append(latest)
    assert keeps_the_law(taken, burst, 1 / interval)


@given(burst=st.integers(1, 5), interval=st.floats(0.001, 100), ahead=st.integers(0, 10))
def test_a_wait_for_those_ahead_is_as_long_as_theirs_together(
    burst: int, interval: float, ahead: int
) -> None:
    bucket = Bucket(burst=burst, interval=interval, now=0.0)
    said = bucket.wait(0.0, ahead)
    now = 0.0
    for _ in range(ahead):
        now += bucket.wait(now)
        while not bucket.take(now):
            now += 1e-6
    assert now + bucket.wait(now) == pytest.approx(said, abs=1e-4)


def test_options_that_cannot_work_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RateLimit(0, 0)
    assert [problem.path for problem in caught.value.problems] == ["/calls", "/per", "/burst"]

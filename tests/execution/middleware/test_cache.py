"""Answers of tools that change nothing, given again without asking again."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from execution.toolbox import runner_of
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from waiting import PATIENCE

from toolcrib.errors import ConfigError, ToolExecutionError
from toolcrib.execution import Answer, Call, Principal, Update
from toolcrib.execution.middleware import FROM_CACHE, Cache
from toolcrib.model import ProviderBackend, ToolAnnotations, ToolId, tool

MakeCall = Callable[..., Call]


class Counter:
    """A backend that gives a fresh object each time, and counts."""

    def __init__(self, **answer: Any) -> None:
        self.calls = 0
        self.answer = answer

    async def __call__(self, call: Call) -> Answer:
        self.calls += 1
        if call.emit is not None:
            await call.emit(Update(kind="progress", data={"progress": 1}))
        return Answer(**{"structured": {"call": self.calls}, **self.answer})


class Slow:
    """A backend whose calls end with scripted outcomes, in the order they came."""

    def __init__(self) -> None:
        self.waiting: list[tuple[anyio.Event, list[Any]]] = []
        self.calls = 0

    async def __call__(self, _call: Call) -> Answer:
        self.calls += 1
        ended, outcome = anyio.Event(), []
        self.waiting.append((ended, outcome))
        await ended.wait()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return Answer(structured=outcome[0])

    def end(self, outcome: Any) -> None:
        ended, slot = self.waiting.pop(0)
        slot.append(outcome)
        ended.set()


def refusal() -> ToolExecutionError:
    return ToolExecutionError(tool_id="shop:look", reason="no")


@pytest.mark.anyio
async def test_the_second_answer_comes_from_the_cache_and_says_so(make_call: MakeCall) -> None:
    cache, backend = Cache(), Counter(mcp_result={"content": [1]}, notes=("a",))
    first = await cache(make_call(args={"q": 1}), backend)
    second = await cache(make_call(args={"q": 1}), backend)
    assert first.notes == ("a",)
    assert second == Answer(structured={"call": 1}, mcp_result={"content": [1]}, notes=("a", FROM_CACHE))
    assert (backend.calls, len(cache)) == (1, 1)
    assert cache.size == len('{"call":1}{"content":[1]}')


@pytest.mark.parametrize(
    "hints", [{}, {"idempotent_hint": True}, {"read_only_hint": False}], ids=["none", "idempotent", "not"]
)
@pytest.mark.anyio
async def test_only_tools_that_say_they_are_read_only_are_cached(
    make_call: MakeCall, hints: dict[str, bool]
) -> None:
    cache, backend = Cache(), Counter()
    for _ in range(2):
        await cache(make_call(hints=hints), backend)
    assert (backend.calls, len(cache)) == (2, 0)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"principal": Principal(subject="bob")}, id="principal"),
        pytest.param({"name": "other"}, id="tool"),
        pytest.param({"server": "other"}, id="server"),
        pytest.param({"backend": ProviderBackend(provider_id="shop", tool_id="x")}, id="backend"),
        pytest.param({"args": {"q": 2}}, id="arguments"),
        pytest.param({"args": {"q": 1.0}}, id="a float"),
        pytest.param({"args": {"q": True}}, id="a boolean"),
        pytest.param({"args": {"q": "1"}}, id="a text"),
        pytest.param({"schema": {"type": "object", "required": ["q"]}}, id="a changed definition"),
        pytest.param({"hints": {"read_only_hint": True, "open_world_hint": True}}, id="changed hints"),
    ],
)
@pytest.mark.anyio
async def test_a_call_that_differs_is_not_answered_for_another(
    make_call: MakeCall, other: dict[str, Any]
) -> None:
    cache, backend = Cache(), Counter()
    same = {"principal": Principal(subject="ann"), "args": {"q": 1}}
    await cache(make_call(**same), backend)
    await cache(make_call(**same | other), backend)
    assert backend.calls == 2
    await cache(make_call(**same), backend)
    assert backend.calls == 2


@pytest.mark.anyio
async def test_the_order_of_keys_makes_no_difference(make_call: MakeCall) -> None:
    cache, backend = Cache(), Counter()
    await cache(make_call(args={"a": {"x": 1, "y": 2}, "b": 3}), backend)
    await cache(make_call(args={"b": 3, "a": {"y": 2, "x": 1}}), backend)
    assert backend.calls == 1


@pytest.mark.parametrize("args", [{"a": (1, 2)}, {"a": float("nan")}, {1: 2}, {"a": {3}}, {"a": b"x"}])
@pytest.mark.anyio
async def test_arguments_that_are_not_json_are_not_cached(make_call: MakeCall, args: Any) -> None:
    cache, backend = Cache(), Counter()
    for _ in range(2):
        await cache(make_call(args=args), backend)
    assert backend.calls == 2


@pytest.mark.parametrize(
    "answer", [{"structured": (1,)}, {"mcp_result": object()}, {"structured": {"a": b"x"}}]
)
@pytest.mark.anyio
async def test_answers_that_are_not_json_are_not_cached(make_call: MakeCall, answer: dict[str, Any]) -> None:
    cache, backend = Cache(), Counter(**answer)
    for _ in range(2):
        await cache(make_call(), backend)
    assert (backend.calls, len(cache)) == (2, 0)


@pytest.mark.anyio
async def test_nobody_shares_a_container_with_anybody(make_call: MakeCall) -> None:
    cache, backend = Cache(), Counter(structured={"rows": [{"a": 1}]}, mcp_result={"rows": [1]})
    answers = [await cache(make_call(), backend) for _ in range(3)]
    for answer in answers:
        assert answer.structured == {"rows": [{"a": 1}]}
        assert answer.mcp_result == {"rows": [1]}
        answer.structured["rows"][0]["a"] = 2
        answer.structured["rows"].append(3)
        answer.mcp_result["rows"].clear()
    assert backend.calls == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


def shape(value: Any) -> Any:
    """Return a value so that it equals another only if their types and the order of their keys do too."""
    if isinstance(value, dict):
        return [(key, shape(member)) for key, member in value.items()]
    return [shape(member) for member in value] if isinstance(value, list) else (type(value), repr(value))


@given(value=JSON)
def test_an_answer_comes_back_exactly_as_it_was(make_call: MakeCall, value: Any) -> None:
    async def main() -> None:
        cache, backend = Cache(), Counter(structured=value)
        await cache(make_call(), backend)
        again = await cache(make_call(), backend)
        assert again.notes == (FROM_CACHE,)
        assert shape(again.structured) == shape(value)

    anyio.run(main)


@pytest.mark.anyio
async def test_an_answer_is_given_until_its_time_is_over(make_call: MakeCall) -> None:
    now = 0.0
    cache, backend = Cache(ttl=10, clock=lambda: now), Counter()
    await cache(make_call(), backend)
    now = 9.99
    await cache(make_call(), backend)
    assert backend.calls == 1
    now = 10.0
    assert (await cache(make_call(), backend)).structured == {"call": 2}
    assert len(cache) == 1


@pytest.mark.anyio
async def test_the_least_recently_used_make_room(make_call: MakeCall) -> None:
    cache, backend = Cache(max_entries=2), Counter()
    for query in (1, 2, 1, 3):
        await cache(make_call(args={"q": query}), backend)
    assert (backend.calls, len(cache)) == (3, 2)
    await cache(make_call(args={"q": 1}), backend)
    assert backend.calls == 3
    await cache(make_call(args={"q": 2}), backend)
    assert backend.calls == 4


@pytest.mark.anyio
async def test_large_answers_do_not_push_out_everything(make_call: MakeCall) -> None:
    cache, small, large = Cache(max_bytes=50), Counter(), Counter(structured="x" * 100)
    await cache(make_call(args={"q": 1}), small)
    await cache(make_call(args={"q": 2}), large)
    assert (len(cache), cache.size) == (1, 10)


@pytest.mark.anyio
async def test_a_cache_may_have_no_room_at_all(make_call: MakeCall) -> None:
    cache, backend = Cache(max_entries=0), Counter()
    for _ in range(2):
        await cache(make_call(), backend)
    assert (backend.calls, len(cache)) == (2, 0)


@pytest.mark.anyio
async def test_errors_are_never_kept(make_call: MakeCall) -> None:
    cache, calls = Cache(), 0

    async def go(_call: Call) -> Answer:
        nonlocal calls
        calls += 1
        raise refusal()

    for _ in range(2):
        with pytest.raises(ToolExecutionError):
            await cache(make_call(), go)
    assert (calls, len(cache)) == (2, 0)


@pytest.mark.anyio
async def test_a_call_that_tells_updates_is_kept_and_a_hit_tells_none(make_call: MakeCall) -> None:
    told: list[Update] = []

    async def emit(update: Update) -> None:
        told.append(update)

    cache, backend = Cache(), Counter()
    for _ in range(2):
        await cache(make_call(emit=emit), backend)
    assert (backend.calls, len(told)) == (1, 1)


@pytest.mark.parametrize("tool_id", [None, "shop:look", ToolId("shop", "look", None)])
@pytest.mark.anyio
async def test_cleared_entry_is_requested_again(make_call: MakeCall, tool_id: Any) -> None:
    cache, backend = Cache(), Counter()
    await cache(make_call(), backend)
    await cache(make_call("other"), backend)
    cache.clear(tool_id)
    assert len(cache) == (0 if tool_id is None else 1)
    await cache(make_call(), backend)
    assert backend.calls == 3


@pytest.mark.anyio
async def test_a_tool_that_may_change_something_clears_what_is_known_of_its_backend(
    make_call: MakeCall,
) -> None:
    cache, backend = Cache(), Counter()
    await cache(make_call(), backend)
    await cache(make_call(server="other"), backend)
    await cache(make_call("put", hints={"idempotent_hint": True}), backend)
    assert len(cache) == 1
    assert (await cache(make_call(), backend)).structured == {"call": 4}
    assert (await cache(make_call(server="other"), backend)).notes == (FROM_CACHE,)


@pytest.mark.anyio
async def test_failed_call_invalidates_the_cache_too(make_call: MakeCall) -> None:
    cache, backend = Cache(), Counter()
    await cache(make_call(), backend)

    async def fail(_call: Call) -> Answer:
        await cache(make_call(), backend)
        raise refusal()

    with pytest.raises(ToolExecutionError):
        await cache(make_call("put", hints={}), fail)
    assert (backend.calls, len(cache)) == (2, 0)


@pytest.mark.parametrize("emits", [False, True], ids=["nobody listens", "somebody listens"])
@pytest.mark.parametrize("order", ["read first", "write first"])
@pytest.mark.anyio
async def test_read_during_a_change_is_not_cached(make_call: MakeCall, order: str, emits: bool) -> None:
    async def emit(_update: Update) -> None: ...

    cache, reading, writing = Cache(), Slow(), Slow()
    read = make_call(emit=emit) if emits else make_call()
    calls = [(read, reading), (make_call("put", hints={}), writing)]
    backends = [reading, writing] if order == "read first" else [writing, reading]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for call, backend in calls if order == "read first" else reversed(calls):
                tasks.start_soon(cache, call, backend)
                await anyio.wait_all_tasks_blocked()
            for backend in backends:
                backend.end("old")
                await anyio.wait_all_tasks_blocked()
    assert len(cache) == 0
    assert (await cache(read, Counter())).structured == {"call": 1}


@pytest.mark.anyio
async def test_who_asks_after_a_change_began_does_not_wait_for_a_call_from_before(
    make_call: MakeCall,
) -> None:
    cache, reading = Cache(), Slow()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cache, make_call(), reading)
            await anyio.wait_all_tasks_blocked()
            await cache(make_call("put", hints={}), Counter())
            assert (await cache(make_call(), Counter())).structured == {"call": 1}
            reading.end("old")
    assert (await cache(make_call(), Counter())).notes == (FROM_CACHE,)


@pytest.mark.anyio
async def test_a_change_elsewhere_leaves_a_call_under_way_alone(make_call: MakeCall) -> None:
    cache, reading = Cache(), Slow()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cache, make_call(), reading)
            await anyio.wait_all_tasks_blocked()
            await cache(make_call("put", server="other", hints={}), Counter())
            reading.end("kept")
    assert len(cache) == 1


class Crowd:
    """Callers of one cache, each with a scope of its own."""

    def __init__(self, cache: Cache, backend: Callable[..., Any], call: Call) -> None:
        self.cache, self.backend, self.call = cache, backend, call
        self.scopes: list[anyio.CancelScope] = []
        self.results: dict[int, Any] = {}

    async def one(self, number: int) -> None:
        with self.scopes[number]:
            try:
                self.results[number] = await self.cache(self.call, self.backend)
            except ToolExecutionError as error:
                self.results[number] = error

    async def come(self, tasks: Any, count: int) -> None:
        for _ in range(count):
            self.scopes.append(anyio.CancelScope())
            tasks.start_soon(self.one, len(self.scopes) - 1)
        await anyio.wait_all_tasks_blocked()

    def structured(self) -> dict[int, Any]:
        return {number: getattr(answer, "structured", "error") for number, answer in self.results.items()}


@pytest.mark.anyio
async def test_same_calls_at_one_time_are_made_once(make_call: MakeCall) -> None:
    backend = Slow()
    crowd = Crowd(Cache(), backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 5)
            assert backend.calls == 1
            backend.end([1])
    assert crowd.structured() == {number: [1] for number in range(5)}
    assert len({id(answer.structured) for answer in crowd.results.values()}) == 5
    assert [answer.notes for _, answer in sorted(crowd.results.items())] == [(), *[(FROM_CACHE,)] * 4]


@pytest.mark.anyio
async def test_waiters_share_even_what_is_too_large_to_keep(make_call: MakeCall) -> None:
    backend = Slow()
    crowd = Crowd(Cache(max_bytes=1), backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 3)
            backend.end("large")
    assert crowd.structured() == dict.fromkeys(range(3), "large")
    assert backend.calls == 1


@pytest.mark.parametrize("outcome", [refusal(), (1, 2)], ids=["an error", "an answer that is not JSON"])
@pytest.mark.anyio
async def test_if_the_first_gives_nothing_to_share_all_others_go_on_at_once(
    make_call: MakeCall, outcome: Any
) -> None:
    backend = Slow()
    crowd = Crowd(Cache(), backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 4)
            backend.end(outcome)
            await anyio.wait_all_tasks_blocked()
            assert backend.calls == 4
            assert list(crowd.results) == [0]
            for number in (1, 2, 3):
                backend.end(number)
    assert {crowd.structured()[number] for number in (1, 2, 3)} == {1, 2, 3}


@pytest.mark.anyio
async def test_if_the_first_is_cancelled_only_the_next_goes_on(make_call: MakeCall) -> None:
    backend = Slow()
    crowd = Crowd(Cache(), backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 4)
            crowd.scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            assert (backend.calls, crowd.results) == (2, {})
            backend.waiting.pop(0)
            backend.end("second")
    assert crowd.structured() == dict.fromkeys((1, 2, 3), "second")


@pytest.mark.anyio
async def test_who_waits_may_give_up_without_harm(make_call: MakeCall) -> None:
    backend = Slow()
    crowd = Crowd(Cache(), backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 3)
            crowd.scopes[1].cancel()
            await anyio.wait_all_tasks_blocked()
            backend.end(7)
    assert crowd.structured() == {0: 7, 2: 7}


@pytest.mark.anyio
async def test_nobody_waits_for_a_call_that_tells_updates_to_a_slow_reader(make_call: MakeCall) -> None:
    async def emit(_update: Update) -> None:
        await anyio.sleep_forever()

    cache, backend = Cache(), Counter()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cache, make_call(emit=emit), backend)
            await anyio.wait_all_tasks_blocked()
            assert (await cache(make_call(), backend)).structured == {"call": 2}
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("tool_id", [None, "shop:look"])
@pytest.mark.anyio
async def test_call_in_progress_during_a_clear_is_neither_cached_nor_joined(
    make_call: MakeCall, tool_id: str | None
) -> None:
    backend = Slow()
    cache = Cache()
    crowd = Crowd(cache, backend, make_call())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await crowd.come(tasks, 2)
            cache.clear(tool_id)
            await crowd.come(tasks, 1)
            assert backend.calls == 2
            backend.end("old")
            await anyio.wait_all_tasks_blocked()
            assert len(cache) == 0
            backend.end("fresh")
    assert crowd.structured() == {0: "old", 1: "old", 2: "fresh"}
    assert len(cache) == 1


@law(12)
@given(
    steps=st.lists(
        st.one_of(st.just("come"), st.just("fail"), st.just("answer"), st.just("clear"), st.integers(0, 9)),
        max_size=25,
    )
)
def test_whatever_fails_or_is_cancelled_everybody_else_gets_an_end(
    make_call: MakeCall, steps: list[Any]
) -> None:
    async def main() -> None:
        backend, cache = Slow(), Cache()
        crowd = Crowd(cache, backend, make_call())
        cancelled: set[int] = set()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for step in steps:
                    if step == "come":
                        await crowd.come(tasks, 1)
                    elif step == "clear":
                        cache.clear()
                    elif isinstance(step, int):
                        if step < len(crowd.scopes) and step not in crowd.results:
                            crowd.scopes[step].cancel()
                            cancelled.add(step)
                    elif backend.waiting:
                        backend.end(refusal() if step == "fail" else step)
                    await anyio.wait_all_tasks_blocked()
                while len(crowd.results) < len(crowd.scopes) - len(cancelled):
                    backend.end("answer")
                    await anyio.wait_all_tasks_blocked()
        assert set(crowd.results) == set(range(len(crowd.scopes))) - cancelled
        assert set(crowd.structured().values()) <= {"answer", "error"}

    anyio.run(main)


def test_options_that_cannot_work_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Cache(max_entries=-1, max_bytes=-1, ttl=-1)
    assert [problem.path for problem in caught.value.problems] == ["/max_entries", "/max_bytes", "/ttl"]


@pytest.mark.anyio
async def test_a_local_function_that_writes_clears_what_others_read() -> None:
    prices = {"nail": 1}

    @tool(annotations=ToolAnnotations(read_only_hint=True))
    async def price(item: str) -> int:
        return prices[item]

    @tool
    async def set_price(item: str, to: int) -> None:
        prices[item] = to

    runner = runner_of(price, set_price, middleware=[Cache()])
    assert (await runner.run("price", {"item": "nail"})).structured == 1
    await runner.run("set_price", {"item": "nail", "to": 2})
    assert (await runner.run("price", {"item": "nail"})).structured == 2

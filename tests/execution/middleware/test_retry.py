"""Another try, where that can do no harm."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from toolcrib.errors import BackendUnavailableError, ConfigError, ToolExecutionError
from toolcrib.execution import Answer, Call, Next, Update
from toolcrib.execution.middleware import Retry

MakeCall = Callable[..., Call]


def down(*, sent: bool = True) -> BackendUnavailableError:
    return BackendUnavailableError(tool_id="shop:look", backend="mcp:shop", reason="gone", sent=sent)


class Script:
    """Answers with one thing after another, and counts."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Answer:
        answer = self.answers[len(self.calls)]
        self.calls.append(call)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Pauses(list[float]):
    """Remembers how long it was to sleep, and does not."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.mark.anyio
async def test_the_first_answer_is_returned_as_it_is(make_call: MakeCall) -> None:
    answer = Answer(structured=1, notes=("a",))
    assert await Retry()(make_call(), Script(answer)) is answer


@pytest.mark.anyio
async def test_a_call_that_succeeds_later_says_at_which_try(make_call: MakeCall) -> None:
    pauses = Pauses()
    script = Script(down(), down(), Answer(structured=1, notes=("a",)))
    answer = await Retry(sleep=pauses, jitter=0)(make_call(), script)
    assert answer == Answer(structured=1, notes=("a", "answered on attempt 3"))
    assert pauses == [0.2, 0.4]


@pytest.mark.anyio
async def test_the_last_error_is_raised_and_says_how_often_it_was_tried(make_call: MakeCall) -> None:
    last = down()
    with pytest.raises(BackendUnavailableError) as caught:
        await Retry(sleep=Pauses())(make_call(), Script(down(), down(), last))
    assert caught.value is last
    assert last.__notes__ == ["tried 3 times"]


@pytest.mark.parametrize(
    ("hints", "sent", "tries"),
    [
        pytest.param({}, True, 1, id="a tool that may change something, and may have run"),
        pytest.param({"destructive_hint": True}, True, 1, id="a destructive one"),
        pytest.param({"read_only_hint": False, "idempotent_hint": False}, True, 1, id="one that says so"),
        pytest.param({}, False, 3, id="a call that never arrived"),
        pytest.param({"idempotent_hint": True}, True, 3, id="an idempotent tool"),
        pytest.param({"read_only_hint": True}, True, 3, id="a read-only tool"),
    ],
)
@pytest.mark.anyio
async def test_only_what_does_no_harm_is_repeated(
    make_call: MakeCall, hints: dict[str, bool], sent: bool, tries: int
) -> None:
    script = Script(*(down(sent=sent) for _ in range(3)))
    with pytest.raises(BackendUnavailableError) as caught:
        await Retry(sleep=Pauses())(make_call(hints=hints), script)
    assert len(script.calls) == tries
    assert hasattr(caught.value, "__notes__") == (tries > 1)


@pytest.mark.anyio
async def test_error_of_the_tool_itself_is_not_retried(make_call: MakeCall) -> None:
    script = Script(ToolExecutionError(tool_id="shop:look", reason="no"))
    with pytest.raises(ToolExecutionError):
        await Retry(sleep=Pauses())(make_call(), script)
    assert len(script.calls) == 1


@pytest.mark.anyio
async def test_a_pause_that_would_pass_the_deadline_is_not_begun(make_call: MakeCall) -> None:
    pauses = Pauses()
    script = Script(down())
    with anyio.fail_after(PATIENCE), pytest.raises(BackendUnavailableError):
        await Retry(first_delay=2 * PATIENCE, max_delay=2 * PATIENCE, jitter=0, sleep=pauses)(
            make_call(), script
        )
    assert pauses == []


@pytest.mark.anyio
async def test_cancellation_ends_the_pause(make_call: MakeCall) -> None:
    pausing = anyio.Event()

    async def sleep(_seconds: float) -> None:
        pausing.set()
        await anyio.sleep_forever()

    script = Script(down(), Answer())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Retry(sleep=sleep), make_call(), script)
            await pausing.wait()
            tasks.cancel_scope.cancel()
    assert len(script.calls) == 1


@pytest.mark.parametrize(("kind", "tries"), [("progress", 2), ("chunk", 1)])
@pytest.mark.anyio
async def test_after_a_part_of_the_result_was_told_nothing_is_repeated(
    make_call: MakeCall, kind: Any, tries: int
) -> None:
    told: list[Update] = []
    calls = 0

    async def emit(update: Update) -> None:
        told.append(update)

    async def go(call: Call) -> Answer:
        nonlocal calls
        calls += 1
        assert call.emit is not None
        await call.emit(Update(kind=kind, data=calls))
        raise down()

    with pytest.raises(BackendUnavailableError):
        await Retry(attempts=2, sleep=Pauses())(make_call(emit=emit), go)
    assert [update.data for update in told] == list(range(1, tries + 1))


@pytest.mark.anyio
async def test_by_default_it_really_pauses(make_call: MakeCall) -> None:
    with anyio.fail_after(PATIENCE):
        answer = await Retry(first_delay=0.001)(make_call(), Script(down(), Answer()))
    assert answer.notes == ("answered on attempt 2",)


def run_with(retry: Retry, call: Call, go: Next) -> None:
    async def main() -> None:
        with pytest.raises(BackendUnavailableError):
            await retry(call, go)

    anyio.run(main)


@given(
    attempts=st.integers(1, 8),
    first=st.floats(0, 10),
    factor=st.floats(1, 1e300),
    longest=st.floats(0, 10),
    jitter=st.floats(0, 1),
    chances=st.lists(st.floats(0, 1, exclude_max=True), min_size=8, max_size=8),
)
def test_pauses_grow_up_to_the_longest_and_chance_only_shortens_them(  # noqa: PLR0913 - each is drawn by itself
    *,
    make_call: MakeCall,
    attempts: int,
    first: float,
    factor: float,
    longest: float,
    jitter: float,
    chances: Sequence[float],
) -> None:
    pauses = Pauses()
    rolled = iter(chances)
    retry = Retry(
        attempts=attempts,
        first_delay=first,
        factor=factor,
        max_delay=longest,
        jitter=jitter,
        sleep=pauses,
        chance=lambda: next(rolled),
    )
    run_with(retry, make_call(), Script(*(down() for _ in range(attempts))))
    assert len(pauses) == attempts - 1
    full = min(first, longest)
    for pause in pauses:
        assert full * (1 - jitter) - 1e-9 <= pause <= full
        full = min(full * factor, longest)


def test_options_that_cannot_work_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Retry(attempts=0, factor=0.5, jitter=float("nan"))
    assert [problem.path for problem in caught.value.problems] == ["/attempts", "/factor", "/jitter"]
    assert "must be a whole number, at least 1, not 0" in str(caught.value)
    assert "must be between 0 and 1, not nan" in str(caught.value)

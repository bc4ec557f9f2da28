import pytest

from toolcrib.execution.mcp.server_health import Breaker, ServerStatus


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def pauses(clock: Clock, count: int, chance: float = 0.0) -> list[float]:
    breaker = Breaker(threshold=3, base=0.5, cap=8.0, clock=clock, chance=lambda: chance)
    found = []
    for _ in range(count):
        breaker.failed()
        found.append(breaker.pause)
    return found


def test_pauses_double_up_to_the_cap(clock: Clock) -> None:
    assert pauses(clock, 7) == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_pauses_are_shortened_by_up_to_a_quarter(clock: Clock) -> None:
    assert pauses(clock, 3, chance=1.0) == [0.375, 0.75, 1.5]


def test_a_thousand_failures_are_no_more_than_the_cap(clock: Clock) -> None:
    assert pauses(clock, 1000)[-1] == 8.0


def test_breaker_opens_at_the_threshold_and_admits_one_attempt_after_the_pause(clock: Clock) -> None:
    breaker = Breaker(threshold=2, base=1.0, clock=clock, chance=lambda: 0.0)
    breaker.failed()
    assert (breaker.open, breaker.pause) == (False, 1.0)
    breaker.failed()
    assert (breaker.open, breaker.pause) == (True, 2.0)
    clock.time += 2.0
    assert (breaker.open, breaker.pause) == (False, 0.0)
    breaker.failed()
    assert (breaker.open, breaker.pause) == (True, 4.0)


def test_a_success_makes_it_forget(clock: Clock) -> None:
    breaker = Breaker(threshold=1, clock=clock)
    breaker.failed()
    assert breaker.open
    breaker.succeeded()
    assert (breaker.open, breaker.pause, breaker.failures) == (False, 0.0, 0)


def test_by_default_pauses_stay_within_their_bounds() -> None:
    breaker = Breaker(base=100.0, cap=100.0)
    breaker.failed()
    assert 74.0 < breaker.pause <= 100.0


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("", ""),
        ("starting\nno licence", "no licence"),
        (
            "TypeError: x is not a function\n    at main (a.js:1:1)\n  code: 7\n}\n\nNode.js v20.1.0",
            "TypeError: x",
        ),
        ("    at main (a.js:1:1)\nNode.js v20.1.0", "Node.js v20.1.0"),
    ],
    ids=["nothing", "last line", "error of node", "frames alone"],
)
def test_last_words_of_a_server_name_its_error(stderr: str, words: str) -> None:
    status = ServerStatus(name="a", state="failed", transport="stdio", stderr=stderr)
    assert status.last_words.startswith(words)
    assert bool(status.last_words) is bool(words)

"""Timeouts: a positive number of seconds, or no limit at all."""

from math import inf, nan
from typing import Any

import anyio
import pytest

from toolcrib.concurrency.deadlines import PausableDeadline, check_timeout
from toolcrib.errors import ValidationError


@pytest.mark.parametrize(("given", "seconds"), [(1, 1.0), (0.25, 0.25), (inf, inf), (10**400, inf)])
def test_a_deadline_is_a_positive_number_of_seconds(given: Any, seconds: float) -> None:
    assert check_timeout(given) == seconds
    assert type(check_timeout(given)) is float


@pytest.mark.parametrize(
    "given", [None, 0, -1, -0.0, nan, -inf, -(10**400), True, False, "1", b"1", [1], {}, 1j]
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        check_timeout(given)
    (problem,) = caught.value.problems
    assert problem.path == "/timeout"
    assert problem.message.startswith("must be a positive number of seconds, not ")


@pytest.mark.anyio
async def test_a_deadline_stands_still_while_it_is_paused() -> None:
    with anyio.move_on_after(0.01) as scope:
        deadline = PausableDeadline(scope)
        with deadline.pause(), deadline.pause():
            await anyio.sleep(0.05)
        assert scope.deadline < anyio.current_time() + 1
        await anyio.sleep_forever()
    assert scope.cancelled_caught

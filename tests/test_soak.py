"""A gateway under load for minutes: nothing grows, and no call fails that should not."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

MINUTES = 3


@pytest.fixture(scope="module")
def soak(root: Path) -> dict[str, Any]:
    """The names of the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "benchmarks")
        return runpy.run_path(str(root / "benchmarks" / "soak.py"))


def steady(soak: dict[str, Any], grows: Callable[[int], dict[str, int]] = lambda _: {}) -> Any:
    """Return a healthy run, except for the values that grow in its samples."""
    usual = {"memory": 200, "descriptors": 100, "children": 10, "zombies": 0, "threads": 20, "pause": 5}
    samples = tuple(soak["Sample"](at=number, **(usual | grows(number))) for number in range(60))
    return soak["Result"](
        samples=samples,
        outcomes={"ordinary ok": 1},
        disturbances={"kills": 1, "reloads": 1},
        failed=0,
        shown=(),
        log="WARNING toolcrib.gateway: the configuration was read again",
        exit_code=0,
        survivors=0,
        is_ready=True,
    )


def test_a_run_in_which_nothing_grows_is_well(soak: dict[str, Any]) -> None:
    assert soak["faults"](steady(soak)) == []
    assert soak["faults"](steady(soak, lambda number: {"memory": min(number, 25) * 10})) == []  # to its limit
    assert soak["faults"](steady(soak, lambda number: {"zombies": number % 3 // 2})) == []  # for a moment
    assert "| memory | 200 MB | 200 MB | 200 MB |" in soak["table"](steady(soak))


@pytest.mark.parametrize(
    ("grows", "message"),
    [
        (lambda number: {"memory": 200 + 4 * number}, "memory grew from 338 to 418 in the last half"),
        (lambda number: {"descriptors": 100 + 2 * number}, "descriptors grew from 169 to 209"),
        (lambda number: {"children": 10 + number // 4}, "children grew"),
        (lambda number: {"threads": 20 + number}, "threads grew"),
        (lambda _: {"zombies": 1}, "zombies"),
    ],
    ids=["memory", "descriptors", "children", "threads", "zombies"],
)
def test_what_grows_is_a_fault(
    soak: dict[str, Any], grows: Callable[[int], dict[str, int]], message: str
) -> None:
    (fault,) = soak["faults"](steady(soak, grows))
    assert message in fault


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failed": 1, "shown": ("chain: it broke",)}, "chain: it broke"),
        ({"log": "ERROR x\nTraceback (most recent call last)"}, "the log has a traceback"),
        ({"is_ready": False}, "it is not ready"),
        ({"exit_code": 1}, "it ended with 1"),
        ({"survivors": 2}, "2 processes ran on"),
    ],
    ids=["a failed call", "a traceback", "not ready", "a bad end", "survivors"],
)
def test_what_failed_is_a_fault(soak: dict[str, Any], change: dict[str, Any], message: str) -> None:
    (fault,) = soak["faults"](replace(steady(soak), **change))
    assert message in fault


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_minutes_of_calls_floods_kills_and_reloads_leave_nothing_behind(root: Path) -> None:
    command = [sys.executable, str(root / "benchmarks" / "soak.py"), "--minutes", str(MINUTES)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr[-3000:]}"

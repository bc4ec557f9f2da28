"""The one event loop of a crib without `await`: shared by all threads, and ended with the crib."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, wait_until

from toolcrib import SyncCrib, tool
from toolcrib.concurrency.background import Background
from toolcrib.concurrency.loop import LoopThread
from toolcrib.errors import CribStateError, ToolTimeoutError


def at_once(function: Callable[[], Any], times: int) -> list[Any]:
    """Return the results of a function that so many threads call at the same time."""
    barrier = threading.Barrier(times)

    def call(_: int) -> Any:
        barrier.wait(PATIENCE)
        return function()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(call, range(times)))


@tool(annotations={"readOnlyHint": True})  # type: ignore[arg-type]
def look() -> int:
    """Look after a while."""
    time.sleep(0.05)
    return 1


async def count(to: int) -> AsyncIterator[int]:
    """Count up."""
    for number in range(to):
        yield number


def test_calls_that_were_given_up_leave_room_for_others() -> None:
    release = threading.Event()
    crib = SyncCrib()

    @crib.add
    def wait() -> int:
        """Wait for the word."""
        release.wait(PATIENCE)
        return 1

    for _ in range(42):
        with pytest.raises(ToolTimeoutError):
            crib.run("wait", timeout=0.001)
    release.set()
    assert crib.run("wait", timeout=PATIENCE).structured == 1


@pytest.mark.parametrize(
    ("config", "threads"), [({}, 70), ({"cache": {}}, 4), ({"limits": {"concurrency": 1}}, 4)]
)
def test_many_threads_share_what_stands_around_each_call(config: Any, threads: int) -> None:
    crib = SyncCrib(config)
    crib.add(look)
    assert at_once(lambda: crib.run("look", timeout=PATIENCE).structured, threads) == [1] * threads


def use_and_drop() -> None:
    crib = SyncCrib()
    crib.add(count)
    crib.tools()
    assert any(thread.name == "toolcrib" for thread in threading.enumerate())


def test_a_crib_that_is_dropped_ends_its_thread() -> None:
    before = set(threading.enumerate())
    use_and_drop()

    def has_ended() -> bool:
        gc.collect()
        return not set(threading.enumerate()) - before

    wait_until(has_ended)


def test_a_loop_that_is_collected_by_its_own_thread_ends() -> None:
    before = set(threading.enumerate())
    dropped = threading.Event()

    async def collect() -> None:
        while not dropped.is_set():  # noqa: ASYNC110 - it is set by another thread
            await anyio.sleep(0.001)
        gc.collect()

    async def begin() -> None:
        Background(collect)

    gc.disable()
    try:
        circle: list[Any] = [LoopThread()]
        circle.append(circle)
        circle[0].call(begin)
        del circle
        dropped.set()
        wait_until(lambda: not set(threading.enumerate()) - before)
    finally:
        gc.enable()


def test_a_program_ends_although_its_crib_was_not_closed() -> None:
    code = (
        "from toolcrib import SyncCrib\n"
        "crib = SyncCrib()\n"
        "@crib.add\n"
        "def add(a: int, b: int) -> int: return a + b\n"
        "print(crib.run('add', {'a': 1, 'b': 2}).structured)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (ran.stdout, ran.stderr) == ("3\n", "")


@pytest.mark.parametrize("entered", [False, True])
def test_closing_twice_is_closing_once(*, entered: bool) -> None:
    crib = SyncCrib()
    crib.add(look)
    if entered:
        crib.__enter__()
    assert crib.run("look").structured == 1
    crib.close()
    crib.close()
    with pytest.raises(CribStateError, match="closed"):
        crib.run("look")
    with pytest.raises(CribStateError, match="closed"):
        crib.add(look)
    assert crib.status() == {}


def test_entering_twice_leaves_the_crib_open() -> None:
    with SyncCrib() as crib:
        crib.add(look)
        with pytest.raises(CribStateError, match="open already"):
            crib.__enter__()
        assert crib.run("look").structured == 1


@pytest.mark.parametrize("entered", [False, True])
def test_it_works_within_an_event_loop_unless_that_is_its_own(*, entered: bool) -> None:
    crib = SyncCrib()
    crib.add(look)

    @crib.add
    async def inner() -> str:
        """Use the crib from its own loop."""
        try:
            crib.run("look")
        except CribStateError as error:
            return str(error)
        return ""

    async def main() -> None:
        assert crib.run("look").structured == 1
        assert [event.data for event in crib.stream("look")] == [1]

    if entered:
        crib.__enter__()
    anyio.run(main)
    assert "use Crib and await" in crib.run("inner").structured
    crib.close()


def test_a_function_may_run_another_tool() -> None:
    crib = SyncCrib()
    crib.add(look)

    @crib.add
    def twice() -> int:
        """Look twice."""
        found: int = crib.run("look").structured + crib.run("look").structured
        return found

    assert crib.run("twice").structured == 2


def test_a_stream_cannot_be_read_on_after_the_crib_was_closed() -> None:
    with SyncCrib() as crib:
        crib.add(count)
        begun, fresh = crib.stream("count", {"to": 1000}), crib.stream("count", {"to": 2})
        assert next(begun).data == 0
    for stream in (begun, fresh):
        with pytest.raises(CribStateError, match="closed"):
            next(stream)


def test_closing_ends_the_calls_of_other_threads() -> None:
    started, ended = threading.Event(), []
    crib = SyncCrib()

    @crib.add
    async def hang() -> None:
        """Hang until stopped."""
        started.set()
        await anyio.sleep_forever()

    def run() -> None:
        try:
            crib.run("hang")
        except CribStateError as error:
            ended.append(str(error))

    with crib:
        thread = threading.Thread(target=run)
        thread.start()
        assert started.wait(PATIENCE)
    thread.join(PATIENCE)
    assert ended == ["this crib was closed before the answer arrived"]


def test_a_tool_that_ends_the_loop_ends_an_open_crib_alone() -> None:
    async def leave() -> None:
        """End everything."""
        raise KeyboardInterrupt

    crib = SyncCrib()
    for function in (leave, look):
        crib.add(function)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            crib.run("leave")
        assert crib.run("look").structured == 1
    with SyncCrib() as crib:
        for function in (leave, look):
            crib.add(function)
        with pytest.raises(KeyboardInterrupt):
            crib.run("leave")
        with pytest.raises(CribStateError, match="was ended by what it ran"):
            crib.run("look")


@pytest.fixture
def forked() -> Callable[[Callable[[], bool]], bool]:
    """Return a function that evaluates a condition in a child of this process."""
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks")

    def holds(check: Callable[[], bool]) -> bool:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if check() else 1
            finally:
                os._exit(status)
        alarm = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
        alarm.start()
        try:
            return os.waitpid(child, 0)[1] == 0
        finally:
            alarm.cancel()
            alarm.join()

    return holds


def test_a_fork_runs_functions_in_a_loop_of_its_own(forked: Any) -> None:
    crib = SyncCrib()
    crib.add(count)
    crib.run("count", {"to": 1})
    assert forked(lambda: crib.run("count", {"to": 1}).structured == [0])
    assert crib.run("count", {"to": 2}).structured == [0, 1]


def test_a_fork_cannot_use_an_open_crib(forked: Any) -> None:
    def is_refused() -> bool:
        try:
            crib.run("look")
        except CribStateError as error:
            crib.close()
            return "forked" in str(error)
        return False

    with SyncCrib() as crib:
        crib.add(look)
        crib.run("look")
        assert forked(is_refused)
        assert crib.run("look").structured == 1


@pytest.mark.parametrize("entered", [False, True])
def test_defaults_of_the_schema_are_filled_in_where_asked(*, entered: bool) -> None:
    crib = SyncCrib()

    @crib.add
    def show(**given: int) -> dict[str, int]:
        """Show what is given."""
        return given

    show.tool = show.tool.replace(
        input_schema={"type": "object", "properties": {"x": {"type": "integer", "default": 5}}}
    )
    crib.add(show)
    if entered:
        crib.__enter__()
    assert crib.run("show").structured == {}
    assert crib.run("show", defaults=True).structured == {"x": 5}
    assert [event.data for event in crib.stream("show", defaults=True)][-1] == {"x": 5}
    crib.close()

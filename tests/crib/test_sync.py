"""The crib for programs without an event loop."""

import gc
import inspect
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers import launch
from waiting import PATIENCE, wait_until

from toolcrib import Crib, SyncCrib
from toolcrib.errors import (
    ConfigError,
    CribStateError,
    ToolNotFoundError,
    ToolTimeoutError,
)

started = threading.Event()
stopped = threading.Event()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def count(to: int) -> AsyncIterator[int]:
    """Count up."""
    for number in range(to):
        yield number


async def hang() -> None:
    """Hang until stopped."""
    started.set()
    try:
        await anyio.sleep_forever()
    finally:
        stopped.set()


@pytest.fixture(params=[False, True], ids=["plain", "entered"])
def crib(request: pytest.FixtureRequest) -> Iterator[SyncCrib]:
    made = SyncCrib()
    for function in (add, count, hang):
        made.add(function)
    if request.param:
        with made:
            yield made
    else:
        yield made


def test_the_same_verbs_work_without_await(crib: SyncCrib) -> None:
    assert crib.search("sum of two numbers").items[0].summary.id == "add"
    assert crib.describe("add").tool is not None
    assert crib.run("add", {"a": 1, "b": 2}).structured == 3
    assert [summary.id for summary in crib.tools()] == ["add", "count", "hang"]
    assert crib.namespaces() == ("",)
    assert crib.examples("add") == ()
    assert crib.ready() == crib.status() == {}
    assert crib.convert("openai", tools=["add"])[0].tool_id == "add"
    assert crib.run_chain([{"toolId": "add", "args": {"a": 1, "b": 2}}]).final == 3
    assert "add" in crib.discovery.index
    assert crib.settings.source is None
    assert repr(crib).startswith("<SyncCrib no file, ")
    assert crib.execute("__out = await add(a=1, b=2)").value == 3
    with pytest.raises(ToolNotFoundError):
        crib.run("nobody")
    with pytest.raises(ToolTimeoutError):
        crib.run("hang", timeout=0.01)


def test_adding_is_a_decorator(crib: SyncCrib) -> None:
    @crib.add(namespace="math")
    def double(x: int) -> int:
        """Double a number."""
        return 2 * x

    assert double(2) == 4
    assert crib.run("math:double", {"x": 2}).structured == 4


def test_a_stream_is_an_ordinary_iterator(crib: SyncCrib) -> None:
    events = [(event.kind, event.data) for event in crib.stream("count", {"to": 20})]
    assert events == [*(("chunk", number) for number in range(20)), ("done", list(range(20)))]


def test_leaving_a_stream_cancels_the_tool(crib: SyncCrib) -> None:
    @crib.add
    async def forever() -> AsyncIterator[int]:
        """Give numbers for ever."""
        try:
            while True:
                yield 1
        finally:
            stopped.set()

    stopped.clear()
    stream = crib.stream("forever")
    assert next(stream).data == 1
    stream.close()
    assert stopped.wait(PATIENCE)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no alarm")
@pytest.mark.parametrize("verb", ["run", "stream"])
def test_an_interrupt_cancels_the_tool(verb: str) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    started.clear()
    stopped.clear()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with SyncCrib() as crib:
            crib.add(hang)
            main = threading.main_thread().ident
            assert main is not None

            def tell() -> None:
                started.wait(PATIENCE)
                signal.pthread_kill(main, signal.SIGUSR1)

            threading.Thread(target=tell).start()
            with pytest.raises(KeyboardInterrupt):
                _ = crib.run("hang") if verb == "run" else list(crib.stream("hang"))
            assert stopped.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_server_is_used_from_many_threads(little: Any) -> None:
    with SyncCrib({"mcpServers": {"text": little()}}) as crib:
        crib.ready(PATIENCE)
        said: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda word=word: said.append(crib.run("text:shout", {"text": word}).structured)  # type: ignore[misc]
            )
            for word in "abc"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(each["result"] for each in said) == ["A", "B", "C"]
        assert crib.status()["text"].state == "ready"


def test_the_first_call_starts_the_servers_and_closing_stops_them(little: Any) -> None:
    crib = SyncCrib({"mcpServers": {"text": little()}})
    assert crib.status() == {}
    assert crib.run("text:shout", {"text": "a"}).structured == {"result": "A"}
    server = crib.run("text:get_pid").structured["result"]
    with crib:  # what has been started is not started again
        assert crib.run("text:get_pid").structured["result"] == server
    wait_until(lambda: not launch.alive(server))
    with pytest.raises(CribStateError, match="closed"):
        crib.search("letters")
    with pytest.raises(CribStateError, match="closed already"):
        crib.__enter__()
    with pytest.raises(ConfigError):
        SyncCrib({"mcpServers": {"a": {}}})


def test_many_threads_may_make_the_first_call(little: Any) -> None:
    crib = SyncCrib({"mcpServers": {"text": little()}})
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: crib.run("text:get_pid").structured["result"], range(8)))
    assert len(set(given)) == 1
    crib.close()


def test_a_conversion_has_the_tools_of_the_servers(little: Any) -> None:
    crib = SyncCrib({"mcpServers": {"text": little()}})
    assert "text:shout" in {made.tool_id for made in crib.convert("openai")}
    crib.close()


def test_a_crib_that_is_dropped_stops_its_servers(little: Any) -> None:
    crib = SyncCrib({"mcpServers": {"text": little()}})
    server = crib.run("text:get_pid").structured["result"]
    del crib

    def has_ended() -> bool:
        gc.collect()
        return not launch.alive(server)

    wait_until(has_ended)


@pytest.mark.proof
def test_a_program_ends_with_its_servers_although_nothing_was_closed(tmp_path: Path) -> None:
    servers = {"text": {"command": sys.executable, "args": ["-S", "-I", launch.LITTLE]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    code = (
        "from toolcrib import SyncCrib\n"
        "crib = SyncCrib('mcp.json')\n"
        "print(crib.run('text:get_pid').structured['result'])\n"
        "crib.execute('__out = await text.get_pid()')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ran.stderr == ""
    assert not launch.alive(int(ran.stdout))


def test_entering_that_fails_leaves_no_thread_behind(tmp_path: Any) -> None:
    before = set(threading.enumerate())
    (tmp_path / "catalogue.db").mkdir()
    with pytest.raises(OSError, match="it is a directory"):
        SyncCrib({"store": str(tmp_path / "catalogue.db")}).__enter__()
    wait_until(lambda: not set(threading.enumerate()) - before)


def test_a_tool_that_was_added_stands_for_its_id() -> None:
    crib = SyncCrib()

    @crib.add
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert crib.run(double, {"number": 2}).structured == 4
    assert crib.describe(double).summary == "Double a number."
    assert [event.data for event in crib.stream(double, {"number": 2})][-1] == 4


def test_help_of_methods_has_the_details_of_crib() -> None:
    for name in ("session", "run", "execute", "add"):
        details = inspect.getdoc(getattr(Crib, name))
        assert details is not None
        assert str(inspect.getdoc(getattr(SyncCrib, name))).endswith(f"\n\n`Crib.{name}`: {details}")

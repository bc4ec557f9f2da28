import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest
from execution.mcp.support import DAEMONISES, HERE
from servers.launch import alive
from waiting import wait_until

from toolcrib.execution.mcp.transport.watchdog import forget_group, watch_group, watchdog_pid

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="nothing is watched elsewhere"),
]

PRELUDE = """
import os, signal, subprocess, sys, time
from toolcrib.execution.mcp.transport.watchdog import watch_group, forget_group, watchdog_pid
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
started = [subprocess.Popen(sys.argv[1:], start_new_session=True, **quiet) for _ in range(3)]
one, two, three = (process.pid for process in started)
for process in started:
    process.returncode = 0  # they are not waited for
"""
SLEEPS = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]

DAEMON = DAEMONISES.format(other="import time; time.sleep(600)", then="import time; time.sleep(600)")


@contextmanager
def sleeping() -> Iterator[int]:
    """Give the number of a process group that does nothing."""
    with subprocess.Popen(SLEEPS, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            forget_group(process.pid)
            process.kill()


def run(program: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def gone(*pids: int) -> bool:
    return not any(map(alive, pids))


def watcher() -> int:
    found = watchdog_pid()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(
            pytest.param(number, marks=pytest.mark.proof)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        ),
    ],
)
def test_no_server_outlives_us_however_we_are_killed(number: int) -> None:
    command = [sys.executable, HERE / "doomed.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as us:
        assert us.stdout is not None
        pids = json.loads(us.stdout.readline())
        assert all(map(alive, pids))
        us.send_signal(number)
    wait_until(lambda: gone(*pids))  # the server, what it started, and the watcher


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_no_daemon_of_a_server_outlives_us_when_we_are_killed() -> None:
    program = f"""
import anyio, sys
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.transport.process import ServerProcess
async def main():
    config = ServerConfig(command=sys.executable, args=["-S", "-c", {DAEMON!r}])
    process = await ServerProcess.start(config, name="it")
    print((await process.stdout.receive()).decode(), flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""
    with run(program) as us:
        assert us.stdout is not None
        daemon = int(us.stdout.readline())
        assert alive(daemon)
        us.kill()
    wait_until(lambda: gone(daemon))


@pytest.mark.proof
def test_nothing_is_left_when_we_end_in_order() -> None:
    us = subprocess.run([sys.executable, HERE / "doomed.py", "--exit"], capture_output=True, check=True)
    pids = json.loads(us.stdout)
    wait_until(lambda: gone(*pids))


def test_a_group_that_nobody_stopped_dies_with_the_interpreter_and_nothing_is_said_of_it() -> None:
    program = "watch_group(one); watch_group(two); forget_group(two); print(one, two, three)"
    us = run(PRELUDE + program, *SLEEPS)
    output, errors = us.communicate()
    watched, *others = map(int, output.split())
    assert errors == ""
    wait_until(lambda: gone(watched))
    for pid in others:
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.proof
def test_a_watcher_that_died_is_replaced_by_one_that_knows_every_group() -> None:
    program = (
        "watch_group(one); watch_group(two)\n"
        "first = watchdog_pid()\n"
        "os.kill(first, signal.SIGKILL); os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)\n"
        "assert watchdog_pid() is None\n"
        "watch_group(three)\n"
        "assert watchdog_pid() not in (None, first)\n"
        "print(one, two, three, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    us = run(PRELUDE + program, *SLEEPS)
    output, errors = us.communicate()
    assert errors == ""
    pids = list(map(int, output.split()))
    wait_until(lambda: gone(*pids))


def test_forgetting_a_group_replaces_a_dead_watcher_where_others_need_it() -> None:
    with sleeping() as one, sleeping() as two:
        watch_group(one)
        watch_group(two)
        first = watcher()
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        forget_group(one)
        assert watcher() != first
        assert alive(two)


def test_a_watcher_that_hangs_is_replaced_and_harms_nobody() -> None:
    with sleeping() as group:
        watch_group(group)
        first = watcher()
        os.kill(first, signal.SIGSTOP)
        while watchdog_pid() == first:
            forget_group(2**22 + 1)  # until its line is full
        wait_until(lambda: gone(first))
        assert alive(group)


def test_the_watcher_hears_neither_ctrl_c_nor_a_closing_terminal() -> None:
    with sleeping() as group:
        watch_group(group)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(watcher(), number)
        assert os.getsid(watcher()) == watcher() != os.getsid(0)
        assert watchdog_pid() is not None


def test_there_is_one_watcher_for_all_threads_and_loops() -> None:
    with sleeping() as group:
        watch_group(group)
        first, seen = watcher(), []

        def work() -> None:
            async def start() -> None:
                for _ in range(50):
                    watch_group(group)
                    seen.append(watchdog_pid())

            anyio.run(start)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(seen) == {first}


@pytest.mark.proof
def test_a_fork_keeps_neither_the_watcher_waiting_nor_its_groups() -> None:
    program = (
        "watch_group(one)\n"
        "first = watchdog_pid()\n"
        "if child := os.fork():\n"
        "    os.waitid(os.P_PID, child, os.WEXITED)\n"
        "else:\n"
        "    assert watchdog_pid() is None\n"
        "    watch_group(two)\n"
        "    print(one, two, three, first, watchdog_pid(), os.getpid(), flush=True)\n"
        "    os.close(1); os.close(2); time.sleep(600)\n"
    )
    with run(PRELUDE + program, *SLEEPS) as us:
        assert us.stdout is not None
        one, two, three, first, second, child = map(int, us.stdout.readline().split())
        us.kill()
    assert first != second
    wait_until(lambda: gone(one, first))
    assert alive(two)
    assert alive(second)
    os.kill(child, signal.SIGKILL)
    os.kill(three, signal.SIGKILL)
    wait_until(lambda: gone(two, second))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_child_holds_no_end_of_the_line_to_the_watcher() -> None:
    sockets = "import pathlib; print([end.name for end in pathlib.Path('/proc/self/fd').iterdir() if end.is_socket()])"
    program = (
        "import subprocess, sys\n"
        "from toolcrib.execution.mcp.transport.watchdog import watch_group, watchdog_pid\n"
        "watch_group(2**22 + 1)\n"
        "assert watchdog_pid() is not None\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], stdin=subprocess.DEVNULL, close_fds=False, check=True)\n"
    )
    output, errors = run(program, sockets).communicate()
    assert (output, errors) == ("[]\n", "")


@pytest.mark.proof
def test_where_no_watcher_can_be_started_servers_run_unwatched_and_it_is_said() -> None:
    program = (
        "import os, resource, toolcrib.execution.mcp.transport.watchdog as reaper\n"
        "limit = max(map(int, os.listdir('/proc/self/fd'))) + 1\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))\n"
        "reaper.watch_group(2**22 + 1); reaper.forget_group(2**22 + 1)\n"
        "assert reaper.watchdog_pid() is None\n"
    )
    us = run(program)
    assert us.communicate()[1].startswith("the watcher cannot be started, so that servers would outlive")
    assert us.returncode == 0

"""An event loop in a thread restarts after a fork, and after a task has stopped it."""

import subprocess
import sys

from waiting import PATIENCE

SETUP = """
import os, signal, sys
from toolcrib.concurrency.loop import LoopEndedError, LoopThread

async def double(number):
    return number * 2

async def leave():
    raise SystemExit

loop = LoopThread()
assert loop.call(lambda: double(2)) == 4
signal.alarm(100)  # for a loop that hangs
"""
FORKED = """
child = os.fork()
if child == 0:
    os._exit(0 if loop.call(lambda: double(4)) == 8 else 1)
assert os.waitpid(child, 0)[1] == 0
assert loop.call(lambda: double(3)) == 6
"""
ENDED = """
try:
    loop.call(leave)
except BaseException as error:
    print(type(error).__name__)
assert loop.call(lambda: double(3)) == 6
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SETUP + script], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    assert run(FORKED).returncode == 0


def test_a_loop_that_was_ended_is_replaced() -> None:
    assert run(ENDED).returncode == 0


def test_a_loop_in_which_something_lives_is_not_replaced() -> None:
    lost = """
loop.bind()
try:
    loop.call(leave)
except BaseException as error:
    print(type(error).__name__)
try:
    loop.call(lambda: double(3))
except LoopEndedError as error:
    print(error.reason)
loop.close()
try:
    loop.call(lambda: double(3))
except LoopEndedError as error:
    print(error.reason)
"""
    assert run(lost).stdout.split() == ["SystemExit", "stopped", "closed"]

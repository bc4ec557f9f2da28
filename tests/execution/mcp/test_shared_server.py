"""One server on stdio for several processes, and messages of each that reach it alone."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from servers.launch import alive
from waiting import wait_until

from toolcrib.execution.mcp.transport import shared_server

SERVER = """
import json, os, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

waiting = []
for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        say(id=number, result={"pid": os.getpid(), "greeting": number})
    elif method == "hold":
        waiting.append(number)
        say(method="notifications/progress", params={"progressToken": params["_meta"]["progressToken"]})
    elif method == "question":
        waiting.append(number)
        say(id="q", method="elicitation/create", params={})
    elif method is None:
        say(id=waiting.pop(), result={"answer": message.get("result", message.get("error"))})
    elif method == "notifications/cancelled":
        say(method="notifications/told", params=params)
    elif number is not None:
        say(id=number, result={"asked": method})
"""


class Process:
    """One process that runs the server in its own place, as it believes."""

    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-S", "-I", shared_server.__file__, str(place)]
        self.process = subprocess.Popen(
            [*command, sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def send(self, **message: Any) -> None:
        """Send a message to the server."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        """Return the next message of the server; None where there are no more."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, method: str, **params: Any) -> Any:
        """Return the answer to a request."""
        self.send(id=1, method=method, params=params)
        return self.read()

    def end(self) -> None:
        """End the process."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    """The process that holds the lease, and another one; the server has greeted both."""
    one = Process(tmp_path / "place")
    first = one.ask("initialize")
    other = Process(tmp_path / "place")
    assert other.ask("initialize")["result"] == first["result"]
    yield one, other
    for process in (other, one):
        process.end()


def test_answers_and_progress_go_to_whoever_asked(pair: tuple[Process, Process]) -> None:
    for process in pair:
        process.send(id=7, method="hold", params={"_meta": {"progressToken": "mine"}})
        assert process.read()["params"] == {"progressToken": "mine"}
    for process in pair:
        process.send(id="x", method="ping")
        assert process.read() == {"jsonrpc": "2.0", "id": "x", "result": {"asked": "ping"}}


def test_question_goes_to_the_only_one_whose_request_runs(pair: tuple[Process, Process]) -> None:
    one, other = pair
    other.send(id=3, method="question")
    assert other.read()["method"] == "elicitation/create"
    one.send(id="q", result="not asked")
    other.send(id="q", result="yes")
    assert other.read() == {"jsonrpc": "2.0", "id": 3, "result": {"answer": "yes"}}


def test_question_is_refused_where_requests_of_several_run(pair: tuple[Process, Process]) -> None:
    one, other = pair
    one.send(id=3, method="hold", params={"_meta": {"progressToken": 1}})
    assert one.read()["method"] == "notifications/progress"
    other.send(id=3, method="question")
    assert "not known whose question" in other.read()["result"]["answer"]["message"]


def test_requests_of_one_that_has_left_are_cancelled(pair: tuple[Process, Process]) -> None:
    one, other = pair
    other.send(id=3, method="hold", params={"_meta": {"progressToken": 1}})
    assert other.read()["method"] == "notifications/progress"
    other.end()
    assert one.read()["method"] == "notifications/told"


def test_lease_and_server_end_with_their_holder(pair: tuple[Process, Process], tmp_path: Path) -> None:
    one, other = pair
    first = one.ask("initialize")["result"]["pid"]
    one.end()
    assert other.read() is None
    wait_until(lambda: not alive(first), "its input has ended")
    after = Process(tmp_path / "place")
    try:
        assert after.ask("initialize")["result"]["pid"] != first
    finally:
        after.end()

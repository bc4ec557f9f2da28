"""The command as a process of its own: signals, pipes, terminals and what is not installed."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "toolcrib.cli"]
LIMIT = 50


def wait_until(true: Callable[[], Any]) -> Any:
    """Return what a question gives once it gives something."""
    deadline = time.monotonic() + LIMIT
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_the_command_runs_and_fails_with_its_exit_codes() -> None:
    done = subprocess.run(
        [*COMMAND, "--demo", "run", "math:nosuch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "error: no tool named 'math:nosuch'\n"


def test_a_missing_extra_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from toolcrib.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "toolcrib: the command needs the 'cli' extra: pip install 'toolcrib[cli]'\n"


def test_a_reader_that_has_had_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "--demo", "list"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 0


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the children in /proc")
def test_an_interrupt_ends_the_command_and_its_servers(config: Any, little: Any) -> None:
    asked = [*COMMAND, "run", "good:wait_long", "--config", config(good=little())]
    running = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        started = wait_until(lambda: children(running.pid))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=LIMIT)
    finally:
        running.kill()
    assert running.returncode == 130
    assert out == b""
    assert err.strip() == b""
    wait_until(lambda: not any(map(alive, started)))


def test_an_interrupt_before_anything_is_started_ends_it_at_once() -> None:
    code = (
        "import os, signal\nfrom toolcrib.cli.interrupt import leave_at_once, leave_in_order\n"
        "leave_at_once()\n"
        "try:\n    with leave_in_order():\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    print('in order', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGINT)\nprint('never')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert [done.returncode, done.stdout, done.stderr] == [130, "in order\n", ""]


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    code = (
        "import os, signal\nfrom toolcrib.cli.interrupt import leave_at_once, leave_in_order\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nleave_at_once()\n"
        "with leave_in_order():\n    os.kill(os.getpid(), signal.SIGINT)\nprint('well')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert [done.returncode, done.stdout] == [0, "well\n"]


def test_outputs_that_are_closed_or_lack_characters_do_not_matter() -> None:
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&-', "sh", *COMMAND, "--demo", "describe", "text:nosuch"], check=False
    )
    assert closed.returncode == 3
    code = [*COMMAND, "--demo", "run", "text:compare", "before=ä", "after=b"]
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(code, capture_output=True, text=True, check=False, env=narrow)
    assert done.returncode == 0
    assert r"-\xe4" in done.stdout


def test_a_failure_that_nobody_reads_keeps_its_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    asked = [*COMMAND, "--json", "--config", "nosuch.toml", "list"]
    done = subprocess.run(asked, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert [done.returncode, done.stderr] == [2, b""]


def test_a_terminal_gets_colours_and_bars() -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "70"}
    asked = [*COMMAND, "--demo", "search", "convert miles to kilometres"]
    done = subprocess.Popen(asked, stdout=theirs, stderr=theirs, stdin=theirs, env=environ)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end is closed, which Linux calls an error
        pass
    finally:
        os.close(ours)
    assert done.wait(LIMIT) == 0
    text = shown.decode()
    assert "math:convert_length" in text
    assert "░" in text
    assert "\x1b[" in text


def test_serving_over_stdio_puts_nothing_but_the_protocol_on_standard_output() -> None:
    asked = [*COMMAND, "serve", "--demo"]
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        for line in lines:
            served.stdin.write(json.dumps(line).encode() + b"\n")
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in range(2)]
        rest, err = served.communicate(timeout=LIMIT)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "search_tools" in [tool["name"] for tool in answers[1]["result"]["tools"]]
    assert [rest, err, served.returncode] == [b"", b"", 0]


def test_serving_over_http_says_where_and_what_to_try() -> None:
    Path("toolcrib.toml").write_text(
        '[gateway]\ntoken = "${TOOLCRIB_TOKEN}"\n[toolsets.sums]\nnamespaces = ["math"]\n'
    )
    asked = [*COMMAND, "serve", "--demo", "--transport", "http", "--port", "0", "--config", "toolcrib.toml"]
    environ = {**os.environ, "TOOLCRIB_TOKEN": "secret-of-the-house"}
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as served:
        assert served.stderr is not None
        try:
            told = list(takewhile(lambda line: not line.startswith("Ctrl-C"), served.stderr))
            served.send_signal(signal.SIGINT)
            out, err = served.communicate(timeout=LIMIT)
        finally:
            served.kill()
    assert [out, err, served.returncode] == ["", "", 0]
    assert told[0].startswith("toolcrib serves 12 tools at http://127.0.0.1:")
    url = told[0].split()[-1]
    header = '--header "Authorization: Bearer $TOOLCRIB_TOKEN"'
    said = "".join(told)
    assert f"  and its toolset sums at {url}/sums\n" in said
    assert f"claude mcp add --transport http toolcrib {url} {header}\n" in said
    assert f"curl {url.removesuffix('/mcp')}/health\n" in said
    assert "toolcrib --demo search" in said
    assert "secret-of-the-house" not in said

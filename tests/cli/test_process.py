"""The command as a process of its own: signals, pipes, terminals and missing packages."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers.launch import alive, children, command
from waiting import PATIENCE, wait_until

COMMAND = [sys.executable, "-m", "toolcrib.cli"]
"""For tests of processes themselves; tests of the command's output alone fork it with `command()`."""


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


@pytest.mark.proof
def test_a_reader_that_has_had_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "--demo", "list"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the children in /proc")
def test_an_interrupt_ends_the_command_and_its_servers(config: Any, little: Any) -> None:
    asked = [*COMMAND, "run", "good:wait_long", "--config", config(good=little())]
    running = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        started = wait_until(lambda: children(running.pid))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 130
    assert out == b""
    assert err.strip() == b""
    wait_until(lambda: not any(map(alive, started)))


@pytest.mark.proof
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


@pytest.mark.proof
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


@pytest.mark.proof
def test_a_failure_that_nobody_reads_keeps_its_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    asked = [*COMMAND, "--json", "--config", "nosuch.toml", "list"]
    done = subprocess.run(asked, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert [done.returncode, done.stderr] == [2, b""]


def test_a_damaged_catalogue_is_told_and_built_anew(tmp_path: Path, config: Any, little: Any) -> None:
    asked = [*command(), "list", "--config", config(text=little())]
    home = {**os.environ, "TOOLCRIB_HOME": str(tmp_path / "home")}
    subprocess.run(asked, check=True, capture_output=True, env=home)
    (file,) = (tmp_path / "home").rglob("*.db")
    file.write_text("no database" * 500)
    again = subprocess.run(asked, check=True, capture_output=True, text=True, env=home)
    assert "text:shout" in again.stdout
    assert f"damaged, and was moved to '{file}.damaged'" in again.stderr


def on_terminal(*args: str, typed: bytes = b"", code: int = 0) -> str:
    """Return the output of the command on a terminal."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "70"}
    done = subprocess.Popen([*command(), *args], stdout=theirs, stderr=theirs, stdin=theirs, env=environ)
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end is closed, which Linux calls an error
        pass
    finally:
        os.close(ours)
    assert done.wait(PATIENCE) == code
    return shown.decode()


STEERING = "\x1b]0;title\x07\x1b[2J\x9b2J\x08"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--demo", "run", STEERING], 2),
        (["--demo", "--debug", "run", f"text:{STEERING}"], 2),
        pytest.param(["--demo", "serve", "--toolset", STEERING], 2, marks=pytest.mark.proof),
        pytest.param(["status", "--config", f"{STEERING}.toml"], 2, marks=pytest.mark.proof),
        pytest.param(
            ["add", "time", "--dry-run", "--config", f"{STEERING}.toml", "--", "uvx"],
            0,
            marks=pytest.mark.proof,
        ),
        (["add", "time", "--no-check", "--config", f"{STEERING}.toml", "--", "uvx"], 0),
    ],
    ids=["run", "debug", "serve", "status", "diff", "add"],
)
def test_an_argument_that_would_steer_a_terminal_is_shown_without_that(
    args: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = on_terminal(*args, code=code)
    assert "title" in text
    for steering in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\x08"):
        assert steering not in text


def test_a_terminal_gets_colours_and_bars() -> None:
    text = on_terminal("--demo", "search", "convert miles to kilometres")
    assert "math:convert_length" in text
    assert "░" in text
    assert "\x1b[" in text


def test_a_stream_on_a_terminal_shows_progress_and_the_value(config: Any, talker: Any) -> None:
    text = on_terminal("run", "t:count", "--stream", "--config", config(t=talker))
    lines = [line for line in text.splitlines() if line]
    assert lines[-5:-1] == ["1/3 at 1", "2/3 at 2", "3/3 at 3", "counted"]


def test_serving_on_a_terminal_says_how_a_client_starts_the_same(tmp_path: Path) -> None:
    path = tmp_path / "my tools.toml"
    path.touch()
    text = on_terminal("serve", "--demo", "--config", str(path), typed=b"\x04")
    assert (
        f"claude mcp add toolcrib -- {sys.executable} -m toolcrib.cli serve --config '{path}' --demo" in text
    )


@pytest.mark.parametrize(
    "options", [[], pytest.param(["--json"], marks=pytest.mark.proof)], ids=["plain", "json"]
)
def test_serving_over_stdio_puts_nothing_but_the_protocol_on_standard_output(options: list[str]) -> None:
    asked = [*command(), "serve", "--demo", *options]
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
        rest, err = served.communicate(timeout=PATIENCE)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert (
        "This server gives access to the tools of: math, notes, text, time."
        in answers[0]["result"]["instructions"]
    )
    assert "search_tools" in [tool["name"] for tool in answers[1]["result"]["tools"]]
    assert [rest, served.returncode] == [b"", 0]
    told = [json.loads(line) for line in err.splitlines()]
    assert [line["transport"] for line in told] == (["stdio"] if options else [])


def serve_over_http(*args: str, program: list[str] | None = None, **environ: str) -> list[str]:
    """Return the lines that `serve` prints until it is stopped, which must be all."""
    asked = [*(program or command()), "serve", "--transport", "http", "--port", "0", *args]
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
    ) as served:
        assert served.stderr is not None
        try:
            told = list(takewhile(lambda line: not line.startswith("Ctrl-C"), served.stderr))
            served.send_signal(signal.SIGINT)
            out, err = served.communicate(timeout=PATIENCE)
        finally:
            served.kill()
    assert [out, drop_change_warning(err), served.returncode] == ["", [], 0]
    return told


def drop_change_warning(err: str) -> list[str]:
    """Return the lines of an output without the warning about the tool of the demonstration that changes.

    It comes when the first calls of the demonstration are done, which may be at any moment.
    """
    return [line for line in err.splitlines() if "library:lend is withheld" not in line]


@pytest.mark.proof
@pytest.mark.parametrize("is_on_path", [True, False], ids=["on the PATH", "not on the PATH"])
def test_the_command_to_try_works_in_the_shell_that_started_the_gateway(
    is_on_path: bool,
) -> None:
    script = Path(sys.executable).parent / "toolcrib"
    path = f"{script.parent}:{os.defpath}" if is_on_path else os.defpath
    served = serve_over_http("--demo", program=[str(script)], PATH=path)
    line = next(line for line in served if "--demo search" in line)
    assert line.split()[0] == ("toolcrib" if is_on_path else str(script))
    tried = subprocess.run(line, shell=True, capture_output=True, text=True, check=True, env={"PATH": path})  # noqa: S602 - our own line
    assert "time:days_between" in tried.stdout


def test_serving_over_http_says_where_and_what_to_try() -> None:
    Path("toolcrib.toml").write_text(
        '[gateway]\ntoken = "${MY_TOKEN}"\n[toolsets.sums]\nnamespaces = ["math"]\n'
    )
    told = serve_over_http("--demo", "--config", "toolcrib.toml", MY_TOKEN="secret-of-the-house")  # noqa: S106 - of this test
    assert told[0].startswith("toolcrib serves 12 tools at http://127.0.0.1:")
    url = told[0].split()[-1]
    said = "".join(told)
    assert f"  the tools themselves at {url}/all, those that find and run them at {url}/meta\n" in said
    assert f"  and its toolset sums at {url}/sums\n" in said
    assert (
        f'claude mcp add --transport http toolcrib {url} --header "Authorization: Bearer $MY_TOKEN"\n' in said
    )
    assert f"curl {url.removesuffix('/mcp')}/health\n" in said
    assert f"{sys.executable} -m toolcrib.cli --demo search" in said
    assert "secret-of-the-house" not in said


@pytest.mark.parametrize("surface", ["meta", "all"])
def test_serving_names_the_servers_whose_tools_are_on_their_way(surface: str) -> None:
    Path("toolcrib.toml").write_text('[servers.slow]\ncommand = "sleep"\nargs = ["600"]\n')
    told = serve_over_http("--expose", surface)
    assert re.fullmatch(
        r"toolcrib serves the tools of slow at http:\S+/mcp, as soon as they are listed\n", told[0]
    )
    told = serve_over_http("--expose", surface, "--demo", "--config", "toolcrib.toml")
    assert re.fullmatch(
        r"toolcrib serves 12 tools at http:\S+/mcp, and those of slow when they are listed\n", told[0]
    )


def test_serving_with_named_tokens_shows_where_a_client_puts_its_own() -> None:
    Path("toolcrib.toml").write_text(f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\n')
    told = "".join(serve_over_http("--demo", "--config", "toolcrib.toml"))
    assert '/mcp --header "Authorization: Bearer <your token>"\n' in told


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ("[gateway.tokens]\n", "none is left: the last one was revoked"),
        (
            f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\nexpires = "2020-01-01T00:00:00Z"\n',
            "all of them have expired",
        ),
    ],
)
def test_serving_where_no_token_is_left_says_that_nobody_can_call(tokens: str, reason: str) -> None:
    Path("toolcrib.toml").write_text(tokens)
    told = serve_over_http("--demo", "--config", "toolcrib.toml")
    assert told[0].startswith("note: nobody can call it: a token is required, but ")
    assert reason in told[0]
    assert "make one with 'toolcrib token add NAME', or remove [gateway.tokens] to require none" in told[0]


def test_serving_to_others_says_an_address_and_a_line_that_work_from_there() -> None:
    Path("toolcrib.toml").write_text('[gateway]\ntoken = "${MY_TOKEN}"\nallowed_hosts = ["crib.test"]\n')
    place = ["--transport", "http", "--host", "0.0.0.0", "--port", "0"]  # noqa: S104 - it has a token
    asked = [*command(), "serve", "--config", "toolcrib.toml", *place]
    environ = {**os.environ, "MY_TOKEN": "secret-of-the-house"}
    with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, env=environ) as served:
        assert served.stderr is not None
        try:
            told = "".join(takewhile(lambda line: not line.startswith("Ctrl-C"), served.stderr))
            (line,) = re.findall(r"claude mcp add --transport http toolcrib (\S+) --header \"(.+)\"", told)
            url, header = line[0], line[1].replace("$MY_TOKEN", "secret-of-the-house")
            method = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
            sent = {**accepted, "Authorization": header.partition(": ")[2]}
            right = httpx.post(url, json=method, headers=sent)
            wrong = httpx.post(url, json=method, headers={**sent, "Authorization": "Bearer other"})
        finally:
            served.send_signal(signal.SIGINT)
            served.wait(PATIENCE)
    assert "0.0.0.0" not in told  # noqa: S104 - which no other machine can call
    assert (right.status_code not in {401, 403, 421}, wrong.status_code) == (True, 401)
    assert "may call it by its addresses and as " in told
    assert "crib.test;" in told
    assert "gateway.allowed_hosts" in told


def test_console_says_which_calls_it_shows_and_takes_another_port_where_its_own_is_taken() -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # another process has it, which is the same here
            taken.bind(("127.0.0.1", 8808))
            taken.listen()
        asked = [*command(), "console", "--demo", "--no-open"]
        with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True) as served:
            assert served.stderr is not None
            try:
                told = "".join(takewhile(lambda line: not line.startswith("Ctrl-C"), served.stderr))
                (url,) = re.findall(r"calls of clients that connect to (\S+),", told)
                is_healthy = httpx.get(url.replace("/mcp", "/health")).is_success
            finally:
                served.send_signal(signal.SIGINT)
                served.wait(PATIENCE)
    assert is_healthy
    assert "not of those that start toolcrib over stdio" in told
    assert ":8808/" not in told
    assert "/console/#login=" in told
    assert "Try next" not in told


def test_serving_with_json_says_the_addresses_in_one_line() -> None:
    asked = [*command(), "serve", "--transport", "http", "--port", "0", "--demo", "--json"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        try:
            told = json.loads(served.stdout.readline())
            health = httpx.get(told["health"])
            served.send_signal(signal.SIGINT)
            out, err = served.communicate(timeout=PATIENCE)
        finally:
            served.kill()
    assert [out, drop_change_warning(err), served.returncode] == ["", [], 0]
    assert health.status_code == 200
    assert told["tools"] > 0
    assert told["url"] == told["health"].replace("/health", "/mcp")
    assert told["pending"] == []
    assert sorted(told) == [
        "console",
        "health",
        "metrics",
        "pending",
        "ready",
        "surfaces",
        "tools",
        "toolsets",
        "transport",
        "url",
    ]


@pytest.mark.proof
def test_serving_nothing_says_so_and_shows_no_token() -> None:
    Path("toolcrib.toml").write_text('[gateway]\ntoken = "secret-of-the-house"\n')
    told = serve_over_http()
    assert told[0].startswith("note: it serves 0 tools; ")
    assert "toolcrib.cli add` adds a server" in told[0]
    assert '--header "Authorization: Bearer <your token>"\n' in "".join(told)


def test_serving_over_stdio_without_a_configuration_says_so() -> None:
    done = subprocess.run(
        [*command(), "serve"], input=b"", capture_output=True, check=False, timeout=PATIENCE
    )
    assert [done.returncode, done.stdout] == [0, b""]
    assert b"note: no configuration: " in done.stderr
    assert b"note: it serves 0 tools; " in done.stderr

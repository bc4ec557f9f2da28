"""A gateway that stays running, and the commands that it runs: processes of their own, over a real socket."""

import json
import os
import pty
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from servers.launch import alive, command, little
from waiting import PATIENCE, wait_until

COMMAND = [sys.executable, "-m", "toolcrib.cli"]
TALKER = Path(__file__).with_name("talker.py")
HEAVY = re.compile(r"\| +(pydantic|mcp|anyio|click|rich|numpy|toolcrib\.crib|toolcrib\.model)\b")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peers are checked on Linux")


class Desk:
    """A user with a home of its own, a folder and a configuration."""

    def __init__(self, root: Path) -> None:
        self.here, self.home = root / "here", root / "home"
        self.here.mkdir(exist_ok=True)
        self.audit = root / "audit.jsonl"
        self.config = self.here / "toolcrib.toml"
        self.environ = {**os.environ, "TOOLCRIB_HOME": str(self.home), "WORD": "one"}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            self.environ.pop(name, None)
        self.write()

    def write(self, more: str = "") -> None:
        servers = {
            "good": little("holding", env={"WORD": "${WORD}"}),
            "talk": {"command": sys.executable, "args": ["-S", "-I", str(TALKER)]},
        }
        text = more + "".join(
            f"[servers.{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in each.items())
            for name, each in servers.items()
        )
        self.config.write_text(text + f"[audit]\npath = {json.dumps(str(self.audit))}\n")

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        settings = {"cwd": self.here, "env": self.environ, "text": True, **more}
        return subprocess.Popen([*command(), *args], stdout=-1, stderr=-1, stdin=-1, **settings)

    def run(self, *args: str, stdin: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
        with self.start(*args, **more) as process:
            out, err = process.communicate(stdin, timeout=PATIENCE)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def out(self, *args: str, **more: Any) -> str:
        done = self.run(*args, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def up(self) -> int:
        return int(json.loads(self.out("up", "--json"))["pid"])

    def server(self, *args: str, **more: Any) -> int:
        """Return the process that a server has for a command."""
        return number(self.out("run", "good:get_pid", *args, **more))

    def left(self) -> list[str]:
        folder = self.home / "run"
        return sorted(each.suffix for each in folder.iterdir()) if folder.exists() else []


def number(text: str) -> int:
    (found,) = re.findall(r"\d+", text)
    return int(found)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.run("down")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a desk with a running gateway."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.up()
    yield desk
    assert desk.run("down").returncode == 0
    assert desk.left() == []


def test_commands_use_the_servers_of_the_running_gateway_and_start_none(shared: Desk) -> None:
    first = shared.server()
    assert shared.server("--config", str(shared.config), cwd=shared.home) == first
    assert number(shared.out("exec", "-c", "__out = await good.get_pid()")) == first
    Path(shared.here, "steps.json").write_text('[{"toolId": "good:get_pid"}]')
    assert number(shared.run("chain", "steps.json").stdout) == first
    assert number(shared.out("code", "-c", "__out = await good.get_pid()")) == first
    assert shared.server("--no-daemon") != first
    assert shared.server() == first
    assert alive(first)


def test_a_server_of_the_running_gateway_is_stopped_and_started(shared: Desk) -> None:
    first = shared.server()
    assert shared.out("server", "stop", "good") == "good is stopped\n"
    refused = shared.run("run", "good:get_pid")
    assert refused.returncode == 4
    assert "server start good" in refused.stderr or "stopped" in refused.stderr
    assert json.loads(shared.out("server", "start", "good", "--json")) == {
        "name": "good",
        "state": "ready",
        "paused": False,
    }
    assert shared.server() != first
    assert shared.run("server", "stop", "nosuch").returncode == 4


def test_verbs_of_the_running_gateway_say_that_none_runs(desk: Desk) -> None:
    for args in (["server", "stop", "good"], ["approvals", "list"], ["cancel", "1"]):
        done = desk.run(*args)
        assert (done.returncode, done.stdout) == (4, "")
        assert "no gateway runs this configuration" in done.stderr


def test_calls_that_wait_are_answered_in_a_terminal(desk: Desk) -> None:
    desk.write('[[policy]]\nname = "ask"\neffect = "ask"\n[console]\nenabled = true\n')
    with desk.start("serve", "--transport", "http", "--port", "0", "--json") as served:
        assert served.stdout is not None
        told = json.loads(served.stdout.readline())
        assert json.loads(desk.out("approvals", "list", "--json")) == {"calls": []}
        assert desk.run("approvals", "list").stderr == "note: no call is waiting for approval\n"
        address, _, code = told["console"].partition("/console/#login=")
        with httpx.Client(base_url=address, timeout=PATIENCE) as browser, ThreadPoolExecutor() as threads:
            headers = {"x-toolcrib-key": "login"}
            browser.headers["x-toolcrib-key"] = browser.post(
                "/api/v1/login", json={"code": code}, headers=headers
            ).json()["key"]
            for answer in ("approve", "deny"):
                steps = {"steps": [{"toolId": "good:shout", "args": {"text": "x"}}]}
                calling = threads.submit(browser.post, "/api/v1/runs", json=steps)
                waiting = wait_until(lambda: json.loads(desk.out("approvals", "list", "--json"))["calls"])
                assert waiting[0]["toolId"] == "good:shout"
                assert waiting[0]["id"] in desk.out("approvals", "list")
                assert "waiting        1 call for a person" in desk.out("status")
                desk.out("approvals", answer, waiting[0]["id"])
                assert ("event: result" in calling.result().text) == (answer == "approve")
        assert desk.run("approvals", "approve", "nosuch").returncode == 3
        served.terminate()


def test_a_run_of_the_gateway_is_cancelled(desk: Desk) -> None:
    desk.up()
    running = desk.start(
        "code",
        "--durable",
        "--timeout",
        "600",
        "-c",
        f"__out = await good.hold(text={str(desk.here / 'end')!r})",
    )
    with running:
        runs: list[Any] = []

        def begun() -> list[Any]:
            runs[:] = [
                each for each in json.loads(desk.out("runs", "--json"))["runs"] if each.get("uncertain")
            ]
            return runs

        wait_until(begun)
        assert desk.out("cancel", runs[0]["id"]).startswith(f"cancelled {runs[0]['id']}; ")
        _, said = running.communicate(timeout=PATIENCE)
    assert "was cancelled, and can be resumed" in said
    assert desk.run("cancel", runs[0]["id"]).returncode != 0


def test_resources_and_prompts_come_from_the_servers_of_the_running_gateway(shared: Desk) -> None:
    first = number(shared.out("prompt", "talk:greet"))
    assert number(shared.out("prompt", "greet")) == first
    assert json.loads(shared.out("resources", "--json"))["resources"][0]["uri"] == "talk://mixed"
    assert json.loads(shared.out("prompts", "--json"))["prompts"][0]["name"] == "greet"
    with shared.start("read", "talk://mixed", text=False) as reading:
        written, _ = reading.communicate(timeout=PATIENCE)
    assert written == f"process {first}\n".encode() + b"\xff\x00\n\xff"
    assert number(shared.out("prompt", "talk:greet", "--no-daemon")) != first


FEW = (
    ["read", "talk://nosuch"],
    ["search", "capital letters", "--json"],
    ["describe", "nosuch:tool"],
    ["run", "talk:count", "--stream"],
)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(args, marks=() if args in FEW else pytest.mark.proof)
        for args in (
            ["search", "capital letters"],
            ["search", "capital letters", "--json"],
            ["list", "--limit", "2"],
            ["describe", "good:shout"],
            ["describe", "nosuch:tool"],
            ["describe", "nosuch:tool", "--json"],
            ["run", "good:shout", "text=ü"],
            ["run", "good:shout", "--args", '{"text": 5}'],
            ["run", "good:shout", "nothing"],
            ["run", "talk:count", "--stream"],
            ["run", "--nosuch"],
            ["code", "nosuch.py"],
            ["code", "-c", "x ="],
            ["resources"],
            ["prompts"],
            ["prompt", "nosuch"],
            ["read", "talk://nosuch"],
            ["read", "talk://mixed", "--json", "--server", "nosuch"],
            ["convert", "good:shout", "--to", "openai"],
            ["convert", "--to", "nosuch"],
            ["stubs", "good:shout"],
            ["resume", "nosuch"],
            ["--toolset", "nosuch", "list"],
            ["run", "good:shout", "--args", "--demo"],
        )
    ],
    ids=" ".join,
)
def test_a_command_prints_and_exits_as_without_a_gateway(shared: Desk, args: list[str]) -> None:
    there, here = shared.run(*args), shared.run("--no-daemon", *args)
    for done in (there, here):
        done.stderr = done.stderr.replace("python -m toolcrib.cli", "toolcrib")
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


def test_input_is_read_where_the_command_was_started(shared: Desk, tmp_path: Path) -> None:
    args = str(shared.config)
    (tmp_path / "args.json").write_text('{"text": "of a file"}')
    file = shared.out("run", "good:shout", "--config", args, "--args", "@args.json", cwd=tmp_path)
    stdin = shared.out("run", "good:shout", "--args", "-", stdin='{"text": "typed"}')
    assert [json.loads(each)["result"] for each in (file, stdin)] == ["OF A FILE", "TYPED"]


def test_the_command_loads_none_of_the_heavy_packages(shared: Desk) -> None:
    asked = [sys.executable, "-X", "importtime", "-m", "toolcrib.cli", "run", "good:shout", "text=quick"]
    done = subprocess.run(
        asked, cwd=shared.here, env=shared.environ, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"result": "QUICK"}
    assert "toolcrib.cli.resident.client" in done.stderr
    assert HEAVY.findall(done.stderr) == []


def test_a_command_takes_at_most_three_times_the_cpu_time_of_the_version(shared: Desk) -> None:
    def taken(*args: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        alone = [*COMMAND, *args]
        subprocess.run(alone, cwd=shared.here, env=shared.environ, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    taken("--version")
    version = min(taken("--version") for _ in range(3))
    assert min(taken("run", "good:shout", "text=a") for _ in range(3)) <= 3 * version


def test_calls_through_the_gateway_are_audited_as_those_of_the_command(shared: Desk) -> None:
    """The file has more than these two calls: those of other tests, and a signature after each silence."""
    given = [json.dumps({name: "audited"}, separators=(",", ":")) for name in ("text", "nosuch")]
    digests = [sha256(text.encode()).hexdigest() for text in given]

    def calls() -> dict[str, dict[str, Any]]:
        shown = json.loads(shared.out("audit", "show", str(shared.audit), "--json"))["calls"]
        return {each["toolcrib.arguments.sha256"]: each for each in shown}

    shared.out("run", "good:shout", "--args", given[0])
    shared.run("run", "good:shout", "--args", given[1])
    wait_until(lambda: set(digests) <= calls().keys(), "both are written, by a thread of the gateway")
    found = [calls()[each] for each in digests]
    assert [(each["toolcrib.client"], each["gen_ai.tool.name"]) for each in found] == [
        ("cli", "good:shout")
    ] * 2
    assert "error.type" not in found[0]
    assert "error.type" in found[1]


def test_status_shows_the_running_gateway(shared: Desk) -> None:
    running = json.loads(shared.out("status", "--json"))["gateway"]
    assert alive(running["pid"])
    assert running["used"] is True
    assert f"process {running['pid']}" in shared.out("status")
    assert json.loads(shared.out("status", "--json", "--no-daemon"))["gateway"]["used"] is False


def test_the_socket_is_for_its_user_alone(shared: Desk) -> None:
    folder = shared.home / "run"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    running = shared.server()
    folder.chmod(0o755)  # others might have put something there
    try:
        assert shared.server() != running
    finally:
        folder.chmod(0o700)
    assert shared.server() == running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_two_users_never_meet(shared: Desk) -> None:
    (place,) = (shared.home / "run").glob("*.sock")
    code = (
        "import os, socket, sys\nmine = socket.socket(socket.AF_UNIX)\nfd = os.open(sys.argv[1], os.O_PATH)\n"
        "os.chmod(f'/proc/self/fd/{fd}', 0o666)\nos.seteuid(65534)\n"
        "mine.connect(f'/proc/self/fd/{fd}')\nprint(mine.recv(1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=False
    )
    place.chmod(0o600)
    assert done.stdout == "b''\n", done.stderr


def test_a_terminal_gets_colours_and_a_table_as_wide_as_it_is(shared: Desk) -> None:
    ours, theirs = pty.openpty()
    environ = {**shared.environ, "TERM": "xterm-256color", "COLUMNS": "70"}
    started = subprocess.Popen(
        [*command(), "search", "capital letters"],
        cwd=shared.here, env=environ, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end is closed, which Linux calls an error
        pass
    finally:
        os.close(ours)
    assert started.wait(PATIENCE) == 0
    text = shown.decode()
    assert "\x1b[36mgood:shout" in text
    assert "░" in text
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines())) <= 70


def test_an_interrupt_cancels_the_call_and_leaves_the_gateway_running(shared: Desk) -> None:
    server = shared.server()
    wait_until(lambda: "good" not in _busy(shared))  # with a call of the test before
    shared.audit.write_text("")
    with shared.start("run", "good:wait_long") as calling:
        wait_until(lambda: "good" in _busy(shared))
        calling.send_signal(signal.SIGINT)
        out, err = calling.communicate(timeout=PATIENCE)
    assert (calling.returncode, out, err.strip()) == (130, "", "")
    wait_until(lambda: "wait_long" in shared.audit.read_text())
    assert shared.server() == server


def test_a_command_that_is_killed_ends_its_call(shared: Desk) -> None:
    wait_until(lambda: "good" not in _busy(shared))  # with a call of the test before
    shared.audit.write_text("")
    with shared.start("run", "good:wait_long") as calling:
        wait_until(lambda: "good" in _busy(shared))
        calling.kill()
    wait_until(lambda: "wait_long" in shared.audit.read_text())


def _busy(desk: Desk) -> list[str]:
    """Return the servers that have calls in flight."""
    servers = json.loads(desk.out("status", "--json"))["servers"]
    return [each["name"] for each in servers if each.get("inFlight")]


@pytest.mark.proof
def test_another_configuration_or_environment_starts_servers_of_its_own(desk: Desk) -> None:
    desk.up()
    running = desk.server()
    assert desk.server(env={**desk.environ, "WORD": "two"}) != running
    assert desk.server(env={**desk.environ, "UNRELATED": "two"}) == running
    desk.write("[gateway]\nwatch = true\n")
    wait_until(lambda: json.loads(desk.out("status", "--json"))["gateway"]["used"])  # it was read again
    assert desk.server() == running


def test_a_gateway_that_was_killed_blocks_nobody(desk: Desk) -> None:
    first = desk.up()
    running = desk.server()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not alive(first) and not alive(running))
    assert desk.left() == [".pid", ".sock"]
    assert desk.run("down").stdout == "nothing was running\n"
    assert desk.server() != running
    assert desk.up() != first
    assert desk.server() == desk.server()
    assert desk.run("down").returncode == 0
    assert desk.left() == []


@pytest.mark.proof
def test_a_gateway_that_is_stuck_blocks_nobody(desk: Desk) -> None:
    pid = desk.up()
    running = desk.server()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert desk.server() != running
        done = desk.run("down")
        assert (done.returncode, f"process {pid} does not answer" in done.stderr) == (1, True)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert desk.server() == running
    assert desk.run("down").returncode == 0


def test_impostor_of_a_gateway_is_not_trusted(desk: Desk) -> None:
    answers = [b"", b"nonsense\n", b"{}\n", b"{}\n[]\n", b"{}\n" + b"[" * 9_000 + b"\n"]
    desk.up()
    (file,) = (desk.home / "run").glob("*.sock")
    desk.run("down")
    folder = os.open(file.parent, os.O_RDONLY)  # its path may be longer than an address may be
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{file.name}")
        os.close(folder)
        file.chmod(0o600)
        listener.listen()

        def reply(answer: bytes) -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(answer)

        for answer in answers:
            liar = Thread(target=reply, args=(answer,), daemon=True)
            liar.start()
            assert desk.server() > 0
            liar.join(PATIENCE)
            assert not liar.is_alive()


@pytest.mark.proof
def test_one_gateway_runs_however_often_it_is_started(desk: Desk) -> None:
    desk.write("[gateway]\nwatch = false\n")
    starting = [desk.start("up") for _ in range(2)]
    for each in starting:
        each.communicate(timeout=PATIENCE)
    assert 0 in [each.returncode for each in starting]
    pid = desk.up()
    assert "toolcrib was up already: " in desk.out("up")
    desk.write("timeout = 5\n[gateway]\nwatch = false\n")
    again = desk.up()
    assert again != pid
    assert not alive(pid)
    desk.write("timeout = 6\n[gateway]\nwatch = false\n")
    assert desk.up() not in {pid, again}


def test_a_gateway_that_cannot_start_says_why_and_leaves_nothing(desk: Desk) -> None:
    desk.config.write_text("nosuch = 1")
    done = desk.run("up")
    assert done.returncode == 2
    assert "nosuch" in done.stderr
    assert desk.left() == []


def test_a_gateway_that_serves_clients_runs_commands_too(desk: Desk) -> None:
    with desk.start("serve", "--transport", "http", "--port", "0") as served:
        assert served.stderr is not None
        while not served.stderr.readline().startswith("Ctrl-C"):
            assert served.poll() is None
        assert desk.server() == desk.server()
        done = desk.run("down")
        assert done.returncode == 1
        assert "`toolcrib down` stops only gateways that `toolcrib up` started" in done.stderr
        assert "run `kill " in done.stderr
        assert "Usage" not in done.stderr
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=PATIENCE)
    assert served.returncode == 0
    assert desk.left() == []


@pytest.mark.proof
def test_a_call_that_runs_when_the_gateway_stops_may_end(desk: Desk) -> None:
    desk.up()
    gate = desk.here / "gate"
    with desk.start("run", "good:hold", f"text={gate}") as calling:
        wait_until(lambda: "good" in _busy(desk))
        with desk.start("down") as stopping:
            wait_until(lambda: ".sock" in desk.left())
            gate.touch()
            assert number(calling.communicate(timeout=PATIENCE)[0])
            stopping.communicate(timeout=PATIENCE)
    assert (calling.returncode, stopping.returncode) == (0, 0)

"""Setting up a wall: requirements, errors if one is missing, and permitted access."""

import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest
from ears import Ears
from execution.mcp.walls.walled import attempt, intruder

from toolcrib import SyncCrib
from toolcrib.errors import BackendUnavailableError, ServerUnavailableError
from toolcrib.errors.text import describe_failure
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.walls.wall import look_ahead

PYTHON = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
"""The interpreter that is visible behind every wall."""
pytestmark = pytest.mark.usefixtures("home")


def reason(settings: dict[str, Any]) -> str:
    """Return why a server cannot be started."""
    with SyncCrib({"mcpServers": {"it": settings}}) as crib, pytest.raises(BackendUnavailableError) as caught:
        attempt(crib, "got = 1")
    assert isinstance(caught.value.__cause__, ServerUnavailableError)
    return describe_failure(caught.value.__cause__.reason, advice=caught.value.__cause__.advice)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("kind", "remedy"), [("bubblewrap", "apt install bubblewrap"), ("docker", "apt install docker.io")]
)
@pytest.mark.usefixtures("tools")
def test_a_machine_without_the_program_of_a_wall_is_told_what_to_install(kind: str, remedy: str) -> None:
    assert reason(intruder(kind)) == f"its sandbox {kind!r} is not available here: install it: {remedy}"


def test_a_bubblewrap_that_may_make_no_namespaces_is_told(tools: Path) -> None:
    (tools / "bwrap").write_text("#!/bin/sh\necho setting up uid map: Permission denied >&2\nexit 1\n")
    (tools / "bwrap").chmod(0o755)
    found = reason(intruder("bubblewrap"))
    assert "it cannot make namespaces (setting up uid map: Permission denied)" in found
    assert found.endswith("allow user namespaces, or choose sandbox = 'docker'")


def test_a_docker_that_does_not_answer_is_told(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tools / "docker").write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
    (tools / "docker").chmod(0o755)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert "Cannot connect to the Docker daemon" in reason(intruder("docker"))
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.7:2375")
    assert "has to be on this machine" in reason(intruder("docker"))


@pytest.mark.usefixtures("needs_bubblewrap")
def test_missing_requirement_is_reported_at_the_start(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for key in ("read", "write"):
        told = reason(intruder("bubblewrap", **{key: [gone]}))
        assert (
            told == f"the setting {key!r} names {gone!r}, which does not exist; create it, or correct {key!r}"
        )
    assert "there is no program 'nod' on the PATH" in reason({"command": "nod", "sandbox": "bubblewrap"})
    assert "does not exist; create it" in reason(intruder("bubblewrap", cwd=gone))
    assert "there is no host 'api.invalid'" in reason(
        intruder("bubblewrap", network=["api.invalid", "*.invalid"])
    )


@pytest.mark.usefixtures("needs_bubblewrap")
def test_a_server_that_dies_for_what_it_does_not_see_is_told_what_that_is(tmp_path: Path) -> None:
    data = tmp_path / "notes.db"
    data.write_text("x")
    program = tmp_path / "program"
    program.mkdir()
    (program / "server.py").write_text("import sys\nopen(sys.argv[1].partition('=')[2])\n")
    settings = {
        "command": sys.executable,
        "args": [str(program / "server.py"), f"--db={data}"],
        "sandbox": "bubblewrap",
    }
    assert reason(settings).endswith(
        f"it may need {data}, which it cannot see in its sandbox; add it to read or write"
    )
    (program / "server.py").write_text(f"import sys\nsys.exit('cannot open {data}')\n")
    settings["args"] = [str(program / "server.py")]
    assert reason(settings).endswith(
        f"it may need {data}, which it cannot see in its sandbox; add it to read or write"
    )
    assert "behind its wall" not in reason({**settings, "read": [str(data)]})


@pytest.mark.usefixtures("needs_bubblewrap")
def test_looking_ahead_makes_nothing(home: Path) -> None:
    view = look_ahead("it", ServerConfig(**intruder("bubblewrap")))
    assert view.home.is_relative_to(home)
    assert not home.exists()


@pytest.fixture
def web() -> Iterator[int]:
    """Return the port of a web server of this machine."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello from outside")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def fetch(address: str) -> str:
    return dedent(f"""
        import urllib.request
        got = urllib.request.build_opener(urllib.request.ProxyHandler()).open({address!r}, timeout=20).read().decode()
    """)


def direct(port: int) -> str:
    return f"import socket\nwith socket.create_connection(('127.0.0.1', {port}), 3):\n    got = 'connected'"


def test_a_named_host_is_reached_by_the_proxy_and_nothing_else(
    kind: str, web: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = intruder(
        kind, network=[f"127.0.0.1:{web}", "localhost:9"], env={"NO_PROXY": "", "no_proxy": ""}
    )
    with SyncCrib({"mcpServers": {"it": settings}}) as crib:
        assert attempt(crib, fetch(f"http://127.0.0.1:{web}/")) == {"got": "hello from outside"}
        assert attempt(crib, direct(web)) == {"got": "connected"}
        assert "refused" in attempt(crib, direct(9))
        for address in ("http://localhost:9/", f"http://127.0.0.2:{web}/", "http://1.1.1.1/"):
            assert "403" in attempt(crib, fetch(address))["refused"]
        assert attempt(crib, fetch(f"http://127.0.0.1:{web}/")) == {"got": "hello from outside"}
    told = [record.message for record in caplog.records if "was refused" in record.message]
    assert len(told) == 3
    assert "is a loopback address; add it" in told[0]
    assert told[2].endswith("add '1.1.1.1' to its `network`")


def test_a_name_is_reached_without_a_proxy_at_its_ports_alone(
    kind: str, web: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = anyio.getaddrinfo

    async def look_up(host: str, *args: Any, **options: Any) -> Any:
        return await usual("127.0.0.1" if host.endswith(".example") else host, *args, **options)

    monkeypatch.setattr(anyio, "getaddrinfo", look_up)
    network = [f"shop.example:{web}", "closed.example", f"127.0.0.1:{web}"]
    code = f"""
        import os, socket, urllib.request
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
        got = [direct.open("http://shop.example:{web}/", timeout=20).read().decode()]
        for port in (80, 443):  # it is found there, and closed, because nobody listens outside
            with socket.create_connection(("closed.example", port), 20) as end:
                got.append(end.recv(1).decode())
        try:
            socket.create_connection(("closed.example", 81), 3)
        except OSError as error:
            got.append(error.strerror)
        got.append([line.split()[1].strip("0") for line in open("/proc/self/status") if line.startswith("Cap")])
        got.append([*os.getresuid(), *os.getresgid()])
    """
    ids = [os.getuid()] * 3 + [os.getgid()] * 3
    with SyncCrib({"mcpServers": {"it": intruder(kind, network=network)}}) as crib:
        found = attempt(crib, dedent(code))
    assert found == {"got": ["hello from outside", "", "", "Connection refused", [""] * 5, ids]}


@pytest.mark.usefixtures("needs_bubblewrap")
def test_the_whole_network_is_that_of_the_machine_without_abstract_sockets(web: int, tmp_path: Path) -> None:
    ears = Ears(tmp_path)
    ears.open()
    with SyncCrib({"mcpServers": {"it": intruder("bubblewrap", network="all")}}) as crib:
        assert attempt(crib, direct(web)) == {"got": "connected"}
        code = "import socket\nsocket.socket(socket.AF_UNIX).connect({!r})\ngot = 'connected'"
        assert "refused" in attempt(crib, code.format(ears.path))
        release = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
        if release >= (6, 12):  # from which on the kernel can keep them apart
            assert "PermissionError" in attempt(crib, code.format(f"\0{ears.abstract}"))["refused"]
    ears.close()


FAKE_NPX = """#!/bin/sh
# Stands for npx: it notes how it was called, and then starts what it has fetched, or asks the registry.
case "$*" in
  *"-c true"*)
    env > "$HOME/fetching.env"
    ls "$1" > /dev/null 2>&1
    ls -d {shared} {drop} >> "$HOME/seen.txt" 2> /dev/null
    echo fetched >> "$HOME/fetched.txt"
    {more}
    exit {status} ;;
  *) shift 2; exec {python} {server} "$@" ;;
esac
"""


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that creates the program `npx`, with the script that it runs to fetch."""
    folder = tmp_path / "npx"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    places = {name: tmp_path / name for name in ("shared", "drop")}
    for place in places.values():
        place.mkdir()
    server = Path(__file__).parents[3] / "servers" / "intruder.py"
    shutil.copy(server, places["shared"])

    def make(status: int = 0, more: str = "") -> dict[str, Any]:
        filled = {"python": PYTHON, "server": places["shared"] / "intruder.py", "status": status}
        (folder / "npx").write_text(FAKE_NPX.format(**places, **filled, more=more))
        (folder / "npx").chmod(0o755)
        settings = {"read": [str(places["shared"]), str(Path(sys.prefix))], "write": [str(places["drop"])]}
        env = {"OWN_TOKEN": "secret", "npm_config_loglevel": "silent"}
        return {
            "command": "npx",
            "args": ["-y", "some-server"],
            "sandbox": "bubblewrap",
            "env": env,
            **settings,
        }

    return make


READ_HOME = "import os\ngot = {name: open(os.path.expanduser('~/' + name)).read() for name in os.listdir(os.path.expanduser('~'))}"


@pytest.mark.usefixtures("needs_bubblewrap")
def test_packages_are_fetched_apart_before_the_server_starts_and_not_again(npx: Any) -> None:
    settings = npx()
    for _ in range(2):
        with SyncCrib({"mcpServers": {"it": settings}}) as crib:
            found = attempt(crib, READ_HOME)["got"]
            assert attempt(crib, "import os\ngot = os.environ['npm_config_offline']") == {"got": "true"}
            assert attempt(crib, "import os\ngot = 'HTTPS_PROXY' in os.environ") == {"got": False}
    assert found["fetched.txt"] == "fetched\n"
    assert found.get("seen.txt", "") == ""
    variables = dict(line.partition("=")[::2] for line in found["fetching.env"].splitlines())
    assert "OWN_TOKEN" not in variables
    assert variables["npm_config_loglevel"] == "silent"
    assert variables["HTTPS_PROXY"].startswith("http://127.0.0.1:")


@pytest.mark.usefixtures("needs_bubblewrap")
def test_packages_that_cannot_be_fetched_are_told_unless_there_are_older_ones(
    npx: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = reason(npx(status=1, more="echo 'npm error 404 no such package' >&2"))
    assert found == "npx could not fetch its package: npm error 404 no such package"
    with SyncCrib({"mcpServers": {"it": npx()}}) as crib:
        assert attempt(crib, "got = 1") == {"got": 1}
    later = __import__("time").time() + 90_000
    monkeypatch.setattr("toolcrib.execution.mcp.walls.packages.time.time", lambda: later)
    with SyncCrib({"mcpServers": {"it": npx(status=1, more="echo offline >&2")}}) as crib:
        assert attempt(crib, "got = 2") == {"got": 2}
    assert "starts with the package that it has" in caplog.text


@pytest.mark.usefixtures("needs_bubblewrap")
def test_fetching_reaches_registries_alone(npx: Any, web: int) -> None:
    ask = (
        f"{PYTHON} -c 'import urllib.request as r; r.urlopen(\"http://127.0.0.1:{web}/\")' 2> $HOME/error.txt"
    )
    settings = npx(more=f"NO_PROXY= no_proxy= {ask}; true")
    with SyncCrib({"mcpServers": {"it": settings}}) as crib:
        assert "403" in attempt(crib, READ_HOME)["got"]["error.txt"]
    settings["env"]["npm_config_registry"] = f"http://127.0.0.1:{web}/"
    settings["args"].append("again")
    with SyncCrib({"mcpServers": {"it": {**settings, "args": ["-y", "another-server"]}}}) as crib:
        assert attempt(crib, READ_HOME)["got"]["error.txt"] == ""


def test_no_port_of_a_server_is_reached_from_outside(kind: str) -> None:
    code = "import socket\nglobal_end = socket.create_server(('0.0.0.0', 0))\ngot = global_end.getsockname()[1]\nimport sys\nsys.kept = global_end"
    with SyncCrib({"mcpServers": {"it": intruder(kind)}}) as crib:
        port = attempt(crib, code)["got"]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), 3)

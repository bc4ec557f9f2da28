"""The life of a server behind a wall: it starts, restarts and ends as any other, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from execution.mcp.walls.doomed import DAEMON
from execution.mcp.walls.walled import attempt, intruder
from waiting import wait_until

from toolcrib import SyncCrib
from toolcrib.errors import BackendUnavailableError

DOOMED = Path(__file__).with_name("doomed.py")
SECRET = "s3cret-of-the-server-81f2"  # noqa: S105 - it is shown to a server of the tests
pytestmark = pytest.mark.usefixtures("home")


def processes() -> list[str]:
    """Return the command lines of all processes of this machine."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def remaining_commands(marker: str) -> list[str]:
    """Return the commands with a word that are there still, of processes and of containers."""
    found = processes()
    if "DOCKER_HOST" in os.environ:
        listing = ["docker", "ps", "--all", "--no-trunc", "--format", "container {{.Command}}"]
        found += subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in found if marker in line]


def daemons(marker: str) -> list[str]:
    return [
        line for line in remaining_commands(marker) if "time.sleep(600)" in line and "container" not in line
    ]


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[str]:
    """Return a word in the command of a server by which its processes are known; in the end there are none."""
    word = f"marker-{tmp_path.name}-{os.getpid()}"
    yield word
    wait_until(lambda: not remaining_commands(word))


def start(kind: str, marker: str, **settings: Any) -> dict[str, Any]:
    made = intruder(kind, **settings)
    return {"mcpServers": {"it": {**made, "args": [*made["args"], marker]}}}


def test_a_stopped_server_leaves_no_process_no_daemon_and_no_container(kind: str, marker: str) -> None:
    with SyncCrib(start(kind, marker)) as crib:
        assert "got" in attempt(crib, DAEMON)
        wait_until(lambda: daemons(marker))
        assert kind != "docker" or [line for line in remaining_commands(marker) if "container" in line]
    assert remaining_commands(marker) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)])
def test_nothing_outlives_a_toolcrib_that_is_killed(kind: str, marker: str, number: int) -> None:
    environ = {**os.environ, "PYTHONPATH": str(DOOMED.parents[3])}
    command = [sys.executable, str(DOOMED), kind, marker]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as us:
        assert us.stdout is not None
        assert us.stdout.readline().startswith(b"{'got'")
        wait_until(lambda: daemons(marker))
        us.send_signal(number)
    wait_until(lambda: not remaining_commands(marker))


def test_the_end_of_the_watchdog_too_leaves_nothing(kind: str, marker: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(DOOMED.parents[3])}
    command = [sys.executable, str(DOOMED), kind, marker]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as us:
        assert us.stdout is not None
        assert us.stdout.readline().startswith(b"{'got'")
        for child in (Path(f"/proc/{us.pid}/task/{us.pid}/children").read_text()).split():
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            if line.startswith(b"/bin/sh") and marker.encode() not in line:
                os.kill(int(child), signal.SIGKILL)
        us.kill()
    wait_until(lambda: not daemons(marker))
    wait_until(lambda: not [line for line in remaining_commands(marker) if "container" in line])


def test_daemons_end_with_their_server(kind: str, marker: str) -> None:
    with SyncCrib(start(kind, marker)) as crib:
        attempt(crib, DAEMON)
        wait_until(lambda: daemons(marker))
        with pytest.raises(BackendUnavailableError):
            attempt(crib, "import os\nos._exit(3)")
        wait_until(lambda: not daemons(marker))


def test_a_server_that_died_is_started_again_in_the_same_home(kind: str, marker: str) -> None:
    with SyncCrib(start(kind, marker)) as crib:
        attempt(crib, "import os\nopen(os.path.expanduser('~/login'), 'w').write('token')")
        with pytest.raises(BackendUnavailableError, match="it exited with status 3"):
            attempt(crib, "import os\nos._exit(3)")
        assert attempt(crib, "import os\ngot = open(os.path.expanduser('~/login')).read()") == {
            "got": "token"
        }
        assert crib.status()["it"].starts == 2


def test_how_a_server_ended_is_told_as_without_a_wall(kind: str, marker: str) -> None:
    with (
        SyncCrib(start(kind, marker)) as crib,
        pytest.raises(BackendUnavailableError, match="it was ended by SIGABRT"),
    ):
        attempt(crib, "import os\nos.abort()")


def test_secrets_of_a_server_are_in_no_command_line(kind: str, marker: str) -> None:
    with SyncCrib(start(kind, marker, env={"OWN_TOKEN": SECRET})) as crib:
        assert attempt(crib, "import os\ngot = os.environ['OWN_TOKEN'][::-1]") == {"got": SECRET[::-1]}
        assert remaining_commands(marker)
        assert not [line for line in processes() if SECRET in line]


def test_variables_are_those_of_the_settings_and_few_more(
    kind: str, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("OTHER_TOKEN", "x")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/0")
    settings = {"env": {"MODE": "a b\nc", "DOCKER_HOST": "mine"}, "inherit": ["AWS_*"]}
    with SyncCrib(start(kind, marker, **settings)) as crib:
        found = attempt(crib, "import os\ngot = dict(os.environ)")["got"]
    assert found.keys() >= {"PATH", "HOME", "TMPDIR", "AWS_PROFILE"}
    assert (found["MODE"], found["DOCKER_HOST"], found["AWS_PROFILE"]) == ("a b\nc", "mine", "work")
    assert not found.keys() & {"OTHER_TOKEN", "XDG_RUNTIME_DIR", "TOOLCRIB_HOME", "HTTPS_PROXY"}


def test_a_server_starts_in_its_folder_where_it_may_see_it_and_else_at_home(
    kind: str, marker: str, tmp_path: Path
) -> None:
    code = "import os\ngot = [os.getcwd(), os.path.expanduser('~')]"
    for read in ([str(tmp_path)], []):
        with SyncCrib(start(kind, marker, cwd=str(tmp_path), read=read)) as crib:
            folder, home = attempt(crib, code)["got"]
        assert folder == (str(tmp_path) if read else home)


def test_files_written_by_a_server_belong_to_the_user(kind: str, marker: str, tmp_path: Path) -> None:
    file = tmp_path / "made.txt"
    with SyncCrib(start(kind, marker, write=[str(tmp_path)])) as crib:
        attempt(crib, f"open({str(file)!r}, 'w').write('x')")
    assert (file.read_text(), file.stat().st_uid) == ("x", os.getuid())


def test_readable_path_inside_a_writable_one_stays_read_only(kind: str, marker: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    settings = {"write": [str(tmp_path)], "read": [str(tmp_path / ".git")]}
    with SyncCrib(start(kind, marker, **settings)) as crib:
        assert "Read-only" in attempt(crib, f"open({str(tmp_path / '.git' / 'config')!r}, 'w')")["refused"]
        assert attempt(crib, f"got = open({str(tmp_path / 'new')!r}, 'w').write('x')") == {"got": 1}


@pytest.mark.proof
def test_a_bomb_of_processes_is_stopped(kind: str, marker: str) -> None:
    code = """
    import os, time
    children = []
    try:
        while len(children) < 3000:
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            children.append(child)
    except OSError as error:
        got = f"refused after {len(children)}: {error.strerror}"
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
    """
    with SyncCrib(start(kind, marker)) as crib:
        found = attempt(crib, "\n".join(line[4:] for line in code.splitlines()))
        assert found["got"].startswith("refused after")
        assert attempt(crib, "got = 1") == {"got": 1}


@pytest.mark.proof
def test_a_bomb_of_memory_is_stopped(kind: str, marker: str) -> None:
    with SyncCrib(start(kind, marker)) as crib:
        found = "it was killed"
        with suppress(BackendUnavailableError):
            found = attempt(crib, "held = []\nwhile True:\n    held.append(bytearray(64 << 20))")["refused"]
        assert found.startswith(("MemoryError", "it was killed"))
        assert attempt(crib, "got = 1") == {"got": 1}

"""The second wall, looked at from outside."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from runtime.sandboxes.monty.guests import Guests, status, workers

from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.isolation.seccomp import WORKER, compile_filter
from toolcrib.runtime.sandboxes.monty.wall import find_isolation, worker_script

needs_bubblewrap = pytest.mark.usefixtures("needs_bubblewrap")


@needs_bubblewrap
@pytest.mark.anyio
async def test_worker_runs_as_nobody_without_files_and_privileges(box: Guests) -> None:
    assert await box.run("__out = 1", profile="hardened") == 1
    (worker,) = workers()
    told = status(worker)
    uid = GUEST_UID if os.geteuid() == 0 else os.geteuid()
    assert told["Uid"].split() == [str(uid)] * 4
    assert int(told["CapEff"], 16) == int(told["CapPrm"], 16) == int(told["CapBnd"], 16) == 0
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")
    check_surroundings(Path(f"/proc/{worker}"))


def check_surroundings(worker: Path) -> None:
    assert worker.joinpath("environ").read_bytes() in {b"", b"PWD=/\0"}
    seen = {entry.name for entry in worker.joinpath("root").iterdir()}
    assert seen <= {"lib", "lib64", "usr", "monty", "setpriv"}
    for kind in ("net", "pid", "ipc", "uts", "mnt"):
        assert worker.joinpath("ns", kind).readlink() != Path("/proc/self/ns", kind).readlink()
    assert limits_of(worker) >= {"Max core file size 0 0 bytes", "Max open files 64 64 files"}


def limits_of(worker: Path) -> set[str]:
    lines = worker.joinpath("limits").read_text(encoding="utf-8").splitlines()
    return {" ".join(line.split()) for line in lines}


@pytest.mark.anyio
async def test_worker_without_bubblewrap_has_resource_limits(bare: Guests) -> None:
    assert await bare.run("__out = 1") == 1
    (worker,) = workers()
    assert "Max open files 64 64 files" in limits_of(Path(f"/proc/{worker}"))


@needs_bubblewrap
def test_filter_refuses_processes_files_and_sockets(tmp_path: Path) -> None:
    (tmp_path / "filter").write_bytes(compile_filter(WORKER))
    perl = "print fork() // 'no fork'; print socket(my $s, 1, 1, 0) || 'no socket'; print open(F, '>', '/tmp/x') || 'no file'; print open(F, '<', '/etc/hostname') ? 'read' : $!"
    script = f'exec "$0" --ro-bind / / --dev /dev --tmpfs /tmp --seccomp 9 perl -e "$1" 9<{tmp_path}/filter'
    done = subprocess.run(
        ["sh", "-c", script, shutil.which("bwrap") or "", perl], capture_output=True, text=True, check=False
    )
    assert done.stdout == "no forkno socketno fileread", done.stderr


CONTROLS = {1: "no", 4: "no", 15: "yes", 22: "no", 35: "no", 36: "no", 38: "yes", 0x59616D61: "no"}
"""Options of `prctl`: to outlive a parent, to be looked into, and other things that a worker has no use for."""
PRCTL = {"x86_64": 157, "aarch64": 167}
FLAGS = {
    os.O_RDONLY: "yes",
    os.O_RDONLY | os.O_CLOEXEC: "yes",
    os.O_CREAT: "no",
    os.O_TRUNC: "no",
    os.O_CREAT | os.O_TRUNC: "no",
    os.O_APPEND: "no",
    os.O_WRONLY: "no",
    os.O_RDWR: "no",
    os.O_TMPFILE: "no",
}


@needs_bubblewrap
def test_filter_checks_options_and_flags(tmp_path: Path) -> None:
    (tmp_path / "filter").write_bytes(compile_filter(WORKER))
    number = PRCTL[platform.machine()]
    perl = f"my $name = 'n'; for my $o ({', '.join(map(str, CONTROLS))}) {{ print syscall({number}, $o, $o == 15 ? $name : 1, 0, 0, 0) < 0 && $! == 1 ? 'no ' : 'yes ' }}"
    perl += f"for my $f ({', '.join(map(str, FLAGS))}) {{ print sysopen(F, '/etc/hostname', $f) || $! != 1 ? 'yes ' : 'no ' }}"
    script = f'exec "$0" --ro-bind / / --dev /dev --seccomp 9 perl -e "$1" 9<{tmp_path}/filter'
    done = subprocess.run(
        ["sh", "-c", script, shutil.which("bwrap") or "", perl], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [*CONTROLS.values(), *FLAGS.values()], done.stderr


KILLED = """
import os, signal, sys
from toolcrib.runtime.sandboxes.monty.wall import worker_script
with worker_script(()) as script:
    print(script.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(folder: Path) -> Path:
    """Return the folder that a killed process leaves behind."""
    given = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED], env=given, capture_output=True, text=True, check=False
    )
    return Path(done.stdout.strip())


@pytest.mark.proof
def test_folders_of_a_killed_host_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, lax, linked = killed(tmp_path), killed(tmp_path), tmp_path / "elsewhere"
    left = lax if not left.exists() else left  # the second has swept the first
    assert (left / "worker").exists()
    start, _, rest = left.name.removeprefix("toolcrib-monty-").partition("-")
    others = [
        tmp_path / f"toolcrib-monty-{name}"
        for name in ("x", "1-2", "1-b-3-c", f"{int(start) + 1}-{rest}", "1-²-3-x", f"{start}-{'9' * 30}-1")
    ]
    for folder in [*others, linked]:
        folder.mkdir(mode=0o700)
    open_to_others = tmp_path / f"toolcrib-monty-{start}-{os.getpid()}-1-open"
    open_to_others.mkdir(mode=0o755)
    link = tmp_path / f"toolcrib-monty-{start}-{os.getpid()}-1-link"
    link.symlink_to(linked)
    file = tmp_path / f"toolcrib-monty-{start}-{os.getpid()}-1-file"
    file.touch(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with worker_script(()) as one, worker_script(()) as two:
        assert not left.exists()
        assert one.exists()
        assert two.exists()
        for kept in [*others, linked, open_to_others, link, file]:
            assert kept.exists()


@pytest.mark.proof
@needs_bubblewrap
def test_no_folder_is_removed_where_processes_cannot_be_listed(tmp_path: Path) -> None:
    left = killed(tmp_path)
    code = "from toolcrib.runtime.sandboxes.monty.wall import worker_script\nwith worker_script(()) as script:\n    print(script.parent)"
    blind = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/proc"]
    given = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*blind, sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False
    )
    assert Path(done.stdout.strip()).name.startswith("toolcrib-monty-host-"), done.stderr
    assert left.exists()


@needs_bubblewrap
def test_isolation_here_has_bubblewrap_and_seccomp() -> None:
    assert find_isolation() == ("bubblewrap", "seccomp")


def test_worker_script_removes_its_folder() -> None:
    with worker_script(()) as script:
        folder = script.parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert script.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def told_with(path: Path, code: str) -> str:
    """Return the output of a process whose PATH is a single folder."""
    code = f"from toolcrib.runtime.sandboxes.monty import wall\n{code}"
    environment = {**os.environ, "PATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_isolation_is_empty_without_bubblewrap(tmp_path: Path) -> None:
    assert told_with(tmp_path, "print(wall.find_isolation())") == "()"
    assert told_with(tmp_path, "with wall.worker_script(()) as script: print(script.read_text())").endswith(
        'monty "$@"'
    )


@pytest.mark.proof
def test_broken_bubblewrap_counts_as_missing(tmp_path: Path) -> None:
    for name in ("bwrap", "setpriv", "ldd"):
        (tmp_path / name).symlink_to("/bin/false")
    assert told_with(tmp_path, "print(wall.find_isolation())") == "()"


@pytest.mark.proof
@needs_bubblewrap
def test_isolation_without_seccomp_is_bubblewrap_alone() -> None:
    code = "import sys\nsys.modules['pyseccomp'] = None\nprint(wall.find_isolation())"
    assert told_with(Path(os.environ["PATH"]), code) == "('bubblewrap',)"


@pytest.mark.proof
@needs_bubblewrap
def test_failed_worker_script_removes_its_folder(tmp_path: Path) -> None:
    code = "import sys, os, tempfile\nsys.modules['pyseccomp'] = None\ntempfile.tempdir = os.environ['HERE']\nwall.find_isolation()\nprint(os.listdir(os.environ['HERE']))"
    os.environ["HERE"] = str(tmp_path)
    assert told_with(Path(os.environ["PATH"]), code) == "[]"


UNPRIVILEGED = """
import json, os, anyio
from runtime.sandboxes.monty.guests import guests, status, workers
async def main():
    async with guests() as box:
        value = await box.run("__out = 1", profile="hardened")
        (worker,) = workers()
        told = status(worker)
        print(json.dumps([os.geteuid(), value, told["CapEff"], told["CapBnd"], told["NoNewPrivs"], told["Seccomp"]]))
anyio.run(main)
"""


@needs_bubblewrap
def test_isolation_works_without_privileges(unprivileged: list[str]) -> None:
    given = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [*unprivileged, sys.executable, "-c", UNPRIVILEGED]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    uid, *rest = json.loads(done.stdout or done.stderr)
    assert uid != 0
    assert rest == [1, "0" * 16, "0" * 16, "1", "2"]

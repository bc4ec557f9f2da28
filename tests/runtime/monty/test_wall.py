"""The second wall, looked at from outside."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.monty.guests import Guests, status, workers

from toolcrib.runtime.monty.filter import write_filter
from toolcrib.runtime.monty.wall import NOBODY, Wall, wall_here

needs_bubblewrap = pytest.mark.usefixtures("needs_bubblewrap")


@needs_bubblewrap
@pytest.mark.anyio
async def test_a_worker_is_nobody_with_nothing(box: Guests) -> None:
    assert await box.run("__out = 1", profile="hardened") == 1
    (worker,) = workers()
    told = status(worker)
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
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
async def test_a_bare_worker_has_bounds_too(bare: Guests) -> None:
    assert await bare.run("__out = 1") == 1
    (worker,) = workers()
    assert "Max open files 64 64 files" in limits_of(Path(f"/proc/{worker}"))


@needs_bubblewrap
def test_the_filter_refuses_processes_files_and_sockets(tmp_path: Path) -> None:
    write_filter(tmp_path / "filter")
    perl = "print fork() // 'no fork'; print socket(my $s, 1, 1, 0) || 'no socket'; print open(F, '>', '/tmp/x') || 'no file'; print open(F, '<', '/etc/hostname') ? 'read' : $!"
    script = f'exec "$0" --ro-bind / / --dev /dev --tmpfs /tmp --seccomp 9 perl -e "$1" 9<{tmp_path}/filter'
    done = subprocess.run(
        ["sh", "-c", script, shutil.which("bwrap") or "", perl], capture_output=True, text=True, check=False
    )
    assert done.stdout == "no forkno socketno fileread"


@needs_bubblewrap
def test_the_wall_here_is_whole() -> None:
    assert wall_here() == ("bubblewrap", "seccomp")


def test_a_wall_leaves_no_folder_behind() -> None:
    with Wall(()) as wall:
        folder = wall.script.parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert wall.script.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def told_with(path: Path, code: str) -> str:
    """Return what a process prints that finds only the programs of one folder."""
    code = f"from toolcrib.runtime.monty import wall\n{code}"
    environment = {**os.environ, "PATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_bubblewrap_there_is_no_wall(tmp_path: Path) -> None:
    assert told_with(tmp_path, "print(wall.wall_here())") == "()"
    assert told_with(tmp_path, "print(wall.Wall(()).__enter__().script.read_text())").endswith('monty "$@"')


def test_a_bubblewrap_that_does_not_work_is_none(tmp_path: Path) -> None:
    for name in ("bwrap", "setpriv", "ldd"):
        (tmp_path / name).symlink_to("/bin/false")
    assert told_with(tmp_path, "print(wall.wall_here())") == "()"


@needs_bubblewrap
def test_without_filters_bubblewrap_stands_alone() -> None:
    code = "import sys\nsys.modules['pyseccomp'] = None\nprint(wall.wall_here())"
    assert told_with(Path(os.environ["PATH"]), code) == "('bubblewrap',)"


@needs_bubblewrap
def test_a_wall_that_cannot_be_made_leaves_no_folder_behind(tmp_path: Path) -> None:
    code = "import sys, os, tempfile\nsys.modules['pyseccomp'] = None\ntempfile.tempdir = os.environ['HERE']\nwall.wall_here()\nprint(os.listdir(os.environ['HERE']))"
    os.environ["HERE"] = str(tmp_path)
    assert told_with(Path(os.environ["PATH"]), code) == "[]"


def test_a_wall_that_is_not_up_has_no_script_and_takes_nothing_down(tmp_path: Path) -> None:
    wall = Wall(())
    with pytest.raises(RuntimeError, match="not up"):
        _ = wall.script
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        wall.__exit__(None, None, None)
    finally:
        os.chdir(here)
    assert tmp_path.exists()


UNPRIVILEGED = """
import json, os, anyio
from runtime.monty.guests import guests, status, workers
async def main():
    async with guests() as box:
        value = await box.run("__out = 1", profile="hardened")
        (worker,) = workers()
        told = status(worker)
        print(json.dumps([os.geteuid(), value, told["CapEff"], told["CapBnd"], told["NoNewPrivs"], told["Seccomp"]]))
anyio.run(main)
"""


@needs_bubblewrap
def test_the_wall_stands_without_privileges_too() -> None:
    given = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [
        "bwrap",
        "--unshare-user",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", UNPRIVILEGED], env=given, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout or done.stderr) == [1000, 1, "0" * 16, "0" * 16, "1", "2"]

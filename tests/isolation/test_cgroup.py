"""Control groups: real ones where they can be made, and files that look like the kernel's where not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from toolcrib.isolation.cgroup import Cgroup, Cgroups, find_cgroups

LIMITS = {"memory": 64 << 20, "pids": 5}


@pytest.fixture
def group() -> Iterator[Cgroup]:
    found = find_cgroups()
    made = found.make()
    if made is None or not (found.memory and found.pids):
        pytest.skip("needs the right to make control groups")
    yield made
    made.remove()


def test_group_limits_the_processes_that_join(group: Cgroup) -> None:
    group.set_limits(memory=64 << 20, pids=5)
    joins = "; ".join(f"echo 0 > {door}" for door in group.procs_files)
    held = subprocess.Popen(["/bin/sh", "-c", f"{joins}; exec sleep 1000"])
    try:
        wait_until(lambda: all(str(held.pid) in Path(door).read_text().split() for door in group.procs_files))
        assert not group.remove()
    finally:
        held.kill()
        held.wait()
    assert not group.ran_out_of_memory()
    assert group.remove()
    assert group.remove()


def joined(group: Cgroup, program: str) -> "subprocess.Popen[bytes]":
    """Start a program in a group, and return it once it is in."""
    joins = "; ".join(f"echo 0 > {door}" for door in group.procs_files)
    held = subprocess.Popen(["/bin/sh", "-c", f"{joins}; exec {program}"], stdout=subprocess.PIPE)
    assert held.stdout is not None
    assert held.stdout.readline()
    return held


def test_remove_kills_the_processes_in_a_group(group: Cgroup) -> None:
    held = joined(group, "setsid --fork sh -c 'echo up; exec sleep 1000'")
    with held:
        wait_until(group.remove)
    assert not any(path.exists() for path in group.folders.values())


def test_group_counts_cpu_time(group: Cgroup) -> None:
    before = group.cpu_seconds()
    if before is None:
        pytest.skip("needs the right to count CPU time")
    with joined(group, f"{sys.executable} -S -c 'print(sum(range(10**6)))'"):
        pass
    after = group.cpu_seconds()
    assert after is not None
    assert before < after < before + 60


def left_behind(namespace: str | None = None) -> str:
    """Return the name of a group of a process that is gone: we have not started at 0."""
    return f"toolcrib-{namespace or Path('/proc/self/ns/pid').stat().st_ino}-{os.getpid()}-0-1"


def test_groups_of_another_pid_namespace_are_kept(tmp_path: Path) -> None:
    (tmp_path / left_behind("12345")).mkdir()
    (tmp_path / left_behind()).mkdir()
    assert Cgroups({"memory": tmp_path}).remove_abandoned() == 1
    assert [path.name for path in tmp_path.iterdir()] == [left_behind("12345")]


def test_processes_in_the_group_of_a_killed_host_are_killed() -> None:
    found = find_cgroups()
    folders = {name: parent / left_behind() for name, parent in found.parents.items()}
    if not folders:
        pytest.skip("needs the right to make control groups")
    for folder in set(folders.values()):
        folder.mkdir()
    with joined(Cgroup(folders), "sh -c 'echo up; exec sleep 1000'") as held:
        assert found.remove_abandoned() == len(set(folders.values()))
    assert held.returncode == -signal.SIGKILL


def test_processes_of_another_pid_namespace_are_not_killed(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("0\n")
    assert not Cgroup({"memory": tmp_path}).remove()


def test_remove_uses_cgroup_kill_where_it_exists(tmp_path: Path) -> None:
    (tmp_path / "cgroup.kill").write_text("")
    assert not Cgroup({"memory": tmp_path, "pids": tmp_path}).remove()
    assert (tmp_path / "cgroup.kill").read_text() == "1"


def test_cpu_time_is_read_in_both_versions(tmp_path: Path) -> None:
    group = Cgroup({"cpuacct": tmp_path})
    assert group.cpu_seconds() is None
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert group.cpu_seconds() == 1.5
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    assert group.cpu_seconds() == 2.5


def test_group_reports_out_of_memory(group: Cgroup) -> None:
    group.set_limits(memory=32 << 20, pids=5)
    joins = "; ".join(f"echo 0 > {door}" for door in group.procs_files)
    program = f"exec {sys.executable} -S -c 'x = bytearray(200 << 20)'"
    assert subprocess.run(["/bin/sh", "-c", f"{joins}; {program}"], check=False).returncode == -signal.SIGKILL
    assert group.ran_out_of_memory()


def test_limits_can_be_raised_and_lowered(group: Cgroup) -> None:
    for memory in (32 << 20, 128 << 20, 64 << 20):
        group.set_limits(memory=memory, pids=5)
        texts = [
            path.read_text().strip()
            for path in group.folders["memory"].glob("memory.*")
            if path.name in {"memory.max", "memory.limit_in_bytes"}
        ]
        assert texts == [str(memory)]


@pytest.mark.proof
def test_groups_of_a_killed_process_are_removed() -> None:
    code = "import os, sys\nfrom toolcrib.isolation.cgroup import find_cgroups\nfound = find_cgroups().make()\nprint(*(found.folders.values() if found else []), flush=True)\nos.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    left = list(map(Path, ended.stdout.split()))
    assert all(path.is_dir() for path in left)
    found = find_cgroups()
    assert not any(path.exists() for path in left)
    assert found.remove_abandoned() == 0


def test_groups_of_a_live_process_are_kept(group: Cgroup) -> None:
    find_cgroups()
    assert all(path.is_dir() for path in group.folders.values())


def test_limits_of_version_2_are_written(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max")
    group = Cgroup({"memory": tmp_path, "pids": tmp_path})
    group.set_limits(memory=1234, pids=7)
    assert (tmp_path / "memory.max").read_text() == "1234"
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "pids.max").read_text() == "7"
    assert group.procs_files == (str(tmp_path / "cgroup.procs"),)


def test_memory_events_of_version_2_are_read(tmp_path: Path) -> None:
    group = Cgroup({"memory": tmp_path})
    assert not group.ran_out_of_memory()
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert group.ran_out_of_memory()
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n")
    assert not group.ran_out_of_memory()


def test_group_without_the_memory_controller_reports_no_out_of_memory(tmp_path: Path) -> None:
    group = Cgroup({"pids": tmp_path})
    assert not group.set_limits(memory=1, pids=2).ran_out_of_memory()


def test_controllers_of_version_2_share_a_folder(tmp_path: Path) -> None:
    group = Cgroups({"memory": tmp_path, "pids": tmp_path}).make()
    assert group is not None
    assert group.folders["memory"] == group.folders["pids"]
    assert group.remove()


def test_make_returns_none_if_no_group_can_be_made(tmp_path: Path) -> None:
    assert Cgroups({}).make() is None
    assert Cgroups({"memory": tmp_path, "pids": tmp_path / "missing"}).make() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("own", ["0::/mine\n", "5:memory:/mine\n", "", "0::/../elsewhere\n"])
def test_folders_without_controller_files_are_not_used(tmp_path: Path, own: str) -> None:
    (tmp_path / "mount" / "mine").mkdir(parents=True)
    (tmp_path / "cgroup").write_text(own)
    mounts = [
        f"30 20 0:2 / {tmp_path / 'mount'} rw - cgroup2 cgroup rw",
        f"31 20 0:3 / {tmp_path / 'mount'} rw - cgroup cgroup rw,memory",
        "20 1 0:1 / / rw - ext4 /dev/vda rw",
    ]
    (tmp_path / "mountinfo").write_text("\n".join(mounts) + "\n")
    assert find_cgroups(tmp_path) == Cgroups({})
    assert os.listdir(tmp_path / "mount") == ["mine"]  # noqa: PTH208 - names are what is compared


def test_missing_proc_files_mean_no_groups(tmp_path: Path) -> None:
    assert find_cgroups(tmp_path) == Cgroups({})

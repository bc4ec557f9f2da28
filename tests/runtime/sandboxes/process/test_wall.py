"""The command line of the wall, also for users other than root, and the filter of system calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.isolation.bubblewrap import GUEST_UID, Bubblewrap
from toolcrib.isolation.cgroup import Cgroups
from toolcrib.isolation.seccomp import INTERPRETER, WORKER, compile_filter
from toolcrib.runtime.sandboxes.process.wall import Wall, interpreter

UNPRIVILEGED = """
import os, anyio
from runtime.workbench import Bench
from toolcrib.runtime.sandboxes.process import ProcessSandbox
async def main():
    async with ProcessSandbox() as sandbox:
        bench = Bench(sandbox)
        code = "import os\\n__out = [os.getuid(), await calc.add(a=1, b=2), os.listdir('/tmp')]"
        print((await bench.run(code)).value, os.geteuid() == sandbox.info().details["host_uid"] != 0)
        for bad in ("open('/x', 'w')", "open('/dev/x', 'w')", "import os; os.fork()", "import os; os.unshare(0)",
                    "import os; os.chmod('/usr', 0o777)", "import os; os.mkdir('/root2')"):
            try:
                print(await bench.run(bad))
            except Exception as error:
                print(type(error).__name__)
anyio.run(main)
"""


@pytest.mark.usefixtures("needs_bubblewrap")
def test_command_uses_a_user_namespace_without_root(unprivileged: list[str]) -> None:
    given = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [*unprivileged, sys.executable, "-c", UNPRIVILEGED]
    ended = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert lines[:1] == [f"[{GUEST_UID}, 3, []] True"], ended.stderr
    assert lines[1:] == ["CodeError"] * 6


def test_layers_of_root_in_a_user_namespace_have_no_unprivileged_uid() -> None:
    wall = Wall(Bubblewrap("/usr/bin/bwrap", as_root=False), "0.8.0", filter=b"", cgroups=Cgroups({}))
    assert ("unprivileged uid" in wall.layers) == (os.geteuid() != 0)
    assert "cgroup" not in wall.layers
    assert "--unshare-user" in wall.command(["x"], disk=1)


def test_command_binds_only_the_interpreter_and_its_libraries() -> None:
    wall = Wall(
        Bubblewrap("/usr/bin/bwrap", as_root=True),
        "0.8.0",
        filter=b"",
        cgroups=Cgroups({"memory": Path("/x")}),
    )
    command = wall.command(interpreter(), disk=4096)
    bound = [command[at + 1] for at, word in enumerate(command) if word == "--ro-bind"]
    assert not [path for path in bound if Path(path) in {Path("/"), Path("/usr"), Path("/etc"), Path.home()}]
    assert "--bind" not in command
    assert command[command.index("--size") + 1] == "4096"
    assert wall.layers[0] == "cgroup"


def test_filter_allows_no_processes_and_no_network() -> None:
    refused = {"fork", "vfork", "clone", "clone3", "execve", "execveat", "socket", "connect", "bind", "ptrace", "mount",
               "unshare", "setns", "bpf", "io_uring_setup", "keyctl", "userfaultfd", "perf_event_open", "memfd_create",
               "process_vm_readv", "pidfd_open", "personality", "chroot", "pivot_root", "init_module", "reboot"}  # fmt: skip
    assert not refused & INTERPRETER.calls
    assert refused & WORKER.calls == {"execve"}  # bubblewrap executes the worker under its filter
    assert len(compile_filter(INTERPRETER)) % 8 == 0
    assert compile_filter(INTERPRETER) is compile_filter(INTERPRETER)


def test_filter_is_compiled_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    compile_filter.cache_clear()
    assert compile_filter(INTERPRETER)

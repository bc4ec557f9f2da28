"""The process sandbox itself: its walls as the host sees them, its limits, its pool."""

import dataclasses
import errno
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from runtime.workbench import Bench, descendants, descriptors
from waiting import PATIENCE, until

from toolcrib.errors import CodeError, LimitExceededError, RuntimeUnavailableError, SandboxViolationError
from toolcrib.isolation.bubblewrap import GUEST_UID, Bubblewrap
from toolcrib.isolation.cgroup import Cgroups
from toolcrib.runtime import Bridge, Job, Limits, Output, Sandbox
from toolcrib.runtime.sandboxes.process import ProcessSandbox
from toolcrib.runtime.sandboxes.process.wall import find_wall
from toolcrib.runtime.stubs.guest import FUNCTIONS


def groups() -> set[Path]:
    """Return the control groups of guests of this process."""
    parents = set(find_wall().cgroups.parents.values())
    return {path for parent in parents for path in parent.glob(f"toolcrib-*-{os.getpid()}-*")}


def in_use(group: Path) -> bool:
    """Return whether a control group has a process, or is gone."""
    try:
        return bool((group / "cgroup.procs").read_text())
    except OSError:
        return True


def interpreters() -> list[dict[str, str]]:
    """Return the status of the guest processes, by the names of the kernel's fields."""
    found = []
    for pid, name in descendants().items():
        if not name.startswith("python"):
            continue
        with suppress(OSError):  # it has ended meanwhile
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found.append({key: value.strip() for key, _, value in (line.partition(":") for line in lines)})
    return found


@pytest.mark.anyio
async def test_info_lists_the_layers_of_isolation(bench: Bench) -> None:
    assert isinstance(bench.sandbox, Sandbox)
    info = bench.sandbox.info()
    assert (info.kind, info.readiness, info.details["available"]) == ("process", "beta", True)
    assert {"namespaces", "seccomp", "no network"} <= set(info.details["isolation"])
    assert info.details["profiles"][:2] == ["dev", "standard"]
    assert info.details["host_uid"] == (GUEST_UID if find_wall().bubblewrap.as_root else os.geteuid())
    assert info.details["cgroup"] == bool(find_wall().cgroups.parents)
    assert ("hardened" in info.details["profiles"]) == find_wall().cgroups.memory
    enforced = bench.sandbox.enforces(Limits())
    assert enforced.memory
    assert enforced.pids == find_wall().cgroups.pids


@pytest.mark.anyio
async def test_guest_has_no_privileges_and_a_seccomp_filter(bench: Bench) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, "await odd.hang(key='seen')")
        await until(lambda: "seen" in bench.shelf.begun)
        guests = [seen for seen in interpreters() if seen["Seccomp"] == "2"]
        assert guests
        for seen in guests:
            assert seen["NoNewPrivs"] == "1"
            assert {seen[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
            uid = GUEST_UID if find_wall().bubblewrap.as_root else os.geteuid()
            assert set(seen["Uid"].split()) == {str(uid)}
            assert seen["Groups"].split() in ([], [str(GUEST_UID)]) or not find_wall().bubblewrap.as_root
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_guest_sees_no_files_processes_and_networks_of_the_host(bench: Bench) -> None:
    code = """
import os, sys
def there(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__
__out = {
    "root": there("/"), "etc": there("/etc"), "proc": there("/proc"), "tmp": there("/tmp"),
    "dev": there("/dev"), "environ": dict(os.environ), "argv": sys.argv,
    "packages": [path for path in sys.path if "packages" in path],
    "descriptors": [fd for fd in range(3, 1024) if os.path.exists(f"/dev/fd/{fd}")],
}
"""
    value = (await bench.run(code)).value
    assert value["etc"] == value["proc"] == "FileNotFoundError"
    assert value["tmp"] == value["packages"] == value["descriptors"] == []
    assert value["environ"] == {"HOME": "/tmp"}  # noqa: S108 - the guest's own
    assert value["argv"] == ["-c"]
    assert value["dev"] == ["null", "random", "urandom", "zero"]
    assert not {"work", "home", "var", "sys", "run", "mnt", "opt"} & set(value["root"])


@pytest.mark.anyio
async def test_guest_cannot_import_installed_packages(bench: Bench) -> None:
    code = "import sys, pathlib\n__out = []\nfor path in sys.path:\n    __out += pathlib.Path(path).glob('*-packages/*')"
    assert (await bench.run(code)).value == []
    with pytest.raises(CodeError, match="ModuleNotFoundError"):
        await bench.run("import pydantic")


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/x", "/usr/lib/x", "/dev/x", "/root/x"])
async def test_guest_can_write_only_its_temporary_folder(bench: Bench, path: str) -> None:
    with pytest.raises(CodeError, match=r"OSError|PermissionError|FileNotFoundError"):
        await bench.run(f"open({path!r}, 'w')")


@pytest.mark.anyio
async def test_disk_limit_counts_all_files_together(bench: Bench) -> None:
    code = "for n in range(9):\n    with open(f'/tmp/{n}', 'wb') as file:\n        file.write(b'x' * 1000000)"
    with pytest.raises(LimitExceededError) as caught:
        await bench.run(code, disk_bytes=4 << 20)
    assert caught.value.limit == "disk_bytes"
    await bench.run(code, disk_bytes=16 << 20)


@pytest.mark.anyio
async def test_disk_limit_of_zero_forbids_writing(bench: Bench) -> None:
    with pytest.raises(CodeError, match="Read-only file system"):
        await bench.run("open('/tmp/x', 'w').write('x')", disk_bytes=0)


@pytest.mark.anyio
async def test_memory_limit_ends_code_that_allocates_in_small_steps(bench: Bench) -> None:
    code = "x = []\nwhile True:\n    x.append('y' * 100000 + str(len(x)))"
    with pytest.raises(LimitExceededError) as caught:
        await bench.run(code, memory_bytes=64 << 20)
    assert caught.value.limit == "memory_bytes"


@pytest.mark.anyio
async def test_memory_limit_can_be_raised_for_a_run(bench: Bench) -> None:
    code = "x = 'y' * (200 << 20)\n__out = len(x)"
    with pytest.raises(LimitExceededError):
        await bench.run(code, memory_bytes=64 << 20)
    assert (await bench.run(code, memory_bytes=400 << 20)).value == 200 << 20


@pytest.mark.anyio
async def test_cpu_limit_ends_code_that_ignores_signals(bench: Bench) -> None:
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True:\n    pass"
    with pytest.raises(LimitExceededError) as caught:
        await bench.run(code, cpu=0.5)
    assert caught.value.limit == "cpu"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["SIGKILL", "SIGXCPU"])
async def test_code_that_kills_itself_is_no_cpu_limit(bench: Bench, name: str) -> None:
    code = f"import os, signal, time\ntime.sleep(0.6)\nos.kill(os.getpid(), signal.{name})"
    if find_wall().cgroups.time:
        with pytest.raises(SandboxViolationError, match="ended by signal"):
            await bench.run(code, cpu=1.0)


@pytest.mark.anyio
async def test_thread_limit_is_enforced(bench: Bench) -> None:
    code = """
import threading, time
def wait():
    time.sleep(1000)
for _ in range({}):
    threading.Thread(target=wait, daemon=True).start()
__out = threading.active_count()
"""
    assert (await bench.run(code.format(5), pids=8)).value == 6
    with pytest.raises(LimitExceededError) as caught:
        await bench.run(code.format(20), pids=8)
    assert caught.value.limit == "pids"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos._exit(7)", "without a result, with status 7"),
        ("import ctypes\nctypes.string_at(0)", "crashed with SIGSEGV"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", "ended by signal 15"),
        pytest.param(
            "import os\nos.close(3)\nimport time\ntime.sleep(60)",
            "without a result",
            marks=pytest.mark.proof,
        ),
    ],
    ids=["exit", "crash", "signal", "closed line"],
)
async def test_guest_that_ends_without_a_result_is_a_violation_with_its_status(
    bench: Bench, code: str, said: str
) -> None:
    with pytest.raises(SandboxViolationError, match=said):
        await bench.run(code)


@pytest.mark.anyio
async def test_pending_call_is_cancelled_at_the_end_of_the_code(bench: Bench) -> None:
    code = "import asyncio\nasyncio.create_task(odd.hang(key='left'))\nwhile not await odd.count():\n    pass\n__out = 'ended'"
    ran = await bench.run(code)
    assert ran.value == "ended"
    assert bench.shelf.cancelled == ["left"]
    assert [call.error for call in ran.tool_calls if call.tool_id == "odd:hang"] == ["it was cancelled"]


@pytest.mark.anyio
async def test_call_of_a_cancelled_task_is_cancelled(bench: Bench) -> None:
    code = """
import asyncio
task = asyncio.create_task(odd.hang(key="slow"))
while not await odd.count():
    pass
try:
    await asyncio.wait_for(task, 0.05)
except TimeoutError:
    __out = await calc.add(a=1, b=2)
"""
    assert (await bench.run(code)).value == 3
    assert bench.shelf.cancelled == ["slow"]


@pytest.mark.anyio
async def test_code_can_run_its_own_event_loop(bench: Bench) -> None:
    code = "import asyncio\nasync def main():\n    return await calc.add(a=1, b=2)\n__out = [asyncio.run(main()), asyncio.run(main())]"
    assert (await bench.run(code)).value == [3, 3]


@pytest.mark.anyio
async def test_arguments_are_converted_like_values(bench: Bench) -> None:
    code = "import datetime as d\n__out = await odd.keep(value=(d.date(2024, 2, 29), {1: {2}}))"
    assert (await bench.run(code)).value == ["2024-02-29", {"1": [2]}]
    with pytest.raises(
        CodeError, match=r"^line 1: TypeError: argument 'value'\[0\] is a bytes, which is not JSON"
    ):
        await bench.run("await odd.keep(value=[b'x'])")
    with pytest.raises(CodeError, match="more than the"):
        await bench.run("await odd.keep(value='x' * (12 << 20))")


BROKEN = {
    "gather": "import asyncio\nasyncio.gather = asyncio.wait = asyncio.all_tasks = asyncio.get_running_loop = None",
    "json": "import json\njson.dumps = json.loads = json.JSONEncoder = None",
    "os": "import os\nos.read = os.write = None",
    "streams": "import sys\ndel sys.stdout, sys.stderr",
    "tracebacks": "import traceback, linecache\ntraceback.extract_tb = traceback.walk_tb = None\nlinecache.cache = None",
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", BROKEN)
async def test_code_that_breaks_the_standard_library_affects_only_itself(bench: Bench, name: str) -> None:
    ran = await bench.run(f"{BROKEN[name]}\n__out = await calc.add(a=1, b=2)")
    assert (ran.value, ran.stderr) == (3, "")


@pytest.mark.anyio
async def test_error_is_reported_although_the_code_broke_traceback(bench: Bench) -> None:
    with pytest.raises(CodeError, match="ZeroDivisionError") as caught:
        await bench.run(f"{BROKEN['tracebacks']}\n1 / 0")
    assert "/usr" not in f"{caught.value.result}"


@pytest.mark.anyio
async def test_pending_calls_are_cancelled_although_the_loop_is_closed(bench: Bench) -> None:
    code = """
import asyncio
loop = asyncio.new_event_loop()
task = loop.create_task(odd.hang(key="left"))
async def begun():
    while not await odd.count():
        pass
loop.run_until_complete(begun())
asyncio.get_event_loop().close()
__out = 1
"""
    ran = await bench.run(code)
    assert (ran.value, bench.shelf.cancelled) == (1, ["left"])


@pytest.mark.anyio
async def test_task_that_fails_on_cancellation_is_not_reported(bench: Bench) -> None:
    code = """
import asyncio
async def sulk():
    try:
        await asyncio.sleep(100)
    finally:
        raise ValueError("sulking")
tasks = [asyncio.create_task(sulk()), asyncio.create_task(asyncio.sleep(100))]
await asyncio.sleep(0)
__out = 1
"""
    ran = await bench.run(code)
    assert (ran.value, ran.stderr) == (1, "")


@pytest.mark.anyio
async def test_code_that_breaks_every_builtin_is_stopped(bench: Bench) -> None:
    code = "import builtins\nfor name in ('print', 'isinstance', 'type', 'getattr', 'len'):\n    setattr(builtins, name, None)"
    with pytest.raises(SandboxViolationError, match="without a result, with status 1") as caught:
        await bench.run(f"{code}\n__out = await calc.add(a=1, b=2)")
    assert "/lib" not in f"{caught.value} {caught.value.result}"


@pytest.mark.anyio
async def test_code_that_breaks_the_guest_program_gets_no_internals(bench: Bench) -> None:
    code = "import gc\nfor found in gc.get_objects():\n    if type(found).__name__ == '_Client':\n        type(found).cancel_pending = None"
    with pytest.raises(SandboxViolationError, match="without a result, with status 1") as caught:
        await bench.run(code)
    assert caught.value.result.stderr == ""


@pytest.mark.anyio
async def test_output_without_a_final_line_break_is_kept(bench: Bench) -> None:
    ran = await bench.run("import sys\nprint('a', end='')\nsys.stderr.write('b')\n__out = 1")
    assert (ran.stdout, ran.stderr) == ("a", "b")


@pytest.mark.anyio
async def test_flood_of_output_does_not_block_the_guest(bench: Bench) -> None:
    ran = await bench.run(
        "import os\nfor _ in range(200):\n    os.write(2, b'x' * 100000)\n__out = 1", output_bytes=1000
    )
    assert ran.value == 1
    assert len(ran.stderr) < 1100


@pytest.mark.anyio
async def test_guests_leave_no_groups_and_descriptors(sandbox: ProcessSandbox) -> None:
    await sandbox.warm()  # nothing of that one begins now
    before, files = groups(), descriptors()
    async with ProcessSandbox(warm=2) as other:
        await Bench(other).run("__out = 1")
        await other.warm()
        assert bool(groups() - before) == bool(find_wall().cgroups.parents)
    await until(lambda: groups() <= before and descriptors() <= files)


@pytest.mark.proof
@pytest.mark.anyio
async def test_runs_cancelled_while_guests_boot_leave_nothing_behind(
    sandbox: ProcessSandbox,
) -> None:
    await sandbox.warm()  # nothing of that one begins now
    before, others = groups(), descendants().keys()
    chance = random.Random(7)  # noqa: S311 - moments
    for warm in range(10):
        async with ProcessSandbox(warm=warm % 2) as other:
            for _ in range(2):
                with anyio.move_on_after(chance.uniform(0, 0.1)):
                    await Bench(other).run("__out = 1")
    await until(lambda: groups() <= before and descendants().keys() <= others)


@pytest.mark.anyio
async def test_dead_idle_guest_is_not_used(bench: Bench) -> None:
    sandbox = bench.sandbox
    assert isinstance(sandbox, ProcessSandbox)
    await bench.run("__out = 1")
    await sandbox.warm()
    for pid, name in descendants().items():
        if name.startswith("python"):
            # The guest of the run before may end by itself in this moment.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    await until(lambda: not interpreters())
    assert (await bench.run("__out = 2")).value == 2


@pytest.mark.anyio
@pytest.mark.usefixtures("needs_bubblewrap")
async def test_runs_beyond_the_concurrency_wait() -> None:
    async with ProcessSandbox(warm=0, concurrency=1) as sandbox:
        bench = Bench(sandbox)
        seen = []

        async def one(number: int) -> None:
            seen.append((await bench.run(f"__out = {number}")).value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, "await odd.hang(key='first')")
            await until(lambda: bench.shelf.begun)
            with anyio.move_on_after(0.2):
                await bench.run("__out = 0")
                pytest.fail("two ran at once")
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(one, number)
        assert sorted(seen) == [0, 1, 2]


@pytest.mark.anyio
@pytest.mark.usefixtures("needs_bubblewrap")
async def test_exit_ends_running_code() -> None:
    ended: list[BaseException] = []
    async with anyio.create_task_group() as tasks, ProcessSandbox() as sandbox:
        bench = Bench(sandbox)

        async def run() -> None:
            try:
                await bench.run("await odd.hang(key='left')")
            except RuntimeUnavailableError as error:
                ended.append(error)

        tasks.start_soon(run)
        await until(lambda: bench.shelf.begun)
    assert "it was closed while the code ran" in str(*ended)


@pytest.mark.anyio
@pytest.mark.usefixtures("needs_bubblewrap")
async def test_run_before_entering_raises() -> None:
    limits = Limits()
    job = Job("1", limits, 1.0, "standard", (), FUNCTIONS, Output(limit=1))
    bench = Bench(ProcessSandbox())
    with pytest.raises(RuntimeError, match="enter the sandbox"):
        await bench.sandbox.run(job, Bridge(bench.shelf, None, limits, end=lambda: None))  # type: ignore[arg-type]


@pytest.mark.anyio
@pytest.mark.usefixtures("needs_bubblewrap")
async def test_hardened_profile_needs_a_memory_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = dataclasses.replace(find_wall(), cgroups=Cgroups({}))
    monkeypatch.setattr("toolcrib.runtime.sandboxes.process.sandbox.find_wall", lambda: bare)
    limits = Limits()
    hardened, plain = (
        Job("__out = 1", limits, PATIENCE, profile, (), FUNCTIONS, Output(limit=1))
        for profile in ("hardened", "dev")
    )
    async with ProcessSandbox() as sandbox:
        bench = Bench(sandbox)
        assert sandbox.info().details["profiles"] == ["dev", "standard"]
        assert not sandbox.enforces(limits).pids
        bridge = Bridge(bench.shelf, None, limits, end=lambda: None)  # type: ignore[arg-type]
        with pytest.raises(RuntimeUnavailableError, match="memory cgroup"):
            await sandbox.run(hardened, bridge)
        assert await sandbox.run(plain, bridge) == 1
        with pytest.raises(LimitExceededError, match="memory_bytes"):
            await bench.run("x = []\nwhile True:\n    x.append('y' * 1000000 + str(len(x)))")


@pytest.mark.anyio
async def test_missing_bubblewrap_at_run_time_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for doors in (find_wall().cgroups, Cgroups({})):
        gone = dataclasses.replace(
            find_wall(), bubblewrap=Bubblewrap("/nowhere/bwrap", as_root=False), cgroups=doors
        )
        monkeypatch.setattr("toolcrib.runtime.sandboxes.process.sandbox.find_wall", lambda gone=gone: gone)
        async with ProcessSandbox() as sandbox:
            # A shell puts a guest into its group, and finds no program; where there is none, we do.
            how = "a guest did not start" if doors.parents else "a guest cannot be started"
            with pytest.raises(RuntimeUnavailableError, match=rf"{how} \(.*/nowhere/bwrap"):
                await Bench(sandbox).run("1")
    await until(lambda: all(map(in_use, groups())), "no group is left of the guests that did not start")
    monkeypatch.undo()
    assert (await bench.run("__out = 1")).value


CANNOT = """
import json, os, sys
sys.path.insert(0, {tests!r})
from toolcrib.runtime.sandboxes.process import ProcessSandbox
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.request import Limits
from runtime.workbench import Bench
import anyio

async def remedy(sandbox):
    async with sandbox:
        try:
            await Bench(sandbox).run("1")
        except RuntimeUnavailableError as error:
            return error.remedy

for path, before in {lacks!r}:  # each in a process of its own, which has loaded all this already
    if (child := os.fork()) == 0:
        os.environ["PATH"] = path
        exec(before)
        sandbox = ProcessSandbox()
        info = sandbox.info()
        print(json.dumps([info.to_json(), sandbox.enforces(Limits()).memory, anyio.run(remedy, sandbox)]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.usefixtures("needs_bubblewrap")
def test_unavailable_sandbox_has_a_remedy(tmp_path: Path) -> None:
    failing, tries = tmp_path / "bwrap", tmp_path / "tries"
    failing.write_text(
        f"#!/bin/sh\necho try >> {tries}\necho 'no permissions to create a namespace' >&2\nexit 1\n"
    )
    failing.chmod(0o755)
    usual = os.environ["PATH"]
    no_library = "None if name == 'seccomp' else 'libc.so.6'"
    lacks = {
        "apt install bubblewrap": ("/nowhere", ""),
        "pip install 'toolcrib[code]'": (usual, "sys.modules['pyseccomp'] = None"),
        "libseccomp2": (usual, f"import ctypes.util; ctypes.util.find_library = lambda name: {no_library}"),
        "needs Linux": (usual, "sys.platform = 'darwin'"),
        "user namespaces": (str(tmp_path), ""),
        "cannot reach the interpreter /nowhere/python": (usual, "sys._base_executable = '/nowhere/python'"),
        "cannot be tried here ([Errno 24] Too many open files)": (
            usual,
            "def full(name): raise OSError(24, 'Too many open files')\nos.memfd_create = full",
        ),
    }
    script = CANNOT.format(tests=str(Path(__file__).parents[3]), lacks=list(lacks.values()))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for remedy, line in zip(lacks, ended.stdout.splitlines(), strict=True):
        assert line.count(remedy) == 2, line
        assert '"available": false' in line
    # Of one that fails, the version is asked for once, and each way to make a wall is tried once.
    assert len(tries.read_text().splitlines()) == (3 if os.geteuid() == 0 else 2)


LOCKED = """
import fcntl, os, sqlite3
file = os.open('/usr/lib/os-release', os.O_RDONLY)
def tried(work):
    try:
        return [work()][:0]
    except OSError as error:
        return type(error).__name__
__out = {
    "flock": tried(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)),
    "lease": tried(lambda: fcntl.fcntl(file, 1024, 0)),
    "notify": tried(lambda: fcntl.fcntl(os.open('/usr/lib', os.O_RDONLY), 1026, 2)),
    "pipe size": tried(lambda: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)),
}
fcntl.lockf(file, fcntl.LOCK_SH)
database = sqlite3.connect('/tmp/x.db')
database.execute('create table t (a)')
database.execute('insert into t values (5)')
database.commit()
__out['rows'] = database.execute('select * from t').fetchall()
print('locked', flush=True)
await odd.hang(key='locked')
"""


def is_locked(path: Path) -> bool:
    """Return whether anybody holds a lock of a file."""
    return f":{path.stat().st_ino} " in Path("/proc/locks").read_text()


@pytest.mark.anyio
async def test_guest_cannot_lock_files_of_the_host(bench: Bench) -> None:
    got: list[dict[str, object]] = []

    async def run() -> None:
        got.append((await bench.run(LOCKED.replace("await odd.hang(key='locked')\n", ""))).value)
        await bench.run(LOCKED)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await until(lambda: "locked" in bench.shelf.begun)
        assert not is_locked(Path("/usr/lib/os-release"))
        tasks.cancel_scope.cancel()
    refused = dict.fromkeys(("flock", "lease", "notify", "pipe size"), "PermissionError")
    assert got == [{**refused, "rows": [[5]]}]


@pytest.mark.anyio
async def test_channel_cannot_pass_file_descriptors(bench: Bench) -> None:
    code = """
import os, socket
line = socket.socket(fileno=os.dup(3))
__out = []
for option in range(1, 100):
    for use in (lambda: line.setsockopt(1, option, bytes(16)), lambda: line.getsockopt(1, option, 64)):
        try:
            use()
        except PermissionError:
            continue
        except OSError:
            pass
        __out.append(option)
"""
    assert (await bench.run(code)).value == [3, 4, 38, 39]


OUT_OF_BAND = """
import os, socket
one, other = socket.socketpair()
__out = []
for end in (one, socket.socket(fileno=os.dup(3))):
    for call in (lambda: end.send(b"!", socket.MSG_OOB), lambda: end.recv(1, socket.MSG_OOB)):
        try:
            __out.append(call())
        except OSError as error:
            __out.append(error.errno)
one.send(b"plain", socket.MSG_NOSIGNAL)
__out.append(other.recv(9, socket.MSG_DONTWAIT).decode())
"""


@pytest.mark.anyio
async def test_out_of_band_bytes_are_refused_and_others_pass(bench: Bench) -> None:
    assert (await bench.run(OUT_OF_BAND)).value == [*[errno.EPERM] * 4, "plain"]


@pytest.mark.anyio
async def test_guest_cannot_change_devices_of_the_host(bench: Bench) -> None:
    before = os.stat("/dev/zero")  # noqa: PTH116 - does not block
    code = "import os, pathlib, shutil\nos.utime('/dev/zero')\nopen('/dev/null', 'w').write('x')\npathlib.Path('/tmp/a').write_text('x')\nshutil.copy2('/tmp/a', '/tmp/b')\n__out = open('/tmp/b').read()"
    assert (await bench.run(code)).value == "x"
    after = os.stat("/dev/zero")  # noqa: PTH116 - does not block
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)


HUGE = {
    "a value": ("__out = {'a': [10**5000]}", r"__out\['a'\]\[0\] is an integer of more than 4,300 digits"),
    "a key": ("__out = {10**5000: 1}", "a key of __out is an integer of more than 4,300 digits"),
    "an argument": ("await odd.hang(key=-10**5000)", "TypeError: argument 'key' is an integer of more than"),
    "many values": ("await odd.hang(key=[0] * 60_000)", "ValueError: arguments hold more than 50,000 values"),
    "a large argument": ("await odd.hang(key='x' * 1_200_000)", "ValueError: .* bytes of JSON are more than"),
    "a long name": ("await getattr(odd, 'x' * 1000)()", "AttributeError: x{150}$"),
    "a namespace": ("await odd(key=1)", "TypeError: 'odd' is a namespace: call one of its tools"),
}


@pytest.mark.anyio
@pytest.mark.attack
@pytest.mark.parametrize(
    "unlimited", ["", "import sys; sys.set_int_max_str_digits(0)\n"], ids=["", "unlimited"]
)
@pytest.mark.parametrize("name", HUGE)
async def test_argument_that_is_not_json_is_a_mistake_of_the_code(
    bench: Bench, name: str, unlimited: str
) -> None:
    code, said = HUGE[name]
    with pytest.raises(CodeError, match=said):
        await bench.run(unlimited + code)


@pytest.mark.anyio
async def test_error_column_counts_characters(bench: Bench) -> None:
    with pytest.raises(CodeError) as caught:
        await bench.run("x = 'äöü€😀'; y = 1 / 0")
    assert (caught.value.line, caught.value.column) == (1, 18)


@pytest.mark.anyio
async def test_byte_order_mark_is_ignored(bench: Bench) -> None:
    assert (await bench.run("\ufeff__out = 1")).value == 1


@pytest.mark.anyio
async def test_limits_larger_than_the_machine_are_capped(bench: Bench) -> None:
    limits = Limits.from_valid(cpu=1e300, memory_bytes=1 << 70, disk_bytes=1 << 70)
    job = Job(
        "open('/tmp/x', 'w').write('x')\n__out = 1", limits, 30.0, "standard", (), FUNCTIONS, Output(limit=9)
    )
    bridge = Bridge(bench.shelf, None, limits, end=lambda: None)  # type: ignore[arg-type]
    assert await bench.sandbox.run(job, bridge) == 1


@pytest.mark.anyio
async def test_tool_that_ignores_cancellation_keeps_no_guest_alive(sandbox: ProcessSandbox) -> None:
    code = "import asyncio\nasyncio.create_task(odd.hang(key='on'))\nwhile True:\n    print('.', flush=True)\n    await asyncio.sleep(0.01)"
    await sandbox.warm()  # nothing of that one begins now
    before = descendants().keys()
    async with ProcessSandbox(warm=0) as other:
        bench = Bench(other)
        with pytest.raises(LimitExceededError):
            await bench.run(code, timeout=0.05, since=lambda _: bench.shelf.begun)
        await until(lambda: descendants().keys() <= before)

"""The sandbox without a wall: it warns, enforces the limits it can, and leaves no processes behind."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from contracts.sandbox import alive
from runtime.workbench import Bench, descendants, descriptors
from waiting import PATIENCE, until

from toolcrib.errors import CodeError, LimitExceededError, RuntimeUnavailableError
from toolcrib.runtime import Bridge, Job, Limits, Output, Sandbox
from toolcrib.runtime.sandboxes.unsafe import UnsafeSandbox, UnsafeSandboxWarning
from toolcrib.runtime.stubs.guest import FUNCTIONS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


async def run(
    sandbox: Sandbox, code: str, profile: str = "dev", output: Output | None = None, **limits: float
) -> object:
    bench = Bench(sandbox)
    bounds = Limits(**limits)  # type: ignore[arg-type]
    bridge = Bridge(bench.shelf, None, bounds, end=lambda: None)  # type: ignore[arg-type]
    job = Job(code, bounds, PATIENCE, profile, (), FUNCTIONS, output or Output(limit=1000))  # type: ignore[arg-type]
    with anyio.fail_after(PATIENCE), pytest.warns(UnsafeSandboxWarning, match="without a sandbox"):
        return await sandbox.run(job, bridge)


@pytest.fixture
async def sandbox() -> AsyncIterator[UnsafeSandbox]:
    async with UnsafeSandbox() as made:
        yield made


@pytest.mark.anyio
async def test_unsafe_info_has_no_isolation(sandbox: UnsafeSandbox) -> None:
    info = sandbox.info()
    wall = {"available": True, "isolation": [], "profiles": ["dev"]}
    assert info.details == {**wall, "language": "Python", "host_uid": os.geteuid(), "cgroup": False}
    enforced = sandbox.enforces(Limits())
    assert (enforced.timeout, enforced.output, enforced.memory, enforced.disk) == (True, True, False, False)


@pytest.mark.anyio
async def test_unsafe_warns_at_each_run(sandbox: UnsafeSandbox) -> None:
    for number in range(2):
        assert await run(sandbox, f"__out = {number}") == number


@pytest.mark.anyio
async def test_unsafe_guest_has_no_environment_and_a_temporary_folder(
    sandbox: UnsafeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "sesame")
    found = await run(
        sandbox, "import os\nopen('x', 'w').write('x')\n__out = [dict(os.environ), os.getcwd()]"
    )
    assert isinstance(found, list)
    assert found[0] == {}
    assert not os.path.exists(found[1])  # noqa: ASYNC240, PTH110 - a glance


@pytest.mark.anyio
async def test_processes_of_the_guest_end_with_the_run(sandbox: UnsafeSandbox) -> None:
    before = descendants()
    code = "import subprocess\n__out = subprocess.Popen(['sleep', '1000']).pid"
    pid = await run(sandbox, code.replace("'sleep'", "'/bin/sleep'"))
    assert isinstance(pid, int)
    await until(lambda: not alive(pid))
    assert pid not in before


@pytest.mark.anyio
async def test_unsafe_limits_stop_mistakes(sandbox: UnsafeSandbox) -> None:
    with pytest.raises(LimitExceededError) as caught:
        await run(sandbox, "x = 'y' * (4 << 30)")
    assert caught.value.limit == "memory_bytes"
    with pytest.raises(LimitExceededError) as caught:
        await run(sandbox, "while True:\n    pass", cpu=0.5)
    assert caught.value.limit == "cpu"
    with pytest.raises(CodeError, match="ZeroDivisionError"):
        await run(sandbox, "1 / 0")


@pytest.mark.anyio
async def test_unsafe_refuses_every_profile_but_dev(sandbox: UnsafeSandbox) -> None:
    with pytest.raises(RuntimeUnavailableError, match="'dev' profile alone"):
        await run(sandbox, "1", profile="standard")


@pytest.mark.anyio
async def test_failed_start_of_the_interpreter_is_reported(
    sandbox: UnsafeSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await run(sandbox, "1")
    files = descriptors()
    monkeypatch.setattr("sys._base_executable", str(tmp_path / "missing"))
    with pytest.raises(RuntimeUnavailableError, match="cannot be started"):
        await run(sandbox, "1")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'it is broken' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys._base_executable", str(broken))
    with pytest.raises(RuntimeUnavailableError, match="it is broken"):
        await run(sandbox, "1")
    assert descriptors() <= files


@pytest.mark.anyio
async def test_exit_ends_running_code() -> None:
    before = descendants().keys()
    sandbox, output, ended = UnsafeSandbox(), Output(limit=100), []

    async def killed() -> None:
        with pytest.raises(RuntimeUnavailableError, match="closed while the code ran"):
            await run(sandbox, "import time\nprint('up')\ntime.sleep(1000)", output=output)
        ended.append(True)

    async with anyio.create_task_group() as tasks:
        async with sandbox:
            tasks.start_soon(killed)
            await until(lambda: output.text("stdout"))
        await until(lambda: ended)
    assert [
        name for pid, name in descendants().items() if pid not in before and name.startswith("python")
    ] == []


@pytest.mark.anyio
async def test_missing_temporary_folder_is_reported(
    sandbox: UnsafeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with pytest.raises(RuntimeUnavailableError, match="temporary folder"):
        await run(sandbox, "1")


@pytest.mark.anyio
async def test_limits_larger_than_the_machine_are_capped(sandbox: UnsafeSandbox) -> None:
    limits = Limits.from_valid(cpu=1e300, memory_bytes=1 << 70, disk_bytes=1 << 70)
    bridge = Bridge(Bench(sandbox).shelf, None, limits, end=lambda: None)  # type: ignore[arg-type]
    job = Job("__out = 1", limits, PATIENCE, "dev", (), FUNCTIONS, Output(limit=1000))
    with pytest.warns(UnsafeSandboxWarning):
        assert await sandbox.run(job, bridge) == 1

"""The life of the sandbox: its workers come when they are needed, and go."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from contracts.sandbox import alive
from runtime.sandboxes.monty.guests import Guests, guests, workers
from runtime.workbench import descendants, descriptors
from waiting import until, wait_until

from toolcrib.errors import LimitExceededError, RuntimeUnavailableError, SandboxViolationError
from toolcrib.runtime import Limits, LimitsEnforced
from toolcrib.runtime.sandboxes.monty import MontySandbox

BUSY = "print('busy')\nwhile True:\n    pass"


def folders() -> set[str]:
    """Return the folders of this process: those beside it may come and go."""
    return {entry.name for entry in Path(tempfile.gettempdir()).glob(f"toolcrib-monty-*-{os.getpid()}-*")}


@pytest.mark.anyio
async def test_workers_start_with_the_first_run_and_end_with_the_sandbox() -> None:
    before, open_before, others = folders(), descriptors(), set(descendants())
    async with guests() as box:
        assert not workers()
        assert await box.run("__out = 1") == 1
        assert len(workers()) == 1
        assert await box.run("__out = 2") == 2
        assert len(workers()) == 1
    await until(lambda: not descendants().keys() - others)
    assert not folders() - before
    await until(lambda: descriptors() <= open_before + 8)  # the engine keeps its own event queue


@pytest.mark.anyio
async def test_sandbox_runs_only_while_open_and_can_be_reopened() -> None:
    sandbox = MontySandbox(bubblewrap=False)
    box = Guests(sandbox)
    with pytest.raises(RuntimeUnavailableError, match="not open"):
        await box.run("__out = 1")
    for _ in range(2):
        async with sandbox:
            assert await box.run("__out = 1") == 1
    with pytest.raises(RuntimeUnavailableError, match="not open"):
        await box.run("__out = 1")


@pytest.mark.anyio
async def test_sandbox_can_be_exited_in_another_task_during_a_run() -> None:
    sandbox = MontySandbox()
    ended: list[str] = []

    async def busy(code: str) -> None:
        box = Guests(sandbox)
        with pytest.raises(RuntimeUnavailableError, match="closed"):
            await box.run(code)
        ended.append(code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sandbox.__aenter__)
        await until(lambda: sandbox._open)
        tasks.start_soon(busy, BUSY)
        tasks.start_soon(busy, "await box.hang()")
        await until(lambda: len(workers()) == 2)
        await sandbox.__aexit__(None, None, None)
        await until(lambda: not workers())
    assert len(ended) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("bubblewrap", [False, None])
async def test_cancelled_run_kills_its_busy_worker(bubblewrap: bool | None) -> None:
    async with guests(bubblewrap=bubblewrap) as box:
        assert await box.run("__out = 1") == 1
        (worker,) = workers()
        with pytest.raises(LimitExceededError, match="deadline"):
            await box.run(BUSY, timeout=0.05, since=lambda: box.output.text("stdout"))
        assert box.output.text("stdout") == "busy\n"
        await until(lambda: worker not in workers())
        assert await box.run("__out = 1") == 1


@pytest.mark.anyio
async def test_run_can_be_cancelled_at_any_moment() -> None:
    for wait in (0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.05):
        async with guests() as box:
            for _ in range(3):
                with anyio.move_on_after(wait):
                    await box.run("import time\ntime.sleep(0.01)\n__out = 1")
            assert await box.run("__out = 1") == 1


@pytest.mark.anyio
async def test_runs_beyond_the_workers_wait_and_can_be_cancelled() -> None:
    values: list[Any] = []
    async with guests(bubblewrap=False, workers=2) as box, anyio.create_task_group() as tasks:

        async def one(number: int) -> None:
            values.append(await Guests(box.sandbox).run(f"import time\ntime.sleep(0.01)\n__out = {number}"))

        for number in range(6):
            tasks.start_soon(one, number)
        with anyio.move_on_after(0.001):
            await box.run("__out = 1")
        await until(lambda: len(values) == 6)
        assert len(workers()) == 2
    assert sorted(values) == list(range(6))


@pytest.mark.anyio
async def test_runs_do_not_block_the_event_loop(bare: Guests) -> None:
    for code in (BUSY, "import time\nprint('asleep')\ntime.sleep(100)"):
        with pytest.raises(LimitExceededError, match="deadline"):  # which the event loop sets meanwhile
            await bare.run(code, timeout=0.05, since=lambda: bare.output.text("stdout"))


@pytest.mark.anyio
async def test_dead_idle_worker_is_replaced(box: Guests) -> None:
    assert await box.run("__out = 1") == 1
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    await until(lambda: not workers())
    for _ in range(3):
        try:
            assert await box.run("__out = 2") == 2
            break
        except (LimitExceededError, SandboxViolationError, RuntimeUnavailableError):
            continue
    assert await box.run("__out = 3") == 3


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGKILL, LimitExceededError), (signal.SIGILL, SandboxViolationError)]
)
async def test_dead_worker_ends_its_run(
    box: Guests, number: signal.Signals, expected: type[Exception]
) -> None:
    async def kill() -> None:
        await until(workers)
        killed = workers()
        for worker in killed:
            os.kill(worker, number)
        await until(lambda: not any(map(alive, killed)))

    killing = Guests(box.sandbox, kill=kill)
    with pytest.raises(expected, match="worker"):
        await killing.run("await box.kill()\nawait box.echo()")
    assert await box.run("__out = 1") == 1


@pytest.mark.anyio
async def test_failed_worker_start_is_reported_and_retried_by_the_next_run() -> None:
    before = folders()
    async with guests(bubblewrap=False) as box:
        assert await box.run("__out = 1") == 1
        for folder in folders() - before:
            shutil.rmtree(Path(tempfile.gettempdir()) / folder)
        with pytest.raises(LimitExceededError):
            await box.run(BUSY, timeout=0.05, since=lambda: box.output.text("stdout"))
        await until(lambda: not workers())
        async with anyio.create_task_group() as tasks:

            async def refused() -> None:
                with pytest.raises(RuntimeUnavailableError, match="does not start"):
                    await Guests(box.sandbox).run("__out = 1")

            tasks.start_soon(refused)
            tasks.start_soon(refused)
        assert await box.run("__out = 2") == 2


@pytest.mark.anyio
async def test_sandbox_without_a_temporary_folder_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    async with guests(bubblewrap=False) as box:
        with pytest.raises(RuntimeUnavailableError, match="does not start"):
            await box.run("__out = 1")
        monkeypatch.undo()
        assert await box.run("__out = 1") == 1


@pytest.mark.anyio
async def test_hardened_profile_is_refused_without_bubblewrap(bare: Guests) -> None:
    assert "hardened" not in bare.sandbox.info().details["profiles"]
    with pytest.raises(RuntimeUnavailableError, match="'hardened' needs bubblewrap"):
        await bare.run("__out = 1", profile="hardened")


@pytest.mark.usefixtures("needs_bubblewrap")
def test_info_describes_the_sandbox() -> None:
    info = MontySandbox().info()
    assert (info.kind, info.readiness) == ("monty", "beta")
    assert info.details["isolation"] == ["bubblewrap", "seccomp", "interpreter"]
    assert info.details["profiles"] == ["dev", "standard", "hardened"]
    assert "remedy" not in info.details
    enforced = MontySandbox().enforces(Limits())
    assert all(getattr(enforced, name) for name in LimitsEnforced.model_fields)
    bare = MontySandbox(bubblewrap=False).info()
    assert bare.details["isolation"] == ["interpreter"]
    assert "remedy" not in bare.details


@pytest.mark.anyio
async def test_guest_has_no_files_and_an_empty_environment(box: Guests) -> None:
    assert await box.run(
        "import os\n__out = [dict(os.environ), os.getenv('PATH'), os.getenv('PATH', 'x')]"
    ) == [{}, None, "x"]
    code = "try:\n    open('/etc/passwd')\nexcept PermissionError as e:\n    __out = str(e)"
    assert "Permission denied" in await box.run(code)


@pytest.mark.anyio
async def test_output_is_kept_up_to_the_limit(bare: Guests) -> None:
    assert await bare.run("import sys\nprint('x' * 5000)\nprint('e', file=sys.stderr)\n__out = 1") == 1
    assert bare.output.text("stdout").endswith("[4,001 more bytes were printed]")
    assert bare.output.text("stderr") == "e\n"


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False
    )


def test_missing_bubblewrap_has_a_remedy(tmp_path: Path) -> None:
    code = """
import json
from toolcrib.runtime.sandboxes.monty import MontySandbox
from toolcrib.runtime.request import Limits
strict = MontySandbox(bubblewrap=True)
enforced = strict.enforces(Limits()).to_json()
print(json.dumps([MontySandbox().info().to_json(), strict.info().to_json(), enforced]))
"""
    usual, strict, enforced = json.loads(child(code, PATH=str(tmp_path)).stdout)
    assert usual["details"]["available"]
    assert usual["details"]["isolation"] == ["interpreter"]
    assert usual["details"]["profiles"] == ["dev", "standard"]
    assert "apt install bubblewrap" in usual["details"]["remedy"]
    assert not strict["details"]["available"]
    assert "apt install bubblewrap" in strict["details"]["remedy"]
    assert strict["details"]["profiles"] == []
    assert not any(enforced.values())


def test_missing_engine_has_a_remedy() -> None:
    code = """
import sys, json, anyio
sys.modules["pydantic_monty"] = None
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.monty import MontySandbox
async def main():
    async with MontySandbox() as sandbox:
        try:
            await sandbox.run(None, None)
        except RuntimeUnavailableError as error:
            print(json.dumps([sandbox.info().details["available"], str(error)]))
anyio.run(main)
"""
    done = child(code)
    available, said = json.loads(done.stdout or done.stderr)
    assert not available
    assert "pip install 'toolcrib[code]'" in said


@pytest.mark.proof
def test_missing_worker_binary_has_a_remedy() -> None:
    code = """
import pydantic_monty._binary as binary
def missing(explicit=None):
    raise FileNotFoundError
binary.find_monty_binary = missing
from toolcrib.runtime.sandboxes.monty import MontySandbox
print(MontySandbox().info().details["remedy"])
"""
    assert "pip install 'toolcrib[code]'" in child(code).stdout


@pytest.mark.proof
def test_broken_worker_binary_is_unavailable() -> None:
    code = """
import anyio
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.monty import MontySandbox
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import Output
from toolcrib.runtime.request import Limits, SecurityProfile
job = Job("1", Limits(), 5.0, SecurityProfile.DEV, (), (), Output(limit=1))
async def main():
    async with MontySandbox(bubblewrap=False) as sandbox:
        try:
            await sandbox.run(job, None)
        except RuntimeUnavailableError as error:
            print(error)
anyio.run(main)
"""
    assert "does not start" in child(code, MONTY_BIN="/bin/false").stdout


@pytest.mark.proof
def test_import_loads_no_extra() -> None:
    code = "import sys, toolcrib.runtime.sandboxes.monty\nprint({'pydantic_monty', 'pyseccomp'} & sys.modules.keys())"
    assert child(code).stdout.strip() == "set()"


ENDING = """
import anyio
from runtime.sandboxes.monty.guests import guests
async def main():
    async with guests(bubblewrap=False) as box:
        await box.run("__out = 1")
anyio.run(main)
"""


@pytest.mark.proof
def test_process_exits_cleanly_right_after_a_run() -> None:
    here = str(Path(__file__).parents[3])
    for _ in range(2):
        done = child(ENDING, PYTHONPATH=here)
        assert (done.returncode, done.stderr) == (0, "")


KILLED = """
import anyio, json
from runtime.sandboxes.monty.guests import guests
from runtime.workbench import descendants
from waiting import until
async def main():
    async with guests(bubblewrap={bubblewrap}) as box, anyio.create_task_group() as tasks:
        tasks.start_soon(box.run, "print('busy')\\nwhile True:\\n    pass")
        await until(lambda: box.output.text("stdout"))
        print(json.dumps(list(descendants())), flush=True)
anyio.run(main)
"""


@pytest.mark.parametrize("bubblewrap", [pytest.param(False, marks=pytest.mark.proof), None])
def test_busy_guests_die_with_a_killed_host(bubblewrap: bool | None) -> None:
    here = str(Path(__file__).parents[3])
    code = KILLED.format(bubblewrap=bubblewrap)
    given = {**os.environ, "PYTHONPATH": here}
    with subprocess.Popen([sys.executable, "-c", code], env=given, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        left = json.loads(host.stdout.readline())
        host.kill()
    assert left
    wait_until(lambda: not any(map(alive, left)))

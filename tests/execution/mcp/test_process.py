import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.support import DAEMONISES
from servers.launch import alive
from waiting import PATIENCE, until

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.transport.environment import server_environment
from toolcrib.execution.mcp.transport.process import ServerProcess, StderrTail, why_not_started

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="signals and groups are POSIX"),
]

READS_UNTIL_THE_END = "import sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.read()"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
STARTS_ANOTHER = (
    "import subprocess, sys\n"
    "other = subprocess.Popen([sys.executable, '-S', '-c', {other!r}], stdout=subprocess.PIPE)\n"
    "other.stdout.readline()\n"
    "print(other.pid, flush=True)\n"
    "{then}\n"
)


def python(program: str, **settings: Any) -> ServerConfig:
    return ServerConfig(command=sys.executable, args=["-S", "-c", program], **settings)


async def start(config: ServerConfig) -> ServerProcess:
    with anyio.fail_after(PATIENCE):
        return await ServerProcess.start(config, name="it")


async def first_line(process: ServerProcess) -> str:
    with anyio.fail_after(PATIENCE):
        return (await process.stdout.receive()).decode().strip()


async def test_a_server_that_ends_with_its_input_is_stopped_at_once() -> None:
    process = await start(python(READS_UNTIL_THE_END))
    assert await first_line(process) == "up"
    with anyio.fail_after(PATIENCE):
        await process.stop(grace=PATIENCE)
    assert await process.exited() == "it exited with status 0"


async def test_a_server_that_heeds_nothing_is_killed() -> None:
    process = await start(python(DEAF))
    await first_line(process)
    with anyio.fail_after(PATIENCE):
        await process.stop(grace=0.01)
        assert await process.exited() == "it was ended by SIGKILL"


@pytest.mark.parametrize("then", ["sys.exit(0)", "sys.stdin.read()", "import time; time.sleep(600)"])
async def test_processes_started_by_a_server_are_stopped_with_it(then: str) -> None:
    process = await start(python(STARTS_ANOTHER.format(other=DEAF, then=then)))
    other = int(await first_line(process))
    with anyio.fail_after(PATIENCE):
        await process.stop(grace=0.05)
    await until(lambda: not alive(other))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "other", ["import time; time.sleep(600)", DEAF.replace("print", "str")], ids=["heeds", "deaf"]
)
@pytest.mark.parametrize("then", ["sys.exit(0)", "sys.stdin.read()", "import time; time.sleep(600)"])
async def test_a_daemon_that_a_server_started_is_stopped_with_it_and_no_other_is(
    then: str, other: str
) -> None:
    bystander = await start(
        python(DAEMONISES.format(other="import time; time.sleep(600)", then="sys.stdin.read()"))
    )
    spared = int(await first_line(bystander))
    process = await start(python(DAEMONISES.format(other=other, then=then)))
    daemon = int(await first_line(process))
    assert os.getpgid(daemon) != process.pid
    with anyio.fail_after(PATIENCE):
        await process.stop(grace=0.05)
    await until(lambda: not alive(daemon))
    assert alive(spared)
    await bystander.stop()
    await until(lambda: not alive(spared))


async def test_stopping_cannot_be_cancelled_and_may_be_repeated() -> None:
    process = await start(python(DEAF))
    await first_line(process)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await process.stop(grace=0.01)
    await until(lambda: not alive(process.pid))
    with anyio.fail_after(PATIENCE):
        await process.stop()


async def test_starting_cannot_be_cancelled_halfway() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        process = await ServerProcess.start(python(READS_UNTIL_THE_END), name="it")
    assert alive(process.pid)
    await process.stop()


async def test_the_exit_is_seen_though_a_grandchild_holds_the_pipes() -> None:
    program = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']); sys.exit(4)"
    process = await start(python(program))
    with anyio.fail_after(PATIENCE):
        assert await process.exited() == "it exited with status 4"
        await process.stop()


async def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    process = await start(python(f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 1})"))
    with anyio.fail_after(PATIENCE):
        assert await process.exited() == f"it was ended by signal {signal.SIGRTMIN + 1}"
        await process.stop()


async def test_standard_error_is_kept_until_it_closes() -> None:
    process = await start(python("import sys; sys.stderr.write('x' * 100_000 + '\\nlast words\\n')"))
    tail = StderrTail()
    with anyio.fail_after(PATIENCE):
        await process.keep_stderr(tail)
        await process.stop()
    assert tail.text() == "last words"


async def test_a_server_leads_a_group_and_a_session_of_its_own() -> None:
    process = await start(
        python("import os; print(os.getpid(), os.getpgid(0), os.getsid(0), flush=True); input()")
    )
    assert await first_line(process) == f"{process.pid} {process.pid} {process.pid}"
    await process.stop()


async def test_a_server_runs_where_it_is_told_with_what_it_is_told(tmp_path: Path) -> None:
    program = "import os; print(os.getcwd(), os.environ['TOKEN'], 'PYTEST_CURRENT_TEST' in os.environ, flush=True); input()"
    process = await start(python(program, cwd=str(tmp_path), env={"TOKEN": "t"}))
    assert await first_line(process) == f"{tmp_path} t False"
    await process.stop()


def test_a_server_inherits_no_secrets() -> None:
    environ = {"PATH": "/bin", "HOME": "/h", "SHELL": "() { :; }", "OPENAI_API_KEY": "s"}
    assert server_environment(environ, {"A": "1", "HOME": "/x"}) == {"PATH": "/bin", "HOME": "/x", "A": "1"}


def test_a_known_program_that_is_missing_is_told_how_to_install() -> None:
    reason = why_not_started(FileNotFoundError(), "uvx", None, ServerConfig(command="uvx"))
    assert reason == "there is no program 'uvx' on the PATH; install uv, which includes uvx: pip install uv"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": "uvxx"}, "there is no program 'uvxx' on the PATH; did you mean 'uvx'?"),
        ({"command": "no-such-program"}, "there is no program 'no-such-program' on the PATH; install it"),
        ({"command": "/no/such/program"}, "there is no program '/no/such/program'; install it"),
        (
            {"command": "npx -y server"},
            "there is no program 'npx -y server'; put what follows the program into 'args'",
        ),
        ({"command": "{tmp}/text"}, "may not be executed; make it executable"),
        ({"command": "{tmp}/lost"}, "names an interpreter in its first line that does not exist"),
        ({"command": "{tmp}/odd"}, "cannot be started: Exec format error"),
        (
            {"command": "sh", "cwd": "{tmp}/none"},
            "its working directory '{tmp}/none' does not exist; create it",
        ),
        ({"command": "~no-such-user/x"}, "there is no program '~no-such-user/x'; install it"),
    ],
)
async def test_failed_start_gives_the_reason(settings: dict[str, str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for name, content in [("lost", "#!/no/such/interpreter\n"), ("odd", "\x7fELFodd")]:
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    filled = {key: value.replace("{tmp}", str(tmp_path)) for key, value in settings.items()}
    with pytest.raises(ServerUnavailableError) as caught:
        await ServerProcess.start(ServerConfig(**filled), name="broken")
    assert caught.value.server == "broken"
    assert reason.replace("{tmp}", str(tmp_path)) in caught.value.reason
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_home_directory_may_be_written_as_a_tilde() -> None:
    process = await start(python("import os; print(os.getcwd(), flush=True); input()", cwd="~"))
    assert await first_line(process) == os.environ["HOME"]
    await process.stop()

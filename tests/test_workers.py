"""The suites run in workers: nothing that a test says is lost, nor that it ended with its worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from waiting import wait_until

COMMAND = [sys.executable, "-m", "pytest", "-p", "workers", "--workers=2", "-p", "no:cacheprovider"]
FAILING = """
    import os

    def test_that_passes(tmp_path):
        (tmp_path / "file").touch(exist_ok=False)

    def test_that_fails():
        print("printed")
        os.write(2, b"written")
        raise AssertionError
"""
DEADLY = """
    import os

    def test_that_passes(tmp_path):
        (tmp_path / "file").touch(exist_ok=False)

    def test_that_ends_its_worker():
        os._exit({status})

    def test_that_comes_after_it():
        pass
"""
CLOSING = """
    import pytest

    @pytest.fixture(scope="session")
    def held():
        yield
        raise RuntimeError("it does not close")

    def test_that_passes(held):
        pass
"""
LEAVING = """
    import atexit, pathlib, time

    def leave():
        time.sleep(1)
        pathlib.Path(__file__).with_name("left").touch()

    def test_that_passes():
        atexit.register(leave)
"""
WAITING = """
    import pathlib, pytest, time

    @pytest.fixture(scope="session")
    def held():
        yield
        time.sleep(1)
        pathlib.Path(__file__).with_suffix(".closed").touch()

    def test_that_waits(held):
        pathlib.Path(__file__).with_suffix(".waits").touch()
        time.sleep({seconds})
"""


def started(folder: Path, **suite: str) -> subprocess.Popen[str]:
    """Start a suite of some files in a session of its own, as a shell does."""
    for name, text in suite.items():
        (folder / f"test_{name}.py").write_text(dedent(text))
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(
        [*COMMAND, "--basetemp", str(folder / "temporary")], cwd=folder, env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def test_what_a_failing_test_wrote_is_shown_with_it(tmp_path: Path) -> None:
    output, _ = started(tmp_path, failing=FAILING, other="def test_that_passes(): pass").communicate()
    assert "1 failed, 2 passed" in output
    assert "Captured stdout call" in output
    assert "\nprinted\n" in output
    assert "\nwritten\n" in output


@pytest.mark.parametrize("status", [0, 3])
def test_a_test_that_ends_its_worker_has_failed_and_so_have_those_after_it(
    tmp_path: Path, status: int
) -> None:
    suite = started(tmp_path, deadly=DEADLY.format(status=status), failing=FAILING)
    output, _ = suite.communicate()
    assert suite.returncode == 1
    assert "3 failed, 2 passed" in output
    crash = f"A worker exited with {status} in test_deadly.py::test_that_ends_its_worker."
    assert f"\n{crash}\n" in output
    assert f"\nIt was not run: {crash}\n" in output


def test_a_worker_that_dies_after_its_last_test_fails_the_suite(tmp_path: Path) -> None:
    dying = CLOSING.replace("raise RuntimeError", "os._exit(3), print").replace("import", "import os,")
    suite = started(tmp_path, dying=dying, other="def test_that_passes(): pass")
    output, _ = suite.communicate()
    assert suite.returncode == 1
    assert "2 passed, 1 error" in output
    assert "\nA worker exited with 3 in test_" in output


def test_what_fails_when_the_last_test_is_over_is_reported_too(tmp_path: Path) -> None:
    suite = started(tmp_path, closing=CLOSING, other="def test_that_passes(): pass")
    output, _ = suite.communicate()
    assert suite.returncode == 1
    assert "2 passed, 1 error" in output
    assert "ERROR at teardown of test_that_passes" in output
    assert "it does not close" in output


def test_a_worker_does_at_its_exit_what_its_tests_registered(tmp_path: Path) -> None:
    suite = started(tmp_path, leaving=LEAVING, other="def test_that_passes(): pass")
    output, _ = suite.communicate()
    assert suite.returncode == 0
    assert (tmp_path / "left").exists()
    assert "Traceback" not in output


def test_the_first_failure_ends_the_suite_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --exitfirst")
    output, _ = started(tmp_path, failing=FAILING, waiting=WAITING.format(seconds=600)).communicate()
    assert "stopping after 1 failures" in output


@pytest.mark.parametrize(("ending", "seconds"), [(signal.SIGINT, 600), (signal.SIGKILL, 1)])
def test_no_worker_outlives_an_interrupted_suite(
    tmp_path: Path, ending: signal.Signals, seconds: int
) -> None:
    waiting = WAITING.format(seconds=seconds)
    suite = started(tmp_path, one=waiting, two=waiting)
    for name in ("one", "two"):
        wait_until((tmp_path / f"test_{name}.waits").exists, "both workers are in a test")
    if ending is signal.SIGINT:
        os.killpg(suite.pid, ending)  # as a terminal does
    else:
        suite.kill()
    output, _ = suite.communicate()  # until no process has its output open
    assert suite.returncode == (pytest.ExitCode.INTERRUPTED if ending is signal.SIGINT else -ending)
    assert (tmp_path / "test_one.closed").exists()
    assert (tmp_path / "test_two.closed").exists()
    assert "Traceback" not in output

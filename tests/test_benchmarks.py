"""Every benchmark runs; its measurements are on the pages that it writes."""

import subprocess
import sys
from pathlib import Path

import pytest
from needs import bubblewrap_works, lack
from servers.launch import npm_tool

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


def run(root: Path, name: str, *more: str) -> str:
    command = [sys.executable, str(root / "benchmarks" / f"{name}.py"), "--quick", *more]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_the_cost_of_importing_is_measured(root: Path) -> None:
    assert "import toolcrib" in run(root, "import_time")


def test_calls_are_measured(root: Path) -> None:
    assert "CPU µs per call" in run(root, "execution")


def test_the_console_is_measured(root: Path) -> None:
    assert "stored calls" in run(root, "console_figures")


def test_code_is_measured(root: Path) -> None:
    if not bubblewrap_works():
        lack("bubblewrap")
    assert "What a model reads and writes" in run(root, "code_mode")


def test_workers_and_stores_are_measured(root: Path) -> None:
    assert "4 workers, stateless" in run(root, "scale")


def test_durable_runs_on_temporal_are_measured(root: Path) -> None:
    assert "until another one repeats the step" in run(root, "temporal")


def test_the_gateway_is_measured(root: Path) -> None:
    npm_tool("mcp-proxy")  # a contender
    assert "toolcrib" in run(root, "gateway")


@pytest.mark.parametrize(
    "command",
    [
        *(["validation"], ["adapters"], ["learning"], ["search_sizes"]),
        ["discovery", "--only", "toolcrib, words alone"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("public_data")
def test_benchmarks_on_public_data_run(root: Path, command: list[str]) -> None:
    assert "toolcrib" in run(root, *command)

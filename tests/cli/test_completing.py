"""Shell completion of names, from the configuration and earlier listings."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "toolcrib.cli"]
BASH = """
source <(printf '%s' "$SCRIPT")
toolcrib() { "$PYTHON" -m toolcrib.cli "$@"; }
COMP_WORDS=("$@") COMP_CWORD=$(( $# - 1 ))
_toolcrib_completion toolcrib
printf '%s\\n' "${COMPREPLY[@]}"
"""
HEAVY = ("pydantic", "mcp", "anyio", "rich", "numpy", "toolcrib.crib", "toolcrib.model", "toolcrib.discovery")


@pytest.fixture
def listed(config: Any, little: Any, toolcrib: Any, tmp_path: Path) -> str:
    """Return a configuration in force whose servers have listed their tools, and cannot be started again."""
    path = Path(config(near=little("holding"), narrow=little("holding")))
    document = json.loads(path.read_text()) | {"toolcrib": {"toolsets": {"notes": {}, "numbers": {}}}}
    here = tmp_path / "here" / "mcp.json"
    here.write_text(json.dumps(document))
    assert toolcrib("list").exit_code == 0
    for server in document["mcpServers"].values():
        server["command"] = "nosuch"
    here.write_text(json.dumps(document))
    return str(here)


def complete(*words: str) -> list[str]:
    """Return the shell completions of the last word."""
    environ = {**os.environ, "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    environ["_TOOLCRIB_COMPLETE"] = "bash_complete"
    done = subprocess.run(COMMAND, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.split()]


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "near:sh"], ["near:shout"]),
        (["list", "--namespace", "n"], ["narrow", "near"]),
        (["run", "far:"], []),
        pytest.param(["describe", "narrow:sh"], ["narrow:shout"], marks=pytest.mark.proof),
        pytest.param(["convert", "near:shout", "narrow:sh"], ["narrow:shout"], marks=pytest.mark.proof),
        pytest.param(["remove", "na"], ["narrow"], marks=pytest.mark.proof),
        pytest.param(["search", "--toolset", "n"], ["notes", "numbers"], marks=pytest.mark.proof),
        pytest.param(["--toolset", "no"], ["notes"], marks=pytest.mark.proof),
    ],
    ids=" ".join,
)
def test_names_are_completed_without_starting_a_server(words: list[str], offered: list[str]) -> None:
    assert complete("toolcrib", *words) == offered


def test_the_configuration_that_is_named_is_completed_from(listed: str, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[servers.other]\ncommand = "nosuch"\n')
    assert complete("toolcrib", "remove", "--config", str(other), "") == ["other"]
    assert complete("toolcrib", "remove", "--config", listed, "") == ["narrow", "near"]


def test_nothing_is_offered_where_nothing_can_be_read(tmp_path: Path) -> None:
    assert complete("toolcrib", "run", "") == []
    (tmp_path / "here" / "toolcrib.toml").write_text("not = [toml")
    assert complete("toolcrib", "remove", "") == []


@pytest.mark.usefixtures("listed")
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_ids_which_it_splits_at_their_colons(toolcrib: Any) -> None:
    environ = {**os.environ, "SCRIPT": toolcrib("completion", "bash").stdout, "PYTHON": sys.executable}

    def offered(*words: str) -> list[str]:
        command = ["bash", "-c", BASH, "bash", "toolcrib", *words]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert offered("run", "near", ":", "sh") == ["shout"]
    assert "shout" in offered("run", "near", ":")
    assert "near:shout" in offered("run", "nea")
    assert offered("rem") == ["remove"]


@pytest.mark.usefixtures("listed")
def test_completion_loads_nothing_heavy_and_takes_at_most_twice_the_version() -> None:
    environ = {**os.environ, "COMP_WORDS": "toolcrib run near:", "COMP_CWORD": "2"}
    environ["_TOOLCRIB_COMPLETE"] = "bash_complete"

    def taken(command: list[str], env: dict[str, str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=env, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    loading = [sys.executable, "-X", "importtime", *COMMAND[1:]]
    done = subprocess.run(loading, env=environ, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "near:shout" in done.stdout
    assert loaded.isdisjoint(HEAVY)
    version = min(taken([*COMMAND, "--version"], dict(os.environ)) for _ in range(3))
    assert min(taken(COMMAND, environ) for _ in range(3)) <= 2 * version

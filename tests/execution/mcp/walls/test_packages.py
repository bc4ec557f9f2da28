"""Launchers that fetch packages: their options, the registries they reach, and when."""

import time
from pathlib import Path

import pytest

from toolcrib.execution.mcp.walls.packages import Fetch, plan_fetch


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npx -y server --debug -p 3000", "-y -p server -c true"),
        ("npx --yes @org/server@1.2 folder", "-y -p @org/server@1.2 -c true"),
        ("npx -y -p @org/tools -p other serve --debug", "-y -p @org/tools -p other -c true"),
        ("npx -y --package=@org/tools -c serve", "-y -p @org/tools -c true"),
        (
            "npx -y --registry=https://npm.example server",
            "-y -p server -c true --registry=https://npm.example",
        ),
        (
            "npx -y --registry https://npm.example server",
            "-y -p server -c true --registry=https://npm.example",
        ),
        ("npx -y -- server --debug", "-y -p server -c true"),
        ("npm exec -y server -- --debug", "exec -y -p server -c true"),
        ("uvx server --local", "--from server python -c pass"),
        ("uvx server@1.2", "--from server==1.2 python -c pass"),
        ("uvx server@latest", "--from server python -c pass"),
        (
            "uvx --from git+https://x.example/y@main serve",
            "--from git+https://x.example/y@main python -c pass",
        ),
        (
            "uvx -q --python 3.12 --with extra server",
            "-q --python 3.12 --with extra --from server python -c pass",
        ),
        ("uv tool run server", "tool run --from server python -c pass"),
    ],
)
def test_a_launcher_is_told_to_fetch_and_start_nothing(command: str, args: str) -> None:
    program, *given = command.split()
    fetch = plan_fetch(program, given, {})
    assert fetch is not None
    assert " ".join(fetch.args) == args


@pytest.mark.parametrize(
    "command",
    ["node server.js", "python -m server", "uv run server", "npx", "npx -y", "uvx --help", "npm start"],
)
def test_other_programs_fetch_nothing(command: str) -> None:
    program, *given = command.split()
    assert plan_fetch(program, given, {}) is None


def _plan(program: str, environment: dict[str, str], *options: str) -> Fetch:
    fetch = plan_fetch(program, [*options, "server"], environment)
    assert fetch is not None
    return fetch


def test_the_registries_of_the_settings_can_be_reached() -> None:
    assert _plan("npx", {}).hosts == ()
    assert _plan("npx", {"npm_config_registry": "https://npm.corp.example:4873/"}).hosts == (
        "npm.corp.example",
    )
    assert _plan("uvx", {"UV_INDEX": "a=https://u:p@one.example/one http://10.0.0.7/two"}).hosts == (
        "one.example",
        "10.0.0.7",
    )
    assert _plan("uvx", {}, "--default-index", "https://two.example/two").hosts == ("two.example",)
    assert (
        _plan("npx", {"npm_config_https_proxy": "http://proxy.example:8080", "HTTPS_PROXY": "x"}).hosts == ()
    )


def test_a_launcher_gets_its_own_variables_alone() -> None:
    given = {"npm_config_registry": "r", "UV_INDEX": "i", "GITHUB_TOKEN": "secret", "NPM_TOKEN": "t"}
    assert _plan("npx", given).environment(given) == {"npm_config_registry": "r"}
    assert _plan("uvx", given).environment(given) == {"UV_INDEX": "i"}


def test_packages_are_fetched_once_a_day_and_when_they_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, fetch = tmp_path / "fetched.json", _plan("npx", {})
    assert (fetch.is_due(mark), fetch.was_done(mark)) == (True, False)
    fetch.note_done(mark)
    assert (fetch.is_due(mark), fetch.was_done(mark)) == (False, True)
    other = _plan("npx", {}, "-p", "other")
    assert (other.is_due(mark), other.was_done(mark)) == (True, False)
    now = time.time()
    for passed, is_due in ((86_000, False), (86_500, True), (-60, True)):
        monkeypatch.setattr(time, "time", lambda passed=passed: now + passed)
        assert fetch.is_due(mark) is is_due
    for broken in ("", "[]", '{"args": 1}', "null"):
        mark.write_text(broken)
        assert (fetch.is_due(mark), fetch.was_done(mark)) == (True, False)

"""Files of a program that a server can read: its installation, its packages, its script, and never a home."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir

import pytest

from toolcrib.execution.mcp.walls.programs import find_program, interpreter_files, program_files


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user."""
    home = tmp_path / "home" / "ann"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def put(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def files(program: Path, *args: str, path: str = "/usr/bin:/bin", folder: Path = Path("/")) -> set[Path]:
    return set(program_files(program, args, path, folder))


def test_a_program_of_the_system_needs_nothing_more() -> None:
    assert files(Path("/usr/bin/env"), "-i") == set()


def test_an_installation_is_seen_whole(user: Path) -> None:
    node = put(user / ".nvm" / "versions" / "node" / "v22" / "bin" / "node")
    (node.parents[1] / "lib").mkdir()
    assert files(node) == {node.parents[1]}


def test_a_program_by_itself_is_seen_alone(user: Path) -> None:
    assert files(put(user / "tools" / "server")) == {user / "tools" / "server"}
    assert files(put(user / "bin" / "server")) == {user / "bin" / "server"}


def test_program_in_the_users_folder_is_visible_with_its_packages(user: Path) -> None:
    program = put(user / ".local" / "bin" / "server")
    assert files(program) == {program}
    (user / ".local" / "lib").mkdir()
    (user / ".local" / "share").mkdir()
    assert files(program) == {program, user / ".local" / "lib"}


def test_a_link_is_followed_to_where_it_is_installed(user: Path) -> None:
    real = put(user / ".local" / "share" / "uv" / "tools" / "server" / "bin" / "server")
    (real.parents[1] / "lib").mkdir()
    link = user / ".local" / "bin" / "server"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(real, link.parent))
    assert files(link) == {link, real.parents[1]}


def test_the_interpreter_of_a_script_is_seen_too(user: Path) -> None:
    python = put(user / "pythons" / "3.12" / "bin" / "python3.12")
    (python.parents[1] / "lib").mkdir()
    venv = user / "project" / ".venv"
    (venv / "lib").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(python)
    script = put(venv / "bin" / "server", f"#!{venv / 'bin' / 'python'}\n")
    assert files(script) == {venv, python.parents[1]}
    long = put(
        venv / "bin" / "long", f"#!/bin/sh\n'''exec' '{venv / 'bin' / 'python'}' \"$0\" \"$@\"\n' '''\n"
    )
    assert files(long) == {venv, python.parents[1]}


def test_a_script_of_env_has_its_interpreter_from_the_path(user: Path) -> None:
    node = put(user / "node" / "bin" / "node")
    (node.parents[1] / "lib").mkdir()
    script = put(user / "tools" / "server", "#!/usr/bin/env -S node --flag\n")
    assert files(script, path=f"{node.parent}:/usr/bin") == {script, node.parents[1]}


def test_version_managers_are_seen_whole(user: Path) -> None:
    assert files(put(user / ".pyenv" / "shims" / "python3")) == {user / ".pyenv"}


def test_the_launcher_of_packages_has_its_companions(user: Path) -> None:
    uvx, uv = put(user / "tools" / "uvx"), put(user / "tools" / "uv")
    python = put(user / "pythons" / "3.12" / "bin" / "python3")
    (python.parents[1] / "lib").mkdir()
    path = f"{uvx.parent}:{python.parent}"
    assert files(uvx, "some-server", path=path) == {uvx, uv, python.parents[1]}


def test_a_script_is_seen_with_its_folder_and_what_node_finds(user: Path) -> None:
    project = user / "project"
    script = put(project / "build" / "index.js")
    put(project / ".env", "SECRET=1")
    put(project / "package.json", "{}")
    (project / "node_modules").mkdir()
    expected = {project / "build", project / "package.json", project / "node_modules"}
    assert files(Path("/usr/bin/node"), "--flag", str(script)) == expected
    assert files(Path("/usr/bin/node"), "build/index.js", folder=project) == expected


def test_a_script_among_packages_is_seen_with_all_of_them(user: Path) -> None:
    script = put(user / "project" / "node_modules" / "@org" / "server" / "node_modules" / "x" / "cli.js")
    assert files(Path("/usr/bin/node"), str(script)) == {user / "project" / "node_modules"}


@pytest.mark.parametrize("place", ["server.py", "../server.py"])
def test_a_script_in_a_home_is_seen_alone(user: Path, place: str) -> None:
    script = put(Path(os.path.normpath(user / place)))
    assert files(Path("/usr/bin/python3"), str(script)) == {script}


def test_a_script_in_a_folder_of_everybody_is_seen_alone() -> None:
    with NamedTemporaryFile(dir=gettempdir(), suffix=".py") as script:
        assert files(Path("/usr/bin/python3"), script.name) == {Path(script.name)}


def test_files_that_are_no_script_are_not_seen(user: Path) -> None:
    data = put(user / "data" / "notes.db")
    assert files(Path("/usr/bin/env"), "--db", str(data)) == set()
    assert files(Path("/usr/bin/python3"), "-m", "server", str(data)) == set()


def test_the_project_of_uv_is_seen(user: Path) -> None:
    project = user / "project"
    project.mkdir()
    uv = put(user / "tools" / "uv")
    found = files(uv, "--directory", str(project), "run", "server", path=str(uv.parent))
    assert found == {uv, project}


def test_our_own_interpreter_is_seen(user: Path) -> None:
    assert not any(user.is_relative_to(each) for each in interpreter_files("/usr/bin/python3"))


def test_a_program_is_found_by_its_path_or_by_its_name(user: Path) -> None:
    program = put(user / "tools" / "server")
    assert find_program("server", str(program.parent), user) == program
    assert find_program("tools/server", "", user) == program
    assert find_program("~/tools/server", "", Path("/")) == program
    assert find_program("other", str(program.parent), user) is None
    assert find_program("tools/other", "", user) is None
    program.chmod(0o644)
    assert find_program("tools/server", "", user) is None or os.geteuid() == 0

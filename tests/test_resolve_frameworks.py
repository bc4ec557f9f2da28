"""The check that toolcrib can be installed beside agent frameworks, on a package index in a folder."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

SCRIPT = "scripts/resolve_frameworks.py"
PROJECT = """
[project]
name = "ours"
version = "1"
requires-python = ">=3.11"
dependencies = ["base>=2"]
[project.optional-dependencies]
mcp = ["mcp>=2.3,<3"]
all = ["ours[mcp]", "engine==1"]
"""
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, "scripts")
import resolve_frameworks as script
frameworks = [each.split(" ") for each in sys.argv[2:]]
verdicts = {each[0]: script.judge(each, Path(sys.argv[1])) for each in frameworks}
sys.exit(script.report(verdicts))
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with releases of packages, and the project that is checked."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name, version, requires in [
        ("base", "1", ()),
        ("base", "2", ()),
        ("engine", "1", ()),
        ("engine", "2", ()),
        ("mcp", "1.30", ()),
        ("mcp", "2.3", ()),
        ("fits", "5", ("mcp>=1.24,<3",)),
        ("old", "1", ("mcp>=1",)),  # which a resolver would fall back to
        ("old", "2", ("mcp<2",)),
        ("needs-engine", "1", ("engine>=2",)),
        ("ancient", "1", ("mcp<2", "base<2")),
        ("torn", "1", ("absent",)),
    ]:
        made(tmp_path, name.replace("-", "_"), version, requires)
    return tmp_path


def made(folder: Path, name: str, version: str, requires: tuple[str, ...]) -> None:
    """Write a wheel that has nothing but its requirements."""
    about = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    with ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def checked(root: Path, index: Path, *frameworks: str) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a check."""
    settings = index / "uv.toml"
    settings.write_text(f'no-index = true\nno-cache = true\nfind-links = ["{index}"]\n')
    environ = {**os.environ, "UV_CONFIG_FILE": str(settings)}
    command = [sys.executable, "-c", PROGRAM, str(index / "pyproject.toml"), *frameworks]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_frameworks_that_fit_and_that_exclude_the_sdk_themselves_are_reported(
    root: Path, index: Path
) -> None:
    code, told, _ = checked(root, index, "fits", "old", "torn")
    fits, old, reason, torn, missing = told.splitlines()
    assert code == 0
    assert fits.split() == ["together", "fits", "fits==5;", "mcp", "2.3"]
    assert old.split() == ["core", "alone", "old", "old==2;", "mcp", "1.30"]
    assert "old" in reason
    assert "mcp<2" in reason
    assert torn.startswith("not checked")
    assert "absent" in missing


@pytest.mark.parametrize(("framework", "cause"), [("needs-engine", "engine==1"), ("ancient", "base>=2")])
def test_a_requirement_of_ours_that_excludes_a_framework_is_a_failure(
    root: Path, index: Path, framework: str, cause: str
) -> None:
    code, told, errors = checked(root, index, "fits", framework)
    assert code == 1
    assert "conflict" in told
    assert cause in told
    assert "pyproject.toml" in errors


def test_an_index_that_has_no_framework_is_a_failure(root: Path, index: Path) -> None:
    code, _, errors = checked(root, index, "nowhere")
    assert code == 1
    assert "is the package index reachable" in errors


def test_a_framework_that_is_not_known_is_refused_with_those_that_are(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "Nothing"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "known are Agno, CrewAI" in done.stderr


def test_every_framework_of_the_check_is_in_the_documentation(root: Path) -> None:
    page = (root / "docs" / "model-loops.md").read_text()
    source = (root / SCRIPT).read_text()
    names = [
        line.split('"')[1] for line in source.splitlines() if line.startswith('    "') and '": (' in line
    ]
    assert len(names) == 11
    assert [name for name in names if f"| {name} |" not in page] == []
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (
        "toolcrib[cli,code,docker,languages,mcp,openapi,otel,postgres,semantic,temporal,wasm]"
        in extras["all"]
    )

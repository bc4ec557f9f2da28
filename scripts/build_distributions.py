"""Builds everything that a release publishes into `dist`, and tries it in an empty environment.

These are the sdist and the wheel of toolcrib and of toolcrib-minilm, and the bundle for Claude Desktop. Each
is checked by twine. Then the wheel is installed into a fresh environment without a compiler, git or network
(where bubblewrap is there, in a root directory that has Python alone), and its command serves and searches
the demo catalogue. With `--no-try` that is left out.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from sysconfig import get_path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
BUNDLE = ROOT / "bundle"
PROJECTS = (ROOT, ROOT / "packages" / "toolcrib-minilm")
EXTRAS = "cli,code,openapi"
_BUNDLE_PROJECT = """[project]
name = "toolcrib-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["toolcrib[{extras}]=={version}"]
"""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "build", "version": "1"},
    },
}
_READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def read_version(project: Path = ROOT) -> str:
    """Return the version of a distribution."""
    version: str = tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"]
    return version


def build_distributions() -> list[Path]:
    """Build the sdists and the wheels, and return them."""
    shutil.rmtree(DIST, ignore_errors=True)
    for project in PROJECTS:
        for target in ("sdist", "wheel"):
            command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(DIST)]
            subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    return sorted(DIST.iterdir())


def build_bundle(version: str) -> Path:
    """Build the desktop extension: a zip archive of the manifest, the entry point and its requirements."""
    manifest = json.loads((BUNDLE / "manifest.json").read_text())
    manifest["version"] = version
    files = {
        "manifest.json": json.dumps(manifest, indent=2) + "\n",
        "pyproject.toml": _BUNDLE_PROJECT.format(version=version, extras=EXTRAS),
        "server.py": (BUNDLE / "server.py").read_text(),
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }
    made = DIST / f"toolcrib-{version}.mcpb"
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        for name, text in files.items():  # with the same dates, so that equal content gives equal bytes
            archive.writestr(ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
    return made


def check_with_twine(files: list[Path]) -> None:
    """Have twine check the texts of distributions."""
    uvx = str(Path(get_path("scripts")) / "uvx")
    subprocess.run([uvx, "twine", "check", "--strict", *map(str, files)], check=True)


def try_wheel(version: str) -> None:
    """Install the wheel into an empty environment, and serve and search the demo catalogue there."""
    uv = str(Path(get_path("scripts")) / "uv")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = next(DIST.glob(f"toolcrib-{version}-*.whl"))
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env")], check=True)
        install = [uv, "pip", "install", "--quiet", "--only-binary", ":all:"]
        into = ["--python", str(folder / "env" / "bin" / "python")]
        environ = {**os.environ, "PATH": "/nowhere", "CC": "false"}
        subprocess.run([*install, *into, f"{wheel}[{EXTRAS}]"], check=True, env=environ)
        shut = _enter_empty_root(folder)
        toolcrib = str(folder / "env" / "bin" / "toolcrib")
        found = _run([*shut, toolcrib, "search", "--demo", "--json", "what time is it"], "")
        assert json.loads(found)["tools"], found
        asked = "".join(f"{json.dumps(each)}\n" for each in (_INITIALIZE, _READY, _LIST))
        lines = _run([*shut, toolcrib, "serve", "--demo"], asked).splitlines()
        answers = {each.get("id"): each for each in map(json.loads, lines)}
        names = [tool["name"] for tool in answers[2]["result"]["tools"]]
        assert "search_tools" in names, names
        where = "a root directory with Python alone" if shut else "an environment without programs"
        print(f"toolcrib {version} serves {len(names)} tools in {where}")


def _enter_empty_root(folder: Path) -> list[str]:
    """Return the command line that starts a program in a root directory with Python and an environment."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return []
    home = Path(os.path.realpath(sys.base_prefix))
    shared = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", str(home), str(folder))
    inside = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home"]  # noqa: S108 - of its own
    seen = [word for path in shared if Path(path).exists() for word in ("--ro-bind", path, path)]
    variables = ["--setenv", "HOME", "/home", "--setenv", "PATH", "/nowhere"]
    return [bubblewrap, *inside, *seen, *variables, "--unshare-all"]


def _run(command: list[str], given: str) -> str:
    environ = {"PATH": "/nowhere", "HOME": tempfile.gettempdir(), "LANG": "C.UTF-8"}
    ran = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, env=environ, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def main() -> int:
    """Build all, check it, and try it."""
    version = read_version()
    files = build_distributions()
    check_with_twine(files)
    print(f"built {', '.join(each.name for each in [*files, build_bundle(version)])}")
    if "--no-try" not in sys.argv:
        try_wheel(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
